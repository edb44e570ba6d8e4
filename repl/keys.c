/* keys.c - what a terminal sends, as keys.
 *
 * A lone Escape and the start of a sequence look alike; the reader waits
 * ESCAPE_MS for more before it calls it Escape. Keys are read byte by byte:
 * what was typed behind an Enter belongs to the code that Enter runs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "repl/keys.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "repl/term.h"
#include "repl/text.h"

enum { ESCAPE_MS = 40, PASTE_MS = 5000, PASTE_MOST = 4 << 20, LONGEST = 64 };

/* ---- sequences ---- */

/* CSI number ~ */
static td_edit_key_code numbered(int n) {
  switch (n) {
  case 1:
  case 7:
    return TD_EDIT_KEY_HOME;
  case 3:
    return TD_EDIT_KEY_DELETE;
  case 4:
  case 8:
    return TD_EDIT_KEY_END;
  case 5:
    return TD_EDIT_KEY_PAGE_UP;
  case 6:
    return TD_EDIT_KEY_PAGE_DOWN;
  case 11:
    return TD_EDIT_KEY_HELP;
  case 200:
    return TD_EDIT_KEY_PASTE;
  }
  return TD_EDIT_KEY_UNKNOWN;
}

/* CSI letter, SS3 letter */
static td_edit_key_code lettered(char c) {
  switch (c) {
  case 'A':
    return TD_EDIT_KEY_UP;
  case 'B':
    return TD_EDIT_KEY_DOWN;
  case 'C':
    return TD_EDIT_KEY_RIGHT;
  case 'D':
    return TD_EDIT_KEY_LEFT;
  case 'H':
    return TD_EDIT_KEY_HOME;
  case 'F':
    return TD_EDIT_KEY_END;
  case 'P':
    return TD_EDIT_KEY_HELP;
  case 'M':
    return TD_EDIT_KEY_ENTER; /* the keypad's */
  case 'Z':
    return TD_EDIT_KEY_TAB;
  }
  return TD_EDIT_KEY_UNKNOWN;
}

/* xterm adds to 1: shift 1, alt 2, ctrl 4. */
static void modify(td_edit_key *key, int modifiers) {
  int bits = modifiers > 0 ? modifiers - 1 : 0;
  key->shift = key->shift || (bits & 1);
  key->alt = key->alt || (bits & 2);
  key->ctrl = key->ctrl || (bits & 4);
}

/* A key by its code point: CSI code ; modifiers u, and CSI 27 ; m ; code ~. */
static void by_point(td_edit_key *key, int point) {
  static const struct {
    int point;
    td_edit_key_code code;
  } named[] = {{9, TD_EDIT_KEY_TAB},
               {13, TD_EDIT_KEY_ENTER},
               {27, TD_EDIT_KEY_ESCAPE},
               {127, TD_EDIT_KEY_BACKSPACE}};
  key->code = point >= ' ' ? TD_EDIT_KEY_CHAR : TD_EDIT_KEY_UNKNOWN;
  key->rune = (unsigned)point;
  for (size_t i = 0; i < TD_COUNT(named); i++)
    if (named[i].point == point) key->code = named[i].code;
}

/* The parameters and the final byte of a CSI sequence. */
static void control(td_edit_key *key, const int *n, int count, char last) {
  if (last == '~' && n[0] == 27 && count == 3) {
    modify(key, n[1]);
    by_point(key, n[2]);
  } else if (last == 'u') {
    modify(key, n[1]);
    by_point(key, n[0]);
  } else if (last == '~' || last == '^' || last == '$' || last == '@') {
    modify(key, n[1]); /* rxvt says it by the end: ^ ctrl, $ shift, @ both */
    key->ctrl = key->ctrl || last == '^' || last == '@';
    key->shift = key->shift || last == '$' || last == '@';
    key->code = numbered(n[0]);
  } else {
    key->shift = last == 'Z';
    modify(key, n[1]);
    key->code = lettered(last);
  }
}

/* Behind ESC [. 0: cut off. */
static size_t parse_csi(const char *s, size_t len, td_edit_key *key) {
  int n[4] = {0}, count = 1;
  size_t at = 0;
  if (len && s[0] == '[') return len > 1 ? 2 : 0; /* the console's F keys */
  for (; at < len; at++) {
    unsigned char c = (unsigned char)s[at];
    if (c >= '0' && c <= '9') {
      int *p = &n[count - 1];
      *p = *p < 100000 ? *p * 10 + (c - '0') : *p;
    } else if (c == ';' && count < 4) {
      count++;
    } else if (c >= 0x40 && c <= 0x7e) {
      control(key, n, count, (char)c);
      return at + 1;
    } else if (c == '$') { /* rxvt's last byte, though not by the standard */
      control(key, n, count, '$');
      return at + 1;
    } else if (c < 0x20 || c > 0x7e || at >= LONGEST) {
      return at ? at : 1; /* no sequence: drop what came */
    }
  }
  return 0;
}

static void parse_control(unsigned char c, td_edit_key *key) {
  static const struct {
    unsigned char byte;
    td_edit_key_code code;
  } named[] = {{'\r', TD_EDIT_KEY_ENTER},
               {'\n', TD_EDIT_KEY_ENTER},
               {'\t', TD_EDIT_KEY_TAB},
               {0x7f, TD_EDIT_KEY_BACKSPACE},
               {0x08, TD_EDIT_KEY_BACKSPACE}};
  for (size_t i = 0; i < TD_COUNT(named); i++)
    if (named[i].byte == c) {
      key->code = named[i].code;
      return;
    }
  key->code = TD_EDIT_KEY_CHAR;
  key->ctrl = true;
  key->rune = c == 0 ? ' ' : c < 27 ? c + 'a' - 1u : c + '@' - 0u;
}

