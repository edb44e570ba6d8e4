/* master_roll.c - parts of our graphs, sent to where they run.
 *
 * A part is sealed and split when it is enrolled; REGISTER names its pieces,
 * NEED says which are missing there, and BLOBs bring them. It is said again on
 * silence. Nothing waits for the answer but the first step.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/graph/graph.h"
#include "engine/remote/master_impl.h"

/* ---- life ---------------------------------------------------------------- */

static void drop_parts(td_far_roll *e) {
  for (int i = 0; e->parts && i < e->n_parts; i++) {
    td_sealed_part_deinit(&e->parts[i].sealed);
    td_pieces_free(&e->parts[i].pieces);
    td_free(e->parts[i].device);
  }
  td_free(e->parts);
  td_free(e->far);
  e->parts = NULL;
  e->far = NULL;
  e->n_parts = 0;
}

static void free_roll(td_far_roll *e) {
  drop_parts(e);
  td_status_release(e->error);
  td_free(e->args);
  td_free(e->narrow);
  td_participant_release(&e->of->base);
  td_free(e);
}

static void unlist(td_far_roll *e) {
  if (e->prev)
    e->prev->next = e->next;
  else
    e->of->rolls = e->next;
  if (e->next) e->next->prev = e->prev;
}

static void list(td_far_roll *e) {
  e->next = e->of->rolls;
  if (e->next) e->next->prev = e;
  e->of->rolls = e;
}

static void say_unregister(td_far_roll *e) {
  td_head head;
  Td__Remote__Handles body = TD__REMOTE__HANDLES__INIT;
  td_head_init(&head, NULL);
  head.body_case = TD__REMOTE__MESSAGE__BODY_UNREGISTER;
  head.unregister = &body;
  body.n_handle = 1;
  body.handle = &e->handle;
  td_status_release(td_member_send(e->of, TD_LANE_CONTROL, &head, NULL, 0));
}

void td_member_forget(td_enrollment *enrolled) {
  td_far_roll *e = (td_far_roll *)enrolled;
  if (!e) return;
  td_remote *r = td_remote_retain(td_member_remote(e->of));
  td_remote_enter(r);
  unlist(e);
  if (e->of->state == TD_MEMBER_OPEN) say_unregister(e);
  td_remote_leave(r);
  free_roll(e);
  td_remote_release(r);
}

int64_t td_member_cost(const td_enrollment *e) {
  return __atomic_load_n(&((const td_far_roll *)e)->took, __ATOMIC_RELAXED);
}

void td_member_costs(const td_enrollment *e, td_each_cost each, void *arg) {
  (void)e, (void)each, (void)arg;
}

/* ---- reading a roll ------------------------------------------------------ */

/* The feeds that the parts take: their _Args. */
static td_status *find_args(td_far_roll *e, const td_roll *roll) {
  e->args = td_calloc((size_t)roll->n_args + 1, sizeof *e->args);
  if (!e->args) return td_oom();
  for (int i = 0; i < roll->n_parts; i++) {
    const td_graph *g = roll->parts[i].graph;
    for (int32_t id = 0; id < td_graph_size(g); id++) {
      const td_node *n = td_graph_node(g, id);
      if (strcmp(n->op->type, "_Arg") != 0) continue;
      const td_attr *index = td_node_attr(n, "index");
      int at = index ? (int)index->i : -1, k = 0;
      while (k < e->n_own_args && e->args[k] != at) k++;
      if (at >= 0 && at < roll->n_args && k == e->n_own_args)
        e->args[e->n_own_args++] = at;
    }
  }
  return NULL;
}

static bool is_here(const td_roll *roll, const td_device *d) {
  for (int i = 0; i < roll->n_parts; i++)
    if (roll->parts[i].device == d) return true;
  return false;
}

static td_status *note_narrow(td_far_roll *e, int32_t edge) {
  if (!e->narrow) e->narrow = td_calloc((size_t)e->n_edges, sizeof(bool));
  if (!e->narrow) return td_oom();
  e->narrow[edge] = true;
  return NULL;
}

/* Inside of the turn: who has the other ends. */
static td_status *find_far(td_far_roll *e, const td_roll *roll) {
  e->far = td_calloc((size_t)roll->n_edges + 1, sizeof *e->far);
  if (!e->far) return td_oom();
  for (int32_t i = 0; i < roll->n_edges; i++) {
    const td_plan_edge *edge = &roll->edges[i];
    bool from = is_here(roll, edge->from), to = is_here(roll, edge->to);
    if (from == to) continue;
    Td__Remote__Edge *f = &e->far[e->n_far++];
    td__remote__edge__init(f);
    f->edge = i;
    f->out = from;
    f->narrow = edge->narrow;
    if (edge->narrow) TD_TRY(note_narrow(e, i));
    f->task = td_master_task_of(e->of->master, from ? edge->to : edge->from);
  }
  return NULL;
}

