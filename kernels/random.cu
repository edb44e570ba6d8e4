/* random.cu - random numbers on a card: a thread makes a group of elements (four,
 * or two of 8 bytes) of the same words as the CPU (random_fill.c).
 *
 * Uniform numbers, integers and float normals have the CPU's bits: the same
 * polynomials, without contraction. Normals of 8 bytes go by the libraries'
 * log, sin and cos, whose last bit may differ.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/philox.cuh"
#include "kernels/random_stateless.h"

namespace {

/* ---- normal floats: random_loops.h, one lane ----------------------------- */

TD_DEVICE double log2_of(double x) {
  uint64_t u = td_exact_bits(x) - 0x3fe6a09e667f3bcdu;
  double n = (double)(int32_t)((int64_t)u >> 52);
  double m = td_exact_of((u & 0xfffffffffffff) + 0x3fe6a09e667f3bcdu);
  double s = (m - 1) / (m + 1), z = td_exact_mul(s, s);
  double p = td_exact_step(0.34078039195025689, z, 0.41167004801647455);
  p = td_exact_step(p, z, 0.57708362877023056);
  p = td_exact_step(p, z, 0.9617966731153611);
  p = td_exact_step(p, z, 2.8853900817902653);
  return td_exact_step(s, p, n);
}

TD_DEVICE double sine_near(double r, double z) {
  double p = td_exact_step(2.7181178665817465e-06, z, -0.0001983931187664652);
  p = td_exact_step(p, z, 0.008333329303626642);
  p = td_exact_step(p, z, -0.166666666407866);
  return td_exact_add(r, td_exact_mul(td_exact_mul(r, z), p));
}

TD_DEVICE double cosine_near(double z) {
  double p = td_exact_step(-2.720572001957041e-07, z, 2.479945973991039e-05);
  p = td_exact_step(p, z, -0.001388888349849808);
  p = td_exact_step(p, z, 0.04166666661947292);
  double near = td_exact_add(1.0, -td_exact_mul(0.5, z));
  return td_exact_add(near, td_exact_mul(td_exact_mul(z, z), p));
}

/* Two words become two floats. */
TD_DEVICE void normals(const uint32_t *words, float *to) {
  const double round = 6755399441055744.0; /* 1.5 * 2^52 */
  float u = td_philox_float(words[0]);
  u = u < 1.0e-7f ? 1.0e-7f : u;
  float length =
      -2.0f * (float)td_exact_mul(log2_of(u), 0.6931471805599453);
  length = sqrtf(length);
  float angle =
      (float)td_exact_mul(6.283185307179586, (double)td_philox_float(words[1]));
  double z = td_exact_step(angle, 0.6366197723675814, round);
  double turns = td_exact_add(z, -round);
  double r = td_exact_step(-turns, 1.5707963267341256, angle);
  r = td_exact_step(-turns, 6.077100506506192e-11, r);
  uint64_t q = td_exact_bits(z);
  double near = td_exact_mul(r, r);
  double s = sine_near(r, near), c = cosine_near(near);
  double x = q & 1 ? c : s, y = q & 1 ? s : c;
  x = q & 2 ? -x : x;
  y = (q + 1) & 2 ? -y : y;
  to[0] = td_exact_mul((float)x, length);
  to[1] = td_exact_mul((float)y, length);
}

TD_DEVICE void normals(const uint32_t *words, double *to) {
  double u = td_philox_double(words);
  double angle = td_exact_mul(6.283185307179586, td_philox_double(words + 2));
  double r = sqrt(td_exact_mul(-2.0, log(u < 1.0e-7 ? 1.0e-7 : u)));
  to[0] = td_exact_mul(sin(angle), r);
  to[1] = td_exact_mul(cos(angle), r);
}

/* ---- a group ------------------------------------------------------------- */

/* What one block becomes. */
TD_DEVICE void normal_block(const uint32_t *words, float *to) {
  normals(words, to);
  normals(words + 2, to + 2);
}
TD_DEVICE void normal_block(const uint32_t *words, double *to) {
  normals(words, to);
}

