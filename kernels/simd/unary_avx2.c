/* unary_avx2.c - the loops of unary.def for AVX2.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define TD_WIDE
#define UNARY_TABLE td_unary_avx2
#include "kernels/simd/unary_loops.h"
