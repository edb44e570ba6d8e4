/* trace_pack.c - traces as bytes: what comes back, what is refused, limits; and
 * clocks that are settled by what was sent.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/trace_pack.h"

#include <stdio.h>
#include <string.h>

#include "tests/check.h"

#include "engine/base/mem.h"

#define TASK "/job:w/replica:0/task:0"
#define OTHER "/job:w/replica:0/task:1"
#define CPU(task) task "/device:CPU:0"

static const char *const devices[] = {CPU(TASK), TASK "/device:TEST:0"};

static td_trace_terms terms(void) {
  return (td_trace_terms){TASK, devices, 2, 1000, 0, 5000};
}

static td_trace *make(int n) {
  td_trace *t;
  OK(td_trace_new(&t));
  for (int i = 0; i < n; i++) {
    char name[32];
    snprintf(name, sizeof name, "node%d", i % 7);
    td_trace_event e = {.node = name,
                        .op = i % 2 ? "Add" : "_Send",
                        .device = devices[i % 3 == 0],
                        .value = i % 2 ? "" : "x",
                        .stream = i % 4 ? "" : "compute",
                        .memory = i % 4 ? 0 : 1 + i,
                        .ready = 1000 + i,
                        .start = 1001 + i,
                        .end = 1003 + i,
                        .thread = i % 5,
                        .frame = (uint64_t)i << 40,
                        .iteration = i,
                        .bytes = 8 * i,
                        .way = i % 2 ? TD_TRACE_STAYS : TD_TRACE_SENDS,
                        .edge = i};
    td_trace_add(t, &e);
  }
  return t;
}

/* The same events, at other times. */
static void test_there_and_back(void **state) {
  (void)state;
  static const int sizes[] = {0, 1, 100, 3000};
  for (size_t k = 0; k < TD_COUNT(sizes); k++) {
    td_trace *from = make(sizes[k]), *to = make(0);
    td_tensor bytes;
    td_trace_terms x = terms();
    int64_t n, m, dropped = -1;
    OK(td_trace_pack(from, &bytes));
    OK(td_trace_unpack(to, bytes.data, td_tensor_bytes(&bytes), &x, &dropped));
    assert_int_equal(dropped, 0);
    const td_trace_event *a = td_trace_events(from, &n);
    const td_trace_event *b = td_trace_events(to, &m);
    assert_int_equal(n, m);
    for (int64_t i = 0; i < n; i++) {
      assert_string_equal(a[i].node, b[i].node);
      assert_string_equal(a[i].op, b[i].op);
      assert_string_equal(a[i].device, b[i].device);
      assert_string_equal(a[i].value, b[i].value);
      assert_string_equal(a[i].stream, b[i].stream);
      assert_int_equal(a[i].memory, b[i].memory);
      assert_int_equal(a[i].ready, b[i].ready + 1000);
      assert_int_equal(a[i].start, b[i].start + 1000);
      assert_int_equal(a[i].end, b[i].end + 1000);
      assert_int_equal(a[i].thread, b[i].thread);
      assert_int_equal(a[i].frame, b[i].frame);
      assert_int_equal(a[i].iteration, b[i].iteration);
      assert_int_equal(a[i].bytes, b[i].bytes);
      assert_int_equal(a[i].way, b[i].way);
      assert_int_equal(a[i].edge, b[i].edge);
    }
    td_tensor_release(&bytes);
    td_trace_release(from);
    td_trace_release(to);
  }
}

/* Others than were agreed on. */
static void test_terms(void **state) {
  (void)state;
  td_trace *from = make(50), *to = make(0);
  td_tensor bytes;
  int64_t n, dropped;
  OK(td_trace_pack(from, &bytes));
  size_t len = td_tensor_bytes(&bytes);
  td_trace_terms x = terms();
  x.n_devices = 1;
  FAILS(td_trace_unpack(to, bytes.data, len, &x, &dropped), TD_INVALID_ARGUMENT,
        "the trace of " TASK " has no such device");
  x = terms();
  x.to = 40;
  FAILS(td_trace_unpack(to, bytes.data, len, &x, &dropped), TD_INVALID_ARGUMENT,
        "at another time than the step's");
  x = terms();
  x.clock = INT64_MIN;
  FAILS(td_trace_unpack(to, bytes.data, len, &x, &dropped), TD_INVALID_ARGUMENT,
        "at another time than the step's");
  x = terms();
  for (size_t cut = 0; cut < len; cut += 1 + cut / 20)
    FAILS(td_trace_unpack(to, bytes.data, cut, &x, &dropped),
          TD_INVALID_ARGUMENT, "the trace of");
  (void)td_trace_events(to, &n);
  assert_int_equal(n, 0);
  td_tensor_release(&bytes);
  td_trace_release(from);
  td_trace_release(to);
}

/* Bytes changed at random: refused, with nothing added, or events that are as
 * they may be. */
