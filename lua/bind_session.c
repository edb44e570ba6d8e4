/* bind_session.c - sessions, callables, handles and partial runs.
 *
 * The Lua library gives flat lists; structures are its business. The
 * interpreter's lock is released while a step runs, and Ctrl-C reaches the step
 * through the state's interrupt flag.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "engine/base/mem.h"
#include "lua/bind.h"

#define TD_LUA_CALLABLE "tide.callable"
#define TD_LUA_HANDLE "tide.handle"
#define TD_LUA_PARTIAL "tide.partial"

typedef struct lua_session {
  td_session *s;
} lua_session;

/* A compiled signature and what its results look like. */
typedef struct lua_callable {
  td_callable *c;
  td_dtype *dtypes; /* of the feeds */
  int n_feeds, n_fetches, n_results;
  int8_t *is_op; /* result i is an op: true */
} lua_callable;

typedef struct lua_handle {
  td_handle *h;
} lua_handle;

typedef struct lua_partial {
  td_partial *p;
  int n_feeds, n_fetches;
} lua_partial;

/* ---- reading signatures ---- */

/* Lists of edges and ops from Lua, split into fetches and targets. */
typedef struct lists {
  td_edge *feeds, *fetches;
  td_node **targets;
  int8_t *is_op;
  int n_feeds, n_fetches, n_targets, n_results;
} lists;

static void read_fetches(lua_State *L, int i, lists *l) {
  luaL_checktype(L, i, LUA_TTABLE);
  int n = (int)luaL_len(L, i);
  l->fetches = td_lua_block(L, (size_t)n, sizeof *l->fetches);
  l->targets = td_lua_block(L, (size_t)n, sizeof *l->targets);
  l->is_op = td_lua_block(L, (size_t)n, sizeof *l->is_op);
  l->n_results = n;
  for (int k = 0; k < n; k++) {
    lua_rawgeti(L, i, k + 1);
    td_lua_edge *e = td_lua_to_edge(L, -1), *op = td_lua_to_op(L, -1);
    if (!e && !op)
      td_lua_error(L, TD_INVALID_ARGUMENT,
                   "fetch %d must be a graph tensor or an op, not %s", k + 1,
                   luaL_typename(L, -1));
    if (e)
      l->fetches[l->n_fetches++] = (td_edge){e->node, e->port};
    else
      l->targets[l->n_targets++] = op->node;
    l->is_op[k] = op != NULL;
    lua_pop(L, 1);
  }
}

static void read_feeds(lua_State *L, int i, lists *l) {
  if (lua_isnoneornil(L, i)) return;
  luaL_checktype(L, i, LUA_TTABLE);
  int n = (int)luaL_len(L, i);
  l->feeds = td_lua_block(L, (size_t)n, sizeof *l->feeds);
  for (int k = 0; k < n; k++) {
    lua_rawgeti(L, i, k + 1);
    td_lua_edge *e = td_lua_to_edge(L, -1);
    if (!e)
      td_lua_error(L, TD_INVALID_ARGUMENT,
                   "feed %d must be a graph tensor, not %s", k + 1,
                   luaL_typename(L, -1));
    for (int j = 0; j < k; j++)
      if (l->feeds[j].node == e->node && l->feeds[j].port == e->port)
        td_lua_error(L, TD_INVALID_ARGUMENT, "\"%s:%d\" is fed twice",
                     e->node->name, (int)e->port);
    l->feeds[l->n_feeds++] = (td_edge){e->node, e->port};
    lua_pop(L, 1);
  }
}

static td_signature signature(const lists *l) {
  return (td_signature){.feeds = l->feeds,
                        .n_feeds = l->n_feeds,
                        .fetches = l->fetches,
                        .n_fetches = l->n_fetches,
                        .targets = l->targets,
                        .n_targets = l->n_targets};
}

/* ---- values in and out ---- */

