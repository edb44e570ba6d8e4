/* screen.c - tests of repl/screen.h: frames. (What reaches a terminal is tested
 * with one, in tests/prompt.)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <string.h>

#include "engine/base/mem.h"
#include "repl/screen.h"

static void text(td_edit_frame *f, td_edit_style style, const char *s) {
  td_edit_frame_text(f, style, s, strlen(s));
}

static const char *row(const td_edit_frame *f, int i) {
  return td_str_c(&f->rows.at[i].bytes);
}

static void wraps_rows(void **state) {
  (void)state;
  td_edit_frame f;
  td_edit_frame_init(&f);
  td_edit_frame_begin(&f, 4, false);
  text(&f, TD_EDIT_STYLE_PLAIN,
       "abc\xe4\xbd\xa0"); /* the wide one does not fit */
  td_edit_frame_cursor(&f, 1);
  td_edit_frame_end(&f);
  assert_int_equal(f.n, 2);
  assert_string_equal(row(&f, 0), "abc");
  assert_int_equal(f.rows.at[1].width, 2);
  assert_int_equal(f.cursor_row, 1);
  assert_int_equal(f.cursor_column, 2);
  text(&f, TD_EDIT_STYLE_PLAIN, "xy");
  td_edit_frame_cursor(&f, 1); /* behind a full row it stands on the next */
  assert_int_equal(f.n, 3);
  assert_int_equal(f.cursor_column, 0);
  td_edit_frame_deinit(&f);
}

static void begins_rows_plain(void **state) {
  (void)state;
  td_edit_frame f;
  td_edit_frame_init(&f);
  td_edit_frame_begin(&f, 2, true);
  text(&f, TD_EDIT_STYLE_NUMBER, "123");
  td_edit_frame_end(&f);
  assert_string_equal(row(&f, 0), "\033[36m12\033[0m");
  assert_string_equal(row(&f, 1), "\033[36m3\033[0m");
  td_edit_frame_deinit(&f);
}

static void cuts_cells(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int width;
    const char *cell;
  } cases[] = {
      {"ab", 4, "ab  "},
      {"abcd", 4, "abcd"},
      {"abcde", 4, "abc\xe2\x80\xa6"},
      {"\xe4\xbd\xa0\xe4\xbd\xa0\xe4\xbd\xa0", 4, "\xe4\xbd\xa0\xe2\x80\xa6 "},
      {"ab", 0, ""}};
  for (size_t i = 0; i < TD_COUNT(cases); i++) {
    td_edit_frame f;
    td_edit_frame_init(&f);
    td_edit_frame_begin(&f, 20, false);
    td_edit_frame_cell(&f, TD_EDIT_STYLE_PLAIN, cases[i].text,
                       strlen(cases[i].text), cases[i].width);
    assert_string_equal(row(&f, 0), cases[i].cell);
    assert_int_equal(f.rows.at[0].width, cases[i].width);
    td_edit_frame_deinit(&f);
  }
}

static void finds_its_rows_wrapped(void **state) {
  (void)state;
  td_edit_screen s;
  td_edit_screen_init(&s);
  td_edit_frame_begin(&s.shown, 10, false);
  text(&s.shown, TD_EDIT_STYLE_PLAIN, "abcdefghij"); /* 3 rows of 4 */
  text(&s.shown, TD_EDIT_STYLE_PLAIN, "k");
  td_edit_frame_newline(&s.shown);
  text(&s.shown, TD_EDIT_STYLE_PLAIN, "lmnopq");
  s.height = 3;
  s.row = 2;
  s.column = 6;
  td_edit_screen_wrapped(&s, 4);
  assert_int_equal(s.row, 3 + 1 + 1);
  td_edit_screen_deinit(&s);
}

static void survives_no_memory(void **state) {
  (void)state;
  for (int nth = 1; nth < 12; nth++) {
    td_edit_frame f;
    td_edit_frame_init(&f);
    td_mem_fail(nth, true);
    td_edit_frame_begin(&f, 4, true);
    text(&f, TD_EDIT_STYLE_STRING, "some text of rows");
    td_edit_frame_newline(&f);
    td_edit_frame_cursor(&f, 1);
    td_edit_frame_end(&f);
    td_mem_fail(0, false);
    assert_true(f.failed || f.n == 6);
    td_edit_frame_deinit(&f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wraps_rows), cmocka_unit_test(begins_rows_plain),
      cmocka_unit_test(cuts_cells), cmocka_unit_test(finds_its_rows_wrapped),
      cmocka_unit_test(survives_no_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
