/* loops.c - control loops, put into the working copy before it is cut.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/plan/loops_impl.h"

#include <stdio.h>

#include "engine/base/map.h"

/* ---- settling ------------------------------------------------------------ */

/* What of one node there is on another device. */
typedef struct twin_key {
  int32_t node, device;
} twin_key;

typedef struct settling {
  td_graph *g;
  int32_t n;     /* nodes before any twin was added */
  bool *settled; /* by node id */
  td_map twins;  /* twin_key to the twin */
} settling;

static td_status *add_twin(settling *t, td_node *of, int32_t device,
                           td_node **out) {
  twin_key key = {of->id, device};
  char name[48];
  snprintf(name, sizeof name, "_twin_%d_%d", (int)of->id, (int)device);
  TD_TRY(td_graph_clone_node(t->g, of, name, of->in, of->control, of->n_control,
                             out));
  (*out)->placed = device;
  return td_map_putn(&t->twins, &key, sizeof key, *out) ? NULL : td_oom();
}

/* `n`, brought to a device: the first who asks has it moved, others elsewhere
 * get twins. */
static td_status *beside(settling *t, td_node *n, int32_t device,
                         td_node **out) {
  twin_key key = {n->id, device};
  if (!t->settled[n->id]) n->placed = device;
  t->settled[n->id] = true;
  *out = n;
  if (n->placed == device) return NULL;
  *out = td_map_getn(&t->twins, &key, sizeof key);
  return *out ? NULL : add_twin(t, n, device, out);
}

static bool comes_along(const settling *t, const td_node *n) {
  return n->id < t->n &&
         (n->op->kind == TD_KIND_ENTER || n->op->kind == TD_KIND_NEXT);
}

static td_status *settle_inputs(settling *t, td_node *user) {
  td_node *near;
  if (user->op->kind == TD_KIND_EXIT) return NULL; /* goes itself */
  for (int i = 0; i < user->n_in; i++) {
    if (!comes_along(t, user->in[i].node)) continue;
    TD_TRY(beside(t, user->in[i].node, user->placed, &near));
    td_node_set_in(user, i, (td_edge){near, user->in[i].port});
  }
  for (int i = 0; i < user->n_control; i++) {
    if (!comes_along(t, user->control[i])) continue;
    TD_TRY(beside(t, user->control[i], user->placed, &near));
    user->control[i] = near;
  }
  return NULL;
}

/* Backwards, so that an Enter of an inner loop has its place before the Enter
 * of the outer one that it takes; then the twins. `order`: inputs first. */
static td_status *settle_all(settling *t, const int32_t *order) {
  for (int32_t k = t->n; k-- > 0;)
    TD_TRY(settle_inputs(t, td_graph_node(t->g, order[k])));
  for (int32_t id = t->n; id < td_graph_size(t->g); id++)
    TD_TRY(settle_inputs(t, td_graph_node(t->g, id)));
  for (int32_t k = 0; k < t->n; k++) {
    td_node *n = td_graph_node(t->g, order[k]);
    if (n->op->kind == TD_KIND_EXIT) n->placed = n->in[0].node->placed;
  }
  return NULL;
}

td_status *td_loops_settle(td_pass *p) {
  if (p->n_frames < 2) return NULL;
  settling t = {.g = p->graph, .n = td_graph_size(p->graph)};
  int32_t *order = NULL;
  td_map_init(&t.twins);
  t.settled = td_alloc_zero((size_t)t.n + 1, sizeof *t.settled);
  td_status *s = t.settled ? td_graph_order(p->graph, &order) : td_oom();
  if (td_ok(s)) s = settle_all(&t, order);
  td_free(order);
  td_free(t.settled);
  td_map_deinit(&t.twins);
  return s;
}

/* ---- who takes part ------------------------------------------------------ */

/* By frame and device, as in td_loops. TURNS: a loop variable that lives as
 * long as the loop. */
enum { HERE = 1, RECEIVES = 2, NEEDED = 4, TURNS = 8 };

typedef struct survey {
  td_pass *p;
  td_loops *loops;
  uint8_t *at;
  td_node **near;  /* the LoopCond of a control loop, or NULL */
  td_node **cond;  /* by frame: its LoopCond, or NULL: it does not turn */
  td_node **alive; /* by frame: what a control loop must see live to go on, or
                      NULL: its LoopCond is enough */
  bool *turns;     /* by frame: it has loop variables */
} survey;

