/* worker_roll.c - parts of a session's graphs: asked for, joined, compiled.
 *
 * A registration names the pieces of its parts. Those that are not here are
 * asked for; when all are, the parts are put together and compiled, on the
 * pool, and the handle may be run. The same registration may come again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "engine/plan/part.h"
#include "engine/remote/worker_impl.h"

enum {
  PARTS_MOST = 1024,
  PIECES_MOST = 1 << 20,
  ENDS_MOST = 1 << 18 /* feeds, fetches, edges */
};
#define PART_MOST ((size_t)2 << 30) /* bytes of a graph */

/* ---- life ---------------------------------------------------------------- */

static void unpin(td_hosted_roll *roll) {
  if (!roll->pinned) return;
  td_piece_cache_unpin(roll->of->of->pieces, roll->pieces.at, roll->pieces.len);
  roll->pinned = false;
}

static void drop_parts(td_hosted_roll *roll) {
  unpin(roll);
  for (size_t i = 0; i < roll->parts.len; i++) {
    td_free(roll->parts.at[i].device);
    td_free(roll->parts.at[i].serials);
  }
  td_vec_free(&roll->parts);
  td_vec_free(&roll->pieces);
}

/* On the pool, or after the turn: programs and portions go. It is made with the
 * registration, so that no lack of memory keeps them. */
struct td_leftovers {
  td_task task;
  td_enrollment *enrollment;
  td_participant *local;
  td_portion **portions;
  size_t n;
};

static void end_leftovers(td_task *task) {
  struct td_leftovers *l = (struct td_leftovers *)task;
  for (size_t i = 0; i < l->n; i++) l->local->ops->end(l->portions[i]);
  l->local->ops->forget(l->enrollment);
  td_participant_release(l->local);
  td_free(l->portions);
  td_free(l);
}

static void end_programs(td_hosted_roll *roll) {
  td_participant *local = roll->of->local;
  struct td_leftovers *l = roll->leftovers;
  if (!roll->enrollment) {
    td_free(l);
    return;
  }
  l->task.run = end_leftovers;
  l->enrollment = roll->enrollment;
  l->local = td_participant_retain(local);
  l->portions = roll->idle.at;
  l->n = roll->idle.len;
  td_remote_after(roll->of->of, &l->task);
}

void td_hosted_roll_release(td_hosted_roll *roll) {
  if (!roll || --roll->refs > 0) return;
  drop_parts(roll);
  end_programs(roll);
  td_free(roll->far);
  td_hosted_release(roll->of);
  td_free(roll);
}

td_hosted_roll *td_hosted_roll_find(td_hosted *h, uint64_t handle) {
  for (size_t i = 0; i < h->rolls.len; i++)
    if (h->rolls.at[i]->handle == handle) return h->rolls.at[i];
  return NULL;
}

static void unlist(td_hosted *h, size_t i) {
  td_hosted_roll *roll = h->rolls.at[i];
  h->ends -= roll->ends;
  h->nodes -= roll->nodes;
  h->rolls.at[i] = h->rolls.at[--h->rolls.len];
  roll->gone = true;
  td_hosted_roll_release(roll);
}

