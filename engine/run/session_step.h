/* session_step.h - one step: a run of a compiled signature.
 *
 * Each participant that the signature needs runs a portion of it; the step is
 * over when the last portion is.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SESSION_STEP_H
#define TD_SESSION_STEP_H

#include "engine/base/waiter.h"
#include "engine/run/compiled.h"

enum { TD_CALLER_BUDGET = 1000000 }; /* ns: longer steps are the pool's */

/* What the step knows of a portion. */
typedef struct td_step_portion {
  td_portion *portion;
  td_session_step *step;
  int32_t state; /* atomic: whether it is over, or was given up */
} td_step_portion;

struct td_session_step {
  int32_t refs; /* atomic: who waits for it, and each portion under way */
  td_session *session;   /* retained while running */
  td_compiled *compiled; /* retained while running */
  uint64_t number;       /* in the session; kernels see it */
  td_step_portion *portions;
  int n_portions;
  td_tensor *args, *rets;
  bool *rets_dead;
  td_portion_start options;
  int32_t remaining; /* atomic: portions not over */
  int32_t finished;  /* atomic: status and rets are final */
  int32_t cancelled; /* atomic */
  td_status *status; /* lock: lock, until finished. The first cause */
  pthread_mutex_t lock;
  td_waiter waiter; /* of who waits until it has finished */
  td_caller caller; /* they, for kernels; where options.caller points to it */
  void (*ended)(void *arg); /* (optional) called then, on any thread */
  void *ended_arg;
  int64_t queued; /* atomic: bytes of session->queued that are its own, until
                     its results are taken or let go; -1: it is not counted */
  uint64_t timer;
  bool elsewhere;         /* a portion is not of this process: see give_up */
  bool ending;            /* lock: lock. Nobody is given up any more */
  uint64_t give_up_timer; /* lock: lock */
  int32_t given_up;       /* atomic: that timer has fired */
  td_task give_up;
  td_status *cause;       /* lock: lock. Of the cancel, where `elsewhere` */
  td_task let_go;         /* on the pool: the timer's hold ends */
  uint64_t ask_timer;     /* before the timeout: others are asked why; 0: none */
  td_task asked;          /* as let_go, of that timer */
  td_session_step *prev, *next; /* session->running, or compiled->idle */
};

/* `feeds` are checked and retained. NULL feeds: a partial run. */
td_status *td_session_step_new(td_session *s, td_compiled *c,
                               const td_tensor *feeds, const td_step_options *o,
                               td_session_step **out) TD_MUST_USE;
void td_session_step_release(td_session_step *step);
/* Starts its portions. In this process nothing runs yet unless `wake`: workers
 * are called, and the timeout begins. */
void td_session_step_start(td_session_step *step, bool wake);
/* The same for who will wait for it, where others take part: runs those of its
 * nodes here that are short. False, and nothing was done: nobody else does. */
bool td_session_step_attend(td_session_step *step);
/* Nobody will wait for it any more, nor take its results. */
void td_session_step_unattended(td_session_step *step);
/* May the caller's thread run it? */
bool td_session_step_short(const td_session_step *step);
/* The calling thread works on it until nothing is left to do here, or
 * td_clock_now() passes `until`. */
void td_session_step_work(td_session_step *step, int64_t until);
/* Calls threads of the pool. */
void td_session_step_wake(td_session_step *step);
/* Waits until it is over, `until` (ns) passes or *interrupt: the last two
 * cancel the step when `cancels`, else return DEADLINE_EXCEEDED or CANCELLED.
 */
td_status *td_session_step_wait(td_session_step *step, int64_t until,
                                const int *interrupt, bool cancels) TD_MUST_USE;
bool td_session_step_over(const td_session_step *step);
/* Moves the fetches of a step that is over out, or its error. */
td_status *td_session_step_results(td_session_step *step,
                                   td_tensor *fetches) TD_MUST_USE;
/* Takes ownership of `cause`. */
void td_session_step_cancel(td_session_step *step, td_status *cause);
/* Its error, with what became of its updates where several tasks had a part in
 * it and one of them may have changed something (session_applied.c). Takes
 * ownership of `s`. */
td_status *td_session_step_applied(const td_session_step *step,
                                   td_status *s) TD_MUST_USE;
/* What it waits for; appends lines (session_why.c). Other processes are not
 * asked: what they last said is told. */
void td_session_step_why(td_session_step *step, td_str *out);
/* Asks other processes what they wait for, and waits up to `patience` ns for
 * their answers. */
void td_session_step_inquire(td_session_step *step, int64_t patience);
/* The mailboxes where the client's edges of a partial run meet; NULL: it has
 * none, as it needs nothing here. */
td_rendezvous *td_session_step_mailboxes(const td_session_step *step);

#endif
