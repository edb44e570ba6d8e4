/* reduce.cuh - axes of a tensor folded on a card, by the plans of reduce.h.
 *
 * A block is `across` columns times `along` lines times `items` of work, powers
 * of 2: long rows have all threads along them, wide ones 32 columns, short ones
 * many groups at once. A thread folds every `along`-th line of its part with
 * four accumulators; those of a column are joined by halves. Where there are
 * few groups their lines are cut into slices, whose results a second launch
 * folds. The order depends on sizes alone: the same bits every time.
 *
 * An op is a struct of static functions on accumulators of type A:
 *
 *   A none()              what folding nothing gives
 *   A take(T x, int64_t line)
 *   A join(A x, A y)      x is of earlier lines
 *   R end(A x, int64_t n, int end)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_REDUCE_CUH
#define TD_CUDA_REDUCE_CUH

#include "kernels/cuda/launch.cuh"
#include "kernels/reduce.h"

struct td_cuda_fold {
  td_reduce_plan plan;
  int64_t lines;              /* of a group */
  int64_t slices, slice;      /* of those; lines of each but the last */
  int64_t strips, work;       /* of columns; groups * strips * slices */
  int across, along, items;   /* threads of a block */
  int64_t folded;             /* elements of a group, for the end */
};

TD_DEVICE int64_t td_cuda_fold_at(int64_t i, int n, const int64_t *size,
                                  const int64_t *step) {
  if (n == 1) return i * step[0];
  int64_t at = 0;
  for (int k = 0; k < n && i; k++) {
    at += i % size[k] * step[k];
    i /= size[k];
  }
  return at;
}

/* Where line l of a group is, from its first. */
TD_DEVICE int64_t td_cuda_fold_line(const td_reduce_plan &p, int64_t l) {
  if (p.blocks == 1) return l * p.width;
  int64_t block = l / p.rows;
  return td_cuda_fold_at(block, p.n_folded, p.folded_size, p.folded_step) +
         (l - block * p.rows) * p.width;
}

/* The first launch takes elements, a second one accumulators. */
template <class Op, class A, class T> struct td_cuda_fold_take {
  static __device__ inline A of(T x, int64_t line) { return Op::take(x, line); }
};
template <class Op, class A> struct td_cuda_fold_take<Op, A, A *> {
  static __device__ inline A of(A x, int64_t) { return x; }
};
template <class T> struct td_cuda_fold_element {
  typedef T is;
};
template <class A> struct td_cuda_fold_element<A *> {
  typedef A is;
};
template <class Op, class A, class R> struct td_cuda_fold_end {
  static __device__ inline R of(A x, int64_t n, int end) {
    return Op::end(x, n, end);
  }
};
template <class Op, class A> struct td_cuda_fold_end<Op, A, A *> {
  static __device__ inline A of(A x, int64_t, int) { return x; }
};

/* T or R a pointer: accumulators are taken, or given. */
template <class Op, class T, class R>
__global__ void td_cuda_fold_lines(
    td_cuda_fold f, int end, const typename td_cuda_fold_element<T>::is *x,
    typename td_cuda_fold_element<R>::is *y) {
  typedef typename Op::accumulator A;
  typedef td_cuda_fold_take<Op, A, T> one;
  __shared__ __align__(16) unsigned char room[TD_CUDA_BLOCK * sizeof(A)];
  A *all = reinterpret_cast<A *>(room);
  const td_reduce_plan &p = f.plan;
  int t = (int)threadIdx.x, column = t % f.across;
  int line = t / f.across % f.along, item = t / (f.across * f.along);
  for (int64_t first = (int64_t)blockIdx.x * f.items; first < f.work;
       first += (int64_t)gridDim.x * f.items) {
    int64_t i = first + item, strip = i % f.strips, row = i / f.strips;
    int64_t group = row / f.slices, slice = row - group * f.slices;
    int64_t at = strip * f.across + column, from = slice * f.slice + line;
    int64_t to = (slice + 1) * f.slice;
    bool here = i < f.work && at < p.width;
    if (to > f.lines) to = f.lines;
    A acc[4] = {Op::none(), Op::none(), Op::none(), Op::none()};
    if (here) {
      const typename td_cuda_fold_element<T>::is *base =
          x + at + td_cuda_fold_at(group, p.n_kept, p.kept_size, p.kept_step);
      int64_t l = from, by = f.along;
      for (; l + 3 * by < to; l += 4 * by)
        for (int k = 0; k < 4; k++)
          acc[k] = Op::join(acc[k], one::of(base[td_cuda_fold_line(
                                                p, l + k * by)],
                                            l + k * by));
      for (; l < to; l += by)
        acc[0] = Op::join(acc[0],
                          one::of(base[td_cuda_fold_line(p, l)], l));
    }
    A sum = Op::join(Op::join(acc[0], acc[1]), Op::join(acc[2], acc[3]));
    for (int half = f.along / 2; half > 0; half /= 2) {
      all[t] = sum;
      __syncthreads();
      if (line < half) sum = Op::join(sum, all[t + half * f.across]);
      __syncthreads();
    }
    if (here && line == 0)
      y[row * p.width + at] =
          td_cuda_fold_end<Op, A, R>::of(sum, f.folded, end);
  }
}

