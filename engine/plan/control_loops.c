/* control_loops.c - lets a loop turn on every device that has a part of it.
 *
 * Take `while i < n do x = x @ W; i = i + 1`, with the MatMul on GPU:0 and all
 * else on CPU:0. Split in two, the GPU's part of the loop would be
 *
 *   _Recv x -> MatMul -> _Send y
 *
 * which has no Merge and no NextIteration: it would run once. Only the device
 * of the LoopCond, here CPU:0, knows how often the loop turns. So this pass
 * adds a control loop on GPU:0, one that computes nothing and turns as often as
 * the loop does (drawn as it is after partition):
 *
 *   Const -> Enter -> Merge -> Switch -> NextIteration -> back to the Merge
 *                       |        ^
 *                       |        LoopCond <- _Recv p
 *                       +--^--> _Recv p, _Recv x    (^: a control edge)
 *
 * In each iteration, the last included, CPU:0 sends its predicate p. The Merge
 * is the frame's trigger on this device: every _Recv of the frame has a control
 * edge from it, and so runs once an iteration. Where p is true the
 * NextIteration begins the next iteration; where it is false, on all devices in
 * the same iteration, the Switch gives it a dead input and the loop is over.
 *
 * So no device runs ahead of the LoopCond: iteration k + 1 begins where the
 * predicate of iteration k has come in. And none waits for ever: in each
 * iteration each _Send of the loop runs once and its _Recv once; a value that
 * is dead is sent as a dead one.
 *
 * A device that has a part of an inner loop gets a control loop for the outer
 * one too, whose Merge feeds the Enter of the inner: the inner one begins anew
 * in each iteration of the outer. The LoopCond's own device turns without one
 * if it has a loop variable; an Enter of a constant, which comes anew in each
 * iteration, starts what it receives, as CPU:0 receives y here. With no such
 * variable it gets a control loop that takes the LoopCond itself.
 *
 * Nor does the LoopCond run ahead of the others. Its iteration is not over
 * before something has come from each device of the loop in it: what that
 * device has to give it, as y here, else a report, the empty tensor that its
 * Merge gave. At most parallel_iterations are under way on each device, so no
 * device is more than twice as many behind, and what others sent it does not
 * grow with the length of the loop. This holds nobody up for ever: what an
 * iteration gives never needs a later one.
 *
 * A loop variable that is dead in an iteration has no next one, and on one
 * device a loop whose variables are all dead ends, though the predicate was
 * true. Where this can happen the control loops must end as well: their
 * NextIterations wait for "_alive", a Merge of a signal from each variable's
 * NextIteration, which is dead when all of these are.
 *
 * Before all that, Enters, NextIterations and Exits move to the devices of
 * those that they belong to (colocate).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "engine/base/map.h"
#include "engine/graph/build.h"
#include "engine/graph/graph_check.h"
#include "engine/graph/graph_edit.h"
#include "engine/graph/node_edit.h"
#include "engine/plan/pass_impl.h"

/* ---- colocation ---------------------------------------------------------- */

/* A Merge must see its Enter and its NextIteration themselves: a dead Enter
 * ends the loop at once, and what passes from one iteration to the next cannot
 * be a message. Enters of loop constants go to who uses them, so that the
 * constant crosses once and not in each iteration. Who is used on several
 * devices has replicas there. An Exit, dead in all iterations but one, goes to
 * its input. */

typedef struct replica_key {
  int32_t node, device;
} replica_key;

typedef struct colocation {
  td_graph *g;
  int32_t n;       /* nodes before any replica was added */
  bool *settled;   /* by node id: it has its device */
  td_map replicas; /* replica_key to the replica */
} colocation;

static td_status *add_replica(colocation *t, td_node *of, int32_t device,
                              td_node **out) {
  replica_key key = {of->id, device};
  char name[48];
  snprintf(name, sizeof name, "_replica_%d_%d", (int)of->id, (int)device);
  TD_TRY(td_graph_clone_node(t->g, of, name, of->in, of->control, of->n_control,
                             out));
  (*out)->placed = device;
  return td_map_putn(&t->replicas, &key, sizeof key, *out) ? NULL : td_oom();
}

/* `n` or its replica on `device`: the first who asks has `n` itself moved,
 * others elsewhere get replicas. */
