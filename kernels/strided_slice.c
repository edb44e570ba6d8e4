/* strided_slice.c - StridedSlice and its gradient.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cost.h"
#include "kernels/moves.h"
#include "kernels/strided_slice.h"
#include "kernels/operand.h"

#include <string.h>

/* ---- reading the masks --------------------------------------------------- */

/* Bit i of a mask speaks of position i of the vectors. */
typedef struct masks {
  int64_t begin, end, ellipsis, new_axis, shrink;
} masks;

static bool bit(int64_t mask, int i) {
  return mask >> i & 1;
}

/* The three vectors at one position, as far as known. */
typedef struct position {
  int64_t begin, end, stride;
  bool has_begin, has_end, has_stride; /* known */
  bool all_begin, all_end;             /* masked: from, to the very end */
  bool shrink;
} position;

static position position_at(int i, const td_small *begin, const td_small *end,
                            const td_small *strides, const masks *m) {
  return (position){.begin = begin->at[i],
                    .end = end->at[i],
                    .stride = strides->at[i],
                    .has_begin = begin->known[i],
                    .has_end = end->known[i],
                    .has_stride = strides->known[i],
                    .all_begin = bit(m->begin, i),
                    .all_end = bit(m->end, i),
                    .shrink = bit(m->shrink, i)};
}

/* One element, by index. */
static td_status *take_index(const position *p, int axis, int64_t dim,
                             td_strided_slice *s) {
  int64_t at = p->begin < 0 && dim >= 0 ? p->begin + dim : p->begin;
  s->size[axis] = s->stride[axis] = 1;
  s->begin[axis] = at;
  if (p->has_stride && p->stride < 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "the stride of an index must be positive: dimension %d "
                    "has %lld",
                    axis, (long long)p->stride);
  if (!p->has_begin || dim < 0) {
    s->known = false;
    return NULL;
  }
  if (at < 0 || at >= dim)
    return td_error(TD_INVALID_ARGUMENT,
                    "index %lld is out of range for dimension %d of %lld "
                    "elements",
                    (long long)p->begin, axis, (long long)dim);
  return NULL;
}

/* A bound counted from the front and inside; going backwards, -1 is before the
 * first element. */
static int64_t clamp(int64_t x, int64_t dim, bool back) {
  int64_t low = back ? -1 : 0, high = back ? dim - 1 : dim;
  if (x < 0) x += dim;
  return x < low ? low : x > high ? high : x;
}

static void take_range(const position *p, int axis, int64_t dim,
                       td_strided_slice *s) {
  bool back = p->stride < 0;
  s->size[axis] = -1;
  s->known = s->known && p->has_stride && dim >= 0 &&
             (p->all_begin || p->has_begin) && (p->all_end || p->has_end);
  if (!p->has_stride || dim < 0 || !(p->all_begin || p->has_begin) ||
      !(p->all_end || p->has_end))
    return;
  int64_t begin = back ? dim - 1 : 0, end = back ? -1 : dim;
  if (!p->all_begin) begin = clamp(p->begin, dim, back);
  if (!p->all_end) end = clamp(p->end, dim, back);
  int64_t span = end - begin;
  bool none = span == 0 || (span < 0) != back;
  s->begin[axis] = none ? 0 : begin;
  s->stride[axis] = p->stride;
  s->size[axis] = none ? 0 : span / p->stride + (span % p->stride != 0);
}

static void take_all(int axis, int64_t dim, td_strided_slice *s) {
  s->begin[axis] = 0;
  s->stride[axis] = 1;
  s->size[axis] = dim;
  if (dim < 0) s->known = false;
}

static td_status *add_size(td_strided_slice *s, int64_t size) {
  TD_TRY(td_shape_check_rank(s->out.rank + 1));
  s->out.dim[s->out.rank++] = size;
  return NULL;
}

/* The positions that take an axis each; -1 when there are two ellipses. */
static int axes_taken(int n, const masks *m) {
  int taken = 0, ellipses = 0;
  for (int i = 0; i < n; i++) {
    if (bit(m->ellipsis, i))
      ellipses++;
    else if (!bit(m->new_axis, i))
      taken++;
  }
  return ellipses > 1 ? -1 : taken;
}