/* The Lua value at `i` for a feed; the tensor stays on the Lua stack as a
 * value, so that an error leaks nothing. */
static const td_tensor *feed_value(lua_State *L, int i, td_edge e) {
  const td_tensor *v = td_lua_to_value(L, i);
  if (v) return v;
  if (td_lua_to_edge(L, i))
    td_lua_error(L, TD_INVALID_ARGUMENT,
                 "feed \"%s:%d\" is given a graph tensor; run it first and "
                 "feed its value",
                 e.node->name, (int)e.port);
  td_tensor t;
  td_status *s = td_lua_literal(L, i, td_edge_dtype(e), &t);
  if (!td_ok(s)) {
    td_status *full = td_error(td_status_code(s), "feed \"%s:%d\": %s",
                               e.node->name, (int)e.port, td_status_message(s));
    td_status_release(s);
    td_lua_check(L, td_node_blame(full, e.node));
  }
  td_lua_push_tensor(L, &t);
  lua_replace(L, i);
  return td_lua_to_value(L, i);
}

/* Pushes the results in the order asked for. */
static int push_results(lua_State *L, td_tensor *fetches, const int8_t *is_op,
                        int n, bool as_values) {
  int at = 0;
  luaL_checkstack(L, n + 8, "results");
  for (int k = 0; k < n; k++) {
    if (is_op[k]) {
      lua_pushboolean(L, 1);
    } else if (!td_lua_try_result(L, &fetches[at++], as_values)) {
      while (++k < n)
        if (!is_op[k]) td_tensor_release(&fetches[at++]);
      lua_error(L);
    }
  }
  return n;
}

static void print_out(void *arg, const char *text, size_t len) {
  fwrite(text, 1, len, arg);
  fflush(arg);
}

static td_run_options run_options(lua_State *L, int i, bool *as_values,
                                  bool *traced) {
  td_run_options o = {
      .interrupt = td_lua_interrupt(), .print = print_out, .print_arg = stderr};
  *as_values = *traced = false;
  if (!lua_istable(L, i)) return o;
  if (lua_getfield(L, i, "timeout") != LUA_TNIL) {
    double t = luaL_checknumber(L, -1);
    if (!(t > 0) || t > 1e9)
      td_lua_error(L, TD_INVALID_ARGUMENT,
                   "timeout must be a number of seconds > 0, not %g", t);
    o.timeout = (int64_t)(t * 1e9);
    if (o.timeout < 1) o.timeout = 1;
  }
  lua_getfield(L, i, "as_values");
  *as_values = lua_toboolean(L, -1);
  lua_getfield(L, i, "trace");
  *traced = lua_toboolean(L, -1);
  lua_getfield(L, i, "check_numerics");
  o.check_numerics = lua_toboolean(L, -1);
  lua_pop(L, lua_gettop(L) - i);
  return o;
}

/* ---- sessions ---- */

static td_session *to_session(lua_State *L, int i) {
  lua_session *u = luaL_checkudata(L, i, TD_LUA_SESSION);
  if (!u->s) td_lua_error(L, TD_FAILED_PRECONDITION, "the session is closed");
  return u->s;
}

static int session_gc(lua_State *L) {
  lua_session *u = lua_touserdata(L, 1);
  td_session_release(u->s);
  u->s = NULL;
  return 0;
}

static int int_option(lua_State *L, const char *key) {
  lua_getfield(L, 2, key);
  lua_Integer v = luaL_optinteger(L, -1, 0);
  lua_pop(L, 1);
  if (v < 0 || v > 4096)
    td_lua_error(L, TD_INVALID_ARGUMENT, "%s must be 1 to 4096, not %lld", key,
                 (long long)v);
  return (int)v;
}

