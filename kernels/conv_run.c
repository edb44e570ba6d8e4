/* conv_run.c - who computes a convolution, and what it is given.
 *
 * A table decides, by dtype, sizes and instruction set. All ways take channels
 * last and no dtype narrower than float: other layouts are turned around before
 * and after, which takes a few percent of the time; float16 and bfloat16 are
 * computed in float and rounded once.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/conv.h"
#include "kernels/cpu.h"
#include "kernels/blas/dnn.h"
#include "kernels/half_copy.h"
#include "kernels/strided_copy.h"

/* ---- which way ----------------------------------------------------------- */

/* Up to here the library's call takes longer than the work. */
enum { SMALL = 1 << 14 };

/* Winograd's algorithm takes 4 x 4 places at once, with a quarter of the
 * multiplications: what it does to the filter first must not matter. */
enum { WINOGRAD_PLACES = 1024, WINOGRAD_CHANNELS = 16 };

static bool is_winograd(const td_conv *c, td_conv_pass pass) {
  if (pass == TD_CONV_WEIGHTS || c->groups != 1 || c->filter[0] != 1 ||
      c->in[0] != 1 || c->out[0] != 1 || td_conv_places(c) < WINOGRAD_PLACES)
    return false;
  for (int i = 1; i < TD_CONV_AXES; i++)
    if (c->filter[i] != 3 || c->stride[i] != 1 || c->dilation[i] != 1 ||
        c->before[i] > 1 || c->after[i] > 1)
      return false;
  return c->in_channels % WINOGRAD_CHANNELS == 0 &&
         c->out_channels % WINOGRAD_CHANNELS == 0;
}

/* The way of the table, where its library is there. */
static td_conv_way choose(const td_conv *c, td_conv_pass pass, td_dtype t,
                          td_isa isa) {
  td_conv_way own =
      td_conv_is_depthwise(c, t) ? TD_CONV_DEPTHWISE : TD_CONV_COLUMNS;
  if (t != TD_FLOAT32 || isa < TD_AVX2 || !td_dnn_ready()) return own;
  if (td_conv_is_product(c) || td_conv_work(c) < SMALL) return own;
  return isa >= TD_AVX512 && is_winograd(c, pass) ? TD_CONV_WINOGRAD
                                                  : TD_CONV_DNN;
}

td_status *td_conv_by(td_kernel_ctx *ctx, td_conv_way way, const td_conv *c,
                      td_conv_pass pass, const td_conv_data *d) {
  if (way == TD_CONV_DNN || way == TD_CONV_WINOGRAD)
    return td_conv_dnn(ctx, c, pass, d, way == TD_CONV_WINOGRAD);
  if (way == TD_CONV_DEPTHWISE) return td_conv_depthwise(ctx, c, pass, d);
  return td_conv_columns(ctx, c, pass, d);
}

/* The next best where oneDNN has none of this kind. */
static td_conv_way instead_of(td_conv_way way, const td_conv *c, td_dtype t) {
  if (way == TD_CONV_WINOGRAD) return TD_CONV_DNN;
  return td_conv_is_depthwise(c, t) ? TD_CONV_DEPTHWISE : TD_CONV_COLUMNS;
}

/* Computes the pass, where nothing is empty. */
static td_status *run(td_kernel_ctx *ctx, const td_conv *c, td_conv_pass pass,
                      const td_conv_data *d) {
  td_conv_way way = choose(c, pass, d->dtype, td_cpu_isa());
  td_status *s = td_conv_by(ctx, way, c, pass, d);
  while (td_status_code(s) == TD_UNIMPLEMENTED) {
    td_status_release(s);
    way = instead_of(way, c, d->dtype);
    s = td_conv_by(ctx, way, c, pass, d);
  }
  return s;
}

/* ---- layouts ------------------------------------------------------------- */

/* From channels first to last, or back: `shape` is of channels first. */
static void turn(const td_kernel_ctx *ctx, const td_shape *shape, size_t size,
                 bool to_last, const void *from, void *to) {
  int64_t channels = shape->dim[1];
  int64_t places = td_shape_span(shape, 2, shape->rank);
  td_strided_copy m;
  td_strided_copy_init(&m);
  td_strided_copy_loop(&m, shape->dim[0], channels * places, channels * places);
  if (to_last) {
    td_strided_copy_loop(&m, places, 1, channels);
    td_strided_copy_loop(&m, channels, places, 1);
  } else {
    td_strided_copy_loop(&m, channels, 1, places);
    td_strided_copy_loop(&m, places, channels, 1);
  }
  td_strided_copy_run(ctx, &m, size, from, to);
}

