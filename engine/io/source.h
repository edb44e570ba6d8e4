/* source.h - the records of a file, one after the other.
 *
 * A file is read in a format: TFRecord's frames (record.h), lines of text,
 * pieces of one size (lines.h), or as a whole; packed by zlib or not. Whoever
 * takes records, a reader or a pipeline, sees a td_record_source only. One
 * thread at a time uses a source. It reads, and so blocks: not on a thread of
 * the pool.
 *
 * A position is a place between two records. What td_source_tell gave may be
 * kept as three numbers and sought later in another source of the same file and
 * options: what comes there is what would have come here. A call that failed
 * leaves the position where it was, and may be made again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SOURCE_H
#define TD_SOURCE_H

#include "engine/base/status.h"
#include "engine/base/str.h"

TD_BEGIN

typedef struct td_record_source td_record_source;

typedef enum td_source_format {
  TD_SOURCE_RECORDS, /* TFRecord */
  TD_SOURCE_LINES,   /* text, without its line ends */
  TD_SOURCE_FIXED,   /* all of one size */
  TD_SOURCE_WHOLE    /* the file is its only record */
} td_source_format;

/* Zeroed ones are TFRecords that are not packed. Each format has its own. */
typedef struct td_source_options {
  td_source_format format;
  const char *compression; /* NULL, "", "ZLIB" or "GZIP"; copied */
  uint64_t limit;          /* bytes of a record at most; 0: TD_SOURCE_LIMIT */
  int64_t skip_errors;     /* RECORDS: bad places that are passed over and
                              counted before one is an error; -1: any number */
  int64_t skip_lines;      /* LINES: not given at the beginning of the file */
  int64_t header, footer;  /* FIXED: bytes before and after all records */
  int64_t record;          /* FIXED: bytes of one, > 0 */
  int64_t hop;             /* FIXED: from one to the next; 0: `record` */
} td_source_options;

#define TD_SOURCE_LIMIT ((uint64_t)1 << 30)

/* Numbers and names that no file could be read with: INVALID_ARGUMENT.
 * td_source_open looks too. */
td_status *td_source_check(const td_source_options *o) TD_MUST_USE;

/* Opens for reading, at the beginning, any file system's path (file_system.h).
 * Caller owns the result. */
td_status *td_source_open(const char *path, const td_source_options *o,
                          td_record_source **out) TD_MUST_USE;
void td_source_close(td_record_source *s); /* NULL is ok */

/* Borrowed; valid until the next call with the source. */
typedef struct td_source_record {
  const char *at; /* no NUL behind it */
  size_t len;
  uint64_t offset; /* of its first byte in the file, as unpacked */
  int64_t number;  /* from 0; LINES: its line, from 1 */
} td_source_record;

/* The next record; false in *more at the end of the file. Errors name the file
 * and the place. DATA_LOSS: the file is damaged there, or cut short. */
td_status *td_source_next(td_record_source *s, td_source_record *out,
                          bool *more) TD_MUST_USE;
/* Is the next one in memory already, so that td_source_next does not block? */
bool td_source_ready(const td_record_source *s);
/* Appends the name that TensorFlow's readers give a record: "path:offset",
 * of LINES "path:line", of FIXED "path:number", of WHOLE "path". */
void td_source_key(const td_record_source *s, const td_source_record *r,
                   td_str *out);

typedef struct td_source_position {
  uint64_t offset; /* of the next record, as unpacked */
  int64_t number;  /* records (lines) before it */
  int64_t skipped; /* bad places before it, passed over */
} td_source_position;

td_source_position td_source_tell(const td_record_source *s);
/* Goes to what tell gave. A packed file is unpacked up to there once more where
 * it lies behind. DATA_LOSS when the file is not that long. */
td_status *td_source_seek(td_record_source *s,
                          td_source_position to) TD_MUST_USE;
/* The same for a place behind which this source has just been, where that needs
 * no reading: what a pipe gave is not to be had again. False, and nothing done:
 * it is too far. */
bool td_source_back(td_record_source *s, td_source_position to) TD_MUST_USE;

TD_END
#endif
