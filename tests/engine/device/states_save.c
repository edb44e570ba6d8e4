/* states_save.c - states as bytes: names that mean something elsewhere, what is
 * loaded before its kernel comes, hostile bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/device/run_node.h"

static td_node *count_node(td_graph *g, const char *name) {
  td_build b;
  td_node *n;
  td_build_init(&b, g, "TestCount", name);
  OK(td_build_node(&b, &n));
  return n;
}

static td_status *run_on(td_states *keep, const td_node *n, td_device *d,
                         int32_t *v) {
  td_step step = step_new();
  pending f;
  td_status *s = pending_init(&f, n, d, keep, &step, NULL);
  if (td_ok(s)) {
    td_kernel_start(&f.ctx);
    OK(pending_wait(&f));
    *v = *(const int32_t *)f.out[0].data;
    td_states_put(keep, &f.kernel);
  }
  pending_end(&f);
  step_end(&step);
  return s;
}

static int32_t count(td_states *keep, const td_node *n) {
  int32_t v;
  OK(run_on(keep, n, cpu, &v));
  return v;
}

static td_states *fresh(void) {
  td_states *s;
  OK(td_states_new(&s));
  return s;
}

static td_str saved(td_states *s) {
  td_str out;
  td_str_init(&out);
  OK(td_states_save(s, &out));
  return out;
}

static td_bytes bytes_of(const td_str *s) {
  return (td_bytes){td_str_c(s), s->len};
}

static void check_loaded(td_states *s, const char *want) {
  td_str names;
  td_str_init(&names);
  td_states_list_loaded(s, &names);
  assert_string_equal(td_str_c(&names), want);
  td_str_deinit(&names);
}

static void check_same(const td_str *a, const td_str *b) {
  assert_int_equal(a->len, b->len);
  assert_memory_equal(td_str_c(a), td_str_c(b), a->len);
}

/* ---- there and back ------------------------------------------------------ */

/* In another graph, of other addresses and serials, under the same names. */
static void test_goes_on_elsewhere(void **state) {
  td_graph *g, *h;
  (void)state;
  OK(td_graph_new(&g));
  OK(td_graph_new(&h));
  count_node(h, "z");
  td_node *a = count_node(g, "a"), *b = count_node(g, "b");
  td_node *b2 = count_node(h, "b"), *a2 = count_node(h, "a");
  td_states *s = fresh(), *t = fresh();
  for (int i = 1; i <= 3; i++) assert_int_equal(count(s, a), i);
  assert_int_equal(count(s, b), 1);
  assert_int_equal(count(t, b2), 1);
  assert_int_equal(count(t, b2), 2);
  td_str bytes = saved(s), again;
  OK(td_states_load(t, bytes_of(&bytes)));
  check_loaded(t, "a (TestCount) on CPU:0\n");
  again = saved(t); /* what waits is saved, too */
  check_same(&bytes, &again);
  td_str_deinit(&again);
  assert_int_equal(count(t, b2), 2); /* it was there: it goes on from 1 */
  assert_int_equal(count(t, a2), 4);
  check_loaded(t, "");
  assert_int_equal(count(s, a), 4);
  assert_int_equal(count(s, b), 2);
  again = saved(s);
  td_str other = saved(t);
  check_same(&again, &other);
  td_str_deinit(&again);
  td_str_deinit(&other);
  td_str_deinit(&bytes);
  td_states_release(s);
  td_states_release(t);
  td_graph_release(g);
  td_graph_release(h);
  assert_int_equal(states, 0);
}

