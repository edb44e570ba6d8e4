/* bind_callable.c - what holds a signature for more steps than one: callables,
 * handles of steps that run on, partial runs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <string.h>

#include "engine/run/async.h"
#include "engine/run/loop.h"
#include "engine/run/partial.h"
#include "lua/bind.h"
#include "lua/bind_far.h"
#include "lua/bind_lua_op.h"
#include "lua/bind_session.h"
#include "lua/bind_step.h"
#include "lua/bind_tensor.h"

#define CALLABLE "tide.callable"
#define HANDLE "tide.handle"
#define PARTIAL "tide.partial"
#define FAILED "tide.failed" /* in the registry: see session.on_failure */

/* A compiled signature and what its results look like. */
typedef struct lua_callable {
  td_callable *c;
  td_lua_growth *growth; /* the session's */
  td_dtype *dtypes;      /* of the feeds */
  int n_feeds, n_fetches, n_results;
  int8_t *is_op; /* result i is an op: true */
} lua_callable;

/* One of them. */
typedef struct lua_handle {
  td_async *step;
  td_loop *loop;
  td_far_loop *far; /* where the session's master is elsewhere */
} lua_handle;

typedef struct lua_partial {
  td_partial *p;
  int n_feeds, n_fetches;
} lua_partial;

/* ---- callables ---- */

static int callable_gc(lua_State *L) {
  lua_callable *c = lua_touserdata(L, 1);
  td_callable_release(c->c);
  c->c = NULL;
  return 0;
}

static void wrong_count(lua_State *L, const lua_callable *c, int given) {
  td_lua_error(L, TD_INVALID_ARGUMENT,
               "this callable takes %d value%s, %d given", c->n_feeds,
               c->n_feeds == 1 ? "" : "s", given);
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
    in[k] = *td_lua_step_value(L, k + 1, edges[k]);
  }
}

/* (key, values...) -> what a console adds to the error of that step, or nil:
 * which cell made the node, say. A step's *key* is any Lua value that the
 * library gave along, so that session.on_failure's function finds what it knows
 * of the step. */
static int ask_about(lua_State *L) {
  int n = lua_gettop(L);
  if (lua_getfield(L, LUA_REGISTRYINDEX, FAILED) != LUA_TFUNCTION) return 0;
  lua_insert(L, 1);
  lua_call(L, n, 1);
  return 1;
}

/* Raises `s`, the error of the step whose key is at `key`, which was given the
 * first `given` values of the stack. Of an interrupt nothing is asked: more Lua
 * code would only be interrupted too. */
static void fail_step(lua_State *L, int key, int given, td_status *s) {
  if (td_status_code(s) == TD_CANCELLED) td_lua_check_step(L, s);
  luaL_checkstack(L, given + 8, NULL);
  lua_pushcfunction(L, ask_about);
  lua_pushvalue(L, key);
  for (int i = 1; i <= given; i++) lua_pushvalue(L, i);
  if (lua_pcall(L, given + 1, 1, 0) == LUA_OK &&
      lua_type(L, -1) == LUA_TSTRING) {
    td_status *full = td_error(td_status_code(s), "%s; %s",
                               td_status_message(s), lua_tostring(L, -1));
    td_status_release(s);
    s = full;
  }
  td_lua_check_step(L, s);
}

/* The same, with the key in user value `n` of the first argument. */
static void fail_keyed(lua_State *L, int n, td_status *s) {
  lua_getiuservalue(L, 1, n);
  fail_step(L, lua_gettop(L), 0, s);
}

static int call_callable(lua_State *L) {
  lua_callable *c = lua_touserdata(L, lua_upvalueindex(1));
  td_lua_wait w;
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
  td_step_options o = td_lua_step_defaults();
  td_lua_growth_look(L, c->growth);
  td_lua_wait_begin(&w, L);
  td_status *s = td_callable_run(c->c, in, out, &o);
  td_lua_wait_end(&w);
  if (TD_UNLIKELY(!td_ok(s))) fail_step(L, lua_upvalueindex(1), given, s);
  return td_lua_step_results(L, out, c->is_op, c->n_results);
}

/* What is wrong with a signature is said when it is made, wherever that is. */
static void wait_until_ready(lua_State *L, td_callable *c) {
  td_lua_state *st = td_lua_get(L);
  td_lua_unlock(st);
  td_status *s = td_far_ready(c, td_lua_interrupt());
  td_lua_lock(st);
  td_lua_check_step(L, s);
}

