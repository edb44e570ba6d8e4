/* lines.h - files as lines of text, and as pieces of one size.
 *
 * A line ends with \n, and a \r before it goes too; the last may have no end.
 * Reading is source.h's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LINES_H
#define TD_LINES_H

#include "engine/io/input.h"

TD_BEGIN

/* The next line of at most `limit` bytes; false in *more at the end. Borrowed;
 * valid until the next call with `in`. */
td_status *td_lines_next(td_input *in, uint64_t limit, td_bytes *out,
                         bool *more) TD_MUST_USE;
/* Does a whole line lie in memory? */
bool td_lines_held(const td_input *in);

/* The next `record` bytes, if `footer` bytes follow them: what is left at the
 * end is no record. Nothing is taken. Borrowed, as above. */
td_status *td_lines_piece(td_input *in, size_t record, size_t footer,
                          td_bytes *out, bool *more) TD_MUST_USE;

TD_END
#endif
