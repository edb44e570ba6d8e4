/* worker_step.c - steps of others: RUN, feeds, what stops them, DONE.
 *
 * A step waits for its feeds, then a portion of the local participant is
 * started, after the turn. What is known to be short runs at once on the thread
 * that heard of it; the rest is the pool's. Values for it are delivered after
 * the turn as well: whoever receives one may go on computing.
 *
 * A step number is run once: what came before it waits (values) or stands for
 * it (a cancel); what comes after its end is dropped.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/remote/cells.h"
#include "engine/remote/worker_impl.h"

enum { INLINE_MOST = 200000 /* ns: runs on the thread that heard of it */ };

/* ---- life ---------------------------------------------------------------- */

static void unlist(td_hosted_step *step) {
  if (step->prev)
    step->prev->next = step->next;
  else
    step->of->steps = step->next;
  if (step->next) step->next->prev = step->prev;
  step->of->n_steps--;
  step->of->step_ends -= step->roll->ends;
}

static void free_values(td_hosted_step *step) {
  for (int i = 0; step->args && i < step->roll->n_args; i++)
    td_tensor_release(&step->args[i]);
  for (int i = 0; step->rets && i < step->roll->n_rets; i++)
    td_tensor_release(&step->rets[i]);
}

static void step_release(td_hosted_step *step) {
  if (--step->refs > 0) return;
  free_values(step);
  td_free(step->args);
  td_free(step->rets);
  td_free(step->rets_dead);
  td_free(step->pulls);
  td_str_deinit(&step->printed);
  td_tensor_release(&step->traced);
  td_trace_release(step->trace);
  td_hosted_values_deinit(step);
  td_status_release(step->cause);
  td_status_release(step->stopped);
  td_status_release(step->ended);
  pthread_mutex_destroy(&step->lock);
  td_hosted_roll_release(step->roll);
  td_hosted_release(step->of);
  td_free(step);
}

static td_status *step_new(td_hosted *h, td_hosted_roll *roll, uint64_t number,
                           td_hosted_step **out) {
  td_hosted_step *step = td_calloc(1, sizeof *step);
  if (!step) return td_oom();
  pthread_mutex_init(&step->lock, NULL);
  step->refs = 1;
  step->of = h;
  step->roll = roll;
  h->refs++;
  roll->refs++;
  step->number = number;
  step->args = td_calloc((size_t)roll->n_args + 1, sizeof *step->args);
  step->rets = td_calloc((size_t)roll->n_rets + 1, sizeof *step->rets);
  step->rets_dead = td_calloc((size_t)roll->n_rets + 1, sizeof(bool));
  td_status *s = step->args && step->rets && step->rets_dead
                     ? td_hosted_values_init(step)
                     : td_oom();
  if (!td_ok(s)) {
    step_release(step);
    return s;
  }
  *out = step;
  return NULL;
}

/* ---- DONE ---------------------------------------------------------------- */

typedef struct costs_out {
  td_arena *arena;
  Td__Remote__Done *done;
  size_t room;
} costs_out;

static td_status *add_ret(td_hosted_step *step, int i, const td_sending *to,
                          td_arena *a, td_raw *frames, int *n,
                          Td__Remote__Done *done) {
  Td__Remote__Value *v;
  if (!td_tensor_valid(&step->rets[i]) && !step->rets_dead[i]) return NULL;
  TD_TRY(td_transfer_out(to, &step->rets[i], a, frames, n, &v));
  v->index = i;
  done->ret[done->n_ret++] = v;
  return NULL;
}

static td_status *add_rets(td_hosted_step *step, td_arena *a, td_raw *frames,
                           int *n, Td__Remote__Done *done) {
  td_hosted *h = step->of;
  int rets = step->roll->n_rets;
  size_t small = 0;
  td_sending to = {.to = h->master,
                   .session = &h->id,
                   .step = step->number,
                   .small = &small};
  done->ret = td_arena_alloc(a, ((size_t)rets + 1) * sizeof *done->ret);
  if (!done->ret) return td_oom();
  for (int i = 0; i < rets; i++)
    TD_TRY(add_ret(step, i, &to, a, frames, n, done));
  return NULL;
}

