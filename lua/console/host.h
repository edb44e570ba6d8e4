/* host.h - the console core: one interpreter with Tide in it.
 *
 * Shared by the prompt and the notebook kernel, which know no Lua. What a
 * console does is written in Lua (lua/tide/console) and reached by one door:
 * td_line_call, JSON in and JSON out.
 *
 * A *line* is one line of evaluation: the prompt, a notebook's cells, a
 * subshell. Each belongs to one thread at a time and has a coroutine of its
 * own; they take turns in the interpreter, which is free while a step runs, a
 * line waits for input, or a wait ends by td_line_wait. Whoever waits for a
 * turn gets it within milliseconds, from busy Lua code too.
 *
 * An interrupt may come from any thread or signal handler and gives control
 * back within a second from Lua code, coroutines, pcall loops, steps and waits.
 * (A library call in C that never looks, such as an exponential string.find, is
 * the exception.)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_HOST_H
#define TD_HOST_H

#include "engine/base/str.h"

typedef struct td_host td_host;
typedef struct td_line td_line;

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
  /* What came with the request that is served, beside its content: its metadata
   * (n = -1, a JSON object), its n-th buffer; false when there is none. Borrowed
   * while it is served. */
  bool (*part)(void *arg, td_line *line, int n, td_bytes *out);
} td_frontend;

/* NULL when there is no memory or Tide cannot start: *why then says so (caller
 * owns it, td_free). `frontend` is borrowed, or NULL for scripts. */
td_host *td_host_new(const td_frontend *frontend, char **why);
/* Every other line is gone before. */
void td_host_free(td_host *h);

/* ---- lines ---- */

/* The first one, of the thread that made the host. Borrowed. */
td_line *td_host_line(td_host *h);
/* One more; `name` is how Lua knows it (a subshell's id). NULL: no memory. */
td_line *td_line_new(td_host *h, const char *name);
void td_line_free(td_line *l);
const char *td_line_name(const td_line *l);
/* The one this thread runs at the moment, or NULL. */
td_line *td_line_current(void);

/* Async-signal-safe. False, and nothing done, when the line is idle. */
bool td_line_interrupt(td_line *l);
/* Signals once more to a call that was interrupted and has not seen it: a wait
 * in a library may have begun just after the first time. False when there is
 * none. */
bool td_line_nudge(td_line *l);
/* True while something runs. */
bool td_line_busy(const td_line *l);
/* True from an interrupt until the call it meant has ended. */
bool td_line_interrupted(const td_line *l);
/* True while what runs is no Lua code: a step, a wait. */
bool td_line_waiting(const td_line *l);

/* Around a wait in C code that the line's Lua code called: others may run.
 * Nothing of Lua may be touched between the two. */
void td_line_wait(td_line *l);
void td_line_resume(td_line *l);

/* For who has replaced C's streams: a line that captures its output takes this
 * text of stream 1 or 2, written by its thread. False: nobody did. */
bool td_line_captures(int stream, const char *bytes, size_t len);

/* ---- running: on the line's thread ---- */

/* Calls service `name` of tide.console with the decoded request, a JSON object;
 * `reply` gets the encoded result, or the error's text. */
td_host_outcome td_line_call(td_line *l, const char *name, const char *request,
                             size_t len, td_str *reply);

/* Sets the script's arguments: global `arg`, arg[0] = name. */
void td_host_args(td_host *h, const char *name, int argc, char **argv);
/* Runs a file ("-": standard input) or a string; `text` gets the error. */
td_host_outcome td_host_file(td_host *h, const char *path, td_str *text);
td_host_outcome td_host_string(td_host *h, const char *code, const char *name,
                               td_str *text);
/* Runs subcommand tide.cli.<name> with the arguments; its result is the exit
 * code, in *code. NOT_FOUND is -1. */
td_host_outcome td_host_command(td_host *h, const char *name, int argc,
                                char **argv, int *code, td_str *text);

#endif
