/* states.h - what kernels keep from step to step.
 *
 * A state belongs to (session, device, node): a random stream must neither
 * restart with another signature nor end when a program leaves the cache.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_STATES_H
#define TD_STATES_H

#include "engine/device/kernel.h"

TD_BEGIN

/* Shared by a session and its programs. Caller owns the result. */
td_status *td_states_new(td_states **out) TD_MUST_USE;
td_states *td_states_retain(td_states *s);
void td_states_release(td_states *s);
/* Finds or makes the state of a node's kernel. Borrowed; valid while `s` lives,
 * or until it is put back and a new node has taken the place of this one. `make`
 * must not be NULL. */
td_status *td_states_get(td_states *s, const td_kernel_info *info,
                         const td_kernel_def *def, void **out) TD_MUST_USE;
/* A kernel that has its state from `s` needs it no more. */
void td_states_put(td_states *s, const td_kernel *k);

TD_END
#endif
