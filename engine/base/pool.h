/* pool.h - the one thread pool of the process.
 *
 * Threads = min(affinity, cgroup quota), counting the caller of a step, so a
 * pool of two cores has two worker threads of which a session uses at most
 * its `threads`. Workers spin at most 100 us, and only after recent hand-offs,
 * then sleep: an idle prompt uses no CPU. The pool starts at first use and
 * survives fork by staying unused in the child. Tasks are run in the order in
 * which they came.
 *
 * Determinism: td_parallel_for cuts [0, n) into pieces of `grain` (the last
 * shorter); pieces never depend on the number of threads. Whoever waits for a
 * loop runs pieces of that loop only, never other work. A helper's pieces run
 * with the caller's flush-to-zero mode.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_POOL_H
#define TD_POOL_H

#include "engine/base/base.h"

TD_BEGIN

/* A unit of work, embedded in its owner. `run` may free the owner. */
typedef struct td_task {
  void (*run)(struct td_task *task);
  struct td_task *next; /* the pool's */
} td_task;

/* How many threads this process may keep busy, >= 1: td_cpu_count(). */
int td_pool_size(void);

/* Queues `task`; runs it on a worker. Never fails, never runs it here: when
 * no worker thread could ever be started the task runs on the caller. */
void td_pool_submit(td_task *task);

/* Does anything wait for a worker: a task, a call of td_pool_each? A task that
 * takes long submits itself again then, and returns: workers are shared in
 * turn. One relaxed load. */
bool td_pool_wanted(void);

/* Calls fn(arg, begin, end) for every piece, on at most `threads` threads, the
 * caller among them; returns when all are done. Pieces already begun finish;
 * once *stop (may be NULL) is non-zero no further piece starts. */
void td_parallel_for(int threads, int64_t n, int64_t grain,
                     void (*fn)(void *arg, int64_t begin, int64_t end),
                     void *arg, const int *stop);

/* True on a thread of the pool. */
bool td_pool_inside(void);

/* Runs fn(arg) once on every pool thread (warm-up of libraries). Waits. Not to
 * be called from fn. */
void td_pool_each(void (*fn)(void *arg), void *arg);

/* Counters since start, for tests and `doctor`: tasks handed over, times a
 * sleeping worker was woken. */
typedef struct td_pool_stats {
  int64_t tasks, wakeups;
} td_pool_stats;
td_pool_stats td_pool_read_stats(void);

TD_END
#endif
