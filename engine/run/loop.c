/* loop.c - chains of steps on the pool.
 *
 * A chain's task runs steps as a caller would: a short one on its thread, a
 * long one by calling workers. Then either the step is over, and the task goes
 * on with the next, no deeper in the stack; or the task returns, and whoever
 * ends the step submits it again. Which of the two, `at` decides: each of them
 * exchanges it, and who comes second goes on.
 *
 * When the loop is stopped nothing more needs the pool: a chain whose task
 * waits there is ended by who stops it, one whose step is in flight by who ends
 * that step. The last step, of at_end or at_error, is a chain that never had a
 * task: it is begun on the thread that saw the end.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/loop.h"

#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/run/callable_impl.h"
#include "engine/run/team.h"

enum { CHAINS_MOST = 256, KEPT_MOST = 10000, KEPT_BYTES = 64 << 20 };

enum { GOING, LEFT, ENDED }; /* chain.at */

typedef struct chain {
  td_task task; /* first: the pool hands it back */
  td_loop *loop;
  td_callable *runs;     /* retained; NULL: the last step's */
  td_session_step *step; /* lock: loop->lock. In flight, or just over */
  bool queued;           /* lock: loop->lock. The task waits in the pool */
  bool enough;           /* lock: loop->lock. OUT_OF_RANGE */
  int64_t number;        /* of its step, from 1 */
  int32_t at;            /* atomic */
} chain;

/* The values of a logged step. */
typedef struct record {
  struct record *next;
  int64_t step, bytes;
  td_tensor value[];
} record;

struct td_loop {
  int32_t refs;           /* atomic: handles, chains, tasks in the pool */
  td_session_guest guest; /* of the session */
  td_session *session;    /* the callables retain it */
  td_callable *log, *at_end, *at_error;
  char **names; /* n_log of them */
  int n_log, n_chains;
  int64_t every, most; /* most < 0: no end */
  int32_t over;        /* atomic */
  int32_t stop;        /* atomic, written under lock */
  td_waiter waiter;    /* over or stop */
  pthread_mutex_t lock;
  int active;           /* lock: lock. Chains not ended */
  bool last_begun;      /* lock: lock. Of what comes in the end */
  bool end_begun;       /* lock: lock. at_end was */
  bool closing;         /* lock: lock. The session ends it */
  int64_t begun, steps; /* lock: lock */
  td_status *status;    /* lock: lock */
  int64_t failed;       /* lock: lock. When that came */
  record *first, *last; /* lock: lock. By step */
  int64_t kept, bytes;  /* lock: lock */
  chain chain[];        /* n_chains, then that of the last step */
};

static td_loop *of_guest(td_session_guest *g) {
  return (td_loop *)((char *)g - offsetof(td_loop, guest));
}

td_loop *td_loop_retain(td_loop *l) {
  __atomic_fetch_add(&l->refs, 1, __ATOMIC_RELAXED);
  return l;
}

/* ---- the log ---- */

static void record_free(const td_loop *l, record *r) {
  for (int i = 0; i < l->n_log; i++) td_tensor_release(&r->value[i]);
  td_free(r);
}

static void forget_oldest(td_loop *l) {
  record *r = l->first;
  l->first = r->next;
  if (!l->first) l->last = NULL;
  l->kept--;
  l->bytes -= r->bytes;
  record_free(l, r);
}

/* By step: chains may end theirs in another order. Lock held. */
static void insert(td_loop *l, record *r) {
  record **at = &l->first;
  if (l->last && l->last->step < r->step) at = &l->last->next;
  while (*at && (*at)->step < r->step) at = &(*at)->next;
  r->next = *at;
  *at = r;
  if (!r->next) l->last = r;
  l->kept++;
  l->bytes += r->bytes;
  while (l->kept > KEPT_MOST || (l->bytes > KEPT_BYTES && l->kept > 1))
    forget_oldest(l);
}

/* Takes the first values; without memory they are let go. */
static void keep(td_loop *l, int64_t step, td_tensor *values) {
  size_t size = (size_t)l->n_log * sizeof *values;
  record *r = td_malloc(sizeof *r + size);
  if (!r) return;
  *r = (record){.step = step};
  for (int i = 0; i < l->n_log; i++) {
    r->bytes += (int64_t)td_tensor_bytes(&values[i]);
    r->value[i] = values[i];
    values[i] = (td_tensor){0};
  }
  pthread_mutex_lock(&l->lock);
  insert(l, r);
  pthread_mutex_unlock(&l->lock);
}

