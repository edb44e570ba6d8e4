/* health.c - when a peer counts as dead.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include "engine/remote/health.h"

#define SECOND INT64_C(1000000000)

static td_health up_at(int64_t now) {
  td_health h;
  td_health_init(&h, now);
  assert_true(td_health_on(&h, TD_HEARD, now));
  return h;
}

static td_health_state after(td_health *h, int64_t seconds, double scale) {
  (void)td_health_tick(h, seconds * SECOND, 0, scale);
  return h->state;
}

static void silence(void **state) {
  (void)state;
  td_health h = up_at(0);
  assert_int_equal(after(&h, 1, 1), TD_UP);
  assert_int_equal(after(&h, 2, 1), TD_SUSPECT);
  assert_int_equal(after(&h, 4, 1), TD_SUSPECT);
  assert_int_equal(after(&h, 5, 1), TD_DEAD);
  assert_false(td_health_on(&h, TD_HEARD, 6 * SECOND));
}

static void patience(void **state) {
  (void)state;
  td_health h = up_at(0);
  assert_int_equal(after(&h, 5, 4), TD_UP);
  assert_int_equal(after(&h, 8, 4), TD_SUSPECT);
  assert_int_equal(after(&h, 19, 4), TD_SUSPECT);
  assert_int_equal(after(&h, 20, 4), TD_DEAD);
}

/* What our own loop stood still is no silence of others. */
static void excused(void **state) {
  (void)state;
  td_health h = up_at(0);
  td_health_excuse(&h, 4 * SECOND, 3 * SECOND);
  assert_int_equal(after(&h, 4, 1), TD_UP);
  assert_int_equal(after(&h, 5, 1), TD_SUSPECT);
  assert_int_equal(after(&h, 7, 1), TD_SUSPECT);
  assert_int_equal(after(&h, 8, 1), TD_DEAD);
}

/* Not more than there was of it, and only until it is heard. */
static void no_credit(void **state) {
  (void)state;
  td_health h = up_at(3 * SECOND);
  td_health_excuse(&h, 4 * SECOND, 100 * SECOND);
  assert_int_equal(h.excused, SECOND);
  td_health_excuse(&h, 4 * SECOND, 100 * SECOND);
  assert_int_equal(h.excused, SECOND);
  assert_false(td_health_on(&h, TD_HEARD, 4 * SECOND));
  assert_int_equal(h.excused, 0);
  assert_int_equal(after(&h, 8, 1), TD_SUSPECT);
  assert_int_equal(after(&h, 9, 1), TD_DEAD);
}

static void nobody_is_judged_before(void **state) {
  (void)state;
  td_health h = up_at(0);
  assert_false(td_health_tick(&h, 9 * SECOND, 10 * SECOND, 1));
  assert_int_equal(h.state, TD_UP);
  assert_true(td_health_tick(&h, 10 * SECOND, 10 * SECOND, 1));
  assert_int_equal(h.state, TD_DEAD);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(silence),
      cmocka_unit_test(patience),
      cmocka_unit_test(excused),
      cmocka_unit_test(no_credit),
      cmocka_unit_test(nobody_is_judged_before),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
