/* device.c - the CUDA device on the fake runtime: order, lifetimes, failures.
 *
 * Pieces of work come late by chance, so what is not made to wait is found out;
 * the n-th call of each function of the runtime fails, and then all that was
 * taken must have been given back; cards are lost.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <dlfcn.h>
#include <libgen.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/device/precision.h"
#include "engine/graph/build.h"
#include "engine/graph/node_edit.h"
#include "engine/run/library.h"
#include "engine/run/runtime.h"
#include "engine/run/session.h"
#include "tests/cuda/fake/fake.h"

static const td_device_factory *cuda;

static struct {
  void (*plan)(const char *plan);
  bool (*happened)(void);
  void (*delay)(long us);
  void (*memory)(size_t bytes);
  td_fake_counts (*count)(void);
} fake;

/* ---- the plugin ---------------------------------------------------------- */

static void *find(void *plugin, const char *name) {
  void *p = dlsym(plugin, name);
  if (!p) fail_msg("%s: %s", name, dlerror());
  return p;
}

/* Beside the tests: build/tests/cuda/device, build/cuda-fake/libtide_cuda.so */
static int begin(void **state) {
  char path[4096];
  const td_library *library;
  (void)state;
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
  assert_true(n > 0);
  path[n] = '\0';
  for (int i = 0; i < 3; i++) (void)dirname(path);
  strcat(path, "/cuda-fake/libtide_cuda.so");
  OK(td_library_load(path, &library));
  cuda = library->devices[0];
  void *plugin = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  if (!plugin) fail_msg("%s", dlerror());
  *(void **)&fake.plan = find(plugin, "td_fake_plan");
  *(void **)&fake.happened = find(plugin, "td_fake_happened");
  *(void **)&fake.delay = find(plugin, "td_fake_delay");
  *(void **)&fake.memory = find(plugin, "td_fake_memory");
  *(void **)&fake.count = find(plugin, "td_fake_count");
  return 0;
}

/* Threads of a runtime let their device go a little later. */
static td_fake_counts wait_until_nothing_left(void) {
  td_fake_counts n = fake.count();
  for (int i = 0; i < 10000; i++) {
    if (!n.regions && !n.pinned && !n.streams && !n.events) break;
    usleep(500);
    n = fake.count();
  }
  return n;
}

static void check_nothing_left(const char *what) {
  td_fake_counts n = wait_until_nothing_left();
  if (n.regions || n.pinned || n.streams || n.events)
    fail_msg("%s: %lld regions, %lld of pinned memory, %lld streams, %lld "
             "events are left",
             what, (long long)n.regions, (long long)n.pinned,
             (long long)n.streams, (long long)n.events);
}

/* Each test begins and ends so. */
static int set_up(void **state) {
  (void)state;
  fake.plan(NULL);
  fake.delay(20);
  fake.memory(4ul << 30);
  unsetenv("TIDE_CUDA_SYNC");
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  fake.plan(NULL);
  check_nothing_left("at the end");
  return 0;
}

static td_device *new_card(int index) {
  static const td_device_options options = {.seed = 1};
  td_device *d;
  OK(cuda->make(index, "/job:localhost/replica:0/task:0", &options, &d));
  return d;
}

/* ---- tensors ------------------------------------------------------------- */

static td_tensor floats(td_allocator *memory, int64_t n, float first) {
  td_tensor t;
  td_shape shape = td_shape_vector(n);
  OK(td_tensor_new(memory, TD_FLOAT32, &shape, &t));
  for (int64_t i = 0; i < n; i++)
    ((float *)t.data)[i] = first + (float)(i % 1000);
  return t;
}

static void check_floats(const td_tensor *t, int64_t n, float first) {
  assert_int_equal(td_tensor_count(t), n);
  for (int64_t i = 0; i < n; i++)
    if (((const float *)t->data)[i] != first + (float)(i % 1000))
      fail_msg("element %lld of %lld is %g, not %g", (long long)i, (long long)n,
               (double)((const float *)t->data)[i],
               (double)(first + (float)(i % 1000)));
}

/* ---- copies -------------------------------------------------------------- */

enum { THREADS = 4, TIMES = 40 };

typedef struct traveller {
  td_device *d, *peer;
  int number;
} traveller;

