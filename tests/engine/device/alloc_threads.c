/* alloc_threads.c - the caching allocator used by many threads at once.
 *
 * Blocks wander: each thread puts what it allocates into shared places and
 * frees what it finds there. Sum of counters, contents and the end of threads
 * are checked; under ThreadSanitizer so is the order of all accesses.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/device/alloc.h"

enum { THREADS = 6, ROUNDS = 30000, PLACES = 256 };

typedef struct parcel {
  size_t size;
  uint64_t mark; /* equal to the last bytes */
} parcel;

typedef struct exchange {
  td_allocator *a;
  parcel *places[PLACES]; /* atomic */
  int next;               /* atomic: numbers the threads */
  int64_t made;           /* atomic: blocks allocated */
  int broken;             /* atomic: parcels that were not as sent */
} exchange;

static size_t any_size(uint64_t *seed) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  unsigned bits = (unsigned)(*seed >> 33) % 20;
  return 2 * sizeof(parcel) + ((*seed >> 40) & (((size_t)1 << bits) - 1));
}

static void open_parcel(exchange *x, parcel *p) {
  uint64_t end;
  if (!p) return;
  memcpy(&end, (char *)p + p->size - sizeof end, sizeof end);
  if (end != p->mark) __atomic_fetch_add(&x->broken, 1, __ATOMIC_RELAXED);
  x->a->free(x->a, p, p->size);
}

static void *trade(void *arg) {
  exchange *x = arg;
  uint64_t seed = (uint64_t)__atomic_add_fetch(&x->next, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < ROUNDS; i++) {
    size_t size = any_size(&seed);
    parcel *p = x->a->alloc(x->a, size);
    if (!p) continue;
    __atomic_fetch_add(&x->made, 1, __ATOMIC_RELAXED);
    *p = (parcel){size, seed};
    memcpy((char *)p + size - sizeof seed, &seed, sizeof seed);
    if (size > 64 << 10) td_allocator_tag(x->a, p, size, "parcel");
    parcel **place = &x->places[seed >> 20 & (PLACES - 1)];
    open_parcel(x, __atomic_exchange_n(place, p, __ATOMIC_ACQ_REL));
  }
  return NULL;
}

static void start_all(exchange *x, pthread_t *threads, void *(*run)(void *)) {
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, run, x), 0);
}

