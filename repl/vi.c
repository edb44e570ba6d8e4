/* vi.c - the keys of vi: [count] operator [count] motion, and what goes with
 * it.
 *
 * While inserting, keys are those of emacs.c and Escape leads to commands:
 *
 *   h j k l w b e W B E 0 ^ $ gg G f t F T ; , %   motions
 *   iw aw i" a" i( a( i[ i{ ...                    objects, behind an operator
 *   d c y > <   with a motion, or doubled for lines; D C Y x X s S
 *   i a I A o O  p P  r ~ J  . u ^R  v (edit in $EDITOR)  / ? (search)  K
 * (help)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "repl/text.h"
#include "repl/vi_move.h"

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

bool td_edit_vi_wanted(void) {
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

/* ---- operators ---- */

/* A command stands on a character, never behind the line's last. */
static void keep_in_line(td_editor *e) {
  td_edit_buffer *b = &e->buffer;
  if (b->cursor > td_edit_buffer_line_start(b, b->cursor) &&
      b->cursor == td_edit_buffer_line_end(b, b->cursor))
    b->cursor = td_edit_buffer_left(b, b->cursor);
}

static void insert_mode(td_editor *e) {
  e->vi.normal = false;
  td_edit_buffer_seal(&e->buffer);
}

static void indent_lines(td_editor *e, size_t from, size_t to, bool more) {
  td_edit_buffer *b = &e->buffer;
  td_edit_buffer_begin(b);
  size_t at = td_edit_buffer_line_start(b, to);
  for (;;) {
    size_t spaces = td_edit_buffer_line_text(b, at) - at;
    bool blank =
        td_edit_buffer_line_text(b, at) == td_edit_buffer_line_end(b, at);
    if (more && !blank) td_edit_buffer_replace(b, at, at, "  ", 2);
    if (!more) td_edit_buffer_remove(b, at, at + (spaces < 2 ? spaces : 2));
    if (at <= from || at == 0) break;
    at = td_edit_buffer_line_start(b, at - 1);
  }
  td_edit_buffer_end(b);
  b->cursor = td_edit_buffer_line_text(b, at);
}

/* Whole lines are cut with one of the newlines around them. */
static void cut_lines(td_editor *e, size_t from, size_t to, bool change) {
  td_edit_buffer *b = &e->buffer;
  from = td_edit_buffer_line_start(b, from);
  to = td_edit_buffer_line_end(b, to);
  td_edit_kill_add(&e->kill, b->text.at + from, to - from, TD_EDIT_KILL_NEW);
  if (change) {
    from = td_edit_buffer_line_text(b, from);
  } else if (to < b->text.len) {
    to++;
  } else if (from > 0) {
    from--;
  }
  td_edit_buffer_remove(b, from, to);
  if (!change) b->cursor = td_edit_buffer_line_text(b, b->cursor);
}

static void copy(td_editor *e, size_t from, size_t to, bool lines) {
  td_edit_buffer *b = &e->buffer;
  if (lines) {
    from = td_edit_buffer_line_start(b, from);
    to = td_edit_buffer_line_end(b, to);
  }
  td_edit_kill_add(&e->kill, b->text.at + from, to - from, TD_EDIT_KILL_NEW);
  if (!lines) b->cursor = from;
}

/* Applies d, c, y, > or < from the cursor to where the motion leads. */
static void operate(td_editor *e, char op, const td_edit_vi_motion *m) {
  td_edit_buffer *b = &e->buffer;
  size_t here = m->object ? m->from : b->cursor;
  size_t from = here < m->to ? here : m->to, to = here < m->to ? m->to : here;
  if (m->inclusive && to < b->text.len) to = td_edit_buffer_right(b, to);
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
    td_edit_command_kill(e, from, to);
  if (op == 'c') insert_mode(e);
}

/* dw on a line's last word stops at its end. */
static void stop_at_line(const td_editor *e, unsigned rune,
                         td_edit_vi_motion *m) {
  size_t end = td_edit_buffer_line_end(&e->buffer, e->buffer.cursor);
  if ((rune == 'w' || rune == 'W') && m->to > end && e->buffer.cursor < end)
    m->to = end;
}

