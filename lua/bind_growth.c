/* bind_growth.c - a graph that grows in a loop is noticed; see bind_growth.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/bind_growth.h"

#include <stdio.h>
#include <string.h>

#include "lua/bind.h"

#define GROWING "tide.growing" /* in the registry: session.lua's */

enum { LOOKED_AT = 4096 }; /* of the nodes that are new */

void td_lua_growth_begin(td_lua_growth *g, const td_graph *graph) {
  *g = (td_lua_growth){.graph = graph, .size = td_graph_size(graph)};
}

/* ---- lines --------------------------------------------------------------- */

/* Nodes [from, to) are new. */
typedef struct addition {
  const td_graph *graph;
  int32_t from, to;
} addition;

static bool is_line(const td_node *n, const char *line) {
  return strncmp(n->origin, line, TD_LUA_GROWTH_TEXT - 1) == 0;
}

static bool has_line(const addition *a, const char *line) {
  for (int32_t i = a->from; i < a->to; i++)
    if (is_line(td_graph_node(a->graph, i), line)) return true;
  return false;
}

/* Lines that added nothing this time are no part of the loop. */
static void keep_common(td_lua_growth *g, const addition *a) {
  int n = 0;
  for (int i = 0; i < g->n; i++)
    if (has_line(a, g->line[i])) {
      if (n < i) memcpy(g->line[n], g->line[i], sizeof g->line[n]);
      n++;
    }
  g->n = n;
}

static bool is_known(const td_lua_growth *g, const td_node *n) {
  for (int i = 0; i < g->n; i++)
    if (is_line(n, g->line[i])) return true;
  return false;
}

/* The first lines that made some of the new nodes. */
static void begin_anew(td_lua_growth *g, const addition *a) {
  g->times = g->n = 0;
  for (int32_t i = a->from; i < a->to && g->n < TD_LUA_GROWTH_LINES; i++) {
    const td_node *n = td_graph_node(a->graph, i);
    if (n->origin[0] && !is_known(g, n))
      snprintf(g->line[g->n++], TD_LUA_GROWTH_TEXT, "%s", n->origin);
  }
}

/* ---- telling ------------------------------------------------------------- */

static void tell(lua_State *L, const td_lua_growth *g) {
  if (!lua_checkstack(L, 8)) return;
  int top = lua_gettop(L);
  if (lua_getfield(L, LUA_REGISTRYINDEX, GROWING) == LUA_TFUNCTION) {
    lua_createtable(L, g->n, 0);
    for (int i = 0; i < g->n; i++) {
      lua_pushstring(L, g->line[i]);
      lua_rawseti(L, -2, i + 1);
    }
    lua_pushinteger(L, g->times);
    lua_pushinteger(L, g->size);
    lua_pcall(L, 3, 0, 0);
  }
  lua_settop(L, top);
}

void td_lua_growth_note(lua_State *L, td_lua_growth *g) {
  int32_t from = g->size, to = td_graph_size(g->graph);
  uint64_t removals = td_graph_removals(g->graph), cell = td_lua_get(L)->cells;
  bool same = removals == g->removals && cell == g->cell && from < to;
  g->size = to;
  g->removals = removals;
  g->cell = cell;
  if (g->told) return;
  if (!same) {
    g->times = g->n = 0;
    return;
  }
  if (to - from > LOOKED_AT) from = to - LOOKED_AT;
  addition a = {g->graph, from, to};
  keep_common(g, &a);
  if (g->n == 0) begin_anew(g, &a);
  g->times++;
  if (g->times < TD_LUA_GROWTHS || g->n == 0) return;
  g->told = true;
  tell(L, g);
}

/* core.new_cell(): what comes is not in a loop with what was. */
static int new_cell(lua_State *L) {
  td_lua_get(L)->cells++;
  return 0;
}

TD_LUA_OPEN(growth) {
  static const luaL_Reg functions[] = {{"new_cell", new_cell}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
