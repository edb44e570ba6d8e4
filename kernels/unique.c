/* unique.c - Unique and its kin: the different elements of a vector, or slices
 * along an axis, in the order in which they first occur; ListDiff: those that
 * another vector lacks.
 *
 * Elements are compared as numbers: 0 and -0 are one, a NaN is never seen
 * before. A slice is the elements inner apart from each other, for every outer
 * index; an element of a vector is a slice of one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/array.h"
#include "kernels/cost.h"
#include "kernels/operand.h"
#include "kernels/unique.h"

#include <string.h>

#include "engine/base/map.h"

/* An element as it is hashed and compared. */
typedef struct key {
  const char *at; /* text, or NULL */
  size_t len;
  uint64_t bits[2];
  bool alone; /* equal to nothing */
} key;

typedef struct table {
  const td_tensor *x;
  int64_t n, outer, inner; /* slices; how x lies about the axis they are of */
  int64_t *slots;          /* number of the unique element + 1; 0: empty */
  uint64_t nslots;         /* a power of two */
  int64_t *first;          /* where each unique element first occurs */
  int64_t count;
} table;

/* ---- keys ---------------------------------------------------------------- */

/* A float of `size` bytes, in the low bits. */
static uint64_t number_bits(uint64_t bits, size_t size, uint64_t infinity,
                            bool *alone) {
  uint64_t sign = (uint64_t)1 << (8 * size - 1), magnitude = bits & ~sign;
  if (magnitude > infinity) *alone = true;
  return magnitude == 0 ? 0 : bits;
}

static uint64_t infinity_of(td_dtype t) {
  if (t == TD_FLOAT16) return 0x7c00;
  if (t == TD_BFLOAT16) return 0x7f80;
  if (t == TD_FLOAT32 || t == TD_COMPLEX64) return 0x7f800000;
  return 0x7ff0000000000000;
}

static key key_at(const td_tensor *x, int64_t i) {
  key k = {0};
  if (x->dtype == TD_STRING) {
    k.at = td_tensor_str(x, i, &k.len);
    return k;
  }
  size_t size = td_dtype_size(x->dtype);
  bool is_complex = td_dtype_is_complex(x->dtype);
  size_t part = is_complex ? size / 2 : size;
  const char *from = (const char *)x->data + (size_t)i * size;
  for (size_t p = 0; p * part < size; p++) {
    memcpy(&k.bits[p], from + p * part, part);
    if (is_complex || td_dtype_is_float(x->dtype))
      k.bits[p] = number_bits(k.bits[p], part, infinity_of(x->dtype), &k.alone);
  }
  return k;
}

