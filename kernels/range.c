/* range.c - Range and LinSpace.
 *
 * Element i is start + i * delta, not the sum of i additions: it is the same
 * whichever thread computes it. The number of elements is found with the
 * dtype's own rounding, as TensorFlow does; a bfloat16 range may so be one
 * element longer than arithmetic says.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/checks.h"
#include "kernels/cost.h"
#include "kernels/cpu.h"

#include <math.h>

/* ---- Range --------------------------------------------------------------- */

typedef td_range_bounds bounds;

static const char *const bound_names[] = {"start", "limit", "delta"};

/* To the nearest value of the dtype. Sums, differences, products and quotients
 * of two such values may be rounded to double first: the result is the same. */
static double rounded(td_dtype t, double x) {
  if (t == TD_FLOAT32) return (double)(float)x;
  if (t == TD_FLOAT16)
    return (double)td_float_from_half(td_float_to_half((float)x));
  if (t == TD_BFLOAT16)
    return (double)td_float_from_bfloat16(td_float_to_bfloat16((float)x));
  return x;
}

static td_status *take_bound(const td_tensor *t, int k, bounds *b) {
  td_shape_text text;
  if (t->shape.rank > 1 || td_tensor_count(t) != 1)
    return td_error(TD_INVALID_ARGUMENT, "%s must be a scalar, not of shape %s",
                    bound_names[k], td_shape_str(&t->shape, &text));
  b->f[k] = td_tensor_get_f(t, 0);
  b->i[k] = td_tensor_get_i(t, 0);
  return NULL;
}

static td_status *wrong_way(const bounds *b) {
  return td_error(TD_INVALID_ARGUMENT,
                  "a range from %.9g to %.9g by steps of %.9g has no end: "
                  "delta must not be 0 and must lead from start to limit",
                  b->f[0], b->f[1], b->f[2]);
}

static td_status *count_float(const bounds *b, int64_t *n) {
  double start = b->f[0], limit = b->f[1], delta = b->f[2];
  if (delta == 0 || !(delta > 0 ? start <= limit : start >= limit))
    return wrong_way(b);
  double span = rounded(b->dtype, limit - start);
  double size = ceil(fabs(rounded(b->dtype, span / delta)));
  if (!(size < 0x1p63))
    return td_error(TD_INVALID_ARGUMENT,
                    "a range from %.9g to %.9g by steps of %.9g has more than "
                    "2^63-1 elements",
                    start, limit, delta);
  *n = (int64_t)size;
  return NULL;
}

/* Distances of 64-bit integers need 65 bits with the sign: it is known, so
 * that they are taken unsigned. */
static td_status *count_integer(const bounds *b, int64_t *n) {
  int64_t start = b->i[0], limit = b->i[1], delta = b->i[2];
  uint64_t a = (uint64_t)start, z = (uint64_t)limit, d = (uint64_t)delta;
  bool is_unsigned = b->dtype == TD_UINT64;
  bool up = is_unsigned || delta > 0;
  bool ordered = is_unsigned ? a <= z : up ? start <= limit : start >= limit;
  if (d == 0 || !ordered) return wrong_way(b);
  uint64_t span = up ? z - a : a - z, step = up ? d : 0 - d;
  uint64_t count = span / step + (span % step != 0);
  if (count > INT64_MAX)
    return td_error(TD_INVALID_ARGUMENT,
                    "a range from %lld to %lld has more than 2^63-1 elements",
                    (long long)start, (long long)limit);
  *n = (int64_t)count;
  return NULL;
}

static td_status *range_count(const bounds *b, int64_t *n) {
  return td_dtype_is_float(b->dtype) ? count_float(b, n) : count_integer(b, n);
}

/* False when one is not known. */
static td_status *ask_bounds(td_infer *c, bounds *b, bool *known) {
  *b = (bounds){.dtype = td_infer_in_type(c, 0)};
  *known = true;
  for (int k = 0; k < 3; k++) {
    td_small v;
    const td_tensor *t = td_infer_const(c, k);
    if (t) {
      TD_TRY(take_bound(t, k, b));
    } else if (td_infer_small(c, k, &v) && v.count == 1 && v.known[0]) {
      b->i[k] = v.at[0];
      b->f[k] = (double)v.at[0];
    } else {
      *known = false;
    }
  }
  return NULL;
}

static td_status *range_infer(td_infer *c) {
  bounds b;
  bool known;
  int64_t n = -1;
  for (int k = 0; k < 3; k++) {
    const td_shape *s = td_infer_in(c, k);
    if (s->rank > 1 || (s->rank == 1 && s->dim[0] >= 0 && s->dim[0] != 1))
      TD_TRY(td_infer_rank(c, k, 0, bound_names[k], NULL));
  }
  TD_TRY(ask_bounds(c, &b, &known));
  if (known) TD_TRY(range_count(&b, &n));
  td_infer_out(c, 0, n < 0 ? td_shape_ranked(1) : td_shape_vector(n));
  return NULL;
}

static bool range_value(td_infer *c, int out, td_small *v) {
  bounds b;
  bool known = false;
  int64_t n = 0;
  (void)out;
  td_status *s = ask_bounds(c, &b, &known);
  if (td_ok(s) && known) s = range_count(&b, &n);
  known = known && td_ok(s) && n <= TD_SMALL_MAX;
  td_status_release(s);
  if (!known) return false;
  *v = (td_small){.rank = 1, .count = (int)n};
  for (int k = 0; k < n; k++) {
    v->at[k] = (int64_t)((uint64_t)b.i[0] + (uint64_t)k * (uint64_t)b.i[2]);
    v->known[k] = true;
  }
  return true;
}

typedef struct range {
  bounds b;
  td_tensor *y;
} range;

