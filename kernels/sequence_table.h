/* sequence_table.h - what the SequenceExamples of a batch have of the lists
 * that are wanted: checked, counted, not copied. As example_table.h, with steps.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SEQUENCE_TABLE_H
#define TD_SEQUENCE_TABLE_H

#include "engine/base/map.h"
#include "kernels/example_wire.h"
#include "kernels/sequence_parse.h"

TD_BEGIN

typedef struct td_sequence_cell {
  td_bytes list;             /* at NULL: not there */
  int64_t steps, most;       /* and values in one step */
  int64_t count;             /* values */
  size_t text;               /* bytes of their strings */
  int64_t first_step, first; /* steps and values in the rows above */
  size_t text_at;            /* bytes of strings in them */
} td_sequence_cell;

typedef struct td_sequence_table {
  td_kernel_ctx *ctx;
  const td_tensor *serialized, *names;
  td_sequence_feature *features;
  int n;               /* of them */
  int64_t rows, grain; /* SequenceExamples; so many are a piece of work */
  td_sequence_cell *cells;
  td_tensor memory; /* of the cells */
  td_map by_key;    /* features */
  int64_t bad;      /* atomic: the first row that is, else `rows` */
} td_sequence_table;

/* Features and tensors are borrowed; the totals of features are set. On success
 * ended by td_sequence_table_drop. */
td_status *td_sequence_table_make(td_sequence_table *t, td_kernel_ctx *c,
                                  const td_tensor *names,
                                  td_sequence_feature *features,
                                  int n) TD_MUST_USE;
void td_sequence_table_drop(td_sequence_table *t);

static inline td_sequence_cell *
td_sequence_table_at(const td_sequence_table *t, int64_t row, int feature) {
  return &t->cells[row * t->n + feature];
}

TD_END
#endif
