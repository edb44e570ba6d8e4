/* alloc_text.h - what allocators say of memory: sizes, and who has the most.
 *
 * All that refuse a request tell the same in the same words, so that a report is
 * read in the same way whatever device it is of.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DEVICE_ALLOC_TEXT_H
#define TD_DEVICE_ALLOC_TEXT_H

#include "engine/base/str.h"
#include "engine/tensor/allocator.h"

TD_BEGIN

enum { TD_ALLOC_NAMED = 5 }; /* blocks that a refusal names */

/* The largest of the blocks that were seen, largest first. */
typedef struct td_alloc_ranking {
  td_allocator_block *at; /* room for `cap` */
  const char **of;        /* the device of each, or NULL: nobody asks */
  size_t n, cap;
  const char *now; /* the device being looked at; borrowed */
} td_alloc_ranking;

/* A block is seen; `ranking` is a td_alloc_ranking. */
void td_alloc_rank(void *ranking, size_t size, const char *tag);

/* "9.5 MiB" */
void td_alloc_add_size(td_str *s, size_t bytes);
/* "; the largest: weights 4.0 MiB, x 12 bytes", with the devices where the
 * ranking has them; nothing of none. */
void td_alloc_add_largest(td_str *s, const td_alloc_ranking *r);
/* RESOURCE_EXHAUSTED of that text, which is emptied. */
td_status *td_alloc_refused(td_str *s) TD_MUST_USE;

TD_END
#endif
