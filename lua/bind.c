/* bind.c - opens the binding: state, errors, methods, the embedded library.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/bind.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cpu.h"
#include "engine/base/file.h"
#include "engine/base/mem.h"

static const char state_key = 0;

td_lua_state *td_lua_get(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &state_key);
  td_lua_state *st = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return st;
}

void *td_lua_block(lua_State *L, size_t n, size_t size) {
  size_t bytes = 0;
  if (!td_mul(n, size, &bytes)) luaL_error(L, "out of memory");
  void *p = lua_newuserdatauv(L, bytes ? bytes : 1, 0);
  memset(p, 0, bytes);
  return p;
}

/* ---- pushing what C holds: what may raise runs protected ---- */

typedef struct object_call {
  const char *type;
  size_t size;
  int uservalues;
} object_call;

static int make_object(lua_State *L) {
  const object_call *c = lua_touserdata(L, 1);
  void *p = lua_newuserdatauv(L, c->size, c->uservalues);
  memset(p, 0, c->size);
  luaL_setmetatable(L, c->type);
  return 1;
}

bool td_lua_try_object(lua_State *L, const char *type, size_t size,
                       int uservalues) {
  object_call c = {type, size, uservalues};
  lua_pushcfunction(L, make_object);
  lua_pushlightuserdata(L, &c);
  return lua_pcall(L, 1, 1, 0) == LUA_OK;
}

void td_lua_make_class(lua_State *L, const char *name, lua_CFunction gc,
                       const luaL_Reg *methods) {
  luaL_newmetatable(L, name);
  lua_pushcfunction(L, gc);
  lua_setfield(L, -2, "__gc");
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}

static int make_string(lua_State *L) {
  const td_bytes *b = lua_touserdata(L, 1);
  lua_pushlstring(L, b->at, b->len);
  return 1;
}

static bool try_string(lua_State *L, const char *at, size_t len) {
  td_bytes b = {at, len};
  lua_pushcfunction(L, make_string);
  lua_pushlightuserdata(L, &b);
  return lua_pcall(L, 1, 1, 0) == LUA_OK;
}

void td_lua_push_str(lua_State *L, td_str *s) {
  bool ok = try_string(L, td_str_c(s), s->len);
  td_str_deinit(s);
  if (!ok) lua_error(L);
}

void td_lua_push_bytes(lua_State *L, char *bytes, size_t len) {
  bool ok = try_string(L, bytes, len);
  td_free(bytes);
  if (!ok) lua_error(L);
}

/* ---- errors ---- */

static void set_text(lua_State *L, const char *field, const char *text) {
  if (!text[0]) return;
  lua_pushstring(L, text);
  lua_setfield(L, -2, field);
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
  lua_pushboolean(L, td_status_derived(s));
  lua_setfield(L, -2, "derived");
  luaL_setmetatable(L, TD_LUA_ERROR);
  return 1;
}

void td_lua_push_error(lua_State *L, td_status *s) {
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
  td_lua_push_error(L, s);
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

const char *td_lua_text(lua_State *L, int i) {
  size_t len;
  if (lua_type(L, i) != LUA_TSTRING)
    td_lua_error(L, TD_INVALID_ARGUMENT, "expected a string, given %s",
                 td_lua_what(L, i));
  const char *s = lua_tolstring(L, i, &len);
  if (strlen(s) != len)
    td_lua_error(L, TD_INVALID_ARGUMENT,
                 "a zero byte is in the name \"%s\\0...\": names are text", s);
  return s;
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

/* ---- methods and fields ---- */

static const char methods_key = 0;

/* core.set_methods(type, table): what t.name finds on "tensor", "edge", ... */
static int set_methods(lua_State *L) {
  lua_pushfstring(L, "tide.%s", luaL_checkstring(L, 1));
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &methods_key);
  lua_insert(L, -2);
  lua_pushvalue(L, 2);
  lua_rawset(L, -3);
  return 0;
}

bool td_lua_method(lua_State *L, const char *type, int key) {
  key = lua_absindex(L, key);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &methods_key);
  lua_getfield(L, -1, type);
  lua_remove(L, -2);
  if (lua_istable(L, -1)) {
    lua_pushvalue(L, key);
    lua_gettable(L, -2);
    lua_remove(L, -2);
    if (!lua_isnil(L, -1)) return true;
  }
  lua_pop(L, 1);
  return false;
}

bool td_lua_identifier(const char *s) {
  if (!isalpha((unsigned char)*s) && *s != '_') return false;
  while (*++s)
    if (!isalnum((unsigned char)*s) && *s != '_') return false;
  return true;
}

static void nearest(const char *word, const char *candidate, const char **best,
                    int *distance) {
  int d = td_str_distance(word, candidate);
  if (d < *distance && d <= 1 + (int)strlen(word) / 3) {
    *best = candidate;
    *distance = d;
  }
}

int td_lua_no_field(lua_State *L, const char *type, const char *key,
                    const char *const *fields) {
  const char *best = NULL;
  int distance = 1000;
  for (; fields && *fields; fields++) nearest(key, *fields, &best, &distance);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &methods_key);
  if (lua_getfield(L, -1, type) == LUA_TTABLE) {
    lua_pushnil(L);
    while (lua_next(L, -2)) {
      if (lua_type(L, -2) == LUA_TSTRING)
        nearest(key, lua_tostring(L, -2), &best, &distance);
      lua_pop(L, 1);
    }
  }
  if (best)
    return td_lua_error(L, TD_INVALID_ARGUMENT,
                        "no field or method \"%s\" on a %s; did you mean "
                        "\"%s\"?",
                        key, type + 5, best);
  return td_lua_error(L, TD_INVALID_ARGUMENT,
                      "no field or method \"%s\" on a %s", key, type + 5);
}

