/* select.c - one of two tensors, element by element.
 *
 * Elements are moved as bytes, so one loop a size serves all dtypes. With a
 * scalar condition the chosen operand is passed on as it is.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/mem.h"
#include "kernels/checks.h"
#include "kernels/cost.h"
#include "kernels/cpu.h"
#include "kernels/element.h"
#include "kernels/simd/vec.h"

enum { CONDITION, THEN, ELSE, OPERANDS };

/* ---- loops --------------------------------------------------------------- */

typedef void (*select_loop)(int64_t n, const td_b8 *c, const void *t,
                            const void *e, void *out);

typedef struct bytes16 {
  uint64_t low, high;
} bytes16;

#define LOOP(name, type)                                                       \
  static void name(int64_t n, const td_b8 *c, const void *then_,               \
                   const void *else_, void *out) {                             \
    const type *t = then_, *e = else_;                                         \
    type *y = out;                                                             \
    TD_VEC_LOOP                                                                \
    for (int64_t i = 0; i < n; i++) {                                          \
      type a = t[i], b = e[i];                                                 \
      y[i] = c[i] ? a : b;                                                     \
    }                                                                          \
  }
LOOP(select_1, uint8_t)
LOOP(select_2, uint16_t)
LOOP(select_4, uint32_t)
LOOP(select_8, uint64_t)
LOOP(select_16, bytes16)

static select_loop loop_for(size_t size) {
  switch (size) {
  case 1:
    return select_1;
  case 2:
    return select_2;
  case 4:
    return select_4;
  case 8:
    return select_8;
  default:
    return select_16;
  }
}

/* ---- plain dtypes -------------------------------------------------------- */

typedef struct job {
  td_broadcast plan;
  select_loop loop;
  const void *in[OPERANDS];
  size_t size[OPERANDS];
  char *out;
} job;

static void block(void *arg, int64_t n, const void *const *in, int64_t at) {
  const job *j = arg;
  j->loop(n, in[CONDITION], in[THEN], in[ELSE],
          j->out + (size_t)at * j->size[THEN]);
}

static void piece(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  td_broadcast_run(&j->plan, j->in, j->size, begin, end, block, arg);
}

static td_status *select_plain(td_kernel_ctx *c, const td_broadcast *plan,
                               const td_shape *shape) {
  size_t size = td_dtype_size(td_in(c, THEN)->dtype);
  job j = {.plan = *plan, .loop = loop_for(size), .size = {1, size, size}};
  for (int k = 0; k < OPERANDS; k++) j.in[k] = td_in(c, k)->data;
  td_tensor *y;
  TD_TRY(td_out_forward(c, 0, shape, THEN, ELSE, &y));
  j.out = y->data;
  td_for(c, plan->count, TD_GRAIN, piece, &j);
  return NULL;
}

/* ---- text ---------------------------------------------------------------- */

static const char *text_at(const td_kernel_ctx *c, const td_broadcast *plan,
                           int64_t i, size_t *len) {
  const td_b8 *condition = td_in(c, CONDITION)->data;
  bool yes = condition[td_broadcast_index(plan, CONDITION, i)];
  int k = yes ? THEN : ELSE;
  return td_tensor_str(td_in(c, k), td_broadcast_index(plan, k, i), len);
}

static td_status *select_text(td_kernel_ctx *c, const td_broadcast *plan,
                              const td_shape *shape) {
  size_t total = 0, len;
  uint64_t *offsets;
  char *to;
  td_tensor y;
  for (int64_t i = 0; i < plan->count; i++) {
    text_at(c, plan, i, &len);
    if (!td_add(total, len, &total))
      return td_error(TD_RESOURCE_EXHAUSTED,
                      "the chosen strings are longer than memory");
  }
  TD_TRY(td_tensor_strings_new(shape, total, &y, &offsets, &to));
  for (int64_t i = 0; i < plan->count; i++) {
    const char *from = text_at(c, plan, i, &len);
    memcpy(to, from, len);
    to += len;
    offsets[i + 1] = offsets[i] + len;
  }
  td_out_set(c, 0, &y);
  td_tensor_release(&y);
  return NULL;
}

/* ---- kernels ------------------------------------------------------------- */

/* `condition` as it is seen: with axes of 1 behind it in Select. */
static td_status *run(td_kernel_ctx *c, const td_shape *condition) {
  const td_tensor *t = td_in(c, THEN), *e = td_in(c, ELSE);
  const td_shape *shapes[] = {condition, &t->shape, &e->shape};
  td_broadcast plan;
  td_shape shape;
  TD_TRY(td_broadcast_plan(&plan, OPERANDS, shapes, &shape));
  if (td_shape_count(condition) == 1) {
    int k = *(const td_b8 *)td_in(c, CONDITION)->data ? THEN : ELSE;
    if (td_shape_equal(&td_in(c, k)->shape, &shape)) {
      td_out_pass(c, 0, k);
      return NULL;
    }
  }
  if (t->dtype == TD_STRING) return select_text(c, &plan, &shape);
  if (td_dtype_is_plain(t->dtype)) return select_plain(c, &plan, &shape);
  return td_error(TD_UNIMPLEMENTED,
                  "elements of %s can only be chosen by a scalar condition",
                  td_dtype_name(t->dtype));
}

