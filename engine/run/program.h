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
#include "engine/run/costs.h"

TD_BEGIN

typedef struct td_program td_program;

/* Retains graph and device. `states` and `costs`: the session's; `costs` NULL:
 * nothing is known of nodes yet. Caller owns the result. */
td_status *td_program_new(td_graph *graph, td_device *device, td_states *states,
                          td_costs *costs, td_program **out) TD_MUST_USE;
/* An error unless steps that have so many feeds, fetches and edges have all that
 * it reaches for. Whoever compiles what came from elsewhere asks this before
 * the first step. */
td_status *td_program_fits(const td_program *p, int n_args, int n_rets,
                           int32_t n_edges) TD_MUST_USE;
/* No step executes it any more. Accepts NULL. */
void td_program_free(td_program *p);
/* Estimated time of one execution in ns, from what earlier ones took; 0: there
 * was none. */
int64_t td_program_cost(const td_program *p);
/* The same of each node by itself. */
void td_program_costs(const td_program *p,
                      void (*each)(void *arg, const td_device *d,
                                   const char *node, int64_t ns),
                      void *arg);
/* What its executions under way wait for: which nodes, for which input. Appends
 * lines. */
void td_program_why(td_program *p, td_str *out);

TD_END
#endif
