/* bind_remote.c - other processes take part in sessions: attached, detached,
 * looked at.
 *
 * One td_remote serves all sessions of an interpreter. It is made with the
 * first call that needs it, and ended after them (bind_state.c). What waits
 * lets go of the interpreter and hears an interrupt.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/bind_remote.h"

#include <sodium.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/vec.h"
#include "engine/run/participant.h"
#include "lua/bind.h"
#include "lua/bind_far.h"
#include "lua/bind_field.h"
#include "lua/bind_session.h"

#define ROWS "tide.remote.rows"

/* ---- ours ---------------------------------------------------------------- */

/* A user without a home has no pair either. */
static bool has_none(const td_status *s) {
  return td_status_code(s) == TD_NOT_FOUND ||
         td_status_code(s) == TD_FAILED_PRECONDITION;
}

static td_status *users_pair(td_keys_pair *out) {
  td_str folder = {0};
  td_status *s = td_keys_folder(&folder);
  if (td_ok(s)) s = td_keys_read(td_str_c(&folder), out);
  td_str_deinit(&folder);
  return s;
}

td_status *td_lua_key_pair(const char *folder, td_keys_pair *out) {
  if (folder) return td_keys_read(folder, out);
  td_status *s = users_pair(out);
  if (!has_none(s)) return s;
  td_status_release(s);
  return td_keys_generate(out);
}

static td_status *make(td_runtime *rt, td_remote **out) {
  td_keys_pair pair;
  char secret[TD_KEY_TEXT + 1], pub[TD_KEY_TEXT + 1];
  td_channel *channel;
  TD_TRY(td_lua_key_pair(NULL, &pair));
  td_keys_print(&pair.secret, secret);
  td_keys_print(&pair.pub, pub);
  td_keys_wipe(&pair);
  td_channel_zmq_options c = {.secret = secret, .public_key = pub};
  td_status *s = td_channel_zmq_new(&c, &channel);
  sodium_memzero(secret, sizeof secret);
  TD_TRY(s);
  td_remote_options o = {
      .runtime = rt, .channel = channel, .public_key = pub, .thread = true};
  return td_remote_new(&o, out);
}

td_remote *td_lua_remote(lua_State *L) {
  td_lua_state *st = td_lua_get(L);
  if (!st->remote) td_lua_check(L, make(st->runtime, &st->remote));
  return st->remote;
}

/* ---- coming and going ---------------------------------------------------- */

int64_t td_lua_seconds(lua_State *L, int i) {
  lua_Number t = luaL_checknumber(L, i);
  if (!(t > 0) || t > 1e6)
    td_lua_error(L, TD_INVALID_ARGUMENT,
                 "a time is a number of seconds > 0, at most 1e6, not %g",
                 (double)t);
  return (int64_t)(t * 1e9) + 1;
}

lua_Number td_lua_patience(lua_State *L, int i) {
  lua_Number n =
      lua_getfield(L, i, "patience") == LUA_TNIL ? 0 : luaL_checknumber(L, -1);
  lua_pop(L, 1);
  if (n != 0 && !(n >= 1 && n <= TD_PATIENCE_MOST))
    td_lua_error(L, TD_INVALID_ARGUMENT, "patience must be 1 to %d, not %g",
                 TD_PATIENCE_MOST, n);
  return n;
}

/* core.attach(session, address, key or nil, seconds, {patience =}) -> the
 * worker's task */
static int attach(lua_State *L) {
  td_session *s = td_lua_to_session(L, 1);
  td_lua_state *st = td_lua_get(L);
  td_attach_options o = {.to = {.control = td_lua_text(L, 2)},
                         .timeout = td_lua_seconds(L, 4),
                         .interrupt = td_lua_interrupt(),
                         .patience = td_lua_patience(L, 5)};
  if (!lua_isnil(L, 3)) o.to.key = td_lua_text(L, 3);
  td_far_question far = {.what = TD_FAR_ATTACH,
                         .text = o.to.control,
                         .key = o.to.key,
                         .time = o.timeout};
  if (td_lua_far_ask(L, s, far)) return 1;
  td_remote *r = td_remote_retain(td_lua_remote(L));
  td_member *m;
  td_str task = {0};
  td_session_retain(s);
  td_lua_unlock(st);
  td_status *status = td_remote_attach(r, s, &o, &m);
  td_lua_lock(st);
  if (td_ok(status)) /* a member begins with its participant */
    td_str_add(&task, ((const td_participant *)m)->task);
  td_session_release(s);
  td_remote_release(r);
  td_lua_check_step(L, status);
  td_lua_push_str(L, &task);
  return 1;
}

