/* pooling_max.c - the largest cell of each window, its gradient and the
 * gradient of that.
 *
 * As in TensorFlow on a CPU: a NaN is never the larger. In images, maxima begin
 * with the lowest number of the dtype, and dy goes to the first cell that is
 * largest; in volumes a window of NaNs gives NaN, and dy goes to every cell
 * that is equal to the maximum. The second gradient takes from the first cell
 * equal to it in both.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "kernels/pooling.h"

/* What rows of this family differ in. */
typedef struct form {
  int rank;  /* of the tensors */
  int sizes; /* input that is ksize, strides being the next; -1: attributes */
} form;

static const form image = {4, -1}, volume = {5, -1};
static const form image_by_input = {4, 1}, gradient_by_input = {4, 3};

/* ---- the maximum --------------------------------------------------------- */

static td_status *infer_max(td_infer *c, form f) {
  td_pooling_spec spec;
  td_shape out;
  TD_TRY(td_pooling_infer(c, f.rank, f.sizes, &spec));
  TD_TRY(td_pooling_shape(&spec, td_infer_in(c, 0), &out));
  td_infer_out(c, 0, out);
  return NULL;
}

static void max_step(const td_pooling_job *j, const td_pooling_at *at,
                     int64_t from, int64_t n) {
  j->loops->max(&at->w, n, j->in[0] + (size_t)(at->x + from) * j->size,
                j->start, j->out + (size_t)(at->y + from) * j->size);
}

td_status *td_pooling_max_of(const td_kernel_ctx *c, int rank, int sizes,
                             td_pooling *p) {
  td_pooling_spec spec;
  TD_TRY(td_pooling_read(c, rank, sizes, &spec));
  return td_pooling_of(&spec, &td_in(c, 0)->shape, p);
}

static td_status *run_max(td_kernel_ctx *c, form f) {
  td_dtype t = td_in(c, 0)->dtype;
  td_pooling_job j = {.start = f.rank == 4 ? td_pooling_lowest(t) : NAN,
                      .plain = true};
  TD_TRY(td_pooling_max_of(c, f.rank, f.sizes, &j.pool));
  td_status *s = td_pooling_begin(c, &j, 0, 1, &j.pool.out);
  if (td_ok(s)) td_pooling_outputs(c, &j, max_step);
  return td_pooling_end(c, &j, s);
}

/* ---- gradients ----------------------------------------------------------- */

/* orig_input, orig_output and grad, whose shape is that of one of them. */
static td_status *infer_grad(td_infer *c, form f, bool second) {
  td_pooling_spec spec;
  td_shape out, like, y = *td_infer_in(c, 1);
  td_shape_text a, b;
  TD_TRY(td_pooling_infer(c, f.rank, f.sizes, &spec));
  TD_TRY(td_pooling_shape(&spec, td_infer_in(c, 0), &out));
  if (!td_shape_merge(&out, &y, &out))
    return td_error(TD_INVALID_ARGUMENT,
                    "orig_output must be of shape %s, not %s",
                    td_shape_str(&out, &a), td_shape_str(&y, &b));
  like = second ? *td_infer_in(c, 0) : out;
  if (!td_shape_compatible(&like, td_infer_in(c, 2)))
    return td_error(TD_INVALID_ARGUMENT, "grad must be of shape %s, not %s",
                    td_shape_str(&like, &a),
                    td_shape_str(td_infer_in(c, 2), &b));
  td_infer_out(c, 0, second ? out : *td_infer_in(c, 0));
  return NULL;
}

static void first_step(const td_pooling_job *j, const td_pooling_at *at,
                       int64_t from, int64_t n) {
  double best[TD_POOLING_BLOCK];
  int32_t where[TD_POOLING_BLOCK];
  size_t x = (size_t)(at->x + from) * j->size;
  j->loops->find(&at->w, n, j->in[0] + x, best, where);
  j->loops->give(&at->w, n, where, j->in[2] + (size_t)(at->y + from) * j->size,
                 j->out + x);
}

static void all_step(const td_pooling_job *j, const td_pooling_at *at,
                     int64_t from, int64_t n) {
  size_t x = (size_t)(at->x + from) * j->size;
  size_t y = (size_t)(at->y + from) * j->size;
  j->loops->give_equal(&at->w, n, j->in[0] + x, j->in[1] + y, j->in[2] + y,
                       j->out + x);
}

