/* op.c - the registry of ops.
 *
 * All rows are parsed at the first look-up into a table that never changes:
 * readers take no lock. A library's module makes a new table with the old rows
 * in it; the old one stays, since a reader may be inside it, and rows and
 * tables live as long as the process. Without memory there is no table yet and
 * the next look-up tries again; a bad row is left out and td_op_check says so.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/op.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/base/nearest.h"
#include "engine/graph/op_sig.h"

/* The rows of one call: all built-in modules, or a library's. */
typedef struct batch {
  td_arena arena;
  td_op *op;    /* in the order of the modules */
  td_op **good; /* the `n` of them that count, sorted */
  int n_op, n;
  struct batch *next; /* older ones */
} batch;

typedef struct table {
  const td_op **op; /* sorted by type */
  int n;
  uint32_t *by_type, *by_lua; /* index in `op` + 1, 0 is empty */
  uint32_t mask;              /* slots - 1 */
  batch *batches;
  struct table *older;
} table;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static table *current;    /* atomic; written under the mutex */
static td_status *broken; /* the first bad built-in row; under the mutex */

/* ---- tables -------------------------------------------------------------- */

static void free_batch(batch *b) {
  if (!b) return;
  for (int i = 0; i < b->n_op; i++) td_op_unparse(&b->op[i]);
  td_arena_deinit(&b->arena);
  td_free(b);
}

static void free_table(table *t) {
  if (!t) return;
  td_free(t->op);
  td_free(t->by_type);
  td_free(t->by_lua);
  td_free(t);
}

static uint64_t hash_name(const char *name) {
  return td_hash(name, strlen(name), 0);
}

static void put(uint32_t *slots, uint32_t mask, const char *name, int i) {
  uint32_t s = (uint32_t)hash_name(name) & mask;
  while (slots[s]) s = (s + 1) & mask;
  slots[s] = (uint32_t)i + 1;
}

static int by_type(const void *a, const void *b) {
  const td_op *x = *(const td_op *const *)a, *y = *(const td_op *const *)b;
  return strcmp(x->type, y->type);
}

static table *new_table(const table *old, batch *b) {
  table *t = td_calloc(1, sizeof *t);
  if (!t) return NULL;
  int had = old ? old->n : 0;
  size_t slots = 16;
  while (slots < 3 * (size_t)(had + b->n)) slots *= 2;
  t->mask = (uint32_t)slots - 1;
  t->op = td_calloc((size_t)(had + b->n), sizeof *t->op);
  t->by_type = td_calloc(slots, sizeof *t->by_type);
  t->by_lua = td_calloc(slots, sizeof *t->by_lua);
  if (!t->op || !t->by_type || !t->by_lua) {
    free_table(t);
    return NULL;
  }
  for (; t->n < had; t->n++) t->op[t->n] = old->op[t->n];
  for (int i = 0; i < b->n; i++) t->op[t->n++] = b->good[i];
  qsort(t->op, (size_t)t->n, sizeof *t->op, by_type);
  for (int i = 0; i < t->n; i++) {
    put(t->by_type, t->mask, t->op[i]->type, i);
    if (t->op[i]->def->old) put(t->by_type, t->mask, t->op[i]->def->old, i);
    if (t->op[i]->lua[0]) put(t->by_lua, t->mask, t->op[i]->lua, i);
  }
  return t;
}

static const td_op *get(const table *t, const char *name, bool lua) {
  const uint32_t *slots = lua ? t->by_lua : t->by_type;
  uint32_t s = (uint32_t)hash_name(name) & t->mask;
  for (; slots[s]; s = (s + 1) & t->mask) {
    const td_op *op = t->op[slots[s] - 1];
    const char *old = lua ? NULL : op->def->old;
    if (strcmp(lua ? op->lua : op->type, name) == 0) return op;
    if (old && strcmp(old, name) == 0) return op;
  }
  return NULL;
}

static void publish(table *t, const table *old, batch *b) {
  b->next = old ? old->batches : NULL;
  t->batches = b;
  t->older = (table *)old;
  __atomic_store_n(&current, t, __ATOMIC_RELEASE);
}

/* ---- who keeps a Lua name ------------------------------------------------
 *
 * A name the row gives beats a derived one; then the highest version wins. */

static int rank_of(const td_op *op) {
  size_t len;
  return (op->def->lua ? 1 << 16 : 0) + td_op_version(op->type, &len);
}

static int by_lua(const void *a, const void *b) {
  const td_op *x = *(td_op *const *)a, *y = *(td_op *const *)b;
  int d = strcmp(x->lua, y->lua);
  if (d == 0) d = rank_of(y) - rank_of(x);
  return d ? d : strcmp(x->type, y->type);
}

