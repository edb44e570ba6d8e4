/* batcher.h - batches of examples, assembled ahead of use on an I/O thread.
 *
 * Examples are the rows of some columns in host memory. A batch copies its rows
 * out of every column, in order or shuffled anew for each epoch, of the whole
 * or of one shard; at most TD_BATCHES_AHEAD of them are kept ready, and only one
 * where that is of TD_BATCHES_BYTES.
 * The order is a function of the seed alone, so that one may begin where another
 * ended: no rows are copied for what was given.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_BATCHER_H
#define TD_BATCHER_H

#include "engine/tensor/tensor.h"

TD_BEGIN

enum { TD_BATCHES_AHEAD = 2, TD_BATCHES_BYTES = 256 << 20 };

typedef struct td_batcher td_batcher;

/* One column: host tensor of rank >= 1, plain dtype or string. With scale != 0
 * it must be uint8, and batches hold float32(element) * scale. */
typedef struct td_batch_column {
  td_tensor rows; /* borrowed; the batcher holds it too */
  float scale;
} td_batch_column;

typedef struct td_batch_options {
  int64_t size;        /* rows of a batch, >= 1 */
  int64_t epochs;      /* < 0: for ever */
  int64_t first, step; /* shard: rows first, first + step, ... */
  bool shuffle;
  uint64_t seed;
  bool drop_remainder; /* no short last batch */
  size_t bound;        /* bytes; 0: TD_BATCHES_BYTES */
  int64_t given;       /* begins behind so many: what follows, its epoch and step
                          are as if these had been given */
} td_batch_options;

/* Where a batch stands, both from 1. */
typedef struct td_batch_place {
  int64_t epoch, step;
} td_batch_place;

/* Caller owns the result. All columns have the same number of rows. */
td_status *td_batcher_new(const td_batch_column *columns, int n_columns,
                          const td_batch_options *o,
                          td_batcher **out) TD_MUST_USE;
/* Never waits: a copy under way ends by itself. */
void td_batcher_release(td_batcher *b);
/* Batches of one epoch; may be 0. */
int64_t td_batcher_per_epoch(const td_batcher *b);
/* The next batch: one tensor per column; *done instead when there is none. One
 * caller at a time. Where there is no thread to have, assembles here. *interrupt
 * (may be NULL) non-zero ends the wait with CANCELLED. */
td_status *td_batcher_next(td_batcher *b, const int *interrupt, td_tensor *out,
                           td_batch_place *place, bool *done) TD_MUST_USE;

TD_END
#endif
