/* buffer.h - counted memory that tensors look into.
 *
 * A buffer comes from an allocator (device/alloc), or is foreign memory with a
 * release callback (mmap, message frames, a caller's array). `stamp` changes
 * with every in-place write, so that packed weights know they are stale.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_BUFFER_H
#define TD_BUFFER_H

#include "engine/tensor/allocator.h"

TD_BEGIN

typedef struct td_buffer {
  int32_t refs;            /* atomic (__atomic builtins) */
  bool readonly;           /* never written in place (constants, feeds) */
  bool inlined;            /* header and contents are one block */
  bool foreign;            /* wrapped: the memory is not the allocator's */
  size_t size;             /* usable bytes */
  void *data;
  td_allocator *allocator; /* space it lives in; never NULL */
  /* Runs once at the end, or NULL: frees foreign memory; in our own, lets go
   * of what the contents point to. */
  void (*release)(void *arg, void *data, size_t size);
  void *arg;
  uint64_t stamp;          /* content stamp; atomic, unique per write */
  uint64_t event;          /* the last work of a device that was to write it, as
                              the device numbers work; 0: nothing to wait for */
} td_buffer;

/* Contents are not cleared. `a` NULL: host. A small one that may be
 * touched is a single block. */
td_status *td_buffer_new(td_allocator *a, size_t size, td_buffer **out)
    TD_MUST_USE;
/* Wraps host memory; `release` (may be NULL) runs once when the last holder lets go. On
 * error the memory stays the caller's. */
td_status *td_buffer_wrap(void *data, size_t size,
                          void (*release)(void *arg, void *data, size_t size),
                          void *arg, td_buffer **out) TD_MUST_USE;

void td_buffer_free(td_buffer *b); /* the last release ends here */

static inline td_buffer *td_buffer_retain(td_buffer *b) {
  if (b) __atomic_fetch_add(&b->refs, 1, __ATOMIC_RELAXED);
  return b;
}
static inline void td_buffer_release(td_buffer *b) {
  if (b && __atomic_fetch_sub(&b->refs, 1, __ATOMIC_ACQ_REL) == 1)
    td_buffer_free(b);
}
/* Held by the caller alone and writable. */
static inline bool td_buffer_sole(const td_buffer *b) {
  return b && !b->readonly && __atomic_load_n(&b->refs, __ATOMIC_ACQUIRE) == 1;
}
/* Notes an in-place write. */
void td_buffer_touch(td_buffer *b);

TD_END
#endif
