/* trace.c - steps over workers that are traced, explained, and print.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/trace_pack.h"

#include "tests/engine/remote/pair.h"

#include "engine/base/clock.h"

#define SECOND INT64_C(1000000000)

/* A placeholder of this process; nothing of it is folded away. */
static td_edge placeholder(cluster *c) {
  td_build b;
  td_node *n;
  td_build_init(&b, c->r.graph, "Placeholder", NULL);
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT64));
  b.device = "/job:localhost/cpu:0";
  OK(td_build_node(&b, &n));
  return (td_edge){n, 0};
}

static td_status *run(cluster *c, td_edge feed, td_edge fetch,
                      const td_step_options *o) {
  td_tensor in, out;
  td_signature sig = {
      .feeds = &feed, .n_feeds = 1, .fetches = &fetch, .n_fetches = 1};
  TD_TRY(td_tensor_scalar_f(TD_FLOAT64, 4, &in));
  td_status *s = td_session_run(c->s, &sig, &in, &out, o);
  td_tensor_release(&in);
  if (td_ok(s)) td_tensor_release(&out);
  return s;
}

static int events_of(const td_trace_event *e, int64_t n, const char *task) {
  int sum = 0;
  for (int64_t i = 0; i < n; i++) sum += td_trace_is_of(e[i].device, task);
  return sum;
}

/* What arrives was sent before, as far as the clocks are known. */
static size_t check_arrows(td_trace *t) {
  int64_t n;
  td_trace_arrow *a;
  size_t count;
  const td_trace_event *e = td_trace_events(t, &n);
  td_trace_arrows(t, &a, &count);
  for (size_t i = 0; i < count; i++) {
    const td_trace_event *from = &e[a[i].from], *to = &e[a[i].to];
    assert_int_equal(from->edge, to->edge);
    assert_int_equal(from->iteration, to->iteration);
    if (to->end + a[i].error < from->start)
      fail_msg("%s arrived %lld ns before it was sent, and only %lld are known",
               to->node, (long long)(from->start - to->end),
               (long long)a[i].error);
  }
  td_free(a);
  return count;
}

/* ---- traces -------------------------------------------------------------- */

static void test_tasks(void **state) {
  (void)state;
  cluster c;
  td_trace *t;
  int64_t n;
  size_t tasks;
  cluster_init(&c, 2);
  td_edge x = placeholder(&c);
  td_edge a = far_node(&c, 0, "Sqrt", "a", &x, 1);
  td_edge b = far_node(&c, 1, "Exp", "b", &a, 1);
  td_edge back = far_node(&c, 0, "Neg", "back", &b, 1);
  for (int k = 0; k < 3; k++) {
    OK(td_trace_new(&t));
    OK(run(&c, x, back,
           &(td_step_options){.timeout = 60 * SECOND, .trace = t}));
    const td_trace_event *e = td_trace_events(t, &n);
    const td_trace_task *task = td_trace_tasks(t, &tasks);
    assert_int_equal(tasks, 2);
    for (size_t i = 0; i < tasks; i++) {
      assert_string_equal(task[i].trouble, "");
      assert_int_equal(task[i].dropped, 0);
      assert_true(task[i].error > 0 && task[i].error < 60 * SECOND);
      /* One process: the clocks are one. */
      assert_true(task[i].clock <= task[i].error &&
                  -task[i].clock <= task[i].error);
    }
    assert_true(events_of(e, n, c.worker[0].place) >= 3);
    assert_true(events_of(e, n, c.worker[1].place) >= 3);
    assert_true(check_arrows(t) >= 2);
    td_str chrome = {0};
    td_trace_chrome(t, &chrome);
    assert_non_null(strstr(td_str_c(&chrome), "\"ph\":\"s\""));
    assert_non_null(strstr(td_str_c(&chrome), "\"ph\":\"f\""));
    assert_non_null(strstr(td_str_c(&chrome), c.worker[1].place));
    td_str_deinit(&chrome);
    td_trace_release(t);
  }
  cluster_deinit(&c);
}

/* ---- loops, and limits --------------------------------------------------- */

static td_edge node(cluster *c, const char *device, const char *op,
                    const td_edge *in, int n) {
  td_build b;
  td_node *made;
  td_build_init(&b, c->r.graph, op, NULL);
  td_build_flat(&b, in, n);
  b.device = device;
  OK(td_build_node(&b, &made));
  return (td_edge){made, 0};
}

static td_edge enter(cluster *c, const char *device, td_edge in,
                     bool constant) {
  td_build b;
  td_node *n;
  td_build_init(&b, c->r.graph, "Enter", NULL);
  td_build_in(&b, in);
  td_build_attr(&b, "frame_name", td_attr_string("turns"));
  td_build_attr(&b, "is_constant", td_attr_bool(constant));
  b.device = device;
  OK(td_build_node(&b, &n));
  return (td_edge){n, 0};
}

