/* bind_files.c - files, arrays on disk, downloads, the console.
 *
 * libcurl is opened when something is downloaded, not linked: it would cost a
 * third of the start.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/cpu.h"
#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/base/random.h"
#include "engine/device/alloc.h"
#include "engine/io/npy.h"
#include "engine/io/npz.h"
#include "lua/bind.h"

static const size_t array_limit = (size_t)1 << 40;

/* ---- files ---- */

/* core.read_file(path [, limit]) -> bytes */
static int read_file(lua_State *L) {
  char *bytes;
  size_t len, limit = (size_t)luaL_optinteger(L, 2, (lua_Integer)1 << 34);
  td_lua_check(L, td_file_read(td_lua_text(L, 1), limit, &bytes, &len));
  td_lua_push_bytes(L, bytes, len);
  return 1;
}

static int write_file(lua_State *L) {
  size_t len;
  const char *bytes = luaL_checklstring(L, 2, &len);
  td_lua_check(L, td_file_write(td_lua_text(L, 1), bytes, len));
  return 0;
}

static int file_exists(lua_State *L) {
  lua_pushboolean(L, td_file_exists(td_lua_text(L, 1)));
  return 1;
}

static int file_mkdirs(lua_State *L) {
  td_lua_check(L, td_file_mkdirs(td_lua_text(L, 1)));
  return 0;
}

/* ---- a log that several processes write ---- */

#define LOCK "tide.lock"

enum { LOCK_MS = 1000 };

static bool try_lock(int fd) {
  return flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

/* An interrupt may have come between locking and closing: then the object that
 * holds the lock is garbage of our own. */
static void wait_for_lock(lua_State *L, int fd) {
  if (try_lock(fd)) return;
  lua_gc(L, LUA_GCCOLLECT);
  for (int ms = 0; ms < LOCK_MS && !try_lock(fd); ms++) {
    if (__atomic_load_n(td_lua_interrupt(), __ATOMIC_ACQUIRE)) return;
    poll(NULL, 0, 1);
  }
}

/* core.lock_file(path): alone with it until the object is closed. Where the
 * file system knows no locks, or somebody keeps one for long, the appends are
 * atomic enough. */
static int lock_file(lua_State *L) {
  const char *path = td_lua_text(L, 1);
  int *fd = lua_newuserdatauv(L, sizeof *fd, 0);
  *fd = -1;
  luaL_setmetatable(L, LOCK);
  *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (*fd < 0)
    return td_lua_error(L, TD_UNAVAILABLE, "cannot open %s: %s", path,
                        strerror(errno));
  wait_for_lock(L, *fd);
  return 1;
}

static int unlock_file(lua_State *L) {
  int *fd = luaL_checkudata(L, 1, LOCK);
  if (*fd >= 0) close(*fd);
  *fd = -1;
  return 0;
}

static void open_locks(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"__gc", unlock_file}, {"__close", unlock_file}, {NULL, NULL}};
  luaL_newmetatable(L, LOCK);
  luaL_setfuncs(L, methods, 0);
  lua_pop(L, 1);
}

/* Writes the line at the end of the file, on a line of its own even when the
 * last writer was killed within its own. */
static bool add_line(int fd, const td_str *line, struct stat *st) {
  char last = '\n';
  if (fstat(fd, st)) return false;
  if (st->st_size > 0 && pread(fd, &last, 1, st->st_size - 1) != 1)
    return false;
  size_t from = last == '\n';
  ssize_t n = write(fd, line->at + from, line->len - from);
  return n == (ssize_t)(line->len - from) && !fstat(fd, st);
}

/* core.append_line(path, text) -> bytes of the file now. One write. */
static int append_line(lua_State *L) {
  const char *path = td_lua_text(L, 1);
  size_t len;
  const char *text = luaL_checklstring(L, 2, &len);
  struct stat st;
  td_str line;
  td_str_init(&line);
  td_str_addc(&line, '\n');
  td_str_addn(&line, text, len);
  td_str_addc(&line, '\n');
  int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  bool ok = fd >= 0 && !line.failed && add_line(fd, &line, &st);
  int err = line.failed ? ENOMEM : errno;
  if (fd >= 0) close(fd);
  td_str_deinit(&line);
  if (!ok)
    return td_lua_error(L, TD_UNAVAILABLE, "cannot write %s: %s", path,
                        strerror(err));
  lua_pushinteger(L, (lua_Integer)st.st_size);
  return 1;
}

