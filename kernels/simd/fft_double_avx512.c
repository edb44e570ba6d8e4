/* fft_double_avx512.c - Fourier transforms in double for AVX-512.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define FFT_LOOPS td_fft_double_avx512
#define REAL double
#define PART 8
#include "kernels/simd/fft_loops.h"