/* core.detach(session, task, drop) */
static int detach(lua_State *L) {
  td_session *s = td_lua_to_session(L, 1);
  td_lua_state *st = td_lua_get(L);
  const char *task = td_lua_text(L, 2);
  bool drop = lua_toboolean(L, 3);
  td_far_question far = {.what = TD_FAR_DETACH, .text = task, .flag = drop};
  if (td_lua_far_ask(L, s, far)) return 0;
  td_remote *r = td_remote_retain(td_lua_remote(L));
  td_session_retain(s);
  td_lua_unlock(st);
  td_status *status = td_remote_detach(r, s, task, drop);
  td_lua_lock(st);
  td_session_release(s);
  td_remote_release(r);
  td_lua_check_step(L, status);
  return 0;
}

/* ---- looking ------------------------------------------------------------- */

/* Copies, so that Lua may raise while it makes tables of them. */
typedef struct rows {
  TD_VEC(td_remote_row) list;
  bool failed;
} rows;

static char *copy(rows *to, const char *text) {
  char *own = td_strdup(text ? text : "");
  to->failed |= !own;
  return own;
}

static void keep_row(void *arg, const td_remote_row *from) {
  rows *to = arg;
  td_remote_row row = *from;
#define COPY(field, name) row.field = copy(to, from->field);
#define LEAVE(field, name)
  TD_REMOTE_ROW(COPY, LEAVE, LEAVE, LEAVE, LEAVE)
#undef COPY
#undef LEAVE
  if (td_vec_push(&to->list, row)) return;
  to->failed = true;
  td_remote_row_deinit(&row);
}

static int rows_gc(lua_State *L) {
  rows *r = lua_touserdata(L, 1);
  for (size_t i = 0; i < r->list.len; i++) td_remote_row_deinit(&r->list.at[i]);
  td_vec_free(&r->list);
  return 0;
}

static void set_text(lua_State *L, const char *key, const char *text) {
  if (*text) td_lua_set_string(L, key, text);
}

static void push_row(lua_State *L, const td_remote_row *row) {
  lua_newtable(L);
#define TEXT(field, name) set_text(L, name, row->field);
#define SECONDS(field, name) td_lua_set_number(L, name, row->field);
#define COUNT(field, name) td_lua_set_integer(L, name, (lua_Integer)row->field);
#define SPAN(field, name) td_lua_set_number(L, name, (double)row->field * 1e-9);
  TD_REMOTE_ROW(TEXT, TEXT, SECONDS, COUNT, SPAN)
#undef TEXT
#undef SECONDS
#undef COUNT
#undef SPAN
}

/* A row of an answer; its texts stay on the stack below what follows. */
static td_remote_row far_row(lua_State *L, td_bytes *from) {
  td_remote_row row = {0};
  uint64_t bits;
#define TEXT(field, name) row.field = (char *)td_lua_far_text(L, from);
#define SECONDS(field, name)                                                   \
  bits = td_lua_far_number(L, from, 8);                                        \
  memcpy(&row.field, &bits, sizeof row.field);
#define COUNT(field, name) row.field = td_lua_far_number(L, from, 8);
#define SPAN(field, name) row.field = (int64_t)td_lua_far_number(L, from, 8);
  TD_REMOTE_ROW(TEXT, TEXT, SECONDS, COUNT, SPAN)
#undef TEXT
#undef SECONDS
#undef COUNT
#undef SPAN
  return row;
}

