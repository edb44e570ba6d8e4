/* participant.h - who runs the parts of a plan: this process, or another.
 *
 * A session plans; its participants run. Each of them stands for one task in
 * one session: what kernels keep from step to step and the session's default
 * container are with it, and go with it. Nobody else knows programs.
 *
 *   enroll    the parts of one signature, compiled or sent away      once
 *   begin     a portion of a step: what one of its steps needs there  kept
 *   start     feeds are there, go                                    each step
 *   over(..)  it has ended, with all that it did                 once a start
 *   reset     values are gone; the portion may start again
 *
 * A portion that was cancelled is over promptly. One that is not (a process
 * that stopped answering) is given up by the step, which then ends without it:
 * `over` may come later, or when the participant is closed; until then what the
 * portion writes to stays valid.
 *
 * The first participant of a session is its own process (participant_local.c).
 * Others join and leave a living session (session_members.h): a table of
 * functions, and a td_device for each of its devices, whose kernels nobody here
 * has to have.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PARTICIPANT_H
#define TD_PARTICIPANT_H

#include "engine/device/resource.h"
#include "engine/plan/plan.h"
#include "engine/run/trace.h"

TD_BEGIN

typedef struct td_participant td_participant;
typedef struct td_enrollment td_enrollment;
typedef struct td_portion td_portion;
struct td_watch;

/* The parts of one signature that are for one participant. */
typedef struct td_roll {
  const td_part *parts; /* borrowed, what they point to retained if needed */
  int n_parts;
  const td_plan_edge *edges; /* of the whole plan; borrowed */
  int32_t n_edges;
  int n_args, n_rets; /* feeds and fetches of the whole signature */
  uint64_t signature; /* of the whole signature, unique in the process: the
                         rolls of one plan share it */
} td_roll;

/* Do its parts write variables? */
bool td_session_updates(const td_roll *roll);

/* ns of one execution of a node on a device, a decaying average. */
typedef void (*td_each_cost)(void *arg, const td_device *d, const char *node,
                             int64_t ns);

/* What is told with each start. `trace` and `print` are the caller's, and may be
 * gone once the portion was cancelled: who is not of this process uses them in
 * `over` at the latest, and never after a cancel. */
typedef struct td_portion_start {
  uint64_t step; /* the number that kernels see: the session's */
  int64_t timeout; /* ns, 0: none; for those who cannot be cancelled in time */
  td_trace *trace; /* filled when not NULL */
  bool check_numerics;
  void (*print)(void *arg, const char *text, size_t len);
  void *print_arg;
  uint64_t draw; /* see td_step */
  td_caller *caller; /* of this process only; NULL: none */
} td_portion_start;

/* What became of the updates of a portion. */
typedef enum td_applied {
  TD_APPLIED_NONE,    /* nothing that writes a variable was begun */
  TD_APPLIED_UNKNOWN, /* some may have been */
  TD_APPLIED_ALL,
} td_applied;

/* A participant's portion of a step; its maker's struct begins with it. What
 * the fields point to is the step's. */
struct td_portion {
  td_participant *of;
  const td_tensor *args; /* feeds by index, there before start */
  td_tensor *rets;       /* fetches by index: it sets those that are its own */
  bool *rets_dead;
  td_rendezvous *rendezvous; /* where the client's edges meet; NULL: not here */
  int32_t applied; /* atomic: td_applied. Of a start; when it is over without an
                      error, UNKNOWN is ALL */
  /* The end of a start: `s` is the first cause of failure, over's to own. */
  void (*over)(void *arg, td_status *s);
  void *over_arg;
  /* Takes what goes over an edge to another participant; takes ownership of
   * *value (invalid when dead). NULL: there is no other. */
  td_status *(*send)(void *arg, td_key key, td_tensor *value, bool dead);
  void *send_arg;
  /* (optional) A value that comes from another participant is waited for from
   * now on and is not there yet (td_rendezvous_expect). */
  void (*wanted)(void *arg, td_key key);
  void *wanted_arg;
};

/* What a participant can do. All but those marked so are called by any thread,
 * several at once. */
