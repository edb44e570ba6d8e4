/* resource_scatter_nd.c - slices of a variable, named by index vectors,
 * gathered and changed in place: ResourceGatherNd, ResourceScatterNd.
 *
 * As in resource_scatter.c the cost follows the slices touched, everything is
 * checked before the first one is written, and updates of one slice are done in
 * their order.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/device/variable.h"
#include "kernels/binary.h"
#include "kernels/cost.h"
#include "kernels/gather_nd.h"
#include "kernels/resource_scatter.h"
#include "kernels/row_updates.h"
#include "kernels/row_gather.h"
#include "kernels/array.h"

enum { SET = -1 }; /* beside TD_BINARY_* */

static td_status *wrong_dtype(const char *name, td_dtype holds,
                              td_dtype given) {
  return td_error(TD_INVALID_ARGUMENT,
                  "variable %s holds %s, which does not go with %s", name,
                  td_dtype_name(holds), td_dtype_name(given));
}

/* ---- ResourceGatherNd ---------------------------------------------------- */

static td_status *gather_infer(td_infer *c) {
  td_dtype dtype;
  td_shape x, out;
  if (!td_infer_handle(c, 0, &dtype, &x)) return NULL;
  if (dtype != td_infer_type(c, "dtype"))
    return wrong_dtype("", dtype, td_infer_type(c, "dtype"));
  TD_TRY(td_gather_nd_shape(td_infer_in(c, 1), &x, &out));
  td_infer_out(c, 0, out);
  return NULL;
}

static td_status *copy_slices(td_kernel_ctx *c, const td_tensor *x,
                              const int64_t *rows, int64_t n,
                              const td_shape *shape) {
  td_array from = {0}, to = {0};
  td_status *s = td_array_in(x, &from);
  if (td_ok(s)) s = td_array_out(c, 0, shape, &to);
  int64_t count = td_ok(s) ? td_shape_count(shape) : 0;
  if (count > 0)
    td_row_gather(c, from.at, rows, n, (size_t)(count / n) * from.size, to.at);
  if (td_ok(s)) s = td_array_done(c, 0, &to);
  td_array_drop(&from);
  td_array_drop(&to);
  return s;
}

td_status *td_gather_resource_nd_begin(td_kernel_ctx *c, const td_tensor **x,
                                       td_shape *shape) {
  td_dtype want = td_ctx_node(c)->out[0].dtype;
  td_variable *v;
  TD_TRY(td_var(c, 0, &v));
  TD_TRY(td_var_peek(c, v, x));
  if ((*x)->dtype != want) return wrong_dtype(v->base.name, (*x)->dtype, want);
  TD_TRY(td_gather_nd_shape(&td_in(c, 1)->shape, &(*x)->shape, shape));
  return td_array_count(shape, NULL);
}

static td_status *gather_run(td_kernel_ctx *c) {
  const td_tensor *x;
  td_shape out;
  int64_t *rows, n;
  TD_TRY(td_gather_resource_nd_begin(c, &x, &out));
  TD_TRY(td_gather_nd_rows(td_in(c, 1), &x->shape, false, &rows, &n));
  td_status *s = copy_slices(c, x, rows, n, &out);
  td_free(rows);
  return s;
}

/* ---- ResourceScatterNd --------------------------------------------------- */

static td_status *check_updates(const td_shape *updates, const td_shape *want) {
  td_shape_text a, b;
  if (td_shape_compatible(updates, want)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "updates must be of shape %s (the indices' but the last "
                  "dimension, then the rest of the variable's), not %s",
                  td_shape_str(want, &a), td_shape_str(updates, &b));
}

static td_status *scatter_infer(td_infer *c) {
  td_dtype dtype;
  td_shape x, want;
  bool ignore = false;
  TD_TRY(
      td_gather_nd_policy(td_infer_string(c, "bad_indices_policy"), &ignore));
  if (!td_infer_handle(c, 0, &dtype, &x)) return NULL;
  if (dtype != td_infer_type(c, "T"))
    return wrong_dtype("", dtype, td_infer_type(c, "T"));
  TD_TRY(td_gather_nd_shape(td_infer_in(c, 1), &x, &want));
  return check_updates(td_infer_in(c, 2), &want);
}

