/* bind_state.c - the state of one interpreter, and turns in it.
 *
 * A plain mutex would let a loop of short steps take the interpreter back
 * before the thread it woke has run. Under stock lua5.4 there is one thread and
 * a turn costs two uncontended locks.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/bind_state.h"

#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"

enum { PATIENCE = 2000000 }; /* ns until the holder is asked to share */

static __thread int own; /* of a thread that no console interrupts */
static __thread int *interrupt;

int *td_lua_interrupt(void) {
  return interrupt ? interrupt : &own;
}

void td_lua_interrupt_by(int *flag) {
  interrupt = flag;
}

typedef struct ticket {
  const td_lua_turns *turns;
  uint64_t number;
} ticket;

static bool my_turn(void *arg) {
  const ticket *t = arg;
  return __atomic_load_n(&t->turns->serving, __ATOMIC_ACQUIRE) == t->number;
}

/* The holder cannot go while it is asked: to go it needs the lock. */
static void ask_holder(td_lua_turns *t) {
  pthread_mutex_lock(&t->lock);
  if (t->held) pthread_kill(t->holder, TD_LUA_SIGNAL_TURN);
  pthread_mutex_unlock(&t->lock);
}

static void wait_for_turn(td_lua_turns *t, uint64_t mine) {
  ticket k = {t, mine};
  while (td_waiter_wait(&t->served, td_clock_now() + PATIENCE, NULL, my_turn,
                        &k) != TD_WAITED_READY)
    ask_holder(t);
}

void td_lua_lock(td_lua_state *st) {
  td_lua_turns *t = &st->turns;
  pthread_mutex_lock(&t->lock);
  uint64_t mine = t->next++;
  if (t->serving != mine) {
    pthread_mutex_unlock(&t->lock);
    wait_for_turn(t, mine);
    pthread_mutex_lock(&t->lock);
  }
  t->holder = pthread_self();
  t->held = true;
  pthread_mutex_unlock(&t->lock);
}

void td_lua_unlock(td_lua_state *st) {
  td_lua_turns *t = &st->turns;
  pthread_mutex_lock(&t->lock);
  t->held = false;
  __atomic_fetch_add(&t->serving, 1, __ATOMIC_ACQ_REL);
  td_waiter_wake(&t->served);
  pthread_mutex_unlock(&t->lock);
}

bool td_lua_holds(td_lua_state *st, pthread_t thread) {
  td_lua_turns *t = &st->turns;
  pthread_mutex_lock(&t->lock);
  bool held = t->held && pthread_equal(t->holder, thread);
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

/* The last of all: sessions are gone. A forked child leaves its parent's talk
 * alone. */
static void leave_others(td_lua_state *st) {
  if (!st->remote || st->pid != getpid()) return;
  td_remote_close(st->remote);
  td_remote_release(st->remote);
  st->remote = NULL;
}

static int state_gc(lua_State *L) {
  td_lua_state *st = lua_touserdata(L, 1);
  leave_others(st);
  td_runtime_release(st->runtime);
  st->runtime = NULL;
  return 0;
}

td_lua_state *td_lua_state_new(lua_State *L) {
  td_lua_state *st = lua_newuserdatauv(L, sizeof *st, 0);
  memset(st, 0, sizeof *st);
  st->pid = getpid();
  pthread_mutex_init(&st->turns.lock, NULL);
  td_lua_lock(st);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, state_gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &state_key);
  return st;
}
