/* range.c - Range: how many elements, the last one, what is refused.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <math.h>

#include "tests/kernels/arrays.h"

static void range(td_dtype dtype, double start, double limit, double delta,
                  int64_t count, double last) {
  uint64_t r = 5;
  request q = {.op = "Range"};
  request_in(&q, scalar_f(dtype, start));
  request_in(&q, scalar_f(dtype, limit));
  request_in(&q, scalar_f(dtype, delta));
  if (count < 0) {
    FAILS(ask(&q, &r), TD_INVALID_ARGUMENT, "range");
  } else {
    OK(ask(&q, &r));
    assert_int_equal(td_tensor_count(&q.out[0]), count);
    if (count) assert_true(td_tensor_get_f(&q.out[0], count - 1) == last);
  }
  request_end(&q);
}

static void test_range(void **state) {
  (void)state;
  range(TD_INT32, 0, 10, 3, 4, 9);
  range(TD_INT32, 10, 0, -3, 4, 1);
  range(TD_INT32, 3, 3, 1, 0, 0);
  range(TD_INT32, 3, 3, -1, 0, 0);
  range(TD_INT32, 3, 4, -1, -1, 0);
  range(TD_INT32, 3, 4, 0, -1, 0);
  range(TD_INT64, -0x1p63, 0x1p62, 0x1p62, 3, 0);
  range(TD_INT8, -128, 127, 100, 3, 72);
  range(TD_UINT16, 65535, 0, 1, -1, 0);
  range(TD_FLOAT32, 0, 1, 0.25, 4, 0.75);
  range(TD_FLOAT64, 1, 0, -0.25, 4, 0.25);
  range(TD_FLOAT32, 0, (double)INFINITY, 1, -1, 0);
  range(TD_FLOAT32, (double)NAN, 1, 1, -1, 0);
  range(TD_FLOAT32, 0, 1, (double)NAN, -1, 0);
  range(TD_INT32, 0, 100000, 1, 100000, 99999);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_range),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
