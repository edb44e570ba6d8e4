/* far_session.c - sessions whose master is another process: opened, asked.
 *
 * The server is a member of the session (master_impl.h), as a worker is; what
 * makes it the master is that it was opened by KEEP, and that the session's
 * planner, here, hands it signatures whole.
 *
 * Who asks waits; a question is on its stack, and in the remote's list until it
 * is answered. It is said once: a link that loses messages ends, and with it
 * the wait.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/remote/far_session.h"

#include <string.h>

#include "engine/base/bytes.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/graphdef/graphdef.h"
#include "engine/remote/far_graph.h"
#include "engine/remote/far_session_impl.h"
#include "engine/remote/master_impl.h"
#include "engine/run/callable_impl.h"

#define PATIENCE INT64_C(10000000000) /* ns that an answer may take */
enum { ADOPTED = 1 << 15 };           /* numbers of one question, 256 KiB */

struct td_far_session {
  td_session_planner base; /* first */
  td_remote *of;           /* a share */
  td_session *session;     /* borrowed: it has this */
  char *name, *task;
};

struct td_far_asked {
  td_transfer base; /* first */
  struct td_far_asked *prev, *next;
  td_peer *peer; /* a share */
  uint64_t id;
  bool done; /* atomic */
  td_status *status;
  td_tensor value;
};

const char *td_far_name(const td_far_session *f) {
  return f->name;
}

const char *td_far_task(const td_far_session *f) {
  return f->task;
}

td_session *td_far_home(const td_far_session *f) {
  return f->session;
}

/* ---- the member ---------------------------------------------------------- */

/* Inside of the turn: the server, as it is now; borrowed. */
static td_status *find_member(const td_far_session *f, td_member **out) {
  const td_master *m = td_master_of(f->of, f->session);
  const td_member *last = NULL;
  for (size_t i = 0; m && i < m->members.len; i++) {
    last = m->members.at[i];
    if (last->state != TD_MEMBER_OPEN) continue;
    *out = m->members.at[i];
    return NULL;
  }
  if (last && last->error) return td_status_retain(last->error);
  return td_error(TD_UNAVAILABLE, "%s, the session's master, is not there",
                  f->task);
}

/* ---- plans --------------------------------------------------------------- */

static td_status *find_device(td_far_session *f, td_device **out) {
  td_member *m;
  td_remote_enter(f->of);
  td_status *s = find_member(f, &m);
  if (td_ok(s) && m->devices.len == 0)
    s = td_error(TD_UNAVAILABLE, "%s has no device", f->task);
  if (td_ok(s)) *out = td_device_retain(m->devices.at[0]);
  td_remote_leave(f->of);
  return s;
}

/* Any device of the server's stands for it: where nodes run it decides. */
static td_status *make_plan(td_session_planner *p, const td_signature *sig,
                            td_plan **out) {
  td_far_session *f = (td_far_session *)p;
  td_device *d;
  TD_TRY(find_device(f, &d));
  td_plan *plan = td_calloc(1, sizeof *plan);
  if (plan) plan->parts = td_calloc(1, sizeof *plan->parts);
  if (!plan || !plan->parts) {
    td_free(plan);
    td_device_release(d);
    return td_oom();
  }
  plan->n_parts = 1;
  plan->parts[0].device = d;
  td_status *s =
      td_far_graph(f->session->graph, sig, f->task, &plan->parts[0].graph);
  if (td_ok(s))
    *out = plan;
  else
    td_plan_free(plan);
  return s;
}

static bool is_spoilt(const td_enrollment *e) {
  return __atomic_load_n(&((const td_far_roll *)e)->spoilt, __ATOMIC_ACQUIRE);
}

static void free_far(td_session_planner *p) {
  td_far_session *f = (td_far_session *)p;
  td_remote_release(f->of);
  td_free(f->name);
  td_free(f->task);
  td_free(f);
}

td_far_session *td_far_session_of(const td_session *s) {
  td_session_planner *p = td_session_planner_of(s);
  return p && p->plan == make_plan ? (td_far_session *)p : NULL;
}

/* ---- questions ----------------------------------------------------------- */

