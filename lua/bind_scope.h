/* bind_scope.h - where nodes are built: graph, name prefix, device, control
 * inputs, place in control flow.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_BIND_SCOPE_H
#define TD_LUA_BIND_SCOPE_H

#include <lua.h>

#include "engine/graph/graph.h"

/* A userdata that never changes; a scope within it is another one. */
typedef struct td_lua_scope {
  td_graph *graph; /* borrowed: the user value holds it */
  char *prefix;    /* "layer1/conv/", or "" */
  char *device, *container;
  char *origin; /* of the nodes; "": the Lua line that makes them */
  int32_t flow;
  td_node *pivot; /* control input of nodes without data inputs */
  td_node *colocate;
  int n_controls;
  bool captures, has_device_fn, has_notes;
} td_lua_scope;

/* Its user values. */
enum {
  TD_LUA_SCOPE_GRAPH = 1,
  TD_LUA_SCOPE_CONTROLS,  /* list of ops */
  TD_LUA_SCOPE_CAPTURE,   /* function: an outer edge -> one inside */
  TD_LUA_SCOPE_DEVICE_FN, /* function: op -> its device, or nil */
  TD_LUA_SCOPE_OUTER,     /* the scope around it */
  TD_LUA_SCOPE_NOTES,     /* {op type = {attribute = text}} */
  TD_LUA_SCOPE_PIVOT,     /* the ops of `pivot` and `colocate` */
  TD_LUA_SCOPE_COLOCATE,
  TD_LUA_SCOPE_VALUES = TD_LUA_SCOPE_COLOCATE
};

/* The current scope of this coroutine; pushes its userdata. */
td_lua_scope *td_lua_scope_push(lua_State *L);
/* Pushes two values that say which scope is in force in this coroutine; and
 * puts it back, from the stack index of the first. For an interrupt that did
 * not wait until scopes were closed. */
void td_lua_scope_save(lua_State *L);
void td_lua_scope_restore(lua_State *L, int at);

#endif
