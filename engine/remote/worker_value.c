/* worker_value.c - values that the steps of others send and receive here.
 *
 * A value that rode along is delivered, after the turn. One that was only
 * offered is pulled when its receiver begins to wait: a step that needs it
 * late, or not at all, does not hold its memory before. What a step did not
 * want by its end is dropped.
 *
 * Values may come before their step. They wait for it, offers as such and what
 * rode along with its bytes, as many as the session may have (P6); what is
 * more, or waits too long, is refused to the sender.
 *
 * So does what comes for a step that runs before somebody in it waits for it.
 * When half of what the session may have is full, ROOM tells those who send to
 * offer all: their steps hold what this one does not take, nothing is lost.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "engine/base/clock.h"
#include "engine/remote/cells.h"
#include "engine/remote/transfer_impl.h"
#include "engine/remote/worker_impl.h"

#define EARLY_NS INT64_C(10000000000)
enum { PROMPT_MOST = 4096 /* bytes of a value that goes with the prompt */ };

struct td_arrival {
  td_transfer base;                /* first */
  td_task task;                    /* delivers it */
  td_arrival **list, *prev, *next; /* the session's early ones, its step's, or
                                      NULL */
  td_hosted *of;                   /* a share; NULL: handed over */
  td_hosted_step *step;            /* a use, once handed over */
  uint64_t number, from;           /* the step's; the sender's incarnation */
  td_key key;
  td_tensor value;
  bool dead, here;
  size_t charge; /* of the session's early bytes */
  int64_t since;
};

/* ---- room ---------------------------------------------------------------- */

static void say_room(td_hosted *h, bool full) {
  td_head head;
  Td__Remote__Room body = TD__REMOTE__ROOM__INIT;
  h->full = full;
  body.full = full;
  for (size_t i = 0; i < h->tasks.len; i++) {
    const td_view_task *t = &h->tasks.at[i];
    td_peer *p = t->incarnation == h->master->incarnation ? h->master : t->peer;
    if (!p || t->fenced || p->health.state == TD_DEAD) continue;
    td_head_init(&head, &h->id);
    head.body_case = TD__REMOTE__MESSAGE__BODY_ROOM;
    head.room = &body;
    td_peer_say(p, &head);
  }
}

/* Is there room for it, and `bytes`? Then it has that. */
static bool charge(td_arrival *a, uint64_t bytes) {
  td_hosted *h = a->of;
  size_t room = h->early_most - h->early_bytes;
  bool fits = sizeof *a <= room && bytes <= room - sizeof *a;
  if (fits) {
    a->charge = sizeof *a + (size_t)bytes;
    h->early_bytes += a->charge;
  }
  /* What was said may have been lost: once more when it was not heeded. */
  if (!fits || (!h->full && h->early_bytes > h->early_most / 2))
    say_room(h, true);
  return fits;
}

static void uncharge(td_arrival *a) {
  td_hosted *h = a->of;
  h->early_bytes -= a->charge;
  a->charge = 0;
  if (h->full && h->early_bytes < h->early_most / 4) say_room(h, false);
}

void td_hosted_room(td_hosted *h, const td_peer *p, const Td__Remote__Room *m) {
  int32_t task = td_hosted_task(h, p->incarnation);
  if (task >= 0) h->tasks.at[task].full = m->full;
}

/* ---- lists --------------------------------------------------------------- */

static void list(td_arrival *a, td_arrival **first) {
  a->list = first;
  a->prev = NULL;
  a->next = *first;
  if (a->next) a->next->prev = a;
  *first = a;
}

static void unlist(td_arrival *a) {
  if (!a->list) return;
  if (a->charge) uncharge(a);
  if (a->prev)
    a->prev->next = a->next;
  else
    *a->list = a->next;
  if (a->next) a->next->prev = a->prev;
  a->list = NULL;
}

/* Its end, when it was not handed over. */
static void drop(td_arrival *a) {
  unlist(a);
  td_transfer_stop(&a->base);
  td_tensor_release(&a->value);
  td_hosted_release(a->of);
  td_free(a);
}

/* ---- keys ---------------------------------------------------------------- */

/* A key without holes, for maps. */
typedef struct flat_key {
  int64_t edge;
  uint64_t frame;
  int64_t iteration;
} flat_key;

static flat_key flatten(td_key k) {
  return (flat_key){k.edge, k.frame, k.iteration};
}

static bool is_slot(const td_hosted_step *step, td_key k) {
  return k.frame == 0 && k.edge >= 0 && k.edge < step->roll->n_edges;
}

static bool is_wanted(const td_hosted_step *step, td_key k) {
  flat_key flat = flatten(k);
  if (step->want_all) return true;
  return is_slot(step, k) ? step->wanted[k.edge]
                          : td_map_getn(&step->wants, &flat, sizeof flat) != 0;
}

