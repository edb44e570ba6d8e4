/* variable.c - a tensor that outlives its steps, and how kernels touch it.
 *
 * A read shares the buffer and an update writes in place where nobody else
 * holds it, into a fresh copy otherwise: a reader never sees a torn value, and
 * the order "readers, then the update" copies nothing. In sparse mode, where
 * rows of large tables are touched, a read copies instead and takes no share,
 * so that updates always find the buffer theirs.
 *
 * Where memory cannot be touched the device copies (copy_inside).
 *
 * The value at rest carries the device's pointer. A device that maps its memory
 * gets `seen`, kept beside it by whoever sets the value.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/mem.h"
#include "engine/device/variable.h"

enum { SLICE = 1 << 20 }; /* bytes a thread copies at a time */

static td_variable_stats stats; /* atomic */

td_variable_stats td_variable_read_stats(void) {
  return (td_variable_stats){.copied_on_write = __atomic_load_n(
                                 &stats.copied_on_write, __ATOMIC_RELAXED),
                             .copied_on_read = __atomic_load_n(
                                 &stats.copied_on_read, __ATOMIC_RELAXED)};
}

/* ---- life ---------------------------------------------------------------- */

static void variable_free(td_object *o) {
  td_variable *v = (td_variable *)o;
  td_tensor_release(&v->value);
  td_resource_deinit(&v->base);
  td_free(v);
}

td_status *td_variable_new(td_dtype dtype, const td_shape *shape,
                           td_variable **out) {
  td_variable *v = td_calloc(1, sizeof *v);
  if (!v) return td_oom();
  v->base.object = (td_object){
      .refs = 1, .type = TD_VARIABLE, .free = variable_free, .named = true};
  v->dtype = dtype;
  v->shape = *shape;
  *out = v;
  return NULL;
}

static const char *name_of(const td_variable *v) {
  return v->base.name ? v->base.name : "(without a name)";
}

/* ---- the device's pointers and the kernel's ------------------------------ */

static bool is_mapped(const td_kernel_ctx *c, const td_tensor *t) {
  const td_device *d = c->kernel->device;
  return c->kernel->launched && d->map && t->buffer &&
         t->buffer->allocator == d->memory;
}

static td_tensor *view(const td_kernel_ctx *c, td_variable *v) {
  return is_mapped(c, &v->value) ? &v->seen : &v->value;
}

/* Takes ownership of `t`, a tensor at rest. */
static void set_value(const td_kernel_ctx *c, td_variable *v, td_tensor t) {
  td_tensor old = v->value;
  v->value = t;
  v->seen = td_ctx_seen(c, &t);
  td_tensor_release(&old);
}

static td_status *make(const td_kernel_ctx *c, const td_variable *v,
                       const td_shape *shape, td_tensor *out) {
  TD_TRY(td_tensor_new(c->kernel->device->memory, v->dtype, shape, out));
  td_kernel_owns(c->kernel, out);
  return NULL;
}

/* ---- copying ------------------------------------------------------------- */

typedef struct copy_job {
  const char *from;
  char *to;
} copy_job;

static void copy_slice(void *arg, int64_t begin, int64_t end) {
  const copy_job *job = arg;
  memcpy(job->to + begin, job->from + begin, (size_t)(end - begin));
}

/* Both as the kernel sees them. */
static td_status *copy_contents(const td_kernel_ctx *c, const td_tensor *from,
                                td_tensor *to) {
  td_device *d = c->kernel->device;
  copy_job job = {from->data, to->data};
  if (d->copy_inside) return d->copy_inside(d, from, to);
  td_for(c, (int64_t)td_tensor_bytes(from), SLICE, copy_slice, &job);
  return NULL;
}

static void count_bytes(int64_t *counter, const td_tensor *t) {
  __atomic_fetch_add(counter, (int64_t)td_tensor_bytes(t), __ATOMIC_RELAXED);
}

void td_variable_by_rows(td_variable *v) {
  if (!__atomic_load_n(&v->sparse, __ATOMIC_RELAXED))
    __atomic_store_n(&v->sparse, true, __ATOMIC_RELAXED);
}

void td_variable_as_whole(td_variable *v) {
  __atomic_store_n(&v->sparse, false, __ATOMIC_RELAXED);
}

/* ---- looking ------------------------------------------------------------- */

td_status *td_var(td_kernel_ctx *c, int i, td_variable **out) {
  const td_tensor *t = td_in(c, i);
  td_object *o = t->dtype == TD_RESOURCE ? td_tensor_get_object(t) : NULL;
  if (!o || strcmp(o->type, TD_VARIABLE) != 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "input %d must be the handle of a variable, not %s%s", i,
                    o ? "of a " : td_dtype_name(t->dtype), o ? o->type : "");
  td_variable *v = (td_variable *)o;
  if (TD_UNLIKELY(__atomic_load_n(&((td_resource *)o)->gone, __ATOMIC_ACQUIRE)))
    return td_error(TD_NOT_FOUND,
                    "variable %s is gone: it was destroyed, its container "
                    "reset or its session closed; fetch its handle again",
                    name_of(v));
  if (c->kernel->node->op->flags & TD_SPARSE) td_variable_by_rows(v);
  *out = v;
  return NULL;
}

