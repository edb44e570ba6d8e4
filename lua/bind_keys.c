/* bind_keys.c - key pairs in folders, lists of keys, and what workers of this
 * machine leave. Secrets stay in C: Lua sees public keys only.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/remote/keys.h"
#include "lua/bind.h"

static void push_key(lua_State *L, const td_keys_key *key) {
  char text[TD_KEY_TEXT + 1];
  td_keys_print(key, text);
  lua_pushlstring(L, text, TD_KEY_TEXT);
}

/* The key that stands at `i`; raises. */
static td_keys_key check_key(lua_State *L, int i) {
  size_t len;
  td_keys_key key;
  const char *text = luaL_checklstring(L, i, &len);
  if (!td_keys_parse(text, len, &key))
    td_lua_error(L, TD_INVALID_ARGUMENT,
                 "a public key is %d characters, as tide keygen prints them; "
                 "these %d are none",
                 TD_KEY_TEXT, (int)(len > 9999 ? 9999 : len));
  return key;
}

/* Replaces the argument at `i`, when it is nil, by the user's folder. */
static const char *folder_at(lua_State *L, int i) {
  if (!lua_isnoneornil(L, i)) return td_lua_text(L, i);
  td_str path = {0};
  td_status *s = td_keys_folder(&path);
  if (!td_ok(s)) td_str_deinit(&path);
  td_lua_check(L, s);
  td_lua_push_str(L, &path);
  lua_replace(L, i);
  return lua_tostring(L, i);
}

/* core.keys_generate(folder or nil, name, force) -> public key, folder */
static int generate(lua_State *L) {
  lua_settop(L, 3);
  const char *folder = folder_at(L, 1), *name = td_lua_text(L, 2);
  td_keys_pair pair;
  td_status *s = td_keys_generate(&pair);
  if (td_ok(s)) s = td_keys_write(folder, &pair, name, lua_toboolean(L, 3));
  td_keys_key pub = pair.pub;
  td_keys_wipe(&pair);
  td_lua_check(L, s);
  push_key(L, &pub);
  lua_pushvalue(L, 1);
  return 2;
}

/* core.keys_public(folder or nil) -> public key, folder */
static int public_key(lua_State *L) {
  lua_settop(L, 1);
  td_keys_pair pair;
  td_status *s = td_keys_read(folder_at(L, 1), &pair);
  td_keys_key pub = pair.pub;
  td_keys_wipe(&pair);
  td_lua_check(L, s);
  push_key(L, &pub);
  lua_pushvalue(L, 1);
  return 2;
}

/* core.keys_list(path) -> a line for each key: 40 characters, then its name */
static int list_keys(lua_State *L) {
  td_keys_list *list;
  td_lua_check(L, td_keys_list_read(td_lua_text(L, 1), &list));
  size_t n = td_keys_list_count(list);
  td_status *s = NULL;
  td_str text = {0};
  for (size_t i = 0; i < n; i++) {
    td_keys_key key;
    char digits[TD_KEY_TEXT + 1];
    const char *name = td_keys_list_at(list, i, &key);
    td_keys_print(&key, digits);
    td_str_addf(&text, "%s%s\n", digits, name);
  }
  if (text.failed) s = td_oom();
  td_keys_list_free(list);
  if (!td_ok(s)) td_str_deinit(&text);
  td_lua_check(L, s);
  td_lua_push_str(L, &text);
  return 1;
}

/* core.keys_allowed(path, key) -> the key's name on the list, or nil */
static int allowed(lua_State *L) {
  td_keys_list *list;
  const char *path = td_lua_text(L, 1);
  td_keys_key key = check_key(L, 2);
  td_lua_check(L, td_keys_list_read(path, &list));
  td_str name = {0};
  const char *found = td_keys_list_find(list, &key);
  if (found) td_str_add(&name, found);
  bool failed = name.failed;
  td_keys_list_free(list);
  if (failed || !found) td_str_deinit(&name);
  if (failed) td_lua_check(L, td_oom());
  if (found)
    td_lua_push_str(L, &name);
  else
    lua_pushnil(L);
  return 1;
}

/* core.keys_leave(address, key) */
static int leave(lua_State *L) {
  const char *address = td_lua_text(L, 1);
  td_keys_key key = check_key(L, 2);
  td_lua_check(L, td_keys_leave(address, &key));
  return 0;
}

/* core.keys_find(address) -> key */
static int find(lua_State *L) {
  td_keys_key key;
  td_lua_check(L, td_keys_find(td_lua_text(L, 1), &key));
  push_key(L, &key);
  return 1;
}

/* core.keys_remove(address, key) */
static int remove_key(lua_State *L) {
  const char *address = td_lua_text(L, 1);
  td_keys_key key = check_key(L, 2);
  td_lua_check(L, td_keys_remove(address, &key));
  return 0;
}

TD_LUA_OPEN(keys) {
  static const luaL_Reg functions[] = {
      {"keys_generate", generate}, {"keys_public", public_key},
      {"keys_list", list_keys},    {"keys_allowed", allowed},
      {"keys_leave", leave},       {"keys_find", find},
      {"keys_remove", remove_key}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
