/* csv.h - tables as text: one row a line, cells between separators.
 *
 * A cell in double quotes may hold separators, line ends and, doubled, quotes.
 * Lines end in \n or \r\n; empty ones are passed over. All rows have as many
 * cells as the first. No byte is trusted; errors name file, line and column.
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

/* `from` names the source in messages. Caller owns the result. */
td_status *td_csv_parse(const char *bytes, size_t len, const char *from,
                        const td_csv_options *o, td_csv **out) TD_MUST_USE;
void td_csv_free(td_csv *c);

int64_t td_csv_rows(const td_csv *c);
int td_csv_columns(const td_csv *c);
/* Borrowed; valid while `c` lives. */
const char *td_csv_name(const td_csv *c, int column);

/* A column as a vector in host memory. dtype TD_INVALID: int64 when all cells
 * are whole numbers, else float32 when all are numbers or empty, else string.
 * An empty cell is *missing; without (NULL) it is NaN, false or "", and an
 * error in integers. */
td_status *td_csv_column(const td_csv *c, int column, td_dtype dtype,
                         const double *missing, td_tensor *out) TD_MUST_USE;

TD_END
#endif
