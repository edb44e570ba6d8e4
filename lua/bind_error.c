/* bind_error.c - error objects: made of a td_status, raised, printed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "lua/bind.h"
#include "lua/bind_field.h"

static void set_text(lua_State *L, const char *field, const char *text) {
  if (text[0]) td_lua_set_string(L, field, text);
}

static int push_error_table(lua_State *L) {
  td_status *s = lua_touserdata(L, 1);
  lua_createtable(L, 0, 7);
  set_text(L, "code", td_code_name(td_status_code(s)));
  set_text(L, "message", td_status_message(s));
  set_text(L, "op", td_status_op(s));
  set_text(L, "node", td_status_node(s));
  set_text(L, "where", td_status_origin(s));
  set_text(L, "device", td_status_device(s));
  td_lua_set_flag(L, "derived", td_status_derived(s));
  luaL_setmetatable(L, TD_LUA_ERROR);
  return 1;
}

/* Pushes the error object of `s`; takes ownership. */
static void push_error(lua_State *L, td_status *s) {
  lua_pushcfunction(L, push_error_table);
  lua_pushlightuserdata(L, s);
  int rc = lua_pcall(L, 1, 1, 0); /* out of memory leaves Lua's own message */
  (void)rc;
  td_status_release(s);
}

void td_lua_check(lua_State *L, td_status *s) {
  if (td_ok(s)) return;
  if (!td_status_origin(s)[0]) {
    char where[300];
    s = td_status_at(s, NULL, NULL, td_lua_origin(L, where, sizeof where),
                     NULL);
  }
  push_error(L, s);
  lua_error(L);
}

int td_lua_error(lua_State *L, td_code code, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  td_status *s = td_error_v(code, fmt, args);
  va_end(args);
  td_lua_check(L, s);
  return 0;
}

void td_lua_check_step(lua_State *L, td_status *s) {
  if (td_ok(s)) return;
  if (td_status_code(s) == TD_CANCELLED &&
      __atomic_exchange_n(td_lua_interrupt(), 0, __ATOMIC_ACQ_REL)) {
    td_status_release(s);
    s = td_error(TD_CANCELLED, "interrupted");
  }
  td_lua_check(L, s);
}

/* The message alone; the library replaces it by the whole story. */
static int error_tostring(lua_State *L) {
  lua_getfield(L, 1, "message");
  return 1;
}

td_status *td_lua_prefix(td_status *s, const char *fmt, ...) {
  if (td_ok(s)) return s;
  td_str text;
  va_list args;
  td_str_init(&text);
  va_start(args, fmt);
  td_str_addv(&text, fmt, args);
  va_end(args);
  td_status *full = td_error(td_status_code(s), "%s: %s", td_str_c(&text),
                             td_status_message(s));
  td_str_deinit(&text);
  td_status_release(s);
  return full;
}

/* A message as C takes it: zero bytes are written \0. */
static const char *printable(lua_State *L, int i) {
  size_t len;
  luaL_Buffer b;
  const char *s = luaL_checklstring(L, i, &len);
  if (strlen(s) == len) return s;
  luaL_buffinit(L, &b);
  for (size_t k = 0; k < len; k++) {
    if (s[k])
      luaL_addchar(&b, s[k]);
    else
      luaL_addstring(&b, "\\0");
  }
  luaL_pushresult(&b);
  return lua_tostring(L, -1);
}

/* core.error(code, message [, op]): raises an error object from Lua code. */
static int core_error(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  int code = TD_CANCELLED;
  while (code < TD_UNAUTHENTICATED && strcmp(name, td_code_name((td_code)code)))
    code++;
  luaL_argcheck(L, !strcmp(name, td_code_name((td_code)code)), 1,
                "no such code");
  td_status *s = td_error((td_code)code, "%s", printable(L, 2));
  s = td_status_at(s, luaL_optstring(L, 3, NULL), NULL, NULL, NULL);
  td_lua_check(L, s);
  return 0;
}

const char *td_lua_origin(lua_State *L, char *buf, size_t size) {
  lua_Debug ar;
  buf[0] = 0;
  for (int level = 0; lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sl", &ar);
    if (ar.currentline < 0 || !strncmp(ar.source, "=[tide]", 7)) continue;
    snprintf(buf, size, "%s:%d", ar.short_src, ar.currentline);
    break;
  }
  return buf;
}

TD_LUA_OPEN(error) {
  static const luaL_Reg functions[] = {{"error", core_error}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  luaL_newmetatable(L, TD_LUA_ERROR);
  lua_pushcfunction(L, error_tostring);
  lua_setfield(L, -2, "__tostring");
  lua_pop(L, 1);
}
