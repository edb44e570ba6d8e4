/* priority_queue.c - PriorityQueueV2: the smallest rank first.
 *
 * A tuple begins with its rank, an int64 scalar of which the queue's attributes
 * do not tell. The store is a heap in slots 0 to count - 1, ordered by rank,
 * and among equal ones by arrival; one that is given back has its arrival
 * still.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cost.h"
#include "kernels/queue.h"

/* ---- the heap ------------------------------------------------------------ */

static bool before(const td_tuple *a, const td_tuple *b) {
  int64_t x = td_tensor_get_i(&a->at[0], 0), y = td_tensor_get_i(&b->at[0], 0);
  return x != y ? x < y : a->order < b->order;
}

/* Puts `t` where slot i is free, or above. */
static void rise(td_tuple **slot, size_t i, td_tuple *t) {
  for (; i > 0 && before(t, slot[(i - 1) / 2]); i = (i - 1) / 2)
    slot[i] = slot[(i - 1) / 2];
  slot[i] = t;
}

/* Puts `t` where slot 0 of n is free, or below. */
static void sink(td_tuple **slot, size_t n, td_tuple *t) {
  size_t i = 0, child;
  while ((child = 2 * i + 1) < n) {
    if (child + 1 < n && before(slot[child + 1], slot[child])) child++;
    if (!before(slot[child], t)) break;
    slot[i] = slot[child];
    i = child;
  }
  slot[i] = t;
}

static void heap_put(td_queue *q, td_tuple *t) {
  t->order = q->order++;
  rise(q->slot, (size_t)q->count, t);
}

static td_tuple *heap_take(td_queue *q) {
  size_t left = (size_t)q->count - 1;
  td_tuple *t = q->slot[0];
  if (left > 0) sink(q->slot, left, q->slot[left]);
  return t;
}

static void heap_give_back(td_queue *q, td_tuple *t) {
  rise(q->slot, (size_t)q->count, t);
}

static const td_queue_kind heap = {.name = "priority queue",
                                   .put = heap_put,
                                   .take = heap_take,
                                   .give_back = heap_give_back,
                                   .ranked = true};

/* ---- the op -------------------------------------------------------------- */

static td_status *heap_make(const td_kernel *k, td_resource **out) {
  return td_queue_new(k, &heap, out);
}

static td_status *heap_check(const td_node *n, const td_resource *r) {
  return td_queue_check(n, r, &heap);
}

static td_status *heap_run(td_kernel_ctx *c) {
  static const td_handle_kind kind = {td_queue_type, heap_make, heap_check};
  return td_handle_run(c, &kind);
}

static const td_op_def ops[] = {
    {.type = "PriorityQueueV2",
     .old = "PriorityQueue",
     .sig = "-> handle: resource; component_types: list(type) >= 0 = {}; "
            "shapes: list(shape) >= 0; capacity: int = -1; "
            "container: string = \"\"; shared_name: string = \"\"",
     .shape = td_infer_scalars,
     .cost = td_cost_none,
     .lua = "",
     .flags = TD_STATEFUL | TD_NO_GRADIENT | TD_CHEAP,
     .section = "Data flow: queues, stacks, arrays, accumulators",
     .doc = "A queue whose tuples begin with a rank, an int64 scalar before "
            "the components named: the smallest comes out first."},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "PriorityQueueV2",
     .device = "CPU",
     .run = heap_run,
     .flags = TD_KERNEL_INLINE,
     TD_HANDLE_STATE},
    {0},
};

TD_MODULE(priority_queue, ops, kernels)
