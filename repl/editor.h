/* editor.h - the editor of a chunk: its state, and what keys do.
 *
 * A key goes to the menu or the search while one is open, then to the keymap
 * (emacs.c, vi.c), whose commands are the functions below. Nothing here writes
 * to the terminal but td_edit_view_draw.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPL_EDITOR_H
#define TD_REPL_EDITOR_H

#include "lua/console/host.h"
#include "repl/buffer.h"
#include "repl/history.h"
#include "repl/keys.h"
#include "repl/kill.h"
#include "repl/menu.h"
#include "repl/screen.h"
#include "repl/search.h"

/* What a key means for who reads the line. */
typedef enum td_edit_outcome {
  TD_EDIT_GO_ON,
  TD_EDIT_ACCEPT,  /* run the text */
  TD_EDIT_CANCEL,  /* Ctrl-C: forget the text */
  TD_EDIT_END,     /* Ctrl-D on an empty text */
  TD_EDIT_CLEAR,   /* Ctrl-L: wipe the screen */
  TD_EDIT_STOP,    /* Ctrl-Z */
  TD_EDIT_OUTSIDE, /* edit the text in $EDITOR */
} td_edit_outcome;

/* What the last command was, for those that go on where it stopped. */
typedef enum td_edit_last {
  TD_EDIT_LAST_OTHER,
  TD_EDIT_LAST_KILL,
  TD_EDIT_LAST_YANK,
  TD_EDIT_LAST_VERTICAL,
} td_edit_last;

enum { TD_EDIT_VI_KEYS = 200 };

/* vi's state between keys: a command is [count] [operator] [count] motion. */
typedef struct td_edit_vi {
  bool on, normal;
  int count, outer; /* 0: none; `outer` stands before the operator */
  char op;          /* d, c, y, >, <; 0: none */
  char pending;     /* f, t, F, T, r, g wait for a character */
  char find;        /* the last f, t, F, T, and what it looked for */
  unsigned found;
  bool lines;         /* the last cut was of whole lines */
  td_edit_key keys[TD_EDIT_VI_KEYS]; /* of the command so far, for `.` */
  td_edit_key last[TD_EDIT_VI_KEYS]; /* of the last one that changed the text */
  int n_keys, n_last; /* n_keys > TD_EDIT_VI_KEYS: it cannot be repeated */
  unsigned version;   /* of the text when the command began */
} td_edit_vi;

typedef struct td_editor {
  td_line *line; /* who answers questions; NULL: nobody */
  td_edit_buffer buffer;
  td_edit_kill kill;
  td_edit_history history;
  td_edit_search search;
  td_str before_search; /* the text and cursor that ^G brings back */
  size_t cursor_before_search;
  td_edit_menu menu;
  td_edit_vi vi;
  td_edit_keys keys;
  td_edit_screen screen;
  td_edit_frame frame;
  td_str note;            /* help below the text, until the next key */
  td_str prompt, styles;  /* styles: one byte a byte of the text */
  td_edit_last last, now; /* of the last command, of this one */
  int goal;               /* the column that up and down keep to */
  size_t yank_from;       /* where the last yank was put */
  unsigned walked;        /* the text's version when history gave it */
  bool after_ctrl_x;
  bool colour;
} td_editor;

void td_editor_init(td_editor *e, td_line *line);
void td_editor_deinit(td_editor *e);
/* An empty text with this prompt. */
void td_editor_begin(td_editor *e, const char *prompt);

/* What the key does. */
td_edit_outcome td_editor_key(td_editor *e, const td_edit_key *key);
td_edit_outcome td_edit_emacs_key(td_editor *e, const td_edit_key *key);
td_edit_outcome td_edit_vi_key(td_editor *e, const td_edit_key *key);
/* Forgets the beginning of a command. */
void td_edit_vi_forget(td_edit_vi *v);
/* Whether vi's keys are wanted: TIDE_EDIT, or editing-mode of ~/.inputrc. */
bool td_edit_vi_wanted(void);

/* ---- drawing: view.c ---- */

/* Lays the text out for the terminal's width. `final`: without what helps only
 * while typing. */
void td_edit_view_layout(td_editor *e, int columns, int lines, bool final);
void td_edit_view_draw(td_editor *e);
/* What goes on in grey behind the text; NULL: nothing. Borrowed. */
const char *td_edit_view_suggestion(const td_editor *e);

/* ---- commands ---- */

td_edit_outcome td_edit_command_enter(td_editor *e);
void td_edit_command_newline(td_editor *e);
void td_edit_command_type(td_editor *e, unsigned rune);
void td_edit_command_paste(td_editor *e, const char *text, size_t len);
/* Fills the menu with what can stand at the cursor; it stays closed. */
void td_edit_command_complete(td_editor *e);
void td_edit_command_tab(td_editor *e);
/* Shows what is known of what stands at the cursor. */
void td_edit_command_help(td_editor *e);
void td_edit_command_move(td_editor *e, size_t to);
/* Accepts the suggestion up to the end of a word, or all of it; false: none. */
bool td_edit_command_accept(td_editor *e, bool word);
void td_edit_command_up(td_editor *e);
void td_edit_command_down(td_editor *e);
void td_edit_command_older(td_editor *e);
void td_edit_command_newer(td_editor *e);
/* Cuts [from, to) into the kill ring. */
void td_edit_command_kill(td_editor *e, size_t from, size_t to);
void td_edit_command_yank(td_editor *e);
void td_edit_command_yank_pop(td_editor *e);
void td_edit_command_search(td_editor *e);
/* Replaces all of the text; the cursor goes to `cursor`. */
void td_edit_command_set(td_editor *e, const char *text, size_t len,
                         size_t cursor);

#endif