/* core.gunzip(bytes [, limit]) -> bytes */
static int gunzip(lua_State *L) {
  size_t len, out_len;
  const char *in = luaL_checklstring(L, 1, &len);
  char *out;
  size_t limit = (size_t)luaL_optinteger(L, 2, (lua_Integer)1 << 32);
  td_lua_check(L, td_file_gunzip(in, len, limit, &out, &out_len));
  td_lua_push_bytes(L, out, out_len);
  return 1;
}

/* ---- arrays on disk ---- */

static int load_npy(lua_State *L) {
  td_tensor t;
  td_lua_check(L, td_npy_read(td_lua_text(L, 1), array_limit, &t));
  td_lua_push_tensor(L, &t);
  return 1;
}

static td_tensor *check_value(lua_State *L, int i) {
  luaL_checkudata(L, i, TD_LUA_TENSOR);
  return td_lua_to_value(L, i);
}

static int save_npy(lua_State *L) {
  td_lua_check(L, td_npy_write(td_lua_text(L, 1), check_value(L, 2)));
  return 0;
}

/* core.load_npz(path) -> {name = value} */
static int load_npz(lua_State *L) {
  td_npz *z;
  td_status *s = NULL;
  td_lua_check(L, td_npz_open(td_lua_text(L, 1), array_limit, &z));
  lua_newtable(L);
  size_t n = td_npz_count(z);
  for (size_t i = 0; td_ok(s) && i < n; i++) {
    td_tensor t;
    s = td_npz_read(z, td_npz_name(z, i), &t);
    if (!td_ok(s)) break;
    td_lua_push_tensor(L, &t);
    lua_setfield(L, -2, td_npz_name(z, i));
  }
  td_npz_close(z);
  td_lua_check(L, s);
  return 1;
}

/* core.save_npz(path, {names}, {values} [, deflate]) */
static int save_npz(lua_State *L) {
  const char *path = td_lua_text(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checktype(L, 3, LUA_TTABLE);
  size_t n = (size_t)luaL_len(L, 2);
  bool deflate = lua_toboolean(L, 4);
  const char **names = td_lua_block(L, n, sizeof *names);
  td_tensor *arrays = td_lua_block(L, n, sizeof *arrays);
  luaL_checkstack(L, 8, "npz");
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, 2, (lua_Integer)i + 1);
    names[i] = td_lua_text(L, -1);
    lua_rawgeti(L, 3, (lua_Integer)i + 1);
    arrays[i] = *check_value(L, -1);
    lua_pop(L, 2);
  }
  td_lua_check(L, td_npz_write(path, n, names, arrays, deflate));
  return 0;
}

/* ---- digests and downloads ---- */

