/* batch_norm_loops.h - the loops of batch_norm.h as BATCH_NORM_LOOPS.
 *
 * Included once by each of batch_norm_scalar.c, batch_norm_avx2.c and
 * batch_norm_avx512.c, whose flags decide what the compiler makes of the loops.
 * Lanes never depend on each other, so that all processors agree.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/batch_norm.h"
#include "kernels/simd/vec.h"

static void sum_lines(int64_t n, int64_t width, const float *x, float *sum) {
  int64_t r = 0;
  for (; r + 4 <= n; r += 4, x += 4 * width) {
    const float *a = x, *b = x + width, *c = b + width, *d = c + width;
    TD_VEC_LOOP
    for (int64_t i = 0; i < width; i++) sum[i] += (a[i] + b[i]) + (c[i] + d[i]);
  }
  for (; r < n; r++, x += width) {
    TD_VEC_LOOP
    for (int64_t i = 0; i < width; i++) sum[i] += x[i];
  }
}

static void square_lines(int64_t n, int64_t width, const float *x,
                         const float *mean, float *sum) {
  int64_t r = 0;
  for (; r + 2 <= n; r += 2, x += 2 * width) {
    TD_VEC_LOOP
    for (int64_t i = 0; i < width; i++) {
      float a = x[i] - mean[i], b = x[i + width] - mean[i];
      sum[i] += a * a + b * b;
    }
  }
  for (; r < n; r++, x += width) {
    TD_VEC_LOOP
    for (int64_t i = 0; i < width; i++)
      sum[i] += (x[i] - mean[i]) * (x[i] - mean[i]);
  }
}

static void dot_lines(int64_t n, int64_t width, const float *dy, const float *x,
                      const float *mean, float *sum, float *dot) {
  for (int64_t r = 0; r < n; r++, x += width, dy += width) {
    TD_VEC_LOOP
    for (int64_t i = 0; i < width; i++) {
      sum[i] += dy[i];
      dot[i] += dy[i] * (x[i] - mean[i]);
    }
  }
}

static void apply_lines(int64_t n, int64_t width, const float *x,
                        const float *mean, const float *scale,
                        const float *offset, float *y) {
  for (int64_t r = 0; r < n; r++, x += width, y += width) {
    TD_VEC_LOOP
    for (int64_t i = 0; i < width; i++)
      y[i] = (x[i] - mean[i]) * scale[i] + offset[i];
  }
}

static void back_lines(int64_t n, int64_t width, const float *dy,
                       const float *x, const float *mean, const float *scale,
                       const float *shift, const float *slope, float *dx) {
  for (int64_t r = 0; r < n; r++, x += width, dy += width, dx += width) {
    TD_VEC_LOOP
    for (int64_t i = 0; i < width; i++)
      dx[i] = scale[i] * (dy[i] - shift[i] - (x[i] - mean[i]) * slope[i]);
  }
}

const td_batch_norm_loops BATCH_NORM_LOOPS = {
    sum_lines, square_lines, dot_lines, apply_lines, back_lines};
