/* tensor_string.c - string tensors: built, viewed, copied, and bad ones.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <string.h>

#include "engine/base/mem.h"
#include "engine/tensor/tensor.h"

static const char *const words[] = {"ebb", "", "fl\0od", "neap", "spring", "x"};
static const size_t lengths[] = {3, 0, 5, 4, 6, 1};

static td_tensor make(void) {
  td_shape shape = td_shape_matrix(3, 2);
  td_tensor x;
  assert_null(td_tensor_strings(&shape, words, lengths, &x));
  return x;
}

static void expect(const td_tensor *x, int64_t first, int64_t n) {
  assert_int_equal(td_tensor_count(x), n);
  size_t total = 0;
  for (int64_t i = 0; i < n; i++) {
    size_t len;
    const char *s = td_tensor_str(x, i, &len);
    assert_int_equal(len, lengths[first + i]);
    assert_memory_equal(s, words[first + i], len);
    total += len;
  }
  assert_int_equal(td_tensor_bytes(x), (size_t)(n + 1) * 8 + total);
  assert_null(td_tensor_strings_check(x));
}

static void test_build(void **state) {
  td_tensor x = make();
  (void)state;
  expect(&x, 0, 6);
  assert_int_equal(x.buffer->size, td_tensor_bytes(&x));
  assert_true(x.buffer->readonly);
  td_tensor_release(&x);
}

static void test_views(void **state) {
  (void)state;
  for (int64_t begin = 0; begin <= 3; begin++)
    for (int64_t n = 0; begin + n <= 3; n++) {
      td_tensor x = make(), rows, copy;
      td_shape flat = td_shape_vector(n * 2);
      assert_null(td_tensor_rows(&x, begin, n, &rows));
      td_tensor_release(&x); /* the view holds the block */
      expect(&rows, begin * 2, n * 2);
      assert_null(td_tensor_copy(&rows, &copy));
      expect(&copy, begin * 2, n * 2);
      assert_int_equal(copy.buffer->size, td_tensor_bytes(&copy));
      assert_true(td_tensor_same(&rows, &copy));
      assert_null(td_tensor_reshape(&rows, &flat, &x));
      expect(&x, begin * 2, n * 2);
      assert_false(td_tensor_same(&rows, &x));
      td_tensor_release(&x);
      td_tensor_release(&rows);
      td_tensor_release(&copy);
    }
}

static void test_same(void **state) {
  static const char *const other[] = {"ebb",  "",       "fl\0oD",
                                      "neap", "spring", "x"};
  static const size_t moved[] = {3, 0, 5, 4, 5, 1};
  td_shape shape = td_shape_matrix(3, 2);
  td_tensor x = make(), y = make(), z, w;
  (void)state;
  assert_null(td_tensor_strings(&shape, other, lengths, &z));
  assert_null(td_tensor_strings(&shape, words, moved, &w));
  assert_true(td_tensor_same(&x, &y));
  assert_false(td_tensor_same(&x, &z));
  assert_false(td_tensor_same(&x, &w));
  td_tensor_release(&x);
  td_tensor_release(&y);
  td_tensor_release(&z);
  td_tensor_release(&w);
}

static void test_refused(void **state) {
  static const struct {
    td_shape shape;
    size_t total;
  } rows[] = {
      {{-1, {0}}, 0},          {{1, {-1}}, 0},
      {{1, {INT64_MAX}}, 0},   {{1, {INT64_MAX / 8}}, 64},
      {{1, {2}}, SIZE_MAX},    {{1, {2}}, SIZE_MAX - 24},
      {{1, {2}}, PTRDIFF_MAX},
  };
  uint64_t *offsets;
  char *text;
  td_tensor x;
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_status *s = td_tensor_strings_new(&rows[i].shape, rows[i].total, &x,
                                         &offsets, &text);
    assert_int_equal(td_status_code(s), TD_INVALID_ARGUMENT);
    td_status_release(s);
  }
  td_shape pair = td_shape_vector(2);
  td_status *s = td_tensor_strings(&pair, words, (size_t[]){SIZE_MAX, 9}, &x);
  assert_int_equal(td_status_code(s), TD_INVALID_ARGUMENT);
  td_status_release(s);
}

/* A block from outside: one row a way to be wrong. */
static void test_check(void **state) {
  static const struct {
    int64_t count;
    uint64_t words[4]; /* the block: 32 bytes */
    size_t skip;       /* of the block, before the offsets */
    bool ok;
  } rows[] = {
      {2, {24, 26, 32}, 0, true},
      {2, {24, 24, 24}, 0, true},
      {0, {8}, 0, true},
      {1, {0, 24, 32}, 8, true},
      {2, {24, 33, 32}, 0, false},
      {2, {24, 26, 33}, 0, false},
      {2, {26, 24, 32}, 0, false},
      {2, {24, UINT64_MAX, 32}, 0, false},
      {2, {UINT64_MAX, 26, 32}, 0, false},
      {3, {0, 0, 0, 0}, 0, true},
      {4, {0}, 0, false},
      {3, {0}, 8, false},
      {0, {0}, 32, false},
      {0, {0}, 40, false},
      {0, {0}, 4, false},
      {-1, {0}, 0, false},
      {INT64_MAX, {0}, 0, false},
  };
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    uint64_t block[8];
    memcpy(block, rows[i].words, sizeof rows[i].words);
    td_tensor x = {.dtype = TD_STRING, .shape = td_shape_vector(rows[i].count)};
    assert_null(td_buffer_wrap(block, 32, NULL, NULL, &x.buffer));
    x.data = (char *)block + rows[i].skip;
    td_status *s = td_tensor_strings_check(&x);
    assert_int_equal(td_status_code(s), rows[i].ok ? TD_OK : TD_DATA_LOSS);
    td_status_release(s);
    td_tensor_release(&x);
  }
}

static void test_faults(void **state) {
  td_shape shape = td_shape_matrix(3, 2);
  int failed = 0;
  (void)state;
  for (int64_t n = 1;; n++, failed++) {
    td_tensor x = {0}, y = {0};
    td_mem_fail(n, false);
    td_status *s = td_tensor_strings(&shape, words, lengths, &x);
    if (td_ok(s)) s = td_tensor_copy(&x, &y);
    td_mem_fail(0, false);
    td_tensor_release(&x);
    td_tensor_release(&y);
    if (td_ok(s)) break;
    assert_int_equal(td_status_code(s), TD_RESOURCE_EXHAUSTED);
    td_status_release(s);
  }
  assert_int_equal(failed, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_build), cmocka_unit_test(test_views),
      cmocka_unit_test(test_same),  cmocka_unit_test(test_refused),
      cmocka_unit_test(test_check), cmocka_unit_test(test_faults),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
