/* reduce_scalar.c - the loops of reductions for the x86-64 baseline.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define REDUCE_TABLE td_reduce_scalar
#include "kernels/simd/reduce_loops.h"
