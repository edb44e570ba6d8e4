/* fill.c - outputs made of few elements: filled, repeated, one-hot, diagonal.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/move.h"

#include <string.h>

/* Bytes that one piece of OneHot writes, about. */
enum { PIECE = 1 << 17 };

/* n elements of output, all the one at `x`. */
static void fill_all(const td_kernel_ctx *c, const td_array *y, const void *x) {
  td_move m = {0};
  td_move_loop(&m, td_shape_count(&y->shape), 0, 1);
  td_move_run(c, &m, y->size, x, y->at);
}

/* ---- Fill ---------------------------------------------------------------- */

static td_status *fill_infer(td_infer *c) {
  td_shape shape;
  TD_TRY(td_infer_rank(c, 1, 0, "value", NULL));
  TD_TRY(td_infer_rank(c, 0, 1, "dims", NULL));
  TD_TRY(td_infer_shape_from(c, 0, &shape));
  td_infer_out(c, 0, shape);
  return NULL;
}

static bool fill_value(td_infer *c, int out, td_small *v) {
  td_small dims, x;
  (void)out;
  if (!td_infer_small(c, 0, &dims) || !td_infer_small(c, 1, &x)) return false;
  if (dims.count > 1 || !td_array_all(&dims) || x.count != 1) return false;
  int64_t n = dims.count ? dims.at[0] : 1;
  if (n < 0 || n > TD_SMALL_MAX) return false;
  *v = (td_small){.rank = dims.count, .count = (int)n};
  for (int k = 0; k < n; k++) {
    v->at[k] = x.at[0];
    v->known[k] = x.known[0];
  }
  return true;
}

static td_status *fill_run(td_kernel_ctx *c) {
  td_shape_text text;
  td_shape shape;
  td_array x = {0}, y = {0};
  TD_TRY(td_array_shape(td_in(c, 0), "dims", &shape));
  if (td_in(c, 1)->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT, "value must be a scalar, not of %s",
                    td_shape_str(&td_in(c, 1)->shape, &text));
  td_status *s = td_array_in(td_in(c, 1), &x);
  if (td_ok(s)) s = td_array_out(c, 0, &shape, &y);
  if (td_ok(s)) {
    fill_all(c, &y, x.at);
    s = td_array_done(c, 0, &y);
  }
  td_array_drop(&x);
  td_array_drop(&y);
  return s;
}

/* ---- ZerosLike, OnesLike ------------------------------------------------- */

/* Takes the memory of its input where it may. */
static td_status *like_run(td_kernel_ctx *c, const void *x) {
  td_array y = {0};
  td_dtype dtype = td_in(c, 0)->dtype;
  if (td_dtype_is_plain(dtype)) {
    td_tensor *t;
    TD_TRY(td_out_like(c, 0, 0, &t));
    y = (td_array){
        .at = t->data, .size = td_dtype_size(dtype), .shape = t->shape};
    fill_all(c, &y, x);
    return NULL;
  }
  TD_TRY(td_array_out(c, 0, &td_in(c, 0)->shape, &y));
  td_status *s = td_array_done(c, 0, &y);
  td_array_drop(&y);
  return s;
}

static td_status *zeros_run(td_kernel_ctx *c) {
  static const char zero[16];
  return like_run(c, zero);
}

static td_status *ones_run(td_kernel_ctx *c) {
  td_tensor one;
  TD_TRY(td_tensor_scalar_i(td_in(c, 0)->dtype, 1, &one));
  td_status *s = like_run(c, one.data);
  td_tensor_release(&one);
  return s;
}

static bool like_value(td_infer *c, td_small *v, int64_t x) {
  if (!td_infer_small(c, 0, v)) return false;
  for (int k = 0; k < v->count; k++) {
    v->at[k] = x;
    v->known[k] = true;
  }
  return true;
}

static bool zeros_value(td_infer *c, int out, td_small *v) {
  (void)out;
  return like_value(c, v, 0);
}

static bool ones_value(td_infer *c, int out, td_small *v) {
  (void)out;
  return like_value(c, v, 1);
}

/* ---- OneHot -------------------------------------------------------------- */

/* The output is {before, depth, after}; before * after are the indices. */
typedef struct one_hot {
  const td_tensor *indices;
  int64_t depth, after;
  int64_t chunk, chunks; /* of the depth, that one unit writes */
  const char *on, *off;
  td_array y;
} one_hot;

