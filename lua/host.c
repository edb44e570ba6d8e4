/* host.c - one interpreter: evaluates, and can be interrupted.
 *
 * An interrupt sets the flag that running steps look at and hooks every
 * coroutine that is on the resume stack. The hook raises on each instruction
 * until control is back here, so that no pcall can swallow it for good. Lua
 * hooks are per coroutine, hence our resume and wrap, which keep that stack.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/host.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "lua/bind.h"

int luaopen_tide(lua_State *L);

enum { DEEPEST = 256 };

struct td_host {
  lua_State *L;
  td_lua_state *state;
  lua_State *volatile stack[DEEPEST]; /* running coroutines, main first */
  volatile int depth;
  volatile int interrupted;
};

static const char host_key = 0;

/* ---- interrupting ---- */

static void raise_hook(lua_State *L, lua_Debug *ar) {
  (void)ar;
  luaL_error(L, "interrupted");
}

void td_host_interrupt(td_host *h) {
  h->interrupted = 1;
  __atomic_store_n(&h->state->interrupt, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < h->depth && i < DEEPEST; i++)
    lua_sethook(h->stack[i], raise_hook,
                LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, 1);
}

bool td_host_busy(const td_host *h) {
  return h->depth > 0;
}

static void begin(td_host *h) {
  h->interrupted = 0;
  __atomic_store_n(&h->state->interrupt, 0, __ATOMIC_RELEASE);
  h->stack[0] = h->L;
  h->depth = 1;
}

/* True when it was interrupted. */
static bool end(td_host *h) {
  bool was = h->interrupted;
  h->depth = 0;
  lua_sethook(h->L, NULL, 0, 0);
  h->interrupted = 0;
  __atomic_store_n(&h->state->interrupt, 0, __ATOMIC_RELEASE);
  return was;
}

static td_host *host_of(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &host_key);
  td_host *h = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return h;
}

static void copy_hook(lua_State *from, lua_State *to) {
  if (lua_gethook(from) == raise_hook)
    lua_sethook(to, raise_hook, lua_gethookmask(from), lua_gethookcount(from));
}

/* Resumes `co` with n arguments from the top of L. Results or the error message
 * are moved to L; returns their number, or -1. */
static int resume(lua_State *L, lua_State *co, int n) {
  td_host *h = host_of(L);
  int results;
  if (!lua_checkstack(co, n)) {
    lua_pushliteral(L, "too many arguments to resume");
    return -1;
  }
  lua_xmove(L, co, n);
  int depth = h->depth;
  if (depth < DEEPEST) h->stack[depth] = co;
  h->depth = depth + 1;
  copy_hook(L, co);
  int rc = lua_resume(co, L, n, &results);
  h->depth = depth;
  lua_sethook(co, NULL, 0, 0);
  if (rc != LUA_OK && rc != LUA_YIELD) {
    lua_xmove(co, L, 1);
    return -1;
  }
  if (!lua_checkstack(L, results + 1)) {
    lua_pop(co, results);
    lua_pushliteral(L, "too many results to resume");
    return -1;
  }
  lua_xmove(co, L, results);
  return results;
}

static bool resumable(lua_State *L, lua_State *co) {
  if (co == L || (lua_status(co) == LUA_OK && lua_gettop(co) == 0))
    return false;
  if (lua_status(co) == LUA_YIELD) return true;
  lua_Debug ar;
  return lua_status(co) == LUA_OK && !lua_getstack(co, 0, &ar);
}

static int co_resume(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  luaL_argexpected(L, co, 1, "coroutine");
  int n = -1;
  if (resumable(L, co)) {
    n = resume(L, co, lua_gettop(L) - 1);
  } else {
    bool dead = lua_status(co) == LUA_OK || lua_status(co) > LUA_YIELD;
    lua_pushstring(L, dead && co != L && lua_gettop(co) == 0
                          ? "cannot resume dead coroutine"
                          : "cannot resume non-suspended coroutine");
  }
  lua_pushboolean(L, n >= 0);
  lua_insert(L, n >= 0 ? -(n + 1) : -2);
  return n >= 0 ? n + 1 : 2;
}

static int wrapped(lua_State *L) {
  lua_State *co = lua_tothread(L, lua_upvalueindex(1));
  if (!resumable(L, co)) return luaL_error(L, "cannot resume dead coroutine");
  int n = resume(L, co, lua_gettop(L));
  if (n >= 0) return n;
  int status = lua_status(co);
  if (status != LUA_OK && status != LUA_YIELD) {
    lua_resetthread(co); /* closes its pending variables */
    if (lua_gettop(co) > 0 && !lua_isnil(co, -1)) lua_pop(co, 1);
  }
  if (lua_type(L, -1) == LUA_TSTRING) {
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
  }
  return lua_error(L);
}

static int co_wrap(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_State *co = lua_newthread(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  lua_pushcclosure(L, wrapped, 1);
  return 1;
}

static void replace_coroutines(lua_State *L) {
  lua_getglobal(L, "coroutine");
  lua_pushcfunction(L, co_resume);
  lua_setfield(L, -2, "resume");
  lua_pushcfunction(L, co_wrap);
  lua_setfield(L, -2, "wrap");
  lua_pop(L, 1);
}

/* ---- life ---- */

static int open_all(lua_State *L) {
  td_host *h = lua_touserdata(L, 1);
  luaL_openlibs(L);
  lua_pushlightuserdata(L, h);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &host_key);
  replace_coroutines(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, luaopen_tide);
  lua_setfield(L, -2, "tide");
  lua_getglobal(L, "require");
  lua_pushliteral(L, "tide");
  lua_call(L, 1, 0);
  h->state = td_lua_get(L);
  return 0;
}

