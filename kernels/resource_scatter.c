/* resource_scatter.c - rows of a variable gathered and changed in place.
 *
 * The cost follows the rows touched, not the table: a gather reads them under
 * the shared lock and takes no share of the buffer, a scatter writes where they
 * are. All indices are checked before the first row is written. Indices may
 * repeat; updates of one row are done in their order.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/device/variable.h"
#include "kernels/array.h"
#include "kernels/binary.h"
#include "kernels/cost.h"
#include "kernels/cpu.h"
#include "kernels/resource_scatter.h"
#include "kernels/row_updates.h"

/* Shapes a + b, from the sizes [from_a, to_a) and [from_b, ..). */
static td_status *join(const td_shape *a, int to_a, const td_shape *b,
                       int from_b, td_shape *out) {
  int rank = to_a + b->rank - from_b;
  TD_TRY(td_shape_check_rank(rank));
  *out = td_shape_ranked(rank);
  for (int k = 0; k < rank; k++)
    out->dim[k] = k < to_a ? a->dim[k] : b->dim[k - to_a + from_b];
  return NULL;
}

static td_status *check_table(const td_shape *s) {
  if (s->rank != 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "the variable must be of rank 1 or more to have rows");
}

/* ---- ResourceGather ------------------------------------------------------ */

/* The axis that is gathered from; sizes of the axes before it must agree. */
static td_status *check_batch(const td_shape *x, const td_shape *indices,
                              int64_t batch_dims, int *axis) {
  td_shape_text a, b;
  if (batch_dims < 0) batch_dims += indices->rank;
  if (batch_dims < 0 || batch_dims > indices->rank || batch_dims >= x->rank)
    return td_error(TD_INVALID_ARGUMENT,
                    "batch_dims %lld is out of range for a variable of shape "
                    "%s and indices of shape %s",
                    (long long)batch_dims, td_shape_str(x, &a),
                    td_shape_str(indices, &b));
  for (int k = 0; k < batch_dims; k++)
    if (x->dim[k] >= 0 && indices->dim[k] >= 0 && x->dim[k] != indices->dim[k])
      return td_error(TD_INVALID_ARGUMENT,
                      "size %d of the variable's shape %s and of the indices' "
                      "%s must be equal",
                      k, td_shape_str(x, &a), td_shape_str(indices, &b));
  *axis = (int)batch_dims;
  return NULL;
}

/* x[:axis] + indices[axis:] + x[axis + 1:] */
static td_status *gather_shape(const td_shape *x, const td_shape *indices,
                               int axis, td_shape *out) {
  td_shape head;
  TD_TRY(join(x, axis, indices, axis, &head));
  return join(&head, head.rank, x, axis + 1, out);
}

static td_status *gather_infer(td_infer *c) {
  td_dtype dtype;
  td_shape x, shape;
  int axis;
  const td_shape *indices = td_infer_in(c, 1);
  if (!td_infer_handle(c, 0, &dtype, &x) || x.rank < 0) return NULL;
  if (dtype != td_infer_type(c, "dtype"))
    return td_error(
        TD_INVALID_ARGUMENT, "the variable holds %s and cannot be read as %s",
        td_dtype_name(dtype), td_dtype_name(td_infer_type(c, "dtype")));
  TD_TRY(check_table(&x));
  if (indices->rank < 0) return NULL;
  TD_TRY(check_batch(&x, indices, td_infer_int(c, "batch_dims"), &axis));
  TD_TRY(gather_shape(&x, indices, axis, &shape));
  td_infer_out(c, 0, shape);
  return NULL;
}

/* The table is {batch, rows, after}, the indices {batch, per_batch}. */
typedef struct gather {
  const td_tensor *indices;
  td_array x, y;
  int64_t rows, per_batch;
  size_t row_bytes;
} gather;

static void gather_piece(void *arg, int64_t begin, int64_t end) {
  const gather *g = arg;
  for (int64_t i = begin; i < end; i++) {
    int64_t row =
        i / g->per_batch * g->rows + td_row_updates_index(g->indices, i);
    memcpy(g->y.at + (size_t)i * g->row_bytes,
           g->x.at + (size_t)row * g->row_bytes, g->row_bytes);
  }
}

