/* bind_server.c - this process as a worker: a runtime of its own that runs
 * parts of graphs for others, beside the interpreter's.
 *
 * Its thread serves; Lua waits for its end, or does something else meanwhile.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/base/process_limit.h"
#include "engine/device/alloc.h"
#include "engine/remote/metrics.h"
#include "engine/remote/remote.h"
#include "lua/bind.h"
#include "lua/bind_field.h"
#include "lua/bind_remote.h"

#define SERVER "tide.server"

enum { MOST = 4096 }; /* devices, threads */

typedef struct lua_server {
  td_runtime *runtime;
  td_remote *remote;           /* NULL: stopped */
  td_metrics *metrics;         /* NULL: none are told */
  char key[TD_KEY_TEXT + 1];   /* the public one; "" over ipc */
  char proof[TD_KEY_TEXT + 1]; /* public: what it proves where it dials */
  char bound[512];             /* where it listens */
  td_waiter over;
  int32_t stopped; /* atomic */
  pid_t pid;       /* of the process that made it */
} lua_server;

/* ---- making -------------------------------------------------------------- */

/* What its maker says; all text is the table's. */
typedef struct server_options {
  const char *place, *listen, *listen_data, *advertise, *key, *allow;
  lua_Integer cpu_devices, threads, memory_limit;
  lua_Number patience;
} server_options;

/* The text of a field of the table at 1, which keeps it; or NULL. */
static const char *text_field(lua_State *L, const char *key) {
  const char *text =
      lua_getfield(L, 1, key) == LUA_TNIL ? NULL : td_lua_text(L, -1);
  lua_pop(L, 1);
  return text;
}

static lua_Integer count_field(lua_State *L, const char *key,
                               lua_Integer most) {
  lua_Integer n = td_lua_integer(L, 1, key);
  if (n < 0 || n > most)
    td_lua_error(L, TD_INVALID_ARGUMENT, "%s must be 1 to %lld, not %lld", key,
                 (long long)most, (long long)n);
  return n;
}

static server_options read_options(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  return (server_options){.place = text_field(L, "place"),
                          .listen = text_field(L, "listen"),
                          .listen_data = text_field(L, "listen_data"),
                          .advertise = text_field(L, "advertise"),
                          .key = text_field(L, "key"),
                          .allow = text_field(L, "allow"),
                          .cpu_devices = count_field(L, "cpu_devices", MOST),
                          .threads = count_field(L, "threads", MOST),
                          .memory_limit =
                              count_field(L, "memory_limit", LUA_MAXINTEGER),
                          .patience = td_lua_patience(L, 1)};
}

static bool is_allowed(void *arg, const char *text) {
  td_keys_key key;
  return td_keys_parse(text, strlen(text), &key) &&
         td_keys_list_find(arg, &key) != NULL;
}

static void free_list(void *arg) {
  td_keys_list_free(arg);
}

/* Takes ownership of `allow`, which lives as long as the channel. */
static td_status *open_channel(const server_options *o, td_keys_list *allow,
                               const td_keys_pair *pair, td_channel **out) {
  char secret[TD_KEY_TEXT + 1], pub[TD_KEY_TEXT + 1];
  td_keys_print(&pair->secret, secret);
  td_keys_print(&pair->pub, pub);
  td_channel_zmq_options c = {.listen = o->listen,
                              .listen_data = o->listen_data,
                              .secret = secret,
                              .public_key = pub};
  if (allow) {
    c.allow = is_allowed;
    c.allow_arg = allow;
    c.allow_free = free_list;
  }
  td_status *s = td_channel_zmq_new(&c, out);
  sodium_memzero(secret, sizeof secret);
  return s;
}

/* The address `advertise`, of one lane: its port is that of our own, `at`,
 * where `any` or where it says 0. Caller owns the result; NULL: there is no
 * memory. */
static char *advertised(const char *advertise, const char *at, bool any) {
  const char *colon = strrchr(advertise, ':'), *port = strrchr(at, ':');
  bool ours = any || !strcmp(colon, ":0");
  td_str s = {0};
  td_str_addn(&s, advertise, (size_t)(colon - advertise));
  td_str_add(&s, ours ? port : colon);
  char *text = s.failed ? NULL : td_str_take(&s);
  td_str_deinit(&s);
  return text;
}