static td_status *bring(colocation *t, td_node *n, int32_t device,
                        td_node **out) {
  replica_key key = {n->id, device};
  if (!t->settled[n->id]) n->placed = device;
  t->settled[n->id] = true;
  *out = n;
  if (n->placed == device) return NULL;
  *out = td_map_getn(&t->replicas, &key, sizeof key);
  return *out ? NULL : add_replica(t, n, device, out);
}

static bool comes_along(const colocation *t, const td_node *n) {
  return n->id < t->n &&
         (n->op->kind == TD_OP_ENTER || n->op->kind == TD_OP_NEXT);
}

static td_status *bring_inputs(colocation *t, td_node *user) {
  td_node *near;
  if (user->op->kind == TD_OP_EXIT) return NULL; /* goes itself */
  for (int i = 0; i < user->n_in; i++) {
    if (!comes_along(t, user->in[i].node)) continue;
    TD_TRY(bring(t, user->in[i].node, user->placed, &near));
    td_node_set_in(user, i, (td_edge){near, user->in[i].port});
  }
  for (int i = 0; i < user->n_control; i++) {
    if (!comes_along(t, user->control[i])) continue;
    TD_TRY(bring(t, user->control[i], user->placed, &near));
    user->control[i] = near;
  }
  return NULL;
}

/* Backwards, so that an Enter of an inner loop has its place before the Enter
 * of the outer one that it takes; then the replicas. `order`: inputs first. */
static td_status *colocate_all(colocation *t, const int32_t *order) {
  for (int32_t k = t->n; k-- > 0;)
    TD_TRY(bring_inputs(t, td_graph_node(t->g, order[k])));
  for (int32_t id = t->n; id < td_graph_size(t->g); id++)
    TD_TRY(bring_inputs(t, td_graph_node(t->g, id)));
  for (int32_t k = 0; k < t->n; k++) {
    td_node *n = td_graph_node(t->g, order[k]);
    if (n->op->kind == TD_OP_EXIT) n->placed = n->in[0].node->placed;
  }
  return NULL;
}

static td_status *colocate(td_graph *g) {
  colocation t = {.g = g, .n = td_graph_size(g)};
  int32_t *order = NULL;
  td_map_init(&t.replicas);
  t.settled = td_calloc((size_t)t.n + 1, sizeof *t.settled);
  td_status *s = t.settled ? td_graph_order(g, &order) : td_oom();
  if (td_ok(s)) s = colocate_all(&t, order);
  td_free(order);
  td_free(t.settled);
  td_map_deinit(&t.replicas);
  return s;
}

/* ---- who takes part ------------------------------------------------------ */

/* What a device has of a frame. */
enum {
  HERE = 1,     /* nodes of it */
  RECEIVES = 2, /* nodes that take something from another device */
  NEEDED = 4,   /* it gets a control loop */
  TURNS = 8,    /* a loop variable that lives as long as the loop */
  ANSWERS = 16, /* nodes that give something to the LoopCond's device */
  REPORTS = 32, /* nothing of the kind: it says that an iteration began */
};

typedef struct survey {
  td_pass *p;
  uint8_t *at;     /* by frame and device: the flags above */
  td_node **near;  /* the same: the LoopCond of a control loop, or NULL */
  td_node **cond;  /* by frame: its LoopCond, or NULL: it does not turn */
  td_node **alive; /* by frame: what a control loop must see live to go on, or
                      NULL: its LoopCond is enough */
  bool *turns;     /* by frame: it has loop variables */
} survey;

static size_t cell(const survey *v, int32_t frame, int32_t device) {
  return (size_t)frame * (size_t)v->p->request->n_devices + (size_t)device;
}

static uint8_t *flags_at(const survey *v, int32_t frame, int32_t device) {
  return &v->at[cell(v, frame, device)];
}

static void note_edge(const survey *v, const td_node *from, const td_node *to) {
  if (from->placed == to->placed) return;
  *flags_at(v, to->frame, from->placed) |= HERE;
  *flags_at(v, to->frame, to->placed) |= HERE | RECEIVES;
  const td_node *cond = v->cond[to->frame];
  if (cond && cond->placed == to->placed)
    *flags_at(v, to->frame, from->placed) |= ANSWERS;
}

static void note_variable(const survey *v, const td_node *m) {
  for (int i = 0; i < m->n_in; i++)
    if (m->in[i].node->op->kind == TD_OP_NEXT) {
      v->turns[m->frame] = true;
      if (!m->may_stop) *flags_at(v, m->frame, m->placed) |= TURNS;
    }
}