/* Integers wrap, which those inside the bounds never do. */
static void range_fill(void *arg, int64_t begin, int64_t end) {
  const range *r = arg;
  td_dtype dtype = r->b.dtype;
  uint64_t start = (uint64_t)r->b.i[0], delta = (uint64_t)r->b.i[2];
  if (dtype == TD_INT32) {
    int32_t *y = r->y->data;
    for (int64_t i = begin; i < end; i++)
      y[i] = (int32_t)(start + (uint64_t)i * delta);
  } else if (dtype == TD_INT64) {
    int64_t *y = r->y->data;
    for (int64_t i = begin; i < end; i++)
      y[i] = (int64_t)(start + (uint64_t)i * delta);
  } else {
    for (int64_t i = begin; i < end; i++)
      td_tensor_set_i(r->y, i, (int64_t)(start + (uint64_t)i * delta));
  }
}

static void range_fill_float(void *arg, int64_t begin, int64_t end) {
  const range *r = arg;
  td_dtype dtype = r->b.dtype;
  if (dtype == TD_FLOAT32) {
    float *y = r->y->data, start = (float)r->b.f[0], delta = (float)r->b.f[2];
    for (int64_t i = begin; i < end; i++) y[i] = start + (float)i * delta;
    return;
  }
  for (int64_t i = begin; i < end; i++) {
    double x = rounded(dtype, rounded(dtype, (double)i) * r->b.f[2]);
    td_tensor_set_f(r->y, i, r->b.f[0] + x);
  }
}

td_status *td_range_check(const td_kernel_ctx *c, td_range_bounds *b,
                          int64_t *n) {
  *b = (bounds){.dtype = td_in(c, 0)->dtype};
  for (int k = 0; k < 3; k++) TD_TRY(take_bound(td_in(c, k), k, b));
  return range_count(b, n);
}

static td_status *range_run(td_kernel_ctx *c) {
  range r;
  int64_t n = 0;
  TD_TRY(td_range_check(c, &r.b, &n));
  td_shape shape = td_shape_vector(n);
  TD_TRY(td_out(c, 0, &shape, &r.y));
  td_for(c, n, TD_GRAIN,
         td_dtype_is_float(r.b.dtype) ? range_fill_float : range_fill, &r);
  return NULL;
}

/* ---- LinSpace ------------------------------------------------------------ */

static td_status *check_num(int64_t num) {
  if (num > 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "num must be positive, is %lld",
                  (long long)num);
}

static td_status *linspace_infer(td_infer *c) {
  static const char *const names[] = {"start", "stop", "num"};
  td_small v;
  for (int k = 0; k < 3; k++) TD_TRY(td_infer_rank(c, k, 0, names[k], NULL));
  bool known = td_infer_small(c, 2, &v) && v.count == 1 && v.known[0];
  if (known) TD_TRY(check_num(v.at[0]));
  td_infer_out(c, 0, known ? td_shape_vector(v.at[0]) : td_shape_ranked(1));
  return NULL;
}

typedef struct linspace {
  double start, stop;
  int64_t n;
  td_tensor *y;
} linspace;

/* float32 and the halves compute in float, as TensorFlow's float32 does. */
static void linspace_fill(void *arg, int64_t begin, int64_t end) {
  const linspace *l = arg;
  int64_t last = l->n - 1;
  float start = (float)l->start;
  float step = ((float)l->stop - start) / (float)last;
  double wide = (l->stop - l->start) / (double)last;
  for (int64_t i = begin; i < end; i++) {
    double x = start + step * (float)i;
    if (l->y->dtype == TD_FLOAT64) x = l->start + wide * (double)i;
    if (i == last) x = l->stop;
    if (i == 0) x = l->start;
    td_tensor_set_f(l->y, i, x);
  }
}

td_status *td_linspace_check(const td_kernel_ctx *c, double *start,
                             double *stop, int64_t *n) {
  for (int k = 0; k < 3; k++)
    if (td_in(c, k)->shape.rank != 0)
      return td_error(TD_INVALID_ARGUMENT,
                      "start, stop and num must be scalars");
  *start = td_tensor_get_f(td_in(c, 0), 0);
  *stop = td_tensor_get_f(td_in(c, 1), 0);
  *n = td_tensor_get_i(td_in(c, 2), 0);
  return check_num(*n);
}

static td_status *linspace_run(td_kernel_ctx *c) {
  linspace l;
  TD_TRY(td_linspace_check(c, &l.start, &l.stop, &l.n));
  td_shape shape = td_shape_vector(l.n);
  TD_TRY(td_out(c, 0, &shape, &l.y));
  td_for(c, l.n, TD_GRAIN, linspace_fill, &l);
  return NULL;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "Range",
     .sig = "start: Tidx, limit: Tidx, delta: Tidx -> output: Tidx; "
            "Tidx: {bfloat16, half, float, double, int8, int16, int32, int64, "
            "uint16, uint32, uint64} = int32",
     .shape = range_infer,
     .cost = td_cost_fill,
     .value = range_value,
     .doc = "start, start + delta, ... up to, without, limit.",
     .host = "start, limit, delta",
     .section = "Reductions, ranges, segments"},
    {.type = "LinSpace",
     .sig = "start: T, stop: T, num: Tidx -> output: T; "
            "T: {bfloat16, half, float, double}; "
            "Tidx: {int32, int64} = int32",
     .shape = linspace_infer,
     .doc = "num values at equal distances from start to stop, both among "
            "them.",
     .lua = "linspace",
     .host = "start, stop, num",
     .section = "Reductions, ranges, segments"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Range", .device = "CPU", .run = range_run},
    {.op = "LinSpace", .device = "CPU", .run = linspace_run},
    {0},
};

TD_MODULE(range, ops, kernels)
