/* trace.c - what traces have of a card, on the fake runtime: each kernel and
 * copy once, on the host's clock (the fake card's began at another time), in
 * order, joined to its node; nothing of it fails a step, and nothing is left.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/trace.h"

#include <dlfcn.h>
#include <libgen.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/graph/build.h"
#include "engine/graph/node_edit.h"
#include "engine/run/library.h"
#include "engine/run/runtime.h"
#include "engine/run/session.h"
#include "tests/check.h"
#include "tests/cuda/fake/fake.h"

enum { PAIRS = 6, COUNT = 3000, THREADS = 4, TIMES = 12 };

static struct {
  void (*plan)(const char *plan);
  bool (*happened)(void);
  td_fake_counts (*count)(void);
} fake;

static const td_device_factory *cuda;

/* ---- the plugin ---------------------------------------------------------- */

static void *find(void *plugin, const char *name) {
  void *p = dlsym(plugin, name);
  if (!p) fail_msg("%s: %s", name, dlerror());
  return p;
}

/* Beside the tests: build/tests/cuda/trace, build/cuda-fake/libtide_cuda.so */
static int begin(void **state) {
  char path[4096];
  const td_library *library;
  (void)state;
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
  assert_true(n > 0);
  path[n] = '\0';
  for (int i = 0; i < 3; i++) (void)dirname(path);
  strcat(path, "/cuda-fake");
  setenv("TIDE_CUDA_LIBS", path, 1);
  strcat(path, "/libtide_cuda.so");
  OK(td_library_load(path, &library));
  cuda = library->devices[0];
  void *plugin = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  if (!plugin) fail_msg("%s", dlerror());
  *(void **)&fake.plan = find(plugin, "td_fake_plan");
  *(void **)&fake.happened = find(plugin, "td_fake_happened");
  *(void **)&fake.count = find(plugin, "td_fake_count");
  return 0;
}

static int set_up(void **state) {
  (void)state;
  unsetenv("TIDE_FAKE_CUPTI");
  fake.plan(NULL);
  return 0;
}

/* Threads of a runtime let their device go a little later. */
static int tear_down(void **state) {
  (void)state;
  fake.plan(NULL);
  for (int i = 0; i < 10000; i++) {
    td_fake_counts n = fake.count();
    if (!n.regions && !n.pinned && !n.streams && !n.events) return 0;
    usleep(500);
  }
  td_fake_counts n = fake.count();
  fail_msg("%lld regions, %lld of pinned memory, %lld streams, %lld events are "
           "left",
           (long long)n.regions, (long long)n.pinned, (long long)n.streams,
           (long long)n.events);
  return 1;
}

/* ---- a step on a card ---------------------------------------------------- */

typedef struct chain {
  td_runtime *rt;
  td_graph *g;
  td_session *s;
  td_edge x, y;
} chain;

static td_edge unary(chain *c, const char *op, const char *name) {
  td_build b;
  td_node *n;
  td_build_init(&b, c->g, op, name);
  td_build_in(&b, c->y);
  OK(td_build_node(&b, &n));
  OK(td_node_set_device(n, "/device:CUDA:0"));
  return (td_edge){n, 0};
}

static void chain_init(chain *c) {
  char name[32];
  td_build b;
  td_node *x;
  td_session_options so = {.threads = 2, .cpu_devices = 1};
  OK(td_runtime_new(NULL, &c->rt));
  OK(td_graph_new(&c->g));
  td_build_init(&b, c->g, "Placeholder", "x");
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT32));
  OK(td_build_node(&b, &x));
  c->x = c->y = (td_edge){x, 0};
  for (int i = 0; i < PAIRS; i++) {
    snprintf(name, sizeof name, "square_%d", i);
    c->y = unary(c, "Square", name);
    snprintf(name, sizeof name, "sqrt_%d", i);
    c->y = unary(c, "Sqrt", name);
  }
  OK(td_session_new(c->rt, c->g, &so, &c->s));
}

static void chain_deinit(chain *c) {
  td_session_close(c->s);
  td_session_release(c->s);
  td_graph_release(c->g);
  td_runtime_release(c->rt);
}

static td_status *run(const chain *c, td_trace *t) {
  td_tensor x, y;
  td_shape shape = td_shape_vector(COUNT);
  td_step_options o = {.trace = t};
  td_signature sig = {
      .feeds = &c->x, .n_feeds = 1, .fetches = &c->y, .n_fetches = 1};
  OK(td_tensor_new(NULL, TD_FLOAT32, &shape, &x));
  for (int i = 0; i < COUNT; i++) ((float *)x.data)[i] = (float)(i % 50);
  td_status *s = td_session_run(c->s, &sig, &x, &y, &o);
  if (td_ok(s)) {
    assert_true(((float *)y.data)[77] == 27);
    td_tensor_release(&y);
  }
  td_tensor_release(&x);
  return s;
}

