/* menu.h - completions to choose from, below the text.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPL_MENU_H
#define TD_REPL_MENU_H

#include "engine/base/vec.h"
#include "repl/screen.h"

enum { TD_EDIT_MENU_ROWS = 8, TD_EDIT_MENU_MOST = 10000 };

typedef struct td_edit_menu_item {
  char *text, *type, *signature; /* owned; type and signature may be NULL */
} td_edit_menu_item;

typedef struct td_edit_menu {
  bool active;
  TD_VEC(td_edit_menu_item) items;
  int chosen, first; /* the first one that is shown */
  size_t start, end; /* bytes of the text that an item replaces */
} td_edit_menu;

void td_edit_menu_init(td_edit_menu *m);
void td_edit_menu_deinit(td_edit_menu *m);
/* Without items, and closed. */
void td_edit_menu_clear(td_edit_menu *m);
/* Copies. False: no memory, or there are TD_EDIT_MENU_MOST. */
bool td_edit_menu_add(td_edit_menu *m, const char *text, const char *type,
                      const char *signature);

/* Bytes that all items begin with. */
size_t td_edit_menu_common(const td_edit_menu *m);
/* Chooses the item `by` further, around the ends. */
void td_edit_menu_move(td_edit_menu *m, int by);
/* Appends the rows to a frame, at most `rows`. */
void td_edit_menu_show(td_edit_menu *m, td_edit_frame *f, int rows);

#endif
