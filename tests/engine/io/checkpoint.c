/* checkpoint.c - checkpoints written, read, and TensorFlow's own bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/checkpoint.h"

#include <string.h>

#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/io/checkpoint_writer.h"
#include "tests/check.h"

/* What TensorFlow 2.21 writes for a, s and step: float32 {2, 3} 1 to 6, string
 * {3} "hi" "" "xyz", int64 5. */
static const char golden_index[] =
    "00000608011a020801000113610801120812020802120208032818357aebf5ab00011173"
    "08071204120208032018280c35f1fa0723"
    "01030d746570080912002024280835eab2043e000000000100000000ea87455a"
    "000000000100000000c0f2a1b000010274005000000000010000000011b391ec"
    "5508620e00000000000000000000000000000000000000000000000000000000"
    "000000000000000057fb808b247547db";
static const char golden_data[] =
    "0000803f0000004000004040000080400000a0400000c040"
    "0200031b428bca686978797a"
    "0500000000000000";

/* A prefix in a folder of its own. */
static char *prefix_of(td_str *path, const char *name) {
  td_str_clear(path);
  OK(td_file_temp_dir(200, path));
  td_str_addf(path, "/%s", name);
  assert_false(path->failed);
  return path->at;
}

static void assert_file(const char *prefix, const char *end, const char *hex) {
  td_str path = {0}, got = {0};
  char *bytes;
  size_t len;
  td_str_addf(&path, "%s%s", prefix, end);
  OK(td_file_read(path.at, 1 << 20, &bytes, &len));
  for (size_t i = 0; i < len; i++) td_str_addf(&got, "%02x", (uint8_t)bytes[i]);
  assert_string_equal(td_str_c(&got), hex);
  td_free(bytes);
  td_str_deinit(&got);
  td_str_deinit(&path);
}

static void three(td_tensor *t) {
  static const char *const words[] = {"hi", "", "xyz"};
  static const size_t lens[] = {2, 0, 3};
  static const float numbers[] = {1, 2, 3, 4, 5, 6};
  td_shape matrix = td_shape_matrix(2, 3), vector = td_shape_vector(3);
  OK(td_tensor_from(TD_FLOAT32, &matrix, numbers, &t[0]));
  OK(td_tensor_strings(&vector, words, lens, &t[1]));
  OK(td_tensor_scalar_i(TD_INT64, 5, &t[2]));
}

static void save(const char *prefix, const td_tensor *t) {
  static const char *const names[] = {"a", "s", "step"};
  td_checkpoint_writer *w;
  OK(td_checkpoint_writer_open(prefix, &w));
  for (int i = 0; i < 3; i++) OK(td_checkpoint_writer_add(w, names[i], &t[i]));
  OK(td_checkpoint_writer_commit(w));
  td_checkpoint_writer_close(w);
}

static void assert_holds(const char *prefix, const td_tensor *t) {
  td_checkpoint *c;
  OK(td_checkpoint_open(prefix, &c));
  assert_int_equal(td_checkpoint_count(c), 3);
  for (size_t i = 0; i < 3; i++) {
    td_checkpoint_entry e = td_checkpoint_at(c, i);
    td_tensor got;
    OK(td_checkpoint_read(c, &e, NULL, NULL, &got));
    assert_true(td_tensor_same(&got, &t[i]));
    td_tensor_release(&got);
  }
  OK(td_checkpoint_verify(c));
  td_checkpoint_close(c);
}

static void test_tensorflows_bytes(void **state) {
  (void)state;
  td_str path = {0};
  td_tensor t[3];
  three(t);
  char *prefix = prefix_of(&path, "model");
  save(prefix, t);
  assert_file(prefix, ".index", golden_index);
  assert_file(prefix, ".data-00000-of-00001", golden_data);
  assert_holds(prefix, t);
  for (int i = 0; i < 3; i++) td_tensor_release(&t[i]);
  td_str_deinit(&path);
}

/* The data that an index tells of are never touched. */
static void test_again_under_the_same_prefix(void **state) {
  (void)state;
  td_str path = {0};
  td_tensor t[3];
  three(t);
  char *prefix = prefix_of(&path, "model");
  for (int i = 0; i < 3; i++) {
    save(prefix, t);
    assert_holds(prefix, t);
  }
  for (int i = 0; i < 3; i++) td_tensor_release(&t[i]);
  td_str_deinit(&path);
}

static void test_slices(void **state) {
  (void)state;
  td_str path = {0};
  char *prefix = prefix_of(&path, "sliced");
  static const int32_t rows[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  td_shape whole = td_shape_matrix(4, 3), half = td_shape_matrix(2, 3);
  td_tensor all, part, got;
  td_checkpoint_writer *w;
  OK(td_tensor_from(TD_INT32, &whole, rows, &all));
  OK(td_checkpoint_writer_open(prefix, &w));
  for (int i = 0; i < 2; i++) {
    td_slice s = {.rank = 2, .start = {2 * i, 0}, .length = {2, -1}};
    OK(td_tensor_from(TD_INT32, &half, rows + 6 * i, &part));
    OK(td_checkpoint_writer_add_slice(w, "w", &whole, &s, &part));
    td_tensor_release(&part);
  }
  OK(td_checkpoint_writer_commit(w));
  td_checkpoint_writer_close(w);
  td_checkpoint *c;
  td_checkpoint_entry e;
  OK(td_checkpoint_open(prefix, &c));
  assert_int_equal(td_checkpoint_count(c), 1);
  assert_true(td_checkpoint_find(c, "w", &e));
  OK(td_checkpoint_read(c, &e, NULL, NULL, &got));
  assert_true(td_tensor_same(&got, &all));
  td_tensor_release(&got);
  td_slice middle = {.rank = 2, .start = {1, 1}, .length = {2, 2}};
  OK(td_checkpoint_read(c, &e, &middle, NULL, &got));
  assert_int_equal(td_tensor_get_i(&got, 0), 4);
  assert_int_equal(td_tensor_get_i(&got, 3), 8);
  td_tensor_release(&got);
  td_checkpoint_close(c);
  td_tensor_release(&all);
  td_str_deinit(&path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tensorflows_bytes),
      cmocka_unit_test(test_again_under_the_same_prefix),
      cmocka_unit_test(test_slices),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
