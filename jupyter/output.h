/* output.h - the text of a cell on its way to those who watch.
 *
 * Text comes in pieces that end anywhere. A character cut in two is put
 * together, a line that was written over and over (\r) is sent as it looks at
 * last (text.h), and a cell that prints more than the limit shows its beginning
 * and its end: all of it is then in a file, which a line names.
 *
 * Used by one thread alone, iopub's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_JUPYTER_OUTPUT_H
#define TD_JUPYTER_OUTPUT_H

#include "jupyter/wire.h"

/* Bytes of a cell, unless told otherwise. */
enum { TD_JUPYTER_OUTPUT_LIMIT = 1 << 20 };

/* Sends text; stream 1 is stdout, 2 stderr. */
typedef void td_jupyter_output_sink(void *arg, td_jupyter_request *parent,
                                    int stream, const char *text, size_t len);

typedef struct td_jupyter_cell td_jupyter_cell;

typedef struct td_jupyter_output {
  td_jupyter_cell *first; /* of cells that run */
  size_t limit;           /* 0: none */
  td_jupyter_output_sink *sink;
  void *arg;
  int n_files; /* ever */
} td_jupyter_output;

void td_jupyter_output_init(td_jupyter_output *o, size_t limit,
                            td_jupyter_output_sink *sink, void *arg);
void td_jupyter_output_deinit(td_jupyter_output *o);
/* Text of the cell that `parent` asked for; NULL: of none. */
void td_jupyter_output_text(td_jupyter_output *o, td_jupyter_request *parent,
                            int stream, const char *text, size_t len);
/* The cell is over: what was held back is sent. */
void td_jupyter_output_end(td_jupyter_output *o, td_jupyter_request *parent);

#endif
