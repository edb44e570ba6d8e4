/* debug.c - the debugger's hook, and a halt.
 *
 * Hooks are on only while somebody asked for them (breakpoints exist); lines
 * that run already get theirs at once. The line "debug" is the debugger's own
 * and is never looked at. A line that halts waits without the interpreter, so
 * that the debugger's line can read its stack.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/console/debug.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "lua/console/line_impl.h"

enum { LOOK_MS = 20 }; /* how often who halts looks for an interrupt */

/* Their addresses are the keys of the Lua functions. */
static char looks, raises;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned resumes; /* how often lines were let go */

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
  pthread_mutex_lock(&lock);
  unsigned n = resumes;
  pthread_mutex_unlock(&lock);
  return n;
}

static void wait_for_resume(const td_line *l, unsigned before) {
  pthread_mutex_lock(&lock);
  while (resumes == before && !td_line_interrupted(l)) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_MS * 1000000;
    if (until.tv_nsec >= 1000000000) {
      until.tv_nsec -= 1000000000;
      until.tv_sec++;
    }
    pthread_cond_timedwait(&changed, &lock, &until);
  }
  pthread_mutex_unlock(&lock);
}

int td_debug_pause(lua_State *L) {
  td_line *l = td_line_current();
  if (!l) return luaL_error(L, "there is nothing to halt");
  unsigned before = count_resumes(); /* nobody resumes while we hold on */
  td_line_wait(l);
  wait_for_resume(l, before);
  td_line_resume(l);
  return 0;
}

int td_debug_resume(lua_State *L) {
  (void)L;
  pthread_mutex_lock(&lock);
  resumes++;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  return 0;
}
