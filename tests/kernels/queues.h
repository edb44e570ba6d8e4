/* queues.h - nodes of queues, and what is true of one at any time, for the
 * tests of queues.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TEST_QUEUES_H
#define TD_TEST_QUEUES_H

#include <string.h>

#include "engine/graph/build.h"
#include "kernels/queue.h"

/* What makes a queue. */
typedef struct queue_spec {
  const char *op, *name, *container;
  int n; /* components that are named */
  td_dtype types[4];
  td_shape shapes[4];
  int n_shapes;
  int64_t capacity;
  int64_t keep, seed, seed2; /* of a RandomShuffleQueueV2 */
} queue_spec;

/* One int64 scalar in each tuple (of a priority queue: only the rank). */
static inline queue_spec int_queue(const char *op, int64_t capacity) {
  queue_spec q = {.op = op, .name = "q", .capacity = capacity};
  q.n = q.n_shapes = strcmp(op, "PriorityQueueV2") != 0;
  q.types[0] = TD_INT64;
  q.shapes[0] = td_shape_scalar();
  return q;
}

static inline td_status *queue_node(td_graph *g, const queue_spec *q,
                                    td_edge *out) {
  td_build b;
  td_attr shapes = {.kind = TD_ATTR_SHAPE,
                    .is_list = true,
                    .len = q->n_shapes,
                    .shapes = q->shapes};
  td_build_init(&b, g, q->op, NULL);
  td_build_attr(&b, "component_types", td_attr_types(q->types, q->n));
  td_build_attr(&b, "shapes", shapes);
  td_build_attr(&b, "capacity", td_attr_int(q->capacity));
  if (q->name) td_build_attr(&b, "shared_name", td_attr_string(q->name));
  if (q->container)
    td_build_attr(&b, "container", td_attr_string(q->container));
  if (strcmp(b.op ? b.op->type : "", "RandomShuffleQueueV2") == 0) {
    td_build_attr(&b, "min_after_dequeue", td_attr_int(q->keep));
    td_build_attr(&b, "seed", td_attr_int(q->seed));
    td_build_attr(&b, "seed2", td_attr_int(q->seed2));
  }
  *out = (td_edge){NULL, 0};
  return td_build_node(&b, &out->node);
}

static inline td_status *enqueue_node(td_graph *g, bool many, td_edge q,
                                      const td_edge *in, int n, td_edge *out) {
  td_build b;
  td_build_init(&b, g, many ? "QueueEnqueueManyV2" : "QueueEnqueueV2", NULL);
  td_build_in(&b, q);
  td_build_list(&b, in, n);
  *out = (td_edge){NULL, 0};
  return td_build_node(&b, &out->node);
}

/* `many`: how many (NULL: one), and whether fewer are enough. */
static inline td_status *dequeue_node(td_graph *g, td_edge q,
                                      const td_edge *many, bool up_to,
                                      const td_dtype *types, int n,
                                      td_edge *out) {
  td_build b;
  const char *op = up_to ? "QueueDequeueUpToV2" : "QueueDequeueManyV2";
  td_build_init(&b, g, many ? op : "QueueDequeueV2", NULL);
  td_build_in(&b, q);
  if (many) td_build_in(&b, *many);
  td_build_attr(&b, "component_types", td_attr_types(types, n));
  *out = (td_edge){NULL, 0};
  return td_build_node(&b, &out->node);
}

static inline td_status *close_node(td_graph *g, td_edge q, bool cancels,
                                    td_edge *out) {
  td_build b;
  td_build_init(&b, g, "QueueCloseV2", NULL);
  td_build_in(&b, q);
  td_build_attr(&b, "cancel_pending_enqueues", td_attr_bool(cancels));
  *out = (td_edge){NULL, 0};
  return td_build_node(&b, &out->node);
}

/* Whenever nobody holds the mutex: does the first of a line wait though it could
 * go on? Then somebody was not told. */
static inline bool queue_forgot(td_queue *q) {
  pthread_mutex_lock(&q->attempts.mutex);
  bool puts = q->attempts.first[0], takes = q->attempts.first[1];
  bool forgot = (puts && (q->closed || q->capacity < 0 ||
                          q->count < q->capacity)) ||
                (takes && (q->closed || q->count > q->keep));
  pthread_mutex_unlock(&q->attempts.mutex);
  return forgot;
}

#endif
