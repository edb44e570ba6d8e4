/* bind_session_impl.h - what the files that bind sessions share.
 * bind_session.c has the sessions, bind_step.c one step, bind_callable.c what
 * holds a signature for more steps than one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_BIND_SESSION_IMPL_H
#define TD_LUA_BIND_SESSION_IMPL_H

#include "lua/bind.h"

/* What a step takes and gives, as flat lists from Lua: what is fetched is split
 * into edges and ops. Everything in it lives on the Lua stack. */
typedef struct td_lua_step {
  td_edge *feeds, *fetches;
  td_node **targets;
  int8_t *is_op; /* result i is an op: true */
  int n_feeds, n_fetches, n_targets, n_results;
} td_lua_step;

/* ---- bind_session.c ---- */

/* The open session at `i`; raises. */
td_session *td_lua_to_session(lua_State *L, int i);

/* ---- bind_step.c; all raise ---- */

/* From the lists at `fetches` and `feeds` (0, or nothing there: none). */
void td_lua_step_read(lua_State *L, int fetches, int feeds, td_lua_step *out);
td_signature td_lua_step_signature(const td_lua_step *step);
/* Pushes a copy of its feeds. */
td_edge *td_lua_step_keep_feeds(lua_State *L, const td_lua_step *step);
/* The Lua value at `i` for a feed; the tensor stays on the Lua stack as a
 * value, so that an error leaks nothing. */
const td_tensor *td_lua_step_value(lua_State *L, int i, td_edge e);
/* The values of its feeds from the list at `i`; they stay on the Lua stack. */
td_tensor *td_lua_step_values(lua_State *L, int i, const td_lua_step *step);
/* The table at `i`, or none. */
td_run_options td_lua_step_options(lua_State *L, int i, bool *as_values,
                                   bool *traced);
/* Without a table: what may interrupt it, where its ops print. */
td_run_options td_lua_step_defaults(void);
/* Pushes n results in the order asked for; takes ownership of the fetches. */
int td_lua_step_results(lua_State *L, td_tensor *fetches, const int8_t *is_op,
                        int n);
/* Adds core_run and core_program to the methods on top of the stack. */
void td_lua_open_step(lua_State *L);

/* ---- bind_callable.c ---- */

/* Adds core_callable, core_start, core_loop and core_partial to the methods on
 * top of the stack; makes the classes of what they give. */
void td_lua_open_callable(lua_State *L);

#endif