static size_t cell(const survey *v, int32_t frame, int32_t device) {
  return (size_t)frame * (size_t)v->loops->n_devices + (size_t)device;
}

static uint8_t *part_at(const survey *v, int32_t frame, int32_t device) {
  return &v->at[cell(v, frame, device)];
}

static void note_edge(const survey *v, const td_node *from, const td_node *to) {
  if (from->placed == to->placed) return;
  *part_at(v, to->frame, from->placed) |= HERE;
  *part_at(v, to->frame, to->placed) |= HERE | RECEIVES;
}

static void note_variable(const survey *v, const td_node *m) {
  for (int i = 0; i < m->n_in; i++)
    if (m->in[i].node->op->kind == TD_KIND_NEXT) {
      v->turns[m->frame] = true;
      if (!m->may_stop) *part_at(v, m->frame, m->placed) |= TURNS;
    }
}

static void look(const survey *v) {
  for (int32_t id = 0; id < td_graph_size(v->p->graph); id++) {
    td_node *n = td_graph_node(v->p->graph, id);
    *part_at(v, n->frame, n->placed) |= HERE;
    if (n->op->kind == TD_KIND_COND) v->cond[n->frame] = n;
    if (n->op->kind == TD_KIND_MERGE) note_variable(v, n);
    for (int i = 0; i < n->n_in; i++) note_edge(v, n->in[i].node, n);
    for (int i = 0; i < n->n_control; i++) note_edge(v, n->control[i], n);
  }
  for (int32_t f = 0; f < v->loops->n_frames; f++)
    if (!v->turns[f]) v->cond[f] = NULL;
}

static int devices_in(const survey *v, int32_t frame) {
  int n = 0;
  for (int32_t d = 0; d < v->loops->n_devices; d++)
    n += (*part_at(v, frame, d) & HERE) != 0;
  return n;
}

/* The LoopCond's device turns by itself, unless it has only parts of the loop
 * that receive, or that loop constants feed. */
static bool is_needed(const survey *v, int32_t frame, int32_t device) {
  uint8_t at = *part_at(v, frame, device);
  bool owner = v->cond[frame] && v->cond[frame]->placed == device;
  return (at & HERE) && (!owner || (at & RECEIVES) || !(at & TURNS));
}

/* Inner loops come after outer ones in the list. */
static void decide(const survey *v) {
  for (int32_t f = v->loops->n_frames; f-- > 1;) {
    bool several = devices_in(v, f) > 1;
    for (int32_t d = 0; d < v->loops->n_devices; d++) {
      uint8_t *at = part_at(v, f, d);
      if (several && is_needed(v, f, d)) *at |= NEEDED;
      if (*at & NEEDED) *part_at(v, v->p->frames[f].parent, d) |= HERE | NEEDED;
    }
  }
}

/* ---- the end of a loop whose variables die ------------------------------- */

static td_status *add_named(td_build *b, int32_t frame, int32_t device,
                            td_node **out) {
  b->exact_name = true;
  TD_TRY(td_build_node(b, out));
  (*out)->placed = device;
  (*out)->frame = frame;
  (*out)->may_die = true;
  return NULL;
}

/* A signal that is dead when what NextIteration `next` takes is. */
static td_status *add_pulse(const survey *v, const td_node *next,
                            td_edge *out) {
  td_graph *g = v->p->graph;
  char name[48];
  td_tensor zero;
  td_node *value, *pulse;
  td_build b;
  snprintf(name, sizeof name, "_goes_on_%d", (int)next->id);
  td_build_init(&b, g, "Identity", name);
  td_build_in(&b, next->in[0]);
  TD_TRY(add_named(&b, next->frame, next->placed, &value));
  snprintf(name, sizeof name, "_pulse_%d", (int)next->id);
  TD_TRY(td_tensor_scalar_f(TD_FLOAT32, 0, &zero));
  td_status *s = td_pass_const(g, name, &zero, next->placed, &pulse);
  td_tensor_release(&zero);
  if (td_ok(s)) s = td_graph_add_control(pulse, value);
  if (!td_ok(s)) return s;
  pulse->frame = next->frame;
  pulse->may_die = true;
  *out = (td_edge){pulse, 0};
  return NULL;
}

