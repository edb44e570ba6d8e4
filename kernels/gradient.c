/* gradient.c - sums of gradients, and their means; see gradient.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/pool.h"
#include "kernels/binary.h"
#include "kernels/gradient.h"

enum { BLOCK = 1024 };

td_gradient *td_gradient_new(void) {
  return td_calloc(1, sizeof(td_gradient));
}

void td_gradient_free(td_gradient *g) {
  if (!g) return;
  td_tensor_release(&g->values);
  td_tensor_release(&g->indices);
  td_tensor_release(&g->counts);
  td_free(g);
}

static td_status *make(td_kernel_ctx *c, td_dtype t, const td_shape *shape,
                       td_tensor *out) {
  return td_tensor_new(c->kernel->device->host, t, shape, out);
}

/* What is added belongs to others than the step that adds: unlike td_for, which
 * stops with the step. */
static void to_the_end(const td_kernel_ctx *c, int64_t n, int64_t grain,
                       void (*fn)(void *arg, int64_t begin, int64_t end),
                       void *arg) {
  td_parallel_for(c->step->threads, n, grain, fn, arg, NULL);
}

/* ---- widening ------------------------------------------------------------ */

typedef struct widening {
  td_dtype dtype;
  const uint16_t *from;
  float *to;
} widening;

static void widen_piece(void *arg, int64_t begin, int64_t end) {
  const widening *w = arg;
  td_half_load(w->dtype, end - begin, w->from + begin, w->to + begin);
}

td_status *td_gradient_widen(td_kernel_ctx *c, const td_tensor *t,
                             td_tensor *out) {
  if (!td_is_half(t->dtype)) {
    td_tensor_retain(t, out);
    return NULL;
  }
  TD_TRY(make(c, TD_FLOAT32, &t->shape, out));
  widening w = {t->dtype, t->data, out->data};
  to_the_end(c, td_tensor_count(t), TD_GRAIN, widen_piece, &w);
  return NULL;
}

/* ---- adding -------------------------------------------------------------- */

typedef struct adding {
  td_dtype dtype;
  size_t size;
  const char *x, *y;
  char *z;
} adding;

static void add_piece(void *arg, int64_t begin, int64_t end) {
  const adding *j = arg;
  for (int64_t at = begin; at < end; at += BLOCK) {
    int64_t n = end - at < BLOCK ? end - at : BLOCK;
    size_t skip = (size_t)at * j->size;
    td_binary_apply(TD_BINARY_AddV2, j->dtype, td_cpu_isa(), n, j->x + skip,
                    j->y + skip, j->z + skip);
  }
}

td_status *td_gradient_add(td_kernel_ctx *c, td_tensor *x, const td_tensor *y) {
  td_tensor z = *x;
  bool fresh = !td_buffer_sole(x->buffer);
  if (fresh) TD_TRY(make(c, x->dtype, &x->shape, &z));
  adding j = {x->dtype, td_dtype_size(x->dtype), x->data, y->data, z.data};
  to_the_end(c, td_tensor_count(x), TD_GRAIN, add_piece, &j);
  td_buffer_touch(z.buffer);
  if (fresh) td_tensor_release(x);
  *x = z;
  return NULL;
}

/* ---- taking -------------------------------------------------------------- */

typedef struct dividing {
  td_dtype dtype;
  int64_t row; /* elements of a row */
  const int64_t *divisors;
  int64_t n;
  const void *from;
  void *to;
} dividing;

static void divide_f32(const float *x, float n, float *y, int64_t count) {
  for (int64_t i = 0; i < count; i++) y[i] = x[i] / n;
}

static void divide_f64(const double *x, double n, double *y, int64_t count) {
  for (int64_t i = 0; i < count; i++) y[i] = x[i] / n;
}

static void store_f32(const dividing *d, int64_t at, int64_t count, float n) {
  const float *x = (const float *)d->from + at;
  float mean[TD_HALF_BLOCK];
  if (!td_is_half(d->dtype)) {
    divide_f32(x, n, (float *)d->to + at, count);
    return;
  }
  for (int64_t i = 0; i < count; i += TD_HALF_BLOCK) {
    int64_t k = count - i < TD_HALF_BLOCK ? count - i : TD_HALF_BLOCK;
    divide_f32(x + i, n, mean, k);
    td_half_store(d->dtype, k, mean, (uint16_t *)d->to + at + i);
  }
}

static void divide_piece(void *arg, int64_t begin, int64_t end) {
  const dividing *d = arg;
  for (int64_t at = begin; at < end;) {
    int64_t row = at / d->row, stop = (row + 1) * d->row;
    int64_t count = (stop < end ? stop : end) - at;
    double n = (double)(d->divisors ? d->divisors[row] : d->n);
    if (d->dtype == TD_FLOAT64)
      divide_f64((const double *)d->from + at, n, (double *)d->to + at, count);
    else
      store_f32(d, at, count, (float)n);
    at += count;
  }
}

static bool all_one(const int64_t *divisors, int64_t n, int64_t rows) {
  for (int64_t i = 0; divisors && i < rows; i++)
    if (divisors[i] != 1) return false;
  return divisors || n == 1;
}

td_status *td_gradient_out(td_kernel_ctx *c, int i, td_dtype t, td_tensor *x,
                           const int64_t *divisors, int64_t n) {
  int64_t rows = divisors ? x->shape.dim[0] : 1, count = td_tensor_count(x);
  td_tensor y = *x;
  if (count == 0 || (t == x->dtype && all_one(divisors, n, rows))) {
    if (count == 0 && t != x->dtype) {
      TD_TRY(make(c, t, &x->shape, &y));
      td_tensor_release(x);
    }
    c->out[i] = y;
    *x = (td_tensor){0};
    return NULL;
  }
  bool fresh = t != x->dtype || !td_buffer_sole(x->buffer);
  if (fresh) TD_TRY(make(c, t, &x->shape, &y));
  dividing d = {t, count / rows, divisors, n, x->data, y.data};
  to_the_end(c, count, TD_GRAIN, divide_piece, &d);
  td_buffer_touch(y.buffer);
  if (fresh) td_tensor_release(x);
  *x = (td_tensor){0};
  c->out[i] = y;
  return NULL;
}
