/* softmax_loops.h - the loops over a row of logits; makes the table
 * SOFTMAX_TABLE.
 *
 * Included once by each of kernels/softmax_row.c, for every processor, and of
 * softmax_avx2.c and softmax_avx512.c here, whose flags decide what the
 * compiler makes of the loops. They say how many bytes the processor adds at
 * once: WIDTH. The 16 lanes are that many parts.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/softmax.h"
#include "kernels/simd/vec.h"

enum {
  LANES = 16,
  BLOCK = 256,
  WIDE = WIDTH / 4, /* lanes of a part */
  PARTS = LANES / WIDE,
};

typedef float part __attribute__((vector_size(WIDTH)));
typedef int32_t mask __attribute__((vector_size(WIDTH)));

typedef struct lanes {
  part p[PARTS];
} lanes;

static inline float tree_sum(const lanes *v) {
  float x[LANES];
  memcpy(x, v, sizeof x);
  for (int w = LANES / 2; w > 0; w /= 2)
    for (int i = 0; i < w; i++) x[i] += x[i + w];
  return x[0];
}

/* A NaN is never the larger: it shows in the sum. */
static float row_max(int64_t n, const float *x, float m) {
  lanes top;
  float each[LANES];
  int64_t i = 0;
  for (int p = 0; p < PARTS; p++) top.p[p] = (part){0} + m;
  for (; i + LANES <= n; i += LANES) {
    for (int p = 0; p < PARTS; p++) {
      part v;
      memcpy(&v, x + i + p * WIDE, sizeof v);
      mask more = v > top.p[p];
      top.p[p] = (part)(((mask)v & more) | ((mask)top.p[p] & ~more));
    }
  }
  memcpy(each, &top, sizeof each);
  for (int k = 0; k < LANES; k++) m = each[k] > m ? each[k] : m;
  for (; i < n; i++) m = x[i] > m ? x[i] : m;
  return m;
}

/* Adds n <= BLOCK elements, rounded up to whole lanes by zeros. */
static inline void add_block(lanes *sum, float *e, int64_t n) {
  while (n % LANES) e[n++] = 0;
  for (int64_t i = 0; i < n; i += LANES)
    for (int p = 0; p < PARTS; p++) {
      part v;
      memcpy(&v, e + i + p * WIDE, sizeof v);
      sum->p[p] += v;
    }
}

static float row_sum(int64_t n, const float *x, float m) {
  lanes sum = {{{0}}};
  float e[BLOCK];
  for (int64_t b = 0; b < n; b += BLOCK) {
    int64_t some = n - b < BLOCK ? n - b : BLOCK;
    TD_VEC_LOOP
    for (int64_t i = 0; i < some; i++) e[i] = td_vec_exp(x[b + i] - m);
    add_block(&sum, e, some);
  }
  return tree_sum(&sum);
}

static void row_exp(int64_t n, const float *x, float m, float scale, float *y) {
  TD_VEC_LOOP
  for (int64_t i = 0; i < n; i++) y[i] = td_vec_exp(x[i] - m) * scale;
}

static void row_log(int64_t n, const float *x, float m, float log_sum,
                    float *y) {
  TD_VEC_LOOP
  for (int64_t i = 0; i < n; i++) y[i] = (x[i] - m) - log_sum;
}

static float row_xent(int64_t n, const float *x, const float *label, float m,
                      float scale, float log_sum, float *y) {
  lanes sum = {{{0}}};
  float each[BLOCK];
  for (int64_t b = 0; b < n; b += BLOCK) {
    int64_t some = n - b < BLOCK ? n - b : BLOCK;
    TD_VEC_LOOP
    for (int64_t i = 0; i < some; i++) {
      float z = x[b + i] - m, l = label[b + i];
      each[i] = l * (log_sum - z);
      y[b + i] = td_vec_exp(z) * scale - l;
    }
    add_block(&sum, each, some);
  }
  return tree_sum(&sum);
}

const td_softmax_table SOFTMAX_TABLE = {row_max, row_sum, row_exp, row_log,
                                        row_xent};
