/* bind_lua_op.c - functions of Lua as ops of a graph.
 *
 * A function is known by a token, which its node has: 64 random bits, so that a
 * node read from a file never meets another program's function. The table of
 * them is weak: the library keeps a function as long as a graph that has its
 * node.
 *
 * A function runs within the C function that waits for the step, on its
 * coroutine, with the interpreter's lock taken; Ctrl-C reaches it there as it
 * does any other code, and it cannot yield. While it runs a hook looks whether
 * its step was cancelled, say by a deadline; the same cancel sets the flag by
 * which a wait of the function itself ends.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/bind_lua_op.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/entropy.h"
#include "lua/bind.h"
#include "lua/bind_literal.h"
#include "lua/bind_tensor.h"

#define FUNCTIONS                                                              \
  "tide.lua_ops" /* registry: token -> function; weak values                   \
                  */

enum { LOOK_EVERY = 1000 }; /* instructions between two looks at the step */

/* A function that runs. */
typedef struct call {
  td_kernel_ctx *ctx;
  lua_State *L;
  td_status *error; /* what it raised */
  td_cancel_hook on_cancel;
  int *flag;          /* of this thread's waits */
  int32_t set;        /* atomic: the cancel has set it */
  bool hooked;        /* our hook was set for it */
  bool within;        /* not before the function, nor after it */
  struct call *outer; /* it runs in a step of that one */
} call;

static __thread td_lua_wait *waits; /* of this thread, the innermost */
static __thread call *calls;

static void set_flag(call *k) {
  __atomic_store_n(&k->set, 1, __ATOMIC_RELAXED);
  __atomic_store_n(k->flag, 1, __ATOMIC_RELEASE);
}

/* A function that caught the end of a wait and waits again is told again. */
void td_lua_wait_begin(td_lua_wait *w, lua_State *L) {
  for (call *k = calls; k; k = k->outer)
    if (td_stopped(k->ctx)) set_flag(k);
  *w = (td_lua_wait){.L = L, .state = td_lua_get(L), .outer = waits};
  waits = w;
  td_lua_unlock(w->state);
}

void td_lua_wait_end(td_lua_wait *w) {
  td_lua_lock(w->state);
  waits = w->outer;
}

/* ---- an end before its time ---- */

static bool is_stopped(void) {
  for (const call *k = calls; k; k = k->outer)
    if (td_stopped(k->ctx)) return true;
  return false;
}

static void look(lua_State *L, lua_Debug *ar) {
  (void)ar;
  if (!calls)
    lua_sethook(L, NULL, 0, 0); /* of a coroutine that lived on */
  else if (is_stopped())
    luaL_error(L, "the step was cancelled");
}

void td_lua_hook(lua_State *L) {
  if (calls)
    lua_sethook(L, look, LUA_MASKCOUNT, LOOK_EVERY);
  else
    lua_sethook(L, NULL, 0, 0);
}

static void on_cancel(void *arg) {
  set_flag(arg);
}

static td_status *cancelled(void) {
  return td_status_derive(td_error(TD_CANCELLED, "the step was cancelled"));
}

static td_status *begin(call *k) {
  k->flag = td_lua_interrupt();
  k->on_cancel = (td_cancel_hook){.fire = on_cancel, .arg = k};
  if (!td_cancel_add(k->ctx->step->cancel, &k->on_cancel)) return cancelled();
  k->outer = calls;
  calls = k;
  k->hooked = !lua_gethook(k->L);
  if (k->hooked) td_lua_hook(k->L);
  return NULL;
}

/* The flag that our cancel set is nobody's interrupt. */
static void end(call *k) {
  calls = k->outer;
  if (k->hooked && lua_gethook(k->L) == look) td_lua_hook(k->L);
  td_cancel_remove(k->ctx->step->cancel, &k->on_cancel);
  if (__atomic_load_n(&k->set, __ATOMIC_RELAXED))
    __atomic_store_n(k->flag, 0, __ATOMIC_RELEASE);
}

/* ---- errors ---- */

static td_code code_named(const char *name) {
  for (int code = TD_CANCELLED; name && code <= TD_UNAUTHENTICATED; code++)
    if (!strcmp(name, td_code_name((td_code)code))) return (td_code)code;
  return TD_UNKNOWN;
}

/* The code and the message of the error at 1, which stays on the stack. */
static const char *read_error(lua_State *L, td_code *code) {
  *code = TD_UNKNOWN;
  if (lua_istable(L, 1)) {
    lua_getfield(L, 1, "code");
    if (lua_type(L, -1) == LUA_TSTRING) *code = code_named(lua_tostring(L, -1));
    if (lua_getfield(L, 1, "message") == LUA_TSTRING)
      return lua_tostring(L, -1);
  }
  return luaL_tolstring(L, 1, NULL);
}

