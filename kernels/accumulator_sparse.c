/* accumulator_sparse.c - gradients of some rows of a variable: checks, sums,
 * means; see accumulator.h.
 *
 * A gradient is brought into order when it comes: rows ascending, each once (of
 * rows given twice, the sum). A mean is, for each row, over the gradients that
 * had it, as TensorFlow's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "kernels/accumulator.h"
#include "kernels/binary.h"
#include "kernels/cost.h"
#include "kernels/operand.h"
#include "kernels/parts.h"

/* ---- a gradient as it comes ---------------------------------------------- */

typedef struct given {
  const td_tensor *indices, *values;
  int64_t n; /* rows */
} given;

/* What the accumulator says of rows, against those given. */
static td_status *check_rest(const td_accumulator *a, const td_tensor *values) {
  td_shape_text want, have;
  td_shape all = a->shape;
  if (all.rank <= 0) return NULL;
  all.dim[0] = -1;
  if (td_shape_allows(&all, &values->shape)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "the rows of sparse accumulator %s have shape %s: values of "
                  "shape %s cannot be added",
                  a->base.name, td_shape_str(&all, &want),
                  td_shape_str(&values->shape, &have));
}

static td_status *check_rows(const given *g, int64_t rows) {
  const int64_t *at = g->indices->data;
  for (int64_t i = 0; i < g->n; i++)
    if (at[i] < 0 || (rows >= 0 && at[i] >= rows))
      return td_error(TD_INVALID_ARGUMENT,
                      "gradient_indices[%lld] is %lld: it must be in [0, %lld)",
                      (long long)i, (long long)at[i],
                      (long long)(rows < 0 ? INT64_MAX : rows));
  return NULL;
}

/* The shape that comes with a gradient. */
static td_status *check_shape(const td_accumulator *a, const given *g,
                              const td_tensor *t) {
  td_shape s;
  td_shape_text want, have;
  TD_TRY(td_operand_shape(t, "gradient_shape", &s));
  bool same = a->shape.rank < 0 || a->shape.rank <= s.rank;
  for (int i = 0; same && i < a->shape.rank; i++)
    same = a->shape.dim[i] < 0 || a->shape.dim[i] == s.dim[i];
  if (!same)
    return td_error(TD_INVALID_ARGUMENT,
                    "the gradients of sparse accumulator %s have shape %s, not "
                    "%s",
                    a->base.name, td_shape_str(&a->shape, &want),
                    td_shape_str(&s, &have));
  return s.rank > 0 ? check_rows(g, s.dim[0]) : NULL;
}

static td_status *read_given(const td_kernel_ctx *c, const td_accumulator *a,
                             int first, given *g) {
  const td_tensor *shape = td_in(c, first + 2);
  *g = (given){.indices = td_in(c, first), .values = td_in(c, first + 1)};
  TD_TRY(td_accumulator_typed(a, g->values->dtype));
  if (g->indices->shape.rank != 1 || g->values->shape.rank < 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "gradient_indices must be a vector and gradient_values "
                    "rows, not of rank %d and %d",
                    g->indices->shape.rank, g->values->shape.rank);
  g->n = g->indices->shape.dim[0];
  if (g->values->shape.dim[0] != g->n)
    return td_error(TD_INVALID_ARGUMENT,
                    "gradient_indices has %lld elements, gradient_values %lld "
                    "rows",
                    (long long)g->n, (long long)g->values->shape.dim[0]);
  TD_TRY(check_rest(a, g->values));
  TD_TRY(check_rows(g, a->shape.rank > 0 ? a->shape.dim[0] : -1));
  if (!td_node_bool(td_ctx_node(c), "has_known_shape")) return NULL;
  return check_shape(a, g, shape);
}

/* ---- rows in order ------------------------------------------------------- */

typedef struct place {
  int64_t index, at;
} place;

static int by_index(const void *x, const void *y) {
  const place *a = x, *b = y;
  if (a->index != b->index) return a->index < b->index ? -1 : 1;
  return a->at < b->at ? -1 : a->at > b->at;
}

