/* gradient_rows.c - gradients of some rows: brought into order, added, given;
 * see gradient.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "kernels/binary.h"
#include "kernels/gradient.h"

/* ---- rows in order ------------------------------------------------------- */

typedef struct place {
  int64_t index, at;
} place;

static int by_index(const void *x, const void *y) {
  const place *a = x, *b = y;
  if (a->index != b->index) return a->index < b->index ? -1 : 1;
  return a->at < b->at ? -1 : a->at > b->at;
}

static bool ascending(const td_tensor *indices) {
  const int64_t *at = indices->data;
  for (int64_t i = 1; i < indices->shape.dim[0]; i++)
    if (at[i] <= at[i - 1]) return false;
  return true;
}

/* `n` rows of the shape of those of `like`, and what goes with them. */
static td_status *make_rows(td_kernel_ctx *c, int64_t n, const td_tensor *like,
                            td_gradient *g) {
  td_allocator *host = c->kernel->device->host;
  td_shape vector = td_shape_vector(n), shape = like->shape;
  shape.dim[0] = n;
  TD_TRY(td_tensor_new(host, TD_INT64, &vector, &g->indices));
  TD_TRY(td_tensor_new(host, TD_INT64, &vector, &g->counts));
  return td_tensor_new(host, like->dtype, &shape, &g->values);
}

/* Bytes of a row. */
static size_t row_size(const td_tensor *t) {
  return t->shape.dim[0] ? td_tensor_bytes(t) / (size_t)t->shape.dim[0] : 0;
}

static void add_row(const td_tensor *like, char *to, const char *from,
                    size_t size) {
  int64_t n = (int64_t)(size / td_dtype_size(like->dtype));
  td_binary_apply(TD_BINARY_AddV2, like->dtype, td_cpu_isa(), n, to, from, to);
}

/* Rows of `from` in the order of `p`; those of one index added. */
static void gather(const place *p, int64_t n, const td_tensor *from,
                   td_gradient *g) {
  size_t size = row_size(from);
  int64_t *index = g->indices.data, to = -1;
  char *rows = g->values.data;
  for (int64_t i = 0; i < n; i++) {
    const char *row = (const char *)from->data + (size_t)p[i].at * size;
    bool next = i == 0 || p[i].index != p[i - 1].index;
    if (next) index[++to] = p[i].index;
    if (next && size) memcpy(rows + (size_t)to * size, row, size);
    if (!next && size) add_row(from, rows + (size_t)to * size, row, size);
  }
}

static td_status *sort_rows(td_kernel_ctx *c, const td_tensor *indices,
                            const td_tensor *values, td_gradient *g) {
  int64_t n = indices->shape.dim[0];
  place *p = td_calloc((size_t)n, sizeof *p);
  if (!p) return td_oom();
  const int64_t *index = indices->data;
  int64_t different = 0;
  for (int64_t i = 0; i < n; i++) p[i] = (place){index[i], i};
  qsort(p, (size_t)n, sizeof *p, by_index);
  for (int64_t i = 0; i < n; i++)
    different += i == 0 || p[i].index != p[i - 1].index;
  td_status *s = make_rows(c, different, values, g);
  if (td_ok(s)) gather(p, n, values, g);
  td_free(p);
  return s;
}

static td_status *keep_rows(td_kernel_ctx *c, const td_tensor *indices,
                            const td_tensor *values, td_gradient *g) {
  td_shape vector = indices->shape;
  td_tensor_retain(indices, &g->indices);
  td_tensor_retain(values, &g->values);
  return td_tensor_new(c->kernel->device->host, TD_INT64, &vector, &g->counts);
}

