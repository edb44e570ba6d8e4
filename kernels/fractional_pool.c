/* fractional_pool.c - pooling by a ratio that need not be whole: windows of two
 * sizes in an order drawn anew for each run.
 *
 * Graham (2014), "Fractional max-pooling". Windows of an axis begin at a
 * sequence of places, 0 first and the size of the axis last; they end where the
 * next begins, or on its first cell where they overlap. The random numbers are
 * those of TensorFlow: a run takes the same from the beginning of its stream
 * when seeds are given.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cost.h"
#include "kernels/fractional_pool.h"

#include <math.h>
#include <string.h>

#include "engine/base/entropy.h"
#include "kernels/cpu.h"
#include "kernels/random.h"

/* ---- sequences ----------------------------------------------------------- */

/* Cells of each window: as many of k + 1 as are left over, shuffled. */
static void draw_shuffled(td_philox *p, int64_t in, int64_t out, int64_t *at) {
  uint32_t words[4];
  int64_t k = in / out, more = in % out;
  for (int64_t i = 0; i < out; i++) at[i + 1] = k + (i < more);
  td_philox own = *p;
  for (int64_t i = 0; i < out - 1; i++) {
    if (i % 4 == 0) td_philox_next(&own, words);
    int64_t other = i + words[i % 4] % (uint32_t)(out - i), n = at[i + 1];
    at[i + 1] = at[other + 1];
    at[other + 1] = n;
  }
  td_philox_skip(p, (uint64_t)(out + 3) / 4);
  at[0] = 0;
  for (int64_t i = 0; i < out; i++) at[i + 1] += at[i];
}

/* Places ceil(alpha (i + u)) of one u, all counted from 1. */
static void draw_pseudo(td_philox *p, int64_t in, int64_t out, int64_t *at) {
  uint32_t words[4];
  double alpha = (double)in / (double)out;
  int64_t k = in / out;
  double most = (double)(k + 2) / alpha - 1;
  double last = (double)(in + 1 - k) / alpha - (double)(out - 1);
  td_philox_next(p, words);
  double u = td_random_double(words) * (last < most ? last : most);
  at[0] = 0;
  for (int64_t i = 1; i < out; i++)
    at[i] = (int64_t)ceil(alpha * ((double)i + u)) - 1;
  at[out] = in;
}

/* ---- what is pooled ------------------------------------------------------ */

static td_status *pooled_size(int64_t in, float ratio, int axis, int64_t *out) {
  bool whole = axis == 0 || axis == 3;
  if (!(ratio >= 1) || (whole && ratio != 1))
    return td_error(TD_INVALID_ARGUMENT, "pooling_ratio[%d] must be %s, not %g",
                    axis, whole ? "1" : "1 or more", (double)ratio);
  *out = -1;
  if (in < 0) return NULL;
  if ((float)in < ratio)
    return td_error(TD_INVALID_ARGUMENT,
                    "pooling_ratio[%d], %g, is more than the size there, %lld",
                    axis, (double)ratio, (long long)in);
  double n = floor((double)((float)in / ratio)); /* in float, as TensorFlow */
  *out = whole || n >= (double)in ? in : (int64_t)n;
  return NULL;
}

static td_status *pooled_shape(const td_shape *in, const td_attr *ratios,
                               td_shape *out) {
  td_shape_text text;
  td_shape four = td_shape_ranked(4);
  if (!td_shape_merge(in, &four, out))
    return td_error(TD_INVALID_ARGUMENT,
                    "value must be {batch, rows, columns, channels}, not %s",
                    td_shape_str(in, &text));
  if (ratios->len != 4)
    return td_error(TD_INVALID_ARGUMENT,
                    "pooling_ratio must have 4 values, not %d", ratios->len);
  for (int i = 0; i < 4; i++)
    TD_TRY(pooled_size(out->dim[i], ratios->fs[i], i, &out->dim[i]));
  return NULL;
}

