/* resize_scalar.c - the loops of resizing for every processor.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#define RESIZE_TABLE td_resize_scalar
#define mix_near mix_far /* none is */
enum { BLOCK = 8, WINDOW = 0 };

#include "kernels/simd/resize_loops.h"
