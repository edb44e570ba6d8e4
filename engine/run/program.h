/* program.h - one part of a plan, compiled to flat arrays.
 *
 * Compiling sees the part's graph and its device, nothing else. A program is
 * immutable; any number of steps run it at once.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROGRAM_H
#define TD_PROGRAM_H

#include "engine/device/kernel.h"
#include "engine/run/team.h"

TD_BEGIN

typedef struct td_program td_program;

/* Retains graph and device. `states`: the session's. Caller owns the result. */
td_status *td_program_new(td_graph *graph, td_device *device, td_states *states,
                          td_program **out) TD_MUST_USE;
td_program *td_program_retain(td_program *p);
void td_program_release(td_program *p);
int32_t td_program_nodes(const td_program *p);
/* Estimated time of one step in ns, from what earlier steps took. */
int64_t td_program_cost(const td_program *p);

/* ---- running one (executor.c, executor_frames.c) ---- */

typedef struct td_run td_run; /* one program in one step */

/* Starts `p` and posts its first nodes to `team`, waking nobody. `step` and
 * what it points to stay valid until `over` has run, once, on any thread, with
 * the first cause of failure (its to own) after every kernel has finished. An
 * error fires step->cancel and aborts step->rendezvous. */
td_status *td_run_start(td_program *p, td_step *step, td_team *team,
                        void (*over)(void *arg, td_status *s),
                        void *arg) TD_MUST_USE;
/* The running ones of a program, for why(): which nodes wait, for which input.
 * Appends lines. */
void td_program_why(td_program *p, td_str *out);

TD_END
#endif
