/* strided_copy.cu - strided copies on a card; see strided_copy.h.
 *
 * The loops are put in the order of the result, those that continue each other
 * become one, and a dense run of aligned elements becomes one of fewer and
 * larger ones, up to 16 bytes. Then: a run that is all is the driver's copy, or
 * 16 bytes a thread; a source that is dense along another loop is copied by
 * tiles that are turned in shared memory; all else element by element, each
 * thread taking its number apart.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/divide.cuh"
#include "kernels/strided_copy.h"

#include <string.h>

namespace {

enum {
  LOOPS = TD_STRIDED_COPY_LOOPS,
  WIDEST = 16, /* bytes of the largest element */
  TILE = 32,   /* elements along a side */
  ROWS = 8,    /* of a tile at a time */
};

/* Strides count bytes. */
struct nest {
  int loops;
  size_t size;
  int64_t count[LOOPS], from[LOOPS], to[LOOPS];
};

/* ---- kernels ------------------------------------------------------------- */

struct alignas(16) wide {
  uint64_t at[2];
};

template <class D> struct loops {
  int n;
  D count[LOOPS];
  int64_t from[LOOPS], to[LOOPS];
};

/* Where round i of the loops is. */
template <class D>
__device__ inline void find(const loops<D> &m, typename D::index i,
                            int64_t *from, int64_t *to) {
  int64_t f = 0, t = 0;
  for (int k = m.n - 1; k >= 0; k--) {
    typename D::index rest = m.count[k](i), at = i - rest * m.count[k].by;
    f += (int64_t)at * m.from[k];
    t += (int64_t)at * m.to[k];
    i = rest;
  }
  *from = f;
  *to = t;
}

template <class E, class D>
__global__ void copy_each(int64_t n, loops<D> m, const char *from, char *to) {
  TD_EACH(i, n) {
    int64_t f, t;
    find(m, (typename D::index)i, &f, &t);
    *(E *)(to + t) = *(const E *)(from + f);
  }
}

template <class E, class D>
__global__ void fill_each(int64_t n, loops<D> m, E value, char *to) {
  TD_EACH(i, n) {
    int64_t f, t;
    find(m, (typename D::index)i, &f, &t);
    *(E *)(to + t) = value;
  }
}

/* Along i the result is dense, along j the source. */
struct turn {
  int64_t count_i, from_i, count_j, to_j;
  int64_t tiles_i, tiles_j;
};

template <class E, class D>
__global__ void copy_tiles(int64_t n, loops<D> m, turn t, const char *from,
                           char *to) {
  __shared__ E tile[TILE][TILE + 1];
  for (int64_t b = blockIdx.x; b < n; b += gridDim.x) {
    int64_t i0 = b % t.tiles_i * TILE, j0 = b / t.tiles_i % t.tiles_j * TILE;
    int64_t f, g;
    find(m, (typename D::index)(b / t.tiles_i / t.tiles_j), &f, &g);
    for (int k = threadIdx.y; k < TILE; k += ROWS) {
      int64_t i = i0 + k, j = j0 + threadIdx.x;
      if (i < t.count_i && j < t.count_j)
        tile[k][threadIdx.x] =
            *(const E *)(from + f + i * t.from_i + j * (int64_t)sizeof(E));
    }
    __syncthreads();
    for (int k = threadIdx.y; k < TILE; k += ROWS) {
      int64_t i = i0 + threadIdx.x, j = j0 + k;
      if (i < t.count_i && j < t.count_j)
        *(E *)(to + g + j * t.to_j + i * (int64_t)sizeof(E)) =
            tile[threadIdx.x][k];
    }
    __syncthreads();
  }
}

/* ---- launches ------------------------------------------------------------ */

template <class D> loops<D> loops_of(const nest *m) {
  loops<D> l;
  l.n = m->loops;
  for (int k = 0; k < m->loops; k++) {
    l.count[k] = D::of(m->count[k]);
    l.from[k] = m->from[k];
    l.to[k] = m->to[k];
  }
  return l;
}

int64_t rounds(const nest *m) {
  int64_t n = 1;
  for (int k = 0; k < m->loops; k++) n *= m->count[k];
  return n;
}

