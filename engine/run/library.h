/* library.h - op libraries: shared objects that bring something to Tide.
 *
 * A library exports one record named td_library: ops, kernels, gradients,
 * devices, file systems. It is compiled with headers of its own day and linked
 * with -ltide; one that fits no longer, or carries a Tide of its own, is refused
 * before anything of it is used (engine/device/abi.h). The tutorials
 * tutorials/extend/op and tutorials/extend/device are examples.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LIBRARY_H
#define TD_LIBRARY_H

#include "engine/device/abi.h"
#include "engine/device/device_factory.h"

TD_BEGIN

struct td_file_system;

/* All lists end with NULL; a list that is NULL is empty. */
typedef struct td_library {
  uint32_t abi;                 /* TD_ABI */
  uint32_t sizes[TD_ABI_COUNT]; /* TD_ABI_SIZES */
  const char *name;
  const td_module *const *modules; /* ops and kernels */
  const char *gradients;           /* Lua: registers gradients; may be NULL */
  const void *registry;            /* &td_modules: a second copy is refused */
  const td_device_factory *const *devices;
  const struct td_file_system *const *files; /* by prefix of their paths */
} td_library;
enum { TD_ABI = 2 };

/* Loads a library, checks it and registers its ops and kernels; it is never
 * unloaded. Loaded again, it is the same one. Its devices are made by who has a
 * runtime (td_runtime_make_devices). Borrowed; valid for ever. */
td_status *td_library_load(const char *path,
                           const td_library **out) TD_MUST_USE;

/* The i-th that was loaded, NULL after the last. A new runtime makes the devices
 * of all. */
const td_library *td_library_loaded(int i);

TD_END
#endif