/* ---- commands ---- */

static void put(td_editor *e, bool behind) {
  td_edit_buffer *b = &e->buffer;
  td_bytes cut = td_edit_kill_yank(&e->kill);
  if (!cut.at) return;
  td_edit_buffer_begin(b);
  if (!e->vi.lines) {
    if (behind && b->cursor < td_edit_buffer_line_end(b, b->cursor))
      b->cursor = td_edit_buffer_right(b, b->cursor);
    if (td_edit_buffer_insert(b, cut.at, cut.len))
      b->cursor = td_edit_buffer_left(b, b->cursor);
  } else {
    size_t at = behind ? td_edit_buffer_line_end(b, b->cursor)
                       : td_edit_buffer_line_start(b, b->cursor);
    td_edit_buffer_replace(b, at, at, "\n", 1);
    size_t line = behind ? at + 1 : at;
    td_edit_buffer_replace(b, line, line, cut.at, cut.len);
    b->cursor = td_edit_buffer_line_text(b, line);
  }
  td_edit_buffer_end(b);
}

static void open_line(td_editor *e, bool below) {
  td_edit_buffer *b = &e->buffer;
  insert_mode(e);
  if (below) {
    b->cursor = td_edit_buffer_line_end(b, b->cursor);
    td_edit_command_newline(e);
    return;
  }
  size_t start = td_edit_buffer_line_start(b, b->cursor);
  size_t spaces = td_edit_buffer_line_text(b, start) - start;
  td_str line;
  td_str_init(&line);
  td_str_addn(&line, td_str_c(&b->text) + start, spaces);
  td_str_addc(&line, '\n');
  if (td_edit_buffer_replace(b, start, start, td_str_c(&line), line.len))
    b->cursor = start + spaces;
  td_str_deinit(&line);
}

static void replace_char(td_editor *e, unsigned rune) {
  td_edit_buffer *b = &e->buffer;
  char bytes[4];
  size_t n = td_edit_text_encode(rune, bytes), at = b->cursor;
  if (!n || at >= td_edit_buffer_line_end(b, at)) return;
  if (td_edit_buffer_replace(b, at, td_edit_buffer_right(b, at), bytes, n))
    b->cursor = at;
}

static void flip_case(td_editor *e, int n) {
  td_edit_buffer *b = &e->buffer;
  td_edit_buffer_begin(b);
  for (; n > 0 && b->cursor < td_edit_buffer_line_end(b, b->cursor); n--) {
    size_t at = b->cursor, next = td_edit_buffer_right(b, at);
    char c = b->text.at[at];
    bool letter = (c | 32) >= 'a' && (c | 32) <= 'z';
    char other = (char)(c ^ 32);
    if (letter) td_edit_buffer_replace(b, at, at + 1, &other, 1);
    b->cursor = next;
  }
  td_edit_buffer_end(b);
}

static void join_lines(td_editor *e) {
  td_edit_buffer *b = &e->buffer;
  size_t end = td_edit_buffer_line_end(b, b->cursor);
  if (end == b->text.len) return;
  if (td_edit_buffer_replace(b, end, td_edit_buffer_line_text(b, end + 1), " ",
                             1))
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
  td_edit_vi_motion m;
  for (size_t i = 0; i < TD_COUNT(forms); i++) {
    if ((unsigned char)forms[i].rune != rune) continue;
    if (td_edit_vi_move(e, (unsigned char)forms[i].motion, n, &m))
      operate(e, forms[i].op, &m);
    return true;
  }
  m = (td_edit_vi_motion){
      .to = td_edit_vi_move_line(&e->buffer, e->buffer.cursor, n - 1),
      .lines = true};
  if (rune == 'S' || rune == 'Y') operate(e, rune == 'S' ? 'c' : 'y', &m);
  return rune == 'S' || rune == 'Y';
}

