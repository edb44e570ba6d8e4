/* str.c - tests of engine/base/str.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/str.h"

static void grows(void **state) {
  (void)state;
  td_str s;
  td_str_init(&s);
  assert_string_equal(td_str_c(&s), "");
  td_str_add(&s, "a");
  td_str_addc(&s, 'b');
  td_str_addn(&s, "cde", 2);
  td_str_addn(&s, NULL, 0);
  td_str_addf(&s, "%d-%s", 42, "x");
  assert_string_equal(td_str_c(&s), "abcd42-x");
  for (int i = 0; i < 1000; i++) td_str_addf(&s, "%03d", i);
  assert_int_equal(s.len, 8 + 3000);
  assert_string_equal(td_str_c(&s) + s.len - 3, "999");
  td_str_clear(&s);
  assert_string_equal(td_str_c(&s), "");
  td_str_addn(&s, "a\0b", 3);
  assert_int_equal(s.len, 3);
  assert_memory_equal(td_str_c(&s), "a\0b", 4);
  td_str_deinit(&s);
  td_str_deinit(&s);
}

static void hands_over(void **state) {
  (void)state;
  td_str s = {0};
  char *empty = td_str_take(&s);
  assert_string_equal(empty, "");
  td_free(empty);
  td_str_add(&s, "mine");
  char *p = td_str_take(&s);
  assert_string_equal(p, "mine");
  assert_null(s.at);
  assert_int_equal(s.len, 0);
  td_free(p);
}

/* Each allocation fails once: the text has no hole, the flag is up. */
static void without_memory(void **state) {
  (void)state;
  for (int n = 1;; n++) {
    td_str s = {0};
    td_mem_fail(n, false);
    for (int i = 0; i < 100; i++) td_str_addf(&s, "%02d", i);
    td_mem_fail(0, false);
    if (!s.failed) {
      assert_int_equal(s.len, 200);
      assert_true(n > 2);
      td_str_deinit(&s);
      break;
    }
    for (size_t i = 0; i + 1 < s.len; i += 2)
      assert_int_equal((s.at[i] - '0') * 10 + s.at[i + 1] - '0', i / 2);
    assert_null(td_str_take(&s));
    assert_false(s.failed);
  }
  td_mem_fail(1, true);
  assert_null(td_strdup("x"));
  td_mem_fail(0, false);
  assert_null(td_strndup("x", SIZE_MAX));
  td_str s = {0};
  td_str_addn(&s, "x", SIZE_MAX);
  assert_true(s.failed);
  td_str_clear(&s);
  assert_false(s.failed);
}

static void quotes_json(void **state) {
  (void)state;
  static const struct {
    const char *in;
    size_t len; /* 0: strlen */
    const char *out;
  } rows[] = {
      {"", 0, "\"\""},
      {"plain", 0, "\"plain\""},
      {"a\"b\\c", 0, "\"a\\\"b\\\\c\""},
      {"\b\f\n\r\t", 0, "\"\\b\\f\\n\\r\\t\""},
      {"a\0b", 3, "\"a\\u0000b\""},
      {"\x01\x1f\x7f", 0, "\"\\u0001\\u001f\\u007f\""},
      {"/", 0, "\"/\""},
      {"\xC3\xA4\xE2\x82\xAC\xF0\x9F\x8C\x99", 0,
       "\"\xC3\xA4\xE2\x82\xAC\xF0\x9F\x8C\x99\""},
      {"\xC3", 0, "\"\xEF\xBF\xBD\""},                 /* cut short */
      {"\x80z", 0, "\"\xEF\xBF\xBDz\""},               /* no start */
      {"\xC0\xAF", 0, "\"\xEF\xBF\xBD\xEF\xBF\xBD\""}, /* too long a form */
      {"\xED\xA0\x80", 0,                              /* surrogate */
       "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
      {"\xF4\x90\x80\x80", 0, /* beyond U+10FFFF */
       "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
      {"\xEF\xBF\xBF\xF4\x8F\xBF\xBF", 0, "\"\xEF\xBF\xBF\xF4\x8F\xBF\xBF\""},
  };
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_str s = {0};
    size_t len = rows[i].len ? rows[i].len : strlen(rows[i].in);
    char *exact = td_strndup(rows[i].in, len); /* reads beyond are caught */
    td_str_json(&s, exact, len);
    assert_string_equal(td_str_c(&s), rows[i].out);
    td_str_deinit(&s);
    td_free(exact);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(grows),
      cmocka_unit_test(hands_over),
      cmocka_unit_test(without_memory),
      cmocka_unit_test(quotes_json),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
