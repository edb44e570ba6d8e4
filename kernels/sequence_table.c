/* sequence_table.c - finding lists in SequenceExamples.
 *
 * Of two entries of one key the last counts. A step without a list has no
 * values, whatever the dtype.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/sequence_table.h"

#include "kernels/array.h"
#include "kernels/cpu.h"
#include "kernels/example_table.h"
#include "kernels/text.h"

static td_status *index_keys(td_sequence_table *t) {
  for (int f = 0; f < t->n; f++) {
    td_bytes key = t->features[f].key;
    if (td_map_getn(&t->by_key, key.at, key.len))
      return td_error(TD_INVALID_ARGUMENT,
                      "feature list \"%.*s\" is wanted twice",
                      td_text_shown(key), key.at);
    if (!td_map_putn(&t->by_key, key.at, key.len, &t->features[f]))
      return td_oom();
  }
  return NULL;
}

/* ---- one SequenceExample ------------------------------------------------- */

typedef enum fault {
  FINE,
  NO_EXAMPLE,  /* its bytes are broken */
  NO_LIST,     /* a list's are */
  OTHER_KIND,  /* a step of another dtype */
  OTHER_COUNT, /* not as many values as the shape has */
  MISSING,
} fault;

/* Where a fault is, and what is there. */
typedef struct place {
  int feature;
  int64_t step, count;
  td_example_kind kind;
} place;

static fault find_lists(const td_sequence_table *t, int64_t row) {
  td_example_reader r;
  td_bytes key, list;
  td_example_open(&r, td_text_at(t->serialized, row), TD_EXAMPLE_LISTS);
  while (td_example_next(&r, &key, &list)) {
    const td_sequence_feature *f = td_map_getn(&t->by_key, key.at, key.len);
    if (f) td_sequence_table_at(t, row, (int)(f - t->features))->list = list;
  }
  return td_example_broken(&r) ? NO_EXAMPLE : FINE;
}

static fault count_step(const td_sequence_feature *f, td_bytes feature,
                        td_example_value *v) {
  if (!td_example_value_open(feature, v)) return NO_LIST;
  if (v->kind && v->kind != td_example_kind_of(f->dtype)) return OTHER_KIND;
  if (v->kind && !td_example_value_count(v)) return NO_LIST;
  bool dense = f->form == TD_EXAMPLE_DENSE;
  return dense && v->count != f->each ? OTHER_COUNT : FINE;
}

static fault count_list(const td_sequence_feature *f, td_sequence_cell *cell,
                        place *at) {
  td_wire list;
  td_bytes feature;
  td_example_value v;
  if (!cell->list.at)
    return f->form == TD_EXAMPLE_DENSE && !f->may_lack ? MISSING : FINE;
  td_example_list_open(&list, cell->list);
  for (; td_example_list_next(&list, &feature); cell->steps++) {
    fault bad = count_step(f, feature, &v);
    at->step = cell->steps;
    at->count = v.count;
    at->kind = v.kind;
    if (bad) return bad;
    cell->count += v.count;
    cell->text += v.text;
    if (v.count > cell->most) cell->most = v.count;
  }
  return td_example_list_broken(&list) ? NO_LIST : FINE;
}

/* Fills a row; of a fault, *at says where. */
static fault read_row(const td_sequence_table *t, int64_t row, place *at) {
  td_sequence_cell *cells = td_sequence_table_at(t, row, 0);
  for (int f = 0; f < t->n; f++) cells[f] = (td_sequence_cell){0};
  fault bad = find_lists(t, row);
  for (int f = 0; !bad && f < t->n; f++) {
    *at = (place){.feature = f};
    bad = count_list(&t->features[f], &cells[f], at);
  }
  return bad;
}

/* ---- what is wrong ------------------------------------------------------- */