/* Behind the fetches. Without it the step is as good. It is offered as the
 * session's: a cancel takes back what the step offers, and this is wanted. */
static void add_trace(td_hosted_step *step, td_arena *a, td_raw *frames, int *n,
                      Td__Remote__Done *done) {
  td_hosted *h = step->of;
  if (!td_tensor_valid(&step->traced)) return;
  td_sending to = {.to = h->master, .session = &h->id};
  td_status_release(
      td_transfer_out(&to, &step->traced, a, frames, n, &done->trace));
}

/* Its word, with what was fetched where `s` is none. */
static td_status *send_done(td_hosted_step *step, const td_status *s) {
  td_hosted *h = step->of;
  td_arena a;
  td_raw frames[TD_WIRE_VALUE_FRAMES + 1];
  int n = 0;
  td_head head;
  Td__Remote__Done body = TD__REMOTE__DONE__INIT;
  td_arena_init(&a);
  td_head_init(&head, &h->id);
  head.body_case = TD__REMOTE__MESSAGE__BODY_DONE;
  head.done = &body;
  body.step = step->number;
  body.handle = step->roll->handle;
  body.took = td_clock_now() - step->began_ns;
  body.tensors = step->tensors;
  body.idle = !step->begun || step->portion->applied == TD_APPLIED_NONE;
  body.came = step->began_ns;
  body.status = td_wire_status_out(&a, s);
  td_status *st = td_ok(s) ? add_rets(step, &a, frames, &n, &body) : NULL;
  if (td_ok(st)) add_trace(step, &a, frames, &n, &body);
  body.left = td_clock_now();
  if (td_ok(st))
    st = td_peer_send(h->master, TD_LANE_CONTROL, &head, frames, n);
  else
    for (int i = 0; i < n; i++) td_raw_release(&frames[i]);
  td_arena_deinit(&a);
  return st;
}

/* Where what was fetched cannot be sent, why. */
static void say_done(td_hosted_step *step, td_status *s) {
  td_hosted *h = step->of;
  bool dead = h->master->health.state == TD_DEAD;
  if (td_ok(s) && h->state != TD_HOSTED_OPEN) /* nobody would take them back */
    s = td_status_derive(td_error(TD_CANCELLED, "the session is closed"));
  if (!td_ok(s)) td_transfer_withdraw(h->of, &h->id, step->number);
  td_status *why = dead ? NULL : send_done(step, s); /* may offer its trace */
  if (!td_ok(why)) td_transfer_withdraw(h->of, &h->id, step->number);
  if (!td_ok(why) && td_ok(s)) td_status_release(send_done(step, why));
  td_status_release(why);
  td_status_release(s);
}

/* After the turn, with a share: one that was cancelled is not used again. */
static void end_portion(td_task *task) {
  td_hosted_step *step =
      (td_hosted_step *)((char *)task - offsetof(td_hosted_step, task));
  td_remote *r = step->of->of;
  step->of->local->ops->end(step->portion);
  td_remote_enter(r);
  step_release(step);
  td_remote_leave(r);
  td_remote_release(r);
}

/* Its end; takes ownership of `s`. The session's share of it goes. */
static void finish(td_hosted_step *step, td_status *s) {
  td_hosted *h = step->of;
  td_portion *n = step->portion;
  td_hosted_say_printed(step);
  td_hosted_values_end(step);
  td_remote_count_step(h->of, td_clock_now() - step->began_ns, !td_ok(s));
  say_done(step, s);
  unlist(step);
  if (n && (step->cancelled || !td_vec_push(&step->roll->idle, n))) {
    step->refs++;
    step->task.run = end_portion;
    td_remote_retain(h->of);
    td_remote_after(h->of, &step->task);
  }
  h->hooks->rest(h);
  step_release(step);
}

static void end_if_over(td_hosted_step *step) {
  td_status *s = step->ended;
  if (!step->over || step->users > 0) return;
  step->ended = NULL;
  finish(step, s);
}

void td_hosted_step_unuse(td_hosted_step *step) {
  td_remote *r = step->of->of;
  td_remote_enter(r);
  step->users--;
  end_if_over(step);
  step_release(step);
  td_remote_leave(r);
  td_remote_release(r);
}

