/* tile.cuh - sums of products over an inner dimension, for everything that has
 * that form: products of matrices, convolutions and their gradients.
 *
 *   result(i, j) = sum over k of a(i, k) b(k, j), for each of a batch
 *
 * Where an operand's elements are is said by a record that is copied to the
 * card. Its lines are the i of `a` or the j of `b`, its steps the k:
 *
 *   struct rows {
 *     typedef float in;                    // what sums are made of
 *     struct line { .. };
 *     struct step { .. };
 *     bool inner() const;                  // neighbours in memory have k, k + 1
 *     line line_of(int64_t batch, int64_t i) const;  // asked for once, as i is
 *     step step_of(int64_t k) const;       // the same for many k, and the
 *     in at(const line &, const step &) const;       // other way
 *   };
 *   struct cells { void put(int64_t batch, int64_t i, int64_t j, in v) const; };
 *
 * A block makes a square of the result; both operands go through shared memory,
 * 16 steps at a time. A few squares of long sums are cut into parts, which a
 * second kernel adds in order. How it is cut follows from the sizes alone, so
 * that results have the same bits on any card.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_TILE_CUH
#define TD_CUDA_TILE_CUH

#include "kernels/cuda/complex.cuh"
#include "kernels/cuda/divide.cuh"
#include "kernels/cuda/launch.cuh"

namespace {

enum {
  TILE_EDGE = 16, /* threads along each side of a block */
  TILE_STEPS = 16,
  TILE_PAD = 2 /* keeps threads that store a line in different banks */
};

struct td_tile {
  int64_t batch, m, n, k;
  int64_t part; /* steps of a part of a sum */
  int64_t parts;
  td_divider by_m, by_n; /* where there are parts to join */
};

static inline td_tile tile_of(int64_t batch, int64_t m, int64_t n, int64_t k) {
  return {batch, m, n, k, k, 1, td_divider_by(m), td_divider_by(n)};
}

template <class T> __device__ inline T tile_times(T x, T y) {
  return (T)(x * y);
}
/* Infinities are not looked for, as in BLAS. */
template <class R>
__device__ inline td_complex<R> tile_times(td_complex<R> x, td_complex<R> y) {
  return td_complex<R>(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re);
}

/* Thread t's element r of 16 W of an operand: which line, which step. */
template <int W>
__device__ inline void tile_place(bool inner, int t, int r, int *line,
                                  int *step) {
  *step = inner ? t % TILE_STEPS : t / W + r * (256 / W);
  *line = inner ? t / TILE_STEPS + r * (256 / TILE_STEPS) : t % W;
}

/* What a thread brings of an operand: up to R lines of it. */
template <class O, int R> struct tile_bring {
  typename O::line line[R];
  bool there[R];

  __device__ inline void find(const O &o, int64_t batch, int64_t first,
                              int64_t lines) {
    for (int r = 0, i, k; r < R; r++) {
      tile_place<R * TILE_EDGE>(o.inner(), (int)threadIdx.x, r, &i, &k);
      there[r] = first + i < lines;
      line[r] = o.line_of(batch, there[r] ? first + i : first);
    }
  }
  /* Steps [begin, begin + 16) but none from `end` on, to to[step][line]. */
  __device__ inline void bring(const O &o, int64_t begin, int64_t end,
                               typename O::in (*to)[R * TILE_EDGE + TILE_PAD]) {
    for (int r = 0, i, k; r < R; r++) {
      tile_place<R * TILE_EDGE>(o.inner(), (int)threadIdx.x, r, &i, &k);
      typename O::in v = typename O::in(0);
      if (there[r] && begin + k < end)
        v = o.at(line[r], o.step_of(begin + k));
      to[k][i] = v;
    }
  }
};

/* Where parts of sums go: parts x batch x m x n. */
template <class T> struct tile_parts {
  T *to;
  int64_t batch, m, n;
  __device__ inline void put(int64_t part, int64_t b, int64_t i, int64_t j,
                             T v) const {
    to[((part * batch + b) * m + i) * n + j] = v;
  }
};