static void note_wanted(td_hosted_step *step, td_key k) {
  flat_key flat = flatten(k);
  if (is_slot(step, k))
    step->wanted[k.edge] = true;
  else if (!td_map_putn(&step->wants, &flat, sizeof flat, step))
    step->want_all = true;
}

/* It was delivered. */
static void forget_wanted(td_hosted_step *step, td_key k) {
  flat_key flat = flatten(k);
  if (is_slot(step, k)) return;
  pthread_mutex_lock(&step->lock);
  (void)td_map_removen(&step->wants, &flat, sizeof flat);
  pthread_mutex_unlock(&step->lock);
}

/* ---- wanted -------------------------------------------------------------- */

/* Does somebody wait for it? Else it is to be found by who does. */
static bool is_awaited(td_arrival *a, td_hosted_step *step) {
  flat_key flat = flatten(a->key);
  pthread_mutex_lock(&step->lock);
  bool wanted = is_wanted(step, a->key) ||
                !td_map_putn(&step->offered, &flat, sizeof flat, a);
  pthread_mutex_unlock(&step->lock);
  return wanted;
}

static void forget_offer(td_hosted_step *step, const td_arrival *a) {
  flat_key flat = flatten(a->key);
  pthread_mutex_lock(&step->lock);
  if (td_map_getn(&step->offered, &flat, sizeof flat) == a)
    (void)td_map_removen(&step->offered, &flat, sizeof flat);
  pthread_mutex_unlock(&step->lock);
}

static void hand(td_arrival *a, td_hosted_step *step);

static void pull(td_hosted_step *step, td_key key) {
  flat_key flat = flatten(key);
  td_remote *r = td_remote_retain(step->of->of);
  td_remote_enter(r);
  pthread_mutex_lock(&step->lock);
  td_arrival *a = td_map_removen(&step->offered, &flat, sizeof flat);
  pthread_mutex_unlock(&step->lock);
  if (a && a->here)
    hand(a, step);
  else if (a)
    td_transfer_go(&a->base);
  td_remote_leave(r);
  td_remote_release(r);
}

void td_hosted_wanted(void *arg, td_key key) {
  td_hosted_step *step = arg;
  flat_key flat = flatten(key);
  pthread_mutex_lock(&step->lock);
  note_wanted(step, key);
  bool offered = td_map_getn(&step->offered, &flat, sizeof flat) != NULL;
  pthread_mutex_unlock(&step->lock);
  if (offered) pull(step, key);
}

/* ---- delivering ---------------------------------------------------------- */

static void deliver(td_task *task) {
  td_arrival *a = (td_arrival *)((char *)task - offsetof(td_arrival, task));
  td_hosted_step *step = a->step;
  const td_participant_ops *ops = step->of->local->ops;
  td_status_release(ops->deliver(step->portion, a->key, &a->value, a->dead));
  forget_wanted(step, a->key);
  ops->wake(step->portion);
  step->of->hooks->unuse(step);
  td_free(a);
}

static void hand(td_arrival *a, td_hosted_step *step) {
  unlist(a);
  a->step = step;
  td_hosted_step_use(step);
  td_hosted_release(a->of); /* the step has it */
  a->of = NULL;
  a->task.run = deliver;
  td_remote_after(step->of->of, &a->task);
}

/* ---- before its step ----------------------------------------------------- */

static void say_abort(td_hosted *h, uint64_t incarnation, uint64_t step,
                      td_status *s) {
  td_arena a;
  td_head head;
  Td__Remote__Stop body = TD__REMOTE__STOP__INIT;
  td_peer *p = td_hosted_known(h, td_hosted_task(h, incarnation));
  td_arena_init(&a);
  td_head_init(&head, &h->id);
  head.body_case = TD__REMOTE__MESSAGE__BODY_ABORT;
  head.abort = &body;
  body.step = step;
  body.status = td_wire_status_out(&a, s);
  if (p) td_peer_say(p, &head);
  td_arena_deinit(&a);
  td_status_release(s);
}

/* Waits for its step; `bytes` are there, or will be. */
static bool park(td_arrival *a, uint64_t bytes) {
  td_hosted *h = a->of;
  if (charge(a, bytes)) {
    a->since = td_clock_now();
    list(a, &h->early);
    return true;
  }
  say_abort(h, a->from, a->number,
            td_error(TD_RESOURCE_EXHAUSTED,
                     "more than %zu bytes came for steps that did not begin "
                     "at %s",
                     h->early_most, td_runtime_place(h->of->runtime)));
  drop(a);
  return false;
}

/* Will its step never come? */
static bool is_stale(const td_hosted *h, const td_arrival *a, int64_t now) {
  if (td_hosted_step_find(h, a->number)) return false;
  return td_hosted_step_seen(h, a->number) || now - a->since >= EARLY_NS;
}

