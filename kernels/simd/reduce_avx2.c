/* reduce_avx2.c - the loops of reductions for AVX2.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define TD_WIDE
#define REDUCE_TABLE td_reduce_avx2
#include "kernels/simd/reduce_loops.h"
