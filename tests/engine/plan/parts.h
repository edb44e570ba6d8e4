/* parts.h - looks into the parts of a plan.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_PLAN_PARTS_H
#define TESTS_PLAN_PARTS_H

#include "world.h"
#include "engine/graph/graph_check.h"

static inline const td_graph *part(const td_plan *p, const char *type,
                                   int index) {
  for (int i = 0; i < p->n_parts; i++)
    if (strcmp(p->parts[i].device->type, type) == 0 &&
        p->parts[i].device->index == index)
      return p->parts[i].graph;
  fail_msg("no part for %s:%d", type, index);
  return NULL;
}

static inline const td_node *node(const td_graph *g, const char *name) {
  const td_node *n = td_graph_find(g, name);
  if (!n) fail_msg("no node %s", name);
  return n;
}

static inline int count(const td_graph *g, const char *op) {
  int n = 0;
  for (int32_t id = 0; id < td_graph_size(g); id++)
    n += strcmp(td_graph_node(g, id)->op->type, op) == 0;
  return n;
}

/* Every edge is sent once and received once, or ends at the client. */
static inline void check_links(const td_plan *p) {
  int *sends = td_calloc((size_t)p->n_edges + 1, sizeof *sends);
  int *recvs = td_calloc((size_t)p->n_edges + 1, sizeof *recvs);
  for (int i = 0; i < p->n_parts; i++)
    for (int32_t id = 0; id < td_graph_size(p->parts[i].graph); id++) {
      const td_node *n = td_graph_node(p->parts[i].graph, id);
      int64_t e = td_node_int(n, "_edge");
      if (n->op->kind == TD_OP_SEND) sends[e]++;
      if (n->op->kind == TD_OP_RECV) recvs[e]++;
    }
  for (int32_t e = 0; e < p->n_edges; e++) {
    assert_int_equal(sends[e], 1);
    assert_int_equal(recvs[e], 1);
  }
  td_free(sends);
  td_free(recvs);
}

/* Each part is in order and in itself whole: whoever compiles it needs no
 * more. */
static inline void check_parts(const td_plan *p) {
  for (int i = 0; i < p->n_parts; i++) {
    td_frames frames;
    td_graph *g = p->parts[i].graph;
    OK(td_graph_verify(g));
    OK(td_frames_check(g, &frames));
    for (int32_t id = 0; id < td_graph_size(g); id++) {
      const td_node *n = td_graph_node(g, id);
      for (int k = 0; k < n->n_in; k++)
        if (n->in[k].node->op->kind != TD_OP_NEXT)
          assert_true(n->in[k].node->id < id);
      for (int k = 0; k < n->n_control; k++)
        assert_true(n->control[k]->id < id);
      if (n->op->kind == TD_OP_RECV && n->frame)
        assert_int_equal(n->n_control, 1);
    }
    td_frames_free(&frames);
  }
}

#endif
