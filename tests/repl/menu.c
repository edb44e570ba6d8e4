/* menu.c - tests of repl/menu.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/mem.h"
#include "repl/menu.h"

static void add_some(td_edit_menu *m, int n) {
  for (int i = 0; i < n; i++) {
    char name[16];
    snprintf(name, sizeof name, "item%d", i);
    assert_true(td_edit_menu_add(m, name, "function", "(x, y)"));
  }
}

static void finds_what_is_common(void **state) {
  (void)state;
  td_edit_menu m;
  td_edit_menu_init(&m);
  assert_int_equal(td_edit_menu_common(&m), 0);
  td_edit_menu_add(&m, "caf\xc3\xa9s", NULL, NULL);
  assert_int_equal(td_edit_menu_common(&m), 6);
  td_edit_menu_add(&m, "caf\xc3\xa8", NULL, NULL);
  assert_int_equal(td_edit_menu_common(&m), 3); /* no half of a letter */
  td_edit_menu_deinit(&m);
}

static void moves_around(void **state) {
  (void)state;
  td_edit_menu m;
  td_edit_menu_init(&m);
  td_edit_menu_move(&m, 1);
  add_some(&m, 5);
  td_edit_menu_move(&m, -1);
  assert_int_equal(m.chosen, 4);
  td_edit_menu_move(&m, 1);
  assert_int_equal(m.chosen, 0);
  td_edit_menu_move(&m, -7);
  assert_int_equal(m.chosen, 3);
  td_edit_menu_deinit(&m);
}

/* On any width, no row is wider, and the chosen item is among those shown. */
static void fits_any_terminal(void **state) {
  (void)state;
  td_edit_menu m;
  td_edit_frame f;
  td_edit_menu_init(&m);
  td_edit_frame_init(&f);
  add_some(&m, 30);
  for (int columns = 2; columns < 100; columns++)
    for (int rows = 0; rows < 12; rows++) {
      td_edit_menu_move(&m, 7);
      td_edit_frame_begin(&f, columns, false);
      td_edit_menu_show(&m, &f, rows);
      td_edit_frame_end(&f);
      for (int i = 0; i < f.n; i++)
        assert_in_range(f.rows.at[i].width, 0, columns);
      if (columns > 8) assert_in_range(f.n, 1, 1 + rows);
      if (rows > 1) assert_in_range(m.chosen, m.first, m.first + rows - 1);
    }
  td_edit_frame_deinit(&f);
  td_edit_menu_deinit(&m);
}

static void survives_no_memory(void **state) {
  (void)state;
  for (int nth = 1; nth < 10; nth++) {
    td_edit_menu m;
    td_edit_menu_init(&m);
    td_mem_fail(nth, false);
    size_t n = 0;
    for (int i = 0; i < 3; i++) n += td_edit_menu_add(&m, "a", "b", "c");
    td_mem_fail(0, false);
    assert_int_equal(m.items.len, n);
    td_edit_menu_deinit(&m);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(finds_what_is_common),
                                     cmocka_unit_test(moves_around),
                                     cmocka_unit_test(fits_any_terminal),
                                     cmocka_unit_test(survives_no_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
