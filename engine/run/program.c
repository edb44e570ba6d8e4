/* program.c - compiles one part of a plan to flat arrays.
 *
 * Frames are read off the part itself (an Enter leads into one, an Exit out),
 * so that a part which arrived as bytes needs nothing beside it. Edges of a
 * node are grouped by port and laid out in order of urgency, the most urgent
 * last, because ready nodes are taken last in, first out.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/device/kernel_start.h"
#include "engine/run/execution.h"

/* ---- frames ---- */

/* The static frame a node's outputs are in. */
static int32_t frame_of_outputs(const td_xnode *n, const td_xframe *f) {
  if (n->kind == TD_OP_ENTER) return n->child;
  if (n->kind == TD_OP_EXIT) return f[n->frame].parent;
  return n->frame;
}

static td_status *frame_enter(td_program *p, td_xnode *n, const td_node *from) {
  const char *name = td_node_string(from, "frame_name");
  int64_t parallel = td_node_int(from, "parallel_iterations");
  if (parallel < 1 || parallel > 1000000)
    return td_node_blame(td_error(TD_INVALID_ARGUMENT,
                                  "parallel_iterations must be in [1, "
                                  "1000000], not %lld",
                                  (long long)parallel),
                         from);
  n->constant = td_node_bool(from, "is_constant");
  for (int32_t i = 1; i < p->n_frames; i++)
    if (p->frame[i].parent == n->frame && !strcmp(p->frame[i].name, name)) {
      p->frame[i].enters++;
      n->child = i;
      return NULL;
    }
  td_xframe *f = &p->frame[p->n_frames];
  f->name = name;
  f->parent = n->frame;
  f->ordinal = p->frame[n->frame].children++;
  f->enters = 1;
  f->parallel = (int32_t)parallel;
  n->child = p->n_frames++;
  return NULL;
}

/* Gives node `i`, whose inputs are done, its frame. */
static td_status *frame_node(td_program *p, int32_t i) {
  const td_node *from = td_graph_node(p->graph, i);
  td_xnode *n = &p->node[i];
  int32_t frame = 0;
  int first = 0; /* input that is no back edge */
  for (int k = 0; k < from->n_in + from->n_control; k++) {
    const td_node *in =
        k < from->n_in ? from->in[k].node : from->control[k - from->n_in];
    if (in->op->kind == TD_OP_NEXT) {
      first += k == first;
      continue;
    }
    int32_t f = frame_of_outputs(&p->node[in->id], p->frame);
    if (f < 0)
      return td_node_blame(
          td_error(TD_INVALID_ARGUMENT, "Exit outside of any loop"), in);
    if (k > first && f != frame)
      return td_node_blame(
          td_error(TD_INVALID_ARGUMENT,
                   "inputs come from two frames, \"%s\" and \"%s\"",
                   p->frame[frame].name, p->frame[f].name),
          from);
    frame = f;
  }
  n->frame = frame;
  n->child = -1;
  if (n->kind == TD_OP_ENTER) return frame_enter(p, n, from);
  return NULL;
}

/* ---- nodes ---- */

static uint64_t initial_state(const td_node *from) {
  if (from->op->kind != TD_OP_MERGE)
    return (uint64_t)from->n_in + (uint64_t)from->n_control;
  return (uint64_t)from->n_control + (uint64_t)from->n_in * TD_STATE_DATA_ONE;
}

static td_status *compile_node(td_program *p, int32_t i) {
  const td_node *from = td_graph_node(p->graph, i);
  td_xnode *n = &p->node[i];
  n->kind = (uint8_t)from->op->kind;
  n->n_in = from->n_in;
  n->n_out = from->n_out;
  TD_TRY(frame_node(p, i));
  TD_TRY(td_program_check_node(p, n, from));
  TD_TRY(td_kernel_init(&n->kernel, from, p->device, p->states));
  n->runs_dead = n->kernel.def && (n->kernel.def->flags & TD_KERNEL_DEAD);
  n->updates = (from->op->flags & TD_UPDATES) != 0;
  n->initial = initial_state(from);
  td_xframe *f = &p->frame[n->frame];
  n->local = f->nodes++;
  n->in = f->slots;
  f->slots += n->n_in;
  n->pending = -1;
  if (n->kernel.plain) return NULL;
  n->pending = f->pendings++;
  f->pending_outs += n->n_out;
  p->plain = false;
  return NULL;
}

