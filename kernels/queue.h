/* queue.h - queues of tuples of tensors: what all kinds share.
 *
 * A queue has a store, which says in what order tuples come out again, two
 * lines of attempts (attempts.h), to enqueue and to dequeue, and can be closed.
 * A kind of queue is a td_queue_kind with its ops (fifo_queue.c); the ops that
 * take any queue are in queue_ops.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_QUEUE_H
#define TD_QUEUE_H

#include "kernels/attempts.h"
#include "kernels/handle.h"

TD_BEGIN

/* An element of a queue, owned by whoever has it. */
typedef struct td_tuple {
  int n;
  uint64_t order; /* the store's own */
  struct td_tuple *next; /* of a list that queue.c makes */
  td_tensor *at; /* behind the struct; in host memory, counted */
} td_tuple;

td_tuple *td_tuple_new(int n); /* NULL when there is no memory */
void td_tuple_free(td_tuple *t); /* NULL is ok */

typedef struct td_queue td_queue;

typedef struct td_queue_kind {
  const char *name; /* "FIFO queue" */
  /* (optional) Reads more of the node that makes it. */
  td_status *(*init)(td_queue *q, const td_kernel *k);
  void (*deinit)(td_queue *q); /* (optional) of what it made; the store is empty */
  /* Under the mutex, q->count tuples being in the store, and q->slot having room
   * for one more. They take ownership and give it. */
  void (*put)(td_queue *q, td_tuple *t);
  td_tuple *(*take)(td_queue *q);
  /* Of those that were taken the last comes back. */
  void (*give_back)(td_queue *q, td_tuple *t);
  bool pads;   /* shapes may be known in part: batches are padded with zeros */
  bool copies; /* rows of a batch do not share its memory: others of it may stay
                  for long */
  bool ranked; /* a tuple begins with its rank, an int64 scalar of which the
                  attributes of the queue do not tell */
} td_queue_kind;

struct td_queue {
  td_resource base; /* first */
  const td_queue_kind *kind;
  int n;                  /* tensors of a tuple */
  const td_dtype *dtypes; /* of each */
  td_shape *shapes;       /* of each; NULL: not said */
  int64_t capacity;       /* -1: no limit */
  int64_t keep;           /* that many stay until it is closed */
  td_attempts attempts;   /* its mutex protects what follows */
  int64_t count;          /* tuples in the store */
  int64_t lent; /* tuples that dequeues have, and may give back */
  int64_t takes; /* tuples that were taken, ever */
  bool closed;
  td_status *cause; /* why it failed, when a producer did */
  struct td_queue_users {
    char *name[4]; /* nodes that enqueued, the first few; owned */
    int n;
  } users;
  /* The store: what the kind makes of it. */
  td_tuple **slot;
  size_t slots; /* room: count + lent at least */
  size_t first;
  uint64_t order;
  void *own;
};

extern const char td_queue_type[]; /* object.type of all queues */

/* For `make` and `check` of the td_handle_kind of an op whose attributes are
 * component_types, shapes and capacity. */
td_status *td_queue_new(const td_kernel *k, const td_queue_kind *kind,
                        td_resource **out) TD_MUST_USE;
td_status *td_queue_check(const td_node *n, const td_resource *r,
                          const td_queue_kind *kind) TD_MUST_USE;

/* Output i of `c`: component i of n tuples of `q`, which has shapes, side by side
 * (queue_batch.c). Without the mutex. */
td_status *td_queue_stack(td_kernel_ctx *c, int i, const td_queue *q,
                          td_tuple *const *at, int64_t n) TD_MUST_USE;

/* ---- for what uses queues; under the mutex ---- */

bool td_queue_put(td_queue *q, td_tuple *t); /* false: no memory, not taken */
td_tuple *td_queue_take(td_queue *q);        /* lent, until... */
void td_queue_keep(td_queue *q, int64_t n);  /* ... n lent ones are gone for good */
void td_queue_give_back(td_queue *q, td_tuple *t); /* ... or it comes back */

TD_END
#endif