/* To the card and back, perhaps by another card; blocks are used again. */
static void *travel(void *arg) {
  static const int64_t sizes[] = {0, 1, 33, 1000, 4096, 300001};
  const traveller *t = arg;
  for (int i = 0; i < TIMES; i++) {
    int64_t n = sizes[(i + t->number) % TD_COUNT(sizes)];
    float first = (float)(t->number * 1000 + i);
    td_allocator *from = i % 2 ? t->d->host : NULL;
    td_tensor x = floats(from, n, first), there, other, back;
    OK(td_device_transfer_wait(t->d, &x, t->d->memory, &there));
    td_tensor_release(&x);
    OK(td_device_transfer_wait(t->peer, &there, t->peer->memory, &other));
    td_tensor_release(&there);
    td_device *by = i % 3 ? t->peer : t->d; /* also from a peer's memory */
    OK(td_device_transfer_wait(by, &other, by->host, &back));
    td_tensor_release(&other);
    check_floats(&back, n, first);
    td_tensor_release(&back);
  }
  return NULL;
}

static void travel_all(td_device *d, td_device *peer) {
  pthread_t thread[THREADS];
  traveller t[THREADS];
  for (int i = 0; i < THREADS; i++) {
    t[i] = (traveller){d, peer, i};
    assert_int_equal(pthread_create(&thread[i], NULL, travel, &t[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
}

static void test_copies(void **state) {
  (void)state;
  td_device *d = new_card(0);
  travel_all(d, d);
  td_device_release(d);
}

static void test_copies_between_cards(void **state) {
  (void)state;
  td_device *d = new_card(0), *peer = new_card(1);
  fake.delay(200);
  travel_all(d, peer);
  td_device_release(peer);
  td_device_release(d);
}

/* What a device leaves behind goes with whoever uses it last. */
static void test_memory_outlives_its_device(void **state) {
  (void)state;
  td_device *d = new_card(0), *peer = new_card(1);
  td_tensor x = floats(NULL, 1000, 1), there, back, none;
  OK(td_device_transfer_wait(d, &x, d->memory, &there));
  OK(td_device_transfer_wait(d, &there, d->host, &back));
  td_device_release(d);
  FAILS(td_device_transfer_wait(peer, &there, peer->memory, &none),
        TD_UNAVAILABLE, "CUDA:0 is gone");
  check_floats(&back, 1000, 1);
  td_tensor_release(&there);
  td_tensor_release(&back);
  td_tensor_release(&x);
  td_device_release(peer);
}

typedef struct last_share {
  td_device *d;
  td_tensor to;
  int32_t over; /* atomic */
} last_share;

static void drop_device(void *arg, td_status *s) {
  last_share *l = arg;
  td_status_release(s);
  td_device_release(l->d);
  td_tensor_release(&l->to);
  __atomic_store_n(&l->over, 1, __ATOMIC_RELEASE);
}

/* On the thread of the events, which cannot join itself. */
static void test_last_share_goes_in_a_callback(void **state) {
  (void)state;
  for (int i = 0; i < 20; i++) {
    last_share l = {.d = new_card(0)};
    td_tensor x = floats(NULL, 10000, 1);
    fake.delay(2000); /* so that the callback is not on this thread */
    td_device_transfer(l.d, &x, l.d->memory, &l.to, drop_device, &l);
    while (!__atomic_load_n(&l.over, __ATOMIC_ACQUIRE)) usleep(100);
    td_tensor_release(&x);
    check_nothing_left("in a callback");
  }
}

/* ---- steps --------------------------------------------------------------- */

/* n nodes in a row on a device: y = -(-(..x)), Abs where n is odd. */
typedef struct chain {
  td_runtime *rt;
  td_graph *g;
  td_session *s;
  td_edge x, y;
} chain;

static td_edge unary(td_graph *g, const char *op, const char *name, td_edge in,
                     const char *device) {
  td_build b;
  td_node *n;
  td_build_init(&b, g, op, name);
  td_build_in(&b, in);
  OK(td_build_node(&b, &n));
  OK(td_node_set_device(n, device));
  return (td_edge){n, 0};
}

static void chain_init(chain *c, int n, const char *device) {
  char name[16];
  td_build b;
  td_node *x;
  td_session_options so = {.threads = 2, .cpu_devices = 1};
  OK(td_runtime_new(NULL, &c->rt));
  OK(td_graph_new(&c->g));
  td_build_init(&b, c->g, "Placeholder", "x");
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT32));
  OK(td_build_node(&b, &x));
  c->x = c->y = (td_edge){x, 0};
  for (int i = 0; i < n; i++) {
    snprintf(name, sizeof name, "node_%d", i);
    c->y = unary(c->g, "Square", name, c->y, device);
    c->y = unary(c->g, "Sqrt", name, c->y, device);
  }
  OK(td_session_new(c->rt, c->g, &so, &c->s));
}

static void chain_deinit(chain *c) {
  td_session_close(c->s);
  td_session_release(c->s);
  td_graph_release(c->g);
  td_runtime_release(c->rt);
}

static td_status *chain_run(const chain *c, int64_t n) {
  td_tensor x = floats(NULL, n, 1), y;
  td_signature sig = {
      .feeds = &c->x, .n_feeds = 1, .fetches = &c->y, .n_fetches = 1};
  td_status *s = td_session_run(c->s, &sig, &x, &y, NULL);
  if (td_ok(s)) {
    check_floats(&y, n, 1);
    td_tensor_release(&y);
  }
  td_tensor_release(&x);
  return s;
}

static void *run_often(void *arg) {
  for (int i = 0; i < TIMES; i++) OK(chain_run(arg, 1 + i * 37));
  return NULL;
}

static void test_steps(void **state) {
  (void)state;
  chain c;
  pthread_t thread[THREADS];
  chain_init(&c, 10, "/device:CUDA:0");
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&thread[i], NULL, run_often, &c), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  chain_deinit(&c);
}

/* More kernels than there are places for their names. */
static void test_a_long_step(void **state) {
  (void)state;
  chain c;
  fake.delay(0);
  chain_init(&c, 1500, "/device:CUDA:0");
  for (int i = 0; i < 3; i++) OK(chain_run(&c, 100));
  chain_deinit(&c);
}

static void check_sync(void) {
  chain c;
  fake.plan(NULL);
  chain_init(&c, 3, "/device:CUDA:0");
  OK(chain_run(&c, 1000));
  fake.plan("kernel:3:700"); /* it is known which one it was */
  td_status *s = chain_run(&c, 1000);
  assert_string_equal(td_status_node(s), "node_1");
  assert_string_equal(td_status_op(s), "Square");
  td_status_release(s);
  chain_deinit(&c);
}

/* By the environment, and by td.config. */
static void test_sync(void **state) {
  (void)state;
  setenv("TIDE_CUDA_SYNC", "1", 1);
  check_sync();
  unsetenv("TIDE_CUDA_SYNC");
  td_precision_set((td_precision){.sync = true});
  check_sync();
  td_precision_set((td_precision){0});
}

/* ---- what kernels find in their data ------------------------------------- */

/* Rows of a variable on a card, each run gathering those that are fed. */
typedef struct table {
  td_runtime *rt;
  td_graph *g;
  td_session *s;
  td_edge indices, rows;
} table;

static td_node *node_of(td_graph *g, const char *op, const char *name,
                        const td_edge *in, int n, td_dtype type) {
  td_build b;
  td_node *node;
  td_build_init(&b, g, op, name);
  for (int i = 0; i < n; i++) td_build_in(&b, in[i]);
  td_build_attr(&b, "dtype", td_attr_type(type));
  OK(td_build_node(&b, &node));
  return node;
}

static td_edge placeholder(td_graph *g, const char *name, td_dtype dtype) {
  return (td_edge){node_of(g, "Placeholder", name, NULL, 0, dtype), 0};
}

static void table_init(table *t, int64_t rows) {
  td_session_options so = {.threads = 2, .cpu_devices = 1};
  OK(td_runtime_new(NULL, &t->rt));
  OK(td_graph_new(&t->g));
  td_build b;
  td_node *v;
  td_shape unknown = td_shape_unknown();
  td_build_init(&b, t->g, "VarHandleOp", "table");
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT32));
  td_build_attr(&b, "shape", td_attr_shape(&unknown));
  OK(td_build_node(&b, &v));
  OK(td_node_set_device(v, "/device:CUDA:0"));
  td_edge first = placeholder(t->g, "first", TD_FLOAT32);
  td_edge in[] = {{v, 0}, first};
  td_node *assign =
      node_of(t->g, "AssignVariableOp", "assign", in, 2, TD_FLOAT32);
  t->indices = placeholder(t->g, "indices", TD_INT32);
  in[1] = t->indices;
  td_node *gather = node_of(t->g, "ResourceGather", "rows", in, 2, TD_FLOAT32);
  OK(td_node_set_device(gather, "/device:CUDA:0"));
  t->rows = (td_edge){gather, 0};
  OK(td_session_new(t->rt, t->g, &so, &t->s));
  td_tensor x = floats(NULL, rows, 0);
  td_signature sig = {
      .feeds = &first, .n_feeds = 1, .targets = &assign, .n_targets = 1};
  OK(td_session_run(t->s, &sig, &x, NULL, NULL));
  td_tensor_release(&x);
}