static td_status *compile_frames(td_program *p) {
  for (int32_t k = 0; k < p->n_frames; k++) {
    td_xframe *f = &p->frame[k];
    f->members = td_calloc((size_t)f->nodes + 1, sizeof *f->members);
    f->initial = td_calloc((size_t)f->nodes + 1, sizeof *f->initial);
    if (!f->members || !f->initial) return td_oom();
    f->size = td_iteration_size(f);
  }
  for (int32_t i = 0; i < p->n_nodes; i++) {
    td_xnode *n = &p->node[i];
    p->frame[n->frame].members[n->local] = i;
    p->frame[n->frame].initial[n->local] = n->initial;
  }
  return NULL;
}

/* ---- edges ---- */

/* Index into begin[] of the group an input edge belongs to. */
static int32_t group_of(const td_program *p, const td_node *from, int port) {
  const td_xnode *n = &p->node[from->id];
  return n->targets + (port < 0 ? n->n_out : port);
}

static td_target target_of(const td_xnode *n, int32_t slot) {
  return (td_target){.local = (uint32_t)n->local,
                     .merge = n->kind == TD_OP_MERGE,
                     .lone = n->initial == 1 && n->kind != TD_OP_MERGE,
                     .slot = slot};
}

/* What a Merge that begins a loop must hear of when it may stop before. */
static void note_stop(td_program *p, const td_node *m) {
  if (!m->may_stop) return;
  p->node[m->id].child = 0;
  for (int k = 0; k < m->n_in; k++) {
    td_xnode *from = &p->node[m->in[k].node->id];
    if (from->kind == TD_OP_NEXT)
      from->tells = true;
    else
      p->node[m->id].child++;
  }
}

/* Parts are in schedule order: walking backwards puts the most urgent last. */
static void fill_targets(td_program *p, int32_t *fill) {
  for (int32_t i = p->n_nodes - 1; i >= 0; i--) {
    const td_node *to = td_graph_node(p->graph, i);
    for (int k = 0; k < to->n_in; k++)
      p->target[fill[group_of(p, to->in[k].node, to->in[k].port)]++] =
          target_of(&p->node[i], p->node[i].in + k);
    for (int k = 0; k < to->n_in; k++)
      if (to->in[k].port == 1) p->node[to->in[k].node->id].index_read = true;
    for (int k = 0; k < to->n_control; k++)
      p->target[fill[group_of(p, to->control[k], -1)]++] =
          target_of(&p->node[i], -1);
  }
}

static td_status *compile_edges(td_program *p) {
  int32_t groups = 0, edges = 0;
  for (int32_t i = 0; i < p->n_nodes; i++) {
    p->node[i].targets = groups;
    groups += p->node[i].n_out + 1;
  }
  p->begin = td_calloc((size_t)groups + 1, sizeof *p->begin);
  int32_t *fill = td_calloc((size_t)groups + 1, sizeof *fill);
  if (!p->begin || !fill) {
    td_free(fill);
    return td_oom();
  }
  for (int32_t i = 0; i < p->n_nodes; i++) {
    const td_node *to = td_graph_node(p->graph, i);
    for (int k = 0; k < to->n_in; k++)
      p->begin[group_of(p, to->in[k].node, to->in[k].port) + 1]++;
    for (int k = 0; k < to->n_control; k++)
      p->begin[group_of(p, to->control[k], -1) + 1]++;
    edges += to->n_in + to->n_control;
  }
  for (int32_t g = 0; g < groups; g++) p->begin[g + 1] += p->begin[g];
  memcpy(fill, p->begin, ((size_t)groups + 1) * sizeof *fill);
  p->target = td_calloc((size_t)edges + 1, sizeof *p->target);
  if (p->target) fill_targets(p, fill);
  for (int32_t i = 0; i < p->n_nodes; i++)
    note_stop(p, td_graph_node(p->graph, i));
  td_free(fill);
  return p->target ? NULL : td_oom();
}

static td_status *compile_sources(td_program *p) {
  p->source = td_calloc((size_t)p->n_nodes + 1, sizeof *p->source);
  if (!p->source) return td_oom();
  for (int32_t i = 0; i < p->n_nodes; i++)
    if (p->node[i].initial == 0) p->source[p->n_sources++] = i;
  return NULL;
}

