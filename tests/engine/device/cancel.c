/* cancel.c - cancelling: the first cause, hooks, races with their removal.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <pthread.h>
#include <sched.h>

#include "engine/base/mem.h"
#include "engine/device/cancel.h"

static td_cancel *fresh(void) {
  td_cancel *c = NULL;
  assert_null(td_cancel_new(&c));
  return c;
}

static void fire(td_cancel *c, td_code code, bool derived) {
  td_status *s = td_error(code, "cause");
  td_cancel_fire(c, derived ? td_status_derive(s) : s);
}

static td_code cause_of(td_cancel *c) {
  td_status *s = td_cancel_cause(c);
  td_code code = td_status_code(s);
  td_status_release(s);
  return code;
}

/* ---- causes -------------------------------------------------------------- */

static void test_first_cause_stays(void **state) {
  static const struct {
    td_code first, second;
    bool first_derived, second_derived;
    td_code want;
  } rows[] = {
      {TD_ABORTED, TD_INTERNAL, false, false, TD_ABORTED},
      {TD_ABORTED, TD_INTERNAL, true, false, TD_INTERNAL},
      {TD_ABORTED, TD_INTERNAL, false, true, TD_ABORTED},
      {TD_ABORTED, TD_INTERNAL, true, true, TD_ABORTED},
  };
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_cancel *c = fresh();
    const int *flag = td_cancel_flag(c);
    assert_false(td_cancelled(flag));
    assert_int_equal(cause_of(c), TD_OK);
    fire(c, rows[i].first, rows[i].first_derived);
    assert_true(td_cancelled(flag));
    fire(c, rows[i].second, rows[i].second_derived);
    assert_int_equal(cause_of(c), rows[i].want);
    td_cancel_release(c);
  }
}

static void test_without_a_cause(void **state) {
  td_cancel *c = fresh();
  (void)state;
  td_cancel_fire(c, NULL);
  assert_int_equal(cause_of(c), TD_CANCELLED);
  td_cancel_release(c);
}

/* ---- hooks --------------------------------------------------------------- */

typedef struct counter {
  td_cancel_hook hook;
  td_cancel *cancel;
  int fired;
} counter;

static void count(void *arg) {
  ((counter *)arg)->fired++;
}

/* A hook may take itself out: it is the one that runs. */
static void count_and_remove(void *arg) {
  counter *n = arg;
  n->fired++;
  td_cancel_remove(n->cancel, &n->hook);
}

static void test_hooks(void **state) {
  td_cancel *c = fresh();
  counter n[4] = {{.fired = 0}};
  (void)state;
  for (int i = 0; i < 4; i++) {
    n[i].cancel = c;
    n[i].hook.fire = i == 2 ? count_and_remove : count;
    n[i].hook.arg = &n[i];
  }
  for (int i = 0; i < 3; i++) assert_true(td_cancel_add(c, &n[i].hook));
  td_cancel_remove(c, &n[1].hook);
  td_cancel_remove(c, &n[1].hook); /* twice is once */
  fire(c, TD_ABORTED, false);
  fire(c, TD_ABORTED, false);
  assert_false(td_cancel_add(c, &n[3].hook));
  td_cancel_remove(c, &n[3].hook);
  assert_int_equal(n[0].fired, 1);
  assert_int_equal(n[1].fired, 0);
  assert_int_equal(n[2].fired, 1);
  assert_int_equal(n[3].fired, 0);
  td_cancel_release(c);
}

static void release_it(void *arg) {
  td_cancel_release(arg);
}

/* A hook may let go of the last reference. */
static void test_hook_ends_the_cancel(void **state) {
  td_cancel *c = fresh();
  td_cancel_hook h = {.fire = release_it, .arg = c};
  (void)state;
  assert_true(td_cancel_add(c, &h));
  fire(c, TD_ABORTED, false);
}

/* ---- races --------------------------------------------------------------- */

enum { THREADS = 2, ROUNDS = 200 };

typedef struct race {
  td_cancel *cancel;
  int32_t ready; /* atomic */
} race;

static void set_plain(void *arg) {
  *(int *)arg = 1;
}

/* Adds and removes; after a removal its plain int is its own again. */
static void *add_and_remove(void *arg) {
  race *r = arg;
  int fired = 0;
  __atomic_fetch_add(&r->ready, 1, __ATOMIC_ACQ_REL);
  for (;;) {
    td_cancel_hook h = {.fire = set_plain, .arg = &fired};
    bool added = td_cancel_add(r->cancel, &h);
    td_cancel_remove(r->cancel, &h);
    if (!added) break;
    fired = 0;
  }
  return NULL;
}

static void test_removal_waits_for_the_hook(void **state) {
  (void)state;
  for (int round = 0; round < ROUNDS; round++) {
    race r = {.cancel = fresh()};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
      assert_int_equal(pthread_create(&threads[i], NULL, add_and_remove, &r),
                       0);
    while (__atomic_load_n(&r.ready, __ATOMIC_ACQUIRE) < THREADS) sched_yield();
    fire(r.cancel, TD_ABORTED, false);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    td_cancel_release(r.cancel);
  }
}

/* ---- memory -------------------------------------------------------------- */

static void test_without_memory(void **state) {
  td_cancel *c = NULL;
  (void)state;
  td_mem_fail(1, false);
  assert_ptr_equal(td_cancel_new(&c), td_oom());
  td_mem_fail(0, false);
  c = fresh();
  td_mem_fail(1, true);
  td_cancel_fire(c, NULL); /* needs none */
  td_mem_fail(0, false);
  assert_int_equal(cause_of(c), TD_RESOURCE_EXHAUSTED);
  td_cancel_release(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_first_cause_stays),
      cmocka_unit_test(test_without_a_cause),
      cmocka_unit_test(test_hooks),
      cmocka_unit_test(test_hook_ends_the_cancel),
      cmocka_unit_test(test_removal_waits_for_the_hook),
      cmocka_unit_test(test_without_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