static unsigned passes_off(lua_State *L) {
  unsigned off = 0;
  if (lua_getfield(L, 2, "passes_off") == LUA_TTABLE) {
    lua_Integer n = luaL_len(L, -1);
    for (lua_Integer i = 1; i <= n; i++) {
      lua_rawgeti(L, -1, i);
      const char *name = td_lua_text(L, -1);
      unsigned bit = td_pass_parse(name);
      if (!bit)
        td_lua_error(L, TD_INVALID_ARGUMENT,
                     "no pass \"%s\"; there are fold, cse, gate, schedule",
                     name);
      off |= bit;
      lua_pop(L, 1);
    }
  }
  lua_pop(L, 1);
  return off;
}

/* core.session(graph, {threads=, cpu_devices=, soft_placement=, passes_off=,
 * cache=, verify=, roundtrip=}) */
static int core_session(lua_State *L) {
  td_graph *g = td_lua_to_graph(L, 1);
  td_session_options o = {0};
  lua_settop(L, 2);
  if (lua_istable(L, 2)) {
    o.threads = int_option(L, "threads");
    o.cpu_devices = int_option(L, "cpu_devices");
    o.cache = int_option(L, "cache");
    o.hard_placement = lua_getfield(L, 2, "soft_placement") == LUA_TBOOLEAN &&
                       !lua_toboolean(L, -1);
    lua_getfield(L, 2, "verify");
    o.verify = lua_toboolean(L, -1);
    lua_getfield(L, 2, "roundtrip");
    o.roundtrip = lua_toboolean(L, -1);
    lua_pop(L, 3);
    o.passes_off = passes_off(L);
  }
  lua_session *u = lua_newuserdatauv(L, sizeof *u, 1);
  u->s = NULL;
  luaL_setmetatable(L, TD_LUA_SESSION);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  td_lua_check(L, td_session_new(td_lua_get(L)->runtime, g, &o, &u->s));
  return 1;
}

/* A finished trace as {events = list, totals = text, chrome = text}. */
static int make_trace_table(lua_State *L) {
  td_trace *t = lua_touserdata(L, 1);
  int64_t n;
  td_str s;
  lua_createtable(L, 0, 3);
  const td_trace_event *e = td_trace_events(t, &n);
  lua_createtable(L, (int)n, 0);
  for (int64_t i = 0; i < n; i++) {
    lua_createtable(L, 0, 8);
    lua_pushstring(L, e[i].node);
    lua_setfield(L, -2, "node");
    lua_pushstring(L, e[i].op);
    lua_setfield(L, -2, "op");
    lua_pushstring(L, e[i].device);
    lua_setfield(L, -2, "device");
    lua_pushinteger(L, e[i].start);
    lua_setfield(L, -2, "start");
    lua_pushinteger(L, e[i].end);
    lua_setfield(L, -2, "stop");
    lua_pushinteger(L, e[i].thread);
    lua_setfield(L, -2, "thread");
    lua_pushinteger(L, e[i].iteration);
    lua_setfield(L, -2, "iteration");
    lua_pushinteger(L, e[i].bytes);
    lua_setfield(L, -2, "bytes");
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "events");
  td_str_init(&s);
  td_trace_totals(t, &s);
  td_lua_push_str(L, &s);
  lua_setfield(L, -2, "totals");
  td_str_init(&s);
  td_trace_chrome(t, &s);
  td_lua_push_str(L, &s);
  lua_setfield(L, -2, "chrome");
  return 1;
}

/* Takes ownership of `t`. */
static void push_trace(lua_State *L, td_trace *t) {
  lua_pushcfunction(L, make_trace_table);
  lua_pushlightuserdata(L, t);
  int rc = lua_pcall(L, 1, 1, 0);
  td_trace_release(t);
  if (rc != LUA_OK) lua_error(L);
}

