/* line_impl.h - inside of the console core: a line's coroutines and interrupts.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_LINE_IMPL_H
#define TD_LUA_LINE_IMPL_H

#include "lua/bind.h"
#include "lua/console/host.h"

enum { TD_LINE_DEEPEST = 256 };

struct td_line {
  td_host *host;
  lua_State *L; /* its coroutine; the first line has the main one */
  int anchor;   /* keeps it alive: a reference, or LUA_NOREF */
  char *name;
  bool debugs; /* the debugger's own, "debug", which never gets its hook */
  /* Coroutines that run, first the line's own: written by its thread with
   * signals not yet looking at them, read by the handler on the same thread. */
  lua_State *volatile stack[TD_LINE_DEEPEST];
  volatile int depth; /* 0: idle */
  int interrupted;    /* atomic */
  int flag;           /* atomic: what running steps look at */
  int64_t raised_ns;  /* atomic; when the interrupt's error was raised, or 0 */
  int n_calls;        /* atomic; begun and not ended: a call may come in one */
  int knocking;       /* atomic: threads that interrupt just now */
  pthread_t thread;   /* of the running call */
  td_line *next;      /* of the host's lines; guarded by the interpreter */
};

struct td_host {
  td_line first;    /* and, behind it, the others */
  size_t used;      /* bytes that Lua has */
  size_t most;      /* that it may have in this call while the reserve is spent;
                       0: not decided */
  size_t ceiling;   /* the same in all calls */
  int refusals;     /* in this call */
  lua_State *spare; /* a coroutine for short work on behalf of no line */
  td_lua_state *state;
  const td_frontend *frontend;
  /* At each line of Lua code, while a debugger looks on; else NULL. Guarded by
   * the interpreter. */
  lua_Hook debug_hook;
  int exit_code;        /* that the last script wants */
  bool warns;           /* warn("@on") was said. Guarded likewise */
  bool warning_goes_on; /* pieces of a warning are to come */
};

/* Between the two, the interpreter is this thread's and the line is busy.
 * `end` is true when it was interrupted, and forgets that. */
void td_line_begin(td_line *l);
bool td_line_end(td_line *l);
/* Forgets an interrupt within a call, once its error has arrived. */
bool td_line_forget(td_line *l);

/* The interrupt's error is on its way up: what closes may run for a while. */
void td_line_unwind(td_line *l);
/* Is it on its way, and that while not over? */
bool td_line_unwinds(const td_line *l);

/* Was its error raised? */
bool td_line_raised(const td_line *l);
/* It was, by an interrupt, where nothing hands it on: once more. */
void td_line_raise_again(td_line *l);

/* `co` runs on top of the line's coroutines until it leaves them as deep as
 * `enter` said. The line may be NULL. */
int td_line_enter(td_line *l, lua_State *co);
void td_line_leave(td_line *l, int depth, lua_State *co);

/* Installs the signal handlers of interrupts and turns. */
void td_line_signals(void);

/* Has the lines that run take the debugger's hook or leave it. The caller has
 * the interpreter. */
void td_line_rehook(td_host *h);

#endif
