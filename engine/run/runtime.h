/* runtime.h - everything a process-in-a-process owns.
 *
 * Devices, named containers, the place in a cluster. No globals: two runtimes
 * live in one process. Only the op registry and the thread pool are shared.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RUNTIME_H
#define TD_RUNTIME_H

#include "engine/device/kernel.h"
#include "engine/device/resource.h"

TD_BEGIN

typedef struct td_runtime td_runtime;

typedef struct td_runtime_options {
  const char *place;   /* NULL: "/job:localhost/replica:0/task:0" */
  size_t memory_limit; /* bytes of tensors per device, 0: the default */
  int test_devices;    /* how many /device:TEST:k exist (TIDE_TEST_DEVICES) */
} td_runtime_options;

td_status *td_runtime_new(const td_runtime_options *o,
                          td_runtime **out) TD_MUST_USE;
td_runtime *td_runtime_retain(td_runtime *rt);
void td_runtime_release(td_runtime *rt);

/* CPU:k, made on demand. Borrowed; valid while the runtime lives. */
td_status *td_runtime_cpu(td_runtime *rt, int k, td_device **out) TD_MUST_USE;
/* The first `cpus` CPU devices and all others, CPU first. Caller owns *out
 * (td_free), not the devices. */
td_status *td_runtime_devices(td_runtime *rt, int cpus, td_device ***out,
                              int *count) TD_MUST_USE;
td_resources *td_runtime_resources(td_runtime *rt); /* named containers */
uint64_t td_runtime_next_step(td_runtime *rt);

/* Loads an op library (a shared object exporting one td_library record named
 * td_library): checks ABI and struct sizes, registers ops and kernels. The
 * gradients (Lua text, may be NULL) are borrowed for ever. */
typedef struct td_library {
  uint32_t abi;                               /* TD_ABI */
  uint32_t op_size, kernel_size, module_size; /* sizeof the row structs */
  const char *name;
  const td_module *const *modules; /* NULL-terminated */
  const char *gradients;           /* Lua: registers gradients; may be NULL */
  const void *registry;            /* &td_modules: a second copy is refused */
} td_library;
enum { TD_ABI = 1 };
td_status *td_library_load(const char *path,
                           const td_library **out) TD_MUST_USE;

TD_END
#endif