static void test_any_bytes(void **state) {
  (void)state;
  td_trace *from = make(20);
  td_tensor bytes;
  uint64_t seed = 3;
  int refused = 0, taken = 0;
  OK(td_trace_pack(from, &bytes));
  size_t len = td_tensor_bytes(&bytes);
  char *changed = td_malloc(len);
  for (int k = 0; k < 20000; k++) {
    td_trace *to = make(0);
    td_trace_terms x = terms();
    int64_t n, dropped;
    memcpy(changed, bytes.data, len);
    for (int i = 0; i < 1 + k % 4; i++) {
      seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
      size_t at = (size_t)(seed >> 33) % (k % 2 ? 24 + 88 : len);
      changed[at] = (char)(k % 3 ? seed >> 20 : (seed >> 20) % 2 ? 255 : 0);
    }
    td_status *s = td_trace_unpack(to, changed, len, &x, &dropped);
    const td_trace_event *e = td_trace_events(to, &n);
    if (td_ok(s)) {
      taken++;
      assert_int_equal(n, 20);
      for (int64_t i = 0; i < n; i++) {
        assert_true(e[i].ready >= 0 && e[i].end <= 5000);
        assert_true(td_trace_is_of(e[i].device, TASK));
        assert_true(e[i].ready <= e[i].start && e[i].start <= e[i].end);
      }
      td_str chrome = {0};
      if (k % 50 == 0) td_trace_chrome(to, &chrome);
      td_str_deinit(&chrome);
    } else {
      refused++;
      assert_int_equal(n, 0);
    }
    td_status_release(s);
    td_trace_release(to);
  }
  assert_true(refused > 1000 && taken > 1000);
  td_free(changed);
  td_tensor_release(&bytes);
  td_trace_release(from);
}

static void test_limits(void **state) {
  (void)state;
  td_trace *t = make(0);
  td_tensor bytes;
  int64_t n;
  static char name[2000];
  td_trace_limit(t, 10);
  td_trace_event e = {.node = "n", .op = "o", .device = "d"};
  for (int i = 0; i < 25; i++) td_trace_add(t, &e);
  (void)td_trace_events(t, &n);
  assert_int_equal(n, 10);
  assert_int_equal(td_trace_dropped(t), 15);
  OK(td_trace_pack(t, &bytes));
  td_tensor_release(&bytes);
  td_trace_release(t);
  t = make(0); /* names that are too long for ten of them */
  td_trace_limit(t, 10);
  memset(name, 'x', sizeof name - 1);
  e.node = name;
  td_trace_add(t, &e);
  assert_int_equal(td_trace_dropped(t), 1);
  td_trace_release(t);
}

/* ---- clocks -------------------------------------------------------------- */

static void sent(td_trace *t, const char *device, td_trace_way way, int edge,
                 int64_t start, int64_t end) {
  td_trace_event e = {.node = "n",
                      .op = way == TD_TRACE_SENDS ? "_Send" : "_Recv",
                      .device = device,
                      .ready = start,
                      .start = start,
                      .end = end,
                      .way = way,
                      .edge = edge};
  td_trace_add(t, &e);
}

/* Two tasks whose clocks are known within 1000, and are wrong by +600 and -600:
 * what they send to each other says so. */
static void test_values_settle(void **state) {
  (void)state;
  td_trace *t = make(0);
  td_trace_arrow *a;
  size_t n;
  int64_t count;
  td_trace_add_task(t, &(td_trace_task){TASK, 5000, 1000, 0, ""});
  td_trace_add_task(t, &(td_trace_task){OTHER, 7000, 1000, 0, NULL});
  sent(t, CPU(TASK), TD_TRACE_SENDS, 0, 2000 + 600, 2000 + 610);
  sent(t, CPU(OTHER), TD_TRACE_RECEIVES, 0, 1900 - 600, 2050 - 600);
  sent(t, CPU(OTHER), TD_TRACE_SENDS, 1, 3000 - 600, 3010 - 600);
  sent(t, CPU(TASK), TD_TRACE_RECEIVES, 1, 2900 + 600, 3050 + 600);
  td_trace_arrows(t, &a, &n);
  const td_trace_event *e = td_trace_events(t, &count);
  assert_int_equal(count, 4);
  assert_int_equal(n, 2);
  for (size_t i = 0; i < n; i++) {
    int64_t took = e[a[i].to].end - e[a[i].from].start;
    assert_true(took >= 0 && took <= 100);
    assert_true(a[i].error <= 101);
  }
  td_free(a);
  const td_trace_task *task = td_trace_tasks(t, &n);
  assert_int_equal(n, 2);
  int64_t apart = task[1].clock - task[0].clock;
  assert_true(apart >= 2000 - 1200 - 51 && apart <= 2000 - 1200 + 51);
  assert_true(task[0].error < 1000 && task[1].error < 1000);
  td_trace_release(t);
}

/* No clocks are such: they stay as they were measured. */
static void test_contradictions(void **state) {
  (void)state;
  td_trace *t = make(0);
  int64_t count;
  size_t n;
  td_trace_add_task(t, &(td_trace_task){TASK, 5000, 10, 3, "late"});
  sent(t, CPU(TASK), TD_TRACE_SENDS, 0, 2000, 2010);
  sent(t, "/job:here/task:0/device:CPU:0", TD_TRACE_RECEIVES, 0, 0, 100);
  const td_trace_event *e = td_trace_events(t, &count);
  assert_int_equal(e[1].start, 2000);
  const td_trace_task *task = td_trace_tasks(t, &n);
  assert_int_equal(task->clock, 5000);
  assert_int_equal(task->error, 10);
  assert_int_equal(task->dropped, 3);
  assert_string_equal(task->trouble, "late");
  td_trace_release(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_there_and_back),
      cmocka_unit_test(test_terms),
      cmocka_unit_test(test_any_bytes),
      cmocka_unit_test(test_limits),
      cmocka_unit_test(test_values_settle),
      cmocka_unit_test(test_contradictions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