static void print_fault(const td_sequence_table *t, int64_t row,
                        const place *at, fault bad, td_str *out) {
  td_shape_text shape;
  td_example_print_where(t->serialized, t->names, row, out);
  if (bad == NO_EXAMPLE) {
    td_str_addf(out, ": its %zu bytes are no whole SequenceExample",
                td_text_at(t->serialized, row).len);
    return;
  }
  const td_sequence_feature *f = &t->features[at->feature];
  td_str_addf(out, ": feature list \"%.*s\"", td_text_shown(f->key), f->key.at);
  if (bad == NO_LIST) td_str_add(out, " is broken: its bytes end too early");
  if (bad == OTHER_KIND)
    td_str_addf(out, ", step %lld: has values of %s, not of %s",
                (long long)at->step, td_example_kind_name(at->kind),
                td_dtype_name(f->dtype));
  if (bad == OTHER_COUNT)
    td_str_addf(out, ", step %lld: has %lld value%s, and shape %s takes %lld",
                (long long)at->step, (long long)at->count,
                at->count == 1 ? "" : "s", td_shape_str(&f->shape, &shape),
                (long long)f->each);
  if (bad == MISSING)
    td_str_addf(out,
                " (%s, shape %s) is missing, and is none that may be "
                "assumed empty",
                td_dtype_name(f->dtype), td_shape_str(&f->shape, &shape));
}

static td_status *explain(const td_sequence_table *t, int64_t row) {
  place at = {0};
  td_str text = {0};
  fault bad = read_row(t, row, &at);
  print_fault(t, row, &at, bad, &text);
  td_status *s = text.failed
                     ? td_oom()
                     : td_error(TD_INVALID_ARGUMENT, "%s", td_str_c(&text));
  td_str_deinit(&text);
  return s;
}

/* ---- all rows ------------------------------------------------------------ */

static void read_rows(void *arg, int64_t begin, int64_t end) {
  td_sequence_table *t = arg;
  place at;
  for (int64_t row = begin; row < end; row++)
    if (read_row(t, row, &at)) {
      td_example_note_bad(&t->bad, row);
      return;
    }
}

static td_status *read_all(td_sequence_table *t) {
  size_t bytes = td_tensor_bytes(t->serialized);
  int64_t each = t->rows ? (int64_t)(bytes / (size_t)t->rows) : 0;
  t->grain = td_grain_of(each + 32 * (int64_t)t->n);
  td_for(t->ctx, t->rows, t->grain, read_rows, t);
  TD_TRY(td_example_stopped(t->ctx));
  return t->bad < t->rows ? explain(t, t->bad) : NULL;
}

/* No sum is over the bytes of the batch. */
static void sum(const td_sequence_table *t, int feature) {
  td_sequence_feature *f = &t->features[feature];
  f->steps = f->most_steps = f->total = f->most = 0;
  f->text = 0;
  for (int64_t row = 0; row < t->rows; row++) {
    td_sequence_cell *cell = td_sequence_table_at(t, row, feature);
    cell->first_step = f->steps;
    cell->first = f->total;
    cell->text_at = f->text;
    f->steps += cell->steps;
    f->total += cell->count;
    f->text += cell->text;
    if (cell->steps > f->most_steps) f->most_steps = cell->steps;
    if (cell->most > f->most) f->most = cell->most;
  }
}

/* ---- making -------------------------------------------------------------- */

static td_status *make_cells(td_sequence_table *t) {
  td_shape shape = td_shape_of(
      3, (int64_t[]){t->rows, t->n, (int64_t)sizeof(td_sequence_cell)});
  int64_t count;
  TD_TRY(td_array_count(&shape, &count));
  TD_TRY(td_temp(t->ctx, TD_UINT8, &shape, &t->memory));
  t->cells = t->memory.data;
  return NULL;
}

td_status *td_sequence_table_make(td_sequence_table *t, td_kernel_ctx *c,
                                  const td_tensor *names,
                                  td_sequence_feature *features, int n) {
  const td_tensor *in = td_in(c, 0);
  *t = (td_sequence_table){.ctx = c,
                           .serialized = in,
                           .names = names,
                           .features = features,
                           .n = n,
                           .rows = td_tensor_count(in),
                           .bad = td_tensor_count(in)};
  td_map_init(&t->by_key);
  td_status *s = index_keys(t);
  if (td_ok(s)) s = make_cells(t);
  if (td_ok(s)) s = read_all(t);
  for (int f = 0; td_ok(s) && f < n; f++) sum(t, f);
  if (!td_ok(s)) td_sequence_table_drop(t);
  return s;
}

void td_sequence_table_drop(td_sequence_table *t) {
  td_map_deinit(&t->by_key);
  td_tensor_release(&t->memory);
  *t = (td_sequence_table){0};
}
