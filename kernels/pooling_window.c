/* pooling_window.c - where the windows of a pooling op lie.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "kernels/array.h"
#include "kernels/operand.h"
#include "kernels/pooling.h"
#include "kernels/sliding_window.h"

/* ---- what the op says ---------------------------------------------------- */

static td_status *check_sizes(const char *what, int64_t n, int rank) {
  if (n == rank) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "%s must have %d values, one for each dimension, not %lld",
                  what, rank, (long long)n);
}

static td_status *set_sizes(const td_attr *a, const char *what, int rank,
                            int64_t *to) {
  TD_TRY(check_sizes(what, a ? a->len : 0, rank));
  for (int k = 0; k < rank; k++) to[k] = a->is[k];
  return NULL;
}

static td_status *set_small(const td_small *v, const char *what, int rank,
                            int64_t *to) {
  TD_TRY(check_sizes(what, v->count, rank));
  for (int k = 0; k < rank; k++) to[k] = v->at[k];
  return NULL;
}

static int channel_axis(const td_pooling_spec *s) {
  return s->channels_first ? 1 : s->rank - 1;
}

/* The axis of the tensors behind spatial axis k. */
static int spatial_axis(const td_pooling_spec *s, int k) {
  return k + (s->channels_first ? 2 : 1);
}

static bool pools_channels(const td_pooling_spec *s) {
  return s->known && s->ksize[channel_axis(s)] != 1;
}

static td_status *check_channels(const td_pooling_spec *s) {
  int axis = channel_axis(s);
  int64_t window = s->ksize[axis], stride = s->strides[axis];
  if (window != stride)
    return td_error(TD_UNIMPLEMENTED,
                    "a window over channels must not overlap: its size %lld "
                    "must be its stride %lld",
                    (long long)window, (long long)stride);
  if (window == 1) return NULL;
  if (s->rank != 4)
    return td_error(TD_UNIMPLEMENTED, "volumes are not pooled over channels");
  for (int k = 0; k < 2; k++)
    if (s->ksize[spatial_axis(s, k)] != 1 ||
        s->strides[spatial_axis(s, k)] != 1)
      return td_error(TD_UNIMPLEMENTED,
                      "pooling is over channels or over height and width, not "
                      "over both");
  return NULL;
}

static td_status *check_spec(const td_pooling_spec *s) {
  for (int k = 0; k < s->rank; k++)
    if (s->ksize[k] <= 0 || s->strides[k] <= 0)
      return td_error(TD_INVALID_ARGUMENT,
                      "%s must be above 0, and is %lld in dimension %d",
                      s->ksize[k] <= 0 ? "ksize" : "strides",
                      (long long)(s->ksize[k] <= 0 ? s->ksize : s->strides)[k],
                      k);
  if (s->ksize[0] != 1 || s->strides[0] != 1)
    return td_error(TD_UNIMPLEMENTED,
                    "pooling over the batch: ksize and strides must begin with "
                    "1, not with %lld and %lld",
                    (long long)s->ksize[0], (long long)s->strides[0]);
  return check_channels(s);
}

static td_status *check_paddings(const td_pooling_spec *s) {
  const td_attr *a = s->explicit_paddings;
  int axis = channel_axis(s);
  if (strcmp(s->padding, "EXPLICIT") != 0) return NULL;
  if (!a || a->len != 2 * s->rank)
    return td_error(TD_INVALID_ARGUMENT,
                    "explicit_paddings must have %d values, before and after "
                    "each dimension, not %d",
                    2 * s->rank, a ? a->len : 0);
  for (int k = 0; k < a->len; k++) {
    bool fixed = k / 2 == 0 || k / 2 == axis;
    if (a->is[k] < 0 || (fixed && a->is[k] != 0))
      return td_error(TD_INVALID_ARGUMENT,
                      "explicit_paddings[%d] must %s, is %lld", k,
                      fixed ? "be 0, of batch and channels" : "not be negative",
                      (long long)a->is[k]);
    if (!fixed && s->known && a->is[k] >= s->ksize[k / 2])
      return td_error(TD_INVALID_ARGUMENT,
                      "explicit_paddings[%d] is %lld and must be less than the "
                      "window, %lld",
                      k, (long long)a->is[k], (long long)s->ksize[k / 2]);
  }
  return NULL;
}

static td_status *set_format(td_pooling_spec *s, const char *format) {
  s->channels_first = format[1] == 'C';
  if (strcmp(format, "NCHW_VECT_C") != 0) return NULL;
  return td_error(TD_UNIMPLEMENTED,
                  "data_format NCHW_VECT_C is of quantized convolutions on "
                  "GPUs; use NHWC or NCHW");
}

/* A row without data_format (MaxPoolWithArgmax) has the channels last. */
static const char *format_of(const td_attr *a) {
  return a ? a->s.at : "NHWC";
}

