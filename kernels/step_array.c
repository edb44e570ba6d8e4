/* step_array.c - an array of tensors that a step fills and reads.
 *
 * Sums are computed without the lock: who adds takes the element out, adds, and
 * puts the sum back, again until nobody came between. Readers are ordered
 * behind all writers by the graph.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/step_array.h"

#include <pthread.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/vec.h"
#include "kernels/binary.h"
#include "kernels/cpu.h"

static const char type_name[] = "tensor array";

enum { MOST = 1 << 24 }; /* elements: no index may ask for all memory */

typedef struct element {
  td_tensor value; /* at rest; TD_INVALID: not written, or read and cleared. Its
                      shape stays, and may be known before */
  bool written;    /* once, or all that came */
  bool read;       /* and cleared */
} element;

typedef struct twin {
  const char *source; /* owned */
  td_step_array *array;
} twin;

struct td_step_array {
  td_object object; /* first: an array is a td_object */
  const char *name; /* owned */
  td_dtype dtype;
  bool clears, identical, sums;
  pthread_mutex_t mutex;
  bool grows, closed; /* under the mutex */
  int64_t split;      /* under the mutex: elements that a split made; -1 */
  int64_t joined;     /* by a concat: those that a split of the array made
                         whose gradients these are; -1: all */
  td_shape each;      /* under the mutex */
  TD_VEC(element) at; /* under the mutex */
  TD_VEC(twin) twins; /* under the mutex */
};

/* ---- life ---------------------------------------------------------------- */

static void drop_elements(td_step_array *a) {
  for (size_t i = 0; i < a->at.len; i++) td_tensor_release(&a->at.at[i].value);
  td_vec_free(&a->at);
}

static void array_free(td_object *o) {
  td_step_array *a = (td_step_array *)o;
  drop_elements(a);
  for (size_t i = 0; i < a->twins.len; i++) {
    td_free((void *)a->twins.at[i].source);
    td_object_release(&a->twins.at[i].array->object);
  }
  td_vec_free(&a->twins);
  pthread_mutex_destroy(&a->mutex);
  td_free((void *)a->name);
  td_free(a);
}

td_object *td_step_array_object(td_step_array *a) {
  return &a->object;
}

/* Under the mutex, or before anybody else knows of it. */
static td_status *lengthen(td_step_array *a, int64_t size) {
  if (size > MOST)
    return td_error(TD_RESOURCE_EXHAUSTED,
                    "tensor array %s would have %lld elements; %d are allowed",
                    a->name, (long long)size, MOST);
  size_t more = (size_t)size - a->at.len;
  if (!td_vec_reserve(&a->at, more)) return td_oom();
  for (; more; more--)
    a->at.at[a->at.len++] =
        (element){.value = {.dtype = TD_INVALID, .shape = td_shape_unknown()}};
  return NULL;
}

/* Moves the value out; its shape stays. */
static td_tensor take_out(element *e) {
  td_tensor t = e->value;
  e->value = (td_tensor){.dtype = TD_INVALID, .shape = t.shape};
  return t;
}

td_status *td_step_array_new(const td_step_array_spec *spec, int64_t size,
                             td_step_array **out) {
  if (size < 0)
    return td_error(TD_INVALID_ARGUMENT, "size must not be negative, is %lld",
                    (long long)size);
  td_step_array *a = td_calloc(1, sizeof *a);
  if (!a) return td_oom();
  *a = (td_step_array){
      .object = {.refs = 1, .type = type_name, .free = array_free},
      .dtype = spec->dtype,
      .clears = spec->clears,
      .identical = spec->identical,
      .sums = spec->sums,
      .grows = spec->grows,
      .each = spec->each,
      .split = -1,
      .joined = -1,
      .name = td_strdup(spec->name)};
  pthread_mutex_init(&a->mutex, NULL);
  td_status *s = a->name ? lengthen(a, size) : td_oom();
  if (td_ok(s))
    *out = a;
  else
    td_object_release(&a->object);
  return s;
}

void td_step_array_close(td_step_array *a) {
  pthread_mutex_lock(&a->mutex);
  drop_elements(a);
  a->closed = true;
  pthread_mutex_unlock(&a->mutex);
}

