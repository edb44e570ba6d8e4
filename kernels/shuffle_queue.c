/* shuffle_queue.c - RandomShuffleQueueV2: any of those that are there.
 *
 * The n-th tuple to be taken is the one at the n-th word of a Philox stream,
 * modulo how many there are, and the last one comes in its place: TensorFlow's
 * order for the same seeds. It follows from seeds and from what came and went
 * before; a dequeue that gives back what it took leaves no trace in it.
 *
 * Neighbours of a batch leave at very different times, so rows are copied.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/entropy.h"
#include "engine/base/mem.h"
#include "engine/base/philox.h"
#include "kernels/cost.h"
#include "kernels/queue.h"

typedef struct stream {
  td_philox start;
  int64_t seed, seed2; /* as they were given */
  uint64_t taken;      /* words that were used; under the queue's mutex */
} stream;

/* ---- the store: slots without an order ----------------------------------- */

static void any_put(td_queue *q, td_tuple *t) {
  q->slot[q->count] = t;
}

static size_t draw(stream *s, int64_t count) {
  uint32_t words[4];
  td_philox p = s->start;
  td_philox_skip(&p, s->taken / 4);
  td_philox_next(&p, words);
  return words[s->taken++ % 4] % (uint64_t)count;
}

static td_tuple *any_take(td_queue *q) {
  size_t i = draw(q->own, q->count);
  td_tuple *t = q->slot[i];
  q->slot[i] = q->slot[q->count - 1];
  t->order = i;
  return t;
}

static void any_give_back(td_queue *q, td_tuple *t) {
  size_t end = (size_t)q->count, i = t->order < end ? t->order : end;
  ((stream *)q->own)->taken--;
  q->slot[end] = q->slot[i];
  q->slot[i] = t;
}

/* ---- life ---------------------------------------------------------------- */

static td_status *check_keep(const td_queue *q) {
  if (q->keep < 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "min_after_dequeue must not be negative, not %lld",
                    (long long)q->keep);
  if (q->capacity < 0 || q->keep < q->capacity) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "min_after_dequeue is %lld and the capacity %lld: it must be "
                  "less, or nothing ever comes out",
                  (long long)q->keep, (long long)q->capacity);
}

static td_status *any_init(td_queue *q, const td_kernel *k) {
  q->keep = td_node_int(k->node, "min_after_dequeue");
  TD_TRY(check_keep(q));
  stream *s = td_calloc(1, sizeof *s);
  if (!s) return td_oom();
  s->seed = td_node_int(k->node, "seed");
  s->seed2 = td_node_int(k->node, "seed2");
  if (s->seed || s->seed2)
    td_philox_init(&s->start, (uint64_t)s->seed, (uint64_t)s->seed2);
  else
    td_philox_init(&s->start, td_entropy(), td_entropy());
  q->own = s;
  return NULL;
}

static void any_deinit(td_queue *q) {
  td_free(q->own);
}

static const td_queue_kind any = {.name = "random shuffle queue",
                                  .init = any_init,
                                  .deinit = any_deinit,
                                  .put = any_put,
                                  .take = any_take,
                                  .give_back = any_give_back,
                                  .copies = true};

/* ---- the op -------------------------------------------------------------- */

static td_status *any_make(const td_kernel *k, td_resource **out) {
  return td_queue_new(k, &any, out);
}

/* Who gives no seeds takes any. */
static td_status *check_seeds(const td_node *n, const td_queue *q) {
  const stream *s = q->own;
  int64_t seed = td_node_int(n, "seed"), seed2 = td_node_int(n, "seed2");
  if ((!seed && !seed2) || (seed == s->seed && seed2 == s->seed2)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "queue %s has the seeds %lld and %lld, not %lld and %lld",
                  q->base.name, (long long)s->seed, (long long)s->seed2,
                  (long long)seed, (long long)seed2);
}

static td_status *any_check(const td_node *n, const td_resource *r) {
  TD_TRY(td_queue_check(n, r, &any));
  const td_queue *q = (const td_queue *)r;
  int64_t keep = td_node_int(n, "min_after_dequeue");
  if (q->keep != keep)
    return td_error(TD_INVALID_ARGUMENT,
                    "queue %s has a min_after_dequeue of %lld, not of %lld",
                    r->name, (long long)q->keep, (long long)keep);
  return check_seeds(n, q);
}

static td_status *any_run(td_kernel_ctx *c) {
  static const td_handle_kind kind = {td_queue_type, any_make, any_check};
  return td_handle_run(c, &kind);
}

/* ---- rows ---------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "RandomShuffleQueueV2",
     .old = "RandomShuffleQueue",
     .sig = "-> handle: resource; component_types: list(type) >= 1; "
            "shapes: list(shape) >= 0 = {}; capacity: int = -1; "
            "min_after_dequeue: int = 0; seed: int = 0; seed2: int = 0; "
            "container: string = \"\"; shared_name: string = \"\"",
     .shape = td_infer_scalars,
     .cost = td_cost_none,
     .lua = "",
     .flags = TD_STATEFUL | TD_NO_GRADIENT | TD_CHEAP,
     .section = "Data flow: queues, stacks, arrays, accumulators",
     .doc = "A queue that gives tuples of tensors in random order, drawn from "
            "more than min_after_dequeue until it is closed."},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "RandomShuffleQueueV2",
     .device = "CPU",
     .run = any_run,
     .flags = TD_KERNEL_INLINE,
     TD_HANDLE_STATE},
    {0},
};

TD_MODULE(shuffle_queue, ops, kernels)
