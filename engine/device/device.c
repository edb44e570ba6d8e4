/* device.c - counting devices, and tensors between memories.
 *
 * A transfer goes between a device's own memory and the host's. What lives in
 * host memory anyway (strings, handles) is never moved, and what is there
 * already is shared.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "engine/base/mem.h"
#include "engine/base/entropy.h"
#include "engine/device/device.h"
#include "engine/device/kernel.h"
#include "engine/device/kernel_table.h"

/* ---- life ---------------------------------------------------------------- */

td_status *td_device_describe(td_device *d, const char *place, const char *type,
                              int index) {
  td_str name;
  td_str_init(&name);
  td_str_addf(&name, "%s/device:%s:%d", place, type, index);
  td_status *s = td_device_name_parse(td_str_c(&name), &d->parsed);
  d->refs = 1;
  d->type = type;
  d->kernels = "CPU";
  d->index = index;
  d->incarnation = td_entropy();
  d->name = td_str_take(&name);
  if (!d->name) {
    td_status_release(s);
    return td_oom();
  }
  return s;
}

void td_device_forget(td_device *d) {
  td_kernel_table_release(d->table);
  td_free((void *)d->name);
  d->name = NULL;
}

td_device *td_device_retain(td_device *d) {
  if (d) __atomic_fetch_add(&d->refs, 1, __ATOMIC_RELAXED);
  return d;
}

void td_device_release(td_device *d) {
  if (d && __atomic_sub_fetch(&d->refs, 1, __ATOMIC_ACQ_REL) == 0) d->free(d);
}

/* ---- no room ------------------------------------------------------------- */

td_status *td_device_refused(const td_device *d, td_status *s) {
  int64_t stacked = __atomic_load_n(&d->stacked, __ATOMIC_RELAXED);
  size_t limit = td_allocator_read_stats(d->memory).limit;
  if (td_ok(s) || s == td_oom() || td_status_code(s) != TD_RESOURCE_EXHAUSTED ||
      stacked <= 0 || (size_t)stacked < limit / 4)
    return s;
  td_status *more = td_error(
      TD_RESOURCE_EXHAUSTED,
      "%s; much of it is what loops keep of their iterations for gradients: "
      "with swap_memory = true that goes to the host's memory",
      td_status_message(s));
  td_status_release(s);
  return more;
}

/* ---- transfers ----------------------------------------------------------- */

static bool is_there(const td_tensor *t, const td_allocator *memory) {
  const td_allocator *now = t->buffer->allocator;
  bool both = now->host && memory->host && now->touchable && memory->touchable;
  return now == memory || both || !td_dtype_is_plain(t->dtype);
}

static td_status *out_of_reach(const td_device *d, const td_allocator *a) {
  return td_error(TD_INTERNAL,
                  "%s cannot copy a tensor out of the memory of %s: its own "
                  "device has to",
                  d->name, a->name);
}

typedef void (*copy_fn)(td_device *d, const td_tensor *from, td_tensor *to,
                        td_copied copied, void *arg);

/* How `d` reaches the memory the tensor is in; NULL: not at all. */
static copy_fn way_from(const td_device *d, const td_tensor *from) {
  const td_allocator *a = from->buffer->allocator;
  if (d->copy && (a->touchable || a == d->memory)) return d->copy;
  return d->is_peer && d->is_peer(d, a) ? d->copy_peer : NULL;
}

void td_device_transfer(td_device *d, const td_tensor *from,
                        td_allocator *to_memory, td_tensor *to,
                        td_copied copied, void *arg) {
  *to = (td_tensor){0};
  if (!td_tensor_valid(from) || is_there(from, to_memory)) {
    td_tensor_retain(from, to);
    copied(arg, NULL);
    return;
  }
  copy_fn copy = way_from(d, from);
  td_status *s = copy ? td_tensor_new(to_memory, from->dtype, &from->shape, to)
                      : out_of_reach(d, from->buffer->allocator);
  if (td_ok(s))
    copy(d, from, to, copied, arg);
  else
    copied(arg, to_memory == d->memory ? td_device_refused(d, s) : s);
}

/* Of this thread: whose copy begins. Taken by who asks, so that copies that are
 * begun inside of it are not taken for the same kernel's. */
static _Thread_local const td_kernel_ctx *copies_for;

const td_kernel_ctx *td_device_copies_for(void) {
  const td_kernel_ctx *c = copies_for;
  copies_for = NULL;
  return c;
}

void td_kernel_transfer(const td_kernel_ctx *c, const td_tensor *from,
                        td_allocator *to_memory, td_tensor *to,
                        td_copied copied, void *arg) {
  copies_for = c->step->trace ? c : NULL;
  td_device_transfer(c->kernel->device, from, to_memory, to, copied, arg);
  copies_for = NULL; /* of a device that does not ask */
}

/* ---- waiting ------------------------------------------------------------- */

typedef struct arrival {
  pthread_mutex_t mutex;
  pthread_cond_t cond;
  bool over;         /* under the mutex */
  td_status *status; /* under the mutex */
} arrival;

static void arrived(void *arg, td_status *s) {
  arrival *a = arg;
  pthread_mutex_lock(&a->mutex);
  a->status = s;
  a->over = true;
  pthread_cond_signal(&a->cond);
  pthread_mutex_unlock(&a->mutex);
}

td_status *td_device_transfer_wait(td_device *d, const td_tensor *from,
                                   td_allocator *to_memory, td_tensor *to) {
  arrival a = {.mutex = PTHREAD_MUTEX_INITIALIZER,
               .cond = PTHREAD_COND_INITIALIZER};
  td_device_transfer(d, from, to_memory, to, arrived, &a);
  pthread_mutex_lock(&a.mutex);
  while (!a.over) pthread_cond_wait(&a.cond, &a.mutex);
  pthread_mutex_unlock(&a.mutex);
  pthread_mutex_destroy(&a.mutex);
  pthread_cond_destroy(&a.cond);
  if (!td_ok(a.status)) td_tensor_release(to);
  return a.status;
}