static bool ascending(const given *g) {
  const int64_t *at = g->indices->data;
  for (int64_t i = 1; i < g->n; i++)
    if (at[i] <= at[i - 1]) return false;
  return true;
}

/* `n` rows of the shape of those of `like`, and what goes with them. */
static td_status *make_rows(td_kernel_ctx *c, int64_t n, const td_tensor *like,
                            td_gradient *g) {
  td_allocator *host = c->kernel->device->host;
  td_shape vector = td_shape_vector(n), shape = like->shape;
  shape.dim[0] = n;
  TD_TRY(td_tensor_new(host, TD_INT64, &vector, &g->indices));
  TD_TRY(td_tensor_new(host, TD_INT64, &vector, &g->counts));
  return td_tensor_new(host, like->dtype, &shape, &g->values);
}

/* Bytes of a row. */
static size_t row_size(const td_tensor *t) {
  return t->shape.dim[0] ? td_tensor_bytes(t) / (size_t)t->shape.dim[0] : 0;
}

static void add_row(const td_tensor *like, char *to, const char *from,
                    size_t size) {
  int64_t n = (int64_t)(size / td_dtype_size(like->dtype));
  td_binary_apply(TD_BINARY_AddV2, like->dtype, td_cpu_isa(), n, to, from, to);
}

/* Rows of `from` in the order of `p`; those of one index added. */
static void gather(const place *p, int64_t n, const td_tensor *from,
                   td_gradient *g) {
  size_t size = row_size(from);
  int64_t *index = g->indices.data, to = -1;
  char *rows = g->values.data;
  for (int64_t i = 0; i < n; i++) {
    const char *row = (const char *)from->data + (size_t)p[i].at * size;
    bool next = i == 0 || p[i].index != p[i - 1].index;
    if (next) index[++to] = p[i].index;
    if (next && size) memcpy(rows + (size_t)to * size, row, size);
    if (!next && size) add_row(from, rows + (size_t)to * size, row, size);
  }
}

static td_status *sort_rows(td_kernel_ctx *c, const given *in,
                            const td_tensor *values, td_gradient *g) {
  place *p = td_calloc((size_t)in->n, sizeof *p);
  if (!p) return td_oom();
  const int64_t *index = in->indices->data;
  int64_t different = 0;
  for (int64_t i = 0; i < in->n; i++) p[i] = (place){index[i], i};
  qsort(p, (size_t)in->n, sizeof *p, by_index);
  for (int64_t i = 0; i < in->n; i++)
    different += i == 0 || p[i].index != p[i - 1].index;
  td_status *s = make_rows(c, different, values, g);
  if (td_ok(s)) gather(p, in->n, values, g);
  td_free(p);
  return s;
}

static td_status *keep_rows(td_kernel_ctx *c, const given *in,
                            const td_tensor *values, td_gradient *g) {
  td_shape vector = td_shape_vector(in->n);
  td_tensor_retain(in->indices, &g->indices);
  td_tensor_retain(values, &g->values);
  return td_tensor_new(c->kernel->device->host, TD_INT64, &vector, &g->counts);
}

static td_status *bring_in_order(td_kernel_ctx *c, const given *in,
                                 td_gradient *g) {
  td_tensor wide;
  TD_TRY(td_gradient_widen(c, in->values, &wide));
  td_status *s =
      ascending(in) ? keep_rows(c, in, &wide, g) : sort_rows(c, in, &wide, g);
  td_tensor_release(&wide);
  if (!td_ok(s)) return s;
  for (int64_t i = 0; i < g->counts.shape.dim[0]; i++)
    ((int64_t *)g->counts.data)[i] = 1;
  return NULL;
}

/* ---- sums ---------------------------------------------------------------- */

/* What goes on in a merge of x and y: their next rows. */
typedef struct walk {
  const td_gradient *x, *y;
  int64_t i, j, n, m;
} walk;

