/* cse.c - computes once what is asked for twice.
 *
 * Common subexpression elimination. Nodes are taken inputs first; one that
 * equals an earlier one in op, attributes, inputs, control inputs, device and
 * frame is replaced by it. Its consumers then have an input in common with
 * those of the other, and may be equal in turn. Never a node with a state: two
 * reads of a variable may see different values, two random ops must. The
 * operands of a commutative op may change places only where they are integers:
 * of floats, NaN and -0 can tell the order.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/map.h"
#include "engine/base/plant.h"
#include "engine/graph/graph_check.h"
#include "engine/graph/node_edit.h"
#include "engine/plan/pass_impl.h"

typedef struct cse {
  td_pass *p;
  td_graph *g;
  bool *root;      /* by node id */
  td_node **same;  /* by node id: the equal one before it, or NULL */
  uint64_t *hash;  /* by node id */
  int32_t *slots;  /* a table of node ids + 1, 0 is empty */
  uint32_t nslots; /* power of two */
} cse;

/* ---- what may be merged -------------------------------------------------- */

static bool mergeable(const td_node *n) {
  td_op_kind kind = n->op->kind;
  if (kind != TD_OP_PLAIN && kind != TD_OP_CONST && kind != TD_OP_IDENTITY)
    return false;
  for (int i = 0; i < n->n_out; i++)
    if (n->out[i].dtype == TD_RESOURCE || n->out[i].dtype == TD_VARIANT)
      return false;
  if (n->op->flags & (TD_STATEFUL | TD_UPDATES | TD_READS)) return TD_PLANT(9);
  return n->n_out > 0 || TD_PLANT(9);
}

static bool swaps(const td_node *n) {
  return (n->op->flags & TD_COMMUTATIVE) && n->n_in == 2 &&
         td_dtype_is_integer(td_edge_dtype(n->in[0])) &&
         td_dtype_is_integer(td_edge_dtype(n->in[1]));
}

/* ---- equality ------------------------------------------------------------ */

static uint64_t hash_edge(td_edge e) {
  int32_t at[2] = {e.node->id, e.port};
  return td_hash(at, sizeof at, 0);
}

static uint64_t hash_node(const td_node *n) {
  int32_t where[2] = {n->placed, n->frame};
  uint64_t h = td_hash(&n->op, sizeof(void *), 0), controls = 0;
  h = td_hash(where, sizeof where, h);
  for (int i = 0; i < n->op->n_attr; i++) h = td_attr_hash(&n->attr[i], h);
  if (swaps(n)) {
    h += hash_edge(n->in[0]) + hash_edge(n->in[1]);
  } else {
    for (int i = 0; i < n->n_in; i++) {
      uint64_t e = hash_edge(n->in[i]);
      h = td_hash(&e, sizeof e, h);
    }
  }
  for (int i = 0; i < n->n_control; i++) /* a set: in any order */
    controls += hash_edge((td_edge){n->control[i], -1});
  return td_hash(&controls, sizeof controls, h);
}

static bool same_edge(td_edge a, td_edge b) {
  return a.node == b.node && a.port == b.port;
}

static bool same_inputs(const td_node *a, const td_node *b) {
  if (a->n_in != b->n_in) return false;
  if (swaps(a) && same_edge(a->in[0], b->in[1]) &&
      same_edge(a->in[1], b->in[0]))
    return true;
  for (int i = 0; i < a->n_in; i++)
    if (!same_edge(a->in[i], b->in[i])) return false;
  return true;
}

/* Neither lists a node twice. */
static bool same_controls(const td_node *a, const td_node *b) {
  if (a->n_control != b->n_control) return false;
  for (int i = 0; i < a->n_control; i++) {
    bool found = false;
    for (int k = 0; k < b->n_control && !found; k++)
      found = a->control[i] == b->control[k];
    if (!found) return false;
  }
  return true;
}

static bool same_shapes(const td_node *a, const td_node *b) {
  if (a->n_out != b->n_out) return false;
  for (int i = 0; i < a->n_out; i++)
    if (a->out[i].dtype != b->out[i].dtype) return false;
  return true;
}

static bool same(const td_node *a, const td_node *b) {
  if (a->op != b->op || a->placed != b->placed || a->frame != b->frame ||
      a->may_die != b->may_die || a->n_note != b->n_note)
    return false;
  if (!same_inputs(a, b) || !same_controls(a, b) || !same_shapes(a, b))
    return false;
  for (int i = 0; i < a->op->n_attr; i++)
    if (!td_attr_equal(&a->attr[i], &b->attr[i])) return false;
  for (int i = 0; i < a->n_note; i++)
    if (!td_attr_equal(&a->note[i].value, &b->note[i].value)) return false;
  return true;
}

/* ---- the pass ------------------------------------------------------------ */

/* An input whose node was merged becomes that of the one that stays. */
static void rewire(cse *c, td_node *n) {
  for (int i = 0; i < n->n_in; i++) {
    td_node *from = n->in[i].node ? c->same[n->in[i].node->id] : NULL;
    if (from) td_node_set_in(n, i, (td_edge){from, n->in[i].port});
  }
  for (int i = n->n_control; i-- > 0;) {
    td_node *from = c->same[n->control[i]->id];
    bool there = false;
    if (!from) continue;
    for (int k = 0; k < n->n_control; k++) there |= n->control[k] == from;
    if (there)
      td_node_drop_control(n, i);
    else
      n->control[i] = from;
  }
}

/* The node equal to `n` met before, or NULL: then `n` is remembered. */
static td_node *find(cse *c, const td_node *n) {
  uint64_t h = c->hash[n->id] = hash_node(n);
  uint32_t at = (uint32_t)h & (c->nslots - 1);
  for (; c->slots[at]; at = (at + 1) & (c->nslots - 1)) {
    td_node *other = td_graph_node(c->g, c->slots[at] - 1);
    if (c->hash[other->id] == h && same(other, n)) return other;
  }
  c->slots[at] = n->id + 1;
  return NULL;
}

static void visit(cse *c, td_node *n) {
  rewire(c, n);
  if (!mergeable(n) || c->root[n->id]) return;
  td_node *other = find(c, n);
  if (!other) return;
  c->same[n->id] = other;
  c->p->plan->merged++;
  td_pass_log(c->p, "%s (%s) equals %s", n->name, n->op->type, other->name);
}

static td_status *merge(cse *c, int32_t n) {
  int32_t *order = NULL;
  for (c->nslots = 16; c->nslots < 2 * (size_t)n;) c->nslots *= 2;
  c->same = td_calloc((size_t)n + 1, sizeof(td_node *));
  c->hash = td_calloc((size_t)n + 1, sizeof *c->hash);
  c->slots = td_calloc(c->nslots, sizeof *c->slots);
  if (!c->same || !c->hash || !c->slots) return td_oom();
  TD_TRY(td_pass_roots(c->p, &c->root));
  TD_TRY(td_graph_order(c->g, &order));
  for (int32_t k = 0; k < n; k++) visit(c, td_graph_node(c->g, order[k]));
  td_free(order);
  for (int32_t id = 0; id < n; id++) /* back edges */
    rewire(c, td_graph_node(c->g, id));
  return NULL;
}

td_status *td_cse(td_pass *p) {
  cse c = {.p = p, .g = p->graph};
  td_status *s = merge(&c, td_graph_size(p->graph));
  td_free(c.root);
  td_free(c.same);
  td_free(c.hash);
  td_free(c.slots);
  return td_ok(s) ? td_pass_sweep(p) : s;
}
