/* input.h - the bytes of a file in order, buffered, unpacked on the way.
 *
 * What a format (record.h, lines.h) reads through: it looks at as many bytes as
 * it needs in one piece, and takes them when it knows what they are. The buffer
 * grows with what is there, never with what a file claims. Offsets are those of
 * the unpacked bytes. A read that failed may be tried again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_INPUT_H
#define TD_INPUT_H

#include "engine/base/status.h"
#include "engine/base/str.h"

TD_BEGIN

typedef struct td_input td_input;

/* "" (also NULL), "ZLIB" or "GZIP"; else INVALID_ARGUMENT. */
td_status *td_input_check(const char *compression) TD_MUST_USE;
/* Caller owns the result. */
td_status *td_input_open(const char *path, const char *compression,
                         td_input **out) TD_MUST_USE;
void td_input_close(td_input *in); /* NULL is ok */
/* Borrowed; valid while `in` lives. */
const char *td_input_path(const td_input *in);

/* n bytes from here on, or more; fewer only at the end. Nothing is taken.
 * Borrowed, without a NUL; valid until the next call. DATA_LOSS: it cannot be
 * unpacked, or its packed bytes are cut short. */
td_status *td_input_peek(td_input *in, size_t n, td_bytes *out) TD_MUST_USE;
/* What is in memory already. Borrowed, as above. */
td_bytes td_input_held(const td_input *in);
/* Takes n bytes of those held. */
void td_input_take(td_input *in, size_t n);
/* Goes on n bytes, to the end at most. */
td_status *td_input_pass(td_input *in, uint64_t n) TD_MUST_USE;
/* What comes from here on is as if it were not there, until a seek. */
void td_input_end(td_input *in);

uint64_t td_input_tell(const td_input *in);
/* The next peek is from there: DATA_LOSS when the file is shorter. */
void td_input_seek(td_input *in, uint64_t offset);
/* Goes back there if that needs no reading: the bytes are still in memory. */
bool td_input_back(td_input *in, uint64_t offset) TD_MUST_USE;
/* Bytes from here to the end; false where nobody knows: packed, a pipe. */
bool td_input_left(td_input *in, uint64_t *bytes);

TD_END
#endif
