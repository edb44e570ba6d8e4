/* conv_shape.c - the sizes of a convolution, from attributes and shapes.
 *
 * TensorFlow's rules: with k' = (k - 1) dilation + 1, VALID gives
 * (in - k' + stride) / stride, SAME in / stride rounded up, with the odd
 * element of the padding at the end. Every product here is checked: sizes
 * may be anybody's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/array.h"
#include "kernels/conv.h"
#include "kernels/sliding_window.h"

/* ---- attributes ---------------------------------------------------------- */

typedef struct attributes {
  const td_attr *strides, *dilations, *paddings;
  const char *padding, *format;
} attributes;

/* Where axis i of TD_CONV_AXES is in a tensor. */
static int axis_in(const td_conv_rule *r, int i) {
  return i - (TD_CONV_AXES - r->axes) + (r->channels_first ? 2 : 1);
}

static int channels_in(const td_conv_rule *r) {
  return r->channels_first ? 1 : r->axes + 1;
}

/* One integer for each axis of a tensor; those of batch and channels are 1. */
static td_status *read_steps(const td_conv_rule *r, const td_attr *a,
                             const char *what, int64_t *to) {
  int rank = r->axes + 2;
  for (int i = 0; i < TD_CONV_AXES; i++) to[i] = 1;
  if (!a) return NULL;
  if (a->len != rank)
    return td_error(TD_INVALID_ARGUMENT,
                    "%s must have %d elements, one for each axis, not %d", what,
                    rank, (int)a->len);
  for (int i = 0; i < rank; i++)
    if (a->is[i] < 1 || a->is[i] > INT32_MAX)
      return td_error(TD_INVALID_ARGUMENT,
                      "%s must be between 1 and %d, not %lld", what, INT32_MAX,
                      (long long)a->is[i]);
  if (a->is[0] != 1 || a->is[channels_in(r)] != 1)
    return td_error(TD_UNIMPLEMENTED,
                    "%s of batch and channels must be 1, not %lld and %lld",
                    what, (long long)a->is[0],
                    (long long)a->is[channels_in(r)]);
  for (int i = TD_CONV_AXES - r->axes; i < TD_CONV_AXES; i++)
    to[i] = a->is[axis_in(r, i)];
  return NULL;
}

/* A pair for each axis of a tensor; those of batch and channels are 0. */
static td_status *read_paddings(td_conv_rule *r, const td_attr *a) {
  int n = a ? a->len : 0, channels = 2 * channels_in(r);
  int wanted = r->padding == TD_CONV_EXPLICIT ? 2 * (r->axes + 2) : 0;
  if (n != wanted)
    return td_error(TD_INVALID_ARGUMENT,
                    "explicit_paddings must have %d elements with this "
                    "padding, not %d",
                    wanted, n);
  for (int i = 0; i < n; i++)
    if (a->is[i] < 0 || a->is[i] > INT32_MAX)
      return td_error(TD_INVALID_ARGUMENT,
                      "explicit_paddings must be between 0 and %d, not %lld",
                      INT32_MAX, (long long)a->is[i]);
  if (n == 0) return NULL;
  if (a->is[0] || a->is[1] || a->is[channels] || a->is[channels + 1])
    return td_error(TD_INVALID_ARGUMENT,
                    "explicit_paddings of batch and channels must be 0");
  for (int i = TD_CONV_AXES - r->axes; i < TD_CONV_AXES; i++) {
    r->before[i] = a->is[2 * axis_in(r, i)];
    r->after[i] = a->is[2 * axis_in(r, i) + 1];
  }
  return NULL;
}

static td_status *read_rule(const attributes *a, int axes, bool depthwise,
                            td_conv_rule *r) {
  *r = (td_conv_rule){.axes = axes, .depthwise = depthwise};
  r->channels_first = a->format[1] == 'C';
  r->padding = strcmp(a->padding, "SAME") == 0    ? TD_CONV_SAME
               : strcmp(a->padding, "VALID") == 0 ? TD_CONV_VALID
                                                  : TD_CONV_EXPLICIT;
  TD_TRY(read_steps(r, a->strides, "strides", r->stride));
  TD_TRY(read_steps(r, a->dilations, "dilations", r->dilation));
  return read_paddings(r, a->paddings);
}

