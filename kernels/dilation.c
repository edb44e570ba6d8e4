/* dilation.c - grayscale dilation of images by a filter, and its gradients.
 *
 * As in TensorFlow on a CPU: a maximum begins with the lowest number of the
 * dtype, a NaN is never the larger, and what is given back goes to the first
 * cell that is largest, or to the first inside the image where none is. Sums of
 * gradients are of one channel by one thread, so that their order is fixed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <string.h>

#include "kernels/array.h"
#include "kernels/cpu.h"
#include "kernels/element.h"
#include "kernels/half_copy.h"
#include "kernels/sliding_window.h"

typedef struct job {
  td_sliding_window y, x;
  int64_t batch, channels;
  td_dtype dtype; /* of the numbers below */
  const void *image, *filter, *given;
  void *to;
  td_tensor held[3], sums; /* float copies of halves */
} job;

/* ---- geometry ------------------------------------------------------------ */

/* Sizes of the result are -1 where those of the operands are not known. */
static td_status *set_job(const td_shape *image, const td_shape *filter,
                          const td_attr *strides, const td_attr *rates,
                          const char *padding, job *j) {
  bool same = strcmp(padding, "SAME") == 0;
  int64_t depth = filter->dim[2];
  TD_TRY(
      td_sliding_window_read(strides, "strides", &j->y.stride, &j->x.stride));
  TD_TRY(td_sliding_window_read(rates, "rates", &j->y.rate, &j->x.rate));
  j->batch = image->dim[0];
  j->channels = image->dim[3] < 0 ? depth : image->dim[3];
  if (depth >= 0 && j->channels != depth)
    return td_error(TD_INVALID_ARGUMENT,
                    "the filter has %lld channels, the input %lld",
                    (long long)depth, (long long)j->channels);
  j->y.in = image->dim[1], j->x.in = image->dim[2];
  j->y.window = filter->dim[0], j->x.window = filter->dim[1];
  TD_TRY(td_sliding_window_place(&j->y, same));
  return td_sliding_window_place(&j->x, same);
}

static td_shape result_shape(const job *j) {
  return td_shape_of(4, (int64_t[]){j->batch, j->y.out, j->x.out, j->channels});
}

/* `gradient`: of operand 0 or 1; -1: the dilation itself. */
static td_status *infer_any(td_infer *c, int gradient) {
  td_shape image, filter;
  td_shape_text want, is;
  job j;
  TD_TRY(td_infer_rank(c, 0, 4, "the input", &image));
  TD_TRY(td_infer_rank(c, 1, 3, "the filter", &filter));
  TD_TRY(set_job(&image, &filter, td_infer_attr(c, "strides"),
                 td_infer_attr(c, "rates"), td_infer_string(c, "padding"), &j));
  td_shape out = result_shape(&j);
  if (gradient >= 0 && !td_shape_compatible(&out, td_infer_in(c, 2)))
    return td_error(
        TD_INVALID_ARGUMENT, "out_backprop must be of shape %s, not %s",
        td_shape_str(&out, &want), td_shape_str(td_infer_in(c, 2), &is));
  td_infer_out(c, 0, gradient < 0 ? out : gradient ? filter : image);
  return NULL;
}

/* ---- loops --------------------------------------------------------------- */

/* Where the first cell of a window lies. */
static int64_t begin_of(const td_sliding_window *a, int64_t i) {
  return i * a->stride - a->before;
}

/* The first cell of a window that is in the image, if any is. */
static int64_t first_in(const td_sliding_window *a, int64_t begin) {
  return begin < 0 ? 0 : begin < a->in ? begin : a->in - 1;
}

/* The largest sum of window (y, x) of an image's channel: *at and *weight are
 * its places in image and filter, in elements. */
#define LARGEST(kind, least)                                                   \
  static td_##kind largest_##kind(const job *j, const td_##kind *image,        \
                                  const td_##kind *filter, int64_t y,          \
                                  int64_t x, int64_t *at, int64_t *weight) {   \
    int64_t top = begin_of(&j->y, y), left = begin_of(&j->x, x);               \
    td_##kind most = least;                                                    \
    *weight = 0;                                                               \
    *at = (first_in(&j->y, top) * j->x.in + first_in(&j->x, left)) *           \
          j->channels;                                                         \
    for (int64_t h = 0; h < j->y.window; h++) {                                \
      int64_t row = top + h * j->y.rate;                                       \
      if (row < 0 || row >= j->y.in) continue;                                 \
      for (int64_t k = 0; k < j->x.window; k++) {                              \
        int64_t column = left + k * j->x.rate;                                 \
        if (column < 0 || column >= j->x.in) continue;                         \
        int64_t from = (row * j->x.in + column) * j->channels;                 \
        int64_t by = (h * j->x.window + k) * j->channels;                      \
        td_##kind sum = (td_##kind)(image[from] + filter[by]);                 \
        if (sum > most) most = sum, *at = from, *weight = by;                  \
      }                                                                        \
    }                                                                          \
    return most;                                                               \
  }

