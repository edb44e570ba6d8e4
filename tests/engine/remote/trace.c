/* trace.c - steps over workers that are traced, explained, and print.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/trace.h"

#include <pthread.h>

#include "tests/engine/remote/pair.h"

#include "engine/base/clock.h"

#define SECOND INT64_C(1000000000)

/* A placeholder of this process; nothing of it is folded away. */
static td_edge placeholder(cluster *c) {
  td_build b;
  td_node *n;
  td_build_init(&b, c->r.graph, "Placeholder", "x");
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tasks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
