/* step.h - one run of a session, as kernels see it.
 *
 * A step executes a program on each device that it needs. They share what is
 * here: the mailboxes between them, what stops them all, feeds and fetches.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_STEP_H
#define TD_STEP_H

#include "engine/base/waiter.h"
#include "engine/device/cancel.h"
#include "engine/device/rendezvous.h"

TD_BEGIN

struct td_resources;
struct td_kernel_ctx;

/* The threads that wait for a step, for kernels which only they can serve
 * (kernels/lua_op.c): a task posted to `mail` runs on one of them, and calls
 * `serve` there. */
typedef struct td_caller {
  td_waiter *mail; /* the step's: valid as long as a kernel of it is not done */
  /* Does what the node of `c` asks for: sets the outputs. */
  td_status *(*serve)(struct td_kernel_ctx *c);
  int32_t gone; /* atomic: nobody will wait any more */
  /* (optional) Where who waits may do something else meanwhile: has it look at
   * its mail. */
  void (*rouse)(struct td_caller *c);
} td_caller;

/* Nobody will wait: what was posted runs now, on this thread, with `gone` set,
 * and so does what is posted later, on its own. */
void td_caller_go(td_caller *c);
static inline bool td_caller_gone(td_caller *c) {
  return __atomic_fetch_add(&c->gone, 0, __ATOMIC_ACQ_REL) != 0;
}
/* Has a thread that waits run `task`; where nobody does, this one. */
void td_caller_post(td_caller *c, td_task *task);

typedef struct td_step {
  uint64_t id;
  td_cancel *cancel;
  const int *stop;              /* the flag of `cancel` */
  td_rendezvous *rendezvous;
  struct td_resources *resources; /* named containers (the runtime's) */
  struct td_resources *own;       /* the session's default container */
  int threads;                  /* at most so many for one kernel */
  const td_tensor *args;        /* feeds, by _Arg's index */
  td_tensor *rets;              /* fetches, by _Retval's index */
  bool *rets_dead;              /* a dead value reached it */
  /* Where Print writes; NULL: stderr. */
  void (*print)(void *arg, const char *text, size_t len);
  void *print_arg;
  uint64_t draw; /* not 0: random ops draw as this says, whatever ran before */
  td_caller *caller; /* NULL: no thread waits that could serve */
  void *trace;                  /* run/trace, NULL when not traced */
  bool check_numerics;          /* the first NaN or infinity is an error */
  bool updated; /* atomic: an op that updates has begun (TD_UPDATES) */
} td_step;

/* Stops the step everywhere: the first cause is kept, what waits is cancelled,
 * nothing more is sent or received. Takes ownership of `cause`. May be called
 * again, from any thread, as long as the step is not over. */
void td_step_fail(td_step *step, td_status *cause);

TD_END
#endif
