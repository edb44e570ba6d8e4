/* cumsum.cu - running sums, products and log-sums of exp along an axis, on a
 * card.
 *
 * Where there are many columns a thread takes each, row by row. Else a block
 * takes a line, 256 elements at a time, with what came before carried on; a
 * long line is cut into slices: their totals first, then what each begins with,
 * then the slices. The order depends on sizes alone.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/checks.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"

namespace {

/* ---- what runs ----------------------------------------------------------- */

template <class T> struct sum {
  typedef typename td_num<T>::in A;
  static __device__ inline A none() { return A(0); }
  static __device__ inline A join(A x, A y) { return (A)(x + y); }
};
template <class T> struct product {
  typedef typename td_num<T>::in A;
  static __device__ inline A none() { return A(1); }
  static __device__ inline A join(A x, A y) { return (A)(x * y); }
};
/* log(exp(x) + exp(y)), from the larger one and how much the other adds. */
template <class T_> struct logsumexp {
  typedef typename td_num<T_>::in A;
  static __device__ inline A none() { return -(A)INFINITY; }
  static __device__ inline A join(A a, A b) {
    typedef double T;
    double x = a, y = b, high = td_num_max(x, y), low = td_num_min(x, y);
    if (low == -INFINITY || high == INFINITY) return (A)high;
    return (A)(high + log1p(exp(low - high)));
  }
};

struct line {
  int64_t n, inner; /* along the axis; elements behind it */
  int64_t lines;    /* outer * inner */
  int64_t slices, slice;
  bool exclusive, reverse;
};

/* Element p of line i, in the order of the scan. */
__device__ inline int64_t place(const line &l, int64_t i, int64_t p) {
  int64_t outer = i / l.inner, k = l.reverse ? l.n - 1 - p : p;
  return (outer * l.n + k) * l.inner + (i - outer * l.inner);
}

/* ---- kernels ------------------------------------------------------------- */

/* x and y may be one: an element is read before it is written. */
template <class Op, class T>
__global__ void columns(line l, const T *x, T *y) {
  typedef typename Op::A A;
  TD_EACH(i, l.lines) {
    A now = Op::none();
    for (int64_t p = 0; p < l.n; p++) {
      int64_t at = place(l, i, p);
      A was = now;
      now = Op::join(was, td_num<T>::load(x[at]));
      y[at] = td_num<T>::store(l.exclusive ? was : now);
    }
  }
}

/* Slices of lines. `first`: what each begins with, or NULL; y NULL: only the
 * totals are wanted. */
template <class Op, class T>
__global__ void slices(line l, const T *x, T *y, const typename Op::A *first,
                       typename Op::A *totals) {
  typedef typename Op::A A;
  __shared__ __align__(16) unsigned char room[2 * TD_CUDA_BLOCK * sizeof(A)];
  A *now = reinterpret_cast<A *>(room), *next = now + TD_CUDA_BLOCK;
  int t = (int)threadIdx.x;
  for (int64_t u = blockIdx.x; u < l.lines * l.slices; u += gridDim.x) {
    int64_t i = u / l.slices, from = (u - i * l.slices) * l.slice;
    int64_t to = from + l.slice < l.n ? from + l.slice : l.n;
    A carry = first ? first[u] : Op::none();
    for (int64_t p = from; p < to; p += TD_CUDA_BLOCK) {
      bool here = p + t < to;
      int64_t at = here ? place(l, i, p + t) : 0;
      now[t] = here ? td_num<T>::load(x[at]) : Op::none();
      __syncthreads();
      for (int by = 1; by < TD_CUDA_BLOCK; by *= 2) {
        next[t] = t >= by ? Op::join(now[t - by], now[t]) : now[t];
        __syncthreads();
        A *other = now;
        now = next;
        next = other;
      }
      A mine = now[t], all = now[TD_CUDA_BLOCK - 1];
      if (l.exclusive) mine = t ? now[t - 1] : Op::none();
      if (y && here) y[at] = td_num<T>::store(Op::join(carry, mine));
      carry = Op::join(carry, all);
      __syncthreads();
    }
    if (!y && t == 0) totals[u] = carry;
  }
}

/* Totals of the slices of each line to what came before each. */
template <class Op>
__global__ void carries(line l, typename Op::A *totals) {
  TD_EACH(i, l.lines) {
    typename Op::A now = Op::none();
    for (int64_t k = i * l.slices; k < (i + 1) * l.slices; k++) {
      typename Op::A total = totals[k];
      totals[k] = now;
      now = Op::join(now, total);
    }
  }
}

