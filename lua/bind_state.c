/* bind_state.c - the state of one interpreter, and turns in it.
 *
 * A plain mutex would let a loop of short steps take the interpreter back
 * before the thread it woke has run. Under stock lua5.4 there is one thread and
 * a turn costs two uncontended locks.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/bind_state.h"

#include <string.h>
#include <time.h>

enum { PATIENCE = 2000000 }; /* ns until the holder is asked to share */

static int nobody; /* never set */
static __thread int *interrupt;

int *td_lua_interrupt(void) {
  return interrupt ? interrupt : &nobody;
}

void td_lua_interrupt_by(int *flag) {
  interrupt = flag;
}

static void turns_init(td_lua_turns *t) {
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_mutex_init(&t->lock, NULL);
  pthread_cond_init(&t->served, &attr);
  pthread_condattr_destroy(&attr);
  t->next = t->serving = 0;
}

/* Waits until PATIENCE has gone; false when it has. */
static bool wait_a_little(td_lua_turns *t) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += PATIENCE;
  if (until.tv_nsec >= 1000000000) {
    until.tv_nsec -= 1000000000;
    until.tv_sec++;
  }
  return pthread_cond_timedwait(&t->served, &t->lock, &until) == 0;
}

/* The holder cannot go while it is asked: to go it needs the lock. */
void td_lua_lock(td_lua_state *st) {
  td_lua_turns *t = &st->turns;
  pthread_mutex_lock(&t->lock);
  uint64_t mine = t->next++;
  while (t->serving != mine)
    if (!wait_a_little(t) && t->serving != mine)
      pthread_kill(t->holder, TD_LUA_SIGNAL_TURN);
  t->holder = pthread_self();
  pthread_mutex_unlock(&t->lock);
}

void td_lua_unlock(td_lua_state *st) {
  td_lua_turns *t = &st->turns;
  pthread_mutex_lock(&t->lock);
  t->serving++;
  if (t->serving != t->next) pthread_cond_broadcast(&t->served);
  pthread_mutex_unlock(&t->lock);
}

bool td_lua_holds(td_lua_state *st, pthread_t thread) {
  td_lua_turns *t = &st->turns;
  pthread_mutex_lock(&t->lock);
  bool held = t->serving != t->next && pthread_equal(t->holder, thread);
  pthread_mutex_unlock(&t->lock);
  return held;
}

/* ---- the state ---- */

static const char state_key = 0; /* in the registry */

td_lua_state *td_lua_get(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &state_key);
  td_lua_state *st = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return st;
}

static int state_gc(lua_State *L) {
  td_lua_state *st = lua_touserdata(L, 1);
  td_runtime_release(st->runtime);
  st->runtime = NULL;
  return 0;
}

td_lua_state *td_lua_state_new(lua_State *L) {
  td_lua_state *st = lua_newuserdatauv(L, sizeof *st, 0);
  memset(st, 0, sizeof *st);
  turns_init(&st->turns);
  td_lua_lock(st);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, state_gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &state_key);
  return st;
}
