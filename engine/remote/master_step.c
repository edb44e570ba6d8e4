/* master_step.c - portions of our steps that run at a member.
 *
 * RUN goes out when the signature is registered everywhere, with the feeds that
 * the member's parts take; values for it go to it, its own come to the step by
 * td_portion.send. DONE brings the fetches. The portion is over when all of
 * that is through: after the turn, since whoever is told may do anything, the
 * next start included.
 *
 * An error that is evidence about another task waits a second for that task's
 * own word, or for its death to be noticed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/remote/cells.h"
#include "engine/remote/master_impl.h"

#define EVIDENCE INT64_C(1000000000) /* ns that it waits for its cause */
enum { PROMPT_MOST = 4096 }; /* bytes of a value that goes with the prompt */

/* ---- life ---------------------------------------------------------------- */

static void fail(td_far_portion *n, td_status *s);
static void end_if_done(td_far_portion *n);

static const td_portion_hooks hooks = {.fail = fail, .rest = end_if_done};

td_status *td_member_begin(td_enrollment *enrolled, int threads,
                           td_portion **out) {
  td_far_roll *e = (td_far_roll *)enrolled;
  td_far_portion *n = td_calloc(1, sizeof *n);
  (void)threads;
  if (!n) return td_oom();
  n->of = e;
  n->hooks = &hooks;
  n->base.of = &e->of->base;
  td_status *s = td_portion_values_init(n);
  n->pulls = td_calloc((size_t)e->n_rets + 1, sizeof *n->pulls);
  if (!td_ok(s) || !n->pulls) {
    td_member_end(&n->base);
    return td_ok(s) ? td_oom() : s;
  }
  n->state = TD_PORTION_READY;
  *out = &n->base;
  return NULL;
}

/* Values come for it once a portion of the same step runs, which may be before
 * its own start: they are held from the moment when it may be started. */
static void drop_held(td_far_portion *n) {
  for (size_t i = 0; i < n->held.len; i++)
    td_tensor_release(&n->held.at[i].value);
  n->held.len = 0;
}

void td_member_end(td_portion *p) {
  td_far_portion *n = (td_far_portion *)p;
  td_status_release(n->status);
  drop_held(n);
  td_vec_free(&n->held);
  td_portion_values_deinit(n);
  td_str_deinit(&n->printed.text);
  td_str_deinit(&n->why.text);
  td_free(n->pulls);
  td_free(n);
}

bool td_member_reset(td_portion *p) {
  td_far_portion *n = (td_far_portion *)p;
  if (n->cancelled || n->failed) return false;
  td_portion_values_reset(n);
  n->state = TD_PORTION_READY;
  return true;
}

static void list(td_far_portion *n) {
  td_member *m = n->of->of;
  n->prev = NULL;
  n->next = m->running;
  if (n->next) n->next->prev = n;
  m->running = n;
}

static void unlist(td_far_portion *n) {
  if (n->prev)
    n->prev->next = n->next;
  else
    n->of->of->running = n->next;
  if (n->next) n->next->prev = n->prev;
}

/* ---- the end ------------------------------------------------------------- */

/* After the turn. Once `over` is called the portion is the step's again. */
static void tell_over(td_task *task) {
  td_far_portion *n =
      (td_far_portion *)((char *)task - offsetof(td_far_portion, task));
  td_member *m = n->of->of;
  td_remote *r = td_member_remote(m);
  td_status *s = n->status;
  n->status = NULL;
  td_traced_over(n);
  __atomic_store_n(&n->out, 0, __ATOMIC_RELEASE);
  n->base.over(n->base.over_arg, s);
  td_remote_news_after(r);
  td_participant_release(&m->base);
  td_remote_release(r);
}

static void stop_pulls(td_far_portion *n) {
  td_portion_values_stop(n);
  for (int i = 0; i < n->n_pulls; i++) td_transfer_stop(&n->pulls[i].base);
  td_transfer_stop(&n->traced.base);
  n->traced.coming = false;
  n->pulling = 0;
}

static void finish(td_far_portion *n) {
  td_member *m = n->of->of;
  unlist(n);
  drop_held(n);
  n->state = TD_PORTION_ENDED;
  n->failed = !td_ok(n->status);
  if (n->failed) /* who never took its RUN pulls nothing of it */
    td_transfer_withdraw(td_member_remote(m), &m->master->id, n->start.step);
  td_member_retain(m);
  td_remote_retain(td_member_remote(m));
  n->task.run = tell_over;
  td_remote_after(td_member_remote(m), &n->task);
}