/* ---- what a trace must have ---------------------------------------------- */

static int count_work(const td_trace_event *e, int64_t n, const char *stream) {
  int found = 0;
  for (int64_t i = 0; i < n; i++)
    found += td_trace_is_work(&e[i]) && strcmp(e[i].stream, stream) == 0;
  return found;
}

/* On one stream one thing runs after the other. */
static void check_order(const td_trace_event *e, int64_t n) {
  int64_t last = 0;
  for (int64_t i = 0; i < n; i++) {
    if (!td_trace_is_work(&e[i]) || strcmp(e[i].stream, "compute") != 0)
      continue;
    /* two origins may differ by what reading both clocks takes, which is long
     * on a machine that does other things */
    if (e[i].start + 50000000 < last)
      fail_msg("%s began %lld ns before the one before it ended", e[i].node,
               (long long)(last - e[i].start));
    last = e[i].end;
  }
}

static void check_times(const td_trace_event *e, int64_t n, int64_t from,
                        int64_t to) {
  for (int64_t i = 0; i < n; i++)
    if (e[i].ready < from || e[i].start < e[i].ready || e[i].end < e[i].start ||
        e[i].end > to)
      fail_msg("%s %s: ready %lld, start %lld, end %lld of %lld", e[i].node,
               e[i].stream, (long long)(e[i].ready - from),
               (long long)(e[i].start - from), (long long)(e[i].end - from),
               (long long)(to - from));
}

static void check_launches(td_trace *t, int work) {
  td_trace_arrow *a;
  size_t count;
  int64_t n;
  td_trace_launches(t, &a, &count);
  const td_trace_event *e = td_trace_events(t, &n);
  assert_int_equal(count, work);
  for (size_t i = 0; i < count; i++) {
    const td_trace_event *from = &e[a[i].from], *to = &e[a[i].to];
    assert_string_equal(from->node, to->node);
    assert_true(!td_trace_is_work(from) && td_trace_is_work(to));
    assert_true(to->ready >= from->start && to->ready <= from->end);
  }
  td_free(a);
}

static void check_copies(const td_trace_event *e, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (td_trace_is_work(&e[i]) && strcmp(e[i].stream, "compute") != 0) {
      assert_string_equal(e[i].op, "copy");
      assert_int_equal(e[i].bytes, COUNT * sizeof(float));
    }
  assert_int_equal(count_work(e, n, "copies in"), 1);
  assert_int_equal(count_work(e, n, "copies out"), 1);
}

static void check_trace(td_trace *t, int64_t from, int64_t to) {
  int64_t n, memory = 0;
  const td_trace_event *e = td_trace_events(t, &n);
  for (int64_t i = 0; i < n; i++)
    if (e[i].memory > memory) memory = e[i].memory;
  assert_true(memory >= (int64_t)(COUNT * sizeof(float)));
  assert_int_equal(count_work(e, n, "compute"), 2 * PAIRS);
  check_copies(e, n);
  check_order(e, n);
  check_times(e, n, from, to);
  check_launches(t, 2 * PAIRS + 2);
}

/* ---- tests --------------------------------------------------------------- */

static void test_a_step(void **state) {
  (void)state;
  chain c;
  chain_init(&c);
  OK(run(&c, NULL));
  for (int i = 0; i < 5; i++) {
    td_trace *t;
    td_str text = {0};
    OK(td_trace_new(&t));
    int64_t from = td_clock_now();
    OK(run(&c, t));
    check_trace(t, from, td_clock_now());
    td_trace_chrome(t, &text);
    assert_non_null(strstr(td_str_c(&text), "\"CUDA:0, compute\""));
    assert_non_null(strstr(td_str_c(&text), "\"memory of CUDA:0\""));
    assert_non_null(strstr(td_str_c(&text), "\"cat\":\"launch\""));
    td_str_clear(&text);
    td_trace_totals(t, &text);
    assert_non_null(strstr(td_str_c(&text), "Sqrt, compute "));
    assert_non_null(strstr(td_str_c(&text), "copy, copies out "));
    td_str_deinit(&text);
    td_trace_release(t);
  }
  chain_deinit(&c);
}