/* s:run(fetches, feed edges, feed values, options) -> list [, trace] */
static int session_run(lua_State *L) {
  td_session *s = to_session(L, 1);
  td_lua_state *st = td_lua_get(L);
  lists l = {0};
  bool as_values, traced;
  lua_settop(L, 5);
  td_run_options o = run_options(L, 5, &as_values, &traced);
  read_fetches(L, 2, &l);
  read_feeds(L, 3, &l);
  td_tensor *in = td_lua_block(L, (size_t)l.n_feeds, sizeof *in);
  td_tensor *out = td_lua_tensors(L, (size_t)l.n_fetches);
  luaL_checkstack(L, l.n_feeds + 16, "feeds");
  for (int k = 0; k < l.n_feeds; k++) {
    lua_rawgeti(L, 4, k + 1);
    in[k] = *feed_value(L, lua_gettop(L), l.feeds[k]);
  }
  if (traced) td_lua_check(L, td_trace_new(&o.trace));
  td_signature sig = signature(&l);
  td_lua_unlock(st);
  td_status *e = td_session_run(s, &sig, in, out, &o);
  td_lua_lock(st);
  if (!td_ok(e)) td_trace_release(o.trace);
  td_lua_check_step(L, e);
  if (traced) push_trace(L, o.trace);
  lua_createtable(L, l.n_results, 0);
  int list = lua_gettop(L);
  for (int k = 0, at = 0; k < l.n_results; k++) {
    if (l.is_op[k])
      lua_pushboolean(L, 1);
    else
      td_lua_push_result(L, &out[at++], as_values);
    lua_rawseti(L, list, k + 1);
  }
  if (!traced) return 1;
  lua_pushvalue(L, list - 1);
  return 2;
}

