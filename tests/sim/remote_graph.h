/* remote_graph.h - what clients of the simulated cluster run on its workers.
 *
 * A step is fed its id and a value. The value goes from worker to worker, each
 * of which naps for a while that the seed draws, then counts: in a table of the
 * test, which tells a history (history.h) of it, and in a variable, a row of
 * which is the step's: two numbers, so that a half is seen. A loop goes over two
 * of the workers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SIM_REMOTE_GRAPH_H
#define TEST_SIM_REMOTE_GRAPH_H

#include "engine/graph/graph.h"
#include "tests/sim/base/node.h"
#include "tests/sim/history.h"

enum { REMOTE_WORKERS = 3, REMOTE_ROWS = 64, REMOTE_PROCESSES = 60 };
enum { REMOTE_TURNS = 3 }; /* of the loop */

typedef struct remote_graph {
  td_graph *graph;
  td_edge id, x;     /* feeds: the step's, int64; float [n] */
  td_edge y, turned; /* x, from the last worker; what the loop counted */
  /* by worker: */
  td_node *init[REMOTE_WORKERS], *count[REMOTE_WORKERS];
  td_edge read[REMOTE_WORKERS]; /* int64 [2 * REMOTE_ROWS] */
  td_edge saved[REMOTE_WORKERS]; /* a feed: what `restore` assigns */
  td_node *restore[REMOTE_WORKERS];
} remote_graph;

/* Fails the cmocka test when it cannot. */
void remote_graph_init(remote_graph *g, int workers);
void remote_graph_deinit(remote_graph *g);

/* A step of a client, as its feed and the history name it. */
static inline int64_t remote_step(int client, int k) {
  return (int64_t)client * REMOTE_ROWS + k;
}

/* ---- where kernels count ------------------------------------------------- */

/* A new world; NULL: none. */
void remote_counts_begin(history *h);
/* The process of a node, by number; its place, whose op it may count. */
void remote_counts_process(sim_node_t node, int number, int place);
/* What it counted, to the history. */
void remote_counts_tell(int number);

#endif