/* Steps at once, some of them traced: each has what is its own. */
static void *run_often(void *arg) {
  for (int i = 0; i < TIMES; i++) {
    td_trace *t = NULL;
    if (i % 3) OK(td_trace_new(&t));
    int64_t from = td_clock_now();
    OK(run(arg, t));
    if (t) check_trace(t, from, td_clock_now());
    td_trace_release(t);
  }
  return NULL;
}

static void test_steps_at_once(void **state) {
  (void)state;
  chain c;
  pthread_t thread[THREADS];
  chain_init(&c);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&thread[i], NULL, run_often, &c), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  chain_deinit(&c);
}

/* What times work may fail: the step does not. */
static void test_what_cannot_be_timed(void **state) {
  (void)state;
  static const char *const calls[] = {
      "cudaEventElapsedTime", "cudaEventCreateWithFlags", "cudaEventRecord",
      "cudaEventSynchronize", "cudaStreamCreateWithFlags"};
  char plan[64];
  for (size_t k = 0; k < TD_COUNT(calls); k++)
    for (int n = 1; n <= 14; n++) {
      chain c;
      td_trace *t;
      int64_t events;
      chain_init(&c);
      OK(td_trace_new(&t));
      if (n % 2) OK(run(&c, NULL));
      snprintf(plan, sizeof plan, "%s:%d:2", calls[k], n);
      fake.plan(plan);
      td_status *s = run(&c, t);
      if (k == 0) OK(s);
      (void)td_trace_events(t, &events);
      if (td_ok(s) && events < 2 * PAIRS) fail_msg("%s: few events", plan);
      if (k > 0) td_status_release(s);
      fake.plan(NULL);
      td_trace_release(t);
      chain_deinit(&c);
    }
}

static void test_lost(void **state) {
  (void)state;
  static const char *const plans[] = {"kernel:3:700", "event:5:719",
                                      "copy:2:700", "event:1:700"};
  for (size_t k = 0; k < TD_COUNT(plans); k++) {
    chain c;
    td_trace *t;
    chain_init(&c);
    OK(td_trace_new(&t));
    fake.plan(plans[k]);
    FAILS(run(&c, t), TD_UNAVAILABLE, "CUDA:0 is lost: ");
    td_trace_release(t);
    fake.plan(NULL);
    chain_deinit(&c);
  }
}

/* The same with CUPTI: the kernels have names. */
static void test_with_cupti(void **state) {
  chain c;
  td_trace *t;
  int64_t n, named = 0;
  setenv("TIDE_CUPTI", "1", 1);
  chain_init(&c);
  OK(td_trace_new(&t));
  int64_t from = td_clock_now();
  OK(run(&c, t));
  check_trace(t, from, td_clock_now());
  const td_trace_event *e = td_trace_events(t, &n);
  for (int64_t i = 0; i < n; i++) named += strcmp(e[i].value, "work") == 0;
  assert_int_equal(named, 2 * PAIRS);
  td_trace_release(t);
  chain_deinit(&c);
  test_a_step(state);
  test_steps_at_once(state);
  test_what_cannot_be_timed(state);
  test_lost(state);
}

/* CUPTI that does not work, or sees nothing: events tell. */
static void test_without_cupti(void **state) {
  static const char *const refuses[] = {"cuptiActivityEnable",
                                        "cuptiActivityRegisterCallbacks",
                                        "cuptiActivityFlushAll"};
  for (size_t i = 0; i < TD_COUNT(refuses); i++) {
    setenv("TIDE_FAKE_CUPTI", refuses[i], 1);
    test_a_step(state);
  }
}

/* Cards, the driver, and a door that is not there. */
static void test_what_is_told(void **state) {
  (void)state;
  td_str text = {0};
  cuda->tell(&text);
  assert_non_null(
      strstr(td_str_c(&text), "CUDA: driver 580.65.06 of CUDA 13.0, "));
  assert_non_null(strstr(td_str_c(&text), "CUDA:0: Fake 0 at 0000:00:0a.0, "));
  assert_non_null(strstr(td_str_c(&text), "NVML: 13.580.65.06\n"));
  assert_non_null(strstr(td_str_c(&text), "CUPTI: 13.0."));
  td_str_deinit(&text);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_a_step),
      TEST(test_steps_at_once),
      TEST(test_what_cannot_be_timed),
      TEST(test_lost),
      TEST(test_with_cupti),
      TEST(test_without_cupti),
      TEST(test_what_is_told),
  };
  return cmocka_run_group_tests(tests, begin, NULL);
}
