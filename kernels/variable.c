/* variable.c - variables: handles, reading, assigning, destroying.
 *
 * The locks that reading and writing need are taken around the kernel, as its
 * row says.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/variable.h"
#include "kernels/array.h"
#include "kernels/cost.h"
#include "kernels/handle.h"
#include "kernels/operand.h"
#include "kernels/binary.h"
#include "kernels/cpu.h"
#include "kernels/variable.h"

/* ---- VarHandleOp --------------------------------------------------------- */

static td_status *make_variable(const td_kernel *k, td_resource **out) {
  const td_node *n = k->node;
  td_variable *v = NULL;
  TD_TRY(td_variable_new(td_node_type(n, "dtype"),
                         td_attr_as_shape(td_node_attr(n, "shape")), &v));
  *out = &v->base;
  return NULL;
}

/* Is the variable that somebody may have made before what the node wants? */
static td_status *check_found(const td_node *n, const td_resource *r) {
  const td_variable *v = (const td_variable *)r;
  const td_shape *shape = td_attr_as_shape(td_node_attr(n, "shape"));
  td_dtype dtype = td_node_type(n, "dtype");
  td_shape_text have, want;
  if (v->dtype == dtype && td_shape_compatible(&v->shape, shape)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "variable %s is %s %s, not %s %s as asked for", v->base.name,
                  td_dtype_name(v->dtype), td_shape_str(&v->shape, &have),
                  td_dtype_name(dtype), td_shape_str(shape, &want));
}

static td_status *handle_run(td_kernel_ctx *c) {
  static const td_handle_kind kind = {TD_VARIABLE, make_variable, check_found};
  const td_node *n = td_ctx_node(c);
  TD_TRY(td_handle_run_lasting(c, &kind));
  if (n->n_note > 0 && td_node_bool(n, "_rows")) /* see plan/prune.c */
    td_variable_by_rows((td_variable *)td_tensor_get_object(&c->out[0]));
  return NULL;
}

/* ---- reading ------------------------------------------------------------- */

static td_status *read_infer(td_infer *c) {
  td_dtype dtype;
  td_shape shape;
  if (!td_infer_handle(c, 0, &dtype, &shape)) return NULL;
  if (dtype != td_infer_type(c, "dtype"))
    return td_error(
        TD_INVALID_ARGUMENT, "the variable holds %s and cannot be read as %s",
        td_dtype_name(dtype), td_dtype_name(td_infer_type(c, "dtype")));
  td_infer_out(c, 0, shape);
  return NULL;
}

td_status *td_assign_read_run(td_kernel_ctx *c) {
  td_variable *v;
  td_tensor t;
  td_dtype dtype = td_ctx_node(c)->out[0].dtype;
  TD_TRY(td_var(c, 0, &v));
  if (v->dtype != dtype)
    return td_error(
        TD_INVALID_ARGUMENT, "variable %s holds %s and cannot be read as %s",
        v->base.name, td_dtype_name(v->dtype), td_dtype_name(dtype));
  TD_TRY(td_var_read(c, v, &t));
  td_out_set(c, 0, &t);
  td_tensor_release(&t);
  return NULL;
}

static td_status *share_run(td_kernel_ctx *c) {
  td_variable *v;
  TD_TRY(td_var(c, 0, &v));
  td_variable_as_whole(v);
  return NULL;
}

static td_status *is_initialized_run(td_kernel_ctx *c) {
  td_shape scalar = td_shape_scalar();
  td_variable *v;
  td_tensor *y;
  td_status *s = td_var(c, 0, &v);
  bool gone = td_status_code(s) == TD_NOT_FOUND;
  if (!gone) TD_TRY(s);
  td_status_release(s);
  TD_TRY(td_out(c, 0, &scalar, &y));
  *(bool *)y->data = !gone && td_tensor_valid(&v->value);
  return NULL;
}

static td_status *shape_infer(td_infer *c) {
  td_dtype dtype;
  td_shape shape;
  bool known = td_infer_handle(c, 0, &dtype, &shape) && shape.rank >= 0;
  td_infer_out(c, 0, td_shape_vector(known ? shape.rank : -1));
  return NULL;
}

static bool shape_value(td_infer *c, int out, td_small *v) {
  td_dtype dtype;
  td_shape shape;
  (void)out;
  if (!td_infer_handle(c, 0, &dtype, &shape) || shape.rank < 0) return false;
  *v = td_operand_sizes(&shape);
  return true;
}

static td_status *shape_run(td_kernel_ctx *c) {
  const td_tensor *x;
  td_variable *v;
  td_tensor *y;
  TD_TRY(td_var(c, 0, &v));
  TD_TRY(td_var_peek(c, v, &x));
  td_shape vector = td_shape_vector(x->shape.rank);
  TD_TRY(td_out(c, 0, &vector, &y));
  for (int k = 0; k < x->shape.rank; k++)
    TD_TRY(td_array_put(y, k, x->shape.dim[k], "a size of the variable"));
  return NULL;
}

