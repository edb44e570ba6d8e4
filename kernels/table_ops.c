/* table_ops.c - what is done with a lookup table: InitializeTableV2,
 * LookupTableFindV2, LookupTableInsertV2, ...
 *
 * Finding holds the table's lock shared, and many threads share the keys of one
 * look-up; what changes a table holds it alone. A batch of keys is hashed, then
 * looked for, so that memory is waited for once and not for each key.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/array.h"
#include "kernels/cost.h"
#include "kernels/table.h"

enum { GRAIN = 4096 }; /* keys that a thread looks up at a time */

static td_status *not_ready(const td_table *t) {
  return td_error(TD_FAILED_PRECONDITION,
                  "table %s is not initialized: run sess:init() or its "
                  "initializer first",
                  td_table_name(t));
}

/* ---- LookupTableFindV2 --------------------------------------------------- */

typedef struct finding {
  const td_table *t;
  const td_tensor *keys;
  td_array missing; /* the value of keys that are not there ... */
  bool each;        /* ... of every key one */
  td_array y;
  size_t size;  /* of a value in `missing` and `y` */
  int32_t used; /* atomic: a mark was among the keys */
} finding;

/* The probe of up to a batch of keys from `first` on, its first step done. */
static void begin(finding *f, int64_t first, int64_t end, td_table_probe *p) {
  p->n = end - first < TD_TABLE_BATCH ? (int)(end - first) : TD_TABLE_BATCH;
  if (p->n <= 0) p->n = 0;
  if (!td_table_keys(f->t, f->keys, first, p->n, p->key))
    __atomic_store_n(&f->used, 1, __ATOMIC_RELAXED);
  td_table_probe_slots(&f->t->map, p);
}

/* Its last step, and the values. */
static void finish(finding *f, int64_t first, td_table_probe *p) {
  td_table_probe_settle(&f->t->map, p);
  for (int i = 0; i < p->n; i++) {
    size_t at = (size_t)(first + i) * f->size;
    if (p->entry[i] != TD_TABLE_NONE)
      td_table_map_get(&f->t->map, p->entry[i], f->y.at + at);
    else if (f->size)
      memcpy(f->y.at + at, f->missing.at + (f->each ? at : 0), f->size);
  }
}

/* Three probes are on their way, each a step ahead of the next. */
static void find_some(void *arg, int64_t first, int64_t end) {
  finding *f = arg;
  td_table_probe ring[3];
  begin(f, first, end, &ring[0]);
  begin(f, first + TD_TABLE_BATCH, end, &ring[1]);
  td_table_probe_records(&f->t->map, &ring[0]);
  for (int k = 0; first < end; first += TD_TABLE_BATCH, k = (k + 1) % 3) {
    begin(f, first + 2 * TD_TABLE_BATCH, end, &ring[(k + 2) % 3]);
    td_table_probe_records(&f->t->map, &ring[(k + 1) % 3]);
    finish(f, first, &ring[k]);
  }
}

static td_status *check_default(const td_table *t, const td_tensor *d,
                                const td_shape *values, bool *each) {
  td_shape_text have, one, all;
  *each = !td_shape_equal(&d->shape, &t->value_shape);
  if (!*each || td_shape_equal(&d->shape, values)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "default_value must have shape %s, or %s with one for each "
                  "key, not %s",
                  td_shape_str(&t->value_shape, &one),
                  td_shape_str(values, &all), td_shape_str(&d->shape, &have));
}

static td_status *find_all(td_kernel_ctx *c, finding *f, int64_t n) {
  f->size = f->t->map.value_n * f->y.size;
  td_for(c, n, GRAIN, find_some, f);
  if (f->used) return td_table_mark_used(f->t);
  return td_array_done(c, 0, &f->y);
}