static td_status *one_hot_axis(int64_t given, int rank, int *axis) {
  if (rank == TD_MAX_RANK)
    return td_error(TD_INVALID_ARGUMENT,
                    "indices of rank %d have no room for another dimension",
                    rank);
  if (given < -1)
    return td_error(TD_INVALID_ARGUMENT,
                    "axis must be -1 or in [0, %d], is %lld", rank,
                    (long long)given);
  return td_infer_axis(given, rank + 1, "axis", axis);
}

static td_shape one_hot_shape(const td_shape *in, int axis, int64_t depth) {
  td_shape out = td_array_rank(in->rank + 1);
  for (int k = 0; k < in->rank; k++) out.dim[k + (k >= axis)] = in->dim[k];
  out.dim[axis] = depth;
  return out;
}

static td_status *check_depth(int64_t depth) {
  if (depth >= 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "depth must not be negative, is %lld",
                  (long long)depth);
}

static td_status *one_hot_infer(td_infer *c) {
  const td_shape *in = td_infer_in(c, 0);
  td_small v;
  int axis;
  for (int i = 1; i < 4; i++)
    TD_TRY(td_infer_rank(c, i, 0,
                         i == 1   ? "depth"
                         : i == 2 ? "on_value"
                                  : "off_value",
                         NULL));
  bool known = td_infer_small(c, 1, &v) && v.count == 1 && v.known[0];
  if (known) TD_TRY(check_depth(v.at[0]));
  if (in->rank < 0) return NULL;
  TD_TRY(one_hot_axis(td_infer_int(c, "axis"), in->rank, &axis));
  td_infer_out(c, 0, one_hot_shape(in, axis, known ? v.at[0] : -1));
  return NULL;
}

static void one_hot_units(void *arg, int64_t begin, int64_t end) {
  const one_hot *h = arg;
  int64_t size = (int64_t)h->y.size;
  for (int64_t u = begin; u < end; u++) {
    int64_t row = u / h->chunks, low = u % h->chunks * h->chunk;
    int64_t high = low + h->chunk < h->depth ? low + h->chunk : h->depth;
    char *to = h->y.at + (row * h->depth + low) * h->after * size;
    td_move_fill(h->off, h->y.size, to, (high - low) * h->after);
    for (int64_t i = 0; i < h->after; i++) {
      int64_t hot = td_tensor_get_i(h->indices, row * h->after + i);
      if (hot < low || hot >= high) continue;
      memcpy(to + ((hot - low) * h->after + i) * size, h->on, h->y.size);
    }
  }
}

static td_status *one_hot_fill(td_kernel_ctx *c, one_hot *h, int64_t before) {
  if (td_shape_count(&h->y.shape) > 0) {
    int64_t layer = h->after * (int64_t)h->y.size;
    h->chunk = layer < PIECE ? PIECE / layer : 1;
    if (h->chunk > h->depth) h->chunk = h->depth;
    h->chunks = h->depth / h->chunk + (h->depth % h->chunk != 0);
    int64_t bytes = h->chunk * layer;
    td_for(c, before * h->chunks, bytes < PIECE ? PIECE / bytes : 1,
           one_hot_units, h);
  }
  return td_array_done(c, 0, &h->y);
}

static td_status *one_hot_run(td_kernel_ctx *c) {
  const td_shape *in = &td_in(c, 0)->shape;
  one_hot h = {.indices = td_in(c, 0)};
  td_array on = {0}, off = {0};
  int axis;
  for (int i = 1; i < 4; i++)
    if (td_in(c, i)->shape.rank != 0)
      return td_error(TD_INVALID_ARGUMENT,
                      "depth, on_value and off_value must be scalars");
  h.depth = td_tensor_get_i(td_in(c, 1), 0);
  TD_TRY(check_depth(h.depth));
  TD_TRY(one_hot_axis(td_node_int(td_ctx_node(c), "axis"), in->rank, &axis));
  td_shape shape = one_hot_shape(in, axis, h.depth);
  h.after = td_array_span(in, axis, in->rank);
  td_status *s = td_array_in(td_in(c, 2), &on);
  if (td_ok(s)) s = td_array_in(td_in(c, 3), &off);
  if (td_ok(s)) s = td_array_out(c, 0, &shape, &h.y);
  h.on = on.at;
  h.off = off.at;
  if (td_ok(s)) s = one_hot_fill(c, &h, td_array_span(in, 0, axis));
  td_array_drop(&on);
  td_array_drop(&off);
  td_array_drop(&h.y);
  return s;
}

