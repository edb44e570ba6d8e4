/* numerics.h - finds the node that the first NaN or infinity comes from.
 *
 * A step may ask for it (td_step_options.check_numerics). The outputs of each
 * node are then checked before any other node gets them. In log(x - 1) with
 * x = 0 it is Log that fails, and the message shows that its input was -1; the
 * nodes behind it, which would pass the NaN on, never run.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_NUMERICS_H
#define TD_NUMERICS_H

#include "engine/device/device.h"

TD_BEGIN

typedef struct td_numerics {
  const td_tensor *in, *out; /* invalid ones are passed over */
  int n_in, n_out;
  int64_t iteration; /* of the loop, -1 outside */
} td_numerics;

/* Of tensors that may be touched. INVALID_ARGUMENT when an output holds a NaN or infinity: how many, and what
 * is known of the inputs. The caller adds op, node and line. */
td_status *td_numerics_check(const td_numerics *c) TD_MUST_USE;
/* Is something among the outputs that must be fetched to be looked at? */
bool td_numerics_is_away(const td_numerics *c);
/* The same for tensors in the memory of `d`, which brings them to the host:
 * over(arg, status) is called once, perhaps at once, perhaps on a thread of `d`;
 * the tensors stay alive until then. */
void td_numerics_check_away(const td_numerics *c, td_device *d,
                            void (*over)(void *arg, td_status *s), void *arg);

TD_END
#endif
