/* sequence_parse.c - from a table of what SequenceExamples have to tensors.
 *
 * As example_parse.c: the table says where each list's values belong, so every
 * output is made once, of its final size, and filled on several threads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/sequence_parse.h"

#include "engine/base/mem.h"
#include "kernels/array.h"
#include "kernels/cpu.h"
#include "kernels/example_table.h"
#include "kernels/sequence_table.h"
#include "kernels/text.h"

/* Where the values of a list go. */
typedef struct target {
  char *numbers;     /* float32, int64 */
  td_tensor strings; /* or this */
  uint64_t *offsets;
  char *text;
  int64_t *indices;         /* of a sparse list */
  int64_t *lengths;         /* of a dense one, or NULL */
  td_tensor *outer, *inner; /* splits of a ragged one; outer is NULL for a
                               single SequenceExample */
} target;

typedef struct job {
  const td_sequence_table *table;
  target *to; /* of each list */
  int lead;   /* 1 where outputs have an axis for SequenceExamples, else 0 */
} job;

/* ---- making outputs ------------------------------------------------------ */

static td_status *values_shape(const job *j, const td_sequence_feature *f,
                               td_shape *out) {
  if (f->form != TD_EXAMPLE_DENSE) {
    *out = td_shape_vector(f->total);
    return NULL;
  }
  int rank = 0;
  out->rank = f->shape.rank + 1 + j->lead;
  TD_TRY(td_shape_check_rank(out->rank));
  if (j->lead) out->dim[rank++] = j->table->rows;
  out->dim[rank++] = f->most_steps;
  for (int k = 0; k < f->shape.rank; k++) out->dim[rank++] = f->shape.dim[k];
  return td_array_count(out, NULL);
}