typedef struct scatter {
  int op; /* TD_BINARY_*, or SET */
  td_dtype dtype;
  int64_t each; /* elements of a slice */
  size_t bytes; /* of a slice */
  char *x;
  const char *updates;
} scatter;

static void scatter_slice(void *arg, int64_t i, int64_t row) {
  const scatter *g = arg;
  if (row < 0) return; /* out of range, and ignored */
  char *x = g->x + (size_t)row * g->bytes;
  const char *y = g->updates + (size_t)i * g->bytes;
  if (g->op == SET)
    memcpy(x, y, g->bytes);
  else
    td_binary_apply(g->op, g->dtype, td_cpu_isa(), g->each, x, y, x);
}

static td_status *scatter_plain(td_kernel_ctx *c, td_tensor *x, int op,
                                const int64_t *rows, int64_t n, int64_t each) {
  scatter g = {.op = x->dtype == TD_BOOL && op == TD_BINARY_AddV2
                         ? TD_BINARY_LogicalOr
                         : op,
               .dtype = x->dtype,
               .each = each,
               .bytes = (size_t)each * td_dtype_size(x->dtype),
               .x = x->data,
               .updates = td_in(c, 2)->data};
  td_shape shape = td_shape_vector(n);
  td_tensor numbers;
  TD_TRY(td_temp(c, TD_INT64, &shape, &numbers));
  memcpy(numbers.data, rows, (size_t)n * sizeof *rows);
  td_row_updates_run(c, &numbers, each, scatter_slice, &g);
  td_tensor_release(&numbers);
  return NULL;
}

/* Strings: a new tensor of the old elements and the new ones. */
static td_status *scatter_text(td_kernel_ctx *c, td_variable *v,
                               const td_tensor *now, const int64_t *rows,
                               int64_t n, int64_t each) {
  td_array x = {0}, y = {0};
  td_tensor t = {.dtype = TD_INVALID};
  td_status *s = td_array_edit(now, &x);
  if (td_ok(s)) s = td_array_in(td_in(c, 2), &y);
  size_t bytes = (size_t)each * x.size;
  for (int64_t i = 0; td_ok(s) && i < n; i++)
    if (rows[i] >= 0)
      memcpy(x.at + (size_t)rows[i] * bytes, y.at + (size_t)i * bytes, bytes);
  if (td_ok(s)) s = td_array_make(&x, &t);
  if (td_ok(s)) s = td_var_assign(c, v, &t);
  td_tensor_release(&t);
  td_array_drop(&x);
  td_array_drop(&y);
  return s;
}

static td_status *scatter_rows(td_kernel_ctx *c, td_variable *v,
                               const td_tensor *now, int op,
                               const int64_t *rows, int64_t n) {
  int64_t each = n ? td_tensor_count(td_in(c, 2)) / n : 0;
  td_tensor *x;
  if (each == 0) return NULL;
  if (now->dtype == TD_STRING) return scatter_text(c, v, now, rows, n, each);
  TD_TRY(td_var_write(c, v, &x));
  return scatter_plain(c, x, op, rows, n, each);
}

td_status *td_resource_scatter_nd_begin(td_kernel_ctx *c, td_variable **v,
                                        const td_tensor **now, bool *ignore) {
  const td_tensor *indices = td_in(c, 1), *updates = td_in(c, 2);
  td_shape want;
  TD_TRY(td_gather_nd_policy(
      td_node_string(td_ctx_node(c), "bad_indices_policy"), ignore));
  TD_TRY(td_var(c, 0, v));
  TD_TRY(td_var_peek(c, *v, now));
  if ((*now)->dtype != updates->dtype)
    return wrong_dtype((*v)->base.name, (*now)->dtype, updates->dtype);
  TD_TRY(td_gather_nd_shape(&indices->shape, &(*now)->shape, &want));
  return check_updates(&updates->shape, &want);
}

