/* bind_session.c - sessions: making, closing and looking inside them. Running
 * comes as further methods.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/bind_session.h"

#include "lua/bind.h"
#include "lua/bind_far.h"
#include "lua/bind_field.h"
#include "lua/bind_handle.h"
#include "lua/bind_lua_op.h"

#define METHODS "tide.session.methods" /* in the registry */

typedef struct lua_session {
  td_session *s;
  td_lua_growth growth;
} lua_session;

td_session *td_lua_to_session(lua_State *L, int i) {
  lua_session *u = luaL_checkudata(L, i, TD_LUA_SESSION);
  if (!u->s) td_lua_error(L, TD_FAILED_PRECONDITION, "the session is closed");
  return u->s;
}

td_lua_growth *td_lua_session_growth(lua_State *L, int i) {
  return &((lua_session *)luaL_checkudata(L, i, TD_LUA_SESSION))->growth;
}

static int session_gc(lua_State *L) {
  lua_session *u = lua_touserdata(L, 1);
  if (u->s) td_session_end_loops(u->s);
  td_session_release(u->s);
  u->s = NULL;
  return 0;
}

static int int_option(lua_State *L, const char *key) {
  lua_Integer v = td_lua_integer(L, 2, key);
  if (v < 0 || v > 4096)
    td_lua_error(L, TD_INVALID_ARGUMENT, "%s must be 1 to 4096, not %lld", key,
                 (long long)v);
  return (int)v;
}

static int64_t bytes_option(lua_State *L, const char *key) {
  lua_Integer v = td_lua_integer(L, 2, key);
  if (v < 0)
    td_lua_error(L, TD_INVALID_ARGUMENT, "%s must be at least 1, not %lld", key,
                 (long long)v);
  return v;
}

static int no_pass(lua_State *L, const char *name) {
  luaL_Buffer known;
  luaL_buffinit(L, &known);
  for (int i = 0; td_plan_pass_name(i); i++) {
    if (i) luaL_addstring(&known, ", ");
    luaL_addstring(&known, td_plan_pass_name(i));
  }
  luaL_pushresult(&known);
  return td_lua_error(L, TD_INVALID_ARGUMENT, "no pass \"%s\"; there are %s",
                      name, lua_tostring(L, -1));
}

static unsigned passes_off(lua_State *L) {
  unsigned off = 0;
  if (lua_getfield(L, 2, "passes_off") == LUA_TTABLE) {
    lua_Integer n = luaL_len(L, -1);
    for (lua_Integer i = 1; i <= n; i++) {
      lua_rawgeti(L, -1, i);
      const char *name = td_lua_text(L, -1);
      unsigned bit = td_plan_pass_bit(name);
      if (!bit) no_pass(L, name);
      off |= bit;
      lua_pop(L, 1);
    }
  }
  lua_pop(L, 1);
  return off;
}

/* core.session(graph, {threads=, cpu_devices=, soft_placement=, passes_off=,
 * cache=, queued_bytes=, slow_link=, verify=, roundtrip=}) */
static int core_session(lua_State *L) {
  td_graph *g = td_lua_to_graph(L, 1);
  td_session_options o = {0};
  lua_settop(L, 2);
  if (lua_istable(L, 2)) {
    o.threads = int_option(L, "threads");
    o.cpu_devices = int_option(L, "cpu_devices");
    o.cache = int_option(L, "cache");
    o.queued_bytes = bytes_option(L, "queued_bytes");
    o.slow_link = td_lua_integer(L, 2, "slow_link");
    o.hard_placement = lua_getfield(L, 2, "soft_placement") == LUA_TBOOLEAN &&
                       !lua_toboolean(L, -1);
    lua_pop(L, 1);
    o.verify = td_lua_flag(L, 2, "verify");
    o.roundtrip = td_lua_flag(L, 2, "roundtrip");
    o.passes_off = passes_off(L);
  }
  lua_session *u = lua_newuserdatauv(L, sizeof *u, 1);
  u->s = NULL;
  td_lua_growth_begin(&u->growth, g);
  luaL_setmetatable(L, TD_LUA_SESSION);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  td_lua_check(L, td_session_new(td_lua_get(L)->runtime, g, &o, &u->s));
  return 1;
}

