/* binary.cuh - element-wise ops of two operands on a card: binary.def, as it is,
 * a part of it in each file that includes this one.
 *
 * Which, its four macros say, set before: ARITHMETIC, COMPARISONS, SPECIAL and
 * SLOPES are what they are given in one file, and nothing in the others. All of
 * them in one would take nvcc a minute and a half.
 *
 * Two loops per op and dtype. Where each operand is dense or one element, 16
 * bytes at a time; all else by a walk.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_BINARY_CUH
#define TD_CUDA_BINARY_CUH

#include "kernels/checks.h"
#include "kernels/cuda/broadcast.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/special.cuh"

namespace {

/* ---- kernels ------------------------------------------------------------- */

template <class F, class T, class R> __device__ inline R apply(T x, T y) {
  return (R)td_num<R>::store((typename td_num<R>::in)F::of(
      td_num<T>::load(x), td_num<T>::load(y)));
}

/* z may be x or y: element i of either is read before it is written. */
template <class F, class T, class R>
__global__ void walked(int64_t n, td_cuda_walk<2> w, const T *x, const T *y,
                       R *z) {
  TD_EACH(i, n) {
    int64_t at[2];
    td_cuda_walk_to(w, i, at);
    z[i] = apply<F, T, R>(x[at[0]], y[at[1]]);
  }
}

/* `one`: bit k for an operand of one element. */
template <class T>
__device__ inline td_pack<T> pack_of(const T *x, int64_t i, bool one) {
  if (!one) return reinterpret_cast<const td_pack<T> *>(x)[i];
  td_pack<T> all;
  T value = *x;
  for (int k = 0; k < td_pack_of<T>; k++) all.at[k] = value;
  return all;
}

template <class F, class T, class R>
__global__ void packed(int64_t n, int one, const T *x, const T *y, R *z) {
  constexpr int m = td_pack_of<T>;
  struct alignas(m * sizeof(R) < 16 ? m * sizeof(R) : 16) results {
    R at[m];
  };
  results *to = reinterpret_cast<results *>(z);
  TD_EACH(i, n / m) {
    td_pack<T> a = pack_of(x, i, one & 1), b = pack_of(y, i, one & 2);
    results out;
    for (int k = 0; k < m; k++) out.at[k] = apply<F, T, R>(a.at[k], b.at[k]);
    to[i] = out;
  }
  TD_EACH(i, n % m) {
    int64_t at = n / m * m + i;
    z[at] = apply<F, T, R>(x[one & 1 ? 0 : at], y[one & 2 ? 0 : at]);
  }
}

__global__ void put(td_b8 *z, td_b8 value) {
  *z = value;
}

/* ---- what the second operand must not hold ------------------------------- */

enum check { ANY, NONZERO, NONNEGATIVE };

template <class T>
__global__ void find(int64_t n, check what, td_cuda_report r, const T *y) {
  TD_EACH(i, n) {
    bool wrong = y[i] == 0;
    if constexpr (td_num_signed<T>)
      if (what == NONNEGATIVE) wrong = y[i] < 0;
    if (wrong) td_cuda_tell(r, (long long)y[i], 0);
  }
}