/* The `n` ops that want one name; the first has the best claim. */
static td_status *settle_name(td_op **op, int n, const table *old) {
  td_status *s = NULL;
  const td_op *taken = old ? get(old, op[0]->lua, true) : NULL;
  const td_op *rival = taken && op[0]->def->lua ? taken : NULL;
  if (n > 1 && rank_of(op[0]) == rank_of(op[1])) rival = op[1];
  if (rival)
    s = td_error(TD_ALREADY_EXISTS, "ops %s and %s are both named td.%s",
                 op[0]->type, rival->type, op[0]->lua);
  for (int i = taken ? 0 : 1; i < n; i++) op[i]->lua = "";
  return s;
}

static td_status *settle_names(batch *b, const table *old, td_status **bad) {
  qsort(b->good, (size_t)b->n, sizeof *b->good, by_lua);
  for (int i = 0, end; i < b->n; i = end) {
    const char *name = b->good[i]->lua;
    for (end = i + 1; end < b->n; end++)
      if (strcmp(b->good[end]->lua, name) != 0) break;
    if (!name[0]) continue;
    td_status *s = settle_name(&b->good[i], end - i, old);
    if (s == td_oom()) return s;
    *bad = td_status_first(*bad, s);
  }
  return NULL;
}

/* ---- reading modules ----------------------------------------------------- */

static int count_rows(const td_module *const *modules, int n) {
  int rows = 0;
  for (int m = 0; m < n; m++)
    for (const td_op_def *d = modules[m]->ops; d && d->type; d++) rows++;
  return rows;
}

/* Every good row; *bad is the first error among the others. */
static td_status *read_rows(batch *b, const td_module *const *modules, int n,
                            bool library, td_status **bad) {
  size_t rows = (size_t)count_rows(modules, n);
  b->op = td_arena_alloc(&b->arena, rows * sizeof *b->op);
  b->good = td_arena_alloc(&b->arena, rows * sizeof *b->good);
  if (!b->op || !b->good) return td_oom();
  for (int m = 0; m < n; m++) {
    for (const td_op_def *d = modules[m]->ops; d && d->type; d++) {
      td_status *s = td_op_parse(&b->arena, d, &b->op[b->n_op]);
      b->op[b->n_op].library = library ? modules[m]->name : NULL;
      if (s == td_oom()) return s;
      if (td_ok(s)) b->good[b->n++] = &b->op[b->n_op++];
      *bad = td_status_first(*bad, s);
    }
  }
  return NULL;
}

/* Only one row a type counts, and none that is there already. */
static td_status *drop_doubles(batch *b, const table *old, td_status **bad) {
  int kept = 0;
  qsort(b->good, (size_t)b->n, sizeof *b->good, by_type);
  for (int i = 0; i < b->n; i++) {
    td_op *op = b->good[i];
    if ((!kept || strcmp(b->good[kept - 1]->type, op->type) != 0) &&
        !(old && get(old, op->type, false))) {
      b->good[kept++] = op;
      continue;
    }
    td_status *s =
        td_error(TD_ALREADY_EXISTS, "op %s is registered twice", op->type);
    if (s == td_oom()) return s;
    *bad = td_status_first(*bad, s);
  }
  b->n = kept;
  return NULL;
}

/* A new table with the modules' rows, or an error and nothing changed. A bad
 * row ends it only where they are a `library`'s. Under the mutex. */
static td_status *add_modules(const table *old, const td_module *const *modules,
                              int n, bool library, td_status **bad) {
  batch *b = td_calloc(1, sizeof *b);
  if (!b) return td_oom();
  table *t = NULL;
  td_status *s = read_rows(b, modules, n, library, bad);
  if (td_ok(s)) s = drop_doubles(b, old, bad);
  if (td_ok(s)) s = settle_names(b, old, bad);
  if (td_ok(s) && !(library && *bad)) {
    t = new_table(old, b);
    if (!t) s = td_oom();
  }
  if (t)
    publish(t, old, b);
  else
    free_batch(b);
  return s;
}

/* The table of now; NULL when there is no memory for it. */
static const table *load(void) {
  table *t = __atomic_load_n(&current, __ATOMIC_ACQUIRE);
  if (TD_LIKELY(t != NULL)) return t;
  pthread_mutex_lock(&mutex);
  if (!current) {
    int n = 0;
    while (td_modules[n]) n++;
    td_status *bad = NULL;
    td_status *s = add_modules(NULL, td_modules, n, false, &bad);
    if (td_ok(s))
      broken = bad;
    else
      td_status_release(bad); /* no memory: all again next time */
  }
  t = current;
  pthread_mutex_unlock(&mutex);
  return t;
}

