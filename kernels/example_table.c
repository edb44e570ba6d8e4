/* example_table.c - finding features in Examples.
 *
 * An Example's entries come in any order and may be of keys that nobody wants:
 * each is looked for by its key's hash. Of two entries of one key the last
 * counts, but one without a list counts for nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/example_table.h"

#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "kernels/array.h"
#include "kernels/cpu.h"
#include "kernels/text.h"

/* ---- features by key ----------------------------------------------------- */

static bool same(td_bytes a, td_bytes b) {
  return a.len == b.len && memcmp(a.at, b.at, a.len) == 0;
}

/* The slot of a key: its feature's, or the empty one where it would be. */
static int32_t *slot_of(const td_example_table *t, td_bytes key) {
  uint64_t at = td_hash(key.at, key.len, td_hash_secret()) & t->mask;
  while (t->slots[at] && !same(t->features[t->slots[at] - 1].key, key))
    at = (at + 1) & t->mask;
  return &t->slots[at];
}

static td_status *index_keys(td_example_table *t) {
  uint32_t slots = 8;
  while (slots < 4 * (uint32_t)t->n) slots *= 2;
  t->slots = td_calloc(slots, sizeof *t->slots);
  if (!t->slots) return td_oom();
  t->mask = slots - 1;
  for (int f = 0; f < t->n; f++) {
    td_bytes key = t->features[f].key;
    int32_t *slot = slot_of(t, key);
    if (*slot)
      return td_error(TD_INVALID_ARGUMENT, "feature \"%.*s\" is wanted twice",
                      td_text_shown(key), key.at);
    *slot = f + 1;
  }
  return NULL;
}

/* ---- one Example --------------------------------------------------------- */

typedef enum fault {
  FINE,
  NO_EXAMPLE,  /* its bytes are broken */
  NO_FEATURE,  /* a feature's are */
  OTHER_KIND,  /* a list of another dtype */
  OTHER_COUNT, /* not as many values as the shape has */
  NO_ROWS,     /* values that are no whole number of rows */
  MISSING,
} fault;

td_example_kind td_example_kind_of(td_dtype t) {
  return t == TD_STRING    ? TD_EXAMPLE_BYTES
         : t == TD_FLOAT32 ? TD_EXAMPLE_FLOATS
                           : TD_EXAMPLE_INTS;
}

/* Which feature (by index + 1) an Example's entries were, one after the other:
 * the next one's are mostly the same. */
typedef struct order {
  int32_t entry[64];
} order;

static int32_t find(const td_example_table *t, order *o, uint32_t entry,
                    td_bytes key) {
  int32_t *last = &o->entry[entry % TD_COUNT(o->entry)];
  if (*last && same(t->features[*last - 1].key, key)) return *last;
  int32_t f = *slot_of(t, key);
  if (f) *last = f;
  return f;
}

static fault find_values(const td_example_table *t, int64_t row, order *o,
                         int *which) {
  td_example_reader r;
  uint32_t entry = 0;
  td_bytes key, feature;
  td_example_value v;
  td_example_open(&r, td_text_at(t->serialized, row), TD_EXAMPLE_FEATURES);
  while (td_example_next(&r, &key, &feature)) {
    int32_t f = find(t, o, entry++, key);
    if (!f) continue;
    *which = f - 1;
    if (!td_example_value_open(feature, &v)) return NO_FEATURE;
    if (v.kind) td_example_table_at(t, row, *which)->value = v;
  }
  return td_example_broken(&r) ? NO_EXAMPLE : FINE;
}

static bool has_preset(const td_example_feature *f) {
  return f->rows || td_tensor_count(f->preset) > 0;
}

static fault check_cell(const td_example_feature *f, td_example_cell *cell) {
  td_example_value *v = &cell->value;
  bool dense = f->form == TD_EXAMPLE_DENSE;
  if (!v->kind) return dense && !has_preset(f) ? MISSING : FINE;
  if (v->kind != td_example_kind_of(f->dtype)) return OTHER_KIND;
  if (!td_example_value_count(v)) return NO_FEATURE;
  if (!dense) return FINE;
  if (f->rows) return v->count % f->each ? NO_ROWS : FINE;
  return v->count == f->each ? FINE : OTHER_COUNT;
}

