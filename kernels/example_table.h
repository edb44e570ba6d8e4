/* example_table.h - what the Examples of a batch have of the features that are
 * wanted: checked, counted, not copied.
 *
 * The table has a row for each Example and a cell in it for each feature. It is
 * filled on several threads; when Examples are bad, the error is told of the
 * first of them, whichever was found first.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_EXAMPLE_TABLE_H
#define TD_EXAMPLE_TABLE_H

#include "kernels/example_parse.h"
#include "kernels/example_wire.h"

TD_BEGIN

typedef struct td_example_cell {
  td_example_value value; /* kind TD_EXAMPLE_NONE: not there */
  int64_t first;   /* values of this feature in the rows above */
  size_t text_at;  /* bytes of its strings in the output before these */
} td_example_cell;

typedef struct td_example_table {
  td_kernel_ctx *ctx;
  const td_tensor *serialized, *names;
  td_example_feature *features;
  int n;               /* of them */
  int64_t rows, grain; /* Examples; so many are a piece of work */
  td_example_cell *cells;
  td_tensor memory; /* of the cells */
  int32_t *slots;   /* by hash of the key, a feature's index + 1; 0 is empty */
  uint32_t mask;    /* slots - 1, of a power of two */
  int64_t bad;      /* atomic: the first row that is, else `rows` */
} td_example_table;

/* Features and tensors are borrowed; the totals of features are set. On success
 * ended by td_example_table_drop. */
td_status *td_example_table_make(td_example_table *t, td_kernel_ctx *c,
                                 const td_tensor *names,
                                 td_example_feature *features,
                                 int n) TD_MUST_USE;
void td_example_table_drop(td_example_table *t);

static inline td_example_cell *td_example_table_at(const td_example_table *t,
                                                   int64_t row, int feature) {
  return &t->cells[row * t->n + feature];
}
/* Elements that a dense feature takes in each row of its output. */
static inline int64_t td_example_width(const td_example_feature *f) {
  return f->rows ? f->most : f->each;
}

/* ---- for tables like this one -------------------------------------------- */

/* The list that values of a dtype stand in, and the dtype of a list. */
td_example_kind td_example_kind_of(td_dtype t);
const char *td_example_kind_name(td_example_kind kind);
/* Appends "example 3, "name"", as far as it has these; `names` may be NULL. */
void td_example_print_where(const td_tensor *serialized,
                            const td_tensor *names, int64_t row, td_str *out);
/* *bad, which is atomic, is `row` if that is less. */
void td_example_note_bad(int64_t *bad, int64_t row);
/* NULL, or that the step was stopped while td_for worked. */
td_status *td_example_stopped(const td_kernel_ctx *c) TD_MUST_USE;

TD_END
#endif
