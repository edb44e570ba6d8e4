/* remote_watch.c - see remote_watch.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/remote_watch.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/remote/master_impl.h"
#include "engine/remote/transfer_impl.h"
#include "engine/remote/worker_impl.h"
#include "tests/sim/base/sim.h"
#include "tests/sim/seeds.h"

enum {
  PROCESSES = 64,
  PEERS = 64,
  MEMBERS = 64,
  EVIDENCE = 64,
  TOLD = 1024,
  LATE = 256,
  BACKLOG_MOST = 64 << 20, /* bytes that wait for a connection */
  OWED_MOST = TD_PULLS_MOST * (TD_WINDOW / TD_CHUNK)
};

/* Ticks of 250 ms in which a dead master's session goes: 10 s, and 2.5 s for
 * what is under way. */
enum { GONE_WITHIN = 50 };
static const int64_t ms = 1000000;

/* A peer as it was when it was looked at last. */
typedef struct seen_peer {
  const td_peer *peer;
  int64_t dialled; /* no two at one place of memory have the same */
  uint64_t incarnation;
  sim_end end;
  int64_t heard; /* when something had come last, by then; -1: never */
  bool linked, dead;
} seen_peer;

typedef struct seen_member {
  const td_member *member;
  td_member_state state;
} seen_member;

typedef struct process {
  const td_remote *r;
  int number;
  sim_node_t node;
  uint64_t incarnation;
  bool dead;
  int ticks;
  int at_death[PROCESSES]; /* ticks of the others when it died */
  seen_peer peer[PEERS];
  seen_member member[MEMBERS];
  int peers, members;
  int64_t evidence[EVIDENCE]; /* when it came, by its clock: a ring */
  int n_evidence;
} process;

/* Somebody of a session is to be told that another is dead. */
typedef struct told {
  int number; /* the master's process */
  td_session_id session;
  uint64_t dead, who;       /* incarnations */
  int32_t place, who_place; /* in the view */
} told;

/* Which was lost on its way: the network's fault. */
typedef struct lost_fence {
  td_session_id session;
  uint64_t dead, who;
} lost_fence;

/* A step at a worker. */
typedef struct step_key {
  uint64_t process, high, low, step;
} step_key;
enum { RUN_CAME = 1, CANCEL_CAME = 2 };

struct remote_watch {
  history *h;
  char *why;
  size_t room;
  process *process[PROCESSES]; /* by number */
  int of_node[1024];           /* number + 1 */
  int n;
  told told[TOLD];
  int n_told;
  lost_fence lost[TOLD];
  int n_lost;
  td_map steps;        /* step_key -> what came of it */
  step_key late[LATE]; /* those whose RUN came after their CANCEL */
  int n_late;
};

static void wrong(remote_watch *w, const char *what, ...) {
  va_list args;
  if (w->why[0]) return;
  va_start(args, what);
  vsnprintf(w->why, w->room, what, args);
  va_end(args);
}

/* ---- life ---------------------------------------------------------------- */

remote_watch *remote_watch_new(history *h, char *why, size_t room) {
  remote_watch *w = calloc(1, sizeof *w);
  if (!w) sim_give_up("no memory");
  w->h = h;
  w->why = why;
  w->room = room;
  return w;
}

void remote_watch_free(remote_watch *w) {
  for (int i = 0; i < w->n; i++) free(w->process[i]);
  td_map_deinit(&w->steps);
  free(w);
}

void remote_watch_process(remote_watch *w, const cluster_process *p,
                          const td_remote *r) {
  process *me = calloc(1, sizeof *me);
  if (!me || p->number != w->n || w->n == PROCESSES)
    sim_give_up("a process cannot be watched");
  me->r = r;
  me->number = p->number;
  me->node = p->node;
  me->incarnation = td_remote_incarnation(r);
  w->process[w->n++] = me;
  w->of_node[p->node] = p->number + 1;
}

void remote_watch_died(remote_watch *w, int number) {
  process *me = w->process[number];
  me->dead = true;
  for (int i = 0; i < w->n; i++) me->at_death[i] = w->process[i]->ticks;
}

