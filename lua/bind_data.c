/* bind_data.c - data sets: batches from the input thread, tables.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/batcher.h"
#include "engine/io/csv.h"
#include "lua/bind.h"
#include "lua/bind_field.h"
#include "lua/bind_shape.h"
#include "lua/bind_tensor.h"

#define TD_LUA_BATCHES "tide.batches"
#define TD_LUA_CSV "tide.csv"

/* ---- batches ---- */

typedef struct lua_batches {
  td_batcher *b; /* NULL once closed */
  int n_columns;
} lua_batches;

static lua_batches *to_batches(lua_State *L) {
  return luaL_checkudata(L, 1, TD_LUA_BATCHES);
}

static int batches_close(lua_State *L) {
  lua_batches *u = to_batches(L);
  td_batcher_release(u->b);
  u->b = NULL;
  return 0;
}

/* The values of the list at 1, with the scales of the list at 2. */
static td_batch_column *batch_columns(lua_State *L, int n) {
  td_batch_column *columns = td_lua_block(L, (size_t)n, sizeof *columns);
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, 1, i + 1);
    columns[i].rows = *td_lua_check_value(L, -1);
    lua_rawgeti(L, 2, i + 1);
    columns[i].scale = (float)lua_tonumber(L, -1);
    lua_pop(L, 2); /* the list holds it */
  }
  return columns;
}

static td_batch_options batch_options(lua_State *L, int i) {
  return (td_batch_options){.size = td_lua_integer(L, i, "size"),
                            .epochs = td_lua_integer(L, i, "epochs"),
                            .first = td_lua_integer(L, i, "first"),
                            .step = td_lua_integer(L, i, "step"),
                            .given = td_lua_integer(L, i, "given"),
                            .shuffle = td_lua_flag(L, i, "shuffle"),
                            .seed = (uint64_t)td_lua_integer(L, i, "seed"),
                            .drop_remainder =
                                td_lua_flag(L, i, "drop_remainder")};
}

/* core.batches({values}, {scales}, {size =, epochs =, first =, step =, shuffle
 * =, seed =, drop_remainder =, given =}) */
static int new_batches(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checktype(L, 3, LUA_TTABLE);
  lua_settop(L, 3);
  int n = (int)lua_rawlen(L, 1);
  td_batch_column *columns = batch_columns(L, n);
  td_batch_options o = batch_options(L, 3);
  if (!td_lua_try_object(L, TD_LUA_BATCHES, sizeof(lua_batches), 0))
    return lua_error(L);
  lua_batches *u = lua_touserdata(L, -1);
  u->n_columns = n;
  td_lua_check(L, td_batcher_new(columns, n, &o, &u->b));
  return 1;
}

static int batches_per_epoch(lua_State *L) {
  lua_batches *u = to_batches(L);
  lua_pushinteger(L, u->b ? td_batcher_per_epoch(u->b) : 0);
  return 1;
}

/* b:next() -> epoch, step, a value for each column; nothing at the end */
static int batches_next(lua_State *L) {
  lua_batches *u = to_batches(L);
  if (!u->b) return 0;
  td_lua_state *st = td_lua_get(L);
  luaL_checkstack(L, u->n_columns + 8, "columns");
  td_tensor *out = td_lua_tensors(L, (size_t)u->n_columns);
  td_batch_place place = {0};
  bool done = false;
  td_lua_unlock(st);
  td_status *s = td_batcher_next(u->b, td_lua_interrupt(), out, &place, &done);
  td_lua_lock(st);
  td_lua_check_step(L, s);
  if (done) return 0;
  lua_pushinteger(L, place.epoch);
  lua_pushinteger(L, place.step);
  for (int i = 0; i < u->n_columns; i++) td_lua_push_tensor(L, &out[i]);
  return u->n_columns + 2;
}

/* ---- tables ---- */

typedef struct lua_csv {
  td_csv *c;
} lua_csv;

