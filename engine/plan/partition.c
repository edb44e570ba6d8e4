/* partition.c - one graph per device.
 *
 * Nodes are copied, inputs first and else the urgent ones, each into the graph
 * of its device. An edge between two devices, or between device memory and host
 * memory of one, becomes a link, once for each source, destination and kind of
 * memory. A control edge crosses as an empty tensor that its source lets go: a
 * dead source makes it dead, and with it the Identity that stands for the
 * source.
 *
 * A _Recv runs where its consumer runs. In the root it starts with the step; in
 * a loop something must start it in each iteration: the device's control loop,
 * or, when both ends are on one device, the _Send itself.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "engine/base/map.h"
#include "engine/base/plant.h"
#include "engine/graphdef/function.h"
#include "engine/graphdef/graphdef.h"
#include "engine/plan/link_impl.h"

/* What a link is known by. */
typedef struct key {
  int32_t node, port; /* the source; port -1: a control edge */
  int32_t device;
  int32_t host; /* to host memory */
} key;

typedef struct cut {
  td_pass *p;
  td_device *const *devices;
  int32_t *part_of; /* by device: its part, -1: none */
  td_node **copy;   /* by node id */
  td_map links;     /* key to the node on the consumer's side */
  td_tensor signal; /* what crosses for a control edge */
  TD_VEC(td_edge) in;
  TD_VEC(td_node *) control;
} cut;

static td_graph *graph_of(const cut *c, int32_t device) {
  return c->p->plan->parts[c->part_of[device]].graph;
}

/* ---- links --------------------------------------------------------------- */

static bool out_host(const cut *c, const td_node *n, int port) {
  const td_device *d = c->devices[n->placed];
  return !td_device_on_host(d) && td_kernel_out_host(n, d, port);
}

static bool in_host(const cut *c, const td_node *n, int i) {
  const td_device *d = c->devices[n->placed];
  return !td_device_on_host(d) && td_kernel_in_host(n, d, i);
}

static td_status *connect(cut *c, const td_link *l, td_edge input, int32_t from,
                          int32_t to, td_node **out) {
  td_node *send, *trigger, *start = NULL;
  TD_TRY(td_link_send(c->p, graph_of(c, from), l, input, &send));
  send->placed = from;
  if (from == to) {
    start = send;
  } else {
    trigger = td_pass_trigger(c->p, l->frame, to);
    if (trigger) start = c->copy[trigger->id];
    if (!start && l->frame)
      return td_error(TD_INTERNAL, "no control loop for %s",
                      c->p->edges.at[l->edge]);
  }
  TD_TRY(td_link_recv(c->p, graph_of(c, to), l, start, out));
  (*out)->placed = to;
  td_pass_log(c->p, "%s: %s to %s", c->p->edges.at[l->edge], l->from->name,
              l->to->name);
  return NULL;
}

