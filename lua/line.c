/* line.c - a line of evaluation, and how it is interrupted.
 *
 * An interrupt sets the flag that running steps look at, and a signal to the
 * line's thread hooks every coroutine on its resume stack. The hook raises on
 * each instruction until the call has ended, so that no pcall can swallow it
 * for good. Lua hooks are per coroutine, hence our resume and wrap, which keep
 * that stack. A thread that waits for its turn sends another signal, whose hook
 * lets it through at the next instruction.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/line.h"

#include <sched.h>
#include <signal.h>
#include <string.h>

#include "engine/base/mem.h"

static __thread td_line *current;

td_line *td_line_current(void) {
  return current;
}

const char *td_line_name(const td_line *l) {
  return l->name ? l->name : "";
}

/* ---- hooks ---- */

static void raise_hook(lua_State *L, lua_Debug *ar) {
  (void)ar;
  luaL_error(L, "interrupted");
}

static void hook_all(td_line *l, lua_Hook f) {
  int n = l->depth < TD_LINE_DEEPEST ? l->depth : TD_LINE_DEEPEST;
  for (int i = 0; i < n; i++)
    lua_sethook(l->stack[i], f,
                LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, 1);
}

/* After hooks were changed outside of a handler, which may have set its own in
 * between. */
static void hook_again(td_line *l) {
  if (l && td_line_interrupted(l)) hook_all(l, raise_hook);
}

/* No hook, but the debugger's when there is one. */
static void unhook(const td_line *l, lua_State *L) {
  if (l && l->traced)
    lua_sethook(L, td_trace_hook, LUA_MASKLINE, 0);
  else
    lua_sethook(L, NULL, 0, 0);
}

/* Lets those who wait for a turn have theirs. */
static void turn_hook(lua_State *L, lua_Debug *ar) {
  (void)ar;
  td_line *l = current;
  unhook(l, L);
  hook_again(l);
  if (!l) return;
  td_line_wait(l);
  td_line_resume(l);
}

static void on_interrupt(int number) {
  (void)number;
  td_line *l = current;
  if (l && __atomic_load_n(&l->interrupted, __ATOMIC_ACQUIRE))
    hook_all(l, raise_hook);
}

static void on_turn(int number) {
  (void)number;
  td_line *l = current;
  if (l && !td_line_interrupted(l)) hook_all(l, turn_hook);
}

/* Threads of ours start with all signals blocked. */
static void listen(void) {
  static __thread bool listening;
  if (listening) return;
  listening = true;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, TD_LUA_SIGNAL_INTERRUPT);
  sigaddset(&set, TD_LUA_SIGNAL_TURN);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* An interrupt ends system calls that wait; asking for a turn does not. */
void td_line_signals(void) {
  struct sigaction a;
  memset(&a, 0, sizeof a);
  a.sa_handler = on_interrupt;
  sigaction(TD_LUA_SIGNAL_INTERRUPT, &a, NULL);
  a.sa_handler = on_turn;
  a.sa_flags = SA_RESTART;
  sigaction(TD_LUA_SIGNAL_TURN, &a, NULL);
}

/* ---- interrupts ----
 *
 * Who interrupts counts itself in `knocking` before it looks whether the line
 * is busy; a call that ends says so and then waits until nobody knocks. So the
 * thread is there to be signalled, and no interrupt reaches the next call.
 */

/* True when the call was still running. With `again`, only when it was told
 * before and has not come to an end. */
static bool knock(td_line *l, bool again) {
  __atomic_add_fetch(&l->knocking, 1, __ATOMIC_SEQ_CST);
  bool runs = __atomic_load_n(&l->n_calls, __ATOMIC_SEQ_CST) &&
              (!again || td_line_interrupted(l));
  if (runs && !again) {
    __atomic_store_n(&l->interrupted, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&l->flag, 1, __ATOMIC_SEQ_CST);
  }
  if (runs) pthread_kill(l->thread, TD_LUA_SIGNAL_INTERRUPT);
  __atomic_sub_fetch(&l->knocking, 1, __ATOMIC_SEQ_CST);
  return runs;
}

bool td_line_interrupt(td_line *l) {
  return knock(l, false);
}

bool td_line_nudge(td_line *l) {
  return knock(l, true);
}