/* ---- operands ------------------------------------------------------------ */

/* A tensor of the op as the ways take it. */
typedef struct operand {
  bool turned; /* it has channels, first */
  td_dtype dtype;
  td_tensor wide, last; /* in float; with channels last; or nothing */
  void *data;
} operand;

static void drop(operand *o) {
  td_tensor_release(&o->wide);
  td_tensor_release(&o->last);
}

/* Makes what memory a tensor other than its own takes; float copies of halves
 * are filled when they are to be read. */
static td_status *prepare(td_kernel_ctx *ctx, const td_tensor *t, bool turned,
                          bool read, operand *o) {
  *o = (operand){.turned = turned, .dtype = t->dtype};
  if (td_is_half(t->dtype)) {
    o->dtype = TD_FLOAT32;
    TD_TRY(read ? td_half_copy_widen(ctx, t, &o->wide)
                : td_temp(ctx, TD_FLOAT32, &t->shape, &o->wide));
  }
  if (turned) TD_TRY(td_temp(ctx, o->dtype, &t->shape, &o->last));
  o->data = turned                 ? o->last.data
            : td_is_half(t->dtype) ? o->wide.data
                                   : t->data;
  return NULL;
}

static td_status *read_operand(td_kernel_ctx *ctx, const td_tensor *t,
                               bool turned, operand *o) {
  TD_TRY(prepare(ctx, t, turned, true, o));
  const void *from = td_is_half(t->dtype) ? o->wide.data : t->data;
  if (turned)
    turn(ctx, &t->shape, td_dtype_size(o->dtype), true, from, o->data);
  return NULL;
}

static void write_operand(td_kernel_ctx *ctx, const operand *o, td_tensor *t) {
  bool half = td_is_half(t->dtype);
  if (o->turned)
    turn(ctx, &t->shape, td_dtype_size(o->dtype), false, o->data,
         half ? o->wide.data : t->data);
  if (half) td_half_copy_narrow(ctx, o->wide.data, t);
}

/* ---- a kernel ------------------------------------------------------------ */

enum { X, FILTER, Y };

static td_status *run_on(td_kernel_ctx *ctx, const td_conv *c,
                         td_conv_pass pass, const operand *x,
                         const operand *filter, const operand *y) {
  td_conv_data d = {x->dtype, x->data, filter->data, y->data};
  return run(ctx, c, pass, &d);
}

td_status *td_conv_kernel(td_kernel_ctx *ctx, const td_conv_plan *p) {
  static const int roles[][3] = {/* of a, b and the result */
                                 {X, FILTER, Y},
                                 {FILTER, Y, X},
                                 {X, Y, FILTER}};
  const int *role = roles[p->pass];
  const td_conv_rule *r = &p->rule;
  const td_tensor *in[] = {td_in(ctx, p->a), td_in(ctx, p->b)};
  operand of[3] = {0};
  td_tensor *out;
  td_status *s = NULL;
  TD_TRY(td_out(ctx, 0, &p->shape, &out));
  if (td_tensor_count(out) == 0) return NULL;
  if (td_tensor_count(in[0]) == 0 || td_tensor_count(in[1]) == 0) {
    memset(out->data, 0, td_tensor_bytes(out));
    return NULL;
  }
  for (int i = 0; i < 2 && td_ok(s); i++)
    s = read_operand(ctx, in[i], r->channels_first && role[i] != FILTER,
                     &of[role[i]]);
  operand *result = &of[role[2]];
  if (td_ok(s))
    s = prepare(ctx, out, r->channels_first && role[2] != FILTER, false,
                result);
  if (td_ok(s)) s = run_on(ctx, &p->conv, p->pass, &of[X], &of[FILTER], &of[Y]);
  if (td_ok(s)) write_operand(ctx, result, out);
  for (int i = 0; i < 3; i++) drop(&of[i]);
  return s;
}