static void table_deinit(table *t) {
  td_session_close(t->s);
  td_session_release(t->s);
  td_graph_release(t->g);
  td_runtime_release(t->rt);
}

/* Rows `first` and on. */
static td_status *table_run(const table *t, int32_t first, int32_t n) {
  td_tensor x, y;
  td_shape shape = td_shape_vector(n);
  OK(td_tensor_new(NULL, TD_INT32, &shape, &x));
  for (int32_t i = 0; i < n; i++) ((int32_t *)x.data)[i] = first + i;
  td_signature sig = {
      .feeds = &t->indices, .n_feeds = 1, .fetches = &t->rows, .n_fetches = 1};
  td_status *s = td_session_run(t->s, &sig, &x, &y, NULL);
  td_tensor_release(&x);
  if (!td_ok(s)) return s;
  for (int32_t i = 0; i < n; i++)
    assert_true(((const float *)y.data)[i] == (float)(first + i));
  td_tensor_release(&y);
  return NULL;
}

static void check_found(td_status *s, int row) {
  char want[64];
  snprintf(want, sizeof want, "an index is %d, not in [0, 100)", row);
  if (!s) fail_msg("row %d is found", row);
  assert_string_equal(td_status_message(s), want);
  assert_string_equal(td_status_node(s), "rows");
  assert_string_equal(td_status_op(s), "ResourceGather");
  assert_true(strstr(td_status_device(s), "CUDA:0") != NULL);
  assert_int_equal(td_status_code(s), TD_INVALID_ARGUMENT);
  td_status_release(s);
}

