/* device_cpu.c - CPU:k: kernels on the calling thread, memory of the host.
 *
 * Several of them share the processor, the pool and the limit of memory; each
 * counts its own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/mem.h"
#include "engine/device/alloc.h"
#include "engine/device/device.h"

static void cpu_free(td_device *d) {
  if (d->memory) td_alloc_release(d->memory);
  td_device_forget(d);
  td_free(d);
}

td_status *td_device_cpu_new(const char *place, int index,
                             struct td_alloc_budget *budget, td_device **out) {
  td_device *d = td_calloc(1, sizeof *d);
  if (!d) return td_oom();
  d->free = cpu_free;
  td_status *s = td_device_describe(d, place, "CPU", index);
  if (!budget) budget = td_alloc_budget_process();
  td_alloc_options options = {.name = d->name, .budget = budget};
  if (td_ok(s)) s = td_alloc_new(&options, &d->memory);
  if (!td_ok(s)) {
    cpu_free(d);
    return s;
  }
  d->host = d->memory;
  *out = d;
  return NULL;
}
