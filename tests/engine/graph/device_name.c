/* device_name.c - reading, printing and combining device strings.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <string.h>

#include "engine/graph/device_name.h"

/* clang-format off */
static const struct { const char *text, *printed; } good[] = {
  {"", ""},
  {"/job:ps", "/job:ps"},
  {"job:ps", "/job:ps"},
  {"/job:a_1/replica:0/task:12/device:GPU:3", "/job:a_1/replica:0/task:12/device:GPU:3"},
  {"/device:CPU:0/task:1/job:w", "/job:w/task:1/device:CPU:0"}, /* any order */
  {"/cpu:0", "/device:CPU:0"},
  {"cpu:1", "/device:CPU:1"},
  {"/GPU:7", "/device:GPU:7"},
  {"/gpu:*", "/device:GPU:*"},
  {"/gpu", "/device:GPU:*"},
  {"/device:TEST:0", "/device:TEST:0"},
  {"/device:test:0", "/device:TEST:0"},
  {"/device:CPU", "/device:CPU:*"},
  {"/device:*:2", "/device:*:2"},
  {"/job:*/replica:*/task:*/device:*:*", ""},
  {"/task:2147483647", "/task:2147483647"},
  {"/task:007", "/task:7"},
};

static const struct { const char *text, *part; } wrong[] = {
  {"/", "\"\""},
  {"//cpu:0", "\"\""},
  {"/job:a/", "\"\""},
  {"/job", "\"job\""},
  {"/job:", "\"job:\""},
  {"/job:1a", "\"job:1a\""},
  {"/job:a-b", "\"job:a-b\""},
  {"/job:a:b", "\"job:a:b\""},
  {"/job:a/job:b", "\"job:b\""},
  {"/job:abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijkl", "at most 63"},
  {"/task:-1", "\"task:-1\""},
  {"/task:2147483648", "\"task:2147483648\""},
  {"/task:99999999999999999999", "number from 0"},
  {"/task:1x", "\"task:1x\""},
  {"/replica", "\"replica\""},
  {"/device", "\"device\""},
  {"/device:", "\"device:\""},
  {"/device:CPU:", "\"device:CPU:\""},
  {"/device:CPU:0:0", "\"device:CPU:0:0\""},
  {"/device:CPU:0:0:0:0", "\"device:CPU:0:0:0:0\""},
  {"/cpu:0/gpu:0", "\"gpu:0\""},
  {"/device:abcdefghijklmnopqrstuvwxyzabcdefg:0", "at most 31"},
  {"/tpu:0", "\"tpu:0\" is none of"},
  {"/job:a/disk:0", "\"disk:0\" is none of"},
  {"/j\xc3\xb6" "b:a", "is none of"},
};

static const struct { const char *outer, *inner, *merged; } merges[] = {
  {"", "", ""},
  {"/job:ps/task:1", "/cpu:0", "/job:ps/task:1/device:CPU:0"},
  {"/job:ps/task:1", "/job:w", "/job:w/task:1"},
  {"/gpu:1", "/cpu:0", "/device:CPU:0"},
  {"/gpu:1", "/cpu:*", "/device:CPU:*"},
  {"/gpu:1", "/gpu:*", "/device:GPU:1"},
  {"/gpu:1", "/task:3", "/task:3/device:GPU:1"},
  {"/device:*:2", "/gpu", "/device:GPU:2"},
};

static const struct { const char *want, *full; bool matches; } matching[] = {
  {"", "/job:w/replica:0/task:0/device:CPU:0", true},
  {"/cpu:*", "/job:w/replica:0/task:0/device:CPU:1", true},
  {"/cpu:0", "/job:w/replica:0/task:0/device:CPU:1", false},
  {"/job:w/task:0", "/job:w/replica:0/task:0/device:CPU:1", true},
  {"/job:w/task:1", "/job:w/replica:0/task:0/device:CPU:1", false},
  {"/job:p", "/job:w/replica:0/task:0/device:CPU:1", false},
  {"/gpu", "/job:w/replica:0/task:0/device:CPU:1", false},
  {"/replica:1", "/job:w/replica:0/task:0/device:CPU:1", false},
};

static const struct { const char *a, *b, *both; } meets[] = { /* NULL: none */
  {"/cpu:*", "/task:1", "/task:1/device:CPU:*"},
  {"/cpu:*", "/device:*:3", "/device:CPU:3"},
  {"/job:a/cpu:0", "/job:a/cpu:0", "/job:a/device:CPU:0"},
  {"/cpu:0", "/gpu:0", NULL},
  {"/job:a", "/job:b", NULL},
  {"/cpu:0", "/cpu:1", NULL},
  {"/task:0", "/task:1", NULL},
  {"/replica:0", "/replica:1", NULL},
};
/* clang-format on */

static td_device_name parse(const char *text) {
  td_device_name d;
  assert_null(td_device_name_parse(text, &d));
  return d;
}

static void assert_prints(const td_device_name *d, const char *text) {
  td_str s = {0};
  td_device_name_print(d, &s);
  assert_string_equal(td_str_c(&s), text);
  td_str_deinit(&s);
}

static void test_parse(void **state) {
  (void)state;
  for (size_t i = 0; i < TD_COUNT(good); i++) {
    td_device_name d = parse(good[i].text), again = parse(good[i].printed);
    assert_prints(&d, good[i].printed);
    assert_memory_equal(&d, &again, sizeof d);
  }
}

static void test_refuse(void **state) {
  (void)state;
  for (size_t i = 0; i < TD_COUNT(wrong); i++) {
    td_device_name d = parse("/job:kept"), before = d;
    td_status *s = td_device_name_parse(wrong[i].text, &d);
    assert_int_equal(td_status_code(s), TD_INVALID_ARGUMENT);
    if (!strstr(td_status_message(s), wrong[i].part))
      fail_msg("%s: %s", wrong[i].text, td_status_message(s));
    assert_memory_equal(&d, &before, sizeof d);
    td_status_release(s);
  }
}

static void test_merge(void **state) {
  (void)state;
  for (size_t i = 0; i < TD_COUNT(merges); i++) {
    td_device_name outer = parse(merges[i].outer);
    td_device_name inner = parse(merges[i].inner);
    td_device_name_merge(&outer, &inner, &outer); /* may be the same */
    assert_prints(&outer, merges[i].merged);
  }
}

static void test_match(void **state) {
  (void)state;
  for (size_t i = 0; i < TD_COUNT(matching); i++) {
    td_device_name want = parse(matching[i].want);
    td_device_name full = parse(matching[i].full);
    assert_int_equal(td_device_name_matches(&want, &full), matching[i].matches);
  }
}

static void test_intersect(void **state) {
  (void)state;
  for (size_t i = 0; i < TD_COUNT(meets); i++) {
    td_device_name a = parse(meets[i].a), b = parse(meets[i].b), ab, ba;
    bool meet = td_device_name_intersect(&a, &b, &ab);
    assert_int_equal(meet, meets[i].both != NULL);
    assert_int_equal(td_device_name_intersect(&b, &a, &ba), meet);
    if (!meet) continue;
    assert_prints(&ab, meets[i].both);
    assert_memory_equal(&ab, &ba, sizeof ab);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_parse),     cmocka_unit_test(test_refuse),
      cmocka_unit_test(test_merge),     cmocka_unit_test(test_match),
      cmocka_unit_test(test_intersect),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