td_status *td_pooling_infer(td_infer *c, int rank, int sizes,
                            td_pooling_spec *spec) {
  td_small ksize, strides;
  bool a = true, b = true;
  *spec = (td_pooling_spec){.rank = rank,
                            .strict = true,
                            .padding = td_infer_string(c, "padding"),
                            .explicit_paddings =
                                td_infer_attr(c, "explicit_paddings")};
  TD_TRY(set_format(spec, format_of(td_infer_attr(c, "data_format"))));
  if (sizes < 0) {
    TD_TRY(set_sizes(td_infer_attr(c, "ksize"), "ksize", rank, spec->ksize));
    TD_TRY(
        set_sizes(td_infer_attr(c, "strides"), "strides", rank, spec->strides));
  } else {
    TD_TRY(td_operand_infer_ints(c, sizes, "ksize", &ksize, &a));
    TD_TRY(td_operand_infer_ints(c, sizes + 1, "strides", &strides, &b));
    if (a) TD_TRY(set_small(&ksize, "ksize", rank, spec->ksize));
    if (b) TD_TRY(set_small(&strides, "strides", rank, spec->strides));
    a = a && td_operand_known(&ksize);
    b = b && td_operand_known(&strides);
  }
  spec->known = a && b;
  if (spec->known) TD_TRY(check_spec(spec));
  return check_paddings(spec);
}

void td_pooling_cost(td_infer *c, td_cost *cost, double windows) {
  const td_attr *a = td_infer_attr(c, "ksize");
  td_small v;
  cost->flops = windows;
  if (a) {
    for (int i = 0; i < a->len; i++) cost->flops *= (double)a->is[i];
  } else if (td_infer_small(c, td_infer_inputs(c) - 2, &v)) {
    for (int i = 0; i < v.count; i++)
      cost->flops *= v.known[i] ? (double)v.at[i] : NAN;
  } else {
    cost->flops = NAN;
  }
}

td_status *td_pooling_read(const td_kernel_ctx *c, int rank, int sizes,
                           td_pooling_spec *spec) {
  const td_node *n = td_ctx_node(c);
  td_small v;
  *spec = (td_pooling_spec){.rank = rank,
                            .known = true,
                            .padding = td_node_string(n, "padding"),
                            .explicit_paddings =
                                td_node_attr(n, "explicit_paddings")};
  TD_TRY(set_format(spec, format_of(td_node_attr(n, "data_format"))));
  if (sizes < 0) {
    TD_TRY(set_sizes(td_node_attr(n, "ksize"), "ksize", rank, spec->ksize));
    TD_TRY(
        set_sizes(td_node_attr(n, "strides"), "strides", rank, spec->strides));
  } else {
    TD_TRY(td_operand_ints(td_in(c, sizes), "ksize", &v));
    TD_TRY(set_small(&v, "ksize", rank, spec->ksize));
    TD_TRY(td_operand_ints(td_in(c, sizes + 1), "strides", &v));
    TD_TRY(set_small(&v, "strides", rank, spec->strides));
  }
  TD_TRY(check_spec(spec));
  return check_paddings(spec);
}

/* ---- sizes --------------------------------------------------------------- */

static td_status *too_small(int64_t in, int64_t window, int dimension) {
  return td_error(TD_INVALID_ARGUMENT,
                  "a window of %lld does not fit dimension %d of %lld with its "
                  "padding; use padding SAME or a smaller ksize",
                  (long long)window, dimension, (long long)in);
}

/* Axis k of the tensors; a->in is set. Sizes are at most 2^63 - 1 together, so
 * that sums of a few of them are taken as unsigned. */
static td_status *fit(const td_pooling_spec *s, int k, td_pooling_axis *a) {
  int64_t window = s->ksize[k], stride = s->strides[k], in = a->in;
  a->window = window;
  a->stride = stride;
  a->before = 0;
  if (strcmp(s->padding, "SAME") == 0) {
    a->out = in / stride + (in % stride != 0);
    if (a->out == 0) return NULL;
    int64_t rest = in - (a->out - 1) * stride; /* after the last window began */
    a->before = window > rest ? (window - rest) / 2 : 0;
    return NULL;
  }
  uint64_t whole = (uint64_t)in;
  if (strcmp(s->padding, "EXPLICIT") == 0) {
    a->before = s->explicit_paddings->is[2 * k];
    whole += (uint64_t)a->before;
    whole += (uint64_t)s->explicit_paddings->is[2 * k + 1];
  }
  if (whole <= INT64_MAX &&
      td_sliding_window_count((int64_t)whole, window, stride, &a->out) &&
      (whole >= (uint64_t)window || !s->strict))
    return NULL;
  return too_small(in, window, k);
}

static td_status *wrong_rank(const td_shape *in, int rank) {
  td_shape_text text;
  return td_error(TD_INVALID_ARGUMENT, "the input must be of rank %d, not %s",
                  rank, td_shape_str(in, &text));
}

static td_status *check_divides(int64_t channels, int64_t window) {
  if (channels % window == 0) return NULL;
  return td_error(TD_UNIMPLEMENTED,
                  "a window of %lld channels must divide their number, %lld",
                  (long long)window, (long long)channels);
}

