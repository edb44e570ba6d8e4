/* training.c - optimizers: one pass over memory for each update.
 *
 * What an optimizer does to an element stands in training.def. The rest is the
 * same for all: which inputs are variables, gradient, indices and scalars is
 * read from the op's signature when the kernel is made; everything is checked
 * before the first variable is written. Sparse updates do the same to the rows
 * that `indices` name. float16 and bfloat16 are computed in float and rounded
 * once.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define TRAINING_TABLE td_training_scalar
#include "engine/device/variable.h"
#include "kernels/simd/training_loops.h"

#include <string.h>

#include "kernels/cpu.h"
#include "kernels/row_updates.h"
#include "kernels/training_run.h"

enum { MAX_VARS = TD_TRAINING_VARS, BLOCK = TD_HALF_BLOCK };

td_training_loop td_training_find(int update, td_dtype t, td_isa isa) {
  td_training_loop loop = NULL;
  if (isa >= TD_AVX512) loop = td_training_avx512[update][t];
  if (!loop && isa >= TD_AVX2) loop = td_training_avx2[update][t];
  return loop ? loop : td_training_scalar[update][t];
}

/* ---- reading the signature ----------------------------------------------- */

/* Input indices by what they are for. */
typedef struct roles {
  int var[MAX_VARS], n_vars;
  int scalar[TD_TRAINING_SCALARS], n_scalars;
  int grad, indices; /* indices -1: none, all of the variable */
} roles;

static roles roles_of(const td_op *op) {
  roles r = {.grad = -1, .indices = -1};
  for (int i = 0; i < op->n_in; i++) {
    const char *name = op->in[i].name;
    if (op->in[i].type == TD_RESOURCE)
      r.var[r.n_vars++] = i;
    else if (strcmp(name, "grad") == 0 || strcmp(name, "delta") == 0)
      r.grad = i;
    else if (strcmp(name, "indices") == 0)
      r.indices = i;
    else
      r.scalar[r.n_scalars++] = i;
  }
  return r;
}

/* ---- shapes -------------------------------------------------------------- */

static td_status *not_as(const char *what, const td_shape *is,
                         const char *variable, const td_shape *want) {
  td_shape_text a, b;
  return td_error(TD_INVALID_ARGUMENT, "%s is of shape %s, but %s of shape %s",
                  what, td_shape_str(is, &a), variable, td_shape_str(want, &b));
}

static td_status *check_scalar(const char *what, const td_shape *s) {
  td_shape_text text;
  if (s->rank <= 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "%s must be a scalar, not of shape %s",
                  what, td_shape_str(s, &text));
}

/* A gradient of rows: one for each index. */
static td_status *check_rows(const char *what, const td_shape *grad,
                             const td_shape *indices, const char *variable,
                             const td_shape *var) {
  td_shape_text a, b, d;
  if (var->rank == 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "%s must be of rank 1 or more to have rows", variable);
  if (indices->rank >= 0 && indices->rank != 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "indices must be a vector, not of shape %s",
                    td_shape_str(indices, &a));
  if (var->rank < 0 || indices->rank < 0) return NULL;
  td_shape want = *var;
  want.dim[0] = indices->dim[0];
  if (td_shape_compatible(&want, grad)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "%s must be of shape %s (a row of %s, of shape %s, for each "
                  "index), not %s",
                  what, td_shape_str(&want, &a), variable,
                  td_shape_str(var, &b), td_shape_str(grad, &d));
}

static td_status *apply_infer(td_infer *c) {
  const td_op *op = td_infer_op(c);
  roles r = roles_of(op);
  td_dtype dtype;
  td_shape var = td_shape_unknown(), shape;
  for (int k = 0; k < r.n_scalars; k++)
    TD_TRY(check_scalar(op->in[r.scalar[k]].name, td_infer_in(c, r.scalar[k])));
  for (int k = 0; k < r.n_vars; k++) {
    if (!td_infer_handle(c, r.var[k], &dtype, &shape)) continue;
    if (!td_shape_merge(&var, &shape, &var))
      return not_as(op->in[r.var[k]].name, &shape, "var", &var);
  }
  const td_shape *grad = td_infer_in(c, r.grad);
  const char *name = op->in[r.grad].name;
  if (r.indices >= 0)
    return check_rows(name, grad, td_infer_in(c, r.indices), "var", &var);
  if (td_shape_compatible(&var, grad)) return NULL;
  return not_as(name, grad, "var", &var);
}

