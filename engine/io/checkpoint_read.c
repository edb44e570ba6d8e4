/* checkpoint_read.c - tensors of a checkpoint: whole, in part, from slices.
 *
 * Everything goes from the file to where it stays; what a size of the file
 * would take is compared with what the file has before memory is taken.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/bytes.h"
#include "engine/base/crc32c.h"
#include "engine/base/mem.h"
#include "engine/io/checkpoint_stream.h"

typedef td_checkpoint_stream stream;

/* ---- whole --------------------------------------------------------------- */

static td_status *read_plain(stream *st, td_allocator *a, td_tensor *out) {
  const td_checkpoint_entry *e = st->e;
  TD_TRY(td_tensor_new(a, e->dtype, &e->shape, out));
  return td_checkpoint_stream_take(st, out->data, e->size);
}

/* The lengths of all strings, and the check of them, which is checked in turn;
 * `offsets`, where there are any, are where each string ends. *total is the
 * text's size, at most what follows. */
static td_status *take_lengths(stream *st, uint64_t *offsets, uint64_t *total) {
  int64_t n = td_shape_count(&st->e->shape);
  char mark[4];
  uint64_t length, masked;
  *total = 0;
  for (int64_t i = 0; i < n; i++) {
    TD_TRY(td_checkpoint_stream_length(st, &length));
    if (length > st->end - st->at - *total)
      return td_error(TD_DATA_LOSS, "its strings do not fit their lengths");
    *total += length;
    if (offsets) offsets[i + 1] = offsets[0] + *total;
  }
  uint32_t crc = td_crc32c_mask(st->crc);
  TD_TRY(td_checkpoint_stream_take(st, mark, 4));
  td_bytes number = {mark, 4};
  (void)td_bytes_get(&number, 4, &masked);
  if (crc == masked && st->end - st->at == *total) return NULL;
  return td_error(TD_DATA_LOSS, "the lengths of its strings are damaged");
}

/* Lengths are read twice: their sum is known before memory is taken. */
static td_status *read_strings(stream *st, td_tensor *out) {
  uint64_t total, again, *offsets;
  char *text;
  stream first = *st;
  td_status *s = take_lengths(&first, NULL, &total);
  td_free(first.buffer);
  TD_TRY(s);
  TD_TRY(td_tensor_strings_new(&st->e->shape, total, out, &offsets, &text));
  TD_TRY(take_lengths(st, offsets, &again));
  if (again != total)
    return td_error(TD_DATA_LOSS, "'%s' changed while it was read",
                    st->from->path);
  return td_checkpoint_stream_take(st, text, total);
}

static td_status *read_whole(const td_checkpoint *c,
                             const td_checkpoint_entry *e, td_allocator *a,
                             td_tensor *out) {
  stream st;
  *out = (td_tensor){0};
  td_checkpoint_stream_begin(c, e, &st);
  td_status *s =
      e->dtype == TD_STRING ? read_strings(&st, out) : read_plain(&st, a, out);
  s = td_checkpoint_stream_end(&st, s);
  if (!td_ok(s)) td_tensor_release(out);
  return s;
}

/* ---- parts --------------------------------------------------------------- */

/* What of a stored slice goes where in the part that is wanted. Up to `axis`
 * rows are looked at one by one; along it they are cut; behind it both have the
 * same, `unit` elements. */
typedef struct cut {
  const td_shape *whole;
  const td_slice *from, *to;
  int axis; /* -1: both are the same */
  int64_t unit;
  size_t size; /* of an element */
} cut;

static int64_t length_of(const td_shape *whole, const td_slice *s, int i) {
  return s->length[i] < 0 ? whole->dim[i] : s->length[i];
}

static cut make_cut(const td_checkpoint_entry *e, const td_slice *from,
                    const td_slice *to) {
  cut k = {.whole = &e->shape,
           .from = from,
           .to = to,
           .axis = e->shape.rank - 1,
           .unit = 1,
           .size = td_dtype_size(e->dtype)};
  for (; k.axis >= 0; k.axis--) {
    int64_t n = length_of(k.whole, from, k.axis);
    if (from->start[k.axis] != to->start[k.axis] ||
        n != length_of(k.whole, to, k.axis))
      break;
    k.unit *= n;
  }
  return k;
}