static void hex(const unsigned char *bytes, size_t n, char *out) {
  for (size_t i = 0; i < n; i++) snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

static int sha256(lua_State *L) {
  size_t len;
  const char *s = luaL_checklstring(L, 1, &len);
  unsigned char digest[crypto_hash_sha256_BYTES];
  char text[2 * sizeof digest + 1];
  crypto_hash_sha256(digest, (const unsigned char *)s, len);
  hex(digest, sizeof digest, text);
  lua_pushstring(L, text);
  return 1;
}

/* What a download needs of libcurl. */
typedef struct curl {
  void *(*init)(void);
  int (*setopt)(void *h, int option, ...);
  int (*perform)(void *h);
  void (*cleanup)(void *h);
  const char *(*strerror)(int code);
} curl;

enum {
  CURL_URL = 10002,
  CURL_WRITEDATA = 10001,
  CURL_WRITEFUNCTION = 20011,
  CURL_FOLLOWLOCATION = 52,
  CURL_FAILONERROR = 45,
  CURL_CONNECTTIMEOUT = 78,
  CURL_NOSIGNAL = 99,
  CURL_LOW_SPEED_LIMIT = 19,
  CURL_LOW_SPEED_TIME = 20,
};

static td_status *open_curl(curl *c) {
  void *lib = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
  if (!lib)
    return td_error(TD_UNIMPLEMENTED,
                    "downloads need libcurl (package libcurl4): %s", dlerror());
  *(void **)&c->init = dlsym(lib, "curl_easy_init");
  *(void **)&c->setopt = dlsym(lib, "curl_easy_setopt");
  *(void **)&c->perform = dlsym(lib, "curl_easy_perform");
  *(void **)&c->cleanup = dlsym(lib, "curl_easy_cleanup");
  *(void **)&c->strerror = dlsym(lib, "curl_easy_strerror");
  if (c->init && c->setopt && c->perform && c->cleanup && c->strerror)
    return NULL;
  return td_error(TD_INTERNAL, "libcurl lacks a function");
}

typedef struct body {
  td_str text;
  size_t limit;
  bool full; /* more came than the limit allows */
} body;

static size_t receive(char *at, size_t size, size_t n, void *arg) {
  body *b = arg;
  size_t len = size * n;
  b->full = len > b->limit - b->text.len;
  if (b->full) return 0;
  td_str_addn(&b->text, at, len);
  return b->text.failed ? 0 : len;
}

static td_status *fetch(const char *url, body *b) {
  curl c = {0};
  TD_TRY(open_curl(&c));
  void *h = c.init();
  if (!h) return td_oom();
  c.setopt(h, CURL_URL, url);
  c.setopt(h, CURL_WRITEDATA, b);
  c.setopt(h, CURL_WRITEFUNCTION, receive);
  c.setopt(h, CURL_FOLLOWLOCATION, 1L);
  c.setopt(h, CURL_FAILONERROR, 1L);
  c.setopt(h, CURL_CONNECTTIMEOUT, 10L);
  c.setopt(h, CURL_LOW_SPEED_LIMIT, 100L);
  c.setopt(h, CURL_LOW_SPEED_TIME, 20L);
  c.setopt(h, CURL_NOSIGNAL, 1L);
  int rc = c.perform(h);
  td_status *s = NULL;
  if (rc != 0)
    s = td_error(TD_UNAVAILABLE, "cannot download %s: %s", url,
                 b->full ? "it is too large" : c.strerror(rc));
  c.cleanup(h);
  return s;
}

/* core.download(url, limit) -> bytes. The caller checks and stores them. */
static int download(lua_State *L) {
  td_lua_state *st = td_lua_get(L);
  body b = {.limit = (size_t)luaL_optinteger(L, 2, 1 << 28)};
  const char *url = td_lua_text(L, 1);
  td_str_init(&b.text);
  td_lua_unlock(st);
  td_status *s = fetch(url, &b);
  td_lua_lock(st);
  if (td_ok(s)) lua_pushlstring(L, td_str_c(&b.text), b.text.len);
  td_str_deinit(&b.text);
  td_lua_check(L, s);
  return 1;
}

/* ---- the console and the machine ---- */

static int is_terminal(lua_State *L) {
  lua_pushboolean(L, isatty((int)luaL_checkinteger(L, 1)));
  return 1;
}

/* core.terminal_size(): rows and columns of the terminal; nil when there is
 * none. */
static int terminal_size(lua_State *L) {
  struct winsize w;
  if (ioctl(1, TIOCGWINSZ, &w) || !w.ws_row || !w.ws_col) return 0;
  lua_pushinteger(L, w.ws_row);
  lua_pushinteger(L, w.ws_col);
  return 2;
}

/* core.chdir(path): where relative paths begin. */
static int change_folder(lua_State *L) {
  const char *path = td_lua_text(L, 1);
  if (chdir(path))
    return td_lua_error(L, TD_NOT_FOUND, "cannot go to %s: %s", path,
                        strerror(errno));
  return 0;
}

static int folder(lua_State *L) {
  char *path = getcwd(NULL, 0);
  lua_pushstring(L, path ? path : ".");
  free(path);
  return 1;
}

/* core.setenv(name [, value]); without a value it is taken away. */
static int set_env(lua_State *L) {
  const char *name = td_lua_text(L, 1);
  const char *value = lua_isnoneornil(L, 2) ? NULL : td_lua_text(L, 2);
  if (value ? setenv(name, value, 1) : unsetenv(name))
    return td_lua_error(L, TD_INVALID_ARGUMENT, "cannot set \"%s\": %s", name,
                        strerror(errno));
  return 0;
}

/* core.width(): columns of the terminal, 80 when there is none. */
static int width(lua_State *L) {
  struct winsize w;
  int cols = ioctl(2, TIOCGWINSZ, &w) == 0 ? w.ws_col : 0;
  lua_pushinteger(L, cols > 0 ? cols : 80);
  return 1;
}

/* core.clock(): seconds of a monotonic clock. */
static int clock_now(lua_State *L) {
  lua_pushnumber(L, (double)td_clock_now() * 1e-9);
  return 1;
}

static int random_bits(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)td_random_entropy());
  return 1;
}

