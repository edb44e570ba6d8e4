/* vi.c - the keys of vi: [count] operator [count] motion, and what goes with
 * it.
 *
 * While inserting, keys are those of emacs.c and Escape leads to commands:
 *
 *   h j k l w b e W B E 0 ^ $ gg G f t F T ; , %   motions
 *   d c y > <   with a motion, or doubled for lines; D C Y x X s S
 *   i a I A o O  p P  r ~ J  u ^R  v (edit in $EDITOR)  / ? (search)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "repl/color.h"
#include "repl/editor.h"
#include "repl/text.h"

/* ---- wanted? ---- */

static bool inputrc_says_vi(const char *path) {
  FILE *f = fopen(path, "r");
  char line[256], mode[32];
  bool vi = false;
  if (!f) return false;
  while (fgets(line, sizeof line, f))
    if (sscanf(line, " set editing-mode %31s", mode) == 1)
      vi = !strcmp(mode, "vi");
  fclose(f);
  return vi;
}

bool td_vi_wanted(void) {
  const char *edit = getenv("TIDE_EDIT"), *rc = getenv("INPUTRC");
  const char *home = getenv("HOME");
  if (edit && *edit) return !strcmp(edit, "vi");
  if (rc && *rc) return inputrc_says_vi(rc);
  td_str path;
  td_str_init(&path);
  td_str_addf(&path, "%s/.inputrc", home ? home : "");
  bool vi = home && !path.failed && inputrc_says_vi(td_str_c(&path));
  td_str_deinit(&path);
  return vi;
}

/* ---- motions ---- */

typedef struct motion {
  size_t to;
  bool lines;     /* of whole lines */
  bool inclusive; /* the character there belongs to it */
} motion;

/* Letters, digits and _; other marks; spaces. `big`: all but spaces is one. */
static int class_of(const td_buffer *b, size_t at, bool big) {
  unsigned char c = (unsigned char)b->text.at[at];
  if (strchr(" \t\n", (char)c)) return 0;
  bool name = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') ||
              c == '_' || c >= 0x80;
  return big || name ? 1 : 2;
}

static size_t next_word(const td_buffer *b, size_t at, bool big) {
  size_t len = b->text.len;
  int class = at < len ? class_of(b, at, big) : 0;
  while (class && at < len && class_of(b, at, big) == class)
    at = td_buffer_right(b, at);
  while (at < len && !class_of(b, at, big)) at = td_buffer_right(b, at);
  return at;
}

static size_t word_end(const td_buffer *b, size_t at, bool big) {
  size_t len = b->text.len, next = td_buffer_right(b, at);
  while (next < len && !class_of(b, next, big)) next = td_buffer_right(b, next);
  if (next >= len) return len ? td_buffer_left(b, len) : 0;
  for (at = next; (next = td_buffer_right(b, at)) < len; at = next)
    if (class_of(b, next, big) != class_of(b, at, big)) break;
  return at;
}

static size_t word_start(const td_buffer *b, size_t at, bool big) {
  while (at > 0 && !class_of(b, td_buffer_left(b, at), big))
    at = td_buffer_left(b, at);
  if (!at) return 0;
  int class = class_of(b, td_buffer_left(b, at), big);
  while (at > 0 && class_of(b, td_buffer_left(b, at), big) == class)
    at = td_buffer_left(b, at);
  return at;
}

/* f, t forwards, F, T backwards, in the line; false: not there. */
static bool find_char(const td_editor *e, char how, unsigned rune, motion *m) {
  const td_buffer *b = &e->buffer;
  bool forward = how == 'f' || how == 't';
  size_t at = b->cursor, start = td_buffer_line_start(b, at);
  size_t end = td_buffer_line_end(b, at), before = at;
  char want[4];
  size_t n = td_text_encode(rune, want);
  for (;;) {
    before = at;
    at = forward ? td_buffer_right(b, at) : td_buffer_left(b, at);
    if (at == before || at < start || at >= end) return false;
    if (n && end - at >= n && !memcmp(b->text.at + at, want, n)) break;
    if (!forward && at == start) return false;
  }
  m->to = how == 'f' || how == 'F' ? at : before;
  m->inclusive = forward;
  return true;
}

