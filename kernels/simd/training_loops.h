/* training_loops.h - the loops of training.def for one instruction set.
 *
 * Each reads and writes every array once. Included once by each of
 * kernels/training.c, for every processor, and of training_avx2.c and
 * training_avx512.c here, which name TRAINING_TABLE.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/num.h"
#include "kernels/training.h"

/* clang-format off */
#define TAKE_0
#define TAKE_1 T *restrict const slot_a = var[1];
#define TAKE_2 TAKE_1 T *restrict const slot_b = var[2];
#define TAKE_3 TAKE_2 T *restrict const slot_d = var[3];
#define LOAD_0
#define LOAD_1 T a = slot_a[i];
#define LOAD_2 LOAD_1 T b = slot_b[i];
#define LOAD_3 LOAD_2 T d = slot_d[i];
#define KEEP_0
#define KEEP_1 slot_a[i] = a;
#define KEEP_2 KEEP_1 slot_b[i] = b;
#define KEEP_3 KEEP_2 slot_d[i] = d;

#define LOOP(kind, name, slots, scalars, step)                                 \
  static void name##_##kind(int64_t n, void *const *var, const void *grad,     \
                            const void *scalar, bool option) {                 \
    typedef td_##kind T;                                                       \
    T *restrict const value = var[0];                                          \
    const T *restrict const from = grad;                                       \
    const T *const s = scalar;                                                 \
    TAKE_##slots                                                               \
    scalars                                                                    \
    (void)option;                                                              \
    for (int64_t i = 0; i < n; i++) {                                          \
      const T g = from[i];                                                     \
      T v = value[i];                                                          \
      LOAD_##slots                                                             \
      step                                                                     \
      KEEP_##slots                                                             \
      value[i] = v;                                                            \
    }                                                                          \
  }
/* clang-format on */

#define UPDATE(name, ...) EACH_FLOATS_C(LOOP, name, __VA_ARGS__)
#define REAL_UPDATE(name, ...) EACH_FLOATS(LOOP, name, __VA_ARGS__)
#include "kernels/training.def"
#undef REAL_UPDATE
#undef UPDATE

#define ENTRY(kind, name)                                                      \
  [TD_TRAINING_##name][TD_ELEMENT_##kind] = name##_##kind,
const td_training_table TRAINING_TABLE = {
#define UPDATE(name, ...) EACH_FLOATS_C(ENTRY, name)
#define REAL_UPDATE(name, ...) EACH_FLOATS(ENTRY, name)
#include "kernels/training.def"
#undef REAL_UPDATE
#undef UPDATE
};
#undef ENTRY
#undef LOOP
