/* example_parse.c - from a table of what Examples have to tensors.
 *
 * The table says how many values there are and where each Example's belong, so
 * every output is made once, of its final size, and filled on several threads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/example_parse.h"

#include "engine/base/mem.h"
#include "kernels/array.h"
#include "kernels/cpu.h"
#include "kernels/example_table.h"
#include "kernels/text.h"

/* Where the values of a feature go. */
typedef struct target {
  char *numbers;     /* float32, int64 */
  td_tensor strings; /* or this */
  uint64_t *offsets;
  char *text;
  int64_t *indices;  /* of a sparse feature */
  td_tensor *splits; /* of a ragged one; NULL for a single Example */
} target;

typedef struct job {
  const td_example_table *table;
  target *to; /* of each feature */
  int lead;   /* 1 where outputs have an axis for Examples, else 0 */
} job;

/* ---- making outputs ------------------------------------------------------ */

/* Of all values of a feature. */
static td_status *values_shape(const job *j, const td_example_feature *f,
                               td_shape *out) {
  if (f->form != TD_EXAMPLE_DENSE) {
    *out = td_shape_vector(f->total);
    return NULL;
  }
  td_shape s = f->shape;
  if (f->rows) s.dim[0] = f->most / f->each;
  out->rank = s.rank + j->lead;
  TD_TRY(td_shape_check_rank(out->rank));
  if (j->lead) out->dim[0] = j->table->rows;
  for (int k = 0; k < s.rank; k++) out->dim[k + j->lead] = s.dim[k];
  return td_array_count(out, NULL);
}

static td_status *make_values(const job *j, const td_example_feature *f,
                              target *to) {
  td_kernel_ctx *c = j->table->ctx;
  td_shape shape;
  td_tensor *y;
  TD_TRY(values_shape(j, f, &shape));
  if (f->dtype == TD_STRING) {
    TD_TRY(td_array_fits(c, &shape));
    return td_tensor_strings_new(&shape, f->text, &to->strings, &to->offsets,
                                 &to->text);
  }
  TD_TRY(td_out(c, f->values, &shape, &y));
  to->numbers = y->data;
  return NULL;
}

static td_status *make_sparse(const job *j, const td_example_feature *f,
                              target *to) {
  td_kernel_ctx *c = j->table->ctx;
  td_shape pairs = td_shape_matrix(f->total, 1 + j->lead);
  td_shape sizes = td_shape_vector(1 + j->lead);
  td_tensor *y;
  TD_TRY(td_out(c, f->indices, &pairs, &y));
  to->indices = y->data;
  TD_TRY(td_out(c, f->shapes, &sizes, &y));
  if (j->lead) td_tensor_set_i(y, 0, j->table->rows);
  td_tensor_set_i(y, j->lead, f->most);
  return NULL;
}

static td_status *make_ragged(const job *j, const td_example_feature *f,
                              target *to) {
  td_kernel_ctx *c = j->table->ctx;
  td_shape shape = td_shape_vector(j->lead ? j->table->rows + 1 : 0);
  td_tensor *y;
  TD_TRY(td_out(c, f->splits, &shape, &y));
  if (y->dtype == TD_INT32 && f->total > INT32_MAX)
    return td_error(TD_INVALID_ARGUMENT,
                    "feature \"%.*s\" has %lld values: more than row splits "
                    "of int32 count",
                    td_text_shown(f->key), f->key.at, (long long)f->total);
  if (j->lead) to->splits = y;
  if (j->lead) td_tensor_set_i(y, 0, 0);
  return NULL;
}

static td_status *make_target(const job *j, const td_example_feature *f,
                              target *to) {
  TD_TRY(make_values(j, f, to));
  if (f->form == TD_EXAMPLE_SPARSE) return make_sparse(j, f, to);
  if (f->form == TD_EXAMPLE_RAGGED) return make_ragged(j, f, to);
  return NULL;
}

/* ---- filling them -------------------------------------------------------- */

/* n strings of `from`, one of them again and again where `step` is 0. */
static void preset_strings(const target *to, const td_tensor *from, int step,
                           int64_t at, int64_t n, size_t text_at) {
  char *text = to->text + text_at;
  for (int64_t i = 0; i < n; i++) {
    td_bytes s = td_text_at(from, i * step);
    if (s.len) memcpy(text, s.at, s.len);
    text += s.len;
    to->offsets[at + i + 1] = to->offsets[0] + (uint64_t)(text - to->text);
  }
}

