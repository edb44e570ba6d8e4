/* text.c - tests of repl/text.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <string.h>

#include "repl/text.h"

/* Clusters and their widths, as drawn. */
static void clusters(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int width;
    const char *shown;
  } cases[] = {
      {"a", 1, "a"},
      {"\t", 2, "  "},
      {"e\xcc\x81", 1, "e\xcc\x81"},
      {"\xe4\xbd\xa0", 2, "\xe4\xbd\xa0"},
      {"\xf0\x9f\x98\x80", 2, "\xf0\x9f\x98\x80"},
      {"\xe2\x80\x8b", 6, "<200b>"},
      {"\xcc\x81", 6, "<0301>"}, /* an accent without its letter */
      {"\xf3\xa0\x80\x81", 7, "<e0001>"},
  };
  for (size_t i = 0; i < TD_COUNT(cases); i++) {
    const char *s = cases[i].text;
    size_t len = strlen(s);
    td_str shown;
    td_str_init(&shown);
    assert_int_equal(td_edit_text_next(s, len, 0), len);
    assert_int_equal(td_edit_text_prev(s, len, len), 0);
    assert_int_equal(td_edit_text_width(s, len), cases[i].width);
    assert_int_equal(td_edit_text_show(&shown, s, len), cases[i].width);
    assert_string_equal(td_str_c(&shown), cases[i].shown);
    td_str_deinit(&shown);
  }
}

static void goes_both_ways(void **state) {
  (void)state;
  static const char s[] =
      "ae\xcc\x81\xe4\xbd\xa0\n\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7z";
  size_t len = sizeof s - 1, at = 0, starts[16], n = 0;
  while (at < len) {
    starts[n++] = at;
    at = td_edit_text_next(s, len, at);
  }
  assert_int_equal(n, 6);
  for (; n > 0; n--) {
    at = td_edit_text_prev(s, len, at);
    assert_int_equal(at, starts[n - 1]);
  }
  assert_int_equal(td_edit_text_columns(s, 7), 4);
}

static void cleans(void **state) {
  (void)state;
  static const struct {
    const char *bytes, *text;
  } cases[] = {
      {"a\r\nb\rc", "a\nb\nc"},
      {"a\033[0m\a\177b", "a[0mb"},
      {"\xc2\x9b", ""},
      {"\xff\xc3", "\xef\xbf\xbd\xef\xbf\xbd"},
      {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
      {"\t\xc3\xa9", "\t\xc3\xa9"},
  };
  for (size_t i = 0; i < TD_COUNT(cases); i++) {
    td_str out;
    td_str_init(&out);
    td_edit_text_clean(&out, cases[i].bytes, strlen(cases[i].bytes));
    assert_string_equal(td_str_c(&out), cases[i].text);
    td_str_deinit(&out);
  }
}

static void encodes(void **state) {
  (void)state;
  char out[4];
  assert_int_equal(td_edit_text_encode('a', out), 1);
  assert_int_equal(td_edit_text_encode(0x1F600, out), 4);
  assert_int_equal(td_edit_text_encode(7, out), 0);
  assert_int_equal(td_edit_text_encode(0xD800, out), 3);
  assert_memory_equal(out, "\xef\xbf\xbd", 3);
  assert_int_equal(td_edit_text_encode(0xFFFFFFFF, out), 3);
}

static void counts_points(void **state) {
  (void)state;
  static const char s[] = "a\xc3\xa9\xf0\x9f\x98\x80z";
  assert_int_equal(td_edit_text_points(s, sizeof s - 1), 4);
  assert_int_equal(td_edit_text_offset(s, sizeof s - 1, 2), 3);
  assert_int_equal(td_edit_text_offset(s, sizeof s - 1, 4), 8);
  assert_int_equal(td_edit_text_offset(s, sizeof s - 1, 99), 8);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(clusters), cmocka_unit_test(goes_both_ways),
      cmocka_unit_test(cleans), cmocka_unit_test(encodes),
      cmocka_unit_test(counts_points)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
