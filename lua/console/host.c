/* host.c - one interpreter: its life, scripts, subcommands and services.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/console/host.h"

#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/reserve.h"
#include "lua/console/catch.h"
#include "lua/console/child.h"
#include "lua/console/finalize.h"
#include "lua/console/frontend.h"
#include "lua/console/line_impl.h"

int luaopen_tide(lua_State *L);

/* ---- life ---- */

static int open_all(lua_State *L) {
  td_host *h = lua_touserdata(L, 1);
  luaL_openlibs(L);
  td_catch_open(L);
  td_finalize_open(L);
  td_frontend_open(L, h->frontend);
  h->spare = lua_newthread(L);
  luaL_ref(L, LUA_REGISTRYINDEX);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, luaopen_tide);
  lua_setfield(L, -2, "tide");
  lua_getglobal(L, "require");
  lua_pushliteral(L, "tide");
  lua_call(L, 1, 0);
  h->state = td_lua_get(L);
  return 0;
}

/* ---- memory ----
 *
 * Once the system has refused a piece and the reserve is spent, each call
 * lets Lua grow by a little only. A refusal is the error of who wanted more,
 * and makes room for those who are to unwind, to describe it and to reply. Most
 * of the reserve is left to C, which has to send that.
 */

enum {
  LITTLE = 256 << 10,
  MOST_REFUSALS = 8,    /* of a call, that make room */
  ALTOGETHER = 32 << 20 /* until the reserve is had again */
};

static bool may_grow(td_host *h, size_t by) {
  if (!TD_UNLIKELY(td_reserve_spent())) {
    if (h->most) h->most = h->ceiling = 0;
    return true;
  }
  if (!h->ceiling) h->ceiling = h->used + ALTOGETHER;
  if (!h->most) {
    h->most = h->used + LITTLE;
    h->refusals = 0;
  }
  size_t most = h->most < h->ceiling ? h->most : h->ceiling;
  if (h->used + by <= most || td_reserve_take()) return true;
  if (h->refusals++ < MOST_REFUSALS) h->most = h->used + LITTLE;
  return false;
}

/* Lua's memory comes through the door that tests can close. What shrinks never
 * fails. */
static void *allocate(void *arg, void *p, size_t old, size_t size) {
  td_host *h = arg;
  size_t had = p ? old : 0;
  if (size > had && !may_grow(h, size - had)) return NULL;
  void *q = size ? td_realloc(p, size) : NULL;
  if (!size) td_free(p);
  if (size > had && !q) return NULL;
  h->used += size - had;
  return q || !size ? q : p;
}

/* Lua's `warn`, as its own command has it: off until warn("@on"). A message may
 * come in pieces. */
static void on_warning(void *arg, const char *text, int more) {
  td_host *h = arg;
  if (!h->warning_goes_on && !more && text[0] == '@') {
    if (!strcmp(text, "@on")) h->warns = true;
    if (!strcmp(text, "@off")) h->warns = false;
    return;
  }
  if (h->warns)
    fprintf(stderr, "%s%s%s", h->warning_goes_on ? "" : "Lua warning: ", text,
            more ? "" : "\n");
  h->warning_goes_on = more;
}

static int panic(lua_State *L) {
  (void)L;
  return 0; /* every call is protected: this cannot happen */
}

td_host *td_host_new(const td_frontend *frontend, char **why) {
  td_host *h = td_calloc(1, sizeof *h);
  lua_State *L = h ? lua_newstate(allocate, h) : NULL;
  *why = NULL;
  if (!L) {
    td_free(h);
    *why = td_strdup("out of memory");
    return NULL;
  }
  td_reserve_take();
  h->frontend = frontend;
  h->first.host = h;
  h->first.L = L;
  td_line_signals();
  lua_atpanic(L, panic);
  lua_setwarnf(L, on_warning, h);
  lua_gc(L, LUA_GCGEN, 0, 0);
  lua_pushcfunction(L, open_all);
  lua_pushlightuserdata(L, h);
  if (lua_pcall(L, 1, 0, 0) == LUA_OK) {
    td_lua_unlock(h->state);
    return h;
  }
  *why = td_strdup(luaL_tolstring(L, -1, NULL));
  lua_close(L);
  td_free(h);
  return NULL;
}

