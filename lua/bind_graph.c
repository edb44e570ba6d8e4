/* bind_graph.c - graphs, and the one handle of each edge and op.
 *
 * An edge or op handle keeps its graph alive through a user value; the graph's
 * user value is a weak table of the handles in use, so that one edge is one
 * handle and == works.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/mem.h"
#include "engine/graph/function.h"
#include "engine/graph/graphdef.h"
#include "lua/bind.h"

/* ---- handles ---- */

void td_lua_push_graph(lua_State *L, td_graph *g) {
  if (!td_lua_try_object(L, TD_LUA_GRAPH, sizeof(td_lua_graph), 1)) {
    td_graph_release(g);
    lua_error(L);
  }
  td_lua_graph *u = lua_touserdata(L, -1);
  u->g = g;
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_setiuservalue(L, -2, 1);
}

td_graph *td_lua_to_graph(lua_State *L, int i) {
  td_lua_graph *u = luaL_checkudata(L, i, TD_LUA_GRAPH);
  return u->g;
}

static int graph_gc(lua_State *L) {
  td_lua_graph *u = lua_touserdata(L, 1);
  td_graph_release(u->g);
  u->g = NULL;
  return 0;
}

void td_lua_push_edge(lua_State *L, int graph, td_node *n, int32_t port) {
  graph = lua_absindex(L, graph);
  lua_Integer key = (lua_Integer)((uintptr_t)n >> 4) << 20 | (port + 1);
  lua_getiuservalue(L, graph, 1);
  if (lua_rawgeti(L, -1, key) == LUA_TUSERDATA) {
    lua_remove(L, -2);
    return;
  }
  lua_pop(L, 1);
  td_lua_edge *u = lua_newuserdatauv(L, sizeof *u, 1);
  u->node = n;
  u->port = port;
  lua_pushvalue(L, graph);
  lua_setiuservalue(L, -2, 1);
  luaL_setmetatable(L, port < 0 ? TD_LUA_OP : TD_LUA_EDGE);
  lua_pushvalue(L, -1);
  lua_rawseti(L, -3, key);
  lua_remove(L, -2);
  td_lua_pin(L, graph, n);
}

td_lua_edge *td_lua_to_edge(lua_State *L, int i) {
  return luaL_testudata(L, i, TD_LUA_EDGE);
}

td_lua_edge *td_lua_to_op(lua_State *L, int i) {
  return luaL_testudata(L, i, TD_LUA_OP);
}

/* Pushes the graph of the handle at `i`. */
static void push_graph_of(lua_State *L, int i) {
  lua_getiuservalue(L, i, 1);
}

/* ---- attributes, read ---- */

static void push_list(lua_State *L, const td_attr *a, int i) {
  switch (a->kind) {
  case TD_ATTR_INT:
    lua_pushinteger(L, a->is[i]);
    break;
  case TD_ATTR_FLOAT:
    lua_pushnumber(L, a->fs[i]);
    break;
  case TD_ATTR_BOOL:
    lua_pushboolean(L, a->bs[i]);
    break;
  case TD_ATTR_STRING:
    lua_pushlstring(L, a->ss[i].at, a->ss[i].len);
    break;
  case TD_ATTR_TYPE:
    lua_pushstring(L, td_dtype_name(a->types[i]));
    break;
  case TD_ATTR_SHAPE:
    td_lua_push_shape(L, &a->shapes[i]);
    if (lua_isnil(L, -1)) {
      lua_pop(L, 1);
      lua_pushboolean(L, false);
    }
    break;
  default:
    lua_pushboolean(L, false);
  }
}