static td_status *seal(td_far_roll *e, const td_roll *roll) {
  e->parts = td_calloc((size_t)roll->n_parts + 1, sizeof *e->parts);
  if (!e->parts) return td_oom();
  for (int i = 0; i < roll->n_parts; i++) {
    td_sent_part *p = &e->parts[i];
    e->n_parts++;
    TD_TRY(td_part_seal(&roll->parts[i], &p->sealed));
    TD_TRY(td_pieces_split(p->sealed.graph, p->sealed.len, &p->pieces));
    p->device = td_strdup(p->sealed.device);
    if (!p->device) return td_oom();
  }
  return NULL;
}

/* ---- saying -------------------------------------------------------------- */

static td_status *part_out(td_arena *a, td_sent_part *from,
                           Td__Remote__Part **out) {
  Td__Remote__Part *p = td_arena_alloc(a, sizeof *p);
  if (!p) return td_oom();
  td__remote__part__init(p);
  p->device = from->device;
  p->incarnation = from->sealed.incarnation;
  p->nodes = from->sealed.n_nodes;
  p->n_serial = (size_t)from->sealed.n_nodes;
  p->serial = from->sealed.serials;
  p->piece = td_arena_alloc(a, (from->pieces.len + 1) * sizeof *p->piece);
  if (!p->piece) return td_oom();
  for (size_t i = 0; i < from->pieces.len; i++)
    p->piece[p->n_piece++] = (ProtobufCBinaryData){sizeof(td_piece_hash),
                                                   from->pieces.at[i].hash.at};
  *out = p;
  return NULL;
}

static td_status *register_out(td_far_roll *e, td_arena *a,
                               Td__Remote__Register *m) {
  m->handle = e->handle;
  m->args = e->n_args;
  m->rets = e->n_rets;
  m->edges = e->n_edges;
  m->part = td_arena_alloc(a, ((size_t)e->n_parts + 1) * sizeof *m->part);
  m->far = td_arena_alloc(a, (e->n_far + 1) * sizeof *m->far);
  if (!m->part || !m->far) return td_oom();
  for (int i = 0; i < e->n_parts; i++)
    TD_TRY(part_out(a, &e->parts[i], &m->part[m->n_part++]));
  for (size_t i = 0; i < e->n_far; i++) m->far[m->n_far++] = &e->far[i];
  return NULL;
}

static td_status *say_register(td_far_roll *e) {
  td_arena a;
  td_head head;
  Td__Remote__Register body = TD__REMOTE__REGISTER__INIT;
  td_arena_init(&a);
  td_head_init(&head, NULL);
  head.body_case = TD__REMOTE__MESSAGE__BODY_REGISTER;
  head.register_ = &body;
  e->said = td_clock_now();
  td_status *s = register_out(e, &a, &body);
  if (td_ok(s)) s = td_member_send(e->of, TD_LANE_CONTROL, &head, NULL, 0);
  td_arena_deinit(&a);
  return s;
}

static td_status *make(td_member *m, const td_roll *roll, td_far_roll **out) {
  td_far_roll *e = td_calloc(1, sizeof *e);
  if (!e) return td_oom();
  td_member_retain(m);
  e->of = m;
  e->signature = roll->signature;
  e->n_edges = roll->n_edges;
  e->n_args = roll->n_args;
  e->n_rets = roll->n_rets;
  e->updates = td_session_updates(roll);
  td_status *s = find_args(e, roll);
  if (td_ok(s)) s = seal(e, roll);
  if (!td_ok(s)) {
    free_roll(e);
    return s;
  }
  *out = e;
  return NULL;
}

td_status *td_member_enroll(td_participant *p, const td_roll *roll,
                            td_enrollment **out) {
  td_member *m = (td_member *)p;
  td_remote *r = td_member_remote(m);
  td_far_roll *e = NULL;
  TD_TRY(make(m, roll, &e));
  td_remote_enter(r);
  e->handle = td_remote_number(r);
  td_status *s = find_far(e, roll);
  if (td_ok(s) && m->state != TD_MEMBER_OPEN)
    s = m->error
            ? td_status_retain(m->error)
            : td_error(TD_UNAVAILABLE, "%s takes no part any more", m->task);
  if (td_ok(s)) s = say_register(e);
  if (td_ok(s)) list(e);
  td_remote_leave(r);
  if (!td_ok(s)) {
    free_roll(e);
    return s;
  }
  *out = (td_enrollment *)e;
  return NULL;
}

