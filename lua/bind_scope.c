/* bind_scope.c - where nodes are built: name prefix, device, control inputs,
 * place in control flow; one stack of scopes per coroutine.
 *
 * A scope record never changes; a push makes a new one that inherits what is
 * not given.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/bind_scope.h"

#include <string.h>

#include "engine/base/mem.h"
#include "lua/bind.h"
#include "lua/bind_field.h"
#include "lua/bind_handle.h"

#define TD_LUA_SCOPE "tide.scope"

static const char scopes_key = 0; /* registry: weak table coroutine -> scope */
static const char root_key = 0;   /* registry: the scope of new coroutines */

static int scope_gc(lua_State *L) {
  td_lua_scope *s = lua_touserdata(L, 1);
  td_free(s->prefix);
  td_free(s->device);
  td_free(s->container);
  td_free(s->origin);
  s->prefix = s->device = s->container = s->origin = NULL;
  return 0;
}

td_lua_scope *td_lua_scope_push(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &scopes_key);
  lua_pushthread(L);
  if (lua_rawget(L, -2) != LUA_TUSERDATA) {
    lua_pop(L, 1);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &root_key);
  }
  lua_remove(L, -2);
  return lua_touserdata(L, -1);
}

/* Makes the userdata on top of the stack current; leaves it there. */
static void make_current(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &scopes_key);
  lua_pushthread(L);
  lua_pushvalue(L, -3);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

/* ---- making one ---- */

static char *copy(lua_State *L, const char *s) {
  char *c = td_strdup(s ? s : "");
  if (!c) luaL_error(L, "out of memory");
  return c;
}

static void inherit(lua_State *L, int from, int to) {
  for (int i = 1; i <= TD_LUA_SCOPE_VALUES; i++) {
    lua_getiuservalue(L, from, i);
    lua_setiuservalue(L, to, i);
  }
  const td_lua_scope *f = lua_touserdata(L, from);
  td_lua_scope *t = lua_touserdata(L, to);
  *t = *f;
  t->prefix = t->device = t->container = t->origin = NULL;
  t->prefix = copy(L, f->prefix);
  t->device = copy(L, f->device);
  t->container = copy(L, f->container);
  t->origin = copy(L, f->origin);
}

static void set_string(lua_State *L, int opts, const char *key, char **field) {
  if (lua_getfield(L, opts, key) != LUA_TNIL) {
    char *c = copy(L, td_lua_text(L, -1));
    td_free(*field);
    *field = c;
  }
  lua_pop(L, 1);
}

static td_node *op_field(lua_State *L, int opts, const char *key, int to,
                         int uv, td_node *otherwise) {
  int type = lua_getfield(L, opts, key);
  td_node *n = otherwise;
  if (type == LUA_TBOOLEAN)
    n = NULL; /* false: none */
  else if (type != LUA_TNIL)
    n = td_lua_check_op(L, -1);
  if (type != LUA_TNIL)
    lua_setiuservalue(L, to, uv); /* holds its memory */
  else
    lua_pop(L, 1);
  return n;
}

static bool set_value(lua_State *L, int opts, const char *key, int to, int uv,
                      bool had) {
  int type = lua_getfield(L, opts, key);
  if (type == LUA_TNIL) {
    lua_pop(L, 1);
    return had;
  }
  lua_setiuservalue(L, to, uv); /* false clears it */
  return type != LUA_TBOOLEAN;
}

/* Outer control inputs first, then those given; a fresh list. */
static void set_controls(lua_State *L, int opts, int to, td_lua_scope *t) {
  bool clear = td_lua_flag(L, opts, "clear_controls");
  lua_newtable(L);
  int n = 0;
  if (!clear && lua_getiuservalue(L, to, TD_LUA_SCOPE_CONTROLS) == LUA_TTABLE) {
    for (int i = 1; i <= t->n_controls; i++) {
      lua_rawgeti(L, -1, i);
      lua_rawseti(L, -3, ++n);
    }
  }
  if (!clear) lua_pop(L, 1);
  if (lua_getfield(L, opts, "controls") == LUA_TTABLE) {
    lua_Integer more = luaL_len(L, -1);
    for (lua_Integer i = 1; i <= more; i++) {
      lua_rawgeti(L, -1, i);
      td_lua_check_op(L, -1);
      lua_rawseti(L, -3, ++n);
    }
  }
  lua_pop(L, 1);
  lua_setiuservalue(L, to, TD_LUA_SCOPE_CONTROLS);
  t->n_controls = n;
}

static void set_device(lua_State *L, int opts, td_lua_scope *t) {
  int type = lua_getfield(L, opts, "device");
  if (type == LUA_TBOOLEAN) { /* false: any device */
    t->device[0] = 0;
  } else if (type != LUA_TNIL) {
    td_device_name outer, inner, both;
    td_str text;
    td_lua_check(L, td_device_name_parse(t->device, &outer));
    td_lua_check(L, td_device_name_parse(td_lua_text(L, -1), &inner));
    td_device_name_merge(&outer, &inner, &both);
    td_str_init(&text);
    td_device_name_print(&both, &text);
    char *c = td_str_take(&text);
    if (!c) luaL_error(L, "out of memory");
    td_free(t->device);
    t->device = c;
  }
  lua_pop(L, 1);
}

/* Nothing of another graph's scope applies in this one. */
static void set_graph(lua_State *L, int opts, int to, td_lua_scope *t) {
  if (lua_getfield(L, opts, "graph") == LUA_TNIL) {
    lua_pop(L, 1);
    return;
  }
  td_graph *g = td_lua_to_graph(L, -1);
  if (g != t->graph) {
    t->graph = g;
    t->prefix[0] = t->device[0] = 0;
    t->flow = 0;
    t->pivot = t->colocate = NULL;
    t->captures = t->has_device_fn = false;
    t->n_controls = 0;
  }
  lua_setiuservalue(L, to, TD_LUA_SCOPE_GRAPH);
}