/* ---- the kernel's state -------------------------------------------------- */

typedef struct plan {
  roles roles;
  int update; /* TD_TRAINING_* */
  bool option;
} plan;

static int update_of(const char *type) {
  static const char *const names[] = {
#define UPDATE(name, ...) #name,
#define REAL_UPDATE UPDATE
#include "kernels/training.def"
#undef REAL_UPDATE
#undef UPDATE
  };
  const char *apply = strstr(type, "Apply");
  for (int i = 0; apply && i < TD_TRAININGS; i++)
    if (strcmp(apply + strlen("Apply"), names[i]) == 0) return i;
  return -1;
}

td_status *td_training_make(const td_kernel_info *info, void **state) {
  const td_node *n = info->node;
  plan *p = td_calloc(1, sizeof *p);
  if (!p) return td_oom();
  p->roles = roles_of(n->op);
  p->update = update_of(n->op->type);
  p->option = td_node_bool(n, "use_nesterov") ||
              td_node_bool(n, "update_slots") ||
              td_node_bool(n, "multiply_linear_by_lr");
  *state = p;
  return NULL;
}

/* ---- checks -------------------------------------------------------------- */

static const char *name_of(const td_kernel_ctx *c, int i) {
  return td_ctx_node(c)->op->in[i].name;
}

/* The variables of one step, before any is written. */
static td_status *look(td_kernel_ctx *c, const roles *r, td_variable **var,
                       const td_tensor **value) {
  td_dtype dtype = td_in(c, r->grad)->dtype;
  for (int k = 0; k < r->n_vars; k++) {
    TD_TRY(td_var(c, r->var[k], &var[k]));
    TD_TRY(td_var_peek(c, var[k], &value[k]));
    if (value[k]->dtype != dtype)
      return td_error(TD_INVALID_ARGUMENT,
                      "variable %s holds %s, but the gradient is %s",
                      var[k]->base.name, td_dtype_name(value[k]->dtype),
                      td_dtype_name(dtype));
    for (int j = 0; j < k; j++)
      if (var[j] == var[k])
        return td_error(
            TD_INVALID_ARGUMENT, "%s and %s must be two variables, both are %s",
            name_of(c, r->var[j]), name_of(c, r->var[k]), var[k]->base.name);
    if (!td_shape_equal(&value[k]->shape, &value[0]->shape))
      return not_as(var[k]->base.name, &value[k]->shape, var[0]->base.name,
                    &value[0]->shape);
  }
  return NULL;
}

static td_status *check(td_kernel_ctx *c, const roles *r, const td_variable *v,
                        const td_shape *var) {
  const td_shape *grad = &td_in(c, r->grad)->shape;
  for (int k = 0; k < r->n_scalars; k++)
    TD_TRY(
        check_scalar(name_of(c, r->scalar[k]), &td_in(c, r->scalar[k])->shape));
  if (r->indices < 0) {
    if (td_shape_equal(grad, var)) return NULL;
    return not_as(name_of(c, r->grad), grad, v->base.name, var);
  }
  const td_tensor *indices = td_in(c, r->indices);
  TD_TRY(check_rows(name_of(c, r->grad), grad, &indices->shape, v->base.name,
                    var));
  return td_row_updates_check(c, indices, var->dim[0]);
}

/* ---- the update ---------------------------------------------------------- */

typedef struct update {
  td_training_loop loop;
  const td_half_table *half; /* NULL: the dtype has a loop of its own */
  int n_vars;
  size_t size;  /* bytes of an element */
  int64_t each; /* elements of a row */
  char *var[MAX_VARS];
  const char *grad;
  bool option;
  _Alignas(16) char scalars[TD_TRAINING_SCALARS * 16];
} update;