void td_lua_push_attr(lua_State *L, const td_attr *a) {
  td_tensor t;
  if (a->is_list) {
    lua_createtable(L, a->len, 0);
    for (int i = 0; i < a->len; i++) {
      push_list(L, a, i);
      lua_rawseti(L, -2, i + 1);
    }
    return;
  }
  switch (a->kind) {
  case TD_ATTR_INT:
    lua_pushinteger(L, a->i);
    break;
  case TD_ATTR_FLOAT:
    lua_pushnumber(L, a->f);
    break;
  case TD_ATTR_BOOL:
    lua_pushboolean(L, a->b);
    break;
  case TD_ATTR_STRING:
  case TD_ATTR_PLACEHOLDER:
    lua_pushlstring(L, a->s.at, a->s.len);
    break;
  case TD_ATTR_TYPE:
    lua_pushstring(L, td_dtype_name(a->type));
    break;
  case TD_ATTR_SHAPE:
    td_lua_push_shape(L, a->shape);
    break;
  case TD_ATTR_TENSOR:
    td_tensor_retain(a->tensor, &t);
    td_lua_push_tensor(L, &t);
    break;
  case TD_ATTR_FUNC:
    lua_pushstring(L, a->func->name);
    break;
  default:
    lua_pushnil(L);
  }
}

/* ---- edges ---- */

static int index_slice(lua_State *L, const char *type) {
  lua_pushliteral(L, "[]");
  if (!td_lua_method(L, type, -1))
    return td_lua_error(L, TD_INVALID_ARGUMENT, "this cannot be indexed");
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  lua_call(L, 2, 1);
  return 1;
}

static int edge_index(lua_State *L) {
  td_lua_edge *e = lua_touserdata(L, 1);
  static const char *const fields[] = {"name",  "dtype",  "shape",  "op",
                                       "graph", "origin", "device", "rank",
                                       "size",  "port",   NULL};
  const char *key = lua_type(L, 2) == LUA_TSTRING ? td_lua_text(L, 2) : "1:";
  if (!td_lua_identifier(key)) return index_slice(L, TD_LUA_EDGE);
  const td_result *out = &e->node->out[e->port];
  if (!strcmp(key, "dtype"))
    lua_pushstring(L, td_dtype_name(out->dtype));
  else if (!strcmp(key, "shape"))
    td_lua_push_shape(L, &out->shape);
  else if (!strcmp(key, "op"))
    push_graph_of(L, 1), td_lua_push_edge(L, -1, e->node, -1);
  else if (!strcmp(key, "name"))
    lua_pushfstring(L, "%s:%d", e->node->name, (int)e->port);
  else if (!strcmp(key, "graph"))
    push_graph_of(L, 1);
  else if (!strcmp(key, "origin"))
    lua_pushstring(L, e->node->origin);
  else if (!strcmp(key, "device"))
    lua_pushstring(L, e->node->device);
  else if (!strcmp(key, "port"))
    lua_pushinteger(L, e->port);
  else if (!strcmp(key, "rank") || !strcmp(key, "size")) {
    int64_t v = key[0] == 'r' ? out->shape.rank : td_shape_count(&out->shape);
    if (v < 0)
      lua_pushnil(L);
    else
      lua_pushinteger(L, v);
  } else if (!td_lua_method(L, TD_LUA_EDGE, 2))
    return td_lua_no_field(L, TD_LUA_EDGE, key, fields);
  return 1;
}

static int edge_newindex(lua_State *L) {
  return td_lua_error(L, TD_INVALID_ARGUMENT,
                      "a graph tensor cannot be assigned to; for rows of a "
                      "variable use W[\"0:2\"]:assign(t)");
}

static int edge_tostring(lua_State *L) {
  td_lua_edge *e = luaL_checkudata(L, 1, TD_LUA_EDGE);
  td_shape_text text;
  lua_pushfstring(L, "Tensor \"%s:%d\" %s %s", e->node->name, (int)e->port,
                  td_dtype_name(e->node->out[e->port].dtype),
                  td_shape_str(&e->node->out[e->port].shape, &text));
  return 1;
}

/* ---- ops ---- */

static void push_op_inputs(lua_State *L, const td_node *n) {
  push_graph_of(L, 1);
  int graph = lua_gettop(L);
  lua_createtable(L, n->n_in, 0);
  for (int i = 0; i < n->n_in; i++) {
    if (n->in[i].node)
      td_lua_push_edge(L, graph, n->in[i].node, n->in[i].port);
    else
      lua_pushboolean(L, false);
    lua_rawseti(L, -2, i + 1);
  }
}

