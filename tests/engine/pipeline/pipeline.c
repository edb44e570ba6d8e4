/* pipeline.c - pipelines from several threads, closed at any moment, without
 * memory. What the stages give is tested by tests/lua/pipelines.lua.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/run/rig.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/pipeline/pipeline_impl.h"

enum { ROWS = 500, TAKERS = 4 };

static td_pipeline *rows(int n, bool shuffle) {
  td_shape shape = td_shape_vector(n);
  td_tensor t;
  td_pipeline *p = NULL;
  OK(td_tensor_new(NULL, TD_INT64, &shape, &t));
  for (int i = 0; i < n; i++) td_tensor_set_i(&t, i, i);
  td_pipeline_rows o = {
      .columns = &t, .n_columns = 1, .step = 1, .shuffle = shuffle, .seed = 7};
  OK(td_pipeline_from_rows(&o, &p));
  td_tensor_release(&t);
  return p;
}

/* A callable x + 1. */
typedef struct adder {
  rig r;
  td_session *s;
  td_callable *f;
} adder;

static void adder_init(adder *a) {
  td_build b;
  td_node *n;
  td_shape any = td_shape_unknown();
  rig_init(&a->r);
  td_session_options o = {.threads = 2, .cpu_devices = 1};
  OK(td_session_new(a->r.runtime, a->r.graph, &o, &a->s));
  td_build_init(&b, a->r.graph, "Placeholder", "x");
  td_build_attr(&b, "dtype", td_attr_type(TD_INT64));
  td_build_attr(&b, "shape", td_attr_shape(&any));
  OK(td_build_node(&b, &n));
  td_edge x = {n, 0};
  td_edge y =
      NODE(&a->r, "AddV2", "y", x, make_const(&a->r, TD_INT64, 1, NULL));
  td_signature sig = {.feeds = &x, .n_feeds = 1, .fetches = &y, .n_fetches = 1};
  OK(td_callable_new(a->s, &sig, &a->f));
}

static void adder_deinit(adder *a) {
  td_callable_release(a->f);
  td_session_release(a->s);
  rig_deinit(&a->r);
}

static td_status *add_map(td_pipeline *p, adder *a, int parallel) {
  static const int feed[] = {0};
  td_pipeline_call call = {
      .f = a->f, .feed = feed, .n_feeds = 1, .parallel = parallel};
  td_column column = {TD_INT64, td_shape_scalar()};
  return td_pipeline_map(p, &call, &column, 1);
}

/* ---- several takers ------------------------------------------------------ */

typedef struct taker {
  pthread_t thread;
  td_pipeline *p;
  int32_t *seen; /* atomic, by number */
  int64_t taken;
} taker;

static void *take_all(void *arg) {
  taker *t = arg;
  bool end = false;
  while (!end) {
    td_tensor x;
    td_status *s = td_pipeline_take(t->p, NULL, &x, &end);
    if (s) { /* closed */
      assert_int_equal(td_status_code(s), TD_CANCELLED);
      td_status_release(s);
      break;
    }
    if (end) break;
    __atomic_fetch_add(&t->seen[td_tensor_get_i(&x, 0)], 1, __ATOMIC_RELAXED);
    t->taken++;
    td_tensor_release(&x);
  }
  return NULL;
}

static void start_takers(taker *t, td_pipeline *p, int32_t *seen) {
  for (int i = 0; i < TAKERS; i++) {
    t[i] = (taker){.p = p, .seen = seen};
    assert_int_equal(pthread_create(&t[i].thread, NULL, take_all, &t[i]), 0);
  }
}

static int64_t join_takers(taker *t) {
  int64_t taken = 0;
  for (int i = 0; i < TAKERS; i++) {
    pthread_join(t[i].thread, NULL);
    taken += t[i].taken;
  }
  return taken;
}

static void test_nothing_is_lost_or_twice(void **state) {
  (void)state;
  adder a;
  adder_init(&a);
  for (int round = 0; round < 10; round++) {
    int32_t seen[ROWS + 1] = {0};
    taker t[TAKERS];
    td_pipeline *p = rows(ROWS, round % 2);
    OK(add_map(p, &a, 1 + round % 3));
    if (round % 3) OK(td_pipeline_shuffle(p, 20, 3));
    OK(td_pipeline_repeat(p, 3));
    OK(td_pipeline_prefetch(p, 4));
    start_takers(t, p, seen);
    assert_int_equal(join_takers(t), 3 * ROWS);
    for (int i = 1; i <= ROWS; i++) assert_int_equal(seen[i], 3);
    td_pipeline_release(p);
  }
  adder_deinit(&a);
}