static td_status *find_run(td_kernel_ctx *c) {
  td_table *t;
  td_shape rows, shape;
  finding f = {.keys = td_in(c, 1)};
  const td_tensor *d = td_in(c, 2);
  TD_TRY(td_table_in(c, &t));
  TD_TRY(td_table_check_dtypes(t, f.keys->dtype, d->dtype));
  TD_TRY(td_table_check_keys(t, f.keys, &rows));
  if (t->of->once && !t->ready) return not_ready(t);
  TD_TRY(td_table_value_shape(t, &rows, &shape));
  TD_TRY(check_default(t, d, &shape, &f.each));
  f.t = t;
  TD_TRY(td_array_in(d, &f.missing));
  td_status *s = td_array_out(c, 0, &shape, &f.y);
  if (td_ok(s)) s = find_all(c, &f, td_shape_count(&rows));
  td_array_drop(&f.y);
  td_array_drop(&f.missing);
  return s;
}

/* ---- keys with values ---------------------------------------------------- */

/* Inputs 1 and 2. */
typedef struct pairs {
  td_table *t;
  const td_tensor *keys;
  td_array values;
  size_t size; /* of a value */
  int64_t n;
} pairs;

/* Ends with td_array_drop of the values. */
static td_status *pairs_in(td_kernel_ctx *c, td_table *t, pairs *p) {
  td_shape rows, want;
  td_shape_text have, should;
  const td_tensor *v = td_in(c, 2);
  *p = (pairs){.t = t, .keys = td_in(c, 1)};
  TD_TRY(td_table_check_dtypes(t, p->keys->dtype, v->dtype));
  TD_TRY(td_table_check_keys(t, p->keys, &rows));
  TD_TRY(td_table_value_shape(t, &rows, &want));
  if (!td_shape_equal(&want, &v->shape))
    return td_error(TD_INVALID_ARGUMENT,
                    "values must be of shape %s, one for each key, not of %s",
                    td_shape_str(&want, &should),
                    td_shape_str(&v->shape, &have));
  p->n = td_shape_count(&rows);
  TD_TRY(td_array_in(v, &p->values));
  p->size = t->map.value_n * p->values.size;
  return NULL;
}

static const void *value_at(const pairs *p, int64_t i) {
  return p->values.at + (size_t)i * p->size;
}

typedef td_status *(*batch_fn)(const pairs *p, td_table_map *m, int64_t first,
                               td_table_probe *probe);

/* Calls `fn` for all keys, a batch at a time. */
static td_status *each_batch(const pairs *p, td_table_map *m, batch_fn fn) {
  td_table_probe probe;
  for (int64_t i = 0; i < p->n; i += TD_TABLE_BATCH) {
    probe.n = p->n - i < TD_TABLE_BATCH ? (int)(p->n - i) : TD_TABLE_BATCH;
    if (!td_table_keys(p->t, p->keys, i, probe.n, probe.key))
      return td_table_mark_used(p->t);
    TD_TRY(fn(p, m, i, &probe));
  }
  return NULL;
}

static td_status *put_batch(const pairs *p, td_table_map *m, int64_t first,
                            td_table_probe *probe) {
  td_table_map_find_many(m, probe);
  for (int i = 0; i < probe->n; i++) /* an earlier one may have added the key */
    TD_TRY(probe->entry[i] == TD_TABLE_NONE
               ? td_table_map_put(m, &probe->key[i], value_at(p, first + i))
               : td_table_map_set(m, probe->entry[i], value_at(p, first + i)));
  return NULL;
}

static td_status *add_batch(const pairs *p, td_table_map *m, int64_t first,
                            td_table_probe *probe) {
  td_table_probe_slots(m, probe);
  for (int i = 0; i < probe->n; i++)
    TD_TRY(td_table_add_once(m, &probe->key[i], value_at(p, first + i)));
  return NULL;
}

/* What was exported of a dense table in TensorFlow has its marks in it. */
static td_status *put_unmarked(const pairs *p, td_table_map *m) {
  for (int64_t i = 0; i < p->n; i++) {
    td_table_key key;
    if (td_table_keys(p->t, p->keys, i, 1, &key))
      TD_TRY(td_table_map_put(m, &key, value_at(p, i)));
  }
  return NULL;
}

/* ---- InitializeTableV2, LookupTableImportV2, LookupTableInsertV2 ----------
 */

