/* bind_far.c - asking a session whose master is another process.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/bind_far.h"

#include <lauxlib.h>

#include "engine/base/bytes.h"
#include "lua/bind.h"

bool td_lua_far_ask(lua_State *L, td_session *s, td_far_question q) {
  td_far_session *f = td_far_session_of(s);
  td_lua_state *st = td_lua_get(L);
  td_str out = {0};
  if (!f) return false;
  if (!q.interrupt) q.interrupt = td_lua_interrupt();
  td_session_retain(s);
  td_lua_unlock(st);
  td_status *status = td_far_ask(f, &q, &out);
  td_lua_lock(st);
  td_session_release(s);
  if (!td_ok(status)) td_str_deinit(&out);
  td_lua_check_step(L, status);
  td_lua_push_str(L, &out);
  return true;
}

td_bytes td_lua_far_bytes(lua_State *L) {
  td_bytes b;
  b.at = lua_tolstring(L, -1, &b.len);
  return b;
}

static void broken(lua_State *L) {
  td_lua_error(L, TD_DATA_LOSS, "an answer came broken");
}

uint64_t td_lua_far_number(lua_State *L, td_bytes *from, int n) {
  uint64_t v = 0;
  if (!td_bytes_get(from, n, &v)) broken(L);
  return v;
}

const char *td_lua_far_text(lua_State *L, td_bytes *from) {
  td_bytes text = {"", 0};
  uint64_t len = td_lua_far_number(L, from, 4);
  if (!td_bytes_take(from, (size_t)len, &text)) broken(L);
  return lua_pushlstring(L, text.at, text.len);
}
