/* kernel_rows.c - the registry of kernels: rows by op.
 *
 * The rows of all modules are read at the first look-up: constraints become
 * bits, so that a look-up compares no text but the op's and the device's name.
 * A bad row is left out and td_kernel_check says so; a bad library is refused
 * whole. Rows are never taken out again. Without memory nothing is registered
 * and the next look-up tries again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/base/vec.h"
#include "engine/device/kernel_rows.h"

enum { MAX_NEEDS = 6, ALL_TYPES = (1 << TD_DTYPES) - 1 };

/* "T=float|double" */
typedef struct need {
  int attr;       /* index in op->attr */
  uint32_t types; /* allowed, as bits */
} need;

typedef struct row {
  const td_kernel_def *def;
  const td_op *op;
  need need[MAX_NEEDS];
  int n_need;
  struct row *next; /* of the same op, in order of registration */
} row;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static td_map by_op;      /* op type -> its first row; under the mutex */
static bool built;        /* under the mutex */
static td_status *broken; /* the first bad row of ours; under the mutex */

/* ---- reading a row ------------------------------------------------------- */

typedef struct text {
  const char *at;
  size_t len;
} text;

/* The next word of *from up to `end` or the string's end, without spaces around
 * it; false when there is none left. */
static bool next_word(const char **from, char end, text *out) {
  const char *at = *from;
  if (!at || !*at) return false;
  const char *stop = strchr(at, end);
  *from = stop ? stop + 1 : NULL;
  size_t len = stop ? (size_t)(stop - at) : strlen(at);
  while (len && *at == ' ') at++, len--;
  while (len && at[len - 1] == ' ') len--;
  *out = (text){at, len};
  return true;
}

static td_status *bad_row(const td_kernel_def *d, const char *what) {
  return td_error(TD_INTERNAL, "the %s kernel of op %s %s", d->device, d->op,
                  what);
}

static td_status *read_types(const td_kernel_def *d, const char *types,
                             size_t len, uint32_t *bits) {
  for (size_t i = 0, end; i < len; i = end + 1) {
    const char *bar = memchr(types + i, '|', len - i);
    end = bar ? (size_t)(bar - types) : len;
    td_dtype t = td_dtype_parse(types + i, end - i);
    if (t == TD_INVALID) return bad_row(d, "names an unknown dtype");
    *bits |= 1u << t;
  }
  return *bits ? NULL : bad_row(d, "allows no dtype");
}

static td_status *read_need(const td_op *op, const td_kernel_def *d, text word,
                            need *out) {
  const char *equals = memchr(word.at, '=', word.len);
  if (!equals) return bad_row(d, "has a constraint without \"=\"");
  size_t len = (size_t)(equals - word.at);
  *out = (need){.attr = -1};
  for (int i = 0; i < op->n_attr; i++)
    if (strlen(op->attr[i].name) == len &&
        memcmp(op->attr[i].name, word.at, len) == 0)
      out->attr = i;
  if (out->attr < 0 || op->attr[out->attr].kind != TD_ATTR_TYPE)
    return bad_row(d, "constrains what is no type attribute");
  return read_types(d, equals + 1, word.len - len - 1, &out->types);
}

/* Lock names must be inputs that can hold a resource. */
static td_status *check_locks(const td_op *op, const td_kernel_def *d,
                              const char *names) {
  text word;
  while (next_word(&names, ',', &word)) {
    bool found = false;
    for (int i = 0; i < op->n_in; i++)
      if (strlen(op->in[i].name) == word.len &&
          memcmp(op->in[i].name, word.at, word.len) == 0)
        found = op->in[i].type == TD_RESOURCE;
    if (!found) return bad_row(d, "locks what is no resource input");
  }
  return NULL;
}

static td_status *check_code(const td_kernel_def *d) {
  if (!d->device)
    return td_error(TD_INTERNAL,
                    "a kernel of op %s is of no "
                    "device",
                    d->op);
  if (!d->run && !d->start) return bad_row(d, "must have run or start");
  if (d->start && !d->cancel)
    return bad_row(d, "is asynchronous and cannot be cancelled");
  if (!d->save != !d->load)
    return bad_row(d, "saves what it cannot load, or the other way round");
  if (d->save && !d->make) return bad_row(d, "saves a state it does not have");
  return NULL;
}

static td_status *read_needs(const td_kernel_def *d, row *r) {
  const char *types = d->types;
  text word;
  while (next_word(&types, ',', &word)) {
    if (r->n_need == MAX_NEEDS) return bad_row(d, "has too many constraints");
    TD_TRY(read_need(r->op, d, word, &r->need[r->n_need]));
    r->n_need++;
  }
  return NULL;
}

static td_status *read_row(const td_kernel_def *d, row *r) {
  *r = (row){.def = d, .op = td_op_find(d->op)};
  TD_TRY(check_code(d));
  if (!r->op) return bad_row(d, "belongs to no registered op");
  TD_TRY(read_needs(d, r));
  TD_TRY(check_locks(r->op, d, d->shared));
  return check_locks(r->op, d, d->exclusive);
}

