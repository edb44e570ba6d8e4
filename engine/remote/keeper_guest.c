/* keeper_guest.c - a client's end of a kept session: what it registers grows
 * the session's graph, what it runs are the session's steps.
 *
 * A step ends on any thread, perhaps before its start returns; the portion's
 * `over` may have it started again or ended. So whoever starts touches nothing
 * of the portion after the step has begun.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "engine/base/io_threads.h"
#include "engine/base/mem.h"
#include "engine/remote/keeper_impl.h"
#include "engine/run/callable_impl.h"

/* Is a td_enrollment for the worker's files. */
typedef struct kept_roll {
  td_keeper_guest *of; /* a share */
  td_callable *callable;
} kept_roll;

typedef struct kept_portion {
  td_portion base; /* first */
  kept_roll *roll;
  pthread_mutex_t lock;
  td_session_step *step; /* lock: lock. A share, while it is under way */
  td_status *cause;      /* lock: lock. Of its cancel */
} kept_portion;

/* ---- signatures ---------------------------------------------------------- */

static void forget(td_enrollment *enrolled) {
  kept_roll *e = (kept_roll *)enrolled;
  if (!e) return;
  td_callable_release(e->callable);
  td_participant_release(&e->of->base);
  td_free(e);
}

static td_status *make_callable(td_keeper_guest *g, const td_roll *roll,
                                td_callable **out) {
  td_kept_signature own;
  if (roll->n_parts != 1 || roll->n_edges != 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "a signature of a kept session is one part, not %d with "
                    "%d edges",
                    roll->n_parts, (int)roll->n_edges);
  TD_TRY(td_kept_merge(g->kept, &g->id, roll->parts[0].graph, roll->n_args,
                       roll->n_rets, &own));
  td_signature sig = {.feeds = own.feeds,
                      .n_feeds = own.n_feeds,
                      .fetches = own.fetches,
                      .n_fetches = own.n_fetches,
                      .targets = own.targets,
                      .n_targets = own.n_targets};
  td_status *s = td_callable_new(g->kept->session, &sig, out);
  td_kept_signature_deinit(&own);
  return s;
}

static td_status *enroll(td_participant *p, const td_roll *roll,
                         td_enrollment **out) {
  td_keeper_guest *g = (td_keeper_guest *)p;
  kept_roll *e = td_calloc(1, sizeof *e);
  if (!e) return td_oom();
  td_status *s = make_callable(g, roll, &e->callable);
  if (!td_ok(s)) {
    td_free(e);
    return s;
  }
  td_participant_retain(p);
  e->of = g;
  *out = (td_enrollment *)e;
  return NULL;
}

/* Its steps find threads by themselves. */
static int64_t cost(const td_enrollment *e) {
  (void)e;
  return 0;
}

static void costs(const td_enrollment *e, td_each_cost each, void *arg) {
  (void)e, (void)each, (void)arg;
}

td_callable *td_keeper_callable(td_enrollment *e) {
  return ((kept_roll *)e)->callable;
}

/* ---- portions ------------------------------------------------------------ */

static td_status *begin(td_enrollment *enrolled, int threads,
                        td_portion **out) {
  kept_portion *p = td_calloc(1, sizeof *p);
  (void)threads;
  if (!p) return td_oom();
  p->roll = (kept_roll *)enrolled;
  p->base.of = &p->roll->of->base;
  pthread_mutex_init(&p->lock, NULL);
  *out = &p->base;
  return NULL;
}

static void end(td_portion *n) {
  kept_portion *p = (kept_portion *)n;
  td_status_release(p->cause);
  pthread_mutex_destroy(&p->lock);
  td_free(p);
}

static bool reset(td_portion *n) {
  return ((kept_portion *)n)->cause == NULL;
}

/* The step is over. */
static void ended(void *arg) {
  kept_portion *p = arg;
  pthread_mutex_lock(&p->lock);
  td_session_step *step = p->step;
  p->step = NULL;
  pthread_mutex_unlock(&p->lock);
  td_status *s = td_session_step_results(step, p->base.rets);
  td_session_step_release(step);
  p->base.over(p->base.over_arg, s);
}

static td_session_step *share(td_session_step *step) {
  if (step) __atomic_fetch_add(&step->refs, 1, __ATOMIC_RELAXED);
  return step;
}

static td_status *make_step(kept_portion *p, const td_portion_start *o,
                            td_session_step **out) {
  td_compiled *now;
  td_step_options how = {.trace = o->trace,
                         .check_numerics = o->check_numerics,
                         .print = o->print,
                         .print_arg = o->print_arg,
                         .draw = o->draw};
  TD_TRY(td_callable_current(p->roll->callable, &now));
  TD_TRY(td_session_step_new(p->roll->of->kept->session, now, p->base.args,
                             &how, out));
  (*out)->ended = ended;
  (*out)->ended_arg = p;
  return NULL;
}

static void start(td_portion *n, const td_portion_start *o) {
  kept_portion *p = (kept_portion *)n;
  td_session_step *step = NULL;
  td_status *s = make_step(p, o, &step);
  pthread_mutex_lock(&p->lock);
  p->step = share(step);
  td_status *cause = td_status_retain(p->cause);
  pthread_mutex_unlock(&p->lock);
  if (!td_ok(s)) {
    td_status_release(cause);
    n->over(n->over_arg, s);
    return;
  }
  if (cause) td_session_step_cancel(step, cause);
  td_session_step_start(step, true);
  td_session_step_release(step);
}