void td_host_free(td_host *h) {
  if (!h) return;
  td_lua_lock(h->state);
  lua_close(h->first.L);
  td_free(h);
}

td_line *td_host_line(td_host *h) {
  return &h->first;
}

/* ---- running ----
 *
 * Any call into Lua may raise for want of memory, so a request runs inside one
 * protected call; on a failure outside of it only strings that exist are read.
 */

typedef struct job {
  const char *code, *name, *path;
  size_t len; /* of the code, where it may hold zero bytes */
  int argc;
  char **argv;
  td_str *text; /* what it prints, or its error */
  td_host_outcome outcome;
  int result; /* of a command; of a script: the exit code it wants */
} job;

/* Is the innermost frame of Lua code one of the library's? Then it is to blame,
 * and is shown. */
static bool in_library(lua_State *L) {
  lua_Debug ar;
  for (int level = 1; lua_getstack(L, level, &ar); level++)
    if (lua_getinfo(L, "Sl", &ar) && ar.currentline > 0)
      return !strncmp(ar.source, "=[tide]", 7);
  return false;
}

/* Is it one line, that of `where`? */
static bool is_told(const char *frames, const char *where) {
  const char *first = strstr(frames, "\n\t");
  size_t len = strlen(where);
  return first && len && !strchr(first + 1, '\n') &&
         !strncmp(first + 2, where, len) && first[2 + len] == ':';
}

/* The text of an error of Tide: behind it the user's frames, unless the one
 * that there is stands in it. */
static int tell_error(lua_State *L) {
  lua_getfield(L, 1, "where");
  lua_getfield(L, 1, "traceback");
  const char *frames = lua_tostring(L, -1);
  if (frames && !is_told(frames, luaL_optstring(L, -2, "")))
    lua_pushfstring(L, "%s\n%s", luaL_tolstring(L, 1, NULL), frames);
  else
    luaL_tolstring(L, 1, NULL);
  return 1;
}

/* Errors are told with the user's lines; where the library itself has failed,
 * with all. */
static int on_error(lua_State *L) {
  if (td_lua_is_error(L, 1)) return tell_error(L);
  if (lua_type(L, 1) != LUA_TSTRING) return 1;
  if (in_library(L))
    luaL_traceback(L, L, lua_tostring(L, 1), 1);
  else if (td_lua_push_frames(L, L, "\nstack traceback:"))
    lua_concat(L, 2);
  return 1;
}

static void add_message(lua_State *L, td_str *text) {
  size_t len;
  const char *s = luaL_tolstring(L, -1, &len);
  td_str_addn(text, s, len);
}

/* Calls the function below its arguments; an error goes to the job's text. */
static bool call(lua_State *L, job *j, int nargs, int nresults) {
  int base = lua_gettop(L) - nargs;
  lua_pushcfunction(L, on_error);
  lua_insert(L, base);
  int rc = lua_pcall(L, nargs, nresults, base);
  lua_remove(L, base);
  if (rc == LUA_OK) return true;
  add_message(L, j->text);
  j->outcome = TD_HOST_ERROR;
  return false;
}

static td_host_outcome run(td_line *l, lua_CFunction body, job *j) {
  lua_State *L = l->L;
  j->outcome = TD_HOST_OK;
  td_line_begin(l);
  lua_pushcfunction(L, body);
  lua_pushlightuserdata(L, j);
  if (lua_pcall(L, 1, 0, 0) != LUA_OK) {
    bool text = lua_type(L, -1) == LUA_TSTRING;
    td_str_add(j->text, text ? lua_tostring(L, -1) : "an error of no text");
    j->outcome = TD_HOST_ERROR;
    lua_pop(L, 1);
  }
  td_child_reap();
  bool was = td_line_end(l);
  return was && j->outcome == TD_HOST_ERROR ? TD_HOST_INTERRUPTED : j->outcome;
}

/* ---- scripts ---- */