/* ---- Tile ---------------------------------------------------------------- */

static td_status *tile_to(const td_shape *in, const td_small *times,
                          td_shape *out) {
  if (times->count != in->rank)
    return td_error(TD_INVALID_ARGUMENT,
                    "multiples must have one element for each of the %d "
                    "dimensions, not %d",
                    in->rank, times->count);
  *out = td_array_rank(in->rank);
  for (int k = 0; k < in->rank; k++) {
    if (!times->known[k]) continue;
    if (times->at[k] < 0)
      return td_error(TD_INVALID_ARGUMENT,
                      "multiples[%d] must not be negative, is %lld", k,
                      (long long)times->at[k]);
    if (in->dim[k] >= 0 &&
        __builtin_mul_overflow(in->dim[k], times->at[k], &out->dim[k]))
      return td_error(TD_INVALID_ARGUMENT,
                      "dimension %d would have more than 2^63-1 elements", k);
  }
  return NULL;
}

static td_status *tile_infer(td_infer *c) {
  const td_shape *in = td_infer_in(c, 0);
  td_small times;
  td_shape out;
  bool known;
  TD_TRY(td_array_ask(c, 1, "multiples", &times, &known));
  if (!known) {
    if (in->rank >= 0) td_infer_out(c, 0, td_array_rank(in->rank));
    return NULL;
  }
  if (times.count > TD_MAX_RANK)
    return td_error(TD_INVALID_ARGUMENT,
                    "multiples has %d elements: at most %d are possible",
                    times.count, TD_MAX_RANK);
  td_shape full = in->rank < 0 ? td_array_rank(times.count) : *in;
  TD_TRY(tile_to(&full, &times, &out));
  td_infer_out(c, 0, out);
  return NULL;
}

static td_status *tile_run(td_kernel_ctx *c) {
  const td_shape *in = &td_in(c, 0)->shape;
  td_small times;
  td_shape out;
  td_move m = {0};
  int64_t from[TD_MAX_RANK], to[TD_MAX_RANK];
  TD_TRY(td_array_small(td_in(c, 1), "multiples", &times));
  TD_TRY(tile_to(in, &times, &out));
  if (td_shape_equal(in, &out)) return td_array_share(c, 0, 0, &out);
  TD_TRY(td_array_count(&out, NULL));
  td_move_steps(in, from);
  td_move_steps(&out, to);
  for (int k = 0; k < in->rank; k++) {
    td_move_loop(&m, times.at[k], 0, in->dim[k] * to[k]);
    td_move_loop(&m, in->dim[k], from[k], to[k]);
  }
  return td_move_kernel(c, 0, 0, &out, &m, 0);
}

/* ---- Diag, DiagPart ------------------------------------------------------ */

static td_status *diag_to(const td_shape *in, td_shape *out) {
  td_shape_text text;
  if (in->rank < 1 || in->rank > TD_MAX_RANK / 2)
    return td_error(TD_INVALID_ARGUMENT,
                    "diagonal must be of rank 1 to %d, not of shape %s",
                    TD_MAX_RANK / 2, td_shape_str(in, &text));
  *out = td_array_rank(2 * in->rank);
  for (int k = 0; k < out->rank; k++) out->dim[k] = in->dim[k % in->rank];
  return NULL;
}

static td_status *diag_infer(td_infer *c) {
  td_shape out;
  if (td_infer_in(c, 0)->rank < 0) return NULL;
  TD_TRY(diag_to(td_infer_in(c, 0), &out));
  td_infer_out(c, 0, out);
  return NULL;
}

static td_status *diag_run(td_kernel_ctx *c) {
  static const char zero[16];
  const td_tensor *x = td_in(c, 0);
  td_move m = {0};
  td_shape shape;
  td_array y = {0};
  TD_TRY(diag_to(&x->shape, &shape));
  TD_TRY(td_array_out(c, 0, &shape, &y));
  int64_t n = td_tensor_count(x);
  fill_all(c, &y, zero);
  td_move_loop(&m, n, 1, n + 1);
  td_move_run(c, &m, y.size, x->data, y.at);
  return NULL;
}