/* Fills a row; of a fault, *which is the feature. */
static fault read_row(const td_example_table *t, int64_t row, order *o,
                      int *which) {
  td_example_cell *cells = td_example_table_at(t, row, 0);
  for (int f = 0; f < t->n; f++) cells[f] = (td_example_cell){0};
  fault bad = find_values(t, row, o, which);
  for (int f = 0; !bad && f < t->n; f++) {
    *which = f;
    bad = check_cell(&t->features[f], &cells[f]);
  }
  return bad;
}

/* ---- what is wrong ------------------------------------------------------- */

void td_example_print_where(const td_tensor *serialized, const td_tensor *names,
                            int64_t row, td_str *out) {
  if (serialized->shape.rank == 0)
    td_str_add(out, "the example");
  else
    td_str_addf(out, "example %lld", (long long)row);
  if (!names || td_tensor_count(names) == 0) return;
  td_bytes name = td_text_at(names, row);
  td_str_addf(out, ", \"%.*s\"", td_text_shown(name), name.at);
}

const char *td_example_kind_name(td_example_kind kind) {
  return kind == TD_EXAMPLE_BYTES    ? "string"
         : kind == TD_EXAMPLE_FLOATS ? "float32"
                                     : "int64";
}

static void print_fault(const td_example_table *t, int64_t row, int which,
                        fault bad, td_str *out) {
  td_shape_text shape;
  td_example_print_where(t->serialized, t->names, row, out);
  if (bad == NO_EXAMPLE) {
    td_str_addf(out, ": its %zu bytes are no whole Example",
                td_text_at(t->serialized, row).len);
    return;
  }
  const td_example_feature *f = &t->features[which];
  const td_example_value *v = &td_example_table_at(t, row, which)->value;
  td_str_addf(out, ": feature \"%.*s\" ", td_text_shown(f->key), f->key.at);
  if (bad == NO_FEATURE) td_str_add(out, "is broken: its bytes end too early");
  if (bad == OTHER_KIND)
    td_str_addf(out, "has values of %s, not of %s",
                td_example_kind_name(v->kind), td_dtype_name(f->dtype));
  if (bad == OTHER_COUNT)
    td_str_addf(out, "has %lld value%s, and shape %s takes %lld",
                (long long)v->count, v->count == 1 ? "" : "s",
                td_shape_str(&f->shape, &shape), (long long)f->each);
  if (bad == NO_ROWS)
    td_str_addf(out, "has %lld value%s: in shape %s a row has %lld",
                (long long)v->count, v->count == 1 ? "" : "s",
                td_shape_str(&f->shape, &shape), (long long)f->each);
  if (bad == MISSING)
    td_str_addf(out, "(%s, shape %s) is missing, and has no default",
                td_dtype_name(f->dtype), td_shape_str(&f->shape, &shape));
}

static td_status *explain(const td_example_table *t, int64_t row) {
  int which = 0;
  td_str text = {0};
  order o = {0};
  fault bad = read_row(t, row, &o, &which);
  print_fault(t, row, which, bad, &text);
  td_status *s = text.failed
                     ? td_oom()
                     : td_error(TD_INVALID_ARGUMENT, "%s", td_str_c(&text));
  td_str_deinit(&text);
  return s;
}

/* ---- all rows ------------------------------------------------------------ */

void td_example_note_bad(int64_t *bad, int64_t row) {
  int64_t was = __atomic_load_n(bad, __ATOMIC_RELAXED);
  while (row < was)
    if (__atomic_compare_exchange_n(bad, &was, row, true, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED))
      return;
}

/* A piece ends at its first bad row: those behind it do not matter. */
static void read_rows(void *arg, int64_t begin, int64_t end) {
  td_example_table *t = arg;
  int which;
  order o = {0};
  for (int64_t row = begin; row < end; row++)
    if (read_row(t, row, &o, &which)) {
      td_example_note_bad(&t->bad, row);
      return;
    }
}

