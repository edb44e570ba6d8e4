/* partition.c - one graph per device.
 *
 * Nodes are copied in the order of the schedule, each into the graph of its
 * device. An edge between two devices, or between device memory and host memory
 * of one, becomes a link (link_impl.h), once for each source, destination and
 * kind of memory (without one_recv for each edge):
 *
 *   CPU:0                     GPU:0
 *   x -> _Send (edge 3)       _Recv (edge 3) -> MatMul, and all others that
 *                                               take x on GPU:0
 *
 * A control edge crosses as an empty tensor, a Const with a control edge from
 * the source; on the other side an Identity stands for the source. When the
 * source is dead, so are Const, tensor and Identity.
 *
 * A _Recv belongs to the frame of its consumer. In the root it starts with the
 * step; in a loop something must start it in each iteration: the device's
 * control loop (control_loops.c), or, when both ends are on one device, the
 * _Send itself.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "engine/base/map.h"
#include "engine/base/plant.h"
#include "engine/device/kernel_start.h"
#include "engine/graph/build.h"
#include "engine/graph/graph_check.h"
#include "engine/graph/graph_edit.h"
#include "engine/graph/node_edit.h"
#include "engine/graphdef/function.h"
#include "engine/plan/link_impl.h"
#include "engine/plan/part.h"

/* What a link is known by. */
typedef struct link_key {
  int32_t node, port; /* the source; port -1: a control edge */
  int32_t device;
  int32_t host; /* to host memory */
} link_key;

typedef struct partition {
  td_pass *p;
  td_device *const *devices;
  int32_t *part_of;   /* by device: its part, -1: none */
  td_node **copy;     /* by node id */
  td_map links;       /* link_key to the node on the consumer's side */
  td_tensor signal;   /* what crosses for a control edge */
  TD_VEC(td_edge) in; /* inputs of the node at hand */
  TD_VEC(td_node *) control;
} partition;

static td_graph *graph_of(const partition *t, int32_t device) {
  return t->p->plan->parts[t->part_of[device]].graph;
}

/* ---- links --------------------------------------------------------------- */

static bool out_host(const partition *t, const td_node *n, int port) {
  const td_device *d = t->devices[n->placed];
  return !td_device_on_host(d) && td_kernel_out_host(n, d, port);
}

static bool in_host(const partition *t, const td_node *n, int i) {
  const td_device *d = t->devices[n->placed];
  return !td_device_on_host(d) && td_kernel_in_host(n, d, i);
}

static td_status *connect(partition *t, const td_link_ends *l, td_edge input,
                          int32_t from, int32_t to, td_node **out) {
  td_node *send, *trigger, *start = NULL;
  TD_TRY(td_link_send(t->p, graph_of(t, from), l, input, &send));
  send->placed = from;
  if (from == to) {
    start = send;
  } else {
    trigger = td_pass_trigger(t->p, l->frame, to);
    if (trigger) start = t->copy[trigger->id];
    if (!start && l->frame)
      return td_error(TD_INTERNAL, "no control loop for %s",
                      t->p->edges.at[l->edge].name);
  }
  TD_TRY(td_link_recv(t->p, graph_of(t, to), l, start, out));
  (*out)->placed = to;
  td_pass_log(t->p, "%s: %s to %s", t->p->edges.at[l->edge].name, l->from->name,
              l->to->name);
  return NULL;
}

static td_status *add_link(partition *t, td_edge e, const link_key *k,
                           int32_t frame, td_node **out) {
  td_node *from = e.node;
  td_link_ends l = {.from = t->devices[from->placed],
                    .to = t->devices[k->device],
                    .from_host = out_host(t, from, e.port),
                    .to_host = k->host,
                    .value = e,
                    .may_die = td_edge_may_die(e),
                    .frame = frame};
  if (td_edge_dtype(e) == TD_RESOURCE && from->placed != k->device)
    return td_node_blame(
        td_error(TD_INVALID_ARGUMENT,
                 "resource \"%s:%d\" of %s cannot be used on %s", from->name,
                 e.port, l.from->name, l.to->name),
        from);
  TD_TRY(td_link_number(t->p, from->name, &l.edge));
  return connect(t, &l, (td_edge){t->copy[from->id], e.port}, from->placed,
                 k->device, out);
}