/* ---- launches ------------------------------------------------------------ */

dim3 blocks(int64_t n) {
  return dim3((unsigned)(n < 1 << 20 ? n : 1 << 20));
}

template <class Op, class T>
td_status *sliced(td_kernel_ctx *c, const line *l, const T *x, T *y) {
  typedef typename Op::A A;
  td_tensor temp;
  int64_t n = l->lines * l->slices;
  td_shape shape = td_shape_vector(n * (int64_t)sizeof(A));
  TD_TRY(td_temp(c, TD_UINT8, &shape, &temp));
  A *first = td_cuda_at<A>(&temp);
  td_status *s =
      TD_LAUNCH(c, (slices<Op, T>), blocks(n), TD_CUDA_BLOCK, 0, *l, x,
                (T *)nullptr, (const A *)nullptr, first);
  if (td_ok(s))
    s = TD_LAUNCH(c, (carries<Op>), td_cuda_grid(c, l->lines), TD_CUDA_BLOCK, 0,
                  *l, first);
  if (td_ok(s))
    s = TD_LAUNCH(c, (slices<Op, T>), blocks(n), TD_CUDA_BLOCK, 0, *l, x, y,
                  (const A *)first, (A *)nullptr);
  td_tensor_release(&temp);
  return s;
}

/* How many slices fill the card, of at least four blocks' elements. */
void cut(const td_kernel_ctx *c, line *l) {
  int64_t most = (int64_t)td_cuda_of(c)->sms * 4 / l->lines;
  int64_t least = 4 * TD_CUDA_BLOCK;
  l->slices = l->n / least < most ? l->n / least : most;
  if (l->slices < 1) l->slices = 1;
  l->slice = (l->n + l->slices - 1) / l->slices;
  l->slices = (l->n + l->slice - 1) / l->slice;
}

template <class Op, class T> td_status *run(td_kernel_ctx *c) {
  const T *x = td_cuda_at<const T>(td_in(c, 0));
  const td_node *node = td_ctx_node(c);
  td_along a;
  td_tensor *y;
  TD_TRY(td_scan_check(c, &a));
  TD_TRY(td_out_like(c, 0, 0, &y));
  T *to = td_cuda_at<T>(y);
  line l = {};
  l.n = a.n;
  l.inner = a.inner;
  l.lines = a.outer * a.inner;
  l.exclusive = td_node_bool(node, "exclusive");
  l.reverse = td_node_bool(node, "reverse");
  if (l.n == 0 || l.lines == 0) return nullptr;
  int64_t enough = (int64_t)td_cuda_of(c)->sms * TD_CUDA_BLOCK;
  if (l.n < 16 || (l.inner >= 16 && l.lines >= enough))
    return TD_LAUNCH(c, (columns<Op, T>), td_cuda_grid(c, l.lines),
                     TD_CUDA_BLOCK, 0, l, x, to);
  cut(c, &l);
  if (l.slices > 1) return sliced<Op, T>(c, &l, x, to);
  return TD_LAUNCH(c, (slices<Op, T>), blocks(l.lines), TD_CUDA_BLOCK, 0, l, x,
                   to, (const typename Op::A *)nullptr,
                   (typename Op::A *)nullptr);
}

#define CASE(kind, op)                                                         \
  case TD_ELEMENT_##kind:                                                      \
    return run<op<td_##kind>, td_##kind>(c);
#define RUN(name, op, kinds)                                                   \
  td_status *name(td_kernel_ctx *c) {                                          \
    switch ((int)td_in(c, 0)->dtype) {                                         \
      EACH_##kinds(CASE, op) HALVES(CASE, op) default                          \
          : return td_cuda_no_type(c, 0);                                      \
    }                                                                          \
  }
RUN(run_sum, sum, NUMBERS)
RUN(run_product, product, NUMBERS)
RUN(run_logsumexp, logsumexp, FLOATS)

/* ---- rows ---------------------------------------------------------------- */

const td_kernel_def kernels[] = {
    {.op = "Cumsum", .device = "CUDA", .types = TYPES_NUMBERS, .run = run_sum},
    {.op = "Cumprod",
     .device = "CUDA",
     .types = TYPES_NUMBERS,
     .run = run_product},
    {.op = "CumulativeLogsumexp",
     .device = "CUDA",
     .types = TYPES_FLOATS,
     .run = run_logsumexp},
    {},
};

} // namespace

TD_CUDA_MODULE(cumsum, kernels)