/* Marks elements as there; false when one was. */
static bool mark(uint8_t *marks, int64_t from, int64_t n) {
  bool fresh = true;
  for (int64_t i = from, end = from + n; i < end;) {
    bool whole = i % 8 == 0 && end - i >= 8;
    uint8_t bits = whole ? 0xff : (uint8_t)(1 << i % 8);
    if (marks[i / 8] & bits) fresh = false;
    marks[i / 8] |= bits;
    i += whole ? 8 : 1;
  }
  return fresh;
}

static td_status *put(stream *st, const cut *k, int64_t to, int64_t n,
                      uint8_t *marks, td_tensor *out) {
  if (marks && !mark(marks, to, n))
    return td_error(TD_DATA_LOSS, "its slices overlap");
  return td_checkpoint_stream_take(st, (char *)out->data + (size_t)to * k->size,
                                   (size_t)n * k->size);
}

static td_status *skip(stream *st, const cut *k, int64_t n) {
  return td_checkpoint_stream_take(st, NULL, (size_t)n * k->size);
}

/* The row of the stored slice at an index of the axes before the cut. */
static td_status *put_row(stream *st, const cut *k, const int64_t *at,
                          uint8_t *marks, td_tensor *out) {
  int64_t place = 0, rows = length_of(k->whole, k->from, k->axis);
  bool wanted = true;
  for (int i = 0; i < k->axis; i++) {
    int64_t here = at[i] - k->to->start[i], n = length_of(k->whole, k->to, i);
    wanted = wanted && here >= 0 && here < n;
    place = place * n + here;
  }
  if (!wanted) return skip(st, k, rows * k->unit);
  int64_t begin = k->from->start[k->axis], first = k->to->start[k->axis];
  int64_t n = length_of(k->whole, k->to, k->axis);
  int64_t low = begin > first ? begin : first;
  int64_t high = begin + rows < first + n ? begin + rows : first + n;
  if (high <= low) return skip(st, k, rows * k->unit);
  TD_TRY(skip(st, k, (low - begin) * k->unit));
  TD_TRY(put(st, k, (place * n + low - first) * k->unit, (high - low) * k->unit,
             marks, out));
  return skip(st, k, (begin + rows - high) * k->unit);
}

/* The next index of the axes before the cut; false behind the last. */
static bool step(const cut *k, int64_t *at) {
  for (int i = k->axis - 1; i >= 0; i--) {
    if (++at[i] < k->from->start[i] + length_of(k->whole, k->from, i))
      return true;
    at[i] = k->from->start[i];
  }
  return false;
}

static td_status *put_rows(stream *st, const cut *k, uint8_t *marks,
                           td_tensor *out) {
  int64_t at[TD_MAX_RANK];
  if (st->e->size == 0) return NULL;
  if (k->axis < 0) return put(st, k, 0, k->unit, marks, out);
  memcpy(at, k->from->start, sizeof at);
  do TD_TRY(put_row(st, k, at, marks, out));
  while (step(k, at));
  return NULL;
}

/* What `stored`, slice `from` of tensor `e`, has of the part `to`. */
static td_status *read_into(const td_checkpoint *c,
                            const td_checkpoint_entry *e,
                            const td_checkpoint_entry *stored,
                            const td_slice *from, const td_slice *to,
                            uint8_t *marks, td_tensor *out) {
  stream st;
  cut k = make_cut(e, from, to);
  td_checkpoint_stream_begin(c, stored, &st);
  return td_checkpoint_stream_end(&st, put_rows(&st, &k, marks, out));
}

/* ---- slices -------------------------------------------------------------- */

static td_slice all_of(const td_checkpoint_entry *e) {
  td_slice all = {.rank = e->shape.rank};
  for (int i = 0; i < all.rank; i++) all.length[i] = -1;
  return all;
}

/* Bytes of all slices of a tensor that are in the file: their keys begin with
 * the tensor's. */
static td_status *stored_bytes(const td_checkpoint *c,
                               const td_checkpoint_entry *e, uint64_t *bytes) {
  td_str key = {0};
  td_slice none = {.rank = 0};
  *bytes = 0;
  td_slice_key(e->name, &none, &key);
  td_status *s = key.failed ? td_oom() : NULL;
  if (td_ok(s)) key.len--; /* the rank; what is before it is the name's */
  for (size_t i = td_checkpoint_lower(c, (td_bytes){td_str_c(&key), key.len});
       td_ok(s) && i < c->first_name; i++) {
    const td_checkpoint_record *r = &c->records.at[i];
    if (r->key_len < key.len ||
        memcmp(c->keys.at + r->key, key.at, key.len) != 0)
      break;
    *bytes += td_checkpoint_entry_of(c, r).size;
  }
  td_str_deinit(&key);
  return s;
}

