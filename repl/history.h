/* history.h - what was typed before, and the way through it.
 *
 * The list is the prompt's own; what lies on disk is the console's (service
 * "history"), which `execute` adds to and which the prompt reads once: a piece
 * at a time, the newest first, so that no key waits for long.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPL_HISTORY_H
#define TD_REPL_HISTORY_H

#include "engine/base/str.h"
#include "engine/base/vec.h"

typedef struct td_edit_history {
  TD_VEC(char *) entries; /* oldest first */
  size_t at;              /* the one shown; entries.len: none */
  int before;             /* where on disk the older ones end; 0: none there */
  td_str draft;           /* what stood there before */
  size_t draft_cursor;
  td_str prefix; /* entries shown begin with it */
} td_edit_history;

void td_edit_history_init(td_edit_history *h);
void td_edit_history_deinit(td_edit_history *h);

/* Copies; empty text and a repetition of the newest are left out. */
void td_edit_history_add(td_edit_history *h, const char *text, size_t len);
/* The same with one that is older than all. */
void td_edit_history_add_older(td_edit_history *h, const char *text,
                               size_t len);

/* Walking: the next entry older (newer) than the one shown that begins with
 * what stood before the cursor when the walk began, and differs from the text
 * shown. `shown` and `cursor` are kept as the draft when it begins. NULL: there
 * is none. Borrowed. */
const char *td_edit_history_older(td_edit_history *h, const td_str *shown,
                                  size_t cursor);
/* Past the newest: the draft, with its cursor in *cursor; SIZE_MAX otherwise.
 */
const char *td_edit_history_newer(td_edit_history *h, const td_str *shown,
                                  size_t *cursor);
/* Ends the walk. */
void td_edit_history_leave(td_edit_history *h);

/* The newest entry that begins with text and goes on; NULL: none. Borrowed. */
const char *td_edit_history_suggest(const td_edit_history *h,
                                    const td_str *text);

#endif
