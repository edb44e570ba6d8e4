/* unary_avx512.c - the loops of unary.def for AVX-512.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define TD_WIDE
#define UNARY_TABLE td_unary_avx512
#include "kernels/simd/unary_loops.h"