/* ---- cutting ------------------------------------------------------------- */

static inline int td_cuda_fold_power(int64_t n, int most) {
  int p = 1;
  while (p < n && p < most) p *= 2;
  return p;
}

static inline td_cuda_fold td_cuda_fold_of(const td_kernel_ctx *c,
                                           const td_reduce_plan *p,
                                           bool may_slice) {
  td_cuda_fold f = {};
  f.plan = *p;
  f.lines = f.folded = p->blocks * p->rows;
  int64_t outputs = p->groups * p->width;
  int64_t full = (int64_t)td_cuda_of(c)->sms * 4 * TD_CUDA_BLOCK;
  f.across = td_cuda_fold_power(p->width, 32);
  if (p->width > 32 && outputs >= full) f.across = TD_CUDA_BLOCK;
  f.along = td_cuda_fold_power(f.lines / 4, TD_CUDA_BLOCK / f.across);
  f.items = TD_CUDA_BLOCK / (f.across * f.along);
  f.strips = (p->width + f.across - 1) / f.across;
  f.slices = 1;
  f.slice = f.lines;
  int64_t blocks = p->groups * f.strips, least = 16 * (int64_t)f.along;
  int64_t most = (int64_t)td_cuda_of(c)->sms * 4 / (blocks ? blocks : 1);
  if (may_slice && most > 1 && f.lines > 2 * least) {
    f.slices = f.lines / least < most ? f.lines / least : most;
    f.slice = (f.lines + f.slices - 1) / f.slices;
    f.slices = (f.lines + f.slice - 1) / f.slice;
  }
  f.work = p->groups * f.strips * f.slices;
  return f;
}

static inline dim3 td_cuda_fold_grid(const td_cuda_fold &f) {
  int64_t blocks = (f.work + f.items - 1) / f.items;
  return dim3((unsigned)(blocks < 65535 * 16 ? blocks : 65535 * 16));
}

/* Into y, which has plan->groups * plan->width elements. `end` is the op's own:
 * what is done with the result. */
template <class Op, class T, class R>
static td_status *td_cuda_fold_all(td_kernel_ctx *c, const td_reduce_plan *p,
                                   int end, const T *x, R *y) {
  typedef typename Op::accumulator A;
  td_tensor temp;
  if (p->groups == 0 || p->width == 0) return nullptr;
  td_cuda_fold f = td_cuda_fold_of(c, p, true);
  if (f.slices == 1)
    return TD_LAUNCH(c, (td_cuda_fold_lines<Op, T, R>), td_cuda_fold_grid(f),
                     TD_CUDA_BLOCK, 0, f, end, x, y);
  int64_t n = p->groups * f.slices * p->width;
  td_shape shape = td_shape_vector(n * (int64_t)sizeof(A));
  TD_TRY(td_temp(c, TD_UINT8, &shape, &temp));
  A *parts = td_cuda_at<A>(&temp);
  td_status *s =
      TD_LAUNCH(c, (td_cuda_fold_lines<Op, T, A *>), td_cuda_fold_grid(f),
                TD_CUDA_BLOCK, 0, f, end, x, parts);
  td_reduce_plan joined = {};
  joined.groups = p->groups;
  joined.blocks = 1;
  joined.rows = f.slices;
  joined.width = p->width;
  joined.n_kept = 1;
  joined.kept_size[0] = p->groups;
  joined.kept_step[0] = f.slices * p->width;
  td_cuda_fold g = td_cuda_fold_of(c, &joined, false);
  g.folded = f.folded;
  if (td_ok(s))
    s = TD_LAUNCH(c, (td_cuda_fold_lines<Op, A *, R>), td_cuda_fold_grid(g),
                  TD_CUDA_BLOCK, 0, g, end, (const A *)parts, y);
  td_tensor_release(&temp);
  return s;
}

#endif