static void list(td_remote *r, td_far_asked *a) {
  a->next = r->asked;
  if (a->next) a->next->prev = a;
  r->asked = a;
}

static void unlist(td_remote *r, td_far_asked *a) {
  if (a->prev)
    a->prev->next = a->next;
  else
    r->asked = a->next;
  if (a->next) a->next->prev = a->prev;
}

/* Takes ownership of *value and `s`. */
static void settle(td_far_asked *a, td_tensor *value, td_status *s) {
  a->value = *value;
  a->status = s;
  __atomic_store_n(&a->done, true, __ATOMIC_RELEASE);
  td_remote_news(a->peer->of);
}

static void got(td_transfer *t, td_tensor *value, bool dead, td_status *s) {
  td_far_asked *a = (td_far_asked *)t;
  if (td_ok(s) && (dead || value->dtype != TD_UINT8)) {
    td_tensor_release(value);
    *value = (td_tensor){0};
    s = td_error(TD_INTERNAL, "%s gave an answer that is no bytes",
                 a->peer->task);
  }
  settle(a, value, s);
}

void td_far_answered(td_peer *p, td_message *m) {
  const Td__Remote__KeepAnswer *answer = m->head->keep_answer;
  td_far_asked *a = p->of->asked;
  td_tensor none = {0};
  while (a && (a->id != answer->id || a->peer != p)) a = a->next;
  if (!a || a->done || a->base.from) return;
  td_status *s = td_wire_status_in(answer->status, p->task);
  a->base.got = got;
  if (td_ok(s) && answer->value)
    td_transfer_in(p, answer->value, m, &a->base);
  else
    settle(a, &none, s);
}

static td_status *say(td_far_asked *a, const td_session_id *id,
                      const td_far_question *q) {
  td_head head;
  Td__Remote__KeepAsk body = TD__REMOTE__KEEP_ASK__INIT;
  td_head_init(&head, id);
  head.body_case = TD__REMOTE__MESSAGE__BODY_KEEP_ASK;
  head.keep_ask = &body;
  body.id = a->id;
  body.what = (Td__Remote__KeepAsk__What)q->what;
  body.text = td_wire_text(q->text);
  body.key = td_wire_text(q->key);
  body.time = q->time;
  body.flag = q->flag;
  body.number = q->numbers;
  body.n_number = q->n_numbers;
  body.name = q->names;
  body.n_name = q->n_names;
  return td_peer_send(a->peer, TD_LANE_CONTROL, &head, NULL, 0);
}

static bool is_settled(void *arg) {
  td_far_asked *a = arg;
  td_remote *r = a->peer->of;
  if (__atomic_load_n(&a->done, __ATOMIC_ACQUIRE)) return true;
  td_remote_enter(r);
  bool dead = a->peer->health.state == TD_DEAD;
  td_remote_leave(r);
  return dead;
}

static td_status *no_answer(const td_far_asked *a, const td_far_question *q) {
  if (a->peer->health.state == TD_DEAD) return td_peer_lost(a->peer);
  if (q->interrupt && __atomic_load_n(q->interrupt, __ATOMIC_RELAXED))
    return td_error(TD_CANCELLED, "interrupted");
  return td_error(TD_DEADLINE_EXCEEDED, "%s did not answer within %.0f s",
                  a->peer->task, (double)(PATIENCE + q->time) * 1e-9);
}

/* Takes ownership of a->peer's share. */
static td_status *ask(td_remote *r, td_far_asked *a, const td_session_id *id,
                      const td_far_question *q, td_str *out) {
  td_remote_enter(r);
  a->id = td_remote_number(r);
  list(r, a);
  td_status *s = say(a, id, q);
  td_remote_leave(r);
  if (td_ok(s))
    (void)td_pump_until(r, td_clock_now() + PATIENCE + q->time, q->interrupt,
                        is_settled, a);
  td_remote_enter(r);
  unlist(r, a);
  if (a->base.from) td_transfer_stop(&a->base);
  if (td_ok(s)) s = a->done ? a->status : no_answer(a, q);
  td_peer_release(a->peer);
  td_remote_leave(r);
  if (td_ok(s) && td_tensor_valid(&a->value)) {
    td_str_addn(out, a->value.data, td_tensor_bytes(&a->value));
    if (out->failed) s = td_oom();
  }
  td_tensor_release(&a->value);
  return s;
}