/* Both are long at times. */
static int by_number(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

void td_hosted_unregister(td_hosted *h, const Td__Remote__Handles *m) {
  if (m->n_handle == 0) return;
  qsort(m->handle, m->n_handle, sizeof *m->handle, by_number);
  for (size_t i = h->rolls.len; i-- > 0;)
    if (bsearch(&h->rolls.at[i]->handle, m->handle, m->n_handle,
                sizeof *m->handle, by_number))
      unlist(h, i);
}

void td_hosted_rolls_drop(td_hosted *h) {
  while (h->rolls.len > 0) unlist(h, h->rolls.len - 1);
  td_vec_free(&h->rolls);
}

/* ---- reading ------------------------------------------------------------- */

/* Has the session room for one more? */
static td_status *check_room(const td_hosted *h, size_t ends, size_t nodes) {
  if (h->rolls.len >= TD_ROLLS_MOST)
    return td_error(TD_RESOURCE_EXHAUSTED,
                    "the session has %zu registrations here already",
                    h->rolls.len);
  if (ends <= TD_ROLL_ENDS_MOST - h->ends &&
      nodes <= TD_ROLL_NODES_MOST - h->nodes)
    return NULL;
  return td_error(TD_RESOURCE_EXHAUSTED,
                  "what the session has registered here has %zu nodes and %zu "
                  "feeds, fetches and edges; %zu and %zu more pass the limits "
                  "of %d and %d",
                  h->nodes, h->ends, nodes, ends, TD_ROLL_NODES_MOST,
                  TD_ROLL_ENDS_MOST);
}

static td_status *check(const Td__Remote__Register *m) {
  size_t pieces = 0;
  for (size_t i = 0; i < m->n_part; i++) {
    const Td__Remote__Part *p = m->part[i];
    pieces += p->n_piece;
    if (p->nodes < 0 || p->nodes > TD_ROLL_NODES_MOST ||
        p->n_serial != (size_t)p->nodes)
      return td_error(TD_INVALID_ARGUMENT,
                      "a part of %d nodes with %zu serials", (int)p->nodes,
                      p->n_serial);
    if (p->n_piece == 0)
      return td_error(TD_INVALID_ARGUMENT, "a part without a graph");
    for (size_t k = 0; k < p->n_piece; k++)
      if (p->piece[k].len != sizeof(td_piece_hash))
        return td_error(TD_INVALID_ARGUMENT, "a hash of %zu bytes",
                        p->piece[k].len);
  }
  if (m->n_part > PARTS_MOST || pieces > PIECES_MOST || m->args < 0 ||
      m->args > ENDS_MOST || m->rets < 0 || m->rets > ENDS_MOST ||
      m->edges < 0 || m->edges > ENDS_MOST)
    return td_error(TD_INVALID_ARGUMENT,
                    "a registration of %zu parts, %zu pieces, %d feeds, %d "
                    "fetches and %d edges",
                    m->n_part, pieces, (int)m->args, (int)m->rets,
                    (int)m->edges);
  return NULL;
}

static td_status *add_part(td_hosted_roll *roll, const Td__Remote__Part *from) {
  td_hosted_part p = {.incarnation = from->incarnation,
                      .first = roll->pieces.len,
                      .n_pieces = from->n_piece,
                      .n_nodes = from->nodes};
  if (!td_vec_reserve(&roll->parts, 1)) return td_oom();
  if (!td_vec_reserve(&roll->pieces, from->n_piece)) return td_oom();
  p.device = td_strdup(from->device);
  p.serials = td_calloc(from->n_serial + 1, sizeof *p.serials);
  if (p.serials && from->n_serial)
    memcpy(p.serials, from->serial, from->n_serial * sizeof *p.serials);
  for (size_t k = 0; k < from->n_piece; k++)
    memcpy(roll->pieces.at[roll->pieces.len++].at, from->piece[k].data,
           sizeof(td_piece_hash));
  roll->parts.at[roll->parts.len++] = p;
  return p.device && p.serials ? NULL : td_oom();
}

static td_status *add_far(td_hosted_roll *roll, const Td__Remote__Register *m) {
  roll->far = td_calloc((size_t)roll->n_edges + 1, sizeof *roll->far);
  if (!roll->far) return td_oom();
  for (int32_t e = 0; e < roll->n_edges; e++) roll->far[e].task = -1;
  for (size_t i = 0; i < m->n_far; i++) {
    const Td__Remote__Edge *e = m->far[i];
    if (e->edge < 0 || e->edge >= roll->n_edges || e->task < 0)
      return td_error(TD_INVALID_ARGUMENT, "edge %d of %d leads to task %d",
                      (int)e->edge, (int)roll->n_edges, (int)e->task);
    roll->far[e->edge] = (td_far_edge){e->task, e->out, e->narrow};
  }
  return NULL;
}

static td_status *read_roll(td_hosted_roll *roll,
                            const Td__Remote__Register *m) {
  roll->n_args = m->args;
  roll->n_rets = m->rets;
  roll->n_edges = m->edges;
  roll->ends = (size_t)m->args + (size_t)m->rets + (size_t)m->edges;
  for (size_t i = 0; i < m->n_part; i++)
    roll->nodes += (size_t)m->part[i]->nodes;
  TD_TRY(check_room(roll->of, roll->ends, roll->nodes));
  for (size_t i = 0; i < m->n_part; i++) TD_TRY(add_part(roll, m->part[i]));
  TD_TRY(add_far(roll, m));
  TD_TRY(td_piece_cache_pin(roll->of->of->pieces, roll->pieces.at,
                            roll->pieces.len));
  roll->pinned = true;
  return NULL;
}

/* ---- compiling ----------------------------------------------------------- */

static td_device *find_device(td_device **all, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (strcmp(all[i]->name, name) == 0) return all[i];
  return NULL;
}

/* The edges, as far as a participant looks at them: is the other end here? */
static td_status *make_edges(const td_hosted_roll *roll, td_device *here,
                             td_plan_edge **out) {
  td_plan_edge *e = td_calloc((size_t)roll->n_edges + 1, sizeof *e);
  if (!e) return td_oom();
  for (int32_t i = 0; i < roll->n_edges; i++) {
    bool far = roll->far[i].task >= 0;
    e[i].from = far && !roll->far[i].out ? NULL : here;
    e[i].to = far && roll->far[i].out ? NULL : here;
  }
  *out = e;
  return NULL;
}

static td_status *enroll(td_hosted_roll *roll, td_part *parts, int n,
                         td_enrollment **out) {
  td_participant *local = roll->of->local;
  td_plan_edge *edges = NULL;
  td_status *s = make_edges(roll, n ? parts[0].device : NULL, &edges);
  td_roll r = {.parts = parts,
               .n_parts = n,
               .edges = edges,
               .n_edges = roll->n_edges,
               .n_args = roll->n_args,
               .n_rets = roll->n_rets};
  if (td_ok(s)) s = local->ops->enroll(local, &r, out);
  td_free(edges);
  return s;
}

/* What a compilation works with, outside of the turn. */
typedef struct work {
  td_part *parts;
  int n;
  char **graph;
  size_t *len;
} work;

static td_status *join(td_hosted_roll *roll, work *w) {
  size_t n = roll->parts.len;
  w->parts = td_calloc(n + 1, sizeof *w->parts);
  w->graph = td_calloc(n + 1, sizeof *w->graph);
  w->len = td_calloc(n + 1, sizeof *w->len);
  if (!w->parts || !w->graph || !w->len) return td_oom();
  td_status *s = NULL;
  td_remote_enter(roll->of->of);
  for (size_t i = 0; td_ok(s) && i < n; i++) {
    const td_hosted_part *p = &roll->parts.at[i];
    s = td_piece_cache_join(roll->of->of->pieces, roll->pieces.at + p->first,
                            p->n_pieces, PART_MOST, &w->graph[i], &w->len[i]);
  }
  td_remote_leave(roll->of->of);
  return s;
}

static td_status *open_parts(td_hosted_roll *roll, td_device **all, int n,
                             work *w) {
  for (size_t i = 0; i < roll->parts.len; i++) {
    const td_hosted_part *p = &roll->parts.at[i];
    td_device *d = find_device(all, n, p->device);
    if (!d)
      return td_error(TD_FAILED_PRECONDITION, "%s has no device %s",
                      td_runtime_place(roll->of->of->runtime), p->device);
    td_sealed_part sealed = {.graph = w->graph[i],
                             .len = w->len[i],
                             .serials = p->serials,
                             .n_nodes = p->n_nodes,
                             .device = p->device,
                             .incarnation = p->incarnation};
    TD_TRY(td_part_open(&sealed, d, &w->parts[i]));
    w->n++;
  }
  return NULL;
}

static td_status *compile(td_hosted_roll *roll, td_enrollment **out) {
  td_remote *r = roll->of->of;
  work w = {0};
  td_device **all = NULL;
  int n = 0;
  td_status *s = join(roll, &w);
  if (td_ok(s)) s = td_runtime_devices(r->runtime, r->cpu_devices, &all, &n);
  if (td_ok(s)) s = open_parts(roll, all, n, &w);
  if (td_ok(s)) s = enroll(roll, w.parts, w.n, out);
  for (int i = 0; i < w.n; i++) td_part_deinit(&w.parts[i]);
  for (size_t i = 0; w.graph && i < roll->parts.len; i++) td_free(w.graph[i]);
  td_free(w.parts);
  td_free(w.graph);
  td_free(w.len);
  if (all) td_runtime_drop_devices(all, n);
  return s;
}

static void registered(td_hosted_roll *roll, const td_status *s) {
  td_hosted *h = roll->of;
  roll->compiling = false;
  drop_parts(roll);
  if (h->state == TD_HOSTED_OPEN && !roll->gone)
    td_hosted_answer(h, TD__REMOTE__MESSAGE__BODY_REGISTERED, roll->handle, s,
                     (td_bytes){"", 0});
  if (!td_ok(s) && !roll->gone)
    td_hosted_unregister(
        h, &(Td__Remote__Handles){.n_handle = 1, .handle = &roll->handle});
  h->hooks->rest(h);
}

static void compile_task(td_task *task) {
  td_hosted_roll *roll =
      (td_hosted_roll *)((char *)task - offsetof(td_hosted_roll, task));
  td_remote *r = roll->of->of;
  td_enrollment *e = NULL;
  td_status *s = compile(roll, &e);
  td_remote_enter(r);
  roll->enrollment = e;
  registered(roll, s);
  td_hosted_roll_release(roll);
  td_remote_leave(r);
  td_status_release(s);
  td_remote_release(r);
}

/* A pool's task is submitted outside of the turn. */
static void submit(td_task *task) {
  task->run = compile_task;
  td_pool_submit(task);
}

static void begin(td_hosted_roll *roll) {
  roll->compiling = true;
  roll->refs++;
  td_remote_retain(roll->of->of);
  roll->task.run = submit;
  td_remote_after(roll->of->of, &roll->task);
}

/* ---- what is missing ----------------------------------------------------- */

static td_status *say_need(td_hosted_roll *roll, const size_t *at, size_t n) {
  td_hosted *h = roll->of;
  td_head head;
  Td__Remote__Need body = TD__REMOTE__NEED__INIT;
  ProtobufCBinaryData *hash = td_calloc(n, sizeof *hash);
  if (!hash) return td_oom();
  for (size_t i = 0; i < n; i++)
    hash[i] =
        (ProtobufCBinaryData){sizeof(td_piece_hash), roll->pieces.at[at[i]].at};
  td_head_init(&head, &h->id);
  head.body_case = TD__REMOTE__MESSAGE__BODY_NEED;
  head.need = &body;
  body.handle = roll->handle;
  body.piece = hash;
  body.n_piece = n;
  td_status *s = td_peer_send(h->master, TD_LANE_CONTROL, &head, NULL, 0);
  td_free(hash);
  return s;
}

/* Has one more come of those it waits for? Looks at each piece once, since a
 * pinned one stays. */
static bool is_whole(td_hosted_roll *roll) {
  size_t at;
  while (roll->here < roll->pieces.len &&
         !td_piece_cache_missing(roll->of->of->pieces,
                                 &roll->pieces.at[roll->here], 1, &at))
    roll->here++;
  return roll->here == roll->pieces.len;
}

/* Asks for what is missing, or begins. */
static td_status *go_on(td_hosted_roll *roll) {
  size_t n = roll->pieces.len;
  size_t *at = td_calloc(n + 1, sizeof *at);
  if (!at) return td_oom();
  size_t missing =
      td_piece_cache_missing(roll->of->of->pieces, roll->pieces.at, n, at);
  td_status *s = NULL;
  if (missing == 0)
    begin(roll);
  else
    s = say_need(roll, at, missing);
  td_free(at);
  return s;
}

static void refuse(td_hosted *h, uint64_t handle, td_status *s) {
  td_hosted_answer(h, TD__REMOTE__MESSAGE__BODY_REGISTERED, handle, s,
                   (td_bytes){"", 0});
  td_status_release(s);
}

static td_status *make(td_hosted *h, const Td__Remote__Register *m,
                       td_hosted_roll **out) {
  TD_TRY(check(m));
  td_hosted_roll *roll = td_calloc(1, sizeof *roll);
  if (!roll) return td_oom();
  roll->refs = 1;
  roll->handle = m->handle;
  roll->of = h;
  h->refs++;
  roll->leftovers = td_calloc(1, sizeof *roll->leftovers);
  td_status *s = roll->leftovers && td_vec_reserve(&h->rolls, 1)
                     ? read_roll(roll, m)
                     : td_oom();
  if (!td_ok(s)) {
    td_hosted_roll_release(roll);
    return s;
  }
  h->rolls.at[h->rolls.len++] = roll;
  h->ends += roll->ends;
  h->nodes += roll->nodes;
  *out = roll;
  return NULL;
}

void td_hosted_register(td_hosted *h, const Td__Remote__Register *m) {
  td_hosted_roll *roll = td_hosted_roll_find(h, m->handle);
  td_status *s = NULL;
  if (h->state != TD_HOSTED_OPEN || (roll && roll->compiling)) return;
  if (roll && roll->enrollment) {
    refuse(h, m->handle, NULL); /* as it was said before */
    return;
  }
  if (!roll) s = make(h, m, &roll);
  if (td_ok(s)) s = go_on(roll);
  if (td_ok(s)) return;
  refuse(h, m->handle, s);
  uint64_t handle = m->handle;
  if (roll)
    td_hosted_unregister(
        h, &(Td__Remote__Handles){.n_handle = 1, .handle = &handle});
}

/* A piece may be what several registrations wait for. */
void td_hosted_blob(td_hosted *h, td_message *m) {
  const Td__Remote__Blob *b = m->head->blob;
  td_raw f = {0};
  td_piece_hash hash;
  bool whole = false;
  if (b->piece.len != sizeof hash || m->taken == m->n) return;
  memcpy(hash.at, b->piece.data, sizeof hash);
  td_status *s = td_message_take(m, m->frames[m->taken].len, &f);
  if (td_ok(s))
    s = td_piece_cache_part(h->of->pieces, &hash, b->size, b->offset, f.at,
                            f.len, &whole);
  td_raw_release(&f);
  td_status_release(s); /* it is asked for again */
  if (!whole) return;
  for (size_t i = 0; i < h->rolls.len; i++) {
    td_hosted_roll *roll = h->rolls.at[i];
    if (roll->enrollment || roll->compiling || !is_whole(roll)) continue;
    begin(roll);
  }
}
