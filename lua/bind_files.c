/* bind_files.c - files, folders, a log that several processes write, arrays on
 * disk.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/io/npy.h"
#include "engine/io/npz.h"
#include "lua/bind.h"
#include "lua/bind_read.h"
#include "lua/bind_tensor.h"

static const size_t array_limit = (size_t)1 << 40;

/* "cannot open x: no such file" */
static int refuse(lua_State *L, td_code code, const char *verb,
                  const char *path, int err) {
  return td_lua_error(L, code, "cannot %s %s: %s", verb, path, strerror(err));
}

/* ---- files ---- */

/* core.read_file(path [, limit]) -> bytes */
static int read_file(lua_State *L) {
  td_lua_read r = {.limit =
                       (size_t)luaL_optinteger(L, 2, (lua_Integer)1 << 34)};
  td_lua_read_file(L, td_lua_text(L, 1), td_lua_read_bytes, &r);
  td_lua_push_bytes(L, r.bytes, r.len);
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

/* This process itself may hold the lock, in an object that an interrupt kept
 * from being closed: a collection closes it. */
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
  if (*fd < 0) return refuse(L, TD_UNAVAILABLE, "open", path, errno);
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
  if (!ok) return refuse(L, TD_UNAVAILABLE, "write", path, err);
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

/* core.load_npy(path [, mmap]) -> value */
static int load_npy(lua_State *L) {
  td_lua_read r = {.limit = array_limit};
  const char *path = td_lua_text(L, 1);
  if (lua_toboolean(L, 2))
    td_lua_check(L, td_npy_map(path, &r.array));
  else
    td_lua_read_file(L, path, td_lua_read_array, &r);
  td_lua_push_tensor(L, &r.array);
  return 1;
}

static int save_npy(lua_State *L) {
  td_lua_check(L, td_npy_write(td_lua_text(L, 1), td_lua_check_value(L, 2)));
  return 0;
}

/* core.load_npz(path) -> {name = value} */
static int load_npz(lua_State *L) {
  td_lua_read r = {.limit = array_limit};
  td_status *s = NULL;
  td_lua_read_file(L, td_lua_text(L, 1), td_lua_read_archive, &r);
  td_npz *z = r.archive;
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
    arrays[i] = *td_lua_check_value(L, -1);
    lua_pop(L, 2);
  }
  td_lua_check(L, td_npz_write(path, n, names, arrays, deflate));
  return 0;
}

/* ---- paths ---- */

/* core.list(folder) -> the names in it, each with a NUL after it */
static int list_folder(lua_State *L) {
  td_str names;
  td_str_init(&names);
  td_status *s = td_file_list(td_lua_text(L, 1), &names);
  if (!td_ok(s)) td_str_deinit(&names);
  td_lua_check(L, s);
  td_lua_push_str(L, &names);
  return 1;
}

/* core.chdir(path): where relative paths begin. */
static int change_folder(lua_State *L) {
  const char *path = td_lua_text(L, 1);
  if (chdir(path)) return refuse(L, TD_NOT_FOUND, "go to", path, errno);
  return 0;
}

static int folder(lua_State *L) {
  char *path = getcwd(NULL, 0);
  lua_pushstring(L, path ? path : ".");
  free(path);
  return 1;
}

/* core.real_path(path): absolute, without links; nil and why not. */
static int real_path(lua_State *L) {
  char path[PATH_MAX];
  if (!realpath(td_lua_text(L, 1), path)) {
    lua_pushnil(L);
    lua_pushstring(L, strerror(errno));
    return 2;
  }
  lua_pushstring(L, path);
  return 1;
}

/* core.executable(): the file of this process. */
static int executable(lua_State *L) {
  lua_settop(L, 0);
  lua_pushliteral(L, "/proc/self/exe");
  return real_path(L);
}

/* core.allows(path, "r", "w" or "x"): may this user? Else false, and why. */
static int allows(lua_State *L) {
  static const char *const names[] = {"r", "w", "x", NULL};
  static const int modes[] = {R_OK, W_OK, X_OK};
  int mode = modes[luaL_checkoption(L, 2, "r", names)];
  bool ok = access(td_lua_text(L, 1), mode) == 0;
  lua_pushboolean(L, ok);
  lua_pushstring(L, ok ? NULL : strerror(errno));
  return 2;
}

/* core.is_folder(path) */
static int is_folder(lua_State *L) {
  struct stat st;
  lua_pushboolean(L, stat(td_lua_text(L, 1), &st) == 0 && S_ISDIR(st.st_mode));
  return 1;
}

/* core.is_file(path): a regular one, of bytes that are there? */
static int is_file(lua_State *L) {
  struct stat st;
  lua_pushboolean(L, stat(td_lua_text(L, 1), &st) == 0 && S_ISREG(st.st_mode));
  return 1;
}

/* core.temp_file(): the path of an empty file of its own, which the caller
 * removes. */
static int temp_file(lua_State *L) {
  td_str path;
  td_str_init(&path);
  td_status *s = td_file_temp("", &path);
  if (td_ok(s)) {
    td_lua_push_str(L, &path);
    return 1;
  }
  td_str_deinit(&path);
  td_lua_check(L, s);
  return 0;
}

/* ---- digests ---- */

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

TD_LUA_OPEN(files) {
  static const luaL_Reg functions[] = {
      {"read_file", read_file}, {"write_file", write_file},
      {"exists", file_exists},  {"mkdirs", file_mkdirs},
      {"lock_file", lock_file}, {"append_line", append_line},
      {"gunzip", gunzip},       {"load_npy", load_npy},
      {"save_npy", save_npy},   {"load_npz", load_npz},
      {"save_npz", save_npz},   {"list", list_folder},
      {"chdir", change_folder}, {"cwd", folder},
      {"real_path", real_path}, {"executable", executable},
      {"allows", allows},       {"is_folder", is_folder},
      {"is_file", is_file},     {"temp_file", temp_file},
      {"sha256", sha256},       {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  open_locks(L);
}
