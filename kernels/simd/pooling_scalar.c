/* pooling_scalar.c - the loops of pooling for every processor.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define POOLING_TABLE td_pooling_scalar
#include "kernels/simd/pooling_loops.h"
