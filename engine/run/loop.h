/* loop.h - a loop of steps: the same one again and again, in the background.
 *
 * A loop has one or more *chains*: in each, when a step is over the next one
 * begins, on a thread of the pool and in turn with all else there; a loop has
 * no thread of its own, and a step that waits (for a queue, say) holds none.
 *
 * The session owns its loops: closing it ends them, and so does letting it go
 * (td_session_end_loops). A handle that is let go changes nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LOOP_H
#define TD_LOOP_H

#include "engine/run/callable.h"

TD_BEGIN

typedef struct td_loop td_loop;

typedef struct td_loop_options {
  int threads;      /* steps in flight, 1 to 256; 0: 1 */
  int64_t steps;    /* in all; < 0: no end */
  td_callable *log; /* (optional) run instead in every `every`-th step: its
                       first n_log fetches are kept, see td_loop_log */
  const char *const *names; /* of those, copied; NULL: "" */
  int n_log;
  int64_t every; /* 0: 1 */
  /* Other steps of the same session, without a log: each is run by `threads`
   * chains of its own, until that step's OUT_OF_RANGE. */
  td_callable *const *more;
  int n_more;
  /* (optional) What is run once in the end, without the pool and whoever still
   * has a handle, so that who depends on the loop is told of its end; before
   * that it is not over. How they end changes nothing, but that at_end is tried
   * where at_error failed. Neither is run when the session is closed. */
  td_callable *at_end; /* when the loop ended well: as its last chain did */
  td_callable *at_error; /* when a step failed or it was cancelled: at once; fed
                            the code, int32, and the message, string */
} td_loop_options;

/* Runs `c`, which has no feeds, its fetches dropped, until `steps` were begun,
 * a step fails or it is cancelled. OUT_OF_RANGE ends it well: no more steps
 * begin; so does, with at_end, a step that is CANCELLED by what it works with,
 * such as a queue that was closed. Caller owns the result. */
td_status *td_loop_start(td_callable *c, const td_loop_options *o,
                         td_loop **out) TD_MUST_USE;
td_loop *td_loop_retain(td_loop *l);
void td_loop_release(td_loop *l); /* what runs goes on */

bool td_loop_over(const td_loop *l);
int64_t td_loop_steps(td_loop *l); /* that ended well so far */
int64_t td_loop_failed(td_loop *l); /* td_clock_now() then; 0: it did not */
/* Waits at most timeout ns (-1: for ever); DEADLINE_EXCEEDED when it is not
 * over (it goes on). *interrupt (may be NULL), once non-zero, ends the wait
 * only. Else the error that ended the loop. */
td_status *td_loop_wait(td_loop *l, int64_t timeout,
                        const int *interrupt) TD_MUST_USE;
void td_loop_cancel(td_loop *l);

/* How many values a logged step keeps, and what value i is called. */
int td_loop_logs(const td_loop *l);
const char *td_loop_log_name(const td_loop *l, int i);
/* What was kept, oldest first: at most `room` times the number of a step,
 * counted from 1, and its n_log values, which are the caller's. Returns how
 * often something was kept: of much the oldest is gone. */
int64_t td_loop_log(td_loop *l, int64_t *steps, td_tensor *values,
                    int64_t room);

/* The loops of `s` that are not over, the newest first; at most `room` of them
 * are stored, the caller's. Returns how many there are. */
int td_session_loops(td_session *s, td_loop **out, int room);

TD_END
#endif