static void join_all(pthread_t *threads) {
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

static exchange make(int caching, size_t limit) {
  td_alloc_options o = {.name = "shared", .limit = limit, .caching = caching};
  exchange x = {0};
  assert_null(td_alloc_new(&o, &x.a));
  return x;
}

static void open_all(exchange *x) {
  for (int i = 0; i < PLACES; i++) open_parcel(x, x->places[i]);
}

static void test_trade(void **state) {
  (void)state;
  for (int caching = -1; caching <= 1; caching += 2) {
    exchange x = make(caching, 0);
    pthread_t threads[THREADS];
    start_all(&x, threads, trade);
    for (int i = 0; i < 50; i++) {
      td_allocator_block largest[4];
      td_allocator_largest(x.a, largest, 4);
      td_allocator_trim(x.a, (size_t)(i % 3) << 20);
      td_allocator_stats now = td_allocator_read_stats(x.a);
      assert_true(now.peak >= now.in_use);
    }
    join_all(threads);
    open_all(&x);
    td_allocator_stats s = td_allocator_read_stats(x.a);
    assert_int_equal(x.broken, 0);
    assert_int_equal(x.made, THREADS * ROUNDS);
    assert_int_equal(s.in_use, 0);
    assert_int_equal(s.allocs, x.made);
    assert_int_equal(s.frees, x.made);
    td_allocator_trim(x.a, 0); /* ended threads left nothing in their lists */
    assert_int_equal(td_allocator_read_stats(x.a).held, 0);
    td_alloc_release(x.a);
  }
}

/* Near the limit some are refused; counts stay whole. */
static void test_trade_limited(void **state) {
  exchange x = make(1, 4 << 20);
  pthread_t threads[THREADS];
  (void)state;
  start_all(&x, threads, trade);
  join_all(threads);
  open_all(&x);
  td_allocator_stats s = td_allocator_read_stats(x.a);
  assert_int_equal(x.broken, 0);
  assert_true(x.made < THREADS * ROUNDS);
  assert_int_equal(s.in_use, 0);
  assert_int_equal(s.allocs, x.made);
  assert_true(s.peak <= (4 << 20) + THREADS * (64 << 10));
  td_alloc_release(x.a);
}

/* One thread allocates, another frees: nothing piles up. */
typedef struct belt {
  td_allocator *a;
  void *block[64]; /* atomic; NULL: taken */
} belt;

enum { BELT_ROUNDS = 200000 };

static void *take_from_belt(void *arg) {
  belt *b = arg;
  for (int i = 0; i < BELT_ROUNDS; i++) {
    void *p;
    while (
        !(p = __atomic_exchange_n(&b->block[i % 64], NULL, __ATOMIC_ACQ_REL)))
      sched_yield();
    b->a->free(b->a, p, 128);
  }
  return NULL;
}

static void test_one_way(void **state) {
  td_alloc_options o = {.name = "belt", .caching = 1};
  belt b = {0};
  pthread_t taker;
  (void)state;
  assert_null(td_alloc_new(&o, &b.a));
  assert_int_equal(pthread_create(&taker, NULL, take_from_belt, &b), 0);
  for (int i = 0; i < BELT_ROUNDS; i++) {
    while (__atomic_load_n(&b.block[i % 64], __ATOMIC_ACQUIRE)) sched_yield();
    __atomic_store_n(&b.block[i % 64], b.a->alloc(b.a, 128), __ATOMIC_RELEASE);
  }
  pthread_join(taker, NULL);
  td_allocator_stats s = td_allocator_read_stats(b.a);
  assert_int_equal(s.in_use, 0);
  assert_int_equal(s.system_allocs, 1);
  td_alloc_release(b.a);
}

/* The owner lets go while others hold blocks; the last of them ends it. */
static void *open_own(void *arg) {
  exchange *x = arg;
  int n = __atomic_fetch_add(&x->next, 1, __ATOMIC_RELAXED);
  for (int i = n; i < PLACES; i += THREADS) open_parcel(x, x->places[i]);
  return NULL;
}

static void test_outlive(void **state) {
  (void)state;
  for (int turn = 0; turn < 200; turn++) {
    exchange x = make(turn % 2 ? 1 : -1, 0);
    pthread_t threads[THREADS];
    uint64_t seed = (uint64_t)turn;
    for (int i = 0; i < PLACES; i++) {
      size_t size = any_size(&seed);
      parcel *p = x.places[i] = x.a->alloc(x.a, size);
      *p = (parcel){size, 7};
      memcpy((char *)p + size - 8, &(uint64_t){7}, 8);
    }
    start_all(&x, threads, open_own);
    if (turn % 4 < 2) join_all(threads);
    td_alloc_release(x.a); /* in the other turns: while they free */
    if (turn % 4 >= 2) join_all(threads);
    assert_int_equal(x.broken, 0);
  }
}

/* Threads come and go: their memory comes back each time. */
static void test_thread_ends(void **state) {
  exchange x = make(1, 0);
  (void)state;
  size_t held = 0;
  for (int turn = 0; turn < 40; turn++) {
    pthread_t threads[THREADS];
    x.next = 0;
    memset(x.places, 0, sizeof x.places);
    for (int i = 0; i < PLACES; i++) {
      x.places[i] = x.a->alloc(x.a, 1000);
      *x.places[i] = (parcel){1000, 7};
      memcpy((char *)x.places[i] + 992, &(uint64_t){7}, 8);
    }
    start_all(&x, threads, open_own);
    join_all(threads);
    td_allocator_stats s = td_allocator_read_stats(x.a);
    if (turn == 1) held = s.held;
    if (turn > 1) assert_int_equal(s.held, held);
    assert_int_equal(s.in_use, 0);
  }
  td_alloc_release(x.a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_trade),       cmocka_unit_test(test_trade_limited),
      cmocka_unit_test(test_one_way),     cmocka_unit_test(test_outlive),
      cmocka_unit_test(test_thread_ends),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
