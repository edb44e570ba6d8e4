/* nearest.c - tests of engine/base/nearest.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <limits.h>
#include <string.h>

#include "engine/base/nearest.h"

/* INT_MAX: none at all. */
static int distance(const char *a, const char *b) {
  td_nearest n = {.word = a, .len = strlen(a), .distance = INT_MAX};
  td_nearest_try(&n, b);
  return n.distance;
}

static void distances(void **state) {
  (void)state;
  static const struct {
    const char *a, *b;
    int d;
  } rows[] = {
      {"", "", 0},
      {"", "abc", 3},
      {"same", "same", 0},
      {"relu", "rleu", 1},
      {"kitten", "sitting", 3},
      {"ab", "ba", 1},
      {"matmul", "matmull", 1},
      {"ca", "abc", 3},
      {"sofmax", "softmax", 1},
      {"a", "b", 1},
      {"matmul", "MatMul", 0},
  };
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    assert_int_equal(distance(rows[i].a, rows[i].b), rows[i].d);
    assert_int_equal(distance(rows[i].b, rows[i].a), rows[i].d);
  }
  char word[66];
  memset(word, 'x', sizeof word);
  word[64] = '\0';
  assert_int_equal(distance(word, ""), 64);
  word[64] = 'x', word[65] = '\0';
  assert_int_equal(distance(word, ""), INT_MAX);
  assert_int_equal(distance("", word), INT_MAX);
}

static void near_enough(void **state) {
  (void)state;
  static const struct {
    const char *word, *best;
  } rows[] = {
      {"ad", "add"},
      {"ax", "max"},
      {"sbu", "sub"},
      {"xyz", NULL},
      {"sofmax", "softmax"},
      {"sfmx", "sum"},
      {"SUB", "sub"},
      {"", NULL},
      {"placehldr", "placeholder"},
      {"plcehldr", NULL},
  };
  static const char *const names[] = {"add", "max",     "sub",
                                      "sum", "softmax", "placeholder"};
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_nearest n = td_nearest_to(rows[i].word);
    for (size_t k = 0; k < TD_COUNT(names); k++) td_nearest_try(&n, names[k]);
    if (rows[i].best)
      assert_string_equal(n.best, rows[i].best);
    else
      assert_null(n.best);
  }
}

static void hints(void **state) {
  (void)state;
  td_hint hint;
  td_nearest n = td_nearest_to("rleu");
  assert_string_equal(td_nearest_hint(&n, &hint), "");
  td_nearest_try(&n, "relu");
  td_nearest_try(&n, "relu6"); /* not nearer */
  assert_string_equal(td_nearest_hint(&n, &hint), " (did you mean \"relu\"?)");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(distances),
      cmocka_unit_test(near_enough),
      cmocka_unit_test(hints),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