static void run_half(const update *u, int64_t n, void *const *var,
                     const uint16_t *grad) {
  float block[MAX_VARS + 1][BLOCK];
  void *at[MAX_VARS];
  for (int64_t i = 0; i < n; i += BLOCK) {
    int64_t m = n - i < BLOCK ? n - i : BLOCK;
    u->half->load(m, grad + i, block[MAX_VARS]);
    for (int k = 0; k < u->n_vars; k++) {
      u->half->load(m, (const uint16_t *)var[k] + i, block[k]);
      at[k] = block[k];
    }
    u->loop(m, at, block[MAX_VARS], u->scalars, u->option);
    for (int k = 0; k < u->n_vars; k++)
      u->half->store(m, block[k], (uint16_t *)var[k] + i);
  }
}

/* n elements of the variables from `to`, of the gradient from `from`. */
static void run_at(const update *u, int64_t n, size_t to, size_t from) {
  void *var[MAX_VARS];
  for (int k = 0; k < u->n_vars; k++) var[k] = u->var[k] + to * u->size;
  const char *grad = u->grad + from * u->size;
  if (u->half)
    run_half(u, n, var, (const uint16_t *)(const void *)grad);
  else
    u->loop(n, var, grad, u->scalars, u->option);
}

static void run_piece(void *arg, int64_t begin, int64_t end) {
  run_at(arg, end - begin, (size_t)begin, (size_t)begin);
}

static void run_row(void *arg, int64_t i, int64_t row) {
  const update *u = arg;
  run_at(u, u->each, (size_t)(row * u->each), (size_t)(i * u->each));
}

static void take_scalars(const td_training_run *r, update *u) {
  for (int k = 0; k < r->n_scalars; k++)
    if (u->half)
      u->half->load(1, r->scalar[k], (float *)(void *)u->scalars + k);
    else
      memcpy(u->scalars + (size_t)k * u->size, r->scalar[k], u->size);
}

static void run_all(const td_kernel_ctx *c, const td_training_run *r,
                    update *u) {
  if (!r->indices) {
    td_for(c, td_shape_count(&r->shape), TD_GRAIN / 2, run_piece, u);
    return;
  }
  u->each = td_shape_span(&r->shape, 1, r->shape.rank);
  if (u->each > 0) td_row_updates_run(c, r->indices, u->each, run_row, u);
}

td_status *td_training_begin(td_kernel_ctx *c, td_training_run *out) {
  const plan *p = c->kernel->state;
  const roles *r = &p->roles;
  td_variable *var[MAX_VARS];
  const td_tensor *value[MAX_VARS];
  td_tensor *x;
  TD_TRY(look(c, r, var, value));
  TD_TRY(check(c, r, var[0], &value[0]->shape));
  *out = (td_training_run){.update = p->update,
                           .option = p->option,
                           .dtype = value[0]->dtype,
                           .shape = value[0]->shape,
                           .n_vars = r->n_vars,
                           .n_scalars = r->n_scalars,
                           .grad = td_in(c, r->grad)->data,
                           .indices =
                               r->indices < 0 ? NULL : td_in(c, r->indices)};
  for (int k = 0; k < r->n_scalars; k++)
    out->scalar[k] = td_in(c, r->scalar[k])->data;
  for (int k = 0; k < r->n_vars; k++) {
    TD_TRY(td_var_write(c, var[k], &x));
    out->var[k] = x->data;
  }
  return NULL;
}

static td_status *apply_run(td_kernel_ctx *c) {
  td_training_run r;
  TD_TRY(td_training_begin(c, &r));
  td_isa isa = td_cpu_isa();
  bool half = td_is_half(r.dtype);
  update u = {.loop =
                  td_training_find(r.update, half ? TD_FLOAT32 : r.dtype, isa),
              .half = half ? td_half_table_of(r.dtype, isa) : NULL,
              .n_vars = r.n_vars,
              .size = td_dtype_size(r.dtype),
              .grad = r.grad,
              .option = r.option};
  take_scalars(&r, &u);
  for (int k = 0; k < r.n_vars; k++) u.var[k] = r.var[k];
  run_all(c, &r, &u);
  return NULL;
}

