/* color.h - the colours, brackets and indentation of Lua source being typed.
 *
 * All by the words of lua/console/lexer.h: a bracket inside a string is none.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPL_COLOR_H
#define TD_REPL_COLOR_H

#include "repl/screen.h"

/* The style (td_edit_style) of each byte. With `cursor` on or behind a bracket,
 * it and its other half are TD_EDIT_STYLE_MATCH; one without other half is
 * BROKEN. Pass SIZE_MAX for no cursor. */
void td_edit_color_text(const char *text, size_t len, size_t cursor,
                        unsigned char *styles);

/* The bracket that belongs to the one at `at`; SIZE_MAX: no bracket, or alone.
 */
size_t td_edit_color_pair(const char *text, size_t len, size_t at);

/* Spaces at the start of a new line behind text[0, at). */
size_t td_edit_color_indent(const char *text, size_t at);
/* Where the line text[start, end) is nothing but a word that closes a block or
 * bracket (or `else`), the spaces that should stand before it; else SIZE_MAX.
 */
size_t td_edit_color_dedent(const char *text, size_t start, size_t end);

#endif
