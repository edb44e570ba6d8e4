/* mutex.c - locks: one at a time, in the order they were asked for, and none
 * that stays behind.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include "tests/kernels/waiting.h"

typedef struct bench {
  net w;
  td_edge mutex, lock;
} bench;

static void bench_init(bench *b) {
  net_init(&b->w, 1);
  b->mutex = net_node(&b->w, "MutexV2", NULL, 0, NULL, 0);
  b->lock = net_node(&b->w, "MutexLock", &b->mutex, 1, NULL, 0);
}

/* ConsumeMutexLock of a lock, which it takes. */
static td_status *consume(bench *b, td_tensor lock) {
  td_edge fed = net_feed(&b->w, lock);
  return net_do(&b->w, net_node(&b->w, "ConsumeMutexLock", &fed, 1, NULL, 0));
}

static void test_one_at_a_time(void **state) {
  (void)state;
  bench b;
  waiting x, y;
  td_tensor lock, copy;
  bench_init(&b);
  OK(net_run(&b.w, b.lock, &lock));
  waiting_start(&x, &b.w, b.lock);
  waiting_start(&y, &b.w, b.lock);
  assert_false(waiting_over(&x));
  waiting_why(&x, "mutex MutexV2: MutexLock holds it, 2 wait");
  td_tensor_retain(&lock, &copy);
  OK(consume(&b, lock)); /* ended, though somebody has it still */
  OK(waiting_end(&x));
  assert_false(waiting_over(&y));
  FAILS(consume(&b, copy), TD_FAILED_PRECONDITION, "was consumed before");
  assert_false(waiting_over(&y));
  waiting_drop(&x); /* the last reference */
  OK(waiting_end(&y));
  waiting_drop(&y);
  OK(net_do(&b.w, b.lock));
  net_deinit(&b.w);
}

static void test_cancel_and_reset(void **state) {
  (void)state;
  bench b;
  waiting x, y;
  td_tensor lock;
  bench_init(&b);
  OK(net_run(&b.w, b.lock, &lock));
  waiting_start(&x, &b.w, b.lock);
  waiting_start(&y, &b.w, b.lock);
  waiting_cancel(&x);
  FAILS(waiting_end(&x), TD_CANCELLED, "cancelled");
  td_resources_reset(b.w.own, NULL);
  FAILS(waiting_end(&y), TD_CANCELLED, "container of mutex MutexV2");
  OK(net_do(&b.w, b.lock)); /* a new mutex */
  td_tensor_release(&lock);
  net_deinit(&b.w);
}

static void test_refused(void **state) {
  (void)state;
  bench b;
  td_tensor t;
  bench_init(&b);
  OK(net_run(&b.w, net_node(&b.w, "OptionalNone", NULL, 0, NULL, 0), &t));
  FAILS(consume(&b, t), TD_INVALID_ARGUMENT, "what MutexLock gives, not a");
  net_deinit(&b.w);
}

/* ---- threads ------------------------------------------------------------- */

enum { THREADS = 8, TURNS = 200 };

typedef struct turns {
  bench *b;
  int *inside, *count; /* touched by who has the lock */
} turns;

static void *take_turns(void *arg) {
  turns *t = arg;
  for (int i = 0; i < TURNS; i++) {
    td_tensor lock;
    OK(net_run(&t->b->w, t->b->lock, &lock));
    assert_int_equal((*t->inside)++, 0);
    ++*t->count;
    --*t->inside;
    td_tensor_release(&lock);
  }
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  bench b;
  int inside = 0, count = 0;
  turns t = {&b, &inside, &count};
  pthread_t id[THREADS];
  bench_init(&b);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&id[i], NULL, take_turns, &t), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(id[i], NULL);
  assert_int_equal(count, THREADS * TURNS);
  net_deinit(&b.w);
}

static void test_scarce_memory(void **state) {
  (void)state;
  bench b;
  bench_init(&b);
  net_starve(&b.w, b.lock);
  OK(net_do(&b.w, b.lock)); /* nobody has kept it */
  net_deinit(&b.w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_one_at_a_time),
      cmocka_unit_test(test_cancel_and_reset),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_threads),
      cmocka_unit_test(test_scarce_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
