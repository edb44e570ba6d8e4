/* program.h - one part of a plan, compiled to flat arrays.
 *
 * A plan has one part, a graph, for each device; a program is such a part made
 * ready for the executor. Compiling sees the part's graph and its device,
 * nothing else. A program does not change while it is used: any number of
 * steps execute it at once.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROGRAM_H
#define TD_PROGRAM_H

#include "engine/device/kernel.h"

TD_BEGIN

typedef struct td_program td_program;

/* Retains graph and device. `states`: the session's. Caller owns the result. */
td_status *td_program_new(td_graph *graph, td_device *device, td_states *states,
                          td_program **out) TD_MUST_USE;
/* No step executes it any more. Accepts NULL. */
void td_program_free(td_program *p);
/* Estimated time of one execution in ns, from what earlier ones took; 0: there
 * was none. */
int64_t td_program_cost(const td_program *p);
/* What its executions under way wait for: which nodes, for which input. Appends
 * lines. */
void td_program_why(td_program *p, td_str *out);

TD_END
#endif