/* ---- looking ------------------------------------------------------------- */

td_status *td_step_array_find(const td_kernel_ctx *c, td_dtype dtype,
                              td_step_array **out) {
  td_object *o = td_tensor_get_object(td_in(c, 0));
  if (!o || strcmp(o->type, type_name) != 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "handle must be that of a tensor array, not of %s%s",
                    o ? "a " : "several things", o ? o->type : "");
  td_step_array *a = (td_step_array *)o;
  if (dtype != TD_INVALID && dtype != a->dtype)
    return td_error(TD_INVALID_ARGUMENT, "tensor array %s holds %s, not %s",
                    a->name, td_dtype_name(a->dtype), td_dtype_name(dtype));
  *out = a;
  return NULL;
}

/* Under the mutex. */
static td_status *check_open(const td_step_array *a) {
  if (TD_LIKELY(!a->closed)) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "tensor array %s was closed before",
                  a->name);
}

td_status *td_step_array_size(td_step_array *a, int64_t *size) {
  pthread_mutex_lock(&a->mutex);
  td_status *s = check_open(a);
  *size = (int64_t)a->at.len;
  pthread_mutex_unlock(&a->mutex);
  return s;
}

td_status *td_step_array_joined(td_step_array *a, int64_t *size) {
  TD_TRY(td_step_array_size(a, size));
  if (a->joined >= 0) *size = a->joined;
  return NULL;
}

td_status *td_step_array_shape(td_step_array *a, const td_shape *said,
                               td_shape *out) {
  td_shape_text have, want;
  pthread_mutex_lock(&a->mutex);
  td_shape each = a->each;
  td_status *s = check_open(a);
  pthread_mutex_unlock(&a->mutex);
  TD_TRY(s);
  if (td_shape_merge(&each, said, out)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "the elements of tensor array %s have shape %s, not %s",
                  a->name, td_shape_str(&each, &have),
                  td_shape_str(said, &want));
}

/* ---- places -------------------------------------------------------------- */

/* Under the mutex. */
static td_status *find_place(td_step_array *a, int64_t i, bool grow,
                             element **out) {
  TD_TRY(check_open(a));
  int64_t n = (int64_t)a->at.len;
  if (i >= n && grow && a->grows) {
    TD_TRY(lengthen(a, i + 1));
    n = i + 1;
  }
  if (i < 0 || i >= n)
    return td_error(
        TD_INVALID_ARGUMENT,
        "index %lld is outside tensor array %s of %lld "
        "elements%s",
        (long long)i, a->name, (long long)n,
        grow && i >= n && !a->grows ? "; with dynamic_size it would grow" : "");
  *out = &a->at.at[i];
  return NULL;
}

td_status *td_step_array_fit(td_step_array *a, int64_t size) {
  pthread_mutex_lock(&a->mutex);
  td_status *s = check_open(a);
  int64_t n = (int64_t)a->at.len;
  if (td_ok(s) && n < size && a->grows) s = lengthen(a, size);
  bool fits = n == size || (n < size && a->grows);
  if (td_ok(s) && fits) a->split = size;
  pthread_mutex_unlock(&a->mutex);
  if (!td_ok(s) || fits) return s;
  return td_error(TD_INVALID_ARGUMENT,
                  "tensor array %s has %lld elements and cannot take %lld",
                  a->name, (long long)n, (long long)size);
}

/* ---- writing ------------------------------------------------------------- */

/* Under the mutex: may `t` come to place i? */
static td_status *check_write(td_step_array *a, const element *e, int64_t i,
                              const td_tensor *t) {
  td_shape_text have, want;
  if (e->read)
    return td_error(TD_INVALID_ARGUMENT,
                    "element %lld of tensor array %s was read before: it "
                    "cannot be written any more",
                    (long long)i, a->name);
  if (e->written && !a->sums)
    return td_error(TD_INVALID_ARGUMENT,
                    "element %lld of tensor array %s was written before: each "
                    "is written once",
                    (long long)i, a->name);
  if (!td_shape_compatible(&a->each, &t->shape))
    return td_error(TD_INVALID_ARGUMENT,
                    "the elements of tensor array %s have shape %s: element "
                    "%lld cannot be %s",
                    a->name, td_shape_str(&a->each, &want), (long long)i,
                    td_shape_str(&t->shape, &have));
  return NULL;
}

