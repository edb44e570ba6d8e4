/* binary_grad.cu - gradients that are made from two operands.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define ARITHMETIC(...)
#define COMPARISONS(...)
#define SPECIAL(...)
#define SLOPES(...) __VA_ARGS__
#include "kernels/cuda/binary.cuh"

TD_CUDA_MODULE(binary_grad, kernels)
