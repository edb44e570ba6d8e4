/* lexer.h - the words of Lua source, one after the other.
 *
 * For whoever looks at source without running it: highlighting, brackets,
 * indentation, completion, the parser of cells. Knows no Lua state and never
 * fails: what is cut off or wrong is a word of its own kind, and the kinds'
 * words together with what is between them are the whole text.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_LEXER_H
#define TD_LUA_LEXER_H

#include <stdbool.h>
#include <stddef.h>

typedef enum td_word_kind {
  TD_WORD_END, /* of the text */
  TD_WORD_NAME,
  TD_WORD_KEYWORD, /* and, do, ...; nil, true, false too */
  TD_WORD_NUMBER,
  TD_WORD_STRING,
  TD_WORD_COMMENT,
  TD_WORD_SYMBOL, /* operators, brackets, separators */
  TD_WORD_OPEN,   /* a long string or long comment without its end */
  TD_WORD_BROKEN, /* a string cut by the line's end, a malformed number, a
                     character that Lua does not have */
} td_word_kind;

/* Bytes [start, start + len) of the text. */
typedef struct td_word {
  td_word_kind kind;
  size_t start, len;
} td_word;

/* The first word at or after `at`. Words are found from a word's start or from
 * between words; `at` inside one gives what the rest looks like. */
td_word td_lexer_next(const char *text, size_t len, size_t at);
/* "name", "keyword", ... as console.words gives them. */
const char *td_lexer_kind_name(td_word_kind kind);
/* By how many blocks and brackets the word opens (+1) or closes (-1): do,
 * then, function, repeat, ( [ { against end, until, elseif, ) ] }. (The `then`
 * after an elseif opens again; else changes nothing.) */
int td_lexer_depth(const char *text, td_word w);

#endif
