/* trace.c - what a debugger needs: a look at each line, and a halt there.
 *
 * Hooks are on only while somebody asked for them (breakpoints exist), for
 * calls that begin from then on. The line "debug" is the debugger's own and is
 * never looked at. A line that halts waits without the interpreter, so that the
 * debugger's line can read its stack.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "lua/line.h"

enum { LOOK_MS = 20 }; /* how often who halts looks for an interrupt */

static char looks; /* its address is the key of the Lua function */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned resumes; /* how often lines were let go */

bool td_trace_wanted(const td_line *l) {
  return l->host->traces && strcmp(td_line_name(l), "debug") != 0;
}

/* Calls f(source, line). */
void td_trace_hook(lua_State *L, lua_Debug *ar) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &looks) != LUA_TFUNCTION) {
    lua_pop(L, 1);
    return;
  }
  lua_getinfo(L, "Sl", ar);
  lua_pushstring(L, ar->source);
  lua_pushinteger(L, ar->currentline);
  lua_call(L, 2, 0);
}

int td_trace_set(lua_State *L) {
  td_line *l = td_line_current();
  bool on = lua_isfunction(L, 1);
  if (!on) luaL_argexpected(L, lua_isnoneornil(L, 1), 1, "function or nil");
  lua_settop(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &looks);
  if (l) l->host->traces = on;
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

int td_trace_pause(lua_State *L) {
  td_line *l = td_line_current();
  if (!l) return luaL_error(L, "there is nothing to halt");
  unsigned before = count_resumes(); /* nobody resumes while we hold on */
  td_line_wait(l);
  wait_for_resume(l, before);
  td_line_resume(l);
  return 0;
}

int td_trace_resume(lua_State *L) {
  (void)L;
  pthread_mutex_lock(&lock);
  resumes++;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  return 0;
}
