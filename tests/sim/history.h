/* history.h - was every step applied as often as was promised?
 *
 * A run of a cluster tells what happens as it happens: steps, each of which
 * consists of updates (*ops*) on tasks, when an op of a process began and was
 * over, how the step ended, which processes died. At the end `history_check`
 * says whether that keeps the promises of engine/remote:
 *
 *  P1 each step ended, once, and by its time
 *  P2 of a step that succeeded each op was applied exactly once, before it was
 *     acknowledged, and is still there unless its process died
 *  P3 of one that failed each op was applied once or not at all, and is whole
 *  P4 nothing of a step begins in a process that heard that it is over
 *  P7 nothing is applied by a process that took the place of another after the
 *     step began, nor elsewhere than on the op's task
 *
 * What a process does once it is dead is not looked at: nobody sees it. Ids of
 * steps, ops and processes are the caller's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SIM_HISTORY_H
#define TEST_SIM_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct history history;

/* Caller owns the result. */
history *history_new(void);
void history_free(history *h);

/* A process begins to be a task; it dies. */
void history_process(history *h, int process, int task);
void history_died(history *h, int process);

/* A step begins, now, and is to end by a moment; then each op of it. */
void history_begin(history *h, int64_t step, int64_t now, int64_t by);
void history_op(history *h, int64_t step, int op, int task);
void history_acknowledged(history *h, int64_t step, int64_t now);
void history_failed(history *h, int64_t step, int64_t now);

/* What an op of a process does. */
void history_applying(history *h, int process, int64_t step, int op);
void history_applied(history *h, int process, int64_t step, int op);
/* A process hears that a step is over: no op of it may begin there. */
void history_cancelled(history *h, int process, int64_t step);

/* At the end: a process's state has the op that many times; for each living
 * process, for each op that it applied, or none of them. */
void history_found(history *h, int process, int64_t step, int op, int times);

/* False: a promise was broken; `why`, of `room` bytes, says which. */
bool history_check(const history *h, char *why, size_t room);
typedef struct history_sums {
  int64_t acknowledged, failed;                /* steps */
  int64_t applied;                             /* ops */
  int64_t applied_of_failed, missed_of_failed; /* ops of steps that failed */
} history_sums;
history_sums history_count(const history *h);

#endif
