/* trace.h - what ran when, on which thread, over how many bytes.
 *
 * Only a step that was given a trace (td_step_options.trace) adds to it: one
 * event for each node it ran, in a loop one for each iteration. The events are
 * kept by thread and merged when somebody looks at them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TRACE_H
#define TD_TRACE_H

#include "engine/base/status.h"
#include "engine/base/str.h"

TD_BEGIN

typedef struct td_trace td_trace;

typedef struct td_trace_event {
  const char *node, *op, *device; /* owned by the trace */
  int64_t ready, start, end;      /* ns of td_clock_now */
  int32_t thread;
  uint64_t frame;
  int64_t iteration;
  int64_t bytes; /* made as outputs */
} td_trace_event;

td_status *td_trace_new(td_trace **out) TD_MUST_USE;
void td_trace_free(td_trace *t);

/* Copies `e`, each string once. Thread-safe. Without memory the event is left
 * out. */
void td_trace_add(td_trace *t, const td_trace_event *e);
/* Sorted by start. Borrowed; valid until the next add. */
const td_trace_event *td_trace_events(td_trace *t, int64_t *count);

/* Totals by op, longest first: "MatMul  3 calls  1.20 ms  41 %  12 MB". */
void td_trace_totals(td_trace *t, td_str *out);
/* Chrome trace event format (Perfetto, chrome://tracing). */
void td_trace_chrome(td_trace *t, td_str *out);

TD_END
#endif
