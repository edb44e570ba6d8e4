/* reader.h - readers: files, named by a queue, as records one after the other.
 *
 * A reader is a resource. Nodes that read stand in its line; the first takes
 * the name of a file from its queue when none is open (queue_feed.h), reads on
 * an I/O thread, and has its records. Neither wait holds a thread of the pool.
 * What is in the reader's memory already is read at once.
 *
 * A reader's state changes when a node's records are handed over, not before: a
 * node that was cancelled while it read has lost none.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_READER_H
#define TD_READER_H

#include "engine/io/source.h"
#include "kernels/handle.h"
#include "kernels/reader_state.h"

TD_BEGIN

typedef struct td_reader td_reader;

typedef struct td_reader_options {
  const char *name; /* "TFRecordReader" */
  bool identity;    /* names are the records */
  td_source_options source;
} td_reader_options;

extern const char td_reader_type[]; /* object.type of all readers */

/* For `make` and `check` of a td_handle_kind. INVALID_ARGUMENT for options that
 * make no sense, or are not those of `r`. */
td_status *td_reader_new(const td_reader_options *o,
                         td_resource **out) TD_MUST_USE;
td_status *td_reader_check(const td_resource *r,
                           const td_reader_options *o) TD_MUST_USE;

/* For `start`: one record, as scalars in outputs 0 and 1; or up to `most` of a
 * file, as vectors. Names come from the queue whose handle is input 1. */
void td_reader_read(td_reader *r, td_kernel_ctx *c);
void td_reader_read_up_to(td_reader *r, td_kernel_ctx *c, int64_t most);
/* For `start`: behind those who read, has `state` from then on, which it takes
 * ownership of. */
void td_reader_restore(td_reader *r, td_kernel_ctx *c, td_reader_state state);
/* For `cancel` and `why` of all three. */
void td_reader_cancel(td_reader *r, td_kernel_ctx *c);
void td_reader_why(td_reader *r, const td_kernel_ctx *c, td_str *out);

/* As of now, whoever reads. */
int64_t td_reader_produced(td_reader *r);
int64_t td_reader_finished(td_reader *r);
void td_reader_save(td_reader *r, td_str *out);

TD_END
#endif
