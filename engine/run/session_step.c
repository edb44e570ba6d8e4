/* session_step.c - one step: started, waited for, cancelled, ended.
 *
 * The calling thread works on a step that is known to be short, with a budget;
 * everything else runs on the pool while the caller waits where it can hear an
 * interrupt or a deadline. Either way the step ends when every portion is over,
 * never before: after an error or a cancel that is prompt, because all waits
 * are cancelled and kernels look at the step's flag.
 *
 * A portion of another process may stay silent. Two seconds after the cancel it
 * is given up: the step ends without it. Each portion under way holds the step,
 * so that what a late one still touches is there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/run/session_impl.h"
#include "engine/run/team.h"

#define GIVE_UP INT64_C(2000000000) /* ns between a cancel and the end */
#define PUMPING INT64_C(20000000)   /* ns at a time */
/* ns: for what others say of a late step */
#define PATIENCE INT64_C(50000000)

/* Of a portion. */
enum { RUNNING, OVER, GIVEN_UP };

/* ---- making ---- */

/* Into the session's list; refused once it is closed. */
static td_status *list(td_session_step *step, td_session *s) {
  pthread_mutex_lock(&s->lock);
  bool closed = s->closed;
  const td_device *lost = td_compiled_lost(step->compiled);
  if (!closed && !lost) {
    step->prev = NULL;
    step->next = s->running;
    if (step->next) step->next->prev = step;
    s->running = step;
  }
  pthread_mutex_unlock(&s->lock);
  if (closed) return td_session_closed_error();
  return lost ? td_compiled_unavailable(s, lost) : NULL;
}

static void rouse(td_caller *c);

static void fill_options(td_session_step *step, const td_step_options *o) {
  step->options = (td_portion_start){.step = step->number};
  if (!o) return;
  step->options.timeout = o->timeout;
  step->options.trace = o->trace;
  step->options.check_numerics = o->check_numerics;
  step->options.print = o->print;
  step->options.print_arg = o->print_arg;
  step->options.draw = o->draw;
  step->caller =
      (td_caller){.mail = &step->waiter, .serve = o->serve, .rouse = rouse};
  if (o->serve) step->options.caller = &step->caller;
}

static void portion_over(void *arg, td_status *s);

/* A value on its way from one participant to another. */
static td_status *route(void *arg, td_key key, td_tensor *value, bool dead) {
  td_session_step *step = arg;
  int32_t to = td_compiled_receiver(step->compiled, key.edge);
  if (to < 0) {
    td_tensor_release(value);
    return td_error(TD_INTERNAL, "edge %d leads nowhere", (int)key.edge);
  }
  td_portion *n = step->portions[to].portion;
  return n->of->ops->deliver(n, key, value, dead);
}

/* A value that is to come from another participant is waited for. */
static void want(void *arg, td_key key) {
  td_session_step *step = arg;
  int32_t from = td_compiled_sender(step->compiled, key.edge);
  td_portion *n = from < 0 ? NULL : step->portions[from].portion;
  if (n && n->of->ops->wanted) n->of->ops->wanted(n, key);
}

static void fill_portions(td_session_step *step) {
  for (int i = 0; i < step->n_portions; i++) {
    td_step_portion *p = &step->portions[i];
    td_portion *n = p->portion;
    p->state = RUNNING;
    if (p->step) continue; /* as it was for the last run */
    p->step = step;
    n->args = step->args;
    n->rets = step->rets;
    n->rets_dead = step->rets_dead;
    n->over = portion_over;
    n->over_arg = p;
    n->send = route;
    n->send_arg = step;
    n->wanted = want;
    n->wanted_arg = step;
    if (!n->of->ops->work) step->elsewhere = true;
  }
}

static void fill(td_session_step *step, td_session *s, td_compiled *c,
                 const td_step_options *o) {
  step->refs = 1;
  step->session = s;
  step->compiled = c;
  step->number = __atomic_add_fetch(&s->steps_begun, 1, __ATOMIC_RELAXED);
  step->finished = step->cancelled = step->given_up = 0;
  step->ended = NULL;
  step->queued = -1;
  step->status = step->cause = NULL;
  step->timer = step->give_up_timer = step->ask_timer = 0;
  step->ending = false;
  memset(step->rets_dead, 0, (size_t)c->n_fetches);
  fill_options(step, o);
  fill_portions(step);
  td_runtime_used(s->runtime);
}

