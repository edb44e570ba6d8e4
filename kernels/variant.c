/* variant.c - zeros like variants, and their sums; see variant.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/variant.h"

#include <string.h>

#include "kernels/array.h"
#include "kernels/binary.h"

const char td_variant_type[] = "variant";

/* ---- looking ------------------------------------------------------------- */

td_status *td_variant_of(td_object *o, const td_variant_class *of,
                         const char *what, const td_variant **out) {
  const td_variant *v = o && o->type == td_variant_type ? (void *)o : NULL;
  if (!v || (of && v->of != of))
    return td_error(TD_INVALID_ARGUMENT, "%s must be a %s, not %s%s", what,
                    of ? of->name : "list or optional",
                    v || o ? "a " : "several things",
                    v   ? v->of->name
                    : o ? o->type
                        : "");
  *out = v;
  return NULL;
}

td_status *td_variant_in(const td_kernel_ctx *c, int i,
                         const td_variant_class *of, const char *what,
                         const td_variant **out) {
  return td_variant_of(td_tensor_get_object(td_in(c, i)), of, what, out);
}

bool td_variant_sole(const td_kernel_ctx *c, int i) {
  const td_tensor *t = td_in(c, i);
  td_object *o = td_tensor_get_object(t);
  return o && !c->promised &&
         __atomic_load_n(&t->buffer->refs, __ATOMIC_ACQUIRE) == 1 &&
         __atomic_load_n(&o->refs, __ATOMIC_ACQUIRE) == 1;
}

td_status *td_variant_holds(td_variant *v, const td_tensor *t) {
  if (t->dtype != TD_VARIANT) return NULL;
  td_object *const *at = t->data;
  for (int64_t i = 0; i < td_tensor_count(t); i++) {
    const td_variant *held = NULL;
    TD_TRY(td_variant_of(at[i], NULL, "an element", &held));
    if (held->depth + 1 > v->depth) v->depth = held->depth + 1;
  }
  if (v->depth <= TD_VARIANT_DEPTH) return NULL;
  return td_error(TD_RESOURCE_EXHAUSTED,
                  "variants hold variants, %d deep; %d are allowed", v->depth,
                  TD_VARIANT_DEPTH);
}

td_status *td_variant_out(td_kernel_ctx *c, int i, td_variant *v) {
  td_tensor t;
  TD_TRY(td_tensor_object(TD_VARIANT, &v->object, &t));
  td_out_set(c, i, &t);
  td_tensor_release(&t);
  return NULL;
}

/* ---- nothing ------------------------------------------------------------- */

static td_status *no_zeros(td_kernel_ctx *c, const td_variant *v,
                           td_variant **out) {
  (void)c;
  (void)v;
  return td_variant_none(out);
}

static td_status *no_sum(td_kernel_ctx *c, const td_variant *a,
                         const td_variant *b, td_variant **out) {
  (void)b;
  return no_zeros(c, a, out);
}

const td_variant_class td_variant_nothing = {
    .name = "nothing", .zeros = no_zeros, .sum = no_sum};

static void none_free(td_object *o) {
  td_free(o);
}

td_status *td_variant_none(td_variant **out) {
  td_variant *v = td_calloc(1, sizeof *v);
  if (!v) return td_oom();
  v->object =
      (td_object){.refs = 1, .type = td_variant_type, .free = none_free};
  v->of = &td_variant_nothing;
  *out = v;
  return NULL;
}

/* ---- zeros --------------------------------------------------------------- */

/* Strings and variants: nothing everywhere. */
static td_status *empty_objects(td_dtype dtype, const td_shape *shape,
                                td_object *nothing, td_tensor *out) {
  size_t size = dtype == TD_STRING ? sizeof(td_bytes) : sizeof nothing;
  int64_t n = td_shape_count(shape);
  td_array a = {.size = size, .dtype = dtype, .shape = *shape};
  a.own = td_calloc((size_t)n + 1, size);
  if (!a.own) return td_oom();
  a.at = a.own;
  for (int64_t i = 0; nothing && i < n; i++) ((td_object **)a.own)[i] = nothing;
  td_status *s = td_array_make(&a, out);
  td_array_drop(&a);
  return s;
}

td_status *td_variant_zeros(td_kernel_ctx *c, td_dtype dtype,
                            const td_shape *shape, td_tensor *out) {
  td_variant *none = NULL;
  if (td_dtype_is_plain(dtype)) {
    TD_TRY(td_tensor_new(c->kernel->device->host, dtype, shape, out));
    size_t bytes = td_tensor_bytes(out);
    if (bytes) memset(out->data, 0, bytes);
    return NULL;
  }
  TD_TRY(td_array_fits(c, shape));
  if (dtype == TD_VARIANT) TD_TRY(td_variant_none(&none));
  td_status *s = empty_objects(dtype, shape, none ? &none->object : NULL, out);
  if (none) td_object_release(&none->object);
  return s;
}

