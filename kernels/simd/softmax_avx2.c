/* softmax_avx2.c - the loops of softmax for AVX2.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define SOFTMAX_TABLE td_softmax_avx2
#define WIDTH 32
#include "kernels/simd/softmax_loops.h"