/* ---- assigning ----------------------------------------------------------- */

static td_status *assign_infer(td_infer *c) {
  td_dtype dtype;
  td_shape shape;
  td_shape_text a, b;
  const td_shape *value = td_infer_in(c, 1);
  if (!td_infer_handle(c, 0, &dtype, &shape)) return NULL;
  if (dtype != td_infer_type(c, "dtype"))
    return td_error(
        TD_INVALID_ARGUMENT, "the variable holds %s and cannot be given %s",
        td_dtype_name(dtype), td_dtype_name(td_infer_type(c, "dtype")));
  if (td_shape_compatible(&shape, value)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "a variable of shape %s cannot be given a value of shape %s",
                  td_shape_str(&shape, &a), td_shape_str(value, &b));
}

static td_status *differing_shapes(const td_variable *v, const td_shape *have,
                                   const td_shape *value) {
  td_shape_text a, b;
  return td_error(TD_INVALID_ARGUMENT,
                  "variable %s is of shape %s now, the value of shape %s: they "
                  "must be equal",
                  v->base.name, td_shape_str(have, &a),
                  td_shape_str(value, &b));
}

td_status *td_assign_run(td_kernel_ctx *c) {
  const td_tensor *value = td_in(c, 1);
  td_variable *v;
  TD_TRY(td_var(c, 0, &v));
  if (td_node_bool(td_ctx_node(c), "validate_shape") &&
      td_tensor_valid(&v->value) &&
      !td_shape_equal(&v->value.shape, &value->shape))
    return differing_shapes(v, &v->value.shape, &value->shape);
  return td_var_assign(c, v, value);
}

typedef struct change {
  int op;
  td_dtype dtype;
  size_t size; /* bytes of an element */
  char *x;
  const char *y;
} change;

static void change_piece(void *arg, int64_t begin, int64_t end) {
  const change *g = arg;
  size_t at = (size_t)begin * g->size;
  td_binary_apply(g->op, g->dtype, td_cpu_isa(), end - begin, g->x + at,
                  g->y + at, g->x + at);
}

td_status *td_assign_change(td_kernel_ctx *c, td_tensor **x) {
  const td_tensor *value = td_in(c, 1), *now;
  td_variable *v;
  TD_TRY(td_var(c, 0, &v));
  TD_TRY(td_var_peek(c, v, &now));
  if (now->dtype != value->dtype)
    return td_error(
        TD_INVALID_ARGUMENT, "variable %s holds %s and cannot be changed by %s",
        v->base.name, td_dtype_name(now->dtype), td_dtype_name(value->dtype));
  if (!td_shape_equal(&now->shape, &value->shape))
    return differing_shapes(v, &now->shape, &value->shape);
  return td_var_write(c, v, x);
}

static td_status *change_run(td_kernel_ctx *c, int op) {
  td_tensor *x;
  TD_TRY(td_assign_change(c, &x));
  change g = {.op = op,
              .dtype = x->dtype,
              .size = td_dtype_size(x->dtype),
              .x = x->data,
              .y = td_in(c, 1)->data};
  td_for(c, td_tensor_count(x), TD_GRAIN, change_piece, &g);
  return NULL;
}

static td_status *add_run(td_kernel_ctx *c) {
  return change_run(c, TD_BINARY_AddV2);
}

static td_status *sub_run(td_kernel_ctx *c) {
  return change_run(c, TD_BINARY_Sub);
}

/* ---- DestroyResourceOp --------------------------------------------------- */

static td_status *destroy(td_kernel_ctx *c) {
  td_object *o = td_tensor_get_object(td_in(c, 0));
  if (!o)
    return td_error(TD_INVALID_ARGUMENT,
                    "resource must be one handle, not several");
  td_resource *r = (td_resource *)o;
  if (!r->name || __atomic_load_n(&r->gone, __ATOMIC_ACQUIRE))
    return td_error(TD_NOT_FOUND, "%s %s was destroyed before", o->type,
                    r->name ? r->name : "");
  td_resources *home = r->container[0] ? c->step->resources : c->step->own;
  if (!home)
    return td_error(TD_FAILED_PRECONDITION,
                    "a resource can only be destroyed in a session");
  return td_resources_remove(home, r->container, r->name);
}

static td_status *destroy_run(td_kernel_ctx *c) {
  td_status *s = destroy(c);
  bool lenient = td_node_bool(td_ctx_node(c), "ignore_lookup_error");
  if (!lenient || td_status_code(s) != TD_NOT_FOUND) return s;
  td_status_release(s);
  return NULL;
}

/* ---- cost -----------------------------------------------------------------
 */

/* Reads and writes the variable, and reads the value. */
static void add_cost(td_infer *c, td_cost *cost) {
  *cost = (td_cost){td_infer_in_count(c, 1), 3 * td_infer_in_bytes(c, 1)};
}

/* ---- tables -------------------------------------------------------------- */

