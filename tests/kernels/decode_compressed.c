/* decode_compressed.c - a few bytes that stand for many: the device's limit
 * holds, and every length comes back whole.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <zlib.h>

#include "engine/base/mem.h"
#include "engine/device/alloc.h"
#include "engine/device/eval.h"

enum { MIB = 1 << 20 };

/* One string: n bytes, compressed. */
static td_tensor compressed(size_t n) {
  uLongf len = compressBound(n);
  Bytef *plain = td_calloc(n + 1, 1), *small = td_malloc(len);
  td_tensor t;
  td_shape scalar = td_shape_scalar();
  assert_true(plain && small);
  for (size_t i = 0; i < n && i < 5000; i++) plain[i] = (Bytef)(i * i / 7);
  assert_int_equal(compress(small, &len, plain, n), Z_OK);
  const char *at = (const char *)small;
  size_t bytes = len;
  OK(td_tensor_strings(&scalar, &at, &bytes, &t));
  td_free(plain);
  td_free(small);
  return t;
}

static td_status *decode(size_t limit, td_tensor in, td_tensor *out) {
  static const int groups[] = {1};
  const td_note attr = {"compression_type", td_attr_string("ZLIB")};
  td_alloc_budget *budget;
  td_device *cpu;
  int n;
  OK(td_alloc_budget_new(limit, &budget));
  OK(td_device_cpu_new("/job:localhost/replica:0/task:0", 0, budget, &cpu));
  td_alloc_budget_release(budget);
  td_status *s = td_eval(td_op_find("DecodeCompressed"), cpu, 1, &in, groups,
                         &attr, 1, out, 1, &n, NULL);
  td_device_release(cpu);
  td_tensor_release(&in);
  return s;
}

static void test_lengths(void **state) {
  (void)state;
  static const size_t lengths[] = {0, 1, 4095, 4096, 4097, 8192, 3 * MIB + 1};
  for (size_t i = 0; i < TD_COUNT(lengths); i++) {
    td_tensor y;
    size_t len;
    OK(decode(16 * MIB, compressed(lengths[i]), &y));
    const char *at = td_tensor_str(&y, 0, &len);
    assert_int_equal(len, lengths[i]);
    for (size_t k = 0; k < len && k < 5000; k++)
      assert_int_equal((uint8_t)at[k], (uint8_t)(k * k / 7));
    td_tensor_release(&y);
  }
}

static void test_a_bomb_meets_the_limit(void **state) {
  (void)state;
  td_tensor y;
  td_tensor bomb = compressed(64 * MIB);
  assert_true(td_tensor_bytes(&bomb) < MIB);
  FAILS(decode(16 * MIB, bomb, &y), TD_RESOURCE_EXHAUSTED, "memory");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lengths),
      cmocka_unit_test(test_a_bomb_meets_the_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
