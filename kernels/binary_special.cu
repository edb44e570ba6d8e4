/* binary_special.cu - angles, incomplete gamma functions and their like.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define ARITHMETIC(...)
#define COMPARISONS(...)
#define SPECIAL(...) __VA_ARGS__
#define SLOPES(...)
#include "kernels/cuda/binary.cuh"

TD_CUDA_MODULE(binary_special, kernels)