td_status *td_op_check(void) {
  if (!load()) return td_oom();
  pthread_mutex_lock(&mutex);
  td_status *s = broken;
  td_status_retain(s);
  pthread_mutex_unlock(&mutex);
  return s;
}

td_status *td_op_register(const td_module *m) {
  if (!load()) return td_oom();
  td_status *bad = NULL;
  pthread_mutex_lock(&mutex);
  td_status *s = add_modules(current, &m, 1, true, &bad);
  pthread_mutex_unlock(&mutex);
  return td_status_first(s, bad);
}

/* ---- looking up ---------------------------------------------------------- */

const td_op *td_op_find(const char *type) {
  const table *t = load();
  return t ? get(t, type, false) : NULL;
}

const td_op *td_op_find_lua(const char *name) {
  const table *t = load();
  return t && name[0] ? get(t, name, true) : NULL;
}

int td_op_count(void) {
  const table *t = load();
  return t ? t->n : 0;
}

const td_op *td_op_at(int i) {
  const table *t = load();
  return t && i >= 0 && i < t->n ? t->op[i] : NULL;
}

const char *td_op_nearest(const char *type) {
  const table *t = load();
  td_nearest near = td_nearest_to(type);
  for (int i = 0; t && i < t->n; i++) td_nearest_try(&near, t->op[i]->type);
  return near.best;
}

static int by_name(const void *a, const void *b) {
  const char *const *x = a, *const *y = b;
  return strcmp(*x, *y);
}

td_status *td_op_unknown(const char *who, const char **types, size_t n) {
  enum { SHOWN = 20 };
  td_str m = {0};
  size_t found = 0;
  qsort(types, n, sizeof *types, by_name);
  td_str_addf(&m, "%s needs what there is not here: ", who);
  for (size_t i = 0; i < n; i++) {
    if (i && strcmp(types[i - 1], types[i]) == 0) continue;
    if (found++ >= SHOWN) continue;
    const char *near = td_op_nearest(types[i]);
    td_str_addf(&m, "%sop \"%.100s\"", found > 1 ? ", " : "", types[i]);
    if (near) td_str_addf(&m, " (did you mean \"%s\"?)", near);
  }
  if (found > SHOWN) td_str_addf(&m, " and %zu more", found - SHOWN);
  td_status *s =
      m.failed ? td_oom() : td_error(TD_NOT_FOUND, "%s", td_str_c(&m));
  td_str_deinit(&m);
  return s;
}

int td_op_attr(const td_op *op, const char *name) {
  for (int i = 0; i < op->n_attr; i++)
    if (strcmp(op->attr[i].name, name) == 0) return i;
  return -1;
}

/* ---- printing ------------------------------------------------------------ */

static void print_args(const td_op *op, const td_arg *arg, int n, td_str *out) {
  td_str_addc(out, '(');
  for (int i = 0; i < n; i++) {
    td_str_addf(out, "%s%s: ", i ? ", " : "", arg[i].name);
    if (arg[i].number_attr >= 0)
      td_str_addf(out, "%s*", op->attr[arg[i].number_attr].name);
    td_str_add(out, arg[i].type_attr >= 0 ? op->attr[arg[i].type_attr].name
                                          : td_dtype_name(arg[i].type));
  }
  td_str_addc(out, ')');
}

static void print_kind(const td_attr_def *a, td_str *out) {
  if (!a->types && !a->strings) {
    td_str_add(out, td_attr_kind_name(a->kind, a->is_list));
    return;
  }
  const char *comma = "";
  td_str_add(out, a->is_list ? "list({" : "{");
  for (int t = 1; a->types && t < TD_DTYPES; t++) {
    if (!(a->types >> t & 1)) continue;
    td_str_addf(out, "%s%s", comma, td_dtype_name((td_dtype)t));
    comma = ", ";
  }
  for (const char **s = a->strings; s && *s; s++) {
    td_str_addf(out, "%s\"%s\"", comma, *s);
    comma = ", ";
  }
  td_str_add(out, a->is_list ? "})" : "}");
}

void td_op_print(const td_op *op, td_str *out) {
  td_str_add(out, op->type);
  print_args(op, op->in, op->n_in, out);
  td_str_add(out, " -> ");
  print_args(op, op->out, op->n_out, out);
  for (int i = 0; i < op->n_attr; i++) {
    const td_attr_def *a = &op->attr[i];
    td_str_addf(out, ", %s%s", a->name, a->types || a->strings ? " in " : ": ");
    print_kind(a, out);
    if (a->has_minimum) td_str_addf(out, " >= %lld", (long long)a->minimum);
    if (!a->has_default) continue;
    td_str_add(out, " = ");
    td_attr_print(&a->value, out);
  }
}