/* ---- running ------------------------------------------------------------- */

/* Outside of the turn, any thread: the portion is over. */
static void over(void *arg, td_status *s) {
  td_hosted_step *step = arg;
  td_remote *r = step->of->of;
  td_hosted_pack_trace(step);
  td_remote_enter(r);
  step->over = true;
  step->ended =
      step->cause ? td_status_first(td_status_retain(step->cause), s) : s;
  end_if_over(step);
  td_remote_leave(r);
  td_remote_release(r);
}

/* An idle portion that is ready for another run, or NULL. A thread may still be
 * with one that has just ended. */
static td_portion *take_idle(td_hosted_roll *roll) {
  const td_participant_ops *ops = roll->of->local->ops;
  for (size_t i = roll->idle.len; i-- > 0;) {
    td_portion *n = roll->idle.at[i];
    if (!ops->reset(n)) continue;
    roll->idle.at[i] = roll->idle.at[--roll->idle.len];
    return n;
  }
  return NULL;
}

static void fill(td_hosted_step *step, td_portion *n) {
  step->portion = n;
  n->args = step->args;
  n->rets = step->rets;
  n->rets_dead = step->rets_dead;
  n->over = over;
  n->over_arg = step;
  n->send = td_hosted_send;
  n->send_arg = step;
  n->wanted = td_hosted_wanted;
  n->wanted_arg = step;
}

static td_status *begin(td_hosted_step *step) {
  td_hosted_roll *roll = step->roll;
  td_portion *n = take_idle(roll);
  int threads = step->of->of->threads;
  if (!n)
    TD_TRY(roll->of->local->ops->begin(
        roll->enrollment, threads > 0 ? threads : td_pool_size(), &n));
  fill(step, n);
  return NULL;
}

/* Values are not for a portion that is being started. */
static void take_values(td_hosted_step *step) {
  td_remote *r = step->of->of;
  td_remote_enter(r);
  step->started = true;
  if (!step->over) td_hosted_values_begin(step);
  td_remote_leave(r);
}

/* After the turn. */
static void start(td_task *task) {
  td_hosted_step *step =
      (td_hosted_step *)((char *)task - offsetof(td_hosted_step, task));
  const td_participant_ops *ops = step->of->local->ops;
  td_portion *n = step->portion;
  int64_t cost = ops->cost(step->roll->enrollment);
  ops->start(n, &step->start);
  take_values(step);
  if (cost > 0 && cost < INLINE_MOST)
    ops->work(n, td_clock_now() + INLINE_MOST);
  ops->wake(n);
  td_hosted_step_unuse(step);
}

/* Its feeds are here. */
static void ready(td_hosted_step *step) {
  td_status *s = td_status_retain(step->cause);
  if (td_ok(s)) s = begin(step);
  if (!td_ok(s)) {
    finish(step, s);
    return;
  }
  step->begun = true;
  td_hosted_step_use(step);
  step->task.run = start;
  td_remote_retain(step->of->of); /* over's */
  td_remote_after(step->of->of, &step->task);
}

/* ---- feeds --------------------------------------------------------------- */

static void got_arg(td_transfer *t, td_tensor *value, bool dead, td_status *s) {
  td_arg_pull *pull = (td_arg_pull *)t;
  td_hosted_step *step = pull->step;
  (void)dead;
  step->args[pull->index] = *value;
  if (!td_ok(s)) step->cause = td_status_first(step->cause, s);
  if (--step->pulling == 0) ready(step);
}

/* Each in its place, and each place once: `taken` has a false for each. */
static td_status *check_places(const Td__Remote__Run *m, int n, bool *taken) {
  for (size_t i = 0; i < m->n_arg; i++) {
    int index = m->arg[i]->index;
    if (index < 0 || index >= n)
      return td_error(TD_INVALID_ARGUMENT, "feed %d of %d", index, n);
    if (taken[index])
      return td_error(TD_INVALID_ARGUMENT, "feed %d comes twice", index);
    taken[index] = true;
  }
  return NULL;
}

