/* queue_feed.c - taking one tuple, as an attempt of a context of its own; see
 * queue_feed.h.
 *
 * An attempt is done by its context. Here that is a copy of the kernel's whose
 * `done` is ours, so that lines and cancelling are those of attempts.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/queue_feed.h"

#include "engine/base/mem.h"

typedef struct feeding {
  td_attempt base; /* first */
  td_queue_feed *feed;
} feeding;

enum { TAKE = 1 }; /* the line of those who dequeue */

static const char *name_of(const td_queue *q) {
  return q->base.name ? q->base.name : "";
}

static td_status *nothing_comes(const td_queue *q) {
  if (q->cause)
    return td_error(td_status_code(q->cause), "queue %s failed: %s", name_of(q),
                    td_status_message(q->cause));
  return td_error(TD_OUT_OF_RANGE,
                  "queue %s is closed and has insufficient elements (requested "
                  "1, current size 0)",
                  name_of(q));
}

static bool go(td_attempt *a) {
  td_queue_feed *f = ((feeding *)a)->feed;
  td_queue *q = f->q;
  if (q->count > (q->closed ? 0 : q->keep)) {
    f->got = td_queue_take(q);
    td_queue_keep(q, 1);
  } else if (q->closed) {
    a->status = nothing_comes(q);
  } else {
    return false;
  }
  a->over = true;
  return true;
}

static void over(td_kernel_ctx *c, td_status *s) {
  td_queue_feed *f = c->owner;
  f->done(f, f->got, s);
}

void td_queue_feed_init(td_queue_feed *f, td_queue *q, const td_kernel_ctx *c,
                        void (*done)(td_queue_feed *f, td_tuple *t,
                                     td_status *s)) {
  *f = (td_queue_feed){.done = done, .q = q};
  f->ctx.kernel = c->kernel;
  f->ctx.step = c->step;
  f->ctx.done = over;
  f->ctx.owner = f;
}

void td_queue_feed_start(td_queue_feed *f) {
  static const td_attempt_kind kind = {.go = go};
  feeding *a = td_calloc(1, sizeof *a);
  if (!a) {
    f->done(f, NULL, td_oom());
    return;
  }
  a->base.kind = &kind;
  a->feed = f;
  td_attempts_start(&f->q->attempts, &a->base, &f->ctx, TAKE);
}

void td_queue_feed_cancel(td_queue_feed *f) {
  td_attempts_cancel(&f->q->attempts, &f->ctx);
}

void td_queue_feed_why(td_queue *q, td_str *out) {
  pthread_mutex_lock(&q->attempts.mutex);
  td_str_addf(out, "queue %s: %lld", name_of(q), (long long)q->count);
  if (q->capacity >= 0) td_str_addf(out, " of %lld", (long long)q->capacity);
  td_str_addf(out, " elements, %d dequeues wait%s", q->attempts.waiting[TAKE],
              q->closed ? ", it is closed" : "");
  pthread_mutex_unlock(&q->attempts.mutex);
}
