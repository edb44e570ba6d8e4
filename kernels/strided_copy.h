/* strided_copy.h - copies elements from one strided place to another: what
 * Transpose, Slice, ConcatV2, Split, Pad, Tile, ReverseV2 and BroadcastTo come
 * down to.
 *
 * A copy is a nest of loops, outermost first. Each has a count and two strides,
 * in elements: how far one round is from the next in the source and in the
 * result. The transpose of a dense 2 x 3 matrix, element from[i * 3 + k] to
 * to[k * 2 + i], is
 *
 *   td_strided_copy m;
 *   td_strided_copy_init(&m);
 *   td_strided_copy_loop(&m, 2, 3, 1);
 *   td_strided_copy_loop(&m, 3, 1, 2);
 *
 * A stride of 0 in the source repeats, one below 0 goes backwards. No two
 * rounds may write the same element.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_STRIDED_COPY_H
#define TD_STRIDED_COPY_H

#include "engine/device/kernel.h"

TD_BEGIN

enum { TD_STRIDED_COPY_LOOPS = 2 * TD_MAX_RANK };

typedef struct td_strided_copy {
  int loops;
  int64_t count[TD_STRIDED_COPY_LOOPS];
  int64_t from[TD_STRIDED_COPY_LOOPS]; /* strides in the source */
  int64_t to[TD_STRIDED_COPY_LOOPS];   /* and in the result */
} td_strided_copy;

/* No loops: one element. */
static inline void td_strided_copy_init(td_strided_copy *m) {
  m->loops = 0;
}
/* One more loop inside those there are. */
void td_strided_copy_loop(td_strided_copy *m, int64_t count, int64_t from,
                          int64_t to);

/* Copies in the memory of the kernel's device, which may do it by code of its
 * own (td_device.copy_strided). Elements have `size` bytes: a power of two up to
 * 16. */
td_status *td_strided_copy_do(const td_kernel_ctx *c, const td_strided_copy *m,
                              size_t size, const void *from,
                              void *to) TD_MUST_USE;
/* The same of one element again and again, which is in the host's memory: the
 * strides of the source do not count. */
td_status *td_strided_copy_spread(const td_kernel_ctx *c,
                                  const td_strided_copy *m, size_t size,
                                  const void *value, void *to) TD_MUST_USE;

/* Copies on the threads of the kernel, in memory of the host. */
void td_strided_copy_run(const td_kernel_ctx *c, const td_strided_copy *m,
                         size_t size, const void *from, void *to);

/* n times the element at `from`, on this thread. */
void td_strided_copy_fill(const void *from, size_t size, void *to, int64_t n);

/* A whole kernel: output `out`, of `shape`, is all of what `m` copies from
 * input `in`, beginning at its element `first`. */
td_status *td_strided_copy_kernel(td_kernel_ctx *c, int in, int out,
                                  const td_shape *shape,
                                  const td_strided_copy *m,
                                  int64_t first) TD_MUST_USE;

TD_END
#endif
