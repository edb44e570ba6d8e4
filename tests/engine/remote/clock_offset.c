/* clock_offset.c - clocks that differ, over ways of any length.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/remote/clock_offset.h"

#include "tests/check.h"

static uint64_t seed = 7;

static int64_t draw(int64_t most) {
  seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return (int64_t)((seed >> 20) % (uint64_t)most);
}

/* What is said holds, whatever the ways took, while the clocks drift apart. */
static void test_bound(void **state) {
  (void)state;
  for (int k = 0; k < 2000; k++) {
    td_clock_offsets o = {0};
    td_clock_offset best;
    int64_t ahead = draw(INT64_C(1) << 50) - (INT64_C(1) << 49);
    int64_t now = draw(INT64_C(1) << 50), began = now;
    int64_t drift = draw(3) - 1; /* 1 in 20,000, either way, or none */
    for (int i = 0; i < 20; i++) {
      int64_t there = draw(500000), stay = draw(100000), back = draw(500000);
      int64_t off = ahead + drift * ((now - began) / 20000);
      int64_t t1 = now + there + off, t2 = t1 + stay;
      int64_t t3 = now + there + stay + back;
      td_clock_offset_add(&o, now, t1, t2, t3);
      now = t3 + draw(1000000000);
      off = ahead + drift * ((now - began) / 20000);
      assert_true(td_clock_offset_best(&o, now, now, &best));
      int64_t wrong = best.ahead - off;
      if (wrong > best.error || -wrong > best.error)
        fail_msg("%lld ns, and not within %lld", (long long)wrong,
                 (long long)best.error);
      if (i > 0) assert_true(best.error < 500000 + 100000);
    }
  }
}

/* The shortest round trip counts, until it is so old that another is better. */
static void test_best(void **state) {
  (void)state;
  td_clock_offsets o = {0};
  td_clock_offset best;
  assert_false(td_clock_offset_best(&o, 0, 0, &best));
  td_clock_offset_add(&o, 0, 1000100, 1000100, 200);
  td_clock_offset_add(&o, 1000, 1020000, 1020000, 41000);
  assert_true(td_clock_offset_best(&o, 41000, 41000, &best));
  assert_int_equal(best.ahead, 1000000);
  assert_in_range(best.error, 100, 120);
  int64_t later = INT64_C(10000000000);
  td_clock_offset_add(&o, later, later + 1020000, later + 1020000,
                      later + 40000);
  assert_true(td_clock_offset_best(&o, later, later, &best));
  assert_int_equal(best.ahead, 1000000);
  assert_in_range(best.error, 20000, 20010);
  /* All of a long step counts. */
  assert_true(td_clock_offset_best(&o, later, 2 * later, &best));
  assert_in_range(best.error, 1000000, 1020010);
  for (int i = 0; i < TD_CLOCK_OFFSETS; i++)
    td_clock_offset_add(&o, 0, 9000, 9000, 2000);
  assert_true(td_clock_offset_best(&o, 0, 0, &best));
  assert_int_equal(best.ahead, 8000); /* the others are forgotten */
}

/* A peer may say anything. */
static void test_liars(void **state) {
  (void)state;
  td_clock_offsets o = {0};
  td_clock_offset best;
  static const int64_t odd[] = {INT64_MIN, INT64_MIN + 1, -1,       0,
                                1,         INT64_MAX - 1, INT64_MAX};
  for (size_t i = 0; i < TD_COUNT(odd); i++)
    for (size_t k = 0; k < TD_COUNT(odd); k++)
      td_clock_offset_add(&o, 100, odd[i], odd[k], 200);
  td_clock_offset_add(&o, 100, 500, 400, 200); /* it left before it came */
  td_clock_offset_add(&o, 200, 500, 500, 100);
  td_clock_offset_add(&o, 100, 500, 700, 200); /* it stayed for longer than it
                                                  was away */
  for (unsigned i = 0; i < o.n && i < TD_CLOCK_OFFSETS; i++)
    assert_in_range(o.last[i].error, 0, 52);
  if (o.n) assert_true(td_clock_offset_best(&o, 0, INT64_MAX / 4, &best));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bound),
      cmocka_unit_test(test_best),
      cmocka_unit_test(test_liars),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