static bool start_insert(td_editor *e, unsigned rune) {
  td_edit_buffer *b = &e->buffer;
  size_t at = b->cursor;
  switch (rune) {
  case 'i':
    break;
  case 'a':
    if (at < td_edit_buffer_line_end(b, at)) at = td_edit_buffer_right(b, at);
    break;
  case 'I':
    at = td_edit_buffer_line_text(b, at);
    break;
  case 'A':
    at = td_edit_buffer_line_end(b, at);
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

static td_edit_outcome command(td_editor *e, unsigned rune, int n) {
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
    td_edit_buffer_undo(&e->buffer);
    break;
  case 'K':
    td_edit_command_help(e);
    break;
  case 'v':
    return TD_EDIT_OUTSIDE;
  case '/':
  case '?':
    td_edit_command_search(e);
    break;
  }
  return TD_EDIT_GO_ON;
}

/* ---- keys ---- */

void td_edit_vi_forget(td_edit_vi *v) {
  v->count = v->outer = 0;
  v->op = v->pending = 0;
}

static int times(const td_edit_vi *v) {
  int64_t n = (int64_t)(v->count ? v->count : 1) * (v->outer ? v->outer : 1);
  return n > 9999 ? 9999 : (int)n;
}

/* Moves there, or operates up to there. */
static void go(td_editor *e, unsigned rune, td_edit_vi_motion *m) {
  if (e->vi.op) {
    stop_at_line(e, rune, m);
    operate(e, e->vi.op, m);
  } else {
    td_edit_command_move(e, m->to);
  }
}

static td_edit_outcome pending(td_editor *e, unsigned rune) {
  char what = e->vi.pending;
  td_edit_vi_motion m = {.to = 0, .lines = true};
  if (what == 'r') {
    replace_char(e, rune);
  } else if (what == 'g') {
    if (rune == 'g') go(e, 0, &m);
  } else if (what == 'i' || what == 'a') {
    if (td_edit_vi_move_object(e, what == 'a', rune, &m)) go(e, 0, &m);
  } else {
    e->vi.find = what;
    e->vi.found = rune;
    m = (td_edit_vi_motion){.to = e->buffer.cursor};
    if (td_edit_vi_move_find(e, what, rune, &m)) go(e, 0, &m);
  }
  td_edit_vi_forget(&e->vi);
  return TD_EDIT_GO_ON;
}

/* The operator twice: whole lines. */
static void operate_lines(td_editor *e, char op, int n) {
  td_edit_vi_motion m = {
      .to = td_edit_vi_move_line(&e->buffer, e->buffer.cursor, n - 1),
      .lines = true};
  operate(e, op, &m);
}

/* cw changes up to the word's end, and leaves the space behind it. */
static bool find_motion(td_editor *e, unsigned rune, int n,
                        td_edit_vi_motion *m) {
  bool word = e->vi.op == 'c' && (rune == 'w' || rune == 'W');
  return (word && td_edit_vi_move_rest_of_word(e, rune == 'W', n, m)) ||
         td_edit_vi_move(e, rune, n, m);
}

static td_edit_outcome normal_char(td_editor *e, unsigned rune) {
  td_edit_vi *v = &e->vi;
  td_edit_vi_motion m;
  int n = times(v);
  if (v->pending) return pending(e, rune);
  if ((rune >= '1' && rune <= '9') || (rune == '0' && v->count)) {
    if (v->count < 1000) v->count = v->count * 10 + (int)(rune - '0');
    return TD_EDIT_GO_ON;
  }
  if (rune && rune < 0x80 && strchr(v->op ? "fFtTgia" : "fFtTrg", (char)rune)) {
    v->pending = (char)rune;
    return TD_EDIT_GO_ON;
  }
  td_edit_outcome what = TD_EDIT_GO_ON;
  if (v->op && rune == (unsigned char)v->op) {
    operate_lines(e, v->op, n);
  } else if (find_motion(e, rune, n, &m)) {
    go(e, rune, &m);
  } else if (!v->op && rune && rune < 0x80 && strchr("dcy><", (char)rune)) {
    v->op = (char)rune;
    v->outer = v->count;
    v->count = 0;
    return TD_EDIT_GO_ON;
  } else if (!v->op && rune == 'j') {
    td_edit_command_newer(e);
  } else if (!v->op && rune == 'k') {
    td_edit_command_older(e);
  } else if (!v->op) {
    what = command(e, rune, n);
  }
  td_edit_vi_forget(v);
  return what;
}

static td_edit_outcome normal_key(td_editor *e, const td_edit_key *key) {
  if (key->code == TD_EDIT_KEY_CHAR && !key->ctrl)
    return normal_char(e, key->rune);
  td_edit_vi_forget(&e->vi);
  if (key->code == TD_EDIT_KEY_CHAR && key->rune == 'r') {
    td_edit_buffer_redo(&e->buffer);
    return TD_EDIT_GO_ON;
  }
  td_edit_key as = *key;
  if (key->code == TD_EDIT_KEY_BACKSPACE) as.code = TD_EDIT_KEY_LEFT;
  if (key->code == TD_EDIT_KEY_TAB || key->code == TD_EDIT_KEY_ESCAPE)
    return TD_EDIT_GO_ON;
  return td_edit_emacs_key(e, &as);
}

static void leave_insert(td_editor *e) {
  td_edit_buffer *b = &e->buffer;
  e->vi.normal = true;
  td_edit_vi_forget(&e->vi);
  if (b->cursor > td_edit_buffer_line_start(b, b->cursor))
    b->cursor = td_edit_buffer_left(b, b->cursor);
}

/* Escape and a key in quick succession look like Alt and the key. */
static td_edit_outcome act(td_editor *e, const td_edit_key *key) {
  td_edit_key plain = *key;
  td_edit_outcome what = TD_EDIT_GO_ON;
  bool escape = key->code == TD_EDIT_KEY_ESCAPE ||
                (key->code == TD_EDIT_KEY_CHAR && key->alt && !e->vi.normal);
  if (escape && !e->vi.normal) leave_insert(e);
  if (key->code == TD_EDIT_KEY_CHAR) plain.alt = false;
  if (!e->vi.normal)
    what = td_edit_emacs_key(e, &plain);
  else if (key->code != TD_EDIT_KEY_ESCAPE)
    what = normal_key(e, &plain);
  else
    td_edit_vi_forget(&e->vi);
  if (e->vi.normal) keep_in_line(e);
  return what;
}

/* ---- once more ----
 *
 * A command that changed the text is its keys, up to the one that led back to
 * where commands begin.
 */

static bool at_rest(const td_edit_vi *v) {
  return v->normal && !v->op && !v->pending && !v->count;
}

/* The last command's keys again. */
static td_edit_outcome repeat(td_editor *e) {
  td_edit_outcome what = TD_EDIT_GO_ON;
  for (int i = 0; i < e->vi.n_last && what == TD_EDIT_GO_ON; i++)
    what = act(e, &e->vi.last[i]);
  return what;
}

static bool undoes(const td_edit_key *key) {
  return key->code != TD_EDIT_KEY_CHAR || key->rune == 'u' || key->ctrl;
}

/* One that is too long, or that a menu had a part in, is not kept. */
static void record(td_edit_vi *v, const td_edit_key *key) {
  bool begins = at_rest(v);
  if (begins) v->n_keys = undoes(key) ? TD_EDIT_VI_KEYS : 0;
  if (v->n_keys < TD_EDIT_VI_KEYS) v->keys[v->n_keys] = *key;
  v->n_keys =
      key->code == TD_EDIT_KEY_TAB ? TD_EDIT_VI_KEYS + 1 : v->n_keys + 1;
  if (v->n_keys > TD_EDIT_VI_KEYS) v->n_keys = TD_EDIT_VI_KEYS + 1;
}

td_edit_outcome td_edit_vi_key(td_editor *e, const td_edit_key *key) {
  td_edit_vi *v = &e->vi;
  if (at_rest(v) && key->code == TD_EDIT_KEY_CHAR && key->rune == '.')
    return repeat(e);
  if (at_rest(v)) v->version = e->buffer.version;
  record(v, key);
  td_edit_outcome what = act(e, key);
  if (at_rest(v) && v->n_keys <= TD_EDIT_VI_KEYS &&
      v->version != e->buffer.version) {
    memcpy(v->last, v->keys, sizeof v->last);
    v->n_last = v->n_keys;
  }
  return what;
}
