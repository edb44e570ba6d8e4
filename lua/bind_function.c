/* bind_function.c - functions of a graph: made, called, looked into.
 *
 * Lua traces a function into a graph; here that graph becomes a definition, and
 * a definition a graph again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/build.h"
#include "engine/graph/graph_edit.h"
#include "engine/graphdef/function.h"
#include "lua/bind.h"
#include "lua/bind_handle.h"

/* The edges of field `key` of the table at 1; stays on the stack. */
static td_edge *edges_of(lua_State *L, const char *key, int *n) {
  lua_getfield(L, 1, key);
  luaL_checktype(L, -1, LUA_TTABLE);
  int list = lua_gettop(L);
  *n = (int)luaL_len(L, list);
  td_edge *edges = td_lua_block(L, (size_t)*n + 1, sizeof *edges);
  for (int i = 0; i < *n; i++) {
    lua_rawgeti(L, list, i + 1);
    edges[i] = td_lua_check_edge(L, -1);
    lua_pop(L, 1);
  }
  return edges;
}

static const char **names_of(lua_State *L, const char *key, int n) {
  lua_getfield(L, 1, key);
  luaL_checktype(L, -1, LUA_TTABLE);
  int list = lua_gettop(L);
  const char **names = td_lua_block(L, (size_t)n + 1, sizeof *names);
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, list, i + 1);
    names[i] = td_lua_text(L, -1); /* the table holds it */
    lua_pop(L, 1);
  }
  return names;
}

static td_node **nodes_of(lua_State *L, const char *key, int *n) {
  lua_getfield(L, 1, key);
  luaL_checktype(L, -1, LUA_TTABLE);
  int list = lua_gettop(L);
  *n = (int)luaL_len(L, list);
  td_node **nodes = td_lua_block(L, (size_t)*n + 1, sizeof *nodes);
  for (int i = 0; i < *n; i++) {
    lua_rawgeti(L, list, i + 1);
    nodes[i] = td_lua_check_op(L, -1);
    lua_pop(L, 1);
  }
  return nodes;
}

static td_region *region_of(lua_State *L, const char *key) {
  if (lua_getfield(L, 1, key) == LUA_TNIL) return NULL;
  return td_lua_check_region(L, -1);
}

/* core.function_make({body = graph, name =, args = edges, arg_names =, results
 * = edges, controls = ops, region = or nil}, graph) -> its serial */
static int function_make(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  td_graph *g = td_lua_to_graph(L, 2);
  td_function_spec f = {0};
  luaL_checkstack(L, 16, "function");
  lua_getfield(L, 1, "body");
  td_graph *body = td_lua_to_graph(L, lua_gettop(L));
  lua_getfield(L, 1, "name");
  f.name = td_lua_text(L, -1);
  f.args = edges_of(L, "args", &f.n_args);
  f.arg_names = names_of(L, "arg_names", f.n_args);
  f.results = edges_of(L, "results", &f.n_results);
  f.controls = nodes_of(L, "controls", &f.n_controls);
  f.region = region_of(L, "region");
  luaL_argcheck(L, body != g, 2, "the graph of the body itself");
  td_lua_check(L, td_function_make(body, &f, g));
  lua_pushinteger(L, (lua_Integer)td_function_serial(g, f.name));
  return 1;
}

/* core.function_infer(op): shapes of what a call gives. */
static int function_infer(lua_State *L) {
  td_lua_check(L, td_function_infer(td_lua_check_op(L, 1)));
  return 0;
}

static td_status *placeholder(td_graph *g, td_edge like, td_edge *out) {
  td_build b;
  td_node *n;
  td_build_init(&b, g, "Placeholder", "arg");
  td_build_attr(&b, "dtype", td_attr_type(td_edge_dtype(like)));
  td_build_attr(&b, "shape", td_attr_shape(td_edge_shape(like)));
  TD_TRY(td_build_node(&b, &n));
  *out = (td_edge){n, 0};
  return NULL;
}

static td_status *open_body(const td_node *call, td_graph *g, td_edge *args,
                            td_edge *results) {
  td_function_body body;
  td_node *copy;
  size_t fill = TD_FUNCTION_FILL;
  TD_TRY(td_function_copy(call->graph, g));
  for (int i = 0; i < call->n_in; i++)
    TD_TRY(placeholder(g, call->in[i], &args[i]));
  TD_TRY(td_graph_clone_node(g, call, call->name, args, NULL, 0, &copy));
  TD_TRY(td_function_expand(g, copy, args, &fill, &body));
  for (int i = 0; i < body.n_results; i++) results[i] = body.results[i];
  td_function_body_deinit(&body);
  return NULL;
}

static void push_edges(lua_State *L, int graph, const td_edge *e, int n) {
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    td_lua_push_edge(L, graph, e[i].node, e[i].port);
    lua_rawseti(L, -2, i + 1);
  }
}

/* core.function_body(call op) -> a new graph, its arguments, its results */
static int function_body(lua_State *L) {
  td_node *call = td_lua_check_op(L, 1);
  td_graph *g;
  td_lua_check(L, td_graph_new(&g));
  td_lua_push_graph(L, g);
  int graph = lua_gettop(L);
  td_edge *args = td_lua_block(L, (size_t)call->n_in + 1, sizeof *args);
  td_edge *results = td_lua_block(L, (size_t)call->n_out + 1, sizeof *results);
  td_lua_check(L, open_body(call, g, args, results));
  lua_pushvalue(L, graph);
  push_edges(L, graph, args, call->n_in);
  push_edges(L, graph, results, call->n_out);
  return 3;
}

/* core.functions(graph): names, sorted. */
static int functions(lua_State *L) {
  const td_graph *g = td_lua_to_graph(L, 1);
  lua_newtable(L);
  for (int i = 0; i < td_function_count(g); i++) {
    lua_pushstring(L, td_function_name(g, i));
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* core.function_serial(graph, name): what it is known by; nil when absent. */
static int function_serial(lua_State *L) {
  uint64_t serial =
      td_function_serial(td_lua_to_graph(L, 1), td_lua_text(L, 2));
  if (serial)
    lua_pushinteger(L, (lua_Integer)serial);
  else
    lua_pushnil(L);
  return 1;
}

/* core.function_taken(graph, name): by a function that is not put aside? */
static int function_taken(lua_State *L) {
  lua_pushboolean(
      L, td_function_name_taken(td_lua_to_graph(L, 1), td_lua_text(L, 2)));
  return 1;
}

/* core.function_name(graph, serial): its name now; nil when it is gone. */
static int function_name(lua_State *L) {
  lua_pushstring(L, td_function_of_serial(td_lua_to_graph(L, 1),
                                          (uint64_t)luaL_checkinteger(L, 2)));
  return 1;
}

/* core.function_rename(graph, name, to) */
static int function_rename(lua_State *L) {
  td_lua_check(L, td_function_rename(td_lua_to_graph(L, 1), td_lua_text(L, 2),
                                     td_lua_text(L, 3)));
  return 0;
}

TD_LUA_OPEN(function) {
  static const luaL_Reg list[] = {{"function_make", function_make},
                                  {"function_infer", function_infer},
                                  {"function_body", function_body},
                                  {"functions", functions},
                                  {"function_name", function_name},
                                  {"function_serial", function_serial},
                                  {"function_rename", function_rename},
                                  {"function_taken", function_taken},
                                  {NULL, NULL}};
  luaL_setfuncs(L, list, 0);
}