static process *at_node(remote_watch *w, sim_node_t node) {
  int number = w->of_node[node] - 1;
  return number >= 0 && !w->process[number]->dead ? w->process[number] : NULL;
}

static process *of_incarnation(const remote_watch *w, uint64_t incarnation) {
  for (int i = 0; i < w->n; i++)
    if (w->process[i]->incarnation == incarnation) return w->process[i];
  return NULL;
}

/* ---- messages ------------------------------------------------------------ */

static bool take_number(const unsigned char **at, const unsigned char *end,
                        uint64_t *out) {
  *out = 0;
  for (int shift = 0; *at < end && shift < 64; shift += 7) {
    unsigned char c = *(*at)++;
    *out |= (uint64_t)(c & 127) << shift;
    if (c < 128) return true;
  }
  return false;
}

/* Which it is, without reading all of it: the number of its body's field. */
static int body_of(const td_raw *f) {
  const unsigned char *at = f->at, *end = at + f->len;
  uint64_t tag, value;
  while (take_number(&at, end, &tag)) {
    if (tag >> 3 >= 10) return (int)(tag >> 3);
    if ((tag & 7) == 1)
      at += 8;
    else if ((tag & 7) != 0 || !take_number(&at, end, &value))
      break;
  }
  return 0;
}

static uintptr_t note_step(remote_watch *w, const process *me,
                           const Td__Remote__Message *m, uint64_t step,
                           uintptr_t what) {
  step_key key = {(uint64_t)me->number, m->session_high, m->session_low, step};
  uintptr_t was = (uintptr_t)td_map_getn(&w->steps, &key, sizeof key);
  if (!td_map_putn(&w->steps, &key, sizeof key, (void *)(was | what)))
    sim_give_up("no memory");
  return was;
}

/* Nothing of the step may be applied there: which it is, its id tells when it
 * comes (remote_graph.h). */
static void came_run(remote_watch *w, const process *me,
                     const Td__Remote__Message *m) {
  step_key key = {(uint64_t)me->number, m->session_high, m->session_low,
                  m->run->step};
  td_session_id id = {m->session_high, m->session_low};
  uintptr_t was = note_step(w, me, m, m->run->step, RUN_CAME);
  if (was & RUN_CAME) sometimes("a RUN comes twice");
  if (was != CANCEL_CAME || !td_hosted_find((td_remote *)me->r, &id)) return;
  sometimes("a RUN comes after its CANCEL");
  if (w->n_late < LATE) w->late[w->n_late++] = key;
}

/* An int64 scalar is an id. */
static void came_value(remote_watch *w, const process *me,
                       const Td__Remote__Message *m, const td_raw *frames,
                       int n) {
  step_key key = {(uint64_t)me->number, m->session_high, m->session_low,
                  m->tensor->step};
  const Td__Remote__Value *v = m->tensor->value;
  int64_t id;
  if (!v || v->dead || v->offer || v->dtype != TD_INT64 || v->n_dim || n < 2)
    return;
  memcpy(&id, frames[1].at, sizeof id);
  for (int i = 0; i < w->n_late; i++)
    if (memcmp(&w->late[i], &key, sizeof key) == 0) {
      sometimes("the id of a step comes that was cancelled before its RUN");
      history_cancelled(w->h, me->number, id);
    }
}

static void came_status(process *me, const Td__Remote__Status *s) {
  if (!s || !s->code || !*s->about_task) return;
  sometimes("evidence comes");
  me->evidence[me->n_evidence++ % EVIDENCE] = sim_clock(me->node);
}