td_status *td_example_stopped(const td_kernel_ctx *c) {
  if (!td_stopped(c)) return NULL;
  return td_status_derive(td_error(TD_CANCELLED, "the step was cancelled"));
}

static td_status *read_all(td_example_table *t) {
  size_t bytes = td_tensor_bytes(t->serialized);
  int64_t each = t->rows ? (int64_t)(bytes / (size_t)t->rows) : 0;
  t->grain = td_grain_of(each + 32 * (int64_t)t->n);
  td_for(t->ctx, t->rows, t->grain, read_rows, t);
  TD_TRY(td_example_stopped(t->ctx));
  return t->bad < t->rows ? explain(t, t->bad) : NULL;
}

/* ---- sums ---------------------------------------------------------------- */

static size_t length_of(const td_tensor *t, int64_t i) {
  return td_text_at(t, i).len;
}

/* Bytes of strings that take the place of what a cell lacks. */
static bool preset_text(const td_example_feature *f, const td_example_value *v,
                        size_t *out) {
  *out = 0;
  if (f->form != TD_EXAMPLE_DENSE) return true;
  if (f->rows)
    return td_mul((size_t)(f->most - v->count), length_of(f->preset, 0), out);
  for (int64_t i = 0; !v->kind && i < f->each; i++)
    *out += length_of(f->preset, i);
  return true;
}

static td_status *sum_text(const td_example_table *t, int feature) {
  td_example_feature *f = &t->features[feature];
  size_t more;
  for (int64_t row = 0; row < t->rows; row++) {
    td_example_cell *cell = td_example_table_at(t, row, feature);
    cell->text_at = f->text;
    if (!preset_text(f, &cell->value, &more) ||
        !td_add(f->text, cell->value.text, &f->text) ||
        !td_add(f->text, more, &f->text))
      return td_error(TD_RESOURCE_EXHAUSTED,
                      "feature \"%.*s\": its strings and defaults together "
                      "are too long",
                      td_text_shown(f->key), f->key.at);
  }
  return NULL;
}

static td_status *sum(const td_example_table *t, int feature) {
  td_example_feature *f = &t->features[feature];
  f->total = f->most = 0;
  f->text = 0;
  for (int64_t row = 0; row < t->rows; row++) {
    td_example_cell *cell = td_example_table_at(t, row, feature);
    cell->first = f->total;
    f->total += cell->value.count;
    if (cell->value.count > f->most) f->most = cell->value.count;
  }
  return f->dtype == TD_STRING ? sum_text(t, feature) : NULL;
}

/* ---- making -------------------------------------------------------------- */

static td_status *make_cells(td_example_table *t) {
  td_shape shape = td_shape_of(
      3, (int64_t[]){t->rows, t->n, (int64_t)sizeof(td_example_cell)});
  int64_t count;
  TD_TRY(td_array_count(&shape, &count));
  TD_TRY(td_temp(t->ctx, TD_UINT8, &shape, &t->memory));
  t->cells = t->memory.data;
  return NULL;
}

td_status *td_example_table_make(td_example_table *t, td_kernel_ctx *c,
                                 const td_tensor *names,
                                 td_example_feature *features, int n) {
  const td_tensor *in = td_in(c, 0);
  *t = (td_example_table){.ctx = c,
                          .serialized = in,
                          .names = names,
                          .features = features,
                          .n = n,
                          .rows = td_tensor_count(in),
                          .bad = td_tensor_count(in)};
  td_status *s = index_keys(t);
  if (td_ok(s)) s = make_cells(t);
  if (td_ok(s)) s = read_all(t);
  for (int f = 0; td_ok(s) && f < n; f++) s = sum(t, f);
  if (!td_ok(s)) td_example_table_drop(t);
  return s;
}

void td_example_table_drop(td_example_table *t) {
  td_free(t->slots);
  td_tensor_release(&t->memory);
  *t = (td_example_table){0};
}