/* Is everything through that its end waits for? */
static void end_if_done(td_far_portion *n) {
  if (n->state == TD_PORTION_ENDED || n->users > 0 || !n->done) return;
  bool ok = td_ok(n->status) && !TD_BUG(TD_BUG_DONE_EARLY);
  if (ok && (n->pulling > 0 || n->came < n->due)) return;
  if (n->until > 0 && !TD_BUG(TD_BUG_CAUSE_LOST)) return;
  if (n->traced.coming) return;
  stop_pulls(n);
  finish(n);
}

void td_portion_unuse(td_far_portion *n) {
  n->users--;
  end_if_done(n);
}

/* It is over as far as its member is concerned; takes ownership of `s`. More
 * evidence, and what follows from it, do not end the wait for its cause. */
static void fail(td_far_portion *n, td_status *s) {
  if (!td_status_derived(s) && !(s && *td_status_about_task(s))) n->until = 0;
  n->status = td_status_first(n->status, s);
  n->done = true;
  stop_pulls(n);
  end_if_done(n);
}

/* ---- RUN ----------------------------------------------------------------- */

static td_status *add_args(td_far_portion *n, td_arena *a, td_raw *frames,
                           int *count, Td__Remote__Run *m) {
  td_far_roll *e = n->of;
  td_member *w = e->of;
  size_t small = 0;
  td_sending to = {.to = w->peer,
                   .session = &w->master->id,
                   .step = n->start.step,
                   .small = &small};
  m->arg = td_arena_alloc(a, ((size_t)e->n_own_args + 1) * sizeof *m->arg);
  if (!m->arg) return td_oom();
  for (int i = 0; i < e->n_own_args; i++) {
    Td__Remote__Value *v;
    TD_TRY(
        td_transfer_out(&to, &n->base.args[e->args[i]], a, frames, count, &v));
    v->index = e->args[i];
    m->arg[m->n_arg++] = v;
  }
  return NULL;
}

static td_status *say_run(td_far_portion *n) {
  td_arena a;
  td_raw frames[TD_MESSAGE_FRAMES];
  int count = 0;
  td_head head;
  Td__Remote__Run body = TD__REMOTE__RUN__INIT;
  td_arena_init(&a);
  td_head_init(&head, NULL);
  head.body_case = TD__REMOTE__MESSAGE__BODY_RUN;
  head.run = &body;
  body.step = n->start.step;
  body.handle = n->of->handle;
  body.timeout = n->start.timeout;
  body.trace = n->start.trace != NULL;
  body.print = true;
  body.check_numerics = n->start.check_numerics;
  body.draw = n->start.draw;
  td_status *s = add_args(n, &a, frames, &count, &body);
  if (td_ok(s))
    s = td_member_send(n->of->of, TD_LANE_CONTROL, &head, frames, count);
  else
    for (int i = 0; i < count; i++) td_raw_release(&frames[i]);
  td_arena_deinit(&a);
  return s;
}

static td_status *send_value(td_far_portion *n, td_key key,
                             const td_tensor *value) {
  td_member *w = n->of->of;
  td_arena a;
  td_raw frames[2];
  int count = 0;
  td_head head;
  Td__Remote__Tensor body = TD__REMOTE__TENSOR__INIT;
  td_arena_init(&a);
  td_head_init(&head, NULL);
  head.body_case = TD__REMOTE__MESSAGE__BODY_TENSOR;
  head.tensor = &body;
  body.step = n->start.step;
  body.edge = key.edge;
  body.frame = key.frame;
  body.iteration = key.iteration;
  td_sending to = {.to = w->peer,
                   .session = &w->master->id,
                   .step = n->start.step,
                   .narrow = n->of->narrow && n->of->narrow[key.edge],
                   .slow_link = w->master->slow_link,
                   .full = w->full};
  td_status *s = td_transfer_out(&to, value, &a, frames, &count, &body.value);
  if (td_ok(s)) {
    bool prompt = body.value->offer || body.value->bytes <= PROMPT_MOST;
    s = td_member_send(w, prompt ? TD_LANE_CONTROL : TD_LANE_DATA, &head,
                       frames, count);
  }
  td_arena_deinit(&a);
  return s;
}