/* Makes the userdata; user values: 1 the session, 2 feed edges, 3
 * is_op, 4 dtypes. */
static lua_callable *push_callable(lua_State *L, const td_lua_step *step) {
  td_session *s = td_lua_to_session(L, 1);
  lua_callable *c = lua_newuserdatauv(L, sizeof *c, 4);
  memset(c, 0, sizeof *c);
  c->growth = td_lua_session_growth(L, 1);
  luaL_setmetatable(L, CALLABLE);
  int at = lua_gettop(L);
  c->n_feeds = step->n_feeds;
  c->n_fetches = step->n_fetches;
  c->n_results = step->n_results;
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, at, 1);
  td_lua_step_keep_feeds(L, step);
  lua_setiuservalue(L, at, 2);
  c->is_op = td_lua_block(L, (size_t)step->n_results, sizeof *c->is_op);
  if (step->n_results) memcpy(c->is_op, step->is_op, (size_t)step->n_results);
  lua_setiuservalue(L, at, 3);
  c->dtypes = td_lua_block(L, (size_t)step->n_feeds, sizeof *c->dtypes);
  for (int k = 0; k < step->n_feeds; k++)
    c->dtypes[k] = td_edge_dtype(step->feeds[k]);
  lua_setiuservalue(L, at, 4);
  td_signature sig = td_lua_step_signature(step);
  td_lua_check(L, td_callable_new(s, &sig, &c->c));
  if (td_far_session_of(s)) wait_until_ready(L, c->c);
  return c;
}

/* s:core_callable(fetches, feed edges) -> function(values...) -> results; and
 * its key, the callable's userdata */
static int session_callable(lua_State *L) {
  td_lua_step step;
  td_lua_to_session(L, 1);
  td_lua_step_read(L, 2, 3, &step);
  push_callable(L, &step);
  lua_pushvalue(L, -1);
  lua_pushcclosure(L, call_callable, 1);
  lua_insert(L, -2);
  return 2;
}

/* ---- handles ---- */

static int handle_gc(lua_State *L) {
  lua_handle *h = lua_touserdata(L, 1);
  td_async_release(h->step);
  td_loop_release(h->loop);
  td_far_loop_release(h->far);
  *h = (lua_handle){NULL, NULL, NULL};
  return 0;
}

/* User values: 1 what it keeps (a step's callable, a loop's session), 2 the
 * key. */
static lua_handle *push_handle(lua_State *L, int keeps, int key) {
  lua_handle *h = lua_newuserdatauv(L, sizeof *h, 2);
  *h = (lua_handle){NULL, NULL, NULL};
  luaL_setmetatable(L, HANDLE);
  lua_pushvalue(L, keeps);
  lua_setiuservalue(L, -2, 1);
  if (key) {
    lua_pushvalue(L, key);
    lua_setiuservalue(L, -2, 2);
  }
  return h;
}

/* s:core_start(fetches, feed edges, feed values, key, options) -> handle */
static int session_start(lua_State *L) {
  td_lua_step step;
  lua_settop(L, 6);
  td_lua_to_session(L, 1);
  td_step_options o = td_lua_step_read_options(L, 6).run;
  o.interrupt = NULL;
  o.queued = true;
  td_lua_step_read(L, 2, 3, &step);
  td_tensor *in = td_lua_step_values(L, 4, &step);
  td_lua_growth_look(L, td_lua_session_growth(L, 1));
  lua_callable *c = push_callable(L, &step);
  lua_handle *h = push_handle(L, lua_gettop(L), 5);
  td_status *s = td_async_start(c->c, in, &o, &h->step);
  if (TD_UNLIKELY(td_status_code(s) == TD_RESOURCE_EXHAUSTED)) {
    td_status_release(s); /* handles that nobody has hold results, too */
    lua_gc(L, LUA_GCCOLLECT);
    s = td_async_start(c->c, in, &o, &h->step);
  }
  td_lua_check(L, s);
  return 1;
}

