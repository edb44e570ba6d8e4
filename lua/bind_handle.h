/* bind_handle.h - what Lua holds of graphs: userdata for a graph, its edges
 * (tensors of the graph), its ops (nodes) and its regions.
 *
 * One thing has one handle, so that == works in Lua. A handle keeps its graph,
 * and that its nodes: a td_node from a handle is valid while the handle is on
 * the stack, even when the node has been taken out (`node->gone`).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_BIND_HANDLE_H
#define TD_LUA_BIND_HANDLE_H

#include <lua.h>

#include "engine/graph/graph.h"
#include "engine/graph/region.h"

/* An edge (port >= 0) or an op (port -1). */
typedef struct td_lua_edge {
  td_node *node;
  int32_t port;
} td_lua_edge;

void td_lua_push_graph(lua_State *L, td_graph *g); /* takes ownership */
/* The graph at `i`; raises. */
td_graph *td_lua_to_graph(lua_State *L, int i);

/* The handle of an edge (port -1: of the op). `graph`: stack index of the
 * graph's. */
void td_lua_push_edge(lua_State *L, int graph, td_node *n, int32_t port);
td_lua_edge *td_lua_to_edge(lua_State *L, int i); /* edge only, or NULL */
td_lua_edge *td_lua_to_op(lua_State *L, int i);   /* op only, or NULL */
td_edge td_lua_check_edge(lua_State *L, int i);   /* raises */
td_node *td_lua_check_op(lua_State *L, int i);    /* raises */
/* Of either; raises. */
td_node *td_lua_check_node(lua_State *L, int i);
/* Pushes the graph of the edge, op or region at `i`. */
void td_lua_push_graph_of(lua_State *L, int i);

/* The handle of a region of the graph at `graph`. Takes ownership of `r`. */
void td_lua_push_region(lua_State *L, int graph, td_region *r);
/* Pushes the handle if there is one, else nil and returns false. */
bool td_lua_find_region(lua_State *L, const td_region *r);
td_region *td_lua_check_region(lua_State *L, int i); /* raises */
/* A retired region goes when nobody holds it, and its nodes with it: has the
 * handles that exist of its nodes hold it. */
void td_lua_pin_region(lua_State *L, int graph, const td_region *r);

#endif
