/* alloc.h - the caching allocator behind a device's tensors.
 *
 * Freed memory is kept and handed out again, so that after warm-up a repeated
 * step makes no system call. Blocks of up to 32 KiB come from lists of the
 * calling thread, without a lock; larger ones from lists under the allocator's
 * lock. A block may be freed on any thread. All memory is host memory, aligned
 * to 64 bytes.
 *
 * Sizes are counted as handed out, rounded up by at most a quarter. `limit`
 * bounds what is in use; memory that is only kept goes back to the system
 * before anything is refused. Small blocks are counted in batches of 64 KiB a
 * thread: `peak` and the limit are that inexact, no more.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DEVICE_ALLOC_H
#define TD_DEVICE_ALLOC_H

#include "engine/tensor/buffer.h"

TD_BEGIN

typedef struct td_alloc_options {
  const char *name; /* of the device, for messages; copied */
  size_t limit;     /* bytes in use at most; 0: td_alloc_default_limit() */
  /* 1: keeps freed memory; -1: each block goes to malloc and back, so that
   * AddressSanitizer sees overruns; 0: 1, but -1 under AddressSanitizer. */
  int caching;
} td_alloc_options;

/* At most 256 exist at a time. Caller owns the result. */
td_status *td_alloc_new(const td_alloc_options *options,
                        td_allocator **out) TD_MUST_USE;
/* Nobody allocates from `a` any more. Blocks in use stay valid and may still be
 * freed; with the last one `a` ends. */
void td_alloc_release(td_allocator *a);

void td_alloc_set_limit(td_allocator *a, size_t limit);
/* $TIDE_MEMORY_LIMIT, else 80 % of the machine's memory or of the control
 * group's, whichever is less. */
size_t td_alloc_default_limit(void);

/* Gives kept memory back to the system until at most `keep` bytes beyond those
 * in use are held. Lists of other threads follow when these next run dry. */
void td_alloc_trim(td_allocator *a, size_t keep);

typedef struct td_alloc_stats {
  size_t in_use; /* bytes in live blocks */
  size_t peak;   /* the most there were */
  size_t held;   /* bytes taken from the system, kept ones included */
  size_t limit;
  int64_t allocs, frees; /* blocks handed out and taken back */
  int64_t system_allocs; /* calls of mmap */
  int64_t system_frees;  /* calls of munmap */
} td_alloc_stats;

td_alloc_stats td_alloc_read_stats(td_allocator *a);
/* Lets `peak` start again from what is in use. */
void td_alloc_reset_peak(td_allocator *a);

/* Names the owner of block `p` of `bytes`, in case memory runs out: a copy of
 * at most 47 bytes is kept. Blocks of up to 32 KiB are not named; `a` may be
 * any allocator. */
void td_alloc_tag(td_allocator *a, void *p, size_t bytes, const char *tag);

typedef struct td_alloc_block {
  size_t size;
  char tag[48]; /* "" when nobody named it */
} td_alloc_block;

/* The largest live blocks over 32 KiB of an allocator of td_alloc_new, largest
 * first; returns how many. */
size_t td_alloc_largest(td_allocator *a, td_alloc_block *out, size_t n);

TD_END
#endif
