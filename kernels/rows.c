/* rows.c - copying and summing rows by number.
 *
 * A sum is cut by the rows of the result, never by those that are added: a
 * piece looks through all row numbers and takes its own, in order. So no two
 * threads write the same row, and the order of additions is that of the input
 * for any number of threads. Rows too short to pay for the search are one
 * piece.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/rows.h"

#include <string.h>

#include "kernels/cpu.h"

enum {
  SUM_PIECES = 16, /* pieces of a sum, when it is cut */
  SHORT_ROW = 16,  /* elements; below, a sum is not cut */
};

/* ---- copying ------------------------------------------------------------- */

typedef struct copy {
  const char *from;
  char *to;
  const int64_t *rows;
  size_t bytes;
} copy;

static void copy_rows(void *arg, int64_t begin, int64_t end) {
  const copy *c = arg;
  for (int64_t i = begin; i < end; i++) {
    char *to = c->to + (size_t)i * c->bytes;
    if (c->rows[i] < 0)
      memset(to, 0, c->bytes);
    else
      memcpy(to, c->from + (size_t)c->rows[i] * c->bytes, c->bytes);
  }
}

void td_rows_copy(const td_kernel_ctx *c, const void *from, const int64_t *rows,
                  int64_t n, size_t bytes, void *to) {
  copy job = {.from = from, .to = to, .rows = rows, .bytes = bytes};
  if (bytes == 0) return;
  td_for(c, n, td_grain_of((int64_t)(bytes / 4)), copy_rows, &job);
}

/* ---- summing ------------------------------------------------------------- */

typedef void (*add_fn)(void *to, const void *from, int64_t n);

/* Unsigned, as signed sums wrap in the same way. */
#define TD_ROWS_ADD(name, type)                                                \
  static void add_##name(void *to, const void *from, int64_t n) {              \
    type *y = to;                                                              \
    const type *x = from;                                                      \
    for (int64_t i = 0; i < n; i++) y[i] = (type)(y[i] + x[i]);                \
  }
TD_ROWS_ADD(u8, uint8_t)
TD_ROWS_ADD(u16, uint16_t)
TD_ROWS_ADD(u32, uint32_t)
TD_ROWS_ADD(u64, uint64_t)
TD_ROWS_ADD(f32, float)
TD_ROWS_ADD(f64, double)
#undef TD_ROWS_ADD

static void or_bools(void *to, const void *from, int64_t n) {
  uint8_t *y = to;
  const uint8_t *x = from;
  for (int64_t i = 0; i < n; i++) y[i] = y[i] | x[i];
}

static void add_c64(void *to, const void *from, int64_t n) {
  add_f32(to, from, 2 * n);
}

static void add_c128(void *to, const void *from, int64_t n) {
  add_f64(to, from, 2 * n);
}

/* float += half */
static void add_halves(td_dtype t, void *to, const void *from, int64_t n) {
  float block[TD_HALF_BLOCK], *y = to;
  const uint16_t *x = from;
  for (int64_t i = 0; i < n; i += TD_HALF_BLOCK) {
    int64_t some = n - i < TD_HALF_BLOCK ? n - i : TD_HALF_BLOCK;
    td_half_load(t, some, x + i, block);
    add_f32(y + i, block, some);
  }
}

static void add_f16(void *to, const void *from, int64_t n) {
  add_halves(TD_FLOAT16, to, from, n);
}

static void add_bf16(void *to, const void *from, int64_t n) {
  add_halves(TD_BFLOAT16, to, from, n);
}

static add_fn adder_of(td_dtype t) {
  if (t == TD_BOOL) return or_bools;
  if (t == TD_FLOAT32) return add_f32;
  if (t == TD_FLOAT64) return add_f64;
  if (t == TD_FLOAT16) return add_f16;
  if (t == TD_BFLOAT16) return add_bf16;
  if (t == TD_COMPLEX64) return add_c64;
  if (t == TD_COMPLEX128) return add_c128;
  if (!td_dtype_is_integer(t)) return NULL;
  switch (td_dtype_size(t)) {
  case 1:
    return add_u8;
  case 2:
    return add_u16;
  case 4:
    return add_u32;
  default:
    return add_u64;
  }
}

typedef struct sum {
  const char *from;
  char *acc; /* where it is summed: the output, or floats for halves */
  char *to;  /* the output */
  const int64_t *rows;
  int64_t n, each;
  size_t from_bytes, acc_bytes; /* of a row */
  td_dtype dtype;
  add_fn add;
} sum;

/* Rows [begin, end) of the result. */
static void sum_rows(void *arg, int64_t begin, int64_t end) {
  const sum *s = arg;
  memset(s->acc + (size_t)begin * s->acc_bytes, 0,
         (size_t)(end - begin) * s->acc_bytes);
  for (int64_t i = 0; i < s->n; i++)
    if (s->rows[i] >= begin && s->rows[i] < end)
      s->add(s->acc + (size_t)s->rows[i] * s->acc_bytes,
             s->from + (size_t)i * s->from_bytes, s->each);
  if (s->acc != s->to)
    td_half_store(s->dtype, (end - begin) * s->each,
                  (const float *)(void *)s->acc + begin * s->each,
                  s->to + (size_t)begin * (size_t)s->each * sizeof(uint16_t));
}

static int64_t sum_grain(int64_t to_rows, const sum *s) {
  if (s->each < SHORT_ROW || s->n < TD_GRAIN / s->each) return to_rows;
  return to_rows / SUM_PIECES + 1;
}

td_status *td_rows_sum(td_kernel_ctx *c, int in, const int64_t *rows, int64_t n,
                       int64_t each, int out, const td_shape *shape) {
  const td_tensor *x = td_in(c, in);
  size_t size = td_dtype_size(x->dtype);
  td_tensor *y, floats = {0};
  sum s = {.from = x->data,
           .rows = rows,
           .n = n,
           .each = each,
           .from_bytes = size * (size_t)each,
           .acc_bytes = size * (size_t)each,
           .dtype = x->dtype,
           .add = adder_of(x->dtype)};
  if (!s.add)
    return td_error(TD_UNIMPLEMENTED, "elements of dtype %s cannot be summed",
                    td_dtype_name(x->dtype));
  TD_TRY(td_out(c, out, shape, &y));
  s.acc = s.to = y->data;
  if (td_is_half(x->dtype)) {
    TD_TRY(td_temp(c, TD_FLOAT32, shape, &floats));
    s.acc = floats.data;
    s.acc_bytes = sizeof(float) * (size_t)each;
  }
  int64_t count = td_shape_count(shape);
  if (count > 0)
    td_for(c, count / each, sum_grain(count / each, &s), sum_rows, &s);
  td_tensor_release(&floats);
  return NULL;
}