template <class E, class D>
td_status *launch_each(const td_kernel_ctx *c, const nest *m, const char *from,
                       const void *value, char *to) {
  int64_t n = rounds(m);
  loops<D> l = loops_of<D>(m);
  if (!value)
    return TD_LAUNCH(c, (copy_each<E, D>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0,
                     n, l, from, to);
  E one;
  memcpy(&one, value, sizeof one);
  return TD_LAUNCH(c, (fill_each<E, D>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0,
                   n, l, one, to);
}

template <class E, class D>
td_status *launch_tiles(const td_kernel_ctx *c, const nest *m, turn t,
                        const char *from, char *to) {
  int64_t n = rounds(m) * t.tiles_i * t.tiles_j;
  int64_t most = (int64_t)td_cuda_of(c)->sms * TD_CUDA_WAVES;
  return TD_LAUNCH(c, (copy_tiles<E, D>), dim3((unsigned)(n < most ? n : most)),
                   dim3(TILE, ROWS), 0, n, loops_of<D>(m), t, from, to);
}

void drop_loop(nest *m, int k) {
  m->loops--;
  for (; k < m->loops; k++) {
    m->count[k] = m->count[k + 1];
    m->from[k] = m->from[k + 1];
    m->to[k] = m->to[k + 1];
  }
}

/* Takes the two loops of a turned copy out; false: it is none, or one so narrow
 * that tiles would be mostly empty. */
bool take_turn(nest *m, turn *t) {
  int in = m->loops - 1;
  int64_t size = (int64_t)m->size;
  if (m->to[in] != size || m->from[in] == size || m->count[in] < TILE / 4)
    return false;
  for (int k = in - 1; k >= 0; k--) {
    if (m->from[k] != size || m->count[k] < TILE / 4) continue;
    *t = turn{m->count[in],
              m->from[in],
              m->count[k],
              m->to[k],
              (m->count[in] + TILE - 1) / TILE,
              (m->count[k] + TILE - 1) / TILE};
    drop_loop(m, in);
    drop_loop(m, k);
    return true;
  }
  return false;
}

template <class E>
td_status *launch(const td_kernel_ctx *c, const nest *from_nest,
                  const char *from, const void *value, char *to) {
  nest m = *from_nest;
  bool small = td_divide_fits(rounds(&m));
  turn t;
  if (!value && take_turn(&m, &t))
    return small ? launch_tiles<E, td_divide>(c, &m, t, from, to)
                 : launch_tiles<E, td_divider>(c, &m, t, from, to);
  return small ? launch_each<E, td_divide>(c, &m, from, value, to)
               : launch_each<E, td_divider>(c, &m, from, value, to);
}

/* ---- the simplest form --------------------------------------------------- */

int64_t distance(int64_t stride) {
  return stride < 0 ? -stride : stride;
}

/* The loops that run more than once, the farthest step in the result first. */
void take_loops(const td_strided_copy *m, size_t size, bool filled, nest *out) {
  int n = 0;
  for (int k = 0; k < m->loops; k++) {
    int64_t to = m->to[k] * (int64_t)size, i = n;
    if (m->count[k] == 1) continue;
    for (; i > 0 && distance(out->to[i - 1]) < distance(to); i--) {
      out->count[i] = out->count[i - 1];
      out->from[i] = out->from[i - 1];
      out->to[i] = out->to[i - 1];
    }
    out->count[i] = m->count[k];
    out->from[i] = filled ? to : m->from[k] * (int64_t)size;
    out->to[i] = to;
    n++;
  }
  out->loops = n;
  out->size = size;
}

void merge_loops(nest *m) {
  int n = 0;
  for (int k = 0; k < m->loops; k++) {
    int64_t count = m->count[k];
    if (n > 0 && m->from[n - 1] == m->from[k] * count &&
        m->to[n - 1] == m->to[k] * count)
      count *= m->count[--n];
    m->count[n] = count;
    m->from[n] = m->from[k];
    m->to[n++] = m->to[k];
  }
  m->loops = n;
}

/* Can elements of the innermost run be taken two at a time? */
bool can_widen(const nest *m, uintptr_t from, uintptr_t to) {
  int in = m->loops - 1;
  int64_t size = (int64_t)m->size;
  if (in < 0 || size == WIDEST || m->count[in] % 2 != 0) return false;
  if (m->from[in] != size || m->to[in] != size) return false;
  uint64_t all = (uint64_t)(from | to);
  for (int k = 0; k < in; k++)
    all |= (uint64_t)m->from[k] | (uint64_t)m->to[k];
  return all % (uint64_t)(2 * size) == 0;
}

/* `one`: the value that fills, as often as an element holds it. */
void widen(nest *m, const void *from, const void *to, char *one) {
  int in = m->loops - 1;
  while (can_widen(m, one ? 0 : (uintptr_t)from, (uintptr_t)to)) {
    if (one) memcpy(one + m->size, one, m->size);
    m->size *= 2;
    m->from[in] = m->to[in] = (int64_t)m->size;
    m->count[in] /= 2;
    if (m->count[in] != 1) continue;
    drop_loop(m, in);
    return;
  }
}

/* One run from beginning to end. */
bool is_run(const nest *m) {
  int64_t size = (int64_t)m->size;
  return m->loops == 0 ||
         (m->loops == 1 && m->from[0] == size && m->to[0] == size);
}

} // namespace

extern "C" td_status *td_cuda_copy_strided(const td_kernel_ctx *c,
                                           const td_strided_copy *copy,
                                           size_t size, const void *from,
                                           const void *value, void *to) {
  alignas(WIDEST) char one[WIDEST];
  nest m;
  take_loops(copy, size, value != nullptr, &m);
  merge_loops(&m);
  if (value) memcpy(one, value, size);
  widen(&m, from, to, value ? one : nullptr);
  if (!value && is_run(&m) && m.size < WIDEST)
    return td_cuda_ok(cudaMemcpyAsync(to, from, (size_t)rounds(&m) * m.size,
                                      cudaMemcpyDeviceToDevice,
                                      td_cuda_stream(c)),
                      "a copy");
  const char *at = static_cast<const char *>(from);
  char *out = static_cast<char *>(to);
  const void *fill = value ? one : nullptr;
  switch (m.size) {
  case 1:
    return launch<uint8_t>(c, &m, at, fill, out);
  case 2:
    return launch<uint16_t>(c, &m, at, fill, out);
  case 4:
    return launch<uint32_t>(c, &m, at, fill, out);
  case 8:
    return launch<uint64_t>(c, &m, at, fill, out);
  default:
    return launch<wide>(c, &m, at, fill, out);
  }
}