/* How many bytes the sequence that starts with `c` should have. */
static size_t utf8_size(unsigned char c) {
  if (c < 0xC0 || c >= 0xF8) return 1;
  return c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
}

static size_t parse_char(const char *s, size_t len, bool last,
                         td_edit_key *key) {
  unsigned char c = (unsigned char)s[0];
  if (c < 0x20 || c == 0x7f) {
    parse_control(c, key);
    return 1;
  }
  size_t n = utf8_size(c), have = 1;
  while (have < n && have < len && ((unsigned char)s[have] & 0xC0) == 0x80)
    have++;
  if (have < n && have == len && !last) return 0;
  key->code = TD_EDIT_KEY_CHAR;
  key->rune = c < 0x80 ? c : 0xFFFD;
  if (have == n && n > 1) {
    key->rune = c & (0xFFu >> (n + 1));
    for (size_t i = 1; i < n; i++)
      key->rune = key->rune << 6 | ((unsigned char)s[i] & 0x3Fu);
  }
  return have;
}

size_t td_edit_keys_parse(const char *bytes, size_t len, bool last,
                          td_edit_key *key) {
  *key = (td_edit_key){.code = TD_EDIT_KEY_UNKNOWN};
  if (!len) return 0;
  if (bytes[0] != '\033') return parse_char(bytes, len, last, key);
  if (len == 1) {
    key->code = TD_EDIT_KEY_ESCAPE;
    return last ? 1 : 0;
  }
  size_t n = 0;
  if (bytes[1] == '[' && len > 2) {
    n = parse_csi(bytes + 2, len - 2, key);
    if (n || !last) return n ? n + 2 : 0;
    return len; /* a sequence that never ended */
  }
  if (bytes[1] == 'O' && len > 2) {
    key->code = lettered(bytes[2]);
    return 3;
  }
  if (!last && (bytes[1] == '[' || bytes[1] == 'O')) return 0;
  if (bytes[1] == '\033') { /* Escape, and another beginning */
    key->code = TD_EDIT_KEY_ESCAPE;
    return 1;
  }
  n = parse_char(bytes + 1, len - 1, last, key);
  key->alt = n > 0;
  return n ? n + 1 : 0;
}

/* ---- reading ---- */

void td_edit_keys_init(td_edit_keys *k) {
  k->len = 0;
  td_str_init(&k->paste);
}

void td_edit_keys_deinit(td_edit_keys *k) {
  td_str_deinit(&k->paste);
}

static void drop(td_edit_keys *k, size_t n) {
  memmove(k->bytes, k->bytes + n, k->len - n);
  k->len -= n;
}

/* At most `most` bytes; false at the end of input. */
static bool fill(td_edit_keys *k, size_t most) {
  size_t room = sizeof k->bytes - k->len;
  ssize_t n = read(0, k->bytes + k->len, most < room ? most : room);
  if (n > 0) k->len += (size_t)n;
  return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

/* Everything up to the closing bracket is the paste. A terminal that never
 * closes it has PASTE_MS to go on. */
static void read_paste(td_edit_keys *k) {
  static const char end[] = "\033[201~";
  enum { END = sizeof end - 1 };
  td_str raw;
  td_str_init(&raw);
  for (;;) {
    const char *found = memmem(k->bytes, k->len, end, END);
    size_t keep = found ? 0 : k->len < END ? k->len : END;
    size_t n = found ? (size_t)(found - k->bytes) : k->len - keep;
    if (raw.len + n <= PASTE_MOST) td_str_addn(&raw, k->bytes, n);
    drop(k, found ? n + END : n);
    if (found || !(td_edit_term_wait(PASTE_MS) & TD_EDIT_TERM_INPUT) ||
        !fill(k, SIZE_MAX))
      break;
  }
  td_str_clear(&k->paste);
  td_edit_text_clean(&k->paste, td_str_c(&raw), raw.len);
  td_str_deinit(&raw);
}

static bool parsed(td_edit_keys *k, bool last, td_edit_key *key) {
  size_t n = td_edit_keys_parse(k->bytes, k->len, last, key);
  if (!n) return false;
  drop(k, n);
  if (key->code == TD_EDIT_KEY_PASTE) read_paste(k);
  return true;
}

td_edit_keys_event td_edit_keys_read(td_edit_keys *k, td_edit_key *key) {
  for (;;) {
    if (parsed(k, false, key)) return TD_EDIT_KEYS_KEY;
    int got = td_edit_term_wait(k->len ? ESCAPE_MS : -1);
    if (got & TD_EDIT_TERM_SIGNAL) return TD_EDIT_KEYS_SIGNAL;
    if (got & TD_EDIT_TERM_INTERRUPT) {
      *key = (td_edit_key){.code = TD_EDIT_KEY_CHAR, .rune = 'c', .ctrl = true};
      return TD_EDIT_KEYS_KEY;
    }
    if (got & TD_EDIT_TERM_INPUT) {
      if (!fill(k, 1)) return TD_EDIT_KEYS_ENDED;
    } else if (k->len && parsed(k, true, key)) {
      return TD_EDIT_KEYS_KEY;
    }
  }
}

bool td_edit_keys_pending(const td_edit_keys *k) {
  return k->len > 0 || td_edit_term_ready();
}