static td_status *gather_rows(td_kernel_ctx *c, const td_tensor *x, int axis,
                              const td_shape *shape) {
  const td_tensor *indices = td_in(c, 1);
  int64_t after = td_shape_span(&x->shape, axis + 1, x->shape.rank);
  gather g = {.indices = indices,
              .rows = x->shape.dim[axis],
              .per_batch =
                  td_shape_span(&indices->shape, axis, indices->shape.rank)};
  td_status *s = td_array_in(x, &g.x);
  if (td_ok(s)) s = td_array_out(c, 0, shape, &g.y);
  if (td_ok(s)) {
    g.row_bytes = (size_t)after * g.x.size;
    if (g.row_bytes > 0)
      td_for(c, td_tensor_count(indices), td_grain_of(after), gather_piece, &g);
    s = td_array_done(c, 0, &g.y);
  }
  td_array_drop(&g.x);
  td_array_drop(&g.y);
  return s;
}

td_status *td_gather_resource_begin(td_kernel_ctx *c, const td_tensor **out,
                                    int *axis, td_shape *shape) {
  const td_tensor *x, *indices = td_in(c, 1);
  td_variable *v;
  TD_TRY(td_var(c, 0, &v));
  TD_TRY(td_var_peek(c, v, &x));
  if (x->dtype != td_ctx_node(c)->out[0].dtype)
    return td_error(TD_INVALID_ARGUMENT,
                    "variable %s holds %s and cannot be read as %s",
                    v->base.name, td_dtype_name(x->dtype),
                    td_dtype_name(td_ctx_node(c)->out[0].dtype));
  TD_TRY(check_table(&x->shape));
  TD_TRY(check_batch(&x->shape, &indices->shape,
                     td_node_int(td_ctx_node(c), "batch_dims"), axis));
  TD_TRY(gather_shape(&x->shape, &indices->shape, *axis, shape));
  TD_TRY(td_array_count(shape, NULL));
  *out = x;
  return td_row_updates_check(c, indices, x->shape.dim[*axis]);
}

static td_status *gather_run(td_kernel_ctx *c) {
  const td_tensor *x;
  td_shape shape;
  int axis;
  TD_TRY(td_gather_resource_begin(c, &x, &axis, &shape));
  return gather_rows(c, x, axis, &shape);
}

enum { SET = -1 }; /* beside TD_BINARY_* */

/* ---- ResourceScatter ----------------------------------------------------- */

static td_status *check_updates(const td_shape *x, const td_shape *indices,
                                const td_shape *updates) {
  td_shape_text a, b, d;
  td_shape want;
  if (updates->rank == 0) return NULL;
  TD_TRY(join(indices, indices->rank, x, 1, &want));
  if (td_shape_compatible(&want, updates)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "updates must be of shape %s (that of the indices, then that "
                  "of a row of the variable, %s) or a scalar, not %s",
                  td_shape_str(&want, &a), td_shape_str(x, &b),
                  td_shape_str(updates, &d));
}

static td_status *scatter_infer(td_infer *c) {
  td_dtype dtype;
  td_shape x;
  const td_shape *indices = td_infer_in(c, 1), *updates = td_infer_in(c, 2);
  if (!td_infer_handle(c, 0, &dtype, &x) || x.rank < 0) return NULL;
  if (dtype != td_infer_type(c, "dtype"))
    return td_error(TD_INVALID_ARGUMENT,
                    "the variable holds %s and cannot be changed by %s",
                    td_dtype_name(dtype),
                    td_dtype_name(td_infer_type(c, "dtype")));
  TD_TRY(check_table(&x));
  if (indices->rank < 0 || updates->rank < 0) return NULL;
  return check_updates(&x, indices, updates);
}

static bool is_zero(const td_tensor *t, int64_t i) {
  const float *f = t->data;
  const double *d = t->data;
  if (t->dtype == TD_COMPLEX64) return f[2 * i] == 0 && f[2 * i + 1] == 0;
  if (t->dtype == TD_COMPLEX128) return d[2 * i] == 0 && d[2 * i + 1] == 0;
  return td_dtype_is_integer(t->dtype) ? td_tensor_get_i(t, i) == 0
                                       : td_tensor_get_f(t, i) == 0;
}

/* TensorFlow divides by 0 of no dtype here. */
static td_status *check_divisors(const td_tensor *updates) {
  int64_t n = td_tensor_count(updates);
  for (int64_t i = 0; i < n; i++)
    if (is_zero(updates, i))
      return td_error(TD_INVALID_ARGUMENT,
                      "update %lld is 0: nothing can be divided by it",
                      (long long)i);
  return NULL;
}

typedef struct scatter {
  int op; /* TD_BINARY_*, or SET */
  td_dtype dtype;
  int64_t each; /* elements of a row */
  size_t row_bytes;
  char *x;
  const char *updates;
  size_t step; /* bytes from one row of updates to the next; 0: a scalar */
  size_t size; /* bytes of an element */
} scatter;

static void change(const scatter *g, int64_t n, char *x, const char *y) {
  if (g->op == SET)
    memcpy(x, y, (size_t)n * g->size);
  else
    td_binary_apply(g->op, g->dtype, td_cpu_isa(), n, x, y, x);
}

