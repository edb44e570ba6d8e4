/* clock.c - tests of engine/base/clock.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"

static const int64_t ms = 1000000;

static int64_t fake; /* atomic */
static int64_t fake_now(void) {
  return __atomic_load_n(&fake, __ATOMIC_ACQUIRE);
}
static void set_fake(int64_t ns) {
  __atomic_store_n(&fake, ns, __ATOMIC_RELEASE);
}

static void count(void *arg) {
  __atomic_fetch_add((int *)arg, 1, __ATOMIC_ACQ_REL);
}

static int get(const int *n) {
  return __atomic_load_n(n, __ATOMIC_ACQUIRE);
}

static void wait_for(const int *n, int want) {
  for (int i = 0; get(n) < want; i++) {
    if (i > 20000) fail_msg("%d of %d callbacks after 20 s", get(n), want);
    usleep(1000);
  }
}

static void time_goes_on(void **state) {
  (void)state;
  int64_t a = td_clock_now();
  usleep(1000);
  assert_true(td_clock_now() - a >= ms);
  int64_t wall = td_clock_wall_us(), now = (int64_t)time(NULL);
  assert_in_range(wall / 1000000, now - 2, now + 2);
}

static void the_source_can_be_replaced(void **state) {
  (void)state;
  set_fake(77);
  td_clock_set(fake_now);
  assert_int_equal(td_clock_now(), 77);
  td_clock_set(NULL);
  assert_true(td_clock_now() != 77);
}

static void fires_once_and_not_early(void **state) {
  (void)state;
  int n = 0;
  int64_t at = td_clock_now() + 5 * ms;
  uint64_t id = td_timer_start(at, count, &n);
  assert_true(id > 0);
  wait_for(&n, 1);
  assert_true(td_clock_now() >= at);
  usleep(5000);
  assert_int_equal(get(&n), 1);
  td_timer_cancel(id); /* too late: nothing happens */
  td_timer_cancel(0);
  td_timer_cancel(12345678);
}

static void a_cancelled_one_never_fires(void **state) {
  (void)state;
  int cancelled = 0, n = 0;
  uint64_t a = td_timer_start(td_clock_now() + 20 * ms, count, &cancelled);
  uint64_t b = td_timer_start(INT64_MAX, count, &cancelled);
  td_timer_cancel(a);
  td_timer_cancel(b);
  td_timer_start(td_clock_now() + 30 * ms, count, &n);
  wait_for(&n, 1);
  assert_int_equal(get(&cancelled), 0);
}

/* The id of a timer that is gone does not hit the one in its place. */
static void ids_are_not_reused(void **state) {
  (void)state;
  int old = 0, n = 0;
  for (int i = 0; i < 10; i++) {
    uint64_t a = td_timer_start(INT64_MAX, count, &old);
    td_timer_cancel(a);
    uint64_t b = td_timer_start(td_clock_now() + ms, count, &n);
    assert_true(a != b);
    td_timer_cancel(a);
    wait_for(&n, i + 1);
  }
  assert_int_equal(get(&old), 0);
}

typedef struct order {
  int *next;
  int seen;
} order;

static void note(void *arg) {
  order *o = arg;
  o->seen = get(o->next);
  count(o->next);
}

/* By time, then by age, whatever the order of starting and cancelling. */
static void fires_in_order(void **state) {
  (void)state;
  enum { N = 200 };
  order o[N];
  uint64_t id[N];
  int next = 0, soon = 0, later = 0;
  set_fake(0);
  td_clock_set(fake_now);
  for (int i = 0; i < N; i++) {
    o[i] = (order){&next, -1};
    id[i] = td_timer_start(1 + i * 37 % 50, note, &o[i]);
  }
  for (int i = 0; i < N; i++) {
    if (i % 3 == 0)
      td_timer_cancel(id[i]);
    else
      *(i * 37 % 50 < 25 ? &soon : &later) += 1;
  }
  set_fake(25);
  wait_for(&next, soon);
  usleep(5000);
  assert_int_equal(get(&next), soon);
  set_fake(50);
  wait_for(&next, soon + later);
  for (int i = 0; i < N; i++) {
    assert_true((o[i].seen == -1) == (i % 3 == 0));
    for (int k = 0; k < i; k++) {
      if (o[i].seen < 0 || o[k].seen < 0) continue;
      int ti = i * 37 % 50, tk = k * 37 % 50;
      assert_true(tk <= ti ? o[k].seen < o[i].seen : o[i].seen < o[k].seen);
    }
  }
  td_clock_set(NULL);
}

