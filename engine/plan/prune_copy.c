/* prune_copy.c - the working copy of what was asked for.
 *
 * The nodes in the order of the user's graph, with an _Arg for each fed edge in
 * use and a _Retval for each fetch; in a partial run, a _Recv from the client
 * and a _Send to it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "engine/graph/build.h"
#include "engine/graph/graph_edit.h"
#include "engine/graph/node_edit.h"
#include "engine/plan/link_impl.h"
#include "engine/plan/prune_impl.h"

/* Values of `where`. */
enum { NOWHERE = -1, SEVERAL = -2 };

typedef struct copying {
  td_pruning *t;
  td_pass *p;
  const td_plan_request *r;
  td_node **arg;      /* by feed: its _Arg or _Recv */
  int32_t *where;     /* by feed: the device of those who use it */
  TD_VEC(td_edge) in; /* inputs of the node at hand */
  TD_VEC(td_node *) control;
} copying;

static td_node *copy_of(const copying *c, const td_node *n) {
  return td_prune_mark_of(c->t, n)->copy;
}

/* ---- where values enter -------------------------------------------------- */

static td_link_ends client_link(const copying *c, td_edge value,
                                int32_t placed) {
  const td_device *d = c->r->devices[placed];
  return (td_link_ends){.from = d, .to = d, .client = true, .value = value};
}

/* An _Arg or, with `input`, a _Retval for edge `e` of the user's graph. Ends
 * `name`. */
static td_status *add_end(copying *c, const char *op, td_str *name, td_edge e,
                          const td_edge *input, int index, td_node **out) {
  td_build b;
  td_build_init(&b, c->p->graph, op, td_str_c(name));
  b.exact_name = true;
  b.origin = e.node->origin;
  if (input) td_build_in(&b, *input);
  td_build_attr(&b, "T", td_attr_type(td_edge_dtype(e)));
  td_build_attr(&b, "index", td_attr_int(index));
  td_status *s = NULL;
  if (name->failed) {
    td_build_drop(&b);
    s = td_oom();
  } else {
    s = td_build_node(&b, out);
  }
  td_str_deinit(name);
  return s;
}

static td_status *add_arg(copying *c, int i) {
  td_edge e = c->r->feeds[i];
  td_str name = {0};
  if (c->r->partial) {
    td_link_ends l = client_link(c, e, c->p->client);
    l.edge = i;
    return td_link_recv(c->p, c->p->graph, &l, NULL, &c->arg[i]);
  }
  td_str_addf(&name, "_arg_%s_%d", e.node->name, e.port);
  return add_end(c, "_Arg", &name, e, NULL, i, &c->arg[i]);
}

static td_status *add_args(copying *c) {
  for (int i = 0; i < c->r->n_feeds; i++) {
    if (c->r->partial) {
      int32_t edge;
      TD_TRY(td_link_number(c->p, c->r->feeds[i].node->name, &edge));
    }
    if (!c->t->used[i]) continue;
    TD_TRY(add_arg(c, i));
    c->arg[i]->out[0].shape = *td_edge_shape(c->r->feeds[i]);
    c->arg[i]->placed = c->p->client;
  }
  return NULL;
}

/* ---- nodes --------------------------------------------------------------- */

static void note_user(copying *c, int32_t feed, int32_t placed) {
  if (c->where[feed] == NOWHERE) c->where[feed] = placed;
  if (c->where[feed] != placed) c->where[feed] = SEVERAL;
}

/* The edge of the copy for `e`, an edge of the user's graph. Its node is NULL
 * while that is still to come, as that of a back edge is. */
static td_edge copied(copying *c, td_edge e, int32_t placed) {
  int32_t f = e.node ? td_prune_feed_of(c->t, e) : -1;
  if (f < 0) return (td_edge){e.node ? copy_of(c, e.node) : NULL, e.port};
  note_user(c, f, placed);
  return (td_edge){c->arg[f], 0};
}

static td_node *copied_control(copying *c, const td_node *before) {
  if (td_prune_fed_control(c->t, before))
    return c->arg[td_prune_mark_of(c->t, before)->fed - 1];
  return copy_of(c, before);
}

static td_status *copy_node(copying *c, const td_node *n) {
  td_node **copy = &td_prune_mark_of(c->t, n)->copy;
  int32_t placed = td_prune_where(c->t, n);
  c->in.len = c->control.len = 0;
  for (int i = 0; i < n->n_in; i++)
    if (!td_vec_push(&c->in, copied(c, n->in[i], placed))) return td_oom();
  for (int i = 0; i < n->n_control; i++) {
    td_node *before = copied_control(c, n->control[i]);
    if (before && !td_vec_push(&c->control, before)) return td_oom();
  }
  TD_TRY(td_graph_clone_node(c->p->graph, n, n->name, c->in.at, c->control.at,
                             (int)c->control.len, copy));
  (*copy)->placed = placed;
  return NULL;
}

/* Gives the copy of `n` the inputs that come after it in the user's graph: back
 * edges, and control inputs added later. */