/* ---- cost -----------------------------------------------------------------
 */

/* Index of the gradient among the inputs: each argument is one tensor. */
static int gradient_of(const td_infer *c) {
  const td_op *op = td_infer_op(c);
  for (int i = 0; i < op->n_in; i++)
    if (strcmp(op->in[i].name, "grad") == 0 ||
        strcmp(op->in[i].name, "delta") == 0)
      return i;
  return 0;
}

/* Four for each element of the variable and each of its slots, two of them for
 * the variable itself; each is read and written, and the gradient is read. */
static void apply_cost(td_infer *c, td_cost *cost) {
  int held = 0, grad = gradient_of(c);
  for (int i = 0; i < td_infer_inputs(c); i++)
    held += td_infer_in_type(c, i) == TD_RESOURCE;
  cost->flops = (4 * held - 2) * td_infer_in_count(c, grad);
  cost->bytes = (2 * held + 1) * td_infer_in_bytes(c, grad);
}

/* ---- tables -------------------------------------------------------------- */

#define NUMBERS                                                                \
  "{float, double, int32, uint8, int16, int8, complex64, int64, qint8, "       \
  "quint8, qint32, bfloat16, qint16, quint16, uint16, complex128, half, "      \
  "uint32, uint64}"
#define ATTRS "T: " NUMBERS "; use_locking: bool = false"
#define SPARSE_ATTRS                                                           \
  "T: " NUMBERS "; Tindices: {int32, int64}; use_locking: bool = false"
#define OP(name, signature, extra, text)                                       \
  {                                                                            \
    .type = name, .sig = signature, .shape = apply_infer, .cost = apply_cost,  \
    .doc = text, .lua = "", .flags = TD_STATEFUL | TD_UPDATES | (extra),       \
    .section = "Training"                                                      \
  }
#define KERNEL(name, vars)                                                     \
  KERNEL_OF(name, vars, "T=half|bfloat16|float|double|complex64|complex128")
#define REAL_KERNEL(name, vars)                                                \
  KERNEL_OF(name, vars, "T=half|bfloat16|float|double")
#define KERNEL_OF(name, vars, dtypes)                                          \
  {.op = name,                                                                 \
   .device = "CPU",                                                            \
   .types = dtypes,                                                            \
   .run = apply_run,                                                           \
   .make = td_training_make,                                                   \
   .drop = td_free,                                                            \
   .exclusive = vars,                                                          \
   .flags = TD_KERNEL_OWN},