static td_status *add_link(cut *c, td_edge e, const key *k, int32_t frame,
                           td_node **out) {
  td_node *from = e.node;
  td_link l = {.from = c->devices[from->placed],
               .to = c->devices[k->device],
               .from_host = out_host(c, from, e.port),
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
  TD_TRY(td_link_number(c->p, from->name, &l.edge));
  return connect(c, &l, (td_edge){c->copy[from->id], e.port}, from->placed,
                 k->device, out);
}

static td_status *add_signal(cut *c, td_node *from, const key *k, int32_t frame,
                             td_node **out) {
  char name[32];
  td_node *signal, *recv;
  td_build b;
  td_link l = {.from = c->devices[from->placed],
               .to = c->devices[k->device],
               .may_die = from->may_die,
               .frame = frame};
  TD_TRY(td_link_number(c->p, from->name, &l.edge));
  snprintf(name, sizeof name, "_signal_%d", (int)l.edge);
  TD_TRY(td_pass_const(graph_of(c, from->placed), name, &c->signal,
                       from->placed, &signal));
  TD_TRY(td_graph_add_control(signal, c->copy[from->id]));
  signal->frame = frame;
  signal->may_die = from->may_die;
  l.value = (td_edge){signal, 0};
  TD_TRY(connect(c, &l, l.value, from->placed, k->device, &recv));
  snprintf(name, sizeof name, "_after_%d", (int)l.edge);
  td_build_init(&b, graph_of(c, k->device), "Identity", name);
  b.exact_name = true;
  td_build_in(&b, (td_edge){recv, 0});
  TD_TRY(td_build_node(&b, out));
  (*out)->placed = k->device;
  (*out)->frame = frame;
  (*out)->may_die = from->may_die;
  return NULL;
}

/* The node that stands for `e` (port -1: for its node, by control) where the
 * key says; made at first use. */
static td_status *far_node(cut *c, td_edge e, bool host, int32_t device,
                           int32_t frame, td_node **out) {
  key k = {e.node->id, e.port, device, host};
  *out = td_map_getn(&c->links, &k, sizeof k);
  if (*out) return NULL;
  if (e.port < 0)
    TD_TRY(add_signal(c, e.node, &k, frame, out));
  else
    TD_TRY(add_link(c, e, &k, frame, out));
  return td_map_putn(&c->links, &k, sizeof k, *out) ? NULL : td_oom();
}

/* ---- nodes --------------------------------------------------------------- */

static td_status *near_input(cut *c, const td_node *n, int i, td_edge *out) {
  td_edge e = n->in[i];
  bool host = in_host(c, n, i);
  *out = (td_edge){c->copy[e.node->id], e.port};
  if (!out->node) return NULL; /* a back edge: see close_loops */
  if (e.node->placed == n->placed && host == out_host(c, e.node, e.port))
    return NULL;
  *out = (td_edge){NULL, 0};
  return far_node(c, e, host, n->placed, n->frame, &out->node);
}

static td_status *copy_node(cut *c, const td_node *n) {
  c->in.len = c->control.len = 0;
  for (int i = 0; i < n->n_in; i++) {
    td_edge e;
    TD_TRY(near_input(c, n, i, &e));
    if (!td_vec_push(&c->in, e)) return td_oom();
  }
  for (int i = 0; i < n->n_control; i++) {
    td_node *before = c->copy[n->control[i]->id];
    if (TD_PLANT(7) && n->control[i]->placed != n->placed) continue;
    if (n->control[i]->placed != n->placed)
      TD_TRY(far_node(c, (td_edge){n->control[i], -1}, false, n->placed,
                      n->frame, &before));
    if (!td_vec_push(&c->control, before)) return td_oom();
  }
  return td_graph_clone_node(graph_of(c, n->placed), n, n->name, c->in.at,
                             c->control.at, (int)c->control.len,
                             &c->copy[n->id]);
}

/* The part of a control loop that starts others, and so comes before them. */
static bool is_trigger(const cut *c, const td_node *n) {
  return n->id >= c->p->first_trigger &&
         (n->op->kind == TD_KIND_CONST || n->op->kind == TD_KIND_ENTER ||
          n->op->kind == TD_KIND_MERGE);
}

static td_status *copy_nodes(cut *c, const int32_t *order) {
  int32_t n = td_graph_size(c->p->graph);
  for (int triggers = 1; triggers >= 0; triggers--)
    for (int32_t k = 0; k < n; k++) {
      const td_node *node = td_graph_node(c->p->graph, order[k]);
      if (is_trigger(c, node) == (triggers == 1)) TD_TRY(copy_node(c, node));
    }
  return NULL;
}

static void close_loops(cut *c) {
  for (int32_t id = 0; id < td_graph_size(c->p->graph); id++) {
    const td_node *m = td_graph_node(c->p->graph, id);
    td_node *copy = c->copy[id];
    for (int i = 0; i < m->n_in; i++)
      if (!copy->in[i].node)
        td_node_set_in(copy, i,
                       (td_edge){c->copy[m->in[i].node->id], m->in[i].port});
  }
}

/* ---- the parts ----------------------------------------------------------- */

static td_status *add_part(cut *c, int32_t device) {
  td_plan *plan = c->p->plan;
  td_part *part = &plan->parts[plan->n_parts];
  TD_TRY(td_graph_new(&part->graph));
  td_graph_scratch(part->graph);
  part->device = td_device_retain(c->devices[device]);
  c->part_of[device] = plan->n_parts++;
  return NULL;
}

static td_status *add_parts(cut *c) {
  int n = c->p->request->n_devices;
  int32_t size = td_graph_size(c->p->graph);
  c->part_of = td_alloc_zero((size_t)n, sizeof *c->part_of);
  c->p->plan->parts = td_alloc_zero((size_t)n, sizeof *c->p->plan->parts);
  c->copy = td_alloc_zero((size_t)size + 1, sizeof(td_node *));
  if (!c->part_of || !c->p->plan->parts || !c->copy) return td_oom();
  for (int32_t id = 0; id < size; id++)
    c->part_of[td_graph_node(c->p->graph, id)->placed] = 1;
  for (int32_t d = 0; d < n; d++) {
    if (c->part_of[d])
      TD_TRY(add_part(c, d));
    else
      c->part_of[d] = -1;
  }
  return NULL;
}

/* States of kernels go by them. */
static void keep_serials(const td_graph *from, td_graph *to) {
  for (int32_t id = 0; id < td_graph_size(to); id++) {
    td_node *n = td_graph_node(to, id);
    const td_node *same = td_graph_find(from, n->name);
    n->serial = same ? same->serial : 0;
  }
}

/* What a remote worker would get. */
static td_status *through_bytes(td_graph **g) {
  char *bytes = NULL;
  size_t len = 0;
  td_graph *read = NULL;
  td_status *s = td_graphdef_write(*g, &bytes, &len);
  if (td_ok(s)) s = td_graph_new(&read);
  if (td_ok(s)) s = td_graphdef_read(read, bytes, len, NULL);
  td_free(bytes);
  if (!td_ok(s)) {
    td_graph_release(read);
    return s;
  }
  keep_serials(*g, read);
  td_graph_release(*g);
  *g = read;
  return NULL;
}

/* Frames are numbered anew in each part; deadness is carried by notes of the
 * _Recvs. A part without control flow has neither. */
static td_status *settle_frames(td_graph *g) {
  bool flow = false;
  for (int32_t id = 0; id < td_graph_size(g) && !flow; id++) {
    const td_node *n = td_graph_node(g, id);
    flow = n->op->kind == TD_KIND_SWITCH || n->op->kind == TD_KIND_ENTER ||
           td_node_bool(n, "_may_die");
  }
  if (!flow) return NULL;
  td_frames frames;
  TD_TRY(td_frames_check(g, &frames));
  td_frames_free(&frames);
  return NULL;
}

static td_status *finish_part(td_pass *p, td_part *part) {
  /* Attributes name them. */
  TD_TRY(td_function_copy(p->graph, part->graph));
  if (p->request->roundtrip) TD_TRY(through_bytes(&part->graph));
  TD_TRY(settle_frames(part->graph));
  for (int32_t id = 0; id < td_graph_size(part->graph); id++)
    td_graph_node(part->graph, id)->order = id;
  return NULL;
}

/* ---- the pass ------------------------------------------------------------ */

static td_status *cut_up(cut *c) {
  td_pass *p = c->p;
  td_shape empty = td_shape_vector(0);
  TD_TRY(td_tensor_new(NULL, TD_FLOAT32, &empty, &c->signal));
  TD_TRY(add_parts(c));
  if (!p->order) TD_TRY(td_graph_order(p->graph, &p->order));
  TD_TRY(copy_nodes(c, p->order));
  close_loops(c);
  for (int i = 0; i < p->plan->n_parts; i++)
    TD_TRY(finish_part(p, &p->plan->parts[i]));
  return NULL;
}

td_status *td_partition(td_pass *p) {
  cut c = {.p = p, .devices = p->request->devices};
  td_map_init(&c.links);
  td_status *s = cut_up(&c);
  td_map_deinit(&c.links);
  td_tensor_release(&c.signal);
  td_vec_free(&c.in);
  td_vec_free(&c.control);
  td_free(c.part_of);
  td_free(c.copy);
  return s;
}
