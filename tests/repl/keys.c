/* keys.c - tests of repl/keys.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <string.h>

#include "repl/keys.h"

enum { CTRL = 1, ALT = 2, SHIFT = 4 };

/* Bytes, then the one key they are. */
static void parses(void **state) {
  (void)state;
  static const struct {
    const char *bytes;
    td_edit_key_code code;
    unsigned rune;
    int modifiers;
  } cases[] = {
      {"a", TD_EDIT_KEY_CHAR, 'a', 0},
      {"\xc3\xa9", TD_EDIT_KEY_CHAR, 0xE9, 0},
      {"\xf0\x9f\x98\x80", TD_EDIT_KEY_CHAR, 0x1F600, 0},
      {"\xff", TD_EDIT_KEY_CHAR, 0xFFFD, 0},
      {"\r", TD_EDIT_KEY_ENTER, 0, 0},
      {"\n", TD_EDIT_KEY_ENTER, 0, 0},
      {"\033\r", TD_EDIT_KEY_ENTER, 0, ALT},
      {"\t", TD_EDIT_KEY_TAB, 0, 0},
      {"\033[Z", TD_EDIT_KEY_TAB, 0, SHIFT},
      {"\177", TD_EDIT_KEY_BACKSPACE, 0, 0},
      {"\033\177", TD_EDIT_KEY_BACKSPACE, 0, ALT},
      {"\001", TD_EDIT_KEY_CHAR, 'a', CTRL},
      {"\037", TD_EDIT_KEY_CHAR, '_', CTRL},
      {"\033f", TD_EDIT_KEY_CHAR, 'f', ALT},
      {"\033\xc3\xa9", TD_EDIT_KEY_CHAR, 0xE9, ALT},
      {"\033[A", TD_EDIT_KEY_UP, 0, 0},
      {"\033OB", TD_EDIT_KEY_DOWN, 0, 0},
      {"\033[1;5C", TD_EDIT_KEY_RIGHT, 0, CTRL},
      {"\033[1;3D", TD_EDIT_KEY_LEFT, 0, ALT},
      {"\033[H", TD_EDIT_KEY_HOME, 0, 0},
      {"\033[7~", TD_EDIT_KEY_HOME, 0, 0},
      {"\033[4~", TD_EDIT_KEY_END, 0, 0},
      {"\033[3~", TD_EDIT_KEY_DELETE, 0, 0},
      {"\033[3;5~", TD_EDIT_KEY_DELETE, 0, CTRL},
      {"\033[3^", TD_EDIT_KEY_DELETE, 0, CTRL},
      {"\033[3$", TD_EDIT_KEY_DELETE, 0, SHIFT},
      {"\033OP", TD_EDIT_KEY_HELP, 0, 0},
      {"\033[11~", TD_EDIT_KEY_HELP, 0, 0},
      {"\033[5~", TD_EDIT_KEY_PAGE_UP, 0, 0},
      {"\033[6~", TD_EDIT_KEY_PAGE_DOWN, 0, 0},
      {"\033[13;5u", TD_EDIT_KEY_ENTER, 0, CTRL},
      {"\033[27;2;13~", TD_EDIT_KEY_ENTER, 0, SHIFT},
      {"\033[97;5u", TD_EDIT_KEY_CHAR, 'a', CTRL},
      {"\033[200~", TD_EDIT_KEY_PASTE, 0, 0},
      {"\033[99999999999~", TD_EDIT_KEY_UNKNOWN, 0, 0},
      {"\033[1;2;3;4;5;6;7A", TD_EDIT_KEY_UP, 0, SHIFT},
      {"\033[[A", TD_EDIT_KEY_UNKNOWN, 0, 0},
  };
  for (size_t i = 0; i < TD_COUNT(cases); i++) {
    td_edit_key key;
    size_t len = strlen(cases[i].bytes);
    assert_int_equal(td_edit_keys_parse(cases[i].bytes, len, false, &key), len);
    assert_int_equal(key.code, cases[i].code);
    if (cases[i].code == TD_EDIT_KEY_CHAR)
      assert_int_equal(key.rune, cases[i].rune);
    assert_int_equal(key.ctrl * CTRL + key.alt * ALT + key.shift * SHIFT,
                     cases[i].modifiers);
  }
}

/* What is cut off waits for more, until nothing follows. */
static void waits_for_the_rest(void **state) {
  (void)state;
  static const char *const cut[] = {"\033",     "\033[",       "\033[1",
                                    "\033[1;",  "\033O",       "\xc3",
                                    "\xf0\x9f", "\033\xf0\x9f"};
  for (size_t i = 0; i < TD_COUNT(cut); i++) {
    td_edit_key key;
    size_t len = strlen(cut[i]);
    assert_int_equal(td_edit_keys_parse(cut[i], len, false, &key), 0);
    assert_in_range(td_edit_keys_parse(cut[i], len, true, &key), 1, len);
  }
  td_edit_key key;
  assert_int_equal(td_edit_keys_parse("\033", 1, true, &key), 1);
  assert_int_equal(key.code, TD_EDIT_KEY_ESCAPE);
  assert_int_equal(td_edit_keys_parse("\033\033[A", 4, false, &key), 1);
  assert_int_equal(key.code, TD_EDIT_KEY_ESCAPE);
}

/* One that never ends is none. */
static void gives_up_on_endless_ones(void **state) {
  (void)state;
  char bytes[4096];
  td_edit_key key;
  memset(bytes, ';', sizeof bytes);
  memcpy(bytes, "\033[", 2);
  assert_in_range(td_edit_keys_parse(bytes, sizeof bytes, false, &key), 3, 100);
  assert_int_equal(key.code, TD_EDIT_KEY_UNKNOWN);
}

/* Any bytes: each call takes some, never more than there are. */
static void takes_any_bytes(void **state) {
  (void)state;
  uint64_t x = 3;
  for (int round = 0; round < 2000; round++) {
    char bytes[24];
    for (size_t i = 0; i < sizeof bytes; i++) {
      x = x * 6364136223846793005u + 1442695040888963407u;
      static const char often[] = "\033[;O0129~A\xe4\xbd\xa0";
      bytes[i] = (x >> 60) < 10 ? often[(x >> 33) % (sizeof often - 1)]
                                : (char)(x >> 40);
    }
    for (size_t at = 0; at < sizeof bytes;) {
      td_edit_key key;
      size_t n = td_edit_keys_parse(bytes + at, sizeof bytes - at, true, &key);
      assert_in_range(n, 1, sizeof bytes - at);
      at += n;
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(parses),
                                     cmocka_unit_test(waits_for_the_rest),
                                     cmocka_unit_test(gives_up_on_endless_ones),
                                     cmocka_unit_test(takes_any_bytes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