static const td_op_def ops[] = {
    OP("ResourceApplyGradientDescent",
       "var: resource, alpha: T, delta: T -> ; " ATTRS, 0,
       "var -= alpha * delta"),
    OP("ResourceApplyMomentum",
       "var: resource, accum: resource, lr: T, grad: T, momentum: T -> ; " ATTRS
       "; use_nesterov: bool = false",
       0, "accum = accum * momentum + grad; var -= lr * accum"),
    OP("ResourceApplyAdagrad",
       "var: resource, accum: resource, lr: T, grad: T -> ; " ATTRS
       "; update_slots: bool = true",
       0, "accum += grad^2; var -= lr * grad / sqrt(accum)"),
    OP("ResourceApplyAdagradV2",
       "var: resource, accum: resource, lr: T, epsilon: T, grad: T -> ; " ATTRS
       "; update_slots: bool = true",
       0, "accum += grad^2; var -= lr * grad / (sqrt(accum) + epsilon)"),
    OP("ResourceApplyAdam",
       "var: resource, m: resource, v: resource, beta1_power: T, "
       "beta2_power: T, lr: T, beta1: T, beta2: T, epsilon: T, grad: T -> "
       "; " ATTRS "; use_nesterov: bool = false",
       0,
       "m and v are running means of grad and grad^2; "
       "var -= lr * m / (sqrt(v) + epsilon), corrected for their start at 0."),
    OP("ResourceApplyRMSProp",
       "var: resource, ms: resource, mom: resource, lr: T, rho: T, "
       "momentum: T, epsilon: T, grad: T -> ; " ATTRS,
       0,
       "ms is a running mean of grad^2; mom = momentum * mom + "
       "lr * grad / sqrt(ms + epsilon); var -= mom"),
    OP("ResourceApplyAdadelta",
       "var: resource, accum: resource, accum_update: resource, lr: T, "
       "rho: T, epsilon: T, grad: T -> ; " ATTRS,
       0,
       "accum and accum_update are running means of grad^2 and update^2; "
       "var -= lr * update"),
    OP("ResourceSparseApplyMomentum",
       "var: resource, accum: resource, lr: T, grad: T, indices: Tindices, "
       "momentum: T -> ; " SPARSE_ATTRS "; use_nesterov: bool = false",
       TD_SPARSE, "ResourceApplyMomentum for the rows that indices name."),
    OP("ResourceSparseApplyAdagrad",
       "var: resource, accum: resource, lr: T, grad: T, indices: Tindices -> "
       "; " SPARSE_ATTRS "; update_slots: bool = true",
       TD_SPARSE, "ResourceApplyAdagrad for the rows that indices name."),
    OP("ResourceSparseApplyAdagradV2",
       "var: resource, accum: resource, lr: T, epsilon: T, grad: T, "
       "indices: Tindices -> ; " SPARSE_ATTRS "; update_slots: bool = true",
       TD_SPARSE, "ResourceApplyAdagradV2 for the rows that indices name."),
    OP("ResourceApplyKerasMomentum",
       "var: resource, accum: resource, lr: T, grad: T, momentum: T -> ; " ATTRS
       "; use_nesterov: bool = false",
       0, "accum = accum * momentum - lr * grad; var += accum"),
    OP("ResourceSparseApplyKerasMomentum",
       "var: resource, accum: resource, lr: T, grad: T, indices: Tindices,"
       " momentum: T -> ; " SPARSE_ATTRS "; use_nesterov: bool = false",
       TD_SPARSE, "ResourceApplyKerasMomentum for the rows that indices name."),
    OP("ResourceApplyCenteredRMSProp",
       "var: resource, mg: resource, ms: resource, mom: resource, lr: T, "
       "rho: T, momentum: T, epsilon: T, grad: T -> ; " ATTRS,
       0,
       "mg and ms are running means of grad and grad^2; mom = momentum * "
       "mom + lr * grad / sqrt(ms - mg^2 + epsilon); var -= mom"),
    OP("ResourceSparseApplyCenteredRMSProp",
       "var: resource, mg: resource, ms: resource, mom: resource, lr: T, "
       "rho: T, momentum: T, epsilon: T, grad: T, indices: Tindices -> "
       "; " SPARSE_ATTRS,
       TD_SPARSE,
       "ResourceApplyCenteredRMSProp for the rows that indices name."),
    OP("ResourceSparseApplyRMSProp",
       "var: resource, ms: resource, mom: resource, lr: T, rho: T, "
       "momentum: T, epsilon: T, grad: T, indices: Tindices -> ; " SPARSE_ATTRS,
       TD_SPARSE, "ResourceApplyRMSProp for the rows that indices name."),
    OP("ResourceSparseApplyAdadelta",
       "var: resource, accum: resource, accum_update: resource, lr: T, "
       "rho: T, epsilon: T, grad: T, indices: Tindices -> ; " SPARSE_ATTRS,
       TD_SPARSE, "ResourceApplyAdadelta for the rows that indices name."),
    OP("ResourceApplyAdaMax",
       "var: resource, m: resource, v: resource, beta1_power: T, lr: T, "
       "beta1: T, beta2: T, epsilon: T, grad: T -> ; " ATTRS,
       0,
       "m is a running mean of grad, v of its largest size; var -= lr / (1"
       " - beta1_power) * m / (v + epsilon)"),
    OP("ResourceApplyAdamWithAmsgrad",
       "var: resource, m: resource, v: resource, vhat: resource, "
       "beta1_power: T, beta2_power: T, lr: T, beta1: T, beta2: T, "
       "epsilon: T, grad: T -> ; " ATTRS,
       0, "ResourceApplyAdam with vhat, the largest v so far, in place of v."),
    OP("ResourceApplyAddSign",
       "var: resource, m: resource, lr: T, alpha: T, sign_decay: T, beta: "
       "T, grad: T -> ; " ATTRS,
       0,
       "m is a running mean of grad; var -= lr * (alpha + sign_decay * "
       "sign(grad) * sign(m)) * grad"),
    OP("ResourceApplyPowerSign",
       "var: resource, m: resource, lr: T, logbase: T, sign_decay: T, "
       "beta: T, grad: T -> ; " ATTRS,
       0,
       "m is a running mean of grad; var -= lr * exp(logbase * sign_decay "
       "* sign(grad) * sign(m)) * grad"),
    OP("ResourceApplyProximalGradientDescent",
       "var: resource, alpha: T, l1: T, l2: T, delta: T -> ; " ATTRS, 0,
       "A step of gradient descent, then towards 0 by l1 and shorter by "
       "l2."),
    OP("ResourceSparseApplyProximalGradientDescent",
       "var: resource, alpha: T, l1: T, l2: T, grad: T, indices: Tindices "
       "-> ; " SPARSE_ATTRS,
       TD_SPARSE,
       "ResourceApplyProximalGradientDescent for the rows that indices "
       "name."),
    OP("ResourceApplyProximalAdagrad",
       "var: resource, accum: resource, lr: T, l1: T, l2: T, grad: T -> "
       "; " ATTRS,
       0, "A step of Adagrad, then towards 0 by l1 and shorter by l2."),
    OP("ResourceSparseApplyProximalAdagrad",
       "var: resource, accum: resource, lr: T, l1: T, l2: T, grad: T, "
       "indices: Tindices -> ; " SPARSE_ATTRS,
       TD_SPARSE,
       "ResourceApplyProximalAdagrad for the rows that indices name."),
    OP("ResourceApplyFtrl",
       "var: resource, accum: resource, linear: resource, grad: T, lr: T, "
       "l1: T, l2: T, lr_power: T -> ; " ATTRS
       "; multiply_linear_by_lr: bool = false",
       0,
       "accum += grad^2; linear sums gradients; var is what they and l1, "
       "l2 pull it to."),
    OP("ResourceSparseApplyFtrl",
       "var: resource, accum: resource, linear: resource, grad: T, "
       "indices: Tindices, lr: T, l1: T, l2: T, lr_power: T -> ; " SPARSE_ATTRS
       "; multiply_linear_by_lr: bool = false",
       TD_SPARSE, "ResourceApplyFtrl for the rows that indices name."),
    OP("ResourceApplyFtrlV2",
       "var: resource, accum: resource, linear: resource, grad: T, lr: T, "
       "l1: T, l2: T, l2_shrinkage: T, lr_power: T -> ; " ATTRS
       "; multiply_linear_by_lr: bool = false",
       0,
       "ResourceApplyFtrl with l2_shrinkage, a pull that does not enter "
       "accum."),
    OP("ResourceSparseApplyFtrlV2",
       "var: resource, accum: resource, linear: resource, grad: T, "
       "indices: Tindices, lr: T, l1: T, l2: T, l2_shrinkage: T, lr_power:"
       " T -> ; " SPARSE_ATTRS "; multiply_linear_by_lr: bool = false",
       TD_SPARSE, "ResourceApplyFtrlV2 for the rows that indices name."),
    {0},
};

static const td_kernel_def kernels[] = {
#include "kernels/training_rows.def"
    {0},
};

TD_MODULE(training, ops, kernels)
