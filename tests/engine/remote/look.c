/* look.c - what steps over workers wait for, and what they print.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tests/engine/remote/pair.h"

#include "engine/base/clock.h"
#include "engine/remote/remote_impl.h"
#include "engine/run/async.h"
#include "engine/run/why_chain.h"

#define SECOND INT64_C(1000000000)

static td_edge placeholder(cluster *c, const char *name) {
  td_build b;
  td_node *n;
  td_build_init(&b, c->r.graph, "Placeholder", name);
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT64));
  b.device = "/job:localhost/cpu:0";
  OK(td_build_node(&b, &n));
  return (td_edge){n, 0};
}

/* ---- what they wait for -------------------------------------------------- */

/* An empty queue of a worker, and what is taken from it. */
static td_edge take_from_empty(cluster *c, int task, td_node **close) {
  static const td_dtype types[] = {TD_FLOAT64};
  char device[64];
  td_build b;
  td_node *n;
  snprintf(device, sizeof device, "/job:worker/task:%d/device:CPU:0", task);
  td_build_init(&b, c->r.graph, "FIFOQueueV2", "q");
  td_build_attr(&b, "component_types", td_attr_types(types, 1));
  b.device = device;
  OK(td_build_node(&b, &n));
  td_edge queue = {n, 0};
  td_build_init(&b, c->r.graph, "QueueDequeueV2", "take");
  td_build_in(&b, queue);
  td_build_attr(&b, "component_types", td_attr_types(types, 1));
  b.device = device;
  OK(td_build_node(&b, &n));
  *close = far_node(c, task, "QueueCloseV2", "close", &queue, 1).node;
  return (td_edge){n, 0};
}

/* Until `why` says so. */
static void why_until(cluster *c, const char *what, td_str *why) {
  int64_t until = td_clock_now() + 60 * SECOND;
  do {
    td_str_clear(why);
    td_session_why(c->s, why);
    if (strstr(td_str_c(why), what)) return;
    usleep(1000);
  } while (td_clock_now() < until);
  fail_msg("not \"%s\" in\n%s", what, td_str_c(why));
}

static void test_chain_over_workers(void **state) {
  (void)state;
  cluster c;
  td_node *close;
  td_async *a;
  td_callable *call, *end;
  td_str why = {0};
  cluster_init(&c, 3);
  td_edge x = take_from_empty(&c, 0, &close);
  td_edge y = far_node(&c, 1, "Exp", "y", &x, 1);
  td_edge z = far_node(&c, 2, "Neg", "z", &y, 1);
  td_signature sig = {.fetches = &z, .n_fetches = 1};
  td_signature sig_end = {.targets = &close, .n_targets = 1};
  OK(td_callable_new(c.s, &sig, &call));
  OK(td_callable_new(c.s, &sig_end, &end));
  OK(td_async_start(call, NULL, NULL, &a));
  why_until(&c,
            "/job:worker/task:2 waits for y of /job:worker/task:1, whose own "
            "part waits for take of /job:worker/task:0, whose take "
            "(QueueDequeueV2) waits for ",
            &why);
  assert_non_null(
      strstr(td_str_c(&why), "  take (QueueDequeueV2) has started"));
  assert_null(strstr(td_str_c(&why), "silent"));
  assert_null(strstr(td_str_c(&why), "\n/job:worker/task:1 waits"));
  OK(td_callable_run(end, NULL, NULL, NULL));
  FAILS(td_async_wait(a, 60 * SECOND, NULL, NULL), TD_OUT_OF_RANGE, "closed");
  td_str_clear(&why);
  td_session_why(c.s, &why);
  assert_string_equal(td_str_c(&why), "");
  td_str_deinit(&why);
  td_async_release(a);
  td_callable_release(call);
  td_callable_release(end);
  cluster_deinit(&c);
}

static void test_late_step_tells(void **state) {
  (void)state;
  cluster c;
  td_node *close;
  td_tensor out;
  cluster_init(&c, 2);
  td_edge x = take_from_empty(&c, 0, &close);
  td_edge y = far_node(&c, 1, "Exp", "y", &x, 1);
  td_signature sig = {.fetches = &y, .n_fetches = 1};
  /* On a busy machine they may not answer in time; then it tells less. */
  bool told = false;
  for (int i = 0; i < 30 && !told; i++) {
    td_status *s = td_session_run(c.s, &sig, NULL, &out,
                                  &(td_step_options){.timeout = 2 * SECOND});
    assert_int_equal(td_status_code(s), TD_DEADLINE_EXCEEDED);
    assert_non_null(strstr(td_status_message(s), "waiting:\n/job:worker/"));
    told = strstr(td_status_message(s), "waiting:\n/job:worker/task:") != NULL;
    td_status_release(s);
  }
  assert_true(told);
  cluster_deinit(&c);
}