/* core.nearest(word, list): the most similar of the list, or nil. */
static int core_nearest(lua_State *L) {
  const char *word = luaL_checkstring(L, 1), *best = NULL;
  int distance = 1000;
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_Integer n = luaL_len(L, 2);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, 2, i); /* the list keeps the string alive */
    if (lua_type(L, -1) == LUA_TSTRING)
      nearest(word, lua_tostring(L, -1), &best, &distance);
    lua_pop(L, 1);
  }
  lua_pushstring(L, best);
  return 1;
}

/* ---- opening ---- */

static int state_gc(lua_State *L) {
  td_lua_state *st = lua_touserdata(L, 1);
  td_runtime_release(st->runtime);
  st->runtime = NULL;
  return 0;
}

static td_lua_state *make_state(lua_State *L) {
  td_lua_state *st = td_lua_block(L, 1, sizeof *st);
  td_lua_turns_init(&st->turns);
  td_lua_lock(st);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, state_gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &state_key);
  return st;
}

/* Runs one embedded module with (name, core); TIDE_LUA=dir reads files, but for
 * what the build has made. */
static int load_module(lua_State *L) {
  const struct td_lua_file *f = lua_touserdata(L, lua_upvalueindex(1));
  const char *dir = getenv("TIDE_LUA");
  if (dir && *dir && strcmp(f->name, "tide.docs")) {
    lua_pushfstring(L, "%s/%s", dir, f->chunk + strlen("=[tide] "));
    size_t len;
    char *text;
    td_lua_check(L, td_file_read(lua_tostring(L, -1), 1 << 24, &text, &len));
    int rc = luaL_loadbufferx(L, text, len, f->chunk, "t");
    td_free(text);
    if (rc != LUA_OK) lua_error(L);
  } else if (luaL_loadbufferx(L, f->text, f->len, f->chunk, "t") != LUA_OK) {
    lua_error(L);
  }
  lua_pushstring(L, f->name);
  lua_getfield(L, LUA_REGISTRYINDEX, "tide.core");
  lua_call(L, 2, 1);
  return 1;
}

static int return_core(lua_State *L) {
  lua_getfield(L, LUA_REGISTRYINDEX, "tide.core");
  return 1;
}

static void preload(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  for (const struct td_lua_file *f = td_lua_library; f->name; f++) {
    if (!strcmp(f->name, "tide")) continue;
    lua_pushlightuserdata(L, (void *)(uintptr_t)f);
    lua_pushcclosure(L, load_module, 1);
    lua_setfield(L, -2, f->name);
  }
  lua_pushcfunction(L, return_core);
  lua_setfield(L, -2, "tide.core");
  lua_pop(L, 1);
}

/* So that a library whose start was cut short is loaded anew. */
static void forget_modules(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  for (const struct td_lua_file *f = td_lua_library; f->name; f++) {
    lua_pushnil(L);
    lua_setfield(L, -2, f->name);
  }
  lua_pushnil(L);
  lua_setfield(L, -2, "tide.core");
  lua_pop(L, 1);
}

static void open_core(lua_State *L) {
  static const luaL_Reg functions[] = {{"error", core_error},
                                       {"nearest", core_nearest},
                                       {"set_methods", set_methods},
                                       {NULL, NULL}};
  luaL_newlib(L, functions);
  td_lua_open_tensor(L);
  td_lua_open_graph(L);
  td_lua_open_region(L);
  td_lua_open_func(L);
  td_lua_open_scope(L);
  td_lua_open_op(L);
  td_lua_open_session(L);
  td_lua_open_files(L);
  td_lua_open_data(L);
  td_lua_open_info(L);
  td_lua_open_show(L);
  td_lua_open_system(L);
  lua_setfield(L, LUA_REGISTRYINDEX, "tide.core");
}

__attribute__((visibility("default"))) int luaopen_tide(lua_State *L);

int luaopen_tide(lua_State *L) {
  td_lua_state *st = td_lua_get(L);
  if (!st) st = make_state(L);
  luaL_newmetatable(L, TD_LUA_ERROR);
  lua_pushcfunction(L, error_tostring);
  lua_setfield(L, -2, "__tostring");
  lua_pop(L, 1);
  td_lua_check(L, td_cpu_check());
  td_lua_check(L, td_op_check());
  if (!st->runtime) td_lua_check(L, td_runtime_new(NULL, &st->runtime));
  lua_newtable(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &methods_key);
  open_core(L);
  preload(L);
  for (const struct td_lua_file *f = td_lua_library; f->name; f++)
    if (!strcmp(f->name, "tide")) {
      lua_pushlightuserdata(L, (void *)(uintptr_t)f);
      lua_pushcclosure(L, load_module, 1);
      if (lua_pcall(L, 0, 1, 0) == LUA_OK) return 1;
      forget_modules(L);
      return lua_error(L);
    }
  return luaL_error(L, "the library has no module \"tide\"");
}
