/* element.cuh - the sets of element.h on a card, which has float16 and bfloat16
 * as kinds of their own: HALVES_x(M, ..) makes what EACH_x leaves out.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_ELEMENT_CUH
#define TD_CUDA_ELEMENT_CUH

#include "kernels/cuda/complex.cuh"
#include "kernels/element.h"

typedef td_complex<float> td_c64;
typedef td_complex<double> td_c128;
typedef td_half td_f16;
typedef td_bfloat td_bf16;
enum { TD_ELEMENT_f16 = TD_FLOAT16, TD_ELEMENT_bf16 = TD_BFLOAT16 };

/* clang-format off */
#define HALVES(M, ...) M(f16, __VA_ARGS__) M(bf16, __VA_ARGS__)
#define HALVES_FLOATS(M, ...) HALVES(M, __VA_ARGS__)
#define HALVES_FLOATS_C(M, ...) HALVES(M, __VA_ARGS__)
#define HALVES_FLOATS_LONG(M, ...) HALVES(M, __VA_ARGS__)
#define HALVES_FLOATS_LONG_C(M, ...) HALVES(M, __VA_ARGS__)
#define HALVES_SIGNED(M, ...) HALVES(M, __VA_ARGS__)
#define HALVES_SIGNED_C(M, ...) HALVES(M, __VA_ARGS__)
#define HALVES_REALS(M, ...) HALVES(M, __VA_ARGS__)
#define HALVES_NUMBERS(M, ...) HALVES(M, __VA_ARGS__)
#define HALVES_ADD(M, ...) HALVES(M, __VA_ARGS__)
#define HALVES_EQUAL(M, ...) HALVES(M, __VA_ARGS__)
#define HALVES_LONG_FLOATS(M, ...)
#define HALVES_LONG(M, ...)
#define HALVES_INTS(M, ...)
#define HALVES_BOOLS(M, ...)
/* clang-format on */

#endif
