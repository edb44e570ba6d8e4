/* text.h - pieces of text as a notebook should get them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_JUPYTER_TEXT_H
#define TD_JUPYTER_TEXT_H

#include "engine/base/str.h"

/* How many bytes at the end begin a UTF-8 character that is not whole: 0 to 3.
 */
size_t td_jupyter_text_partial(const char *text, size_t len);
/* Appends the text as it looks once each \r has gone back to the start of its
 * line and what follows has been written over it: "0123\rab\n" becomes
 * "ab23\n". */
void td_jupyter_text_collapse(td_str *out, const char *text, size_t len);

#endif
