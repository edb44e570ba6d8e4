/* trace.h - what ran when, on which thread, over how many bytes.
 *
 * Only a step that was given a trace (td_step_options.trace) adds to it: one
 * event for each node it ran, in a loop one for each iteration; of a step that
 * fails for those that had run, that failed, and that waited until then. The events are
 * kept by thread and merged when somebody looks at them.
 *
 * All times are of this process's clock. What another process ran is added when
 * its portion is over (trace_pack.h), its times moved by how far its clock is
 * ahead, which is known within an error that the trace tells with the task.
 * A value that went from a device to another is an *arrow*, from the _Send to
 * the _Recv of its edge, frame and iteration.
 *
 * A device that runs later what a node enqueues adds an event for each piece of
 * that work (`stream` says where it ran), with the node's name: it was `ready`
 * when it was enqueued. From the node to it there is an arrow, too: a *launch*.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TRACE_H
#define TD_TRACE_H

#include "engine/base/status.h"
#include "engine/base/str.h"

TD_BEGIN

typedef struct td_trace td_trace;

typedef enum td_trace_way {
  TD_TRACE_STAYS,
  TD_TRACE_SENDS, /* a value, to another device */
  TD_TRACE_RECEIVES,
} td_trace_way;

typedef struct td_trace_event {
  const char *node, *op, *device; /* owned by the trace */
  const char *value; /* of what is sent or received: its name; of a device's own
                        work that of its code, where it is known; else "" */
  int64_t ready, start, end;      /* ns of td_clock_now */
  int32_t thread;
  uint64_t frame;
  int64_t iteration;
  int64_t bytes; /* made as outputs */
  td_trace_way way;
  bool failed; /* it ended in an error of its own */
  int32_t edge; /* of what is sent or received: its number in the plan */
  const char *stream; /* of a device's own work: where it ran; "" or NULL: on
                         `thread` of the host */
  int64_t memory; /* bytes of a card's memory in use at the end; 0: not known */
} td_trace_event;

/* Is it a device's own work, which a node enqueued? */
static inline bool td_trace_is_work(const td_trace_event *e) {
  return e->stream && *e->stream;
}

/* Another process that took part. */
typedef struct td_trace_task {
  const char *task;    /* "/job:worker/replica:0/task:1" */
  int64_t clock;       /* ns that its clock is ahead, by which it was moved... */
  int64_t error;       /* ...and how far that may be wrong */
  int64_t dropped;     /* events that were left out */
  const char *trouble; /* why nothing is known of it; "": it is */
} td_trace_task;

typedef struct td_trace_arrow {
  int64_t from, to; /* in td_trace_events */
  int64_t error;    /* ns that the times of both may differ by mistake */
} td_trace_arrow;

td_status *td_trace_new(td_trace **out) TD_MUST_USE;
td_trace *td_trace_retain(td_trace *t); /* NULL is retained as well */
void td_trace_release(td_trace *t);

/* From now on takes `most` events, with no more than 64 bytes of names for each,
 * and counts the others. */
void td_trace_limit(td_trace *t, int64_t most);
int64_t td_trace_dropped(const td_trace *t);

/* Copies `e`, each string once. Thread-safe. Without memory the event is left
 * out, and counted as those beyond the limit. */
void td_trace_add(td_trace *t, const td_trace_event *e);
/* Sorted by start. Borrowed; valid until the next add. */
const td_trace_event *td_trace_events(td_trace *t, int64_t *count);
/* The same for another process, copied. Without memory it is left out. */
void td_trace_add_task(td_trace *t, const td_trace_task *x);
/* In the order in which they were added, as td_trace_events left them: what
 * values of the step tell of the clocks is in it (trace_clocks.c). Borrowed; valid
 * until the next td_trace_events. */
const td_trace_task *td_trace_tasks(const td_trace *t, size_t *count);

/* The last event of that node has failed, if none of it is known to have: its
 * device told so later. Lasts until the next add. */
void td_trace_blame(td_trace *t, const char *node);

/* Totals by op, longest first: "MatMul  3 calls  1.20 ms  41 %  12 MB"; what
 * ran on a device's stream is by itself: "MatMul, compute". */
void td_trace_totals(td_trace *t, td_str *out);

/* ---- trace_clocks.c ---- */

/* Does the device belong to the task? */
bool td_trace_is_of(const char *device, const char *task);

/* ---- trace_chrome.c ---- */

/* Those whose both ends are events, by their receivers' starts. Caller owns
 * *arrows (td_free); NULL and 0 without memory. */
void td_trace_arrows(td_trace *t, td_trace_arrow **arrows, size_t *count);
/* From nodes to the work that they enqueued, by the starts of the latter; the
 * same otherwise. */
void td_trace_launches(td_trace *t, td_trace_arrow **launches, size_t *count);
/* Chrome trace event format (Perfetto, chrome://tracing): processes are tasks,
 * rows their devices' threads and streams, flows are arrows and launches,
 * counters the memory of cards. */
void td_trace_chrome(td_trace *t, td_str *out);

TD_END
#endif
