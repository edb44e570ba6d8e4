/* library.c - op libraries: shared objects that add ops, kernels, gradients.
 *
 * A library links against libtide, so that there is one registry in the
 * process. One that carries a copy of Tide instead is refused: its record holds
 * the address of the registry it sees, which is then not ours. Loaded libraries
 * are never unloaded: the registry points at their rows.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>

#include "engine/device/kernel_rows.h"
#include "engine/run/runtime.h"

static td_status *check(const td_library *l, const char *path) {
  if (l->abi != TD_ABI)
    return td_error(TD_FAILED_PRECONDITION,
                    "%s was built for ABI %u of Tide, this is %d; rebuild it",
                    path, l->abi, TD_ABI);
  if (l->op_size != sizeof(td_op_def) ||
      l->kernel_size != sizeof(td_kernel_def) ||
      l->module_size != sizeof(td_module))
    return td_error(TD_FAILED_PRECONDITION,
                    "%s was built with other headers than this Tide; rebuild "
                    "it",
                    path);
  if (l->registry != (const void *)td_modules)
    return td_error(TD_FAILED_PRECONDITION,
                    "%s carries its own copy of Tide; link it with -ltide",
                    path);
  return NULL;
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
  for (const td_module *const *m = l->modules; *m; m++) {
    TD_TRY(td_op_register(*m));
    TD_TRY(td_kernel_register(*m));
  }
  *out = l;
  return NULL;
}
