/* reader_state.h - where a reader is, and that as bytes.
 *
 * The bytes are TensorFlow's ReaderBaseState, a protobuf message, with fields of
 * ours behind it: the position in a file that is not over, which its readers
 * cannot keep.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_READER_STATE_H
#define TD_READER_STATE_H

#include "engine/io/source.h"

TD_BEGIN

typedef struct td_reader_state {
  int64_t started, finished; /* files: begun, and read to their end */
  int64_t produced;          /* records */
  char *work;                /* the file last begun; owned; NULL: none */
  size_t work_len;
  td_source_position at; /* in it, while it is not over */
} td_reader_state;

/* Is a file begun and not over? */
static inline bool td_reader_state_within(const td_reader_state *s) {
  return s->started > s->finished;
}
void td_reader_state_clear(td_reader_state *s);
void td_reader_state_save(const td_reader_state *s, td_str *out);
/* From bytes that may come from anywhere. INVALID_ARGUMENT when they make no
 * sense; *s is then as it was. */
td_status *td_reader_state_load(td_reader_state *s, td_bytes from) TD_MUST_USE;

TD_END
#endif
