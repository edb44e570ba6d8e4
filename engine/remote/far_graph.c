/* far_graph.c - walks from a signature to all that it is made of, and copies
 * it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/remote/far_graph.h"

#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/vec.h"
#include "engine/graph/build.h"
#include "engine/graph/graph_edit.h"
#include "engine/graph/node_edit.h"
#include "engine/graph/region.h"
#include "engine/graphdef/function.h"

/* What is known of a node: is it part of the result, must it run, does it wait
 * for its inputs to have a place, has it one? */
enum { TAKEN = 1, NEEDED = 2, OPEN = 4, PLACED = 8 };

typedef struct taking {
  td_graph *from, *to;
  const td_signature *sig;
  const char *elsewhere;
  uint8_t *mark;  /* by node */
  td_node **copy; /* by node; of one that is fed there, its first Placeholder */
  TD_VEC(td_node *) found;
  TD_VEC(td_node *) order; /* inputs first */
  TD_VEC(td_node *) open;
  TD_VEC(td_edge) in; /* of the node at hand */
  TD_VEC(td_node *) control;
} taking;

/* Is it of no use elsewhere? Nor is what nobody knows. */
static bool stays(const td_node *n) {
  return (n->op->flags & (TD_FED | TD_HERE)) != 0 ||
         n->op->kind == TD_OP_FOREIGN;
}

/* ---- the walk ------------------------------------------------------------ */

static td_status *find(taking *t, td_node *n, uint8_t how) {
  if (n->gone) return td_region_gone_error(n);
  if (t->mark[n->id] & how) return NULL;
  t->mark[n->id] |= how;
  return td_vec_push(&t->found, n) ? NULL : td_oom();
}

static bool is_fed(const taking *t, td_edge e) {
  for (int i = 0; i < t->sig->n_feeds; i++)
    if (t->sig->feeds[i].node == e.node && t->sig->feeds[i].port == e.port)
      return true;
  return false;
}

static td_status *check_runs(const taking *t, const td_node *n) {
  const char *type = n->op->type;
  if (!stays(n)) return NULL;
  if (n->op->kind == TD_OP_FOREIGN)
    return td_node_blame(td_op_unknown(n->name, &type, 1), n);
  return td_node_blame(
      td_error(TD_UNIMPLEMENTED,
               "\"%s\" (%s) runs in this process only, and the session's "
               "master is %s; feed it, or make a session without a target and "
               "attach that task to it (sess:attach): then such nodes run here "
               "and the others there",
               n->name, n->op->type, t->elsewhere),
      n);
}

/* Nodes that it shares a device with, by name. */
static td_status *find_colocated(taking *t, const td_node *n) {
  static const char prefix[] = "loc:@";
  const td_attr *a = td_node_attr(n, "_class");
  if (!a || a->kind != TD_ATTR_STRING || !a->is_list) return NULL;
  for (int32_t i = 0; i < a->len; i++) {
    size_t len = sizeof prefix - 1;
    if (a->ss[i].len <= len || memcmp(a->ss[i].at, prefix, len) != 0) continue;
    td_node *other = td_graph_find(t->from, a->ss[i].at + len);
    if (other) TD_TRY(find(t, other, TAKEN));
  }
  return NULL;
}

/* What must run stops at feeds; what is taken does not, so that a node is the
 * same whatever is fed. */
static td_status *find_inputs(taking *t, const td_node *n, uint8_t how) {
  if (how == TAKEN && stays(n)) return NULL;
  for (int i = 0; i < n->n_in; i++) {
    td_edge e = n->in[i];
    if (!e.node || (how == NEEDED && is_fed(t, e))) continue;
    TD_TRY(find(t, e.node, how));
  }
  for (int i = 0; i < n->n_control; i++) TD_TRY(find(t, n->control[i], how));
  return how == TAKEN ? find_colocated(t, n) : NULL;
}