/* The workers of a session whose master is elsewhere. */
static int far_rows(lua_State *L) {
  td_bytes from = td_lua_far_bytes(L);
  uint64_t n = td_lua_far_number(L, &from, 4);
  lua_newtable(L);
  int list = lua_gettop(L);
  for (uint64_t i = 0; i < n; i++) {
    td_remote_row row = far_row(L, &from);
    push_row(L, &row);
    lua_rawseti(L, list, (lua_Integer)i + 1);
    lua_settop(L, list);
  }
  return 1;
}

/* core.remote_rows(session or nil) -> a table for each worker; without a
 * session for each process that this one talks to. */
static int remote_rows(lua_State *L) {
  td_session *s = lua_isnoneornil(L, 1) ? NULL : td_lua_to_session(L, 1);
  td_lua_state *st = td_lua_get(L);
  lua_settop(L, 1);
  if (s && td_lua_far_ask(L, s, (td_far_question){.what = TD_FAR_WORKERS}))
    return far_rows(L);
  rows *r = lua_newuserdatauv(L, sizeof *r, 0);
  memset(r, 0, sizeof *r);
  luaL_setmetatable(L, ROWS);
  if (st->remote) td_remote_rows(st->remote, s, keep_row, r);
  if (r->failed) td_lua_check(L, td_oom());
  lua_createtable(L, (int)r->list.len, 0);
  for (size_t i = 0; i < r->list.len; i++) {
    push_row(L, &r->list.at[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* core.remote_traffic(): values that came and went, so far. */
static int remote_traffic(lua_State *L) {
  td_remote_traffic t = {0};
  td_lua_state *st = td_lua_get(L);
  if (st->remote) td_remote_read_traffic(st->remote, &t);
  lua_createtable(L, 0, 8);
  td_lua_set_integer(L, "eager", (lua_Integer)t.eager);
  td_lua_set_integer(L, "offered", (lua_Integer)t.offered);
  td_lua_set_integer(L, "narrowed", (lua_Integer)t.narrowed);
  td_lua_set_integer(L, "slowed", (lua_Integer)t.slowed);
  td_lua_set_integer(L, "pulled", (lua_Integer)t.pulled);
  td_lua_set_integer(L, "shared", (lua_Integer)t.shared);
  td_lua_set_integer(L, "unshared", (lua_Integer)t.unshared);
  td_lua_set_integer(L, "dropped", (lua_Integer)t.dropped);
  td_lua_set_integer(L, "copied", (lua_Integer)t.copied);
  return 1;
}

/* core.remote_stats(session, task): the numbers of a worker as text. */
static int remote_stats(lua_State *L) {
  td_session *s = td_lua_to_session(L, 1);
  td_lua_state *st = td_lua_get(L);
  const char *task = td_lua_text(L, 2);
  td_str text = {0};
  td_remote *r = td_remote_retain(td_lua_remote(L));
  td_session_retain(s);
  td_lua_unlock(st);
  td_status *status = td_remote_stats(r, s, task, &text);
  td_lua_lock(st);
  td_session_release(s);
  td_remote_release(r);
  if (!td_ok(status)) td_str_deinit(&text);
  td_lua_check_step(L, status);
  td_lua_push_str(L, &text);
  return 1;
}

static bool never(void *arg) {
  (void)arg;
  return false;
}

/* core.pause(seconds): between two looks. An interrupt ends it, and raises. */
static int take_a_pause(lua_State *L) {
  td_lua_state *st = td_lua_get(L);
  int64_t until = td_clock_now() + td_lua_seconds(L, 1);
  td_waiter w = {0};
  td_lua_unlock(st);
  td_waited why = td_waiter_wait(&w, until, td_lua_interrupt(), never, NULL);
  td_lua_lock(st);
  if (why == TD_WAITED_INTERRUPT)
    td_lua_check_step(L, td_error(TD_CANCELLED, "interrupted"));
  return 0;
}

TD_LUA_OPEN(remote) {
  static const luaL_Reg functions[] = {
      {"attach", attach},           {"detach", detach},
      {"remote_rows", remote_rows}, {"remote_traffic", remote_traffic},
      {"pause", take_a_pause},      {"remote_stats", remote_stats},
      {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  luaL_newmetatable(L, ROWS);
  lua_pushcfunction(L, rows_gc);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
}
