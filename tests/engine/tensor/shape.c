/* shape.c - counting, merging, broadcasting and printing of shapes.
 *
 * Shapes are written as text here: "3 -1", "" a scalar, "?" of unknown rank.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/tensor/shape.h"

#define BIG "9223372036854775807"

static td_shape parse(const char *text) {
  int64_t dim[TD_MAX_RANK];
  int rank = 0;
  if (*text == '?') return td_shape_unknown();
  for (char *end; rank < TD_MAX_RANK; text = end) {
    long long d = strtoll(text, &end, 10);
    if (end == text) break;
    dim[rank++] = d;
  }
  return td_shape_of(rank, dim);
}

static void test_count(void **state) {
  static const struct {
    const char *shape;
    int64_t count;
    bool known;
  } rows[] = {
      {"", 1, true},
      {"0", 0, true},
      {"3 4", 12, true},
      {"-1", -1, false},
      {"0 -1", -1, false},
      {"?", -1, false},
      {BIG, INT64_MAX, true},
      {BIG " 1", INT64_MAX, true},
      {BIG " 2", -1, true},
      {"2 0 " BIG, -1, true}, /* a stride would overflow */
      {"0 " BIG, 0, true},
      {"4294967296 4294967296", -1, true},
      {"3037000499 3037000499", 9223372030926249001, true},
      {"2 2 2 2 2 2 2 2", 256, true},
  };
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_shape s = parse(rows[i].shape);
    assert_true(td_shape_count(&s) == rows[i].count);
    assert_int_equal(td_shape_known(&s), rows[i].known);
  }
}

static void test_make(void **state) {
  (void)state;
  td_shape s = td_shape_of(17, (int64_t[17]){0});
  assert_int_equal(s.rank, -1);
  s = td_shape_of(-7, NULL);
  assert_int_equal(s.rank, -1);
  s = td_shape_of(2, (int64_t[]){-5, 3});
  assert_int_equal(s.dim[0], -1);
  s = td_shape_scalar();
  assert_int_equal(s.rank, 0);
  s = td_shape_vector(7);
  assert_int_equal(s.dim[0], 7);
  s = td_shape_matrix(2, 3);
  assert_int_equal(s.rank, 2);
  assert_int_equal(s.dim[1], 3);
}

typedef bool combine(const td_shape *a, const td_shape *b, td_shape *out);
typedef struct row {
  const char *a, *b, *want; /* want NULL: refused */
} row;

/* Both orders; and with the result over either operand. */
static void check(combine *f, const row *r) {
  for (int turn = 0; turn < 2; turn++) {
    td_shape a = parse(turn ? r->b : r->a), b = parse(turn ? r->a : r->b);
    td_shape out = td_shape_vector(77), before = out;
    bool ok = f(&a, &b, &out);
    assert_int_equal(ok, r->want != NULL);
    td_shape want = r->want ? parse(r->want) : before;
    assert_true(td_shape_equal(&out, &want));
    if (!r->want) continue;
    td_shape over = a;
    assert_true(f(&over, &b, &over));
    assert_true(td_shape_equal(&over, &want));
    over = b;
    assert_true(f(&a, &over, &over));
    assert_true(td_shape_equal(&over, &want));
  }
}

static void test_merge(void **state) {
  static const row rows[] = {
      {"", "", ""},           {"?", "?", "?"},          {"?", "3 -1", "3 -1"},
      {"?", "", ""},          {"3 -1", "-1 4", "3 4"},  {"3", "3", "3"},
      {"3", "4", NULL},       {"3", "3 1", NULL},       {"", "1", NULL},
      {"-1", "0", "0"},       {"-1 2", "-1 2", "-1 2"}, {"2 -1", "2 5", "2 5"},
      {"2 -1", "3 -1", NULL}, {"0", "1", NULL},
  };
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_shape a = parse(rows[i].a), b = parse(rows[i].b);
    check(td_shape_merge, &rows[i]);
    assert_int_equal(td_shape_compatible(&a, &b), rows[i].want != NULL);
  }
}

static void test_broadcast(void **state) {
  static const row rows[] = {
      {"", "", ""},
      {"", "3 4", "3 4"},
      {"4", "3 4", "3 4"},
      {"1 4", "3 1", "3 4"},
      {"3 1 5", "2 1", "3 2 5"},
      {"3", "4", NULL},
      {"2 3", "2", NULL},
      {"0", "1", "0"},
      {"0", "", "0"},
      {"0", "2", NULL},
      {"?", "3", "?"},
      {"?", "?", "?"},
      {"-1", "3", "3"},
      {"-1", "1", "-1"},
      {"-1", "-1", "-1"},
      {"-1", "0", "0"},
      {"-1 4", "3 1", "3 4"},
      {"-1 4", "5", NULL},
      {"1 1 1 1 1 1 1 9", "8 1 1 1 1 1 1 1", "8 1 1 1 1 1 1 9"},
  };
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++)
    check(td_shape_broadcast, &rows[i]);
}

static void test_widen(void **state) {
  static const struct {
    const char *a, *b, *both;
    bool allows; /* a allows b */
  } rows[] = {
      {"2 3", "2 3", "2 3", true},
      {"2 -1", "2 3", "2 -1", true},
      {"2 3", "2 -1", "2 -1", false},
      {"2 3", "4 3", "-1 3", false},
      {"-1 3", "4 -1", "-1 -1", false},
      {"2", "2 1", "?", false},
      {"?", "2 1", "?", true},
      {"2", "?", "?", false},
      {"", "", "", true},
      {"?", "?", "?", true},
  };
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_shape a = parse(rows[i].a), b = parse(rows[i].b);
    td_shape both = parse(rows[i].both), wide = td_shape_widen(&a, &b);
    assert_true(td_shape_equal(&wide, &both));
    assert_int_equal(td_shape_allows(&a, &b), rows[i].allows);
    assert_true(td_shape_allows(&wide, &a) && td_shape_allows(&wide, &b));
  }
}

static void test_equal(void **state) {
  static const struct {
    const char *a, *b;
    bool want;
  } rows[] = {
      {"", "", true},        {"?", "?", true},    {"?", "", false},
      {"-1", "-1", true},    {"-1", "3", false},  {"3 4", "3 4", true},
      {"3 4", "4 3", false}, {"3", "3 1", false},
  };
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_shape a = parse(rows[i].a), b = parse(rows[i].b);
    assert_int_equal(td_shape_equal(&a, &b), rows[i].want);
  }
}

static void test_print(void **state) {
  static const struct {
    const char *shape, *want;
  } rows[] = {
      {"", "{}"},
      {"?", "?"},
      {"3 -1", "{3, -1}"},
      {BIG " " BIG " " BIG " " BIG " " BIG " " BIG " " BIG " " BIG,
       "{" BIG ", " BIG ", " BIG ", " BIG ", " BIG ", " BIG ", " BIG ", " BIG
       "}"},
  };
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_shape s = parse(rows[i].shape);
    td_shape_text text;
    td_str out;
    assert_string_equal(td_shape_str(&s, &text), rows[i].want);
    td_str_init(&out);
    td_shape_print(&s, &out);
    assert_string_equal(td_str_c(&out), rows[i].want);
    td_str_deinit(&out);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_count),     cmocka_unit_test(test_make),
      cmocka_unit_test(test_merge),     cmocka_unit_test(test_equal),
      cmocka_unit_test(test_broadcast), cmocka_unit_test(test_print),
      cmocka_unit_test(test_widen),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