/* Which of them has the next row: 1: x, 2: y, 3: both; 0: none. */
static int next_row(const walk *w) {
  const int64_t *x = w->x->indices.data, *y = w->y->indices.data;
  if (w->i == w->n) return w->j < w->m ? 2 : 0;
  if (w->j == w->m || x[w->i] < y[w->j]) return 1;
  return x[w->i] == y[w->j] ? 3 : 2;
}

static walk walk_of(const td_gradient *x, const td_gradient *y) {
  return (walk){.x = x,
                .y = y,
                .n = x->indices.shape.dim[0],
                .m = y->indices.shape.dim[0]};
}

static int64_t count_rows(const td_gradient *x, const td_gradient *y) {
  walk w = walk_of(x, y);
  int64_t count = 0;
  for (int from; (from = next_row(&w)) != 0; count++) {
    w.i += from & 1;
    w.j += from >> 1;
  }
  return count;
}

static void write_rows(const td_gradient *x, const td_gradient *y,
                       td_gradient *z) {
  walk w = walk_of(x, y);
  size_t size = row_size(&z->values);
  const int64_t *nx = x->counts.data, *ny = y->counts.data;
  int64_t *index = z->indices.data, *count = z->counts.data, k = 0;
  for (int from; (from = next_row(&w)) != 0; k++) {
    const td_gradient *g = from & 1 ? x : y;
    int64_t at = from & 1 ? w.i : w.j;
    char *to = (char *)z->values.data + (size_t)k * size;
    index[k] = ((const int64_t *)g->indices.data)[at];
    count[k] = (from & 1 ? nx[w.i] : 0) + (from & 2 ? ny[w.j] : 0);
    if (size) memcpy(to, (char *)g->values.data + (size_t)at * size, size);
    if (size && from == 3)
      add_row(&z->values, to, (char *)y->values.data + (size_t)w.j * size,
              size);
    w.i += from & 1;
    w.j += from >> 1;
  }
}

td_status *td_accumulator_merge_rows(td_kernel_ctx *c, td_gradient *x,
                                     const td_gradient *y) {
  td_gradient z = {.count = 0};
  td_status *s = make_rows(c, count_rows(x, y), &x->values, &z);
  if (td_ok(s)) write_rows(x, y, &z);
  td_gradient *old = td_ok(s) ? x : &z;
  td_tensor_release(&old->indices);
  td_tensor_release(&old->counts);
  td_tensor_release(&old->values);
  if (!td_ok(s)) return s;
  x->indices = z.indices;
  x->counts = z.counts;
  x->values = z.values;
  return NULL;
}

/* ---- the ops ------------------------------------------------------------- */

static td_status *apply(td_kernel_ctx *c, int64_t slot, int first) {
  td_accumulator *a;
  int64_t step;
  given in;
  TD_TRY(td_accumulator_in(c, true, &a));
  TD_TRY(td_operand_scalar(td_in(c, first), "local_step", &step));
  TD_TRY(read_given(c, a, first + 1, &in));
  td_gradient *g = td_gradient_new();
  if (!g) return td_oom();
  td_status *s = bring_in_order(c, &in, g);
  if (td_ok(s))
    return td_accumulator_apply(c, a, slot, step, &in.values->shape, g);
  td_gradient_free(g);
  return s;
}

static td_status *apply_run(td_kernel_ctx *c) {
  return apply(c, -1, 1);
}

static td_status *ordered_apply_run(td_kernel_ctx *c) {
  int64_t slot;
  TD_TRY(td_operand_scalar(td_in(c, 1), "slot", &slot));
  if (slot < 0)
    return td_error(TD_INVALID_ARGUMENT, "slot must not be negative, not %lld",
                    (long long)slot);
  return apply(c, slot, 2);
}

