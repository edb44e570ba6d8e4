/* special.cuh - the functions of special.h on a card: their text is the same.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_SPECIAL_CUH
#define TD_CUDA_SPECIAL_CUH

#include "kernels/cuda/launch.cuh"

#define TD_SPECIAL_H
#include "kernels/special.c"

#endif