/* while i < most: i = i + 1 on one worker, by way of `nodes` on the other. */
static td_edge loop(cluster *c, td_edge most, const char *by, int nodes) {
  const char *here = "/job:worker/task:0/device:CPU:0";
  td_build b;
  td_node *n;
  td_edge first = enter(c, here, make_const(&c->r, TD_FLOAT64, 0, NULL), false);
  td_edge step = enter(c, here, make_const(&c->r, TD_FLOAT64, 1, NULL), true);
  td_edge limit = enter(c, here, most, true);
  td_build_init(&b, c->r.graph, "Merge", NULL);
  td_build_flat(&b, (td_edge[]){first, {NULL, 0}}, 2);
  td_build_attr(&b, "T", td_attr_type(TD_FLOAT64));
  td_build_attr(&b, "N", td_attr_int(2));
  b.device = here;
  OK(td_build_node(&b, &n));
  td_edge merge = {n, 0};
  td_edge less = node(c, here, "Less", (td_edge[]){merge, limit}, 2);
  td_edge cond = node(c, here, "LoopCond", &less, 1);
  td_edge sw = node(c, here, "Switch", (td_edge[]){merge, cond}, 2);
  td_edge body = {sw.node, 1};
  for (int i = 0; i < nodes; i++) body = node(c, by, "Identity", &body, 1);
  td_edge sum = node(c, here, "AddV2", (td_edge[]){body, step}, 2);
  td_edge next = node(c, here, "NextIteration", &sum, 1);
  OK(td_node_set_back_edge(merge.node, 1, next));
  return node(c, here, "Exit", &sw, 1);
}

/* Each iteration's values have their arrows. */
static void test_loop(void **state) {
  (void)state;
  enum { TURNS = 4 }; /* what run() feeds */
  cluster c;
  td_trace *t;
  cluster_init(&c, 2);
  c.s->options.passes_off = ~0U;
  td_edge most = placeholder(&c);
  td_edge out = loop(&c, most, "/job:worker/task:1/device:CPU:0", 2);
  OK(td_trace_new(&t));
  OK(run(&c, most, out,
         &(td_step_options){.timeout = 60 * SECOND, .trace = t}));
  assert_true(check_arrows(t) >= 2 * TURNS);
  td_trace_release(t);
  cluster_deinit(&c);
}

/* More than is kept of another process: the number of the rest is told. */
static void test_limit(void **state) {
  (void)state;
  cluster c;
  td_trace *t;
  int64_t n;
  size_t tasks;
  td_tensor in, out;
  cluster_init(&c, 1);
  c.s->options.passes_off = ~0U;
  td_edge most = placeholder(&c);
  td_edge last = loop(&c, most, "/job:worker/task:0/device:CPU:0", 20);
  td_signature sig = {
      .feeds = &most, .n_feeds = 1, .fetches = &last, .n_fetches = 1};
  OK(td_trace_new(&t));
  OK(td_tensor_scalar_f(TD_FLOAT64, 6000, &in));
  OK(td_session_run(c.s, &sig, &in, &out,
                    &(td_step_options){.timeout = 300 * SECOND, .trace = t}));
  assert_true(td_tensor_get_f(&out, 0) == 6000);
  (void)td_trace_events(t, &n);
  const td_trace_task *task = td_trace_tasks(t, &tasks);
  assert_int_equal(tasks, 1);
  assert_string_equal(task->trouble, "");
  assert_true(task->dropped > 6000);
  assert_true(n >= TD_TRACE_MOST && n < TD_TRACE_MOST + 100);
  td_tensor_release(&in);
  td_tensor_release(&out);
  td_trace_release(t);
  cluster_deinit(&c);
}

/* A step that fails has no trace, and the next one has. */
static void test_failure(void **state) {
  (void)state;
  cluster c;
  td_trace *t;
  size_t tasks;
  int64_t n;
  cluster_init(&c, 2);
  td_edge x = placeholder(&c), y = placeholder(&c);
  td_edge a = far_node(&c, 0, "Sqrt", "a", (td_edge[]){x}, 1);
  td_edge b = far_node(&c, 1, "Add", "b", (td_edge[]){a, y}, 2);
  for (int k = 0; k < 3; k++) {
    OK(td_trace_new(&t));
    FAILS(run(&c, x, b, &(td_step_options){.timeout = 60 * SECOND, .trace = t}),
          TD_INVALID_ARGUMENT, "");
    td_trace_release(t);
    OK(td_trace_new(&t));
    OK(run(&c, x, a, &(td_step_options){.timeout = 60 * SECOND, .trace = t}));
    (void)td_trace_events(t, &n);
    (void)td_trace_tasks(t, &tasks);
    assert_int_equal(tasks, 1);
    td_trace_release(t);
  }
  cluster_deinit(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tasks),
      cmocka_unit_test(test_loop),
      cmocka_unit_test(test_limit),
      cmocka_unit_test(test_failure),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
