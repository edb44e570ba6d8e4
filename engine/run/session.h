/* session.h - runs graphs: feeds in, fetches out.
 *
 * A session binds a graph to devices of a runtime. One run of it is a *step*.
 * Each distinct signature (feeds, fetches, targets) is planned and compiled
 * once and kept in a bounded cache (the one used longest ago goes, counted).
 * The graph may grow between and during steps. Any thread may call; a step
 * never holds the session's lock.
 *
 * What has a header of its own: a signature that is run again and again
 * (callable.h), steps that nobody waits for (async.h, loop.h), a step in several calls
 * (partial.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SESSION_H
#define TD_SESSION_H

#include "engine/plan/plan.h"
#include "engine/run/runtime.h"
#include "engine/run/trace.h"

TD_BEGIN

typedef struct td_session td_session;

enum { TD_QUEUED_BYTES = 1 << 30 };

typedef struct td_session_options {
  int threads;         /* 0: all of the pool */
  int cpu_devices;     /* 0: 1 */
  bool hard_placement; /* an impossible device is an error */
  bool spread;         /* what requests no device goes to any, by its name */
  const char *first;   /* devices that are tried before others: a type, or as a
                          request ("/job:worker/task:1"); NULL: none */
  unsigned passes_off; /* td_plan_pass_bit of those not to run */
  bool verify;         /* check graphs between passes */
  bool roundtrip;      /* parts go through GraphDef bytes */
  int cache;           /* signatures kept, 0: 256 */
  const char *dump;    /* NULL: $TIDE_DUMP */
  int64_t queued_bytes; /* of td_async, 0: TD_QUEUED_BYTES */
  int64_t slow_link; /* bytes/s: float32 values of an edge to a process that was
                        seen to take less go there in 16 bits, unless they are
                        small; 0: never */
} td_session_options;
/* For tests, words of TIDE_TEST in the environment make every session verify or
 * roundtrip, and one that does not say how many CPU devices it wants has two and
 * is spread (two), or tries the type TIDE_DEVICE first, else TEST (test), or the
 * tasks of job worker (worker). */

/* `options` may be NULL. Retains runtime and graph. */
td_status *td_session_new(td_runtime *rt, td_graph *g,
                          const td_session_options *options,
                          td_session **out) TD_MUST_USE;
td_session *td_session_retain(td_session *s);
/* For who has a pointer and no share: false when the last one is going. */
bool td_session_try_retain(td_session *s);
void td_session_release(td_session *s);
/* Cancels running steps and loops, waits for them, drops the default container. Later
 * calls fail with FAILED_PRECONDITION. */
void td_session_close(td_session *s);
/* Cancels its loops of steps and does not wait: for who lets the last handle of
 * `s` go, which the loops outlive otherwise. */
void td_session_end_loops(td_session *s);

typedef struct td_signature {
  const td_edge *feeds;
  int n_feeds;
  const td_edge *fetches;
  int n_fetches;
  td_node *const *targets;
  int n_targets;
} td_signature;

typedef struct td_step_options {
  int64_t timeout;      /* ns, 0: none -> DEADLINE_EXCEEDED */
  td_trace *trace;      /* filled when not NULL */
  bool check_numerics;  /* the first node that gives a NaN or infinity, in the
                           order of computing, fails, and shows its inputs */
  const int *interrupt; /* (optional) the step is cancelled once non-zero; it is
                           looked at every 20 ms while the caller waits */
  /* Where Print writes; NULL: stderr. */
  void (*print)(void *arg, const char *text, size_t len);
  void *print_arg;
  uint64_t draw; /* not 0: random ops draw as this number says, not as the
                    next time they run */
  void (*ended)(void *arg); /* of td_async_start: called once the step is over,
                               on any thread, perhaps before that returns */
  void *ended_arg;
  bool queued; /* of td_async_start: results count until somebody takes them */
  /* (optional) Does what the node of `c` asks the thread that waits to do: sets
   * the outputs. Called where the step is waited for. */
  td_status *(*serve)(struct td_kernel_ctx *c);
} td_step_options;

/* feeds: host tensors, signature order, shared not copied (they must not be
 * written until the step is over). fetches: host tensors, the caller's; on
 * error all invalid. Checks dtype and shape of each feed against its edge. */
td_status *td_session_run(td_session *s, const td_signature *sig,
                          const td_tensor *feeds, td_tensor *fetches,
                          const td_step_options *options) TD_MUST_USE;

/* What a step of `sig` would run: planned anew, for people. Caller owns the
 * result (td_plan_free). */
td_status *td_session_plan(td_session *s, const td_signature *sig,
                           td_plan **out) TD_MUST_USE;

/* Is it a step of `s` that has this caller? False for NULL. */
bool td_session_runs(td_session *s, const td_caller *caller);

/* ---- what kernels keep from step to step ---- */

/* Random streams and the like of all nodes that have run, as bytes, appended;
 * variables are none. */
td_status *td_session_save_states(td_session *s, td_str *out) TD_MUST_USE;
/* Nodes of the same names on the same devices go on from there, those that have
 * not run yet when they do: their names are appended to `waiting`, a line for
 * each (NULL: nobody asks). Hostile bytes are refused. */
td_status *td_session_load_states(td_session *s, td_bytes from,
                                  td_str *waiting) TD_MUST_USE;

/* ---- looking inside ---- */

/* The devices that the next plan may use. Caller owns the list and its shares
 * (td_runtime_drop_devices). */
td_status *td_session_list_devices(td_session *s, td_device ***out,
                                   int *count) TD_MUST_USE;

/* What running steps wait for, in other tasks as well, and who waits for whom;
 * "" when nothing runs. Waits for a second at most, for those that do not
 * answer. */
void td_session_why(td_session *s, td_str *out);
void td_session_explain_placement(td_session *s, td_str *out);
/* Variable `name` of the session's own container is called `to` from now on, or
 * is dropped (NULL); plans are made anew. Nothing when there is none. */
td_status *td_session_rename(td_session *s, const char *name,
                             const char *to) TD_MUST_USE;
/* Drops what nodes made for themselves that were taken out of the graph since
 * (graph/region.h). */
td_status *td_session_sweep(td_session *s) TD_MUST_USE;
/* Drops a named container, this process's and those of the others that take
 * part (NULL: the session's own). The error is of one that did not say that it
 * has. Waits. */
td_status *td_session_reset(td_session *s,
                            const char *container) TD_MUST_USE;

typedef struct td_session_stats {
  int64_t steps, plans, evicted;
  int64_t plan_ns; /* of the last plan and compile */
} td_session_stats;
td_session_stats td_session_read_stats(td_session *s);

/* Which of the signatures in the cache ran when. */
typedef struct td_session_ran {
  uint64_t signature; /* a hash: the same feeds, fetches and targets */
  int64_t last; /* what `steps` was when a step of it last ended well; 0: none */
} td_session_ran;
/* How many there are; the first `room` of them in `out`, in no order. */
size_t td_session_list_ran(td_session *s, td_session_ran *out, size_t room);

TD_END
#endif
