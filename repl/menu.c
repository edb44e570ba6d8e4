/* menu.c - completions to choose from, below the text.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "repl/menu.h"

#include <string.h>

#include "engine/base/mem.h"
#include "repl/text.h"

void td_edit_menu_init(td_edit_menu *m) {
  *m = (td_edit_menu){0};
}

void td_edit_menu_clear(td_edit_menu *m) {
  for (size_t i = 0; i < m->items.len; i++) {
    td_free(m->items.at[i].text);
    td_free(m->items.at[i].type);
    td_free(m->items.at[i].signature);
  }
  m->items.len = 0;
  m->chosen = m->first = 0;
  m->active = false;
}

void td_edit_menu_deinit(td_edit_menu *m) {
  td_edit_menu_clear(m);
  td_vec_free(&m->items);
}

bool td_edit_menu_add(td_edit_menu *m, const char *text, const char *type,
                      const char *signature) {
  if (m->items.len >= TD_EDIT_MENU_MOST || !td_vec_reserve(&m->items, 1))
    return false;
  td_edit_menu_item item = {.text = td_strdup(text)};
  item.type = type ? td_strdup(type) : NULL;
  item.signature = signature ? td_strdup(signature) : NULL;
  if (!item.text || (type && !item.type) || (signature && !item.signature)) {
    td_free(item.text);
    td_free(item.type);
    td_free(item.signature);
    return false;
  }
  m->items.at[m->items.len++] = item;
  return true;
}

size_t td_edit_menu_common(const td_edit_menu *m) {
  if (!m->items.len) return 0;
  const char *first = m->items.at[0].text;
  size_t n = strlen(first);
  for (size_t i = 1; i < m->items.len; i++) {
    size_t k = 0;
    while (k < n && m->items.at[i].text[k] == first[k]) k++;
    n = k;
  }
  while (n > 0 && ((unsigned char)first[n] & 0xC0) == 0x80) n--;
  return n;
}

void td_edit_menu_move(td_edit_menu *m, int by) {
  int n = (int)m->items.len;
  if (!n) return;
  m->chosen = ((m->chosen + by) % n + n) % n;
}

/* ---- drawing ---- */

/* Widths of the columns, of all items so that they stand still; the signature
 * has what is left. */
static void measure(const td_edit_menu *m, int columns, int *text, int *type) {
  *text = *type = 0;
  for (size_t i = 0; i < m->items.len; i++) {
    const td_edit_menu_item *it = &m->items.at[i];
    int w = td_edit_text_columns(it->text, strlen(it->text));
    int t = it->type ? td_edit_text_columns(it->type, strlen(it->type)) : 0;
    if (w > *text) *text = w;
    if (t > *type) *type = t;
  }
  if (*text > columns - 2) *text = columns - 2;
  if (*type > 12) *type = 12;
  if (*text + *type + 4 > columns) *type = 0;
}

static void cell(td_edit_frame *f, td_edit_style style, const char *s,
                 int width) {
  if (!s) s = "";
  td_edit_frame_cell(f, style, s, strcspn(s, "\n"), width);
}

static void show_item(const td_edit_menu *m, td_edit_frame *f, int i, int text,
                      int type) {
  const td_edit_menu_item *it = &m->items.at[i];
  td_edit_style style =
      i == m->chosen ? TD_EDIT_STYLE_CHOSEN : TD_EDIT_STYLE_PLAIN;
  td_edit_style rest =
      i == m->chosen ? TD_EDIT_STYLE_CHOSEN : TD_EDIT_STYLE_MENU;
  int left = f->columns - text - 2 - (type ? type + 2 : 0);
  td_edit_frame_newline(f);
  cell(f, style, " ", 1);
  cell(f, style, it->text, text);
  cell(f, rest, " ", 1);
  if (type) {
    cell(f, rest, " ", 1);
    cell(f, rest, it->type, type);
    cell(f, rest, " ", 1);
  }
  if (it->signature && left > 4) cell(f, rest, it->signature, left - 1);
}

/* Where in the list we are, when it is longer than the menu. */
static void show_place(const td_edit_menu *m, td_edit_frame *f) {
  td_str s;
  td_str_init(&s);
  td_str_addf(&s, " %d of %zu", m->chosen + 1, m->items.len);
  td_edit_frame_newline(f);
  td_edit_frame_text(f, TD_EDIT_STYLE_GREY, td_str_c(&s), s.len);
  td_str_deinit(&s);
}

void td_edit_menu_show(td_edit_menu *m, td_edit_frame *f, int rows) {
  int n = (int)m->items.len,
      most = rows < TD_EDIT_MENU_ROWS ? rows : TD_EDIT_MENU_ROWS;
  int text, type;
  if (n > most) most--;
  if (most < 1) return;
  if (m->chosen < m->first) m->first = m->chosen;
  if (m->chosen >= m->first + most) m->first = m->chosen - most + 1;
  measure(m, f->columns, &text, &type);
  for (int i = m->first; i < n && i < m->first + most; i++)
    show_item(m, f, i, text, type);
  if (n > most) show_place(m, f);
}