static void push_op_outputs(lua_State *L, td_node *n) {
  push_graph_of(L, 1);
  int graph = lua_gettop(L);
  lua_createtable(L, n->n_out, 0);
  for (int i = 0; i < n->n_out; i++) {
    td_lua_push_edge(L, graph, n, i);
    lua_rawseti(L, -2, i + 1);
  }
}

static void push_op_controls(lua_State *L, const td_node *n) {
  push_graph_of(L, 1);
  int graph = lua_gettop(L);
  lua_createtable(L, n->n_control, 0);
  for (int i = 0; i < n->n_control; i++) {
    td_lua_push_edge(L, graph, n->control[i], -1);
    lua_rawseti(L, -2, i + 1);
  }
}

static void push_op_attrs(lua_State *L, const td_node *n) {
  lua_createtable(L, 0, n->op->n_attr + n->n_note);
  for (int i = 0; i < n->op->n_attr; i++) {
    td_lua_push_attr(L, &n->attr[i]);
    lua_setfield(L, -2, n->op->attr[i].name);
  }
  for (int i = 0; i < n->n_note; i++) {
    td_lua_push_attr(L, &n->note[i].value);
    lua_setfield(L, -2, n->note[i].name);
  }
}

static int op_index(lua_State *L) {
  td_lua_edge *e = lua_touserdata(L, 1);
  td_node *n = e->node;
  static const char *const fields[] = {
      "type",           "name",   "inputs", "outputs", "attr",
      "control_inputs", "graph",  "origin", "device",  "id",
      "flow",           "serial", NULL};
  const char *key = luaL_tolstring(L, 2, NULL);
  if (!strcmp(key, "type"))
    lua_pushstring(L, n->op->type);
  else if (!strcmp(key, "name"))
    lua_pushstring(L, n->name);
  else if (!strcmp(key, "inputs"))
    push_op_inputs(L, n);
  else if (!strcmp(key, "outputs"))
    push_op_outputs(L, n);
  else if (!strcmp(key, "attr"))
    push_op_attrs(L, n);
  else if (!strcmp(key, "control_inputs"))
    push_op_controls(L, n);
  else if (!strcmp(key, "graph"))
    push_graph_of(L, 1);
  else if (!strcmp(key, "origin"))
    lua_pushstring(L, n->origin);
  else if (!strcmp(key, "device"))
    lua_pushstring(L, n->device);
  else if (!strcmp(key, "id"))
    lua_pushinteger(L, n->id);
  else if (!strcmp(key, "serial"))
    lua_pushinteger(L, (lua_Integer)n->serial);
  else if (!strcmp(key, "flow"))
    lua_pushinteger(L, n->flow);
  else if (!td_lua_method(L, TD_LUA_OP, 2))
    return td_lua_no_field(L, TD_LUA_OP, key, fields);
  return 1;
}

static int op_tostring(lua_State *L) {
  td_lua_edge *e = luaL_checkudata(L, 1, TD_LUA_OP);
  lua_pushfstring(L, "Op \"%s\" %s", e->node->name, e->node->op->type);
  return 1;
}

/* ---- graphs ---- */

static int graph_new(lua_State *L) {
  td_graph *g;
  td_lua_check(L, td_graph_new(&g));
  td_lua_push_graph(L, g);
  return 1;
}

/* g:edge(ref) or g:edge(op id, port) -> edge or op ("^x", port -1) */
static int graph_edge(lua_State *L) {
  td_graph *g = td_lua_to_graph(L, 1);
  td_edge e;
  if (lua_isinteger(L, 2)) {
    lua_Integer id = lua_tointeger(L, 2), port = luaL_checkinteger(L, 3);
    luaL_argcheck(L, id >= 0 && id < td_graph_size(g), 2, "no such node");
    e = (td_edge){td_graph_node(g, (int32_t)id), (int32_t)port};
    luaL_argcheck(L, port >= -1 && port < e.node->n_out, 3, "no such output");
  } else {
    td_lua_check(L, td_graph_edge(g, td_lua_text(L, 2), &e));
  }
  td_lua_push_edge(L, 1, e.node, e.port);
  return 1;
}