/* Under the mutex. Puts `t`, at rest, or takes out what is there to be added
 * first: then *other is valid. */
static td_status *put(td_step_array *a, int64_t i, const td_tensor *t,
                      td_tensor *other) {
  element *e = NULL;
  TD_TRY(find_place(a, i, true, &e));
  TD_TRY(check_write(a, e, i, t));
  e->written = true;
  if (td_tensor_valid(&e->value)) {
    *other = take_out(e);
    return NULL;
  }
  td_tensor_retain(t, &e->value);
  if (a->identical) a->each = t->shape;
  return NULL;
}

typedef struct sum_job {
  td_dtype dtype;
  size_t size;
  const char *x, *y;
  char *z;
} sum_job;

static void sum_piece(void *arg, int64_t begin, int64_t end) {
  const sum_job *j = arg;
  size_t at = (size_t)begin * j->size;
  td_binary_apply(TD_BINARY_AddV2, j->dtype, td_cpu_isa(), end - begin,
                  j->x + at, j->y + at, j->z + at);
}

static td_status *add_here(td_kernel_ctx *c, const td_tensor *x,
                           const td_tensor *y, td_tensor *z) {
  sum_job j = {.dtype = x->dtype,
               .size = td_dtype_size(x->dtype),
               .x = x->data,
               .y = y->data,
               .z = z->data};
  td_for(c, td_tensor_count(x), TD_GRAIN, sum_piece, &j);
  return NULL;
}

/* *sum += more; both as the kernel sees them. In place where nobody else holds
 * *sum. */
static td_status *add(td_kernel_ctx *c, td_tensor *sum, const td_tensor *more,
                      td_step_array_add by) {
  td_tensor fresh = {.dtype = TD_INVALID};
  td_shape_text a, b;
  if (!td_shape_equal(&sum->shape, &more->shape))
    return td_error(TD_INVALID_ARGUMENT,
                    "a value of shape %s cannot be added to an element of "
                    "shape %s",
                    td_shape_str(&more->shape, &a),
                    td_shape_str(&sum->shape, &b));
  if (!td_dtype_is_plain(sum->dtype) || sum->dtype == TD_BOOL)
    return td_error(TD_INVALID_ARGUMENT, "%s cannot be added",
                    td_dtype_name(sum->dtype));
  bool sole = td_buffer_sole(sum->buffer);
  if (sole)
    td_buffer_touch(sum->buffer);
  else
    TD_TRY(td_temp(c, sum->dtype, &sum->shape, &fresh));
  td_status *s = by(c, sum, more, sole ? sum : &fresh);
  if (sole) return s;
  td_tensor_release(sum);
  *sum = fresh;
  return s;
}

td_status *td_step_array_write(td_kernel_ctx *c, td_step_array *a, int64_t i,
                               const td_tensor *t, td_step_array_add by) {
  td_tensor mine;
  td_tensor_retain(t, &mine);
  for (;;) {
    td_tensor other = {.dtype = TD_INVALID}, rest = td_ctx_at_rest(c, &mine);
    pthread_mutex_lock(&a->mutex);
    td_status *s = put(a, i, &rest, &other);
    pthread_mutex_unlock(&a->mutex);
    if (td_ok(s) && td_tensor_valid(&other)) {
      other = td_ctx_seen(c, &other);
      s = add(c, &other, &mine, by ? by : add_here);
      td_tensor_release(&mine);
      mine = other;
      if (td_ok(s)) continue;
    }
    td_tensor_release(&mine);
    return s;
  }
}

/* ---- reading ------------------------------------------------------------- */