td_status *td_gradient_of_rows(td_kernel_ctx *c, const td_tensor *indices,
                               const td_tensor *values, td_gradient *g) {
  td_tensor wide;
  TD_TRY(td_gradient_widen(c, values, &wide));
  td_status *s = ascending(indices) ? keep_rows(c, indices, &wide, g)
                                    : sort_rows(c, indices, &wide, g);
  td_tensor_release(&wide);
  if (!td_ok(s)) return s;
  for (int64_t i = 0; i < g->counts.shape.dim[0]; i++)
    ((int64_t *)g->counts.data)[i] = 1;
  return NULL;
}

/* ---- sums ---------------------------------------------------------------- */

/* What goes on in a merge of x and y: their next rows. */
typedef struct walk {
  const td_gradient *x, *y;
  int64_t i, j, n, m;
} walk;

/* Which of them has the next row: 1: x, 2: y, 3: both; 0: none. */
static int next_row(const walk *w) {
  const int64_t *x = w->x->indices.data, *y = w->y->indices.data;
  if (w->i == w->n) return w->j < w->m ? 2 : 0;
  if (w->j == w->m || x[w->i] < y[w->j]) return 1;
  return x[w->i] == y[w->j] ? 3 : 2;
}

static walk walk_of(const td_gradient *x, const td_gradient *y) {
  return (walk){.x = x,
                .y = y,
                .n = x->indices.shape.dim[0],
                .m = y->indices.shape.dim[0]};
}

static int64_t count_rows(const td_gradient *x, const td_gradient *y) {
  walk w = walk_of(x, y);
  int64_t count = 0;
  for (int from; (from = next_row(&w)) != 0; count++) {
    w.i += from & 1;
    w.j += from >> 1;
  }
  return count;
}

static void write_rows(const td_gradient *x, const td_gradient *y,
                       td_gradient *z) {
  walk w = walk_of(x, y);
  size_t size = row_size(&z->values);
  const int64_t *nx = x->counts.data, *ny = y->counts.data;
  int64_t *index = z->indices.data, *count = z->counts.data, k = 0;
  for (int from; (from = next_row(&w)) != 0; k++) {
    const td_gradient *g = from & 1 ? x : y;
    int64_t at = from & 1 ? w.i : w.j;
    char *to = (char *)z->values.data + (size_t)k * size;
    index[k] = ((const int64_t *)g->indices.data)[at];
    count[k] = (from & 1 ? nx[w.i] : 0) + (from & 2 ? ny[w.j] : 0);
    if (size) memcpy(to, (char *)g->values.data + (size_t)at * size, size);
    if (size && from == 3)
      add_row(&z->values, to, (char *)y->values.data + (size_t)w.j * size,
              size);
    w.i += from & 1;
    w.j += from >> 1;
  }
}

td_status *td_gradient_add_rows(td_kernel_ctx *c, td_gradient *x,
                                const td_gradient *y) {
  td_gradient z = {.count = 0};
  td_status *s = make_rows(c, count_rows(x, y), &x->values, &z);
  if (td_ok(s)) write_rows(x, y, &z);
  td_gradient *old = td_ok(s) ? x : &z;
  td_tensor_release(&old->indices);
  td_tensor_release(&old->counts);
  td_tensor_release(&old->values);
  if (!td_ok(s)) return s;
  x->indices = z.indices;
  x->counts = z.counts;
  x->values = z.values;
  return NULL;
}

/* ---- taking -------------------------------------------------------------- */

td_status *td_gradient_out_rows(td_kernel_ctx *c, td_gradient *g, td_dtype t,
                                bool mean, int64_t rows) {
  td_shape s = g->values.shape, vector = td_shape_vector(s.rank);
  td_tensor *shape;
  TD_TRY(td_out(c, 2, &vector, &shape));
  for (int i = 0; i < s.rank; i++) td_tensor_set_i(shape, i, s.dim[i]);
  td_tensor_set_i(shape, 0, rows);
  TD_TRY(td_gradient_out(c, 1, t, &g->values, mean ? g->counts.data : NULL, 1));
  td_out_set(c, 0, &g->indices);
  return NULL;
}
