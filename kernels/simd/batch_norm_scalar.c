/* batch_norm_scalar.c - the loops of batch normalisation for every processor.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define BATCH_NORM_LOOPS td_batch_norm_scalar
#include "kernels/simd/batch_norm_loops.h"