static bool again(const td_editor *e, bool other_way, motion *m) {
  static const char ways[] = "fFtT", back[] = "FfTt";
  const char *way = e->vi.find ? strchr(ways, e->vi.find) : NULL;
  if (!way) return false;
  return find_char(e, other_way ? back[way - ways] : *way, e->vi.found, m);
}

/* The line that is `n` further down (up). */
static size_t line_at(const td_buffer *b, size_t at, int n) {
  for (; n > 0 && td_buffer_line_end(b, at) < b->text.len; n--)
    at = td_buffer_line_end(b, at) + 1;
  for (; n < 0 && td_buffer_line_start(b, at) > 0; n++)
    at = td_buffer_line_start(b, at) - 1;
  return td_buffer_line_start(b, at);
}

static bool move_lines(td_editor *e, int n, motion *m) {
  const td_buffer *b = &e->buffer;
  size_t line = line_at(b, b->cursor, n);
  m->lines = true;
  if (line == td_buffer_line_start(b, b->cursor)) return false;
  m->to = td_buffer_at_column(b, line, td_buffer_column(b, b->cursor));
  return true;
}

/* One step of a motion that is counted by repeating it. */
static size_t step(const td_buffer *b, unsigned rune, size_t at) {
  size_t to = at;
  switch (rune) {
  case 'h':
    to = td_buffer_left(b, at);
    break;
  case 'l':
  case ' ':
    to = td_buffer_right(b, at);
    break;
  case 'w':
  case 'W':
    return next_word(b, at, rune == 'W');
  case 'b':
  case 'B':
    return word_start(b, at, rune == 'B');
  case 'e':
  case 'E':
    return word_end(b, at, rune == 'E');
  }
  bool inside =
      to >= td_buffer_line_start(b, at) && to <= td_buffer_line_end(b, at);
  return inside ? to : at;
}

static bool pair(const td_buffer *b, motion *m) {
  size_t end = td_buffer_line_end(b, b->cursor), at = b->cursor;
  const char *t = td_str_c(&b->text);
  while (at < end && !strchr("()[]{}", t[at])) at++;
  m->to = at < end ? td_color_pair(t, b->text.len, at) : SIZE_MAX;
  m->inclusive = true;
  return m->to != SIZE_MAX;
}

/* False: no motion, or it leads nowhere. */
static bool find_motion(td_editor *e, unsigned rune, int n, motion *m) {
  const td_buffer *b = &e->buffer;
  *m = (motion){.to = b->cursor};
  switch (rune) {
  case '0':
    m->to = td_buffer_line_start(b, b->cursor);
    return true;
  case '^':
    m->to = td_buffer_line_text(b, b->cursor);
    return true;
  case '$':
    m->to = td_buffer_line_end(b, line_at(b, b->cursor, n - 1));
    return true;
  case 'j':
    return move_lines(e, n, m);
  case 'k':
    return move_lines(e, -n, m);
  case 'G':
    m->to = td_buffer_line_start(b, b->text.len);
    m->lines = true;
    return true;
  case '%':
    return pair(b, m);
  case ';':
  case ',':
    return again(e, rune == ',', m);
  }
  if (!rune || rune > 'z' || !strchr("hl wWbBeE", (char)rune)) return false;
  for (int i = 0; i < n && i < TD_BUFFER_MOST; i++) {
    size_t to = step(b, rune, m->to);
    if (to == m->to) break;
    m->to = to;
  }
  m->inclusive = rune == 'e' || rune == 'E';
  return true;
}

/* ---- operators ---- */

/* A command stands on a character, never behind the line's last. */
static void keep_in_line(td_editor *e) {
  td_buffer *b = &e->buffer;
  if (b->cursor > td_buffer_line_start(b, b->cursor) &&
      b->cursor == td_buffer_line_end(b, b->cursor))
    b->cursor = td_buffer_left(b, b->cursor);
}

static void insert_mode(td_editor *e) {
  e->vi.normal = false;
  td_buffer_seal(&e->buffer);
}

