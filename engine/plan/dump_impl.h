/* dump_impl.h - the graph after each pass, as files. Inside engine/plan only.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DUMP_IMPL_H
#define TD_DUMP_IMPL_H

#include "engine/plan/pass_impl.h"

/* Finds a free number and begins the log; nothing without request->dump. */
td_status *td_dump_begin(td_pass *p) TD_MUST_USE;
/* Writes graph and log, and empties the log. `pass` and `what` as in pass.def.
 */
td_status *td_dump_graph(td_pass *p, const char *pass, const char *what,
                         const td_graph *g) TD_MUST_USE;
void td_dump_end(td_pass *p);

#endif