/* f(i, ...) of each object of `t`, as a tensor of its shape. */
static td_status *each_object(td_kernel_ctx *c, const td_tensor *t,
                              const td_tensor *other,
                              td_status *(*f)(td_kernel_ctx *c, td_object *a,
                                              td_object *b, td_variant **out),
                              td_tensor *out) {
  int64_t n = td_tensor_count(t), made = 0;
  td_object *const *from = t->data, *const *and = other ? other->data : NULL;
  td_object **to = td_calloc((size_t)n + 1, sizeof *to);
  td_status *s = to ? NULL : td_oom();
  for (; td_ok(s) && made < n; made++) {
    td_variant *v = NULL;
    s = f(c, from[made], and? and[made] : NULL, &v);
    if (!td_ok(s)) break;
    to[made] = &v->object;
  }
  if (td_ok(s)) s = td_tensor_objects(TD_VARIANT, &t->shape, to, out);
  while (made-- > 0) td_object_release(to[made]);
  td_free(to);
  return s;
}

static td_status *zeros_object(td_kernel_ctx *c, td_object *o, td_object *none,
                               td_variant **out) {
  const td_variant *v = NULL;
  (void)none;
  TD_TRY(td_variant_of(o, NULL, "the input", &v));
  return v->of->zeros(c, v, out);
}

td_status *td_variant_zeros_like(td_kernel_ctx *c, const td_tensor *t,
                                 td_tensor *out) {
  if (t->dtype != TD_VARIANT)
    return td_variant_zeros(c, t->dtype, &t->shape, out);
  return each_object(c, t, NULL, zeros_object, out);
}

td_status *td_variant_zeros_run(td_kernel_ctx *c) {
  td_tensor t;
  TD_TRY(td_variant_zeros_like(c, td_in(c, 0), &t));
  td_out_set(c, 0, &t);
  td_tensor_release(&t);
  return NULL;
}

/* ---- sums ---------------------------------------------------------------- */

static td_status *sum_object(td_kernel_ctx *c, td_object *a, td_object *b,
                             td_variant **out) {
  const td_variant *x = NULL, *y = NULL;
  TD_TRY(td_variant_of(a, NULL, "input 0", &x));
  TD_TRY(td_variant_of(b, x->of, "what is added", &y));
  return x->of->sum(c, x, y, out);
}

typedef struct sum_job {
  const td_tensor *x, *y, *z;
} sum_job;

static void sum_piece(void *arg, int64_t begin, int64_t end) {
  const sum_job *j = arg;
  size_t at = (size_t)begin * td_dtype_size(j->z->dtype);
  td_binary_apply(TD_BINARY_AddV2, j->z->dtype, td_cpu_isa(), end - begin,
                  (const char *)j->x->data + at, (const char *)j->y->data + at,
                  (char *)j->z->data + at);
}

td_status *td_variant_sum(td_kernel_ctx *c, const td_tensor *a,
                          const td_tensor *b, td_tensor *out) {
  td_shape_text x, y;
  if (a->dtype != b->dtype || !td_shape_equal(&a->shape, &b->shape))
    return td_error(TD_INVALID_ARGUMENT,
                    "%s of shape %s cannot be added to %s of shape %s",
                    td_dtype_name(b->dtype), td_shape_str(&b->shape, &y),
                    td_dtype_name(a->dtype), td_shape_str(&a->shape, &x));
  if (a->dtype == TD_VARIANT) return each_object(c, a, b, sum_object, out);
  if (!td_dtype_is_plain(a->dtype) || a->dtype == TD_BOOL)
    return td_error(TD_INVALID_ARGUMENT, "%s cannot be added",
                    td_dtype_name(a->dtype));
  TD_TRY(td_tensor_new(c->kernel->device->host, a->dtype, &a->shape, out));
  sum_job j = {a, b, out};
  td_for(c, td_tensor_count(out), TD_GRAIN, sum_piece, &j);
  return NULL;
}

td_status *td_variant_sum_run(td_kernel_ctx *c) {
  td_tensor sum;
  td_status *s = NULL;
  td_tensor_retain(td_in(c, 0), &sum);
  for (int i = 1; td_ok(s) && i < c->n_in; i++) {
    td_tensor next;
    s = td_variant_sum(c, &sum, td_in(c, i), &next);
    if (!td_ok(s)) break;
    td_tensor_release(&sum);
    sum = next;
  }
  if (td_ok(s)) td_out_set(c, 0, &sum);
  td_tensor_release(&sum);
  return s;
}
