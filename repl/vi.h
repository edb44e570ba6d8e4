/* vi.h - the keys of vi.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPL_VI_H
#define TD_REPL_VI_H

#include "repl/editor.h"

/* What the key does when no menu or search is open. */
td_edit_outcome td_edit_vi_key(td_editor *e, const td_edit_key *key);
/* Forgets the beginning of a command. */
void td_edit_vi_forget(td_edit_vi *v);
/* Whether vi's keys are wanted: TIDE_EDIT, or editing-mode of ~/.inputrc. */
bool td_edit_vi_wanted(void);

#endif
