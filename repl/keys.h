/* keys.h - what a terminal sends, as keys.
 *
 * Keys beyond characters come as escape sequences (ECMA-48, xterm's and rxvt's
 * forms). A pasted text comes in brackets and is one key.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPL_KEYS_H
#define TD_REPL_KEYS_H

#include "engine/base/str.h"

typedef enum td_edit_key_code {
  TD_EDIT_KEY_CHAR, /* `rune` */
  TD_EDIT_KEY_ENTER,
  TD_EDIT_KEY_TAB,
  TD_EDIT_KEY_BACKSPACE,
  TD_EDIT_KEY_ESCAPE,
  TD_EDIT_KEY_UP,
  TD_EDIT_KEY_DOWN,
  TD_EDIT_KEY_LEFT,
  TD_EDIT_KEY_RIGHT,
  TD_EDIT_KEY_HOME,
  TD_EDIT_KEY_END,
  TD_EDIT_KEY_DELETE,
  TD_EDIT_KEY_PAGE_UP,
  TD_EDIT_KEY_PAGE_DOWN,
  TD_EDIT_KEY_HELP,    /* F1 */
  TD_EDIT_KEY_PASTE,   /* its text is in the reader */
  TD_EDIT_KEY_UNKNOWN, /* a sequence that means nothing here */
} td_edit_key_code;

typedef struct td_edit_key {
  td_edit_key_code code;
  unsigned rune; /* a code point; for ctrl the lower-case letter or symbol */
  bool ctrl, alt, shift;
} td_edit_key;

/* The first key of bytes[0, len) and how many bytes it took; 0 when it is cut
 * off and `last` does not say that nothing follows. A paste's beginning is
 * TD_EDIT_KEY_PASTE; what follows is the reader's. */
size_t td_edit_keys_parse(const char *bytes, size_t len, bool last,
                          td_edit_key *key);

typedef struct td_edit_keys {
  char bytes[4096]; /* read and not parsed */
  size_t len;
  td_str paste; /* the last paste, as text */
} td_edit_keys;

void td_edit_keys_init(td_edit_keys *k);
void td_edit_keys_deinit(td_edit_keys *k);

typedef enum td_edit_keys_event {
  TD_EDIT_KEYS_KEY,
  TD_EDIT_KEYS_SIGNAL, /* the terminal has another size, or is back */
  TD_EDIT_KEYS_ENDED,  /* the terminal is gone */
} td_edit_keys_event;

/* Waits for a key on the terminal. */
td_edit_keys_event td_edit_keys_read(td_edit_keys *k, td_edit_key *key);
/* True when more keys are there already. */
bool td_edit_keys_pending(const td_edit_keys *k);

#endif