static td_status *not_covered(void) {
  return td_error(TD_DATA_LOSS, "its slices do not cover it");
}

static td_status *fill_from_slices(const td_checkpoint *c,
                                   const td_checkpoint_entry *e,
                                   const td_slice *part, uint8_t *marks,
                                   td_tensor *out) {
  td_slice s, common;
  int64_t filled = 0;
  for (td_bytes at = e->slices; td_checkpoint_next_slice(&at, &s);) {
    td_checkpoint_entry stored;
    if (!td_slice_meet(&e->shape, &s, part, &common)) continue;
    TD_TRY(td_checkpoint_find_slice(c, e, &s, &stored));
    TD_TRY(read_into(c, e, &stored, &s, part, marks, out));
    int64_t n = 1;
    for (int i = 0; i < common.rank; i++) n *= common.length[i];
    filled += n;
  }
  return filled == td_tensor_count(out) ? NULL : not_covered();
}

static td_status *read_slices(const td_checkpoint *c,
                              const td_checkpoint_entry *e,
                              const td_shape *shape, const td_slice *part,
                              td_allocator *a, td_tensor *out) {
  uint64_t stored = 0;
  size_t n = (size_t)td_shape_count(shape);
  TD_TRY(stored_bytes(c, e, &stored));
  if (n > stored / td_dtype_size(e->dtype)) return not_covered();
  uint8_t *marks = td_calloc(n / 8 + 1, 1);
  if (!marks) return td_oom();
  td_status *s = td_tensor_new(a, e->dtype, shape, out);
  if (td_ok(s)) s = fill_from_slices(c, e, part, marks, out);
  td_free(marks);
  return s;
}

static td_status *read_part(const td_checkpoint *c,
                            const td_checkpoint_entry *e, const td_slice *part,
                            td_allocator *a, td_tensor *out) {
  td_shape shape;
  td_slice all = all_of(e);
  *out = (td_tensor){0};
  TD_TRY(td_slice_shape(&e->shape, part, &shape));
  if (e->dtype == TD_STRING)
    return td_error(TD_UNIMPLEMENTED, "slices of strings are not read");
  td_status *s;
  if (e->n_slices > 0) {
    s = read_slices(c, e, &shape, part, a, out);
  } else {
    s = td_tensor_new(a, e->dtype, &shape, out);
    if (td_ok(s)) s = read_into(c, e, e, &all, part, NULL, out);
  }
  if (!td_ok(s)) td_tensor_release(out);
  return s;
}

td_status *td_checkpoint_read(const td_checkpoint *c,
                              const td_checkpoint_entry *e,
                              const td_slice *part, td_allocator *a,
                              td_tensor *out) {
  td_slice all = all_of(e);
  bool whole = !part || (part->rank == e->shape.rank &&
                         td_slice_is_whole(&e->shape, part));
  td_status *s = whole && e->n_slices == 0
                     ? read_whole(c, e, a, out)
                     : read_part(c, e, part ? part : &all, a, out);
  return td_checkpoint_blame(c, e->name, s);
}

/* ---- checking ------------------------------------------------------------ */

static td_status *check_stored(const td_checkpoint *c,
                               const td_checkpoint_entry *e) {
  stream st;
  uint64_t text = e->size;
  td_status *s = NULL;
  td_checkpoint_stream_begin(c, e, &st);
  if (e->dtype == TD_STRING) s = take_lengths(&st, NULL, &text);
  if (td_ok(s)) s = td_checkpoint_stream_take(&st, NULL, text);
  return td_checkpoint_stream_end(&st, s);
}

td_status *td_checkpoint_verify(const td_checkpoint *c) {
  for (size_t i = 0; i < c->records.len; i++) {
    td_checkpoint_entry e = td_checkpoint_entry_of(c, &c->records.at[i]);
    if (e.n_slices == 0)
      TD_TRY(td_checkpoint_blame(c, e.name, check_stored(c, &e)));
  }
  return NULL;
}