/* Rows of outputs; channels of the filter; channels of images. */
#define LOOPS(kind, ...)                                                       \
  static void rows_##kind(const job *j, int64_t begin, int64_t end) {          \
    int64_t area = j->y.in * j->x.in, at, weight;                              \
    for (int64_t i = begin; i < end; i++) {                                    \
      const td_##kind *image =                                                 \
          (const td_##kind *)j->image + i / j->y.out * area * j->channels;     \
      td_##kind *to = (td_##kind *)j->to + i * j->x.out * j->channels;         \
      for (int64_t x = 0; x < j->x.out; x++)                                   \
        for (int64_t c = 0; c < j->channels; c++)                              \
          *to++ =                                                              \
              largest_##kind(j, image + c, (const td_##kind *)j->filter + c,   \
                             i % j->y.out, x, &at, &weight);                   \
    }                                                                          \
  }                                                                            \
  static void give_##kind(const job *j, int64_t image, int64_t c,              \
                          bool to_filter) {                                    \
    int64_t in = j->y.in * j->x.in * j->channels, at, weight;                  \
    const td_##kind *from = (const td_##kind *)j->image + image * in + c;      \
    const td_##kind *dy = (const td_##kind *)j->given +                        \
                          image * j->y.out * j->x.out * j->channels + c;       \
    td_##kind *to = (td_##kind *)j->to + (to_filter ? 0 : image * in) + c;     \
    for (int64_t y = 0; y < j->y.out; y++)                                     \
      for (int64_t x = 0; x < j->x.out; x++, dy += j->channels) {              \
        largest_##kind(j, from, (const td_##kind *)j->filter + c, y, x, &at,   \
                       &weight);                                               \
        td_##kind *cell = to + (to_filter ? weight : at);                      \
        *cell = (td_##kind)(*cell + *dy);                                      \
      }                                                                        \
  }

/* clang-format off */
LARGEST(f32, -FLT_MAX) LARGEST(f64, -DBL_MAX)
LARGEST(i8, INT8_MIN) LARGEST(i16, INT16_MIN)
LARGEST(i32, INT32_MIN) LARGEST(i64, INT64_MIN)
LARGEST(u8, 0) LARGEST(u16, 0) LARGEST(u32, 0) LARGEST(u64, 0)
EACH_REALS(LOOPS)

#define ROWS(kind, ...) \
  case TD_ELEMENT_##kind: rows_##kind(j, begin, end); break;
#define GIVE(kind, ...) \
  case TD_ELEMENT_##kind: give_##kind(j, image, c, to_filter); break;
    /* clang-format on */

    static void do_rows(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  switch (j->dtype) {
    EACH_REALS(ROWS)
  default:
    break;
  }
}

static void give(const job *j, int64_t image, int64_t c, bool to_filter) {
  switch (j->dtype) {
    EACH_REALS(GIVE)
  default:
    break;
  }
}

static void do_images(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  for (int64_t i = begin; i < end; i++)
    give(j, i / j->channels, i % j->channels, false);
}

static void do_filters(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  for (int64_t c = begin; c < end; c++)
    for (int64_t i = 0; i < j->batch; i++) give(j, i, c, true);
}

/* ---- kernels ------------------------------------------------------------- */

static td_status *check_operands(td_kernel_ctx *c, int gradient, job *j) {
  const td_node *n = td_ctx_node(c);
  const td_shape *image = &td_in(c, 0)->shape, *filter = &td_in(c, 1)->shape;
  td_shape_text a, b;
  if (image->rank != 4 || filter->rank != 3)
    return td_error(TD_INVALID_ARGUMENT,
                    "the input must be of rank 4 and the filter of rank 3, not "
                    "%s and %s",
                    td_shape_str(image, &a), td_shape_str(filter, &b));
  TD_TRY(set_job(image, filter, td_node_attr(n, "strides"),
                 td_node_attr(n, "rates"), td_node_string(n, "padding"), j));
  td_shape out = result_shape(j);
  if (gradient >= 0 && !td_shape_equal(&out, &td_in(c, 2)->shape))
    return td_error(
        TD_INVALID_ARGUMENT, "out_backprop must be of shape %s, not %s",
        td_shape_str(&out, &a), td_shape_str(&td_in(c, 2)->shape, &b));
  return NULL;
}

/* Operands and result as numbers that loops run over. */
static td_status *open_operands(td_kernel_ctx *c, int n, td_tensor *result,
                                job *j) {
  const void **to[] = {&j->image, &j->filter, &j->given};
  bool half = td_is_half(result->dtype);
  j->dtype = half ? TD_FLOAT32 : result->dtype;
  for (int i = 0; i < n; i++) {
    if (half) TD_TRY(td_half_copy_widen(c, td_in(c, i), &j->held[i]));
    *to[i] = half ? j->held[i].data : td_in(c, i)->data;
  }
  if (half) TD_TRY(td_temp(c, TD_FLOAT32, &result->shape, &j->sums));
  j->to = half ? j->sums.data : result->data;
  return NULL;
}

