/* line.c - a line of evaluation, and how it is interrupted.
 *
 * An interrupt sets the flag that running steps look at, and a signal to the
 * line's thread ends its wait (td_waiter) and hooks every coroutine on its
 * resume stack. The hook raises at the next instruction. What catches errors
 * lets this one through (catch.c), so the stack unwinds and variables that are
 * to be closed are. A call that goes on all the same after MERCY_NS gets the
 * error at each instruction until it has ended. Lua hooks are per coroutine,
 * hence our resume and wrap, which keep that stack. A thread that waits for its
 * turn sends another signal, whose hook lets it through at the next
 * instruction.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/console/line_impl.h"

#include <sched.h>
#include <signal.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/reserve.h"
#include "engine/base/waiter.h"
#include "lua/bind_lua_op.h"

enum {
  MERCY_NS = 300000000, /* for handlers of variables that are to be closed */
  MERCY_COUNT = 1000    /* instructions between two looks at the clock */
};

static __thread td_line *current;

td_line *td_line_current(void) {
  return current;
}

const char *td_line_name(const td_line *l) {
  return l->name ? l->name : "";
}

/* ---- hooks ---- */

static void hook_all(td_line *l, lua_Hook f, int mask, int count) {
  int n = l->depth < TD_LINE_DEEPEST ? l->depth : TD_LINE_DEEPEST;
  for (int i = 0; i < n; i++) lua_sethook(l->stack[i], f, mask, count);
}

static bool has_raised(const td_line *l) {
  return __atomic_load_n(&l->raised_ns, __ATOMIC_ACQUIRE) != 0;
}

bool td_line_unwinds(const td_line *l) {
  int64_t raised = __atomic_load_n(&l->raised_ns, __ATOMIC_ACQUIRE);
  return raised && td_clock_now() - raised < MERCY_NS;
}

static void raise_hook(lua_State *L, lua_Debug *ar);

/* Hooks as the interrupt wants them now. Called from the handler, too. */
static void arm(td_line *l) {
  if (td_line_unwinds(l))
    hook_all(l, raise_hook, LUA_MASKCOUNT, MERCY_COUNT);
  else
    hook_all(l, raise_hook,
             LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, 1);
}

/* The interrupt's error begins its way up. Steps that a closing handler runs
 * are not the ones that were to stop, so the flag is cleared; a thread that is
 * within `knock` could set it once more, hence the wait. */
void td_line_unwind(td_line *l) {
  if (has_raised(l)) return;
  __atomic_store_n(&l->raised_ns, td_clock_now(), __ATOMIC_SEQ_CST);
  while (__atomic_load_n(&l->knocking, __ATOMIC_SEQ_CST)) sched_yield();
  __atomic_store_n(&l->flag, 0, __ATOMIC_SEQ_CST);
  arm(l);
}

bool td_line_raised(const td_line *l) {
  return has_raised(l);
}

void td_line_raise_again(td_line *l) {
  if (!td_line_interrupted(l)) return;
  __atomic_store_n(&l->raised_ns, 0, __ATOMIC_SEQ_CST);
  __atomic_store_n(&l->flag, 1, __ATOMIC_SEQ_CST);
  arm(l);
}

static void raise_hook(lua_State *L, lua_Debug *ar) {
  (void)ar;
  td_line *l = current;
  if (l && td_line_unwinds(l)) return;
  if (l && !has_raised(l))
    td_line_unwind(l);
  else if (l && !(lua_gethookmask(L) & LUA_MASKCALL))
    arm(l);
  luaL_error(L, "interrupted");
}

/* After hooks were changed outside of a signal handler: one that ran in between
 * may have set its own, which that change undid. */
static void hook_again(td_line *l) {
  if (l && td_line_interrupted(l)) arm(l);
}

/* Takes our hooks from a coroutine; the debugger's, if there is one, is set, or
 * that of a function which runs for a step. */
static void unhook(const td_line *l, lua_State *L) {
  if (l && l->host->debug_hook && !l->debugs)
    lua_sethook(L, l->host->debug_hook, LUA_MASKLINE, 0);
  else
    td_lua_hook(L);
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
  if (l && td_line_interrupted(l)) arm(l);
  td_waiter_wake_here();
}

