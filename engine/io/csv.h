/* csv.h - tables as text: one row a line, cells between separators.
 *
 * A cell in double quotes may hold separators, line ends and, doubled, quotes.
 * Lines end in \n or \r\n; empty ones are passed over. All rows have as many
 * cells as the first. No byte is trusted; errors name file, line and column.
 *
 * A table is read in pieces, twice: what its columns are and how large, then
 * into tensors of just that size. Beside them some 512 KiB are held, and one row
 * whole.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CSV_H
#define TD_CSV_H

#include "engine/tensor/tensor.h"

TD_BEGIN

typedef struct td_csv td_csv;

typedef struct td_csv_options {
  char separator; /* 0: a comma */
  bool header;    /* the first line names the columns; else "c0", "c1", ... */
} td_csv_options;

/* A file of any file system; one called *.gz is unpacked on the way. Reads the
 * first line. Caller owns the result. */
td_status *td_csv_open(const char *path, const td_csv_options *o,
                       td_csv **out) TD_MUST_USE;
/* The same of bytes in memory: borrowed, until td_csv_free. `from` names the
 * source in messages. */
td_status *td_csv_parse(const char *bytes, size_t len, const char *from,
                        const td_csv_options *o, td_csv **out) TD_MUST_USE;
void td_csv_free(td_csv *c);

int td_csv_columns(const td_csv *c);
/* Borrowed; valid while `c` lives. */
const char *td_csv_name(const td_csv *c, int column);

/* What a column is to be. TD_INVALID: int64 when all cells are whole numbers,
 * else float32 when all are numbers or empty, else string. An empty cell is
 * `missing`, if that is given; else NaN, false or "", and an error in integers.
 */
typedef struct td_csv_as {
  td_dtype dtype;
  bool fill;
  double missing;
} td_csv_as;

/* All columns, as vectors in host memory, the caller's; as[i] and out[i] are of
 * column i. May be called again. */
td_status *td_csv_read(td_csv *c, const td_csv_as *as,
                       td_tensor *out) TD_MUST_USE;

TD_END
#endif
