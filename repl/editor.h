/* editor.h - the editor of a chunk: its state, and what keys do.
 *
 * A key goes to the menu or the search while one is open, then to the keymap
 * (emacs.h, vi.h), which calls the commands (command.h) on the buffer, the kill
 * ring and the history. Nothing of this writes to the terminal; view.h shows
 * the state.
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
  bool lines;                        /* the last cut was of whole lines */
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

#endif