static td_status *make_values(const job *j, const td_sequence_feature *f,
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

static td_status *make_lengths(const job *j, const td_sequence_feature *f,
                               target *to) {
  td_shape shape =
      j->lead ? td_shape_vector(j->table->rows) : td_shape_scalar();
  td_tensor *y;
  if (f->lengths < 0) return NULL;
  TD_TRY(td_out(j->table->ctx, f->lengths, &shape, &y));
  to->lengths = y->data;
  return NULL;
}

static td_status *make_sparse(const job *j, const td_sequence_feature *f,
                              target *to) {
  td_kernel_ctx *c = j->table->ctx;
  td_shape places = td_shape_matrix(f->total, 2 + j->lead);
  td_shape sizes = td_shape_vector(2 + j->lead);
  td_tensor *y;
  TD_TRY(td_array_count(&places, NULL));
  TD_TRY(td_out(c, f->indices, &places, &y));
  to->indices = y->data;
  TD_TRY(td_out(c, f->shapes, &sizes, &y));
  if (j->lead) td_tensor_set_i(y, 0, j->table->rows);
  td_tensor_set_i(y, j->lead, f->most_steps);
  td_tensor_set_i(y, j->lead + 1, f->most);
  return NULL;
}

static td_status *make_ragged(const job *j, const td_sequence_feature *f,
                              target *to) {
  td_kernel_ctx *c = j->table->ctx;
  td_shape outer = td_shape_vector(j->lead ? j->table->rows + 1 : 0);
  td_shape inner = td_shape_vector(f->steps + 1);
  td_tensor *y;
  TD_TRY(td_out(c, f->outer, &outer, &y));
  TD_TRY(td_out(c, f->inner, &inner, &to->inner));
  if (y->dtype == TD_INT32 && (f->total > INT32_MAX || f->steps > INT32_MAX))
    return td_error(TD_INVALID_ARGUMENT,
                    "feature list \"%.*s\" has %lld values in %lld steps: more "
                    "than row splits of int32 count",
                    td_text_shown(f->key), f->key.at, (long long)f->total,
                    (long long)f->steps);
  if (j->lead) to->outer = y;
  if (j->lead) td_tensor_set_i(y, 0, 0);
  td_tensor_set_i(to->inner, 0, 0);
  return NULL;
}

static td_status *make_target(const job *j, const td_sequence_feature *f,
                              target *to) {
  TD_TRY(make_values(j, f, to));
  if (f->form == TD_EXAMPLE_SPARSE) return make_sparse(j, f, to);
  if (f->form == TD_EXAMPLE_RAGGED) return make_ragged(j, f, to);
  return make_lengths(j, f, to);
}

/* ---- filling them -------------------------------------------------------- */

/* The values of a step, from element `at` and byte `text_at` on. */
static void put_values(const target *to, const td_example_value *v, int64_t at,
                       size_t text_at) {
  if (v->kind == TD_EXAMPLE_FLOATS)
    td_example_floats(v, (float *)to->numbers + at);
  if (v->kind == TD_EXAMPLE_INTS)
    td_example_ints(v, (int64_t *)to->numbers + at);
  if (v->kind == TD_EXAMPLE_BYTES)
    td_example_strings(v, to->text - to->offsets[0], to->text + text_at,
                       to->offsets + at + 1);
}

static void put_indices(const job *j, int64_t *to, int64_t row, int64_t step,
                        int64_t first, int64_t n) {
  to += first * (2 + j->lead);
  for (int64_t i = 0; i < n; i++) {
    if (j->lead) *to++ = row;
    *to++ = step;
    *to++ = i;
  }
}

/* Zeros or empty strings for the elements [at, at + n). */
static void fill_up(const target *to, const td_sequence_feature *f, int64_t at,
                    int64_t n, size_t text_at) {
  size_t size = td_dtype_size(f->dtype);
  if (n == 0) return;
  if (f->dtype != TD_STRING) {
    memset(to->numbers + (size_t)at * size, 0, (size_t)n * size);
    return;
  }
  for (int64_t i = 0; i < n; i++)
    to->offsets[at + i + 1] = to->offsets[0] + text_at;
}

/* The table found every list whole. */
static void fill_cell(const job *j, int64_t row, int feature) {
  const td_sequence_feature *f = &j->table->features[feature];
  const td_sequence_cell *cell = td_sequence_table_at(j->table, row, feature);
  const target *to = &j->to[feature];
  int64_t width = f->most_steps * f->each;
  int64_t at = f->form == TD_EXAMPLE_DENSE ? row * width : cell->first;
  size_t text_at = cell->text_at;
  td_wire list;
  td_bytes bytes;
  td_example_value v;
  td_example_list_open(&list, cell->list);
  for (int64_t step = 0; td_example_list_next(&list, &bytes); step++) {
    (void)(td_example_value_open(bytes, &v) && td_example_value_count(&v));
    put_values(to, &v, at, text_at);
    if (to->indices) put_indices(j, to->indices, row, step, at, v.count);
    at += v.count;
    text_at += v.text;
    if (to->inner) td_tensor_set_i(to->inner, cell->first_step + step + 1, at);
  }
  if (to->outer)
    td_tensor_set_i(to->outer, row + 1, cell->first_step + cell->steps);
  if (to->lengths) to->lengths[row] = cell->steps;
  if (f->form == TD_EXAMPLE_DENSE)
    fill_up(to, f, at, width - cell->count, text_at);
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
  const td_sequence_table *t = j->table;
  td_status *s = NULL;
  for (int f = 0; td_ok(s) && f < t->n; f++)
    s = make_target(j, &t->features[f], &j->to[f]);
  if (!td_ok(s)) return s;
  td_for(t->ctx, t->rows, t->grain, fill_rows, j);
  TD_TRY(td_example_stopped(t->ctx));
  hand_out(j);
  return NULL;
}

td_status *td_sequence_parse(td_kernel_ctx *c, const td_tensor *names,
                             td_sequence_feature *features, int n) {
  td_sequence_table t;
  TD_TRY(td_example_check_batch(td_in(c, 0), names));
  TD_TRY(td_sequence_table_make(&t, c, names, features, n));
  job j = {.table = &t, .lead = td_in(c, 0)->shape.rank};
  j.to = td_calloc((size_t)n + 1, sizeof *j.to);
  td_status *s = j.to ? fill(&j) : td_oom();
  for (int f = 0; j.to && f < n; f++) td_tensor_release(&j.to[f].strings);
  td_free(j.to);
  td_sequence_table_drop(&t);
  return s;
}