static void before(void *arg, sim_node_t from, sim_node_t to,
                   const td_raw *frames, int n) {
  remote_watch *w = arg;
  process *me = at_node(w, to);
  int body = body_of(&frames[0]);
  (void)from;
  if (!me || (body != TD__REMOTE__MESSAGE__BODY_RUN &&
              body != TD__REMOTE__MESSAGE__BODY_DONE &&
              body != TD__REMOTE__MESSAGE__BODY_ABORT &&
              body != TD__REMOTE__MESSAGE__BODY_CANCEL &&
              (body != TD__REMOTE__MESSAGE__BODY_TENSOR || !w->n_late)))
    return;
  Td__Remote__Message *m =
      td__remote__message__unpack(NULL, frames[0].len, frames[0].at);
  if (!m) sim_give_up("a message cannot be read");
  if (body == TD__REMOTE__MESSAGE__BODY_RUN)
    came_run(w, me, m);
  else if (body == TD__REMOTE__MESSAGE__BODY_CANCEL)
    (void)note_step(w, me, m, m->cancel->step, CANCEL_CAME);
  else if (body == TD__REMOTE__MESSAGE__BODY_TENSOR)
    came_value(w, me, m, frames, n);
  else
    came_status(me, body == TD__REMOTE__MESSAGE__BODY_DONE ? m->done->status
                                                           : m->abort->status);
  td__remote__message__free_unpacked(m, NULL);
}

static void lost(void *arg, const td_raw *frames, int n) {
  remote_watch *w = arg;
  (void)n;
  if (body_of(&frames[0]) != TD__REMOTE__MESSAGE__BODY_FENCE) return;
  Td__Remote__Message *m =
      td__remote__message__unpack(NULL, frames[0].len, frames[0].at);
  if (!m || w->n_lost == TOLD) sim_give_up("a message cannot be read");
  sometimes("a FENCE is lost");
  w->lost[w->n_lost++] = (lost_fence){
      {m->session_high, m->session_low}, m->fence->incarnation, m->to};
  td__remote__message__free_unpacked(m, NULL);
}

static bool is_lost(const remote_watch *w, const told *t) {
  for (int i = 0; i < w->n_lost; i++)
    if (w->lost[i].dead == t->dead && w->lost[i].who == t->who &&
        w->lost[i].session.low == t->session.low)
      return true;
  return false;
}

/* ---- peers --------------------------------------------------------------- */

static void check_values(remote_watch *w, const process *me, const td_peer *p) {
  const td_peer_values *v = &p->values;
  const td_map_entry *e;
  for (size_t i = 0; td_map_next(&v->transfers, &i, &e);) {
    const td_transfer *t = e->value;
    if (t->state == TD_TRANSFER_PULLED && t->asked > t->came + TD_WINDOW)
      wrong(w,
            "process %d has asked for %lld bytes of a value of %s at once: the "
            "window is %d (P6)",
            me->number, (long long)(t->asked - t->came), p->task,
            (int)TD_WINDOW);
  }
  if (v->pulling > TD_PULLS_MOST)
    wrong(w, "process %d pulls %d values of %s at once (P6)", me->number,
          v->pulling, p->task);
  if (v->pulling > 1) sometimes("values are pulled at once");
  if (p->backlog_bytes > BACKLOG_MOST || v->owed.len > OWED_MOST)
    wrong(w, "process %d keeps %zu bytes and %zu chunks for %s (P6)",
          me->number, p->backlog_bytes, v->owed.len, p->task);
}

/* What comes while it is judged comes too late for that. */
static void check_verdict(remote_watch *w, const process *me,
                          const seen_peer *s) {
  int64_t now = sim_clock(SIM_WORLD);
  int64_t heard = s->linked ? sim_end_heard(s->end) : -1;
  if (now - heard < 10 * ms) heard = s->heard;
  int64_t ago = now - heard;
  if (!s->peer->error ||
      !strstr(td_status_message(s->peer->error), "no sign of life"))
    return;
  sometimes("a peer is judged dead");
  if (heard >= 0 && ago < 1800 * ms)
    wrong(w,
          "process %d judges %s dead, from whom something came %lld ms ago: "
          "its own loop stood still (P1)",
          me->number, s->peer->task, (long long)(ago / ms));
}

static void look_at_peer(remote_watch *w, const process *me, seen_peer *s) {
  const td_peer *p = s->peer;
  if (p->link) {
    s->end = sim_link_end(p->link);
    s->linked = true;
  }
  if (s->incarnation && p->incarnation != s->incarnation)
    wrong(w,
          "process %d takes process %d for process %d, whose place it has "
          "(P7)",
          me->number,
          of_incarnation(w, p->incarnation)
              ? of_incarnation(w, p->incarnation)->number
              : -1,
          of_incarnation(w, s->incarnation)
              ? of_incarnation(w, s->incarnation)->number
              : -1);
  s->incarnation = p->incarnation;
  check_values(w, me, p);
  if (p->health.state == TD_DEAD && !s->dead) check_verdict(w, me, s);
  s->dead = p->health.state == TD_DEAD;
  s->heard = s->linked ? sim_end_heard(s->end) : -1;
}

