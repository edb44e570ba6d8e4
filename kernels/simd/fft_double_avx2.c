/* fft_double_avx2.c - Fourier transforms in double for AVX2.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define FFT_LOOPS td_fft_double_avx2
#define REAL double
#define PART 4
#include "kernels/simd/fft_loops.h"
