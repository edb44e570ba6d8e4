/* random.h - TensorFlow's random distributions over Philox.
 *
 * Elements come in groups: four, or two of 8 bytes. Group g of a draw depends
 * on the stream and g only, so that any part can be computed on any thread:
 * uniform and normal groups use one block of the stream each, number g; a
 * truncated normal group, which may need any number, has 64 for each of its
 * elements and begins at g * 64 * elements.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_RANDOM_H
#define TD_KERNELS_RANDOM_H

#include "engine/base/cpu.h"
#include "engine/base/philox.h"
#include "engine/device/kernel.h"

TD_BEGIN

typedef enum td_random_kind {
  TD_RANDOM_UNIFORM,   /* [0, 1) */
  TD_RANDOM_NORMAL,    /* mean 0, deviation 1 */
  TD_RANDOM_TRUNCATED, /* the same, drawn again until within (-2, 2) */
  TD_RANDOM_INTEGER,   /* low + a number below range */
  TD_RANDOM_BITS,      /* any integer of 4 or 8 bytes */
} td_random_kind;

typedef struct td_random_draw {
  td_random_kind kind;
  td_dtype dtype;
  td_philox base; /* where the stream stands */
  int64_t count;  /* elements */
  void *to;
  uint64_t low, range; /* of integers */
  td_isa isa;
} td_random_draw;

/* Elements in a group. */
int td_random_group(td_dtype dtype);
/* Fills groups [begin, end) of the draw `arg`; the last may be cut short. */
void td_random_fill(void *arg, int64_t begin, int64_t end);

/* How a device fills all of output 0, which is not empty: all of d but the
 * instruction set is set. */
typedef td_status *(*td_random_how)(td_kernel_ctx *c, td_random_draw *d);
/* On the threads of the kernel. */
td_status *td_random_run(td_kernel_ctx *c, td_random_draw *d) TD_MUST_USE;
/* A whole kernel of a stream that goes on: output 0 is of the shape that input 0
 * says; integers are in the range of inputs 1 and 2. */
td_status *td_random_on(td_kernel_ctx *c, td_random_kind kind,
                        td_random_how how) TD_MUST_USE;
/* Makes output 0, of the shape that input 0 says, for a draw whose kind is set;
 * integers are in the range of inputs `range` and range + 1. */
td_status *td_random_out(td_kernel_ctx *c, int range,
                         td_random_draw *d) TD_MUST_USE;
/* A whole kernel: output 0 is the rows of input 0 in an order that the words of
 * a stream tell. */
td_status *td_random_shuffle(td_kernel_ctx *c, const td_philox *p) TD_MUST_USE;

/* In [0, 1), from two words; two normal ones from four. */
double td_random_double(const uint32_t *words);
void td_random_normals(const uint32_t *words, double *to);

/* ---- streams that go on (random.c) --------------------------------------- */

/* A kernel's state, from its attributes seed and seed2. */
td_status *td_random_make(const td_kernel_info *info, void **state) TD_MUST_USE;
void td_random_drop(void *state);
/* Where the stream stands, as bytes. */
td_status *td_random_save(const void *state, td_str *out) TD_MUST_USE;
td_status *td_random_load(void *state, td_bytes from) TD_MUST_USE;
/* Where this run of the kernel draws; `blocks` are its own. */
td_philox td_random_reserve(td_kernel_ctx *c, uint64_t blocks);
/* The same of a state that is part of the kernel's. */
td_philox td_random_reserve_of(td_kernel_ctx *c, void *state, uint64_t blocks);
#define TD_RANDOM_STREAM                                                       \
  .make = td_random_make, .drop = td_random_drop, .save = td_random_save,      \
  .load = td_random_load

/* Blocks reserved for every element of a result, as in TensorFlow. */
enum { TD_RANDOM_RESERVED = 256 };

/* Output 0 of the shape in input 0: the shape function of most. */
td_status *td_random_infer(td_infer *c) TD_MUST_USE;

/* The loops, by instruction set; same bits from each. */
typedef struct td_random_table {
  /* The four words of blocks 0, stride, 2 stride, ... of a stream. */
  void (*bits)(const td_philox *p, int64_t blocks, uint64_t stride,
               uint32_t *words);
  /* Two words each become two normal floats. */
  void (*normal)(int64_t pairs, const uint32_t *words, float *to);
} td_random_table;

extern const td_random_table td_random_scalar, td_random_avx2, td_random_avx512;

TD_END
#endif