td_status *td_conv_rule_infer(td_infer *c, int axes, bool depthwise,
                              td_conv_rule *r) {
  attributes a = {td_infer_attr(c, "strides"), td_infer_attr(c, "dilations"),
                  td_infer_attr(c, "explicit_paddings"),
                  td_infer_string(c, "padding"),
                  td_infer_string(c, "data_format")};
  TD_TRY(read_rule(&a, axes, depthwise, r));
  r->strict = true;
  return NULL;
}

td_status *td_conv_rule_node(const td_node *n, int axes, bool depthwise,
                             td_conv_rule *r) {
  attributes a = {td_node_attr(n, "strides"), td_node_attr(n, "dilations"),
                  td_node_attr(n, "explicit_paddings"),
                  td_node_string(n, "padding"),
                  td_node_string(n, "data_format")};
  return read_rule(&a, axes, depthwise, r);
}

/* ---- one axis ------------------------------------------------------------ */

bool td_conv_extent(int64_t k, int64_t dilation, int64_t *extent) {
  int64_t reach = 0;
  if (k > 0 && (__builtin_mul_overflow(k - 1, dilation, &reach) ||
                __builtin_add_overflow(reach, 1, &reach)))
    return false;
  *extent = reach;
  return true;
}

static td_status *too_large(int64_t in, int64_t k) {
  return td_error(TD_INVALID_ARGUMENT,
                  "an input of %lld and a filter of %lld elements along an "
                  "axis are too large",
                  (long long)in, (long long)k);
}

/* The result's size along axis i and the padding; in, k are known. */
static td_status *size_of(const td_conv_rule *r, int i, int64_t in, int64_t k,
                          int64_t *out, int64_t *before, int64_t *after) {
  enum { LARGEST = 62 };
  int64_t extent, stride = r->stride[i];
  if (!td_conv_extent(k, r->dilation[i], &extent) ||
      extent > (int64_t)1 << LARGEST || in > (int64_t)1 << LARGEST)
    return too_large(in, k);
  *before = r->before[i];
  *after = r->after[i];
  if (r->padding == TD_CONV_SAME) {
    *out = in / stride + (in % stride != 0);
    int64_t pad = *out > 0 ? (*out - 1) * stride + extent - in : 0;
    if (pad < 0) pad = 0;
    *before = pad / 2;
    *after = pad - pad / 2;
    return NULL;
  }
  int64_t whole = in + *before + *after;
  if (td_sliding_window_count(whole, extent, stride, out) &&
      (whole >= extent || !r->strict))
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "the result's size would be negative: along an axis the "
                  "input has %lld elements, %lld with padding, and the filter "
                  "reaches over %lld; take a smaller filter or padding "
                  "\"SAME\"",
                  (long long)in, (long long)(in + *before + *after),
                  (long long)extent);
}

/* ---- shapes -------------------------------------------------------------- */

static td_status *check_ranks(const td_conv_rule *r, const td_shape *in,
                              const td_shape *filter) {
  td_shape_text a, b;
  if (in->rank == r->axes + 2 && filter->rank == r->axes + 2) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "input and filter must be of rank %d, not %s and %s",
                  r->axes + 2, td_shape_str(in, &a), td_shape_str(filter, &b));
}

/* Channels of the filter must divide those of the input, and the groups that
 * makes those of the result. */
static td_status *check_channels(const td_conv_rule *r, int64_t in,
                                 int64_t deep, int64_t out) {
  if (in < 0 || deep < 0) return NULL;
  if (r->depthwise ? in == deep : deep > 0 && in > 0 && in % deep == 0) {
    if (r->depthwise || out < 0 || out % (in / deep) == 0) return NULL;
    return td_error(TD_INVALID_ARGUMENT,
                    "%lld groups (%lld channels of the input by %lld of the "
                    "filter) must divide the %lld output channels",
                    (long long)(in / deep), (long long)in, (long long)deep,
                    (long long)out);
  }
  return td_error(TD_INVALID_ARGUMENT,
                  "the input has %lld channels and the filter %lld, which must "
                  "be %s, neither being 0",
                  (long long)in, (long long)deep,
                  r->depthwise ? "as many" : "as many or a divisor");
}

