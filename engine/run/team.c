/* team.c - queued jobs, workers called from the pool, a caller that joins.
 *
 * One small lock guards the queue and the number of threads at work; it is
 * taken when work changes hands, never per node. A thread leaves only under the
 * lock, and with jobs left it calls another or submits itself again: a queued
 * job always has a thread at work, or a pool task on its way, that will see it.
 * A worker that comes when as many as may are at work goes away: those see it.
 *
 * The queue is a ring that grows, so that jobs cost no memory once it is as
 * long as it gets.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/team.h"

#include <pthread.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/cpu.h"
#include "engine/base/mem.h"

enum {
  MOST = 64,
  ROOM = 16,            /* jobs, at first */
  SLICE = 1000000,      /* ns of a turn while others wait */
  LOOK_FIRST = 1000000, /* ns: when a waiting thread looks, and how seldom */
  LOOK_LAST = 20000000, /*     it looks at last */
  SHORT = 1000000,      /* ns of a node that it runs at once */
};

typedef struct worker {
  td_task task; /* first: the pool hands it back */
  td_team *team;
  bool busy; /* lock: team->lock. Submitted or working */
} worker;

struct td_team {
  int32_t refs; /* atomic: the owner's and one of each busy worker */
  int size;
  pthread_mutex_t lock;
  td_team_job *queue;          /* lock: lock. A ring of `room` jobs */
  uint32_t first, count, room; /* lock: lock. room is a power of two */
  td_team_duty *duties;        /* lock: lock */
  int inside;                  /* lock: lock. Threads at work */
  int called;                  /* lock: lock. Workers on their way */
  worker worker[MOST];
};

static _Thread_local td_turn turn;

/* Teams that this thread has work for, and has called nobody of: each with a
 * share. */
enum { GATHERED = 8 };
static _Thread_local struct {
  bool on;
  int inside; /* it works on some team */
  int n;
  td_team *team[GATHERED];
} gathered;

td_turn *td_team_turn(void) {
  return &turn;
}

bool td_turn_over(td_turn *own) {
  if (own->shares && !td_pool_wanted()) return false;
  int64_t now = td_clock_now();
  if (own->until == 0) own->until = now + SLICE;
  if (now >= own->until) own->over = true;
  return own->over;
}

static void worker_run(td_task *task);

td_status *td_team_new(int size, td_team **out) {
  td_team *t = td_calloc(1, sizeof *t);
  if (!t) return td_oom();
  t->refs = 1;
  t->size = size < 1 ? 1 : size > MOST ? MOST : size;
  t->room = ROOM;
  t->queue = td_malloc(ROOM * sizeof *t->queue);
  if (!t->queue) {
    td_free(t);
    return td_oom();
  }
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
  td_free(t->queue);
  td_free(t);
}

bool td_team_idle(const td_team *t) {
  return __atomic_load_n(&t->refs, __ATOMIC_ACQUIRE) == 1;
}

int td_team_size(const td_team *t) {
  return t->size;
}

/* ---- the queue, under the lock ---- */

static td_team_job *at(td_team *t, uint32_t i) {
  return &t->queue[(t->first + i) & (t->room - 1)];
}

static bool make_room(td_team *t) {
  if (TD_LIKELY(t->count < t->room)) return true;
  td_team_job *more = td_malloc(2 * (size_t)t->room * sizeof *more);
  if (!more) return false;
  for (uint32_t i = 0; i < t->count; i++) more[i] = *at(t, i);
  td_free(t->queue);
  t->queue = more;
  t->first = 0;
  t->room *= 2;
  return true;
}

static bool push_last(td_team *t, td_team_job job) {
  if (!make_room(t)) return false;
  *at(t, t->count++) = job;
  return true;
}

static bool push_first(td_team *t, td_team_job job) {
  if (!make_room(t)) return false;
  t->first--;
  t->count++;
  *at(t, 0) = job;
  return true;
}

static bool has_jobs(const td_team *t) {
  return t->count > 0 || t->duties;
}

static void do_duty(void *owner, void *what) {
  td_team_duty *duty = owner;
  (void)what;
  duty->work(duty);
}

/* False when there is none. */
static bool take_job(td_team *t, td_team_job *job) {
  td_team_duty *duty = t->duties;
  if (TD_UNLIKELY(duty)) {
    t->duties = duty->next;
    *job = (td_team_job){do_duty, duty, NULL};
    return true;
  }
  if (t->count == 0) return false;
  *job = *at(t, 0);
  t->first++;
  t->count--;
  return true;
}

/* A worker that is free, as one on its way; NULL when the team is full. */
static worker *call_worker(td_team *t) {
  if (t->called + t->inside >= t->size) return NULL;
  for (int i = 0; i < t->size; i++)
    if (!t->worker[i].busy) {
      t->worker[i].busy = true;
      t->called++;
      __atomic_fetch_add(&t->refs, 1, __ATOMIC_RELAXED);
      return &t->worker[i];
    }
  return NULL;
}

/* ---- posting ---- */

/* Sees to it by itself, later? */
static bool gather(td_team *t) {
  if (TD_LIKELY(!gathered.on) || gathered.inside > 0) return false;
  for (int i = 0; i < gathered.n; i++)
    if (gathered.team[i] == t) return true;
  if (gathered.n == GATHERED) return false;
  __atomic_fetch_add(&t->refs, 1, __ATOMIC_RELAXED);
  gathered.team[gathered.n++] = t;
  return true;
}

