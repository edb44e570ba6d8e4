/* segments_impl.h - what the owner of a segment and its readers agree on.
 *
 * A place names its segment as "tide-INCARNATION-NUMBER@PID/FD": the name the
 * memfd was made with, and where the owner has it. The head, at offset 0, is
 * written by the owner only.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SEGMENTS_IMPL_H
#define TD_SEGMENTS_IMPL_H

#include "engine/base/base.h"

typedef struct td_segment_head {
  uint32_t gone; /* atomic: the owner has let go of it and names it no more */
} td_segment_head;

/* The parts of such a name. */
typedef struct td_segment_name {
  uint64_t incarnation, number;
  int pid, fd;
} td_segment_name;

/* A sealable descriptor; -1 and errno when there is none to have. */
int td_segments_memfd(const char *name);

#endif