static void second_step(const td_pooling_job *j, const td_pooling_at *at,
                        int64_t from, int64_t n) {
  size_t x = (size_t)(at->x + from) * j->size;
  size_t y = (size_t)(at->y + from) * j->size;
  j->loops->take_equal(&at->w, n, j->in[0] + x, j->in[1] + y, j->in[2] + x,
                       j->out + y);
}

td_status *td_pooling_max_grad_of(const td_kernel_ctx *c, int rank, int sizes,
                                  bool second, td_pooling *p) {
  const td_tensor *x = td_in(c, 0);
  td_pooling_spec spec;
  TD_TRY(td_pooling_read(c, rank, sizes, &spec));
  TD_TRY(td_pooling_of(&spec, &x->shape, p));
  if (second && rank == 5 && td_tensor_count(x) == 0)
    return td_error(TD_INVALID_ARGUMENT, "orig_input must not be empty");
  TD_TRY(td_pooling_check(td_in(c, 1), &p->out, "orig_output"));
  return td_pooling_check(td_in(c, 2), second ? &p->in : &p->out, "grad");
}

static td_status *run_grad(td_kernel_ctx *c, form f, bool second) {
  td_pooling_job j = {.plain = true};
  TD_TRY(td_pooling_max_grad_of(c, f.rank, f.sizes, second, &j.pool));
  td_shape shape = second ? j.pool.out : j.pool.in;
  td_status *s = td_pooling_begin(c, &j, 0, 3, &shape);
  if (td_ok(s) && second) td_pooling_outputs(c, &j, second_step);
  if (td_ok(s) && !second)
    td_pooling_inputs(c, &j, f.rank == 4 ? first_step : all_step);
  return td_pooling_end(c, &j, s);
}

/* ---- cost -----------------------------------------------------------------
 */

static void pool_cost(td_infer *c, td_cost *cost) {
  td_pooling_cost(c, cost, td_infer_out_count(c, 0));
}

static void grad_cost(td_infer *c, td_cost *cost) {
  td_pooling_cost(c, cost, td_infer_in_count(c, 2));
}

/* ---- rows ---------------------------------------------------------------- */

#define MAX_FORM(name, f)                                                      \
  static td_status *infer_##name(td_infer *c) {                                \
    return infer_max(c, f);                                                    \
  }                                                                            \
  static td_status *run_##name(td_kernel_ctx *c) {                             \
    return run_max(c, f);                                                      \
  }
MAX_FORM(pool, image)
MAX_FORM(pool_v2, image_by_input)
MAX_FORM(pool_3d, volume)

#define GRAD_FORM(name, f, second)                                             \
  static td_status *infer_##name(td_infer *c) {                                \
    return infer_grad(c, f, second);                                           \
  }                                                                            \
  static td_status *run_##name(td_kernel_ctx *c) {                             \
    return run_grad(c, f, second);                                             \
  }
GRAD_FORM(pool_grad, image, false)
GRAD_FORM(pool_grad_v2, gradient_by_input, false)
GRAD_FORM(pool_grad_3d, volume, false)
GRAD_FORM(pool_second, image, true)
GRAD_FORM(pool_second_v2, gradient_by_input, true)
GRAD_FORM(pool_second_3d, volume, true)

/* clang-format off */
#define SECTION "Neural-network building blocks"
#define WINDOW(n) \
  "; ksize: list(int) >= " n "; strides: list(int) >= " n "; "
#define PADDING "padding: {\"SAME\", \"VALID\"}; "
#define PADDING_E "padding: {\"SAME\", \"VALID\", \"EXPLICIT\"}; " \
  "explicit_paddings: list(int) = {}; "
#define FORMAT "data_format: {\"NHWC\", \"NCHW\"} = \"NHWC\"; "
#define FORMAT_V "data_format: " \
  "{\"NHWC\", \"NCHW\", \"NCHW_VECT_C\"} = \"NHWC\""
#define FORMAT_3D "data_format: {\"NDHWC\", \"NCDHW\"} = \"NDHWC\"; "
#define FORWARD "T: {half, bfloat16, float, double, int32, int64, uint8, " \
  "int16, int8, uint16, qint8} = float"
#define BACKWARD "T: {float, double, int32, uint8, int16, int8, int64, " \
  "bfloat16, uint16, half, uint32, uint64}"
#define FLOATS_3D "{half, bfloat16, float}"
#define ORIGINAL "orig_input: T, orig_output: T, grad: T"
#define SIZES ", ksize: int32, strides: int32 -> output: T; "
/* clang-format on */