static td_status *part_to(const td_shape *in, td_shape *out) {
  td_shape a = td_array_rank(in->rank / 2), b = a;
  td_shape_text text;
  for (int k = 0; k < in->rank / 2; k++) {
    a.dim[k] = in->dim[k];
    b.dim[k] = in->dim[in->rank / 2 + k];
  }
  if (in->rank < 2 || in->rank % 2 != 0 || !td_shape_merge(&a, &b, out))
    return td_error(TD_INVALID_ARGUMENT,
                    "input must be of even rank, its second half of sizes "
                    "like the first, not of shape %s",
                    td_shape_str(in, &text));
  return NULL;
}

static td_status *part_infer(td_infer *c) {
  td_shape out;
  if (td_infer_in(c, 0)->rank < 0) return NULL;
  TD_TRY(part_to(td_infer_in(c, 0), &out));
  td_infer_out(c, 0, out);
  return NULL;
}

static td_status *part_run(td_kernel_ctx *c) {
  td_move m = {0};
  td_shape shape;
  TD_TRY(part_to(&td_in(c, 0)->shape, &shape));
  int64_t n = td_shape_count(&shape);
  td_move_loop(&m, n, n + 1, 1);
  return td_move_kernel(c, 0, 0, &shape, &m, 0);
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "Fill",
     .sig = "dims: index_type, value: T -> output: T; "
            "T: type; index_type: {int32, int64} = int32",
     .shape = fill_infer,
     .value = fill_value,
     .doc = "A tensor of shape dims with every element value.",
     .host = "dims",
     .section = "Array"},
    {.type = "ZerosLike",
     .sig = "x: T -> y: T; T: type",
     .shape = td_shape_same,
     .value = zeros_value,
     .doc = "Zeros (false, empty strings) in the shape of x.",
     .flags = TD_NO_GRADIENT,
     .example = "td.zeros_like(td.tensor{1, 2})  --> 0 0",
     .section = "Array"},
    {.type = "OnesLike",
     .sig = "x: T -> y: T; T: {bfloat16, half, float, double, int8, uint8, "
            "int16, uint16, int32, uint32, int64, uint64, complex64, "
            "complex128, bool}",
     .shape = td_shape_same,
     .value = ones_value,
     .doc = "Ones (true) in the shape of x.",
     .flags = TD_NO_GRADIENT,
     .example = "td.ones_like(td.tensor{5, 6})  --> 1 1",
     .section = "Array"},
    {.type = "OneHot",
     .sig = "indices: TI, depth: int32, on_value: T, off_value: T -> "
            "output: T; axis: int = -1; T: type; "
            "TI: {uint8, int8, int32, int64} = int64",
     .shape = one_hot_infer,
     .doc = "A new dimension of size depth at axis, on_value where its index "
            "is the one given, off_value elsewhere.",
     .flags = TD_NO_GRADIENT,
     .host = "depth",
     .section = "Array"},
    {.type = "Tile",
     .sig = "input: T, multiples: Tmultiples -> output: T; "
            "T: type; Tmultiples: {int32, int64} = int32",
     .shape = tile_infer,
     .doc = "The input repeated multiples[i] times along dimension i.",
     .host = "multiples",
     .example = "td.tile(td.tensor{1, 2}, {2})  --> 1 2 1 2",
     .section = "Array"},
    {.type = "Diag",
     .sig = "diagonal: T -> output: T; T: {bfloat16, half, float, double, "
            "int32, int64, complex64, complex128}",
     .shape = diag_infer,
     .doc = "Zeros with the elements of diagonal on the diagonal: "
            "output[i, j, i, j] = diagonal[i, j].",
     .example = "td.diag(td.tensor{1, 2})  --> {2, 2} 1 0 0 2",
     .section = "Array"},
    {.type = "DiagPart",
     .sig = "input: T -> diagonal: T; T: {bfloat16, half, float, double, "
            "int32, int64, complex64, complex128}",
     .shape = part_infer,
     .doc = "The diagonal: output[i, j] = input[i, j, i, j].",
     .example = "td.diag_part(td.tensor{{1, 2}, {3, 4}})  --> 1 4",
     .section = "Array"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Fill", .device = "CPU", .run = fill_run},
    {.op = "ZerosLike", .device = "CPU", .run = zeros_run},
    {.op = "OnesLike", .device = "CPU", .run = ones_run},
    {.op = "OneHot", .device = "CPU", .run = one_hot_run},
    {.op = "Tile", .device = "CPU", .run = tile_run},
    {.op = "Diag", .device = "CPU", .run = diag_run},
    {.op = "DiagPart", .device = "CPU", .run = part_run},
    {0},
};

TD_MODULE(fill, ops, kernels)