static void preset_numbers(const target *to, const td_example_feature *f,
                           int64_t at, int64_t n) {
  size_t size = td_dtype_size(f->dtype);
  char *data = to->numbers + (size_t)at * size;
  if (!f->rows) {
    memcpy(data, f->preset->data, (size_t)n * size);
    return;
  }
  for (int64_t i = 0; i < n; i++)
    memcpy(data + (size_t)i * size, f->preset->data, size);
}

/* The elements [at, at + n) of a dense feature that an Example lacks. */
static void fill_preset(const target *to, const td_example_feature *f,
                        const td_example_cell *cell, int64_t at, int64_t n) {
  if (n == 0) return;
  if (f->dtype == TD_STRING)
    preset_strings(to, f->preset, !f->rows, at, n,
                   cell->text_at + cell->value.text);
  else
    preset_numbers(to, f, at, n);
}

static void put_values(const target *to, const td_example_cell *cell,
                       int64_t at) {
  const td_example_value *v = &cell->value;
  if (v->kind == TD_EXAMPLE_FLOATS)
    td_example_floats(v, (float *)to->numbers + at);
  if (v->kind == TD_EXAMPLE_INTS)
    td_example_ints(v, (int64_t *)to->numbers + at);
  if (v->kind == TD_EXAMPLE_BYTES)
    td_example_strings(v, to->text - to->offsets[0], to->text + cell->text_at,
                       to->offsets + at + 1);
}

static void put_indices(const job *j, int64_t *to, int64_t row, int64_t first,
                        int64_t n) {
  to += first * (1 + j->lead);
  for (int64_t i = 0; i < n; i++) {
    if (j->lead) *to++ = row;
    *to++ = i;
  }
}

static void fill_cell(const job *j, int64_t row, int feature) {
  const td_example_feature *f = &j->table->features[feature];
  const td_example_cell *cell = td_example_table_at(j->table, row, feature);
  const target *to = &j->to[feature];
  int64_t n = cell->value.count;
  if (f->form == TD_EXAMPLE_DENSE) {
    int64_t width = td_example_width(f);
    put_values(to, cell, row * width);
    fill_preset(to, f, cell, row * width + n, width - n);
    return;
  }
  put_values(to, cell, cell->first);
  if (to->indices) put_indices(j, to->indices, row, cell->first, n);
  if (to->splits) td_tensor_set_i(to->splits, row + 1, cell->first + n);
}

static void fill_rows(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  for (int64_t row = begin; row < end; row++)
    for (int f = 0; f < j->table->n; f++) fill_cell(j, row, f);
}

/* ---- the whole ----------------------------------------------------------- */

static void hand_out(const job *j) {
  for (int f = 0; f < j->table->n; f++)
    if (j->table->features[f].dtype == TD_STRING)
      td_out_set(j->table->ctx, j->table->features[f].values,
                 &j->to[f].strings);
}

static td_status *fill(job *j) {
  const td_example_table *t = j->table;
  td_status *s = NULL;
  for (int f = 0; td_ok(s) && f < t->n; f++)
    s = make_target(j, &t->features[f], &j->to[f]);
  if (!td_ok(s)) return s;
  td_for(t->ctx, t->rows, t->grain, fill_rows, j);
  TD_TRY(td_example_stopped(t->ctx));
  hand_out(j);
  return NULL;
}

td_status *td_example_check_batch(const td_tensor *in, const td_tensor *names) {
  td_shape_text a, b;
  if (in->shape.rank > 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "serialized must be a vector of Examples, or one, not of "
                    "shape %s",
                    td_shape_str(&in->shape, &a));
  if (!names || td_tensor_count(names) == 0 ||
      td_shape_equal(&in->shape, &names->shape))
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "names must be empty or of serialized's shape %s, not %s",
                  td_shape_str(&in->shape, &a),
                  td_shape_str(&names->shape, &b));
}

td_status *td_example_parse(td_kernel_ctx *c, const td_tensor *names,
                            td_example_feature *features, int n) {
  td_example_table t;
  TD_TRY(td_example_check_batch(td_in(c, 0), names));
  TD_TRY(td_example_table_make(&t, c, names, features, n));
  job j = {.table = &t, .lead = td_in(c, 0)->shape.rank};
  j.to = td_calloc((size_t)n + 1, sizeof *j.to);
  td_status *s = j.to ? fill(&j) : td_oom();
  for (int f = 0; j.to && f < n; f++) td_tensor_release(&j.to[f].strings);
  td_free(j.to);
  td_example_table_drop(&t);
  return s;
}
