/* states.h - what kernels keep from step to step.
 *
 * A state belongs to (session, device, node): a random stream must neither
 * restart with another signature nor end when a program leaves the cache. It
 * has a name that means the same in another process,
 *   net/dropout/uniform (RandomUniform) on CPU:0
 * under which its bytes are saved and found again.
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

/* Appends all states whose rows can save them, and those that were loaded and
 * wait for their kernels. The same states give the same bytes. */
td_status *td_states_save(td_states *s, td_str *out) TD_MUST_USE;
/* Takes over what was saved: states that are there go on from it at once, others
 * when their kernels come. Bytes that are broken change nothing; of states that
 * refuse theirs the first is the error, and they stay as they were. Steps that
 * run meanwhile see either. */
td_status *td_states_load(td_states *s, td_bytes from) TD_MUST_USE;
/* The names of loaded states whose kernels have not come, a line for each. */
void td_states_list_loaded(td_states *s, td_str *out);

TD_END
#endif
