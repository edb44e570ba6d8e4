/* library.c - op libraries: shared objects that bring something to Tide.
 *
 * A library links against libtide, so that there is one registry in the
 * process. One that carries a copy of Tide instead is refused: its record holds
 * the address of the registry it sees, which is then not ours. Loaded libraries
 * are never unloaded: the registry points at their rows.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <pthread.h>

#include "engine/base/file_system.h"
#include "engine/base/vec.h"
#include "engine/device/kernel_rows.h"
#include "engine/run/library.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static TD_VEC(const td_library *) loaded; /* under the lock */

static td_status *check(const td_library *l, const char *path) {
  if (l->abi != TD_ABI)
    return td_error(TD_FAILED_PRECONDITION,
                    "%s was built for ABI %u of Tide, this is %d; rebuild it",
                    path, l->abi, TD_ABI);
  uint32_t there, here;
  const char *differs = td_abi_differs(l->sizes, &there, &here);
  if (differs)
    return td_error(TD_FAILED_PRECONDITION,
                    "%s was built with other headers than this Tide: %s has "
                    "%u bytes there, %u here; rebuild it",
                    path, differs, there, here);
  if (l->registry != (const void *)td_modules)
    return td_error(TD_FAILED_PRECONDITION,
                    "%s carries its own copy of Tide; link it with -ltide",
                    path);
  return NULL;
}

static td_status *remember(const td_library *l) {
  bool known = false, room = true;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < loaded.len; i++) known = known || loaded.at[i] == l;
  if (!known) room = td_vec_push(&loaded, l);
  pthread_mutex_unlock(&lock);
  return room ? NULL : td_oom();
}

td_status *td_library_load(const char *path, const td_library **out) {
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return td_error(TD_NOT_FOUND, "cannot load %s: %s", path, dlerror());
  const td_library *l = dlsym(handle, "td_library");
  if (!l)
    return td_error(TD_INVALID_ARGUMENT,
                    "%s is no op library: it exports no td_library", path);
  TD_TRY(check(l, path));
  for (const td_module *const *m = l->modules; m && *m; m++) {
    TD_TRY(td_op_register(*m));
    TD_TRY(td_kernel_register(*m));
  }
  for (const td_file_system *const *f = l->files; f && *f; f++)
    TD_TRY(td_file_system_register(*f));
  TD_TRY(remember(l));
  *out = l;
  return NULL;
}

const td_library *td_library_loaded(int i) {
  pthread_mutex_lock(&lock);
  const td_library *l = i < (int)loaded.len ? loaded.at[i] : NULL;
  pthread_mutex_unlock(&lock);
  return l;
}