static td_status *initialize(td_kernel_ctx *c, td_table *t) {
  pairs p;
  td_table_map m;
  td_shape_text text;
  if (td_in(c, 1)->shape.rank != 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "keys must be a vector, not of shape %s",
                    td_shape_str(&td_in(c, 1)->shape, &text));
  TD_TRY(pairs_in(c, t, &p));
  td_status *s = NULL;
  if (p.n == 0)
    s = td_error(TD_INVALID_ARGUMENT, "keys and values must not be empty");
  if (td_ok(s)) s = td_table_fresh(t, &m);
  if (td_ok(s)) {
    s = td_table_map_reserve(&m, (size_t)p.n);
    if (td_ok(s)) s = each_batch(&p, &m, add_batch);
    if (td_ok(s))
      s = td_table_adopt(t, &m);
    else
      td_table_map_deinit(&m);
  }
  td_array_drop(&p.values);
  return s;
}

static td_status *initialize_run(td_kernel_ctx *c) {
  td_table *t;
  TD_TRY(td_table_in(c, &t));
  TD_TRY(td_table_initializable(t));
  return initialize(c, t);
}

static td_status *replace(td_kernel_ctx *c, td_table *t) {
  pairs p;
  td_table_map m;
  TD_TRY(pairs_in(c, t, &p));
  td_status *s = td_table_fresh(t, &m);
  if (td_ok(s))
    s = t->of->marked ? put_unmarked(&p, &m) : each_batch(&p, &m, put_batch);
  if (td_ok(s)) {
    td_table_map_deinit(&t->map);
    t->map = m;
  } else {
    td_table_map_deinit(&m);
  }
  td_array_drop(&p.values);
  return s;
}

static td_status *import_run(td_kernel_ctx *c) {
  td_table *t;
  TD_TRY(td_table_in(c, &t));
  return t->of->once ? initialize(c, t) : replace(c, t);
}

static td_status *check_mutable(const td_table *t, const char *what) {
  if (!t->of->once) return NULL;
  return td_error(TD_UNIMPLEMENTED,
                  "table %s is a %s: once it is initialized nothing is %s it",
                  td_table_name(t), t->of->name, what);
}

/* All keys, and then all pairs: a mark changes nothing. */
static td_status *check_marks(const pairs *p) {
  td_table_key key[TD_TABLE_BATCH];
  for (int64_t i = 0; p->t->of->marked && i < p->n; i += TD_TABLE_BATCH) {
    int n = p->n - i < TD_TABLE_BATCH ? (int)(p->n - i) : TD_TABLE_BATCH;
    if (!td_table_keys(p->t, p->keys, i, n, key))
      return td_table_mark_used(p->t);
  }
  return NULL;
}

static td_status *insert_run(td_kernel_ctx *c) {
  td_table *t;
  pairs p;
  TD_TRY(td_table_in(c, &t));
  TD_TRY(check_mutable(t, "inserted into"));
  TD_TRY(pairs_in(c, t, &p));
  td_status *s = check_marks(&p);
  if (td_ok(s) && (size_t)p.n > t->map.count) /* most of them may be new */
    s = td_table_map_reserve(&t->map, (size_t)p.n);
  if (td_ok(s)) s = each_batch(&p, &t->map, put_batch);
  td_array_drop(&p.values);
  return s;
}

/* ---- LookupTableRemoveV2, LookupTableSizeV2, LookupTableExportV2 ----------
 */

static td_status *remove_run(td_kernel_ctx *c) {
  td_table *t;
  td_shape rows;
  pairs p = {.keys = td_in(c, 1)};
  TD_TRY(td_table_in(c, &t));
  TD_TRY(check_mutable(t, "removed from"));
  TD_TRY(td_table_check_keys(t, p.keys, &rows));
  p.t = t;
  p.n = td_shape_count(&rows);
  TD_TRY(check_marks(&p));
  for (int64_t i = 0; i < p.n; i++) {
    td_table_key key;
    td_table_map_key(&t->map, p.keys, i, &key);
    uint32_t entry = td_table_map_find(&t->map, &key);
    if (entry != TD_TABLE_NONE) td_table_map_remove(&t->map, entry);
  }
  return NULL;
}