/* core.library_load(path) -> the library's gradients as Lua text, or nil */
static int library_load(lua_State *L) {
  const td_library *l;
  td_lua_check(L, td_library_load(td_lua_text(L, 1), &l));
  lua_pushstring(L, l->gradients);
  lua_pushstring(L, l->name);
  return 2;
}

/* core.devices(cpu_devices): names of the devices a session would see. */
static int devices(lua_State *L) {
  td_device **d;
  int n;
  td_lua_check(L, td_runtime_devices(td_lua_get(L)->runtime,
                                     (int)luaL_optinteger(L, 1, 1), &d, &n));
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_pushstring(L, d[i]->name);
    lua_rawseti(L, -2, i + 1);
  }
  td_free(d);
  return 1;
}

static int machine(lua_State *L) {
  lua_createtable(L, 0, 3);
  lua_pushinteger(L, td_pool_size());
  lua_setfield(L, -2, "threads");
  lua_pushstring(L, td_isa_name(td_cpu_isa()));
  lua_setfield(L, -2, "isa");
  lua_pushstring(L, td_isa_name(td_cpu_best()));
  lua_setfield(L, -2, "best_isa");
  return 1;
}

/* core.memory(): bytes of /CPU:0 in use, and the most since the last call. */
static int memory(lua_State *L) {
  td_device *cpu;
  td_lua_check(L, td_runtime_cpu(td_lua_get(L)->runtime, 0, &cpu));
  td_alloc_stats st = td_alloc_read_stats(cpu->memory);
  td_alloc_reset_peak(cpu->memory);
  lua_pushinteger(L, (lua_Integer)st.in_use);
  lua_pushinteger(L, (lua_Integer)st.peak);
  return 2;
}

void td_lua_open_files(lua_State *L) {
  static const luaL_Reg functions[] = {{"read_file", read_file},
                                       {"write_file", write_file},
                                       {"exists", file_exists},
                                       {"mkdirs", file_mkdirs},
                                       {"lock_file", lock_file},
                                       {"append_line", append_line},
                                       {"gunzip", gunzip},
                                       {"load_npy", load_npy},
                                       {"save_npy", save_npy},
                                       {"load_npz", load_npz},
                                       {"save_npz", save_npz},
                                       {"sha256", sha256},
                                       {"download", download},
                                       {"isatty", is_terminal},
                                       {"width", width},
                                       {"terminal_size", terminal_size},
                                       {"chdir", change_folder},
                                       {"cwd", folder},
                                       {"setenv", set_env},
                                       {"clock", clock_now},
                                       {"random_bits", random_bits},
                                       {"library_load", library_load},
                                       {"devices", devices},
                                       {"machine", machine},
                                       {"memory", memory},
                                       {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  open_locks(L);
}