/* A plan as {{device =, graph =}, ..., folded =, merged =, pruned =}. */
static int make_plan_table(lua_State *L) {
  const td_plan *p = lua_touserdata(L, 1);
  lua_createtable(L, p->n_parts, 3);
  for (int i = 0; i < p->n_parts; i++) {
    const td_device *d = p->parts[i].device;
    lua_createtable(L, 0, 2);
    lua_pushfstring(L, "%s:%d", d->type, (int)d->index);
    lua_setfield(L, -2, "device");
    td_lua_push_graph(L, td_graph_retain(p->parts[i].graph));
    lua_setfield(L, -2, "graph");
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushinteger(L, p->folded);
  lua_setfield(L, -2, "folded");
  lua_pushinteger(L, p->merged);
  lua_setfield(L, -2, "merged");
  lua_pushinteger(L, p->pruned);
  lua_setfield(L, -2, "pruned");
  return 1;
}

/* s:core_program(fetches, feed edges) -> the plan of such a step */
static int session_program(lua_State *L) {
  td_session *s = to_session(L, 1);
  lists l = {0};
  td_plan *plan = NULL;
  lua_settop(L, 3);
  read_fetches(L, 2, &l);
  read_feeds(L, 3, &l);
  td_signature sig = signature(&l);
  td_lua_check(L, td_session_plan(s, &sig, &plan));
  lua_pushcfunction(L, make_plan_table);
  lua_pushlightuserdata(L, plan);
  int rc = lua_pcall(L, 1, 1, 0);
  td_plan_free(plan);
  return rc == LUA_OK ? 1 : lua_error(L);
}

/* ---- callables ---- */

static int callable_gc(lua_State *L) {
  lua_callable *c = lua_touserdata(L, 1);
  td_callable_release(c->c);
  c->c = NULL;
  return 0;
}

static void wrong_count(lua_State *L, const lua_callable *c, int given) {
  td_lua_error(L, TD_INVALID_ARGUMENT,
               "this callable takes %d values, %d given", c->n_feeds, given);
}

/* Numbers to scalars without a table walk. */
static bool quick_scalar(lua_State *L, int i, td_dtype t, td_tensor *out) {
  if (lua_type(L, i) != LUA_TNUMBER || (t != TD_FLOAT32 && t != TD_FLOAT64))
    return false;
  td_status *s = td_tensor_scalar_f(t, lua_tonumber(L, i), out);
  td_lua_check(L, s);
  return true;
}

static void read_arguments(lua_State *L, lua_callable *c, td_tensor *in,
                           const td_edge *edges) {
  for (int k = 0; k < c->n_feeds; k++) {
    td_tensor t;
    if (quick_scalar(L, k + 1, c->dtypes[k], &t)) {
      td_lua_push_tensor(L, &t);
      lua_replace(L, k + 1);
    }
    in[k] = *feed_value(L, k + 1, edges[k]);
  }
}

static int call_callable(lua_State *L) {
  lua_callable *c = lua_touserdata(L, lua_upvalueindex(1));
  td_lua_state *st = lua_touserdata(L, lua_upvalueindex(2));
  int given = lua_gettop(L);
  if (given != c->n_feeds) wrong_count(L, c, given);
  td_tensor few_in[8], few_out[8], *in = few_in, *out = few_out;
  if (c->n_feeds > 8) in = td_lua_block(L, (size_t)c->n_feeds, sizeof *in);
  if (c->n_fetches > 8) out = td_lua_tensors(L, (size_t)c->n_fetches);
  if (c->n_feeds) {
    lua_getiuservalue(L, lua_upvalueindex(1), 2);
    const td_edge *edges = lua_touserdata(L, -1);
    read_arguments(L, c, in, edges);
  }
  td_run_options o = {
      .interrupt = td_lua_interrupt(), .print = print_out, .print_arg = stderr};
  td_lua_unlock(st);
  td_status *s = td_callable_run(c->c, in, out, &o);
  td_lua_lock(st);
  if (TD_UNLIKELY(!td_ok(s))) td_lua_check_step(L, s);
  return push_results(L, out, c->is_op, c->n_results, false);
}

/* Makes the userdata; user values: 1 the session, 2 feed edges, 3 flags. */
static lua_callable *push_callable(lua_State *L, lists *l) {
  td_session *s = to_session(L, 1);
  lua_callable *c = lua_newuserdatauv(L, sizeof *c, 4);
  memset(c, 0, sizeof *c);
  luaL_setmetatable(L, TD_LUA_CALLABLE);
  int at = lua_gettop(L);
  c->n_feeds = l->n_feeds;
  c->n_fetches = l->n_fetches;
  c->n_results = l->n_results;
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, at, 1);
  td_edge *edges = td_lua_block(L, (size_t)l->n_feeds, sizeof *edges);
  if (l->n_feeds) memcpy(edges, l->feeds, (size_t)l->n_feeds * sizeof *edges);
  lua_setiuservalue(L, at, 2);
  c->is_op = td_lua_block(L, (size_t)l->n_results, sizeof *c->is_op);
  if (l->n_results) memcpy(c->is_op, l->is_op, (size_t)l->n_results);
  lua_setiuservalue(L, at, 3);
  c->dtypes = td_lua_block(L, (size_t)l->n_feeds, sizeof *c->dtypes);
  for (int k = 0; k < l->n_feeds; k++)
    c->dtypes[k] = td_edge_dtype(l->feeds[k]);
  lua_setiuservalue(L, at, 4);
  td_signature sig = signature(l);
  td_lua_check(L, td_callable_new(s, &sig, &c->c));
  return c;
}

/* s:callable(fetches, feeds) -> function(values...) -> results */
static int session_callable(lua_State *L) {
  lists l = {0};
  to_session(L, 1);
  read_fetches(L, 2, &l);
  read_feeds(L, 3, &l);
  push_callable(L, &l);
  lua_pushlightuserdata(L, td_lua_get(L));
  lua_pushcclosure(L, call_callable, 2);
  return 1;
}

/* ---- handles ---- */

static int handle_gc(lua_State *L) {
  lua_handle *h = lua_touserdata(L, 1);
  td_handle_release(h->h);
  h->h = NULL;
  return 0;
}

