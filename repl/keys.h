/* keys.h - what a terminal sends, as keys.
 *
 * Keys beyond characters come as escape sequences (ECMA-48, xterm's and rxvt's
 * forms). A pasted text comes in brackets and is one key.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPL_KEYS_H
#define TD_REPL_KEYS_H

#include "engine/base/str.h"

typedef enum td_key_code {
  TD_KEY_CHAR, /* `rune` */
  TD_KEY_ENTER,
  TD_KEY_TAB,
  TD_KEY_BACKSPACE,
  TD_KEY_ESCAPE,
  TD_KEY_UP,
  TD_KEY_DOWN,
  TD_KEY_LEFT,
  TD_KEY_RIGHT,
  TD_KEY_HOME,
  TD_KEY_END,
  TD_KEY_DELETE,
  TD_KEY_PAGE_UP,
  TD_KEY_PAGE_DOWN,
  TD_KEY_HELP,    /* F1 */
  TD_KEY_PASTE,   /* its text is in the reader */
  TD_KEY_UNKNOWN, /* a sequence that means nothing here */
} td_key_code;

typedef struct td_key {
  td_key_code code;
  unsigned rune; /* a code point; for ctrl the lower-case letter or symbol */
  bool ctrl, alt, shift;
} td_key;

/* The first key of bytes[0, len) and how many bytes it took; 0 when it is cut
 * off and `last` does not say that nothing follows. A paste's beginning is
 * TD_KEY_PASTE; what follows is the reader's. */
size_t td_keys_parse(const char *bytes, size_t len, bool last, td_key *key);

typedef struct td_keys {
  char bytes[4096]; /* read and not parsed */
  size_t len;
  td_str paste; /* the last paste, as text */
} td_keys;

void td_keys_init(td_keys *k);
void td_keys_deinit(td_keys *k);

typedef enum td_keys_event {
  TD_KEYS_KEY,
  TD_KEYS_SIGNAL, /* the terminal was resized or is back: td_term_events */
  TD_KEYS_ENDED,  /* the terminal is gone */
} td_keys_event;

/* Waits for a key on the terminal. */
td_keys_event td_keys_read(td_keys *k, td_key *key);
/* True when more keys are there already. */
bool td_keys_pending(const td_keys *k);

#endif