td_status *td_accumulator_give_rows(td_kernel_ctx *c, const td_accumulator *a,
                                    td_gradient *g) {
  td_shape s = g->values.shape, vector = td_shape_vector(s.rank);
  td_tensor *shape;
  TD_TRY(td_out(c, 2, &vector, &shape));
  for (int i = 0; i < s.rank; i++) td_tensor_set_i(shape, i, s.dim[i]);
  td_tensor_set_i(shape, 0, a->shape.rank > 0 ? a->shape.dim[0] : -1);
  TD_TRY(td_gradient_out(c, 1, a->dtype, &g->values,
                         a->mean ? g->counts.data : NULL, 1));
  td_out_set(c, 0, &g->indices);
  return NULL;
}

/* ---- shapes -------------------------------------------------------------- */

static td_status *apply_infer(td_infer *c) {
  int last = td_infer_inputs(c) - 1;
  for (int i = 1; i < last - 2; i++)
    TD_TRY(td_infer_rank(c, i, 0, i < last - 3 ? "slot" : "local_step", NULL));
  TD_TRY(td_infer_rank(c, last - 2, 1, "gradient_indices", NULL));
  TD_TRY(td_infer_rank_at_least(c, last - 1, 1, "gradient_values"));
  return td_infer_rank(c, last, 1, "gradient_shape", NULL);
}

static td_status *take_infer(td_infer *c) {
  td_dtype dtype;
  td_shape shape;
  TD_TRY(td_infer_rank(c, 1, 0, "num_required", NULL));
  td_infer_out(c, 0, td_shape_vector(-1));
  td_infer_out(c, 1, td_shape_unknown());
  td_infer_out(c, 2, td_shape_vector(-1));
  if (!td_infer_handle(c, 0, &dtype, &shape) || shape.rank <= 0) return NULL;
  shape.dim[0] = -1;
  td_infer_out(c, 1, shape);
  td_infer_out(c, 2, td_shape_vector(shape.rank));
  return NULL;
}

TD_COST_INPUT(apply_cost, 1, 3)

/* ---- rows ---------------------------------------------------------------- */

#define SECTION                                                                \
  .section = "Data flow: queues, stacks, arrays, accumulators", .lua = "",     \
  .host = "*", .flags = TD_STATEFUL | TD_NO_GRADIENT
#define GRADIENT                                                               \
  "local_step: int64, gradient_indices: int64, gradient_values: dtype, "       \
  "gradient_shape: int64 ->; dtype: " TD_ACCUMULATOR_TYPES                     \
  "; has_known_shape: bool"

static const td_op_def ops[] = {
    {.type = "SparseAccumulatorApplyGradient",
     .sig = "handle: resource, " GRADIENT,
     .shape = apply_infer,
     .cost = apply_cost,
     .doc = "Adds a gradient of some rows, unless it was computed for a step "
            "that is over.",
     SECTION},
    {.type = "OrderedSparseAccumulatorApplyGradient",
     .sig = "handle: resource, slot: int32, " GRADIENT,
     .shape = apply_infer,
     .cost = apply_cost,
     .doc = "Puts a gradient of some rows into its slot, unless it was "
            "computed for a step that is over.",
     SECTION},
    {.type = "SparseAccumulatorTakeGradient",
     .sig = "handle: resource, num_required: int32 -> indices: int64, values: "
            "dtype, shape: int64; dtype: " TD_ACCUMULATOR_TYPES,
     .shape = take_infer,
     .cost = td_cost_move,
     .doc = "Waits for so many gradients of rows, gives the mean or sum of "
            "each row, and begins the next step.",
     SECTION},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "SparseAccumulatorApplyGradient", .device = "CPU", .run = apply_run},
    {.op = "OrderedSparseAccumulatorApplyGradient",
     .device = "CPU",
     .run = ordered_apply_run},
    {.op = "SparseAccumulatorTakeGradient",
     .device = "CPU",
     .start = td_accumulator_sparse_take_start,
     .cancel = td_accumulator_take_cancel,
     .why = td_accumulator_take_why},
    {0},
};

TD_MODULE(accumulator_sparse, ops, kernels)