static td_status *check_args(const td_hosted_step *step,
                             const Td__Remote__Run *m) {
  int n = step->roll->n_args;
  if (m->n_arg == 0) return NULL;
  if (m->n_arg > (size_t)n)
    return td_error(TD_INVALID_ARGUMENT, "%zu feeds of %d", m->n_arg, n);
  bool *taken = td_calloc((size_t)n, sizeof *taken);
  if (!taken) return td_oom();
  td_status *s = check_places(m, n, taken);
  td_free(taken);
  return s;
}

/* The last one that comes makes the step ready; one share of `pulling` is this
 * function's. */
static void take_args(td_hosted_step *step, td_message *m) {
  const Td__Remote__Run *run = m->head->run;
  td_status *s = check_args(step, run);
  if (td_ok(s) && run->n_arg) {
    step->pulls = td_calloc((size_t)step->roll->n_args, sizeof *step->pulls);
    if (!step->pulls) s = td_oom();
  }
  step->pulling = 1;
  for (size_t i = 0; td_ok(s) && i < run->n_arg; i++) {
    td_arg_pull *pull = &step->pulls[i];
    pull->base.got = got_arg;
    pull->step = step;
    pull->index = run->arg[i]->index;
    step->pulling++;
    td_transfer_in(step->of->master, run->arg[i], m, &pull->base);
  }
  if (!td_ok(s)) step->cause = td_status_first(step->cause, s);
  if (--step->pulling == 0) ready(step);
}

/* ---- stopping ------------------------------------------------------------ */

static void cancel_later(td_task *task) {
  td_hosted_step *step =
      (td_hosted_step *)((char *)task - offsetof(td_hosted_step, cancel_task));
  const td_participant_ops *ops = step->of->local->ops;
  ops->cancel(step->portion, td_status_retain(step->stopped));
  ops->wake(step->portion);
  td_hosted_step_unuse(step);
}

void td_hosted_step_stop(td_hosted_step *step, td_status *why) {
  bool first = !step->cancelled;
  step->cancelled = true;
  step->cause = td_status_first(step->cause, why);
  td_transfer_withdraw(step->of->of, &step->of->id, step->number);
  if (!step->begun) {
    /* Feeds that are on their way do not matter any more. */
    int pulling = step->pulling;
    for (int i = 0; step->pulls && i < step->roll->n_args; i++) {
      if (step->pulls[i].base.state == TD_TRANSFER_ENDED) continue;
      td_transfer_stop(&step->pulls[i].base);
      step->pulling--;
    }
    if (pulling > 0 && step->pulling == 0) ready(step);
    return;
  }
  if (!first || step->over) return;
  td_hosted_values_end(step);
  step->stopped = td_status_retain(step->cause);
  step->cancel_task.run = cancel_later;
  td_hosted_step_use(step);
  td_remote_after(step->of->of, &step->cancel_task);
}

static bool shares_edge(const td_hosted_roll *roll, int32_t task) {
  for (int32_t e = 0; e < roll->n_edges; e++)
    if (roll->far[e].task == task) return true;
  return false;
}

void td_hosted_stop(td_hosted *h, int32_t task, td_status *why) {
  for (td_hosted_step *next, *step = h->steps; step; step = next) {
    next = step->next;
    if (task < 0 || shares_edge(step->roll, task))
      td_hosted_step_stop(step, td_status_retain(why));
  }
  td_status_release(why);
}

/* Takes ownership of `why`. */
static void bury(td_hosted *h, uint64_t step, td_status *why) {
  td_tombstone *t = &h->tombs[h->next_tomb % TD_TOMBSTONES];
  if (h->state != TD_HOSTED_OPEN || TD_BUG(TD_BUG_CANCEL_LOST)) {
    td_status_release(why);
    return;
  }
  h->next_tomb++;
  td_status_release(t->cause);
  *t = (td_tombstone){step, why};
}