/* Pushes a cleared one. */
static td_lua_scope *push_new(lua_State *L) {
  td_lua_scope *t = lua_newuserdatauv(L, sizeof *t, TD_LUA_SCOPE_VALUES);
  memset(t, 0, sizeof *t);
  luaL_setmetatable(L, TD_LUA_SCOPE);
  return t;
}

/* core.push{graph =, prefix =, device =, controls =, clear_controls =, flow =,
 * pivot =, capture =, colocate =, container =, device_fn =, origin =, notes =
 * {op type = {attribute = text}}} -> the scope, for core.pop. What is not given
 * is as in the current scope. */
static int core_push(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  td_lua_scope_push(L);
  td_lua_scope *t = push_new(L);
  inherit(L, 2, 3);
  lua_pushvalue(L, 2);
  lua_setiuservalue(L, 3, TD_LUA_SCOPE_OUTER);
  set_graph(L, 1, 3, t);
  set_string(L, 1, "prefix", &t->prefix);
  set_string(L, 1, "container", &t->container);
  set_string(L, 1, "origin", &t->origin);
  set_device(L, 1, t);
  set_controls(L, 1, 3, t);
  t->pivot = op_field(L, 1, "pivot", 3, TD_LUA_SCOPE_PIVOT, t->pivot);
  t->colocate =
      op_field(L, 1, "colocate", 3, TD_LUA_SCOPE_COLOCATE, t->colocate);
  t->captures =
      set_value(L, 1, "capture", 3, TD_LUA_SCOPE_CAPTURE, t->captures);
  t->has_device_fn =
      set_value(L, 1, "device_fn", 3, TD_LUA_SCOPE_DEVICE_FN, t->has_device_fn);
  t->has_notes = set_value(L, 1, "notes", 3, TD_LUA_SCOPE_NOTES, t->has_notes);
  if (lua_getfield(L, 1, "flow") != LUA_TNIL)
    t->flow = (int32_t)luaL_checkinteger(L, -1);
  lua_settop(L, 3);
  make_current(L);
  return 1;
}

/* core.pop(scope): back to the scope outside of it. */
static int core_pop(lua_State *L) {
  luaL_checkudata(L, 1, TD_LUA_SCOPE);
  td_lua_scope_push(L);
  if (!lua_rawequal(L, 1, -1))
    return td_lua_error(L, TD_FAILED_PRECONDITION,
                        "scopes must close in the order they opened, in the "
                        "coroutine that opened them");
  lua_getiuservalue(L, 1, TD_LUA_SCOPE_OUTER);
  make_current(L);
  return 0;
}

void td_lua_scope_save(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &scopes_key);
  lua_pushthread(L);
  lua_rawget(L, -2);
}

/* Another table: td.reset() or a new default graph came in between. */
void td_lua_scope_restore(lua_State *L, int at) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &scopes_key);
  if (lua_rawequal(L, -1, at)) {
    lua_pushthread(L);
    lua_pushvalue(L, at + 1);
    lua_rawset(L, -3);
  }
  lua_pop(L, 1);
}

/* core.scope(): what is in force, as a table. */
static int core_scope(lua_State *L) {
  td_lua_scope *s = td_lua_scope_push(L);
  int at = lua_gettop(L);
  lua_createtable(L, 0, 8);
  lua_getiuservalue(L, at, TD_LUA_SCOPE_GRAPH);
  lua_setfield(L, -2, "graph");
  td_lua_set_string(L, "prefix", s->prefix);
  td_lua_set_string(L, "device", s->device);
  td_lua_set_string(L, "container", s->container);
  td_lua_set_integer(L, "flow", s->flow);
  if (s->captures) {
    lua_getiuservalue(L, at, TD_LUA_SCOPE_CAPTURE);
    lua_setfield(L, -2, "capture");
  }
  lua_getiuservalue(L, at, TD_LUA_SCOPE_CONTROLS);
  lua_setfield(L, -2, "controls");
  return 1;
}

/* core.graph(): the graph of the current scope, quickly. */
static int core_graph(lua_State *L) {
  td_lua_scope_push(L);
  lua_getiuservalue(L, -1, TD_LUA_SCOPE_GRAPH);
  return 1;
}

/* core.set_default_graph(g): a new root scope for every coroutine. */
static int core_set_default(lua_State *L) {
  td_graph *g = td_lua_to_graph(L, 1);
  td_lua_scope *t = push_new(L);
  t->prefix = copy(L, "");
  t->device = copy(L, "");
  t->container = copy(L, "");
  t->origin = copy(L, "");
  t->graph = g;
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, TD_LUA_SCOPE_GRAPH);
  lua_newtable(L);
  lua_setiuservalue(L, -2, TD_LUA_SCOPE_CONTROLS);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &root_key);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &scopes_key);
  return 0;
}

TD_LUA_OPEN(scope) {
  static const luaL_Reg functions[] = {{"push", core_push},
                                       {"pop", core_pop},
                                       {"scope", core_scope},
                                       {"graph", core_graph},
                                       {"set_default_graph", core_set_default},
                                       {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  luaL_newmetatable(L, TD_LUA_SCOPE);
  lua_pushcfunction(L, scope_gc);
  lua_setfield(L, -2, "__gc");
  lua_pushcfunction(L, core_pop);
  lua_setfield(L, -2, "__close");
  lua_pop(L, 1);
}