/* ---- registering --------------------------------------------------------- */

/* A new row, not yet listed. Caller owns *out (td_free). */
static td_status *new_row(const td_kernel_def *d, row **out) {
  row *r = td_malloc(sizeof *r);
  if (!r) return td_oom();
  td_status *s = read_row(d, r);
  if (!td_ok(s)) {
    td_free(r);
    return s;
  }
  *out = r;
  return NULL;
}

/* Takes ownership of the row. */
static td_status *list_row(row *r) {
  row *at = td_map_get(&by_op, r->op->type);
  while (at && at->next) at = at->next;
  if (at) {
    at->next = r;
  } else if (!td_map_put(&by_op, r->op->type, r)) {
    td_free(r);
    return td_oom();
  }
  return NULL;
}

static void unlist_all(void) {
  const td_map_entry *e;
  for (size_t i = 0; td_map_next(&by_op, &i, &e);) {
    for (row *r = e->value, *next; r; r = next) {
      next = r->next;
      td_free(r);
    }
  }
  td_map_deinit(&by_op);
}

/* Only running out of memory is an error here. */
static td_status *add_built_in(const td_module *m) {
  for (const td_kernel_def *d = m->kernels; d && d->op; d++) {
    row *r = NULL;
    td_status *s = new_row(d, &r);
    if (td_ok(s)) s = list_row(r);
    if (s == td_oom()) return s;
    broken = td_status_first(broken, s);
  }
  return NULL;
}

/* Under the mutex. */
static td_status *build(void) {
  if (TD_LIKELY(built)) return NULL;
  td_status *s = td_op_count() > 0 || !td_modules[0] ? NULL : td_oom();
  td_map_init(&by_op);
  for (int i = 0; td_ok(s) && td_modules[i]; i++)
    s = add_built_in(td_modules[i]);
  built = td_ok(s);
  if (built) return NULL;
  unlist_all();
  td_status_release(broken);
  broken = NULL;
  return s;
}

td_status *td_kernel_check(void) {
  pthread_mutex_lock(&mutex);
  td_status *s = build();
  if (td_ok(s)) s = td_status_retain(broken);
  pthread_mutex_unlock(&mutex);
  return s;
}

/* A chain of the module's rows. */
static td_status *read_module(const td_module *m, row **chain) {
  for (const td_kernel_def *d = m->kernels; d && d->op; d++) {
    TD_TRY(new_row(d, chain));
    chain = &(*chain)->next;
  }
  return NULL;
}

/* Makes room for the ops' names first, so that listing cannot fail half way:
 * an entry without rows is an op without kernels. */
static td_status *reserve(const row *chain) {
  for (const row *r = chain; r; r = r->next)
    if (!td_map_get(&by_op, r->op->type) &&
        !td_map_put(&by_op, r->op->type, NULL))
      return td_oom();
  return NULL;
}

td_status *td_kernel_register(const td_module *m) {
  row *chain = NULL, *next;
  td_status *s = read_module(m, &chain);
  pthread_mutex_lock(&mutex);
  if (td_ok(s)) s = build();
  if (td_ok(s)) s = reserve(chain);
  for (row *r = chain; r; r = next) {
    next = r->next;
    r->next = NULL;
    if (!td_ok(s))
      td_free(r);
    else
      s = list_row(r); /* there is room: an entry is only replaced */
  }
  pthread_mutex_unlock(&mutex);
  return s;
}

/* ---- looking up ---------------------------------------------------------- */

static bool fits_type(const td_attr *a, uint32_t types) {
  if (a->kind != TD_ATTR_TYPE) return false;
  if (!a->is_list) return types >> a->type & 1;
  for (int32_t i = 0; i < a->len; i++)
    if (!(types >> a->types[i] & 1)) return false;
  return true;
}

static bool fits_needs(const row *r, const td_node *n) {
  for (int i = 0; i < r->n_need; i++)
    if (!fits_type(&n->attr[r->need[i].attr], r->need[i].types)) return false;
  return true;
}

/* A kernel that looks at no contents in device memory is every device's. */
static bool serves(const row *r, const char *device_type) {
  return strcmp(r->def->device, device_type) == 0 || r->def->start ||
         r->def->flags & TD_KERNEL_INLINE;
}

static bool fits(const row *r, const td_node *n, const char *device_type) {
  return serves(r, device_type) && fits_needs(r, n);
}

/* Its own, else one that is every device's; NULL: none. */
static const row *find_row(const row *rows, const td_node *n,
                           const char *device_type) {
  const row *any = NULL;
  for (const row *r = rows; r; r = r->next) {
    if (!fits(r, n, device_type)) continue;
    if (strcmp(r->def->device, device_type) == 0) return r;
    if (!any) any = r;
  }
  return any;
}