typedef struct reader {
  const table *of;
  int number;
} reader;

/* Each has the errors that are its own, and all of them. */
static void *read_often(void *arg) {
  const reader *r = arg;
  for (int i = 0; i < 100; i++) {
    OK(table_run(r->of, i % 90, 10));
    int row = 100 + r->number * 1000 + i;
    if (i % 3 == r->number % 3) check_found(table_run(r->of, row, 1), row);
  }
  return NULL;
}

static void read_by_all(const table *t) {
  pthread_t thread[THREADS];
  reader r[THREADS];
  for (int i = 0; i < THREADS; i++) {
    r[i] = (reader){t, i};
    assert_int_equal(pthread_create(&thread[i], NULL, read_often, &r[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
}

static void test_data_errors(void **state) {
  (void)state;
  table t;
  table_init(&t, 100);
  OK(table_run(&t, 0, 100));
  check_found(table_run(&t, 100, 1), 100);
  check_found(table_run(&t, -1, 1), -1);
  OK(table_run(&t, 0, 100));
  read_by_all(&t);
  table_deinit(&t);
}

/* The kernel's own status says so there. */
static void test_data_errors_in_sync(void **state) {
  (void)state;
  table t;
  setenv("TIDE_CUDA_SYNC", "1", 1);
  table_init(&t, 100);
  check_found(table_run(&t, 100, 1), 100);
  OK(table_run(&t, 0, 100));
  read_by_all(&t);
  table_deinit(&t);
}

/* ---- no room ------------------------------------------------------------- */

static void test_out_of_memory(void **state) {
  (void)state;
  chain c;
  fake.memory(8 << 20);
  chain_init(&c, 1, "/device:CUDA:0");
  td_status *s = chain_run(&c, 2500000);
  assert_int_equal(td_status_code(s), TD_RESOURCE_EXHAUSTED);
  if (!strstr(td_status_message(s), "CUDA:0 has no 10000000 bytes (9.5 MiB)") ||
      !strstr(td_status_message(s), "are in use"))
    fail_msg("%s", td_status_message(s));
  td_status_release(s);
  OK(chain_run(&c, 1000)); /* it goes on */
  chain_deinit(&c);
}

static void test_largest_are_named(void **state) {
  (void)state;
  td_device *d = new_card(0);
  td_tensor t, more;
  td_shape big = td_shape_vector(1 << 20), huge = td_shape_vector(1 << 22);
  fake.memory(8 << 20);
  OK(td_tensor_new(d->memory, TD_FLOAT32, &big, &t));
  td_allocator_tag(d->memory, t.data, 4 << 20, "weights");
  FAILS(td_tensor_new(d->memory, TD_FLOAT32, &huge, &more),
        TD_RESOURCE_EXHAUSTED, "the largest: weights 4.0 MiB");
  td_tensor_release(&t);
  OK(td_tensor_new(d->memory, TD_FLOAT32, &big, &t));
  td_allocator_stats stats = td_allocator_read_stats(d->memory);
  assert_int_equal(stats.in_use, 4 << 20);
  assert_int_equal(stats.system_allocs, 1); /* the region was kept */
  td_tensor_release(&t);
  td_allocator_trim(d->memory, 0);
  assert_int_equal(td_allocator_read_stats(d->memory).held, 0);
  td_device_release(d);
}

/* ---- failures ------------------------------------------------------------ */

/* The step fails, or does not need the call; nothing is kept of it. */
static void check_failing(const char *plan, bool again) {
  chain c;
  bool failed = false;
  fake.plan(plan);
  chain_init(&c, 3, "/device:CUDA:0");
  for (int i = 0; i < 3; i++) {
    td_status *s = chain_run(&c, 5000);
    failed |= !td_ok(s);
    if (!td_ok(s) && !strstr(td_status_message(s), "CUDA"))
      fail_msg("%s: %s", plan, td_status_message(s));
    td_status_release(s);
  }
  if (again && fake.happened()) OK(chain_run(&c, 5000));
  if (failed && !fake.happened()) fail_msg("%s: fails for nothing", plan);
  chain_deinit(&c);
  fake.plan(NULL);
  check_nothing_left(plan);
}

static const char *const calls[] = {
    "cudaGetDeviceCount",
    "cudaSetDevice",
    "cudaDeviceGetAttribute",
    "cudaMemGetInfo",
    "cudaStreamCreateWithFlags",
    "cudaMalloc",
    "cudaHostAlloc",
    "cudaEventCreateWithFlags",
    "cudaEventRecord",
    "cudaEventQuery",
    "cudaEventSynchronize",
    "cudaStreamWaitEvent",
    "cudaStreamSynchronize",
    "cudaStreamQuery",
    "cudaMemcpyAsync",
    "launch",
    "cudaFree",
    "cudaFreeHost",
};

static void test_the_nth_call_fails(void **state) {
  (void)state;
  char plan[64];
  for (size_t k = 0; k < TD_COUNT(calls); k++)
    for (int n = 1; n <= 12; n++) {
      if (strcmp(calls[k], "cudaGetDeviceCount") == 0) continue;
      snprintf(plan, sizeof plan, "%s:%d:%d", calls[k], n,
               n % 2 ? cudaErrorMemoryAllocation : cudaErrorUnknown);
      check_failing(plan, false);
    }
}

/* A copy or a launch that is refused is the step's error, not the card's. */
static void test_goes_on_after_a_refusal(void **state) {
  (void)state;
  check_failing("cudaMemcpyAsync:1:2", true);
  check_failing("cudaMemcpyAsync:2:1", true);
  check_failing("launch:2:2", true);
  check_failing("cudaMalloc:2:2", true);
  check_failing("cudaEventRecord:3:2", true);
}

static void expect_lost(const char *plan, td_status *s) {
  if (td_status_code(s) != TD_UNAVAILABLE ||
      !strstr(td_status_message(s), "CUDA:0 is lost: "))
    fail_msg("%s: %s", plan, td_status_message(s));
  td_status_release(s);
}

/* In the n-th piece of work; another card goes on. */
static void test_lost(void **state) {
  (void)state;
  static const char *const kinds[] = {"kernel", "copy", "wait"};
  char plan[64];
  for (size_t k = 0; k < TD_COUNT(kinds); k++)
    for (int n = 1; n <= 8; n++) {
      chain c, other;
      snprintf(plan, sizeof plan, "%s:%d:719", kinds[k], n);
      chain_init(&c, 4, "/device:CUDA:0");
      chain_init(&other, 4, "/device:CUDA:1");
      OK(chain_run(&other, 10));
      fake.plan(plan);
      td_status *s = NULL;
      for (int i = 0; i < 20 && td_ok(s); i++) s = chain_run(&c, 5000);
      expect_lost(plan, s);
      expect_lost(plan, chain_run(&c, 5000));
      fake.plan("nothing:0:0"); /* what is lost stays so */
      expect_lost(plan, chain_run(&c, 5000));
      OK(chain_run(&other, 5000));
      chain_deinit(&c);
      chain_deinit(&other);
      fake.plan(NULL);
      check_nothing_left(plan);
    }
}

/* Suspects are named. */
static void test_lost_names_nodes(void **state) {
  (void)state;
  chain c;
  fake.delay(3000);
  chain_init(&c, 4, "/device:CUDA:0");
  OK(chain_run(&c, 100));
  fake.plan("kernel:2:700");
  td_status *s = chain_run(&c, 100);
  if (!s || !strstr(td_status_message(s), "illegal memory access") ||
      !strstr(td_status_message(s), "in one of node_0 (Square"))
    fail_msg("%s", td_status_message(s));
  td_status_release(s);
  chain_deinit(&c);
}

static void *run_until_lost(void *arg) {
  td_status *s = NULL;
  for (int i = 0; i < 1000 && td_ok(s); i++) s = chain_run(arg, 100 + i);
  return s;
}

static void test_lost_under_many_steps(void **state) {
  (void)state;
  for (int n = 20; n <= 200; n += 20) {
    char plan[64];
    chain c;
    pthread_t thread[THREADS];
    snprintf(plan, sizeof plan, "kernel:%d:719", n);
    chain_init(&c, 4, "/device:CUDA:0");
    fake.plan(plan);
    for (int i = 0; i < THREADS; i++)
      assert_int_equal(pthread_create(&thread[i], NULL, run_until_lost, &c), 0);
    for (int i = 0; i < THREADS; i++) {
      void *s;
      pthread_join(thread[i], &s);
      expect_lost(plan, s);
    }
    chain_deinit(&c);
    fake.plan(NULL);
    check_nothing_left(plan);
  }
}

/* A lost card's memory is no peer's to read. */
static void test_lost_peer(void **state) {
  (void)state;
  td_device *d = new_card(0), *peer = new_card(1);
  td_tensor x = floats(NULL, 1000, 1), there, other;
  OK(td_device_transfer_wait(d, &x, d->memory, &there));
  fake.plan("copy:1:700");
  td_tensor again;
  expect_lost("a peer", td_device_transfer_wait(d, &x, d->memory, &again));
  expect_lost("a peer",
              td_device_transfer_wait(peer, &there, peer->memory, &other));
  OK(td_device_transfer_wait(peer, &x, peer->memory, &other));
  td_tensor_release(&other);
  td_tensor_release(&there);
  td_tensor_release(&x);
  td_device_release(d);
  td_device_release(peer);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  setenv("TIDE_FAKE_GPUS", "2", 1);
  const struct CMUnitTest tests[] = {
      TEST(test_copies),
      TEST(test_copies_between_cards),
      TEST(test_memory_outlives_its_device),
      TEST(test_last_share_goes_in_a_callback),
      TEST(test_steps),
      TEST(test_a_long_step),
      TEST(test_sync),
      TEST(test_data_errors),
      TEST(test_data_errors_in_sync),
      TEST(test_out_of_memory),
      TEST(test_largest_are_named),
      TEST(test_the_nth_call_fails),
      TEST(test_goes_on_after_a_refusal),
      TEST(test_lost),
      TEST(test_lost_names_nodes),
      TEST(test_lost_under_many_steps),
      TEST(test_lost_peer),
  };
  return cmocka_run_group_tests(tests, begin, NULL);
}