static lua_handle *to_handle(lua_State *L) {
  return luaL_checkudata(L, 1, HANDLE);
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

static int loop_wait(lua_State *L, td_loop *l, int64_t timeout) {
  td_lua_state *st = td_lua_get(L);
  td_lua_unlock(st);
  td_status *s = td_loop_wait(l, timeout, td_lua_interrupt());
  td_lua_lock(st);
  if (!td_ok(s)) fail_keyed(L, 2, s);
  return 0;
}

static int step_wait(lua_State *L, td_async *a, int64_t timeout) {
  td_lua_wait w;
  lua_getiuservalue(L, 1, 1);
  lua_callable *c = lua_touserdata(L, -1);
  td_tensor *out = td_lua_tensors(L, (size_t)c->n_fetches);
  td_lua_wait_begin(&w, L);
  td_status *s = td_async_wait(a, timeout, out, td_lua_interrupt());
  td_lua_wait_end(&w);
  if (!td_ok(s)) fail_keyed(L, 2, s);
  for (int k = 0; k < c->n_fetches; k++)
    if (!td_tensor_valid(&out[k])) return 0;
  return td_lua_step_results(L, out, c->is_op, c->n_results);
}

static int far_wait(lua_State *L, td_far_loop *l, int64_t timeout) {
  td_lua_state *st = td_lua_get(L);
  td_lua_unlock(st);
  td_status *s = td_far_loop_wait(l, timeout, td_lua_interrupt());
  td_lua_lock(st);
  if (!td_ok(s)) fail_keyed(L, 2, s);
  return 0;
}

/* What is known of a loop there, without its error. */
static td_far_loop_now far_look(lua_State *L, td_far_loop *l) {
  td_lua_state *st = td_lua_get(L);
  td_far_loop_now now;
  td_lua_unlock(st);
  td_status *s = td_far_loop_look(l, td_lua_interrupt(), &now);
  td_lua_lock(st);
  td_lua_check_step(L, s);
  td_status_release(now.error);
  now.error = NULL;
  return now;
}

static void far_cancel(lua_State *L, td_far_loop *l) {
  td_lua_state *st = td_lua_get(L);
  td_lua_unlock(st);
  td_status *s = td_far_loop_cancel(l);
  td_lua_lock(st);
  td_lua_check_step(L, s);
}

/* h:wait([seconds]) -> results one by one; raises DEADLINE_EXCEEDED */
static int handle_wait(lua_State *L) {
  lua_handle *h = to_handle(L);
  int64_t timeout = lua_isnoneornil(L, 2) ? -1 : wait_time(L, 2);
  if (h->far) return far_wait(L, h->far, timeout);
  return h->loop ? loop_wait(L, h->loop, timeout)
                 : step_wait(L, h->step, timeout);
}

static int handle_done(lua_State *L) {
  lua_handle *h = to_handle(L);
  lua_pushboolean(L, h->far    ? far_look(L, h->far).over
                     : h->loop ? td_loop_over(h->loop)
                               : td_async_done(h->step));
  return 1;
}

static int handle_cancel(lua_State *L) {
  lua_handle *h = to_handle(L);
  if (h->far)
    far_cancel(L, h->far);
  else if (h->loop)
    td_loop_cancel(h->loop);
  else
    td_async_cancel(h->step);
  return 0;
}

static int handle_steps(lua_State *L) {
  lua_handle *h = to_handle(L);
  lua_pushinteger(L, h->far    ? far_look(L, h->far).steps
                     : h->loop ? td_loop_steps(h->loop)
                               : td_async_done(h->step));
  return 1;
}

/* core.failed_at(handle) -> seconds, by which errors of loops can be put in
 * order */
static int failed_at(lua_State *L) {
  lua_handle *h = to_handle(L);
  int64_t when = h->far    ? far_look(L, h->far).failed
                 : h->loop ? td_loop_failed(h->loop)
                           : 0;
  if (when == 0) return 0;
  lua_pushnumber(L, (double)when * 1e-9);
  return 1;
}

/* ---- loops ---- */

static int int_field(lua_State *L, int i, const char *name, int least,
                     int absent) {
  lua_getfield(L, i, name);
  lua_Integer v = luaL_optinteger(L, -1, absent);
  if (v < least && !lua_isnil(L, -1))
    td_lua_error(L, TD_INVALID_ARGUMENT, "%s must be %d or more, not %lld",
                 name, least, (long long)v);
  lua_pop(L, 1);
  return v > INT_MAX ? INT_MAX : (int)v;
}

/* What options.log asks for: the callable of the steps that are logged stays on
 * the stack, its names, and the list of them. */
static void read_log(lua_State *L, int i, td_loop_options *o) {
  if (lua_getfield(L, i, "names") == LUA_TNIL) return;
  int names = lua_gettop(L);
  o->n_log = (int)luaL_len(L, names);
  const char **name = td_lua_block(L, (size_t)o->n_log, sizeof *name);
  for (int k = 0; k < o->n_log; k++) {
    lua_rawgeti(L, names, k + 1);
    name[k] = lua_tostring(L, -1); /* the list keeps it */
    lua_pop(L, 1);
  }
  o->names = name;
  td_lua_step step;
  lua_getfield(L, i, "logged");
  td_lua_step_read(L, lua_gettop(L), 0, &step);
  o->log = push_callable(L, &step)->c;
}

/* The callable of the fetches and feeds of options[fetches], options[feeds],
 * which stays on the stack; NULL without. */
static td_callable *read_last(lua_State *L, int i, const char *fetches,
                              const char *feeds) {
  td_lua_step step;
  if (lua_getfield(L, i, fetches) == LUA_TNIL) return NULL;
  lua_getfield(L, i, feeds);
  td_lua_step_read(L, lua_gettop(L) - 1, lua_gettop(L), &step);
  return push_callable(L, &step)->c;
}

/* options.more: lists of fetches, each a step. */
static void read_more(lua_State *L, int i, td_loop_options *o) {
  if (lua_getfield(L, i, "more") == LUA_TNIL) return;
  int list = lua_gettop(L);
  o->n_more = (int)luaL_len(L, list);
  td_callable **more = td_lua_block(L, (size_t)o->n_more, sizeof *more);
  luaL_checkstack(L, 8 * o->n_more + 16, "more");
  for (int k = 0; k < o->n_more; k++) {
    td_lua_step step;
    lua_rawgeti(L, list, k + 1);
    td_lua_step_read(L, lua_gettop(L), 0, &step);
    more[k] = push_callable(L, &step)->c;
  }
  o->more = more;
}

static void start_loop(lua_State *L, const lua_callable *c,
                       const td_loop_options *o, lua_handle *h) {
  td_far_session *f = td_far_session_of(td_lua_to_session(L, 1));
  td_lua_state *st = td_lua_get(L);
  if (!f) {
    td_lua_check(L, td_loop_start(c->c, o, &h->loop));
    return;
  }
  td_lua_unlock(st);
  td_status *s = td_far_loop_start(f, c->c, o, td_lua_interrupt(), &h->far);
  td_lua_lock(st);
  td_lua_check_step(L, s);
}

/* s:core_loop(fetches, key, options) -> handle. Options: threads, steps, every;
 * names: what is logged, and logged: the fetches of such a step, those first;
 * more: fetches of further steps; at_end, at_error: those of last steps, the
 * latter's feeds, code and message, in error_feeds.
 */
static int session_loop(lua_State *L) {
  td_lua_step step;
  lua_settop(L, 4);
  td_lua_to_session(L, 1);
  td_loop_options o = {.threads = int_field(L, 4, "threads", 1, 1),
                       .every = int_field(L, 4, "every", 1, 1)};
  lua_getfield(L, 4, "steps");
  o.steps = luaL_optinteger(L, -1, -1);
  if (o.steps < 0 && !lua_isnil(L, -1))
    td_lua_error(L, TD_INVALID_ARGUMENT,
                 "steps must be 0 or more, or nothing for no end; given %lld",
                 (long long)o.steps);
  td_lua_step_read(L, 2, 0, &step);
  lua_callable *c = push_callable(L, &step);
  read_log(L, 4, &o);
  read_more(L, 4, &o);
  o.at_end = read_last(L, 4, "at_end", "end_feeds");
  o.at_error = read_last(L, 4, "at_error", "error_feeds");
  start_loop(L, c, &o, push_handle(L, 1, 3));
  return 1;
}

/* Those that are kept, by the numbers of the answer. */
static int far_loops(lua_State *L, td_far_session *f) {
  td_bytes from = td_lua_far_bytes(L);
  lua_newtable(L);
  for (lua_Integer i = 1; from.len > 0; i++) {
    uint64_t number = td_lua_far_number(L, &from, 8);
    lua_handle *h = push_handle(L, 1, 0);
    td_lua_check(L, td_far_loop_new(f, number, &h->far));
    lua_rawseti(L, -2, i);
  }
  return 1;
}

/* s:loops() -> handles, the oldest first */
static int session_loops(lua_State *L) {
  td_session *s = td_lua_to_session(L, 1);
  if (td_lua_far_ask(L, s, (td_far_question){.what = TD_FAR_LOOPS}))
    return far_loops(L, td_far_session_of(s));
  int n = td_session_loops(s, NULL, 0);
  td_loop **found = td_lua_block(L, (size_t)n, sizeof *found);
  lua_createtable(L, n, 0);
  for (int k = 0; k < n; k++) {
    push_handle(L, 1, 0);
    lua_rawseti(L, -2, k + 1);
  }
  int there = td_session_loops(s, found, n);
  if (there > n) there = n;
  for (int k = 1; k <= there; k++) {
    lua_rawgeti(L, -1, k);
    ((lua_handle *)lua_touserdata(L, -1))->loop = found[there - k];
    lua_pop(L, 1);
  }
  for (int k = n; k > there; k--) { /* these are over by now */
    lua_pushnil(L);
    lua_rawseti(L, -2, k);
  }
  return 1;
}

/* The list of n numbers of steps. */
static void push_steps(lua_State *L, const int64_t *steps, int64_t n) {
  lua_createtable(L, (int)n, 0);
  for (int64_t k = 0; k < n; k++) {
    lua_pushinteger(L, steps[k]);
    lua_rawseti(L, -2, k + 1);
  }
}

/* {steps =, values =} of value i of `each`, which n steps have. */
static void push_series(lua_State *L, const int64_t *steps, td_tensor *values,
                        int64_t n, int each, int i) {
  lua_createtable(L, 0, 2);
  push_steps(L, steps, n);
  lua_setfield(L, -2, "steps");
  lua_createtable(L, (int)n, 0);
  for (int64_t k = 0; k < n; k++) {
    td_lua_push_result(L, &values[k * each + i], false);
    lua_rawseti(L, -2, k + 1);
  }
  lua_setfield(L, -2, "values");
}

static int push_kept(lua_State *L) {
  td_far_loop_kept *k = lua_touserdata(L, 1);
  lua_newtable(L);
  for (int i = 0; i < k->each; i++) {
    push_series(L, k->steps, k->values, k->n, k->each, i);
    lua_setfield(L, -2, k->names[i]);
  }
  return 1;
}

/* The log of a loop there: in memory that Lua has, since it may raise. */
static int far_log(lua_State *L, td_far_loop *l) {
  td_lua_state *st = td_lua_get(L);
  td_far_loop_kept kept;
  td_lua_unlock(st);
  td_status *s = td_far_loop_log(l, td_lua_interrupt(), &kept);
  td_lua_lock(st);
  td_lua_check_step(L, s);
  lua_pushcfunction(L, push_kept);
  lua_pushlightuserdata(L, &kept);
  int rc = lua_pcall(L, 1, 1, 0);
  td_far_loop_kept_deinit(&kept);
  return rc == LUA_OK ? 1 : lua_error(L);
}

/* h:log() -> {name = {steps = {..}, values = {..}}} */
static int handle_log(lua_State *L) {
  td_loop *l = to_handle(L)->loop;
  if (to_handle(L)->far) return far_log(L, to_handle(L)->far);
  lua_newtable(L);
  int each = l ? td_loop_logs(l) : 0;
  if (each == 0) return 1;
  int result = lua_gettop(L);
  int64_t n = td_loop_log(l, NULL, NULL, 0);
  int64_t *steps = td_lua_block(L, (size_t)n, sizeof *steps);
  td_tensor *values = td_lua_tensors(L, (size_t)(n * each));
  int64_t there = td_loop_log(l, steps, values, n);
  if (there < n) n = there;
  for (int i = 0; i < each; i++) {
    push_series(L, steps, values, n, each, i);
    lua_setfield(L, result, td_loop_log_name(l, i));
  }
  lua_settop(L, result);
  return 1;
}

/* ---- partial runs ---- */

static int partial_gc(lua_State *L) {
  lua_partial *p = lua_touserdata(L, 1);
  td_partial_release(p->p);
  p->p = NULL;
  return 0;
}

/* s:core_partial(fetches, feed edges, key); user values: 1 feed edges, 2 the
 * session, 3 the key */
static int session_partial(lua_State *L) {
  td_session *s = td_lua_to_session(L, 1);
  td_lua_step step;
  lua_settop(L, 4);
  td_lua_step_read(L, 2, 3, &step);
  lua_partial *p = lua_newuserdatauv(L, sizeof *p, 3);
  memset(p, 0, sizeof *p);
  luaL_setmetatable(L, PARTIAL);
  int at = lua_gettop(L);
  td_lua_step_keep_feeds(L, &step);
  lua_setiuservalue(L, at, 1);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, at, 2);
  lua_pushvalue(L, 4);
  lua_setiuservalue(L, at, 3);
  p->n_feeds = step.n_feeds;
  p->n_fetches = step.n_fetches;
  td_signature sig = td_lua_step_signature(&step);
  td_step_options o = td_lua_step_defaults();
  o.interrupt = NULL;
  td_lua_check(L, td_partial_new(s, &sig, &o, &p->p));
  return 1;
}

