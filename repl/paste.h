/* paste.h - pasted text without the prompts it was copied with.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPL_PASTE_H
#define TD_REPL_PASTE_H

#include "engine/base/str.h"

/* Where the first line that is not blank begins with a prompt ("> ", ">> ",
 * "In [3]: "), appends only what was typed at prompts: those of the first
 * line's kind, their continuations ("...", ">> "), and, for "In [3]: ", without
 * the results ("Out[3]: ") between. Other text is appended as it is. */
void td_edit_paste_clean(td_str *out, const char *text, size_t len);

#endif
