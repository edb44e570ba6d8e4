/* editor.c - tests of repl/editor.h, without a terminal.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "repl/editor.h"
#include "repl/text.h"
#include "repl/view.h"

static uint64_t state_of_random;

static unsigned any(unsigned below) {
  state_of_random =
      state_of_random * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(state_of_random >> 33) % below;
}

static td_edit_key any_key(void) {
  static const char letters[] = "abxyz019 ().'\"[]{}=-%\t";
  static const unsigned others[] = {0xE9, 0x301, 0x4F60, 0x1F600, 0x200B};
  td_edit_key key = {0};
  unsigned kind = any(10);
  if (kind < 4) {
    key.rune = (unsigned char)letters[any(sizeof letters - 1)];
  } else if (kind < 5) {
    key.rune = others[any(TD_COUNT(others))];
  } else if (kind < 8) {
    key.rune = 'a' + any(26);
    key.ctrl = any(2);
    key.alt = !key.ctrl;
  } else {
    key.code = TD_EDIT_KEY_ENTER + any(TD_EDIT_KEY_UNKNOWN - TD_EDIT_KEY_ENTER);
    key.alt = any(3) == 0;
    key.shift = any(3) == 0;
  }
  return key;
}

static void start(td_editor *e, bool vi) {
  static const char *const kept[] = {"alpha = 1",
                                     "for i = 1, 2 do\n  f()\nend"};
  setenv("TIDE_EDIT", vi ? "vi" : "emacs", 1);
  td_editor_init(e, NULL);
  for (size_t i = 0; i < TD_COUNT(kept); i++)
    td_edit_history_add(&e->history, kept[i], strlen(kept[i]));
  td_str_add(&e->keys.paste, "> a\n>> b\n");
  td_editor_begin(e, "In [1]: ");
}

/* The text is sound UTF-8, the cursor stands between two of its characters,
 * and every row fits. */
static void check(td_editor *e, int columns) {
  const td_edit_buffer *b = &e->buffer;
  td_str clean;
  td_str_init(&clean);
  td_edit_text_clean(&clean, td_str_c(&b->text), b->text.len);
  assert_int_equal(clean.len, b->text.len);
  assert_in_range(b->cursor, 0, b->text.len);
  if (b->cursor < b->text.len)
    assert_int_not_equal((unsigned char)b->text.at[b->cursor] & 0xC0, 0x80);
  td_str_deinit(&clean);
  td_edit_view_layout(e, columns, 10, false);
  td_edit_frame_end(&e->frame);
  if (e->frame.failed) return;
  for (int i = 0; i < e->frame.n; i++)
    assert_in_range(e->frame.rows.at[i].width, 0, columns);
  assert_in_range(e->frame.cursor_row, 0, e->frame.n - 1);
  assert_in_range(e->frame.cursor_column, 0, columns - 1);
}

static void takes_any_key(void **state) {
  (void)state;
  for (int round = 0; round < 40; round++) {
    td_editor e;
    state_of_random = (uint64_t)round;
    start(&e, round % 2);
    int columns = 12 + (int)any(80);
    for (int i = 0; i < 300; i++) {
      td_edit_key key = any_key();
      if (td_editor_key(&e, &key) == TD_EDIT_ACCEPT)
        td_editor_begin(&e, "In [2]: ");
      check(&e, columns);
    }
    td_editor_deinit(&e);
  }
}

/* Memory that runs out at any moment, for a moment or for good. */
static void survives_no_memory(void **state) {
  (void)state;
  for (int round = 0; round < 300; round++) {
    td_editor e;
    state_of_random = (uint64_t)round;
    start(&e, round % 2);
    td_mem_fail(1 + round, round % 3 == 0);
    for (int i = 0; i < 60; i++) {
      td_edit_key key = any_key();
      td_editor_key(&e, &key);
      td_edit_view_layout(&e, 40, 10, false);
    }
    td_mem_fail(0, false);
    check(&e, 40);
    td_editor_deinit(&e);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(takes_any_key),
                                     cmocka_unit_test(survives_no_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