static td_status *size_run(td_kernel_ctx *c) {
  td_table *t;
  td_tensor *y;
  td_shape scalar = td_shape_scalar();
  TD_TRY(td_table_in(c, &t));
  TD_TRY(td_out(c, 0, &scalar, &y));
  *(int64_t *)y->data = (int64_t)t->map.count;
  return NULL;
}

/* {n} and the shape of each. */
static td_status *export_shape(int64_t n, const td_shape *each, td_shape *out) {
  TD_TRY(td_shape_check_rank(each->rank + 1));
  *out = td_shape_vector(n);
  out->rank += each->rank;
  for (int k = 0; k < each->rank; k++) out->dim[k + 1] = each->dim[k];
  return NULL;
}

typedef void (*get_fn)(const td_table_map *m, uint32_t entry, void *to);

static td_status *export_one(td_kernel_ctx *c, int i, const td_table_map *m,
                             const td_shape *each, size_t elements,
                             get_fn get) {
  td_array a;
  td_shape shape;
  TD_TRY(export_shape((int64_t)m->count, each, &shape));
  TD_TRY(td_array_out(c, i, &shape, &a));
  for (uint32_t e = 0; e < m->count; e++)
    get(m, e, a.at + e * elements * a.size);
  td_status *s = td_array_done(c, i, &a);
  td_array_drop(&a);
  return s;
}

static td_status *export_run(td_kernel_ctx *c) {
  td_table *t;
  const td_node *n = td_ctx_node(c);
  TD_TRY(td_table_in(c, &t));
  TD_TRY(td_table_check_dtypes(t, td_node_type(n, "Tkeys"),
                               td_node_type(n, "Tvalues")));
  if (t->of->once && !t->ready) return not_ready(t);
  TD_TRY(export_one(c, 0, &t->map, &t->key_shape, t->map.key_n,
                    td_table_map_get_key));
  return export_one(c, 1, &t->map, &t->value_shape, t->map.value_n,
                    td_table_map_get);
}

/* ---- shapes -------------------------------------------------------------- */

/* Dtypes of a table whose maker is known. */
static td_status *check_maker(td_infer *c, td_dtype key, td_dtype value) {
  const td_attr *k = td_infer_maker_attr(c, 0, "key_dtype");
  const td_attr *v = td_infer_maker_attr(c, 0, "value_dtype");
  if (!k || !v || k->kind != TD_ATTR_TYPE || v->kind != TD_ATTR_TYPE)
    return NULL;
  if (k->type == key && (value == TD_INVALID || v->type == value)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "the table maps %s to %s, and is used with keys of %s%s%s",
                  td_dtype_name(k->type), td_dtype_name(v->type),
                  td_dtype_name(key),
                  value == TD_INVALID ? "" : " and values of ",
                  value == TD_INVALID ? "" : td_dtype_name(value));
}

/* Its keys are scalars, for all that is known: the shape of its values. */
static bool known_values(td_infer *c, td_shape *each) {
  const char *maker = td_infer_maker(c, 0);
  if (!maker || !td_infer_maker_attr(c, 0, "key_dtype")) return false;
  const td_attr *a = td_infer_maker_attr(c, 0, "value_shape");
  *each = a && a->kind == TD_ATTR_SHAPE ? *a->shape : td_shape_scalar();
  return each->rank >= 0;
}

static bool has_vectors(td_infer *c) {
  const char *maker = td_infer_maker(c, 0);
  return maker && strstr(maker, "Dense") != NULL;
}

static td_status *find_infer(td_infer *c) {
  const td_shape *keys = td_infer_in(c, 1);
  td_shape each, out;
  TD_TRY(check_maker(c, td_infer_in_type(c, 1), td_infer_in_type(c, 2)));
  TD_TRY(td_infer_any(c));
  if (has_vectors(c) || !known_values(c, &each) || keys->rank < 0) return NULL;
  TD_TRY(td_shape_check_rank(keys->rank + each.rank));
  out = *keys;
  out.rank += each.rank;
  for (int k = 0; k < each.rank; k++) out.dim[keys->rank + k] = each.dim[k];
  td_infer_out(c, 0, out);
  return NULL;
}

