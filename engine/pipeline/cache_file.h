/* cache_file.h - elements of a pipeline kept in a file.
 *
 * The file is TFRecords: a header that names the columns' dtypes, a record for
 * each element, and a last one with their number, so that a file that was cut
 * between two records does not look whole. It is written beside its path and
 * takes that name when it is whole and on the disk. What is read may be
 * damaged: every size is looked at first.
 *
 * All of it blocks: for I/O threads. One thread at a time uses one of these.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CACHE_FILE_H
#define TD_CACHE_FILE_H

#include "engine/pipeline/stage.h"

/* Can such columns be kept in a file? INVALID_ARGUMENT says which cannot. */
td_status *td_cache_check(const td_column *columns, int n) TD_MUST_USE;

typedef struct td_cache_writer td_cache_writer;

/* Begins a file beside `path`, under a name of its own. Columns are borrowed;
 * valid until the writer ends. Caller owns the result. */
td_status *td_cache_writer_open(const char *path, const td_column *columns,
                                int n, td_cache_writer **out) TD_MUST_USE;
td_status *td_cache_write(td_cache_writer *w, const td_element *e) TD_MUST_USE;
/* The file takes its name. Frees, whatever it returns; after an error there is
 * no file that was not there before. */
td_status *td_cache_writer_finish(td_cache_writer *w) TD_MUST_USE;
void td_cache_writer_drop(td_cache_writer *w); /* NULL is ok */

typedef struct td_cache_reader td_cache_reader;

/* NOT_FOUND when there is no such file; FAILED_PRECONDITION when it holds
 * elements of other columns. Columns are borrowed; valid until it is closed.
 * Caller owns the result. */
td_status *td_cache_reader_open(const char *path, const td_column *columns,
                                int n, td_cache_reader **out) TD_MUST_USE;
/* The next element, the caller's; false in *more at the end. */
td_status *td_cache_read(td_cache_reader *r, td_element *e,
                         bool *more) TD_MUST_USE;
void td_cache_reader_close(td_cache_reader *r); /* NULL is ok */

#endif
