/* lock.c - the parking lock: order, hand-over, forgetting, no lost update.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "engine/device/lock.h"

/* ---- one thread ---------------------------------------------------------- */

static void test_try(void **state) {
  td_lock l = {0};
  (void)state;
  assert_true(td_lock_try(&l, false));
  assert_true(td_lock_try(&l, false));
  assert_false(td_lock_try(&l, true));
  td_lock_release(&l, false);
  assert_false(td_lock_try(&l, true));
  td_lock_release(&l, false);
  assert_true(td_lock_try(&l, true));
  assert_false(td_lock_try(&l, true));
  assert_false(td_lock_try(&l, false));
  td_lock_release(&l, true);
  assert_int_equal(l.state, 0);
}

typedef struct sleeper {
  td_lock_waiter waiter; /* first */
  pthread_mutex_t mutex;
  pthread_cond_t cond;
  bool held; /* under the mutex */
} sleeper;

static void wake_sleeper(td_task *task) {
  sleeper *s = (sleeper *)task;
  pthread_mutex_lock(&s->mutex);
  s->held = true;
  pthread_cond_signal(&s->cond);
  pthread_mutex_unlock(&s->mutex);
}

/* Parks the calling thread until it holds the lock. */
static void wait_for(td_lock *l, bool exclusive) {
  if (td_lock_try(l, exclusive)) return;
  sleeper s = {.waiter.task.run = wake_sleeper,
               .mutex = PTHREAD_MUTEX_INITIALIZER,
               .cond = PTHREAD_COND_INITIALIZER};
  if (!td_lock_acquire(l, exclusive, &s.waiter)) {
    pthread_mutex_lock(&s.mutex);
    while (!s.held) pthread_cond_wait(&s.cond, &s.mutex);
    pthread_mutex_unlock(&s.mutex);
  }
  pthread_mutex_destroy(&s.mutex);
  pthread_cond_destroy(&s.cond);
}

/* A waiter that says when it got the lock. */
typedef struct waiter {
  td_lock_waiter base; /* first */
  int32_t got;         /* atomic */
} waiter;

static void note_got(td_task *task) {
  __atomic_store_n(&((waiter *)task)->got, 1, __ATOMIC_RELEASE);
}

