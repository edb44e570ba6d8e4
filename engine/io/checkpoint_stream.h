/* checkpoint_stream.h - the bytes of an entry in order; the check goes along.
 *
 * Long pieces are read to where they belong, in parts small enough that the
 * check finds them warm. Short ones come from a buffer.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CHECKPOINT_STREAM_H
#define TD_CHECKPOINT_STREAM_H

#include "engine/io/checkpoint_impl.h"

typedef struct td_checkpoint_stream {
  const td_checkpoint *of;
  const td_checkpoint_shard *from;
  const td_checkpoint_entry *e;
  uint64_t at, end; /* in the file, of what is not taken */
  uint32_t crc;     /* of what was taken */
  char *buffer;     /* NULL until it is needed */
  size_t held, used; /* bytes in it, and those of them that were taken */
} td_checkpoint_stream;

/* `e` stays the caller's. */
void td_checkpoint_stream_begin(const td_checkpoint *c,
                                const td_checkpoint_entry *e,
                                td_checkpoint_stream *out);
/* `s` is what happened so far. Frees; compares the check where all was taken
 * without an error. */
td_status *td_checkpoint_stream_end(td_checkpoint_stream *st,
                                    td_status *s) TD_MUST_USE;
/* The next n bytes, to `to`; NULL: nowhere. DATA_LOSS when there are fewer. */
td_status *td_checkpoint_stream_take(td_checkpoint_stream *st, void *to,
                                     size_t n) TD_MUST_USE;
/* The length of a string, which is checked as checkpoint_entry.h says. */
td_status *td_checkpoint_stream_length(td_checkpoint_stream *st,
                                       uint64_t *length) TD_MUST_USE;

#endif
