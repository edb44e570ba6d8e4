/* kernel_table.c - which kernels a device says it has.
 *
 * The rows are sorted by op, those of one op by their dtypes: a look-up halves
 * the table, and tables that say the same are equal row by row. Dtypes are read
 * at each look-up, since an op may become known only after its table has come;
 * a row whose dtypes make no sense fits no node.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/kernel_table.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/device/kernel_rows.h"

struct td_kernel_table {
  int32_t refs;          /* atomic */
  td_kernel_offer *rows; /* texts owned */
  size_t n;
};

/* ---- making -------------------------------------------------------------- */

static const char *text_of(const char *types) {
  return types ? types : "";
}

static int in_order(const void *a, const void *b) {
  const td_kernel_offer *x = a, *y = b;
  int by_op = strcmp(x->op, y->op);
  return by_op ? by_op : strcmp(text_of(x->types), text_of(y->types));
}

static td_status *copy_row(const td_kernel_offer *from, td_kernel_offer *to) {
  to->op = td_strdup(from->op);
  to->types = from->types ? td_strdup(from->types) : NULL;
  return to->op && (to->types || !from->types) ? NULL : td_oom();
}

td_status *td_kernel_table_new(const td_kernel_offer *rows, size_t n,
                               td_kernel_table **out) {
  td_kernel_table *t = td_calloc(1, sizeof *t);
  if (!t) return td_oom();
  t->refs = 1;
  t->rows = td_calloc(n + 1, sizeof *t->rows);
  td_status *s = t->rows ? NULL : td_oom();
  for (size_t i = 0; td_ok(s) && i < n; i++) {
    s = copy_row(&rows[i], &t->rows[i]);
    t->n++;
  }
  if (!td_ok(s)) {
    td_kernel_table_release(t);
    return s;
  }
  qsort(t->rows, n, sizeof *t->rows, in_order);
  *out = t;
  return NULL;
}

td_status *td_kernel_table_here(const char *kernels, td_kernel_table **out) {
  const td_kernel_def **defs;
  size_t n;
  TD_TRY(td_kernel_list(kernels, &defs, &n));
  td_kernel_offer *rows = td_calloc(n + 1, sizeof *rows);
  for (size_t i = 0; rows && i < n; i++)
    rows[i] = (td_kernel_offer){.op = defs[i]->op, .types = defs[i]->types};
  td_status *s = rows ? td_kernel_table_new(rows, n, out) : td_oom();
  td_free(rows);
  td_free(defs);
  return s;
}

td_kernel_table *td_kernel_table_retain(td_kernel_table *t) {
  if (t) __atomic_fetch_add(&t->refs, 1, __ATOMIC_RELAXED);
  return t;
}

void td_kernel_table_release(td_kernel_table *t) {
  if (!t || __atomic_fetch_sub(&t->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
  for (size_t i = 0; i < t->n; i++) {
    td_free((void *)t->rows[i].op);
    td_free((void *)t->rows[i].types);
  }
  td_free(t->rows);
  td_free(t);
}

/* ---- reading ------------------------------------------------------------- */

const td_kernel_offer *td_kernel_table_rows(const td_kernel_table *t,
                                            size_t *n) {
  *n = t->n;
  return t->rows;
}

bool td_kernel_table_same(const td_kernel_table *a, const td_kernel_table *b) {
  if (a == b) return true;
  if (!a || !b || a->n != b->n) return false;
  for (size_t i = 0; i < a->n; i++)
    if (in_order(&a->rows[i], &b->rows[i]) != 0) return false;
  return true;
}

/* The first row of the op, or where it would be. */
static size_t find_op(const td_kernel_table *t, const char *op) {
  size_t low = 0, high = t->n;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (strcmp(t->rows[middle].op, op) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

bool td_kernel_table_has(const td_kernel_table *t, const char *kernels,
                         const td_node *n) {
  const char *op = n->op->type;
  if (!t) return td_kernel_exists(n, kernels);
  for (size_t i = find_op(t, op); i < t->n && !strcmp(t->rows[i].op, op); i++)
    if (td_kernel_types_fit(t->rows[i].types, n)) return true;
  return false;
}
