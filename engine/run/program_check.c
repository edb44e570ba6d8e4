/* program_check.c - is a part fit to be run?
 *
 * A part may have come as bytes from anywhere. That each node is one of its op,
 * with inputs of the dtypes it wants and attributes within their bounds, was
 * checked when it was read, and its loops too. What is left is what the arrays
 * of a program and of a step rely on: the order of nodes, frames, and the
 * numbers by which ends of the part reach for feeds, fetches and edges.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/base/vec.h"
#include "engine/run/program_impl.h"

static td_status *refuse(const td_node *n, const char *what) {
  return td_node_blame(td_error(TD_INVALID_ARGUMENT,
                                "\"%s\", a %s of this part, %s", n->name,
                                n->op->type, what),
                       n);
}

/* ---- the order ----------------------------------------------------------- */

static bool comes_before(const td_node *in, const td_node *n) {
  return in && in->op->kind != TD_OP_NEXT && in->id < n->id;
}

static bool is_back_edge(const td_node *in, const td_node *n) {
  return in && n->op->kind == TD_OP_MERGE && in->op->kind == TD_OP_NEXT;
}

/* ---- ends ---------------------------------------------------------------- */

static int64_t index_of(const td_node *n) {
  return td_node_int(n, td_op_is_end(n->op->kind) && n->op->kind >= TD_OP_ARG
                            ? "index"
                            : "_edge");
}

/* Of two ends the one that reaches further. */
static const td_node *further(const td_node *a, const td_node *b) {
  return a && index_of(a) >= index_of(b) ? a : b;
}

static int by_number(const void *a, const void *b) {
  const td_node *const *x = a, *const *y = b;
  int kinds = (int)(*x)->op->kind - (int)(*y)->op->kind;
  int64_t i = index_of(*x), j = index_of(*y);
  return kinds ? kinds : (i > j) - (i < j);
}

/* A fetch is set once, an edge has one end of each kind here. Feeds may be
 * taken more than once. `ends` are sorted. */
static td_status *check_doubles(const td_node **ends, size_t n) {
  for (size_t k = 1; k < n; k++)
    if (ends[k]->op->kind != TD_OP_ARG &&
        by_number(&ends[k - 1], &ends[k]) == 0)
      return refuse(ends[k],
                    "has the number of another: the index of a _Retval "
                    "and the _edge of a _Send or _Recv are its own");
  return NULL;
}

static td_status *check_ends(const td_graph *g) {
  TD_VEC(const td_node *) ends = {0};
  td_status *s = NULL;
  for (int32_t i = 0; i < td_graph_size(g) && td_ok(s); i++) {
    const td_node *n = td_graph_node(g, i);
    if (td_op_is_end(n->op->kind) && !td_vec_push(&ends, n)) s = td_oom();
  }
  if (td_ok(s) && ends.len > 1) {
    qsort(ends.at, ends.len, sizeof *ends.at, by_number);
    s = check_doubles(ends.at, ends.len);
  }
  td_vec_free(&ends);
  return s;
}

/* ---- for program.c ------------------------------------------------------- */

td_status *td_program_check_part(const td_graph *g) {
  for (int32_t i = 0; i < td_graph_size(g); i++) {
    const td_node *n = td_graph_node(g, i);
    bool ordered = true;
    for (int k = 0; k < n->n_in; k++)
      ordered = ordered && (comes_before(n->in[k].node, n) ||
                            is_back_edge(n->in[k].node, n));
    for (int k = 0; k < n->n_control; k++)
      ordered = ordered && comes_before(n->control[k], n);
    if (!ordered)
      return refuse(n,
                    "comes before one of its inputs, or takes a NextIteration "
                    "and is no Merge: parts are in topological order");
  }
  return check_ends(g);
}

td_status *td_program_check_node(td_program *p, const td_xnode *n,
                                 const td_node *from) {
  bool leaves = n->kind == TD_OP_EXIT || n->kind == TD_OP_NEXT;
  if (n->frame == 0 && leaves)
    return refuse(from, "is in no loop: no Enter leads to it");
  if (n->kind == TD_OP_MERGE && from->n_in > 0xfffff)
    return refuse(from, "has more than 1048575 inputs");
  if (n->frame != 0 && n->kind == TD_OP_RETVAL)
    return refuse(from,
                  "is inside of a loop: what is fetched leaves it by Exit");
  if (n->kind == TD_OP_ARG) p->arg = further(p->arg, from);
  if (n->kind == TD_OP_RETVAL) p->ret = further(p->ret, from);
  if (n->kind == TD_OP_SEND || n->kind == TD_OP_RECV)
    p->edge = further(p->edge, from);
  return NULL;
}

td_status *td_program_check_loops(const td_program *p) {
  for (int32_t i = 0; i < p->n_nodes; i++) {
    const td_node *m = td_graph_node(p->graph, i);
    for (int k = 0; k < m->n_in; k++)
      if (is_back_edge(m->in[k].node, m) &&
          p->node[m->in[k].node->id].frame != p->node[i].frame)
        return refuse(m, "takes a NextIteration of another frame");
  }
  return NULL;
}

/* ---- the numbers --------------------------------------------------------- */

static td_status *beyond(const td_node *n, const char *what, int64_t count) {
  if (!n || (index_of(n) >= 0 && index_of(n) < count)) return NULL;
  return td_node_blame(
      td_error(TD_INVALID_ARGUMENT,
               "\"%s\", a %s of this part, is number %lld of %s: the signature "
               "it was registered for has %lld",
               n->name, n->op->type, (long long)index_of(n), what,
               (long long)count),
      n);
}

td_status *td_program_fits(const td_program *p, int n_args, int n_rets,
                           int32_t n_edges) {
  TD_TRY(beyond(p->arg, "the feeds", n_args));
  TD_TRY(beyond(p->ret, "the fetches", n_rets));
  return beyond(p->edge, "the edges", n_edges);
}