static int graph_op(lua_State *L) {
  td_graph *g = td_lua_to_graph(L, 1);
  td_edge e;
  if (lua_isinteger(L, 2)) {
    lua_Integer id = lua_tointeger(L, 2);
    luaL_argcheck(L, id >= 0 && id < td_graph_size(g), 2, "no such node");
    td_lua_push_edge(L, 1, td_graph_node(g, (int32_t)id), -1);
    return 1;
  }
  lua_pushfstring(L, "^%s", td_lua_text(L, 2));
  td_lua_check(L, td_graph_edge(g, lua_tostring(L, -1), &e));
  td_lua_push_edge(L, 1, e.node, -1);
  return 1;
}

static int graph_ops(lua_State *L) {
  td_graph *g = td_lua_to_graph(L, 1);
  int32_t n = td_graph_size(g);
  lua_createtable(L, n, 0);
  for (int32_t i = 0; i < n; i++) {
    td_lua_push_edge(L, 1, td_graph_node(g, i), -1);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int graph_size(lua_State *L) {
  lua_pushinteger(L, td_graph_size(td_lua_to_graph(L, 1)));
  return 1;
}

/* core.next_serial(graph): what the next node's field `serial` will be. */
static int core_next_serial(lua_State *L) {
  uint64_t n = td_graph_next_serial(td_lua_to_graph(L, 1));
  lua_pushinteger(L, (lua_Integer)n);
  return 1;
}

static int graph_save(lua_State *L) {
  char *bytes;
  size_t len;
  td_lua_check(L, td_graphdef_write(td_lua_to_graph(L, 1), &bytes, &len));
  td_lua_push_bytes(L, bytes, len);
  return 1;
}

/* g:import_bytes(bytes, prefix, {names}, {edges}) */
static int graph_import(lua_State *L) {
  td_graph *g = td_lua_to_graph(L, 1);
  size_t len;
  const char *bytes = luaL_checklstring(L, 2, &len);
  td_graphdef_options o = {.prefix = lua_isnoneornil(L, 3) ? NULL
                                                           : td_lua_text(L, 3)};
  if (lua_istable(L, 4)) {
    luaL_checktype(L, 5, LUA_TTABLE);
    int n = (int)luaL_len(L, 4);
    const char **names = td_lua_block(L, (size_t)n, sizeof *names);
    td_edge *edges = td_lua_block(L, (size_t)n, sizeof *edges);
    for (int i = 0; i < n; i++) {
      lua_rawgeti(L, 4, i + 1);
      names[i] = td_lua_text(L, -1);
      lua_rawgeti(L, 5, i + 1);
      td_lua_edge *e = luaL_checkudata(L, -1, TD_LUA_EDGE);
      edges[i] = (td_edge){e->node, e->port};
      lua_pop(L, 2);
    }
    o.names = names;
    o.edges = edges;
    o.n_inputs = n;
  }
  td_lua_check(L, td_graphdef_read(g, bytes, len, &o));
  return 0;
}

static int graph_finalize(lua_State *L) {
  td_graph_finalize(td_lua_to_graph(L, 1));
  return 0;
}

static int graph_set_seed(lua_State *L) {
  td_graph_set_seed(td_lua_to_graph(L, 1), luaL_checkinteger(L, 2));
  return 0;
}

static int graph_get_seed(lua_State *L) {
  int64_t seed;
  if (td_graph_seed(td_lua_to_graph(L, 1), &seed))
    lua_pushinteger(L, seed);
  else
    lua_pushnil(L);
  return 1;
}

static int graph_unique(lua_State *L) {
  const char *name;
  td_lua_check(
      L, td_graph_unique(td_lua_to_graph(L, 1), td_lua_text(L, 2), &name));
  lua_pushstring(L, name);
  return 1;
}

/* g:flow(parent, "w"|"c", name) -> index */
static int graph_flow(lua_State *L) {
  int32_t flow;
  const char *kind = td_lua_text(L, 3);
  td_lua_check(L, td_graph_flow(td_lua_to_graph(L, 1),
                                (int32_t)luaL_checkinteger(L, 2), kind[0],
                                td_lua_text(L, 4), &flow));
  lua_pushinteger(L, flow);
  return 1;
}

static int graph_find(lua_State *L) {
  td_node *n = td_graph_find(td_lua_to_graph(L, 1), td_lua_text(L, 2));
  if (n)
    td_lua_push_edge(L, 1, n, -1);
  else
    lua_pushnil(L);
  return 1;
}

/* g["name:0"] is an edge, other identifiers are methods. */
static int graph_index(lua_State *L) {
  luaL_tolstring(L, 2, NULL);
  const char *key = td_lua_text(L, -1);
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  lua_pop(L, 1);
  if (td_lua_method(L, TD_LUA_GRAPH, 2)) return 1;
  td_edge e;
  if (strchr(key, ':') || !td_lua_identifier(key)) {
    td_lua_check(L, td_graph_edge(td_lua_to_graph(L, 1), key, &e));
    td_lua_push_edge(L, 1, e.node, e.port);
    return 1;
  }
  td_node *n = td_graph_find(td_lua_to_graph(L, 1), key);
  if (!n || n->n_out == 0) return td_lua_no_field(L, TD_LUA_GRAPH, key, NULL);
  td_lua_push_edge(L, 1, n, 0);
  return 1;
}

/* ---- changing what exists ---- */

/* core.set_back_edge(merge op, input index from 0, edge) */
static int core_back_edge(lua_State *L) {
  td_lua_edge *merge = luaL_checkudata(L, 1, TD_LUA_OP);
  td_lua_edge *from = luaL_checkudata(L, 3, TD_LUA_EDGE);
  td_lua_check(L, td_graph_back_edge(merge->node, (int)luaL_checkinteger(L, 2),
                                     (td_edge){from->node, from->port}));
  return 0;
}

static int core_add_control(lua_State *L) {
  td_lua_edge *op = luaL_checkudata(L, 1, TD_LUA_OP);
  td_lua_edge *before = luaL_checkudata(L, 2, TD_LUA_OP);
  td_lua_check(L, td_graph_add_control(op->node, before->node));
  return 0;
}

static int core_set_shape(lua_State *L) {
  td_lua_edge *e = luaL_checkudata(L, 1, TD_LUA_EDGE);
  td_shape shape;
  td_lua_check(L, td_lua_to_shape(L, 2, &shape));
  td_lua_check(L, td_node_set_shape(e->node, e->port, &shape));
  return 0;
}

static int core_set_device(lua_State *L) {
  td_lua_edge *op = luaL_checkudata(L, 1, TD_LUA_OP);
  td_lua_check(L, td_node_set_device(op->node, td_lua_text(L, 2)));
  return 0;
}

void td_lua_open_graph(lua_State *L) {
  static const luaL_Reg functions[] = {{"graph_new", graph_new},
                                       {"set_back_edge", core_back_edge},
                                       {"add_control", core_add_control},
                                       {"set_shape", core_set_shape},
                                       {"set_device", core_set_device},
                                       {"next_serial", core_next_serial},
                                       {NULL, NULL}};
  static const luaL_Reg methods[] = {{"edge", graph_edge},
                                     {"op", graph_op},
                                     {"ops", graph_ops},
                                     {"size", graph_size},

                                     {"save_bytes", graph_save},
                                     {"import_bytes", graph_import},
                                     {"finalize", graph_finalize},
                                     {"set_seed", graph_set_seed},
                                     {"get_seed", graph_get_seed},
                                     {"unique", graph_unique},
                                     {"flow", graph_flow},
                                     {"find", graph_find},
                                     {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  luaL_newmetatable(L, TD_LUA_GRAPH);
  lua_pushcfunction(L, graph_gc);
  lua_setfield(L, -2, "__gc");
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  lua_pushcclosure(L, graph_index, 1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  static const luaL_Reg edge[] = {{"__index", edge_index},
                                  {"__newindex", edge_newindex},
                                  {"__tostring", edge_tostring},
                                  {NULL, NULL}};
  luaL_newmetatable(L, TD_LUA_EDGE);
  luaL_setfuncs(L, edge, 0);
  lua_pop(L, 1);
  static const luaL_Reg op[] = {
      {"__index", op_index}, {"__tostring", op_tostring}, {NULL, NULL}};
  luaL_newmetatable(L, TD_LUA_OP);
  luaL_setfuncs(L, op, 0);
  lua_pop(L, 1);
}
