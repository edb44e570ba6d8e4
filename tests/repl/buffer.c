/* buffer.c - tests of repl/buffer.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <string.h>

#include "engine/base/mem.h"
#include "repl/buffer.h"

static void type(td_edit_buffer *b, const char *text) {
  for (; *text; text++) assert_true(td_edit_buffer_insert(b, text, 1));
}

static void expect(const td_edit_buffer *b, const char *text, size_t cursor) {
  assert_string_equal(td_str_c(&b->text), text);
  assert_int_equal(b->cursor, cursor);
}

static void replaces(void **state) {
  (void)state;
  td_edit_buffer b;
  td_edit_buffer_init(&b);
  type(&b, "hello");
  assert_true(td_edit_buffer_replace(&b, 1, 3, "XYZ", 3));
  expect(&b, "hXYZlo", 4);
  assert_true(td_edit_buffer_remove(&b, 0, 6));
  expect(&b, "", 0);
  assert_true(td_edit_buffer_remove(&b, 0, 0));
  assert_false(td_edit_buffer_insert(&b, "x", TD_EDIT_BUFFER_MOST + 1u));
  expect(&b, "", 0);
  td_edit_buffer_deinit(&b);
}

static void undoes_words(void **state) {
  (void)state;
  td_edit_buffer b;
  td_edit_buffer_init(&b);
  type(&b, "one two");
  assert_true(td_edit_buffer_undo(&b));
  expect(&b, "one ", 4);
  assert_true(td_edit_buffer_undo(&b));
  expect(&b, "", 0);
  assert_false(td_edit_buffer_undo(&b));
  assert_true(td_edit_buffer_redo(&b));
  assert_true(td_edit_buffer_redo(&b));
  assert_false(td_edit_buffer_redo(&b));
  expect(&b, "one two", 7);
  assert_true(td_edit_buffer_undo(&b));
  type(&b, "x"); /* what was undone is forgotten */
  assert_false(td_edit_buffer_redo(&b));
  expect(&b, "one x", 5);
  td_edit_buffer_deinit(&b);
}

static void undoes_steps(void **state) {
  (void)state;
  td_edit_buffer b;
  td_edit_buffer_init(&b);
  type(&b, "ab");
  td_edit_buffer_begin(&b);
  td_edit_buffer_remove(&b, 0, 1);
  td_edit_buffer_begin(&b); /* one in the other is one */
  td_edit_buffer_insert(&b, "xyz", 3);
  td_edit_buffer_end(&b);
  td_edit_buffer_end(&b);
  expect(&b, "xyzb", 3);
  assert_true(td_edit_buffer_undo(&b));
  expect(&b, "ab", 2);
  assert_true(td_edit_buffer_redo(&b));
  expect(&b, "xyzb", 3);
  td_edit_buffer_deinit(&b);
}

/* Against plain strings: every state comes back, in order. */
static void undoes_everything(void **state) {
  (void)state;
  enum { STEPS = 300 };
  static char seen[STEPS + 1][STEPS * 4];
  td_edit_buffer b;
  uint64_t x = 7;
  td_edit_buffer_init(&b);
  for (int i = 0; i < STEPS; i++) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    size_t len = b.text.len, from = len ? (x >> 33) % (len + 1) : 0;
    size_t to = from + (len > from ? (x >> 20) % (len - from + 1) % 5 : 0);
    td_edit_buffer_seal(&b);
    assert_true(td_edit_buffer_replace(&b, from, to, "abc", 1 + (x >> 40) % 3));
    strcpy(seen[i + 1], td_str_c(&b.text));
  }
  for (int i = STEPS; i > 0; i--) {
    assert_string_equal(td_str_c(&b.text), seen[i]);
    assert_true(td_edit_buffer_undo(&b));
  }
  assert_string_equal(td_str_c(&b.text), "");
  for (int i = 1; i <= STEPS; i++) {
    assert_true(td_edit_buffer_redo(&b));
    assert_string_equal(td_str_c(&b.text), seen[i]);
  }
  td_edit_buffer_deinit(&b);
}

static void moves(void **state) {
  (void)state;
  static const struct {
    size_t (*move)(const td_edit_buffer *b, size_t at);
    size_t from, to;
  } cases[] = {
      {td_edit_buffer_left, 0, 0},         {td_edit_buffer_left, 10, 9},
      {td_edit_buffer_right, 3, 4},        {td_edit_buffer_right, 18, 18},
      {td_edit_buffer_line_start, 7, 4},   {td_edit_buffer_line_start, 4, 4},
      {td_edit_buffer_line_end, 4, 13},    {td_edit_buffer_line_end, 14, 18},
      {td_edit_buffer_line_text, 13, 6},   {td_edit_buffer_word_left, 9, 6},
      {td_edit_buffer_word_left, 12, 9},   {td_edit_buffer_word_left, 1, 0},
      {td_edit_buffer_word_right, 0, 3},   {td_edit_buffer_word_right, 3, 8},
      {td_edit_buffer_word_right, 13, 18},
  };
  td_edit_buffer b;
  td_edit_buffer_init(&b);
  /*                   0123 456789012 3 4 */
  td_edit_buffer_insert(&b, "one\n  ab(cd_e\nlast", 18);
  for (size_t i = 0; i < TD_COUNT(cases); i++)
    assert_int_equal(cases[i].move(&b, cases[i].from), cases[i].to);
  td_edit_buffer_deinit(&b);
}

static void keeps_columns(void **state) {
  (void)state;
  td_edit_buffer b;
  td_edit_buffer_init(&b);
  static const char text[] = "\xe4\xbd\xa0\xe5\xa5\xbdx\nabcdef";
  td_edit_buffer_insert(&b, text, sizeof text - 1);
  assert_int_equal(td_edit_buffer_column(&b, 6), 4);
  assert_int_equal(td_edit_buffer_at_column(&b, 8, 4), 12);
  assert_int_equal(td_edit_buffer_at_column(&b, 0, 3),
                   3); /* inside a wide one */
  assert_int_equal(td_edit_buffer_at_column(&b, 0, 99), 7);
  td_edit_buffer_deinit(&b);
}

/* Whichever allocation fails, a change is made whole or not at all. */
static void survives_no_memory(void **state) {
  (void)state;
  for (int nth = 1; nth < 40; nth++) {
    td_edit_buffer b;
    char model[64] = "";
    td_edit_buffer_init(&b);
    td_mem_fail(nth, true);
    for (int i = 0; i < 6; i++) {
      bool made = td_edit_buffer_insert(&b, "0123456789", 10);
      if (made) strcat(model, "0123456789");
      assert_string_equal(td_str_c(&b.text), model);
      td_edit_buffer_seal(&b);
    }
    td_mem_fail(0, false);
    while (td_edit_buffer_undo(&b)) continue;
    assert_string_equal(td_str_c(&b.text), "");
    td_edit_buffer_deinit(&b);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(replaces),
                                     cmocka_unit_test(undoes_words),
                                     cmocka_unit_test(undoes_steps),
                                     cmocka_unit_test(undoes_everything),
                                     cmocka_unit_test(moves),
                                     cmocka_unit_test(keeps_columns),
                                     cmocka_unit_test(survives_no_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
