/* difference.c - in how many elements two tensors differ, and by how much.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <math.h>

#include "engine/tensor/difference.h"

static td_difference of(td_dtype dtype, int n, const void *x, const void *y) {
  td_shape shape = td_shape_vector(n);
  td_tensor a, b;
  OK(td_tensor_from(dtype, &shape, x, &a));
  OK(td_tensor_from(dtype, &shape, y, &b));
  td_difference d = td_difference_of(&a, &b), turned = td_difference_of(&b, &a);
  assert_int_equal(d.count, turned.count);
  assert_true(d.largest == turned.largest);
  td_tensor_release(&a);
  td_tensor_release(&b);
  return d;
}

#define DIFFERS(dtype, x, y, n, by)                                            \
  do {                                                                         \
    td_difference d_ = of(dtype, TD_COUNT(x), x, y);                           \
    assert_int_equal(d_.count, n);                                             \
    assert_true(d_.largest == (by));                                           \
  } while (0)

static void numbers(void **state) {
  const float a[] = {1, 2, 3}, b[] = {1, 2.5f, 1};
  const double n[] = {0, NAN, 1, INFINITY}, m[] = {-0.0, NAN, 1, INFINITY};
  const double k[] = {0, 1, 1, 1};
  const uint64_t u[] = {UINT64_MAX, 5}, v[] = {0, 7};
  const int64_t i[] = {INT64_MIN, 5}, j[] = {INT64_MAX, 5};
  const uint16_t h[] = {0x3c00, 0x4000}, g[] = {0x3c00, 0x4200}; /* 1 2, 1 3 */
  const float c[] = {1, 2, 3, 4}, d[] = {1, 2, 6, 8};
  const uint8_t t[] = {0, 1}, f[] = {1, 1};
  (void)state;
  DIFFERS(TD_FLOAT32, a, a, 0, 0);
  DIFFERS(TD_FLOAT32, a, b, 2, 2);
  DIFFERS(TD_FLOAT64, n, m, 1, 0); /* two zeros: other bytes, no distance */
  DIFFERS(TD_FLOAT64, n, k, 2, (double)INFINITY);
  DIFFERS(TD_UINT64, u, v, 2, 0x1p64);
  DIFFERS(TD_INT64, i, j, 1, 0x1p64);
  DIFFERS(TD_FLOAT16, h, g, 1, 1);
  DIFFERS(TD_BOOL, t, f, 1, 1);
  td_difference z = of(TD_COMPLEX64, 2, c, d);
  assert_int_equal(z.count, 1);
  assert_true(z.largest == 5);
}

static void strings(void **state) {
  const char *x[] = {"a", "", "c"}, *y[] = {"a", "b", "d"};
  const size_t x_len[] = {1, 0, 1}, y_len[] = {1, 1, 1};
  td_shape shape = td_shape_vector(3);
  td_tensor a, b;
  (void)state;
  OK(td_tensor_strings(&shape, x, x_len, &a));
  OK(td_tensor_strings(&shape, y, y_len, &b));
  td_difference d = td_difference_of(&a, &b);
  assert_int_equal(d.count, 2);
  assert_true(d.largest == 0);
  td_tensor_release(&a);
  td_tensor_release(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(numbers),
                                     cmocka_unit_test(strings)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
