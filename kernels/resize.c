/* resize.c - the geometry of resizing, and elements as floats.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/resize.h"

#include <math.h>
#include <string.h>

#include "kernels/array.h"
#include "kernels/operand.h"
#include "kernels/cpu.h"

/* ---- shapes -------------------------------------------------------------- */

td_status *td_resize_infer(td_infer *c) {
  td_shape s;
  td_small size;
  bool known;
  TD_TRY(td_infer_rank(c, 0, 4, "images", &s));
  TD_TRY(td_infer_rank(c, 1, 1, "size", NULL));
  TD_TRY(td_operand_infer_ints(c, 1, "size", &size, &known));
  if (known && size.count != 2)
    return td_error(TD_INVALID_ARGUMENT,
                    "size must be {height, width}, not %d numbers", size.count);
  for (int i = 0; i < 2; i++) {
    s.dim[i + 1] = known && size.known[i] ? size.at[i] : -1;
    if (known && size.known[i] && size.at[i] < 1)
      return td_error(TD_INVALID_ARGUMENT,
                      "size must be of 1 pixel or more each way, not %lld",
                      (long long)size.at[i]);
  }
  td_infer_out(c, 0, s);
  return NULL;
}

/* As many pictures and channels as the gradients have. */
static td_shape gradient_shape(const td_shape *grads, const td_shape *picture) {
  td_shape s = *picture;
  s.dim[0] = grads->dim[0];
  s.dim[3] = grads->dim[3];
  return s;
}

td_status *td_resize_infer_grad(td_infer *c) {
  td_shape grads, picture;
  TD_TRY(td_infer_rank(c, 0, 4, "grads", &grads));
  TD_TRY(td_infer_rank(c, 1, 4, "original_image", &picture));
  td_infer_out(c, 0, gradient_shape(&grads, &picture));
  return NULL;
}

/* ---- geometry ------------------------------------------------------------ */

static float scale_of(int64_t in, int64_t out, bool align) {
  return align && out > 1 ? (float)(in - 1) / (float)(out - 1)
                          : (float)in / (float)out;
}

static td_status *no_pixels(const td_shape *s, const char *what) {
  td_shape_text text;
  return td_error(TD_INVALID_ARGUMENT, "%s of shape %s have no pixels", what,
                  td_shape_str(s, &text));
}

static td_status *check_pixels(const td_shape *s, const char *what) {
  td_shape_text text;
  if (s->rank != 4)
    return td_error(TD_INVALID_ARGUMENT,
                    "%s must be {batch, height, width, channels}, not %s", what,
                    td_shape_str(s, &text));
  if (s->dim[1] < 1 || s->dim[2] < 1) return no_pixels(s, what);
  if (s->dim[1] > INT32_MAX || s->dim[2] > INT32_MAX)
    return td_error(TD_INVALID_ARGUMENT, "%s of shape %s are too large", what,
                    td_shape_str(s, &text));
  return NULL;
}

static td_status *set_geometry(const td_kernel_ctx *c, const td_shape *from,
                               const td_shape *to, td_resize *r) {
  const td_node *n = td_ctx_node(c);
  *r = (td_resize){
      .batch = from->dim[0],
      .in_h = from->dim[1],
      .in_w = from->dim[2],
      .out_h = to->dim[1],
      .out_w = to->dim[2],
      .channels = from->dim[3],
      .align = td_node_bool(n, "align_corners"),
      .half = td_node_bool(n, "half_pixel_centers"),
  };
  if (r->align && r->half)
    return td_error(TD_INVALID_ARGUMENT,
                    "align_corners and half_pixel_centers exclude each other");
  r->scale_h = scale_of(r->in_h, r->out_h, r->align);
  r->scale_w = scale_of(r->in_w, r->out_w, r->align);
  return NULL;
}

td_status *td_resize_read(const td_kernel_ctx *c, td_resize *r,
                          td_shape *shape) {
  const td_shape *from = &td_in(c, 0)->shape;
  td_small size;
  TD_TRY(check_pixels(from, "images"));
  if (from->dim[3] < 1) return no_pixels(from, "images");
  TD_TRY(td_operand_ints(td_in(c, 1), "size", &size));
  if (size.rank != 1 || size.count != 2 || size.at[0] < 1 || size.at[1] < 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "size must be {height, width} of 1 pixel or more");
  *shape = *from;
  shape->dim[1] = size.at[0];
  shape->dim[2] = size.at[1];
  TD_TRY(td_array_count(shape, NULL));
  return set_geometry(c, from, shape, r);
}

td_status *td_resize_read_grad(const td_kernel_ctx *c, const td_shape *grads,
                               const td_shape *picture, td_resize *r,
                               td_shape *shape) {
  TD_TRY(check_pixels(grads, "grads"));
  TD_TRY(check_pixels(picture, "pictures"));
  *shape = gradient_shape(grads, picture);
  TD_TRY(td_array_count(shape, NULL));
  return set_geometry(c, shape, grads, r);
}

td_resize_span td_resize_between(float at, int64_t n) {
  float below = floorf(at);
  int64_t low = (int64_t)below, high = (int64_t)ceilf(at);
  if (low < 0) low = 0;
  if (low > n - 1) low = n - 1;
  if (high < 0) high = 0;
  if (high > n - 1) high = n - 1;
  return (td_resize_span){low, high, at - below};
}

void td_resize_spans(const td_resize *r, float scale, int64_t in, int64_t out,
                     td_resize_span *spans) {
  for (int64_t i = 0; i < out; i++)
    spans[i] = td_resize_between(td_resize_at(r, scale, i), in);
}

/* ---- elements ------------------------------------------------------------ */

#define LOAD(type)                                                             \
  for (int64_t i = 0; i < n; i++) to[i] = (float)((const type *)from)[i];      \
  break

void td_resize_load(td_dtype t, int64_t n, const void *from, float *to) {
  switch (t) {
  case TD_UINT8:
    LOAD(uint8_t);
  case TD_INT8:
    LOAD(int8_t);
  case TD_UINT16:
    LOAD(uint16_t);
  case TD_INT16:
    LOAD(int16_t);
  case TD_INT32:
    LOAD(int32_t);
  case TD_INT64:
    LOAD(int64_t);
  case TD_FLOAT64:
    LOAD(double);
  case TD_FLOAT32:
    memcpy(to, from, (size_t)n * sizeof *to);
    break;
  default: /* float16, bfloat16 */
    td_half_load(t, n, from, to);
  }
}

typedef struct load {
  const td_tensor *from;
  float *to;
} load;

static void load_part(void *arg, int64_t begin, int64_t end) {
  const load *l = arg;
  size_t size = td_dtype_size(l->from->dtype);
  td_resize_load(l->from->dtype, end - begin,
                 (const char *)l->from->data + (size_t)begin * size,
                 l->to + begin);
}

td_status *td_resize_floats(td_kernel_ctx *c, const td_tensor *t,
                            td_tensor *out) {
  if (t->dtype == TD_FLOAT32) {
    td_tensor_retain(t, out);
    return NULL;
  }
  TD_TRY(td_temp(c, TD_FLOAT32, &t->shape, out));
  load l = {t, out->data};
  td_for(c, td_tensor_count(t), TD_GRAIN, load_part, &l);
  return NULL;
}

void td_resize_store(td_dtype dtype, int64_t n, const float *from, void *to) {
  if (td_is_half(dtype))
    td_half_store(dtype, n, from, to);
  else if (dtype == TD_FLOAT64)
    for (int64_t i = 0; i < n; i++) ((double *)to)[i] = (double)from[i];
  else
    memcpy(to, from, (size_t)n * sizeof *from);
}