/* What came for it while it was held. */
static td_status *send_held(td_far_portion *n) {
  td_status *s = NULL;
  for (size_t i = 0; td_ok(s) && i < n->held.len; i++)
    s = send_value(n, n->held.at[i].key,
                   n->held.at[i].dead ? NULL : &n->held.at[i].value);
  drop_held(n);
  return s;
}

static void note_applied(td_far_portion *n, td_applied what) {
  int32_t can = n->of->updates ? what : TD_APPLIED_NONE;
  __atomic_store_n(&n->base.applied, can, __ATOMIC_RELEASE);
}

static void go(td_far_portion *n) {
  td_far_roll *e = n->of;
  td_status *s = e->state == TD_ROLL_FAILED ? td_status_retain(e->error) : NULL;
  td_traced_send(n);
  if (td_ok(s)) s = say_run(n);
  if (td_ok(s)) note_applied(n, TD_APPLIED_UNKNOWN);
  if (td_ok(s)) s = send_held(n);
  if (td_ok(s))
    n->state = TD_PORTION_RUNNING;
  else
    fail(n, s);
}

void td_portions_go_on(td_master *m) {
  for (size_t i = 0; i < m->members.len; i++)
    for (td_far_portion *next, *n = m->members.at[i]->running; n; n = next) {
      next = n->next;
      if (n->state == TD_PORTION_HELD && !n->done && td_roll_is_ready(n->of))
        go(n);
    }
}

void td_member_start(td_portion *p, const td_portion_start *o) {
  td_far_portion *n = (td_far_portion *)p;
  td_remote *r = td_member_remote(n->of->of);
  td_remote_enter(r);
  n->start = *o;
  n->state = TD_PORTION_HELD;
  n->done = n->failed = false;
  note_applied(n, TD_APPLIED_NONE);
  n->due = n->came = 0;
  n->n_pulls = n->pulling = n->users = 0;
  n->until = 0;
  n->began = td_clock_now();
  td_str_clear(&n->why.text);
  n->why.question = 0;
  __atomic_store_n(&n->why.open, 0, __ATOMIC_RELEASE);
  td_traced_begin(n);
  __atomic_store_n(&n->out, 1, __ATOMIC_RELEASE);
  list(n);
  if (n->status) /* it was cancelled before */
    fail(n, NULL);
  else if (td_roll_is_ready(n->of))
    go(n);
  td_remote_leave(r);
}

/* ---- stopping ------------------------------------------------------------ */

static void say_cancel(td_far_portion *n, const td_status *cause) {
  td_arena a;
  td_head head;
  Td__Remote__Stop body = TD__REMOTE__STOP__INIT;
  td_arena_init(&a);
  td_head_init(&head, NULL);
  head.body_case = TD__REMOTE__MESSAGE__BODY_CANCEL;
  head.cancel = &body;
  body.step = n->start.step;
  body.status = td_wire_status_out(&a, cause);
  td_status_release(td_member_send(n->of->of, TD_LANE_CONTROL, &head, NULL, 0));
  td_arena_deinit(&a);
}

/* What stops the others: it follows from that. Evidence that waits has its
 * cause in it, or waits on, where it is about another task itself. */
static void note_cause(td_far_portion *n, td_status *cause) {
  td_status *s = td_status_retain(cause);
  if (n->until > 0 && *td_status_about_task(cause)) {
    n->status = td_status_first(n->status, s);
    return;
  }
  n->status =
      td_status_first(n->status, n->until > 0 ? s : td_status_derive(s));
  n->until = 0;
}

/* Inside of the turn: what the peer's own end is told to stop, or was never
 * told to begin. Takes ownership of `cause`. */
static void cancel(td_far_portion *n, td_status *cause) {
  n->cancelled = true;
  switch (n->state) {
  case TD_PORTION_HELD:
    fail(n, cause);
    return;
  case TD_PORTION_RUNNING:
    td_cell(TD_CELLS_STEP, 0, TD_STEP_CANCELLED);
    n->state = TD_PORTION_FAILING;
    if (!n->done) say_cancel(n, cause);
    note_cause(n, cause);
    end_if_done(n);
    break;
  case TD_PORTION_FAILING:
    td_cell(TD_CELLS_STEP, 1, TD_STEP_CANCELLED);
    break;
  case TD_PORTION_READY:
    n->status = td_status_first(n->status, td_status_retain(cause));
    break;
  case TD_PORTION_ENDED:
    td_cell(TD_CELLS_STEP, TD_STEP_ENDED, TD_STEP_CANCELLED);
    break;
  }
  td_status_release(cause);
}