template <int R, class A, class B, class C>
__global__ void __launch_bounds__(256, 1)
    tile_product(td_tile s, A a, B b, C cells,
                 tile_parts<typename A::in> parts) {
  typedef typename A::in in;
  constexpr int W = R * TILE_EDGE;
  __shared__ in left[TILE_STEPS][W + TILE_PAD];
  __shared__ in right[TILE_STEPS][W + TILE_PAD];
  int x = (int)threadIdx.x % TILE_EDGE, y = (int)threadIdx.x / TILE_EDGE;
  unsigned across = (unsigned)((s.n + W - 1) / W);
  int64_t i0 = (int64_t)(blockIdx.x / across) * W;
  int64_t j0 = (int64_t)(blockIdx.x % across) * W;
  int64_t begin = (int64_t)blockIdx.y * s.part;
  int64_t end = s.k - begin < s.part ? s.k : begin + s.part;
  for (int64_t z = blockIdx.z; z < s.batch; z += gridDim.z) {
    tile_bring<A, R> from_a;
    tile_bring<B, R> from_b;
    in sum[R][R];
    for (int r = 0; r < R; r++)
      for (int q = 0; q < R; q++) sum[r][q] = in(0);
    from_a.find(a, z, i0, s.m);
    from_b.find(b, z, j0, s.n);
    for (int64_t k = begin; k < end; k += TILE_STEPS) {
      from_a.bring(a, k, end, left);
      from_b.bring(b, k, end, right);
      __syncthreads();
TD_UNROLL
      for (int t = 0; t < TILE_STEPS; t++) {
        in u[R], v[R];
        for (int r = 0; r < R; r++) u[r] = left[t][y + r * TILE_EDGE];
        for (int q = 0; q < R; q++) v[q] = right[t][x + q * TILE_EDGE];
        for (int r = 0; r < R; r++)
          for (int q = 0; q < R; q++) sum[r][q] = (in)(sum[r][q] + tile_times(u[r], v[q]));
      }
      __syncthreads();
    }
    for (int r = 0; r < R; r++)
      for (int q = 0; q < R; q++) {
        int64_t i = i0 + y + r * TILE_EDGE, j = j0 + x + q * TILE_EDGE;
        if (i >= s.m || j >= s.n) continue;
        if (s.parts > 1)
          parts.put((int64_t)blockIdx.y, z, i, j, sum[r][q]);
        else
          cells.put(z, i, j, sum[r][q]);
      }
  }
}

template <class C, class in>
__global__ void tile_join(td_tile s, const in *parts, C cells) {
  int64_t n = s.batch * s.m * s.n;
  TD_EACH(i, n) {
    in sum = parts[i];
    for (int64_t p = 1; p < s.parts; p++) sum = (in)(sum + parts[p * n + i]);
    int64_t column, line, batch = s.by_n.split(i, &column);
    batch = s.by_m.split(batch, &line);
    cells.put(batch, line, column, sum);
  }
}

/* ---- how it is cut ------------------------------------------------------- */

enum { TILE_FEW = 256, TILE_LEAST = 256, TILE_PARTS = 64 };

static inline int64_t tile_count(const td_tile *s, int64_t w) {
  return ((s->m + w - 1) / w) * ((s->n + w - 1) / w);
}

/* As many parts as make enough blocks, each of some steps at least. */
static inline void tile_cut(td_tile *s, int64_t w) {
  int64_t blocks = tile_count(s, w) * s->batch;
  int64_t most = s->k / TILE_LEAST, want = TILE_FEW / blocks;
  s->parts = want < most ? want : most;
  if (s->parts > TILE_PARTS) s->parts = TILE_PARTS;
  if (s->parts < 1) s->parts = 1;
  s->part = (s->k + s->parts - 1) / s->parts;
  s->part = (s->part + TILE_STEPS - 1) / TILE_STEPS * TILE_STEPS;
  if (s->k > 0) s->parts = (s->k + s->part - 1) / s->part;
}

template <int R, class A, class B, class C>
td_status *tile_launch(td_kernel_ctx *c, td_tile s, const A &a, const B &b,
                       const C &cells) {
  typedef typename A::in in;
  td_tensor memory = {};
  tile_parts<in> parts = {nullptr, s.batch, s.m, s.n};
  tile_cut(&s, R * TILE_EDGE);
  int64_t tiles = tile_count(&s, R * TILE_EDGE);
  if (tiles > INT32_MAX)
    return td_error(TD_UNIMPLEMENTED,
                    "a product of %lld rows and %lld columns is too large",
                    (long long)s.m, (long long)s.n);
  if (s.parts > 1) {
    td_shape shape = td_shape_matrix(s.parts, s.batch * s.m * s.n);
    shape.dim[1] *= (int64_t)sizeof(in);
    TD_TRY(td_temp(c, TD_UINT8, &shape, &memory));
    parts.to = td_cuda_at<in>(&memory);
  }
  dim3 grid((unsigned)tiles, (unsigned)s.parts,
            (unsigned)(s.batch < 65535 ? s.batch : 65535));
  td_status *st = TD_LAUNCH(c, (tile_product<R, A, B, C>), grid, 256, 0, s, a,
                            b, cells, parts);
  if (td_ok(st) && s.parts > 1)
    st = TD_LAUNCH(c, (tile_join<C, in>),
                   td_cuda_grid(c, s.batch * s.m * s.n), TD_CUDA_BLOCK, 0, s,
                   parts.to, cells);
  td_tensor_release(&memory);
  return st;
}

/* Fills all cells; of no steps with zeros. Nothing else of `s` is 0. */
template <class A, class B, class C>
td_status *tile_run(td_kernel_ctx *c, const td_tile &s, const A &a, const B &b,
                    const C &cells) {
  if (s.m <= TILE_EDGE || s.n <= TILE_EDGE || s.m * s.n <= 4096)
    return tile_launch<1>(c, s, a, b, cells);
  return tile_launch<(sizeof(typename A::in) > 4 ? 2 : 4)>(c, s, a, b, cells);
}

} // namespace

#endif