static td_status *scatter_run(td_kernel_ctx *c, int op) {
  const td_tensor *now;
  bool ignore = false;
  td_variable *v;
  int64_t *rows, n;
  TD_TRY(td_resource_scatter_nd_begin(c, &v, &now, &ignore));
  TD_TRY(td_gather_nd_rows(td_in(c, 1), &now->shape, ignore, &rows, &n));
  td_status *s = scatter_rows(c, v, now, op, rows, n);
  td_free(rows);
  return s;
}

static td_status *set_run(td_kernel_ctx *c) {
  return scatter_run(c, SET);
}
static td_status *add_run(td_kernel_ctx *c) {
  return scatter_run(c, TD_BINARY_AddV2);
}
static td_status *sub_run(td_kernel_ctx *c) {
  return scatter_run(c, TD_BINARY_Sub);
}
static td_status *min_run(td_kernel_ctx *c) {
  return scatter_run(c, TD_BINARY_Minimum);
}
static td_status *max_run(td_kernel_ctx *c) {
  return scatter_run(c, TD_BINARY_Maximum);
}

/* ---- cost -----------------------------------------------------------------
 */

/* Reads and writes the slices, and reads the updates. */
static void scatter_cost(td_infer *c, td_cost *cost) {
  *cost = (td_cost){td_infer_in_count(c, 2),
                    3 * td_infer_in_bytes(c, 2) + td_infer_in_bytes(c, 1)};
}

/* ---- tables -------------------------------------------------------------- */

#define REALS                                                                  \
  "half|bfloat16|float|double|int8|uint8|int16|uint16|int32|uint32|int64|"     \
  "uint64"
#define NUMBERS REALS "|complex64|complex128"
#define OP(name, text)                                                         \
  {                                                                            \
    .type = name,                                                              \
    .sig = "ref: resource, indices: Tindices, updates: T -> ; T: type; "       \
           "Tindices: {int32, int64}; use_locking: bool = true; "              \
           "bad_indices_policy: string = \"\"",                                \
    .shape = scatter_infer, .cost = scatter_cost, .doc = text, .lua = "",      \
    .flags = TD_STATEFUL | TD_UPDATES | TD_SPARSE,                             \
    .section = "Variables and state"                                           \
  }
#define KERNEL(name, dtypes, fn)                                               \
  {                                                                            \
    .op = name, .device = "CPU", .types = "T=" dtypes, .run = fn,              \
    .exclusive = "ref"                                                         \
  }

static const td_op_def ops[] = {
    {.type = "ResourceGatherNd",
     .sig = "resource: resource, indices: Tindices -> output: dtype; "
            "dtype: type; Tindices: {int32, int64}",
     .shape = gather_infer,
     .cost = td_cost_take,
     .doc = "Slices of a variable, named by the vectors along the last "
            "dimension of indices.",
     .lua = "",
     .flags = TD_STATEFUL | TD_READS | TD_SPARSE,
     .section = "Variables and state"},
    OP("ResourceScatterNdUpdate", "Gives slices of a variable new values."),
    OP("ResourceScatterNdAdd", "Adds to slices of a variable."),
    OP("ResourceScatterNdSub", "Subtracts from slices of a variable."),
    OP("ResourceScatterNdMin",
       "Takes the smaller of slices of a variable and the updates."),
    OP("ResourceScatterNdMax",
       "Takes the larger of slices of a variable and the updates."),
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "ResourceGatherNd",
     .device = "CPU",
     .run = gather_run,
     .shared = "resource"},
    KERNEL("ResourceScatterNdUpdate", "bool|string|" NUMBERS, set_run),
    KERNEL("ResourceScatterNdAdd", "bool|" NUMBERS, add_run),
    KERNEL("ResourceScatterNdSub", NUMBERS, sub_run),
    KERNEL("ResourceScatterNdMin", REALS, min_run),
    KERNEL("ResourceScatterNdMax", REALS, max_run),
    {0},
};

TD_MODULE(resource_scatter_nd, ops, kernels)
