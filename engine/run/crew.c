/* crew.c - seats, posted shifts, hiring from the pool.
 *
 * One small lock guards the queue and the seats; it is taken when work changes
 * hands, never per node. A seat is given up only under the lock and only when
 * nothing is posted, so posted work always has a member, or a pool task on its
 * way, that will see it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/crew.h"

#include <pthread.h>

#include "engine/base/clock.h"
#include "engine/base/cpu.h"
#include "engine/base/mem.h"

enum { MAX_SEATS = 64 };

typedef struct hired {
  td_task task; /* first: the pool hands it back */
  td_crew *crew;
  bool busy; /* lock: crew->lock. Submitted or working */
} hired;

struct td_crew {
  int32_t refs;
  int seats;
  pthread_mutex_t lock;
  td_shift *first, *last; /* lock: lock */
  int taken;              /* lock: lock. Seats in use */
  hired hired[MAX_SEATS];
};

/* When the member on this thread must hand over. */
static _Thread_local int64_t member_until = INT64_MAX;

int64_t td_crew_until(void) {
  return member_until;
}

static void hired_work(td_task *task);

td_status *td_crew_new(int seats, td_crew **out) {
  td_crew *c = td_alloc_zero(1, sizeof *c);
  if (!c) return td_oom();
  c->refs = 1;
  c->seats = seats < 1 ? 1 : seats > MAX_SEATS ? MAX_SEATS : seats;
  pthread_mutex_init(&c->lock, NULL);
  for (int i = 0; i < c->seats; i++) {
    c->hired[i].task.run = hired_work;
    c->hired[i].crew = c;
  }
  *out = c;
  return NULL;
}

td_crew *td_crew_retain(td_crew *c) {
  __atomic_fetch_add(&c->refs, 1, __ATOMIC_RELAXED);
  return c;
}

void td_crew_release(td_crew *c) {
  if (!c || __atomic_fetch_sub(&c->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
  pthread_mutex_destroy(&c->lock);
  td_free(c);
}

void td_crew_reset(td_crew *c) {
  c->first = c->last = NULL;
}

bool td_crew_alone(const td_crew *c) {
  return __atomic_load_n(&c->refs, __ATOMIC_ACQUIRE) == 1;
}

int td_crew_seats(const td_crew *c) {
  return c->seats;
}

/* A pool task for a free seat, or NULL. Lock held. */
static hired *seat_locked(td_crew *c) {
  if (c->taken >= c->seats) return NULL;
  for (int i = 0; i < c->seats; i++)
    if (!c->hired[i].busy) {
      c->hired[i].busy = true;
      c->taken++;
      td_crew_retain(c);
      return &c->hired[i];
    }
  return NULL;
}

void td_crew_post(td_crew *c, td_shift *s, bool hire) {
  hired *h = NULL;
  s->link = NULL;
  pthread_mutex_lock(&c->lock);
  if (c->last)
    c->last->link = s;
  else
    c->first = s;
  c->last = s;
  if (hire) h = seat_locked(c);
  pthread_mutex_unlock(&c->lock);
  if (h) td_pool_submit(&h->task);
}

void td_crew_hire(td_crew *c) {
  hired *who[MAX_SEATS + 1];
  int n = 0;
  pthread_mutex_lock(&c->lock);
  for (td_shift *s = c->first; s; s = s->link)
    if (!(who[n] = seat_locked(c)))
      break;
    else
      n++;
  pthread_mutex_unlock(&c->lock);
  for (int i = 0; i < n; i++) td_pool_submit(&who[i]->task);
}

/* The next posted shift; NULL gives the seat up. */
static td_shift *next_shift(td_crew *c, bool keep) {
  pthread_mutex_lock(&c->lock);
  td_shift *s = keep ? c->first : NULL;
  if (s) {
    c->first = s->link;
    if (!c->first) c->last = NULL;
  } else {
    c->taken--;
  }
  pthread_mutex_unlock(&c->lock);
  return s;
}

static void hired_work(td_task *task) {
  hired *h = (hired *)task;
  td_crew *c = h->crew;
  unsigned was = td_cpu_flush_on();
  int64_t outer = member_until;
  member_until = INT64_MAX;
  for (;;) {
    pthread_mutex_lock(&c->lock);
    td_shift *s = c->first;
    if (s) {
      c->first = s->link;
      if (!c->first) c->last = NULL;
    } else {
      c->taken--;
      h->busy = false;
    }
    pthread_mutex_unlock(&c->lock);
    if (!s) break;
    s->work(s, c);
  }
  member_until = outer;
  td_cpu_flush_restore(was);
  td_crew_release(c);
}

void td_crew_work(td_crew *c, int64_t until) {
  pthread_mutex_lock(&c->lock);
  bool seated = c->taken < c->seats;
  if (seated) c->taken++;
  pthread_mutex_unlock(&c->lock);
  if (!seated) return;
  unsigned was = td_cpu_flush_on();
  int64_t outer = member_until;
  member_until = until;
  bool keep = true;
  td_shift *s;
  while ((s = next_shift(c, keep))) {
    s->work(s, c);
    keep = td_clock_now() < until;
  }
  member_until = outer;
  td_cpu_flush_restore(was);
  td_crew_hire(c);
}
