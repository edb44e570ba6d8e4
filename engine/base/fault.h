/* fault.h - a counted door that a test can shut.
 *
 * Allocation, file I/O and their like pass through a td_fault: it counts the
 * calls and, when armed, refuses the n-th. While nothing is armed a call costs
 * one relaxed load and one add to a counter that few threads share. The struct
 * is plain (C++ and nvcc read it) and touched by __atomic builtins only.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FAULT_H
#define TD_FAULT_H

#include "engine/base/base.h"

TD_BEGIN

enum { TD_FAULT_SHARDS = 16 }; /* power of two */

/* Each shard fills a cache line, so that counting threads do not collide. */
typedef struct td_fault_shard {
  int64_t calls; /* atomic */
  char pad[56];
} td_fault_shard;

typedef struct td_fault {
  int32_t mode;      /* atomic: 0 open, 1 refuse once, 2 refuse for ever */
  int64_t countdown; /* atomic: calls until the first refusal */
  td_fault_shard shards[TD_FAULT_SHARDS];
} td_fault;

/* Counts one call; false when it must fail. A zeroed td_fault is open. */
bool td_fault_try(td_fault *f) TD_MUST_USE;
/* Makes the n-th call from now (1 is the next) fail, once or from then on; 0
 * opens the door. */
void td_fault_arm(td_fault *f, int64_t nth, bool for_ever);
/* Calls so far, refused ones among them. */
int64_t td_fault_calls(const td_fault *f);

TD_END
#endif
