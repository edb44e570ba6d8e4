/* probe.c - tests of engine/remote/probe.c and measure.c: ways between
 * processes, measured.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "pair.h"

#include <string.h>

static const int64_t long_time = INT64_C(60000000000);

static uint64_t reach(cluster *c, int i) {
  td_remote_known k;
  td_attach_options o = {.to.control = c->worker[i].address,
                         .timeout = long_time};
  OK(td_remote_reach(c->remote, &o, &k));
  assert_string_equal(k.task, c->worker[i].place);
  assert_true(k.same_ops && k.same_host && k.devices == 1);
  uint64_t incarnation = k.incarnation;
  td_remote_known_deinit(&k);
  return incarnation;
}

static void test_each_way(void **state) {
  cluster c = {0};
  (void)state;
  cluster_init(&c, 2);
  uint64_t who[] = {0, reach(&c, 0), reach(&c, 1)};
  for (int i = 0; i < 9; i++) {
    td_remote_measured m;
    td_measure_options o = {.from = who[i / 3],
                            .to = who[i % 3],
                            .rounds = 8,
                            .bytes = 3 << 20,
                            .timeout = long_time};
    if (i / 3 == i % 3) continue;
    OK(td_remote_measure(c.remote, &o, &m));
    assert_true(m.least > 0 && m.least <= m.median);
    assert_true(m.bytes == 3 << 20 && m.took > 0);
    assert_true(llabs(m.clock) <= m.least); /* one clock */
  }
  cluster_deinit(&c);
}

static void test_bounds(void **state) {
  cluster c = {0};
  td_remote_measured m;
  (void)state;
  cluster_init(&c, 2);
  uint64_t one = reach(&c, 0), two = reach(&c, 1);
  td_measure_options o = {
      .from = one, .to = two, .bytes = UINT64_MAX, .timeout = long_time};
  OK(td_remote_measure(c.remote, &o, &m));
  assert_true(m.bytes == 64 << 20);
  o.bytes = 0;
  o.rounds = UINT32_MAX;
  OK(td_remote_measure(c.remote, &o, &m));
  assert_true(m.bytes == 0 && m.median > 0);
  o.to = 4711;
  FAILS(td_remote_measure(c.remote, &o, &m), TD_UNAVAILABLE, "not there");
  int now = 1;
  o.to = two;
  o.interrupt = &now;
  FAILS(td_remote_measure(c.remote, &o, &m), TD_CANCELLED, "interrupted");
  cluster_deinit(&c);
}

/* Who is gone is not waited for, whoever measures. */
static void test_one_that_ends(void **state) {
  cluster c = {0};
  td_remote_measured m;
  (void)state;
  cluster_init(&c, 2);
  uint64_t one = reach(&c, 0), two = reach(&c, 1);
  td_measure_options o = {
      .from = one, .to = two, .rounds = 1, .timeout = long_time};
  OK(td_remote_measure(c.remote, &o, &m));
  worker_stop(&c.worker[1]);
  td_status *s = td_remote_measure(c.remote, &o, &m);
  assert_int_equal(td_status_code(s), TD_UNAVAILABLE);
  td_status_release(s);
  o.from = 0;
  s = td_remote_measure(c.remote, &o, &m);
  assert_int_equal(td_status_code(s), TD_UNAVAILABLE);
  td_status_release(s);
  cluster_deinit(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_way),
                                     cmocka_unit_test(test_bounds),
                                     cmocka_unit_test(test_one_that_ends)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