static td_status *pairs_infer(td_infer *c) {
  return check_maker(c, td_infer_in_type(c, 1), td_infer_in_type(c, 2));
}

static td_status *keys_infer(td_infer *c) {
  return check_maker(c, td_infer_in_type(c, 1), TD_INVALID);
}

static td_status *export_infer(td_infer *c) {
  td_shape each, out;
  TD_TRY(check_maker(c, td_infer_out_type(c, 0), td_infer_out_type(c, 1)));
  TD_TRY(td_infer_any(c));
  if (!known_values(c, &each)) return NULL;
  if (!has_vectors(c)) td_infer_out(c, 0, td_shape_vector(-1));
  TD_TRY(export_shape(-1, &each, &out));
  td_infer_out(c, 1, out);
  return NULL;
}

/* ---- rows ---------------------------------------------------------------- */

#define KEYS "table_handle: resource, keys: Tin"
#define PAIRS KEYS ", values: Tout ->; Tin: type; Tout: type"
#define SECTION                                                                \
  .section = "Lookup tables", .lua = "", .host = "*",                          \
  .flags = TD_STATEFUL | TD_NO_GRADIENT

static const td_op_def ops[] = {
    {.type = "InitializeTableV2",
     .old = "InitializeTable",
     .sig = "table_handle: resource, keys: Tkey, values: Tval ->; "
            "Tkey: type; Tval: type",
     .shape = pairs_infer,
     .cost = td_cost_move,
     .doc = "Gives a table its keys and values, once.",
     SECTION},
    {.type = "LookupTableFindV2",
     .old = "LookupTableFind",
     .sig = KEYS ", default_value: Tout -> values: Tout; Tin: type; Tout: type",
     .shape = find_infer,
     .cost = td_cost_move,
     .doc = "The values of keys in a table; the default where there is none.",
     SECTION},
    {.type = "LookupTableInsertV2",
     .old = "LookupTableInsert",
     .sig = PAIRS,
     .shape = pairs_infer,
     .cost = td_cost_move,
     .doc = "Sets the values of keys in a table.",
     SECTION},
    {.type = "LookupTableImportV2",
     .old = "LookupTableImport",
     .sig = PAIRS,
     .shape = pairs_infer,
     .cost = td_cost_move,
     .doc = "Replaces all that a table has.",
     SECTION},
    {.type = "LookupTableRemoveV2",
     .sig = KEYS " ->; Tin: type",
     .shape = keys_infer,
     .cost = td_cost_move,
     .doc = "Removes keys from a table; those that it lacks are left out.",
     SECTION},
    {.type = "LookupTableSizeV2",
     .old = "LookupTableSize",
     .sig = "table_handle: resource -> size: int64",
     .shape = td_infer_scalars,
     .cost = td_cost_none,
     .doc = "How many keys a table has.",
     SECTION},
    {.type = "LookupTableExportV2",
     .old = "LookupTableExport",
     .sig = "table_handle: resource -> keys: Tkeys, values: Tvalues; "
            "Tkeys: type; Tvalues: type",
     .shape = export_infer,
     .cost = td_cost_move,
     .doc = "All keys of a table and their values.",
     SECTION},
    {0},
};

#define READS .device = "CPU", .shared = "table_handle"
#define CHANGES .device = "CPU", .exclusive = "table_handle"

static const td_kernel_def kernels[] = {
    {.op = "InitializeTableV2", .run = initialize_run, CHANGES},
    {.op = "LookupTableFindV2", .run = find_run, READS},
    {.op = "LookupTableInsertV2", .run = insert_run, CHANGES},
    {.op = "LookupTableImportV2", .run = import_run, CHANGES},
    {.op = "LookupTableRemoveV2", .run = remove_run, CHANGES},
    {.op = "LookupTableSizeV2", .run = size_run, READS},
    {.op = "LookupTableExportV2", .run = export_run, READS},
    {0},
};

TD_MODULE(table_ops, ops, kernels)
