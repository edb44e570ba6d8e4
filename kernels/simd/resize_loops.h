/* resize_loops.h - the loops of resize_line.h as RESIZE_TABLE.
 *
 * Included once by each of resize_scalar.c, resize_avx2.c and resize_avx512.c,
 * which say what a block is and how one that is near is mixed. Every place is
 * the same three operations wherever it is computed, so that all processors
 * agree.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/resize_line.h"
#include "kernels/simd/vec.h"

static void bytes(int64_t n, const uint8_t *from, float *to) {
  TD_VEC_LOOP
  for (int64_t i = 0; i < n; i++) to[i] = (float)from[i];
}

static void mix_far(const td_resize_places *p, int64_t at, const float *line,
                    float *to) {
  for (int64_t i = at; i < at + BLOCK; i++) {
    float low = line[p->low[i]], high = line[p->high[i]];
    to[i] = low + (high - low) * p->share[i];
  }
}

/* A copy of the places: what is stored cannot change it. */
static void mix(const td_resize_places *places, const float *line, float *to) {
  const td_resize_places p = *places;
  for (int64_t b = 0; b < p.blocks; b++) {
    const float *from = line + p.base[b];
    if (p.near[b])
      mix_near(&p, b * BLOCK, from, to);
    else
      mix_far(&p, b * BLOCK, from, to);
  }
}

static void blend(int64_t n, const float *above, const float *below,
                  float share, float *to) {
  TD_VEC_LOOP
  for (int64_t i = 0; i < n; i++)
    to[i] = above[i] + (below[i] - above[i]) * share;
}

const td_resize_loops RESIZE_TABLE = {
    .block = BLOCK,
    .window = WINDOW,
    .bytes = bytes,
    .mix = mix,
    .blend = blend,
};