/* ---- the whole ---- */

static int32_t count_enters(const td_graph *g) {
  int32_t n = 0;
  for (int32_t i = 0; i < td_graph_size(g); i++)
    n += td_graph_node(g, i)->op->kind == TD_OP_ENTER;
  return n;
}

static td_status *compile(td_program *p) {
  p->n_nodes = td_graph_size(p->graph);
  TD_TRY(td_program_check_part(p->graph));
  p->node =
      td_aligned_alloc(TD_LINE, (size_t)(p->n_nodes + 1) * sizeof *p->node);
  if (p->node) memset(p->node, 0, (size_t)(p->n_nodes + 1) * sizeof *p->node);
  p->frame = td_calloc((size_t)count_enters(p->graph) + 1, sizeof *p->frame);
  if (!p->node || !p->frame) return td_oom();
  p->n_frames = 1;
  p->frame[0].name = "";
  p->frame[0].parent = -1;
  p->plain = true;
  for (int32_t i = 0; i < p->n_nodes; i++) TD_TRY(compile_node(p, i));
  TD_TRY(td_program_check_loops(p));
  TD_TRY(compile_frames(p));
  TD_TRY(compile_edges(p));
  return compile_sources(p);
}

/* What earlier programs measured. The time of a whole execution is known where
 * that of each node is, and none runs more than once. */
static td_status *begin_costs(td_program *p) {
  int64_t sum = 0;
  bool known = p->n_frames == 1;
  if (!p->costs) return NULL;
  p->measured = td_calloc((size_t)p->n_nodes + 1, sizeof(td_measured *));
  if (!p->measured) return td_oom();
  for (int32_t i = 0; i < p->n_nodes; i++) {
    td_xnode *n = &p->node[i];
    TD_TRY(td_costs_get(p->costs, p->device, td_graph_node(p->graph, i),
                        &p->measured[i]));
    n->cost = __atomic_load_n(&p->measured[i]->ns, __ATOMIC_RELAXED);
    known = known && n->cost > 0;
    sum += n->cost;
  }
  if (known) p->cost = sum;
  return NULL;
}

td_status *td_program_new(td_graph *graph, td_device *device, td_states *states,
                          td_costs *costs, td_program **out) {
  td_program *p = td_calloc(1, sizeof *p);
  if (!p) return td_oom();
  p->graph = td_graph_retain(graph);
  p->device = td_device_retain(device);
  p->states = td_states_retain(states);
  p->costs = td_costs_retain(costs);
  pthread_mutex_init(&p->lock, NULL);
  td_status *s = compile(p);
  if (td_ok(s)) s = begin_costs(p);
  if (!td_ok(s)) {
    td_program_free(p);
    return s;
  }
  *out = p;
  return NULL;
}

void td_program_free(td_program *p) {
  if (!p) return;
  for (td_execution *e; (e = p->idle);) {
    p->idle = e->next;
    td_execution_free(e);
  }
  for (int32_t i = 0; p->node && i < p->n_nodes; i++) {
    td_states_put(p->states, &p->node[i].kernel);
    td_kernel_deinit(&p->node[i].kernel);
  }
  for (int32_t k = 0; p->frame && k < p->n_frames; k++) {
    td_free(p->frame[k].members);
    td_free(p->frame[k].initial);
  }
  td_free(p->node);
  td_free(p->frame);
  td_free(p->begin);
  td_free(p->target);
  td_free(p->source);
  td_costs_put(p->costs, p->measured, p->n_nodes);
  td_free(p->measured);
  td_costs_release(p->costs);
  td_states_release(p->states);
  td_graph_release(p->graph);
  td_device_release(p->device);
  pthread_mutex_destroy(&p->lock);
  td_free(p);
}

int64_t td_program_cost(const td_program *p) {
  return __atomic_load_n(&p->cost, __ATOMIC_RELAXED);
}

void td_program_costs(const td_program *p,
                      void (*each)(void *arg, const td_device *d,
                                   const char *node, int64_t ns),
                      void *arg) {
  for (int32_t i = 0; i < p->n_nodes; i++)
    each(arg, p->device, p->node[i].kernel.node->name,
         __atomic_load_n(&p->node[i].cost, __ATOMIC_RELAXED));
}