/* ---- what comes back ----------------------------------------------------- */

static td_far_roll *find(td_member *m, uint64_t handle) {
  td_far_roll *e = m->rolls;
  while (e && e->handle != handle) e = e->next;
  return e;
}

bool td_roll_is_ready(td_far_roll *e) {
  const td_master *m = e->of->master;
  if (e->group_ready) return true;
  for (size_t i = 0; i < m->members.len; i++)
    for (const td_far_roll *o = m->members.at[i]->rolls; o; o = o->next)
      if (o->signature == e->signature && o->state == TD_ROLL_SENT)
        return false;
  return e->group_ready = true;
}

void td_roll_registered(td_member *m, const Td__Remote__Answer *a) {
  td_far_roll *e = find(m, a->id);
  if (!e || e->state != TD_ROLL_SENT) return;
  e->error = td_wire_status_in(a->status, m->task);
  e->state = td_ok(e->error) ? TD_ROLL_READY : TD_ROLL_FAILED;
  __atomic_store_n(&e->spoilt, !td_ok(e->error), __ATOMIC_RELEASE);
  drop_parts(e);
}

static td_status *say_blob(td_member *m, const td_sent_part *p,
                           const td_piece *piece, size_t offset, size_t len) {
  td_head head;
  td_raw frame;
  Td__Remote__Blob body = TD__REMOTE__BLOB__INIT;
  td_head_init(&head, NULL);
  head.body_case = TD__REMOTE__MESSAGE__BODY_BLOB;
  head.blob = &body;
  body.piece =
      (ProtobufCBinaryData){sizeof piece->hash, (uint8_t *)piece->hash.at};
  body.size = piece->len;
  body.offset = offset;
  TD_TRY(td_raw_copy(p->sealed.graph + piece->offset + offset, len, &frame));
  return td_member_send(m, TD_LANE_DATA, &head, &frame, 1);
}

/* One that is larger than what may wait for the peer goes on, when it is asked
 * for again, where it was stopped. */
static td_status *send_piece(td_far_roll *e, const td_sent_part *p,
                             const td_piece *piece) {
  size_t at = e->stopped == piece ? e->stopped_at : 0;
  e->stopped = NULL;
  for (; at < piece->len; at += TD_CHUNK) {
    size_t len = piece->len - at < TD_CHUNK ? piece->len - at : TD_CHUNK;
    td_status *s = say_blob(e->of, p, piece, at, len);
    if (td_ok(s)) continue;
    e->stopped = piece;
    e->stopped_at = at;
    return s;
  }
  return NULL;
}

static td_status *send_named(td_far_roll *e, const ProtobufCBinaryData *hash) {
  for (int i = 0; i < e->n_parts; i++)
    for (size_t k = 0; k < e->parts[i].pieces.len; k++) {
      const td_piece *piece = &e->parts[i].pieces.at[k];
      if (hash->len == sizeof piece->hash &&
          memcmp(hash->data, piece->hash.at, hash->len) == 0)
        return send_piece(e, &e->parts[i], piece);
    }
  return NULL;
}

void td_roll_needed(td_member *m, const Td__Remote__Need *n) {
  td_far_roll *e = find(m, n->handle);
  td_status *s = NULL;
  if (!e || e->state != TD_ROLL_SENT) return;
  e->said = td_clock_now();
  for (size_t i = 0; td_ok(s) && i < n->n_piece; i++)
    s = send_named(e, &n->piece[i]);
  td_status_release(s); /* it is asked for again */
}

void td_rolls_tick(td_member *m, int64_t now) {
  for (td_far_roll *e = m->rolls; e; e = e->next)
    if (e->state == TD_ROLL_SENT &&
        now - e->said >= (e->stopped ? TD_HEALTH_TICK : TD_HEALTH_BEAT))
      td_status_release(say_register(e));
}

void td_rolls_fail(td_member *m, td_status *why) {
  for (td_far_roll *e = m->rolls; e; e = e->next) {
    if (e->state == TD_ROLL_FAILED) continue;
    drop_parts(e);
    e->state = TD_ROLL_FAILED;
    e->error = td_status_retain(why);
  }
  td_status_release(why);
}