typedef struct slow {
  int begun, ended; /* atomic */
} slow;

static void take_long(void *arg) {
  slow *s = arg;
  count(&s->begun);
  usleep(30000);
  count(&s->ended);
}

static void cancel_waits_for_the_callback(void **state) {
  (void)state;
  slow *s = calloc(1, sizeof *s);
  uint64_t id = td_timer_start(td_clock_now(), take_long, s);
  wait_for(&s->begun, 1);
  td_timer_cancel(id);
  assert_int_equal(get(&s->ended), 1);
  free(s);
}

static void restart(void *arg) {
  int *left = arg;
  if (__atomic_sub_fetch(left, 1, __ATOMIC_ACQ_REL) > 0)
    td_timer_start(td_clock_now(), restart, left);
}

static void a_callback_may_start_timers(void **state) {
  (void)state;
  int left = 100;
  td_timer_start(td_clock_now(), restart, &left);
  for (int i = 0; get(&left) > 0 && i < 20000; i++) usleep(1000);
  assert_int_equal(get(&left), 0);
}

/* Starts and cancels; what a timer points to is freed right after cancel. The
 * number of timers that were refused or fired more than once. */
static void *start_and_cancel(void *arg) {
  (void)arg;
  intptr_t bad = 0;
  for (int i = 0; i < 3000; i++) {
    int *n = calloc(1, sizeof *n);
    uint64_t id = td_timer_start(td_clock_now() + i % 3 * 20000, count, n);
    if (i % 5 == 0) sched_yield();
    td_timer_cancel(id);
    bad += id == 0 || get(n) > 1;
    free(n);
  }
  return (void *)bad;
}

static void threads_start_and_cancel(void **state) {
  (void)state;
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    assert_int_equal(
        pthread_create(&threads[i], NULL, start_and_cancel, NULL), 0);
  for (int i = 0; i < 4; i++) {
    void *bad;
    assert_int_equal(pthread_join(threads[i], &bad), 0);
    assert_null(bad);
  }
}

static void without_memory(void **state) {
  (void)state;
  enum { MANY = 1000 };
  static uint64_t id[MANY];
  int refused = 0, n = 0;
  td_mem_fail(1, true);
  for (int i = 0; i < MANY; i++) {
    id[i] = td_timer_start(INT64_MAX, count, &n);
    refused += id[i] == 0;
  }
  td_mem_fail(0, false);
  assert_true(refused > 0);
  for (int i = 0; i < MANY; i++) td_timer_cancel(id[i]);
  assert_int_equal(get(&n), 0);
}

#ifndef __SANITIZE_THREAD__ /* its runtime lets no child start threads */
/* A child has no timers of its parent, and can start its own. */
static void survives_fork(void **state) {
  (void)state;
  int n = 0;
  uint64_t id = td_timer_start(td_clock_now() + 20 * ms, count, &n);
  pid_t child = fork();
  if (child == 0) {
    int mine = 0;
    td_timer_cancel(id);
    td_timer_start(td_clock_now() + 40 * ms, count, &mine);
    for (int i = 0; get(&mine) == 0 && i < 20000; i++) usleep(1000);
    _exit(get(&mine) == 1 && get(&n) == 0 ? 0 : 1);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  wait_for(&n, 1);
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(time_goes_on),
      cmocka_unit_test(the_source_can_be_replaced),
      cmocka_unit_test(fires_once_and_not_early),
      cmocka_unit_test(a_cancelled_one_never_fires),
      cmocka_unit_test(ids_are_not_reused),
      cmocka_unit_test(fires_in_order),
      cmocka_unit_test(cancel_waits_for_the_callback),
      cmocka_unit_test(a_callback_may_start_timers),
      cmocka_unit_test(threads_start_and_cancel),
      cmocka_unit_test(without_memory),
#ifndef __SANITIZE_THREAD__
      cmocka_unit_test(survives_fork),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
