/* status.h - what every function that can fail returns.
 *
 * One pointer: NULL is success, anything else an error with TensorFlow's code,
 * a message for a person, and, once known, the op, node, line and device it
 * happened at. Out of memory is one static instance, so that reporting it needs
 * none. A *derived* error follows from another (a step that was stopped because
 * a node failed elsewhere) and never hides it. Between it and a root cause is
 * *evidence* about another task ("task 1 could not reach task 2"): what became
 * of that says more, if anybody can tell.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_STATUS_H
#define TD_STATUS_H

#include "engine/base/base.h"

TD_BEGIN

/* TensorFlow's (and gRPC's) codes and numbers. */
typedef enum td_code {
  TD_OK = 0,
  TD_CANCELLED = 1,
  TD_UNKNOWN = 2,
  TD_INVALID_ARGUMENT = 3,
  TD_DEADLINE_EXCEEDED = 4,
  TD_NOT_FOUND = 5,
  TD_ALREADY_EXISTS = 6,
  TD_PERMISSION_DENIED = 7,
  TD_RESOURCE_EXHAUSTED = 8,
  TD_FAILED_PRECONDITION = 9,
  TD_ABORTED = 10,
  TD_OUT_OF_RANGE = 11,
  TD_UNIMPLEMENTED = 12,
  TD_INTERNAL = 13,
  TD_UNAVAILABLE = 14,
  TD_DATA_LOSS = 15,
  TD_UNAUTHENTICATED = 16,
} td_code;

typedef struct td_status td_status;

/* A new error; falls back to td_oom() when there is no memory for it. */
td_status *td_error(td_code code, const char *fmt, ...) TD_PRINTF(2, 3)
    TD_MUST_USE;
td_status *td_error_v(td_code code, const char *fmt, va_list args) TD_MUST_USE;

/* The static RESOURCE_EXHAUSTED "out of memory". Needs no memory. */
td_status *td_oom(void) TD_MUST_USE;

static inline bool td_ok(const td_status *s) { return s == NULL; }

/* Says where it happened, unless already said. NULL parts are skipped. `s` may
 * be NULL; returns `s` (or, for td_oom(), a copy that can carry the place). */
td_status *td_status_at(td_status *s, const char *op, const char *node,
                        const char *origin, const char *device) TD_MUST_USE;

/* Marks `s` as following from another error. Takes ownership, returns it. */
td_status *td_status_derive(td_status *s) TD_MUST_USE;

/* Marks `s` as evidence about another task, unless it is that already. Takes
 * ownership, returns it (or, for td_oom(), a copy that can carry the name). */
td_status *td_status_about(td_status *s, const char *task) TD_MUST_USE;

/* Says what became of the updates of the step that failed so, unless already
 * said: "unknown at /job:worker/task:1". Takes ownership, returns it (or, for
 * td_oom(), a copy that can carry it). */
td_status *td_status_applied(td_status *s, const char *where) TD_MUST_USE;

td_status *td_status_retain(td_status *s);
void td_status_release(td_status *s);

/* Keeps the first cause: takes ownership of both, returns the one to report
 * (a root cause before evidence before a derived error, which it is even if it
 * is evidence too; else `first`). */
td_status *td_status_first(td_status *first, td_status *second) TD_MUST_USE;

td_code td_status_code(const td_status *s);
/* The code's name as TensorFlow spells it, lower case: "invalid_argument". */
const char *td_code_name(td_code code);
/* Borrowed strings; "" when not known. */
const char *td_status_message(const td_status *s);
const char *td_status_op(const td_status *s);
const char *td_status_node(const td_status *s);
const char *td_status_origin(const td_status *s);
const char *td_status_device(const td_status *s);
/* The task that it is evidence about. */
const char *td_status_about_task(const td_status *s);
/* What td_status_applied said; "": nothing was changed, or not on several
 * tasks. */
const char *td_status_applied_where(const td_status *s);
bool td_status_derived(const td_status *s);

/* Where nothing is held: return the error to the caller. */
#define TD_TRY(expr)                                                           \
  do {                                                                         \
    td_status *td_try_ = (expr);                                               \
    if (TD_UNLIKELY(td_try_ != NULL)) return td_try_;                          \
  } while (0)

TD_END
#endif
