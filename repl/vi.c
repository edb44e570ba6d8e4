/* vi.c - the keys of vi: [count] operator [count] motion.
 *
 * This file reads the keys of a command one by one and keeps in td_edit_vi what
 * it has of them: after "2d" a count and an operator, with "w" the command is
 * whole. vi_move.c knows the motions, vi_command.c what is done then. While
 * inserting, keys are those of emacs.c and Escape leads to commands:
 *
 *   h j k l w b e W B E 0 ^ $ gg G f t F T ; , %   motions
 *   iw aw i" a" i( a( i[ i{ ...                    objects, behind an operator
 *   d c y > <   with a motion, or doubled for lines; D C Y x X s S
 *   i a I A o O  p P  r ~ J  . u ^R
 *   v (edit in $EDITOR)  / ? (search)  K (help)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "repl/vi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "repl/command.h"
#include "repl/emacs.h"
#include "repl/vi_command.h"

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

/* ---- keys ---- */

void td_edit_vi_forget(td_edit_vi *v) {
  v->count = v->outer = 0;
  v->op = v->pending = 0;
}

static int times(const td_edit_vi *v) {
  int64_t n = (int64_t)(v->count ? v->count : 1) * (v->outer ? v->outer : 1);
  return n > 9999 ? 9999 : (int)n;
}

/* dw on a line's last word stops at its end. */
static void stop_at_line(const td_editor *e, unsigned rune,
                         td_edit_vi_motion *m) {
  size_t end = td_edit_buffer_line_end(&e->buffer, e->buffer.cursor);
  if ((rune == 'w' || rune == 'W') && m->to > end && e->buffer.cursor < end)
    m->to = end;
}

/* Moves there, or operates up to there. */
static void go(td_editor *e, unsigned rune, td_edit_vi_motion *m) {
  if (e->vi.op) {
    stop_at_line(e, rune, m);
    td_edit_vi_command_operate(e, e->vi.op, m);
  } else {
    td_edit_command_move(e, m->to);
  }
}

static td_edit_outcome pending(td_editor *e, unsigned rune) {
  char what = e->vi.pending;
  td_edit_vi_motion m = {.to = 0, .lines = true};
  if (what == 'r') {
    td_edit_vi_command_replace(e, rune);
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
    td_edit_vi_command_lines(e, v->op, n);
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
    what = td_edit_vi_command(e, rune, n);
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

/* A command stands on a character, never behind the line's last. */
static void keep_in_line(td_editor *e) {
  td_edit_buffer *b = &e->buffer;
  if (b->cursor > td_edit_buffer_line_start(b, b->cursor) &&
      b->cursor == td_edit_buffer_line_end(b, b->cursor))
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
