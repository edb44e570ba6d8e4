/* bind_pipeline.c - input pipelines; tide/data/pipeline.lua is what users see.
 *
 * A pipeline is made of a source, then given its stages one by one. Columns are
 * numbers here; their names are Lua's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/io/matching.h"
#include "engine/pipeline/pipeline.h"
#include "lua/bind.h"
#include "lua/bind_field.h"
#include "lua/bind_session.h"
#include "lua/bind_shape.h"
#include "lua/bind_step.h"
#include "lua/bind_tensor.h"

#define PIPELINE "tide.pipeline"

typedef struct lua_pipeline {
  td_pipeline *p;   /* NULL once closed */
  td_resources *at; /* where it stands for PipelineNext; the runtime's */
} lua_pipeline;

static td_pipeline *to_pipeline(lua_State *L) {
  lua_pipeline *u = luaL_checkudata(L, 1, PIPELINE);
  if (!u->p) td_lua_error(L, TD_FAILED_PRECONDITION, "the pipeline is closed");
  return u->p;
}

/* ---- life ---------------------------------------------------------------- */

static int pipeline_close(lua_State *L) {
  lua_pipeline *u = luaL_checkudata(L, 1, PIPELINE);
  td_pipeline *p = u->p;
  u->p = NULL;
  if (!p) return 0;
  const char *name = td_pipeline_elements(p)->base.name;
  if (u->at && name)
    td_status_release(td_resources_remove(u->at, TD_ELEMENTS_CONTAINER, name));
  td_pipeline_close(p);
  td_pipeline_release(p);
  return 0;
}

static lua_pipeline *push_empty(lua_State *L) {
  if (!td_lua_try_object(L, PIPELINE, sizeof(lua_pipeline), 1)) lua_error(L);
  return lua_touserdata(L, -1);
}

/* core.pipeline_rows({values}, {first =, step =, shuffle =, seed =}) */
static int new_rows(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  int n = (int)lua_rawlen(L, 1);
  td_tensor *columns = td_lua_block(L, (size_t)n, sizeof *columns);
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, 1, i + 1);
    columns[i] = *td_lua_check_value(L, -1); /* the list holds it */
    lua_pop(L, 1);
  }
  td_pipeline_rows o = {.columns = columns,
                        .n_columns = n,
                        .first = td_lua_integer(L, 2, "first"),
                        .step = td_lua_integer(L, 2, "step"),
                        .shuffle = td_lua_flag(L, 2, "shuffle"),
                        .seed = (uint64_t)td_lua_integer(L, 2, "seed")};
  lua_pipeline *u = push_empty(L);
  td_lua_check(L, td_pipeline_from_rows(&o, &u->p));
  return 1;
}

static const char *text_at(lua_State *L, int i, const char *key) {
  lua_getfield(L, i, key); /* the table holds it */
  const char *s = lua_tostring(L, -1);
  lua_pop(L, 1);
  return s;
}

/* core.pipeline_files({paths}, {format = 0 to 3, compression =, skip_errors =,
 * skip_lines =, header =, footer =, record =, hop =, limit =, first =, step =,
 * shuffle =, seed =}) */
static int new_files(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  size_t n = lua_rawlen(L, 1);
  const char **paths = td_lua_block(L, n, sizeof *paths);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, 1, (lua_Integer)i + 1);
    paths[i] = luaL_checkstring(L, -1); /* the list holds it */
    lua_pop(L, 1);
  }
  td_pipeline_files o = {
      .paths = paths,
      .n_paths = (int64_t)n,
      .options = {.format = (td_source_format)td_lua_integer(L, 2, "format"),
                  .compression = text_at(L, 2, "compression"),
                  .limit = (uint64_t)td_lua_integer(L, 2, "limit"),
                  .skip_errors = td_lua_integer(L, 2, "skip_errors"),
                  .skip_lines = td_lua_integer(L, 2, "skip_lines"),
                  .header = td_lua_integer(L, 2, "header"),
                  .footer = td_lua_integer(L, 2, "footer"),
                  .record = td_lua_integer(L, 2, "record"),
                  .hop = td_lua_integer(L, 2, "hop")},
      .first = td_lua_integer(L, 2, "first"),
      .step = td_lua_integer(L, 2, "step"),
      .shuffle = td_lua_flag(L, 2, "shuffle"),
      .seed = (uint64_t)td_lua_integer(L, 2, "seed")};
  lua_pipeline *u = push_empty(L);
  td_lua_check(L, td_pipeline_from_files(&o, &u->p));
  return 1;
}

