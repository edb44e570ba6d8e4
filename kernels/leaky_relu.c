/* leaky_relu.c - LeakyRelu and its gradient: a slope `alpha` below 0.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/leaky_relu.h"

#include "kernels/cpu.h"
#include "kernels/element.h"
#include "kernels/simd/vec.h"

enum { BLOCK = TD_HALF_BLOCK };

/* z is x where the sign, y, is above 0, else alpha x: forward y is x, backward
 * the forward op's operand. z may be either. */
#define LOOP(kind)                                                             \
  static void leak_##kind(int64_t n, const void *value, const void *sign,      \
                          double alpha, void *to) {                            \
    const td_##kind *x = value, *y = sign;                                     \
    td_##kind *z = to, slope = (td_##kind)alpha;                               \
    TD_VEC_LOOP                                                                \
    for (int64_t i = 0; i < n; i++) z[i] = y[i] > 0 ? x[i] : slope * x[i];     \
  }
LOOP(f32)
LOOP(f64)

typedef struct job {
  td_dtype dtype;
  double alpha;
  const char *x, *y;
  char *z;
} job;

static void leak_half(const job *j, int64_t n, size_t skip) {
  float x[BLOCK], y[BLOCK];
  for (int64_t i = 0; i < n; i += BLOCK, skip += BLOCK * sizeof(uint16_t)) {
    int64_t m = n - i < BLOCK ? n - i : BLOCK;
    td_half_load(j->dtype, m, j->x + skip, x);
    td_half_load(j->dtype, m, j->y + skip, y);
    leak_f32(m, x, y, j->alpha, x);
    td_half_store(j->dtype, m, x, j->z + skip);
  }
}

static void piece(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  size_t skip = (size_t)begin * td_dtype_size(j->dtype);
  if (td_is_half(j->dtype))
    leak_half(j, end - begin, skip);
  else
    (j->dtype == TD_FLOAT64 ? leak_f64 : leak_f32)(
        end - begin, j->x + skip, j->y + skip, j->alpha, j->z + skip);
}

td_status *td_leaky_relu_of(const td_kernel_ctx *c, int sign, double *alpha) {
  const td_tensor *x = td_in(c, 0), *y = td_in(c, sign);
  td_shape_text a, b;
  *alpha = (double)td_node_float(td_ctx_node(c), "alpha");
  if (td_shape_equal(&x->shape, &y->shape)) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "shapes %s and %s must be equal",
                  td_shape_str(&x->shape, &a), td_shape_str(&y->shape, &b));
}

static td_status *run(td_kernel_ctx *c, int sign) {
  const td_tensor *x = td_in(c, 0), *y = td_in(c, sign);
  td_tensor *z;
  job j = {.dtype = x->dtype, .x = x->data, .y = y->data};
  TD_TRY(td_leaky_relu_of(c, sign, &j.alpha));
  TD_TRY(td_out_forward(c, 0, &x->shape, 0, sign, &z));
  j.z = z->data;
  td_for(c, td_tensor_count(z), TD_GRAIN, piece, &j);
  return NULL;
}

static td_status *run_forward(td_kernel_ctx *c) {
  return run(c, 0);
}
static td_status *run_gradient(td_kernel_ctx *c) {
  return run(c, 1);
}

#define ATTRS "; alpha: float = 0.2; T: {half, bfloat16, float, double} = float"

static const td_op_def ops[] = {
    {.type = "LeakyRelu",
     .sig = "features: T -> activations: T" ATTRS,
     .shape = td_infer_same,
     .doc = "x where x > 0, alpha x elsewhere.",
     .lua = "leaky_relu",
     .flags = TD_IN_PLACE,
     .section = "Neural-network building blocks"},
    {.type = "LeakyReluGrad",
     .sig = "gradients: T, features: T -> backprops: T" ATTRS,
     .shape = td_infer_same_all,
     .doc = "Gradient of LeakyRelu from its operand.",
     .lua = "",
     .flags = TD_IN_PLACE,
     .section = "Neural-network building blocks"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "LeakyRelu",
     .device = "CPU",
     .types = TYPES_FLOATS,
     .run = run_forward},
    {.op = "LeakyReluGrad",
     .device = "CPU",
     .types = TYPES_FLOATS,
     .run = run_gradient},
    {0},
};

TD_MODULE(leaky_relu, ops, kernels)
