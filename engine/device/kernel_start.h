/* kernel_start.h - what runs kernels: a node bound to its kernel, and the
 * way through locks and device to `done`.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNEL_START_H
#define TD_KERNEL_START_H

#include "engine/device/states.h"

TD_BEGIN

/* ---- a node bound to its kernel (kernel.c) ---- */

/* Does operand (result) i live in host memory on `d`? True on host devices,
 * for strings, resources, variants, and what the op's row lists. */
bool td_kernel_in_host(const td_node *n, const td_device *d, int i);
bool td_kernel_out_host(const td_node *n, const td_device *d, int i);

/* Fills *k for a node. `states` NULL: its state ends with it. */
td_status *td_kernel_init(td_kernel *k, const td_node *n, td_device *d,
                          td_states *states) TD_MUST_USE;
void td_kernel_deinit(td_kernel *k);

/* ---- running it (kernel_start.c) ---- */

/* Runs any kernel: takes its locks, goes to the device, calls c->done. */
void td_kernel_start(td_kernel_ctx *c);
/* The same for one whose `start` is entered at once, without locks. Where a
 * cancel may come, it is marked before others know `c`: as far as a cancel can
 * tell it has started from then on. */
enum { TD_KERNEL_STARTED = 4 };
static inline bool td_kernel_at_once(const td_kernel *k) {
  return k->starts && k->n_locks == 0;
}
static inline void td_kernel_mark(td_kernel_ctx *c) {
  c->wait = (struct td_kernel_wait *)(uintptr_t)TD_KERNEL_STARTED;
}
/* Runs a `plain` kernel here and now and returns its status; no c->done. Also
 * what `launch` does on the device. Flush-to-zero is set meanwhile. */
td_status *td_kernel_run(td_kernel_ctx *c) TD_MUST_USE;
/* Asks a started, unfinished kernel to finish (lock waits included). `c` must
 * stay valid meanwhile; its `done` may be called inside. */
void td_kernel_cancel(td_kernel_ctx *c);
/* Appends what a kernel that was started and is not done waits for: a lock, its
 * device, or what its row's `why` says; nothing when it cannot be told. On any
 * thread; `c` must stay valid meanwhile. */
void td_kernel_why(td_kernel_ctx *c, td_str *out);

TD_END
#endif
