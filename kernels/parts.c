/* parts.c - joining tensors, and cutting them; see parts.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/parts.h"

#include <string.h>

#include "engine/base/mem.h"
#include "kernels/array.h"
#include "kernels/cpu.h"
#include "kernels/strided_copy.h"

td_status *td_parts_init(td_parts *p, int64_t n) {
  *p = (td_parts){.at = td_calloc((size_t)n + 1, sizeof *p->at)};
  return p->at ? NULL : td_oom();
}

void td_parts_drop(td_parts *p) {
  for (int64_t i = 0; i < p->n; i++) td_tensor_release(&p->at[i]);
  td_free(p->at);
}

/* ---- one behind the other ------------------------------------------------ */

typedef struct join_job {
  const td_parts *from;
  td_array *to;
  const int64_t *begin; /* where each begins, in elements; n + 1 of them */
} join_job;

static void join_piece(void *arg, int64_t begin, int64_t end) {
  const join_job *j = arg;
  for (int64_t i = begin; i < end; i++) {
    const td_tensor *t = &j->from->at[i];
    int64_t at = j->begin[i], n = j->begin[i + 1] - at;
    char *to = j->to->at + (size_t)at * j->to->size;
    if (n == 0) continue;
    if (td_tensor_valid(t))
      memcpy(to, t->data, (size_t)n * j->to->size);
    else
      memset(to, 0, (size_t)n * j->to->size);
  }
}

/* By a device that copies by code of its own, part by part. */
static td_status *join_there(td_kernel_ctx *c, const join_job *j) {
  static const _Alignas(16) char none[16];
  for (int64_t i = 0; i < j->from->n; i++) {
    const td_tensor *t = &j->from->at[i];
    int64_t at = j->begin[i], n = j->begin[i + 1] - at;
    char *to = j->to->at + (size_t)at * j->to->size;
    td_strided_copy m;
    td_strided_copy_init(&m);
    td_strided_copy_loop(&m, n, 1, 1);
    if (n == 0) continue;
    TD_TRY(td_tensor_valid(t)
               ? td_strided_copy_do(c, &m, j->to->size, t->data, to)
               : td_strided_copy_spread(c, &m, j->to->size, none, to));
  }
  return NULL;
}

static bool is_there(const td_kernel_ctx *c, const td_tensor *y) {
  const td_device *d = c->kernel->device;
  return d->copy_strided && y->buffer && y->buffer->allocator == d->memory;
}

/* Strings and objects, one part after the other. */
static td_status *join_objects(const join_job *j) {
  for (int64_t i = 0; i < j->from->n; i++) {
    td_array x;
    if (!td_tensor_valid(&j->from->at[i])) continue;
    TD_TRY(td_array_in(&j->from->at[i], &x));
    int64_t at = j->begin[i], n = j->begin[i + 1] - at;
    memcpy(j->to->at + (size_t)at * x.size, x.at, (size_t)n * x.size);
    td_array_drop(&x);
  }
  return NULL;
}

/* Output `out`, of `shape`: the parts one after the other. */
static td_status *out_joined(td_kernel_ctx *c, int out, const td_parts *p,
                             const int64_t *begin, const td_shape *shape) {
  td_array y;
  td_status *s = NULL;
  TD_TRY(td_array_out(c, out, shape, &y));
  join_job j = {p, &y, begin};
  int64_t all = begin[p->n];
  if (!td_dtype_is_plain(y.dtype))
    s = join_objects(&j);
  else if (is_there(c, &c->out[out]))
    s = join_there(c, &j);
  else if (p->n)
    td_for(c, p->n, td_grain_of(all / p->n), join_piece, &j);
  if (td_ok(s)) s = td_array_done(c, out, &y);
  td_array_drop(&y);
  return s;
}

/* Where each of the parts begins. Caller frees *out. */
static td_status *begins(const td_parts *p, int64_t **out) {
  int64_t *begin = td_calloc((size_t)p->n + 1, sizeof *begin);
  if (!begin) return td_oom();
  for (int64_t i = 0; i < p->n; i++)
    begin[i + 1] = begin[i] + td_shape_count(&p->at[i].shape);
  *out = begin;
  return NULL;
}

