/* bind_lua_op.h - functions of Lua as ops of a graph, and the threads that
 * call them: those that wait for a step.
 *
 *   td_lua_wait w;
 *   td_lua_wait_begin(&w, L);            in place of td_lua_unlock
 *   td_status *s = td_session_run(...);
 *   td_lua_wait_end(&w);                 in place of td_lua_lock
 *
 * What runs in between has td_lua_serve in its options (td_lua_step_defaults);
 * whatever asks for a function is served on this thread, in L.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_BIND_LUA_OP_H
#define TD_LUA_BIND_LUA_OP_H

#include "engine/device/kernel.h"
#include "lua/bind_state.h"

typedef struct td_lua_wait {
  lua_State *L;
  td_lua_state *state;
  struct td_lua_wait *outer; /* the wait in which a function waits */
} td_lua_wait;

void td_lua_wait_begin(td_lua_wait *w, lua_State *L);
void td_lua_wait_end(td_lua_wait *w);

/* td_step_options.serve: calls the function that the node of `c` names. */
td_status *td_lua_serve(td_kernel_ctx *c);
/* Is this thread in a function that a step of `s` waits for? */
bool td_lua_runs_in(td_session *s);
/* Sets the hook that coroutine L has as far as functions of steps go: one that
 * ends them with their step, or none. For who has set another meanwhile. */
void td_lua_hook(lua_State *L);

#endif