/* Index k of the list at `i`, counted from 1 there, at most `n`; from 0 here.
 */
static int index_at(lua_State *L, int i, int k, int n) {
  lua_rawgeti(L, i, k + 1);
  lua_Integer at = luaL_checkinteger(L, -1);
  luaL_argcheck(L, at >= 1 && at <= n, i, "no such index");
  lua_pop(L, 1);
  return (int)at - 1;
}

/* The values of the list at 4 for the feeds of those indices; they stay on the
 * Lua stack. */
static td_tensor *partial_values(lua_State *L, const int *feed, int n) {
  td_tensor *in = td_lua_block(L, (size_t)n, sizeof *in);
  lua_getiuservalue(L, 1, 1);
  const td_edge *edges = lua_touserdata(L, -1);
  luaL_checkstack(L, n + 16, "feeds");
  for (int k = 0; k < n; k++) {
    lua_rawgeti(L, 4, k + 1);
    in[k] = *td_lua_step_value(L, lua_gettop(L), edges[feed[k]]);
  }
  return in;
}

/* p:core_run({fetch indices}, {feed indices}, {feed values}, options): indices
 * count from 1 in the lists of session:partial; ops are not counted. */
static int partial_run(lua_State *L) {
  lua_partial *p = luaL_checkudata(L, 1, PARTIAL);
  td_lua_wait w;
  lua_settop(L, 5);
  td_lua_step_options o = td_lua_step_read_options(L, 5);
  int n_fetch = (int)luaL_len(L, 2), n_feed = (int)luaL_len(L, 3);
  int *fetch = td_lua_block(L, (size_t)n_fetch, sizeof *fetch);
  int *feed = td_lua_block(L, (size_t)n_feed, sizeof *feed);
  for (int k = 0; k < n_fetch; k++) fetch[k] = index_at(L, 2, k, p->n_fetches);
  for (int k = 0; k < n_feed; k++) feed[k] = index_at(L, 3, k, p->n_feeds);
  td_tensor *out = td_lua_tensors(L, (size_t)n_fetch);
  td_tensor *in = partial_values(L, feed, n_feed);
  td_lua_wait_begin(&w, L);
  td_status *s =
      td_partial_run(p->p, feed, in, n_feed, fetch, out, n_fetch, &o.run);
  td_lua_wait_end(&w);
  if (!td_ok(s)) fail_keyed(L, 3, s);
  lua_createtable(L, n_fetch, 0);
  for (int k = 0; k < n_fetch; k++) {
    td_lua_push_result(L, &out[k], o.as_values);
    lua_rawseti(L, -2, k + 1);
  }
  return 1;
}

TD_LUA_OPEN(callable) {
  static const luaL_Reg methods[] = {
      {"core_callable", session_callable}, {"core_start", session_start},
      {"core_loop", session_loop},         {"loops", session_loops},
      {"core_partial", session_partial},   {NULL, NULL}};
  static const luaL_Reg handle[] = {
      {"wait", handle_wait},   {"done", handle_done}, {"cancel", handle_cancel},
      {"steps", handle_steps}, {"log", handle_log},   {NULL, NULL}};
  static const luaL_Reg partial[] = {{"core_run", partial_run}, {NULL, NULL}};
  static const luaL_Reg none[] = {{NULL, NULL}};
  lua_pushcfunction(L, failed_at);
  lua_setfield(L, -2, "failed_at");
  td_lua_session_methods(L, methods);
  td_lua_make_class(L, CALLABLE, callable_gc, none);
  td_lua_make_class(L, HANDLE, handle_gc, handle);
  td_lua_make_class(L, PARTIAL, partial_gc, partial);
}