void td_member_cancel(td_portion *p, td_status *cause) {
  td_far_portion *n = (td_far_portion *)p;
  td_remote *r = td_remote_retain(td_member_remote(n->of->of));
  td_remote_enter(r);
  cancel(n, cause);
  td_remote_leave(r);
  td_remote_release(r);
}

void td_portions_dead(td_member *m, td_status *why) {
  for (td_far_portion *next, *n = m->running; n; n = next) {
    next = n->next;
    td_cell(TD_CELLS_STEP, n->state == TD_PORTION_FAILING, TD_TASK_DEAD);
    n->came = n->due;
    fail(n, td_status_retain(why));
  }
  td_status_release(why);
}

/* ---- values -------------------------------------------------------------- */

td_status *td_member_deliver(td_portion *p, td_key key, td_tensor *value,
                             bool dead) {
  td_far_portion *n = (td_far_portion *)p;
  td_remote *r = td_remote_retain(td_member_remote(n->of->of));
  td_held h = {key, *value, dead};
  td_status *s = NULL;
  td_remote_enter(r);
  if (n->state == TD_PORTION_READY || n->state == TD_PORTION_HELD) {
    if (td_vec_push(&n->held, h))
      *value = (td_tensor){0};
    else
      s = td_oom();
  } else if (n->state == TD_PORTION_RUNNING) {
    s = send_value(n, key, dead ? NULL : value);
  }
  td_remote_leave(r);
  td_tensor_release(value);
  td_remote_release(r);
  return s;
}

/* ---- DONE ---------------------------------------------------------------- */

static void got_ret(td_transfer *t, td_tensor *value, bool dead, td_status *s) {
  td_ret_pull *pull = (td_ret_pull *)t;
  td_far_portion *n = pull->portion;
  n->pulling--;
  if (td_ok(s)) {
    td_tensor_release(&n->base.rets[pull->index]);
    n->base.rets[pull->index] = *value;
    n->base.rets_dead[pull->index] = dead;
    end_if_done(n);
  } else {
    fail(n, s);
  }
}

static void take_rets(td_far_portion *n, td_message *msg) {
  const Td__Remote__Done *d = msg->head->done;
  td_member *m = n->of->of;
  if (d->n_ret > (size_t)n->of->n_rets) {
    fail(n, td_error(TD_INTERNAL, "%s gave %zu fetches of %d", m->task,
                     d->n_ret, n->of->n_rets));
    return;
  }
  for (size_t i = 0; i < d->n_ret; i++) {
    td_ret_pull *pull = &n->pulls[n->n_pulls];
    int index = d->ret[i]->index;
    if (index < 0 || index >= n->of->n_rets) continue;
    *pull = (td_ret_pull){.base = {.got = got_ret}, n, index};
    n->n_pulls++;
    n->pulling++;
    td_transfer_in(m->peer, d->ret[i], msg, &pull->base);
    if (n->state == TD_PORTION_ENDED) return;
  }
}

static void got_trace(td_transfer *t, td_tensor *value, bool dead,
                      td_status *s) {
  td_far_portion *n = ((td_traced *)t)->portion;
  (void)dead;
  n->pulling--;
  n->traced.coming = false;
  n->traced.bytes = *value;
  td_traced_trouble(n, s);
  end_if_done(n);
}

/* Its frame, if it has one, is behind those of the fetches. */
static void take_trace(td_far_portion *n, td_message *msg) {
  const Td__Remote__Done *d = msg->head->done;
  if (!td_traced_done(n, d)) return;
  n->traced.portion = n;
  n->traced.base.got = got_trace;
  n->pulling++;
  n->traced.coming = true;
  td_transfer_in(n->of->of->peer, d->trace, msg, &n->traced.base);
}

static void learn_cost(td_far_roll *e, int64_t took) {
  int64_t was = e->took;
  if (took <= 0) return;
  __atomic_store_n(&e->took, was ? was + (took - was) / 8 : took,
                   __ATOMIC_RELAXED);
}

static td_portion_event event_of(const td_status *s) {
  bool evidence = s && *td_status_about_task(s) && !td_status_derived(s);
  return td_ok(s) ? TD_DONE_OK : evidence ? TD_DONE_EVIDENCE : TD_DONE_CAUSE;
}

