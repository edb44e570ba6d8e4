/* checkpoint_stream.c - reading in order, with the check.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/checkpoint_stream.h"

#include <string.h>

#include "engine/base/crc32c.h"
#include "engine/base/mem.h"
#include "engine/io/checkpoint_entry.h"

enum {
  PIECE = 1 << 20, /* bytes read at once */
  BUFFER = 1 << 16,
};

void td_checkpoint_stream_begin(const td_checkpoint *c,
                                const td_checkpoint_entry *e,
                                td_checkpoint_stream *out) {
  *out = (td_checkpoint_stream){
      .of = c,
      .from = td_checkpoint_find_shard(c, e->shard),
      .e = e,
      .at = e->offset,
      .end = e->offset + e->size,
  };
}

static td_status *check(const td_checkpoint_stream *st) {
  const td_checkpoint_entry *e = st->e;
  if (st->at == st->end && st->crc == e->crc) return NULL;
  return td_error(TD_DATA_LOSS,
                  "the check of its bytes %llu to %llu in '%s' does not hold: "
                  "the file is damaged",
                  (unsigned long long)e->offset,
                  (unsigned long long)(e->offset + e->size), st->from->path);
}

td_status *td_checkpoint_stream_end(td_checkpoint_stream *st, td_status *s) {
  td_free(st->buffer);
  return td_ok(s) ? check(st) : s;
}

static td_status *read_at(const td_checkpoint_stream *st, uint64_t at, void *to,
                          size_t n) {
  size_t got = 0;
  if (st->of->go_on && !st->of->go_on(st->of->arg, false))
    return td_error(TD_CANCELLED, "reading was stopped");
  TD_TRY(td_file_read_at(st->from->file, at, to, n, &got));
  if (got == n) return NULL;
  return td_error(TD_DATA_LOSS, "'%s' was cut short while it was read",
                  st->from->path);
}

/* What is behind the bytes that were taken. */
static td_status *fill(td_checkpoint_stream *st) {
  if (!st->buffer) st->buffer = td_malloc(BUFFER);
  if (!st->buffer) return td_oom();
  uint64_t left = st->end - st->at;
  st->used = 0;
  st->held = left < BUFFER ? (size_t)left : BUFFER;
  return read_at(st, st->at, st->buffer, st->held);
}

/* Some of the n bytes that are wanted: those in the buffer, or a part of those
 * in the file. */
static td_status *take_some(td_checkpoint_stream *st, char *to, size_t n,
                            size_t *took) {
  if (st->used == st->held && (!to || n < BUFFER)) TD_TRY(fill(st));
  size_t held = st->held - st->used;
  const char *from = to;
  if (held > 0) {
    n = n < held ? n : held;
    from = st->buffer + st->used;
    if (to) memcpy(to, from, n);
    st->used += n;
  } else {
    n = n < PIECE ? n : PIECE;
    TD_TRY(read_at(st, st->at, to, n));
  }
  st->crc = td_crc32c_add(st->crc, from, n);
  st->at += n;
  *took = n;
  return NULL;
}

static td_status *too_short(void) {
  return td_error(TD_DATA_LOSS, "its strings do not fit their lengths");
}

td_status *td_checkpoint_stream_take(td_checkpoint_stream *st, void *to,
                                     size_t n) {
  if (n > st->end - st->at) return too_short();
  for (size_t took; n > 0; n -= took) {
    TD_TRY(take_some(st, to, n, &took));
    if (to) to = (char *)to + took;
  }
  return NULL;
}

td_status *td_checkpoint_stream_length(td_checkpoint_stream *st,
                                       uint64_t *length) {
  uint32_t crc = st->crc;
  *length = 0;
  for (int bits = 0; bits < 64; bits += 7) {
    if (st->at == st->end) return too_short();
    if (st->used == st->held) TD_TRY(fill(st));
    uint8_t b = (uint8_t)st->buffer[st->used++];
    st->at++;
    *length |= (uint64_t)(b & 0x7f) << bits;
    if (b >= 0x80) continue;
    st->crc = td_checkpoint_length_crc(crc, *length);
    return NULL;
  }
  return too_short();
}
