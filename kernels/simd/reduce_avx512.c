/* reduce_avx512.c - the loops of reductions for AVX-512.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define TD_WIDE
#define REDUCE_TABLE td_reduce_avx512
#include "kernels/simd/reduce_loops.h"
