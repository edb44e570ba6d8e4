/* host.h - the console core: one interpreter with Tide in it.
 *
 * Shared by the prompt and the notebook kernel, which know no Lua. What a
 * console does is written in Lua (lua/tide/console) and reached by one door:
 * td_host_call, JSON in and JSON out.
 *
 * It has lines of evaluation (line.h): the first one is there from the start.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_HOST_H
#define TD_HOST_H

#include "engine/base/str.h"
#include "lua/console/line.h"

typedef enum td_host_outcome {
  TD_HOST_OK,
  TD_HOST_ERROR,       /* the message is in `text` */
  TD_HOST_INTERRUPTED, /* by td_line_interrupt */
} td_host_outcome;

/* What the console has to tell: a message of the Jupyter protocol. */
typedef struct td_frontend_message {
  const char *type;           /* "display_data", "comm_msg", ... */
  td_bytes content, metadata; /* JSON objects */
  const td_bytes *buffers;    /* binary parts behind them */
  int n_buffers;
} td_frontend_message;

/* Who shows it. Functions may be NULL, and are called on the line's thread
 * with the interpreter free for others. */
typedef struct td_frontend {
  void *arg;
  const char *kind; /* "notebook", "terminal", or "script" */
  void (*publish)(void *arg, td_line *line, const td_frontend_message *m);
  /* A line typed by the user, without its end. ERROR: the input has ended, or
   * there is none; `out` then says so. */
  td_host_outcome (*input)(void *arg, td_line *line, const char *prompt,
                           bool password, td_str *out);
  /* What came with the request that is served, beside its content: its
   * metadata (n = -1, a JSON object), its n-th buffer; false when there is
   * none. Borrowed while it is served. */
  bool (*part)(void *arg, td_line *line, int n, td_bytes *out);
} td_frontend;

/* NULL when there is no memory or Tide cannot start: *why then says so (caller
 * owns it, td_free). `frontend` is borrowed, or NULL for scripts. */
td_host *td_host_new(const td_frontend *frontend, char **why);
/* Every other line is gone before. */
void td_host_free(td_host *h);

/* The first line, of the thread that made the host. Borrowed. */
td_line *td_host_line(td_host *h);

/* ---- running: on the line's thread, without a line the first one's ---- */

/* Calls service `name` of tide.console with the decoded request, a JSON object;
 * `reply` gets the encoded result, or the error's text. */
td_host_outcome td_host_call(td_line *l, const char *name, const char *request,
                             size_t len, td_str *reply);

/* Sets the script's arguments: global `arg`, arg[0] = name. */
void td_host_args(td_host *h, const char *name, int argc, char **argv);
/* Runs a file ("-": standard input) or a string; `text` gets the error. */
td_host_outcome td_host_file(td_host *h, const char *path, td_str *text);
td_host_outcome td_host_string(td_host *h, const char *code, const char *name,
                               td_str *text);
/* What the last script that came to its end wants the process to end with:
 * 0, unless it was told to stop and is to be started again. */
int td_host_exit_code(const td_host *h);
/* Runs subcommand tide.cli.<name> with the arguments; its result is the exit
 * code, in *code. NOT_FOUND is -1. */
td_host_outcome td_host_command(td_host *h, const char *name, int argc,
                                char **argv, int *code, td_str *text);

#endif