static td_status *check_vectors(const td_shape *in, const td_small *begin,
                                const td_small *end, const td_small *strides,
                                const masks *m) {
  if (begin->count != end->count || begin->count != strides->count ||
      begin->rank != 1 || end->rank != 1 || strides->rank != 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "begin, end and strides must be vectors of one length, "
                    "not of %d, %d and %d elements",
                    begin->count, end->count, strides->count);
  int taken = axes_taken(begin->count, m);
  if (taken < 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "a slice can have one ellipsis, not several");
  if (taken > in->rank)
    return td_error(TD_INVALID_ARGUMENT,
                    "%d dimensions are sliced, but the input has %d", taken,
                    in->rank);
  return NULL;
}

/* What an ellipsis, or the end of the vectors, stands for. */
static td_status *take_rest(const td_shape *in, int n, int *axis,
                            td_strided_slice *s) {
  for (int k = 0; k < n; k++, ++*axis) {
    take_all(*axis, in->dim[*axis], s);
    TD_TRY(add_size(s, in->dim[*axis]));
  }
  return NULL;
}

static td_status *take_axis(const position *p, int i, int axis, int64_t dim,
                            td_strided_slice *s) {
  if (p->has_stride && p->stride == 0)
    return td_error(TD_INVALID_ARGUMENT, "strides[%d] must not be 0", i);
  if (p->shrink) return take_index(p, axis, dim, s);
  take_range(p, axis, dim, s);
  return add_size(s, s->size[axis]);
}

/* `in` is of known rank; its sizes and the vectors may be known in part. */
static td_status *parse(const td_shape *in, const td_small *begin,
                        const td_small *end, const td_small *strides,
                        const masks *m, td_strided_slice *s) {
  *s = (td_strided_slice){.rank = in->rank, .known = true};
  TD_TRY(check_vectors(in, begin, end, strides, m));
  int axis = 0, rest = in->rank - axes_taken(begin->count, m);
  bool ellipsis = false;
  for (int i = 0; i < begin->count; i++) {
    if (bit(m->ellipsis, i)) {
      ellipsis = true;
      TD_TRY(take_rest(in, rest, &axis, s));
    } else if (bit(m->new_axis, i)) {
      TD_TRY(add_size(s, 1));
    } else {
      position p = position_at(i, begin, end, strides, m);
      TD_TRY(take_axis(&p, i, axis, in->dim[axis], s));
      axis++;
    }
  }
  return ellipsis ? NULL : take_rest(in, rest, &axis, s);
}

/* The masks of a node that has them as attributes. */
static masks masks_of(const td_node *n) {
  return (masks){.begin = td_node_int(n, "begin_mask"),
                 .end = td_node_int(n, "end_mask"),
                 .ellipsis = td_node_int(n, "ellipsis_mask"),
                 .new_axis = td_node_int(n, "new_axis_mask"),
                 .shrink = td_node_int(n, "shrink_axis_mask")};
}

/* A known slice as a copy: `from` steps through the whole tensor, `to` through
 * what is taken of it. Returns the element of the whole it begins at. */
static int64_t copy_of(const td_strided_slice *s, const td_shape *in,
                       td_strided_copy *m) {
  td_shape taken = td_shape_of(s->rank, s->size);
  int64_t from[TD_MAX_RANK], to[TD_MAX_RANK], first = 0;
  td_shape_strides(in, from);
  td_shape_strides(&taken, to);
  for (int k = 0; k < s->rank; k++) {
    first += s->begin[k] * from[k];
    /* A single round makes no step; the stride may then be of any size. */
    int64_t step = s->size[k] > 1 ? s->stride[k] * from[k] : 0;
    td_strided_copy_loop(m, s->size[k], step, to[k]);
  }
  return first;
}

/* Is a known slice a dense run of elements? */
static bool is_dense(const td_strided_slice *s, const td_shape *in) {
  int k = 0;
  while (k < s->rank && s->size[k] == 1) k++;
  if (k < s->rank && s->stride[k] != 1) return false;
  for (k++; k < s->rank; k++)
    if (s->size[k] != in->dim[k] || s->stride[k] != 1) return false;
  return true;
}

/* ---- StridedSlice -------------------------------------------------------- */

static masks infer_masks(const td_infer *c) {
  return (masks){.begin = td_infer_int(c, "begin_mask"),
                 .end = td_infer_int(c, "end_mask"),
                 .ellipsis = td_infer_int(c, "ellipsis_mask"),
                 .new_axis = td_infer_int(c, "new_axis_mask"),
                 .shrink = td_infer_int(c, "shrink_axis_mask")};
}