static td_session_step *step_of(kept_portion *p) {
  pthread_mutex_lock(&p->lock);
  td_session_step *step = share(p->step);
  pthread_mutex_unlock(&p->lock);
  return step;
}

static void cancel(td_portion *n, td_status *cause) {
  kept_portion *p = (kept_portion *)n;
  pthread_mutex_lock(&p->lock);
  if (!p->cause) p->cause = td_status_retain(cause);
  td_session_step *step = share(p->step);
  pthread_mutex_unlock(&p->lock);
  if (step)
    td_session_step_cancel(step, cause);
  else
    td_status_release(cause);
  td_session_step_release(step);
}

static void why(td_portion *n, td_str *out) {
  td_session_step *step = step_of((kept_portion *)n);
  if (step) td_session_step_why(step, out);
  td_session_step_release(step);
}

/* Nothing leads to it from other parts. */
static td_status *deliver(td_portion *n, td_key key, td_tensor *value,
                          bool dead) {
  (void)n, (void)key, (void)dead;
  td_tensor_release(value);
  return td_error(TD_INVALID_ARGUMENT, "a kept session takes feeds only");
}

static void no_work(td_portion *n) {
  (void)n;
}

static void no_work_until(td_portion *n, int64_t until) {
  (void)n, (void)until;
}

/* ---- what is asked of a session's end ------------------------------------ */

static td_session *session_of(td_participant *p) {
  return ((td_keeper_guest *)p)->kept->session;
}

static td_status *rename_variable(td_participant *p, const char *name,
                                  const char *to) {
  return td_kept_rename(((td_keeper_guest *)p)->kept, name, to);
}

static void lives(td_participant *p, const td_device *d, td_str *names) {
  (void)p, (void)d, (void)names;
}

static void drop(td_participant *p, const td_device *d) {
  (void)p, (void)d;
}

static void sweep(td_participant *p, const td_makers *alive) {
  td_keeper_guest *g = (td_keeper_guest *)p;
  td_status_release(td_kept_sweep(g->kept, &g->id, alive));
}

static td_status *save(td_participant *p, td_str *out) {
  return td_session_save_states(session_of(p), out);
}

static td_status *load(td_participant *p, td_bytes from, td_str *waiting) {
  return td_session_load_states(session_of(p), from, waiting);
}

static void clear(td_participant *p) {
  td_status_release(td_session_reset(session_of(p), NULL));
}

/* ---- its end ------------------------------------------------------------- */

/* A session that ends, on an I/O thread: its steps are waited for. */
typedef struct ending {
  td_task task;
  td_kept_session *kept; /* a share */
} ending;

static void end_kept(td_task *task) {
  ending *e = (ending *)task;
  td_kept_end(e->kept);
  td_kept_release(e->kept);
  td_free(e);
}

static void end_later(td_kept_session *k) {
  ending *e = td_calloc(1, sizeof *e);
  if (e) {
    e->task.run = end_kept;
    e->kept = td_kept_retain(k);
    if (td_io_submit(&e->task)) return;
    end_kept(&e->task);
  } else {
    td_kept_end(k);
  }
}

/* Inside of the turn. */
static void leave(td_keeper_guest *g) {
  td_kept_session *k = g->kept;
  size_t i = 0;
  while (i < k->guests.len && !td_session_id_same(&k->guests.at[i], &g->id))
    i++;
  if (i < k->guests.len) k->guests.at[i] = k->guests.at[--k->guests.len];
}

static void close_guest(td_participant *p) {
  td_keeper_guest *g = (td_keeper_guest *)p;
  td_kept_session *k = g->kept;
  td_remote_enter(k->of);
  leave(g);
  bool own = td_session_id_same(&k->maker, &g->id);
  bool ends = !k->outlive && own && !k->ended;
  td_remote_leave(k->of);
  if (ends) end_later(k);
}

static void free_later(td_task *task) {
  td_keeper_guest *g =
      (td_keeper_guest *)((char *)task - offsetof(td_keeper_guest, task));
  td_kept_release(g->kept);
  td_free(g);
}

/* Who lets go of it may be in the turn, and a session may go with it. */
static void free_guest(td_participant *p) {
  td_keeper_guest *g = (td_keeper_guest *)p;
  g->task.run = free_later;
  td_pool_submit(&g->task);
}

static const td_participant_ops ops = {.enroll = enroll,
                                       .forget = forget,
                                       .cost = cost,
                                       .costs = costs,
                                       .begin = begin,
                                       .start = start,
                                       .cancel = cancel,
                                       .deliver = deliver,
                                       .why = why,
                                       .reset = reset,
                                       .end = end,
                                       .work = no_work_until,
                                       .wake = no_work,
                                       .rename = rename_variable,
                                       .lives = lives,
                                       .drop = drop,
                                       .sweep = sweep,
                                       .save = save,
                                       .load = load,
                                       .clear = clear,
                                       .close = close_guest,
                                       .free = free_guest};

td_keeper_guest *td_keeper_guest_of(td_participant *p) {
  return p->ops == &ops ? (td_keeper_guest *)p : NULL;
}

td_status *td_keeper_guest_new(td_kept_session *k, const td_session_id *id,
                               td_participant **out) {
  td_keeper_guest *g = td_calloc(1, sizeof *g);
  if (!g) return td_oom();
  g->base = (td_participant){.ops = &ops,
                             .refs = 1,
                             .task = td_runtime_place(k->of->runtime),
                             .session = {id->high, id->low}};
  g->kept = td_kept_retain(k);
  g->id = *id;
  *out = &g->base;
  return NULL;
}
