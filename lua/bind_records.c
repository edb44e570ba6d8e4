/* bind_records.c - TFRecord files: reading one, writing one.
 *
 * The interpreter is let go of while a file is read or written; `busy` keeps
 * other lines of evaluation from the same file meanwhile.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/record.h"
#include "engine/io/source.h"
#include "lua/bind.h"
#include "lua/bind_busy.h"
#include "lua/bind_error.h"
#include "lua/bind_field.h"
#include "lua/bind_object.h"
#include "lua/bind_state.h"

#define TD_LUA_RECORDS "tide.records"
#define TD_LUA_RECORD_WRITER "tide.record_writer"

/* ---- reading ------------------------------------------------------------- */

typedef struct lua_records {
  td_record_source *s; /* NULL once closed */
  int busy;
} lua_records;

static lua_records *to_records(lua_State *L) {
  return luaL_checkudata(L, 1, TD_LUA_RECORDS);
}

static int records_close(lua_State *L) {
  lua_records *u = to_records(L);
  td_lua_busy_check(L, u->busy, "file");
  td_source_close(u->s);
  u->s = NULL;
  return 0;
}

/* core.records(path, compression, skip_errors, most bytes of a record or 0) */
static int new_records(lua_State *L) {
  const char *path = td_lua_text(L, 1);
  td_source_options o = {.compression = td_lua_text(L, 2),
                         .skip_errors = luaL_checkinteger(L, 3),
                         .limit = (uint64_t)luaL_checkinteger(L, 4)};
  if (!td_lua_try_object(L, TD_LUA_RECORDS, sizeof(lua_records), 0))
    return lua_error(L);
  lua_records *u = lua_touserdata(L, -1);
  /* of a pipe, opening waits for who writes */
  td_lua_state *st = td_lua_busy_begin(L, &u->busy);
  td_status *s = td_source_open(path, &o, &u->s);
  td_lua_busy_end(st, &u->busy);
  td_lua_check(L, s);
  return 1;
}

static td_status *next_record(lua_State *L, lua_records *u, td_source_record *r,
                              bool *more) {
  if (td_source_ready(u->s)) return td_source_next(u->s, r, more);
  td_lua_state *st = td_lua_busy_begin(L, &u->busy);
  td_status *s = td_source_next(u->s, r, more);
  td_lua_busy_end(st, &u->busy);
  return s;
}

/* r:next() -> record, key; nothing at the end */
static int records_next(lua_State *L) {
  lua_records *u = to_records(L);
  td_source_record r;
  bool more = false;
  td_lua_busy_check(L, u->busy, "file");
  if (!u->s) return 0;
  td_lua_check(L, next_record(L, u, &r, &more));
  if (!more) return 0;
  lua_pushlstring(L, r.at, r.len);
  td_str key = {0};
  td_source_key(u->s, &r, &key);
  td_lua_push_str(L, &key);
  return 2;
}

/* How many bad places were passed over. */
static int records_skipped(lua_State *L) {
  lua_records *u = to_records(L);
  lua_pushinteger(L, u->s ? td_source_tell(u->s).skipped : 0);
  return 1;
}

/* ---- writing ------------------------------------------------------------- */

typedef struct lua_writer {
  td_record_writer *w; /* NULL once closed */
  int busy;
} lua_writer;

static lua_writer *to_writer(lua_State *L) {
  return luaL_checkudata(L, 1, TD_LUA_RECORD_WRITER);
}

static lua_writer *to_open_writer(lua_State *L) {
  lua_writer *u = to_writer(L);
  td_lua_busy_check(L, u->busy, "file");
  if (!u->w)
    td_lua_error(L, TD_FAILED_PRECONDITION, "this record writer is closed");
  return u;
}

/* core.record_writer(path, compression) */
static int new_writer(lua_State *L) {
  const char *path = td_lua_text(L, 1), *compression = td_lua_text(L, 2);
  if (!td_lua_try_object(L, TD_LUA_RECORD_WRITER, sizeof(lua_writer), 0))
    return lua_error(L);
  lua_writer *u = lua_touserdata(L, -1);
  td_lua_check(L, td_record_writer_open(path, compression, &u->w));
  return 1;
}

static int writer_write(lua_State *L) {
  lua_writer *u = to_open_writer(L);
  size_t len;
  const char *at = luaL_checklstring(L, 2, &len); /* stays on the stack */
  td_lua_state *st = td_lua_busy_begin(L, &u->busy);
  td_status *s = td_record_write(u->w, at, len);
  td_lua_busy_end(st, &u->busy);
  td_lua_check(L, s);
  return 0;
}

static int writer_flush(lua_State *L) {
  td_lua_check(L, td_record_writer_flush(to_open_writer(L)->w));
  return 0;
}

static int writer_close(lua_State *L) {
  lua_writer *u = to_writer(L);
  td_lua_busy_check(L, u->busy, "file");
  td_record_writer *w = u->w;
  u->w = NULL;
  td_lua_check(L, td_record_writer_close(w));
  return 0;
}

/* Nobody is there to be told of an error. */
static int writer_gc(lua_State *L) {
  lua_writer *u = to_writer(L);
  td_status_release(td_record_writer_close(u->w));
  u->w = NULL;
  return 0;
}

TD_LUA_OPEN(records) {
  static const luaL_Reg records[] = {{"next", records_next},
                                     {"skipped", records_skipped},
                                     {"close", records_close},
                                     {NULL, NULL}};
  static const luaL_Reg writer[] = {{"write", writer_write},
                                    {"flush", writer_flush},
                                    {"close", writer_close},
                                    {NULL, NULL}};
  static const luaL_Reg functions[] = {
      {"records", new_records}, {"record_writer", new_writer}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  td_lua_make_class(L, TD_LUA_RECORDS, records_close, records);
  td_lua_make_class(L, TD_LUA_RECORD_WRITER, writer_gc, writer);
}
