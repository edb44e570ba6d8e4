/* wall.h - a pool none of whose threads is to be had.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_RUN_WALL_H
#define TEST_RUN_WALL_H

#include <pthread.h>

#include "engine/base/pool.h"

enum { MOST_THREADS = 16 };

/* Tasks that hold every thread of the pool. */
typedef struct wall {
  td_task task[MOST_THREADS];
  pthread_mutex_t lock;
  pthread_cond_t wake;
  int inside;
  bool open;
} wall;

static wall held = {.lock = PTHREAD_MUTEX_INITIALIZER,
                    .wake = PTHREAD_COND_INITIALIZER};

static inline void hold_thread(td_task *t) {
  (void)t;
  pthread_mutex_lock(&held.lock);
  held.inside++;
  pthread_cond_broadcast(&held.wake);
  while (!held.open) pthread_cond_wait(&held.wake, &held.lock);
  held.inside--;
  pthread_cond_broadcast(&held.wake);
  pthread_mutex_unlock(&held.lock);
}

static inline void wait_inside(int n) {
  while (held.inside != n) pthread_cond_wait(&held.wake, &held.lock);
}

static inline bool wall_up(void) {
  int n = td_pool_size();
  if (n > MOST_THREADS) return false;
  for (int i = 0; i < n; i++) {
    held.task[i].run = hold_thread;
    td_pool_submit(&held.task[i]);
  }
  pthread_mutex_lock(&held.lock);
  wait_inside(n);
  pthread_mutex_unlock(&held.lock);
  return true;
}

static inline void wall_down(void) {
  pthread_mutex_lock(&held.lock);
  held.open = true;
  pthread_cond_broadcast(&held.wake);
  wait_inside(0);
  held.open = false;
  pthread_mutex_unlock(&held.lock);
}

#endif
