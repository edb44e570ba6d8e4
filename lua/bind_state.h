/* bind_state.h - what the binding keeps for one interpreter, and the lock that
 * lets one thread at a time into it.
 *
 * The lock is a ticket lock: first come, first served. It is released during
 * long C calls, so that other lines of a console go on while a step runs:
 *
 *   td_lua_unlock(st);
 *   td_status *s = td_session_run(...);   nothing of Lua may be touched here
 *   td_lua_lock(st);
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_BIND_STATE_H
#define TD_LUA_BIND_STATE_H

#include <lua.h>
#include <pthread.h>
#include <signal.h>

#include "engine/base/waiter.h"
#include "engine/remote/remote.h"
#include "engine/run/session.h"

/* A thread that waits for its turn for long sends TD_LUA_SIGNAL_TURN to the
 * one whose turn it is. */
typedef struct td_lua_turns {
  pthread_mutex_t lock; /* of what follows */
  uint64_t next;        /* the next ticket to draw */
  uint64_t serving;     /* whose turn it is; atomic, changed under the lock */
  bool held;            /* else `holder` may be gone */
  pthread_t holder;
  td_waiter served; /* who waits for a turn */
} td_lua_turns;

/* The console core handles these two; a plain lua5.4 gets neither. */
#define TD_LUA_SIGNAL_INTERRUPT (SIGRTMIN + 1)
#define TD_LUA_SIGNAL_TURN (SIGRTMIN + 2)

/* One for a main coroutine and all others of it; a userdata in the registry. */
typedef struct td_lua_state {
  td_runtime *runtime;
  td_remote *remote; /* NULL until other processes are dialled */
  pid_t pid;         /* of the process that made it */
  td_lua_turns turns;
  uint64_t cells;    /* that a console has begun */
  size_t held;       /* tensor bytes that Lua values keep alive */
  size_t debt;       /* of them made since the last full collection */
  size_t held_after; /* held just after it */
} td_lua_state;

/* Borrowed; NULL before td_lua_state_new. */
td_lua_state *td_lua_get(lua_State *L);
/* Makes it, with the lock taken and no runtime yet. Raises. */
td_lua_state *td_lua_state_new(lua_State *L);

void td_lua_unlock(td_lua_state *st);
void td_lua_lock(td_lua_state *st);
/* Is it `thread` that has the interpreter? */
bool td_lua_holds(td_lua_state *st, pthread_t thread);

/* What steps begun by this thread look at: non-zero ends them. Never NULL;
 * atomic. */
int *td_lua_interrupt(void);
/* For loops over what Lua or a tensor holds, where no hook of Lua's comes: is
 * the call to end? `i` counts the elements; most of the time it costs nothing.
 */
static inline bool td_lua_ends_at(int64_t i) {
  return TD_UNLIKELY((i & 4095) == 4095) &&
         __atomic_load_n(td_lua_interrupt(), __ATOMIC_RELAXED);
}
/* Sets it; NULL: one of the thread itself, which no console sets. */
void td_lua_interrupt_by(int *flag);

#endif
