/* fractional_pool_grad.c - gradients of fractional pooling.
 *
 * A maximum passes its gradient on to the first cell of its window that has it,
 * a mean shares it out. Windows may overlap, so that images, which do not, are
 * what threads share; sums are in double, as in TensorFlow.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/cpu.h"
#include "kernels/fractional_pool.h"
#include "kernels/operand.h"
#include "kernels/array.h"

/* ---- sequences ----------------------------------------------------------- */

static td_status *check_sequence(const td_tensor *t, const char *what,
                                 int64_t size) {
  td_shape_text text;
  const int64_t *at = t->data;
  int64_t n = td_tensor_count(t);
  if (t->shape.rank != 1 || n < 2)
    return td_error(TD_INVALID_ARGUMENT,
                    "%s must be a vector of 2 places at least, not %s", what,
                    td_shape_str(&t->shape, &text));
  for (int64_t i = 0; i < n; i++)
    if (at[i] < 0 || at[i] > size || (i > 0 && at[i] <= at[i - 1]))
      return td_error(TD_INVALID_ARGUMENT,
                      "%s must ascend in [0, %lld]: place %lld is %lld", what,
                      (long long)size, (long long)i, (long long)at[i]);
  return NULL;
}

td_status *td_fractional_of(td_fractional *f, const td_shape *in,
                            const td_tensor *row_at, const td_tensor *col_at,
                            bool overlapping) {
  TD_TRY(check_sequence(row_at, "row_pooling_sequence", in->dim[1]));
  TD_TRY(check_sequence(col_at, "col_pooling_sequence", in->dim[2]));
  *f = (td_fractional){.height = in->dim[1],
                       .width = in->dim[2],
                       .depth = in->dim[3],
                       .rows = td_tensor_count(row_at) - 1,
                       .cols = td_tensor_count(col_at) - 1,
                       .row_at = row_at->data,
                       .col_at = col_at->data,
                       .overlapping = overlapping};
  return NULL;
}

/* ---- gradients of one window --------------------------------------------- */

typedef struct back_job {
  td_fractional f;
  const void *dy; /* {batch, rows, cols, depth} */
  void *dx;
  double *sums; /* {batch, height, width, depth} of a mean; zeros at first */
  void (*back)(const struct back_job *j, const td_fractional_box *b,
               int64_t from);
} back_job;