/* Can code that runs on the kernel's device follow the value's pointer? */
static bool in_reach(const td_kernel_ctx *c, const td_variable *v) {
  const td_allocator *a = v->value.buffer ? v->value.buffer->allocator : NULL;
  return !a || a->touchable || a == c->kernel->device->memory;
}

/* `code`: of a variable without a value. TensorFlow's kernels but the one that
 * reads find no such thing. */
static td_status *check_ready(const td_kernel_ctx *c, const td_variable *v,
                              td_code code) {
  if (TD_UNLIKELY(!in_reach(c, v)))
    return td_error(TD_FAILED_PRECONDITION,
                    "variable %s is in the memory of %s and cannot be used on "
                    "%s: place what uses it there",
                    name_of(v), v->value.buffer->allocator->name,
                    c->kernel->device->name);
  if (TD_LIKELY(td_tensor_valid(&v->value))) return NULL;
  return td_error(code,
                  "variable %s is not initialised: run sess:init() or its "
                  "initializer first",
                  name_of(v));
}

td_status *td_var_peek(td_kernel_ctx *c, td_variable *v,
                       const td_tensor **out) {
  TD_TRY(check_ready(c, v, TD_NOT_FOUND));
  *out = view(c, v);
  return NULL;
}

td_status *td_var_read(td_kernel_ctx *c, td_variable *v, td_tensor *out) {
  TD_TRY(check_ready(c, v, TD_FAILED_PRECONDITION));
  td_tensor *now = view(c, v);
  if (!__atomic_load_n(&v->sparse, __ATOMIC_RELAXED) ||
      !td_dtype_is_plain(v->dtype)) {
    td_tensor_retain(now, out);
    return NULL;
  }
  TD_TRY(make(c, v, &now->shape, out));
  *out = td_ctx_seen(c, out);
  count_bytes(&stats.copied_on_read, now);
  td_status *s = copy_contents(c, now, out);
  if (!td_ok(s)) td_tensor_release(out);
  return s;
}

/* ---- changing ------------------------------------------------------------ */

static td_status *check_shape(const td_variable *v, const td_shape *shape) {
  td_shape_text have, want;
  if (td_shape_compatible(&v->shape, shape)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "variable %s has shape %s and cannot hold a value of shape "
                  "%s",
                  name_of(v), td_shape_str(&v->shape, &want),
                  td_shape_str(shape, &have));
}

/* A fresh value that holds a copy of `from`, as the kernel sees it. The old one
 * stays when there is no memory, or the device cannot copy. */
static td_status *replace(td_kernel_ctx *c, td_variable *v,
                          const td_tensor *from) {
  td_tensor fresh, now = *from; /* the shape may be the old value's own */
  TD_TRY(make(c, v, &now.shape, &fresh));
  td_tensor seen = td_ctx_seen(c, &fresh);
  td_status *s = copy_contents(c, &now, &seen);
  if (td_ok(s))
    set_value(c, v, fresh);
  else
    td_tensor_release(&fresh);
  return s;
}

td_status *td_var_write(td_kernel_ctx *c, td_variable *v, td_tensor **out) {
  TD_TRY(check_ready(c, v, TD_NOT_FOUND));
  if (TD_LIKELY(td_buffer_sole(v->value.buffer))) {
    td_buffer_touch(v->value.buffer);
  } else {
    TD_TRY(replace(c, v, view(c, v)));
    count_bytes(&stats.copied_on_write, &v->value);
  }
  *out = view(c, v);
  return NULL;
}

/* Into the memory that is there where nobody else has it and it fits. */
static td_status *overwrite(td_kernel_ctx *c, td_variable *v,
                            const td_tensor *t) {
  if (!td_tensor_valid(&v->value) || !td_buffer_sole(v->value.buffer) ||
      !in_reach(c, v) || !td_shape_equal(&v->value.shape, &t->shape))
    return replace(c, v, t);
  td_buffer_touch(v->value.buffer);
  return copy_contents(c, t, view(c, v));
}

/* May the variable hold the very buffer of `t`? Not one that will never be its
 * own to write (constants, foreign memory that its owner may change), nor one
 * that would keep much more memory alive. */
static bool may_share(const td_kernel_ctx *c, const td_tensor *t) {
  const td_buffer *b = t->buffer;
  if (!td_dtype_is_plain(t->dtype)) return true; /* never written in place */
  return !b->readonly && !b->foreign &&
         td_tensor_on_host(t) == td_device_on_host(c->kernel->device) &&
         b->size / 2 <= td_tensor_bytes(t);
}

td_status *td_var_assign(td_kernel_ctx *c, td_variable *v, const td_tensor *t) {
  if (t->dtype != v->dtype)
    return td_error(TD_INVALID_ARGUMENT,
                    "variable %s holds %s and cannot be given %s", name_of(v),
                    td_dtype_name(v->dtype), td_dtype_name(t->dtype));
  TD_TRY(check_shape(v, &t->shape));
  if (may_share(c, t)) {
    td_buffer_retain(t->buffer);
    set_value(c, v, td_ctx_at_rest(c, t));
    return NULL;
  }
  return overwrite(c, v, t);
}
