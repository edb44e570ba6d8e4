/* half.h - blocks of float16 and bfloat16 to float and back.
 *
 * Kernels compute both in float and round once, to nearest even, when they
 * store. Same bits on every processor, as td_float_from_half and its kin.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_HALF_H
#define TD_HALF_H

#include "engine/base/cpu.h"
#include "engine/tensor/dtype.h"

TD_BEGIN

enum { TD_HALF_BLOCK = 512 }; /* elements a kernel converts at a time */

static inline bool td_is_half(td_dtype t) {
  return t == TD_FLOAT16 || t == TD_BFLOAT16;
}

/* `t` is TD_FLOAT16 or TD_BFLOAT16. */
void td_half_load(td_dtype t, int64_t n, const void *from, float *to);
void td_half_store(td_dtype t, int64_t n, const float *from, void *to);

/* The same by instruction set; what the above choose from. */
typedef struct td_half_table {
  void (*load)(int64_t n, const uint16_t *from, float *to);
  void (*store)(int64_t n, const float *from, uint16_t *to);
} td_half_table;

const td_half_table *td_half_table_of(td_dtype t, td_isa isa);
extern const td_half_table td_half_avx2[2]; /* float16, bfloat16 */

static inline void td_half_load_bfloat16(int64_t n, const uint16_t *from,
                                         float *to) {
  for (int64_t i = 0; i < n; i++) to[i] = td_float_from_bfloat16(from[i]);
}
static inline void td_half_store_bfloat16(int64_t n, const float *from,
                                          uint16_t *to) {
  for (int64_t i = 0; i < n; i++) to[i] = td_float_to_bfloat16(from[i]);
}

TD_END
#endif
