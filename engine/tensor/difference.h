/* difference.h - in how many elements two tensors differ, and by how much.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFERENCE_H
#define TD_DIFFERENCE_H

#include "engine/tensor/tensor.h"

TD_BEGIN

typedef struct td_difference {
  int64_t count; /* elements whose bytes differ */
  /* The largest absolute difference of two elements; infinite where one is NaN
   * or infinite and the other something else. 0 for strings. */
  double largest;
} td_difference;

/* Of two host tensors of one dtype, plain or string, and one shape. */
td_difference td_difference_of(const td_tensor *a, const td_tensor *b);

TD_END
#endif
