/* bind_process.c - this process: who it is, what it is built of, a folder that
 * it has for itself, another program in its place.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "engine/base/file_fault.h"
#include "engine/base/pool.h"
#include "lua/bind.h"
#include "lua/bind_field.h"

/* ---- who it is ---- */

/* core.process(): {pid =, host =, kernel =} */
static int process(lua_State *L) {
  struct utsname u;
  bool known = uname(&u) == 0;
  lua_createtable(L, 0, 3);
  td_lua_set_integer(L, "pid", getpid());
  td_lua_set_string(L, "host", known ? u.nodename : "");
  td_lua_set_string(L, "kernel", known ? u.release : "");
  return 1;
}

/* ---- what it is built of ---- */

typedef struct build_id {
  const void *base; /* of the library that is meant */
  unsigned char bytes[64];
  size_t len; /* 0: none is known */
} build_id;

/* Notes are a head, a name and what it says, each to a multiple of 4. */
static void read_notes(const char *at, size_t left, build_id *id) {
  while (left >= sizeof(ElfW(Nhdr))) {
    const ElfW(Nhdr) *n = (const void *)at;
    size_t name = ((size_t)n->n_namesz + 3) & ~(size_t)3;
    size_t said = ((size_t)n->n_descsz + 3) & ~(size_t)3;
    size_t all = sizeof *n + name + said;
    if (all > left) return;
    if (n->n_type == NT_GNU_BUILD_ID && n->n_descsz <= sizeof id->bytes) {
      memcpy(id->bytes, at + sizeof *n + name, n->n_descsz);
      id->len = n->n_descsz;
      return;
    }
    at += all;
    left -= all;
  }
}

static int look_at_object(struct dl_phdr_info *info, size_t size, void *arg) {
  build_id *id = arg;
  (void)size;
  bool ours = false;
  for (int i = 0; i < info->dlpi_phnum && !ours; i++) {
    const ElfW(Phdr) *h = &info->dlpi_phdr[i];
    const char *from = (const char *)(info->dlpi_addr + h->p_vaddr);
    ours = h->p_type == PT_LOAD && (const char *)id->base >= from &&
           (const char *)id->base < from + h->p_memsz;
  }
  for (int i = 0; ours && i < info->dlpi_phnum && !id->len; i++) {
    const ElfW(Phdr) *h = &info->dlpi_phdr[i];
    if (h->p_type == PT_NOTE)
      read_notes((const char *)(info->dlpi_addr + h->p_vaddr), h->p_memsz, id);
  }
  return ours;
}

/* core.build(): which build of the engine this is, as the linker has numbered
 * it: equal code has equal ones. "" where it did not. */
static int build(lua_State *L) {
  build_id id = {.len = 0};
  char text[2 * sizeof id.bytes + 1] = "";
  Dl_info where;
  int (*ours)(void) = td_pool_size;
  void *address;
  memcpy(&address, &ours, sizeof address);
  if (dladdr(address, &where)) {
    id.base = where.dli_fbase;
    dl_iterate_phdr(look_at_object, &id);
  }
  sodium_bin2hex(text, sizeof text, id.bytes, id.len);
  lua_pushstring(L, text);
  return 1;
}

/* core.library_digest(): SHA-256 of the library in Lua that is embedded. */
static int library_digest(lua_State *L) {
  unsigned char digest[crypto_hash_sha256_BYTES];
  char text[2 * sizeof digest + 1];
  crypto_hash_sha256_state st;
  crypto_hash_sha256_init(&st);
  for (const struct td_lua_file *f = td_lua_library; f->name; f++) {
    crypto_hash_sha256_update(&st, (const unsigned char *)f->name,
                              strlen(f->name) + 1);
    crypto_hash_sha256_update(&st, (const unsigned char *)f->text, f->len);
  }
  crypto_hash_sha256_final(&st, digest);
  sodium_bin2hex(text, sizeof text, digest, sizeof digest);
  lua_pushstring(L, text);
  return 1;
}

/* ---- a folder for itself ----
 *
 * A lock of the open file, so that it ends with the process, however that ends,
 * is not lost when another descriptor of the file is closed, and counts between
 * two holders in one process, too. It can be looked at without being taken.
 */

