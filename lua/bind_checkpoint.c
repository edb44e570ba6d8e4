/* bind_checkpoint.c - checkpoints: what is in one, its tensors, writing one.
 *
 * The interpreter is let go of while files are read or written; `busy` keeps
 * other lines of evaluation from closing what is in use, and from a writer.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/checkpoint.h"
#include "engine/io/checkpoint_writer.h"
#include "lua/bind.h"
#include "lua/bind_busy.h"
#include "lua/bind_field.h"
#include "lua/bind_shape.h"
#include "lua/bind_tensor.h"

#define TD_LUA_CHECKPOINT "tide.checkpoint"
#define TD_LUA_CHECKPOINT_WRITER "tide.checkpoint_writer"

/* ---- reading ------------------------------------------------------------- */

typedef struct lua_checkpoint {
  td_checkpoint *c; /* NULL once closed */
  int busy;         /* how many lines read from it */
} lua_checkpoint;

static lua_checkpoint *to_checkpoint(lua_State *L) {
  return luaL_checkudata(L, 1, TD_LUA_CHECKPOINT);
}

static lua_checkpoint *to_open_checkpoint(lua_State *L) {
  lua_checkpoint *u = to_checkpoint(L);
  if (!u->c)
    td_lua_error(L, TD_FAILED_PRECONDITION, "this checkpoint is closed");
  return u;
}

static int checkpoint_close(lua_State *L) {
  lua_checkpoint *u = to_checkpoint(L);
  td_lua_busy_check(L, u->busy, "checkpoint");
  td_checkpoint_close(u->c);
  u->c = NULL;
  return 0;
}

/* Ctrl-C ends what is read or written by the thread that waits for it. */
static bool goes_on(void *arg, bool last) {
  (void)arg, (void)last;
  return !__atomic_load_n(td_lua_interrupt(), __ATOMIC_ACQUIRE);
}

/* core.checkpoint(prefix) */
static int new_checkpoint(lua_State *L) {
  const char *prefix = td_lua_text(L, 1);
  if (!td_lua_try_object(L, TD_LUA_CHECKPOINT, sizeof(lua_checkpoint), 0))
    return lua_error(L);
  lua_checkpoint *u = lua_touserdata(L, -1);
  td_lua_state *st = td_lua_busy_begin(L, &u->busy);
  td_status *s = td_checkpoint_open(prefix, &u->c);
  if (td_ok(s)) td_checkpoint_ask(u->c, goes_on, NULL);
  td_lua_busy_end(st, &u->busy);
  td_lua_check(L, s);
  return 1;
}

/* What its values take; of one in slices, the entry itself has none. */
static lua_Integer bytes_of(const td_checkpoint_entry *e) {
  if (e->n_slices == 0) return (lua_Integer)e->size;
  return (lua_Integer)((uint64_t)td_shape_count(&e->shape) *
                       td_dtype_size(e->dtype));
}

/* The texts of the n slices of an entry, or nothing of one stored whole. */
static void set_slices(lua_State *L, const td_checkpoint_entry *e) {
  td_slice s;
  int n = 0;
  if (e->n_slices == 0) return;
  lua_createtable(L, e->n_slices, 0);
  for (td_bytes at = e->slices; td_checkpoint_next_slice(&at, &s);) {
    td_str text = {0};
    td_slice_print(&e->shape, &s, &text);
    td_lua_push_str(L, &text);
    lua_rawseti(L, -2, ++n);
  }
  lua_setfield(L, -2, "slices");
}

static void push_entry(lua_State *L, const td_checkpoint_entry *e) {
  lua_createtable(L, 0, 6);
  td_lua_set_string(L, "name", e->name);
  td_lua_set_string(L, "dtype", td_dtype_name(e->dtype));
  td_lua_push_shape(L, &e->shape);
  lua_setfield(L, -2, "shape");
  td_lua_set_integer(L, "bytes", bytes_of(e));
  td_lua_set_integer(L, "shard", e->shard);
  set_slices(L, e);
}

/* c:list() -> list of {name =, dtype =, shape =, bytes =, shard =, slices =} by
 * name; shards count from 0; slices, of what is not stored whole, is a list of
 * texts such as "10 4 0,5:-" */