/* CPU:1's state is none of CPU:0's; the place of the process does not count. */
static void test_devices(void **state) {
  td_graph *g;
  td_device *there;
  int32_t v;
  (void)state;
  OK(td_graph_new(&g));
  td_node *a = count_node(g, "a");
  OK(td_device_cpu_new("/job:worker/replica:0/task:7", 1, 0, &there));
  td_states *s = fresh(), *t = fresh();
  OK(run_on(s, a, there, &v));
  td_str bytes = saved(s);
  OK(td_states_load(t, bytes_of(&bytes)));
  assert_int_equal(count(t, a), 1);
  check_loaded(t, "a (TestCount) on CPU:1\n");
  td_device *here;
  OK(td_device_cpu_new(PLACE, 1, 0, &here));
  OK(run_on(t, a, here, &v));
  assert_int_equal(v, 2);
  td_device_release(here);
  td_device_release(there);
  td_str_deinit(&bytes);
  td_states_release(s);
  td_states_release(t);
  td_graph_release(g);
}

static void test_of_nothing(void **state) {
  td_states *s = fresh();
  (void)state;
  td_str bytes = saved(s);
  OK(td_states_load(s, bytes_of(&bytes)));
  check_loaded(s, "");
  td_str_deinit(&bytes);
  td_states_release(s);
}

/* ---- bytes that are refused ---------------------------------------------- */

/* A state that refuses its bytes is as before; others have theirs. */
static void test_a_state_refuses(void **state) {
  td_graph *g;
  int32_t v;
  (void)state;
  OK(td_graph_new(&g));
  td_node *a = count_node(g, "a"), *b = count_node(g, "b");
  td_states *s = fresh(), *t = fresh();
  td_str bytes;
  count(s, b);
  count(s, b);
  td_str_init(&bytes);
  td_str_addn(&bytes, "TDSTATES\1\0\0\0\2\0\0\0", 16);
  const char *names[] = {"a (TestCount) on CPU:0", "b (TestCount) on CPU:0"};
  for (int i = 0; i < 2; i++) {
    td_bytes_put(&bytes, strlen(names[i]), 4);
    td_bytes_put(&bytes, i ? 4 : 3, 8);
    td_str_add(&bytes, names[i]);
    td_bytes_put(&bytes, 7, i ? 4 : 3);
  }
  count(t, a);
  FAILS(td_states_load(t, bytes_of(&bytes)), TD_DATA_LOSS,
        "the saved state of a (TestCount) on CPU:0 cannot be loaded: no count");
  assert_int_equal(count(t, a), 2);
  assert_int_equal(count(t, b), 8);
  /* One that has not run yet is refused when it does, each time. */
  OK(td_states_load(s, bytes_of(&bytes)));
  assert_int_equal(count(s, b), 8);
  for (int i = 0; i < 2; i++)
    FAILS(run_on(s, a, cpu, &v), TD_DATA_LOSS, "cannot be loaded: no count");
  td_str_deinit(&bytes);
  td_states_release(s);
  td_states_release(t);
  td_graph_release(g);
  assert_int_equal(states, 0);
}

/* Any byte another, any length: refused, or loaded and saved again. */
static void test_hostile(void **state) {
  td_graph *g;
  (void)state;
  OK(td_graph_new(&g));
  td_node *a = count_node(g, "a"), *b = count_node(g, "b");
  td_states *s = fresh();
  count(s, a);
  count(s, b);
  td_str good = saved(s);
  td_str_deinit(&good);
  good = saved(s);
  for (size_t len = 0; len < good.len; len++) {
    char *part = td_malloc(len + 1); /* so that a read beyond is seen */
    memcpy(part, td_str_c(&good), len);
    FAILS(td_states_load(s, (td_bytes){part, len}), TD_DATA_LOSS, "");
    td_free(part);
  }
  for (size_t i = 0; i < good.len; i++)
    for (int bit = 0; bit < 8; bit++) {
      td_states *t = fresh();
      good.at[i] ^= (char)(1 << bit);
      td_status *st = td_states_load(t, bytes_of(&good));
      if (td_ok(st)) {
        td_str again = saved(t);
        check_same(&again, &good);
        td_str_deinit(&again);
      }
      td_status_release(st);
      good.at[i] ^= (char)(1 << bit);
      td_states_release(t);
    }
  td_str_addc(&good, 0);
  FAILS(td_states_load(s, bytes_of(&good)), TD_DATA_LOSS, "follows");
  good.at[8] = 2;
  FAILS(td_states_load(s, bytes_of(&good)), TD_FAILED_PRECONDITION,
        "of version 2, this Tide reads 1");
  td_str_deinit(&good);
  td_states_release(s);
  td_graph_release(g);
}

