/* device_far.c - the name and memory of a device that is elsewhere.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/remote/device_far.h"

#include "engine/base/mem.h"
#include "engine/device/kernel_table.h"

typedef struct far_device {
  td_device base; /* first */
  td_allocator memory, host;
  char *type, *kernels;
  size_t limit;
} far_device;

static void *nothing(td_allocator *a, size_t bytes) {
  (void)a, (void)bytes;
  return NULL;
}
static void keep(td_allocator *a, void *p, size_t bytes) {
  (void)a, (void)p, (void)bytes;
}
static td_status *refusal(td_allocator *a, size_t bytes) {
  return td_error(TD_INTERNAL, "%zu bytes of %s, which is another process's",
                  bytes, a->name);
}
static void read_stats(td_allocator *a, td_allocator_stats *out) {
  out->limit =
      ((far_device *)((char *)a - offsetof(far_device, memory)))->limit;
}

static void free_far(td_device *d) {
  far_device *f = (far_device *)d;
  td_kernel_table_release(d->table);
  td_free((char *)d->name);
  td_free(f->type);
  td_free(f->kernels);
  td_free(f);
}

static td_status *fill(far_device *f, const td_far_device *from) {
  td_device *d = &f->base;
  d->table = td_kernel_table_retain(from->table);
  d->name = td_strdup(from->name);
  d->type = f->type = td_strdup(from->type);
  d->kernels = f->kernels = td_strdup(from->kernels);
  if (!d->name || !d->type || !d->kernels) return td_oom();
  TD_TRY(td_device_name_parse(d->name, &d->parsed));
  d->index = d->parsed.index;
  d->incarnation = from->incarnation;
  f->limit = from->memory;
  f->memory = (td_allocator){.name = d->name,
                             .host = from->host,
                             .alloc = nothing,
                             .free = keep,
                             .refusal = refusal,
                             .read_stats = read_stats};
  f->host = (td_allocator){.name = d->name,
                           .host = true,
                           .alloc = nothing,
                           .free = keep,
                           .refusal = refusal};
  d->memory = &f->memory;
  d->host = &f->host;
  return NULL;
}

td_status *td_device_far_new(const td_far_device *from, td_device **out) {
  far_device *f = td_calloc(1, sizeof *f);
  if (!f) return td_oom();
  f->base.refs = 1;
  f->base.free = free_far;
  td_status *s = fill(f, from);
  if (!td_ok(s)) {
    free_far(&f->base);
    return s;
  }
  *out = &f->base;
  return NULL;
}

td_status *td_device_far_copy(const td_device *d, td_device **out) {
  td_far_device from = {.name = d->name,
                        .type = d->type,
                        .kernels = d->kernels,
                        .incarnation = d->incarnation,
                        .memory = ((const far_device *)d)->limit,
                        .host = d->memory->host,
                        .table = d->table};
  return td_device_far_new(&from, out);
}
