/* host.h - the console core: one interpreter with Tide in it.
 *
 * Shared by the prompt and the notebook kernel, which know no Lua. Text in,
 * text out; an interrupt may come from a signal handler at any time and gives
 * control back within a second from Lua code, coroutines, pcall loops, steps
 * and waits. (A library call in C that never looks, such as an exponential
 * string.find, is the exception.)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_HOST_H
#define TD_HOST_H

#include "engine/base/str.h"

#define TD_VERSION "0.1"

typedef struct td_host td_host;

typedef enum td_host_outcome {
  TD_HOST_OK,
  TD_HOST_ERROR,       /* the message is in `text` */
  TD_HOST_INCOMPLETE,  /* more lines are needed */
  TD_HOST_INTERRUPTED, /* by td_host_interrupt */
} td_host_outcome;

/* NULL when there is no memory or Tide cannot start: *why then says so (caller
 * owns it, td_free). */
td_host *td_host_new(char **why);
void td_host_free(td_host *h);

/* Sets the script's arguments: global `arg`, arg[0] = name. */
void td_host_args(td_host *h, const char *name, int argc, char **argv);

/* Runs a file ("-": standard input) or a string; `text` gets the error. */
td_host_outcome td_host_file(td_host *h, const char *path, td_str *text);
td_host_outcome td_host_string(td_host *h, const char *code, const char *name,
                               td_str *text);
/* Evaluates what a person typed: an expression's values are printed into
 * `text`; ?NAME prints help; a chunk that wants more lines is INCOMPLETE. */
td_host_outcome td_host_eval(td_host *h, const char *code, const char *name,
                             td_str *text);
/* Runs subcommand tide.cli.<name> with the arguments; its result is the exit
 * code, in *code. NOT_FOUND is -1. */
td_host_outcome td_host_command(td_host *h, const char *name, int argc,
                                char **argv, int *code, td_str *text);

/* Async-signal-safe. */
void td_host_interrupt(td_host *h);
/* True while something runs. */
bool td_host_busy(const td_host *h);

#endif
