/* fault.c - tests of engine/base/fault.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <pthread.h>

#include "engine/base/fault.h"

enum { CALLS = 10 };

/* Which of ten calls pass, as a bit mask; call 1 is bit 0. */
static unsigned passes(int64_t nth, bool for_ever) {
  td_fault f = {0};
  unsigned mask = 0;
  td_fault_arm(&f, nth, for_ever);
  for (int i = 0; i < CALLS; i++)
    if (td_fault_try(&f)) mask |= 1u << i;
  assert_int_equal(td_fault_calls(&f), CALLS);
  return mask;
}

static void fails_the_nth(void **state) {
  (void)state;
  static const struct {
    int64_t nth;
    bool for_ever;
    unsigned mask;
  } rows[] = {
      {0, false, 0x3FF}, {0, true, 0x3FF},  {-5, true, 0x3FF},
      {1, false, 0x3FE}, {3, false, 0x3FB}, {10, false, 0x1FF},
      {1, true, 0x000},  {3, true, 0x003},  {11, true, 0x3FF},
  };
  for (size_t i = 0; i < TD_COUNT(rows); i++)
    assert_int_equal(passes(rows[i].nth, rows[i].for_ever), rows[i].mask);
}

static void disarms(void **state) {
  (void)state;
  td_fault f = {0};
  td_fault_arm(&f, 1, true);
  assert_false(td_fault_try(&f));
  assert_false(td_fault_try(&f));
  td_fault_arm(&f, 0, false);
  assert_true(td_fault_try(&f));
}

typedef struct hammer {
  td_fault *fault;
  int refused;
} hammer;

static void *call_often(void *arg) {
  hammer *h = arg;
  for (int i = 0; i < 10000; i++) h->refused += !td_fault_try(h->fault);
  return NULL;
}

/* Of 40,000 calls on four threads exactly one, or all from the n-th, fail. */
static void is_exact_on_threads(void **state) {
  (void)state;
  enum { N = 4 };
  for (int for_ever = 0; for_ever < 2; for_ever++) {
    td_fault f = {0};
    hammer h[N];
    pthread_t threads[N];
    int refused = 0;
    td_fault_arm(&f, 5000, for_ever);
    for (int i = 0; i < N; i++) {
      h[i] = (hammer){&f, 0};
      pthread_create(&threads[i], NULL, call_often, &h[i]);
    }
    for (int i = 0; i < N; i++) {
      pthread_join(threads[i], NULL);
      refused += h[i].refused;
    }
    assert_int_equal(td_fault_calls(&f), 40000);
    assert_int_equal(refused, for_ever ? 40000 - 4999 : 1);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fails_the_nth),
      cmocka_unit_test(disarms),
      cmocka_unit_test(is_exact_on_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