/* A shape of n elements, each of a known shape. */
static td_status *stacked(const td_shape *each, int64_t n, td_shape *out) {
  int64_t count = 0;
  if (each->rank == TD_MAX_RANK)
    return td_error(TD_INVALID_ARGUMENT,
                    "elements of rank %d have no room for another dimension",
                    each->rank);
  *out = *each;
  out->rank++;
  out->dim[0] = n;
  for (int k = 0; k < each->rank; k++) out->dim[k + 1] = each->dim[k];
  return td_array_count(out, &count);
}

/* All parts have one shape, which *each agrees with; sets it. */
static td_status *same_shape(const td_parts *p, td_shape *each) {
  td_shape_text a, b;
  for (int64_t i = 0; i < p->n; i++)
    if (!td_shape_merge(each, &p->at[i].shape, each))
      return td_error(TD_INVALID_ARGUMENT,
                      "elements must have one shape: element %lld is of %s, "
                      "those before it %s",
                      (long long)i, td_shape_str(&p->at[i].shape, &a),
                      td_shape_str(each, &b));
  if (td_shape_known(each)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "there are no elements, and their shape, %s, is not known "
                  "without them",
                  td_shape_str(each, &a));
}

td_status *td_parts_stack(td_kernel_ctx *c, int out, const td_parts *p,
                          td_shape each) {
  td_shape shape;
  int64_t *begin = NULL;
  TD_TRY(same_shape(p, &each));
  TD_TRY(stacked(&each, p->n, &shape));
  TD_TRY(begins(p, &begin));
  td_status *s = out_joined(c, out, p, begin, &shape);
  td_free(begin);
  return s;
}

/* ---- concat -------------------------------------------------------------- */

td_status *td_parts_rest(const td_shape *s, td_shape *out) {
  if (s->rank == 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "elements are scalars: they are stacked, not joined");
  *out = *s;
  for (int k = 1; k < s->rank; k++) out->dim[k - 1] = s->dim[k];
  if (s->rank > 0) out->rank--;
  return NULL;
}

/* The shape of the parts end to end, of which `rest` says all but the first
 * dimension; and the lengths as output 1. */
static td_status *concat_shape(td_kernel_ctx *c, const td_parts *p,
                               td_shape rest, td_shape *out) {
  td_shape vector = td_shape_vector(p->n), own;
  td_shape_text a, b;
  td_tensor *lengths;
  int64_t sum = 0;
  TD_TRY(td_out(c, 1, &vector, &lengths));
  for (int64_t i = 0; i < p->n; i++) {
    const td_shape *s = &p->at[i].shape;
    TD_TRY(td_parts_rest(s, &own));
    if (!td_shape_merge(&rest, &own, &rest))
      return td_error(TD_INVALID_ARGUMENT,
                      "elements must agree in all dimensions but the first: "
                      "element %lld is of %s, those before it end with %s",
                      (long long)i, td_shape_str(s, &a),
                      td_shape_str(&rest, &b));
    td_tensor_set_i(lengths, i, s->dim[0]);
    if (__builtin_add_overflow(sum, s->dim[0], &sum))
      return td_error(TD_INVALID_ARGUMENT, "the lengths sum to over 2^63-1");
  }
  if (!td_shape_known(&rest))
    return td_error(TD_INVALID_ARGUMENT,
                    "there are no elements, and their shape but for the first "
                    "dimension, %s, is not known without them",
                    td_shape_str(&rest, &a));
  return stacked(&rest, sum, out);
}

td_status *td_parts_concat(td_kernel_ctx *c, const td_parts *p,
                           const td_shape *rest) {
  td_shape shape;
  int64_t *begin = NULL;
  TD_TRY(concat_shape(c, p, *rest, &shape));
  TD_TRY(begins(p, &begin));
  td_status *s = out_joined(c, 0, p, begin, &shape);
  td_free(begin);
  return s;
}

/* ---- cutting ------------------------------------------------------------- */

td_status *td_parts_row(const td_tensor *t, int64_t i, td_tensor *out) {
  td_tensor rows;
  td_shape each;
  TD_TRY(td_tensor_rows(t, i, 1, &rows));
  td_status *s = td_parts_rest(&rows.shape, &each);
  if (td_ok(s)) s = td_tensor_reshape(&rows, &each, out);
  td_tensor_release(&rows);
  return s;
}