static void nap(void) {
  nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

static bool has(waiter *w) {
  return __atomic_load_n(&w->got, __ATOMIC_ACQUIRE);
}

static void await(waiter *w) {
  while (!has(w)) nap();
}

static bool acquire(td_lock *l, bool exclusive, waiter *w) {
  *w = (waiter){.base.task.run = note_got};
  return td_lock_acquire(l, exclusive, &w->base);
}

/* Queued: writer, two readers, writer. Each gets its turn, the readers one. */
static void test_order(void **state) {
  td_lock l = {0};
  waiter w[4];
  (void)state;
  assert_true(td_lock_try(&l, false));
  assert_false(acquire(&l, true, &w[0]));
  assert_false(acquire(&l, false, &w[1]));
  assert_false(acquire(&l, false, &w[2]));
  assert_false(acquire(&l, true, &w[3]));
  assert_false(td_lock_try(&l, false)); /* not past a waiting writer */
  td_lock_release(&l, false);
  await(&w[0]);
  assert_false(has(&w[1]) || has(&w[2]) || has(&w[3]));
  td_lock_release(&l, true);
  await(&w[1]);
  await(&w[2]);
  assert_false(has(&w[3]));
  td_lock_release(&l, false);
  assert_false(has(&w[3]));
  td_lock_release(&l, false);
  await(&w[3]);
  td_lock_release(&l, true);
  assert_int_equal(l.state, 0);
  assert_null(l.first);
}

static void test_forget(void **state) {
  td_lock l = {0};
  waiter w[3];
  (void)state;
  assert_true(td_lock_try(&l, true));
  for (int i = 0; i < 3; i++) assert_false(acquire(&l, true, &w[i]));
  assert_true(td_lock_forget(&l, &w[1].base)); /* in the middle */
  assert_false(td_lock_forget(&l, &w[1].base));
  assert_true(td_lock_forget(&l, &w[2].base)); /* the last */
  td_lock_release(&l, true);
  await(&w[0]);
  assert_false(td_lock_forget(&l, &w[0].base)); /* it has the lock */
  td_lock_release(&l, true);
  assert_int_equal(l.state, 0);
  nap();
  assert_false(has(&w[1]) || has(&w[2]));
}

/* Readers that waited behind a writer need not once it has gone. */
static void test_forget_lets_readers_in(void **state) {
  td_lock l = {0};
  waiter w[3];
  (void)state;
  assert_true(td_lock_try(&l, false));
  assert_false(acquire(&l, true, &w[0]));
  assert_false(acquire(&l, false, &w[1]));
  assert_false(acquire(&l, false, &w[2]));
  assert_true(td_lock_forget(&l, &w[0].base));
  await(&w[1]);
  await(&w[2]);
  for (int i = 0; i < 3; i++) td_lock_release(&l, false);
  assert_int_equal(l.state, 0);
}

/* ---- many threads -------------------------------------------------------- */

enum { CHAINS = 4, UPDATES = 100000 };

/* What the lock protects: a writer changes both, a reader must find them
 * equal. Plain on purpose. */
static struct shared {
  td_lock lock;
  int64_t a, b;
  int32_t torn; /* atomic */
} shared;

/* A row of updates that goes on wherever it is resumed. */
typedef struct chain {
  td_lock_waiter waiter; /* first */
  int left;
  int readers; /* every so many-th access only reads, 0: none */
  int parked;
  int32_t over; /* atomic */
} chain;

static bool reads(const chain *c) {
  return c->readers && c->left % c->readers == 0;
}

static void access_once(chain *c) {
  bool read = reads(c);
  if (read) {
    if (shared.a != shared.b)
      __atomic_store_n(&shared.torn, 1, __ATOMIC_RELAXED);
  } else {
    shared.a++;
    if (c->left % 101 == 0) sched_yield(); /* let others run into it */
    shared.b++;
  }
  td_lock_release(&shared.lock, !read);
  c->left--;
}

static void go_on(chain *c) {
  while (c->left > 0) {
    if (!td_lock_acquire(&shared.lock, !reads(c), &c->waiter)) return;
    access_once(c);
  }
  __atomic_store_n(&c->over, 1, __ATOMIC_RELEASE);
}

static void resumed(td_task *task) {
  chain *c = (chain *)task;
  c->parked++;
  access_once(c);
  go_on(c);
}

static void *chain_thread(void *arg) {
  go_on(arg);
  return NULL;
}

static int64_t written_by(const chain *c) {
  return c->readers ? UPDATES - UPDATES / c->readers : UPDATES;
}

/* Half of the chains meet a held lock, park and end their threads; the others
 * run into those. */
static void run_chains(int readers) {
  static chain chains[CHAINS];
  pthread_t threads[CHAINS];
  int64_t writes = 0, parked = 0;
  shared = (struct shared){0};
  assert_true(td_lock_try(&shared.lock, true));
  for (int i = 0; i < CHAINS; i++) {
    chains[i] = (chain){
        .waiter.task.run = resumed, .left = UPDATES, .readers = readers};
    assert_int_equal(
        pthread_create(&threads[i], NULL, chain_thread, &chains[i]), 0);
    if (i < CHAINS / 2) pthread_join(threads[i], NULL);
    if (i == CHAINS / 2) td_lock_release(&shared.lock, true);
  }
  for (int i = 0; i < CHAINS; i++) {
    if (i >= CHAINS / 2) pthread_join(threads[i], NULL);
    while (!__atomic_load_n(&chains[i].over, __ATOMIC_ACQUIRE)) nap();
    writes += written_by(&chains[i]);
    parked += chains[i].parked;
  }
  print_message("parked %lld of %d\n", (long long)parked, CHAINS * UPDATES);
  assert_true(parked >= CHAINS / 2);
  wait_for(&shared.lock, false);
  assert_int_equal(shared.a, writes);
  assert_int_equal(shared.b, writes);
  assert_int_equal(shared.torn, 0);
  td_lock_release(&shared.lock, false);
  assert_int_equal(shared.lock.state, 0);
}

static void test_no_update_is_lost(void **state) {
  (void)state;
  run_chains(0);
}

static void test_no_read_is_torn(void **state) {
  (void)state;
  run_chains(2);
}

/* Readers that never all let go: a writer still gets in. */
typedef struct crowd {
  td_lock lock;
  int32_t stop; /* atomic */
} crowd;

static void *crowd_thread(void *arg) {
  crowd *c = arg;
  while (!__atomic_load_n(&c->stop, __ATOMIC_ACQUIRE)) {
    wait_for(&c->lock, false);
    nap();
    td_lock_release(&c->lock, false);
  }
  return NULL;
}

static void test_writers_do_not_starve(void **state) {
  crowd c = {0};
  pthread_t threads[CHAINS];
  (void)state;
  for (int i = 0; i < CHAINS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, crowd_thread, &c), 0);
  for (int i = 0; i < 100; i++) {
    wait_for(&c.lock, true);
    td_lock_release(&c.lock, true);
  }
  __atomic_store_n(&c.stop, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < CHAINS; i++) pthread_join(threads[i], NULL);
  assert_int_equal(c.lock.state, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_try),
      cmocka_unit_test(test_order),
      cmocka_unit_test(test_forget),
      cmocka_unit_test(test_forget_lets_readers_in),
      cmocka_unit_test(test_no_update_is_lost),
      cmocka_unit_test(test_no_read_is_torn),
      cmocka_unit_test(test_writers_do_not_starve),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