/* S in memory, T that it is computed in. */
template <class S, class T> struct uniform {
  static __device__ inline void make(const td_random_draw &d, int64_t g, S *to);
};
template <> __device__ inline void
uniform<float, float>::make(const td_random_draw &d, int64_t g, float *to) {
  uint32_t words[4];
  td_philox_block(d.base, (uint64_t)g, words);
  for (int i = 0; i < 4; i++) to[i] = td_philox_float(words[i]);
}
template <> __device__ inline void
uniform<double, double>::make(const td_random_draw &d, int64_t g, double *to) {
  uint32_t words[4];
  td_philox_block(d.base, (uint64_t)g, words);
  for (int i = 0; i < 2; i++) to[i] = td_philox_double(words + 2 * i);
}
template <> __device__ inline void
uniform<td_half, float>::make(const td_random_draw &d, int64_t g, td_half *to) {
  uint32_t words[4];
  td_philox_block(d.base, (uint64_t)g, words);
  for (int i = 0; i < 4; i++)
    to[i] = td_num<td_half>::store((float)(words[i] & 0x3ff) * 0x1p-10f);
}
template <> __device__ inline void
uniform<td_bfloat, float>::make(const td_random_draw &d, int64_t g,
                                td_bfloat *to) {
  uint32_t words[4];
  td_philox_block(d.base, (uint64_t)g, words);
  for (int i = 0; i < 4; i++)
    to[i] = td_num<td_bfloat>::store((float)(words[i] & 0x7f) * 0x1p-7f);
}

template <class T> constexpr int group_of = sizeof(T) == 8 ? 2 : 4;

template <class S, class T> struct normal {
  static __device__ inline void make(const td_random_draw &d, int64_t g,
                                     S *to) {
    uint32_t words[4];
    T x[group_of<T>];
    td_philox_block(d.base, (uint64_t)g, words);
    normal_block(words, x);
    for (int i = 0; i < group_of<T>; i++) to[i] = td_num<S>::store(x[i]);
  }
};

/* Drawn again until all are within (-2, 2); a group has 64 blocks for each of
 * its elements. */
template <class S, class T> struct truncated {
  static __device__ inline void make(const td_random_draw &d, int64_t g,
                                     S *to) {
    constexpr int n = group_of<T>;
    uint64_t at = (uint64_t)g * 64 * n;
    for (int have = 0; have < n;) {
      uint32_t words[4];
      T x[n];
      td_philox_block(d.base, at++, words);
      normal_block(words, x);
      for (int i = 0; i < n && have < n; i++)
        if ((double)x[i] > -2.0 && (double)x[i] < 2.0)
          to[have++] = td_num<S>::store(x[i]);
    }
  }
};

template <class S, class T> struct integer {
  static __device__ inline void make(const td_random_draw &d, int64_t g,
                                     S *to) {
    uint32_t words[4];
    td_philox_block(d.base, (uint64_t)g, words);
    for (int i = 0; i < group_of<S>; i++)
      if (sizeof(S) == 4) {
        to[i] = (S)((uint32_t)d.low + words[i] % (uint32_t)d.range);
      } else {
        uint64_t x = (uint64_t)words[2 * i % 4 + 1] << 32 | words[2 * i % 4];
        to[i] = (S)(d.low + x % d.range);
      }
  }
};

template <class S, class T> struct word {
  static __device__ inline void make(const td_random_draw &d, int64_t g,
                                     S *to) {
    uint32_t words[4];
    td_philox_block(d.base, (uint64_t)g, words);
    for (int i = 0; i < group_of<S>; i++)
      to[i] = sizeof(S) == 4 ? (S)words[i]
                             : (S)((uint64_t)words[2 * i % 4 + 1] << 32 |
                                   words[2 * i % 4]);
  }
};

/* ---- kernels ------------------------------------------------------------- */

template <class F, class S>
__global__ void fill(int64_t groups, td_random_draw d, S *y) {
  constexpr int n = group_of<S>;
  TD_EACH(g, groups) {
    S x[n];
    F::make(d, g, x);
    int64_t left = d.count - g * n;
    for (int i = 0; i < n && i < left; i++) y[g * n + i] = x[i];
  }
}