/* ---- stages -------------------------------------------------------------- */

/* The list of column numbers (from 0) at `i`. */
static int *read_feeds(lua_State *L, int i, const td_pipeline *p, int *n) {
  luaL_checktype(L, i, LUA_TTABLE);
  *n = (int)lua_rawlen(L, i);
  int *feed = td_lua_block(L, (size_t)*n, sizeof *feed);
  for (int k = 0; k < *n; k++) {
    lua_rawgeti(L, i, k + 1);
    feed[k] = (int)luaL_checkinteger(L, -1);
    luaL_argcheck(L, feed[k] >= 0 && feed[k] < td_pipeline_columns(p), i,
                  "no such column");
    lua_pop(L, 1);
  }
  return feed;
}

/* (pipeline, session, feeds, fetches, columns, parallel): a callable, with what
 * was read into *step. */
static td_pipeline_call read_call(lua_State *L, td_pipeline *p,
                                  td_lua_step *step) {
  td_pipeline_call call = {.parallel = (int)luaL_checkinteger(L, 6)};
  td_session *s = td_lua_to_session(L, 2);
  call.feed = read_feeds(L, 5, p, &call.n_feeds);
  td_lua_step_read(L, 4, 3, step);
  luaL_argcheck(L, step->n_feeds == call.n_feeds, 5, "as many as feeds");
  td_signature sig = td_lua_step_signature(step);
  td_lua_check(L, td_callable_new(s, &sig, &call.f));
  return call;
}

/* p:map(session, {feeds}, {fetches}, {columns}, parallel) */
static int pipeline_map(lua_State *L) {
  td_pipeline *p = to_pipeline(L);
  td_lua_step step;
  td_pipeline_call call = read_call(L, p, &step);
  td_column *columns = td_lua_block(L, (size_t)step.n_fetches, sizeof *columns);
  for (int i = 0; i < step.n_fetches; i++) {
    columns[i].dtype = td_edge_dtype(step.fetches[i]);
    columns[i].shape = *td_edge_shape(step.fetches[i]);
  }
  td_status *s = td_pipeline_map(p, &call, columns, step.n_fetches);
  td_callable_release(call.f);
  td_lua_check(L, s);
  return 0;
}

/* p:filter(session, {feeds}, {fetch}, {columns}, parallel) */
static int pipeline_filter(lua_State *L) {
  td_pipeline *p = to_pipeline(L);
  td_lua_step step;
  td_pipeline_call call = read_call(L, p, &step);
  td_status *s = td_pipeline_filter(p, &call);
  td_callable_release(call.f);
  td_lua_check(L, s);
  return 0;
}

static int pipeline_shuffle(lua_State *L) {
  td_lua_check(L, td_pipeline_shuffle(to_pipeline(L), luaL_checkinteger(L, 2),
                                      (uint64_t)luaL_checkinteger(L, 3)));
  return 0;
}

