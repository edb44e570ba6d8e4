/* regex.h - the door to PCRE2: regular expressions as RE2 reads them.
 *
 * TensorFlow's patterns are RE2's. What PCRE2 has beyond those (back
 * references, looking around, atomic groups, recursion) is refused, and the
 * rest is compiled so that it means the same: UTF-8, bytes that are none match
 * nothing but themselves, `$` is the end. Where the two differ still: PCRE2
 * tries one way after the other, so a pattern such as (a+)+b may need more
 * steps than are allowed and is then refused; \s takes the vertical tab too.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REGEX_H
#define TD_REGEX_H

#include "engine/base/status.h"
#include "kernels/text.h"

TD_BEGIN

typedef struct td_regex td_regex;

/* Compiles a pattern, which a message may show. Caller owns the result. */
td_status *td_regex_new(td_bytes pattern, td_regex **out) TD_MUST_USE;
void td_regex_free(td_regex *r);        /* NULL too */
int td_regex_groups(const td_regex *r); /* beside the whole match */

/* The text to be searched from now on. Borrowed; valid while it is searched. */
td_status *td_regex_text(td_regex *r, td_bytes text) TD_MUST_USE;
/* Looks for the first match that begins at byte `from` or later. *found: begin
 * and end of group k (0: the whole) are then td_regex_at(r)[2k], [2k + 1]. A
 * search ends when the step is stopped, with any answer. */
td_status *td_regex_find(td_regex *r, size_t from, const td_kernel_ctx *c,
                         bool *found) TD_MUST_USE;
/* Does it match all of the text? */
td_status *td_regex_whole(td_regex *r, bool *found) TD_MUST_USE;
/* A group that took no part: two of SIZE_MAX. Borrowed; valid until the next
 * search. */
const size_t *td_regex_at(const td_regex *r);
/* Bytes of the character at byte `at`; 1 where it is no UTF-8. */
size_t td_regex_character(td_bytes text, size_t at);

TD_END
#endif
