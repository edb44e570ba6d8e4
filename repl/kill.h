/* kill.h - the kill ring: what was cut, to be put back.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPL_KILL_H
#define TD_REPL_KILL_H

#include "engine/base/str.h"

enum { TD_EDIT_KILL_MOST = 60 };

typedef enum td_edit_kill_how {
  TD_EDIT_KILL_NEW,
  TD_EDIT_KILL_APPEND,  /* behind the newest: cut forwards again */
  TD_EDIT_KILL_PREPEND, /* before it: cut backwards again */
} td_edit_kill_how;

typedef struct td_edit_kill {
  td_str ring[TD_EDIT_KILL_MOST];
  int n, newest;
  int back; /* how many pops behind the newest the next one is */
} td_edit_kill;

void td_edit_kill_init(td_edit_kill *k);
void td_edit_kill_deinit(td_edit_kill *k);
/* Copies; without memory the ring stays as it was. */
void td_edit_kill_add(td_edit_kill *k, const char *text, size_t len,
                      td_edit_kill_how how);
/* The newest; at = NULL when the ring is empty. Borrowed until the next add. */
td_bytes td_edit_kill_yank(td_edit_kill *k);
/* The one before what yank or pop gave last, around the ring. */
td_bytes td_edit_kill_pop(td_edit_kill *k);

#endif
