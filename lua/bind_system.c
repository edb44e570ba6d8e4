/* bind_system.c - what Tide runs on: libraries, the terminal, the environment,
 * the processor, devices, memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/cpu.h"
#include "engine/base/mem.h"
#include "engine/base/entropy.h"
#include "engine/device/alloc.h"
#include "engine/device/precision.h"
#include "engine/run/plugins.h"
#include "kernels/blas/blas.h"
#include "kernels/blas/dnn.h"
#include "lua/bind.h"
#include "lua/bind_field.h"

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
    td_lua_set_flag(L, "used", rows[i].used);
    td_lua_set_string(L, "about", rows[i].about);
    lua_setfield(L, -2, rows[i].name);
  }
  return 1;
}

/* core.opens("libzip.so.4"): is there such a library? true and where, or false
 * and why. */
static int opens(lua_State *L) {
  void *library = dlopen(td_lua_text(L, 1), RTLD_LAZY | RTLD_LOCAL);
  struct link_map *map = NULL;
  if (library && dlinfo(library, RTLD_DI_LINKMAP, &map)) map = NULL;
  lua_pushboolean(L, library != NULL);
  lua_pushstring(L, !library ? dlerror() : map ? map->l_name : "");
  if (library) dlclose(library);
  return 2;
}

/* core.library_load(path) -> the library's gradients as Lua text, or nil */
static int library_load(lua_State *L) {
  const td_library *l;
  td_lua_check(L, td_library_load(td_lua_text(L, 1), &l));
  for (int i = 0; l->devices && l->devices[i]; i++)
    td_lua_check(
        L, td_runtime_make_devices(td_lua_get(L)->runtime, l->devices[i]));
  lua_pushstring(L, l->gradients);
  lua_pushstring(L, l->name);
  return 2;
}

/* What can be told of the devices that the library brings; nil: nothing. */
static void push_told(lua_State *L, const td_library *l) {
  td_str text;
  td_str_init(&text);
  for (int i = 0; l->devices && l->devices[i]; i++)
    if (l->devices[i]->tell) l->devices[i]->tell(&text);
  lua_pushlstring(L, td_str_c(&text), text.len);
  td_str_deinit(&text);
}

/* core.plugins(): {path =, name =, about =} or {path =, why =} for each library
 * that comes with Tide. */