/* Takes ownership of the channel. */
static td_status *serve(lua_server *u, const server_options *o,
                        td_channel *channel) {
  const char *control = channel->ops->address(channel, TD_LANE_CONTROL),
             *data = channel->ops->address(channel, TD_LANE_DATA);
  char *as = NULL, *data_as = NULL;
  snprintf(u->bound, sizeof u->bound, "%s", control);
  if (o->advertise) {
    as = advertised(o->advertise, control, false);
    data_as = advertised(o->advertise, data, true);
  }
  td_remote_options r = {.runtime = u->runtime,
                         .channel = channel,
                         .public_key = u->proof,
                         .advertise = as,
                         .advertise_data = data_as,
                         .serve = true,
                         .cpu_devices = (int)o->cpu_devices,
                         .threads = (int)o->threads,
                         .patience = o->patience,
                         .thread = true};
  td_status *s = NULL;
  if (!o->advertise || (as && data_as)) {
    s = td_remote_new(&r, &u->remote);
  } else {
    channel->ops->free(channel);
    s = td_oom();
  }
  td_free(as);
  td_free(data_as);
  return s;
}

static td_status *start(lua_server *u, const server_options *o) {
  td_keys_pair pair;
  td_keys_list *allow = NULL;
  td_channel *channel;
  td_runtime_options r = {.place = o->place,
                          .memory_limit = (size_t)o->memory_limit};
  bool tcp = strncmp(o->listen, "tcp:", 4) == 0;
  TD_TRY(td_lua_key_pair(o->key, &pair));
  td_keys_print(&pair.pub, u->proof);
  if (tcp) memcpy(u->key, u->proof, sizeof u->key);
  td_status *s = o->allow ? td_keys_list_read(o->allow, &allow) : NULL;
  if (td_ok(s)) s = open_channel(o, allow, &pair, &channel);
  td_keys_wipe(&pair);
  TD_TRY(s);
  s = td_runtime_new(&r, &u->runtime);
  if (td_ok(s)) return serve(u, o, channel);
  channel->ops->free(channel);
  return s;
}

static lua_server *check_server(lua_State *L) {
  return luaL_checkudata(L, 1, SERVER);
}

/* core.server{place =, listen =, listen_data =, advertise =, key = folder,
 * allow = file, cpu_devices =, threads =, memory_limit =, patience =};
 * `advertise` has a port, 0: the one that it listens at. */
static int server(lua_State *L) {
  server_options o = read_options(L);
  luaL_argcheck(L, o.place && o.listen, 1, "place and listen are needed");
  lua_server *u = lua_newuserdatauv(L, sizeof *u, 0);
  memset(u, 0, sizeof *u);
  u->pid = getpid();
  luaL_setmetatable(L, SERVER);
  td_lua_check(L, start(u, &o));
  return 1;
}

/* ---- its end ------------------------------------------------------------- */

/* Lets go of the interpreter meanwhile, unless `st` is NULL. */
static void end(lua_server *u, td_lua_state *st) {
  td_remote *r = u->remote;
  td_runtime *rt = u->runtime;
  td_metrics *m = u->metrics;
  u->remote = NULL;
  u->metrics = NULL;
  u->runtime = NULL;
  if (st) td_lua_unlock(st);
  td_metrics_free(m);
  if (r) td_remote_close(r);
  td_remote_release(r);
  td_runtime_release(rt);
  if (st) td_lua_lock(st);
  __atomic_store_n(&u->stopped, 1, __ATOMIC_RELEASE);
  td_waiter_wake(&u->over);
}

/* s:stop(): others are told; what it runs for them ends. */
static int stop(lua_State *L) {
  lua_server *u = check_server(L);
  end(u, td_lua_get(L));
  return 0;
}

/* A forked child leaves its parent's talk alone. */
static int server_gc(lua_State *L) {
  lua_server *u = check_server(L);
  if (u->remote && u->pid == getpid()) end(u, NULL);
  return 0;
}

static bool is_stopped(void *arg) {
  return __atomic_load_n(&((lua_server *)arg)->stopped, __ATOMIC_ACQUIRE) != 0;
}

/* s:join(): until it is stopped; an interrupt raises. */
static int join(lua_State *L) {
  lua_server *u = check_server(L);
  td_lua_state *st = td_lua_get(L);
  td_lua_unlock(st);
  td_waited why =
      td_waiter_wait(&u->over, INT64_MAX, td_lua_interrupt(), is_stopped, u);
  td_lua_lock(st);
  if (why == TD_WAITED_INTERRUPT)
    td_lua_check_step(L, td_error(TD_CANCELLED, "interrupted"));
  return 0;
}