bool td_kernel_types_fit(const char *types, const td_node *n) {
  td_kernel_def d = {.op = n->op->type, .device = "", .types = types};
  row r = {.def = &d, .op = n->op};
  td_status *s = read_needs(&d, &r);
  bool fit = td_ok(s) && fits_needs(&r, n);
  td_status_release(s);
  return fit;
}

/* The attributes that rows of that device speak of, as the node has them. */
static void print_given(const row *rows, const td_node *n, const char *device,
                        td_str *out) {
  uint64_t said = 0;
  for (const row *r = rows; r; r = r->next) {
    if (strcmp(r->def->device, device) != 0) continue;
    for (int i = 0; i < r->n_need; i++) {
      int attr = r->need[i].attr;
      if (attr >= 64 || said >> attr & 1) continue;
      td_str_addf(out, "%s%s=", said ? ", " : " with ", r->op->attr[attr].name);
      td_attr_print(&n->attr[attr], out);
      said |= 1ull << attr;
    }
  }
}

static void print_rows(const row *rows, const char *device, td_str *out) {
  const char *between = "";
  for (const row *r = rows; r; r = r->next) {
    bool here = strcmp(r->def->device, device) == 0;
    td_str_addf(out, "%s%s%s%s", between, r->def->types ? r->def->types : "any",
                here ? "" : " on ", here ? "" : r->def->device);
    between = "; ";
  }
}

static td_status *not_found(const row *rows, const td_node *n,
                            const char *device) {
  td_str line;
  td_str_init(&line);
  td_str_addf(&line, "there is no %s kernel for op %s", device, n->op->type);
  print_given(rows, n, device, &line);
  if (rows) {
    td_str_add(&line, "; there are: ");
    print_rows(rows, device, &line);
  }
  td_status *s =
      line.failed ? td_oom() : td_error(TD_NOT_FOUND, "%s", td_str_c(&line));
  td_str_deinit(&line);
  return s;
}

/* With the mutex held until the caller is done with the rows. */
static td_status *rows_of(const char *type, const row **out) {
  TD_TRY(build());
  *out = td_map_get(&by_op, type);
  return NULL;
}

td_status *td_kernel_find(const td_node *n, const char *device_type,
                          const td_kernel_def **out) {
  const row *rows = NULL;
  pthread_mutex_lock(&mutex);
  td_status *s = rows_of(n->op->type, &rows);
  const row *r = find_row(rows, n, device_type);
  if (TD_LIKELY(r != NULL))
    *out = r->def;
  else if (td_ok(s))
    s = not_found(rows, n, device_type);
  pthread_mutex_unlock(&mutex);
  return s;
}

bool td_kernel_exists(const td_node *n, const char *device_type) {
  const row *r = NULL;
  pthread_mutex_lock(&mutex);
  td_status *s = rows_of(n->op->type, &r);
  bool there = find_row(r, n, device_type) != NULL;
  pthread_mutex_unlock(&mutex);
  td_status_release(s);
  return there;
}

bool td_kernel_is_own(const td_node *n, const char *device_type) {
  const row *r = NULL;
  pthread_mutex_lock(&mutex);
  td_status *s = rows_of(n->op->type, &r);
  r = find_row(r, n, device_type);
  bool own = r && strcmp(r->def->device, device_type) == 0;
  pthread_mutex_unlock(&mutex);
  td_status_release(s);
  return own;
}

/* What a row allows for an attribute. */
static uint32_t types_of(const row *r, int attr) {
  for (int i = 0; i < r->n_need; i++)
    if (r->need[i].attr == attr) return r->need[i].types;
  uint32_t types = r->op->attr[attr].types;
  return types ? types : ALL_TYPES & ~1u;
}

uint32_t td_kernel_types(const td_op *op, const char *device_type,
                         const char *attr) {
  const row *r = NULL;
  uint32_t types = 0;
  int index = td_op_attr(op, attr);
  if (index < 0) return 0;
  pthread_mutex_lock(&mutex);
  td_status *s = rows_of(op->type, &r);
  for (; r; r = r->next)
    if (serves(r, device_type)) types |= types_of(r, index);
  pthread_mutex_unlock(&mutex);
  td_status_release(s);
  return types;
}

td_status *td_kernel_list(const char *device_type, const td_kernel_def ***out,
                          size_t *n) {
  TD_VEC(const td_kernel_def *) list = {0};
  const td_map_entry *e;
  bool room = true;
  pthread_mutex_lock(&mutex);
  td_status *s = build();
  for (size_t i = 0; td_ok(s) && td_map_next(&by_op, &i, &e);)
    for (const row *r = e->value; r; r = r->next)
      if (serves(r, device_type)) room = room && td_vec_push(&list, r->def);
  pthread_mutex_unlock(&mutex);
  if (!room) s = td_oom();
  if (!td_ok(s)) td_vec_free(&list);
  *out = list.at;
  *n = list.len;
  return s;
}
