/* recurrent.c - what the fused recurrent cells share.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/recurrent.h"

#include <stdio.h>
#include <string.h>

#include "kernels/array.h"
#include "kernels/blas/gemm.h"
#include "kernels/simd/half.h"
#include "kernels/half_copy.h"

/* ---- sizes --------------------------------------------------------------- */

static int64_t times_of(int64_t cells, int64_t many) {
  int64_t n;
  if (cells < 0) return -1;
  return __builtin_mul_overflow(cells, many, &n) ? INT64_MAX : n;
}

static int64_t size_of(const td_recurrent_sizes *z, char letter) {
  int64_t n;
  switch (letter) {
  case 'T':
    return z->times;
  case 'B':
    return z->batch;
  case 'I':
    return z->inputs;
  case 'N':
    return z->cells;
  case 'S':
    if (z->inputs < 0 || z->cells < 0) return -1;
    return __builtin_add_overflow(z->inputs, z->cells, &n) ? INT64_MAX : n;
  default:
    return times_of(z->cells, letter - '0');
  }
}

static const char *name_of(char letter) {
  switch (letter) {
  case 'T':
    return "times";
  case 'B':
    return "batch";
  case 'I':
    return "inputs";
  case 'N':
    return "cells";
  case 'S':
    return "inputs + cells";
  default:
    return letter == '2' ? "2 cells" : "4 cells";
  }
}

td_shape td_recurrent_shape(const td_recurrent_sizes *z, const char *dims) {
  td_shape s = td_shape_ranked((int)strlen(dims));
  for (int i = 0; dims[i]; i++) s.dim[i] = size_of(z, dims[i]);
  return s;
}

static void learn(td_recurrent_sizes *z, const char *dims, const td_shape *s) {
  for (int i = 0; dims[i] && s->rank >= 0; i++) {
    if (s->dim[i] < 0) continue;
    if (dims[i] == 'T') z->times = s->dim[i];
    if (dims[i] == 'B') z->batch = s->dim[i];
    if (dims[i] == 'I') z->inputs = s->dim[i];
    if (dims[i] == 'N') z->cells = s->dim[i];
  }
}

static td_status *misfit(const td_recurrent_arg *arg, const td_shape *want,
                         const td_shape *given) {
  td_shape_text a, b;
  char names[64] = "a scalar";
  size_t at = 0;
  for (int i = 0; arg->dims[i]; i++)
    at += (size_t)snprintf(names + at, sizeof names - at, "%s%s",
                           i > 0 ? ", " : "{", name_of(arg->dims[i]));
  if (at > 0) snprintf(names + at, sizeof names - at, "}");
  return td_error(TD_INVALID_ARGUMENT, "%s must be %s, here %s, not %s",
                  arg->name, names, td_shape_str(want, &a),
                  td_shape_str(given, &b));
}

/* Twice, because sizes learned late say what earlier operands must be. */
static td_status *check(const td_recurrent_arg *args,
                        const td_shape *const *shapes, td_recurrent_sizes *z) {
  *z = (td_recurrent_sizes){-1, -1, -1, -1};
  for (int round = 0; round < 2; round++)
    for (int i = 0; args[i].name; i++) {
      td_shape want = td_recurrent_shape(z, args[i].dims);
      if (!td_shape_compatible(shapes[i], &want))
        return misfit(&args[i], &want, shapes[i]);
      learn(z, args[i].dims, shapes[i]);
    }
  return NULL;
}

td_status *td_recurrent_infer(td_infer *c, const td_recurrent_arg *args,
                              const char *const *outs) {
  const td_shape *shapes[TD_RECURRENT_ARGS];
  td_recurrent_sizes z;
  for (int i = 0; args[i].name; i++) shapes[i] = td_infer_in(c, i);
  TD_TRY(check(args, shapes, &z));
  for (int i = 0; outs[i]; i++)
    td_infer_out(c, i, td_recurrent_shape(&z, outs[i]));
  return NULL;
}

td_status *td_recurrent_check(const td_kernel_ctx *c,
                              const td_recurrent_arg *args,
                              td_recurrent_sizes *z) {
  const td_shape *shapes[TD_RECURRENT_ARGS];
  for (int i = 0; args[i].name; i++) shapes[i] = &td_in(c, i)->shape;
  return check(args, shapes, z);
}

/* ---- running ------------------------------------------------------------- */

static td_status *take_in(td_recurrent *r, int i) {
  const td_tensor *t = td_in(r->c, i);
  if (td_is_half(t->dtype)) return td_half_copy_widen(r->c, t, &r->in[i]);
  td_tensor_retain(t, &r->in[i]);
  return NULL;
}

static td_status *make_out(td_recurrent *r, int i, const td_shape *shape) {
  td_tensor *t;
  TD_TRY(td_array_count(shape, NULL));
  TD_TRY(td_out(r->c, i, shape, &t));
  if (td_is_half(t->dtype)) return td_temp(r->c, TD_FLOAT32, shape, &r->out[i]);
  td_tensor_retain(t, &r->out[i]);
  return NULL;
}

double td_recurrent_flops(const td_infer *c, int x, int w) {
  double columns = td_infer_size(td_infer_in(c, x), -1);
  double rows = columns > 0 ? td_infer_in_count(c, x) / columns : 0 * columns;
  return 2 * rows * td_infer_in_count(c, w);
}

td_status *td_recurrent_begin(td_kernel_ctx *c, const td_recurrent_arg *args,
                              const char *const *outs, td_recurrent *r) {
  *r = (td_recurrent){.c = c};
  TD_TRY(td_recurrent_check(c, args, &r->sizes));
  for (; args[r->n_in].name; r->n_in++) TD_TRY(take_in(r, r->n_in));
  for (; outs[r->n_out]; r->n_out++) {
    td_shape shape = td_recurrent_shape(&r->sizes, outs[r->n_out]);
    TD_TRY(make_out(r, r->n_out, &shape));
  }
  return NULL;
}

td_status *td_recurrent_end(td_recurrent *r, td_status *s) {
  for (int i = 0; i < r->n_out && td_ok(s); i++)
    if (td_is_half(r->c->out[i].dtype))
      td_half_copy_narrow(r->c, r->out[i].data, &r->c->out[i]);
  for (int i = 0; i < TD_RECURRENT_ARGS; i++) td_tensor_release(&r->in[i]);
  for (size_t i = 0; i < TD_COUNT(r->out); i++) td_tensor_release(&r->out[i]);
  return s;
}

td_status *td_recurrent_temp(td_recurrent *r, int64_t rows, int64_t columns,
                             td_tensor *t) {
  td_shape shape = td_shape_matrix(rows, columns);
  TD_TRY(td_array_count(&shape, NULL));
  return td_temp(r->c, TD_FLOAT32, &shape, t);
}

td_status *td_recurrent_product(td_recurrent *r, int64_t m, int64_t n,
                                int64_t k, const float *from, const float *w,
                                bool transposed, float *to) {
  td_product p = {.dtype = TD_FLOAT32,
                  .m = m,
                  .n = n,
                  .k = k,
                  .a = from,
                  .b = w,
                  .c = to,
                  .lda = k,
                  .ldb = transposed ? k : n,
                  .ldc = n,
                  .trans_b = transposed};
  return m == 0 || n == 0 ? NULL : td_gemm(r->c, &p, 1, NULL);
}