static void refuse(td_arrival *a) {
  td_hosted *h = a->of;
  if (td_hosted_step_seen(h, a->number)) return;
  say_abort(h, a->from, a->number,
            td_error(TD_ABORTED,
                     "step %llu did not begin at %s within %.0f s of a value "
                     "for it",
                     (unsigned long long)a->number,
                     td_runtime_place(h->of->runtime),
                     (double)EARLY_NS * 1e-9));
}

/* What ends lets others begin, which may end: so those to be dropped are set
 * aside first. */
void td_hosted_unpark(td_hosted *h, int64_t now) {
  td_arrival *stale = NULL;
  for (td_arrival *next, *a = h->early; a; a = next) {
    next = a->next;
    if (now != INT64_MAX && !is_stale(h, a, now)) continue;
    if (now != INT64_MAX) refuse(a);
    unlist(a);
    list(a, &stale);
  }
  while (stale) drop(stale);
}

/* ---- arriving ------------------------------------------------------------ */

/* Where does it go? */
typedef enum whither { TO_STEP, TO_WAIT, TO_NOBODY } whither;

static whither way_of(const td_arrival *a, td_hosted_step **step) {
  td_hosted *h = a->of;
  *step = td_hosted_step_find(h, a->number);
  if (TD_BUG(TD_BUG_LATE_TENSOR) && !*step) *step = h->steps;
  if (h->state != TD_HOSTED_OPEN) return TO_NOBODY;
  if (*step)
    return (*step)->over || (*step)->cancelled ? TO_NOBODY
           : (*step)->started                  ? TO_STEP
                                               : TO_WAIT;
  bool old = td_hosted_step_seen(h, a->number);
  td_cell(TD_CELLS_SESSION, h->state, old ? TD_VALUE_OLD : TD_VALUE_EARLY);
  return old || TD_BUG(TD_BUG_EARLY_TENSOR) ? TO_NOBODY : TO_WAIT;
}

/* Here, for a step that has begun. Where nobody waits for it yet it stays with
 * the session, as long as there is room; what is small goes at once. */
static void give(td_arrival *a, td_hosted_step *step) {
  size_t bytes = a->dead ? 0 : td_tensor_bytes(&a->value);
  if (bytes > PROMPT_MOST && !is_awaited(a, step)) {
    if (charge(a, bytes)) {
      list(a, &step->arrivals);
      return;
    }
    forget_offer(step, a);
  }
  hand(a, step);
}

/* Offered to a step that has begun. A peer that offers more than a session may
 * have, though it was told to wait, ends its step. */
static void offer(td_arrival *a, td_hosted_step *step) {
  td_hosted *h = a->of;
  if (!charge(a, 0)) {
    h->hooks->stop(step,
                   td_error(TD_RESOURCE_EXHAUSTED,
                            "values that nobody waits for yet take more "
                            "than %zu bytes at %s",
                            h->early_most, td_runtime_place(h->of->runtime)));
    drop(a);
    return;
  }
  list(a, &step->arrivals);
  if (is_awaited(a, step)) td_transfer_go(&a->base);
}

/* The value is here. */
static void place(td_arrival *a) {
  td_hosted_step *step;
  if (a->list == &a->of->early) return; /* as it is, until its step begins */
  unlist(a);
  switch (way_of(a, &step)) {
  case TO_STEP:
    give(a, step);
    break;
  case TO_WAIT:
    (void)park(a, a->dead ? 0 : td_tensor_bytes(&a->value));
    break;
  case TO_NOBODY:
    drop(a);
    break;
  }
}

/* It was only offered. */
static void place_offer(td_arrival *a) {
  td_hosted_step *step;
  bool now = a->of->of->transfers->no_wanted;
  switch (way_of(a, &step)) {
  case TO_STEP:
    offer(a, step);
    break;
  case TO_WAIT:
    if (park(a, now ? a->base.bytes : 0) && now) td_transfer_go(&a->base);
    break;
  case TO_NOBODY:
    drop(a);
    break;
  }
}

/* A derived error is of one that was taken back, or came before: who takes it
 * back tells why. Takes ownership of `s`. */
static void failed(td_arrival *a, td_status *s) {
  td_hosted_step *step = td_hosted_step_find(a->of, a->number);
  unlist(a);
  if (step) forget_offer(step, a);
  if (td_status_derived(s))
    td_status_release(s);
  else if (step && !step->over)
    step->of->hooks->stop(step, s);
  else
    say_abort(a->of, a->from, a->number, s);
  drop(a);
}

static void got_value(td_transfer *t, td_tensor *value, bool dead,
                      td_status *s) {
  td_arrival *a = (td_arrival *)t;
  a->value = *value;
  a->dead = dead;
  a->here = true;
  if (td_ok(s))
    place(a);
  else
    failed(a, s);
}