static td_status *add_signal(partition *t, td_node *from, const link_key *k,
                             int32_t frame, td_node **out) {
  char name[32];
  td_node *signal, *recv;
  td_build b;
  td_link_ends l = {.from = t->devices[from->placed],
                    .to = t->devices[k->device],
                    .may_die = from->may_die,
                    .frame = frame};
  TD_TRY(td_link_number(t->p, from->name, &l.edge));
  snprintf(name, sizeof name, "_signal_%d", (int)l.edge);
  TD_TRY(td_pass_const(graph_of(t, from->placed), name, &t->signal,
                       from->placed, &signal));
  TD_TRY(td_node_add_control(signal, t->copy[from->id]));
  signal->frame = frame;
  signal->may_die = from->may_die;
  l.value = (td_edge){signal, 0};
  TD_TRY(connect(t, &l, l.value, from->placed, k->device, &recv));
  snprintf(name, sizeof name, "_after_%d", (int)l.edge);
  td_build_init(&b, graph_of(t, k->device), "Identity", name);
  b.exact_name = true;
  td_build_in(&b, (td_edge){recv, 0});
  TD_TRY(td_build_node(&b, out));
  (*out)->placed = k->device;
  (*out)->frame = frame;
  (*out)->may_die = from->may_die;
  return NULL;
}

/* The node that stands for `e` on `device`: a _Recv, or for a control edge
 * (port -1) an Identity. Its link is made at first use, or at each. */
static td_status *node_on(partition *t, td_edge e, bool host, int32_t device,
                          int32_t frame, td_node **out) {
  link_key k = {e.node->id, e.port, device, host};
  *out = t->p->one_recv ? td_map_getn(&t->links, &k, sizeof k) : NULL;
  if (*out) return NULL;
  if (e.port < 0)
    TD_TRY(add_signal(t, e.node, &k, frame, out));
  else
    TD_TRY(add_link(t, e, &k, frame, out));
  return td_map_putn(&t->links, &k, sizeof k, *out) ? NULL : td_oom();
}

/* ---- nodes --------------------------------------------------------------- */

static td_status *input_on(partition *t, const td_node *n, int i,
                           td_edge *out) {
  td_edge e = n->in[i];
  bool host = in_host(t, n, i);
  *out = (td_edge){t->copy[e.node->id], e.port};
  if (!out->node) return NULL; /* a back edge: see close_loops */
  if (e.node->placed == n->placed && host == out_host(t, e.node, e.port))
    return NULL;
  *out = (td_edge){NULL, 0};
  return node_on(t, e, host, n->placed, n->frame, &out->node);
}

static td_status *copy_node(partition *t, const td_node *n) {
  t->in.len = t->control.len = 0;
  for (int i = 0; i < n->n_in; i++) {
    td_edge e;
    TD_TRY(input_on(t, n, i, &e));
    if (!td_vec_push(&t->in, e)) return td_oom();
  }
  for (int i = 0; i < n->n_control; i++) {
    td_node *before = t->copy[n->control[i]->id];
    if (TD_PLANT(7) && n->control[i]->placed != n->placed) continue;
    if (n->control[i]->placed != n->placed)
      TD_TRY(node_on(t, (td_edge){n->control[i], -1}, false, n->placed,
                     n->frame, &before));
    if (!td_vec_push(&t->control, before)) return td_oom();
  }
  return td_graph_clone_node(graph_of(t, n->placed), n, n->name, t->in.at,
                             t->control.at, (int)t->control.len,
                             &t->copy[n->id]);
}