/* The texts are those of binary.c. */
template <class T> td_status *look(td_kernel_ctx *c, check what) {
  const td_tensor *y = td_in(c, 1);
  int64_t n = td_tensor_count(y);
  td_cuda_report r = td_cuda_report_of(
      c, what == NONZERO ? "integer division by zero"
                         : "an integer cannot be raised to a negative power; "
                           "cast to a float dtype first");
  return TD_LAUNCH(c, (find<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n, what,
                   r, td_cuda_at<const T>(y));
}

td_status *look_at(td_kernel_ctx *c, check what) {
#define CASE(kind, ...)                                                        \
  case TD_ELEMENT_##kind:                                                      \
    return look<td_##kind>(c, what);
  switch ((int)td_in(c, 1)->dtype) {
    EACH_INTS(CASE, )
  default:
    return nullptr;
  }
#undef CASE
}

/* ---- launches ------------------------------------------------------------ */

/* Operand k has the result's layout, or is one element: bit k of *one. */
bool flat(const td_broadcast *b, const void *const *at, const void *to,
          int *one) {
  *one = 0;
  for (int k = 0; k < 2; k++) {
    if (b->dense[k] && td_cuda_aligned(at[k])) continue;
    if (b->rank != 1 || b->step[k][0] != 0) return false;
    *one |= 1 << k;
  }
  return td_cuda_aligned(to);
}

template <class F, class T, class R>
td_status *launch(td_kernel_ctx *c, const td_broadcast *b, const td_shape *to) {
  const T *x = td_cuda_at<const T>(td_in(c, 0));
  const T *y = td_cuda_at<const T>(td_in(c, 1));
  const void *at[2] = {x, y};
  td_tensor *z;
  int one;
  TD_TRY(td_out_forward(c, 0, to, 0, 1, &z));
  int64_t n = b->count;
  R *out = td_cuda_at<R>(z);
  if (n == 0) return nullptr;
  if (flat(b, at, out, &one))
    return TD_LAUNCH(c, (packed<F, T, R>),
                     td_cuda_grid(c, n / td_pack_of<T> + 1), TD_CUDA_BLOCK, 0,
                     n, one, x, y, out);
  return TD_LAUNCH(c, (walked<F, T, R>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0,
                   n, td_cuda_walk_of<2>(b), x, y, out);
}

/* TensorFlow's way out when shapes do not broadcast: not equal as a whole. */
td_status *incomparable(td_kernel_ctx *c, bool not_equal) {
  td_shape scalar = td_shape_scalar();
  td_tensor *z;
  TD_TRY(td_out(c, 0, &scalar, &z));
  return TD_LAUNCH(c, put, 1, 1, 0, td_cuda_at<td_b8>(z), (td_b8)not_equal);
}

typedef td_status *(*launcher)(td_kernel_ctx *c, const td_broadcast *b,
                               const td_shape *to);

td_status *run(td_kernel_ctx *c, check what, bool not_equal, launcher go) {
  const td_shape *shapes[] = {&td_in(c, 0)->shape, &td_in(c, 1)->shape};
  td_broadcast plan;
  td_shape to;
  if (!go) return td_cuda_no_type(c, 0);
  td_status *s = td_broadcast_plan(&plan, 2, shapes, &to);
  if (!td_ok(s)) {
    const td_attr *strict =
        td_node_attr(td_ctx_node(c), "incompatible_shape_error");
    if (!strict || strict->b) return s;
    td_status_release(s);
    return incomparable(c, not_equal);
  }
  if (what != ANY && plan.count > 0) TD_TRY(look_at(c, what));
  return go(c, &plan, &to);
}

/* The gradient ops do not broadcast. */
[[maybe_unused]] td_status *run_same(td_kernel_ctx *c, check what, bool,
                                     launcher go) {
  TD_TRY(td_binary_check_same(td_in(c, 0), td_in(c, 1)));
  return run(c, what, false, go);
}

/* ---- which lines --------------------------------------------------------- */

#define OF_MATH ARITHMETIC
#define OF_BITS ARITHMETIC
#define OF_LOGIC ARITHMETIC
#define OF_TEST COMPARISONS
#define OF_EQUAL COMPARISONS
#define OF_ANGLE SPECIAL
#define OF_NEXT SPECIAL
#define OF_GAMMA SPECIAL
#define OF_SAMPLE SPECIAL
#define OF_ZETA SPECIAL
#define OF_GRAD SLOPES
#define OF_SLOPE SLOPES
#define OF_SLOPE_OUT SLOPES

/* ---- functions ----------------------------------------------------------- */

#define BINARY(op, form, allowed, kernels, flags, check, value, expression,    \
               ...)                                                            \
  OF_##form(struct fn_##op {                                                   \
    template <class T> static __device__ inline auto of(T x, T y) {            \
      return expression;                                                       \
    }                                                                          \
  };)
#include "kernels/binary.def"
#undef BINARY

/* ---- which types --------------------------------------------------------- */

#define OUT_MATH(kind) td_##kind
#define OUT_ANGLE(kind) td_##kind
#define OUT_NEXT(kind) td_##kind
#define OUT_GAMMA(kind) td_##kind
#define OUT_SAMPLE(kind) td_##kind
#define OUT_ZETA(kind) td_##kind
#define OUT_BITS(kind) td_##kind
#define OUT_GRAD(kind) td_##kind
#define OUT_SLOPE(kind) td_##kind
#define OUT_SLOPE_OUT(kind) td_##kind
#define OUT_TEST(kind) td_b8
#define OUT_EQUAL(kind) td_b8
#define OUT_LOGIC(kind) td_b8

#define RUN_MATH run
#define RUN_ANGLE run
#define RUN_NEXT run
#define RUN_GAMMA run
#define RUN_SAMPLE run
#define RUN_ZETA run
#define RUN_BITS run
#define RUN_TEST run
#define RUN_EQUAL run
#define RUN_LOGIC run
#define RUN_GRAD run_same
#define RUN_SLOPE run_same
#define RUN_SLOPE_OUT run_same

#define CASE(kind, op, form)                                                   \
  case TD_ELEMENT_##kind:                                                      \
    return launch<fn_##op, td_##kind, OUT_##form(kind)>;
#define BINARY(op, form, allowed, kernels, flags, check, ...)                  \
  OF_##form(launcher launcher_##op(td_dtype t) {                               \
    switch ((int)t) {                                                          \
      EACH_##kernels(CASE, op, form) HALVES_##kernels(CASE, op, form) default  \
          : return nullptr;                                                    \
    }                                                                          \
  }                                                                            \
  td_status *run_##op(td_kernel_ctx *c) {                                      \
    constexpr char type[] = #op;                                               \
    return RUN_##form(c, check, type[0] == 'N',                                \
                      launcher_##op(td_in(c, 0)->dtype));                      \
  })
#include "kernels/binary.def"
#undef BINARY

/* ---- rows ---------------------------------------------------------------- */

/* Strings are the CPU's. */
#undef TYPES_ADD
#define TYPES_ADD TYPES_SIGNED "|uint8" TYPES_COMPLEX
#undef TYPES_EQUAL
#define TYPES_EQUAL TYPES_NUMBERS "|bool"

const td_kernel_def kernels[] = {
#define BINARY(op_, form, allowed, kernels, ...)                               \
  OF_##form(                                                                   \
      {.op = #op_, .device = "CUDA", .types = TYPES_##kernels,                 \
       .run = run_##op_},)
#include "kernels/binary.def"
#undef BINARY
    {},
};

} // namespace

#endif