void td_hosted_tensor(td_hosted *h, td_peer *p, td_message *m) {
  const Td__Remote__Tensor *t = m->head->tensor;
  int32_t task = td_hosted_task_of(h, p);
  bool known = task >= 0 && !h->tasks.at[task].fenced;
  if (!t->value || (p != h->master && !known)) return;
  if (h->state != TD_HOSTED_OPEN)
    td_cell(TD_CELLS_SESSION, h->state,
            td_hosted_step_seen(h, t->step) ? TD_VALUE_OLD : TD_VALUE_EARLY);
  td_arrival *a = td_calloc(1, sizeof *a);
  if (!a) return; /* it is missed as what is lost is */
  *a = (td_arrival){.base = {.got = got_value, .later = true},
                    .of = h,
                    .number = t->step,
                    .from = p->incarnation,
                    .key = {t->edge, t->frame, t->iteration}};
  h->refs++;
  if (td_transfer_in(p, t->value, m, &a->base)) place_offer(a);
}

/* ---- of a step ----------------------------------------------------------- */

td_status *td_hosted_values_init(td_hosted_step *step) {
  size_t n = (size_t)step->roll->n_edges;
  step->want_all = step->of->of->transfers->no_wanted;
  step->wanted = td_calloc(n + 1, sizeof *step->wanted);
  return step->wanted ? NULL : td_oom();
}

void td_hosted_values_deinit(td_hosted_step *step) {
  td_map_deinit(&step->offered);
  td_map_deinit(&step->wants);
  td_free(step->wanted);
}

void td_hosted_values_begin(td_hosted_step *step) {
  td_hosted *h = step->of;
  for (td_arrival *next, *a = h->early; a; a = next) {
    next = a->next;
    if (a->number != step->number) continue;
    unlist(a);
    if (a->here)
      give(a, step);
    else if (a->base.state == TD_TRANSFER_OFFERED)
      offer(a, step);
    else
      list(a, &step->arrivals);
  }
}

void td_hosted_values_end(td_hosted_step *step) {
  while (step->arrivals) {
    td_arrival *a = step->arrivals;
    forget_offer(step, a);
    drop(a);
  }
}

/* ---- sending ------------------------------------------------------------- */

static td_status *send_to(td_hosted_step *step, td_peer *p, td_key key,
                          const td_tensor *value, td_arena *a) {
  td_hosted *h = step->of;
  td_raw frames[2];
  int n = 0;
  td_head head;
  Td__Remote__Tensor body = TD__REMOTE__TENSOR__INIT;
  td_head_init(&head, &h->id);
  head.body_case = TD__REMOTE__MESSAGE__BODY_TENSOR;
  head.tensor = &body;
  body.step = step->number;
  body.edge = key.edge;
  body.frame = key.frame;
  body.iteration = key.iteration;
  td_sending to = {.to = p,
                   .session = &h->id,
                   .step = step->number,
                   .narrow = step->roll->far[key.edge].narrow,
                   .slow_link = h->slow_link,
                   .full = h->tasks.at[step->roll->far[key.edge].task].full};
  TD_TRY(td_transfer_out(&to, value, a, frames, &n, &body.value));
  bool prompt = body.value->offer || body.value->bytes <= PROMPT_MOST;
  return td_peer_send(p, prompt ? TD_LANE_CONTROL : TD_LANE_DATA, &head, frames,
                      n);
}

static td_status *send_far(td_hosted_step *step, td_key key,
                           const td_tensor *value) {
  td_hosted_roll *roll = step->roll;
  td_peer *p;
  td_arena a;
  if (step->of->state != TD_HOSTED_OPEN)
    return td_status_derive(td_error(TD_CANCELLED, "the session is closed"));
  if (key.edge < 0 || key.edge >= roll->n_edges ||
      roll->far[key.edge].task < 0 || !roll->far[key.edge].out)
    return td_error(TD_INTERNAL, "edge %d leads nowhere", (int)key.edge);
  TD_TRY(td_hosted_peer(step->of, roll->far[key.edge].task, &p));
  if (p == step->of->master) step->tensors++;
  td_arena_init(&a);
  td_status *s = send_to(step, p, key, value, &a);
  td_arena_deinit(&a);
  return s;
}

td_status *td_hosted_send(void *arg, td_key key, td_tensor *value, bool dead) {
  td_hosted_step *step = arg;
  td_remote *r = step->of->of;
  td_remote_retain(r);
  td_remote_enter(r);
  td_status *s = send_far(step, key, dead ? NULL : value);
  td_remote_leave(r);
  td_tensor_release(value);
  td_remote_release(r);
  return s;
}