/* Const, Enter and Merge of a control loop start its _Recvs, and are copied
 * before these. */
static bool is_trigger(const partition *t, const td_node *n) {
  return n->id >= t->p->first_trigger &&
         (n->op->kind == TD_OP_CONST || n->op->kind == TD_OP_ENTER ||
          n->op->kind == TD_OP_MERGE);
}

static td_status *copy_nodes(partition *t, const int32_t *order) {
  int32_t n = td_graph_size(t->p->graph);
  for (int triggers = 1; triggers >= 0; triggers--)
    for (int32_t k = 0; k < n; k++) {
      const td_node *node = td_graph_node(t->p->graph, order[k]);
      if (is_trigger(t, node) == (triggers == 1)) TD_TRY(copy_node(t, node));
    }
  return NULL;
}

static void close_loops(partition *t) {
  for (int32_t id = 0; id < td_graph_size(t->p->graph); id++) {
    const td_node *m = td_graph_node(t->p->graph, id);
    td_node *copy = t->copy[id];
    for (int i = 0; i < m->n_in; i++)
      if (!copy->in[i].node)
        td_node_set_in(copy, i,
                       (td_edge){t->copy[m->in[i].node->id], m->in[i].port});
  }
}

/* ---- the parts ----------------------------------------------------------- */

static td_status *add_part(partition *t, int32_t device) {
  td_plan *plan = t->p->plan;
  td_part *part = &plan->parts[plan->n_parts];
  TD_TRY(td_graph_new(&part->graph));
  td_graph_scratch(part->graph);
  part->device = td_device_retain(t->devices[device]);
  t->part_of[device] = plan->n_parts++;
  return NULL;
}

static td_status *add_parts(partition *t) {
  int n = t->p->request->n_devices;
  int32_t size = td_graph_size(t->p->graph);
  t->part_of = td_calloc((size_t)n, sizeof *t->part_of);
  t->p->plan->parts = td_calloc((size_t)n, sizeof *t->p->plan->parts);
  t->copy = td_calloc((size_t)size + 1, sizeof(td_node *));
  if (!t->part_of || !t->p->plan->parts || !t->copy) return td_oom();
  for (int32_t id = 0; id < size; id++)
    t->part_of[td_graph_node(t->p->graph, id)->placed] = 1;
  for (int32_t d = 0; d < n; d++) {
    if (t->part_of[d])
      TD_TRY(add_part(t, d));
    else
      t->part_of[d] = -1;
  }
  return NULL;
}

/* Attributes may name functions: a part carries those that it reaches. */
static td_status *finish_part(td_pass *p, td_part *part) {
  TD_TRY(td_function_copy_used(p->graph, part->graph));
  return td_part_settle(part);
}

/* ---- the passes ---------------------------------------------------------- */

td_status *td_one_recv(td_pass *p) {
  p->one_recv = true;
  return NULL;
}

static td_status *partition_all(partition *t) {
  td_pass *p = t->p;
  td_shape empty = td_shape_vector(0);
  TD_TRY(td_tensor_new(NULL, TD_FLOAT32, &empty, &t->signal));
  TD_TRY(add_parts(t));
  if (!p->order) TD_TRY(td_graph_order(p->graph, &p->order));
  TD_TRY(copy_nodes(t, p->order));
  close_loops(t);
  for (int i = 0; i < p->plan->n_parts; i++)
    TD_TRY(finish_part(p, &p->plan->parts[i]));
  return NULL;
}

td_status *td_partition(td_pass *p) {
  partition t = {.p = p, .devices = p->request->devices};
  td_map_init(&t.links);
  td_status *s = partition_all(&t);
  td_map_deinit(&t.links);
  td_tensor_release(&t.signal);
  td_vec_free(&t.in);
  td_vec_free(&t.control);
  td_free(t.part_of);
  td_free(t.copy);
  return s;
}