/* User value 1 is the callable. */
static lua_handle *push_handle(lua_State *L, int callable) {
  lua_handle *h = lua_newuserdatauv(L, sizeof *h, 1);
  h->h = NULL;
  luaL_setmetatable(L, TD_LUA_HANDLE);
  lua_pushvalue(L, callable);
  lua_setiuservalue(L, -2, 1);
  return h;
}

/* s:start(fetches, feed edges, feed values, options) */
static int session_start(lua_State *L) {
  lists l = {0};
  bool as_values, traced;
  lua_settop(L, 5);
  to_session(L, 1);
  td_run_options o = run_options(L, 5, &as_values, &traced);
  o.interrupt = NULL;
  read_fetches(L, 2, &l);
  read_feeds(L, 3, &l);
  td_tensor *in = td_lua_block(L, (size_t)l.n_feeds, sizeof *in);
  luaL_checkstack(L, l.n_feeds + 16, "feeds");
  for (int k = 0; k < l.n_feeds; k++) {
    lua_rawgeti(L, 4, k + 1);
    in[k] = *feed_value(L, lua_gettop(L), l.feeds[k]);
  }
  lua_callable *c = push_callable(L, &l);
  lua_handle *h = push_handle(L, lua_gettop(L));
  td_lua_check(L, td_callable_start(c->c, in, &o, &h->h));
  return 1;
}

/* s:loop(fetches, threads, steps) */
static int session_loop(lua_State *L) {
  lists l = {0};
  to_session(L, 1);
  lua_Integer threads = luaL_optinteger(L, 3, 1);
  int64_t steps = luaL_optinteger(L, 4, -1);
  if (steps < 0 && !lua_isnoneornil(L, 4))
    td_lua_error(L, TD_INVALID_ARGUMENT,
                 "steps must be 0 or more, or nothing for no end; given %lld",
                 (long long)steps);
  int crew = threads < 0 ? -1 : threads > INT_MAX ? INT_MAX : (int)threads;
  read_fetches(L, 2, &l);
  lua_callable *c = push_callable(L, &l);
  lua_handle *h = push_handle(L, lua_gettop(L));
  td_lua_check(L, td_callable_loop(c->c, crew, steps, &h->h));
  return 1;
}

static lua_handle *to_handle(lua_State *L) {
  return luaL_checkudata(L, 1, TD_LUA_HANDLE);
}

static int64_t wait_time(lua_State *L, int i) {
  if (lua_type(L, i) != LUA_TNUMBER || !(lua_tonumber(L, i) >= 0))
    td_lua_error(L, TD_INVALID_ARGUMENT,
                 "wait takes a number of seconds >= 0, or nothing for no end; "
                 "given %s",
                 luaL_tolstring(L, i, NULL));
  double seconds = lua_tonumber(L, i);
  return seconds > 1e9 ? -1 : (int64_t)(seconds * 1e9);
}

/* h:wait([seconds]) -> results one by one; raises DEADLINE_EXCEEDED */
static int handle_wait(lua_State *L) {
  lua_handle *h = to_handle(L);
  td_lua_state *st = td_lua_get(L);
  int64_t timeout = lua_isnoneornil(L, 2) ? -1 : wait_time(L, 2);
  lua_getiuservalue(L, 1, 1);
  lua_callable *c = lua_touserdata(L, -1);
  td_tensor *out = td_lua_tensors(L, (size_t)c->n_fetches);
  td_lua_unlock(st);
  td_status *s = td_handle_wait(h->h, timeout, out, td_lua_interrupt());
  td_lua_lock(st);
  td_lua_check_step(L, s);
  for (int k = 0; k < c->n_fetches; k++)
    if (!td_tensor_valid(&out[k])) return 0;
  return push_results(L, out, c->is_op, c->n_results, false);
}

static int handle_done(lua_State *L) {
  lua_pushboolean(L, td_handle_done(to_handle(L)->h));
  return 1;
}

