/* softmax_row.c - maximum and sum of a row of logits of any float dtype.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define SOFTMAX_TABLE td_softmax_scalar
#define WIDTH 16
#include "kernels/simd/softmax_loops.h"

#include "kernels/simd/half.h"

const td_softmax_table *td_softmax_table_of(td_isa isa) {
  if (isa == TD_AVX512) return &td_softmax_avx512;
  return isa == TD_AVX2 ? &td_softmax_avx2 : &td_softmax_scalar;
}

static void read_doubles(td_softmax_row *r) {
  const double *x = r->x;
  double sum[LANES] = {0};
  r->max = -INFINITY;
  for (int64_t i = 0; i < r->n; i++)
    if (x[i] > r->max) r->max = x[i];
  for (int64_t i = 0; i < r->n; i++) sum[i % LANES] += exp(x[i] - r->max);
  for (int w = LANES / 2; w > 0; w /= 2)
    for (int i = 0; i < w; i++) sum[i] += sum[i + w];
  r->sum = sum[0];
}

static void read_halves(td_softmax_row *r) {
  const uint16_t *x = r->x;
  float block[TD_HALF_BLOCK], max = -INFINITY, sum = 0;
  for (int pass = 0; pass < 2; pass++)
    for (int64_t i = 0; i < r->n; i += TD_HALF_BLOCK) {
      int64_t some = r->n - i < TD_HALF_BLOCK ? r->n - i : TD_HALF_BLOCK;
      td_half_load(r->dtype, some, x + i, block);
      if (pass == 0)
        max = r->table->max(some, block, max);
      else
        sum += r->table->sum(some, block, max);
    }
  r->max = max;
  r->sum = sum;
}

void td_softmax_read(td_softmax_row *r) {
  if (r->dtype == TD_FLOAT64) {
    read_doubles(r);
  } else if (td_is_half(r->dtype)) {
    read_halves(r);
  } else {
    float max = r->table->max(r->n, r->x, -INFINITY);
    r->max = max;
    r->sum = r->table->sum(r->n, r->x, max);
  }
}