/* One whose actor is held up says nothing; what the others say is told. */
static void test_silent_worker(void **state) {
  (void)state;
  cluster c;
  td_node *close;
  td_async *a;
  td_callable *call, *end;
  td_str why = {0};
  cluster_init(&c, 2);
  td_edge x = take_from_empty(&c, 0, &close);
  td_edge y = far_node(&c, 1, "Exp", "y", &x, 1);
  td_signature sig = {.fetches = &y, .n_fetches = 1};
  td_signature sig_end = {.targets = &close, .n_targets = 1};
  OK(td_callable_new(c.s, &sig, &call));
  OK(td_callable_new(c.s, &sig_end, &end));
  OK(td_async_start(call, NULL, NULL, &a));
  why_until(&c, "take (QueueDequeueV2) has started", &why);
  td_remote_enter(c.worker[1].remote);
  td_str_clear(&why);
  int64_t began = td_clock_now();
  td_session_why(c.s, &why);
  assert_true(td_clock_now() - began >= SECOND);
  td_remote_leave(c.worker[1].remote);
  const char *silent = strstr(td_str_c(&why), "it is silent\n");
  assert_non_null(silent);
  assert_non_null(strstr(td_str_c(&why), "asked what it waits for "));
  assert_null(strstr(silent + 1, "it is silent\n"));
  assert_non_null(strstr(td_str_c(&why), "take (QueueDequeueV2) has started"));
  OK(td_callable_run(end, NULL, NULL, NULL));
  FAILS(td_async_wait(a, 60 * SECOND, NULL, NULL), TD_OUT_OF_RANGE, "closed");
  td_str_deinit(&why);
  td_async_release(a);
  td_callable_release(call);
  td_callable_release(end);
  cluster_deinit(&c);
}

/* Text as others may write it. */
static void test_chains_of_any_text(void **state) {
  (void)state;
  static const char *const odd[] = {
      "",
      "\n\n",
      "/job:",
      "/job:a\n (",
      "a (b",
      "a (_Recv) has started",
      "a (_Recv) has started and waits for ",
      "a (_Recv) has started and waits for edge_1_x from /job:a\n",
      "a (_Recv) has started and waits for edge_1_x from here/device:CPU:0\n"
      "_send_1 (_Send) waits for a:0\n",
      "_send_1 (_Send) waits for _send_1:0\n"
      "r (_Recv) has started and waits for edge_1_x from here/device:CPU:0\n",
      "a (B) waits for b:0\nb (B) waits for a:0\n_send_1 (_Send) waits for a\n"
      "r (_Recv) has started and waits for edge_1_x from here/device:CPU:0\n"};
  td_str out = {0};
  for (size_t i = 0; i < TD_COUNT(odd); i++) td_why_chain(odd[i], "here", &out);
  td_str_clear(&out);
  td_why_chain(
      "_recv_0 (_Recv) has started and waits for edge_0_a from b/device:\n"
      "_send_1 (_Send) waits for _recv_0:0\n"
      "/job:b\n",
      "a", &out);
  td_why_chain("/job:b (up)\n"
               "_recv_1 (_Recv) has started and waits for edge_1_c from /job:c"
               "/device:CPU:0\n"
               "_send_0 (_Send) waits for _recv_1:0\n"
               "/job:c (up)\n"
               "_recv_0 (_Recv) has started and waits for edge_0_a from /job:b"
               "/device:CPU:0\n"
               "_send_1 (_Send) waits for _recv_0:0\n",
               "a", &out);
  assert_non_null(strstr(td_str_c(&out),
                         "/job:b waits for c of /job:c, whose own part waits "
                         "for a of /job:b, whose own part waits for c of "
                         "/job:c, which is told of\n"));
  td_str_clear(&out);
  td_why_chain("_recv_0 (_Recv) has started and waits for edge_0_a_b from "
               "/job:w/replica:0/task:0/device:CPU:0\n"
               "/job:w/replica:0/task:0 (up) has been running\n"
               "  _send_0 (_Send) waits for a_b:0\n"
               "  a_b (Add) waits for l:0 k:1  [x.lua:3]\n"
               "  l (MutexLock) has started and waits for the lock m\n",
               "/job:c/replica:0/task:0", &out);
  assert_string_equal(td_str_c(&out),
                      "/job:c/task:0 waits for a_b of /job:w/task:0, whose l "
                      "(MutexLock) waits for the lock m\n");
  td_str_deinit(&out);
}