/* v->alive of the frame: live while a NextIteration is. */
static td_status *add_alive(const survey *v, int32_t frame) {
  int32_t size = td_graph_size(v->p->graph);
  TD_VEC(td_edge) pulses = {0};
  td_status *s = NULL;
  td_build b;
  char name[48];
  for (int32_t id = 0; id < size && td_ok(s); id++) {
    const td_node *n = td_graph_node(v->p->graph, id);
    td_edge pulse;
    if (n->frame != frame || n->op->kind != TD_KIND_NEXT) continue;
    s = add_pulse(v, n, &pulse);
    if (td_ok(s) && !td_vec_push(&pulses, pulse)) s = td_oom();
  }
  if (td_ok(s)) {
    snprintf(name, sizeof name, "_alive_%d", (int)frame);
    td_build_init(&b, v->p->graph, "Merge", name);
    td_build_list(&b, pulses.at, (int)pulses.len);
    s = add_named(&b, frame, v->cond[frame]->placed, &v->alive[frame]);
  }
  td_vec_free(&pulses);
  return s;
}

static bool some_turn(const survey *v, int32_t frame) {
  for (int32_t d = 0; d < v->loops->n_devices; d++)
    if (*part_at(v, frame, d) & TURNS) return true;
  return false;
}

/* On one device a loop ends when all its variables are dead, whatever its
 * LoopCond says. Where that may come to pass, the control loops are told. */
static td_status *watch_variables(const survey *v) {
  for (int32_t f = 1; f < v->loops->n_frames; f++)
    if (v->cond[f] && devices_in(v, f) > 1 && !some_turn(v, f))
      TD_TRY(add_alive(v, f));
  return NULL;
}

/* ---- building ------------------------------------------------------------ */

typedef struct loop {
  const survey *v;
  int32_t frame, device;
  td_node *enter, *merge, *cond, *go, *next;
} loop;

/* Begins "_cloop_<frame>_<device>/<op>". */
static void start(td_build *b, const loop *l, const char *op, char name[64]) {
  snprintf(name, 64, "_cloop_%d_%d/%s", (int)l->frame, (int)l->device, op);
  td_build_init(b, l->v->p->graph, op, name);
  b->exact_name = true;
}

static td_status *finish(td_build *b, const loop *l, int32_t frame,
                         td_node **out) {
  TD_TRY(td_build_node(b, out));
  (*out)->placed = l->device;
  (*out)->frame = frame;
  return NULL;
}

static td_status *add_const(const loop *l, td_edge *out) {
  char name[64];
  td_tensor zero;
  td_node *n;
  snprintf(name, sizeof name, "_cloop_%d_%d/Const", (int)l->frame,
           (int)l->device);
  TD_TRY(td_tensor_scalar_f(TD_FLOAT32, 0, &zero));
  td_status *s = td_pass_const(l->v->p->graph, name, &zero, l->device, &n);
  td_tensor_release(&zero);
  if (td_ok(s)) *out = (td_edge){n, 0};
  return s;
}

static td_status *add_enter(loop *l) {
  const td_frame *f = &l->v->p->frames[l->frame];
  td_build b;
  char name[64];
  td_edge from = {td_loops_trigger(l->v->loops, f->parent, l->device), 0};
  if (!from.node) TD_TRY(add_const(l, &from));
  start(&b, l, "Enter", name);
  td_build_in(&b, from);
  td_build_attr(&b, "frame_name", td_attr_string(f->name));
  td_build_attr(&b, "parallel_iterations", td_attr_int(f->parallel));
  return finish(&b, l, f->parent, &l->enter);
}

static td_status *add_merge(loop *l) {
  td_build b;
  char name[64];
  start(&b, l, "Merge", name);
  td_build_list(&b, (td_edge[]){{l->enter, 0}, {NULL, 0}}, 2);
  return finish(&b, l, l->frame, &l->merge);
}

static td_status *add_cond(loop *l) {
  const survey *v = l->v;
  td_node *far = v->cond[l->frame];
  td_build b;
  char name[64];
  l->cond = far;
  if (far->placed == l->device) return NULL;
  start(&b, l, "LoopCond", name);
  td_build_in(&b, (td_edge){far, 0});
  TD_TRY(finish(&b, l, l->frame, &l->cond));
  l->cond->may_die = far->may_die;
  v->near[cell(v, l->frame, l->device)] = l->cond;
  return NULL;
}