static bool has_peer(const td_remote *r, const seen_peer *s) {
  for (size_t i = 0; i < r->peers.len; i++)
    if (r->peers.at[i] == s->peer) return s->peer->dialled == s->dialled;
  return false;
}

static void look_at_peers(remote_watch *w, process *me) {
  int kept = 0;
  for (int i = 0; i < me->peers; i++)
    if (has_peer(me->r, &me->peer[i])) me->peer[kept++] = me->peer[i];
  me->peers = kept;
  for (size_t i = 0; i < me->r->peers.len; i++) {
    const td_peer *p = me->r->peers.at[i];
    int k = 0;
    while (k < me->peers && me->peer[k].peer != p) k++;
    if (k == PEERS) sim_give_up("too many peers");
    if (k == me->peers)
      me->peer[me->peers++] = (seen_peer){.peer = p, .dialled = p->dialled};
    look_at_peer(w, me, &me->peer[k]);
  }
}

/* ---- who is to be told --------------------------------------------------- */

static bool has_member(const td_remote *r, const td_member *w) {
  for (size_t i = 0; i < r->masters.len; i++)
    for (size_t k = 0; k < r->masters.at[i]->members.len; k++)
      if (r->masters.at[i]->members.at[k] == w) return true;
  return false;
}

/* As it was when it was looked at last. */
static seen_member *seen(process *me, const td_member *m) {
  int k = 0;
  while (k < me->members && me->member[k].member != m) k++;
  if (k == MEMBERS) sim_give_up("too many members");
  if (k == me->members) me->member[me->members++] = (seen_member){m, m->state};
  return &me->member[k];
}

/* Those who take part before and after. */
static void note_dead(remote_watch *w, process *me, const td_member *dead) {
  const td_master *m = dead->master;
  for (size_t i = 0; i < m->members.len; i++) {
    const td_member *o = m->members.at[i];
    if (o->state != TD_MEMBER_OPEN || seen(me, o)->state != TD_MEMBER_OPEN)
      continue;
    if (w->n_told == TOLD) sim_give_up("too many are dead");
    w->told[w->n_told++] = (told){.number = me->number,
                                  .session = m->id,
                                  .dead = dead->peer->incarnation,
                                  .who = o->peer->incarnation,
                                  .place = dead->place,
                                  .who_place = o->place};
  }
}

static void look_at_master(remote_watch *w, process *me, const td_master *m) {
  for (size_t i = 0; i < m->members.len; i++) {
    const td_member *o = m->members.at[i];
    if (o->state == TD_MEMBER_ENDED && seen(me, o)->state == TD_MEMBER_OPEN &&
        o->peer->health.state == TD_DEAD)
      note_dead(w, me, o);
  }
  for (size_t i = 0; i < m->members.len; i++)
    seen(me, m->members.at[i])->state = m->members.at[i]->state;
}

static void look_at_members(remote_watch *w, process *me) {
  int kept = 0;
  for (int i = 0; i < me->members; i++)
    if (has_member(me->r, me->member[i].member))
      me->member[kept++] = me->member[i];
  me->members = kept;
  for (size_t i = 0; i < me->r->masters.len; i++)
    look_at_master(w, me, me->r->masters.at[i]);
}

/* Is it so that the master has the other at the same place still, who has the
 * session still? */
