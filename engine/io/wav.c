/* wav.c - the chunks of a WAV file.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/wav.h"

#include <string.h>

enum { PCM = 1, BITS = 16, BYTES = 2, FORMAT = 16, FORMAT_MORE = 18, TAG = 4 };

/* ---- reading ------------------------------------------------------------- */

typedef struct reader {
  const uint8_t *at;
  size_t left;
} reader;

static td_status *short_of(const char *what, size_t want, const reader *r) {
  return td_error(TD_INVALID_ARGUMENT,
                  "the WAV file is truncated: %s needs %zu bytes, %zu are left",
                  what, want, r->left);
}

static td_status *expect(reader *r, const char *tag) {
  if (r->left < TAG) return short_of(tag, TAG, r);
  if (memcmp(r->at, tag, TAG) != 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "not a WAV file that can be read: \"%s\" is not where it "
                    "should be",
                    tag);
  r->at += TAG;
  r->left -= TAG;
  return NULL;
}

/* A number of n bytes, which are there. */
static uint32_t number(reader *r, int n) {
  uint32_t v = 0;
  for (int i = 0; i < n; i++) v |= (uint32_t)r->at[i] << 8 * i;
  r->at += n;
  r->left -= (size_t)n;
  return v;
}

static td_status *size_of(reader *r, const char *what, uint32_t *out) {
  if (r->left < 4) return short_of(what, 4, r);
  *out = number(r, 4);
  return NULL;
}

static td_status *differs(const char *what, uint32_t is, uint64_t should) {
  return td_error(TD_INVALID_ARGUMENT,
                  "the WAV file has %s %u where %llu is read", what,
                  (unsigned)is, (unsigned long long)should);
}

static td_status *read_format(reader *r, td_wav *w) {
  uint32_t size = 0;
  TD_TRY(expect(r, "fmt "));
  TD_TRY(size_of(r, "the size of the format", &size));
  if (size != FORMAT && size != FORMAT_MORE)
    return differs("a format of bytes", size, FORMAT);
  if (r->left < size) return short_of("the format", size, r);
  reader f = {r->at, size};
  r->at += size;
  r->left -= size;
  uint32_t kind = number(&f, 2);
  if (kind != PCM) return differs("format", kind, PCM);
  w->channels = (int32_t)number(&f, 2);
  w->rate = number(&f, 4);
  uint32_t a_second = number(&f, 4), a_frame = number(&f, 2);
  uint32_t bits = number(&f, 2);
  if (bits != BITS) return differs("bits a sample", bits, BITS);
  if (w->channels < 1) return differs("channels", 0, 1);
  uint64_t frame = (uint64_t)w->channels * BYTES;
  if (a_frame != frame) return differs("bytes a frame", a_frame, frame);
  if (a_second != frame * w->rate)
    return differs("bytes a second", a_second, frame * w->rate);
  return NULL;
}

/* Chunks have an even size in the standard, and not in every file. */
static void skip_padding(reader *r, uint32_t size) {
  if (size % 2 == 0 || r->left == 0 || r->at[0] != 0) return;
  r->at++;
  r->left--;
}

static td_status *read_data(reader *r, uint32_t size, td_wav *w) {
  uint32_t frame = (uint32_t)w->channels * BYTES;
  if (w->data)
    return td_error(TD_INVALID_ARGUMENT,
                    "the WAV file has more than one chunk \"data\"");
  /* The last frame may lack bytes that nobody wrote. */
  uint64_t frames = (size + (uint64_t)frame - 1) / frame;
  if (frames * frame > r->left)
    return short_of("its data", (size_t)(frames * frame), r);
  w->data = r->at;
  w->frames = (int64_t)frames;
  size = (uint32_t)(frames * frame);
  r->at += size;
  r->left -= size;
  return NULL;
}

static td_status *read_chunk(reader *r, td_wav *w) {
  bool is_data = memcmp(r->at, "data", TAG) == 0;
  uint32_t size = 0;
  r->at += TAG;
  r->left -= TAG;
  TD_TRY(size_of(r, "the size of a chunk", &size));
  if (size > INT32_MAX) return differs("a chunk of bytes", size, INT32_MAX);
  if (is_data) return read_data(r, size, w);
  if (r->left < size) return short_of("a chunk", size, r);
  r->at += size;
  r->left -= size;
  skip_padding(r, size);
  return NULL;
}

td_status *td_wav_read(const void *bytes, size_t len, td_wav *out) {
  reader r = {bytes, len};
  uint32_t size; /* of the file: nobody trusts it */
  *out = (td_wav){0};
  TD_TRY(expect(&r, "RIFF"));
  TD_TRY(size_of(&r, "the size of the file", &size));
  TD_TRY(expect(&r, "WAVE"));
  TD_TRY(read_format(&r, out));
  while (r.left >= TAG) TD_TRY(read_chunk(&r, out));
  if (out->data) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "the WAV file has no chunk \"data\"");
}

/* ---- writing ------------------------------------------------------------- */

static void put(td_str *s, uint64_t v, int n) {
  for (int i = 0; i < n; i++) td_str_addc(s, (char)(v >> 8 * i & 0xff));
}

td_status *td_wav_write_head(const td_wav *w, td_str *out) {
  uint64_t frame = (uint64_t)w->channels * BYTES;
  enum { HEAD = 36 }; /* what follows the size of the file, less the samples */
  if (w->channels < 1 || frame > UINT16_MAX)
    return td_error(TD_INVALID_ARGUMENT,
                    "a WAV file has 1 to %d channels, not %d",
                    UINT16_MAX / BYTES, (int)w->channels);
  if (w->rate == 0 || frame * w->rate > UINT32_MAX)
    return td_error(TD_INVALID_ARGUMENT,
                    "a WAV file of %d channels has a sample_rate of 1 to %llu, "
                    "not %u",
                    (int)w->channels, (unsigned long long)(UINT32_MAX / frame),
                    (unsigned)w->rate);
  if (w->frames < 0 || (uint64_t)w->frames > (UINT32_MAX - HEAD) / frame)
    return td_error(TD_INVALID_ARGUMENT,
                    "%lld samples of %d channels are too many for a WAV file",
                    (long long)w->frames, (int)w->channels);
  uint64_t data = (uint64_t)w->frames * frame;
  td_str_addn(out, "RIFF", TAG);
  put(out, data + HEAD, 4);
  td_str_addn(out, "WAVEfmt ", 2 * (size_t)TAG);
  put(out, FORMAT, 4);
  put(out, PCM, 2);
  put(out, (uint64_t)w->channels, 2);
  put(out, w->rate, 4);
  put(out, frame * w->rate, 4);
  put(out, frame, 2);
  put(out, BITS, 2);
  td_str_addn(out, "data", TAG);
  put(out, data, 4);
  return out->failed ? td_oom() : NULL;
}