static void look_at_loops(const survey *v) {
  for (int32_t id = 0; id < td_graph_size(v->p->graph); id++) {
    td_node *n = td_graph_node(v->p->graph, id);
    if (n->op->kind == TD_OP_COND) v->cond[n->frame] = n;
    if (n->op->kind == TD_OP_MERGE) note_variable(v, n);
  }
  for (int32_t f = 0; f < v->p->n_frames; f++)
    if (!v->turns[f]) v->cond[f] = NULL;
}

static void look(const survey *v) {
  look_at_loops(v);
  for (int32_t id = 0; id < td_graph_size(v->p->graph); id++) {
    const td_node *n = td_graph_node(v->p->graph, id);
    *flags_at(v, n->frame, n->placed) |= HERE;
    for (int i = 0; i < n->n_in; i++) note_edge(v, n->in[i].node, n);
    for (int i = 0; i < n->n_control; i++) note_edge(v, n->control[i], n);
  }
}

static int devices_in(const survey *v, int32_t frame) {
  int n = 0;
  for (int32_t d = 0; d < v->p->request->n_devices; d++)
    n += (*flags_at(v, frame, d) & HERE) != 0;
  return n;
}

/* The LoopCond's device turns by itself if a loop variable there lives as long
 * as the loop; but then nothing starts its _Recvs. */
static bool is_needed(const survey *v, int32_t frame, int32_t device) {
  uint8_t at = *flags_at(v, frame, device);
  bool owner = v->cond[frame] && v->cond[frame]->placed == device;
  return (at & HERE) && (!owner || (at & RECEIVES) || !(at & TURNS));
}

/* A device that gives the LoopCond's nothing in an iteration reports that it
 * began, which the LoopCond's then receives. */
static void decide_reports(const survey *v, int32_t frame) {
  const td_node *cond = v->cond[frame];
  if (!cond) return;
  for (int32_t d = 0; d < v->p->request->n_devices; d++) {
    uint8_t *at = flags_at(v, frame, d);
    if (!(*at & HERE) || (*at & ANSWERS) || d == cond->placed) continue;
    *at |= REPORTS;
    *flags_at(v, frame, cond->placed) |= RECEIVES;
  }
}

/* Inner loops come after outer ones in the list. */
static void decide(const survey *v) {
  for (int32_t f = v->p->n_frames; f-- > 1;) {
    bool several = devices_in(v, f) > 1;
    decide_reports(v, f);
    for (int32_t d = 0; d < v->p->request->n_devices; d++) {
      uint8_t *at = flags_at(v, f, d);
      if (several && is_needed(v, f, d)) *at |= NEEDED;
      if (*at & NEEDED)
        *flags_at(v, v->p->frames[f].parent, d) |= HERE | NEEDED;
    }
  }
}

/* ---- a loop whose variables may all die ---------------------------------- */

static td_status *add_named(td_build *b, int32_t frame, int32_t device,
                            td_node **out) {
  b->exact_name = true;
  TD_TRY(td_build_node(b, out));
  (*out)->placed = device;
  (*out)->frame = frame;
  (*out)->may_die = true;
  return NULL;
}

/* A signal of NextIteration `next`: a constant that waits for the input of
 * `next`, and is dead when that is. */
static td_status *add_signal(const survey *v, const td_node *next,
                             td_edge *out) {
  td_graph *g = v->p->graph;
  char name[48];
  td_tensor zero;
  td_node *value, *signal;
  td_build b;
  snprintf(name, sizeof name, "_input_of_%d", (int)next->id);
  td_build_init(&b, g, "Identity", name);
  td_build_in(&b, next->in[0]);
  TD_TRY(add_named(&b, next->frame, next->placed, &value));
  snprintf(name, sizeof name, "_signal_of_%d", (int)next->id);
  TD_TRY(td_tensor_scalar_f(TD_FLOAT32, 0, &zero));
  td_status *s = td_pass_const(g, name, &zero, next->placed, &signal);
  td_tensor_release(&zero);
  if (td_ok(s)) s = td_node_add_control(signal, value);
  if (!td_ok(s)) return s;
  signal->frame = next->frame;
  signal->may_die = true;
  *out = (td_edge){signal, 0};
  return NULL;
}

