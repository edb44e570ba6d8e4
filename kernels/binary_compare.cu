/* binary_compare.cu - which of two numbers is the larger, or whether they are one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define ARITHMETIC(...)
#define COMPARISONS(...) __VA_ARGS__
#define SPECIAL(...)
#define SLOPES(...)
#include "kernels/cuda/binary.cuh"

TD_CUDA_MODULE(binary_compare, kernels)
