/* approximate_equal.c - are elements within a tolerance of each other?
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/checks.h"
#include "kernels/cpu.h"
#include "kernels/num.h"

typedef struct job {
  bool wide;
  double tolerance;
  const void *x, *y;
  td_b8 *z;
} job;

#define NEAR(kind)                                                             \
  for (int64_t i = begin; i < end; i++) {                                      \
    td_##kind off =                                                            \
        ((const td_##kind *)j->x)[i] - ((const td_##kind *)j->y)[i];           \
    j->z[i] = td_num_abs(off) <= (td_##kind)j->tolerance;                      \
  }

static void piece(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  if (j->wide)
    NEAR(f64)
  else
    NEAR(f32)
}

td_status *td_approximate_check(const td_kernel_ctx *c) {
  const td_tensor *x = td_in(c, 0), *y = td_in(c, 1);
  td_shape_text a, b;
  if (td_shape_equal(&x->shape, &y->shape)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "x and y must be of one shape, not of %s and %s",
                  td_shape_str(&x->shape, &a), td_shape_str(&y->shape, &b));
}

static td_status *run(td_kernel_ctx *c) {
  const td_tensor *x = td_in(c, 0), *y = td_in(c, 1);
  td_tensor *z;
  TD_TRY(td_approximate_check(c));
  TD_TRY(td_out(c, 0, &x->shape, &z));
  job j = {.wide = x->dtype == TD_FLOAT64,
           .tolerance = (double)td_node_float(td_ctx_node(c), "tolerance"),
           .x = x->data,
           .y = y->data,
           .z = z->data};
  td_for(c, td_tensor_count(z), TD_GRAIN, piece, &j);
  return NULL;
}

static const td_op_def ops[] = {
    {.type = "ApproximateEqual",
     .sig = "x: T, y: T -> z: bool; T: {" SIG_NUMBERS
            ", qint8, quint8, qint32, qint16, quint16}; "
            "tolerance: float = 1e-5",
     .shape = td_infer_same_all,
     .doc = "True where |x - y| <= tolerance; x and y are of one shape.",
     .flags = TD_COMMUTATIVE,
     .section = "Element-wise math"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "ApproximateEqual",
     .device = "CPU",
     .types = TYPES_LONG_FLOATS,
     .run = run},
    {0},
};

TD_MODULE(approximate_equal, ops, kernels)