static void scatter_row(void *arg, int64_t i, int64_t row) {
  const scatter *g = arg;
  change(g, g->each, g->x + (size_t)row * g->row_bytes,
         g->updates + (size_t)i * g->step);
}

/* A scalar update, spread over as much of a row as it is used for at once. */
enum { SPREAD = 256 };
static void scatter_scalar(void *arg, int64_t i, int64_t row) {
  const scatter *g = arg;
  char *x = g->x + (size_t)row * g->row_bytes;
  (void)i;
  for (int64_t at = 0; at < g->each; at += SPREAD) {
    int64_t n = g->each - at < SPREAD ? g->each - at : SPREAD;
    change(g, n, x + (size_t)at * g->size, g->updates);
  }
}

static void scatter_plain(td_kernel_ctx *c, td_tensor *x, int op) {
  const td_tensor *indices = td_in(c, 1), *updates = td_in(c, 2);
  _Alignas(16) char block[SPREAD * 16];
  scatter g = {.op = op,
               .dtype = x->dtype,
               .each = td_shape_span(&x->shape, 1, x->shape.rank),
               .x = x->data,
               .updates = updates->data,
               .size = td_dtype_size(x->dtype)};
  bool scalar = updates->shape.rank == 0;
  if (g.each == 0) return;
  g.row_bytes = (size_t)g.each * g.size;
  g.step = scalar ? 0 : g.row_bytes;
  if (scalar) {
    for (int k = 0; k < SPREAD; k++)
      memcpy(block + (size_t)k * g.size, updates->data, g.size);
    g.updates = block;
  }
  td_row_updates_run(c, indices, g.each, scalar ? scatter_scalar : scatter_row,
                     &g);
}

static void set_rows(td_array *x, const td_tensor *indices, const td_array *y) {
  int64_t n = td_tensor_count(indices);
  size_t each = (size_t)td_shape_span(&x->shape, 1, x->shape.rank);
  for (int64_t i = 0; i < n; i++) {
    char *row =
        x->at + (size_t)td_row_updates_index(indices, i) * each * x->size;
    for (size_t k = 0; k < each; k++) {
      size_t from = y->shape.rank == 0 ? 0 : (size_t)i * each + k;
      memcpy(row + k * x->size, y->at + from * x->size, x->size);
    }
  }
}

/* Strings and objects: a new tensor of the old elements and the new ones. */
static td_status *scatter_built(td_kernel_ctx *c, td_variable *v,
                                const td_tensor *now) {
  td_array x = {0}, y = {0};
  td_tensor t = {.dtype = TD_INVALID};
  td_status *s = td_array_edit(now, &x);
  if (td_ok(s)) s = td_array_in(td_in(c, 2), &y);
  if (td_ok(s)) {
    set_rows(&x, td_in(c, 1), &y);
    s = td_array_make(&x, &t);
  }
  if (td_ok(s)) s = td_var_assign(c, v, &t);
  td_tensor_release(&t);
  td_array_drop(&x);
  td_array_drop(&y);
  return s;
}

td_status *td_resource_scatter_begin(td_kernel_ctx *c, bool divides,
                                     td_variable **out) {
  const td_tensor *indices = td_in(c, 1), *updates = td_in(c, 2), *now;
  td_variable *v;
  TD_TRY(td_var(c, 0, &v));
  TD_TRY(td_var_peek(c, v, &now));
  if (now->dtype != updates->dtype)
    return td_error(
        TD_INVALID_ARGUMENT, "variable %s holds %s and cannot be changed by %s",
        v->base.name, td_dtype_name(now->dtype), td_dtype_name(updates->dtype));
  TD_TRY(check_table(&now->shape));
  TD_TRY(check_updates(&now->shape, &indices->shape, &updates->shape));
  TD_TRY(td_row_updates_check(c, indices, now->shape.dim[0]));
  *out = v;
  bool seen = td_row_updates_sees(c, updates);
  return divides && seen ? check_divisors(updates) : NULL;
}

static td_status *scatter_run(td_kernel_ctx *c, int op) {
  td_variable *v;
  td_tensor *x;
  TD_TRY(td_resource_scatter_begin(c, op == TD_BINARY_Div, &v));
  if (td_tensor_count(td_in(c, 1)) == 0) return NULL;
  if (!td_dtype_is_plain(v->dtype)) return scatter_built(c, v, &v->value);
  TD_TRY(td_var_write(c, v, &x));
  scatter_plain(c, x, op);
  return NULL;
}

