/* error.h - errors as the protocol writes them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_JUPYTER_ERROR_H
#define TD_JUPYTER_ERROR_H

#include "engine/base/str.h"

/* Appends the content of an `error` message, which everybody sees: the name of
 * the error, the text, the traceback (here the same text). */
void td_jupyter_error_shown(td_str *out, const char *name, const char *text,
                            size_t len);
/* Appends the content of a reply of status "error", with the same members.
 * `count`: of the cells run so far; -1: the reply has none. */
void td_jupyter_error_reply(td_str *out, const char *name, const char *text,
                            size_t len, int count);

#endif
