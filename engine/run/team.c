/* team.c - queued jobs, workers called from the pool, a caller that joins.
 *
 * One small lock guards the queue and the number of threads at work; it is
 * taken when work changes hands, never per node. A thread leaves only under the
 * lock and only when nothing is queued, so a queued job always has a thread at
 * work, or a pool task on its way, that will see it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/team.h"

#include <pthread.h>

#include "engine/base/clock.h"
#include "engine/base/cpu.h"
#include "engine/base/mem.h"

enum { MOST = 64 };

typedef struct worker {
  td_task task; /* first: the pool hands it back */
  td_team *team;
  bool busy; /* lock: team->lock. Submitted or working */
} worker;

struct td_team {
  int32_t refs; /* atomic: the owner's and one of each busy worker */
  int size;
  pthread_mutex_t lock;
  td_team_job *first, *last; /* lock: lock */
  int working;               /* lock: lock. Threads at work or on their way */
  worker worker[MOST];
};

/* When the thread must hand over. */
static _Thread_local int64_t work_until = INT64_MAX;

int64_t td_team_until(void) {
  return work_until;
}

static void worker_run(td_task *task);

td_status *td_team_new(int size, td_team **out) {
  td_team *t = td_calloc(1, sizeof *t);
  if (!t) return td_oom();
  t->refs = 1;
  t->size = size < 1 ? 1 : size > MOST ? MOST : size;
  pthread_mutex_init(&t->lock, NULL);
  for (int i = 0; i < t->size; i++) {
    t->worker[i].task.run = worker_run;
    t->worker[i].team = t;
  }
  *out = t;
  return NULL;
}

void td_team_release(td_team *t) {
  if (!t || __atomic_fetch_sub(&t->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
  pthread_mutex_destroy(&t->lock);
  td_free(t);
}

void td_team_reset(td_team *t) {
  t->first = t->last = NULL;
}

bool td_team_idle(const td_team *t) {
  return __atomic_load_n(&t->refs, __ATOMIC_ACQUIRE) == 1;
}

int td_team_size(const td_team *t) {
  return t->size;
}

/* A worker that is free, counted as working; NULL when the team is full. Lock
 * held. */
static worker *take_worker(td_team *t) {
  if (t->working >= t->size) return NULL;
  for (int i = 0; i < t->size; i++)
    if (!t->worker[i].busy) {
      t->worker[i].busy = true;
      t->working++;
      __atomic_fetch_add(&t->refs, 1, __ATOMIC_RELAXED);
      return &t->worker[i];
    }
  return NULL;
}

void td_team_post(td_team *t, td_team_job *job, bool wake) {
  worker *w = NULL;
  job->next = NULL;
  pthread_mutex_lock(&t->lock);
  if (t->last)
    t->last->next = job;
  else
    t->first = job;
  t->last = job;
  if (wake) w = take_worker(t);
  pthread_mutex_unlock(&t->lock);
  if (w) td_pool_submit(&w->task);
}

void td_team_wake(td_team *t) {
  worker *who[MOST + 1];
  int n = 0;
  pthread_mutex_lock(&t->lock);
  for (td_team_job *job = t->first; job; job = job->next)
    if (!(who[n] = take_worker(t)))
      break;
    else
      n++;
  pthread_mutex_unlock(&t->lock);
  for (int i = 0; i < n; i++) td_pool_submit(&who[i]->task);
}

/* The next queued job; NULL when there is none, and the thread has left. Lock
 * held. */
static td_team_job *take_job(td_team *t, bool stay) {
  td_team_job *job = stay ? t->first : NULL;
  if (job) {
    t->first = job->next;
    if (!t->first) t->last = NULL;
  } else {
    t->working--;
  }
  return job;
}

static void worker_run(td_task *task) {
  worker *w = (worker *)task;
  td_team *t = w->team;
  unsigned was = td_cpu_flush_on();
  int64_t outer = work_until;
  work_until = INT64_MAX;
  for (;;) {
    pthread_mutex_lock(&t->lock);
    td_team_job *job = take_job(t, true);
    if (!job) w->busy = false;
    pthread_mutex_unlock(&t->lock);
    if (!job) break;
    job->work(job);
  }
  work_until = outer;
  td_cpu_flush_restore(was);
  td_team_release(t);
}

static td_team_job *callers_job(td_team *t, bool stay) {
  pthread_mutex_lock(&t->lock);
  td_team_job *job = take_job(t, stay);
  pthread_mutex_unlock(&t->lock);
  return job;
}

void td_team_work(td_team *t, int64_t until) {
  pthread_mutex_lock(&t->lock);
  bool joins = t->working < t->size;
  if (joins) t->working++;
  pthread_mutex_unlock(&t->lock);
  if (!joins) return;
  unsigned was = td_cpu_flush_on();
  int64_t outer = work_until;
  work_until = until;
  bool stay = true;
  td_team_job *job;
  while ((job = callers_job(t, stay))) {
    job->work(job);
    stay = td_clock_now() < until;
  }
  work_until = outer;
  td_cpu_flush_restore(was);
  td_team_wake(t);
}