static td_status *add_run(td_kernel_ctx *c) {
  return scatter_run(c, TD_BINARY_AddV2);
}
static td_status *sub_run(td_kernel_ctx *c) {
  return scatter_run(c, TD_BINARY_Sub);
}
static td_status *mul_run(td_kernel_ctx *c) {
  return scatter_run(c, TD_BINARY_Mul);
}
static td_status *div_run(td_kernel_ctx *c) {
  return scatter_run(c, TD_BINARY_Div);
}
static td_status *min_run(td_kernel_ctx *c) {
  return scatter_run(c, TD_BINARY_Minimum);
}
static td_status *max_run(td_kernel_ctx *c) {
  return scatter_run(c, TD_BINARY_Maximum);
}
static td_status *set_run(td_kernel_ctx *c) {
  return scatter_run(c, SET);
}

/* ---- cost -----------------------------------------------------------------
 */

/* Reads and writes the rows, and reads the updates. */
static void scatter_cost(td_infer *c, td_cost *cost) {
  *cost = (td_cost){td_infer_in_count(c, 2),
                    3 * td_infer_in_bytes(c, 2) + td_infer_in_bytes(c, 1)};
}

/* ---- tables -------------------------------------------------------------- */

#define REALS                                                                  \
  "half|bfloat16|float|double|int8|int16|int32|int64|"                         \
  "uint8|uint16|uint32|uint64"
#define NUMBERS REALS "|complex64|complex128"
#define ALLOWED                                                                \
  "float, double, int32, uint8, int16, int8, complex64, int64, qint8, "        \
  "quint8, qint32, bfloat16, qint16, quint16, uint16, complex128, half, "      \
  "uint32, uint64"
#define SCATTER(of_dtype)                                                      \
  "resource: resource, indices: Tindices, updates: dtype -> ; "                \
  "dtype: " of_dtype "; Tindices: {int32, int64}"
#define SCATTER_OP(name, of_dtype, text)                                       \
  {                                                                            \
    .type = name, .sig = SCATTER(of_dtype), .shape = scatter_infer,            \
    .cost = scatter_cost, .doc = text, .lua = "",                              \
    .flags = TD_STATEFUL | TD_UPDATES | TD_SPARSE,                             \
    .section = "Variables and state"                                           \
  }
#define SCATTER_KERNEL(name, of_dtype, fn)                                     \
  {                                                                            \
    .op = name, .device = "CPU", .types = "dtype=" of_dtype, .run = fn,        \
    .exclusive = "resource"                                                    \
  }

static const td_op_def ops[] = {
    {.type = "ResourceGather",
     .sig = "resource: resource, indices: Tindices -> output: dtype; "
            "batch_dims: int = 0; validate_indices: bool = true; "
            "dtype: type; Tindices: {int32, int64}",
     .shape = gather_infer,
     .cost = td_cost_take,
     .doc = "Rows of a variable.",
     .lua = "",
     .flags = TD_STATEFUL | TD_READS | TD_SPARSE,
     .section = "Variables and state"},
    SCATTER_OP("ResourceScatterAdd", "{" ALLOWED "}",
               "Adds to rows of a variable."),
    SCATTER_OP("ResourceScatterSub", "{" ALLOWED "}",
               "Subtracts from rows of a variable."),
    SCATTER_OP("ResourceScatterMul", "{" ALLOWED "}",
               "Multiplies rows of a variable."),
    SCATTER_OP("ResourceScatterDiv", "{" ALLOWED "}",
               "Divides rows of a variable."),
    SCATTER_OP("ResourceScatterMin", "{" ALLOWED "}",
               "Takes the smaller of rows of a variable and the updates."),
    SCATTER_OP("ResourceScatterMax", "{" ALLOWED "}",
               "Takes the larger of rows of a variable and the updates."),
    SCATTER_OP("ResourceScatterUpdate", "type",
               "Gives rows of a variable new values."),
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "ResourceGather",
     .device = "CPU",
     .run = gather_run,
     .shared = "resource"},
    SCATTER_KERNEL("ResourceScatterAdd", NUMBERS, add_run),
    SCATTER_KERNEL("ResourceScatterSub", NUMBERS, sub_run),
    SCATTER_KERNEL("ResourceScatterMul", NUMBERS, mul_run),
    SCATTER_KERNEL("ResourceScatterDiv", NUMBERS, div_run),
    SCATTER_KERNEL("ResourceScatterMin", REALS, min_run),
    SCATTER_KERNEL("ResourceScatterMax", REALS, max_run),
    {.op = "ResourceScatterUpdate",
     .device = "CPU",
     .run = set_run,
     .exclusive = "resource"},
    {0},
};

TD_MODULE(resource_scatter, ops, kernels)