static const char *const vector_names[] = {"begin", "end", "strides"};

/* The three vectors from input `first` on; *known is false when not even their
 * length is. One whose length only another tells is as long. */
static td_status *ask_vectors(td_infer *c, int first, td_small v[3],
                              bool *known) {
  bool has[3];
  int any = -1;
  for (int k = 0; k < 3; k++) {
    TD_TRY(td_infer_rank(c, first + k, 1, vector_names[k], NULL));
    TD_TRY(
        td_operand_infer_ints(c, first + k, vector_names[k], &v[k], &has[k]));
    if (has[k]) any = k;
  }
  for (int k = 0; k < 3 && any >= 0; k++)
    if (!has[k]) v[k] = (td_small){.rank = 1, .count = v[any].count};
  *known = any >= 0;
  return NULL;
}

td_status *td_strided_slice_ask(td_infer *c, const td_shape *in, int first,
                                td_shape *out) {
  masks m = infer_masks(c);
  td_strided_slice slice;
  td_small v[3];
  bool known;
  *out = td_shape_unknown();
  TD_TRY(ask_vectors(c, first, v, &known));
  if (!known || in->rank < 0) return NULL;
  TD_TRY(parse(in, &v[0], &v[1], &v[2], &m, &slice));
  *out = slice.out;
  return NULL;
}

static td_status *slice_infer(td_infer *c) {
  td_shape out;
  TD_TRY(td_strided_slice_ask(c, td_infer_in(c, 0), 1, &out));
  td_infer_out(c, 0, out);
  return NULL;
}

/* Of a vector: some of its elements, or one. */
static bool slice_value(td_infer *c, int out, td_small *v) {
  masks m = infer_masks(c);
  td_strided_slice slice = {0};
  td_small all, bounds[3];
  (void)out;
  if (!td_infer_small(c, 0, &all) || all.rank != 1) return false;
  for (int k = 0; k < 3; k++)
    if (!td_infer_small(c, 1 + k, &bounds[k])) return false;
  td_shape in = td_shape_vector(all.count);
  td_status *s = parse(&in, &bounds[0], &bounds[1], &bounds[2], &m, &slice);
  bool good = td_ok(s) && slice.known && slice.out.rank <= 1;
  td_status_release(s);
  if (!good) return false;
  *v = (td_small){.rank = slice.out.rank, .count = (int)slice.size[0]};
  for (int k = 0; k < v->count; k++) {
    int64_t at = slice.begin[0] + k * slice.stride[0];
    v->at[k] = all.at[at];
    v->known[k] = all.known[at];
  }
  return true;
}

td_status *td_strided_slice_read(td_kernel_ctx *c, const td_shape *in,
                                 int first, td_strided_slice *slice) {
  masks m = masks_of(td_ctx_node(c));
  td_small v[3];
  for (int k = 0; k < 3; k++)
    TD_TRY(td_operand_ints(td_in(c, first + k), vector_names[k], &v[k]));
  return parse(in, &v[0], &v[1], &v[2], &m, slice);
}

td_status *td_moves_strided_slice(td_kernel_ctx *c) {
  const td_shape *in = &td_in(c, 0)->shape;
  td_strided_slice slice;
  td_strided_copy m;
  td_strided_copy_init(&m);
  bool taken = false;
  TD_TRY(td_strided_slice_read(c, in, 1, &slice));
  int64_t count = td_shape_count(&slice.out);
  int64_t first = copy_of(&slice, in, &m);
  bool dense = count > 0 && is_dense(&slice, in);
  if (dense && count == td_shape_count(in))
    return td_array_share(c, 0, 0, &slice.out);
  if (dense) TD_TRY(td_array_view(c, 0, 0, first, &slice.out, &taken));
  if (taken) return NULL;
  return td_strided_copy_kernel(c, 0, 0, &slice.out, &m, first);
}

/* ---- StridedSliceGrad ---------------------------------------------------- */

static td_status *bad_gradient(const td_shape *dy, const td_shape *want) {
  td_shape_text a, b;
  return td_error(TD_INVALID_ARGUMENT,
                  "dy must have the shape of the slice, %s, not %s",
                  td_shape_str(want, &a), td_shape_str(dy, &b));
}

