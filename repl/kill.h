/* kill.h - the kill ring: what was cut, to be put back.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPL_KILL_H
#define TD_REPL_KILL_H

#include "engine/base/str.h"

enum { TD_KILL_MOST = 60 };

typedef enum td_kill_how {
  TD_KILL_NEW,
  TD_KILL_APPEND,  /* behind the newest: cut forwards again */
  TD_KILL_PREPEND, /* before it: cut backwards again */
} td_kill_how;

typedef struct td_kill {
  td_str ring[TD_KILL_MOST];
  int n, newest;
  int back; /* how many pops behind the newest the next one is */
} td_kill;

void td_kill_init(td_kill *k);
void td_kill_deinit(td_kill *k);
/* Copies; without memory the ring stays as it was. */
void td_kill_add(td_kill *k, const char *text, size_t len, td_kill_how how);
/* The newest; at = NULL when the ring is empty. Borrowed until the next add. */
td_bytes td_kill_yank(td_kill *k);
/* The one before what yank or pop gave last, around the ring. */
td_bytes td_kill_pop(td_kill *k);

#endif
