/* async.h - a step that goes on by itself.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_ASYNC_H
#define TD_ASYNC_H

#include "engine/run/callable.h"

TD_BEGIN

typedef struct td_async td_async;

/* One step of `c`. Feeds are retained. options->interrupt is not looked at.
 * With options->queued it is refused, RESOURCE_EXHAUSTED, while results of the
 * session's steps of which nobody has waited hold queued_bytes. Caller owns the
 * result. */
td_status *td_async_start(td_callable *c, const td_tensor *feeds,
                          const td_step_options *options,
                          td_async **out) TD_MUST_USE;
void td_async_release(td_async *a); /* what runs goes on */

bool td_async_done(td_async *a);
/* Waits at most timeout ns (-1: for ever); DEADLINE_EXCEEDED when it is not
 * over (it goes on). fetches (may be NULL): as td_session_run; only the first
 * wait gets them. *interrupt (may be NULL), once non-zero, ends the wait only.
 */
td_status *td_async_wait(td_async *a, int64_t timeout, td_tensor *fetches,
                         const int *interrupt) TD_MUST_USE;
void td_async_cancel(td_async *a);

TD_END
#endif
