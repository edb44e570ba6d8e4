/* aside.h - a tensor that a stack keeps, on its device or swapped out to the
 * host.
 *
 * A tensor is swapped out when the stack asks for it, the tensor is worth a
 * copy and its device's memory is filling up. It is in both memories until the
 * copy ends, and who takes it back meanwhile gets it as it is. A copy that
 * fails leaves it where it was: nothing is lost, and nothing gained.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_ASIDE_H
#define TD_ASIDE_H

#include "engine/device/kernel.h"

TD_BEGIN

typedef struct td_aside {
  td_tensor here;         /* a share of it, unless `out` */
  struct td_leaving *out; /* a tensor that leaves, or has left; owned */
  size_t counted;         /* bytes of device->stacked that are this one's */
} td_aside;

/* Is `t`, in the memory of `d`, to be swapped out now? */
bool td_aside_due(td_device *d, const td_tensor *t);
/* Keeps a share of `t`, to be swapped out by td_aside_leave if `swap`. `may`: it
 * could have been, else it counts in d->stacked. */
td_status *td_aside_put(td_device *d, const td_tensor *t, bool swap, bool may,
                        td_aside *out) TD_MUST_USE;
/* A share of its `out`, which others may take back and drop meanwhile. */
struct td_leaving *td_aside_share(const td_aside *a);
/* Takes the share of what was put aside with `swap`, which is output 0 of `c`,
 * and begins to copy it. Calls td_kernel_done(c, NULL) once: at once, or, where
 * the device is nearly full, when the copy is over, so that what runs ahead
 * finds memory. */
void td_aside_leave(struct td_leaving *leaving, td_kernel_ctx *c);
/* Do both look into the same buffer? */
bool td_aside_same(const td_aside *a, const td_tensor *t);
/* Takes ownership of what `a` holds. Output 0 of `c` is what was put aside;
 * calls td_kernel_done(c, status) once, when it is in the device's memory. */
void td_aside_take(td_device *d, td_aside *a, td_kernel_ctx *c);
void td_aside_drop(td_device *d, td_aside *a);

TD_END
#endif
