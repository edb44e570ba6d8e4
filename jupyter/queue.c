/* queue.c - what several threads leave for one: first in, first out.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "jupyter/queue.h"

#include <unistd.h>

#include "jupyter/event.h"

td_status *td_jupyter_queue_init(td_jupyter_queue *q, bool polled) {
  *q = (td_jupyter_queue){.event = -1};
  q->last = &q->first;
  pthread_mutex_init(&q->lock, NULL);
  pthread_cond_init(&q->changed, NULL);
  if (!polled) return NULL;
  q->event = td_jupyter_event_open();
  return q->event >= 0
             ? NULL
             : td_error(TD_RESOURCE_EXHAUSTED, "no file descriptors are left");
}

/* The lock stays usable: a request may still arrive at a worker that ends. */
void td_jupyter_queue_deinit(td_jupyter_queue *q) {
  if (q->event >= 0) close(q->event);
  q->event = -1;
}

void td_jupyter_queue_append(td_jupyter_queue *q, td_jupyter_entry *e) {
  e->next = NULL;
  *q->last = e;
  q->last = &e->next;
}

void *td_jupyter_queue_pop(td_jupyter_queue *q) {
  td_jupyter_entry *e = q->first;
  if (!e) return NULL;
  q->first = e->next;
  if (!q->first) q->last = &q->first;
  return e;
}

void td_jupyter_queue_put(td_jupyter_queue *q, td_jupyter_entry *e) {
  pthread_mutex_lock(&q->lock);
  td_jupyter_queue_append(q, e);
  pthread_cond_broadcast(&q->changed);
  pthread_mutex_unlock(&q->lock);
  if (q->event >= 0) td_jupyter_event_set(q->event);
}

void *td_jupyter_queue_take(td_jupyter_queue *q) {
  pthread_mutex_lock(&q->lock);
  void *e = td_jupyter_queue_pop(q);
  pthread_mutex_unlock(&q->lock);
  return e;
}
