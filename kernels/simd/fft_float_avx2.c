/* fft_float_avx2.c - Fourier transforms in float for AVX2.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define FFT_LOOPS td_fft_float_avx2
#define REAL float
#define PART 8
#include "kernels/simd/fft_loops.h"
