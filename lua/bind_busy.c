/* bind_busy.c - see bind_busy.h. The count is changed by whom has the
 * interpreter.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/bind_busy.h"

#include "lua/bind_error.h"

void td_lua_busy_check(lua_State *L, int busy, const char *what) {
  if (busy)
    td_lua_error(L, TD_FAILED_PRECONDITION,
                 "the %s is in use by another line of evaluation", what);
}

td_lua_state *td_lua_busy_begin(lua_State *L, int *busy) {
  td_lua_state *st = td_lua_get(L);
  ++*busy;
  td_lua_unlock(st);
  return st;
}

void td_lua_busy_end(td_lua_state *st, int *busy) {
  td_lua_lock(st);
  --*busy;
}