int td_loop_logs(const td_loop *l) {
  return l->n_log;
}

const char *td_loop_log_name(const td_loop *l, int i) {
  return l->names[i];
}

int64_t td_loop_log(td_loop *l, int64_t *steps, td_tensor *values,
                    int64_t room) {
  pthread_mutex_lock(&l->lock);
  int64_t n = 0, kept = l->kept;
  for (record *r = l->first; r && n < room; r = r->next, n++) {
    steps[n] = r->step;
    for (int i = 0; i < l->n_log; i++)
      td_tensor_retain(&r->value[i], &values[n * l->n_log + i]);
  }
  pthread_mutex_unlock(&l->lock);
  return kept;
}

/* ---- stopping ---- */

void td_loop_release(td_loop *l) {
  if (!l || __atomic_fetch_sub(&l->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
  while (l->first) forget_oldest(l);
  for (int i = 0; l->names && i < l->n_log; i++) td_free(l->names[i]);
  td_free(l->names);
  for (int i = 0; i < l->n_chains; i++) td_callable_release(l->chain[i].runs);
  td_callable_release(l->log);
  td_callable_release(l->at_end);
  td_callable_release(l->at_error);
  td_status_release(l->status);
  pthread_mutex_destroy(&l->lock);
  td_free(l);
}

static void run_last(td_loop *l, td_callable *what, const td_tensor *feeds);
static void end_last(chain *c, bool ok);

/* The last step is about to begin, with a chain of its own. Lock held. */
static void add_last(td_loop *l) {
  l->last_begun = true;
  l->active++;
  td_loop_retain(l);
}

/* One chain will begin no more steps. */
static void end_chain(td_loop *l) {
  pthread_mutex_lock(&l->lock);
  bool well = l->active == 1 && l->at_end && !l->stop && !l->last_begun;
  if (well) add_last(l);
  bool last = --l->active == 0;
  pthread_mutex_unlock(&l->lock);
  if (well) run_last(l, l->at_end, NULL);
  if (last) {
    td_session_unguest(l->session, &l->guest);
    __atomic_store_n(&l->over, 1, __ATOMIC_RELEASE);
    td_waiter_wake(&l->waiter);
  }
  td_loop_release(l);
}

static bool is_stopped(const td_loop *l) {
  return __atomic_load_n(&l->stop, __ATOMIC_ACQUIRE) != 0;
}

/* What is in flight in chain `c`, retained; NULL: nothing. */
static td_session_step *in_flight(td_loop *l, chain *c) {
  pthread_mutex_lock(&l->lock);
  td_session_step *step = c->step;
  if (step) __atomic_fetch_add(&step->refs, 1, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&l->lock);
  return step;
}

/* Takes the chain from its task, which waits in the pool. */
static bool claim(td_loop *l, chain *c) {
  pthread_mutex_lock(&l->lock);
  bool mine = c->queued;
  c->queued = false;
  pthread_mutex_unlock(&l->lock);
  return mine;
}

/* Why the steps of a loop that is stopped end. */
static td_status *stopped(void) {
  return td_status_derive(td_error(TD_CANCELLED, "the loop was stopped"));
}

static void finish(chain *c);

static void stop_chain(td_loop *l, chain *c) {
  if (claim(l, c)) {
    if (c->step) finish(c);
    end_chain(l);
    return;
  }
  td_session_step *step = in_flight(l, c);
  if (!step) return;
  td_session_step_cancel(step, stopped());
  td_session_step_release(step);
}

/* The last step of one that failed by `cause`; without memory for that text it
 * is at_end, so that nobody waits for more. */
static void tell(td_loop *l, const td_status *cause) {
  td_tensor feeds[2] = {{0}, {0}};
  td_shape scalar = td_shape_scalar();
  td_str text;
  td_str_init(&text);
  td_str_add(&text, td_status_message(cause));
  if (*td_status_node(cause))
    td_str_addf(&text, " (%s, node \"%s\"", td_status_op(cause),
                td_status_node(cause));
  if (*td_status_node(cause) && *td_status_origin(cause))
    td_str_addf(&text, ", %s", td_status_origin(cause));
  if (*td_status_node(cause)) td_str_add(&text, ")");
  td_status *s = text.failed ? td_oom() : NULL;
  if (td_ok(s))
    s = td_tensor_scalar_i(TD_INT32, td_status_code(cause), &feeds[0]);
  if (td_ok(s))
    s = td_tensor_strings(&scalar, (const char *const[]){td_str_c(&text)},
                          (size_t[]){text.len}, &feeds[1]);
  if (td_ok(s))
    run_last(l, l->at_error, feeds);
  else
    end_last(&l->chain[l->n_chains], false);
  td_status_release(s);
  td_tensor_release(&feeds[0]);
  td_tensor_release(&feeds[1]);
  td_str_deinit(&text);
}

/* Takes ownership of the cause; true: it is the one that ends the loop. Lock
 * held. */
static bool set_cause(td_loop *l, td_status *why) {
  bool first = !l->stop && l->active > 0;
  if (l->active > 0)
    l->status = td_status_first(l->status, why);
  else
    td_status_release(why);
  if (!first) return false;
  l->failed = td_clock_now();
  __atomic_store_n(&l->stop, 1, __ATOMIC_RELEASE);
  return true;
}

/* Ends the loop with `why`, its to own, unless it has ended; so that who
 * depends on it is told, if `tells`. */
static void stop(td_loop *l, td_status *why, bool tells) {
  pthread_mutex_lock(&l->lock);
  bool first = set_cause(l, why), cuts = !tells && !l->closing;
  l->closing = l->closing || !tells;
  tells = tells && first && l->at_error && !l->last_begun;
  if (tells) add_last(l);
  td_status *cause = tells ? td_status_retain(l->status) : NULL;
  pthread_mutex_unlock(&l->lock);
  if (!first && !cuts) return;
  td_loop_retain(l);
  td_waiter_wake(&l->waiter);
  if (tells) tell(l, cause);
  td_status_release(cause);
  for (int i = 0; first && i < l->n_chains; i++) stop_chain(l, &l->chain[i]);
  if (!tells) stop_chain(l, &l->chain[l->n_chains]);
  td_loop_release(l);
}

void td_loop_cancel(td_loop *l) {
  stop(l, td_error(TD_CANCELLED, "cancelled"), true);
}

/* ---- a chain ---- */

static bool is_logged(const td_loop *l, int64_t number) {
  return l->log && number % l->every == 0;
}

/* The number of the next step; 0: there is none. */
static int64_t next_number(chain *c) {
  td_loop *l = c->loop;
  pthread_mutex_lock(&l->lock);
  bool more = !l->stop && !c->enough && (l->most < 0 || l->begun < l->most);
  int64_t number = more ? ++l->begun : 0;
  pthread_mutex_unlock(&l->lock);
  return number;
}

static bool is_closed(td_session *s) {
  pthread_mutex_lock(&s->lock);
  bool closed = s->closed;
  pthread_mutex_unlock(&s->lock);
  return closed;
}

/* No more steps of what chain `c` runs. Lock held. */
static void no_more(chain *c) {
  td_loop *l = c->loop;
  for (int i = 0; i < l->n_chains; i++)
    if (l->chain[i].runs == c->runs) l->chain[i].enough = true;
}

/* The step of chain `c` ended by `code`: true where that is no error. */
static bool ended_well(chain *c, td_code code) {
  td_loop *l = c->loop;
  bool closed = code == TD_CANCELLED && is_closed(l->session);
  pthread_mutex_lock(&l->lock);
  c->step = NULL;
  l->steps += code == TD_OK;
  bool echo = l->stop && code == TD_CANCELLED;
  bool enough = code == TD_OUT_OF_RANGE ||
                (code == TD_CANCELLED && l->at_end && !echo && !closed);
  if (enough) no_more(c);
  pthread_mutex_unlock(&l->lock);
  return code == TD_OK || enough || echo;
}

/* The chain's step is over: what it gave. */
static void finish(chain *c) {
  td_loop *l = c->loop;
  td_session_step *step = c->step;
  bool logged = is_logged(l, c->number);
  td_tensor few[8], *values = NULL;
  int n = step->compiled->n_fetches;
  if (logged) values = n <= 8 ? few : td_malloc((size_t)n * sizeof *values);
  td_status *s = td_session_step_results(step, values);
  if (td_ok(s) && values) keep(l, c->number, values);
  for (int i = 0; values && i < n; i++) td_tensor_release(&values[i]);
  if (values != few) td_free(values);
  bool well = ended_well(c, td_status_code(s));
  td_session_step_release(step);
  if (well)
    td_status_release(s);
  else
    stop(l, s, true);
}

/* Has the pool run the task, unless nothing is to be begun. */
static void submit(chain *c) {
  td_loop *l = c->loop;
  pthread_mutex_lock(&l->lock);
  bool goes_on = !l->stop;
  c->queued = goes_on;
  if (goes_on) td_loop_retain(l); /* before it can be claimed */
  pthread_mutex_unlock(&l->lock);
  if (goes_on) {
    td_pool_submit(&c->task);
    return;
  }
  if (c->step) finish(c);
  end_chain(l);
}

/* On the thread that ended the step. */
static void step_ended(void *arg) {
  chain *c = arg;
  if (__atomic_exchange_n(&c->at, ENDED, __ATOMIC_ACQ_REL) == LEFT) submit(c);
}

static td_status *begin(chain *c, td_callable *what, const td_tensor *feeds,
                        void (*ended)(void *arg)) {
  static const td_tensor none;
  td_loop *l = c->loop;
  td_compiled *now;
  td_session_step *step = NULL;
  TD_TRY(td_callable_current(what, &now));
  TD_TRY(
      td_session_step_new(l->session, now, feeds ? feeds : &none, NULL, &step));
  step->ended = ended;
  step->ended_arg = c;
  __atomic_store_n(&c->at, GOING, __ATOMIC_RELAXED);
  pthread_mutex_lock(&l->lock);
  c->step = step;
  bool late = c->runs ? l->stop : l->closing;
  pthread_mutex_unlock(&l->lock);
  if (late) td_session_step_cancel(step, stopped());
  return NULL;
}

static td_status *begin_next(chain *c, int64_t number) {
  td_callable *what = is_logged(c->loop, number) ? c->loop->log : c->runs;
  c->number = number;
  return begin(c, what, NULL, step_ended);
}

/* Runs the chain's step as far as it is run here; true: it is over. */
static bool go(chain *c) {
  td_session_step *step = c->step;
  td_session_step_start(step, false);
  if (td_session_step_short(step) || is_stopped(c->loop))
    td_session_step_work(step, td_clock_now() + TD_CALLER_BUDGET);
  else
    td_session_step_wake(step);
  return __atomic_exchange_n(&c->at, LEFT, __ATOMIC_ACQ_REL) == ENDED;
}

/* Why no step could be begun: a session that closes may not have told the loop
 * yet. Takes ownership of `why`. */
static td_status *cause_of(td_session *s, td_status *why) {
  if (!is_closed(s)) return why;
  td_status_release(why);
  return td_error(TD_CANCELLED, "the session was closed");
}

/* Until a step goes on elsewhere, the thread's turn is over, or the end. */
static void run_steps(chain *c) {
  td_loop *l = c->loop;
  td_turn turn = {.shares = true};
  if (c->step) finish(c);
  for (int64_t number; (number = next_number(c));) {
    td_status *s = begin_next(c, number);
    if (!td_ok(s)) {
      stop(l, cause_of(l->session, s), true);
      break;
    }
    if (!go(c)) return;
    finish(c);
    if (td_turn_over(&turn)) {
      submit(c);
      return;
    }
  }
  end_chain(l);
}

static void run_chain(td_task *task) {
  chain *c = (chain *)task;
  td_loop *l = c->loop;
  if (claim(l, c)) run_steps(c);
  td_loop_release(l);
}

/* ---- the last step ---- */

/* Its chain ends; but where at_error came to nothing, for lack of memory, say,
 * at_end is tried: better that the end is known than nothing. */
static void end_last(chain *c, bool ok) {
  td_loop *l = c->loop;
  pthread_mutex_lock(&l->lock);
  bool again = !ok && l->at_end && !l->end_begun && !l->closing;
  pthread_mutex_unlock(&l->lock);
  if (again)
    run_last(l, l->at_end, NULL);
  else
    end_chain(l);
}

static void finish_last(chain *c) {
  td_loop *l = c->loop;
  td_session_step *step = c->step;
  pthread_mutex_lock(&l->lock);
  c->step = NULL;
  pthread_mutex_unlock(&l->lock);
  td_status *s = td_session_step_results(step, NULL);
  bool ok = td_ok(s);
  td_status_release(s);
  td_session_step_release(step);
  end_last(c, ok);
}

static void last_ended(void *arg) {
  chain *c = arg;
  if (__atomic_exchange_n(&c->at, ENDED, __ATOMIC_ACQ_REL) == LEFT)
    finish_last(c);
}

/* After add_last. */
static void run_last(td_loop *l, td_callable *what, const td_tensor *feeds) {
  chain *c = &l->chain[l->n_chains];
  pthread_mutex_lock(&l->lock);
  l->end_begun = what == l->at_end;
  pthread_mutex_unlock(&l->lock);
  td_status *s = begin(c, what, feeds, last_ended);
  bool ok = td_ok(s);
  td_status_release(s);
  if (!ok)
    end_last(c, false);
  else if (go(c))
    finish_last(c);
}

/* ---- the session's ---- */

static void hold_guest(td_session_guest *g) {
  td_loop_retain(of_guest(g));
}

static void end_guest(td_session_guest *g, td_status *why, bool wait) {
  td_loop *l = of_guest(g);
  stop(l, why, false);
  if (wait) td_status_release(td_loop_wait(l, -1, NULL));
  td_loop_release(l);
}

int td_session_loops(td_session *s, td_loop **out, int room) {
  int n = 0;
  pthread_mutex_lock(&s->lock);
  for (td_session_guest *g = s->guests; g; g = g->next, n++)
    if (n < room) out[n] = td_loop_retain(of_guest(g));
  pthread_mutex_unlock(&s->lock);
  return n;
}

/* ---- the handle ---- */

static td_status *check_feeds(const td_callable *c) {
  int n = c ? td_callable_held(c)->n_feeds : 0;
  if (n == 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "a loop takes no feeds; this signature has %d", n);
}

static td_status *check_at_error(const td_callable *c) {
  if (!c) return NULL;
  const td_compiled *at = td_callable_held(c);
  if (at->n_feeds == 2 && td_edge_dtype(at->feeds[0]) == TD_INT32 &&
      td_edge_dtype(at->feeds[1]) == TD_STRING)
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "what a loop runs at an error is fed its code, int32, and "
                  "its message, string");
}

static td_status *check_log(const td_loop_options *o) {
  if (!o->log) return NULL;
  int most = td_callable_held(o->log)->n_fetches;
  if (o->n_log < 0 || o->n_log > most)
    return td_error(
        TD_INVALID_ARGUMENT,
        "a loop logs 0 to %d values, as many as are fetched, not %d", most,
        o->n_log);
  if (o->n_more == 0) return check_feeds(o->log);
  return td_error(TD_INVALID_ARGUMENT, "a loop of several steps has no log");
}

static td_status *check(const td_callable *c, const td_loop_options *o) {
  TD_TRY(check_feeds(c));
  for (int i = 0; i < o->n_more; i++) TD_TRY(check_feeds(o->more[i]));
  TD_TRY(check_log(o));
  TD_TRY(check_feeds(o->at_end));
  TD_TRY(check_at_error(o->at_error));
  int most = CHAINS_MOST / (o->n_more < CHAINS_MOST ? 1 + o->n_more : 1);
  if (o->threads < 0 || o->threads > most || o->n_more >= CHAINS_MOST)
    return td_error(TD_INVALID_ARGUMENT, "a loop has 1 to %d threads, not %d",
                    most, o->threads);
  if (o->every < 0)
    return td_error(TD_INVALID_ARGUMENT, "every must be 1 or more, not %lld",
                    (long long)o->every);
  return NULL;
}

static td_status *copy_names(td_loop *l, const char *const *names) {
  l->names = td_calloc((size_t)l->n_log + 1, sizeof *l->names);
  if (!l->names) return td_oom();
  for (int i = 0; i < l->n_log; i++)
    if (!(l->names[i] = td_strdup(names ? names[i] : ""))) return td_oom();
  return NULL;
}

static td_callable *share(td_callable *c) {
  return c ? td_callable_retain(c) : NULL;
}

static td_loop *loop_new(td_callable *c, const td_loop_options *o) {
  int each = o->threads ? o->threads : 1, n = each * (1 + o->n_more);
  td_loop *l = td_calloc(1, sizeof *l + (size_t)(n + 1) * sizeof *l->chain);
  if (!l) return NULL;
  l->refs = 1 + n;
  l->guest = (td_session_guest){.hold = hold_guest, .end = end_guest};
  l->session = c->session;
  l->log = share(o->log);
  l->at_end = share(o->at_end);
  l->at_error = share(o->at_error);
  l->n_log = o->log ? o->n_log : 0;
  l->every = o->every ? o->every : 1;
  l->most = o->steps < 0 ? -1 : o->steps;
  l->n_chains = l->active = n;
  pthread_mutex_init(&l->lock, NULL);
  l->chain[n].loop = l;
  for (int i = 0; i < n; i++)
    l->chain[i] = (chain){.task.run = run_chain,
                          .loop = l,
                          .runs = share(i < each ? c : o->more[i / each - 1])};
  return l;
}

td_status *td_loop_start(td_callable *c, const td_loop_options *o,
                         td_loop **out) {
  TD_TRY(check(c, o));
  td_loop *l = loop_new(c, o);
  if (!l) return td_oom();
  td_status *s = copy_names(l, o->names);
  if (td_ok(s)) s = td_session_guest_in(c->session, &l->guest);
  if (!td_ok(s)) {
    l->refs = 1;
    td_loop_release(l);
    return s;
  }
  for (int i = 0; i < l->n_chains; i++) submit(&l->chain[i]);
  *out = l;
  return NULL;
}

bool td_loop_over(const td_loop *l) {
  return __atomic_load_n(&l->over, __ATOMIC_ACQUIRE) != 0;
}

int64_t td_loop_failed(td_loop *l) {
  pthread_mutex_lock(&l->lock);
  int64_t when = l->failed;
  pthread_mutex_unlock(&l->lock);
  return when;
}

int64_t td_loop_steps(td_loop *l) {
  pthread_mutex_lock(&l->lock);
  int64_t n = l->steps;
  pthread_mutex_unlock(&l->lock);
  return n;
}

static bool is_over(void *arg) {
  return td_loop_over(arg);
}

static bool over_or_stopped(void *arg) {
  return td_loop_over(arg) || is_stopped(arg);
}

static td_status *wait_until(td_loop *l, int64_t until, const int *interrupt,
                             bool (*ready)(void *arg)) {
  td_waited w = td_waiter_wait(&l->waiter, until, interrupt, ready, l);
  if (w == TD_WAITED_READY) return NULL;
  return w == TD_WAITED_INTERRUPT
             ? td_error(TD_CANCELLED, "interrupted")
             : td_error(TD_DEADLINE_EXCEEDED, "the loop is still running");
}

/* The steps of a loop that is stopped end without the pool: by who waits. */
static td_status *wait_for_steps(td_loop *l, int64_t until,
                                 const int *interrupt) {
  td_status *s = NULL;
  for (int i = 0; td_ok(s) && i <= l->n_chains; i++) {
    td_session_step *step = in_flight(l, &l->chain[i]);
    if (!step) continue;
    s = td_session_step_wait(step, until, interrupt, false);
    td_session_step_release(step);
  }
  return s;
}

td_status *td_loop_wait(td_loop *l, int64_t timeout, const int *interrupt) {
  int64_t until = timeout < 0 ? INT64_MAX : td_clock_now() + timeout;
  TD_TRY(wait_until(l, until, interrupt, over_or_stopped));
  if (is_stopped(l)) TD_TRY(wait_for_steps(l, until, interrupt));
  TD_TRY(wait_until(l, until, interrupt, is_over));
  pthread_mutex_lock(&l->lock);
  td_status *s = td_status_retain(l->status);
  pthread_mutex_unlock(&l->lock);
  return s;
}