static int set_args(lua_State *L) {
  const job *j = lua_touserdata(L, 1);
  lua_createtable(L, j->argc, 1);
  lua_pushstring(L, j->name);
  lua_rawseti(L, -2, 0);
  for (int i = 0; i < j->argc; i++) {
    lua_pushstring(L, j->argv[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setglobal(L, "arg");
  return 0;
}

void td_host_args(td_host *h, const char *name, int argc, char **argv) {
  td_str text;
  td_str_init(&text);
  job j = {.name = name, .argc = argc, .argv = argv, .text = &text};
  run(&h->first, set_args, &j);
  td_str_deinit(&text);
}

static int push_arguments(lua_State *L) {
  int n = 0;
  if (lua_getglobal(L, "arg") == LUA_TTABLE) {
    n = (int)lua_rawlen(L, -1);
    luaL_checkstack(L, n + 4, "too many arguments");
    for (int i = 1; i <= n; i++) lua_rawgeti(L, -i, i);
    lua_remove(L, -(n + 1));
  } else {
    lua_pop(L, 1);
  }
  return n;
}

/* Lines that the script left on the terminal end before what follows. */
static void finish_lines(lua_State *L, job *j) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, "tide.show.live") == LUA_TTABLE) {
    lua_getfield(L, -1, "finish_all");
    call(L, j, 0, 0);
  }
}

/* What the script wants the process to end with. */
static int code_wanted(lua_State *L, job *j) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, "tide.script.signals") != LUA_TTABLE) return 0;
  lua_getfield(L, -1, "exit_code");
  return call(L, j, 0, 1) ? (int)lua_tointeger(L, -1) : 0;
}

static int run_script(lua_State *L) {
  job *j = lua_touserdata(L, 1);
  bool in = j->path && !strcmp(j->path, "-");
  int rc = j->path ? luaL_loadfile(L, in ? NULL : j->path)
                   : luaL_loadbuffer(L, j->code, strlen(j->code), j->name);
  if (rc != LUA_OK) {
    add_message(L, j->text);
    j->outcome = TD_HOST_ERROR;
    return 0;
  }
  bool ended = call(L, j, push_arguments(L), 0);
  finish_lines(L, j);
  if (ended) j->result = code_wanted(L, j);
  return 0;
}

td_host_outcome td_host_file(td_host *h, const char *path, td_str *text) {
  job j = {.path = path, .text = text};
  td_host_outcome o = run(&h->first, run_script, &j);
  h->exit_code = j.result;
  return o;
}

td_host_outcome td_host_string(td_host *h, const char *code, const char *name,
                               td_str *text) {
  job j = {.code = code, .name = name, .text = text};
  td_host_outcome o = run(&h->first, run_script, &j);
  h->exit_code = j.result;
  return o;
}

int td_host_exit_code(const td_host *h) {
  return h->exit_code;
}

/* ---- services ---- */

static int run_service(lua_State *L) {
  job *j = lua_touserdata(L, 1);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "tide.console");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "call");
  lua_pushstring(L, j->name);
  lua_pushlstring(L, j->code, j->len);
  if (!call(L, j, 2, 1)) return 0;
  size_t len;
  const char *s = luaL_checklstring(L, -1, &len);
  td_str_addn(j->text, s, len);
  if (j->text->failed) return luaL_error(L, "not enough memory");
  return 0;
}

td_host_outcome td_host_call(td_line *l, const char *name, const char *request,
                             size_t len, td_str *reply) {
  job j = {.code = request, .len = len, .name = name, .text = reply};
  td_str_clear(reply);
  return run(l, run_service, &j);
}

/* ---- subcommands ---- */

static int run_command(lua_State *L) {
  job *j = lua_touserdata(L, 1);
  j->result = -1;
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushfstring(L, "tide.cli.%s", j->name);
  if (lua_gettable(L, -2) == LUA_TNIL) return 0;
  lua_getglobal(L, "require");
  lua_pushfstring(L, "tide.cli.%s", j->name);
  if (!call(L, j, 1, 1)) return 0;
  lua_createtable(L, j->argc, 0);
  for (int i = 0; i < j->argc; i++) {
    lua_pushstring(L, j->argv[i]);
    lua_rawseti(L, -2, i + 1);
  }
  if (call(L, j, 1, 1)) j->result = (int)luaL_optinteger(L, -1, 0);
  return 0;
}

td_host_outcome td_host_command(td_host *h, const char *name, int argc,
                                char **argv, int *code, td_str *text) {
  job j = {.name = name, .argc = argc, .argv = argv, .text = text};
  td_host_outcome o = run(&h->first, run_command, &j);
  *code = j.result;
  return o;
}