static const td_op_def ops[] = {
    {.type = "MaxPool",
     .sig = "input: T -> output: T; " FORWARD WINDOW("4") PADDING_E FORMAT_V,
     .shape = infer_pool,
     .cost = pool_cost,
     .doc = "The largest element under each window of an image.",
     .lua = "max_pool",
     .example = "td.max_pool({{{{1}, {2}}, {{3}, {4}}}}, 2, 2, \"VALID\")  "
                "--> 4",
     .section = SECTION},
    {.type = "MaxPoolV2",
     .sig = "input: T, ksize: int32, strides: int32 -> output: T; " FORWARD
            "; " PADDING FORMAT_V,
     .shape = infer_pool_v2,
     .cost = pool_cost,
     .doc = "MaxPool with the windows' sizes and steps as operands.",
     .lua = "",
     .host = "ksize, strides",
     .section = SECTION},
    {.type = "MaxPoolGrad",
     .sig = ORIGINAL " -> output: T" WINDOW("4") PADDING_E FORMAT BACKWARD
     " = float",
     .shape = infer_pool_grad,
     .cost = grad_cost,
     .doc = "Gradient of MaxPool: grad where the largest element was.",
     .lua = "",
     .section = SECTION},
    {.type = "MaxPoolGradV2",
     .sig = ORIGINAL SIZES PADDING FORMAT BACKWARD " = float",
     .shape = infer_pool_grad_v2,
     .cost = grad_cost,
     .doc = "Gradient of MaxPoolV2.",
     .lua = "",
     .host = "ksize, strides",
     .section = SECTION},
    {.type = "MaxPoolGradGrad",
     .sig = ORIGINAL " -> output: T" WINDOW("4") PADDING FORMAT BACKWARD,
     .shape = infer_pool_second,
     .cost = pool_cost,
     .doc = "Gradient of MaxPoolGrad: what grad is where the largest was.",
     .lua = "",
     .section = SECTION},
    {.type = "MaxPoolGradGradV2",
     .sig = ORIGINAL SIZES PADDING FORMAT BACKWARD,
     .shape = infer_pool_second_v2,
     .cost = pool_cost,
     .doc = "Gradient of MaxPoolGradV2.",
     .lua = "",
     .host = "ksize, strides",
     .section = SECTION},
    {.type = "MaxPool3D",
     .sig =
         "input: T -> output: T" WINDOW("5") PADDING FORMAT_3D "T: " FLOATS_3D,
     .shape = infer_pool_3d,
     .cost = pool_cost,
     .doc = "The largest element under each window of a volume.",
     .lua = "max_pool3d",
     .section = SECTION},
    {.type = "MaxPool3DGrad",
     .sig =
         "orig_input: TInput, orig_output: TInput, grad: T -> output: T" WINDOW(
             "5") PADDING FORMAT_3D "T: " FLOATS_3D
                                    " = float; TInput: " FLOATS_3D " = float",
     .shape = infer_pool_grad_3d,
     .cost = grad_cost,
     .doc = "Gradient of MaxPool3D: grad wherever the largest element was.",
     .lua = "",
     .section = SECTION},
    {.type = "MaxPool3DGradGrad",
     .sig = ORIGINAL " -> output: T" WINDOW("5") PADDING FORMAT_3D BACKWARD,
     .shape = infer_pool_second_3d,
     .cost = pool_cost,
     .doc = "Gradient of MaxPool3DGrad.",
     .lua = "",
     .section = SECTION},
    {0},
};

#define CPU(type, what, f)                                                     \
  { .op = type, .device = "CPU", .types = what, .run = run_##f }

static const td_kernel_def kernels[] = {
    CPU("MaxPool", TYPES_REALS, pool),
    CPU("MaxPoolV2", TYPES_REALS, pool_v2),
    CPU("MaxPoolGrad", TYPES_REALS, pool_grad),
    CPU("MaxPoolGradV2", TYPES_REALS, pool_grad_v2),
    CPU("MaxPoolGradGrad", TYPES_REALS, pool_second),
    CPU("MaxPoolGradGradV2", TYPES_REALS, pool_second_v2),
    CPU("MaxPool3D", "T=half|bfloat16|float", pool_3d),
    CPU("MaxPool3DGrad", "T=half, TInput=half", pool_grad_3d),
    CPU("MaxPool3DGrad", "T=bfloat16, TInput=bfloat16", pool_grad_3d),
    CPU("MaxPool3DGrad", "T=float, TInput=float", pool_grad_3d),
    CPU("MaxPool3DGradGrad", TYPES_REALS, pool_second_3d),
    {0},
};

TD_MODULE(pooling_max, ops, kernels)