/* Lua's memory comes through the door that tests can close. */
static void *allocate(void *arg, void *p, size_t old, size_t size) {
  (void)arg;
  (void)old;
  if (size) return td_realloc(p, size);
  td_free(p);
  return NULL;
}

static int panic(lua_State *L) {
  (void)L;
  return 0; /* every call is protected: this cannot happen */
}

td_host *td_host_new(char **why) {
  td_host *h = td_alloc_zero(1, sizeof *h);
  *why = NULL;
  if (h) h->L = lua_newstate(allocate, NULL);
  if (!h || !h->L) {
    td_free(h);
    *why = td_strdup("out of memory");
    return NULL;
  }
  lua_atpanic(h->L, panic);
  lua_gc(h->L, LUA_GCGEN, 0, 0);
  lua_pushcfunction(h->L, open_all);
  lua_pushlightuserdata(h->L, h);
  if (lua_pcall(h->L, 1, 0, 0) == LUA_OK) return h;
  *why = td_strdup(luaL_tolstring(h->L, -1, NULL));
  lua_close(h->L);
  td_free(h);
  return NULL;
}

void td_host_free(td_host *h) {
  if (!h) return;
  lua_close(h->L);
  td_free(h);
}

/* ---- running ----
 *
 * Any call into Lua may raise for want of memory, so a request runs inside one
 * protected call; on a failure outside of it only strings that exist are read.
 */

typedef struct job {
  const char *code, *name, *path;
  int argc;
  char **argv;
  td_str *text; /* what it prints, or its error */
  td_host_outcome outcome;
  int result; /* of a command */
} job;

/* Error objects of Tide read by themselves; others get a traceback. */
static int on_error(lua_State *L) {
  if (luaL_testudata(L, 1, TD_LUA_ERROR)) return 1;
  if (lua_type(L, 1) == LUA_TSTRING)
    luaL_traceback(L, L, lua_tostring(L, 1), 1);
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

static td_host_outcome run(td_host *h, lua_CFunction body, job *j) {
  lua_State *L = h->L;
  j->outcome = TD_HOST_OK;
  begin(h);
  lua_pushcfunction(L, body);
  lua_pushlightuserdata(L, j);
  if (lua_pcall(L, 1, 0, 0) != LUA_OK) {
    bool text = lua_type(L, -1) == LUA_TSTRING;
    td_str_add(j->text, text ? lua_tostring(L, -1) : "an error of no text");
    j->outcome = TD_HOST_ERROR;
    lua_pop(L, 1);
  }
  bool was = end(h);
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
  run(h, set_args, &j);
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
  call(L, j, push_arguments(L), 0);
  return 0;
}

td_host_outcome td_host_file(td_host *h, const char *path, td_str *text) {
  job j = {.path = path, .text = text};
  return run(h, run_script, &j);
}

td_host_outcome td_host_string(td_host *h, const char *code, const char *name,
                               td_str *text) {
  job j = {.code = code, .name = name, .text = text};
  return run(h, run_script, &j);
}

/* ---- what a person typed ---- */

/* Does the syntax error say that the chunk ended too early? */
static bool wants_more(lua_State *L) {
  size_t len;
  const char *s = lua_tolstring(L, -1, &len);
  const size_t eof = sizeof "<eof>" - 1;
  return s && len >= eof && !strcmp(s + len - eof, "<eof>");
}

/* "?matmul" asks for help; false when it is Lua. Pushes what to evaluate. */
static bool push_question(lua_State *L, const char *code) {
  code += strspn(code, " \t");
  if (*code != '?') return false;
  code++;
  code += strspn(code, " \t");
  size_t n = strcspn(code, "'\\\n");
  while (n > 0 && strchr(" \t\r", code[n - 1])) n--;
  lua_pushlstring(L, code, n);
  lua_pushfstring(L,
                  n ? "require('tide').help('%s')" : "require('tide').help()",
                  lua_tostring(L, -1));
  return true;
}

/* As an expression first, then as a chunk. */
static int load_typed(lua_State *L, const job *j) {
  if (!push_question(L, j->code)) lua_pushfstring(L, "return %s", j->code);
  size_t len;
  const char *expression = lua_tolstring(L, -1, &len);
  if (luaL_loadbuffer(L, expression, len, j->name) == LUA_OK) return LUA_OK;
  lua_pop(L, 2);
  return luaL_loadbuffer(L, j->code, strlen(j->code), j->name);
}

static int show(lua_State *L) {
  int n = lua_gettop(L) - 1;
  td_str *text = lua_touserdata(L, 1);
  for (int i = 0; i < n; i++) {
    if (i > 0) td_str_addc(text, '\t');
    lua_pushvalue(L, i + 2);
    add_message(L, text);
    lua_settop(L, n + 1);
  }
  return 0;
}

static int run_typed(lua_State *L) {
  job *j = lua_touserdata(L, 1);
  if (load_typed(L, j) != LUA_OK) {
    bool more = wants_more(L);
    j->outcome = more ? TD_HOST_INCOMPLETE : TD_HOST_ERROR;
    if (!more) add_message(L, j->text);
    return 0;
  }
  lua_replace(L, 1);
  lua_settop(L, 1);
  if (!call(L, j, 0, LUA_MULTRET) || lua_gettop(L) == 0) return 0;
  lua_pushcfunction(L, show);
  lua_insert(L, 1);
  lua_pushlightuserdata(L, j->text);
  lua_insert(L, 2);
  call(L, j, lua_gettop(L) - 1, 0);
  return 0;
}

td_host_outcome td_host_eval(td_host *h, const char *code, const char *name,
                             td_str *text) {
  job j = {.code = code, .name = name, .text = text};
  return run(h, run_typed, &j);
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
  td_host_outcome o = run(h, run_command, &j);
  *code = j.result;
  return o;
}
