/* queue_batch.c - tuples side by side, as a batch, and padded where they
 * differ.
 *
 * A padding queue says -1 of sizes that differ: there a batch is as large as
 * the largest of its tuples, the rest of the others zeros.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/array.h"
#include "kernels/parts.h"
#include "kernels/queue.h"

static void pad_into(char *to, const td_shape *room, const char *from,
                     const td_shape *s, int axis, size_t size) {
  size_t here = (size_t)td_shape_span(s, axis, s->rank) * size;
  if (axis == s->rank || memcmp(&s->dim[axis], &room->dim[axis],
                                (size_t)(s->rank - axis) * 8) == 0) {
    if (here) memcpy(to, from, here);
    return;
  }
  size_t out = (size_t)td_shape_span(room, axis + 1, room->rank) * size;
  size_t in = (size_t)td_shape_span(s, axis + 1, s->rank) * size;
  for (int64_t i = 0; i < s->dim[axis]; i++)
    pad_into(to + (size_t)i * out, room, from + (size_t)i * in, s, axis + 1,
             size);
}

/* The least shape that all parts fit into, where the queue says -1. */
static td_status *room_for(const td_parts *p, const td_shape *said,
                           td_shape *out) {
  *out = *said;
  for (int k = 0; k < out->rank; k++)
    if (out->dim[k] < 0) {
      out->dim[k] = 0;
      for (int64_t i = 0; i < p->n; i++)
        if (p->at[i].shape.dim[k] > out->dim[k])
          out->dim[k] = p->at[i].shape.dim[k];
    }
  if (out->rank < TD_MAX_RANK) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "components of rank %d have no room for another dimension",
                  out->rank);
}

static td_status *stack_padded(td_kernel_ctx *c, int i, const td_parts *p,
                               const td_shape *said) {
  td_shape each, shape;
  td_array y, x;
  int64_t count;
  TD_TRY(room_for(p, said, &each));
  shape = each;
  shape.rank++;
  shape.dim[0] = p->n;
  for (int k = 0; k < each.rank; k++) shape.dim[k + 1] = each.dim[k];
  TD_TRY(td_array_count(&shape, &count));
  TD_TRY(td_array_out(c, i, &shape, &y));
  size_t row = p->n ? (size_t)(count / p->n) * y.size : 0;
  if (count) memset(y.at, 0, (size_t)count * y.size);
  td_status *s = NULL;
  for (int64_t k = 0; td_ok(s) && k < p->n; k++) {
    s = td_array_in(&p->at[k], &x);
    if (!td_ok(s)) break;
    pad_into(y.at + (size_t)k * row, &each, x.at, &x.shape, 0, y.size);
    td_array_drop(&x);
  }
  if (td_ok(s)) s = td_array_done(c, i, &y);
  td_array_drop(&y);
  return s;
}

td_status *td_queue_stack(td_kernel_ctx *c, int i, const td_queue *q,
                          td_tuple *const *at, int64_t n) {
  td_parts p;
  TD_TRY(td_parts_init(&p, n));
  for (; p.n < n; p.n++) td_tensor_retain(&at[p.n]->at[i], &p.at[p.n]);
  td_status *s = q->kind->pads ? stack_padded(c, i, &p, &q->shapes[i])
                               : td_parts_stack(c, i, &p, q->shapes[i]);
  td_parts_drop(&p);
  return s;
}
