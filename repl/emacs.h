/* emacs.h - the keys of emacs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPL_EMACS_H
#define TD_REPL_EMACS_H

#include "repl/editor.h"

/* What the key does when no menu or search is open. */
td_edit_outcome td_edit_emacs_key(td_editor *e, const td_edit_key *key);

#endif
