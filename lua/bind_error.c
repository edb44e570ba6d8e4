/* bind_error.c - error objects: made of a td_status, raised, printed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "lua/bind.h"
#include "lua/bind_field.h"

static void set_text(lua_State *L, const char *field, const char *text) {
  if (text[0]) td_lua_set_string(L, field, text);
}

/* The task of a device, "/job:worker/replica:0/task:1" of
 * "/job:worker/replica:0/task:1/device:CPU:0", unless it is this process. */
static void set_task(lua_State *L, const char *device) {
  const td_lua_state *st = td_lua_get(L);
  const char *own =
      st && st->runtime ? td_runtime_place(st->runtime) : "/job:localhost";
  const char *stop = strstr(device, "/device:");
  size_t len = stop ? (size_t)(stop - device) : strlen(device);
  if (strncmp(device, "/job:", 5) != 0) return;
  if (len == strlen(own) && strncmp(device, own, len) == 0) return;
  lua_pushlstring(L, device, len);
  lua_setfield(L, -2, "task");
}

static int push_error_table(lua_State *L) {
  td_status *s = lua_touserdata(L, 1);
  lua_createtable(L, 0, 10);
  set_text(L, "code", td_code_name(td_status_code(s)));
  set_text(L, "message", td_status_message(s));
  set_text(L, "op", td_status_op(s));
  set_text(L, "node", td_status_node(s));
  set_text(L, "where", td_status_origin(s));
  set_text(L, "device", td_status_device(s));
  set_task(L, td_status_device(s));
  set_text(L, "applied", td_status_applied_where(s));
  td_lua_set_flag(L, "derived", td_status_derived(s));
  if (td_lua_push_frames(L, L, "stack traceback:"))
    lua_setfield(L, -2, "traceback");
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
      __atomic_exchange_n(td_lua_interrupt(), 0, __ATOMIC_ACQ_REL) &&
      strncmp(td_status_message(s), "interrupted;", 12) != 0) {
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

/* ---- the user's line ---- */

enum { NOBODYS, LIBRARYS, USERS };

/* Whose is the function at `level` of the stack, told in *ar? */
static int whose(lua_State *L, int level, lua_Debug *ar) {
  if (!lua_getstack(L, level, ar)) return NOBODYS;
  lua_getinfo(L, "Sl", ar);
  return ar->currentline < 0 || !strncmp(ar->source, "=[tide]", 7) ? LIBRARYS
                                                                   : USERS;
}

static int depth_of(lua_State *L) {
  lua_Debug ar;
  int there = 0, gone = 1;
  while (lua_getstack(L, gone, &ar)) there = gone, gone *= 2;
  while (gone - there > 1) {
    int mid = there + (gone - there) / 2;
    if (lua_getstack(L, mid, &ar))
      there = mid;
    else
      gone = mid;
  }
  return there;
}

/* The nearest line of the user's. Lua finds a level by walking to it, so that
 * to look at all of a deep stack costs its square: where branches within
 * branches end in tail calls, which leave no line behind, there are thousands
 * of the library's above each other. Beyond NEAR it is the outermost line. */
const char *td_lua_origin(lua_State *L, char *buf, size_t size) {
  enum { NEAR = 128 };
  lua_Debug ar;
  int level = 0, found = LIBRARYS;
  while (found == LIBRARYS && level < NEAR) found = whose(L, level++, &ar);
  if (found == LIBRARYS)
    for (level = depth_of(L); found == LIBRARYS && level >= NEAR; level--)
      found = whose(L, level, &ar);
  buf[0] = 0;
  if (found == USERS)
    snprintf(buf, size, "%s:%d", ar.short_src, ar.currentline);
  return buf;
}

/* ---- the user's frames ---- */

/* What Lua calls the function of a frame, by who called it: in the library that
 * is the name of a parameter, and nobody's business. */
static void add_function(luaL_Buffer *b, lua_State *L, const lua_Debug *ar,
                         bool by_user) {
  if (*ar->what == 'm')
    lua_pushliteral(L, "main chunk");
  else if (by_user && *ar->namewhat)
    lua_pushfstring(L, "%s '%s'", ar->namewhat, ar->name);
  else
    lua_pushfstring(L, "function <%s:%d>", ar->short_src, ar->linedefined);
  luaL_addvalue(b);
}

static void add_frame(luaL_Buffer *b, lua_State *L, lua_State *of,
                      lua_Debug *ar, int level) {
  lua_Debug caller;
  lua_getinfo(of, "Slnt", ar);
  lua_pushfstring(L, "\n\t%s:%d: in ", ar->short_src, ar->currentline);
  luaL_addvalue(b);
  add_function(b, L, ar, whose(of, level + 1, &caller) == USERS);
  if (ar->istailcall) luaL_addstring(b, "\n\t(...tail calls...)");
}

bool td_lua_push_frames(lua_State *L, lua_State *of, const char *head) {
  enum { FAR = 200, MOST = 20 }; /* levels looked at, frames told */
  lua_Debug ar;
  luaL_Buffer b;
  int told = 0, found = LIBRARYS;
  luaL_buffinit(L, &b);
  luaL_addstring(&b, head);
  for (int level = 0; level < FAR && told < MOST; level++) {
    found = whose(of, level, &ar);
    if (found == NOBODYS) break;
    if (found == USERS) add_frame(&b, L, of, &ar, level), told++;
  }
  if (told && found != NOBODYS) luaL_addstring(&b, "\n\t...");
  luaL_pushresult(&b);
  if (!told) lua_pop(L, 1);
  return told;
}

bool td_lua_is_error(lua_State *L, int i) {
  if (!lua_istable(L, i) || !lua_getmetatable(L, i)) return false;
  luaL_getmetatable(L, TD_LUA_ERROR);
  bool is = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return is;
}

void td_lua_error_resumed(lua_State *L) {
  if (!lua_checkstack(L, 16) || !td_lua_is_error(L, -1)) return;
  enum { LONG = 8192 }; /* it may be raised again for ever */
  lua_getfield(L, -1, "traceback");
  size_t len = 0;
  const char *so_far = lua_tolstring(L, -1, &len);
  if (len < LONG &&
      td_lua_push_frames(L, L, so_far ? so_far : "stack traceback:"))
    lua_setfield(L, -3, "traceback");
  lua_pop(L, 1);
}

TD_LUA_OPEN(error) {
  static const luaL_Reg functions[] = {{"error", core_error}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  luaL_newmetatable(L, TD_LUA_ERROR);
  lua_pushcfunction(L, error_tostring);
  lua_setfield(L, -2, "__tostring");
  lua_pop(L, 1);
}
