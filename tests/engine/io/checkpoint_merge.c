/* checkpoint_merge.c - several checkpoints become one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/io/checkpoint.h"
#include "engine/io/checkpoint_writer.h"
#include "tests/check.h"

static td_str folder; /* of the test */

static char *path_of(const char *name) {
  td_str path = {0};
  td_str_addf(&path, "%s/%s", folder.at, name);
  return td_str_take(&path);
}

static int set_up(void **state) {
  (void)state;
  OK(td_file_temp_dir(200, &folder));
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  td_str command = {0};
  td_str_addf(&command, "rm -rf '%s'", folder.at);
  assert_int_equal(system(command.at), 0);
  td_str_deinit(&command);
  td_str_deinit(&folder);
  return 0;
}

static void add(td_checkpoint_writer *w, const char *name, int64_t v) {
  td_tensor t;
  OK(td_tensor_scalar_i(TD_INT64, v, &t));
  OK(td_checkpoint_writer_add(w, name, &t));
  td_tensor_release(&t);
}

/* Rows `start` and `start` + 1 of "w", whose shape is {rows, 2}. */
static void add_rows(td_checkpoint_writer *w, int64_t rows, int64_t start,
                     td_dtype dtype) {
  td_shape whole = td_shape_matrix(rows, 2), half = td_shape_matrix(2, 2);
  td_slice s = {.rank = 2, .start = {start, 0}, .length = {2, -1}};
  td_tensor t;
  OK(td_tensor_new(NULL, dtype, &half, &t));
  for (int64_t i = 0; i < 4; i++) td_tensor_set_i(&t, i, 2 * start + i);
  OK(td_checkpoint_writer_add_slice(w, "w", &whole, &s, &t));
  td_tensor_release(&t);
}

static td_checkpoint_writer *begin(const char *name) {
  td_checkpoint_writer *w;
  char *prefix = path_of(name);
  OK(td_checkpoint_writer_open(prefix, &w));
  td_free(prefix);
  return w;
}

static void end(td_checkpoint_writer *w) {
  OK(td_checkpoint_writer_commit(w));
  td_checkpoint_writer_close(w);
}

static td_status *merge_to(const char *a, const char *b, const char *to,
                           bool remove_folders) {
  char *parts[2] = {path_of(a), path_of(b)}, *prefix = path_of(to);
  td_status *s = td_checkpoint_merge((const char *const *)parts, 2, prefix,
                                     remove_folders);
  td_free(parts[0]);
  td_free(parts[1]);
  td_free(prefix);
  return s;
}

static bool is_there(const char *name) {
  char *path = path_of(name);
  bool there = td_file_exists(path);
  td_free(path);
  return there;
}

static int64_t value_of(const td_checkpoint *c, const char *name, int64_t i) {
  td_checkpoint_entry e;
  td_tensor t;
  assert_true(td_checkpoint_find(c, name, &e));
  OK(td_checkpoint_read(c, &e, NULL, NULL, &t));
  int64_t v = td_tensor_get_i(&t, i);
  td_tensor_release(&t);
  return v;
}

/* Each part has a number of its own and two rows of four. */
static void make_parts(int64_t v) {
  td_checkpoint_writer *w = begin("m_temp/part-0");
  add(w, "a", v);
  add_rows(w, 4, 0, TD_INT32);
  end(w);
  w = begin("m_temp/part-1");
  add(w, "b", v + 1);
  add_rows(w, 4, 2, TD_INT32);
  end(w);
}

static void assert_merged(int64_t v) {
  td_checkpoint *c;
  char *prefix = path_of("m");
  OK(td_checkpoint_open(prefix, &c));
  assert_int_equal(td_checkpoint_count(c), 3);
  assert_int_equal(value_of(c, "a", 0), v);
  assert_int_equal(value_of(c, "b", 0), v + 1);
  for (int64_t i = 0; i < 8; i++) assert_int_equal(value_of(c, "w", i), i);
  OK(td_checkpoint_verify(c));
  td_checkpoint_close(c);
  td_free(prefix);
}