td_status *td_session_step_new(td_session *s, td_compiled *c,
                               const td_tensor *feeds, const td_step_options *o,
                               td_session_step **out) {
  TD_TRY(td_compiled_check(c));
  for (int i = 0; feeds && i < c->n_feeds; i++)
    TD_TRY(td_compiled_check_feed(c, i, &feeds[i]));
  td_session_step *step;
  TD_TRY(td_compiled_take_step(c, s->options.threads, &step));
  fill(step, s, c, o); /* whole before others see it in the list */
  td_status *st = list(step, s);
  if (!td_ok(st)) {
    td_compiled_give_step(c, step, false);
    return st;
  }
  td_session_retain(s);
  td_compiled_retain(c);
  for (int i = 0; feeds && i < c->n_feeds; i++)
    td_tensor_retain(&feeds[i], &step->args[i]);
  *out = step;
  return NULL;
}

/* ---- results that wait ---- */

/* From now on `bytes` are its own; -1: it is not counted any more. Nothing is
 * done for one that is not counted. */
static void requeue(td_session_step *step, int64_t bytes) {
  int64_t was = __atomic_load_n(&step->queued, __ATOMIC_ACQUIRE);
  do
    if (TD_LIKELY(was < 0)) return;
  while (!__atomic_compare_exchange_n(&step->queued, &was, bytes, false,
                                      __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
  __atomic_fetch_add(&step->session->queued, (bytes < 0 ? 0 : bytes) - was,
                     __ATOMIC_ACQ_REL);
}

/* Until now the bytes of the last step of this signature stood for them. */
static void count_results(td_session_step *step) {
  int64_t bytes = 0;
  if (TD_LIKELY(__atomic_load_n(&step->queued, __ATOMIC_ACQUIRE) < 0)) return;
  for (int i = 0; i < step->compiled->n_fetches; i++)
    if (td_tensor_valid(&step->rets[i]))
      bytes += (int64_t)td_tensor_bytes(&step->rets[i]);
  __atomic_store_n(&step->compiled->result_bytes, bytes, __ATOMIC_RELAXED);
  requeue(step, bytes);
}

/* ---- ending ---- */

static void release_values(td_session_step *step) {
  for (int i = 0; i < step->compiled->n_feeds; i++)
    td_tensor_release(&step->args[i]);
  for (int i = 0; i < step->compiled->n_fetches; i++)
    td_tensor_release(&step->rets[i]);
}

/* Out of the session's list. */
static void unlist(td_session_step *step) {
  td_session *s = step->session;
  pthread_mutex_lock(&s->lock);
  if (step->prev)
    step->prev->next = step->next;
  else
    s->running = step->next;
  if (step->next) step->next->prev = step->prev;
  pthread_mutex_unlock(&s->lock);
}

void td_session_step_release(td_session_step *step) {
  if (!step || __atomic_fetch_sub(&step->refs, 1, __ATOMIC_ACQ_REL) != 1)
    return;
  td_compiled *c = step->compiled;
  td_session *s = step->session;
  if (step->timer) td_timer_cancel(step->timer);
  if (step->ask_timer) td_timer_cancel(step->ask_timer);
  td_waiter_run(&step->waiter); /* what a cancel had left of no use */
  requeue(step, -1);
  release_values(step);
  bool again = !td_cancelled(&step->cancelled) && td_ok(step->status);
  td_status_release(step->status);
  td_status_release(step->cause);
  step->status = step->cause = NULL;
  for (int i = 0; again && i < step->n_portions; i++) {
    td_portion *n = step->portions[i].portion;
    again = n->of->ops->reset(n);
  }
  td_compiled_give_step(c, step, again);
  td_compiled_release(c);
  td_session_release(s);
}

static td_status *check_fetches(const td_session_step *step) {
  const td_compiled *c = step->compiled;
  if (c->plan->parts == NULL) return NULL;
  for (int i = 0; i < c->n_fetches; i++) {
    if (td_tensor_valid(&step->rets[i])) continue;
    td_edge f = c->fetches[i];
    if (step->rets_dead[i])
      return td_node_blame(
          td_error(TD_INVALID_ARGUMENT,
                   "fetch \"%s:%d\" is dead: it comes from a branch that was "
                   "not taken; fetch the result of the cond instead",
                   f.node->name, f.port),
          f.node);
    return td_node_blame(td_error(TD_INTERNAL,
                                  "the step ended without fetch \"%s:%d\"",
                                  f.node->name, f.port),
                         f.node);
  }
  return NULL;
}

/* Nobody is given up any more. */
static void stop_giving_up(td_session_step *step) {
  pthread_mutex_lock(&step->lock);
  uint64_t timer = step->give_up_timer;
  step->ending = true;
  pthread_mutex_unlock(&step->lock);
  if (!timer) return;
  td_timer_cancel(timer);
  if (!__atomic_load_n(&step->given_up, __ATOMIC_ACQUIRE))
    td_session_step_release(step); /* the timer's hold */
}

static void finish(td_session_step *step) {
  int64_t number =
      __atomic_add_fetch(&step->session->stats.steps, 1, __ATOMIC_RELAXED);
  unlist(step);
  count_results(step);
  step->status = td_compiled_blame(step->compiled, step->status);
  if (TD_UNLIKELY(step->elsewhere)) {
    stop_giving_up(step);
    step->status = td_session_step_applied(step, step->status);
  }
  if (TD_LIKELY(td_ok(step->status)))
    __atomic_store_n(&step->compiled->last, number, __ATOMIC_RELAXED);
  __atomic_store_n(&step->finished, 1, __ATOMIC_RELEASE);
  td_waiter_wake(&step->waiter);
  if (step->ended) step->ended(step->ended_arg);
}

static void cancel_portions(td_session_step *step, td_status *cause) {
  for (int i = 0; i < step->n_portions; i++) {
    td_step_portion *p = &step->portions[i];
    if (__atomic_load_n(&p->state, __ATOMIC_ACQUIRE) == RUNNING)
      p->portion->of->ops->cancel(p->portion, td_status_retain(cause));
  }
}

/* A portion is not waited for any more; the last one ends the step. */
static void count_down(td_session_step *step, td_status *s) {
  if (TD_UNLIKELY(!td_ok(s))) {
    if (step->n_portions > 1 && !td_cancelled(&step->cancelled))
      td_session_step_cancel(step, td_status_derive(td_status_retain(s)));
    pthread_mutex_lock(&step->lock);
    step->status = td_status_first(step->status, s);
    pthread_mutex_unlock(&step->lock);
  }
  if (step->n_portions == 1 ||
      __atomic_fetch_sub(&step->remaining, 1, __ATOMIC_ACQ_REL) == 1)
    finish(step);
}

/* The portion of this process is over. */
static void let_others_go(td_session_step *step) {
  for (int i = 0; i < step->n_portions; i++) {
    td_portion *n = step->portions[i].portion;
    if (n->of->ops->unwanted) n->of->ops->unwanted(n);
  }
}

static void applied_all(td_portion *n) {
  int32_t unknown = TD_APPLIED_UNKNOWN;
  (void)__atomic_compare_exchange_n(&n->applied, &unknown, TD_APPLIED_ALL,
                                    false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static void portion_over(void *arg, td_status *s) {
  td_step_portion *p = arg;
  td_session_step *step = p->step;
  bool given_up = false;
  if (TD_UNLIKELY(step->elsewhere) && p->portion->rendezvous)
    let_others_go(step);
  if (TD_UNLIKELY(step->elsewhere && td_ok(s))) applied_all(p->portion);
  if (TD_UNLIKELY(step->elsewhere))
    given_up =
        __atomic_exchange_n(&p->state, OVER, __ATOMIC_ACQ_REL) == GIVEN_UP;
  else
    __atomic_store_n(&p->state, OVER, __ATOMIC_RELEASE);
  if (TD_UNLIKELY(given_up))
    td_status_release(s);
  else
    count_down(step, s);
  if (TD_UNLIKELY(step->elsewhere)) td_waiter_wake(&step->waiter);
  td_session_step_release(step);
}

bool td_session_step_over(const td_session_step *step) {
  return __atomic_load_n(&step->finished, __ATOMIC_ACQUIRE) != 0;
}

/* ---- cancelling ---- */

/* Why a step ends without `p`: for what it was cancelled. */
static td_status *left_behind(td_session_step *step, const td_step_portion *p) {
  pthread_mutex_lock(&step->lock);
  td_status *cause = td_status_retain(step->cause);
  pthread_mutex_unlock(&step->lock);
  return td_status_first(
      cause, td_error(TD_UNAVAILABLE,
                      "%s did not end its part of the step within %.0f s of "
                      "the cancel, and was left behind",
                      p->portion->of->task, (double)GIVE_UP * 1e-9));
}

/* On the pool: the timer's thread must not end steps. */
static void give_up(td_task *task) {
  td_session_step *step =
      (td_session_step *)((char *)task - offsetof(td_session_step, give_up));
  for (int i = 0; i < step->n_portions; i++) {
    td_step_portion *p = &step->portions[i];
    int32_t state = RUNNING;
    if (!p->portion->of->ops->work &&
        __atomic_compare_exchange_n(&p->state, &state, GIVEN_UP, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
      count_down(step, left_behind(step, p));
  }
  td_session_step_release(step);
}

static void on_give_up(void *arg) {
  td_session_step *step = arg;
  __atomic_store_n(&step->given_up, 1, __ATOMIC_RELEASE);
  td_pool_submit(&step->give_up);
}

static void start_giving_up(td_session_step *step, td_status *cause) {
  pthread_mutex_lock(&step->lock);
  step->cause = td_status_first(step->cause, td_status_retain(cause));
  if (!step->ending && !step->give_up_timer) {
    step->give_up.run = give_up;
    __atomic_fetch_add(&step->refs, 1, __ATOMIC_RELAXED);
    step->give_up_timer =
        td_timer_start(td_clock_now() + GIVE_UP, on_give_up, step);
    if (!step->give_up_timer)
      __atomic_fetch_sub(&step->refs, 1, __ATOMIC_RELAXED);
  }
  pthread_mutex_unlock(&step->lock);
}

void td_session_step_cancel(td_session_step *step, td_status *cause) {
  bool first = !__atomic_exchange_n(&step->cancelled, 1, __ATOMIC_ACQ_REL);
  if (first && step->elsewhere) start_giving_up(step, cause);
  cancel_portions(step, cause);
  td_status_release(cause);
}

/* Its nodes that wait, behind "; waiting:", where there are any: a text that
 * the caller ends. Others are asked first when there is `patience`. */
static td_str waiting(td_session_step *step, int64_t patience) {
  enum { MOST = 1000 };
  td_str why, out;
  td_str_init(&why);
  td_str_init(&out);
  if (step->elsewhere && patience) td_session_step_inquire(step, patience);
  td_session_step_why(step, &why);
  size_t n = why.len < MOST ? why.len : MOST;
  if (n && n < MOST) n--; /* the end of the last line */
  if (n) td_str_add(&out, "; waiting:\n");
  td_str_addn(&out, td_str_c(&why), n);
  td_str_deinit(&why);
  return out;
}

/* The error of a step that takes too long. */
static td_status *late(td_session_step *step, int64_t patience) {
  td_str why = waiting(step, patience);
  int64_t limit = step->options.timeout;
  td_status *s = limit > 0
                     ? td_error(TD_DEADLINE_EXCEEDED,
                                "the step did not end within %.3f s%s",
                                (double)limit * 1e-9, td_str_c(&why))
                     : td_error(TD_DEADLINE_EXCEEDED,
                                "the step is still running%s", td_str_c(&why));
  td_str_deinit(&why);
  return s;
}

/* Who waits for others sees what for. */
static td_status *interrupted(td_session_step *step) {
  if (!step->elsewhere) return td_error(TD_CANCELLED, "interrupted");
  td_str why = waiting(step, PATIENCE);
  td_status *s = td_error(TD_CANCELLED, "interrupted%s", td_str_c(&why));
  td_str_deinit(&why);
  return s;
}

/* On the pool. */
static void let_go(td_task *task) {
  td_session_step_release(
      (td_session_step *)((char *)task - offsetof(td_session_step, let_go)));
}

/* Held while a timer is with it: the step may end in its cancel, and whoever
 * releases it last waits for the timer's function. False: it has ended. */
static bool hold(td_session_step *step) {
  int32_t n = __atomic_load_n(&step->refs, __ATOMIC_RELAXED);
  while (n > 0 &&
         !__atomic_compare_exchange_n(&step->refs, &n, n + 1, true,
                                      __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
  }
  return n > 0;
}

static void asked(td_task *task) {
  td_session_step_release(
      (td_session_step *)((char *)task - offsetof(td_session_step, asked)));
}

/* What others answer is told when the step's time is over. */
static void on_ask(void *arg) {
  td_session_step *step = arg;
  if (!hold(step)) return;
  td_session_step_inquire(step, 0);
  step->asked.run = asked;
  td_pool_submit(&step->asked);
}

static void on_timer(void *arg) {
  td_session_step *step = arg;
  if (!hold(step)) return;
  td_session_step_cancel(step, late(step, 0)); /* timers do not wait */
  step->let_go.run = let_go;
  td_pool_submit(&step->let_go);
}

/* ---- running ---- */

void td_session_step_unattended(td_session_step *step) {
  requeue(step, -1);
  if (step->options.caller) td_caller_go(step->options.caller);
}

static void attend(td_session_step *step, bool begins) {
  for (int i = 0; i < step->n_portions; i++) {
    td_portion *n = step->portions[i].portion;
    if (n->of->ops->attend) n->of->ops->attend(n, begins);
  }
}

bool td_session_step_attend(td_session_step *step) {
  if (TD_LIKELY(!step->elsewhere) || !td_team_gather()) return false;
  attend(step, true);
  td_session_step_start(step, false);
  td_session_step_wake(step);
  td_team_gathered(TD_CALLER_BUDGET);
  attend(step, false);
  return true;
}

bool td_session_step_short(const td_session_step *step) {
  int64_t cost = 0;
  for (int i = 0; i < step->n_portions; i++) {
    const td_participant_ops *ops = step->portions[i].portion->of->ops;
    int64_t c = ops->cost(step->compiled->enrollments[i]);
    if (c == 0) return false;
    cost += c;
  }
  return cost < TD_CALLER_BUDGET;
}

void td_session_step_work(td_session_step *step, int64_t until) {
  for (int i = 0; i < step->n_portions; i++) {
    td_portion *n = step->portions[i].portion;
    if (n->of->ops->work) n->of->ops->work(n, until);
  }
}

void td_session_step_wake(td_session_step *step) {
  for (int i = 0; i < step->n_portions; i++) {
    td_portion *n = step->portions[i].portion;
    if (n->of->ops->wake) n->of->ops->wake(n);
  }
}

td_rendezvous *td_session_step_mailboxes(const td_session_step *step) {
  for (int i = 0; i < step->n_portions; i++)
    if (step->portions[i].portion->rendezvous)
      return step->portions[i].portion->rendezvous;
  return NULL;
}

/* A while before its time is over. */
static int64_t ask_at(const td_session_step *step) {
  int64_t all = step->options.timeout;
  int64_t before = all / 2 < 4 * PATIENCE ? all / 2 : 4 * PATIENCE;
  return td_clock_now() + all - before;
}

void td_session_step_start(td_session_step *step, bool wake) {
  int n = step->n_portions;
  __atomic_store_n(&step->remaining, n, __ATOMIC_RELEASE);
  __atomic_fetch_add(&step->refs, n, __ATOMIC_RELAXED);
  bool served = step->options.caller != NULL; /* it may not look at the clock */
  if ((wake || served) && step->options.timeout > 0)
    step->timer =
        td_timer_start(td_clock_now() + step->options.timeout, on_timer, step);
  if (step->timer && step->elsewhere)
    step->ask_timer = td_timer_start(ask_at(step), on_ask, step);
  for (int i = 0; i < n; i++) {
    td_portion *portion = step->portions[i].portion;
    portion->of->ops->start(portion, &step->options);
  }
  if (wake) td_session_step_wake(step);
  if (n == 0) finish(step);
}

/* A portion at which the thread that waits can do something; else NULL. */
static td_portion *to_pump(const td_session_step *step) {
  if (TD_LIKELY(!step->elsewhere)) return NULL;
  for (int i = 0; i < step->n_portions; i++) {
    const td_step_portion *p = &step->portions[i];
    if (p->portion->of->ops->pump &&
        __atomic_load_n(&p->state, __ATOMIC_ACQUIRE) == RUNNING)
      return p->portion;
  }
  return NULL;
}

static bool is_over_or_elsewhere(void *arg) {
  return td_session_step_over(arg) || to_pump(arg);
}

/* Kernels call for this thread, or it waits for something else. */
static bool is_wanted(void *arg) {
  const td_session_step *step = arg;
  return td_session_step_over(step) ||
         __atomic_load_n(&step->waiter.mail, __ATOMIC_ACQUIRE) ||
         !to_pump(step);
}

/* td_caller.rouse: whoever waits for the step may be pumping. */
static void rouse(td_caller *c) {
  td_session_step *step =
      (td_session_step *)((char *)c - offsetof(td_session_step, caller));
  td_portion *n = to_pump(step);
  if (n) n->of->ops->nudge(n);
}

/* Waits until the step is over, or there is something else to be looked at. */
static void wait_a_while(td_session_step *step, int64_t until,
                         const int *interrupt) {
  td_portion *n = to_pump(step);
  if (TD_LIKELY(!n)) {
    td_waited why = td_waiter_wait(&step->waiter, until, interrupt,
                                   is_over_or_elsewhere, step);
    (void)why; /* the caller looks */
    return;
  }
  if (td_waiter_run(&step->waiter)) return; /* what kernels had posted */
  int64_t soon = td_clock_now() + PUMPING;
  n->of->ops->pump(n, soon < until ? soon : until, interrupt, is_wanted, step);
}

/* Why waiting must stop now, or NULL. */
static td_status *stop_waiting(td_session_step *step, int64_t until,
                               const int *interrupt) {
  if (interrupt && td_cancelled(interrupt)) return interrupted(step);
  return td_clock_now() >= until ? late(step, PATIENCE) : NULL;
}

/* Runs what nobody in this process comes to; returns how many ns the thread may
 * sleep before it looks again. */
static int64_t watch(td_session_step *step, td_watch *w) {
  for (int i = 0; i < step->n_portions; i++) {
    td_portion *n = step->portions[i].portion;
    if (n->of->ops->watch) return n->of->ops->watch(n, w);
  }
  return INT64_MAX / 2;
}

td_status *td_session_step_wait(td_session_step *step, int64_t until,
                                const int *interrupt, bool cancels) {
  td_watch w = {0};
  while (!td_session_step_over(step)) {
    int64_t wake = td_clock_now() + watch(step, &w);
    if (wake > until) wake = until;
    wait_a_while(step, wake, interrupt);
    if (td_session_step_over(step)) break;
    td_status *why = stop_waiting(step, until, interrupt);
    if (!why) continue;
    if (!cancels) return why;
    td_session_step_cancel(step, why);
    until = INT64_MAX;
    interrupt = NULL;
  }
  return NULL;
}

td_status *td_session_step_results(td_session_step *step, td_tensor *fetches) {
  td_status *s = td_status_retain(step->status);
  requeue(step, -1);
  if (td_ok(s)) s = check_fetches(step);
  /* What a portion that was left behind may still set is let go with it. */
  bool left = !td_ok(s) && td_cancelled(&step->given_up);
  for (int i = 0; i < step->compiled->n_fetches; i++) {
    if (left) {
      if (fetches) fetches[i] = (td_tensor){0};
      continue;
    }
    if (fetches && td_ok(s))
      fetches[i] = step->rets[i];
    else
      td_tensor_release(&step->rets[i]);
    if (fetches && !td_ok(s)) fetches[i] = (td_tensor){0};
    step->rets[i] = (td_tensor){0};
  }
  return s;
}