td_status *td_far_ask(td_far_session *f, const td_far_question *q,
                      td_str *out) {
  td_far_asked a = {0};
  td_member *m;
  td_session_id id = {0};
  td_remote_enter(f->of);
  td_status *s = find_member(f, &m);
  if (td_ok(s)) {
    id = m->master->id;
    a.peer = td_peer_retain(m->peer);
  }
  td_remote_leave(f->of);
  return td_ok(s) ? ask(f->of, &a, &id, q, out) : s;
}

/* ---- a server's list ----------------------------------------------------- */

static bool is_there(void *arg) {
  td_peer *p = arg;
  td_remote_enter(p->of);
  bool there = p->welcomed || p->health.state == TD_DEAD;
  td_remote_leave(p->of);
  return there;
}

/* Inside of the turn. */
static td_status *check_there(const td_peer *p, const td_attach_options *at) {
  if (p->welcomed && p->health.state != TD_DEAD) return NULL;
  if (p->error) return td_status_retain(p->error);
  return td_error(TD_UNAVAILABLE,
                  "nobody answers at %s: is a worker running there, and is the "
                  "port right and open?",
                  at->to.control);
}

td_status *td_far_list(td_remote *r, const td_attach_options *at, td_str *out) {
  td_far_asked a = {0};
  td_far_question q = {.what = TD_FAR_LIST, .interrupt = at->interrupt};
  td_session_id nobody = {0};
  td_remote_enter(r);
  td_status *s = td_peer_dial(r, &at->to, &a.peer);
  td_remote_leave(r);
  TD_TRY(s);
  int64_t wait = at->timeout > 0 ? at->timeout : PATIENCE;
  (void)td_pump_until(r, td_clock_now() + wait, at->interrupt, is_there,
                      a.peer);
  td_remote_enter(r);
  s = check_there(a.peer, at);
  if (!td_ok(s)) td_peer_release(a.peer);
  td_remote_leave(r);
  return td_ok(s) ? ask(r, &a, &nobody, &q, out) : s;
}

/* ---- joining ------------------------------------------------------------- */

/* Nodes by what their serials are there and here; of those that have none here,
 * and without a graph, nothing. Takes them off *from. */
static td_status *find_pairs(const td_graph *g, td_bytes *from, uint64_t **out,
                             size_t *count) {
  uint64_t n, serial;
  td_bytes name = {"", 0};
  *count = 0;
  if (!td_bytes_get(from, 4, &n) || n > from->len / 9)
    return td_error(TD_DATA_LOSS, "a graph came broken");
  *out = td_calloc(2 * (size_t)n + 1, sizeof **out);
  if (!*out) return td_oom();
  for (size_t i = 0; i < n; i++) {
    bool good = td_bytes_get(from, 8, &serial);
    const char *stop = good ? memchr(from->at, 0, from->len) : NULL;
    if (!stop) return td_error(TD_DATA_LOSS, "a graph came broken");
    (void)td_bytes_take(from, (size_t)(stop - from->at) + 1, &name);
    const td_node *node = g ? td_graph_find(g, name.at) : NULL;
    if (!node) continue;
    (*out)[(*count)++] = serial;
    (*out)[(*count)++] = node->serial;
  }
  return NULL;
}

/* Caller owns *pairs, after an error, too. */
static td_status *read_graph(td_graph *g, td_bytes from, uint64_t **pairs,
                             size_t *n) {
  td_bytes rest = from;
  TD_TRY(find_pairs(NULL, &rest, pairs, n));
  td_free(*pairs);
  *pairs = NULL;
  if (rest.len) TD_TRY(td_graphdef_read(g, rest.at, rest.len, NULL));
  td_graph_lock(g);
  td_status *s = find_pairs(g, &from, pairs, n);
  td_graph_unlock(g);
  return s;
}

