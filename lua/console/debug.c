/* debug.c - the debugger's hook, and a halt.
 *
 * Hooks are on only while somebody asked for them (breakpoints exist); lines
 * that run already get theirs at once. The line "debug" is the debugger's own
 * and is never looked at. A line that halts waits without the interpreter, so
 * that the debugger's line can read its stack.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/console/debug.h"

#include <assert.h>
#include <string.h>

#include "engine/base/waiter.h"
#include "lua/console/line_impl.h"

/* Their addresses are the keys of the Lua functions. */
static char looks, raises;

static unsigned resumes; /* atomic; how often lines were let go */
static td_waiter halted;

static bool is_users(const char *source) {
  return *source == '@' || strncmp(source, "=In[", 4) == 0;
}

/* Calls f(source, line). */
static void look_hook(lua_State *L, lua_Debug *ar) {
  lua_getinfo(L, "Sl", ar);
  if (!is_users(ar->source)) return;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &looks) != LUA_TFUNCTION) {
    lua_pop(L, 1);
    return;
  }
  lua_pushstring(L, ar->source);
  lua_pushinteger(L, ar->currentline);
  lua_call(L, 2, 0);
}

void td_debug_raised(lua_State *L, int err) {
  td_line *l = td_line_current();
  if (!l || l->debugs || td_line_interrupted(l)) return;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &raises) == LUA_TFUNCTION) {
    lua_pushvalue(L, err);
    if (lua_pcall(L, 1, 0, 0) == LUA_OK) return;
  }
  lua_pop(L, 1);
}

static void keep_function(lua_State *L, int i, const char *key) {
  if (!lua_isfunction(L, i))
    luaL_argexpected(L, lua_isnoneornil(L, i), i, "function or nil");
  lua_pushvalue(L, i);
  lua_rawsetp(L, LUA_REGISTRYINDEX, key);
}

int td_debug_set(lua_State *L) {
  td_line *l = td_line_current();
  lua_settop(L, 2);
  keep_function(L, 1, &looks);
  keep_function(L, 2, &raises);
  lua_Hook hook = lua_isfunction(L, 1) ? look_hook : NULL;
  if (!l || l->host->debug_hook == hook) return 0;
  l->host->debug_hook = hook;
  td_line_rehook(l->host);
  return 0;
}

static unsigned count_resumes(void) {
  return __atomic_load_n(&resumes, __ATOMIC_ACQUIRE);
}

typedef struct halt {
  const td_line *line;
  unsigned before; /* resumes */
} halt;

/* The signal of an interrupt has the line look again. */
static bool is_over(void *arg) {
  const halt *h = arg;
  return count_resumes() != h->before || td_line_interrupted(h->line);
}

int td_debug_pause(lua_State *L) {
  td_line *l = td_line_current();
  if (!l) return luaL_error(L, "there is nothing to halt");
  halt h = {l, count_resumes()}; /* nobody resumes while we hold on */
  td_line_wait(l);
  td_waited why = td_waiter_wait(&halted, INT64_MAX, NULL, is_over, &h);
  assert(why == TD_WAITED_READY);
  td_line_resume(l);
  return 0;
}

int td_debug_resume(lua_State *L) {
  (void)L;
  __atomic_fetch_add(&resumes, 1, __ATOMIC_ACQ_REL);
  td_waiter_wake(&halted);
  return 0;
}