td_status *td_pooling_shape(const td_pooling_spec *spec, const td_shape *in,
                            td_shape *out) {
  int channels = channel_axis(spec);
  *out = td_shape_ranked(spec->rank);
  if (in->rank < 0) return NULL;
  if (in->rank != spec->rank) return wrong_rank(in, spec->rank);
  out->dim[0] = in->dim[0];
  if (spec->known && in->dim[channels] >= 0) {
    TD_TRY(check_divides(in->dim[channels], spec->ksize[channels]));
    out->dim[channels] = in->dim[channels] / spec->ksize[channels];
  }
  for (int k = 0; k < spec->rank - 2; k++) {
    int axis = spatial_axis(spec, k);
    td_pooling_axis a = {.in = in->dim[axis]};
    if (!spec->known || a.in < 0) continue;
    TD_TRY(fit(spec, axis, &a));
    out->dim[axis] = a.out;
  }
  return NULL;
}

/* The channels are the one axis that windows slide along. */
static void over_channels(const td_pooling_spec *spec, td_pooling *p) {
  int axis = channel_axis(spec);
  int64_t window = spec->ksize[axis];
  p->outer = td_shape_span(&p->in, 0, axis);
  p->inner = td_shape_span(&p->in, axis + 1, p->in.rank);
  p->axis[TD_POOLING_AXES - 1] = (td_pooling_axis){.in = p->in.dim[axis],
                                                   .out = p->out.dim[axis],
                                                   .window = window,
                                                   .stride = window};
}

td_status *td_pooling_of(const td_pooling_spec *spec, const td_shape *in,
                         td_pooling *p) {
  int64_t count, cells = 1;
  p->in = *in;
  TD_TRY(td_pooling_shape(spec, in, &p->out));
  TD_TRY(td_array_count(in, &count));
  TD_TRY(td_array_count(&p->out, &count));
  for (int k = 0; k < TD_POOLING_AXES; k++)
    p->axis[k] = (td_pooling_axis){.in = 1, .out = 1, .window = 1, .stride = 1};
  p->channels = 1;
  if (pools_channels(spec)) {
    over_channels(spec, p);
  } else {
    int spatial = spec->rank - 2, first = spatial_axis(spec, 0);
    p->outer = td_shape_span(in, 0, first);
    p->inner = td_shape_span(in, first + spatial, spec->rank);
    if (spec->channels_first) p->channels = in->dim[1];
    for (int k = 0; k < spatial; k++) {
      td_pooling_axis *a = &p->axis[TD_POOLING_AXES - spatial + k];
      a->in = in->dim[first + k];
      TD_TRY(fit(spec, first + k, a));
    }
  }
  for (int k = 0; k < TD_POOLING_AXES; k++) {
    const td_pooling_axis *a = &p->axis[k];
    int64_t most = a->window < a->in ? a->window : a->in;
    if (most > 0) cells = cells > INT32_MAX / most ? INT32_MAX : cells * most;
  }
  if (cells < INT32_MAX) return NULL;
  return td_error(TD_UNIMPLEMENTED, "a window has too many cells; most are %d",
                  INT32_MAX - 1);
}

td_status *td_pooling_check(const td_tensor *t, const td_shape *want,
                            const char *what) {
  td_shape_text is, must;
  if (td_shape_equal(&t->shape, want)) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "%s must be of shape %s, not %s", what,
                  td_shape_str(want, &must), td_shape_str(&t->shape, &is));
}

/* ---- one window ---------------------------------------------------------- */

/* Cells [*begin, *begin + count) of an axis lie under output i. */
static int64_t clip(const td_pooling_axis *a, int64_t i, int64_t *begin) {
  int64_t from = i * a->stride - a->before;
  int64_t room = a->in - from;
  int64_t end = from + (room < a->window ? room : a->window);
  *begin = from < 0 ? 0 : from;
  return end > *begin ? end - *begin : 0;
}

void td_pooling_row(const td_pooling *p, int64_t i, td_pooling_at *at) {
  const td_pooling_axis *a = p->axis;
  int64_t d, h;
  at->row_y = i * a[2].out * p->inner;
  at->w.lane = 1;
  at->w.step[2] = p->inner;
  at->w.step[1] = a[2].in * p->inner;
  at->w.step[0] = a[1].in * at->w.step[1];
  at->w.count[1] = clip(&a[1], i % a[1].out, &h);
  i /= a[1].out;
  at->w.count[0] = clip(&a[0], i % a[0].out, &d);
  at->image = i / a[0].out;
  at->row_x = at->image * a[0].in * at->w.step[0];
  at->row_cell = (d * a[1].in + h) * a[2].in;
}

void td_pooling_place(const td_pooling *p, int64_t k, td_pooling_at *at) {
  int64_t w;
  at->w.count[2] = clip(&p->axis[2], k, &w);
  at->cell = at->row_cell + w;
  at->x = at->row_x + at->cell * p->inner;
  at->y = at->row_y + k * p->inner;
  at->cells = at->w.count[0] * at->w.count[1] * at->w.count[2];
}
