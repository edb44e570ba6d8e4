/* bind_step.h - what a step takes and gives, read from the Lua stack and pushed
 * onto it.
 *
 * The library gives flat lists, of what it made of nested tables; here what is
 * fetched is split into edges and ops. Everything lives on the Lua stack, so
 * that an error leaks nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_BIND_STEP_H
#define TD_LUA_BIND_STEP_H

#include <lua.h>

#include "engine/run/session.h"

typedef struct td_lua_step {
  td_edge *feeds, *fetches;
  td_node **targets;
  int8_t *is_op; /* result i is an op: true */
  int n_feeds, n_fetches, n_targets, n_results;
} td_lua_step;

typedef struct td_lua_step_options {
  td_step_options run;
  bool as_values; /* rank 0 too comes as a value */
  bool traced;
} td_lua_step_options;

/* From the lists at `fetches` and `feeds` (0, or nothing there: none). Raises,
 * as all of these. */
void td_lua_step_read(lua_State *L, int fetches, int feeds, td_lua_step *out);
td_signature td_lua_step_signature(const td_lua_step *step);
/* Pushes a copy of its feeds. */
td_edge *td_lua_step_keep_feeds(lua_State *L, const td_lua_step *step);
/* The Lua value at `i` for a feed; its tensor is put in its place. */
const td_tensor *td_lua_step_value(lua_State *L, int i, td_edge e);
/* The values of its feeds from the list at `i`; they stay on the Lua stack. */
td_tensor *td_lua_step_values(lua_State *L, int i, const td_lua_step *step);
/* {timeout = seconds, as_values =, trace =, check_numerics =} at `i`, or
 * nothing there. */
td_lua_step_options td_lua_step_read_options(lua_State *L, int i);
/* Without a table: what may interrupt it, where its ops print. */
td_step_options td_lua_step_defaults(void);
/* Pushes n results in the order asked for; takes ownership of the fetches. */
int td_lua_step_results(lua_State *L, td_tensor *fetches, const int8_t *is_op,
                        int n);

#endif
