/* wav.c - sound read and written: DecodeWav, EncodeWav.
 *
 * A sound is {samples, channels} of numbers from -1 to 1.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/wav.h"

#include <math.h>

#include "kernels/text.h"

/* ---- DecodeWav ----------------------------------------------------------- */

static td_status *wanted(const char *name, int64_t n) {
  if (n >= -1) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "%s must be -1 or more, not %lld", name,
                  (long long)n);
}

static td_status *decode_infer(td_infer *c) {
  int64_t channels = td_infer_int(c, "desired_channels");
  int64_t samples = td_infer_int(c, "desired_samples");
  TD_TRY(td_infer_rank(c, 0, 0, "contents", NULL));
  TD_TRY(wanted("desired_channels", channels));
  TD_TRY(wanted("desired_samples", samples));
  td_infer_out(c, 0, td_shape_of(2, (int64_t[]){samples, channels}));
  td_infer_out(c, 1, td_shape_scalar());
  return NULL;
}

/* What it lacks of channels is the last one; what it lacks of time, silence. */
static void convert(const td_wav *w, int64_t samples, int64_t channels,
                    float *out) {
  for (int64_t i = 0; i < samples; i++)
    for (int64_t k = 0; k < channels; k++) {
      int64_t from = k < w->channels ? k : w->channels - 1;
      *out++ = i < w->frames
                   ? td_wav_sample(w->data + 2 * (i * w->channels + from))
                   : 0;
    }
}

static td_status *decode_run(td_kernel_ctx *c) {
  const td_node *n = td_ctx_node(c);
  const td_tensor *contents = td_in(c, 0);
  int64_t channels = td_node_int(n, "desired_channels");
  int64_t samples = td_node_int(n, "desired_samples");
  td_wav w;
  td_tensor *audio, *rate;
  td_shape_text text;
  if (contents->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "contents must be a scalar, not of shape %s",
                    td_shape_str(&contents->shape, &text));
  td_bytes b = td_text_at(contents, 0);
  TD_TRY(td_wav_read(b.at, b.len, &w));
  if (channels < 0) channels = w.channels;
  if (samples < 0) samples = w.frames;
  td_shape shape = td_shape_of(2, (int64_t[]){samples, channels});
  td_shape scalar = td_shape_scalar();
  TD_TRY(td_out(c, 0, &shape, &audio));
  TD_TRY(td_out(c, 1, &scalar, &rate));
  if (channels) convert(&w, samples, channels, audio->data);
  *(int32_t *)rate->data = (int32_t)w.rate;
  return NULL;
}

/* ---- EncodeWav ----------------------------------------------------------- */

static td_status *encode_infer(td_infer *c) {
  TD_TRY(td_infer_rank(c, 0, 2, "audio", NULL));
  TD_TRY(td_infer_rank(c, 1, 0, "sample_rate", NULL));
  td_infer_out(c, 0, td_shape_scalar());
  return NULL;
}

/* What is louder than the loudest is cut; what is no number, silence. */
static int16_t to_sample(float x) {
  float y = roundf(x * 32768);
  if (isnan(y)) return 0;
  return (int16_t)(y < INT16_MIN ? INT16_MIN : y > INT16_MAX ? INT16_MAX : y);
}

static td_status *head_of(const td_kernel_ctx *c, td_wav *w) {
  const td_tensor *audio = td_in(c, 0), *rate = td_in(c, 1);
  td_shape_text text;
  if (audio->shape.rank != 2)
    return td_error(TD_INVALID_ARGUMENT,
                    "audio must be {samples, channels}, not of shape %s",
                    td_shape_str(&audio->shape, &text));
  if (rate->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "sample_rate must be a scalar, not of shape %s",
                    td_shape_str(&rate->shape, &text));
  int64_t channels = audio->shape.dim[1], hertz = td_tensor_get_i(rate, 0);
  if (channels < 1 || channels > INT32_MAX)
    return td_error(TD_INVALID_ARGUMENT, "audio cannot have %lld channels",
                    (long long)channels);
  if (hertz < 1)
    return td_error(TD_INVALID_ARGUMENT, "sample_rate must be > 0, not %lld",
                    (long long)hertz);
  *w = (td_wav){.frames = audio->shape.dim[0],
                .channels = (int32_t)channels,
                .rate = (uint32_t)hertz};
  return NULL;
}

static td_status *encode(const td_wav *w, const float *x, td_str *out) {
  TD_TRY(td_wav_write_head(w, out));
  int64_t n = w->frames * w->channels;
  for (int64_t i = 0; i < n; i++) {
    uint16_t v = (uint16_t)to_sample(x[i]);
    const char bytes[2] = {(char)(v & 0xff), (char)(v >> 8)};
    td_str_addn(out, bytes, sizeof bytes);
  }
  return out->failed ? td_oom() : NULL;
}

static td_status *encode_run(td_kernel_ctx *c) {
  td_wav w;
  td_text text = {0};
  td_shape scalar = td_shape_scalar();
  TD_TRY(head_of(c, &w));
  td_status *s = td_text_reserve(&text, 1) ? NULL : td_oom();
  if (td_ok(s)) s = encode(&w, td_in(c, 0)->data, &text.all);
  if (td_ok(s)) {
    td_text_end(&text);
    s = td_text_out(c, 0, &scalar, &text);
  }
  td_text_drop(&text);
  return s;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "DecodeWav",
     .sig = "contents: string -> audio: float, sample_rate: int32; "
            "desired_channels: int = -1; desired_samples: int = -1",
     .shape = decode_infer,
     .doc = "A WAV file as {samples, channels} from -1 to 1, and its samples a "
            "second.",
     .example = "td.decode_wav(td.encode_wav({{0.5}, {-0.5}}, 8000))  "
                "--> 0.5 -0.5",
     .flags = TD_NO_GRADIENT,
     .section = "Signals"},
    {.type = "EncodeWav",
     .sig = "audio: float, sample_rate: int32 -> contents: string",
     .shape = encode_infer,
     .doc = "{samples, channels} from -1 to 1 as the bytes of a WAV file.",
     .example = "#td.encode_wav({{0.5}, {-0.5}}, 8000):item()  --> 48",
     .flags = TD_NO_GRADIENT,
     .section = "Signals"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "DecodeWav", .device = "CPU", .run = decode_run},
    {.op = "EncodeWav", .device = "CPU", .run = encode_run},
    {0},
};

TD_MODULE(wav, ops, kernels)
