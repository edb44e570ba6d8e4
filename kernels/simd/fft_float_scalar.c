/* fft_float_scalar.c - Fourier transforms in float for every processor.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define FFT_LOOPS td_fft_float_scalar
#define REAL float
#define PART 4
#include "kernels/simd/fft_loops.h"