static td_status *grad_infer(td_infer *c) {
  td_shape in, want;
  TD_TRY(td_infer_shape_from(c, 0, &in));
  td_infer_out(c, 0, in);
  TD_TRY(td_strided_slice_ask(c, &in, 1, &want));
  if (!td_shape_compatible(td_infer_in(c, 4), &want))
    return bad_gradient(td_infer_in(c, 4), &want);
  return NULL;
}

td_status *td_strided_slice_put(const td_kernel_ctx *c,
                                const td_strided_slice *s,
                                const td_shape *shape, const td_array *part,
                                td_array *whole) {
  td_strided_copy m, back;
  td_strided_copy_init(&m);
  int64_t first = copy_of(s, shape, &m);
  back = m;
  memcpy(back.from, m.to, sizeof m.to);
  memcpy(back.to, m.from, sizeof m.from);
  return td_strided_copy_do(c, &back, whole->size, part->at,
                            whole->at + first * (int64_t)whole->size);
}

/* Zeros, and dy where the slice was taken. */
static td_status *grad_write(td_kernel_ctx *c, const td_shape *shape,
                             const td_strided_slice *slice, const td_array *dy,
                             td_array *y) {
  static const char zero[16];
  td_strided_copy all;
  td_strided_copy_init(&all);
  if (td_shape_count(shape) == 0) return td_array_done(c, 0, y);
  td_strided_copy_loop(&all, td_shape_count(shape), 0, 1);
  TD_TRY(td_strided_copy_spread(c, &all, y->size, zero, y->at));
  TD_TRY(td_strided_slice_put(c, slice, shape, dy, y));
  return td_array_done(c, 0, y);
}

td_status *td_moves_strided_slice_grad(td_kernel_ctx *c) {
  td_strided_slice slice;
  td_shape shape;
  td_array dy = {0}, y = {0};
  TD_TRY(td_operand_shape(td_in(c, 0), "shape", &shape));
  TD_TRY(td_array_count(&shape, NULL));
  TD_TRY(td_strided_slice_read(c, &shape, 1, &slice));
  if (!td_shape_equal(&td_in(c, 4)->shape, &slice.out))
    return bad_gradient(&td_in(c, 4)->shape, &slice.out);
  td_status *s = td_array_in(td_in(c, 4), &dy);
  if (td_ok(s)) s = td_array_out(c, 0, &shape, &y);
  if (td_ok(s)) s = grad_write(c, &shape, &slice, &dy, &y);
  td_array_drop(&dy);
  td_array_drop(&y);
  return s;
}

/* ---- tables -------------------------------------------------------------- */

#define MASKS                                                                  \
  "begin_mask: int = 0; end_mask: int = 0; ellipsis_mask: int = 0; "           \
  "new_axis_mask: int = 0; shrink_axis_mask: int = 0"

static const td_op_def ops[] = {
    {.type = "StridedSlice",
     .sig = "input: T, begin: Index, end: Index, strides: Index -> output: T; "
            "T: type; Index: {int16, int32, int64}; " MASKS,
     .shape = slice_infer,
     .cost = td_cost_take,
     .value = slice_value,
     .doc = "Elements begin, begin + stride, ... before end of every "
            "dimension; bits of the masks leave bounds open, stand for the "
            "dimensions not named, add a dimension or take an index.",
     .host = "begin, end, strides",
     .example = "td.strided_slice({1, 2, 3, 4}, {1}, {4}, {2})  --> 2 4",
     .section = "Array"},
    {.type = "StridedSliceGrad",
     .sig = "shape: Index, begin: Index, end: Index, strides: Index, dy: T -> "
            "output: T; T: type; Index: {int32, int64}; " MASKS,
     .shape = grad_infer,
     .cost = td_cost_move,
     .doc = "The gradient of StridedSlice: zeros of that shape, with dy "
            "where the slice was taken.",
     .lua = "",
     .host = "shape, begin, end, strides",
     .section = "Array"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "StridedSlice", .device = "CPU", .run = td_moves_strided_slice},
    {.op = "StridedSliceGrad",
     .device = "CPU",
     .run = td_moves_strided_slice_grad},
    {0},
};

TD_MODULE(strided_slice, ops, kernels)
