/* fifo_queue.c - FIFOQueueV2 and PaddingFIFOQueueV2: first in, first out.
 *
 * The store is a ring. A padding queue knows its shapes in part, and its
 * batches are padded (queue_ops.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cost.h"
#include "kernels/queue.h"

/* ---- the ring ------------------------------------------------------------ */

static void ring_put(td_queue *q, td_tuple *t) {
  q->slot[(q->first + (size_t)q->count) % q->slots] = t;
}

static td_tuple *ring_take(td_queue *q) {
  td_tuple *t = q->slot[q->first];
  q->first = (q->first + 1) % q->slots;
  return t;
}

static void ring_give_back(td_queue *q, td_tuple *t) {
  q->first = (q->first + q->slots - 1) % q->slots;
  q->slot[q->first] = t;
}

#define RING .put = ring_put, .take = ring_take, .give_back = ring_give_back

static const td_queue_kind fifo = {.name = "FIFO queue", RING};
static const td_queue_kind padding = {
    .name = "padding FIFO queue", RING, .pads = true};

/* ---- the ops ------------------------------------------------------------- */

static td_status *fifo_make(const td_kernel *k, td_resource **out) {
  return td_queue_new(k, &fifo, out);
}

static td_status *fifo_check(const td_node *n, const td_resource *r) {
  return td_queue_check(n, r, &fifo);
}

static td_status *fifo_run(td_kernel_ctx *c) {
  static const td_handle_kind kind = {td_queue_type, fifo_make, fifo_check};
  return td_handle_run(c, &kind);
}

static td_status *padding_make(const td_kernel *k, td_resource **out) {
  return td_queue_new(k, &padding, out);
}

static td_status *padding_check(const td_node *n, const td_resource *r) {
  return td_queue_check(n, r, &padding);
}

static td_status *padding_run(td_kernel_ctx *c) {
  static const td_handle_kind kind = {td_queue_type, padding_make,
                                      padding_check};
  return td_handle_run(c, &kind);
}

/* ---- rows ---------------------------------------------------------------- */

#define SIG                                                                    \
  "-> handle: resource; component_types: list(type) >= 1; "                    \
  "shapes: list(shape) >= 0 = {}; capacity: int = -1; container: string = "    \
  "\"\"; "                                                                     \
  "shared_name: string = \"\""
#define MAKES                                                                  \
  .sig = SIG, .shape = td_infer_scalars, .cost = td_cost_none, .lua = "",      \
  .flags = TD_STATEFUL | TD_NO_GRADIENT | TD_CHEAP,                            \
  .section = "Data flow: queues, stacks, arrays, accumulators"

static const td_op_def ops[] = {
    {.type = "FIFOQueueV2",
     .old = "FIFOQueue",
     .doc = "A queue that gives tuples of tensors in the order they came.",
     MAKES},
    {.type = "PaddingFIFOQueueV2",
     .old = "PaddingFIFOQueue",
     .doc = "A FIFO queue whose tuples may differ in size: batches of them are "
            "padded with zeros.",
     MAKES},
    {0},
};

#define CPU .device = "CPU", .flags = TD_KERNEL_INLINE, TD_HANDLE_STATE

static const td_kernel_def kernels[] = {
    {.op = "FIFOQueueV2", .run = fifo_run, CPU},
    {.op = "PaddingFIFOQueueV2", .run = padding_run, CPU},
    {0},
};

TD_MODULE(fifo_queue, ops, kernels)