void td_hosted_cancel(td_hosted *h, const Td__Remote__Stop *m) {
  td_hosted_step *step = td_hosted_step_find(h, m->step);
  td_status *why = td_wire_status_in(m->status, h->master->task);
  if (!why) why = td_error(TD_CANCELLED, "the step was cancelled");
  td_transfer_withdraw(h->of, &h->id, m->step);
  if (step) {
    td_hosted_step_stop(step, why);
  } else if (td_hosted_step_seen(h, m->step)) {
    td_status_release(why);
  } else {
    td_cell(TD_CELLS_SESSION, h->state, TD_CANCEL_EARLY);
    bury(h, m->step, why);
  }
}

static td_status *tomb_of(td_hosted *h, uint64_t step) {
  for (int i = 0; i < TD_TOMBSTONES; i++)
    if (h->tombs[i].cause && h->tombs[i].step == step)
      return td_status_retain(h->tombs[i].cause);
  return NULL;
}

/* ---- RUN ----------------------------------------------------------------- */

static void refuse(td_hosted *h, const Td__Remote__Run *m, td_status *s) {
  td_arena a;
  td_head head;
  Td__Remote__Done body = TD__REMOTE__DONE__INIT;
  td_arena_init(&a);
  td_head_init(&head, &h->id);
  head.body_case = TD__REMOTE__MESSAGE__BODY_DONE;
  head.done = &body;
  body.step = m->step;
  body.handle = m->handle;
  body.status = td_wire_status_out(&a, s);
  body.idle = true;
  td_status_release(td_peer_send(h->master, TD_LANE_CONTROL, &head, NULL, 0));
  td_arena_deinit(&a);
  td_status_release(s);
}

static void fill_start(td_hosted_step *step, const Td__Remote__Run *m) {
  step->start = (td_portion_start){.step = m->step,
                                   .timeout = m->timeout,
                                   .check_numerics = m->check_numerics,
                                   .draw = m->draw};
  step->began_ns = td_clock_now();
  if (m->trace) td_hosted_start_trace(step);
  if (!m->print) return;
  step->start.print = td_hosted_printed;
  step->start.print_arg = step;
}

/* Has the session room for one more? */
static td_status *check_room(const td_hosted *h, const td_hosted_roll *roll) {
  if (h->n_steps >= TD_STEPS_MOST)
    return td_error(TD_RESOURCE_EXHAUSTED,
                    "%d steps of the session are under way already",
                    h->n_steps);
  if (roll->ends <= TD_STEP_ENDS_MOST - h->step_ends) return NULL;
  return td_error(TD_RESOURCE_EXHAUSTED,
                  "steps of the session that are under way have %zu feeds, "
                  "fetches and edges; %zu more pass the limit of %d",
                  h->step_ends, roll->ends, TD_STEP_ENDS_MOST);
}

static void run(td_hosted *h, td_hosted_roll *roll, td_message *m) {
  const Td__Remote__Run *run = m->head->run;
  td_hosted_step *step = NULL;
  td_status *s = tomb_of(h, run->step);
  if (td_ok(s)) s = check_room(h, roll);
  if (td_ok(s)) s = step_new(h, roll, run->step, &step);
  if (!td_ok(s)) {
    refuse(h, run, s);
    return;
  }
  fill_start(step, run);
  step->next = h->steps;
  if (step->next) step->next->prev = step;
  h->steps = step;
  h->n_steps++;
  h->step_ends += roll->ends;
  step->refs++;
  take_args(step, m);
  step_release(step);
}

void td_hosted_run(td_hosted *h, td_message *m) {
  const Td__Remote__Run *r = m->head->run;
  bool old = td_hosted_step_seen(h, r->step) && !TD_BUG(TD_BUG_RUN_TWICE);
  td_cell(TD_CELLS_SESSION, h->state, old ? TD_RUN_OLD : TD_RUN_NEW);
  if (old) return;
  td_hosted_step_note(h, r->step);
  td_hosted_roll *roll = td_hosted_roll_find(h, r->handle);
  if (h->state != TD_HOSTED_OPEN)
    refuse(h, r, td_error(TD_CANCELLED, "the session is being closed"));
  else if (!roll || !roll->enrollment)
    refuse(h, r,
           td_error(TD_NOT_FOUND, "nothing is registered as %llu",
                    (unsigned long long)r->handle));
  else
    run(h, roll, m);
}
