/* stage_rows.c - a source: the rows of tensors in memory.
 *
 * The order of an epoch is drawn from the seed and the epoch's number, so that
 * it can be drawn again when a state is restored. A row is a view.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/mem.h"
#include "engine/pipeline/stage.h"

typedef struct rows {
  td_stage base; /* first */
  td_tensor *columns;
  int64_t first, step, count;
  bool shuffle;
  uint64_t seed;
  int64_t *order;   /* of the rows of `order_of`; NULL: as they are */
  int64_t order_of; /* an epoch, -1: none */
} rows;

static bool draw_order(rows *r, int64_t epoch) {
  if (!r->shuffle || r->order_of == epoch) return true;
  if (!td_stage_order(r->seed, epoch, r->count, &r->order)) return false;
  r->order_of = epoch;
  return true;
}

/* A view of row i without its first dimension. */
static td_status *row_of(const td_tensor *t, int64_t i, td_tensor *out) {
  TD_TRY(td_tensor_rows(t, i, 1, out));
  for (int k = 1; k < out->shape.rank; k++)
    out->shape.dim[k - 1] = out->shape.dim[k];
  out->shape.rank--;
  return NULL;
}

static td_status *element_of(rows *r, int64_t i, td_element *e) {
  int64_t row = r->first + r->step * (r->order ? r->order[i] : i);
  TD_TRY(td_stage_element(&r->base, e));
  td_status *s = NULL;
  for (int k = 0; td_ok(s) && k < e->n; k++)
    s = row_of(&r->columns[k], row, &e->at[k]);
  if (!td_ok(s)) td_element_drop(e);
  return s;
}

static void put_next(rows *r) {
  td_stage *s = &r->base;
  td_element e = {0};
  if (td_stage_is_unwanted(s) || s->now.at[0] == r->count) {
    td_stage_put_end(s, td_stage_next_epoch(s));
    return;
  }
  td_status *st =
      draw_order(r, s->now.epoch) ? element_of(r, s->now.at[0], &e) : td_oom();
  s->now.at[0]++;
  if (td_ok(st))
    td_stage_put(s, e);
  else
    td_stage_put_error(s, st);
}

static bool rows_advance(td_stage *s) {
  bool changed = false;
  for (; td_stage_has_room(s); changed = true) put_next((rows *)s);
  return changed;
}

static td_status *rows_load(td_stage *s, const char **at, const char *end) {
  const rows *r = (const rows *)s;
  (void)at;
  (void)end;
  if (s->now.at[0] <= r->count) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "the state is behind row %lld, and there are %lld rows",
                  (long long)s->now.at[0], (long long)r->count);
}

static void rows_free(td_stage *s) {
  rows *r = (rows *)s;
  for (int i = 0; r->columns && i < s->n_columns; i++)
    td_tensor_release(&r->columns[i]);
  td_free(r->columns);
  td_free(r->order);
}

static const td_stage_kind rows_kind = {.name = "rows",
                                        .light = true,
                                        .advance = rows_advance,
                                        .load = rows_load,
                                        .free = rows_free};

/* ---- making one ---------------------------------------------------------- */

static td_status *check(const td_pipeline_rows *o) {
  td_shape_text text;
  if (o->n_columns < 1)
    return td_error(TD_INVALID_ARGUMENT, "a pipeline needs a column");
  if (o->first < 0 || o->step < 1)
    return td_error(TD_INVALID_ARGUMENT, "a shard is {i, n} with 0 <= i < n");
  for (int i = 0; i < o->n_columns; i++) {
    const td_tensor *t = &o->columns[i];
    if (!td_tensor_touchable(t) || t->shape.rank < 1)
      return td_error(TD_INVALID_ARGUMENT,
                      "column %d must be a tensor with rows, not %s %s", i,
                      td_dtype_name(t->dtype), td_shape_str(&t->shape, &text));
    if (t->shape.dim[0] != o->columns[0].shape.dim[0])
      return td_error(
          TD_INVALID_ARGUMENT, "column %d has %lld rows, column 0 has %lld", i,
          (long long)t->shape.dim[0], (long long)o->columns[0].shape.dim[0]);
  }
  return NULL;
}

static td_column column_of(const td_tensor *t) {
  td_column c = {t->dtype, t->shape};
  for (int k = 1; k < c.shape.rank; k++) c.shape.dim[k - 1] = c.shape.dim[k];
  c.shape.rank--;
  return c;
}

static td_status *fill(rows *r, const td_pipeline_rows *o) {
  int64_t n = o->columns[0].shape.dim[0];
  r->first = o->first;
  r->step = o->step;
  r->count = n > o->first ? (n - o->first - 1) / o->step + 1 : 0;
  r->shuffle = o->shuffle;
  r->seed = o->seed;
  r->order_of = -1;
  r->columns = td_calloc((size_t)o->n_columns, sizeof *r->columns);
  if (!r->columns) return td_oom();
  for (int i = 0; i < o->n_columns; i++)
    td_tensor_retain(&o->columns[i], &r->columns[i]);
  return NULL;
}

td_status *td_pipeline_from_rows(const td_pipeline_rows *o, td_pipeline **out) {
  td_pipeline *p = NULL;
  rows *r = NULL;
  TD_TRY(check(o));
  td_column *columns = td_calloc((size_t)o->n_columns, sizeof *columns);
  if (!columns) return td_oom();
  for (int i = 0; i < o->n_columns; i++) columns[i] = column_of(&o->columns[i]);
  td_status *s = td_pipeline_new(&p);
  if (td_ok(s))
    s = td_stage_add(p, &rows_kind, sizeof *r, columns, o->n_columns, &r);
  if (td_ok(s)) s = fill(r, o);
  td_free(columns);
  if (td_ok(s))
    *out = p;
  else
    td_pipeline_release(p);
  return s;
}