static int handle_cancel(lua_State *L) {
  td_handle_cancel(to_handle(L)->h);
  return 0;
}

static int handle_steps(lua_State *L) {
  lua_pushinteger(L, td_handle_steps(to_handle(L)->h));
  return 1;
}

/* ---- partial runs ---- */

static int partial_gc(lua_State *L) {
  lua_partial *p = lua_touserdata(L, 1);
  td_partial_release(p->p);
  p->p = NULL;
  return 0;
}

/* s:partial(fetches, feeds) */
static int session_partial(lua_State *L) {
  td_session *s = to_session(L, 1);
  lists l = {0};
  read_fetches(L, 2, &l);
  read_feeds(L, 3, &l);
  lua_partial *p = lua_newuserdatauv(L, sizeof *p, 2);
  memset(p, 0, sizeof *p);
  luaL_setmetatable(L, TD_LUA_PARTIAL);
  int at = lua_gettop(L);
  td_edge *edges = td_lua_block(L, (size_t)l.n_feeds, sizeof *edges);
  if (l.n_feeds) memcpy(edges, l.feeds, (size_t)l.n_feeds * sizeof *edges);
  lua_setiuservalue(L, at, 1);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, at, 2);
  p->n_feeds = l.n_feeds;
  p->n_fetches = l.n_fetches;
  td_signature sig = signature(&l);
  td_lua_check(L, td_partial_new(s, &sig, &p->p));
  return 1;
}

/* p:run({fetch indices}, {feed indices}, {feed values}, options): indices count
 * from 1 in the lists of session:partial; ops are not counted. */
static int partial_run(lua_State *L) {
  lua_partial *p = luaL_checkudata(L, 1, TD_LUA_PARTIAL);
  td_lua_state *st = td_lua_get(L);
  bool as_values, traced;
  lua_settop(L, 5);
  td_run_options o = run_options(L, 5, &as_values, &traced);
  int n_fetch = (int)luaL_len(L, 2), n_feed = (int)luaL_len(L, 3);
  int *fetch = td_lua_block(L, (size_t)n_fetch, sizeof *fetch);
  int *feed = td_lua_block(L, (size_t)n_feed, sizeof *feed);
  td_tensor *in = td_lua_block(L, (size_t)n_feed, sizeof *in);
  td_tensor *out = td_lua_tensors(L, (size_t)n_fetch);
  lua_getiuservalue(L, 1, 1);
  const td_edge *edges = lua_touserdata(L, -1);
  luaL_checkstack(L, n_feed + 16, "feeds");
  for (int k = 0; k < n_feed; k++) {
    lua_rawgeti(L, 3, k + 1);
    lua_Integer i = luaL_checkinteger(L, -1);
    luaL_argcheck(L, i >= 1 && i <= p->n_feeds, 3, "no such feed");
    lua_pop(L, 1);
    feed[k] = (int)i - 1;
    lua_rawgeti(L, 4, k + 1);
    in[k] = *feed_value(L, lua_gettop(L), edges[i - 1]);
  }
  for (int k = 0; k < n_fetch; k++) {
    lua_rawgeti(L, 2, k + 1);
    fetch[k] = (int)luaL_checkinteger(L, -1) - 1;
    lua_pop(L, 1);
  }
  td_lua_unlock(st);
  td_status *s =
      td_partial_run(p->p, feed, in, n_feed, fetch, out, n_fetch, &o);
  td_lua_lock(st);
  td_lua_check_step(L, s);
  lua_createtable(L, n_fetch, 0);
  int list = lua_gettop(L);
  for (int k = 0; k < n_fetch; k++) {
    td_lua_push_result(L, &out[k], as_values);
    lua_rawseti(L, list, k + 1);
  }
  return 1;
}

/* ---- looking inside ---- */

static int push_text(lua_State *L, td_str *s) {
  td_lua_push_str(L, s);
  return 1;
}

