/* crc32c.c - tests of engine/base/crc32c.h: known values, and any cut.
 *
 * The tables are tested where TIDE_ISA=scalar, which a child is started with.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/crc32c.h"

static void test_values(void **state) {
  (void)state;
  uint8_t b[32];
  assert_int_equal(td_crc32c("123456789", 9), 0xe3069283);
  assert_int_equal(td_crc32c_mask(0xe3069283), 0xc78ab0e5);
  assert_int_equal(td_crc32c_unmask(0xc78ab0e5), 0xe3069283);
  memset(b, 0, sizeof b);
  assert_int_equal(td_crc32c(b, sizeof b), 0x8a9136aa);
  memset(b, 255, sizeof b);
  assert_int_equal(td_crc32c(b, sizeof b), 0x62a8ab43);
  for (int i = 0; i < 32; i++) b[i] = (uint8_t)i;
  assert_int_equal(td_crc32c(b, sizeof b), 0x46dd794e);
  assert_int_equal(td_crc32c("", 0), 0);
}

/* By the polynomial, a bit at a time. */
static uint32_t slowly(const uint8_t *p, size_t n) {
  uint32_t c = ~0u;
  for (size_t i = 0; i < n; i++) {
    c ^= p[i];
    for (int bit = 0; bit < 8; bit++) c = c >> 1 ^ (c & 1 ? 0x82f63b78u : 0);
  }
  return ~c;
}

static void test_any_length_and_cut(void **state) {
  (void)state;
  uint8_t b[80];
  for (size_t i = 0; i < sizeof b; i++) b[i] = (uint8_t)(i * 37 + 11);
  for (size_t from = 0; from < 9; from++)
    for (size_t n = 0; from + n <= sizeof b; n++) {
      uint32_t want = slowly(b + from, n);
      assert_int_equal(td_crc32c(b + from, n), want);
      uint32_t half = td_crc32c(b + from, n / 3);
      assert_int_equal(td_crc32c_add(half, b + from + n / 3, n - n / 3), want);
    }
}

static void test_long_ones(void **state) {
  (void)state;
  enum { MOST = 40000 };
  uint8_t *b = malloc(MOST);
  for (size_t i = 0; i < MOST; i++) b[i] = (uint8_t)(i * i * 37 + i);
  for (size_t n = 5000; n < MOST; n += 3001) {
    uint32_t want = slowly(b + n % 8, n - 8);
    assert_int_equal(td_crc32c(b + n % 8, n - 8), want);
  }
  free(b);
}

static void test_without_the_instruction(void **state) {
  char self[512] = "";
  (void)state;
  if (getenv("TIDE_ISA")) return; /* the child itself */
  assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
  int status;
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    setenv("TIDE_ISA", "scalar", 1);
    if (!freopen("/dev/null", "w", stdout)) _exit(2);
    execl(self, self, (char *)NULL);
    _exit(3);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_any_length_and_cut),
      cmocka_unit_test(test_long_ones),
      cmocka_unit_test(test_without_the_instruction),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
