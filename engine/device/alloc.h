/* alloc.h - the caching allocator behind a device's tensors.
 *
 * Freed memory is kept and handed out again, so that after warm-up a repeated
 * step makes no system call. Blocks of up to 32 KiB come from lists of the
 * calling thread, without a lock; larger ones from lists under the allocator's
 * lock. A block may be freed on any thread. All memory is host memory, aligned
 * to 64 bytes.
 *
 * Sizes are counted as handed out, rounded up by at most a quarter. The limit
 * of its budget bounds what is in use; memory that is only kept, by it or by
 * others of the budget, goes back to the system before anything is refused.
 * Small blocks are counted in batches of 64 KiB a thread: `peak` and the limit
 * are that inexact, no more.
 *
 * It offers all that an allocator may (tensor/allocator.h): a limit set is the
 * budget's; blocks of up to 32 KiB are not named; after a trim, lists of other
 * threads follow when these next run dry.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DEVICE_ALLOC_H
#define TD_DEVICE_ALLOC_H

#include "engine/tensor/buffer.h"

TD_BEGIN

/* What several allocators may have in use together, such as all that stand for
 * the memory of one machine. Shared: counted. */
typedef struct td_alloc_budget td_alloc_budget;

/* `limit` 0: td_alloc_default_limit(). Caller owns the result. */
td_status *td_alloc_budget_new(size_t limit, td_alloc_budget **out) TD_MUST_USE;
td_alloc_budget *td_alloc_budget_retain(td_alloc_budget *b);
void td_alloc_budget_release(td_alloc_budget *b);
/* That of the process, for host memory. Its limit is the default one at the
 * time when the first allocator joins. Never ends. */
td_alloc_budget *td_alloc_budget_process(void);

typedef struct td_alloc_options {
  const char *name; /* of the device, for messages; copied */
  td_alloc_budget *budget; /* retained; NULL: one of its own, of `limit` */
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

/* $TIDE_MEMORY_LIMIT, else 80 % of the machine's memory or of the control
 * group's, whichever is less. */
size_t td_alloc_default_limit(void);

TD_END
#endif
