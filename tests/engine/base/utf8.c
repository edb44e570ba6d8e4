/* utf8.c - what is UTF-8 and what is not.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <string.h>

#include "engine/base/utf8.h"

static void what_is_written_is_valid(void **state) {
  (void)state;
  for (uint32_t c = 0; c < 0x110000; c += c < 0x900 ? 1 : 0x3f) {
    char text[4];
    size_t n = td_utf8_put(c, text);
    bool is_half = c >= 0xD800 && c < 0xE000;
    assert_int_equal(n, c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4);
    assert_int_equal(td_utf8_valid(text, n), !is_half);
    if (n > 1) assert_false(td_utf8_valid(text, n - 1));
  }
}

static void texts(void **state) {
  static const struct {
    const char *text;
    bool valid;
  } cases[] = {{"", true},
               {"a\xc3\xa9\xf0\x9f\x98\x80", true},
               {"\xc0\xaf", false},         /* longer than needed */
               {"\xed\xa0\x80", false},     /* half a pair */
               {"\xf4\x90\x80\x80", false}, /* beyond the last */
               {"\x80", false},
               {"a\xc3", false},
               {"\xff", false}};
  (void)state;
  for (size_t i = 0; i < TD_COUNT(cases); i++)
    assert_int_equal(td_utf8_valid(cases[i].text, strlen(cases[i].text)),
                     cases[i].valid);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_written_is_valid),
      cmocka_unit_test(texts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