static void check_told(remote_watch *w, const told *t) {
  const process *from = w->process[t->number], *who = of_incarnation(w, t->who);
  if (from->dead || !who || who->dead) return;
  td_master *m =
      td_master_find((td_remote *)from->r, t->session.high, t->session.low);
  if (!m || (size_t)t->who_place > m->members.len) return;
  const td_member *o = m->members.at[t->who_place - 1];
  const td_hosted *h = td_hosted_find((td_remote *)who->r, &t->session);
  if (o->state != TD_MEMBER_OPEN || o->peer->incarnation != t->who || !h ||
      (size_t)t->place >= h->tasks.len || is_lost(w, t))
    return;
  for (size_t i = 0; i < h->tasks.len; i++)
    if (h->tasks.at[i].incarnation == t->dead && h->tasks.at[i].fenced) return;
  wrong(w,
        "process %d has given up %s, and process %d was not told: the fence is "
        "missing (P4)",
        t->number, h->tasks.at[t->place].task, who->number);
}

void remote_watch_fences(remote_watch *w) {
  for (int i = 0; i < w->n_told; i++) check_told(w, &w->told[i]);
  if (w->n_told) sometimes("somebody is told of a death");
}

/* ---- sessions of others -------------------------------------------------- */

static void look_at_hosted(remote_watch *w, const process *me,
                           const td_hosted *h) {
  const process *master = of_incarnation(w, h->master->incarnation);
  if (h->early) sometimes("a value is parked");
  if (h->early_bytes > h->early_most)
    wrong(w, "process %d has parked %zu bytes of %zu (P6)", me->number,
          h->early_bytes, h->early_most);
  if (!master || !master->dead) return;
  if (me->ticks - master->at_death[me->number] > GONE_WITHIN)
    wrong(w,
          "process %d has a session of process %d, which is dead for more "
          "than %d s (P5)",
          me->number, master->number, GONE_WITHIN / 4);
}

void remote_watch_empty(remote_watch *w) {
  for (int i = 0; i < w->n; i++) {
    const process *me = w->process[i];
    if (me->dead) continue;
    if (me->r->hosted.len)
      wrong(w, "process %d has %zu sessions when all are closed (P5)", i,
            me->r->hosted.len);
    if (me->r->transfers->offers)
      wrong(w, "process %d offers values of sessions that are closed (P6)", i);
    for (size_t k = 0; k < me->r->peers.len; k++)
      if (me->r->peers.at[k]->values.transfers.count)
        wrong(w, "process %d pulls values for sessions that are closed (P6)",
              i);
  }
}

/* ---- looking ------------------------------------------------------------- */

static void look(remote_watch *w, process *me) {
  if (me->r->closed) return;
  look_at_peers(w, me);
  look_at_members(w, me);
  for (size_t i = 0; i < me->r->hosted.len; i++)
    look_at_hosted(w, me, me->r->hosted.at[i]);
}

static void after(void *arg, sim_node_t node) {
  process *me = at_node(arg, node);
  if (me) look(arg, me);
}

void remote_watch_tick(remote_watch *w, int number) {
  process *me = w->process[number];
  me->ticks++;
  if (!me->dead) look(w, me);
}

void remote_watch_network(remote_watch *w, sim_network *net) {
  sim_onlooker who = {lost, before, after, w};
  sim_network_watch(net, &who);
}

void remote_watch_error(remote_watch *w, int number, int64_t began,
                        const td_status *s) {
  const process *me = w->process[number];
  const char *about = td_status_about_task(s), *by = td_status_device(s);
  int64_t now = sim_clock(me->node);
  if (!*about || strncmp(by, "/job:worker", 11) != 0 || me->dead ||
      strncmp(by, about, strlen(about)) == 0)
    return;
  sometimes("evidence is the error");
  for (int i = 0; i < EVIDENCE && i < me->n_evidence; i++)
    if (me->evidence[i] >= began && now - me->evidence[i] >= 990 * ms) return;
  wrong(w,
        "process %d tells what %s says about %s, before the cause could be "
        "known (P1): %s",
        number, by, about, td_status_message(s));
}

int remote_watch_place(const td_remote *r, const td_session *s, int worker,
                       bool joined) {
  char task[64];
  const td_master *m = td_master_of((td_remote *)r, s);
  snprintf(task, sizeof task, "/job:worker/replica:0/task:%d", worker);
  for (size_t i = m ? m->members.len : 0; i-- > 0;) {
    const td_member *w = m->members.at[i];
    if (w->task && strcmp(w->task, task) == 0 && (w->joined || !joined))
      return w->place;
  }
  return 0;
}
