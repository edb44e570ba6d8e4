/* softmax.h - the loops over one row of logits that softmax and the cross
 * entropies share.
 *
 * A row is read three times: for its maximum m, for the sum of exp(x - m), and
 * for the result. exp is computed twice, which costs less than keeping it. Sums
 * go to 16 lanes and a fixed tree: same bits with AVX2 and AVX-512.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SOFTMAX_H
#define TD_SOFTMAX_H

#include "engine/base/cpu.h"
#include "engine/tensor/dtype.h"

TD_BEGIN

typedef struct td_softmax_table {
  float (*max)(int64_t n, const float *x, float m); /* of x and m */
  float (*sum)(int64_t n, const float *x, float m); /* of exp(x - m) */
  /* y = exp(x - m) * scale */
  void (*exp)(int64_t n, const float *x, float m, float scale, float *y);
  /* y = (x - m) - log_sum */
  void (*log)(int64_t n, const float *x, float m, float log_sum, float *y);
  /* y = exp(x - m) * scale - label; returns the sum of
   * label * (log_sum - (x - m)). y may be x. */
  float (*xent)(int64_t n, const float *x, const float *label, float m,
                float scale, float log_sum, float *y);
} td_softmax_table;

extern const td_softmax_table td_softmax_scalar, td_softmax_avx2,
    td_softmax_avx512;
const td_softmax_table *td_softmax_table_of(td_isa isa);

/* A row of n logits of any float dtype: its maximum and sum. */
typedef struct td_softmax_row {
  const td_softmax_table *table;
  td_dtype dtype;
  const void *x;
  int64_t n;
  double max, sum;
} td_softmax_row;

void td_softmax_read(td_softmax_row *r);

TD_END
#endif
