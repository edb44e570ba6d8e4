/* editor.c - the editor's state, and keys while a menu or a search is open.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "repl/editor.h"

#include <stdlib.h>
#include <string.h>

#include "repl/command.h"
#include "repl/emacs.h"
#include "repl/text.h"
#include "repl/vi.h"

void td_editor_init(td_editor *e, td_line *line) {
  const char *none = getenv("NO_COLOR");
  memset(e, 0, sizeof *e);
  e->line = line;
  e->colour = !none || !*none;
  e->vi.on = td_edit_vi_wanted();
  td_edit_buffer_init(&e->buffer);
  td_edit_kill_init(&e->kill);
  td_edit_history_init(&e->history);
  td_edit_search_init(&e->search);
  td_edit_menu_init(&e->menu);
  td_edit_keys_init(&e->keys);
  td_edit_screen_init(&e->screen);
  td_edit_frame_init(&e->frame);
}

void td_editor_deinit(td_editor *e) {
  td_edit_buffer_deinit(&e->buffer);
  td_edit_kill_deinit(&e->kill);
  td_edit_history_deinit(&e->history);
  td_edit_search_deinit(&e->search);
  td_edit_menu_deinit(&e->menu);
  td_edit_keys_deinit(&e->keys);
  td_edit_screen_deinit(&e->screen);
  td_edit_frame_deinit(&e->frame);
  td_str_deinit(&e->before_search);
  td_str_deinit(&e->note);
  td_str_deinit(&e->prompt);
  td_str_deinit(&e->styles);
}

void td_editor_begin(td_editor *e, const char *prompt) {
  td_edit_buffer_reset(&e->buffer);
  td_edit_history_leave(&e->history);
  td_edit_menu_clear(&e->menu);
  e->search.active = false;
  td_str_clear(&e->note);
  e->last = e->now = TD_EDIT_LAST_OTHER;
  e->after_ctrl_x = false;
  e->vi.normal = false;
  td_edit_vi_forget(&e->vi);
  td_str_clear(&e->prompt);
  td_str_add(&e->prompt, prompt);
}

static bool types(const td_edit_key *key) {
  return key->code == TD_EDIT_KEY_CHAR && !key->ctrl && !key->alt;
}

static bool is_ctrl(const td_edit_key *key, char letter) {
  return key->code == TD_EDIT_KEY_CHAR && key->ctrl &&
         key->rune == (unsigned)letter;
}

/* ---- the menu ---- */

/* What a completion is made of: typing it narrows the menu. */
static bool in_name(unsigned c) {
  return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') ||
         c == '_' || c == '.' || c == ':' || c == '/' || c == '-';
}

/* Asks again for what now stands there. */
static void narrow(td_editor *e) {
  td_edit_command_complete(e);
  e->menu.active = e->menu.items.len > 0;
}

static void take(td_editor *e) {
  td_edit_menu *m = &e->menu;
  const char *text = m->items.at[m->chosen].text;
  td_edit_buffer_replace(&e->buffer, m->start, m->end, text, strlen(text));
  td_edit_menu_clear(m);
}

static bool move_in_menu(td_editor *e, const td_edit_key *key) {
  switch (key->code) {
  case TD_EDIT_KEY_TAB:
    td_edit_menu_move(&e->menu, key->shift ? -1 : 1);
    return true;
  case TD_EDIT_KEY_DOWN:
    td_edit_menu_move(&e->menu, 1);
    return true;
  case TD_EDIT_KEY_UP:
    td_edit_menu_move(&e->menu, -1);
    return true;
  case TD_EDIT_KEY_PAGE_DOWN:
    td_edit_menu_move(&e->menu, TD_EDIT_MENU_ROWS - 1);
    return true;
  case TD_EDIT_KEY_PAGE_UP:
    td_edit_menu_move(&e->menu, 1 - TD_EDIT_MENU_ROWS);
    return true;
  default:
    break;
  }
  if (is_ctrl(key, 'n')) td_edit_menu_move(&e->menu, 1);
  if (is_ctrl(key, 'p')) td_edit_menu_move(&e->menu, -1);
  return is_ctrl(key, 'n') || is_ctrl(key, 'p');
}

/* False: the menu is closed and the key means what it always means. */
static bool menu_key(td_editor *e, const td_edit_key *key) {
  td_edit_buffer *b = &e->buffer;
  if (move_in_menu(e, key)) return true;
  if (key->code == TD_EDIT_KEY_ENTER && !key->alt) {
    take(e);
    return true;
  }
  if (types(key) && in_name(key->rune)) {
    td_edit_command_type(e, key->rune);
    narrow(e);
    return true;
  }
  if (key->code == TD_EDIT_KEY_BACKSPACE && b->cursor > e->menu.start) {
    td_edit_buffer_remove(b, td_edit_buffer_left(b, b->cursor), b->cursor);
    narrow(e);
    return true;
  }
  td_edit_menu_clear(&e->menu);
  return key->code == TD_EDIT_KEY_ESCAPE || is_ctrl(key, 'g');
}

/* ---- the search ---- */

static void show_entry(td_editor *e, const char *entry) {
  if (!entry) return;
  td_edit_command_set(e, entry, strlen(entry), e->search.found);
}

static void add_to_search(td_editor *e, const char *text, size_t len) {
  show_entry(e, td_edit_search_add(&e->search, &e->history, text, len));
}

static void leave_search(td_editor *e, bool cancel) {
  e->search.active = false;
  if (cancel && !e->before_search.failed)
    td_edit_command_set(e, td_str_c(&e->before_search), e->before_search.len,
                        e->cursor_before_search);
}

/* False: the search has ended and the key means what it always means. */
static bool search_key(td_editor *e, const td_edit_key *key) {
  td_edit_search *s = &e->search;
  char bytes[4];
  if (types(key)) {
    add_to_search(e, bytes, td_edit_text_encode(key->rune, bytes));
  } else if (key->code == TD_EDIT_KEY_BACKSPACE) {
    show_entry(e, td_edit_search_shorten(s, &e->history));
  } else if (is_ctrl(key, 'r') || key->code == TD_EDIT_KEY_UP) {
    show_entry(e, td_edit_search_older(s, &e->history));
  } else if (is_ctrl(key, 's') || key->code == TD_EDIT_KEY_DOWN) {
    show_entry(e, td_edit_search_newer(s, &e->history));
  } else if (key->code == TD_EDIT_KEY_PASTE) {
    const td_str *p = &e->keys.paste;
    add_to_search(e, td_str_c(p), strcspn(td_str_c(p), "\n"));
  } else {
    bool cancel = is_ctrl(key, 'g') || is_ctrl(key, 'c');
    leave_search(e, cancel);
    return cancel || key->code == TD_EDIT_KEY_ESCAPE;
  }
  return true;
}

/* ---- keys ---- */

td_edit_outcome td_editor_key(td_editor *e, const td_edit_key *key) {
  td_edit_outcome what = TD_EDIT_GO_ON;
  td_str_clear(&e->note);
  e->now = TD_EDIT_LAST_OTHER;
  if (!types(key)) td_edit_buffer_seal(&e->buffer);
  bool done = (e->menu.active && menu_key(e, key)) ||
              (e->search.active && search_key(e, key));
  if (!done && key->code == TD_EDIT_KEY_PASTE)
    td_edit_command_paste(e, td_str_c(&e->keys.paste), e->keys.paste.len);
  else if (!done)
    what = e->vi.on ? td_edit_vi_key(e, key) : td_edit_emacs_key(e, key);
  e->last = e->now;
  return what;
}
