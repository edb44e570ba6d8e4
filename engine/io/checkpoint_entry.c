/* checkpoint_entry.c - the messages of a checkpoint's index.
 *
 *   header  1 shards, 2 endianness, 3 version {1 producer}
 *   entry   1 dtype, 2 shape {2 dim {1 size}}, 3 shard, 4 offset, 5 size,
 *           6 fixed32 masked CRC-32C, 7 slice {1 extent {1 start, 2 length}}
 *
 * Numbers that are 0 are left out, the shape and a slice's length never.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/checkpoint_entry.h"

#include "engine/base/bytes.h"
#include "engine/base/crc32c.h"
#include "engine/base/mem.h"
#include "engine/io/field.h"

/* ---- writing ------------------------------------------------------------- */

static void put_if(td_str *out, int field, uint64_t v) {
  if (v) td_field_put(out, field, v);
}

/* A message of a shape or a slice is short: its length goes in front when it is
 * known. */
static void put_message(td_str *out, int field, td_str *message) {
  td_field_put_bytes(out, field, (td_bytes){td_str_c(message), message->len});
  if (message->failed) out->failed = true;
  td_str_deinit(message);
}

void td_checkpoint_header_put(int shards, td_str *out) {
  td_field_put(out, 1, (uint64_t)shards);
  td_str_addn(out, "\x1a\x02\x08\x01", 4); /* version: producer 1 */
}

void td_checkpoint_shape_put(td_str *out, int field, const td_shape *shape) {
  td_str message = {0};
  for (int i = 0; i < shape->rank; i++) {
    td_str dim = {0};
    put_if(&dim, 1, (uint64_t)shape->dim[i]);
    put_message(&message, 2, &dim);
  }
  put_message(out, field, &message);
}

void td_checkpoint_entry_put(const td_checkpoint_entry *e, td_str *out) {
  td_field_put(out, 1, (uint64_t)e->dtype);
  td_checkpoint_shape_put(out, 2, &e->shape);
  put_if(out, 3, (uint64_t)e->shard);
  put_if(out, 4, e->offset);
  put_if(out, 5, e->size);
  if (e->n_slices > 0) return; /* no bytes of its own */
  td_varint_put(out, 6 << 3 | 5);
  td_bytes_put(out, td_crc32c_mask(e->crc), 4);
}

void td_checkpoint_slice_put(td_str *out, int field, const td_shape *whole,
                             const td_slice *s) {
  td_str message = {0};
  for (int i = 0; i < whole->rank; i++) {
    td_str extent = {0};
    if (s->length[i] >= 0) {
      put_if(&extent, 1, (uint64_t)s->start[i]);
      td_field_put(&extent, 2, (uint64_t)s->length[i]);
    }
    put_message(&message, 1, &extent);
  }
  put_message(out, field, &message);
}

/* ---- reading ------------------------------------------------------------- */

static td_status *broken(const char *what) {
  return td_error(TD_DATA_LOSS, "an entry of the index is broken: %s", what);
}

static td_status *take_field(td_bytes *from, td_field *f) {
  return td_field_take(from, f) ? NULL : broken("a field is cut off");
}

td_status *td_checkpoint_header_get(td_bytes from, int *shards) {
  uint64_t n = 0, endianness = 0;
  for (td_field f; from.len > 0;) {
    TD_TRY(take_field(&from, &f));
    if (f.number == 1) n = f.v;
    if (f.number == 2) endianness = f.v;
  }
  if (endianness != 0)
    return td_error(TD_UNIMPLEMENTED,
                    "the checkpoint has the highest byte of numbers first");
  if (n < 1 || n > TD_CHECKPOINT_MOST_SHARDS)
    return td_error(TD_DATA_LOSS, "the index says that there are %llu shards",
                    (unsigned long long)n);
  *shards = (int)n;
  return NULL;
}

static td_status *get_dim(td_bytes from, td_shape *shape) {
  uint64_t size = 0;
  for (td_field f; from.len > 0;) {
    TD_TRY(take_field(&from, &f));
    if (f.number == 1) size = f.v;
  }
  if (shape->rank == TD_MAX_RANK) return broken("its rank is too large");
  if (size > INT64_MAX) return broken("a size is negative");
  shape->dim[shape->rank++] = (int64_t)size;
  return NULL;
}