static void indent_lines(td_editor *e, size_t from, size_t to, bool more) {
  td_buffer *b = &e->buffer;
  td_buffer_begin(b);
  size_t at = td_buffer_line_start(b, to);
  for (;;) {
    size_t spaces = td_buffer_line_text(b, at) - at;
    bool blank = td_buffer_line_text(b, at) == td_buffer_line_end(b, at);
    if (more && !blank) td_buffer_replace(b, at, at, "  ", 2);
    if (!more) td_buffer_remove(b, at, at + (spaces < 2 ? spaces : 2));
    if (at <= from || at == 0) break;
    at = td_buffer_line_start(b, at - 1);
  }
  td_buffer_end(b);
  b->cursor = td_buffer_line_text(b, at);
}

/* Whole lines are cut with one of the newlines around them. */
static void cut_lines(td_editor *e, size_t from, size_t to, bool change) {
  td_buffer *b = &e->buffer;
  from = td_buffer_line_start(b, from);
  to = td_buffer_line_end(b, to);
  td_kill_add(&e->kill, b->text.at + from, to - from, TD_KILL_NEW);
  if (change) {
    from = td_buffer_line_text(b, from);
  } else if (to < b->text.len) {
    to++;
  } else if (from > 0) {
    from--;
  }
  td_buffer_remove(b, from, to);
  if (!change) b->cursor = td_buffer_line_text(b, b->cursor);
}

static void copy(td_editor *e, size_t from, size_t to, bool lines) {
  td_buffer *b = &e->buffer;
  if (lines) {
    from = td_buffer_line_start(b, from);
    to = td_buffer_line_end(b, to);
  }
  td_kill_add(&e->kill, b->text.at + from, to - from, TD_KILL_NEW);
  if (!lines) b->cursor = from;
}

/* Applies d, c, y, > or < from the cursor to where the motion leads. */
static void operate(td_editor *e, char op, const motion *m) {
  td_buffer *b = &e->buffer;
  size_t from = b->cursor < m->to ? b->cursor : m->to;
  size_t to = b->cursor < m->to ? m->to : b->cursor;
  if (m->inclusive && to < b->text.len) to = td_buffer_right(b, to);
  if (op == '>' || op == '<') {
    indent_lines(e, from, to, op == '>');
    return;
  }
  e->vi.lines = m->lines;
  if (op == 'y')
    copy(e, from, to, m->lines);
  else if (m->lines)
    cut_lines(e, from, to, op == 'c');
  else
    td_edit_kill(e, from, to);
  if (op == 'c') insert_mode(e);
}

/* cw changes up to the word's end, and does not take the space behind it. */
static unsigned as_changed(const td_editor *e, unsigned rune) {
  const td_buffer *b = &e->buffer;
  if (e->vi.op != 'c' || (rune != 'w' && rune != 'W')) return rune;
  if (b->cursor >= b->text.len || !class_of(b, b->cursor, true)) return rune;
  return rune == 'w' ? 'e' : 'E';
}

/* dw on a line's last word stops at its end. */
static void stop_at_line(const td_editor *e, unsigned rune, motion *m) {
  size_t end = td_buffer_line_end(&e->buffer, e->buffer.cursor);
  if ((rune == 'w' || rune == 'W') && m->to > end && e->buffer.cursor < end)
    m->to = end;
}

/* ---- commands ---- */

static void put(td_editor *e, bool behind) {
  td_buffer *b = &e->buffer;
  td_bytes cut = td_kill_yank(&e->kill);
  if (!cut.at) return;
  td_buffer_begin(b);
  if (!e->vi.lines) {
    if (behind && b->cursor < td_buffer_line_end(b, b->cursor))
      b->cursor = td_buffer_right(b, b->cursor);
    if (td_buffer_insert(b, cut.at, cut.len))
      b->cursor = td_buffer_left(b, b->cursor);
  } else {
    size_t at = behind ? td_buffer_line_end(b, b->cursor)
                       : td_buffer_line_start(b, b->cursor);
    td_buffer_replace(b, at, at, "\n", 1);
    size_t line = behind ? at + 1 : at;
    td_buffer_replace(b, line, line, cut.at, cut.len);
    b->cursor = td_buffer_line_text(b, line);
  }
  td_buffer_end(b);
}

