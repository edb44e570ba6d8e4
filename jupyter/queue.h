/* queue.h - what several threads leave for one: first in, first out.
 *
 * Used for the cells that wait for a worker, replies on their way to a socket
 * (outbox.h), and what is to be shown (iopub_queue.c). The lock is for the
 * owner too, who keeps beside the queue what must change together with it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_JUPYTER_QUEUE_H
#define TD_JUPYTER_QUEUE_H

#include <pthread.h>

#include "engine/base/status.h"

/* What can be queued is a struct that begins with this. */
typedef struct td_jupyter_entry {
  struct td_jupyter_entry *next;
} td_jupyter_entry;

typedef struct td_jupyter_queue {
  pthread_mutex_t lock;            /* of `first` and `last` */
  pthread_cond_t changed;          /* for who waits with the lock */
  td_jupyter_entry *first, **last; /* the newest one's `next`, or `first` */
  int event; /* set by td_jupyter_queue_put, for who polls; or -1 */
} td_jupyter_queue;

/* `polled`: with an event, because its thread waits for sockets too. */
td_status *td_jupyter_queue_init(td_jupyter_queue *q, bool polled) TD_MUST_USE;
/* The entries are gone before. */
void td_jupyter_queue_deinit(td_jupyter_queue *q);

/* Puts it at the end and wakes who waits or polls. */
void td_jupyter_queue_put(td_jupyter_queue *q, td_jupyter_entry *e);
/* The first one, which is the caller's from now on; NULL: there is none. */
void *td_jupyter_queue_take(td_jupyter_queue *q);

/* The same for who holds the lock; nobody is woken. */
void td_jupyter_queue_append(td_jupyter_queue *q, td_jupyter_entry *e);
void *td_jupyter_queue_pop(td_jupyter_queue *q);

#endif