/* ---- memory and threads -------------------------------------------------- */

static td_status *once(td_states *s, td_node *n, int32_t *v) {
  td_str bytes;
  td_states *t = NULL;
  td_str_init(&bytes);
  td_status *st = td_states_save(s, &bytes);
  if (td_ok(st)) st = td_states_new(&t);
  if (td_ok(st)) st = td_states_load(t, bytes_of(&bytes));
  td_kernel k = {0};
  if (td_ok(st)) st = td_kernel_init(&k, n, cpu, t);
  if (td_ok(st)) *v = *(int32_t *)k.state;
  if (td_ok(st)) td_states_put(t, &k);
  td_kernel_deinit(&k);
  td_states_release(t);
  td_str_deinit(&bytes);
  return st;
}

static void test_without_memory(void **state) {
  td_graph *g;
  (void)state;
  OK(td_graph_new(&g));
  td_node *a = count_node(g, "a");
  td_states *s = fresh();
  int32_t v = 0;
  count(s, a);
  for (int for_ever = 0; for_ever < 2; for_ever++) {
    int64_t nth = 1;
    for (;; nth++) {
      td_mem_fail(nth, for_ever);
      td_status *st = once(s, a, &v);
      td_mem_fail(0, false);
      if (td_ok(st)) break;
      FAILS(st, TD_RESOURCE_EXHAUSTED, "");
    }
    assert_true(nth > 5);
    assert_int_equal(v, 1);
  }
  td_states_release(s);
  td_graph_release(g);
  assert_int_equal(states, 0);
}

typedef struct sharer {
  td_states *s;
  td_node *n;
  td_bytes bytes;
} sharer;

static void *get_and_put(void *arg) {
  sharer *w = arg;
  for (int i = 0; i < 2000; i++) {
    td_kernel k;
    OK(td_kernel_init(&k, w->n, cpu, w->s));
    td_states_put(w->s, &k);
    td_kernel_deinit(&k);
  }
  return NULL;
}

/* Kernels come and go while states are saved and loaded. Who comes after a load
 * has what was loaded. */
static void test_threads(void **state) {
  enum { THREADS = 3 };
  pthread_t thread[THREADS];
  td_graph *g;
  (void)state;
  OK(td_graph_new(&g));
  td_node *a = count_node(g, "a");
  td_states *s = fresh(), *t = fresh();
  count(s, a);
  td_str bytes = saved(s);
  sharer w = {t, a, bytes_of(&bytes)};
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&thread[i], NULL, get_and_put, &w), 0);
  for (int i = 0; i < 500; i++) {
    OK(td_states_load(t, bytes_of(&bytes)));
    td_str now = saved(t);
    check_same(&now, &bytes);
    td_str_deinit(&now);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  assert_int_equal(count(t, a), 2);
  td_str_deinit(&bytes);
  td_states_release(s);
  td_states_release(t);
  td_graph_release(g);
}

static int begin(void **state) {
  register_node_ops(state);
  return begin_cpu(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_goes_on_elsewhere),
      cmocka_unit_test(test_devices),
      cmocka_unit_test(test_of_nothing),
      cmocka_unit_test(test_a_state_refuses),
      cmocka_unit_test(test_hostile),
      cmocka_unit_test(test_without_memory),
      cmocka_unit_test(test_threads),
  };
  return cmocka_run_group_tests(tests, begin, end_cpu);
}