/* ---- what they print ----------------------------------------------------- */

typedef struct printed {
  cluster *c;
  td_str text;
  int calls;
} printed;

/* It may ask the session anything: it is called outside of the turn. */
static void note(void *arg, const char *text, size_t len) {
  printed *p = arg;
  td_str why = {0};
  td_session_why(p->c->s, &why);
  td_str_deinit(&why);
  td_str_addn(&p->text, text, len);
  p->calls++;
}

static td_edge print(cluster *c, int task, const char *message, td_edge x) {
  td_build b;
  td_node *n;
  char device[64];
  snprintf(device, sizeof device, "/job:worker/task:%d/device:CPU:0", task);
  td_build_init(&b, c->r.graph, "Print", NULL);
  td_build_in(&b, x);
  td_build_list(&b, NULL, 0);
  td_build_attr(&b, "message", td_attr_string(message));
  b.device = device;
  OK(td_build_node(&b, &n));
  return (td_edge){n, 0};
}

static void run_printing(cluster *c, td_edge x, td_edge y, printed *p) {
  td_tensor in, out;
  td_signature sig = {.feeds = &x, .n_feeds = 1, .fetches = &y, .n_fetches = 1};
  td_step_options o = {.timeout = 60 * SECOND, .print = note, .print_arg = p};
  OK(td_tensor_scalar_f(TD_FLOAT64, 1, &in));
  OK(td_session_run(c->s, &sig, &in, &out, &o));
  td_tensor_release(&in);
  td_tensor_release(&out);
}

static void test_prints_outside_of_the_turn(void **state) {
  (void)state;
  cluster c;
  cluster_init(&c, 2);
  printed p = {.c = &c};
  td_edge x = placeholder(&c, "x"), y = x;
  for (int i = 0; i < 6; i++) {
    char message[16];
    snprintf(message, sizeof message, "line %d", i);
    y = print(&c, i / 3, message, y);
  }
  run_printing(&c, x, y, &p);
  for (int i = 0; i < 6; i++) {
    char line[80];
    snprintf(line, sizeof line, "%s: line %d\n", c.worker[i / 3].place, i);
    assert_non_null(strstr(td_str_c(&p.text), line));
  }
  assert_true(strstr(td_str_c(&p.text), "line 0") <
              strstr(td_str_c(&p.text), "line 2"));
  td_str_deinit(&p.text);
  cluster_deinit(&c);
}

/* More than a worker keeps: the rest is counted, and told last. */
static void test_too_much_is_told(void **state) {
  (void)state;
  enum { LINES = 40, LONG = 5000 };
  static char message[LONG + 1];
  cluster c;
  cluster_init(&c, 1);
  printed p = {.c = &c};
  memset(message, 'm', LONG);
  td_edge x = placeholder(&c, "x"), y = x;
  for (int i = 0; i < LINES; i++) y = print(&c, 0, message, y);
  run_printing(&c, x, y, &p);
  int lines = 0, dropped = 0;
  for (const char *at = td_str_c(&p.text); (at = strstr(at, "mmm\n")); at++)
    lines++;
  for (const char *at = td_str_c(&p.text); (at = strstr(at, " lines more"));
       at++) {
    const char *number = at;
    while (number[-1] != ' ') number--;
    dropped += atoi(number);
  }
  assert_int_equal(lines + dropped, LINES);
  td_str_deinit(&p.text);
  cluster_deinit(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_chain_over_workers),
      cmocka_unit_test(test_late_step_tells),
      cmocka_unit_test(test_silent_worker),
      cmocka_unit_test(test_chains_of_any_text),
      cmocka_unit_test(test_prints_outside_of_the_turn),
      cmocka_unit_test(test_too_much_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
