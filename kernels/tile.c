/* tile.c - short runs turned into columns; see tile.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/tile.h"

#include "kernels/simd/half.h"

typedef struct bytes16 {
  uint64_t low, high;
} bytes16;

#define TURN(type)                                                             \
  do {                                                                         \
    const type *x = from;                                                      \
    type *y = to;                                                              \
    for (int64_t k = 0; k < n; k++)                                            \
      for (int64_t i = 0; i < runs; i++) y[k * runs + i] = x[i * n + k];       \
  } while (0)

void td_tile_turn(const void *from, int64_t runs, int64_t n, size_t size,
                  void *to) {
  switch (size) {
  case 1:
    TURN(uint8_t);
    break;
  case 2:
    TURN(uint16_t);
    break;
  case 4:
    TURN(uint32_t);
    break;
  case 8:
    TURN(uint64_t);
    break;
  default:
    TURN(bytes16);
    break;
  }
}

void td_tile_turn_half(td_dtype t, const void *from, int64_t runs, int64_t n,
                       float *to) {
  float block[TD_TILE_RUNS * TD_TILE_LONGEST];
  td_half_load(t, runs * n, from, block);
  td_tile_turn(block, runs, n, sizeof *block, to);
}