/* ---- looking inside ---- */

/* Another line may close the session while this one waits. */
static int session_why(lua_State *L) {
  td_str s;
  td_session *own = td_session_retain(td_lua_to_session(L, 1));
  td_lua_wait w;
  if (td_lua_far_ask(L, own, (td_far_question){.what = TD_FAR_WHY})) return 1;
  td_str_init(&s);
  td_lua_wait_begin(&w, L);
  td_session_why(own, &s);
  td_lua_wait_end(&w);
  td_session_release(own);
  td_lua_push_str(L, &s);
  return 1;
}

static int session_explain(lua_State *L) {
  td_str s;
  td_session *own = td_lua_to_session(L, 1);
  if (td_lua_far_ask(L, own, (td_far_question){.what = TD_FAR_EXPLAIN}))
    return 1;
  td_str_init(&s);
  td_session_explain_placement(own, &s);
  td_lua_push_str(L, &s);
  return 1;
}

/* The names of an answer. */
static int far_devices(lua_State *L) {
  td_bytes from = td_lua_far_bytes(L);
  uint64_t n = td_lua_far_number(L, &from, 4);
  lua_newtable(L);
  for (uint64_t i = 0; i < n; i++) {
    td_lua_far_text(L, &from);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* s:devices(): names of the devices that its next plan may use. */
static int session_devices(lua_State *L) {
  td_device **d;
  int n;
  td_far_question far = {.what = TD_FAR_DEVICES};
  if (td_lua_far_ask(L, td_lua_to_session(L, 1), far)) return far_devices(L);
  td_lua_check(L, td_session_list_devices(td_lua_to_session(L, 1), &d, &n));
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_pushstring(L, d[i]->name);
    lua_rawseti(L, -2, i + 1);
  }
  td_runtime_drop_devices(d, n);
  return 1;
}

/* s:core_reset(container or nil): workers are asked, and waited for. */
static int session_reset(lua_State *L) {
  td_session *s = td_lua_to_session(L, 1);
  const char *name = lua_isnoneornil(L, 2) ? NULL : td_lua_text(L, 2);
  td_far_question far = {.what = TD_FAR_RESET, .text = name};
  if (name && td_lua_far_ask(L, s, far)) return 0;
  td_lua_state *st = td_lua_get(L);
  td_session_retain(s);
  td_lua_unlock(st);
  td_status *status = td_session_reset(s, name);
  td_lua_lock(st);
  td_session_release(s);
  td_lua_check(L, status);
  return 0;
}

/* s:core_rename(name [, to]): nothing is done for a closed session. */
static int session_rename(lua_State *L) {
  lua_session *u = luaL_checkudata(L, 1, TD_LUA_SESSION);
  const char *to = lua_isnoneornil(L, 3) ? NULL : td_lua_text(L, 3);
  if (u->s) td_lua_check(L, td_session_rename(u->s, td_lua_text(L, 2), to));
  return 0;
}

/* s:core_sweep(): drops what nodes made for themselves that are gone. */
static int session_sweep(lua_State *L) {
  lua_session *u = luaL_checkudata(L, 1, TD_LUA_SESSION);
  if (u->s) td_lua_check(L, td_session_sweep(u->s));
  return 0;
}

/* s:core_save_states() -> bytes */
static int session_save_states(lua_State *L) {
  td_str s;
  td_str_init(&s);
  td_status *st = td_session_save_states(td_lua_to_session(L, 1), &s);
  if (!td_ok(st)) td_str_deinit(&s);
  td_lua_check(L, st);
  td_lua_push_str(L, &s);
  return 1;
}

/* s:core_load_states(bytes) -> names that wait, a line for each */
static int session_load_states(lua_State *L) {
  td_str s;
  td_bytes from;
  from.at = luaL_checklstring(L, 2, &from.len);
  td_str_init(&s);
  td_status *st = td_session_load_states(td_lua_to_session(L, 1), from, &s);
  if (!td_ok(st)) td_str_deinit(&s);
  td_lua_check(L, st);
  td_lua_push_str(L, &s);
  return 1;
}

/* Where it is kept it ends as well; who keeps it may be gone. */
static void end_far(td_session *s) {
  td_far_session *f = td_far_session_of(s);
  td_str out = {0};
  td_far_question q = {.what = TD_FAR_END};
  if (f) td_status_release(td_far_ask(f, &q, &out));
  td_str_deinit(&out);
}

static int let_go(lua_State *L, bool ends) {
  lua_session *u = luaL_checkudata(L, 1, TD_LUA_SESSION);
  td_lua_state *st = td_lua_get(L);
  if (!u->s) return 0;
  td_session *s = u->s;
  if (td_lua_runs_in(s))
    td_lua_error(L, TD_FAILED_PRECONDITION,
                 "a session cannot be closed by a function that one of its "
                 "steps runs");
  u->s = NULL;
  td_lua_unlock(st);
  if (ends) end_far(s);
  td_session_close(s);
  td_lua_lock(st);
  td_session_release(s);
  return 0;
}

static int session_close(lua_State *L) {
  return let_go(L, true);
}

/* s:core_leave(): one that was made to outlive its maker goes on. */
static int session_leave(lua_State *L) {
  return let_go(L, false);
}

static int session_stats(lua_State *L) {
  td_session_stats st = td_session_read_stats(td_lua_to_session(L, 1));
  lua_createtable(L, 0, 4);
  td_lua_set_integer(L, "steps", st.steps);
  td_lua_set_integer(L, "plans", st.plans);
  td_lua_set_integer(L, "evicted", st.evicted);
  td_lua_set_number(L, "plan_seconds", (double)st.plan_ns * 1e-9);
  return 1;
}

/* {signature = number of its last step that ended well} */
static int session_ran(lua_State *L) {
  td_session *s = td_lua_to_session(L, 1);
  size_t room = td_session_list_ran(s, NULL, 0);
  td_session_ran *list = lua_newuserdatauv(L, (room + 1) * sizeof *list, 0);
  size_t n = td_session_list_ran(s, list, room);
  if (n > room) n = room;
  lua_createtable(L, 0, (int)n);
  for (size_t i = 0; i < n; i++) {
    lua_pushinteger(L, list[i].last);
    lua_rawseti(L, -2, (lua_Integer)list[i].signature);
  }
  return 1;
}

static int session_graph(lua_State *L) {
  luaL_checkudata(L, 1, TD_LUA_SESSION);
  lua_getiuservalue(L, 1, 1);
  return 1;
}

/* Methods of the binding first, then the library's. */
static int session_index(lua_State *L) {
  const char *key = luaL_tolstring(L, 2, NULL);
  if (td_lua_method(L, TD_LUA_SESSION, 2)) return 1;
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  return td_lua_no_field(L, TD_LUA_SESSION, key, NULL);
}

void td_lua_session_methods(lua_State *L, const luaL_Reg *methods) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, METHODS);
  luaL_setfuncs(L, methods, 0);
  lua_pop(L, 1);
}

TD_LUA_OPEN(session) {
  static const luaL_Reg methods[] = {{"why", session_why},
                                     {"explain_placement", session_explain},
                                     {"devices", session_devices},
                                     {"core_reset", session_reset},
                                     {"core_rename", session_rename},
                                     {"core_sweep", session_sweep},
                                     {"close", session_close},
                                     {"core_leave", session_leave},
                                     {"stats", session_stats},
                                     {"core_ran", session_ran},
                                     {"core_save_states", session_save_states},
                                     {"core_load_states", session_load_states},
                                     {"core_graph", session_graph},
                                     {NULL, NULL}};
  lua_pushcfunction(L, core_session);
  lua_setfield(L, -2, "session");
  luaL_newmetatable(L, TD_LUA_SESSION);
  lua_pushcfunction(L, session_gc);
  lua_setfield(L, -2, "__gc");
  lua_pushcfunction(L, session_close);
  lua_setfield(L, -2, "__close");
  luaL_getsubtable(L, LUA_REGISTRYINDEX, METHODS);
  lua_pushcclosure(L, session_index, 1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  td_lua_session_methods(L, methods);
}
