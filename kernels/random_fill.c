/* random_fill.c - from random bits to numbers, as TensorFlow does it.
 *
 * Uniform floats take as many bits as their fraction has and put them behind
 * 1; integers are the remainder of 32 or 64 bits, with the slight bias that
 * has; normals come from Box and Muller's transform of pairs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <emmintrin.h>

#include "kernels/simd/half.h"

#define RANDOM_TABLE td_random_scalar
#define WIDTH 16
#define LOW_PRODUCT(a, b) (lanes) _mm_mul_epu32((__m128i)(a), (__m128i)(b))
#include "kernels/simd/random_loops.h"

enum {
  BLOCKS = TD_HALF_BLOCK / 4, /* that are drawn at a time */
  WORDS = 4 * BLOCKS,
};

static const td_random_table *table_of(td_isa isa) {
  if (isa == TD_AVX512) return &td_random_avx512;
  return isa == TD_AVX2 ? &td_random_avx2 : &td_random_scalar;
}

int td_random_group(td_dtype dtype) {
  return td_dtype_size(dtype) == 8 ? 2 : 4;
}

/* ---- uniform ------------------------------------------------------------- */

static void uniform_floats(td_dtype t, const uint32_t *words, float *to) {
  if (t == TD_FLOAT32) {
    for (int i = 0; i < WORDS; i++) to[i] = uniform(words[i]);
    return;
  }
  uint32_t mask = t == TD_FLOAT16 ? 0x3ff : 0x7f;
  float scale = t == TD_FLOAT16 ? 0x1p-10f : 0x1p-7f;
  for (int i = 0; i < WORDS; i++)
    to[i] = (float)(int32_t)(words[i] & mask) * scale;
}

double td_random_double(const uint32_t *words) {
  uint64_t high = words[0] & 0xfffff;
  return td_vec_double(UINT64_C(0x3ff) << 52 | high << 32 | words[1]) - 1.0;
}

/* ---- normal -------------------------------------------------------------- */

void td_random_normals(const uint32_t *words, double *to) {
  double u = td_random_double(words);
  double angle = 6.283185307179586 * td_random_double(words + 2);
  double r = sqrt(-2.0 * log(u < 1.0e-7 ? 1.0e-7 : u));
  to[0] = sin(angle) * r;
  to[1] = cos(angle) * r;
}

/* Elements of a truncated group taken so far, and where its stream stands. */
typedef struct group {
  td_philox p;
  int n, have;
} group;

static bool in_range(double x) {
  return x > -2.0 && x < 2.0;
}

static void take_floats(group *g, const float *from, float *to) {
  for (int i = 0; i < 4 && g->have < g->n; i++)
    if (in_range((double)from[i])) to[g->have++] = from[i];
}

static void truncated_floats(const td_random_draw *d, int64_t first,
                             int64_t blocks, const uint32_t *words, float *to) {
  const td_random_table *t = table_of(d->isa);
  float drawn[WORDS];
  t->normal(2 * blocks, words, drawn);
  for (int64_t b = 0; b < blocks; b++) {
    group g = {.p = d->base, .n = 4};
    take_floats(&g, drawn + 4 * b, to + 4 * b);
    if (g.have == 4) continue;
    td_philox_skip(&g.p, (uint64_t)(first + b) * 256 + 1);
    while (g.have < 4) {
      uint32_t more[4];
      float x[4];
      td_philox_next(&g.p, more);
      t->normal(2, more, x);
      take_floats(&g, x, to + 4 * b);
    }
  }
}

static void truncated_doubles(const td_random_draw *d, int64_t first,
                              int64_t blocks, double *to) {
  for (int64_t b = 0; b < blocks; b++) {
    group g = {.p = d->base, .n = 2};
    td_philox_skip(&g.p, (uint64_t)(first + b) * 128);
    while (g.have < 2) {
      uint32_t words[4];
      double x[2];
      td_philox_next(&g.p, words);
      td_random_normals(words, x);
      for (int i = 0; i < 2 && g.have < 2; i++)
        if (in_range(x[i])) to[2 * b + g.have++] = x[i];
    }
  }
}

/* ---- blocks -------------------------------------------------------------- */

/* Each of these makes the elements of `blocks` groups from `first` on and
 * stores the first n of them. */

static void store_floats(const td_random_draw *d, int64_t first, int64_t blocks,
                         int64_t n, const uint32_t *words, void *to) {
  float x[WORDS];
  if (d->kind == TD_RANDOM_UNIFORM)
    uniform_floats(d->dtype, words, x);
  else if (d->kind == TD_RANDOM_NORMAL)
    table_of(d->isa)->normal(2 * blocks, words, x);
  else
    truncated_floats(d, first, blocks, words, x);
  if (d->dtype == TD_FLOAT32)
    memcpy(to, x, (size_t)n * sizeof *x);
  else
    td_half_store(d->dtype, n, x, to);
}

static void store_doubles(const td_random_draw *d, int64_t first,
                          int64_t blocks, int64_t n, const uint32_t *words,
                          void *to) {
  double x[WORDS / 2];
  if (d->kind == TD_RANDOM_TRUNCATED)
    truncated_doubles(d, first, blocks, x);
  else if (d->kind == TD_RANDOM_NORMAL)
    for (int64_t b = 0; b < blocks; b++)
      td_random_normals(words + 4 * b, x + 2 * b);
  else
    for (int64_t i = 0; i < 2 * blocks; i++)
      x[i] = td_random_double(words + 2 * i);
  memcpy(to, x, (size_t)n * sizeof *x);
}

static void store_integers(const td_random_draw *d, int64_t n,
                           const uint32_t *words, void *to) {
  if (d->dtype == TD_INT32) {
    uint32_t range = (uint32_t)d->range, *y = to;
    for (int64_t i = 0; i < n; i++) y[i] = (uint32_t)d->low + words[i] % range;
    return;
  }
  uint64_t *y = to;
  for (int64_t i = 0; i < n; i++) {
    uint64_t x = (uint64_t)words[2 * i + 1] << 32 | words[2 * i];
    y[i] = d->low + x % d->range;
  }
}

void td_random_fill(void *arg, int64_t begin, int64_t end) {
  const td_random_draw *d = arg;
  int64_t size = (int64_t)td_dtype_size(d->dtype);
  int64_t each = td_random_group(d->dtype);
  uint64_t stride = d->kind == TD_RANDOM_TRUNCATED ? 64 * (uint64_t)each : 1;
  for (int64_t g = begin; g < end; g += BLOCKS) {
    uint32_t words[WORDS] = {0};
    int64_t blocks = end - g < BLOCKS ? end - g : BLOCKS;
    int64_t left = d->count - g * each, n = blocks * each;
    char *to = (char *)d->to + g * each * size;
    td_philox p = d->base;
    td_philox_skip(&p, (uint64_t)g * stride);
    table_of(d->isa)->bits(&p, blocks, stride, words);
    if (n > left) n = left;
    if (d->kind == TD_RANDOM_BITS)
      memcpy(to, words, (size_t)(n * size));
    else if (d->kind == TD_RANDOM_INTEGER)
      store_integers(d, n, words, to);
    else if (d->dtype == TD_FLOAT64)
      store_doubles(d, g, blocks, n, words, to);
    else
      store_floats(d, g, blocks, n, words, to);
  }
}