static int64_t channels_out(const td_conv_rule *r, int64_t in,
                            const td_shape *filter) {
  int64_t last = filter->dim[r->axes + 1];
  if (!r->depthwise || last < 0) return last;
  if (in < 0) in = filter->dim[r->axes];
  return in < 0 ? -1 : in * last;
}

td_status *td_conv_shape(const td_conv_rule *r, const td_shape *in,
                         const td_shape *filter, td_shape *out) {
  TD_TRY(check_ranks(r, in, filter));
  int64_t channels = in->dim[channels_in(r)], before, after;
  int64_t deep = filter->dim[r->axes], last = filter->dim[r->axes + 1];
  TD_TRY(check_channels(r, channels, deep, last));
  if (channels > deep) deep = channels;
  if (r->depthwise && last > 0 && deep > INT64_MAX / last)
    return too_large(deep, last);
  *out = td_shape_ranked(r->axes + 2);
  out->dim[0] = in->dim[0];
  out->dim[channels_in(r)] = channels_out(r, channels, filter);
  for (int i = TD_CONV_AXES - r->axes; i < TD_CONV_AXES; i++) {
    int at = axis_in(r, i);
    int64_t k = filter->dim[i - (TD_CONV_AXES - r->axes)];
    if (in->dim[at] < 0 || (k < 0 && r->padding != TD_CONV_SAME)) continue;
    TD_TRY(size_of(r, i, in->dim[at], k < 0 ? 0 : k, &out->dim[at], &before,
                   &after));
  }
  return NULL;
}

static td_status *check_result(const td_shape *given, const td_shape *want,
                               const td_shape *in, const td_shape *filter) {
  td_shape_text g, w, i, f;
  if (td_shape_equal(given, want)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "out_backprop must be of shape %s for an input of shape %s "
                  "and a filter of shape %s, not %s",
                  td_shape_str(want, &w), td_shape_str(in, &i),
                  td_shape_str(filter, &f), td_shape_str(given, &g));
}

td_status *td_conv_of(const td_conv_rule *r, const td_shape *in,
                      const td_shape *filter, const td_shape *out, td_conv *c) {
  td_shape result;
  TD_TRY(td_conv_shape(r, in, filter, &result));
  if (out) TD_TRY(check_result(out, &result, in, filter));
  TD_TRY(td_array_count(&result, NULL));
  TD_TRY(td_array_count(in, NULL));
  TD_TRY(td_array_count(filter, NULL));
  *c = (td_conv){.batch = in->dim[0],
                 .in_channels = in->dim[channels_in(r)],
                 .out_channels = result.dim[channels_in(r)]};
  c->groups =
      r->depthwise ? c->in_channels : c->in_channels / filter->dim[r->axes];
  for (int i = 0; i < TD_CONV_AXES; i++) {
    bool used = i >= TD_CONV_AXES - r->axes;
    c->in[i] = used ? in->dim[axis_in(r, i)] : 1;
    c->filter[i] = used ? filter->dim[i - (TD_CONV_AXES - r->axes)] : 1;
    c->stride[i] = r->stride[i];
    c->dilation[i] = r->dilation[i];
    c->out[i] = 1;
    if (used)
      TD_TRY(size_of(r, i, c->in[i], c->filter[i], &c->out[i], &c->before[i],
                     &c->after[i]));
  }
  return NULL;
}

/* ---- counts -------------------------------------------------------------- */

int64_t td_conv_places(const td_conv *c) {
  return c->batch * c->out[0] * c->out[1] * c->out[2];
}

int64_t td_conv_window(const td_conv *c) {
  return c->filter[0] * c->filter[1] * c->filter[2];
}

int64_t td_conv_work(const td_conv *c) {
  double each = (double)td_conv_window(c) * (double)c->out_channels *
                (double)(c->groups > 0 ? c->in_channels / c->groups : 0);
  double work = each * (double)td_conv_places(c);
  return work < 4e18 ? (int64_t)work : (int64_t)4e18;
}

bool td_conv_is_product(const td_conv *c) {
  if (td_conv_window(c) != 1 || c->groups != 1) return false;
  for (int i = 0; i < TD_CONV_AXES; i++)
    if (c->stride[i] != 1 || c->before[i] != 0 || c->after[i] != 0)
      return false;
  return true;
}