/* Closed while others take, and let go of while work is under way. */
static void test_close_at_any_moment(void **state) {
  (void)state;
  adder a;
  adder_init(&a);
  for (int round = 0; round < 40; round++) {
    int32_t seen[ROWS + 1] = {0};
    taker t[TAKERS];
    td_pipeline *p = rows(ROWS, true);
    OK(add_map(p, &a, 2));
    OK(td_pipeline_shuffle(p, 10, 1));
    OK(td_pipeline_repeat(p, -1));
    start_takers(t, p, seen);
    usleep((useconds_t)(round * 50));
    td_pipeline_close(p);
    join_takers(t);
    td_pipeline_release(p);
  }
  adder_deinit(&a);
}

/* How many are ready for who takes, once nothing is under way. */
static size_t ready(td_pipeline *p) {
  size_t n = SIZE_MAX;
  for (;;) {
    td_pipeline_seize(p);
    size_t now = p->last->ready.len - p->last->ready_at;
    td_pipeline_leave(p);
    if (now == n) return n;
    n = now;
    usleep(20000);
  }
}

/* Elements of 800 bytes, and the next epoch behind: three are more than 2,000;
 * one is there however large it is. Nothing is lost. */
static void test_bytes_ahead(void **state) {
  (void)state;
  static const size_t bounds[][2] = {
      {TD_PIPELINE_BYTES, 50}, {2000, 3}, {1, 1}};
  for (int i = 0; i < 3; i++) {
    td_pipeline_batching o = {.n = 100};
    td_pipeline *p = rows(ROWS, false);
    td_tensor t;
    bool end;
    OK(td_pipeline_batch(p, &o));
    OK(td_pipeline_prefetch(p, 50));
    p->bound = bounds[i][0];
    for (int k = 0; k < 5; k++) {
      OK(td_pipeline_take(p, NULL, &t, &end));
      if (k == 0) assert_int_equal(ready(p), bounds[i][1]);
      assert_int_equal(td_tensor_get_i(&t, 0), 100 * k);
      td_tensor_release(&t);
    }
    OK(td_pipeline_take(p, NULL, &t, &end));
    assert_true(end);
    td_pipeline_release(p);
  }
}

/* Batches of 512 KiB are made where those were that nobody holds any more, rows
 * are what they were, and a batch outlives its pipeline. */
static void test_memory_of_batches(void **state) {
  (void)state;
  enum { WIDE = 8192, BATCH = 8, MOST = 4, ROUNDS = 60 };
  td_shape shape = {.rank = 2, .dim = {ROUNDS, WIDE}};
  td_pipeline_batching batch = {.n = BATCH};
  td_pipeline *p = NULL;
  td_tensor t, last = {0};
  void *seen[ROUNDS];
  int n = 0;
  bool end;
  OK(td_tensor_new(NULL, TD_INT64, &shape, &t));
  for (int64_t i = 0; i < ROUNDS * WIDE; i++) td_tensor_set_i(&t, i, i / WIDE);
  td_pipeline_rows o = {.columns = &t, .n_columns = 1, .step = 1};
  OK(td_pipeline_from_rows(&o, &p));
  td_tensor_release(&t);
  OK(td_pipeline_shuffle(p, 20, 5));
  OK(td_pipeline_repeat(p, -1));
  OK(td_pipeline_batch(p, &batch));
  for (int round = 0; round < ROUNDS; round++) {
    int k = 0;
    td_tensor_release(&last);
    OK(td_pipeline_take(p, NULL, &last, &end));
    for (int64_t i = 0; i < BATCH * WIDE; i += WIDE)
      assert_int_equal(td_tensor_get_i(&last, i),
                       td_tensor_get_i(&last, i + WIDE - 1));
    while (k < n && seen[k] != last.data) k++;
    seen[k] = last.data;
    if (k == n) n++;
  }
#ifndef __SANITIZE_ADDRESS__ /* which has each block be another */
  assert_in_range(n, 1, MOST);
#endif
  td_pipeline_release(p);
  assert_in_range(td_tensor_get_i(&last, BATCH * WIDE - 1), 0, ROUNDS - 1);
  td_tensor_release(&last);
}