static void open_line(td_editor *e, bool below) {
  td_buffer *b = &e->buffer;
  insert_mode(e);
  if (below) {
    b->cursor = td_buffer_line_end(b, b->cursor);
    td_edit_newline(e);
    return;
  }
  size_t start = td_buffer_line_start(b, b->cursor);
  size_t spaces = td_buffer_line_text(b, start) - start;
  td_str line;
  td_str_init(&line);
  td_str_addn(&line, td_str_c(&b->text) + start, spaces);
  td_str_addc(&line, '\n');
  if (td_buffer_replace(b, start, start, td_str_c(&line), line.len))
    b->cursor = start + spaces;
  td_str_deinit(&line);
}

static void replace_char(td_editor *e, unsigned rune) {
  td_buffer *b = &e->buffer;
  char bytes[4];
  size_t n = td_text_encode(rune, bytes), at = b->cursor;
  if (!n || at >= td_buffer_line_end(b, at)) return;
  if (td_buffer_replace(b, at, td_buffer_right(b, at), bytes, n))
    b->cursor = at;
}

static void flip_case(td_editor *e, int n) {
  td_buffer *b = &e->buffer;
  td_buffer_begin(b);
  for (; n > 0 && b->cursor < td_buffer_line_end(b, b->cursor); n--) {
    size_t at = b->cursor, next = td_buffer_right(b, at);
    char c = b->text.at[at];
    bool letter = (c | 32) >= 'a' && (c | 32) <= 'z';
    char other = (char)(c ^ 32);
    if (letter) td_buffer_replace(b, at, at + 1, &other, 1);
    b->cursor = next;
  }
  td_buffer_end(b);
}

static void join_lines(td_editor *e) {
  td_buffer *b = &e->buffer;
  size_t end = td_buffer_line_end(b, b->cursor);
  if (end == b->text.len) return;
  if (td_buffer_replace(b, end, td_buffer_line_text(b, end + 1), " ", 1))
    b->cursor = end;
}

/* Commands that are short for an operator and a motion. */
static bool short_form(td_editor *e, unsigned rune, int n) {
  static const struct {
    char rune, op, motion;
  } forms[] = {{'D', 'd', '$'},
               {'C', 'c', '$'},
               {'x', 'd', 'l'},
               {'X', 'd', 'h'},
               {'s', 'c', 'l'}};
  motion m;
  for (size_t i = 0; i < TD_COUNT(forms); i++) {
    if ((unsigned char)forms[i].rune != rune) continue;
    if (find_motion(e, (unsigned char)forms[i].motion, n, &m))
      operate(e, forms[i].op, &m);
    return true;
  }
  m = (motion){.to = line_at(&e->buffer, e->buffer.cursor, n - 1),
               .lines = true};
  if (rune == 'S' || rune == 'Y') operate(e, rune == 'S' ? 'c' : 'y', &m);
  return rune == 'S' || rune == 'Y';
}

static bool start_insert(td_editor *e, unsigned rune) {
  td_buffer *b = &e->buffer;
  size_t at = b->cursor;
  switch (rune) {
  case 'i':
    break;
  case 'a':
    if (at < td_buffer_line_end(b, at)) at = td_buffer_right(b, at);
    break;
  case 'I':
    at = td_buffer_line_text(b, at);
    break;
  case 'A':
    at = td_buffer_line_end(b, at);
    break;
  case 'o':
    open_line(e, true);
    return true;
  case 'O':
    open_line(e, false);
    return true;
  default:
    return false;
  }
  b->cursor = at;
  insert_mode(e);
  return true;
}

static td_edit command(td_editor *e, unsigned rune, int n) {
  if (start_insert(e, rune) || short_form(e, rune, n)) return TD_EDIT_GO_ON;
  switch (rune) {
  case 'p':
    put(e, true);
    break;
  case 'P':
    put(e, false);
    break;
  case '~':
    flip_case(e, n);
    break;
  case 'J':
    join_lines(e);
    break;
  case 'u':
    td_buffer_undo(&e->buffer);
    break;
  case 'v':
    return TD_EDIT_OUTSIDE;
  case '/':
  case '?':
    td_edit_search(e);
    break;
  }
  return TD_EDIT_GO_ON;
}

/* ---- keys ---- */

static void forget(td_vi *v) {
  v->count = v->outer = 0;
  v->op = v->pending = 0;
}