typedef struct td_participant_ops {
  /* Takes what it needs of `roll`. Caller owns the result (forget). */
  td_status *(*enroll)(td_participant *p, const td_roll *roll,
                       td_enrollment **out);
  void (*forget)(td_enrollment *e);
  /* ns of one step of it, from earlier ones; 0: unknown. */
  int64_t (*cost)(const td_enrollment *e);
  /* Calls each(arg, ..) with what every node took, 0: unknown. */
  void (*costs)(const td_enrollment *e, td_each_cost each, void *arg);
  /* A portion of steps of `e`. Caller owns the result (end). */
  td_status *(*begin)(td_enrollment *e, int threads, td_portion **out);
  void (*start)(td_portion *n, const td_portion_start *o);
  /* Any number of times; before start, too, which is then over at once. Takes
   * ownership of `cause`. */
  void (*cancel)(td_portion *n, td_status *cause);
  /* A value that another participant sent; takes ownership of *value. */
  td_status *(*deliver)(td_portion *n, td_key key, td_tensor *value, bool dead);
  /* (optional) Another portion's receiver waits for the value of an edge from
   * this one, which is not there yet: before start, too. */
  void (*wanted)(td_portion *n, td_key key);
  /* (optional) The portion of the session's own process is over: what it did
   * not take of this one nobody will. Once a start, before start, too. */
  void (*unwanted)(td_portion *n);
  /* What it waits for; appends lines. Waits for nobody. */
  void (*why)(td_portion *n, td_str *out);
  /* (optional; NULL: `why` knows all.) Asks its process, which `why` then tells
   * of; with `until` other than 0 waits for the answer, until td_clock_now()
   * passes it. */
  void (*inquire)(td_portion *n, int64_t until);
  /* It is over: makes it ready for another start. False: it cannot be used
   * again, and is to be ended. */
  bool (*reset)(td_portion *n);
  void (*end)(td_portion *n);
  /* (optional; NULL: it needs no thread of ours.) The calling thread works on
   * it until nothing is left or td_clock_now() passes `until`; `wake` calls
   * threads of the pool. */
  void (*work)(td_portion *n, int64_t until);
  void (*wake)(td_portion *n);
  /* For a thread that waits for the step: runs what nobody comes to; returns
   * how many ns it may sleep before it looks again (team.h). */
  int64_t (*watch)(td_portion *n, struct td_watch *w);
  /* (optional; NULL: its own thread is quick enough.) For a thread that waits
   * for the step: does what the participant's own thread would do, until
   * ready(arg), td_clock_now() passes `until`, or *interrupt (may be NULL).
   * `nudge` has it look whether it is ready. Several threads may come. */
  void (*pump)(td_portion *n, int64_t until, const int *interrupt,
               bool (*ready)(void *arg), void *arg);
  void (*nudge)(td_portion *n);
  /* (optional, with pump) This thread starts the step and will pump: what it
   * says until the second call, with false, may go at once then. */
  void (*attend)(td_portion *n, bool begins);
  /* The session's variable `name` is called `to` from now on, or dropped
   * (NULL). Nothing when there is none. */
  td_status *(*rename)(td_participant *p, const char *name, const char *to);
  /* (optional for others) Appends the names of the session's variables that
   * live on `d`, ", " between them. For devices of this process (else NULL): drops
   * them. */
  void (*lives)(td_participant *p, const td_device *d, td_str *names);
  void (*drop)(td_participant *p, const td_device *d);
  /* (optional) Drops what belongs to nodes that are no more. */
  void (*sweep)(td_participant *p, const td_makers *alive);
  /* What kernels keep there: states.h. `waiting` may be NULL. */
  td_status *(*save)(td_participant *p, td_str *out);
  td_status *(*load)(td_participant *p, td_bytes from, td_str *waiting);
  /* Drops the session's default container. */
  void (*clear)(td_participant *p);
  /* (for others; this process: NULL) Drops its process's container of that
   * name, which other sessions share. */
  td_status *(*reset_container)(td_participant *p, const char *container);
  /* The session is closed, or goes on without it: portions still out are over
   * soon. Once. */
  void (*close)(td_participant *p);
  void (*free)(td_participant *p);
} td_participant_ops;

/* Its maker's struct begins with it. */
struct td_participant {
  const td_participant_ops *ops;
  int32_t refs;     /* atomic */
  const char *task; /* "/job:localhost/replica:0/task:0" */
  uint64_t session[2]; /* whose it is: 128 random bits */
};

static inline td_participant *td_participant_retain(td_participant *p) {
  __atomic_fetch_add(&p->refs, 1, __ATOMIC_RELAXED);
  return p;
}
static inline void td_participant_release(td_participant *p) {
  if (p && __atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL) == 0)
    p->ops->free(p);
}

/* This process as a participant, for a session of its own or another's.
 * `sealed`: parts go through bytes, as those of others do. Retains the runtime.
 * Caller owns the result. */
struct td_runtime;
td_status *td_participant_local_new(struct td_runtime *rt,
                                    const uint64_t session[2], bool sealed,
                                    td_participant **out) TD_MUST_USE;

TD_END
#endif
