/* cancel.c - one flag, one cause, hooks for whoever waits.
 *
 * The flag is set before the first hook runs, and a hook is only added while it
 * is not set, so whoever adds a hook and then looks at the flag misses nothing.
 * Hooks run outside the lock, one at a time; td_cancel_remove waits for the one
 * that runs, except on its own thread (a hook may end what it belongs to).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/cancel.h"

#include <pthread.h>

#include "engine/base/mem.h"

struct td_cancel {
  int32_t refs; /* atomic */
  int flag;     /* atomic; written under the mutex */
  pthread_mutex_t mutex;
  pthread_cond_t over;     /* a hook has run */
  td_status *cause;        /* under the mutex */
  td_cancel_hook *hooks;   /* under the mutex; newest first */
  td_cancel_hook *running; /* under the mutex */
  pthread_t runner;        /* under the mutex; who runs it */
};

td_status *td_cancel_new(td_cancel **out) {
  td_cancel *c = td_malloc(sizeof *c);
  if (!c) return td_oom();
  *c = (td_cancel){.refs = 1};
  pthread_mutex_init(&c->mutex, NULL);
  pthread_cond_init(&c->over, NULL);
  *out = c;
  return NULL;
}

void td_cancel_release(td_cancel *c) {
  if (!c || __atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
  td_status_release(c->cause);
  pthread_cond_destroy(&c->over);
  pthread_mutex_destroy(&c->mutex);
  td_free(c);
}

/* Under the mutex. */
static void unlink_hook(td_cancel *c, td_cancel_hook *h) {
  *(h->prev ? &h->prev->next : &c->hooks) = h->next;
  if (h->next) h->next->prev = h->prev;
  h->added = false;
}

/* A hook may free itself: it is not touched once it has been called. */
static void run_hooks(td_cancel *c) {
  for (td_cancel_hook *h; (h = c->hooks);) {
    unlink_hook(c, h);
    c->running = h;
    c->runner = pthread_self();
    pthread_mutex_unlock(&c->mutex);
    h->fire(h->arg);
    pthread_mutex_lock(&c->mutex);
    c->running = NULL;
    pthread_cond_broadcast(&c->over);
  }
}

void td_cancel_fire(td_cancel *c, td_status *cause) {
  if (!cause) cause = td_error(TD_CANCELLED, "the step was cancelled");
  __atomic_fetch_add(&c->refs, 1, __ATOMIC_RELAXED); /* for the hooks */
  pthread_mutex_lock(&c->mutex);
  bool first = !td_cancelled(&c->flag);
  c->cause = td_status_first(c->cause, cause);
  if (first) {
    __atomic_store_n(&c->flag, 1, __ATOMIC_SEQ_CST);
    run_hooks(c);
  }
  pthread_mutex_unlock(&c->mutex);
  td_cancel_release(c);
}

const int *td_cancel_flag(const td_cancel *c) {
  return &c->flag;
}

td_status *td_cancel_cause(td_cancel *c) {
  pthread_mutex_lock(&c->mutex);
  td_status *s = td_status_retain(c->cause);
  pthread_mutex_unlock(&c->mutex);
  return s;
}

bool td_cancel_add(td_cancel *c, td_cancel_hook *h) {
  pthread_mutex_lock(&c->mutex);
  h->added = !td_cancelled(&c->flag);
  if (h->added) {
    h->prev = NULL;
    h->next = c->hooks;
    if (h->next) h->next->prev = h;
    c->hooks = h;
  }
  bool added = h->added;
  pthread_mutex_unlock(&c->mutex);
  return added;
}

void td_cancel_remove(td_cancel *c, td_cancel_hook *h) {
  pthread_mutex_lock(&c->mutex);
  if (h->added) unlink_hook(c, h);
  while (c->running == h && !pthread_equal(c->runner, pthread_self()))
    pthread_cond_wait(&c->over, &c->mutex);
  pthread_mutex_unlock(&c->mutex);
}
