/* line.h - inside of the console core: a line's coroutines and interrupts.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_LINE_H
#define TD_LUA_LINE_H

#include "lua/bind.h"
#include "lua/host.h"

enum { TD_LINE_DEEPEST = 256 };

struct td_line {
  td_host *host;
  lua_State *L; /* its coroutine; the first line has the main one */
  int anchor;   /* keeps it alive: a reference, or LUA_NOREF */
  char *name;
  /* Coroutines that run, first the line's own: written by its thread with
   * signals not yet looking at them, read by the handler on the same thread. */
  lua_State *volatile stack[TD_LINE_DEEPEST];
  volatile int depth; /* 0: idle */
  int interrupted;    /* atomic */
  int flag;           /* atomic: what running steps look at */
  int n_calls;      /* atomic; begun and not ended: a call may come in a call */
  int knocking;     /* atomic: threads that interrupt just now */
  pthread_t thread; /* of the running call */
};

struct td_host {
  td_line first;
  lua_State *spare; /* a coroutine for short work on behalf of no line */
  td_lua_state *state;
  const td_front *front;
};

/* Between the two, the interpreter is this thread's and the line is busy.
 * `end` is true when it was interrupted, and forgets that. */
void td_line_begin(td_line *l);
bool td_line_end(td_line *l);
/* Forgets an interrupt within a call, once its error has arrived. */
bool td_line_forget(td_line *l);

/* Replaces coroutine.resume and .wrap by ours, which keep the stack. */
void td_line_coroutines(lua_State *L);
/* Installs the signal handlers of interrupts and turns. */
void td_line_signals(void);

/* front.c: preloads module tide.front. */
void td_front_open(lua_State *L, const td_front *f);

#endif
