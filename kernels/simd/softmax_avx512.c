/* softmax_avx512.c - the loops of softmax for AVX-512.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define SOFTMAX_TABLE td_softmax_avx512
#define WIDTH 64
#include "kernels/simd/softmax_loops.h"
