/* binary_avx512.c - the loops of binary.def for AVX-512.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define TD_WIDE
#define BINARY_TABLE td_binary_avx512
#include "kernels/simd/binary_loops.h"