static int times(const td_vi *v) {
  int64_t n = (int64_t)(v->count ? v->count : 1) * (v->outer ? v->outer : 1);
  return n > 9999 ? 9999 : (int)n;
}

/* Moves there, or operates up to there. */
static void go(td_editor *e, unsigned rune, motion *m) {
  if (e->vi.op) {
    stop_at_line(e, rune, m);
    operate(e, e->vi.op, m);
  } else {
    td_edit_move(e, m->to);
  }
}

static td_edit pending(td_editor *e, unsigned rune) {
  char what = e->vi.pending;
  motion m = {.to = 0, .lines = true};
  if (what == 'r') {
    replace_char(e, rune);
  } else if (what == 'g') {
    if (rune == 'g') go(e, 0, &m);
  } else {
    e->vi.find = what;
    e->vi.found = rune;
    m = (motion){.to = e->buffer.cursor};
    if (find_char(e, what, rune, &m)) go(e, 0, &m);
  }
  forget(&e->vi);
  return TD_EDIT_GO_ON;
}

/* The operator twice: whole lines. */
static void operate_lines(td_editor *e, char op, int n) {
  motion m = {.to = line_at(&e->buffer, e->buffer.cursor, n - 1),
              .lines = true};
  operate(e, op, &m);
}

static td_edit normal_char(td_editor *e, unsigned rune) {
  td_vi *v = &e->vi;
  motion m;
  int n = times(v);
  if (v->pending) return pending(e, rune);
  if ((rune >= '1' && rune <= '9') || (rune == '0' && v->count)) {
    if (v->count < 1000) v->count = v->count * 10 + (int)(rune - '0');
    return TD_EDIT_GO_ON;
  }
  if (rune && rune < 0x80 && strchr("fFtTrg", (char)rune)) {
    v->pending = (char)rune;
    return TD_EDIT_GO_ON;
  }
  td_edit what = TD_EDIT_GO_ON;
  if (v->op && rune == (unsigned char)v->op) {
    operate_lines(e, v->op, n);
  } else if (find_motion(e, as_changed(e, rune), n, &m)) {
    go(e, rune, &m);
  } else if (!v->op && rune && rune < 0x80 && strchr("dcy><", (char)rune)) {
    v->op = (char)rune;
    v->outer = v->count;
    v->count = 0;
    return TD_EDIT_GO_ON;
  } else if (!v->op && rune == 'j') {
    td_edit_newer(e);
  } else if (!v->op && rune == 'k') {
    td_edit_older(e);
  } else if (!v->op) {
    what = command(e, rune, n);
  }
  forget(v);
  return what;
}

static td_edit normal_key(td_editor *e, const td_key *key) {
  if (key->code == TD_KEY_CHAR && !key->ctrl) return normal_char(e, key->rune);
  forget(&e->vi);
  if (key->code == TD_KEY_CHAR && key->rune == 'r') {
    td_buffer_redo(&e->buffer);
    return TD_EDIT_GO_ON;
  }
  td_key as = *key;
  if (key->code == TD_KEY_BACKSPACE) as.code = TD_KEY_LEFT;
  if (key->code == TD_KEY_TAB || key->code == TD_KEY_ESCAPE)
    return TD_EDIT_GO_ON;
  return td_emacs_key(e, &as);
}

static void leave_insert(td_editor *e) {
  td_buffer *b = &e->buffer;
  e->vi.normal = true;
  forget(&e->vi);
  if (b->cursor > td_buffer_line_start(b, b->cursor))
    b->cursor = td_buffer_left(b, b->cursor);
}

/* Escape and a key in quick succession look like Alt and the key. */
td_edit td_vi_key(td_editor *e, const td_key *key) {
  td_key plain = *key;
  td_edit what = TD_EDIT_GO_ON;
  bool escape = key->code == TD_KEY_ESCAPE ||
                (key->code == TD_KEY_CHAR && key->alt && !e->vi.normal);
  if (escape && !e->vi.normal) leave_insert(e);
  if (key->code == TD_KEY_CHAR) plain.alt = false;
  if (!e->vi.normal)
    what = td_emacs_key(e, &plain);
  else if (key->code != TD_KEY_ESCAPE)
    what = normal_key(e, &plain);
  else
    forget(&e->vi);
  if (e->vi.normal) keep_in_line(e);
  return what;
}