/* Of what never comes; the pipeline can then be closed. */
static void test_interrupt(void **state) {
  (void)state;
  int interrupt = 1;
  bool end;
  td_tensor x;
  td_pipeline *p = rows(3, false);
  OK(td_pipeline_repeat(p, -1));
  OK(td_pipeline_skip(p, INT64_MAX));
  FAILS(td_pipeline_take(p, &interrupt, &x, &end), TD_CANCELLED, "interrupted");
  td_pipeline_close(p);
  FAILS(td_pipeline_take(p, NULL, &x, &end), TD_CANCELLED, "closed");
  td_pipeline_release(p);
}

static void *take_in_vain(void *arg) {
  td_tensor x;
  bool end;
  FAILS(td_pipeline_take(arg, NULL, &x, &end), TD_CANCELLED, "closed");
  return NULL;
}

/* While somebody waits for what never comes it is worked on without a pause; it
 * can be told all the same where it stands. */
static void test_state_of_one_without_rest(void **state) {
  (void)state;
  pthread_t thread;
  td_pipeline *p = rows(3, false);
  OK(td_pipeline_repeat(p, -1));
  OK(td_pipeline_skip(p, INT64_MAX));
  pthread_create(&thread, NULL, take_in_vain, p);
  for (int i = 0; i < 10; i++) {
    td_str s = {0};
    usleep(2000);
    OK(td_pipeline_save(p, &s));
    assert_true(s.len > 0);
    td_str_deinit(&s);
  }
  td_pipeline_close(p);
  pthread_join(thread, NULL);
  td_pipeline_release(p);
}

/* ---- without memory ------------------------------------------------------ */

static int64_t sum_of(const td_tensor *t) {
  int64_t sum = 0;
  for (int64_t i = 0; i < td_tensor_count(t); i++) sum += td_tensor_get_i(t, i);
  return sum;
}

static td_status *run_all(adder *a, int64_t *sum) {
  td_pipeline *p = rows(30, true);
  td_pipeline_batching batch = {.n = 4};
  td_str saved;
  td_str_init(&saved);
  bool end = false;
  *sum = 0;
  td_status *s = add_map(p, a, 2);
  if (td_ok(s)) s = td_pipeline_shuffle(p, 5, 1);
  if (td_ok(s)) s = td_pipeline_batch(p, &batch);
  while (td_ok(s) && !end) {
    td_tensor x = {0};
    s = td_pipeline_take(p, NULL, &x, &end);
    if (td_ok(s) && !end) *sum += sum_of(&x);
    td_tensor_release(&x);
    if (td_ok(s) && saved.len == 0) s = td_pipeline_save(p, &saved);
  }
  td_str_deinit(&saved);
  td_pipeline_close(p);
  td_pipeline_release(p);
  return s;
}

static void test_allocations_fail(void **state) {
  (void)state;
  adder a;
  int64_t sum;
  adder_init(&a);
  OK(run_all(&a, &sum));
  assert_int_equal(sum, 30 * 31 / 2);
  for (int64_t n = 1; n < 400; n++) {
    td_pipeline *p = rows(30, true);
    td_pipeline_batching batch = {.n = 4};
    bool end = false;
    td_status *s = NULL;
    int64_t got = 0;
    td_mem_fail(n, false);
    s = add_map(p, &a, 2);
    if (td_ok(s)) s = td_pipeline_shuffle(p, 5, 1);
    if (td_ok(s) && n % 2) s = td_pipeline_batch(p, &batch);
    while (td_ok(s) && !end) {
      td_tensor x = {0};
      s = td_pipeline_take(p, NULL, &x, &end);
      if (td_ok(s) && !end) got += sum_of(&x);
      td_tensor_release(&x);
    }
    td_mem_fail(0, false);
    if (s) assert_int_equal(td_status_code(s), TD_RESOURCE_EXHAUSTED);
    if (!s) assert_int_equal(got, 30 * 31 / 2);
    td_status_release(s);
    td_pipeline_close(p);
    td_pipeline_release(p);
  }
  adder_deinit(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_nothing_is_lost_or_twice),
      cmocka_unit_test(test_close_at_any_moment),
      cmocka_unit_test(test_bytes_ahead),
      cmocka_unit_test(test_memory_of_batches),
      cmocka_unit_test(test_interrupt),
      cmocka_unit_test(test_state_of_one_without_rest),
      cmocka_unit_test(test_allocations_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