#define BACK(kind)                                                             \
  static void max_##kind(const back_job *j, const td_fractional_box *b,        \
                         int64_t from) {                                       \
    const td_##kind *x = j->f.x, *dy = (const td_##kind *)j->dy + from;        \
    for (int64_t k = 0; k < j->f.depth; k++) {                                 \
      int64_t best = td_fractional_cell(&j->f, b, b->row[0], b->col[0]) + k;   \
      for (int64_t r = b->row[0]; r < b->row[1]; r++)                          \
        for (int64_t q = b->col[0]; q < b->col[1]; q++) {                      \
          int64_t at = td_fractional_cell(&j->f, b, r, q) + k;                 \
          if (x[best] < x[at]) best = at;                                      \
        }                                                                      \
      ((td_##kind *)j->dx)[best] += dy[k];                                     \
    }                                                                          \
  }                                                                            \
  static void avg_##kind(const back_job *j, const td_fractional_box *b,        \
                         int64_t from) {                                       \
    const td_##kind *dy = (const td_##kind *)j->dy + from;                     \
    double cells =                                                             \
        (double)((b->row[1] - b->row[0]) * (b->col[1] - b->col[0]));           \
    for (int64_t r = b->row[0]; r < b->row[1]; r++)                            \
      for (int64_t q = b->col[0]; q < b->col[1]; q++) {                        \
        double *to = j->sums + td_fractional_cell(&j->f, b, r, q);             \
        for (int64_t k = 0; k < j->f.depth; k++)                               \
          to[k] += (double)dy[k] / cells;                                      \
      }                                                                        \
  }
BACK(f32)
BACK(f64)
BACK(i32)
BACK(i64)

static void choose(back_job *j, td_dtype t, bool max) {
  j->back = max ? max_i64 : avg_i64;
  if (t == TD_FLOAT32) j->back = max ? max_f32 : avg_f32;
  if (t == TD_FLOAT64) j->back = max ? max_f64 : avg_f64;
  if (t == TD_INT32) j->back = max ? max_i32 : avg_i32;
}

static void do_images(void *arg, int64_t begin, int64_t end) {
  const back_job *j = arg;
  const td_fractional *f = &j->f;
  for (int64_t i = begin; i < end; i++)
    for (int64_t r = 0; r < f->rows; r++)
      for (int64_t q = 0; q < f->cols; q++) {
        td_fractional_box b = td_fractional_window(f, i, r, q);
        j->back(j, &b, ((i * f->rows + r) * f->cols + q) * f->depth);
      }
}

static void go(td_kernel_ctx *c, back_job *j, const td_shape *in) {
  td_for(c, in->dim[0], td_grain_of(td_shape_span(in, 1, 4)), do_images, j);
}

/* out_backprop has an element for each window and channel. */
static td_status *check_backprop(const td_fractional *f, const td_shape *in,
                                 const td_shape *dy, const char *what) {
  td_shape_text a, b;
  td_shape want =
      td_shape_of(4, (int64_t[]){in->dim[0], f->rows, f->cols, in->dim[3]});
  if (td_shape_equal(&want, dy)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "%s must be %s, as the sequences say, not %s", what,
                  td_shape_str(&want, &a), td_shape_str(dy, &b));
}

static td_status *check_image(const td_shape *s, const char *what) {
  td_shape_text text;
  td_shape four = td_shape_ranked(4);
  if (td_shape_compatible(s, &four)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "%s must be {batch, rows, columns, channels}, not %s", what,
                  td_shape_str(s, &text));
}

/* ---- FractionalMaxPoolGrad ----------------------------------------------- */

static td_status *max_infer(td_infer *c) {
  static const char *const names[] = {"orig_input", "orig_output",
                                      "out_backprop"};
  for (int i = 0; i < 3; i++) TD_TRY(check_image(td_infer_in(c, i), names[i]));
  TD_TRY(td_infer_rank(c, 3, 1, "row_pooling_sequence", NULL));
  TD_TRY(td_infer_rank(c, 4, 1, "col_pooling_sequence", NULL));
  const td_shape *x = td_infer_in(c, 0);
  td_infer_out(c, 0, x->rank == 4 ? *x : td_shape_ranked(4));
  return NULL;
}

static td_status *max_run(td_kernel_ctx *c) {
  const td_tensor *x = td_in(c, 0);
  const td_shape *in = &x->shape;
  td_tensor *dx;
  back_job j = {.dy = td_in(c, 2)->data};
  bool overlapping = td_node_bool(td_ctx_node(c), "overlapping");
  TD_TRY(check_image(in, "orig_input"));
  TD_TRY(td_fractional_of(&j.f, in, td_in(c, 3), td_in(c, 4), overlapping));
  TD_TRY(check_backprop(&j.f, in, &td_in(c, 1)->shape, "orig_output"));
  TD_TRY(check_backprop(&j.f, in, &td_in(c, 2)->shape, "out_backprop"));
  if (td_tensor_count(x) == 0)
    return td_error(TD_INVALID_ARGUMENT, "orig_input must not be empty");
  TD_TRY(td_out(c, 0, in, &dx));
  memset(dx->data, 0, td_tensor_bytes(dx));
  j.f.x = x->data;
  j.dx = dx->data;
  choose(&j, x->dtype, true);
  go(c, &j, in);
  return NULL;
}

/* ---- FractionalAvgPoolGrad ----------------------------------------------- */

static td_status *avg_infer(td_infer *c) {
  td_shape in;
  TD_TRY(check_image(td_infer_in(c, 1), "out_backprop"));
  TD_TRY(td_infer_rank(c, 0, 1, "orig_input_tensor_shape", NULL));
  TD_TRY(td_infer_rank(c, 2, 1, "row_pooling_sequence", NULL));
  TD_TRY(td_infer_rank(c, 3, 1, "col_pooling_sequence", NULL));
  TD_TRY(td_infer_shape_from(c, 0, &in));
  TD_TRY(check_image(&in, "orig_input_tensor_shape"));
  td_infer_out(c, 0, in.rank == 4 ? in : td_shape_ranked(4));
  return NULL;
}

typedef struct narrow_job {
  const double *from;
  td_tensor *to;
} narrow_job;

/* Cut to a whole number that the dtype has. */
static int64_t whole(double x, td_dtype t) {
  double high = t == TD_INT32 ? 2147483647.0 : 9223372036854774784.0;
  double low = t == TD_INT32 ? -2147483648.0 : -9223372036854775808.0;
  return (int64_t)(x > high ? high : x < low ? low : x);
}

static void narrow(void *arg, int64_t begin, int64_t end) {
  const narrow_job *j = arg;
  for (int64_t i = begin; i < end; i++)
    if (j->to->dtype == TD_FLOAT32)
      ((float *)j->to->data)[i] = (float)j->from[i];
    else if (j->to->dtype == TD_FLOAT64)
      ((double *)j->to->data)[i] = j->from[i];
    else
      td_tensor_set_i(j->to, i, whole(j->from[i], j->to->dtype));
}

static td_status *avg_run(td_kernel_ctx *c) {
  const td_tensor *dy = td_in(c, 1);
  td_tensor sums = {0}, *dx;
  td_shape in;
  back_job j = {.dy = dy->data};
  bool overlapping = td_node_bool(td_ctx_node(c), "overlapping");
  TD_TRY(td_operand_shape(td_in(c, 0), "orig_input_tensor_shape", &in));
  TD_TRY(check_image(&in, "orig_input_tensor_shape"));
  TD_TRY(td_array_count(&in, NULL));
  TD_TRY(td_fractional_of(&j.f, &in, td_in(c, 2), td_in(c, 3), overlapping));
  TD_TRY(check_backprop(&j.f, &in, &dy->shape, "out_backprop"));
  TD_TRY(td_out(c, 0, &in, &dx));
  if (td_tensor_count(dx) == 0) return NULL;
  TD_TRY(td_temp(c, TD_FLOAT64, &in, &sums));
  memset(sums.data, 0, td_tensor_bytes(&sums));
  j.sums = sums.data;
  choose(&j, dy->dtype, false);
  go(c, &j, &in);
  narrow_job n = {sums.data, dx};
  td_for(c, td_tensor_count(dx), TD_GRAIN, narrow, &n);
  td_tensor_release(&sums);
  return NULL;
}

/* ---- tables -------------------------------------------------------------- */

/* clang-format off */
#define END "row_pooling_sequence: int64, col_pooling_sequence: int64 -> " \
  "output: T; overlapping: bool = false; T: {float, double, int32, int64}"
/* clang-format on */

static const td_op_def ops[] = {
    {.type = "FractionalMaxPoolGrad",
     .sig = "orig_input: T, orig_output: T, out_backprop: T, " END,
     .shape = max_infer,
     .doc = "Gradient of FractionalMaxPool.",
     .lua = "",
     .section = "Neural-network building blocks"},
    {.type = "FractionalAvgPoolGrad",
     .sig = "orig_input_tensor_shape: int64, out_backprop: T, " END,
     .shape = avg_infer,
     .doc = "Gradient of FractionalAvgPool.",
     .lua = "",
     .host = "orig_input_tensor_shape",
     .section = "Neural-network building blocks"},
    {0},
};

#define CPU(type, f)                                                           \
  { .op = type, .device = "CPU", .types = TYPES_LONG, .run = f##_run }

static const td_kernel_def kernels[] = {
    CPU("FractionalMaxPoolGrad", max),
    CPU("FractionalAvgPoolGrad", avg),
    {0},
};

TD_MODULE(fractional_pool_grad, ops, kernels)