static uint64_t hash_of(const key *k) {
  if (k->at) return td_hash(k->at, k->len, 0);
  uint64_t h =
      (k->bits[0] ^ k->bits[1] * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
  return h ^ h >> 32;
}

static bool same_key(const key *a, const key *b) {
  if (a->at)
    return a->len == b->len &&
           (a->len == 0 || memcmp(a->at, b->at, a->len) == 0);
  return a->bits[0] == b->bits[0] && a->bits[1] == b->bits[1];
}

/* ---- slices -------------------------------------------------------------- */

/* Element k of slice i. */
static int64_t element_of(const table *t, int64_t i, int64_t k) {
  return (k / t->inner * t->n + i) * t->inner + k % t->inner;
}

static uint64_t hash_slice(const table *t, int64_t i, bool *alone) {
  uint64_t h = 0;
  for (int64_t k = 0; k < t->outer * t->inner; k++) {
    key e = key_at(t->x, element_of(t, i, k));
    *alone |= e.alone;
    h = (h ^ hash_of(&e)) * 0x9e3779b97f4a7c15u;
    h ^= h >> 32;
  }
  return h;
}

/* Slice i of t against slice j of `other`. */
static bool same_slice(const table *t, int64_t i, const table *other,
                       int64_t j) {
  for (int64_t k = 0; k < t->outer * t->inner; k++) {
    key a = key_at(t->x, element_of(t, i, k));
    key b = key_at(other->x, element_of(other, j, k));
    if (!same_key(&a, &b)) return false;
  }
  return true;
}

/* ---- the table ----------------------------------------------------------- */

/* Where slice i of `from` is, or would be; *alone: equal to nothing. */
static uint64_t find_slot(const table *t, const table *from, int64_t i,
                          bool *alone) {
  *alone = false;
  uint64_t mask = t->nslots - 1, slot = hash_slice(from, i, alone) & mask;
  for (; !*alone && t->slots[slot]; slot = (slot + 1) & mask)
    if (same_slice(from, i, t, t->first[t->slots[slot] - 1])) break;
  return slot;
}

/* The number of the unique slice that slice i of x is. */
static int64_t number_of(table *t, int64_t i) {
  bool alone;
  uint64_t slot = find_slot(t, t, i, &alone);
  if (!alone && t->slots[slot]) return t->slots[slot] - 1;
  t->first[t->count++] = i;
  if (!alone) t->slots[slot] = t->count;
  return t->count - 1;
}

static table table_of(const td_tensor *x, int axis) {
  int rank = x->shape.rank;
  return (table){.x = x,
                 .n = x->shape.dim[axis],
                 .outer = td_shape_span(&x->shape, 0, axis),
                 .inner = td_shape_span(&x->shape, axis + 1, rank)};
}

static td_status *open_table(const td_tensor *x, int axis, table *t) {
  *t = table_of(x, axis);
  t->nslots = 16;
  /* First, as there may be any number of slices without elements. */
  t->first = td_calloc((size_t)t->n, sizeof *t->first);
  if (!t->first) return td_oom();
  while (t->nslots / 2 < (uint64_t)t->n) t->nslots *= 2;
  t->slots = td_calloc(t->nslots, sizeof *t->slots);
  if (t->slots) return NULL;
  td_free(t->first);
  return td_oom();
}

static void close_table(table *t) {
  td_free(t->slots);
  td_free(t->first);
}

/* ---- kernels ------------------------------------------------------------- */

static td_status *unique_infer(td_infer *c) {
  td_shape s;
  TD_TRY(td_infer_rank(c, 0, 1, "x", &s));
  td_infer_out(c, 0, td_shape_ranked(1));
  td_infer_out(c, 1, s);
  if (td_infer_outputs(c) > 2) td_infer_out(c, 2, td_shape_ranked(1));
  return NULL;
}

/* The slices numbered `which`, count of them, as output 0. */
static td_status *put_slices(td_kernel_ctx *c, const table *t, int axis,
                             const int64_t *which, int64_t count) {
  td_shape shape = t->x->shape;
  td_array x = {0}, y = {0};
  shape.dim[axis] = count;
  td_status *s = td_array_in(t->x, &x);
  if (td_ok(s)) s = td_array_out(c, 0, &shape, &y);
  size_t bytes = (size_t)t->inner * x.size;
  for (int64_t o = 0; td_ok(s) && bytes && count && o < t->outer; o++)
    for (int64_t i = 0; i < count; i++)
      memcpy(y.at + (size_t)(o * count + i) * bytes,
             x.at + (size_t)(o * t->n + which[i]) * bytes, bytes);
  if (td_ok(s)) s = td_array_done(c, 0, &y);
  td_array_drop(&x);
  td_array_drop(&y);
  return s;
}

static td_status *put_counts(td_kernel_ctx *c, const table *t) {
  td_shape shape = td_shape_vector(t->count);
  const td_tensor *numbers = &c->out[1];
  td_tensor *y;
  TD_TRY(td_out(c, 2, &shape, &y));
  for (int64_t i = 0; i < t->count; i++) td_tensor_set_i(y, i, 0);
  for (int64_t i = 0; i < t->n; i++) {
    int64_t at = td_tensor_get_i(numbers, i);
    td_tensor_set_i(y, at, td_tensor_get_i(y, at) + 1);
  }
  return NULL;
}

static td_status *unique_fill(td_kernel_ctx *c, table *t, int axis,
                              td_tensor *y) {
  for (int64_t i = 0; i < t->n; i++)
    TD_TRY(td_array_put(y, i, number_of(t, i), "an index"));
  TD_TRY(put_slices(c, t, axis, t->first, t->count));
  return c->n_out > 2 ? put_counts(c, t) : NULL;
}

static td_status *check_dtype(td_dtype t) {
  if (t != TD_RESOURCE && t != TD_VARIANT) return NULL;
  return td_error(TD_UNIMPLEMENTED, "elements of dtype %s are not compared",
                  td_dtype_name(t));
}

static td_status *check_vector(const td_tensor *x, const char *what) {
  td_shape_text text;
  if (x->shape.rank == 1) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "%s must be a vector, not of shape %s",
                  what, td_shape_str(&x->shape, &text));
}

