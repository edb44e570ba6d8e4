/* events.h - what waits to be run in one node: tasks, and timers by their time.
 *
 * Timers are a heap until they are due, and in no order then, as tasks are:
 * which of them runs is drawn. All of it is O(log n), but for taking a timer
 * back, and for the order of a world that runs in order.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SIM_EVENTS_H
#define TEST_SIM_EVENTS_H

#include "engine/base/pool.h"

typedef struct sim_event {
  td_task *task; /* NULL: a timer */
  uint64_t number;
  int64_t at_ns; /* a timer's, by the clock of its node */
  void (*fire)(void *arg);
  void *arg;
} sim_event;

typedef struct sim_list {
  sim_event *at;
  size_t len, room;
} sim_list;

/* Zeroed: empty. */
typedef struct sim_queue {
  sim_list tasks, due, timers; /* timers: the heap */
} sim_queue;

void sim_queue_add(sim_queue *q, sim_event e);
/* Timers whose time has come become due. */
void sim_queue_promote(sim_queue *q, int64_t now);
/* When the next timer is due; INT64_MAX: there is none. */
int64_t sim_queue_next(const sim_queue *q);
/* Takes one out that can run: tasks are counted first, then what is due. */
sim_event sim_queue_take(sim_queue *q, size_t i);
/* Which of those came first; SIZE_MAX: none can run. */
size_t sim_queue_first(const sim_queue *q, uint64_t *number);
/* Takes a timer back. False: it is not there. */
bool sim_queue_cancel(sim_queue *q, uint64_t number);

static inline size_t sim_queue_ready(const sim_queue *q) {
  return q->tasks.len + q->due.len;
}
static inline size_t sim_queue_len(const sim_queue *q) {
  return sim_queue_ready(q) + q->timers.len;
}

#endif