static td_status *run_select_v2(td_kernel_ctx *c) {
  return run(c, &td_in(c, CONDITION)->shape);
}

static td_status *refuse(const td_shape *condition, const td_shape *t) {
  td_shape_text a, b;
  return td_error(TD_INVALID_ARGUMENT,
                  "condition must be a scalar, of the shape %s of t, or a "
                  "vector of t's first dimension, not %s",
                  td_shape_str(t, &a), td_shape_str(condition, &b));
}

td_status *td_select_check(const td_kernel_ctx *c, td_shape *seen) {
  const td_shape *t = &td_in(c, THEN)->shape, *e = &td_in(c, ELSE)->shape;
  td_shape_text a, b;
  *seen = td_in(c, CONDITION)->shape;
  if (!td_shape_equal(t, e))
    return td_error(TD_INVALID_ARGUMENT,
                    "t and e must have one shape, not %s "
                    "and %s",
                    td_shape_str(t, &a), td_shape_str(e, &b));
  if (seen->rank == 1 && t->rank > 1 && seen->dim[0] == t->dim[0])
    while (seen->rank < t->rank) seen->dim[seen->rank++] = 1;
  else if (seen->rank > 0 && !td_shape_equal(seen, t))
    return refuse(seen, t);
  return NULL;
}

static td_status *run_select(td_kernel_ctx *c) {
  td_shape seen;
  TD_TRY(td_select_check(c, &seen));
  return run(c, &seen);
}

/* ---- shapes -------------------------------------------------------------- */

/* A vector goes with t's first axis, whatever t's rank. */
static bool fits(const td_shape *condition, const td_shape *t, td_shape *out) {
  *out = *t;
  if (condition->rank <= 0 || t->rank < 0) return true;
  if (condition->rank != 1) return td_shape_merge(condition, t, out);
  if (t->rank == 0) return false;
  td_shape first = td_shape_vector(t->dim[0]);
  if (!td_shape_merge(condition, &first, &first)) return false;
  out->dim[0] = first.dim[0];
  return true;
}

static td_status *shape_select(td_infer *c) {
  const td_shape *t = td_infer_in(c, THEN), *e = td_infer_in(c, ELSE);
  const td_shape *condition = td_infer_in(c, CONDITION);
  td_shape both, out;
  td_shape_text a, b;
  if (!td_shape_merge(t, e, &both))
    return td_error(TD_INVALID_ARGUMENT,
                    "t and e must have one shape, not %s "
                    "and %s",
                    td_shape_str(t, &a), td_shape_str(e, &b));
  if (!fits(condition, &both, &out)) return refuse(condition, &both);
  td_infer_out(c, 0, out);
  return NULL;
}

static td_status *shape_select_v2(td_infer *c) {
  td_shape shape = *td_infer_in(c, 0);
  td_shape_text a, b, d;
  for (int k = 1; k < OPERANDS; k++)
    if (!td_shape_broadcast(&shape, td_infer_in(c, k), &shape))
      return td_error(TD_INVALID_ARGUMENT,
                      "shapes %s, %s and %s do not broadcast",
                      td_shape_str(td_infer_in(c, CONDITION), &a),
                      td_shape_str(td_infer_in(c, THEN), &b),
                      td_shape_str(td_infer_in(c, ELSE), &d));
  td_infer_out(c, 0, shape);
  return NULL;
}

/* ---- rows ---------------------------------------------------------------- */

#define SIG "condition: bool, t: T, e: T -> output: T; T: type"
#define TYPES TYPES_NUMBERS "|bool|string|resource|variant"

static const td_op_def ops[] = {
    {.type = "Select",
     .sig = SIG,
     .shape = shape_select,
     .cost = td_cost_move,
     .doc = "t where condition is true, e elsewhere; a vector chooses rows.",
     .lua = "",
     .flags = TD_IN_PLACE,
     .section = "Element-wise math"},
    {.type = "SelectV2",
     .sig = SIG,
     .shape = shape_select_v2,
     .cost = td_cost_move,
     .doc = "t where condition is true, e elsewhere, broadcasting.",
     .lua = "",
     .flags = TD_IN_PLACE,
     .section = "Element-wise math"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Select", .device = "CPU", .types = TYPES, .run = run_select},
    {.op = "SelectV2", .device = "CPU", .types = TYPES, .run = run_select_v2},
    {0},
};

TD_MODULE(select, ops, kernels)