/* What follows from somebody's evidence may come before that. */
static void failed(td_far_portion *n, td_status *s) {
  bool evidence = event_of(s) == TD_DONE_EVIDENCE;
  bool waits = s && *td_status_about_task(s) && n->state == TD_PORTION_RUNNING;
  td_cell(TD_CELLS_STEP, n->state == TD_PORTION_FAILING, event_of(s));
  if (evidence && n->state == TD_PORTION_FAILING) s = td_status_derive(s);
  n->status = td_status_first(n->status, s);
  if (waits) n->until = td_clock_now() + EVIDENCE;
}

/* For who looks at the workers: what went wrong there by itself. */
static void note_failure(td_member *m, const td_status *s) {
  td_str text = {0};
  if (td_status_derived(s) || td_status_code(s) == TD_CANCELLED) return;
  td_str_add(&text, td_status_message(s));
  if (*td_status_node(s)) td_str_addf(&text, " (%s)", td_status_node(s));
  if (!text.failed) {
    td_free(m->last);
    m->last = td_str_take(&text);
  }
  td_str_deinit(&text);
}

/* What a master in a server knows of the tasks of its step is in its word. */
static void learn_applied(td_far_portion *n, const Td__Remote__Done *d,
                          bool ok) {
  bool none = d->idle || n->of->of->keep;
  if (ok)
    note_applied(n, TD_APPLIED_ALL);
  else if (none)
    note_applied(n, TD_APPLIED_NONE);
}

void td_portion_done(td_member *m, td_message *msg) {
  const Td__Remote__Done *d = msg->head->done;
  td_far_portion *n = td_portion_find(m, d->step);
  td_status *s = td_wire_status_in(d->status, m->task);
  if (!n || n->done || n->state == TD_PORTION_HELD) {
    td_cell(TD_CELLS_STEP, TD_STEP_ENDED, event_of(s));
    td_status_release(s);
    return;
  }
  n->done = true;
  n->due = d->tensors;
  learn_applied(n, d, td_ok(s));
  if (td_ok(s)) {
    td_cell(TD_CELLS_STEP, n->state == TD_PORTION_FAILING, TD_DONE_OK);
    learn_cost(n->of, d->took);
    n->pulling++; /* not done before all is looked at */
    take_rets(n, msg);
    if (n->state != TD_PORTION_ENDED) take_trace(n, msg);
    if (n->state != TD_PORTION_ENDED) n->pulling--;
  } else {
    note_failure(m, s);
    failed(n, s);
    take_trace(n, msg);
  }
  if (n->state != TD_PORTION_ENDED) end_if_done(n);
}

/* Values between two members are lost: whose steps they were is not known. */
static void abort_all(td_master *s, td_status *why) {
  for (size_t i = 0; i < s->members.len; i++)
    for (td_far_portion *next, *n = s->members.at[i]->running; n; n = next) {
      next = n->next;
      if (n->state != TD_PORTION_RUNNING) continue;
      n->status = td_status_first(n->status, td_status_retain(why));
      if (*td_status_about_task(why)) n->until = td_clock_now() + EVIDENCE;
      cancel(n, td_status_retain(why));
    }
}

/* A worker could not keep what another sent: nobody waits for that any more. */
void td_portion_aborted(td_member *m, const Td__Remote__Stop *a) {
  td_far_portion *n = td_portion_find(m, a->step);
  td_status *s = td_wire_status_in(a->status, m->task);
  if (s && a->step == 0) abort_all(m->master, s);
  if (n && s && n->state == TD_PORTION_RUNNING) cancel(n, td_status_retain(s));
  td_status_release(s);
}

/* ---- the clock ----------------------------------------------------------- */

void td_portions_tick(td_member *m, int64_t now) {
  for (td_far_portion *next, *n = m->running; n; n = next) {
    next = n->next;
    if (n->until == 0 || now < n->until) continue;
    n->until = 0;
    end_if_done(n);
  }
}

void td_member_pump(td_portion *p, int64_t until, const int *interrupt,
                    bool (*ready)(void *arg), void *arg) {
  td_far_portion *n = (td_far_portion *)p;
  td_remote *r = td_remote_retain(td_member_remote(n->of->of));
  (void)td_pump_until(r, until, interrupt, ready, arg);
  td_remote_release(r);
}

void td_member_nudge(td_portion *p) {
  td_remote_news_after(td_member_remote(((td_far_portion *)p)->of->of));
}

void td_member_attend(td_portion *p, bool begins) {
  td_remote *r = td_member_remote(((td_far_portion *)p)->of->of);
  if (!begins) td_remote_send_off(r);
  td_remote_hear(begins ? r : NULL);
}