static void test_parts_become_shards(void **state) {
  (void)state;
  make_parts(1);
  OK(merge_to("m_temp/part-0", "m_temp/part-1", "m", true));
  assert_merged(1);
  assert_true(is_there("m.data-00000-of-00002"));
  assert_true(is_there("m.data-00001-of-00002"));
  assert_false(is_there("m_temp"));
}

/* Shards of the checkpoint that is there keep their bytes until the new index
 * has its name. */
static void test_over_one_of_as_many_shards(void **state) {
  (void)state;
  for (int64_t v = 1; v <= 3; v++) {
    make_parts(v);
    OK(merge_to("m_temp/part-0", "m_temp/part-1", "m", false));
    assert_merged(v);
    assert_int_equal(is_there("m.data-00000-of-00002"), v % 2);
    assert_int_equal(is_there("m.data-00002-of-00003"), v % 2 == 0);
    assert_true(is_there("m_temp"));
  }
}

static void test_what_does_not_fit(void **state) {
  (void)state;
  make_parts(1);
  td_checkpoint_writer *w = begin("x/other");
  add(w, "b", 5);
  end(w);
  w = begin("x/rows");
  add_rows(w, 6, 4, TD_INT32);
  end(w);
  w = begin("x/dtype");
  add_rows(w, 4, 2, TD_FLOAT32);
  end(w);
  w = begin("x/overlap");
  add_rows(w, 4, 1, TD_INT32);
  end(w);
  FAILS(merge_to("m_temp/part-1", "x/other", "m", true), TD_ALREADY_EXISTS,
        "given tensor \"b\" twice");
  FAILS(merge_to("m_temp/part-0", "x/rows", "m", true), TD_INVALID_ARGUMENT,
        "slices of tensor \"w\" do not agree: int32 {4, 2} and int32 {6, 2}");
  FAILS(merge_to("m_temp/part-0", "x/dtype", "m", true), TD_INVALID_ARGUMENT,
        "int32 {4, 2} and float32 {4, 2}");
  FAILS(merge_to("m_temp/part-0", "x/overlap", "m", true), TD_INVALID_ARGUMENT,
        "slices of tensor \"w\" overlap from element 1 of dimension 0 on");
  FAILS(merge_to("m_temp/part-0", "x/none", "m", true), TD_NOT_FOUND, "x/none");
  FAILS(merge_to("m_temp/part-0", "m", "m", true), TD_INVALID_ARGUMENT,
        "a part of itself");
  FAILS(td_checkpoint_merge(NULL, 0, "m", true), TD_INVALID_ARGUMENT,
        "made of no parts");
  assert_false(is_there("m.index"));
  OK(merge_to("m_temp/part-0", "m_temp/part-1", "m", true)); /* still whole */
  assert_merged(1);
}

/* The value of "a" in a whole checkpoint; 0 where there is none. */
static int64_t holds(const char *name) {
  char *prefix = path_of(name);
  td_checkpoint *c;
  td_status *s = td_checkpoint_open(prefix, &c);
  td_free(prefix);
  int64_t v = 0;
  if (td_ok(s)) {
    v = value_of(c, "a", 0);
    td_checkpoint_close(c);
  }
  td_status_release(s);
  return v;
}

/* Whatever fails once, the prefix holds what it held or what was merged; the
 * parts have their files back, unless the new index may have its name. */
static void test_each_operation_fails(void **state) {
  (void)state;
  int failed = 0, back = 0;
  make_parts(1);
  OK(merge_to("m_temp/part-0", "m_temp/part-1", "m", false));
  for (int64_t n = 1, v = 1;; n++) {
    make_parts(v + 1);
    int64_t before = td_file_calls();
    td_file_fail(n, false);
    td_status *s = merge_to("m_temp/part-0", "m_temp/part-1", "m", false);
    td_file_fail(0, false);
    bool reached = td_file_calls() - before >= n;
    if (td_ok(s)) {
      v++;
    } else {
      failed++;
      back += holds("m_temp/part-0") == v + 1;
      if (holds("m") == v + 1) v++;
    }
    td_status_release(s);
    assert_merged(v);
    if (!reached) break;
  }
  assert_true(failed > 25);
  assert_true(back >= failed - 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_parts_become_shards, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(test_over_one_of_as_many_shards, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(test_what_does_not_fit, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(test_each_operation_fails, set_up,
                                      tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