/* {n =, whole =, room = {shapes} or nil, pad = {values or false} or nil} */
static td_pipeline_batching read_batching(lua_State *L, int i,
                                          const td_pipeline *p) {
  size_t n = (size_t)td_pipeline_columns(p);
  luaL_checktype(L, i, LUA_TTABLE);
  td_pipeline_batching o = {.n = td_lua_integer(L, i, "n"),
                            .whole = td_lua_flag(L, i, "whole")};
  if (lua_getfield(L, i, "room") == LUA_TTABLE) {
    td_shape *room = td_lua_block(L, n, sizeof *room);
    for (size_t k = 0; k < n; k++) {
      lua_rawgeti(L, -2, (lua_Integer)k + 1);
      td_lua_check(L, td_lua_to_shape(L, -1, &room[k]));
      lua_pop(L, 1);
    }
    o.room = room;
  }
  if (lua_getfield(L, i, "pad") == LUA_TTABLE) {
    int list = lua_gettop(L);
    td_tensor *pad = td_lua_block(L, n, sizeof *pad);
    for (size_t k = 0; k < n; k++) {
      lua_rawgeti(L, list, (lua_Integer)k + 1);
      const td_tensor *t = td_lua_to_value(L, -1);
      if (t) pad[k] = *t; /* the list holds it */
      lua_pop(L, 1);
    }
    o.pad = pad;
  }
  return o;
}

static int pipeline_batch(lua_State *L) {
  td_pipeline *p = to_pipeline(L);
  td_pipeline_batching o = read_batching(L, 2, p);
  td_lua_check(L, td_pipeline_batch(p, &o));
  return 0;
}

/* p:bucket(column, {bounds}, {n =, ..}) */
static int pipeline_bucket(lua_State *L) {
  td_pipeline *p = to_pipeline(L);
  int length = (int)luaL_checkinteger(L, 2);
  luaL_argcheck(L, length >= 0 && length < td_pipeline_columns(p), 2,
                "no such column");
  luaL_checktype(L, 3, LUA_TTABLE);
  size_t n = lua_rawlen(L, 3);
  int64_t *bounds = td_lua_block(L, n, sizeof *bounds);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, 3, (lua_Integer)i + 1);
    bounds[i] = luaL_checkinteger(L, -1);
    lua_pop(L, 1);
  }
  td_pipeline_batching o = read_batching(L, 4, p);
  td_lua_check(L, td_pipeline_bucket(p, length, bounds, (int)n, &o));
  return 0;
}

static int pipeline_repeat(lua_State *L) {
  td_lua_check(L, td_pipeline_repeat(to_pipeline(L), luaL_checkinteger(L, 2)));
  return 0;
}

static int pipeline_first(lua_State *L) {
  td_lua_check(L, td_pipeline_first(to_pipeline(L), luaL_checkinteger(L, 2)));
  return 0;
}

static int pipeline_skip(lua_State *L) {
  td_lua_check(L, td_pipeline_skip(to_pipeline(L), luaL_checkinteger(L, 2)));
  return 0;
}

/* p:cache(path or nil) */
static int pipeline_cache(lua_State *L) {
  td_lua_check(L,
               td_pipeline_cache(to_pipeline(L), luaL_optstring(L, 2, NULL)));
  return 0;
}

static int pipeline_prefetch(lua_State *L) {
  td_lua_check(L,
               td_pipeline_prefetch(to_pipeline(L), luaL_checkinteger(L, 2)));
  return 0;
}

/* ---- use ----------------------------------------------------------------- */