bool td_team_post(td_team *t, td_team_job job) {
  bool later = gather(t);
  pthread_mutex_lock(&t->lock);
  bool ok = push_last(t, job);
  worker *w = ok && !later ? call_worker(t) : NULL;
  pthread_mutex_unlock(&t->lock);
  if (w) td_pool_submit(&w->task);
  return ok;
}

bool td_team_put_last(td_team *t, td_team_job job) {
  pthread_mutex_lock(&t->lock);
  bool ok = push_last(t, job);
  pthread_mutex_unlock(&t->lock);
  return ok;
}

bool td_team_put_first(td_team *t, td_team_job job) {
  pthread_mutex_lock(&t->lock);
  bool ok = push_first(t, job);
  pthread_mutex_unlock(&t->lock);
  return ok;
}

void td_team_post_duty(td_team *t, td_team_duty *duty) {
  pthread_mutex_lock(&t->lock);
  duty->next = t->duties;
  t->duties = duty;
  worker *w = call_worker(t);
  pthread_mutex_unlock(&t->lock);
  if (w) td_pool_submit(&w->task);
}

void td_team_wake(td_team *t) {
  worker *who[MOST];
  int n = 0;
  if (gather(t)) return;
  pthread_mutex_lock(&t->lock);
  int most = t->count < MOST ? (int)t->count : MOST;
  if (t->duties && most == 0) most = 1;
  while (n < most && (who[n] = call_worker(t))) n++;
  pthread_mutex_unlock(&t->lock);
  for (int i = 0; i < n; i++) td_pool_submit(&who[i]->task);
}

/* ---- working ---- */

/* The calling thread takes the turn `own`, and works until it is over or
 * nothing is queued. Lock held, but not while a job runs. The clock is read
 * only when there is more to do. */
static void work_on(td_team *t, td_turn *own) {
  td_team_job job;
  unsigned was = td_cpu_flush_on();
  td_turn outer = turn;
  turn = *own;
  gathered.inside++;
  t->inside++;
  while (!turn.over && take_job(t, &job)) {
    pthread_mutex_unlock(&t->lock);
    job.work(job.owner, job.what);
    pthread_mutex_lock(&t->lock);
    if (!turn.over && has_jobs(t)) (void)td_turn_over(&turn);
  }
  t->inside--;
  gathered.inside--;
  *own = turn;
  turn = outer;
  td_cpu_flush_restore(was);
}

static void worker_run(td_task *task) {
  worker *w = (worker *)task;
  td_team *t = w->team;
  td_turn own = {.shares = true, .dearest = TD_TURN_ALL};
  bool again = false;
  pthread_mutex_lock(&t->lock);
  t->called--;
  if (t->inside < t->size) {
    work_on(t, &own);
    again = has_jobs(t); /* its turn is over; others' first */
  }
  w->busy = again;
  t->called += again;
  pthread_mutex_unlock(&t->lock);
  if (again)
    td_pool_submit(&w->task);
  else
    td_team_release(t);
}

/* The calling thread works for a turn if fewer than `most` do. */
static bool join(td_team *t, int most, td_turn *own) {
  pthread_mutex_lock(&t->lock);
  bool joins = t->inside < most && has_jobs(t);
  if (joins) work_on(t, own);
  bool left = has_jobs(t);
  pthread_mutex_unlock(&t->lock);
  if (left) td_team_wake(t);
  return joins;
}

void td_team_work(td_team *t, int64_t until) {
  td_turn own = {.until = until, .dearest = TD_TURN_ALL};
  if (!gather(t)) (void)join(t, t->size, &own);
}

/* ---- gathering ---- */

bool td_team_gather(void) {
  if (gathered.on || gathered.inside > 0) return false;
  gathered.on = true;
  return true;
}

bool td_team_has_gathered(void) {
  return gathered.n > 0;
}

void td_team_gathered(int64_t budget) {
  gathered.on = false;
  for (; gathered.n > 0; gathered.n--) {
    td_team *t = gathered.team[gathered.n - 1];
    td_turn own = {.until = td_clock_now() + budget,
                   .dearest = (int32_t)budget};
    if (budget == 0 || !join(t, t->size, &own)) td_team_wake(t);
    td_team_release(t);
  }
}

/* ---- watching ---- */

static bool left_alone(td_team *t) {
  pthread_mutex_lock(&t->lock);
  bool alone = t->inside == 0 && has_jobs(t);
  pthread_mutex_unlock(&t->lock);
  return alone;
}

static int64_t pause_longer(td_watch *w) {
  w->pause = w->pause ? w->pause * 2 : LOOK_FIRST;
  if (w->pause > LOOK_LAST) w->pause = LOOK_LAST;
  return w->pause;
}

int64_t td_team_watch(td_team *t, td_watch *w, bool stopped) {
  td_turn own = {.dearest = TD_TURN_ALL};
  if (stopped) {
    (void)join(t, t->size, &own);
    return pause_longer(w);
  }
  if (w->pause == 0 || !left_alone(t)) {
    w->alone = 0;
    return pause_longer(w);
  }
  int64_t now = td_clock_now();
  if (w->alone == 0) w->alone = now;
  int64_t waited = now - w->alone;
  own.until = now + SLICE;
  if (waited < TD_TURN_ALL)
    own.dearest = waited > SHORT ? (int32_t)waited : SHORT;
  if (!join(t, 1, &own) || own.left) return pause_longer(w);
  w->pause = LOOK_FIRST;
  return 0;
}
