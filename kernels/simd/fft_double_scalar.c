/* fft_double_scalar.c - Fourier transforms in double for every processor.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define FFT_LOOPS td_fft_double_scalar
#define REAL double
#define PART 2
#include "kernels/simd/fft_loops.h"
