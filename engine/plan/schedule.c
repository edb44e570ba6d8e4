/* schedule.c - which of two ready nodes goes first.
 *
 * The one with the longer critical path: the longest path from it to a sink,
 * across all devices, in weights of the nodes on it. Weights are guessed from
 * the sizes of outputs; a transfer to another device has one as well. As every
 * weight is positive, sorting by the length of the path puts inputs first, too:
 * the parts get their nodes in this order.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "engine/graph/graph_check.h"
#include "engine/plan/pass_impl.h"

/* In units of one kilobyte of output. A dimension not known counts as a small
 * batch, a transfer between devices as 64 KB. */
enum { UNIT = 1024, UNKNOWN = 32, TRANSFER = 64, MAX_WEIGHT = 1 << 30 };

typedef struct rank {
  int64_t path; /* the length of its critical path */
  int32_t id;
} rank;

static int64_t weight(const td_node *n) {
  double bytes = 0;
  for (int i = 0; i < n->n_out; i++) {
    const td_shape *s = &n->out[i].shape;
    double size = (double)td_dtype_size(n->out[i].dtype);
    for (int k = 0; k < s->rank; k++)
      size *= (double)(s->dim[k] < 0 ? UNKNOWN : s->dim[k]);
    bytes += size;
  }
  double units = 1 + bytes / UNIT;
  return units < MAX_WEIGHT ? (int64_t)units : MAX_WEIGHT;
}

static void pass_on(rank *ranks, const td_node *from, const td_node *to) {
  int64_t path = ranks[to->id].path;
  if (from->placed != to->placed) path += TRANSFER;
  if (ranks[from->id].path < path) ranks[from->id].path = path;
}

/* Goes against the order of nodes. Until a node's turn `path` holds the longest
 * path behind it, without the node itself. */
static void measure(const td_graph *g, const int32_t *order, rank *ranks) {
  for (int32_t k = td_graph_size(g); k-- > 0;) {
    const td_node *n = td_graph_node(g, order[k]);
    ranks[n->id].path += weight(n);
    for (int i = 0; i < n->n_in; i++)
      if (n->in[i].node->op->kind != TD_OP_NEXT)
        pass_on(ranks, n->in[i].node, n);
    for (int i = 0; i < n->n_control; i++) pass_on(ranks, n->control[i], n);
  }
}

static int compare(const void *a, const void *b) {
  const rank *x = a, *y = b;
  if (x->path != y->path) return x->path > y->path ? -1 : 1;
  return x->id < y->id ? -1 : x->id > y->id;
}

static void log_order(td_pass *p, const rank *ranks) {
  for (int32_t k = 0; p->log && k < td_graph_size(p->graph); k++)
    td_pass_log(p, "%s: %lld to go", td_graph_node(p->graph, ranks[k].id)->name,
                (long long)ranks[k].path);
}

td_status *td_schedule(td_pass *p) {
  const td_graph *g = p->graph;
  int32_t n = td_graph_size(g);
  rank *ranks = td_calloc((size_t)n + 1, sizeof *ranks);
  td_status *s = ranks ? td_graph_order(g, &p->order) : td_oom();
  if (td_ok(s)) {
    for (int32_t id = 0; id < n; id++) ranks[id].id = id;
    measure(g, p->order, ranks);
    qsort(ranks, (size_t)n, sizeof *ranks, compare);
    for (int32_t k = 0; k < n; k++) p->order[k] = ranks[k].id;
    log_order(p, ranks);
  }
  td_free(ranks);
  return s;
}
