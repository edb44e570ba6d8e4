/* unique.c - Unique, UniqueWithCounts: the different elements of a vector, in
 * the order in which they first occur.
 *
 * Elements are compared as numbers: 0 and -0 are one, a NaN is never seen
 * before.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/array.h"

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
  int64_t *slots;  /* number of the unique element + 1; 0: empty */
  uint64_t nslots; /* a power of two */
  int64_t *first;  /* where each unique element first occurs */
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

/* ---- the table ----------------------------------------------------------- */

/* The number of the unique element that element i of x is. */
static int64_t number_of(table *t, int64_t i) {
  key k = key_at(t->x, i);
  uint64_t mask = t->nslots - 1, slot = hash_of(&k) & mask;
  for (; !k.alone && t->slots[slot]; slot = (slot + 1) & mask) {
    key other = key_at(t->x, t->first[t->slots[slot] - 1]);
    if (same_key(&k, &other)) return t->slots[slot] - 1;
  }
  t->first[t->count++] = i;
  if (!k.alone) t->slots[slot] = t->count;
  return t->count - 1;
}

static td_status *open_table(const td_tensor *x, table *t) {
  uint64_t n = (uint64_t)td_tensor_count(x), nslots = 16;
  while (nslots / 2 < n) nslots *= 2;
  *t = (table){.x = x, .nslots = nslots};
  t->slots = td_alloc_zero(nslots, sizeof *t->slots);
  t->first = td_alloc_zero(n, sizeof *t->first);
  if (t->slots && t->first) return NULL;
  td_free(t->slots);
  td_free(t->first);
  return td_oom();
}

/* ---- kernels ------------------------------------------------------------- */

static td_status *unique_infer(td_infer *c) {
  td_shape s;
  TD_TRY(td_infer_rank(c, 0, 1, "x", &s));
  td_infer_out(c, 0, td_array_rank(1));
  td_infer_out(c, 1, s);
  if (td_infer_outputs(c) > 2) td_infer_out(c, 2, td_array_rank(1));
  return NULL;
}

static td_status *put_elements(td_kernel_ctx *c, const table *t) {
  td_shape shape = td_shape_vector(t->count);
  td_array x = {0}, y = {0};
  td_status *s = td_array_in(t->x, &x);
  if (td_ok(s)) s = td_array_out(c, 0, &shape, &y);
  for (int64_t i = 0; td_ok(s) && i < t->count; i++)
    memcpy(y.at + (size_t)i * y.size, x.at + (size_t)t->first[i] * x.size,
           y.size);
  if (td_ok(s)) s = td_array_done(c, 0, &y);
  td_array_drop(&x);
  td_array_drop(&y);
  return s;
}

static td_status *put_counts(td_kernel_ctx *c, const table *t) {
  td_shape shape = td_shape_vector(t->count);
  const td_tensor *numbers = &c->out[1];
  int64_t n = td_tensor_count(t->x);
  td_tensor *y;
  TD_TRY(td_out(c, 2, &shape, &y));
  for (int64_t i = 0; i < t->count; i++) td_tensor_set_i(y, i, 0);
  for (int64_t i = 0; i < n; i++) {
    int64_t at = td_tensor_get_i(numbers, i);
    td_tensor_set_i(y, at, td_tensor_get_i(y, at) + 1);
  }
  return NULL;
}

static td_status *unique_fill(td_kernel_ctx *c, table *t) {
  td_tensor *y;
  int64_t n = td_tensor_count(t->x);
  TD_TRY(td_out(c, 1, &t->x->shape, &y));
  for (int64_t i = 0; i < n; i++)
    TD_TRY(td_array_put(y, i, number_of(t, i), "an index"));
  TD_TRY(put_elements(c, t));
  return c->n_out > 2 ? put_counts(c, t) : NULL;
}

static td_status *unique_run(td_kernel_ctx *c) {
  const td_tensor *x = td_in(c, 0);
  td_shape_text text;
  table t;
  if (x->shape.rank != 1)
    return td_error(TD_INVALID_ARGUMENT, "x must be a vector, not of shape %s",
                    td_shape_str(&x->shape, &text));
  if (x->dtype == TD_RESOURCE || x->dtype == TD_VARIANT)
    return td_error(TD_UNIMPLEMENTED, "elements of dtype %s are not compared",
                    td_dtype_name(x->dtype));
  TD_TRY(open_table(x, &t));
  td_status *s = unique_fill(c, &t);
  td_free(t.slots);
  td_free(t.first);
  return s;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "Unique",
     .sig = "x: T -> y: T, idx: out_idx; "
            "T: type; out_idx: {int32, int64} = int32",
     .shape = unique_infer,
     .doc = "The different elements of a vector in order of first occurrence, "
            "and for every element the number of its like among them.",
     .section = "Array"},
    {.type = "UniqueWithCounts",
     .sig = "x: T -> y: T, idx: out_idx, count: out_idx; "
            "T: type; out_idx: {int32, int64} = int32",
     .shape = unique_infer,
     .doc = "As unique, and how often each of the different elements occurs.",
     .section = "Array"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Unique", .device = "CPU", .run = unique_run},
    {.op = "UniqueWithCounts", .device = "CPU", .run = unique_run},
    {0},
};

TD_MODULE(unique, ops, kernels)