static td_status *unique_along(td_kernel_ctx *c, int axis) {
  const td_tensor *x = td_in(c, 0);
  td_shape shape = td_shape_vector(x->shape.dim[axis]);
  table t;
  td_tensor *y;
  TD_TRY(td_out(c, 1, &shape, &y)); /* refuses more than the limit */
  TD_TRY(open_table(x, axis, &t));
  td_status *s = unique_fill(c, &t, axis, y);
  close_table(&t);
  return s;
}

/* ---- along an axis ------------------------------------------------------- */

/* No axis: x is a vector. */
static td_status *read_axis(const td_small *v, int rank, int *axis) {
  *axis = 0;
  if (v->count == 0) return NULL;
  if (v->count > 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "axis must have one element at most, not %d", v->count);
  return td_infer_axis(v->at[0], rank, "axis", axis);
}

static td_status *axis_infer(td_infer *c) {
  const td_shape *x = td_infer_in(c, 0);
  td_small v;
  int axis;
  bool known;
  TD_TRY(td_infer_rank(c, 1, 1, "axis", NULL));
  TD_TRY(td_operand_infer_ints(c, 1, "axis", &v, &known));
  for (int i = 1; i < td_infer_outputs(c); i++)
    td_infer_out(c, i, td_shape_ranked(1));
  if (known && v.count == 0) TD_TRY(td_infer_rank(c, 0, 1, "x", NULL));
  if (x->rank < 0) return NULL;
  td_infer_out(c, 0, td_shape_ranked(x->rank));
  if (!known || !td_operand_known(&v)) return NULL;
  TD_TRY(read_axis(&v, x->rank, &axis));
  td_shape y = *x;
  y.dim[axis] = -1;
  td_infer_out(c, 0, y);
  td_infer_out(c, 1, td_shape_vector(x->dim[axis]));
  return NULL;
}

/* Input 1, where there is one. */
static td_status *asked_axis(const td_kernel_ctx *c, int *axis) {
  const td_tensor *x = td_in(c, 0);
  td_small v = {.rank = 1};
  if (c->n_in > 1) TD_TRY(td_operand_ints(td_in(c, 1), "axis", &v));
  if (v.rank != 1)
    return td_error(TD_INVALID_ARGUMENT, "axis must be a vector");
  if (v.count == 0) TD_TRY(check_vector(x, "x"));
  return read_axis(&v, x->shape.rank, axis);
}

td_status *td_unique_axis(td_kernel_ctx *c, int *axis) {
  TD_TRY(asked_axis(c, axis));
  return check_dtype(td_in(c, 0)->dtype);
}

static td_status *unique_run(td_kernel_ctx *c) {
  int axis;
  TD_TRY(td_unique_axis(c, &axis));
  return unique_along(c, axis);
}

/* ---- ListDiff ------------------------------------------------------------ */

static td_status *diff_infer(td_infer *c) {
  TD_TRY(td_infer_rank(c, 0, 1, "x", NULL));
  TD_TRY(td_infer_rank(c, 1, 1, "y", NULL));
  td_infer_out(c, 0, td_shape_ranked(1));
  td_infer_out(c, 1, td_shape_ranked(1));
  return NULL;
}

