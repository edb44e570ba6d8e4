/* term.h - the terminal's modes, size and signals.
 *
 * The terminal is raw only while a line is edited: code that runs finds it as
 * it was, so that io.read, child processes and Ctrl-C work. However the process
 * ends, signals included, it is put back.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPL_TERM_H
#define TD_REPL_TERM_H

#include <stdbool.h>
#include <stddef.h>

/* True when lines can be edited: standard input and output are one that can
 * move its cursor. */
bool td_edit_term_able(void);
/* Installs handlers of signals; once. False: no pipe to be had. */
bool td_edit_term_listen(void);

/* Raw mode with bracketed paste; false when the terminal refuses. */
bool td_edit_term_raw(void);
void td_edit_term_cooked(void);

/* While raw: whether Ctrl-C is a signal and no key. For questions to services
 * that may take long. */
void td_edit_term_interruptible(bool on);

void td_edit_term_size(int *columns, int *lines);

/* True when the terminal is known to wrap what it shows anew when it becomes
 * narrower; xterm and the console cut it off. */
bool td_edit_term_wraps(void);

/* What happened, as bits. */
enum {
  TD_EDIT_TERM_INPUT = 1,
  TD_EDIT_TERM_SIGNAL = 2, /* the size has changed, or the process goes on */
  TD_EDIT_TERM_INTERRUPT = 4
};
/* Waits for input or a signal; 0 when `timeout_ms` (-1: none) has passed. */
int td_edit_term_wait(int timeout_ms);
/* True when there is input now. */
bool td_edit_term_ready(void);
/* Tells td_edit_term_wait of an interrupt. Async-signal-safe. */
void td_edit_term_poke(void);

/* Stops the process as Ctrl-Z does; returns when it goes on. */
void td_edit_term_stop(void);
/* Writes everything, or gives up. */
void td_edit_term_write(const char *bytes, size_t len);

#endif