static int session_why(lua_State *L) {
  td_str s;
  td_session *own = to_session(L, 1);
  td_str_init(&s);
  td_session_why(own, &s);
  return push_text(L, &s);
}

static int session_explain(lua_State *L) {
  td_str s;
  td_session *own = to_session(L, 1);
  td_str_init(&s);
  td_session_explain_placement(own, &s);
  return push_text(L, &s);
}

static int session_reset(lua_State *L) {
  td_session_reset(to_session(L, 1),
                   lua_isnoneornil(L, 2) ? NULL : td_lua_text(L, 2));
  return 0;
}

/* s:core_rename(name [, to]): nothing is done for a closed session. */
static int session_rename(lua_State *L) {
  lua_session *u = luaL_checkudata(L, 1, TD_LUA_SESSION);
  const char *to = lua_isnoneornil(L, 3) ? NULL : td_lua_text(L, 3);
  if (u->s) td_lua_check(L, td_session_rename(u->s, td_lua_text(L, 2), to));
  return 0;
}

static int session_close(lua_State *L) {
  lua_session *u = luaL_checkudata(L, 1, TD_LUA_SESSION);
  td_lua_state *st = td_lua_get(L);
  if (!u->s) return 0;
  td_session *s = u->s;
  u->s = NULL;
  td_lua_unlock(st);
  td_session_close(s);
  td_lua_lock(st);
  td_session_release(s);
  return 0;
}

static int session_stats(lua_State *L) {
  td_session_stats st = td_session_read_stats(to_session(L, 1));
  lua_createtable(L, 0, 4);
  lua_pushinteger(L, st.steps);
  lua_setfield(L, -2, "steps");
  lua_pushinteger(L, st.plans);
  lua_setfield(L, -2, "plans");
  lua_pushinteger(L, st.evicted);
  lua_setfield(L, -2, "evicted");
  lua_pushnumber(L, (double)st.plan_ns * 1e-9);
  lua_setfield(L, -2, "plan_seconds");
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

static void make_class(lua_State *L, const char *name, lua_CFunction gc,
                       const luaL_Reg *methods) {
  luaL_newmetatable(L, name);
  lua_pushcfunction(L, gc);
  lua_setfield(L, -2, "__gc");
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}

void td_lua_open_session(lua_State *L) {
  static const luaL_Reg methods[] = {{"core_run", session_run},
                                     {"core_callable", session_callable},
                                     {"core_start", session_start},
                                     {"core_loop", session_loop},
                                     {"core_partial", session_partial},
                                     {"why", session_why},
                                     {"explain_placement", session_explain},
                                     {"core_program", session_program},
                                     {"core_reset", session_reset},
                                     {"core_rename", session_rename},
                                     {"close", session_close},
                                     {"stats", session_stats},
                                     {"core_graph", session_graph},
                                     {NULL, NULL}};
  static const luaL_Reg handle[] = {{"wait", handle_wait},
                                    {"done", handle_done},
                                    {"cancel", handle_cancel},
                                    {"steps", handle_steps},
                                    {NULL, NULL}};
  static const luaL_Reg partial[] = {{"core_run", partial_run}, {NULL, NULL}};
  static const luaL_Reg none[] = {{NULL, NULL}};
  lua_pushcfunction(L, core_session);
  lua_setfield(L, -2, "session");
  luaL_newmetatable(L, TD_LUA_SESSION);
  lua_pushcfunction(L, session_gc);
  lua_setfield(L, -2, "__gc");
  lua_pushcfunction(L, session_close);
  lua_setfield(L, -2, "__close");
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  lua_pushcclosure(L, session_index, 1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  make_class(L, TD_LUA_CALLABLE, callable_gc, none);
  make_class(L, TD_LUA_HANDLE, handle_gc, handle);
  make_class(L, TD_LUA_PARTIAL, partial_gc, partial);
}
