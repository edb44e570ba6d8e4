/* trace_impl.h - what the files of traces share.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TRACE_IMPL_H
#define TD_TRACE_IMPL_H

#include "engine/run/trace.h"

/* ---- trace_clocks.c ---- */

/* Events of one value, sent and received. */
typedef struct td_trace_pair {
  int64_t from, to;
} td_trace_pair;

/* All of them, by receiver. Caller owns *pairs (td_free); NULL and 0 without
 * memory. */
void td_trace_match(const td_trace_event *e, int64_t n, td_trace_pair **pairs,
                    size_t *count);
/* Whose it is; `n`: this process's. */
size_t td_trace_task_of(const td_trace_task *tasks, size_t n,
                        const td_trace_event *e);
/* Moves events of other tasks, within what is known of their clocks, so that no
 * value arrives before it was sent, and tells what is known of them then:
 * `between` [n_tasks + 1][n_tasks + 1] is how far times of one may be wrong
 * against those of another, the last of which is this process. */
void td_trace_settle(td_trace_event *e, int64_t n, td_trace_task *tasks,
                     size_t n_tasks, int64_t *between);

/* ---- trace.c ---- */

/* The same, as of td_trace_events. */
int64_t td_trace_error(const td_trace *t, size_t a, size_t b);

#endif
