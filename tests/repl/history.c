/* history.c - tests of repl/history.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <string.h>

#include "engine/base/mem.h"
#include "repl/history.h"
#include "repl/search.h"

static void fill(td_edit_history *h) {
  static const char *const entries[] = {"alpha", "beta", "beta", "", "alps"};
  td_edit_history_init(h);
  for (size_t i = 0; i < TD_COUNT(entries); i++)
    td_edit_history_add(h, entries[i], strlen(entries[i]));
}

static void set(td_str *s, const char *text) {
  td_str_clear(s);
  td_str_add(s, text);
}

static void adds(void **state) {
  (void)state;
  td_edit_history h;
  fill(&h);
  assert_int_equal(h.entries.len, 3); /* no empty one, none twice in a row */
  td_edit_history_deinit(&h);
}

static void walks(void **state) {
  (void)state;
  td_edit_history h;
  td_str text;
  size_t cursor;
  fill(&h);
  td_str_init(&text);
  set(&text, "alx");
  assert_string_equal(td_edit_history_older(&h, &text, 2), "alps");
  set(&text, "alps");
  assert_string_equal(td_edit_history_older(&h, &text, 4), "alpha");
  set(&text, "alpha");
  assert_null(td_edit_history_older(&h, &text, 5));
  assert_string_equal(td_edit_history_newer(&h, &text, &cursor), "alps");
  assert_int_equal(cursor, SIZE_MAX);
  set(&text, "alps");
  assert_string_equal(td_edit_history_newer(&h, &text, &cursor), "alx");
  assert_int_equal(cursor, 2);
  assert_null(td_edit_history_newer(&h, &text, &cursor));
  td_str_deinit(&text);
  td_edit_history_deinit(&h);
}

static void suggests(void **state) {
  (void)state;
  td_edit_history h;
  td_str text;
  fill(&h);
  td_str_init(&text);
  assert_null(td_edit_history_suggest(&h, &text));
  set(&text, "al");
  assert_string_equal(td_edit_history_suggest(&h, &text), "alps");
  set(&text, "alps");
  assert_null(td_edit_history_suggest(&h, &text));
  td_str_deinit(&text);
  td_edit_history_deinit(&h);
}

/* What is read later stands before the rest, and moves no walk. */
static void adds_older(void **state) {
  (void)state;
  td_edit_history h;
  td_str text;
  td_edit_history_init(&h);
  td_str_init(&text);
  td_edit_history_add_older(&h, "two", 3);
  td_edit_history_add(&h, "three", 5);
  assert_string_equal(td_edit_history_older(&h, &text, 0), "three");
  td_edit_history_add_older(&h, "two", 3); /* again the oldest */
  td_edit_history_add_older(&h, "", 0);
  assert_int_equal(h.entries.len, 2);
  td_edit_history_add_older(&h, "one", 3);
  static const char *const all[] = {"one", "two", "three"};
  assert_int_equal(h.entries.len, 3);
  for (int i = 0; i < 3; i++) assert_string_equal(h.entries.at[i], all[i]);
  set(&text, "three");
  assert_string_equal(td_edit_history_older(&h, &text, 0), "two");
  set(&text, "two");
  assert_string_equal(td_edit_history_older(&h, &text, 0), "one");
  td_str_deinit(&text);
  td_edit_history_deinit(&h);
}

static void searches(void **state) {
  (void)state;
  td_edit_history h;
  td_edit_search s;
  fill(&h);
  td_edit_search_init(&s);
  td_edit_search_begin(&s, &h);
  assert_null(td_edit_search_older(&s, &h)); /* nothing asked */
  assert_string_equal(td_edit_search_add(&s, &h, "a", 1), "alps");
  assert_string_equal(td_edit_search_add(&s, &h, "\0", 0), "alps");
  assert_string_equal(td_edit_search_older(&s, &h), "beta");
  assert_int_equal(s.found, 3);
  assert_string_equal(td_edit_search_newer(&s, &h), "alps");
  assert_null(td_edit_search_newer(&s, &h));
  assert_true(s.failed);
  assert_string_equal(td_edit_search_add(&s, &h, "lpha", 4), "alpha");
  assert_null(td_edit_search_add(&s, &h, "!", 1));
  assert_string_equal(td_edit_search_shorten(&s, &h), "alpha");
  td_edit_search_deinit(&s);
  td_edit_history_deinit(&h);
}

static void survives_no_memory(void **state) {
  (void)state;
  for (int nth = 1; nth < 12; nth++) {
    td_edit_history h;
    td_str text;
    td_str_init(&text);
    td_mem_fail(nth, true);
    fill(&h);
    const char *entry = td_edit_history_older(&h, &text, 0);
    td_mem_fail(0, false);
    if (entry) assert_true(h.entries.len > 0);
    td_edit_history_deinit(&h);
    td_str_deinit(&text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(adds),     cmocka_unit_test(adds_older),
      cmocka_unit_test(walks),    cmocka_unit_test(suggests),
      cmocka_unit_test(searches), cmocka_unit_test(survives_no_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
