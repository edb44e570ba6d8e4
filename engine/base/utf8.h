/* utf8.h - what is UTF-8 and what is not.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_UTF8_H
#define TD_UTF8_H

#include "engine/base/base.h"

TD_BEGIN

/* The length of the sequence at `p`, of whose bytes `left` > 0 are there, or 0
 * when it is none: cut short, longer than needed, a surrogate, or beyond
 * U+10FFFF. */
size_t td_utf8_len(const unsigned char *p, size_t left);
/* All of it? */
bool td_utf8_valid(const char *text, size_t len);
/* Writes a character of at most U+10FFFF; returns how many bytes it has. */
size_t td_utf8_put(uint32_t c, char to[4]);

TD_END
#endif
