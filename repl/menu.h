/* menu.h - completions to choose from, below the text.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPL_MENU_H
#define TD_REPL_MENU_H

#include "engine/base/vec.h"
#include "repl/screen.h"

enum { TD_MENU_ROWS = 8, TD_MENU_MOST = 10000 };

typedef struct td_menu_item {
  char *text, *type, *signature; /* owned; type and signature may be NULL */
} td_menu_item;

typedef struct td_menu {
  bool active;
  TD_VEC(td_menu_item) items;
  int chosen, first; /* the first one that is shown */
  size_t start, end; /* bytes of the text that an item replaces */
} td_menu;

void td_menu_init(td_menu *m);
void td_menu_deinit(td_menu *m);
/* Without items, and closed. */
void td_menu_clear(td_menu *m);
/* Copies. False: no memory, or there are TD_MENU_MOST. */
bool td_menu_add(td_menu *m, const char *text, const char *type,
                 const char *signature);

/* Bytes that all items begin with. */
size_t td_menu_common(const td_menu *m);
/* Chooses the item `by` further, around the ends. */
void td_menu_move(td_menu *m, int by);
/* Appends the rows to a frame, at most `rows`. */
void td_menu_show(td_menu *m, td_frame *f, int rows);

#endif