/* Under the mutex. */
static td_status *check_read(const td_step_array *a, const element *e,
                             int64_t i, td_shape *zeros) {
  td_shape_text text;
  if (e->read)
    return td_error(TD_INVALID_ARGUMENT,
                    "element %lld of tensor array %s was read before; with "
                    "clear_after_read = false it could be read again",
                    (long long)i, a->name);
  if (td_tensor_valid(&e->value)) return NULL;
  if (td_shape_merge(&e->value.shape, &a->each, zeros) && td_shape_known(zeros))
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "element %lld of tensor array %s was not written, and is of "
                  "shape %s: which zeros to give is not known",
                  (long long)i, a->name, td_shape_str(zeros, &text));
}

static td_status *take(td_step_array *a, int64_t i, td_tensor *out) {
  element *e = NULL;
  td_shape zeros = td_shape_unknown();
  TD_TRY(find_place(a, i, false, &e));
  TD_TRY(check_read(a, e, i, &zeros));
  if (!td_tensor_valid(&e->value)) {
    *out = (td_tensor){.dtype = TD_INVALID, .shape = zeros};
  } else if (a->clears) {
    *out = take_out(e);
    e->read = true;
  } else {
    td_tensor_retain(&e->value, out);
  }
  return NULL;
}

td_status *td_step_array_read(td_kernel_ctx *c, td_step_array *a, int64_t i,
                              td_tensor *out) {
  pthread_mutex_lock(&a->mutex);
  td_status *s = take(a, i, out);
  pthread_mutex_unlock(&a->mutex);
  if (td_ok(s) && td_tensor_valid(out)) *out = td_ctx_seen(c, out);
  return s;
}

/* ---- gradients ----------------------------------------------------------- */

/* `shape` with `before` in front. */
static td_status *prepend(const td_shape *before, const td_shape *shape,
                          td_shape *out) {
  *out = td_shape_unknown();
  if (before->rank < 0 || shape->rank < 0) return NULL;
  TD_TRY(td_shape_check_rank(before->rank + shape->rank));
  *out = *before;
  out->rank = before->rank + shape->rank;
  for (int k = 0; k < shape->rank; k++)
    out->dim[before->rank + k] = shape->dim[k];
  return NULL;
}

/* Under the mutex of `a`. */
static td_status *copy_shapes(const td_step_array *a, const td_shape *before,
                              td_step_array *t) {
  td_shape each = a->each;
  TD_TRY(prepend(before, &each, &t->each));
  for (size_t i = 0; i < a->at.len; i++)
    TD_TRY(prepend(before, &a->at.at[i].value.shape, &t->at.at[i].value.shape));
  return NULL;
}

/* Under the mutex of `a`. */
static td_status *make_twin(td_step_array *a, const char *source,
                            const td_shape *before, td_step_array **out) {
  td_step_array_spec spec = {.name = a->name,
                             .dtype = a->dtype,
                             .each = td_shape_unknown(),
                             .grows = true,
                             .clears = !a->sums,
                             .sums = true};
  td_step_array *t = NULL;
  TD_TRY(td_step_array_new(&spec, (int64_t)a->at.len, &t));
  t->joined = a->split;
  twin made = {td_strdup(source), t};
  td_status *s = copy_shapes(a, before, t);
  if (td_ok(s) && !(made.source && td_vec_push(&a->twins, made))) s = td_oom();
  if (!td_ok(s)) {
    td_free((void *)made.source);
    td_object_release(&t->object);
    return s;
  }
  if (!a->sums) a->grows = false;
  *out = t;
  return NULL;
}

static td_step_array *find_twin(const td_step_array *a, const char *source) {
  for (size_t i = 0; i < a->twins.len; i++)
    if (strcmp(a->twins.at[i].source, source) == 0) return a->twins.at[i].array;
  return NULL;
}

td_status *td_step_array_twin(td_step_array *a, const char *source,
                              const td_shape *before, td_step_array **out) {
  pthread_mutex_lock(&a->mutex);
  td_step_array *t = find_twin(a, source);
  td_status *s = check_open(a);
  if (td_ok(s) && !t) s = make_twin(a, source, before, &t);
  if (td_ok(s)) td_object_retain(&t->object);
  pthread_mutex_unlock(&a->mutex);
  if (td_ok(s)) *out = t;
  return s;
}