static td_status *find_roots(taking *t, uint8_t how) {
  const td_signature *s = t->sig;
  for (int i = 0; i < s->n_fetches; i++)
    if (how == TAKEN || !is_fed(t, s->fetches[i]))
      TD_TRY(find(t, s->fetches[i].node, how));
  for (int i = 0; i < s->n_targets; i++) TD_TRY(find(t, s->targets[i], how));
  for (int i = 0; how == TAKEN && i < s->n_feeds; i++)
    TD_TRY(find(t, s->feeds[i].node, how));
  return NULL;
}

static td_status *walk(taking *t, uint8_t how) {
  t->found.len = 0;
  TD_TRY(find_roots(t, how));
  for (size_t k = 0; k < t->found.len; k++) {
    if (how == NEEDED) TD_TRY(check_runs(t, t->found.at[k]));
    TD_TRY(find_inputs(t, t->found.at[k], how));
  }
  return NULL;
}

/* ---- the order ----------------------------------------------------------- */

static bool has_place(const taking *t, const td_node *n) {
  return !n || t->mark[n->id] & (OPEN | PLACED);
}

/* An input of `n` that has no place yet, or NULL. A Merge does not wait for its
 * back edge. */
static td_node *first_missing(const taking *t, const td_node *n) {
  if (stays(n)) return NULL;
  for (int i = 0; i < n->n_in; i++) {
    td_node *from = n->in[i].node;
    bool back =
        n->op->kind == TD_OP_MERGE && from && from->op->kind == TD_OP_NEXT;
    if (!back && !has_place(t, from)) return from;
  }
  for (int i = 0; i < n->n_control; i++)
    if (!has_place(t, n->control[i])) return n->control[i];
  return NULL;
}

/* Puts a node behind its inputs: a control edge may have come later than the
 * node, and whoever reads the graph puts it so as well. */
static td_status *place(taking *t, td_node *root) {
  if (has_place(t, root)) return NULL;
  if (!td_vec_push(&t->open, root)) return td_oom();
  t->mark[root->id] |= OPEN;
  while (t->open.len > 0) {
    td_node *n = t->open.at[t->open.len - 1], *input = first_missing(t, n);
    if (input) {
      t->mark[input->id] |= OPEN;
      if (!td_vec_push(&t->open, input)) return td_oom();
      continue;
    }
    t->open.len--;
    t->mark[n->id] |= PLACED;
    if (!td_vec_push(&t->order, n)) return td_oom();
  }
  return NULL;
}

/* ---- copies -------------------------------------------------------------- */

static td_edge copied(const taking *t, td_edge e) {
  td_node *copy = e.node ? t->copy[e.node->id] : NULL;
  if (copy && stays(e.node)) /* a Placeholder for each output, one by one */
    return (td_edge){td_graph_node(t->to, copy->id + e.port), 0};
  return (td_edge){copy, e.port};
}

/* Placeholders, for each output one, named as GraphDefs name them. */
static td_status *stand_in(taking *t, const td_node *n) {
  td_node *first = NULL;
  td_status *s = NULL;
  for (int32_t i = 0; td_ok(s) && i < (n->n_out ? n->n_out : 1); i++) {
    td_build b;
    td_node *one;
    td_str name = {0};
    bool any = i < n->n_out;
    td_str_add(&name, n->name);
    if (i) td_str_addf(&name, "/%d", (int)i);
    td_build_init(&b, t->to, any ? "Placeholder" : "NoOp", td_str_c(&name));
    b.exact_name = true;
    b.origin = n->origin;
    if (any) td_build_attr(&b, "dtype", td_attr_type(n->out[i].dtype));
    if (any) td_build_attr(&b, "shape", td_attr_shape(&n->out[i].shape));
    s = td_build_node(&b, &one);
    td_str_deinit(&name);
    if (td_ok(s) && !first) first = one;
  }
  if (td_ok(s)) first->serial = n->serial;
  t->copy[n->id] = first;
  return s;
}

static td_status *copy_node(taking *t, const td_node *n) {
  if (stays(n)) return stand_in(t, n);
  t->in.len = t->control.len = 0;
  for (int i = 0; i < n->n_in; i++)
    if (!td_vec_push(&t->in, copied(t, n->in[i]))) return td_oom();
  for (int i = 0; i < n->n_control; i++) {
    td_node *before = t->copy[n->control[i]->id];
    if (before && !td_vec_push(&t->control, before)) return td_oom();
  }
  return td_graph_clone_node(t->to, n, n->name, t->in.at, t->control.at,
                             (int)t->control.len, &t->copy[n->id]);
}