td_status *td_checkpoint_shape_get(td_bytes from, td_shape *shape) {
  for (td_field f; from.len > 0;) {
    TD_TRY(take_field(&from, &f));
    if (f.number == 2) TD_TRY(get_dim(f.bytes, shape));
    if (f.number == 3 && f.v) return broken("its rank is not known");
  }
  return NULL;
}

static td_status *get_extent(td_bytes from, td_slice *s) {
  uint64_t start = 0, length = UINT64_MAX;
  for (td_field f; from.len > 0;) {
    TD_TRY(take_field(&from, &f));
    if (f.number == 1) start = f.v;
    if (f.number == 2) length = f.v;
  }
  if (s->rank == TD_MAX_RANK) return broken("a slice has too many dimensions");
  s->start[s->rank] = (int64_t)start;
  s->length[s->rank++] = (int64_t)length;
  return NULL;
}

td_status *td_checkpoint_slice_get(td_bytes from, td_slice *s) {
  s->rank = 0;
  for (td_field f; from.len > 0;) {
    TD_TRY(take_field(&from, &f));
    if (f.number == 1) TD_TRY(get_extent(f.bytes, s));
  }
  return NULL;
}

/* Slices stand together, which other writers do too: the bytes from the first
 * one on are kept and read again when they are asked for. */
static td_status *note_slice(td_bytes rest, const td_field *f,
                             td_checkpoint_entry *e) {
  td_slice s;
  td_shape part;
  TD_TRY(td_checkpoint_slice_get(f->bytes, &s));
  td_status *bad = td_slice_shape(&e->shape, &s, &part);
  td_status_release(bad);
  if (bad) return broken("a slice lies beyond its tensor");
  if (e->n_slices++ == 0) e->slices = rest;
  return NULL;
}

static td_status *check(const td_checkpoint_entry *e) {
  if (!td_dtype_is_plain(e->dtype) && e->dtype != TD_STRING)
    return td_error(TD_UNIMPLEMENTED,
                    "a tensor of dtype %s (%d) is not read from checkpoints",
                    td_dtype_name(e->dtype), (int)e->dtype);
  int64_t n = td_shape_count(&e->shape);
  if (n < 0) return broken("its shape has too many elements");
  if (e->size > INT64_MAX || e->offset > INT64_MAX - e->size)
    return broken("its place is beyond any file");
  if (e->n_slices > 0) return NULL;
  size_t bytes;
  if (!td_mul((size_t)n, td_dtype_size(e->dtype), &bytes))
    return broken("its shape has too many elements");
  bool fits = e->dtype == TD_STRING ? (uint64_t)n <= e->size : bytes == e->size;
  return fits ? NULL : broken("its size is not that of its shape");
}

td_status *td_checkpoint_entry_get(td_bytes from, td_checkpoint_entry *out) {
  *out = (td_checkpoint_entry){0};
  for (td_field f; from.len > 0;) {
    td_bytes rest = from;
    TD_TRY(take_field(&from, &f));
    switch (f.number) {
    case 1:
      out->dtype = f.v < TD_DTYPES ? (td_dtype)f.v : TD_INVALID;
      break;
    case 2:
      if (out->n_slices > 0) return broken("its shape comes after slices");
      TD_TRY(td_checkpoint_shape_get(f.bytes, &out->shape));
      break;
    case 3:
      if (f.v >= TD_CHECKPOINT_MOST_SHARDS) return broken("its shard");
      out->shard = (int32_t)f.v;
      break;
    case 4:
      out->offset = f.v;
      break;
    case 5:
      out->size = f.v;
      break;
    case 6:
      out->crc = td_crc32c_unmask((uint32_t)f.v);
      break;
    case 7:
      TD_TRY(note_slice(rest, &f, out));
      break;
    default:
      break;
    }
  }
  return check(out);
}

bool td_checkpoint_next_slice(td_bytes *at, td_slice *out) {
  td_status *bad = NULL; /* never: all were read once */
  for (td_field f; at->len > 0 && !bad;) {
    bad = take_field(at, &f);
    if (bad || f.number != 7) continue;
    td_status_release(td_checkpoint_slice_get(f.bytes, out));
    return true;
  }
  td_status_release(bad);
  return false;
}

uint32_t td_checkpoint_length_crc(uint32_t crc, uint64_t length) {
  char bytes[8];
  int n = length > UINT32_MAX ? 8 : 4;
  for (int i = 0; i < n; i++) bytes[i] = (char)(length >> 8 * i);
  return td_crc32c_add(crc, bytes, (size_t)n);
}
