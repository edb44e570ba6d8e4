/* execution.h - one execution of a program: what all its threads share.
 *
 * An execution is over when nothing holds it any more. Its holds, counted in
 * `live`, are: each posted chain of ready nodes until a thread has worked
 * through it, each pending kernel until it has called done, and whoever starts
 * or cancels it meanwhile. So nodes need no counter of their own: when the last
 * hold goes, every node that could become ready has run. After a failure
 * nothing new is started, and the holds drain.
 *
 * What it enqueued on a device may still be under way then: it is over when the
 * device says that all of it is complete, so that errors found on the way are
 * its own step's and the program outlives the work.
 *
 * Executions that are over are kept by their program for the next step.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_EXECUTION_H
#define TD_EXECUTION_H

#include "engine/run/executor.h"
#include "engine/run/iteration.h"

struct td_execution {
  td_program *program;
  td_step *step;
  td_team *team;
  void (*over)(void *arg, td_status *s);
  void *arg;
  bool shared;       /* several threads may touch it */
  bool measure;      /* learns what its nodes cost: the first ones, some later */
  bool tells;        /* other programs what it learns, too */
  bool timed;        /* times its nodes: it is measured, or traced */
  int32_t live;      /* atomic: posted chains, threads and pending kernels that
                        hold it */
  int32_t failed;    /* atomic: stop handing out nodes */
  td_status *status; /* lock: status_lock. The first cause */
  int64_t started;   /* 0: the whole is not timed */
  td_iteration *root;
  struct td_spare {
    td_iteration *first;
  } * spare; /* ended iterations, by static frame */
  td_instance *spare_instances;
  td_status *fault; /* lock: frames_lock. A failure found under the lock */
  td_instance *instances;         /* alive, for why() and cleaning up */
  pthread_spinlock_t frames_lock; /* guards every iteration and instance of an
                                     execution that has frames */
  pthread_mutex_t status_lock;
  td_cancel_hook hook;
  td_team_duty cancel_over;  /* see pending_cancel */
  td_settling settling;      /* the device's work that it waits for at its end */
  td_execution *prev, *next; /* program->running or ->idle */
};

/* A kept one or a new one with its root iteration, listed as running; the
 * caller fills step, team, over. NULL: no memory. */
td_execution *td_execution_take(td_program *p);
void td_execution_free(td_execution *e);
/* The last hold is gone: calls over, at once or when the device has settled,
 * and keeps `e` for later. */
void td_execution_over(td_execution *e);

static inline void td_execution_hold(td_execution *e) {
  __atomic_fetch_add(&e->live, 1, __ATOMIC_RELAXED);
}
/* False, and no hold, when the last one is gone. */
static inline bool td_execution_try_hold(td_execution *e) {
  int32_t n = __atomic_load_n(&e->live, __ATOMIC_RELAXED);
  while (n > 0 &&
         !__atomic_compare_exchange_n(&e->live, &n, n + 1, true,
                                      __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
  }
  return n > 0;
}
static inline void td_execution_drop(td_execution *e) {
  if (__atomic_fetch_sub(&e->live, 1, __ATOMIC_ACQ_REL) == 1)
    td_execution_over(e);
}

/* Takes ownership of `s`, the error of node `n` (NULL: of none); fails the
 * step. */
void td_execution_fail(td_execution *e, td_status *s, const td_xnode *n);
/* The step was cancelled, by whomever: stops with its cause, unless a node of
 * `e` failed already. */
void td_execution_stop(td_execution *e);
static inline bool td_execution_stopped(const td_execution *e) {
  return __atomic_load_n(&e->failed, __ATOMIC_RELAXED) ||
         td_cancelled(e->step->stop);
}

/* executor_frames.c: hands the outputs of a node of a program with loops on
 * (out[] is consumed) and pushes what became ready. */
void td_executor_frames_propagate(td_execution *e, td_iteration *it,
                                  int32_t node, td_tensor *out, bool dead,
                                  td_chain *ready);

#endif