/* Back edges. */
static void late_inputs(taking *t, const td_node *n) {
  td_node *copy = t->copy[n->id];
  for (int i = 0; i < n->n_in && !stays(n); i++)
    if (n->in[i].node && !copy->in[i].node)
      td_node_set_in(copy, i, copied(t, n->in[i]));
}

/* As nearly in the order of the user's graph as may be, so that signatures have
 * the same pieces (pieces.h). */
static td_status *copy_nodes(taking *t) {
  for (int32_t id = 0; id < td_graph_size(t->from); id++)
    if (t->mark[id] & TAKEN) TD_TRY(place(t, td_graph_node(t->from, id)));
  for (size_t k = 0; k < t->order.len; k++)
    TD_TRY(copy_node(t, t->order.at[k]));
  for (size_t k = 0; k < t->order.len; k++) late_inputs(t, t->order.at[k]);
  return td_function_copy_used(t->from, t->to);
}

/* ---- ends ---------------------------------------------------------------- */

static td_status *add_end(taking *t, const char *op, int index, td_edge e) {
  td_build b;
  td_node *n;
  td_str name = {0};
  bool takes = strcmp(op, "_Retval") == 0;
  td_str_addf(&name, "_far%s_%d", takes ? "_retval" : "_arg", index);
  td_build_init(&b, t->to, op, td_str_c(&name));
  b.exact_name = true;
  if (takes) td_build_in(&b, copied(t, e));
  td_build_attr(&b, "T", td_attr_type(td_edge_dtype(e)));
  td_build_attr(&b, "index", td_attr_int(index));
  td_status *s = td_build_node(&b, &n);
  td_str_deinit(&name);
  return s;
}

static td_status *add_targets(taking *t) {
  td_build b;
  td_node *n;
  int64_t seed;
  td_build_init(&b, t->to, "NoOp", TD_FAR_TARGETS);
  b.exact_name = true;
  for (int i = 0; i < t->sig->n_targets; i++)
    td_build_control(&b, t->copy[t->sig->targets[i]->id]);
  if (td_graph_seed(t->from, &seed))
    td_build_attr(&b, "_seed", td_attr_int(seed));
  return td_build_node(&b, &n);
}

static td_status *add_ends(taking *t) {
  const td_signature *s = t->sig;
  for (int i = 0; i < s->n_feeds; i++) {
    TD_TRY(add_end(t, "_Arg", i, s->feeds[i]));
    TD_TRY(add_end(t, "_Retval", s->n_fetches + i, s->feeds[i]));
  }
  for (int i = 0; i < s->n_fetches; i++)
    TD_TRY(add_end(t, "_Retval", i, s->fetches[i]));
  return add_targets(t);
}

static td_status *take(taking *t) {
  size_t n = (size_t)td_graph_size(t->from);
  t->mark = td_calloc(n + 1, sizeof *t->mark);
  t->copy = td_calloc(n + 1, sizeof(td_node *));
  if (!t->mark || !t->copy) return td_oom();
  TD_TRY(walk(t, NEEDED));
  TD_TRY(walk(t, TAKEN));
  TD_TRY(td_graph_new(&t->to));
  td_graph_scratch(t->to);
  TD_TRY(copy_nodes(t));
  return add_ends(t);
}

td_status *td_far_graph(td_graph *g, const td_signature *sig,
                        const char *elsewhere, td_graph **out) {
  taking t = {.from = g, .sig = sig, .elsewhere = elsewhere};
  td_graph_lock(g);
  td_status *s = take(&t);
  td_graph_unlock(g);
  td_free(t.mark);
  td_free(t.copy);
  td_vec_free(&t.found);
  td_vec_free(&t.order);
  td_vec_free(&t.open);
  td_vec_free(&t.in);
  td_vec_free(&t.control);
  if (td_ok(s))
    *out = t.to;
  else
    td_graph_release(t.to);
  return s;
}