static void run_loops(const td_kernel_ctx *c, int gradient, td_tensor *result,
                      job *j) {
  int64_t window = j->y.window * j->x.window, area = j->y.out * j->x.out;
  if (gradient < 0) {
    td_for(c, j->batch * j->y.out, td_grain_of(j->x.out * j->channels * window),
           do_rows, j);
    return;
  }
  memset(j->to, 0, (size_t)td_tensor_count(result) * td_dtype_size(j->dtype));
  if (area == 0) return;
  if (gradient == 0)
    td_for(c, j->batch * j->channels, td_grain_of(area * window), do_images, j);
  else
    td_for(c, j->channels, td_grain_of(area * window), do_filters, j);
}

static td_status *run_any(td_kernel_ctx *c, int gradient) {
  td_tensor *result;
  job j = {0};
  TD_TRY(check_operands(c, gradient, &j));
  td_shape out = result_shape(&j);
  const td_shape *shape = gradient < 0 ? &out : &td_in(c, gradient)->shape;
  TD_TRY(td_array_count(shape, NULL));
  TD_TRY(td_out(c, 0, shape, &result));
  if (td_tensor_count(result) == 0) return NULL;
  td_status *s = open_operands(c, gradient < 0 ? 2 : 3, result, &j);
  if (td_ok(s)) run_loops(c, gradient, result, &j);
  if (td_ok(s) && td_is_half(result->dtype))
    td_half_copy_narrow(c, j.sums.data, result);
  for (size_t i = 0; i < TD_COUNT(j.held); i++) td_tensor_release(&j.held[i]);
  td_tensor_release(&j.sums);
  return s;
}

#define FORM(name, gradient)                                                   \
  static td_status *infer_##name(td_infer *c) {                                \
    return infer_any(c, gradient);                                             \
  }                                                                            \
  static td_status *run_##name(td_kernel_ctx *c) {                             \
    return run_any(c, gradient);                                               \
  }
FORM(dilation, -1)
FORM(input, 0)
FORM(filter, 1)

/* ---- cost -----------------------------------------------------------------
 */

/* An addition and a comparison for each tap at each place of the result. */
static void dilation_cost(td_infer *c, td_cost *cost) {
  const td_shape *filter = td_infer_in(c, 1);
  double places = td_infer_inputs(c) > 2 ? td_infer_in_count(c, 2)
                                         : td_infer_out_count(c, 0);
  cost->flops =
      2 * places * td_infer_size(filter, 0) * td_infer_size(filter, 1);
}

/* ---- tables -------------------------------------------------------------- */

/* clang-format off */
#define ATTRS "; T: {float, double, int32, uint8, int16, int8, int64, " \
  "bfloat16, uint16, half, uint32, uint64}; strides: list(int) >= 4; " \
  "rates: list(int) >= 4; padding: {\"SAME\", \"VALID\"}"
/* clang-format on */

static const td_op_def ops[] = {
    {.type = "Dilation2D",
     .sig = "input: T, filter: T -> output: T" ATTRS,
     .shape = infer_dilation,
     .cost = dilation_cost,
     .doc = "The largest of input + filter under a window that slides over "
            "images, channel by channel.",
     .lua = "dilation2d",
     .example = "td.dilation2d({{{{1}, {5}, {2}}}}, {{{0}, {3}}}, {strides = "
                "{1, 1, 1, 1}, rates = {1, 1, 1, 1}, padding = \"VALID\"})  "
                "--> 8 5",
     .section = "Neural-network building blocks"},
    {.type = "Dilation2DBackpropInput",
     .sig = "input: T, filter: T, out_backprop: T -> in_backprop: T" ATTRS,
     .shape = infer_input,
     .cost = dilation_cost,
     .doc = "Gradient of Dilation2D for its input.",
     .lua = "",
     .section = "Neural-network building blocks"},
    {.type = "Dilation2DBackpropFilter",
     .sig = "input: T, filter: T, out_backprop: T -> filter_backprop: T" ATTRS,
     .shape = infer_filter,
     .cost = dilation_cost,
     .doc = "Gradient of Dilation2D for its filter.",
     .lua = "",
     .section = "Neural-network building blocks"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Dilation2D", .device = "CPU", .run = run_dilation},
    {.op = "Dilation2DBackpropInput", .device = "CPU", .run = run_input},
    {.op = "Dilation2DBackpropFilter", .device = "CPU", .run = run_filter},
    {0},
};

TD_MODULE(dilation, ops, kernels)