/* Makes v->alive of the frame, which is live while one NextIteration is. */
static td_status *add_alive(const survey *v, int32_t frame) {
  int32_t size = td_graph_size(v->p->graph);
  TD_VEC(td_edge) signals = {0};
  td_status *s = NULL;
  td_build b;
  char name[48];
  for (int32_t id = 0; id < size && td_ok(s); id++) {
    const td_node *n = td_graph_node(v->p->graph, id);
    td_edge signal;
    if (n->frame != frame || n->op->kind != TD_OP_NEXT) continue;
    s = add_signal(v, n, &signal);
    if (td_ok(s) && !td_vec_push(&signals, signal)) s = td_oom();
  }
  if (td_ok(s)) {
    snprintf(name, sizeof name, "_alive_%d", (int)frame);
    td_build_init(&b, v->p->graph, "Merge", name);
    td_build_list(&b, signals.at, (int)signals.len);
    s = add_named(&b, frame, v->cond[frame]->placed, &v->alive[frame]);
  }
  td_vec_free(&signals);
  return s;
}

static bool has_survivor(const survey *v, int32_t frame) {
  for (int32_t d = 0; d < v->p->request->n_devices; d++)
    if (*flags_at(v, frame, d) & TURNS) return true;
  return false;
}

/* For loops on several devices none of whose variables is sure to live as long
 * as the loop. */
static td_status *watch_variables(const survey *v) {
  for (int32_t f = 1; f < v->p->n_frames; f++)
    if (v->cond[f] && devices_in(v, f) > 1 && !has_survivor(v, f))
      TD_TRY(add_alive(v, f));
  return NULL;
}

/* ---- the control loops --------------------------------------------------- */

typedef struct loop {
  const survey *v;
  int32_t frame, device;
  td_node *enter, *merge, *cond, *turn, *next;
} loop;