static td_status *put_places(td_kernel_ctx *c, const int64_t *which,
                             int64_t count) {
  td_shape shape = td_shape_vector(count);
  td_tensor *idx;
  TD_TRY(td_out(c, 1, &shape, &idx));
  for (int64_t i = 0; i < count; i++)
    TD_TRY(td_array_put(idx, i, which[i], "an index"));
  return NULL;
}

static td_status *diff_fill(td_kernel_ctx *c, table *known) {
  table x = table_of(td_in(c, 0), 0);
  int64_t count = 0;
  bool alone;
  int64_t *which = td_calloc((size_t)x.n, sizeof *which);
  if (!which) return td_oom();
  for (int64_t i = 0; i < known->n; i++) (void)number_of(known, i);
  for (int64_t i = 0; i < x.n; i++) {
    uint64_t slot = find_slot(known, &x, i, &alone);
    if (alone || !known->slots[slot]) which[count++] = i;
  }
  td_status *s = put_slices(c, &x, 0, which, count);
  if (td_ok(s)) s = put_places(c, which, count);
  td_free(which);
  return s;
}

td_status *td_list_diff_check(td_kernel_ctx *c) {
  TD_TRY(check_vector(td_in(c, 0), "x"));
  TD_TRY(check_vector(td_in(c, 1), "y"));
  return check_dtype(td_in(c, 0)->dtype);
}

static td_status *diff_run(td_kernel_ctx *c) {
  table known;
  TD_TRY(td_list_diff_check(c));
  TD_TRY(open_table(td_in(c, 1), 0, &known));
  td_status *s = diff_fill(c, &known);
  close_table(&known);
  return s;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "Unique",
     .sig = "x: T -> y: T, idx: out_idx; "
            "T: type; out_idx: {int32, int64} = int32",
     .shape = unique_infer,
     .cost = td_cost_move,
     .doc = "The different elements of a vector in order of first occurrence, "
            "and for every element the number of its like among them.",
     .section = "Array"},
    {.type = "UniqueWithCounts",
     .sig = "x: T -> y: T, idx: out_idx, count: out_idx; "
            "T: type; out_idx: {int32, int64} = int32",
     .shape = unique_infer,
     .cost = td_cost_move,
     .doc = "As unique, and how often each of the different elements occurs.",
     .section = "Array"},
    {.type = "UniqueV2",
     .sig = "x: T, axis: Taxis -> y: T, idx: out_idx; T: type; "
            "Taxis: {int32, int64} = int64; out_idx: {int32, int64} = int32",
     .shape = axis_infer,
     .cost = td_cost_move,
     .doc = "The different slices along an axis in order of first occurrence, "
            "and for every slice the number of its like among them.",
     .lua = "",
     .host = "axis",
     .section = "Array"},
    {.type = "UniqueWithCountsV2",
     .sig = "x: T, axis: Taxis -> y: T, idx: out_idx, count: out_idx; "
            "T: type; Taxis: {int32, int64} = int64; "
            "out_idx: {int32, int64} = int32",
     .shape = axis_infer,
     .cost = td_cost_move,
     .doc = "As UniqueV2, and how often each of the different slices occurs.",
     .lua = "",
     .host = "axis",
     .section = "Array"},
    {.type = "ListDiff",
     .sig = "x: T, y: T -> out: T, idx: out_idx; T: type; "
            "out_idx: {int32, int64} = int32",
     .shape = diff_infer,
     .cost = td_cost_move,
     .doc = "The elements of x that y lacks, and where they stand in x.",
     .lua = "setdiff1d",
     .example = "td.setdiff1d({3, 1, 4, 1}, {1})  --> 3 4",
     .section = "Array"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Unique", .device = "CPU", .run = unique_run},
    {.op = "UniqueWithCounts", .device = "CPU", .run = unique_run},
    {.op = "UniqueV2", .device = "CPU", .run = unique_run},
    {.op = "UniqueWithCountsV2", .device = "CPU", .run = unique_run},
    {.op = "ListDiff", .device = "CPU", .run = diff_run},
    {0},
};

TD_MODULE(unique, ops, kernels)
