/* bind_growth.h - a graph that grows in a loop is noticed.
 *
 * A program that makes ops in its training loop becomes slower with every step,
 * and holds more. Before each step of a session it is looked whether its graph
 * has grown since the step before, which costs a comparison. When nodes of the
 * same lines have come TD_LUA_GROWTHS times, session.lua is told which lines
 * these are, once. What different lines add, as the cells of a notebook do, is
 * no loop; and a cell begins anew.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_BIND_GROWTH_H
#define TD_LUA_BIND_GROWTH_H

#include <lua.h>

#include "engine/graph/graph.h"

enum { TD_LUA_GROWTHS = 32, TD_LUA_GROWTH_LINES = 4, TD_LUA_GROWTH_TEXT = 120 };

/* Of a session; in its userdata. */
typedef struct td_lua_growth {
  const td_graph *graph; /* the session's handle holds it */
  int32_t size;          /* nodes before the last step */
  int32_t times;         /* how often nodes of all these lines were added */
  uint64_t removals;     /* of the graph then */
  uint64_t cell;         /* the console's */
  bool told;
  int n;
  char line[TD_LUA_GROWTH_LINES][TD_LUA_GROWTH_TEXT];
} td_lua_growth;

void td_lua_growth_begin(td_lua_growth *g, const td_graph *graph);
void td_lua_growth_note(lua_State *L, td_lua_growth *g);

/* Before a step. Never raises. */
static inline void td_lua_growth_look(lua_State *L, td_lua_growth *g) {
  if (TD_UNLIKELY(td_graph_size(g->graph) != g->size)) td_lua_growth_note(L, g);
}

#endif
