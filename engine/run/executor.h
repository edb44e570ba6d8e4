/* executor.h - executes a program in a step.
 *
 * A *step* is one run of a session: feeds in, fetches out. In a step each
 * program is executed once; that is an *execution*. The executions of a step
 * share its team of threads, its rendezvous and its cancel.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_EXECUTOR_H
#define TD_EXECUTOR_H

#include "engine/run/program.h"
#include "engine/run/team.h"

TD_BEGIN

/* Starts an execution of `p`: posts the nodes without inputs to `team`, waking
 * nobody. `p`, `step` and what it points to stay valid until `over` has run,
 * once, on any thread, after every kernel has finished. `s` is the first cause
 * of failure, over's to own. An error in any node fails the whole step
 * (td_step_fail). */
td_status *td_executor_start(td_program *p, td_step *step, td_team *team,
                             void (*over)(void *arg, td_status *s),
                             void *arg) TD_MUST_USE;

TD_END
#endif
