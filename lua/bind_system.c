/* bind_system.c - what there is around Tide: libraries, paths, the processor.
 *
 * For `tide doctor` and `tide install-kernel`.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/cpu.h"
#include "engine/base/file.h"
#include "kernels/blas/blas.h"
#include "kernels/blas/dnn.h"
#include "lua/bind.h"

/* ---- libraries ---- */

/* core.doors(): {name = {used =, about =}} of the libraries that multiply. */
static int doors(lua_State *L) {
  const struct {
    const char *name;
    bool used;
    const char *about;
  } rows[] = {{"OpenBLAS", td_blas_ready(), td_blas_about()},
              {"oneDNN", td_dnn_ready(), td_dnn_about()}};
  lua_createtable(L, 0, TD_COUNT(rows));
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    lua_createtable(L, 0, 2);
    lua_pushboolean(L, rows[i].used);
    lua_setfield(L, -2, "used");
    lua_pushstring(L, rows[i].about);
    lua_setfield(L, -2, "about");
    lua_setfield(L, -2, rows[i].name);
  }
  return 1;
}

/* core.opens("libzip.so.4"): is there such a library? Else false, and why. */
static int opens(lua_State *L) {
  void *library = dlopen(td_lua_text(L, 1), RTLD_LAZY | RTLD_LOCAL);
  lua_pushboolean(L, library != NULL);
  lua_pushstring(L, library ? NULL : dlerror());
  if (library) dlclose(library);
  return 2;
}

/* ---- paths ---- */

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

/* ---- the processor ---- */

/* core.processors(): how many there are, how many a quota leaves (0: no quota).
 */
static int processors(lua_State *L) {
  lua_pushinteger(L, sysconf(_SC_NPROCESSORS_ONLN));
  lua_pushinteger(L, td_cpu_quota(""));
  return 2;
}

void td_lua_open_system(lua_State *L) {
  static const luaL_Reg functions[] = {{"doors", doors},
                                       {"opens", opens},
                                       {"real_path", real_path},
                                       {"executable", executable},
                                       {"allows", allows},
                                       {"is_folder", is_folder},
                                       {"processors", processors},
                                       {"temp_file", temp_file},
                                       {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
