/* interrupt.c - Ctrl-C.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "repl/interrupt.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "repl/term.h"

enum { PATIENCE = 3 };

static td_line *volatile running; /* read by the handler */
static volatile sig_atomic_t count;

static void on_signal(int number) {
  (void)number;
  td_line *l = running;
  if (!l || !td_line_busy(l)) {
    count = 0;
    td_edit_term_poke();
    return;
  }
  td_line_interrupt(l);
  if (++count > PATIENCE) _exit(TD_INTERRUPT_EXIT);
}

void td_interrupt_listen(td_line *line) {
  struct sigaction a;
  running = line;
  memset(&a, 0, sizeof a);
  a.sa_handler = on_signal;
  sigaction(SIGINT, &a, NULL); /* no SA_RESTART: a read at the prompt ends */
}

void td_interrupt_reset(void) {
  count = 0;
}
