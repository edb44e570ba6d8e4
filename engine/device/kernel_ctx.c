/* kernel_ctx.c - what a kernel asks while it runs: outputs, memory, threads.
 *
 * A kernel that a device runs in its own address space must get pointers it can
 * follow, while a tensor at rest carries the device's. Whatever is made here
 * for such a kernel is mapped at once; the device takes the mapping off the
 * inputs and outputs when the kernel is over.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/plant.h"
#include "engine/device/kernel.h"

#include "engine/base/pool.h"

/* ---- making -------------------------------------------------------------- */

static td_allocator *memory_of(const td_kernel *k, bool host) {
  return host ? k->device->host : k->device->memory;
}

void td_kernel_owns(const td_kernel *k, const td_tensor *t) {
  enum { NAMED_FROM = 1 << 20 };
  td_buffer *b = t->buffer;
  if (b && b->size >= NAMED_FROM)
    td_allocator_tag(b->allocator, b->data, b->size, k->node->name);
}

static td_status *make(const td_kernel *k, bool host, td_dtype dtype,
                       const td_shape *shape, td_tensor *out) {
  td_status *s = td_tensor_new(memory_of(k, host), dtype, shape, out);
  if (TD_UNLIKELY(!td_ok(s))) return host ? s : td_device_refused(k->device, s);
  td_kernel_owns(k, out);
  if (TD_UNLIKELY(k->launched && !host && k->device->map))
    out->data = k->device->map(k->device, out->data);
  return NULL;
}

/* ---- outputs that were promised ------------------------------------------ */

static td_status *take_promised(td_kernel_ctx *c, int i,
                                const td_shape *shape) {
  td_shape_text made, told;
  if (!td_shape_equal(&c->promised[i].shape, shape))
    return td_error(TD_INTERNAL,
                    "output %d is of shape %s, not %s as inferred from the "
                    "inputs",
                    i, td_shape_str(shape, &made),
                    td_shape_str(&c->promised[i].shape, &told));
  td_tensor_set(&c->out[i], &c->promised[i]);
  return NULL;
}

/* A share cannot be given any more. The kernel may still set shape and dtype.
 * Where there is no room the output stays unset, which is noticed by whoever
 * promised it. */
static void fill_promised(td_kernel_ctx *c, int i, const td_tensor *t) {
  const td_tensor *to = &c->promised[i];
  size_t bytes = td_tensor_bytes(t);
  if (!td_dtype_is_plain(t->dtype) || bytes != td_tensor_bytes(to)) return;
  if (bytes) memcpy(to->data, t->data, bytes);
  td_tensor_set(&c->out[i], to);
  td_shape_set(&c->out[i].shape, &t->shape);
}

/* ---- outputs ------------------------------------------------------------- */

td_status *td_out(td_kernel_ctx *c, int i, const td_shape *shape,
                  td_tensor **out) {
  const td_kernel *k = c->kernel;
  if (TD_UNLIKELY(c->promised != NULL)) {
    TD_TRY(take_promised(c, i, shape));
    *out = &c->out[i];
    return NULL;
  }
  TD_TRY(make(k, k->out_host[i], td_kernel_type(k, i), shape, &c->out[i]));
  *out = &c->out[i];
  return NULL;
}

td_status *td_temp(td_kernel_ctx *c, td_dtype dtype, const td_shape *shape,
                   td_tensor *out) {
  return make(c->kernel, td_device_on_host(c->kernel->device), dtype, shape,
              out);
}

/* ---- reusing ------------------------------------------------------------- */

/* May output i, of `count` elements, be written over input `in`? A view of a
 * small part of its buffer is left alone: it would keep the whole alive. */
static bool may_reuse(const td_kernel_ctx *c, int i, int in, int64_t count) {
  const td_kernel *k = c->kernel;
  const td_tensor *t = &c->in[in];
  bool sole = td_buffer_sole(t->buffer) ||
              (TD_PLANT(5) && t->buffer && !t->buffer->readonly);
  size_t size = td_dtype_size(t->dtype);
  return sole && !c->promised && td_dtype_is_plain(t->dtype) &&
         size == td_dtype_size(td_kernel_type(k, i)) &&
         k->in_host[in] == k->out_host[i] &&
         td_shape_count(&t->shape) == count &&
         t->buffer->size / 2 <= (size_t)count * size;
}

/* The buffer moves; the input stays readable through its data pointer. */
static void reuse(td_kernel_ctx *c, int i, int in, const td_shape *shape) {
  td_tensor *out = &c->out[i];
  out->buffer = c->in[in].buffer;
  out->data = c->in[in].data;
  out->dtype = td_kernel_type(c->kernel, i);
  td_shape_set(&out->shape, shape);
  c->in[in].buffer = NULL;
  td_buffer_touch(out->buffer);
}

td_status *td_out_forward(td_kernel_ctx *c, int i, const td_shape *shape, int a,
                          int b, td_tensor **out) {
  int64_t count = td_shape_count(shape);
  int in = a >= 0 && may_reuse(c, i, a, count)   ? a
           : b >= 0 && may_reuse(c, i, b, count) ? b
                                                 : -1;
  if (in < 0 || !td_dtype_is_plain(td_kernel_type(c->kernel, i)))
    return td_out(c, i, shape, out);
  reuse(c, i, in, shape);
  *out = &c->out[i];
  return NULL;
}

td_status *td_out_like(td_kernel_ctx *c, int i, int in, td_tensor **out) {
  return td_out_forward(c, i, &c->in[in].shape, in, -1, out);
}

void td_out_set(td_kernel_ctx *c, int i, const td_tensor *t) {
  if (TD_UNLIKELY(c->promised != NULL))
    fill_promised(c, i, t);
  else
    td_tensor_retain(t, &c->out[i]);
}

void td_out_pass(td_kernel_ctx *c, int i, int in) {
  if (TD_UNLIKELY(c->promised != NULL)) {
    fill_promised(c, i, &c->in[in]);
    return;
  }
  td_tensor_set(&c->out[i], &c->in[in]);
  if (!td_buffer_sole(c->in[in].buffer)) {
    td_buffer_retain(c->out[i].buffer);
    return;
  }
  c->in[in].buffer = NULL;
  c->in[in].data = NULL;
  c->in[in].dtype = TD_INVALID;
}

/* ---- keeping ------------------------------------------------------------- */

static bool is_mapped(const td_kernel_ctx *c, const td_tensor *t) {
  const td_device *d = c->kernel->device;
  return TD_UNLIKELY(c->kernel->launched && d->map) && t->buffer &&
         t->buffer->allocator == d->memory;
}

td_tensor td_ctx_at_rest(const td_kernel_ctx *c, const td_tensor *t) {
  td_device *d = c->kernel->device;
  td_tensor r = *t;
  if (is_mapped(c, t))
    r.data = (char *)t->buffer->data +
             ((char *)d->map(d, t->data) - (char *)d->map(d, t->buffer->data));
  return r;
}

td_tensor td_ctx_seen(const td_kernel_ctx *c, const td_tensor *t) {
  td_device *d = c->kernel->device;
  td_tensor r = *t;
  if (is_mapped(c, t)) r.data = d->map(d, t->data);
  return r;
}

/* ---- threads ------------------------------------------------------------- */

void td_for(const td_kernel_ctx *c, int64_t n, int64_t grain,
            void (*fn)(void *arg, int64_t begin, int64_t end), void *arg) {
  td_parallel_for(c->step->threads, n, grain, fn, arg,
                  c->kernel->whole ? NULL : c->step->stop);
}
