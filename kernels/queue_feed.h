/* queue_feed.h - a kernel that takes a tuple out of a queue for itself.
 *
 * A reader takes names of files from a queue while it runs. It stands in the
 * queue's line among the nodes that dequeue, without a thread, and is called
 * when its tuple has come:
 *
 *   td_queue_feed feed;     // within what the kernel keeps while it runs
 *   td_queue_feed_init(&feed, q, c, named);
 *   td_queue_feed_start(&feed);   // ... named(&feed, tuple, NULL)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_QUEUE_FEED_H
#define TD_QUEUE_FEED_H

#include "kernels/queue.h"

TD_BEGIN

typedef struct td_queue_feed {
  /* Called once, perhaps before `start` returns, on any thread, outside of all
   * locks: takes ownership of both. `t` is NULL when *s is an error: that of a
   * producer that failed, OUT_OF_RANGE of a queue that is closed and empty, a
   * derived CANCELLED. `f` is then free to go. */
  void (*done)(struct td_queue_feed *f, td_tuple *t, td_status *s);
  td_queue *q; /* queue_feed.c's from here on; held by the kernel's handle */
  td_tuple *got;
  td_kernel_ctx ctx; /* what stands in line */
} td_queue_feed;

/* On behalf of kernel `c`, of whose step it hears. */
void td_queue_feed_init(td_queue_feed *f, td_queue *q, const td_kernel_ctx *c,
                        void (*done)(td_queue_feed *f, td_tuple *t,
                                     td_status *s));
/* `f` stays where it is until it is done. */
void td_queue_feed_start(td_queue_feed *f);
/* For `cancel` of the kernel, once the step is stopped: if it waits, it is done;
 * if it was not started yet, it will be at once. `f` must be there meanwhile. */
void td_queue_feed_cancel(td_queue_feed *f);
/* For `why`: "queue q: 0 of 5 elements, 1 dequeues wait". */
void td_queue_feed_why(td_queue *q, td_str *out);

TD_END
#endif