static td_status *check_seeds(bool deterministic, int64_t seed, int64_t seed2) {
  if (deterministic || (seed == 0 && seed2 == 0)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "seed and seed2 are %lld and %lld, but must be 0 unless "
                  "deterministic is true",
                  (long long)seed, (long long)seed2);
}

static td_status *infer(td_infer *c) {
  td_shape out;
  TD_TRY(check_seeds(td_infer_bool(c, "deterministic"), td_infer_int(c, "seed"),
                     td_infer_int(c, "seed2")));
  TD_TRY(
      pooled_shape(td_infer_in(c, 0), td_infer_attr(c, "pooling_ratio"), &out));
  td_infer_out(c, 0, out);
  for (int i = 1; i < 3; i++) {
    int64_t n = out.dim[i] < 0 ? -1 : out.dim[i] + 1;
    td_infer_out(c, i, td_shape_of(1, &n));
  }
  return NULL;
}

/* ---- pooling ------------------------------------------------------------- */

/* Of one window, for every channel. */
#define POOL(kind, sum_type, wide)                                             \
  static void max_##kind(const td_fractional *f, const td_fractional_box *b,   \
                         void *to) {                                           \
    const td_##kind *x = f->x;                                                 \
    td_##kind *y = to;                                                         \
    memcpy(y, x + td_fractional_cell(f, b, b->row[0], b->col[0]),              \
           (size_t)f->depth * sizeof *y);                                      \
    for (int64_t r = b->row[0]; r < b->row[1]; r++)                            \
      for (int64_t q = b->col[0]; q < b->col[1]; q++) {                        \
        const td_##kind *at = x + td_fractional_cell(f, b, r, q);              \
        for (int64_t k = 0; k < f->depth; k++)                                 \
          y[k] = y[k] < at[k] ? at[k] : y[k];                                  \
      }                                                                        \
  }                                                                            \
  static void avg_##kind(const td_fractional *f, const td_fractional_box *b,   \
                         void *to) {                                           \
    const td_##kind *x = f->x;                                                 \
    td_##kind *y = to;                                                         \
    int64_t cells = (b->row[1] - b->row[0]) * (b->col[1] - b->col[0]);         \
    for (int64_t k = 0; k < f->depth; k++) {                                   \
      sum_type sum = 0;                                                        \
      for (int64_t r = b->row[0]; r < b->row[1]; r++)                          \
        for (int64_t q = b->col[0]; q < b->col[1]; q++)                        \
          sum += (sum_type)x[td_fractional_cell(f, b, r, q) + k];              \
      y[k] = (td_##kind)((wide)(td_##kind)sum / (wide)cells);                  \
    }                                                                          \
  }
POOL(f32, float, float)
POOL(f64, double, double)
POOL(i32, uint32_t, int64_t)
POOL(i64, uint64_t, int64_t)

typedef void (*pool_fn)(const td_fractional *, const td_fractional_box *,
                        void *);

static pool_fn pool_of(td_dtype t, bool max) {
  switch (t) {
  case TD_FLOAT32:
    return max ? max_f32 : avg_f32;
  case TD_FLOAT64:
    return max ? max_f64 : avg_f64;
  case TD_INT32:
    return max ? max_i32 : avg_i32;
  default:
    return max ? max_i64 : avg_i64;
  }
}

typedef struct pool_job {
  td_fractional f;
  pool_fn pool;
  char *y;
  size_t row; /* bytes of a window's result */
} pool_job;

static void pool_rows(void *arg, int64_t begin, int64_t end) {
  const pool_job *j = arg;
  for (int64_t i = begin; i < end; i++)
    for (int64_t q = 0; q < j->f.cols; q++) {
      td_fractional_box b =
          td_fractional_window(&j->f, i / j->f.rows, i % j->f.rows, q);
      j->pool(&j->f, &b, j->y + (size_t)(i * j->f.cols + q) * j->row);
    }
}

static td_status *draw(td_kernel_ctx *c, const td_shape *in,
                       const td_shape *out) {
  const td_node *node = td_ctx_node(c);
  bool pseudo = td_node_bool(node, "pseudo_random");
  uint64_t seed = (uint64_t)td_node_int(node, "seed");
  uint64_t seed2 = (uint64_t)td_node_int(node, "seed2");
  td_philox p;
  if (seed == 0 && seed2 == 0) {
    seed = td_entropy();
    seed2 = td_entropy();
  }
  td_philox_init(&p, seed, seed2);
  for (int i = 1; i < 3; i++) {
    td_shape places = td_shape_vector(out->dim[i] + 1);
    td_tensor *at;
    if (out->dim[i] > UINT32_MAX)
      return td_error(TD_INVALID_ARGUMENT,
                      "%lld windows are more than can be drawn, 2^32-1",
                      (long long)out->dim[i]);
    TD_TRY(td_out(c, i, &places, &at));
    (pseudo ? draw_pseudo : draw_shuffled)(&p, in->dim[i], out->dim[i],
                                           at->data);
  }
  return NULL;
}

static td_status *run(td_kernel_ctx *c, bool max) {
  const td_node *node = td_ctx_node(c);
  const td_tensor *x = td_in(c, 0);
  td_shape out;
  td_tensor *y;
  TD_TRY(check_seeds(td_node_bool(node, "deterministic"),
                     td_node_int(node, "seed"), td_node_int(node, "seed2")));
  TD_TRY(pooled_shape(&x->shape, td_node_attr(node, "pooling_ratio"), &out));
  TD_TRY(draw(c, &x->shape, &out));
  TD_TRY(td_out(c, 0, &out, &y));
  pool_job j = {.pool = pool_of(x->dtype, max),
                .y = y->data,
                .row = (size_t)out.dim[3] * td_dtype_size(x->dtype)};
  TD_TRY(td_fractional_of(&j.f, &x->shape, &c->out[1], &c->out[2],
                          td_node_bool(node, "overlapping")));
  j.f.x = x->data;
  if (td_tensor_count(y) > 0)
    td_for(c, out.dim[0] * out.dim[1],
           td_grain_of(x->shape.dim[2] * out.dim[3]), pool_rows, &j);
  return NULL;
}

static td_status *max_run(td_kernel_ctx *c) {
  return run(c, true);
}
static td_status *avg_run(td_kernel_ctx *c) {
  return run(c, false);
}

/* clang-format off */
#define SIG "value: T -> output: T, row_pooling_sequence: int64, " \
  "col_pooling_sequence: int64; pooling_ratio: list(float) >= 4; " \
  "pseudo_random: bool = false; overlapping: bool = false; " \
  "deterministic: bool = false; seed: int = 0; seed2: int = 0; " \
  "T: {float, double, int32, int64}"
/* clang-format on */

static const td_op_def ops[] = {
    {.type = "FractionalMaxPool",
     .sig = SIG,
     .shape = infer,
     .cost = td_cost_reduce,
     .doc = "The largest cells of random windows, pooling_ratio cells wide on "
            "average; and where the windows begin.",
     .lua = "fractional_max_pool",
     .flags = TD_NO_FOLD,
     .example = "td.fractional_max_pool({{{{1.0}, {2.0}}}}, "
                "{pooling_ratio = {1, 1, 2, 1}})  --> 2",
     .section = "Neural-network building blocks"},
    {.type = "FractionalAvgPool",
     .sig = SIG,
     .shape = infer,
     .cost = td_cost_reduce,
     .doc = "The means of random windows, pooling_ratio cells wide on average; "
            "and where the windows begin.",
     .lua = "fractional_avg_pool",
     .flags = TD_NO_FOLD,
     .example = "td.fractional_avg_pool({{{{1.0}, {2.0}}}}, "
                "{pooling_ratio = {1, 1, 2, 1}})  --> 1.5",
     .section = "Neural-network building blocks"},
    {0},
};

#define CPU(type, f)                                                           \
  { .op = type, .device = "CPU", .types = TYPES_LONG, .run = f##_run }

static const td_kernel_def kernels[] = {
    CPU("FractionalMaxPool", max),
    CPU("FractionalAvgPool", avg),
    {0},
};

TD_MODULE(fractional_pool, ops, kernels)