static td_csv *to_csv(lua_State *L) {
  return ((lua_csv *)luaL_checkudata(L, 1, TD_LUA_CSV))->c;
}

static int csv_gc(lua_State *L) {
  lua_csv *u = luaL_checkudata(L, 1, TD_LUA_CSV);
  td_csv_free(u->c);
  u->c = NULL;
  return 0;
}

/* core.csv(path, separator, header [, bytes]); the bytes are what was read */
static int new_csv(lua_State *L) {
  const char *path = td_lua_text(L, 1);
  td_csv_options o = {.separator = luaL_checkstring(L, 2)[0],
                      .header = lua_toboolean(L, 3)};
  size_t len;
  const char *bytes = luaL_optlstring(L, 4, NULL, &len);
  if (!td_lua_try_object(L, TD_LUA_CSV, sizeof(lua_csv), 1))
    return lua_error(L);
  lua_csv *u = lua_touserdata(L, -1);
  if (!bytes) {
    td_lua_check(L, td_csv_open(path, &o, &u->c));
    return 1;
  }
  lua_pushvalue(L, 4);
  lua_setiuservalue(L, -2, 1); /* it looks into them */
  td_lua_check(L, td_csv_parse(bytes, len, path, &o, &u->c));
  return 1;
}

static int push_names(lua_State *L, const td_csv *c) {
  int n = td_csv_columns(c);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_pushstring(L, td_csv_name(c, i));
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int csv_names(lua_State *L) {
  return push_names(L, to_csv(L));
}

/* core.csv_names(first line, name of the source, separator) -> names */
static int names_of_line(lua_State *L) {
  size_t len;
  const char *line = luaL_checklstring(L, 1, &len);
  const char *from = luaL_checkstring(L, 2);
  td_csv_options o = {.separator = luaL_checkstring(L, 3)[0], .header = true};
  if (!td_lua_try_object(L, TD_LUA_CSV, sizeof(lua_csv), 0))
    return lua_error(L);
  lua_csv *u = lua_touserdata(L, -1);
  td_lua_check(L, td_csv_parse(line, len, from, &o, &u->c));
  return push_names(L, u->c);
}

/* Column i of two lists: its dtype and what is missing, or false. */
static td_csv_as read_as(lua_State *L, int i) {
  td_csv_as as = {.dtype = TD_INVALID};
  if (lua_rawgeti(L, 2, i) == LUA_TSTRING)
    td_lua_check(L, td_lua_to_dtype(L, -1, &as.dtype));
  as.fill = lua_rawgeti(L, 3, i) == LUA_TNUMBER;
  as.missing = lua_tonumber(L, -1);
  lua_pop(L, 2);
  return as;
}

/* c:read({dtypes}, {what is missing}) -> list of values */
static int csv_read(lua_State *L) {
  td_csv *c = to_csv(L);
  int n = td_csv_columns(c);
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checktype(L, 3, LUA_TTABLE);
  td_csv_as *as = td_lua_block(L, (size_t)n, sizeof *as);
  td_tensor *out = td_lua_tensors(L, (size_t)n);
  for (int i = 0; i < n; i++) as[i] = read_as(L, i + 1);
  td_lua_check(L, td_csv_read(c, as, out));
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    td_lua_push_tensor(L, &out[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

TD_LUA_OPEN(data) {
  static const luaL_Reg batches[] = {{"next", batches_next},
                                     {"per_epoch", batches_per_epoch},
                                     {"close", batches_close},
                                     {NULL, NULL}};
  static const luaL_Reg csv[] = {
      {"names", csv_names}, {"read", csv_read}, {NULL, NULL}};
  static const luaL_Reg functions[] = {{"batches", new_batches},
                                       {"csv", new_csv},
                                       {"csv_names", names_of_line},
                                       {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  td_lua_make_class(L, TD_LUA_BATCHES, batches_close, batches);
  td_lua_make_class(L, TD_LUA_CSV, csv_gc, csv);
}