/* Begins a node "_control_loop_<frame>_<device>/<op>". */
static void start(td_build *b, const loop *l, const char *op, char name[80]) {
  snprintf(name, 80, "_control_loop_%d_%d/%s", (int)l->frame, (int)l->device,
           op);
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

/* Empty: what reports and signals carry over is nothing. */
static td_status *add_const(const loop *l, td_edge *out) {
  char name[80];
  td_shape none = td_shape_vector(0);
  td_tensor empty;
  td_node *n;
  snprintf(name, sizeof name, "_control_loop_%d_%d/Const", (int)l->frame,
           (int)l->device);
  TD_TRY(td_tensor_new(NULL, TD_FLOAT32, &none, &empty));
  td_status *s = td_pass_const(l->v->p->graph, name, &empty, l->device, &n);
  td_tensor_release(&empty);
  if (td_ok(s)) *out = (td_edge){n, 0};
  return s;
}

/* The LoopCond's device turns by itself where it has a loop variable that lives
 * as long as the loop: all it needs is what comes anew in each iteration. */
static bool turns_itself(const survey *v, int32_t frame, int32_t device) {
  const td_node *cond = v->cond[frame];
  return cond && cond->placed == device &&
         (*flags_at(v, frame, device) & TURNS);
}

static td_status *add_enter(loop *l) {
  const td_frame *f = &l->v->p->frames[l->frame];
  td_build b;
  char name[80];
  td_edge from = {td_pass_trigger(l->v->p, f->parent, l->device), 0};
  if (!from.node) TD_TRY(add_const(l, &from));
  start(&b, l, "Enter", name);
  td_build_in(&b, from);
  td_build_attr(&b, "frame_name", td_attr_string(f->name));
  td_build_attr(&b, "parallel_iterations", td_attr_int(f->parallel));
  if (turns_itself(l->v, l->frame, l->device))
    td_build_attr(&b, "is_constant", td_attr_bool(true));
  return finish(&b, l, f->parent, &l->enter);
}

static td_status *add_merge(loop *l) {
  td_build b;
  char name[80];
  start(&b, l, "Merge", name);
  td_build_list(&b, (td_edge[]){{l->enter, 0}, {NULL, 0}}, 2);
  return finish(&b, l, l->frame, &l->merge);
}

static td_status *add_cond(loop *l) {
  const survey *v = l->v;
  td_node *far = v->cond[l->frame];
  td_build b;
  char name[80];
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
  char name[80];
  start(&b, l, "Switch", name);
  td_build_in(&b, (td_edge){l->merge, 0});
  td_build_in(&b, (td_edge){l->cond, 0});
  TD_TRY(finish(&b, l, l->frame, &l->turn));
  l->turn->may_die = l->cond->may_die;
  start(&b, l, "NextIteration", name);
  td_build_in(&b, (td_edge){l->turn, 1});
  if (l->v->alive[l->frame]) td_build_control(&b, l->v->alive[l->frame]);
  TD_TRY(finish(&b, l, l->frame, &l->next));
  l->next->may_die = true;
  return td_node_set_back_edge(l->merge, 1, (td_edge){l->next, 0});
}

static td_status *add_loop(const survey *v, int32_t frame, int32_t device,
                           td_node **trigger) {
  loop l = {.v = v, .frame = frame, .device = device};
  TD_TRY(add_enter(&l));
  *trigger = l.enter;
  if (!v->cond[frame] || turns_itself(v, frame, device)) return NULL;
  TD_TRY(add_merge(&l));
  *trigger = l.merge;
  TD_TRY(add_cond(&l));
  td_pass_log(v->p, "control loop for frame \"%s\" on device %d",
              v->p->frames[frame].name, (int)device);
  return add_turn(&l);
}

static td_status *add_loops(const survey *v) {
  for (int32_t f = 1; f < v->p->n_frames; f++)
    for (int32_t d = 0; d < v->p->request->n_devices; d++)
      if (*flags_at(v, f, d) & NEEDED)
        TD_TRY(add_loop(v, f, d, &v->p->triggers[cell(v, f, d)]));
  return NULL;
}

/* On the LoopCond's device, what takes the Merge of `device`: all that matters
 * is that it came. */
static td_status *add_report(const survey *v, int32_t frame, int32_t device) {
  td_build b;
  td_node *report;
  char name[48];
  snprintf(name, sizeof name, "_report_%d_%d", (int)frame, (int)device);
  td_build_init(&b, v->p->graph, "Identity", name);
  b.exact_name = true;
  td_build_in(&b, (td_edge){td_pass_trigger(v->p, frame, device), 0});
  TD_TRY(td_build_node(&b, &report));
  report->placed = v->cond[frame]->placed;
  report->frame = frame;
  return NULL;
}

static td_status *add_reports(const survey *v) {
  for (int32_t f = 1; f < v->p->n_frames; f++)
    for (int32_t d = 0; d < v->p->request->n_devices; d++)
      if (*flags_at(v, f, d) & REPORTS) TD_TRY(add_report(v, f, d));
  return NULL;
}

/* The LoopCond of the control loop on the device of `n`, when `cond` is that of
 * another device; else NULL. */
static td_node *near_cond(const survey *v, const td_node *n,
                          const td_node *cond) {
  if (cond->op->kind != TD_OP_COND) return NULL;
  td_node *near = v->near[cell(v, cond->frame, n->placed)];
  return near == n ? NULL : near;
}

/* Nodes that take a LoopCond of another device take that of their control loop:
 * the predicate crosses once for each device. */
static void take_near(const survey *v) {
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

static td_status *add_all(survey *v) {
  look(v);
  TD_TRY(watch_variables(v));
  v->p->first_trigger = td_graph_size(v->p->graph);
  look(v); /* at the nodes that watch, too */
  decide(v);
  TD_TRY(add_loops(v));
  TD_TRY(add_reports(v));
  take_near(v);
  return NULL;
}

static td_status *survey_init(survey *v, td_pass *p) {
  size_t frames = (size_t)p->n_frames, cells;
  *v = (survey){.p = p};
  if (!td_mul(frames, (size_t)p->request->n_devices, &cells)) return td_oom();
  v->at = td_calloc(cells, sizeof *v->at);
  v->near = td_calloc(cells, sizeof(td_node *));
  v->cond = td_calloc(frames, sizeof(td_node *));
  v->alive = td_calloc(frames, sizeof(td_node *));
  v->turns = td_calloc(frames, sizeof *v->turns);
  p->triggers = td_calloc(cells, sizeof(td_node *));
  bool room =
      v->at && v->near && v->cond && v->alive && v->turns && p->triggers;
  return room ? NULL : td_oom();
}

td_status *td_control_loops(td_pass *p) {
  survey v;
  if (p->n_frames > 1) TD_TRY(colocate(p->graph));
  p->first_trigger = td_graph_size(p->graph);
  if (p->n_frames < 2 || p->request->n_devices < 2) return NULL;
  td_status *s = survey_init(&v, p);
  if (td_ok(s)) s = add_all(&v);
  td_free(v.at);
  td_free(v.near);
  td_free(v.cond);
  td_free(v.alive);
  td_free(v.turns);
  return s;
}