static td_status *late_inputs(copying *c, const td_node *n) {
  td_node *copy = copy_of(c, n);
  for (int i = 0; i < n->n_in; i++)
    if (n->in[i].node && !copy->in[i].node)
      td_node_set_in(copy, i, copied(c, n->in[i], copy->placed));
  for (int i = 0; i < n->n_control && copy->n_control < n->n_control; i++)
    if (n->control[i]->id > n->id)
      TD_TRY(td_node_add_control(copy, copied_control(c, n->control[i])));
  return NULL;
}

static td_status *copy_nodes(copying *c) {
  const td_graph *g = c->r->graph;
  for (size_t k = 0; k < c->t->needed.len; k++)
    TD_TRY(copy_node(c, td_graph_node(g, c->t->needed.at[k])));
  for (size_t k = 0; k < c->t->needed.len; k++)
    TD_TRY(late_inputs(c, td_graph_node(g, c->t->needed.at[k])));
  return NULL;
}

/* Puts the note "_rows" on the handle of each variable that has rows gathered
 * or scattered somewhere in the user's graph, whether or not in this step.
 * Whoever reads such a variable whole copies it: sharing the buffer would keep
 * a scatter from writing in place. */
static td_status *note_rows(const copying *c) {
  size_t count;
  const int32_t *sparse = td_placer_sparse(c->r->placer, &count);
  for (size_t k = 0; k < count; k++) {
    const td_node *n = td_graph_node(c->r->graph, sparse[k]);
    for (int i = 0; i < n->n_in; i++) {
      td_node *from = n->in[i].node, *copy = from ? copy_of(c, from) : NULL;
      if (copy && td_edge_dtype(n->in[i]) == TD_RESOURCE)
        TD_TRY(td_node_set_note(copy, "_rows", td_attr_bool(true)));
    }
  }
  return NULL;
}

/* ---- where values leave -------------------------------------------------- */

/* The device of the _Arg or _Retval of `e`, given that of its users or its
 * source. Both ops have their value in host memory on any device, so that they
 * need no link to the client. But the client of a partial run knows one device
 * only, and a handle never leaves the device of its resource. */
static int32_t end_place(const copying *c, td_edge e, int32_t device) {
  int32_t own = td_prune_where(c->t, e.node);
  if (td_edge_dtype(e) == TD_RESOURCE && own >= 0) return own;
  return device >= 0 && !c->r->partial ? device : c->p->client;
}

static td_status *add_retval(copying *c, int i, td_edge from, td_node **out) {
  td_edge e = c->r->fetches[i];
  td_str name = {0};
  if (c->r->partial) {
    td_link_ends l = client_link(c, from, c->p->client);
    l.may_die = td_edge_may_die(from);
    TD_TRY(td_link_number(c->p, e.node->name, &l.edge));
    return td_link_send(c->p, c->p->graph, &l, from, out);
  }
  td_str_addf(&name, "_retval_%s_%d_%d", e.node->name, e.port, i);
  return add_end(c, "_Retval", &name, e, &from, i, out);
}

static td_status *add_retvals(copying *c) {
  for (int i = 0; i < c->r->n_fetches; i++) {
    td_edge e = c->r->fetches[i];
    int32_t f = td_prune_feed_of(c->t, e);
    td_edge from =
        f < 0 ? (td_edge){copy_of(c, e.node), e.port} : (td_edge){c->arg[f], 0};
    td_node *n;
    TD_TRY(add_retval(c, i, from, &n));
    n->placed = end_place(c, e, f < 0 ? from.node->placed : NOWHERE);
    n->may_die = td_edge_may_die(from);
    if (f >= 0) note_user(c, f, n->placed);
  }
  return NULL;
}

static td_status *finish(copying *c) {
  for (int i = 0; i < c->r->n_feeds; i++)
    if (c->arg[i])
      c->arg[i]->placed = end_place(c, c->r->feeds[i], c->where[i]);
  c->p->targets = td_calloc((size_t)c->r->n_targets + 1, sizeof *c->p->targets);
  if (!c->p->targets) return td_oom();
  for (int i = 0; i < c->r->n_targets; i++) {
    td_node *copy = copy_of(c, c->r->targets[i]);
    if (copy) c->p->targets[c->p->n_targets++] = copy;
  }
  td_pass_log(c->p, "kept %zu of %d nodes", c->t->needed.len, c->t->n);
  return NULL;
}

static td_status *copy(copying *c) {
  size_t feeds = (size_t)c->r->n_feeds;
  c->arg = td_calloc(feeds + 1, sizeof(td_node *));
  c->where = td_calloc(feeds + 1, sizeof *c->where);
  if (!c->arg || !c->where) return td_oom();
  for (size_t i = 0; i < feeds; i++) c->where[i] = NOWHERE;
  TD_TRY(add_args(c));
  TD_TRY(copy_nodes(c));
  TD_TRY(note_rows(c));
  TD_TRY(add_retvals(c));
  return finish(c);
}

td_status *td_prune_copy(td_pruning *t) {
  copying c = {.t = t, .p = t->p, .r = t->r};
  td_status *s = copy(&c);
  td_free(c.arg);
  td_free(c.where);
  td_vec_free(&c.in);
  td_vec_free(&c.control);
  return s;
}
