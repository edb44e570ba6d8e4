/* transpose_tile.c - short rows, transposed; see transpose_tile.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/transpose_tile.h"

#include "kernels/simd/half.h"

typedef struct bytes16 {
  uint64_t low, high;
} bytes16;

#define TRANSPOSE(type)                                                        \
  do {                                                                         \
    const type *x = from;                                                      \
    type *y = to;                                                              \
    for (int64_t k = 0; k < n; k++)                                            \
      for (int64_t i = 0; i < rows; i++) y[k * rows + i] = x[i * n + k];       \
  } while (0)

void td_transpose_tile(const void *from, int64_t rows, int64_t n, size_t size,
                       void *to) {
  switch (size) {
  case 1:
    TRANSPOSE(uint8_t);
    break;
  case 2:
    TRANSPOSE(uint16_t);
    break;
  case 4:
    TRANSPOSE(uint32_t);
    break;
  case 8:
    TRANSPOSE(uint64_t);
    break;
  default:
    TRANSPOSE(bytes16);
    break;
  }
}

void td_transpose_tile_half(td_dtype t, const void *from, int64_t rows,
                            int64_t n, float *to) {
  float block[TD_TRANSPOSE_ROWS * TD_TRANSPOSE_LONGEST];
  td_half_load(t, rows * n, from, block);
  td_transpose_tile(block, rows, n, sizeof *block, to);
}