bool td_line_busy(const td_line *l) {
  return __atomic_load_n(&l->n_calls, __ATOMIC_ACQUIRE) > 0;
}

bool td_line_interrupted(const td_line *l) {
  return __atomic_load_n(&l->interrupted, __ATOMIC_ACQUIRE);
}

bool td_line_waiting(const td_line *l) {
  return td_line_busy(l) && !td_lua_holds(l->host->state, l->thread);
}

static void unhook_all(td_line *l) {
  for (int i = 0; i < l->depth && i < TD_LINE_DEEPEST; i++)
    if (lua_gethook(l->stack[i]) == raise_hook) unhook(l, l->stack[i]);
}

/* What knocks meanwhile is one with the interrupt that is forgotten: until all
 * is quiet, and flag, mark and hooks agree. */
bool td_line_forget(td_line *l) {
  bool was = false;
  for (;;) {
    if (__atomic_exchange_n(&l->interrupted, 0, __ATOMIC_SEQ_CST)) was = true;
    __atomic_store_n(&l->flag, 0, __ATOMIC_SEQ_CST);
    unhook_all(l);
    if (!__atomic_load_n(&l->knocking, __ATOMIC_SEQ_CST) &&
        !td_line_interrupted(l) && !__atomic_load_n(&l->flag, __ATOMIC_SEQ_CST))
      return was;
    sched_yield();
  }
}

/* ---- calls ---- */

/* Busy from here on: an interrupt that comes while the interpreter is awaited
 * raises in the call's first instruction. */
void td_line_begin(td_line *l) {
  if (l->n_calls) {
    __atomic_add_fetch(&l->n_calls, 1, __ATOMIC_SEQ_CST);
    return;
  }
  listen();
  l->thread = pthread_self();
  td_lua_interrupt_by(&l->flag);
  __atomic_store_n(&l->n_calls, 1, __ATOMIC_SEQ_CST);
  td_line_resume(l);
  l->stack[0] = l->L;
  l->depth = 1;
  l->traced = td_trace_wanted(l);
  current = l;
  if (l->traced) unhook(l, l->L);
  hook_again(l);
}

bool td_line_end(td_line *l) {
  if (l->n_calls > 1) {
    __atomic_sub_fetch(&l->n_calls, 1, __ATOMIC_SEQ_CST);
    return td_line_interrupted(l);
  }
  __atomic_store_n(&l->n_calls, 0, __ATOMIC_SEQ_CST);
  bool was = td_line_forget(l);
  lua_sethook(l->L, NULL, 0, 0);
  current = NULL;
  l->depth = 0;
  td_lua_interrupt_by(NULL);
  td_lua_unlock(l->host->state);
  return was;
}

void td_line_wait(td_line *l) {
  td_lua_unlock(l->host->state);
}

void td_line_resume(td_line *l) {
  td_lua_lock(l->host->state);
}

/* ---- coroutines ---- */

/* `co` runs on top of the line's coroutines, at `depth`. */
static void enter(td_line *l, int depth, lua_State *co) {
  if (!l) return;
  if (depth < TD_LINE_DEEPEST) l->stack[depth] = co;
  l->depth = depth + 1;
  if (l->traced) unhook(l, co);
  hook_again(l);
}

static void leave(td_line *l, int depth, lua_State *co) {
  if (l) l->depth = depth;
  lua_sethook(co, NULL, 0, 0);
}

/* Resumes `co` with n arguments from the top of L. Results or the error message
 * are moved to L; returns their number, or -1. */
static int resume(lua_State *L, lua_State *co, int n) {
  td_line *l = current;
  int results, depth = l ? l->depth : 0;
  if (!lua_checkstack(co, n)) {
    lua_pushliteral(L, "too many arguments to resume");
    return -1;
  }
  lua_xmove(L, co, n);
  enter(l, depth, co);
  int rc = lua_resume(co, L, n, &results);
  leave(l, depth, co);
  if (rc != LUA_OK && rc != LUA_YIELD) {
    lua_xmove(co, L, 1);
    return -1;
  }
  if (!lua_checkstack(L, results + 1)) {
    lua_pop(co, results);
    lua_pushliteral(L, "too many results to resume");
    return -1;
  }
  lua_xmove(co, L, results);
  return results;
}

