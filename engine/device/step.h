/* step.h - one run of a graph, as kernels see it; and how it is cancelled.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_STEP_H
#define TD_STEP_H

#include "engine/device/rendezvous.h"

TD_BEGIN

/* ---- cancelling ----
 *
 * Fired once, with the first cause. Everything that waits adds a hook; long
 * kernels look at the flag between pieces. Hooks run on the firing thread,
 * outside the lock, and must only wake or enqueue. */
typedef struct td_cancel td_cancel;
typedef struct td_cancel_hook {
  void (*fire)(void *arg);
  void *arg;
  struct td_cancel_hook *prev, *next;
  bool added;
} td_cancel_hook;

td_status *td_cancel_new(td_cancel **out) TD_MUST_USE;
td_cancel *td_cancel_retain(td_cancel *c);
void td_cancel_release(td_cancel *c);
/* Takes ownership of `cause` (NULL: CANCELLED). Later ones are dropped, unless
 * the first was derived and this one is not. */
void td_cancel_fire(td_cancel *c, td_status *cause);
const int *td_cancel_flag(const td_cancel *c); /* non-zero once fired */
static inline bool td_cancelled(const int *flag) {
  return __atomic_load_n(flag, __ATOMIC_RELAXED) != 0;
}
/* The cause, retained for the caller; NULL while not fired. */
td_status *td_cancel_cause(td_cancel *c);
/* False (and not added) when already fired. */
bool td_cancel_add(td_cancel *c, td_cancel_hook *h);
/* After it returns the hook is not running and will not run. */
void td_cancel_remove(td_cancel *c, td_cancel_hook *h);

/* ---- a step ---- */

struct td_resources;

typedef struct td_step {
  uint64_t id;
  td_cancel *cancel;
  const int *stop;              /* the flag of `cancel` */
  td_rendezvous *rendezvous;
  struct td_resources *resources; /* named containers (the runtime's) */
  struct td_resources *own;       /* the session's default container */
  struct td_resources *scratch;   /* lives as long as the step; may be NULL */
  int threads;                  /* at most so many for one kernel */
  const td_tensor *args;        /* feeds, by _Arg's index */
  td_tensor *rets;              /* fetches, by _Retval's index */
  bool *rets_dead;              /* a dead value reached it */
  /* Where Print writes; NULL: stderr. */
  void (*print)(void *arg, const char *text, size_t len);
  void *print_arg;
  void *trace;                  /* run/trace, NULL when not traced */
  bool check_numerics;          /* the first NaN or infinity is an error */
} td_step;

TD_END
#endif