#define HOLD "tide.hold"

typedef enum held { FREE, HELD, UNKNOWN } held;

static struct flock whole(void) {
  return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
}

static held take(int fd) {
  struct flock l = whole();
  if (fcntl(fd, F_OFD_SETLK, &l) == 0) return FREE;
  return errno == EAGAIN || errno == EACCES ? HELD : UNKNOWN;
}

static held look(int fd) {
  struct flock l = whole();
  if (fcntl(fd, F_OFD_GETLK, &l)) return UNKNOWN;
  return l.l_type == F_UNLCK ? FREE : HELD;
}

/* Is the file that is open still the one of that name? */
static bool is_still(const char *path, int fd) {
  struct stat a, b;
  return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_ino == b.st_ino &&
         a.st_dev == b.st_dev;
}

static int refuse(lua_State *L, const char *verb, const char *path, int err) {
  td_lua_check(L, td_file_error(verb, path, err));
  return 0;
}

/* core.hold(path): an object; until it is closed nobody else can. The file is
 * made, and is removed in the end by who closes. nil, "held" where somebody has
 * it; nil, "unknown" where the file system knows no locks. */
static int hold(lua_State *L) {
  enum { TRIES = 100 };
  const char *path = td_lua_text(L, 1);
  int *fd = lua_newuserdatauv(L, sizeof *fd, 1);
  *fd = -1;
  luaL_setmetatable(L, HOLD);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  held how = HELD;
  for (int i = 0; i < TRIES; i++) {
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*fd < 0) return refuse(L, "open", path, errno);
    how = take(*fd);
    if (how == FREE && is_still(path, *fd)) return 1;
    close(*fd);
    *fd = -1;
    if (how != FREE) break;
  }
  lua_pushnil(L);
  lua_pushstring(L, how == UNKNOWN ? "unknown" : "held");
  return 2;
}

/* core.is_held(path): true or false; nil where that cannot be told. */
static int is_held(lua_State *L) {
  int fd = open(td_lua_text(L, 1), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) {
    lua_pushboolean(L, false);
    return 1;
  }
  held how = fd < 0 ? UNKNOWN : look(fd);
  if (fd >= 0) close(fd);
  if (how == UNKNOWN)
    lua_pushnil(L);
  else
    lua_pushboolean(L, how == HELD);
  return 1;
}

/* Whoever opened the file meanwhile sees that it is not of that name any more.
 */
static int let_go(lua_State *L) {
  int *fd = luaL_checkudata(L, 1, HOLD);
  if (*fd < 0) return 0;
  lua_getiuservalue(L, 1, 1);
  const char *path = lua_tostring(L, -1);
  if (path && is_still(path, *fd)) unlink(path);
  close(*fd);
  *fd = -1;
  return 0;
}

/* ---- another program ---- */

/* core.become({"/path/program", "word", ...}): that program in the place of
 * this one, under its number; returns only to raise. */
static int become(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  size_t n = (size_t)luaL_len(L, 1);
  luaL_argcheck(L, n > 0 && n < INT_MAX / 2, 1, "a list of words is needed");
  luaL_checkstack(L, (int)n + 8, "too many words");
  const char **words = td_lua_block(L, n + 1, sizeof *words);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, 1, (lua_Integer)i + 1);
    words[i] = td_lua_text(L, -1);
  }
  fflush(NULL);
  execv(words[0], (char *const *)(uintptr_t)words);
  return refuse(L, "start", words[0], errno);
}

TD_LUA_OPEN(process) {
  static const luaL_Reg methods[] = {
      {"__gc", let_go}, {"__close", let_go}, {NULL, NULL}};
  static const luaL_Reg functions[] = {{"process", process},
                                       {"build", build},
                                       {"hold", hold},
                                       {"let_go", let_go},
                                       {"is_held", is_held},
                                       {"become", become},
                                       {"library_digest", library_digest},
                                       {NULL, NULL}};
  luaL_newmetatable(L, HOLD);
  luaL_setfuncs(L, methods, 0);
  lua_pop(L, 1);
  luaL_setfuncs(L, functions, 0);
}