template <template <class, class> class F, class S, class T = S>
td_status *launch(td_kernel_ctx *c, const td_random_draw *d) {
  int64_t groups = (d->count + group_of<S> - 1) / group_of<S>;
  return TD_LAUNCH(c, (fill<F<S, T>, S>), td_cuda_grid(c, groups),
                   TD_CUDA_BLOCK, 0, groups, *d, static_cast<S *>(d->to));
}

td_status *no_type(const td_random_draw *d) {
  return td_error(TD_INTERNAL, "there is no code to draw %s",
                  td_dtype_name(d->dtype));
}

template <template <class, class> class F>
td_status *floats(td_kernel_ctx *c, const td_random_draw *d) {
  switch ((int)d->dtype) {
  case TD_FLOAT16:
    return launch<F, td_half, float>(c, d);
  case TD_BFLOAT16:
    return launch<F, td_bfloat, float>(c, d);
  case TD_FLOAT32:
    return launch<F, float>(c, d);
  case TD_FLOAT64:
    return launch<F, double>(c, d);
  default:
    return no_type(d);
  }
}

template <template <class, class> class F>
td_status *integers(td_kernel_ctx *c, const td_random_draw *d) {
  return td_dtype_size(d->dtype) == 4 ? launch<F, uint32_t>(c, d)
                                      : launch<F, uint64_t>(c, d);
}

td_status *draw(td_kernel_ctx *c, td_random_draw *d) {
  switch (d->kind) {
  case TD_RANDOM_UNIFORM:
    return floats<uniform>(c, d);
  case TD_RANDOM_NORMAL:
    return floats<normal>(c, d);
  case TD_RANDOM_TRUNCATED:
    return floats<truncated>(c, d);
  case TD_RANDOM_INTEGER:
    return integers<integer>(c, d);
  case TD_RANDOM_BITS:
    return integers<word>(c, d);
  }
  return no_type(d);
}

/* ---- rows ---------------------------------------------------------------- */

typedef td_status *(*family)(td_kernel_ctx *c, td_random_kind kind,
                             td_random_how how);

template <family on, td_random_kind kind> td_status *run(td_kernel_ctx *c) {
  return on(c, kind, draw);
}

#define STREAM(name, kind)                                                     \
  {.op = name,                                                                 \
   .device = "CUDA",                                                           \
   .run = run<td_random_on, kind>,                                             \
   .make = td_random_make,                                                     \
   .drop = td_random_drop,                                                     \
   .save = td_random_save,                                                     \
   .load = td_random_load}
#define STATELESS(name, kind)                                                  \
  {.op = name, .device = "CUDA", .run = run<td_random_stateless_on, kind>}
#define KEYED(name, kind)                                                      \
  {.op = name, .device = "CUDA", .run = run<td_random_keyed_on, kind>}

const td_kernel_def kernels[] = {
    STREAM("RandomUniform", TD_RANDOM_UNIFORM),
    STREAM("RandomStandardNormal", TD_RANDOM_NORMAL),
    STREAM("TruncatedNormal", TD_RANDOM_TRUNCATED),
    STREAM("RandomUniformInt", TD_RANDOM_INTEGER),
    STATELESS("StatelessRandomUniform", TD_RANDOM_UNIFORM),
    STATELESS("StatelessRandomNormal", TD_RANDOM_NORMAL),
    STATELESS("StatelessTruncatedNormal", TD_RANDOM_TRUNCATED),
    STATELESS("StatelessRandomUniformInt", TD_RANDOM_INTEGER),
    STATELESS("StatelessRandomUniformFullInt", TD_RANDOM_BITS),
    KEYED("StatelessRandomUniformV2", TD_RANDOM_UNIFORM),
    KEYED("StatelessRandomNormalV2", TD_RANDOM_NORMAL),
    KEYED("StatelessTruncatedNormalV2", TD_RANDOM_TRUNCATED),
    {.op = "StatelessRandomUniformIntV2",
     .device = "CUDA",
     .types = "dtype=int32|int64",
     .run = run<td_random_keyed_on, TD_RANDOM_INTEGER>},
    KEYED("StatelessRandomUniformFullIntV2", TD_RANDOM_BITS),
    {},
};

} // namespace

TD_CUDA_MODULE(random, kernels)
