/* cross.c - the product of vectors in space.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/checks.h"
#include "kernels/cost.h"
#include "kernels/cpu.h"
#include "kernels/element.h"
#include "kernels/num.h"

typedef void (*cross_loop)(int64_t n, const void *a, const void *b, void *y);

#define LOOP(kind, ...)                                                        \
  static void cross_##kind(int64_t n, const void *a, const void *b, void *y) { \
    const td_##kind *p = a, *q = b;                                            \
    td_##kind *to = y;                                                         \
    for (int64_t i = 0; i < 3 * n; i += 3) {                                   \
      td_##kind p0 = p[i], p1 = p[i + 1], p2 = p[i + 2];                       \
      td_##kind q0 = q[i], q1 = q[i + 1], q2 = q[i + 2];                       \
      to[i] = (td_##kind)(p1 * q2 - p2 * q1);                                  \
      to[i + 1] = (td_##kind)(p2 * q0 - p0 * q2);                              \
      to[i + 2] = (td_##kind)(p0 * q1 - p1 * q0);                              \
    }                                                                          \
  }
EACH_REALS(LOOP, )

#define ENTRY(kind, ...) [TD_ELEMENT_##kind] = cross_##kind,
static const cross_loop loops[TD_DTYPES] = {EACH_REALS(ENTRY, )};

/* ---- running ------------------------------------------------------------- */

typedef struct job {
  td_dtype dtype;
  const char *a, *b;
  char *y;
} job;

static void run_piece(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  size_t size = 3 * td_dtype_size(j->dtype);
  for (int64_t i = begin; i < end;) {
    enum { BLOCK = TD_HALF_BLOCK / 3 };
    float a[3 * BLOCK], b[3 * BLOCK], y[3 * BLOCK];
    int64_t n = end - i < BLOCK ? end - i : BLOCK;
    size_t at = (size_t)i * size;
    if (td_is_half(j->dtype)) {
      td_half_load(j->dtype, 3 * n, j->a + at, a);
      td_half_load(j->dtype, 3 * n, j->b + at, b);
      cross_f32(n, a, b, y);
      td_half_store(j->dtype, 3 * n, y, j->y + at);
    } else {
      loops[j->dtype](n, j->a + at, j->b + at, j->y + at);
    }
    i += n;
  }
}

/* `code`: of a last size that is not 3. */
static td_status *check(const td_shape *a, const td_shape *b, td_code code,
                        td_shape *out) {
  td_shape_text at, bt;
  bool one = td_shape_merge(a, b, out);
  if (one &&
      (out->rank < 0 || (out->rank > 0 && (out->dim[out->rank - 1] == 3 ||
                                           out->dim[out->rank - 1] < 0))))
    return NULL;
  return td_error(one ? code : TD_INVALID_ARGUMENT,
                  "a and b must be of one shape with a last size of 3, not %s "
                  "and %s",
                  td_shape_str(a, &at), td_shape_str(b, &bt));
}

static td_status *infer(td_infer *c) {
  td_shape out;
  TD_TRY(
      check(td_infer_in(c, 0), td_infer_in(c, 1), TD_INVALID_ARGUMENT, &out));
  if (out.rank > 0) out.dim[out.rank - 1] = 3;
  td_infer_out(c, 0, out);
  return NULL;
}

td_status *td_cross_check(const td_kernel_ctx *c, td_shape *out) {
  return check(&td_in(c, 0)->shape, &td_in(c, 1)->shape, TD_FAILED_PRECONDITION,
               out);
}

static td_status *run(td_kernel_ctx *c) {
  td_tensor *y;
  td_shape out;
  job j = {.a = td_in(c, 0)->data, .b = td_in(c, 1)->data};
  TD_TRY(td_cross_check(c, &out));
  TD_TRY(td_out_forward(c, 0, &out, 0, 1, &y));
  j.dtype = y->dtype;
  j.y = y->data;
  td_for(c, td_tensor_count(y) / 3, TD_GRAIN / 3, run_piece, &j);
  return NULL;
}

/* ---- cost -----------------------------------------------------------------
 */

/* Two products and a difference. */
TD_COST_OUTPUT(cross_cost, 3, 0)

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "Cross",
     .sig = "a: T, b: T -> product: T; T: {" SIG_REALS "}",
     .shape = infer,
     .cost = cross_cost,
     .doc = "The cross product of the vectors of three in the last axis.",
     .example = "td.cross({1, 0, 0}, {0, 1, 0})  --> 0 0 1",
     .section = "Reductions, ranges, segments"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Cross", .device = "CPU", .types = TYPES_REALS, .run = run},
    {0},
};

TD_MODULE(cross, ops, kernels)