#define NUMBERS                                                                \
  "dtype=half|bfloat16|float|double|int8|int16|int32|int64|"                   \
  "uint8|uint16|uint32|uint64|complex64|complex128"

static const td_op_def ops[] = {
    {.type = "VarHandleOp",
     .sig = "-> resource: resource; "
            "container: string = \"\"; shared_name: string = \"\"; "
            "debug_name: string = \"\"; dtype: type; shape: shape; "
            "allowed_devices: list(string) = {}",
     .shape = td_infer_scalars,
     .doc = "A handle of the variable of that name, made when there is none.",
     .lua = "",
     .flags = TD_STATEFUL | TD_CHEAP,
     .section = "Variables and state"},
    {.type = "ReadVariableOp",
     .sig = "resource: resource -> value: dtype; dtype: type",
     .shape = read_infer,
     .cost = td_cost_none,
     .doc = "The value of a variable.",
     .lua = "",
     .flags = TD_STATEFUL | TD_READS | TD_CHEAP,
     .section = "Variables and state"},
    {.type = "DisableCopyOnRead",
     .sig = "resource: resource ->",
     .shape = td_infer_none,
     .cost = td_cost_none,
     .doc =
         "Reads of a variable whose rows are worked on share its value again, "
         "until the next such work; before saving.",
     .lua = "",
     .flags = TD_STATEFUL | TD_NO_GRADIENT | TD_CHEAP,
     .section = "Variables and state"},
    {.type = "VarIsInitializedOp",
     .sig = "resource: resource -> is_initialized: bool",
     .shape = td_infer_scalars,
     .cost = td_cost_none,
     .doc = "Has the variable been given a value?",
     .lua = "",
     .flags = TD_STATEFUL | TD_NO_GRADIENT | TD_CHEAP,
     .host = "is_initialized",
     .section = "Variables and state"},
    {.type = "VariableShape",
     .sig = "input: resource -> output: out_type; "
            "out_type: {int32, int64} = int32",
     .shape = shape_infer,
     .cost = td_cost_none,
     .value = shape_value,
     .doc = "The shape of a variable's value.",
     .lua = "",
     .flags = TD_STATEFUL | TD_NO_GRADIENT | TD_CHEAP,
     .host = "output",
     .section = "Variables and state"},
    {.type = "AssignVariableOp",
     .sig = "resource: resource, value: dtype -> ; "
            "dtype: type; validate_shape: bool = false",
     .shape = assign_infer,
     .cost = td_cost_move,
     .doc = "Gives a variable a value.",
     .lua = "",
     .flags = TD_STATEFUL | TD_UPDATES,
     .section = "Variables and state"},
    {.type = "AssignAddVariableOp",
     .sig = "resource: resource, value: dtype -> ; dtype: type",
     .shape = assign_infer,
     .cost = add_cost,
     .doc = "Adds to a variable.",
     .lua = "",
     .flags = TD_STATEFUL | TD_UPDATES,
     .section = "Variables and state"},
    {.type = "AssignSubVariableOp",
     .sig = "resource: resource, value: dtype -> ; dtype: type",
     .shape = assign_infer,
     .cost = add_cost,
     .doc = "Subtracts from a variable.",
     .lua = "",
     .flags = TD_STATEFUL | TD_UPDATES,
     .section = "Variables and state"},
    {.type = "DestroyResourceOp",
     .sig = "resource: resource -> ; ignore_lookup_error: bool = true",
     .shape = td_infer_none,
     .doc = "Takes a resource out of its container: the next use of its name "
            "makes a new one.",
     .lua = "",
     .flags = TD_STATEFUL,
     .section = "Variables and state"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "VarHandleOp",
     .device = "CPU",
     .run = handle_run,
     TD_HANDLE_STATE,
     .flags = TD_KERNEL_INLINE},
    {.op = "ReadVariableOp",
     .device = "CPU",
     .run = td_assign_read_run,
     .shared = "resource"},
    {.op = "DisableCopyOnRead",
     .device = "CPU",
     .run = share_run,
     .shared = "resource",
     .flags = TD_KERNEL_INLINE},
    {.op = "VarIsInitializedOp",
     .device = "CPU",
     .run = is_initialized_run,
     .shared = "resource",
     .flags = TD_KERNEL_INLINE},
    {.op = "VariableShape",
     .device = "CPU",
     .run = shape_run,
     .shared = "input",
     .flags = TD_KERNEL_INLINE},
    {.op = "AssignVariableOp",
     .device = "CPU",
     .run = td_assign_run,
     .exclusive = "resource"},
    {.op = "AssignAddVariableOp",
     .device = "CPU",
     .types = NUMBERS,
     .run = add_run,
     .exclusive = "resource"},
    {.op = "AssignSubVariableOp",
     .device = "CPU",
     .types = NUMBERS,
     .run = sub_run,
     .exclusive = "resource"},
    {.op = "DestroyResourceOp",
     .device = "CPU",
     .run = destroy_run,
     .flags = TD_KERNEL_INLINE},
    {0},
};

TD_MODULE(variable, ops, kernels)
