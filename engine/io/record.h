/* record.h - TFRecord files: frames of a length, a payload and their checks.
 *
 *   8 bytes  n, lowest byte first
 *   4 bytes  masked CRC-32C of these
 *   n bytes  the payload
 *   4 bytes  masked CRC-32C of the payload
 *
 * one after the other; no header, no end mark. Packed files are one zlib or
 * gzip stream of that. Reading is source.h's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORD_H
#define TD_RECORD_H

#include "engine/io/input.h"

TD_BEGIN

typedef struct td_record_rules {
  uint64_t limit;      /* bytes of a payload */
  int64_t skip_errors; /* -1: any number */
} td_record_rules;

/* The next payload, and where its frame begins; false in *more at the end.
 * Bad places are passed over and counted in *skipped while it is below
 * skip_errors: behind a payload that is bad comes the next frame, behind a
 * header that is bad, or a payload whose length is not where the next frame
 * is, the next place that looks like one. A call that failed took nothing.
 * Borrowed, without a NUL; valid until the next call with `in`. */
td_status *td_record_next(td_input *in, const td_record_rules *rules,
                          int64_t *skipped, td_bytes *out, uint64_t *offset,
                          bool *more) TD_MUST_USE;
/* Does a whole frame lie in memory? */
bool td_record_held(const td_input *in);

typedef struct td_record_writer td_record_writer;

/* Empties the file, or makes it. Caller owns the result. */
td_status *td_record_writer_open(const char *path, const char *compression,
                                 td_record_writer **out) TD_MUST_USE;
/* After an error it takes no more. */
td_status *td_record_write(td_record_writer *w, const void *bytes,
                           size_t n) TD_MUST_USE;
/* Others see what was written. */
td_status *td_record_writer_flush(td_record_writer *w) TD_MUST_USE;
/* Writes what is held and frees, whatever it returns. NULL is ok. */
td_status *td_record_writer_close(td_record_writer *w) TD_MUST_USE;

TD_END
#endif