/* ---- until a signal ------------------------------------------------------ */

/* Handlers are the process's: one server at a time waits so. */
static td_waiter signalled;
static int32_t signals; /* atomic: how many have come */

static void on_signal(int number) {
  (void)number;
  __atomic_fetch_add(&signals, 1, __ATOMIC_SEQ_CST);
  td_waiter_wake(&signalled);
}

static bool is_asked(void *arg) {
  (void)arg;
  return __atomic_load_n(&signals, __ATOMIC_ACQUIRE) > 0;
}

/* What is not tensors, such as graphs and messages, has its limit as well: an
 * eighth of theirs and half a GiB, as far as the machine has it. */
static void bound_process(lua_server *u) {
  td_device *cpu;
  td_status *s = td_runtime_cpu(u->runtime, 0, &cpu);
  size_t machine = td_alloc_default_limit();
  if (td_ok(s)) {
    size_t tensors = td_allocator_read_stats(cpu->memory).limit;
    size_t all = tensors + tensors / 8 + ((size_t)512 << 20);
    if (all < tensors) all = SIZE_MAX;
    machine += machine / 5; /* of four fifths of it */
    if (all > machine && machine > tensors) all = machine;
    (void)td_process_limit_set(all);
  }
  td_status_release(s);
}

/* s:serve(f): bounds the process's memory, calls f, and waits for SIGINT or
 * SIGTERM, which end nothing by themselves from before f is called. */
static int serve_until_asked(lua_State *L) {
  lua_server *u = check_server(L);
  td_lua_state *st = td_lua_get(L);
  struct sigaction ours, was_int, was_term;
  memset(&ours, 0, sizeof ours);
  ours.sa_handler = on_signal;
  ours.sa_flags = SA_RESTART;
  __atomic_store_n(&signals, 0, __ATOMIC_SEQ_CST);
  sigaction(SIGINT, &ours, &was_int);
  sigaction(SIGTERM, &ours, &was_term);
  if (u->runtime) bound_process(u);
  lua_settop(L, 2);
  int rc = lua_pcall(L, 0, 0, 0);
  if (rc == LUA_OK) {
    td_lua_unlock(st);
    td_waited why = td_waiter_wait(&signalled, INT64_MAX, NULL, is_asked, NULL);
    (void)why;
    td_lua_lock(st);
  }
  sigaction(SIGINT, &was_int, NULL);
  sigaction(SIGTERM, &was_term, NULL);
  return rc == LUA_OK ? 0 : lua_error(L);
}

/* ---- looking ------------------------------------------------------------- */

/* s:address() -> where others dial it; nil once it is stopped */
static int address(lua_State *L) {
  lua_server *u = check_server(L);
  lua_pushstring(L, u->remote ? td_remote_address(u->remote) : NULL);
  return 1;
}

/* s:key() -> its public key; nil over ipc */
static int key(lua_State *L) {
  lua_server *u = check_server(L);
  lua_pushstring(L, *u->key ? u->key : NULL);
  return 1;
}

/* s:bound() -> where it listens */
static int bound(lua_State *L) {
  lua_pushstring(L, check_server(L)->bound);
  return 1;
}

/* s:metrics(host, port) -> the port at which its numbers are told */
static int metrics(lua_State *L) {
  lua_server *u = check_server(L);
  const char *host = td_lua_text(L, 2);
  lua_Integer port = luaL_checkinteger(L, 3);
  luaL_argcheck(L, port >= 0 && port <= 65535, 3, "a port is 0 to 65535");
  luaL_argcheck(L, u->remote && !u->metrics, 1, "it has ended, or tells them");
  td_lua_check(L, td_metrics_new(u->remote, host, (int)port, &u->metrics));
  lua_pushinteger(L, td_metrics_port(u->metrics));
  return 1;
}

TD_LUA_OPEN(server) {
  static const luaL_Reg methods[] = {
      {"stop", stop},       {"join", join},      {"serve", serve_until_asked},
      {"address", address}, {"bound", bound},    {"key", key},
      {"metrics", metrics}, {"__gc", server_gc}, {NULL, NULL}};
  luaL_newmetatable(L, SERVER);
  luaL_setfuncs(L, methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  lua_pushcfunction(L, server);
  lua_setfield(L, -2, "server");
}
