/* attempts.h - kernels that wait for one another at a resource, without a
 * thread.
 *
 * A queue, a barrier, an accumulator has lines of attempts: to put, to take. A
 * kernel's `start` makes one and stands in line; it goes on when it is the first
 * and what it needs is there. Whatever changes the resource has the attempts go
 * on, in turn, until none can; those that are over are done on that thread,
 * after the mutex was let go, or on the pool when what is left to do is long.
 * One that waits costs its few bytes.
 *
 *   typedef struct taking {
 *     td_attempt base;   // first
 *     ...
 *   } taking;
 *   static void take_start(td_kernel_ctx *c) {
 *     ... td_attempts_start(&q->attempts, &t->base, c, TAKERS);
 *   }
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_ATTEMPTS_H
#define TD_ATTEMPTS_H

#include <pthread.h>

#include "engine/base/pool.h"
#include "engine/device/kernel.h"

TD_BEGIN

enum { TD_ATTEMPT_LINES = 2 };

typedef struct td_attempt td_attempt;

/* What an attempt is made of; a static table. */
typedef struct td_attempt_kind {
  /* Goes as far as it can: true when it changed anything, for others may go on
   * then. Sets a->over when it is, and a->status when it failed. Under the
   * mutex, as the first in its line. */
  bool (*go)(td_attempt *a);
  /* (optional) It ends early, by a->status: gives back what it took. Under the
   * mutex. */
  void (*undo)(td_attempt *a);
  /* (optional) Makes the outputs of a->ctx, when *s is ok; frees what the
   * attempt holds, but not itself. Without the mutex, on any thread. */
  td_status *(*finish)(td_attempt *a, td_status *s);
} td_attempt_kind;

struct td_attempt {
  const td_attempt_kind *kind;
  td_kernel_ctx *ctx;
  td_status *status;
  bool over;
  bool heavy; /* `finish` takes long: on the pool */
  int line;
  td_task task; /* attempts.c's from here on */
  td_attempt *prev, *next;
};

/* Embedded in a resource. */
typedef struct td_attempts {
  pthread_mutex_t mutex; /* protects the resource, too */
  td_attempt *first[TD_ATTEMPT_LINES], *last[TD_ATTEMPT_LINES]; /* under it */
  int waiting[TD_ATTEMPT_LINES]; /* under it: how many stand there */
} td_attempts;

void td_attempts_init(td_attempts *w);
void td_attempts_deinit(td_attempts *w); /* nobody stands there any more */

/* For `start`: stands in line, goes on as far as it can; ends, now or later, in
 * td_kernel_done. Takes ownership of `a` (td_malloc'ed), whose kind the caller
 * has set. */
void td_attempts_start(td_attempts *w, td_attempt *a, td_kernel_ctx *c,
                       int line);
/* For `cancel`: if the attempt of `c` still stands in line, it is over. */
void td_attempts_cancel(td_attempts *w, td_kernel_ctx *c);

/* For all other kernels: takes the mutex; and has everybody go on and lets go of
 * it. */
void td_attempts_enter(td_attempts *w);
void td_attempts_leave(td_attempts *w);
/* Under the mutex: all of a line end by a share of `s`, which stays the
 * caller's. */
void td_attempts_fail(td_attempts *w, int line, td_status *s);

TD_END
#endif