/* Runs the handlers of its variables that are to be closed. */
static int reset(lua_State *co) {
  td_line *l = current;
  int depth = l ? l->depth : 0;
  enter(l, depth, co);
  int status = lua_resetthread(co);
  leave(l, depth, co);
  return status;
}

static bool resumable(lua_State *L, lua_State *co) {
  if (co == L || (lua_status(co) == LUA_OK && lua_gettop(co) == 0))
    return false;
  if (lua_status(co) == LUA_YIELD) return true;
  lua_Debug ar;
  return lua_status(co) == LUA_OK && !lua_getstack(co, 0, &ar);
}

static int co_resume(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  luaL_argexpected(L, co, 1, "coroutine");
  int n = -1;
  if (resumable(L, co)) {
    n = resume(L, co, lua_gettop(L) - 1);
  } else {
    bool dead = lua_status(co) == LUA_OK || lua_status(co) > LUA_YIELD;
    lua_pushstring(L, dead && co != L && lua_gettop(co) == 0
                          ? "cannot resume dead coroutine"
                          : "cannot resume non-suspended coroutine");
  }
  lua_pushboolean(L, n >= 0);
  lua_insert(L, n >= 0 ? -(n + 1) : -2);
  return n >= 0 ? n + 1 : 2;
}

static int wrapped(lua_State *L) {
  lua_State *co = lua_tothread(L, lua_upvalueindex(1));
  if (!resumable(L, co)) return luaL_error(L, "cannot resume dead coroutine");
  int n = resume(L, co, lua_gettop(L));
  if (n >= 0) return n;
  int status = lua_status(co);
  if (status != LUA_OK && status != LUA_YIELD) {
    reset(co); /* closes its pending variables */
    if (lua_gettop(co) > 0 && !lua_isnil(co, -1)) lua_pop(co, 1);
  }
  if (lua_type(L, -1) == LUA_TSTRING) {
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
  }
  return lua_error(L);
}

static int co_wrap(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_State *co = lua_newthread(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  lua_pushcclosure(L, wrapped, 1);
  return 1;
}

static int co_close(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  luaL_argexpected(L, co, 1, "coroutine");
  lua_Debug ar;
  if (co == L || (lua_status(co) == LUA_OK && lua_getstack(co, 0, &ar)))
    return luaL_error(L, "cannot close a running coroutine");
  bool ok = reset(co) == LUA_OK;
  lua_pushboolean(L, ok);
  if (!ok) lua_xmove(co, L, 1);
  return ok ? 1 : 2;
}

void td_line_coroutines(lua_State *L) {
  lua_getglobal(L, "coroutine");
  lua_pushcfunction(L, co_close);
  lua_setfield(L, -2, "close");
  lua_pushcfunction(L, co_resume);
  lua_setfield(L, -2, "resume");
  lua_pushcfunction(L, co_wrap);
  lua_setfield(L, -2, "wrap");
  lua_pop(L, 1);
}

/* ---- life ---- */

static int make_thread(lua_State *L) {
  td_line *l = lua_touserdata(L, 1);
  l->L = lua_newthread(L);
  l->anchor = luaL_ref(L, LUA_REGISTRYINDEX);
  return 0;
}

td_line *td_line_new(td_host *h, const char *name) {
  td_line *l = td_alloc_zero(1, sizeof *l);
  if (!l) return NULL;
  l->host = h;
  l->name = td_strdup(name);
  l->anchor = LUA_NOREF;
  td_lua_lock(h->state);
  lua_pushcfunction(h->spare, make_thread);
  lua_pushlightuserdata(h->spare, l);
  if (lua_pcall(h->spare, 1, 0, 0) != LUA_OK) lua_pop(h->spare, 1);
  td_lua_unlock(h->state);
  if (l->name && l->L) return l;
  td_line_free(l);
  return NULL;
}

void td_line_free(td_line *l) {
  if (!l) return;
  if (l->L) {
    td_lua_lock(l->host->state);
    luaL_unref(l->host->spare, LUA_REGISTRYINDEX, l->anchor);
    td_lua_unlock(l->host->state);
  }
  td_free(l->name);
  td_free(l);
}
