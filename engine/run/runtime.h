/* runtime.h - everything a process-in-a-process owns.
 *
 * Devices, named containers, the place in a cluster. No globals: two runtimes
 * live in one process. Only the op registry and the thread pool are shared.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RUNTIME_H
#define TD_RUNTIME_H

#include "engine/device/device_factory.h"
#include "engine/device/kernel.h"
#include "engine/device/resource.h"

TD_BEGIN

typedef struct td_runtime td_runtime;

typedef struct td_runtime_options {
  const char *place;   /* NULL: "/job:localhost/replica:0/task:0" */
  size_t memory_limit; /* bytes of tensors on all CPUs, 0: the default */
  int test_devices;    /* how many /device:TEST:k exist (TIDE_TEST_DEVICES;
                          TIDE_TEST=test: one) */
} td_runtime_options;

td_status *td_runtime_new(const td_runtime_options *o,
                          td_runtime **out) TD_MUST_USE;
td_runtime *td_runtime_retain(td_runtime *rt);
void td_runtime_release(td_runtime *rt);

/* CPU:k, made on demand. Borrowed; valid while the runtime lives. */
td_status *td_runtime_cpu(td_runtime *rt, int k, td_device **out) TD_MUST_USE;
td_resources *td_runtime_resources(td_runtime *rt); /* named containers */
/* "/job:localhost/replica:0/task:0". Borrowed; valid while it lives. */
const char *td_runtime_place(const td_runtime *rt);
/* How many bytes tensors may take of the memory of each device of a type, of all
 * CPUs together; NULL: of every device. Of those there are and those to come; 0
 * is what it would be without. */
td_status *td_runtime_limit(td_runtime *rt, const char *type,
                            size_t bytes) TD_MUST_USE;
/* A step begins: memory that is only kept is given back when it rests again. */
void td_runtime_used(td_runtime *rt);
/* Is `word` in the comma-separated list of an environment variable? */
bool td_runtime_env_has(const char *variable, const char *word);

/* ---- devices that come and go ---- */

/* The first `cpus` CPU devices and all others there are, CPU first. Caller owns
 * the list and its shares (td_runtime_drop_devices). */
td_status *td_runtime_devices(td_runtime *rt, int cpus, td_device ***out,
                              int *count) TD_MUST_USE;
void td_runtime_drop_devices(td_device **list, int count);
/* Makes the devices of a factory that the runtime has not yet. */
td_status *td_runtime_make_devices(td_runtime *rt,
                                   const td_device_factory *f) TD_MUST_USE;
/* Another device, retained: sessions use it from their next plan on.
 * ALREADY_EXISTS when there is one of its name. */
td_status *td_runtime_add_device(td_runtime *rt, td_device *d) TD_MUST_USE;
/* No session uses it from now on; steps that do end with UNAVAILABLE. When
 * variables live there it stays and FAILED_PRECONDITION names them; with `drop`
 * they are dropped, and what was bound to it is placed anew. CPU devices
 * stay. */
td_status *td_runtime_remove_device(td_runtime *rt, td_device *d,
                                    bool drop) TD_MUST_USE;
/* For sessions: the list and its version. */
struct td_device_list *td_runtime_device_list(td_runtime *rt);

TD_END
#endif