static void on_turn(int number) {
  (void)number;
  td_line *l = current;
  if (l && !td_line_interrupted(l))
    hook_all(l, turn_hook,
             LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, 1);
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
 * before and has not come to an end; it is left alone while it unwinds. */
static bool knock(td_line *l, bool again) {
  __atomic_add_fetch(&l->knocking, 1, __ATOMIC_SEQ_CST);
  bool runs = __atomic_load_n(&l->n_calls, __ATOMIC_SEQ_CST) &&
              (!again || td_line_interrupted(l));
  if (runs && !(again && td_line_unwinds(l))) {
    __atomic_store_n(&l->interrupted, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&l->flag, 1, __ATOMIC_SEQ_CST);
    pthread_kill(l->thread, TD_LUA_SIGNAL_INTERRUPT);
  }
  __atomic_sub_fetch(&l->knocking, 1, __ATOMIC_SEQ_CST);
  return runs;
}

bool td_line_interrupt(td_line *l) {
  return knock(l, false);
}

bool td_line_nudge(td_line *l) {
  return knock(l, true);
}

void td_line_rehook(td_host *h) {
  for (td_line *l = &h->first; l; l = l->next) {
    __atomic_add_fetch(&l->knocking, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&l->n_calls, __ATOMIC_SEQ_CST))
      pthread_kill(l->thread, TD_LUA_SIGNAL_TURN);
    __atomic_sub_fetch(&l->knocking, 1, __ATOMIC_SEQ_CST);
  }
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

/* An interrupt that comes meanwhile is one with the one that is forgotten: this
 * goes on until nobody knocks and nothing is set. */
bool td_line_forget(td_line *l) {
  bool was = false;
  for (;;) {
    if (__atomic_exchange_n(&l->interrupted, 0, __ATOMIC_SEQ_CST)) was = true;
    __atomic_store_n(&l->flag, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&l->raised_ns, 0, __ATOMIC_SEQ_CST);
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
  if (td_reserve_spent() && !td_reserve_take()) l->host->most = 0;
  l->stack[0] = l->L;
  l->depth = 1;
  current = l;
  if (l->host->debug_hook) unhook(l, l->L);
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

/* A wait may have ended by the interrupt before its signal came. */
void td_line_resume(td_line *l) {
  td_lua_lock(l->host->state);
  hook_again(l);
}

/* ---- coroutines ---- */

int td_line_enter(td_line *l, lua_State *co) {
  if (!l) return 0;
  int depth = l->depth;
  if (depth < TD_LINE_DEEPEST) l->stack[depth] = co;
  l->depth = depth + 1;
  if (l->host->debug_hook) unhook(l, co);
  hook_again(l);
  return depth;
}

void td_line_leave(td_line *l, int depth, lua_State *co) {
  if (l) l->depth = depth;
  lua_sethook(co, NULL, 0, 0);
}

/* ---- life ---- */

static int make_thread(lua_State *L) {
  td_line *l = lua_touserdata(L, 1);
  l->L = lua_newthread(L);
  l->anchor = luaL_ref(L, LUA_REGISTRYINDEX);
  return 0;
}

td_line *td_line_new(td_host *h, const char *name) {
  td_line *l = td_calloc(1, sizeof *l);
  if (!l) return NULL;
  l->host = h;
  l->name = td_strdup(name);
  l->debugs = !strcmp(name, "debug");
  l->anchor = LUA_NOREF;
  td_lua_lock(h->state);
  lua_pushcfunction(h->spare, make_thread);
  lua_pushlightuserdata(h->spare, l);
  if (lua_pcall(h->spare, 1, 0, 0) != LUA_OK) lua_pop(h->spare, 1);
  l->next = h->first.next;
  h->first.next = l;
  td_lua_unlock(h->state);
  if (l->name && l->L) return l;
  td_line_free(l);
  return NULL;
}

void td_line_free(td_line *l) {
  if (!l) return;
  td_lua_lock(l->host->state);
  luaL_unref(l->host->spare, LUA_REGISTRYINDEX, l->anchor);
  td_line *before = &l->host->first;
  while (before->next != l) before = before->next;
  before->next = l->next;
  td_lua_unlock(l->host->state);
  td_free(l->name);
  td_free(l);
}
