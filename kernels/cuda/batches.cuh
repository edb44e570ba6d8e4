/* batches.cuh - where the matrices of a batch begin, of operands that
 * broadcast.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_BATCHES_CUH
#define TD_CUDA_BATCHES_CUH

#include "kernels/cuda/divide.cuh"
#include "kernels/cuda/launch.cuh"

namespace {

/* The axes before the last two, innermost first, with a step of 0 along those
 * that are repeated. */
struct batches {
  int rank;
  td_divider size[TD_MAX_RANK];
  int64_t step[TD_MAX_RANK];

  /* The first element of matrix `number` of the result. */
  __device__ inline int64_t at(int64_t number) const {
    int64_t first = 0;
    for (int k = 0; k < rank; k++) {
      int64_t i;
      number = size[k].split(number, &i);
      first += i * step[k];
    }
    return first;
  }
};

static inline batches batches_of(const td_shape *s, const td_shape *out) {
  batches b = {};
  int64_t step = s->dim[s->rank - 2] * s->dim[s->rank - 1];
  for (int k = s->rank - 3, j = out->rank - 3; j >= 0; k--, j--) {
    b.size[b.rank] = td_divider_by(out->dim[j]);
    if (k >= 0) b.step[b.rank] = s->dim[k] > 1 ? step : 0;
    if (k >= 0) step *= s->dim[k];
    b.rank++;
  }
  return b;
}

} // namespace

#endif
