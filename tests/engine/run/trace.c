/* trace.c - what a traced step tells of each node.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/trace.h"

#include "tests/engine/run/rig.h"

#include "engine/run/session.h"

static const td_trace_event *event_of(td_trace *t, const char *node) {
  int64_t n;
  const td_trace_event *e = td_trace_events(t, &n);
  for (int64_t i = 0; i < n; i++)
    if (!strcmp(e[i].node, node)) return &e[i];
  fail_msg("no event of %s among %d", node, (int)n);
  return NULL;
}

/* One thread: of two nodes that become ready together the second waits for the
 * first, and its event tells. */
static void test_queue_delay(void **state) {
  (void)state;
  rig r;
  td_session *s;
  td_trace *t;
  rig_init(&r);
  td_edge x = make_const(&r, TD_FLOAT64, 2, NULL);
  td_edge root = NODE(&r, "Sqrt", "root", x);
  td_edge a = NODE(&r, "Neg", "a", root), b = NODE(&r, "Exp", "b", root);
  td_edge sum = NODE(&r, "AddV2", "sum", a, b);
  td_session_options o = {.threads = 1, .passes_off = td_plan_pass_bit("fold")};
  OK(td_session_new(r.runtime, r.graph, &o, &s));
  OK(td_trace_new(&t));
  td_tensor out;
  td_step_options run = {.trace = t};
  td_signature sig = {.fetches = &sum, .n_fetches = 1};
  OK(td_session_run(s, &sig, NULL, &out, &run));
  td_tensor_release(&out);
  const td_trace_event *ea = event_of(t, "a"), *eb = event_of(t, "b");
  const td_trace_event *first = ea->start <= eb->start ? ea : eb;
  const td_trace_event *second = first == ea ? eb : ea;
  assert_int_equal(first->ready, second->ready);
  assert_true(event_of(t, "root")->end <= first->ready);
  assert_true(first->ready <= first->start);
  assert_true(second->ready < first->end && first->end <= second->start);
  assert_true(event_of(t, "sum")->ready >= second->end);
  td_trace_release(t);
  td_session_release(s);
  rig_deinit(&r);
}

/* On two devices, and in a loop: what was ready came before what started. */
static void test_ready_comes_first(void **state) {
  (void)state;
  rig r;
  td_session *s;
  td_trace *t;
  rig_init(&r);
  td_edge never = make_endless(&r);
  td_node *add = td_graph_find(r.graph, "endless_add");
  OK(td_node_set_device(add, "/device:CPU:1"));
  td_session_options o = {.threads = 2, .cpu_devices = 2};
  OK(td_session_new(r.runtime, r.graph, &o, &s));
  OK(td_trace_new(&t));
  td_tensor out;
  td_step_options run = {.trace = t, .timeout = 50000000};
  td_signature sig = {.fetches = &never, .n_fetches = 1};
  FAILS(td_session_run(s, &sig, NULL, &out, &run), TD_DEADLINE_EXCEEDED, "");
  int64_t n, began = td_clock_now() - INT64_C(600000000000);
  const td_trace_event *e = td_trace_events(t, &n);
  assert_true(n > 0);
  for (int64_t i = 0; i < n; i++) {
    if (e[i].ready > e[i].start) fail_msg("%s started early", e[i].node);
    if (e[i].ready < began) fail_msg("%s was never ready", e[i].node);
  }
  td_trace_release(t);
  td_session_release(s);
  rig_deinit(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_queue_delay),
      cmocka_unit_test(test_ready_comes_first),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