static int checkpoint_list(lua_State *L) {
  lua_checkpoint *u = to_open_checkpoint(L);
  size_t n = td_checkpoint_count(u->c);
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    td_checkpoint_entry e = td_checkpoint_at(u->c, i);
    push_entry(L, &e);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* c:shards() -> how many files its data are in */
static int checkpoint_shards(lua_State *L) {
  lua_pushinteger(L, td_checkpoint_shards(to_open_checkpoint(L)->c));
  return 1;
}

/* c:has(name) */
static int checkpoint_has(lua_State *L) {
  td_checkpoint_entry e;
  lua_checkpoint *u = to_open_checkpoint(L);
  lua_pushboolean(L, td_checkpoint_find(u->c, td_lua_text(L, 2), &e));
  return 1;
}

/* The slice that the text at `i` tells, with the whole shape; or nothing. */
static bool to_slice(lua_State *L, int i, td_shape *whole, td_slice *out) {
  td_bytes text;
  if (lua_isnoneornil(L, i)) return false;
  text.at = luaL_checklstring(L, i, &text.len);
  td_lua_check(L, td_slice_parse(text, whole, out));
  return true;
}

/* c:read(name [, slice]) -> value, its check compared */
static int checkpoint_read(lua_State *L) {
  lua_checkpoint *u = to_open_checkpoint(L);
  const char *name = td_lua_text(L, 2);
  td_checkpoint_entry e;
  td_shape whole;
  td_slice slice;
  if (!td_checkpoint_find(u->c, name, &e))
    td_lua_check(L, td_checkpoint_missing(u->c, name));
  bool in_part = to_slice(L, 3, &whole, &slice);
  luaL_argcheck(L, !in_part || td_shape_equal(&whole, &e.shape), 3,
                "a slice of a tensor of another shape");
  td_tensor *t = td_lua_tensors(L, 1);
  td_lua_state *st = td_lua_busy_begin(L, &u->busy);
  td_status *s = td_checkpoint_read(u->c, &e, in_part ? &slice : NULL, NULL, t);
  td_lua_busy_end(st, &u->busy);
  td_lua_check_step(L, s);
  td_lua_push_tensor(L, t);
  return 1;
}

/* c:map(name) -> value that looks into its file, where it can; read only */
static int checkpoint_map(lua_State *L) {
  lua_checkpoint *u = to_open_checkpoint(L);
  const char *name = td_lua_text(L, 2);
  td_checkpoint_entry e;
  if (!td_checkpoint_find(u->c, name, &e))
    td_lua_check(L, td_checkpoint_missing(u->c, name));
  td_tensor *t = td_lua_tensors(L, 1);
  td_lua_state *st = td_lua_busy_begin(L, &u->busy);
  td_status *s = td_checkpoint_map(u->c, &e, t);
  td_lua_busy_end(st, &u->busy);
  td_lua_check_step(L, s);
  td_lua_push_tensor(L, t);
  return 1;
}

/* c:verify(): reads every byte; raises for the first tensor that is damaged. */
static int checkpoint_verify(lua_State *L) {
  lua_checkpoint *u = to_open_checkpoint(L);
  td_lua_state *st = td_lua_busy_begin(L, &u->busy);
  td_status *s = td_checkpoint_verify(u->c);
  td_lua_busy_end(st, &u->busy);
  td_lua_check_step(L, s);
  return 0;
}

/* ---- writing ------------------------------------------------------------- */

typedef struct lua_checkpoint_writer {
  td_checkpoint_writer *w; /* NULL once closed */
  int busy;
} lua_checkpoint_writer;

static lua_checkpoint_writer *to_writer(lua_State *L) {
  lua_checkpoint_writer *u = luaL_checkudata(L, 1, TD_LUA_CHECKPOINT_WRITER);
  td_lua_busy_check(L, u->busy, "checkpoint");
  return u;
}

static lua_checkpoint_writer *to_open_writer(lua_State *L) {
  lua_checkpoint_writer *u = to_writer(L);
  if (!u->w)
    td_lua_error(L, TD_FAILED_PRECONDITION, "this checkpoint writer is closed");
  return u;
}

/* core.checkpoint_writer(prefix): alone with the prefix until it is closed */
static int new_writer(lua_State *L) {
  const char *prefix = td_lua_text(L, 1);
  if (!td_lua_try_object(L, TD_LUA_CHECKPOINT_WRITER,
                         sizeof(lua_checkpoint_writer), 0))
    return lua_error(L);
  lua_checkpoint_writer *u = lua_touserdata(L, -1);
  td_lua_check(L, td_checkpoint_writer_open(prefix, &u->w));
  td_checkpoint_writer_ask(u->w, goes_on, NULL);
  return 1;
}

/* w:add(name, value [, slice]): a tensor, or a slice of one */
static int writer_add(lua_State *L) {
  lua_checkpoint_writer *u = to_open_writer(L);
  const char *name = td_lua_text(L, 2);
  const td_tensor *t = td_lua_check_value(L, 3); /* stays on the stack */
  td_shape whole;
  td_slice slice;
  bool in_part = to_slice(L, 4, &whole, &slice);
  td_lua_state *st = td_lua_busy_begin(L, &u->busy);
  td_status *s =
      in_part ? td_checkpoint_writer_add_slice(u->w, name, &whole, &slice, t)
              : td_checkpoint_writer_add(u->w, name, t);
  td_lua_busy_end(st, &u->busy);
  td_lua_check_step(L, s);
  return 0;
}

/* w:commit(): now it is there, and outlives a crash. */
static int writer_commit(lua_State *L) {
  lua_checkpoint_writer *u = to_open_writer(L);
  td_lua_state *st = td_lua_busy_begin(L, &u->busy);
  td_status *s = td_checkpoint_writer_commit(u->w);
  td_lua_busy_end(st, &u->busy);
  td_lua_check_step(L, s);
  return 0;
}

/* w:close(): what was not committed is gone. */
static int writer_close(lua_State *L) {
  lua_checkpoint_writer *u = to_writer(L);
  td_checkpoint_writer_close(u->w);
  u->w = NULL;
  return 0;
}

TD_LUA_OPEN(checkpoint) {
  static const luaL_Reg checkpoint[] = {
      {"list", checkpoint_list},   {"shards", checkpoint_shards},
      {"has", checkpoint_has},     {"read", checkpoint_read},
      {"map", checkpoint_map},     {"verify", checkpoint_verify},
      {"close", checkpoint_close}, {NULL, NULL}};
  static const luaL_Reg writer[] = {{"add", writer_add},
                                    {"commit", writer_commit},
                                    {"close", writer_close},
                                    {NULL, NULL}};
  static const luaL_Reg functions[] = {{"checkpoint", new_checkpoint},
                                       {"checkpoint_writer", new_writer},
                                       {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  td_lua_make_class(L, TD_LUA_CHECKPOINT, checkpoint_close, checkpoint);
  td_lua_make_class(L, TD_LUA_CHECKPOINT_WRITER, writer_close, writer);
  td_lua_set_close(L, TD_LUA_CHECKPOINT, checkpoint_close);
  td_lua_set_close(L, TD_LUA_CHECKPOINT_WRITER, writer_close);
}