static int plugins(lua_State *L) {
  const td_plugin *p;
  lua_newtable(L);
  for (int i = 0; (p = td_plugin_at(i)); i++) {
    lua_createtable(L, 0, 3);
    td_lua_set_string(L, "path", p->path);
    if (p->library) {
      td_lua_set_string(L, "name", p->library->name);
      push_told(L, p->library);
      lua_setfield(L, -2, "about");
    } else {
      td_lua_set_string(L, "why", p->why);
    }
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* ---- the terminal and the environment ---- */

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

/* core.width(): columns of the terminal, 80 when there is none. */
static int width(lua_State *L) {
  struct winsize w;
  int cols = ioctl(2, TIOCGWINSZ, &w) == 0 ? w.ws_col : 0;
  lua_pushinteger(L, cols > 0 ? cols : 80);
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

/* core.clock(): seconds of a monotonic clock. */
static int clock_now(lua_State *L) {
  lua_pushnumber(L, (double)td_clock_now() * 1e-9);
  return 1;
}

static int random_bits(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)td_entropy());
  return 1;
}

/* ---- the processor, devices, memory ---- */

/* core.processors(): how many there are, how many a quota leaves (0: no quota).
 */
static int processors(lua_State *L) {
  lua_pushinteger(L, sysconf(_SC_NPROCESSORS_ONLN));
  lua_pushinteger(L, td_cpu_quota(""));
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
  td_runtime_drop_devices(d, n);
  return 1;
}

/* core.device_memory(name): {host = is it the host's?, in_use =, peak =, held
 * =, limit =} of a device of this process, in bytes; nil: it has none such. */
static int device_memory(lua_State *L) {
  td_device **d;
  const char *name = td_lua_text(L, 1);
  int n, at = 0;
  td_lua_check(L, td_runtime_devices(td_lua_get(L)->runtime, 1, &d, &n));
  while (at < n && strcmp(d[at]->name, name) != 0) at++;
  bool known = at < n, host = known && td_device_on_host(d[at]);
  td_allocator_stats s = {0};
  if (known) s = td_allocator_read_stats(d[at]->memory);
  td_runtime_drop_devices(d, n);
  if (!known) return 0;
  lua_createtable(L, 0, 5);
  td_lua_set_flag(L, "host", host);
  td_lua_set_integer(L, "in_use", (lua_Integer)s.in_use);
  td_lua_set_integer(L, "peak", (lua_Integer)s.peak);
  td_lua_set_integer(L, "held", (lua_Integer)s.held);
  td_lua_set_integer(L, "limit", (lua_Integer)s.limit);
  return 1;
}

static int machine(lua_State *L) {
  lua_createtable(L, 0, 3);
  td_lua_set_integer(L, "threads", td_pool_size());
  td_lua_set_string(L, "isa", td_isa_name(td_cpu_isa()));
  td_lua_set_string(L, "best_isa", td_isa_name(td_cpu_best()));
  return 1;
}

/* core.limit_memory(bytes [, type]): of each device, or those of a type. */
static int limit_memory(lua_State *L) {
  td_lua_check(L, td_runtime_limit(td_lua_get(L)->runtime,
                                   luaL_optstring(L, 2, NULL),
                                   (size_t)luaL_checkinteger(L, 1)));
  return 0;
}

static const char *const matmul_types[] = {[TD_PRECISION_FLOAT32] = "float32",
                                           [TD_PRECISION_TF32] = "tf32",
                                           [TD_PRECISION_BFLOAT16] = "bfloat16",
                                           [TD_PRECISION_BFLOAT16 + 1] = NULL};

/* core.precision() -> {matmul =, deterministic =, sync =} */
static int precision(lua_State *L) {
  td_precision p = td_precision_get();
  lua_createtable(L, 0, 3);
  td_lua_set_string(L, "matmul", matmul_types[p.matmul]);
  td_lua_set_flag(L, "deterministic", p.deterministic);
  td_lua_set_flag(L, "sync", p.sync);
  return 1;
}

/* core.set_precision(matmul, deterministic, sync) */
static int set_precision(lua_State *L) {
  int matmul = luaL_checkoption(L, 1, NULL, matmul_types);
  td_precision_set((td_precision){.matmul = (td_matmul_type)matmul,
                                  .deterministic = lua_toboolean(L, 2),
                                  .sync = lua_toboolean(L, 3)});
  return 0;
}

/* core.memory(): bytes of /CPU:0 in use, and the most since the last call. */
static int memory(lua_State *L) {
  td_device *cpu;
  td_lua_check(L, td_runtime_cpu(td_lua_get(L)->runtime, 0, &cpu));
  td_allocator_stats st = td_allocator_read_stats(cpu->memory);
  td_allocator_reset_peak(cpu->memory);
  lua_pushinteger(L, (lua_Integer)st.in_use);
  lua_pushinteger(L, (lua_Integer)st.peak);
  return 2;
}

TD_LUA_OPEN(system) {
  static const luaL_Reg functions[] = {{"doors", doors},
                                       {"opens", opens},
                                       {"library_load", library_load},
                                       {"plugins", plugins},
                                       {"isatty", is_terminal},
                                       {"terminal_size", terminal_size},
                                       {"width", width},
                                       {"setenv", set_env},
                                       {"clock", clock_now},
                                       {"random_bits", random_bits},
                                       {"processors", processors},
                                       {"devices", devices},
                                       {"device_memory", device_memory},
                                       {"machine", machine},
                                       {"memory", memory},
                                       {"limit_memory", limit_memory},
                                       {"precision", precision},
                                       {"set_precision", set_precision},
                                       {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
