/* uses.c - who uses the nodes of a graph, as one array.
 *
 * A node knows its inputs, not its consumers: a pass that needs these makes the
 * array, which goes with the pass.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/plan/uses_impl.h"

/* begin[id + 1] becomes the number of uses of `id`. */
static size_t count(const td_graph *g, int32_t n, int32_t *begin) {
  size_t total = 0;
  for (int32_t id = 0; id < n; id++) {
    const td_node *user = td_graph_node(g, id);
    for (int i = 0; i < user->n_in; i++) {
      if (!user->in[i].node) continue;
      begin[user->in[i].node->id + 1]++;
      total++;
    }
    for (int i = 0; i < user->n_control; i++) begin[user->control[i]->id + 1]++;
    total += (size_t)user->n_control;
  }
  return total;
}

/* `next`: where the next use of each node goes. */
static void fill(const td_graph *g, int32_t n, int32_t *next, td_use *at) {
  for (int32_t id = 0; id < n; id++) {
    const td_node *user = td_graph_node(g, id);
    for (int i = 0; i < user->n_in; i++)
      if (user->in[i].node) at[next[user->in[i].node->id]++] = (td_use){id, i};
    for (int i = 0; i < user->n_control; i++)
      at[next[user->control[i]->id]++] = (td_use){id, -1};
  }
}

td_status *td_uses_init(const td_graph *g, td_uses *out) {
  int32_t n = td_graph_size(g);
  int32_t *next = td_calloc((size_t)n + 1, sizeof *next);
  out->begin = td_calloc((size_t)n + 1, sizeof *out->begin);
  out->at = NULL;
  if (next && out->begin) {
    size_t total = count(g, n, out->begin);
    out->at = total <= INT32_MAX ? td_calloc(total + 1, sizeof *out->at) : NULL;
  }
  if (!out->at) {
    td_free(next);
    td_uses_deinit(out);
    return td_oom();
  }
  for (int32_t id = 0; id < n; id++) {
    out->begin[id + 1] += out->begin[id];
    next[id] = out->begin[id];
  }
  fill(g, n, next, out->at);
  td_free(next);
  return NULL;
}

void td_uses_deinit(td_uses *u) {
  td_free(u->begin);
  td_free(u->at);
  *u = (td_uses){0};
}
