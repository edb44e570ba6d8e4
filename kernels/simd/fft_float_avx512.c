/* fft_float_avx512.c - Fourier transforms in float for AVX-512.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define FFT_LOOPS td_fft_float_avx512
#define REAL float
#define PART 16
#include "kernels/simd/fft_loops.h"
