/* binary.cu - what two numbers make: see binary.cuh.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define ARITHMETIC(...) __VA_ARGS__
#define COMPARISONS(...)
#define SPECIAL(...)
#define SLOPES(...)
#include "kernels/cuda/binary.cuh"

TD_CUDA_MODULE(binary, kernels)
