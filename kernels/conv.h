/* conv.h - convolutions of one, two and three axes: their sizes, and the ways
 * to compute them and their gradients.
 *
 * A convolution is described by one record, made and checked in one place from
 * attributes and shapes; shape functions and kernels share it, and so do both
 * layouts, for which kernels see channels last. Two axes are three with a
 * depth of 1; a depthwise convolution is one with as many groups as channels,
 * whose filter has the same elements in the same order.
 *
 * All is cut into pieces by sizes alone, never by threads, so that results have
 * the same bits for any number of them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CONV_H
#define TD_CONV_H

#include "engine/base/cpu.h"
#include "engine/device/kernel.h"

TD_BEGIN

enum { TD_CONV_AXES = 3 }; /* depth, height, width */

typedef struct td_conv {
  int64_t batch, in_channels, out_channels, groups;
  int64_t in[TD_CONV_AXES], filter[TD_CONV_AXES], out[TD_CONV_AXES];
  int64_t stride[TD_CONV_AXES], dilation[TD_CONV_AXES];
  int64_t before[TD_CONV_AXES], after[TD_CONV_AXES]; /* padding */
} td_conv;

/* ---- sizes ---- */

typedef enum td_conv_padding {
  TD_CONV_SAME,
  TD_CONV_VALID,
  TD_CONV_EXPLICIT,
} td_conv_padding;

/* The attributes of an op. */
typedef struct td_conv_rule {
  int axes;            /* 2 or 3; the last ones of TD_CONV_AXES */
  bool channels_first; /* NCHW, NCDHW */
  bool depthwise;      /* the filter is {.., in, multiplier} */
  bool strict;         /* a filter too large is an error, in a shape function; a
                          kernel gives nothing, as in TensorFlow */
  td_conv_padding padding;
  int64_t stride[TD_CONV_AXES], dilation[TD_CONV_AXES];
  int64_t before[TD_CONV_AXES], after[TD_CONV_AXES]; /* TD_CONV_EXPLICIT */
} td_conv_rule;

/* Reads and checks strides, dilations, padding and data_format; `axes` and
 * `depthwise` are given. */
td_status *td_conv_rule_infer(td_infer *c, int axes, bool depthwise,
                              td_conv_rule *r) TD_MUST_USE;
td_status *td_conv_rule_node(const td_node *n, int axes, bool depthwise,
                             td_conv_rule *r) TD_MUST_USE;

/* The shape of the result, as far as those of the operands, of the right rank,
 * are known. */
td_status *td_conv_shape(const td_conv_rule *r, const td_shape *in,
                         const td_shape *filter, td_shape *out) TD_MUST_USE;
/* The record for known shapes; `out`, when not NULL, must be the result's. */
td_status *td_conv_of(const td_conv_rule *r, const td_shape *in,
                      const td_shape *filter, const td_shape *out,
                      td_conv *c) TD_MUST_USE;
/* Elements from the first to the last that a filter of k reaches, at least 0;
 * false when they cannot be counted. */
bool td_conv_extent(int64_t k, int64_t dilation, int64_t *extent);

/* Places of the result, all images together. */
int64_t td_conv_places(const td_conv *c);
/* Places of a window: 9 for a filter of 3 x 3. */
int64_t td_conv_window(const td_conv *c);
/* Multiply-adds of all, as far as they can be counted. */
int64_t td_conv_work(const td_conv *c);
/* One product of two matrices: a filter of one place at every place. */
bool td_conv_is_product(const td_conv *c);

/* ---- computing ---- */

typedef enum td_conv_pass {
  TD_CONV_FORWARD,
  TD_CONV_DATA,    /* the gradient of the input */
  TD_CONV_WEIGHTS, /* the gradient of the filter */
} td_conv_pass;

/* A kernel's convolution, checked: the result of the pass is output 0, of
 * `shape`; a, b: the inputs in the order of td_conv_data. */
typedef struct td_conv_plan {
  td_conv conv;
  td_conv_rule rule;
  td_conv_pass pass;
  int a, b;
  td_shape shape;
} td_conv_plan;

/* Of an op of this many axes that computes `pass`. */
td_status *td_conv_plan_of(const td_kernel_ctx *c, int axes, bool depthwise,
                           td_conv_pass pass, td_conv_plan *p) TD_MUST_USE;

/* What is convolved with what, dense, channels last: x, filter -> y forward;
 * filter, y -> x; x, y -> filter. The one that is computed is written whole. */
typedef struct td_conv_data {
  td_dtype dtype; /* float, double, int32 */
  void *x, *filter, *y;
} td_conv_data;

/* A whole kernel. Sees to layouts, float16, bfloat16 and empty tensors. */
td_status *td_conv_kernel(td_kernel_ctx *ctx,
                          const td_conv_plan *p) TD_MUST_USE;

/* ---- for the above, and tests of it ---- */

typedef enum td_conv_way {
  TD_CONV_COLUMNS,   /* conv_columns.c: any dtype */
  TD_CONV_DNN,       /* oneDNN: float */
  TD_CONV_WINOGRAD,  /* oneDNN by Winograd's algorithm: 3 x 3, no WEIGHTS */
  TD_CONV_DEPTHWISE, /* conv_depthwise.c: a group for each channel */
} td_conv_way;

/* Computes the pass, where nothing is empty. */
td_status *td_conv_by(td_kernel_ctx *ctx, td_conv_way way, const td_conv *c,
                      td_conv_pass pass, const td_conv_data *d) TD_MUST_USE;

/* Along axis i: the element of the input that a place of the result sees at
 * `offset` in its window; outside the input: -1. */
static inline int64_t td_conv_input_at(const td_conv *c, int i, int64_t out,
                                       int64_t offset) {
  int64_t in = out * c->stride[i] - c->before[i] + offset * c->dilation[i];
  return in >= 0 && in < c->in[i] ? in : -1;
}
/* The place of the result that sees `in` at `offset`; -1: none. */
static inline int64_t td_conv_output_at(const td_conv *c, int i, int64_t in,
                                        int64_t offset) {
  int64_t at = in + c->before[i] - offset * c->dilation[i];
  if (at < 0 || at % c->stride[i] != 0) return -1;
  at /= c->stride[i];
  return at < c->out[i] ? at : -1;
}

/* The ways. UNIMPLEMENTED when oneDNN has none of this kind. */
td_status *td_conv_columns(td_kernel_ctx *ctx, const td_conv *c,
                           td_conv_pass pass,
                           const td_conv_data *d) TD_MUST_USE;
td_status *td_conv_dnn(td_kernel_ctx *ctx, const td_conv *c, td_conv_pass pass,
                       const td_conv_data *d, bool winograd) TD_MUST_USE;
td_status *td_conv_depthwise(td_kernel_ctx *ctx, const td_conv *c,
                             td_conv_pass pass,
                             const td_conv_data *d) TD_MUST_USE;
/* float and double, each group one channel of the input. */
bool td_conv_is_depthwise(const td_conv *c, td_dtype t);

TD_END
#endif
