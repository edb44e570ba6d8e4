/* bind_signals.c - SIGTERM and SIGUSR1, heard while somebody wants to.
 *
 * Whoever ends jobs (a batch system, an operator, a cloud that takes a machine
 * back) sends one of these and kills some time later. A job that keeps its
 * state asks between two steps whether one came; the signal itself interrupts
 * nothing: its handler writes one word, and system calls go on.
 *
 * Signals belong to the process, so what is here does: handlers are installed
 * by the first who opens, of whichever interpreter, and what was there before
 * comes back with the last who closes. Threads of the pool have all signals
 * blocked (engine/base/thread.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "lua/bind.h"

#define SIGNALS "tide.signals"

enum { HEARD = 2 };

static const int numbers[HEARD] = {SIGTERM, SIGUSR1};
static const char *const names[HEARD] = {"SIGTERM", "SIGUSR1"};

typedef void handler(int number);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int open_count;                 /* under the lock */
static struct sigaction before[HEARD]; /* under the lock */
static int asked;                      /* 1 + the first's index; atomic */
static handler *others[HEARD];         /* to be called, too; atomic */

/* Only what is async-signal-safe. */
static void on_signal(int number) {
  int err = errno, i = number == SIGTERM ? 0 : 1, none = 0;
  __atomic_compare_exchange_n(&asked, &none, i + 1, false, __ATOMIC_SEQ_CST,
                              __ATOMIC_SEQ_CST);
  handler *other = __atomic_load_n(&others[i], __ATOMIC_ACQUIRE);
  if (other) other(number);
  errno = err;
}

static bool is_function(const struct sigaction *a) {
  return !(a->sa_flags & SA_SIGINFO) && a->sa_handler != SIG_DFL &&
         a->sa_handler != SIG_IGN;
}

static void install(bool pass_on) {
  struct sigaction a;
  memset(&a, 0, sizeof a);
  a.sa_handler = on_signal;
  a.sa_flags = SA_RESTART;
  __atomic_store_n(&asked, 0, __ATOMIC_SEQ_CST);
  for (int i = 0; i < HEARD; i++) {
    sigaction(numbers[i], NULL, &before[i]);
    bool both = pass_on && is_function(&before[i]);
    __atomic_store_n(&others[i], both ? before[i].sa_handler : NULL,
                     __ATOMIC_RELEASE);
    sigaction(numbers[i], &a, NULL);
  }
}

/* What somebody installed over ours stays. */
static void restore(void) {
  for (int i = 0; i < HEARD; i++) {
    struct sigaction now;
    sigaction(numbers[i], NULL, &now);
    if (!(now.sa_flags & SA_SIGINFO) && now.sa_handler == on_signal)
      sigaction(numbers[i], &before[i], NULL);
  }
}

static int push_asked(lua_State *L) {
  int i = __atomic_load_n(&asked, __ATOMIC_ACQUIRE);
  lua_pushstring(L, i ? names[i - 1] : NULL);
  return 1;
}

/* core.signals_open(pass_on): an object; until it is closed both signals are
 * heard. `pass_on`: a handler that was there before is called, too. */
static int signals_open(lua_State *L) {
  bool pass_on = lua_toboolean(L, 1);
  bool *is_open = lua_newuserdatauv(L, sizeof *is_open, 0);
  *is_open = false;
  luaL_setmetatable(L, SIGNALS);
  pthread_mutex_lock(&lock);
  if (open_count++ == 0) install(pass_on);
  pthread_mutex_unlock(&lock);
  *is_open = true;
  return 1;
}

/* core.signals_asked(): "SIGTERM", "SIGUSR1", whichever came first, or nil.
 * Quick. */
static int signals_asked(lua_State *L) {
  return push_asked(L);
}

/* core.signals_close(object): what has been asked up to now. */
static int signals_close(lua_State *L) {
  bool *is_open = luaL_checkudata(L, 1, SIGNALS);
  if (!*is_open) return 0;
  *is_open = false;
  pthread_mutex_lock(&lock);
  if (--open_count == 0) restore();
  pthread_mutex_unlock(&lock);
  return push_asked(L);
}

TD_LUA_OPEN(signals) {
  static const luaL_Reg methods[] = {
      {"__gc", signals_close}, {"__close", signals_close}, {NULL, NULL}};
  static const luaL_Reg functions[] = {{"signals_open", signals_open},
                                       {"signals_asked", signals_asked},
                                       {"signals_close", signals_close},
                                       {NULL, NULL}};
  luaL_newmetatable(L, SIGNALS);
  luaL_setfuncs(L, methods, 0);
  lua_pop(L, 1);
  luaL_setfuncs(L, functions, 0);
}