static td_status *add_turn(loop *l) {
  td_build b;
  char name[64];
  start(&b, l, "Switch", name);
  td_build_in(&b, (td_edge){l->merge, 0});
  td_build_in(&b, (td_edge){l->cond, 0});
  TD_TRY(finish(&b, l, l->frame, &l->go));
  l->go->may_die = l->cond->may_die;
  start(&b, l, "NextIteration", name);
  td_build_in(&b, (td_edge){l->go, 1});
  if (l->v->alive[l->frame]) td_build_control(&b, l->v->alive[l->frame]);
  TD_TRY(finish(&b, l, l->frame, &l->next));
  l->next->may_die = true;
  return td_graph_back_edge(l->merge, 1, (td_edge){l->next, 0});
}

static td_status *add_loop(const survey *v, int32_t frame, int32_t device,
                           td_node **trigger) {
  loop l = {.v = v, .frame = frame, .device = device};
  TD_TRY(add_enter(&l));
  *trigger = l.enter;
  if (!v->cond[frame]) return NULL; /* a frame that does not turn */
  TD_TRY(add_merge(&l));
  *trigger = l.merge;
  TD_TRY(add_cond(&l));
  td_pass_log(v->p, "control loop for frame \"%s\" on device %d",
              v->p->frames[frame].name, (int)device);
  return add_turn(&l);
}

static td_status *add_loops(const survey *v) {
  for (int32_t f = 1; f < v->loops->n_frames; f++)
    for (int32_t d = 0; d < v->loops->n_devices; d++)
      if (*part_at(v, f, d) & NEEDED)
        TD_TRY(add_loop(v, f, d, &v->loops->trigger[cell(v, f, d)]));
  return NULL;
}

/* The LoopCond that `n` should ask instead of `cond`; NULL: that one. */
static td_node *near_cond(const survey *v, const td_node *n,
                          const td_node *cond) {
  if (cond->op->kind != TD_KIND_COND) return NULL;
  td_node *near = v->near[cell(v, cond->frame, n->placed)];
  return near == n ? NULL : near;
}

/* Those who asked a far LoopCond ask the near one. */
static void ask_near(const survey *v) {
  const td_graph *g = v->p->graph;
  for (int32_t id = 0; id < td_graph_size(g); id++) {
    td_node *n = td_graph_node(g, id), *near;
    for (int i = 0; i < n->n_in; i++)
      if ((near = near_cond(v, n, n->in[i].node)))
        td_node_set_in(n, i, (td_edge){near, 0});
    for (int i = 0; i < n->n_control; i++)
      if ((near = near_cond(v, n, n->control[i]))) n->control[i] = near;
  }
}

td_status *td_loops_add(td_pass *p, td_loops *out) {
  *out = (td_loops){.n_frames = p->n_frames,
                    .n_devices = p->request->n_devices,
                    .first = td_graph_size(p->graph)};
  size_t cells;
  if (p->n_frames < 2 || out->n_devices < 2) return NULL;
  if (!td_mul((size_t)p->n_frames, (size_t)out->n_devices, &cells))
    return td_oom();
  survey v = {.p = p, .loops = out};
  v.at = td_alloc_zero(cells, sizeof *v.at);
  v.near = td_alloc_zero(cells, sizeof *v.near);
  v.cond = td_alloc_zero((size_t)p->n_frames, sizeof *v.cond);
  v.alive = td_alloc_zero((size_t)p->n_frames, sizeof *v.alive);
  v.turns = td_alloc_zero((size_t)p->n_frames, sizeof *v.turns);
  out->trigger = td_alloc_zero(cells, sizeof(td_node *));
  bool room = v.at && v.near && v.cond && v.alive && v.turns && out->trigger;
  if (room) look(&v);
  td_status *s = room ? watch_variables(&v) : td_oom();
  out->first = td_graph_size(p->graph);
  if (td_ok(s)) {
    look(&v);
    decide(&v);
    s = add_loops(&v);
  }
  if (td_ok(s)) ask_near(&v);
  td_free(v.alive);
  td_free(v.turns);
  td_free(v.at);
  td_free(v.near);
  td_free(v.cond);
  return s;
}

void td_loops_deinit(td_loops *l) {
  td_free(l->trigger);
  l->trigger = NULL;
}
