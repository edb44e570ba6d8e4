/* where.c - Where: the coordinates of the elements that are not zero.
 *
 * Two passes over fixed pieces: count, then write behind what the pieces before
 * have. The order is that of the elements, whatever the threads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cost.h"
#include "kernels/cpu.h"
#include "kernels/row_plans.h"

#include <string.h>

typedef struct where {
  const td_tensor *x;
  int64_t count, piece;
  int64_t *found; /* in each piece; then what lies before it */
  int64_t *to;
} where;

static td_status *no_scalar(void) {
  return td_error(TD_INVALID_ARGUMENT,
                  "input must be of rank 1 or more: a scalar has no "
                  "coordinates");
}

static td_status *where_infer(td_infer *c) {
  int rank = td_infer_in(c, 0)->rank;
  if (rank == 0) return no_scalar();
  td_infer_out(c, 0, td_shape_matrix(-1, rank));
  return NULL;
}

/* -0 is zero, NaN is not. */
static bool is_set(const td_tensor *x, int64_t i) {
  const char *at = (const char *)x->data + (size_t)i * td_dtype_size(x->dtype);
  float f[2];
  double d[2];
  uint16_t h;
  switch (x->dtype) {
  case TD_FLOAT32:
    memcpy(f, at, sizeof *f);
    return f[0] != 0;
  case TD_COMPLEX64:
    memcpy(f, at, sizeof f);
    return f[0] != 0 || f[1] != 0;
  case TD_FLOAT64:
    memcpy(d, at, sizeof *d);
    return d[0] != 0;
  case TD_COMPLEX128:
    memcpy(d, at, sizeof d);
    return d[0] != 0 || d[1] != 0;
  case TD_FLOAT16:
  case TD_BFLOAT16:
    memcpy(&h, at, sizeof h);
    return (h & 0x7fff) != 0;
  default:
    return td_tensor_get_i(x, i) != 0;
  }
}

static int64_t piece_end(const where *w, int64_t p) {
  int64_t end = (p + 1) * w->piece;
  return end < w->count ? end : w->count;
}

static void count_pieces(void *arg, int64_t begin, int64_t end) {
  const where *w = arg;
  for (int64_t p = begin; p < end; p++) {
    int64_t n = 0;
    for (int64_t i = p * w->piece; i < piece_end(w, p); i++)
      n += is_set(w->x, i);
    w->found[p] = n;
  }
}

static void write_pieces(void *arg, int64_t begin, int64_t end) {
  const where *w = arg;
  int rank = w->x->shape.rank;
  for (int64_t p = begin; p < end; p++) {
    int64_t *to = w->to + w->found[p] * rank;
    for (int64_t i = p * w->piece; i < piece_end(w, p); i++) {
      if (!is_set(w->x, i)) continue;
      int64_t rest = i;
      for (int k = rank - 1; k >= 0; k--) {
        to[k] = rest % w->x->shape.dim[k];
        rest /= w->x->shape.dim[k];
      }
      to += rank;
    }
  }
}

static td_status *where_find(td_kernel_ctx *c, where *w, int64_t pieces) {
  int64_t total = 0;
  td_tensor *y;
  td_for(c, pieces, 1, count_pieces, w);
  for (int64_t p = 0; p < pieces; p++) {
    int64_t n = w->found[p];
    w->found[p] = total;
    total += n;
  }
  td_shape shape = td_shape_matrix(total, w->x->shape.rank);
  TD_TRY(td_out(c, 0, &shape, &y));
  w->to = y->data;
  td_for(c, pieces, 1, write_pieces, w);
  return NULL;
}

td_status *td_where_check(const td_shape *s) {
  return s->rank == 0 ? no_scalar() : NULL;
}

static td_status *where_run(td_kernel_ctx *c) {
  where w = {.x = td_in(c, 0),
             .count = td_tensor_count(td_in(c, 0)),
             .piece = TD_GRAIN};
  TD_TRY(td_where_check(&w.x->shape));
  int64_t pieces = w.count / w.piece + (w.count % w.piece != 0);
  w.found = td_calloc((size_t)pieces, sizeof *w.found);
  if (!w.found) return td_oom();
  td_status *s = where_find(c, &w, pieces);
  td_free(w.found);
  return s;
}

static const td_op_def ops[] = {
    {.type = "Where",
     .sig = "input: T -> index: int64; T: {float, double, int32, uint8, "
            "int16, int8, complex64, int64, qint8, quint8, qint32, bfloat16, "
            "qint16, quint16, uint16, complex128, half, uint32, uint64, "
            "bool} = bool",
     .shape = where_infer,
     .cost = td_cost_move,
     .doc = "The coordinates of the elements that are true, or not zero: a "
            "row each, in order.",
     .lua = "",
     .flags = TD_NO_GRADIENT,
     .section = "Array"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Where", .device = "CPU", .run = where_run},
    {0},
};

TD_MODULE(where, ops, kernels)
