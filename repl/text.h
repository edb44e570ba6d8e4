/* text.h - what a terminal shows as one character, and how wide it is.
 *
 * Text is UTF-8 that td_edit_text_clean has let through. A *cluster* is what a
 * user calls a character: a letter with its accents, an emoji of several parts.
 * The cursor goes from cluster to cluster. Its width is the sum of its code
 * points' widths, as most terminals count.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPL_TEXT_H
#define TD_REPL_TEXT_H

#include "engine/base/str.h"

/* The cluster at `at` ends here; `len` at the end. A newline is a cluster. */
size_t td_edit_text_next(const char *s, size_t len, size_t at);
/* The cluster before the boundary `at` starts here; 0 at the start. */
size_t td_edit_text_prev(const char *s, size_t len, size_t at);

/* Cells of the cluster s[0, len) when drawn by td_edit_text_show. */
int td_edit_text_width(const char *s, size_t len);
/* Appends what is drawn for the cluster: itself, two spaces for a tab, or its
 * number, as <200b>, where it would be invisible. Returns the width. */
int td_edit_text_show(td_str *out, const char *s, size_t len);
/* Cells of a text of one line. */
int td_edit_text_columns(const char *s, size_t len);

/* Appends `bytes` as text: lines end in \n, bad UTF-8 is U+FFFD, and control
 * characters other than tab are dropped. */
void td_edit_text_clean(td_str *out, const char *bytes, size_t len);

/* The rune's bytes in UTF-8; 0 for what td_edit_text_clean drops. */
size_t td_edit_text_encode(unsigned rune, char out[4]);

/* Code points in s[0, len), and the byte at which that many have passed (`len`
 * where there are fewer). */
size_t td_edit_text_points(const char *s, size_t len);
size_t td_edit_text_offset(const char *s, size_t len, size_t points);

#endif
