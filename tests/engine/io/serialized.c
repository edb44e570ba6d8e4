/* serialized.c - tensors to bytes and back, and bytes that are none.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/serialized.h"

#include "engine/base/mem.h"
#include "tests/check.h"

static void test_there_and_back(void **state) {
  (void)state;
  static const char *const words[] = {"moon", "", "\xc3\xa4"};
  static const size_t lens[] = {4, 0, 2};
  static const double numbers[] = {1.5, -2, 0};
  td_shape three = td_shape_vector(3);
  td_tensor in[2], out;
  OK(td_tensor_strings(&three, words, lens, &in[0]));
  OK(td_tensor_from(TD_FLOAT64, &three, numbers, &in[1]));
  for (int i = 0; i < 2; i++) {
    char *bytes;
    size_t len;
    OK(td_serialized_write(&in[i], &bytes, &len));
    OK(td_serialized_read((td_bytes){bytes, len}, &out));
    assert_true(td_tensor_same(&in[i], &out));
    td_tensor_release(&out);
    for (size_t cut = 0; cut < len; cut++) {
      td_status *s = td_serialized_read((td_bytes){bytes, cut}, &out);
      if (td_ok(s)) td_tensor_release(&out);
      td_status_release(s);
    }
    td_free(bytes);
    td_tensor_release(&in[i]);
  }
}

static void test_what_is_no_tensor(void **state) {
  (void)state;
  td_tensor out;
  FAILS(td_serialized_read((td_bytes){"zzz", 3}, &out), TD_INVALID_ARGUMENT,
        "a string of 3 bytes is no tensor: ");
  FAILS(td_serialized_read((td_bytes){"", 0}, &out), TD_INVALID_ARGUMENT,
        "a string of 0 bytes is no tensor: ");
}

/* One float for each of 2^40 elements. */
static void test_repeated_values_are_bounded(void **state) {
  (void)state;
  static const char bytes[] = "\x08\x01\x12\x09\x12\x07\x08\x80\x80\x80\x80\x80"
                              "\x20\x2a\x04\0\0\x80?";
  td_tensor out;
  FAILS(td_serialized_read((td_bytes){bytes, sizeof bytes - 1}, &out),
        TD_RESOURCE_EXHAUSTED, "repeated values");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_there_and_back),
      cmocka_unit_test(test_what_is_no_tensor),
      cmocka_unit_test(test_repeated_values_are_bounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