/* p:columns() -> a list of {dtype =, shape =} */
static int pipeline_columns(lua_State *L) {
  td_pipeline *p = to_pipeline(L);
  lua_createtable(L, td_pipeline_columns(p), 0);
  for (int i = 0; i < td_pipeline_columns(p); i++) {
    const td_column *c = td_pipeline_column(p, i);
    lua_createtable(L, 0, 2);
    td_lua_set_string(L, "dtype", td_dtype_name(c->dtype));
    td_lua_push_shape(L, &c->shape);
    lua_setfield(L, -2, "shape");
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* p:take() -> a value for each column; nothing at the end */
static int pipeline_take(lua_State *L) {
  td_pipeline *p = to_pipeline(L);
  td_lua_state *st = td_lua_get(L);
  int n = td_pipeline_columns(p);
  bool end = false;
  luaL_checkstack(L, n + 8, "columns");
  td_tensor *out = td_lua_tensors(L, (size_t)n);
  td_object_retain(&td_pipeline_elements(p)->base.object);
  td_lua_unlock(st);
  td_status *s = td_pipeline_take(p, td_lua_interrupt(), out, &end);
  td_lua_lock(st);
  td_pipeline_release(p);
  td_lua_check_step(L, s);
  if (end) return 0;
  for (int i = 0; i < n; i++) td_lua_push_tensor(L, &out[i]);
  return n;
}

static int pipeline_again(lua_State *L) {
  td_pipeline_again(to_pipeline(L));
  return 0;
}

static int pipeline_save(lua_State *L) {
  td_str s;
  td_str_init(&s);
  td_status *st = td_pipeline_save(to_pipeline(L), &s);
  if (td_ok(st)) lua_pushlstring(L, td_str_c(&s), s.len);
  td_str_deinit(&s);
  td_lua_check(L, st);
  return 1;
}

static int pipeline_load(lua_State *L) {
  size_t len;
  const char *at = luaL_checklstring(L, 2, &len);
  td_lua_check(L, td_pipeline_load(to_pipeline(L), (td_bytes){at, len}));
  return 0;
}

static int pipeline_why(lua_State *L) {
  td_str s;
  td_str_init(&s);
  td_pipeline_why(to_pipeline(L), &s);
  lua_pushlstring(L, td_str_c(&s), s.len);
  td_str_deinit(&s);
  return 1;
}

static td_status *as_made(void *arg, td_resource **out) {
  td_elements *e = td_pipeline_elements(arg);
  td_object_retain(&e->base.object);
  *out = &e->base;
  return NULL;
}

/* p:publish(name): PipelineNext finds it by that. */
static int pipeline_publish(lua_State *L) {
  td_pipeline *p = to_pipeline(L);
  lua_pipeline *u = lua_touserdata(L, 1);
  td_resources *at = td_runtime_resources(td_lua_get(L)->runtime);
  td_resource *r = NULL;
  td_lua_check(L, td_resources_get(at, TD_ELEMENTS_CONTAINER, TD_ELEMENTS,
                                   luaL_checkstring(L, 2), as_made, p, &r));
  td_object_release(&r->object);
  u->at = at;
  return 0;
}

/* core.matching_files(pattern) -> the paths, sorted, each with a NUL after it */
static int matching_files(lua_State *L) {
  td_paths paths = {0};
  td_str all;
  td_str_init(&all);
  td_status *s = td_matching_files(luaL_checkstring(L, 1), &paths);
  if (td_ok(s)) td_paths_sort(&paths);
  for (size_t i = 0; td_ok(s) && i < paths.len; i++)
    td_str_addn(&all, paths.at[i], strlen(paths.at[i]) + 1);
  td_paths_free(&paths);
  if (td_ok(s) && all.failed) s = td_oom();
  if (!td_ok(s)) td_str_deinit(&all);
  td_lua_check(L, s);
  td_lua_push_str(L, &all);
  return 1;
}

/* core.pool_size(): threads that may compute */
static int pool_size(lua_State *L) {
  lua_pushinteger(L, td_pool_size());
  return 1;
}

TD_LUA_OPEN(pipeline) {
  static const luaL_Reg methods[] = {{"map", pipeline_map},
                                     {"filter", pipeline_filter},
                                     {"shuffle", pipeline_shuffle},
                                     {"batch", pipeline_batch},
                                     {"bucket", pipeline_bucket},
                                     {"repeat_", pipeline_repeat},
                                     {"first", pipeline_first},
                                     {"skip", pipeline_skip},
                                     {"cache", pipeline_cache},
                                     {"prefetch", pipeline_prefetch},
                                     {"columns", pipeline_columns},
                                     {"take", pipeline_take},
                                     {"again", pipeline_again},
                                     {"save", pipeline_save},
                                     {"load", pipeline_load},
                                     {"why", pipeline_why},
                                     {"publish", pipeline_publish},
                                     {"close", pipeline_close},
                                     {NULL, NULL}};
  static const luaL_Reg functions[] = {{"pipeline_rows", new_rows},
                                       {"pipeline_files", new_files},
                                       {"matching_files", matching_files},
                                       {"pool_size", pool_size},
                                       {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  td_lua_make_class(L, PIPELINE, pipeline_close, methods);
}