/* So many at a time that each question is a short head. */
static td_status *adopt(td_far_session *f, uint64_t *pairs, size_t n,
                        const int *interrupt) {
  td_str none = {0};
  td_status *s = NULL;
  for (size_t at = 0; td_ok(s) && at < n; at += ADOPTED) {
    size_t rest = n - at;
    td_far_question q = {.what = TD_FAR_ADOPT,
                         .numbers = pairs + at,
                         .n_numbers = rest < ADOPTED ? rest : ADOPTED,
                         .interrupt = interrupt};
    s = td_far_ask(f, &q, &none);
  }
  td_str_deinit(&none);
  return s;
}

static td_status *copy_graph(td_far_session *f, td_graph *g,
                             const int *interrupt) {
  td_far_question q = {.what = TD_FAR_GRAPH, .interrupt = interrupt};
  uint64_t *pairs = NULL;
  size_t n = 0;
  td_str text = {0};
  td_status *s = td_far_ask(f, &q, &text);
  if (td_ok(s))
    s = read_graph(g, (td_bytes){td_str_c(&text), text.len}, &pairs, &n);
  td_str_deinit(&text);
  if (td_ok(s)) s = adopt(f, pairs, n, interrupt);
  td_free(pairs);
  return s;
}

/* ---- opening ------------------------------------------------------------- */

static td_status *keep_new(const td_far_options *o,
                           const td_session_options *as, td_keep **out) {
  td_keep *k = td_calloc(1, sizeof *k);
  if (!k) return td_oom();
  *k = (td_keep){.refs = 1,
                 .name = td_strdup(o->name),
                 .join = o->join,
                 .outlive = o->outlive,
                 .hard_placement = as->hard_placement,
                 .threads = (uint32_t)o->threads,
                 .cpu_devices = (uint32_t)o->cpu_devices,
                 .passes_off = as->passes_off,
                 .cache = (uint32_t)as->cache,
                 .slow_link = (uint64_t)as->slow_link};
  *out = k;
  if (k->name) return NULL;
  td_keep_release(k);
  return td_oom();
}

static td_status *far_new(td_remote *r, td_session *s, const char *name,
                          td_far_session **out) {
  td_far_session *f = td_calloc(1, sizeof *f);
  if (!f) return td_oom();
  f->base = (td_session_planner){
      .plan = make_plan, .spoilt = is_spoilt, .free = free_far};
  f->of = td_remote_retain(r);
  f->session = s;
  f->name = td_strdup(name);
  *out = f;
  if (f->name) return NULL;
  free_far(&f->base);
  return td_oom();
}

static td_status *attach(td_far_session *f, const td_far_options *o) {
  td_attach_options at = o->at;
  td_member *m;
  TD_TRY(keep_new(o, &f->session->options, &at.keep));
  td_status *s = td_remote_attach(f->of, f->session, &at, &m);
  td_keep_release(at.keep);
  TD_TRY(s);
  f->task = td_strdup(m->task);
  return f->task ? NULL : td_oom();
}

td_status *td_far_open(td_remote *r, td_session *s, td_graph *g,
                       const td_far_options *o) {
  td_far_session *f = NULL;
  TD_TRY(far_new(r, s, o->name, &f));
  td_status *st = attach(f, o);
  if (!td_ok(st)) {
    free_far(&f->base);
    return st;
  }
  td_session_plan_by(s, &f->base);
  return o->join ? copy_graph(f, g, o->at.interrupt) : NULL;
}

/* ---- what is registered -------------------------------------------------- */

static bool is_registered(void *arg) {
  td_far_roll *e = arg;
  td_remote *r = td_member_remote(e->of);
  td_remote_enter(r);
  bool registered = e->state != TD_ROLL_SENT;
  td_remote_leave(r);
  return registered;
}

td_status *td_far_ready(td_callable *c, const int *interrupt) {
  td_compiled *now;
  if (!td_far_session_of(c->session)) return NULL;
  TD_TRY(td_callable_current(c, &now));
  td_far_roll *e = (td_far_roll *)now->enrollments[0];
  td_remote *r = td_member_remote(e->of);
  if (!td_pump_until(r, INT64_MAX, interrupt, is_registered, e))
    return td_error(TD_CANCELLED, "interrupted");
  td_remote_enter(r);
  td_status *s = td_status_retain(e->error);
  td_remote_leave(r);
  return s ? td_compiled_blame(now, s) : NULL;
}
