/* training.cu - optimizers on a card: training.def, as it is.
 *
 * Learning rates and the like are read where they are: each thread loads them,
 * and no step waits for the host.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/table_rows.cuh"
#include "kernels/training_run.h"

namespace {

TD_DEVICE float power_of(float x, float y) {
  return powf(x, y);
}
TD_DEVICE double power_of(double x, double y) {
  return pow(x, y);
}
#define td_num_pow power_of

/* ---- one element --------------------------------------------------------- */

#define UPDATE(name, slots, scalars, step)                                     \
  struct to_##name {                                                           \
    static constexpr int vars = 1 + slots;                                     \
    template <class T>                                                         \
    static __device__ inline void of(const T *s, bool option, T g, T &v, T &a, \
                                     T &b, T &d) {                             \
      scalars(void) option;                                                    \
      (void)s, (void)a, (void)b, (void)d;                                      \
      step                                                                     \
    }                                                                          \
  };
#define REAL_UPDATE UPDATE
#include "kernels/training.def"
#undef REAL_UPDATE
#undef UPDATE

template <class S> struct operands {
  S *var[TD_TRAINING_VARS];
  const S *grad, *scalar[TD_TRAINING_SCALARS];
  bool option;
};

template <class S, class T>
__device__ inline void load(const operands<S> &o, T *s) {
  for (int k = 0; k < TD_TRAINING_SCALARS; k++)
    s[k] = o.scalar[k] ? td_num<S>::load(o.scalar[k][0]) : T(0);
}

/* Element `to` of the variables by element `from` of the gradient. */
template <class F, class S, class T>
__device__ inline void update(const operands<S> &o, const T *s, int64_t to,
                              int64_t from) {
  T x[TD_TRAINING_VARS] = {};
  for (int k = 0; k < F::vars; k++) x[k] = td_num<S>::load(o.var[k][to]);
  F::template of<T>(s, o.option, td_num<S>::load(o.grad[from]), x[0], x[1],
                    x[2], x[3]);
  for (int k = 0; k < F::vars; k++) o.var[k][to] = td_num<S>::store(x[k]);
}

/* ---- kernels ------------------------------------------------------------- */

template <class F, class S> __global__ void all(int64_t n, operands<S> o) {
  typename td_num<S>::in s[TD_TRAINING_SCALARS];
  load(o, s);
  TD_EACH(i, n) update<F>(o, s, i, i);
}

/* Rows of the variables, by those of the gradient. */
template <class F, class S> struct some {
  typedef typename td_num<S>::in in;
  operands<S> o;
  int64_t each;

  struct loaded {
    operands<S> o;
    int64_t each;
    in s[TD_TRAINING_SCALARS];
    __device__ void operator()(int64_t k, int64_t row, int64_t j) const {
      update<F>(o, s, row * each + j, k * each + j);
    }
  };
  __device__ loaded ready() const {
    loaded l = {o, each, {}};
    load(o, l.s);
    return l;
  }
};

/* ---- launches ------------------------------------------------------------ */

template <class F, class S>
td_status *launch_rows(td_kernel_ctx *c, const td_training_run *r,
                       const operands<S> &o) {
  int64_t each = td_shape_span(&r->shape, 1, r->shape.rank);
  return td_cuda_each_row(c, r->indices, r->shape.dim[0], each,
                          td_cuda_report_of(c, TD_ROWS_TEXT),
                          some<F, S>{o, each});
}

template <class F, class S>
td_status *launch(td_kernel_ctx *c, const td_training_run *r) {
  operands<S> o = {};
  int64_t n = td_shape_count(&r->shape);
  for (int k = 0; k < r->n_vars; k++) o.var[k] = static_cast<S *>(r->var[k]);
  for (int k = 0; k < r->n_scalars; k++)
    o.scalar[k] = static_cast<const S *>(r->scalar[k]);
  o.grad = static_cast<const S *>(r->grad);
  o.option = r->option;
  if (r->indices) return launch_rows<F, S>(c, r, o);
  if (n == 0) return nullptr;
  return TD_LAUNCH(c, (all<F, S>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n, o);
}

template <class F>
td_status *launch_type(td_kernel_ctx *c, const td_training_run *r) {
  switch ((int)r->dtype) {
  case TD_FLOAT16:
    return launch<F, td_half>(c, r);
  case TD_BFLOAT16:
    return launch<F, td_bfloat>(c, r);
  case TD_FLOAT32:
    return launch<F, float>(c, r);
  case TD_FLOAT64:
    return launch<F, double>(c, r);
  default:
    return td_error(TD_INTERNAL, "%s has no code for %s",
                    td_ctx_node(c)->op->type, td_dtype_name(r->dtype));
  }
}

td_status *run(td_kernel_ctx *c) {
  td_training_run r;
  TD_TRY(td_training_begin(c, &r));
  switch (r.update) {
#define UPDATE(name, ...)                                                      \
  case TD_TRAINING_##name:                                                     \
    return launch_type<to_##name>(c, &r);
#define REAL_UPDATE UPDATE
#include "kernels/training.def"
#undef REAL_UPDATE
#undef UPDATE
  default:
    return td_error(TD_INTERNAL, "%s is no optimizer",
                    td_ctx_node(c)->op->type);
  }
}

/* ---- rows ---------------------------------------------------------------- */

#define KERNEL(name, vars)                                                     \
  {.op = name,                                                                 \
   .device = "CUDA",                                                           \
   .types = "T=half|bfloat16|float|double",                                    \
   .run = run,                                                                 \
   .make = td_training_make,                                                   \
   .drop = td_free,                                                            \
   .exclusive = vars,                                                          \
   .flags = TD_KERNEL_OWN},
#define REAL_KERNEL KERNEL

const td_kernel_def kernels[] = {
#include "kernels/training_rows.def"
    {},
};

} // namespace

TD_CUDA_MODULE(training, kernels)