/* The message handler: where the error was raised is still to be seen. Raised
 * again by what catches an interrupt, an error comes here once more. */
static int explain(lua_State *L) {
  call *k = calls;
  char where[300];
  td_code code;
  lua_settop(L, 1);
  const char *text = read_error(L, &code);
  td_lua_origin(L, where, sizeof where);
  bool told = !k->within || !where[0] || strstr(text, where);
  td_status_release(k->error);
  k->error = told ? td_error(code, "%s", text)
                  : td_error(code, "%s (%s)", text, where);
  lua_settop(L, 1);
  return 1;
}

/* ---- the call ---- */

static void push_function(lua_State *L, const char *token) {
  if (lua_getfield(L, LUA_REGISTRYINDEX, FUNCTIONS) == LUA_TTABLE &&
      lua_getfield(L, -1, token) == LUA_TFUNCTION)
    return;
  td_lua_error(L, TD_NOT_FOUND,
               "there is no Lua function %s here: the node is of another "
               "program, or the graph that td.lua_op was called for is gone",
               token);
}

static void push_inputs(lua_State *L, const td_kernel_ctx *c) {
  luaL_checkstack(L, c->n_in + 16, "inputs");
  for (int i = 0; i < c->n_in; i++) {
    td_tensor t;
    td_tensor_retain(&c->in[i], &t);
    td_lua_push_tensor(L, &t);
  }
}

static void take_results(lua_State *L, td_kernel_ctx *c, int before) {
  int n = lua_gettop(L) - before;
  if (n != c->n_out)
    td_lua_error(L, TD_INVALID_ARGUMENT,
                 "the Lua function gives %d value%s and was to give %d", n,
                 n == 1 ? "" : "s", (int)c->n_out);
  for (int i = 0; i < n; i++) {
    td_tensor t;
    td_status *s =
        td_lua_as_tensor(L, before + 1 + i, td_ctx_node(c)->out[i].dtype, &t);
    td_lua_check(L, td_lua_prefix(s, "result %d of the Lua function", i + 1));
    td_out_set(c, i, &t);
    td_tensor_release(&t);
  }
}

static int protected_call(lua_State *L) {
  call *k = lua_touserdata(L, 1);
  td_kernel_ctx *c = k->ctx;
  if (td_cancelled(k->flag)) /* our hook may have replaced an interrupt's */
    td_lua_error(L, TD_CANCELLED, "interrupted");
  push_function(L, td_node_string(td_ctx_node(c), "token"));
  int before = lua_gettop(L) - 1;
  push_inputs(L, c);
  k->within = true;
  lua_call(L, c->n_in, LUA_MULTRET);
  k->within = false;
  take_results(L, c, before);
  return 0;
}

/* Below it are frames of the engine, which no error may jump over: outside of
 * the protected call nothing is allocated. */
static td_status *run(call *k) {
  lua_State *L = k->L;
  if (!lua_checkstack(L, 16)) return td_oom();
  int top = lua_gettop(L);
  lua_pushcfunction(L, explain);
  lua_pushcfunction(L, protected_call);
  lua_pushlightuserdata(L, k);
  int rc = lua_pcall(L, 1, 0, top + 1);
  lua_settop(L, top);
  if (td_stopped(k->ctx)) {
    td_status_release(k->error);
    return cancelled();
  }
  return rc == LUA_OK || k->error ? k->error : td_oom();
}

td_status *td_lua_serve(td_kernel_ctx *c) {
  td_lua_wait *w = waits;
  if (!w)
    return td_error(TD_FAILED_PRECONDITION,
                    "LuaOp was to be served by a thread that is not in Lua");
  td_lua_lock(w->state);
  call k = {.ctx = c, .L = w->L};
  td_status *s = begin(&k);
  if (td_ok(s)) {
    s = run(&k);
    end(&k);
  }
  td_lua_unlock(w->state);
  return s;
}

bool td_lua_runs_in(td_session *s) {
  for (const call *k = calls; k; k = k->outer)
    if (td_session_runs(s, k->ctx->step->caller)) return true;
  return false;
}

/* ---- the functions ---- */

/* core.lua_op_keep(f) -> its token. Who has it keeps f. */
static int lua_op_keep(lua_State *L) {
  char token[17];
  luaL_checktype(L, 1, LUA_TFUNCTION);
  snprintf(token, sizeof token, "%016llx", (unsigned long long)td_entropy());
  lua_getfield(L, LUA_REGISTRYINDEX, FUNCTIONS);
  lua_pushvalue(L, 1);
  lua_setfield(L, -2, token);
  lua_pushstring(L, token);
  return 1;
}

TD_LUA_OPEN(lua_op) {
  static const luaL_Reg functions[] = {{"lua_op_keep", lua_op_keep},
                                       {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  lua_createtable(L, 0, 0);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_setfield(L, LUA_REGISTRYINDEX, FUNCTIONS);
}
