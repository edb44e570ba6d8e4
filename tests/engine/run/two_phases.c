/* two_phases.c - steps on devices whose kernels are done before they have run.
 *
 * Two test devices: what a step enqueued is complete when it ends, errors found
 * at completion are the step's, and whatever fails on the way ends cleanly.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/run/rig.h"

#include <unistd.h>

#include "engine/device/device_test.h"
#include "engine/device/kernel_rows.h"
#include "engine/run/session.h"

#define FIRST "/device:TEST:0"
#define SECOND "/device:TEST:1"

/* ---- an op --------------------------------------------------------------- */

static int32_t ran; /* atomic: slow kernels that have run */

/* y = x, late. */
static td_status *slow_run(td_kernel_ctx *c) {
  td_tensor *y;
  usleep(20000);
  TD_TRY(td_out(c, 0, &td_in(c, 0)->shape, &y));
  memcpy(y->data, td_in(c, 0)->data, td_tensor_bytes(y));
  __atomic_fetch_add(&ran, 1, __ATOMIC_ACQ_REL);
  return NULL;
}

static const td_op_def ops[] = {
    {.type = "TestSlow",
     .sig = "x: float -> y: float",
     .shape = td_infer_same,
     .doc = "The same, late."},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "TestSlow", .device = "CPU", .run = slow_run},
    {0},
};

static const td_module module = {"two_phases", ops, kernels};

/* ---- a world ------------------------------------------------------------- */

typedef struct world {
  td_runtime *runtime;
  td_device *test[2]; /* borrowed */
  td_graph *graph;
  td_session *s;
  td_edge x; /* a feed */
} world;

static td_edge op_on(world *w, const char *device, const char *op,
                     const char *name, const td_edge *in, int n) {
  td_build b;
  td_edge e = {NULL, 0};
  td_build_init(&b, w->graph, op, name);
  td_build_flat(&b, in, n);
  b.device = device;
  OK(td_build_node(&b, &e.node));
  return e;
}

#define ON(device, op, name, ...)                                              \
  op_on(w, device, op, name, (td_edge[]){__VA_ARGS__},                         \
        (int)TD_COUNT(((td_edge[]){__VA_ARGS__})))

static void find_devices(world *w) {
  td_device **all;
  int n, found = 0;
  OK(td_runtime_devices(w->runtime, 1, &all, &n));
  for (int i = 0; i < n && found < 2; i++)
    if (strcmp(all[i]->type, "TEST") == 0) w->test[found++] = all[i];
  assert_int_equal(found, 2);
  td_runtime_drop_devices(all, n); /* the runtime has them */
}

static void world_init(world *w) {
  td_runtime_options ro = {.test_devices = 2};
  td_session_options so = {.threads = 2, .passes_off = ~0U};
  td_build b;
  OK(td_runtime_new(&ro, &w->runtime));
  find_devices(w);
  OK(td_graph_new(&w->graph));
  td_build_init(&b, w->graph, "Placeholder", "x");
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT32));
  b.device = "/cpu:0";
  w->x.port = 0;
  OK(td_build_node(&b, &w->x.node));
  OK(td_session_new(w->runtime, w->graph, &so, &w->s));
  ran = 0;
}

/* Blocks come back in stream order, perhaps a little later than the step ends.
 */
static void expect_empty(const td_device *d) {
  for (int i = 0; i < 10000; i++) {
    if (td_allocator_read_stats(d->memory).in_use == 0) return;
    usleep(1000);
  }
  fail_msg("%zu bytes of %s are lost",
           td_allocator_read_stats(d->memory).in_use, d->name);
}

static void world_end(world *w) {
  td_session_close(w->s);
  td_session_release(w->s);
  td_graph_release(w->graph);
  for (int i = 0; i < 2; i++) expect_empty(w->test[i]);
  td_runtime_release(w->runtime);
}

static td_tensor vector(float a, float b) {
  td_tensor t;
  td_shape shape = td_shape_vector(2);
  OK(td_tensor_from(TD_FLOAT32, &shape, (float[]){a, b}, &t));
  return t;
}

/* Runs `target`, and gets `fetch` where it has a node. */
static td_status *run(world *w, td_edge fetch, td_node *target, td_tensor x,
                      const td_step_options *o, td_tensor *out) {
  td_signature sig = {.feeds = &w->x,
                      .n_feeds = 1,
                      .fetches = &fetch,
                      .n_fetches = fetch.node != NULL,
                      .targets = &target,
                      .n_targets = target != NULL};
  td_status *s = td_session_run(w->s, &sig, &x, out, o);
  td_tensor_release(&x);
  return s;
}

static const td_edge nothing = {NULL, 0};

/* ---- the end of a step --------------------------------------------------- */

/* Nothing is fetched: it is over when the device is, all the same. */
static void test_waits_for_the_device(void **state) {
  world all, *w = &all;
  (void)state;
  world_init(w);
  td_edge y = ON(FIRST, "TestSlow", "slow", w->x);
  td_edge z = ON(FIRST, "Square", "square", y);
  for (int i = 1; i <= 3; i++) {
    OK(run(w, nothing, z.node, vector(1, 2), NULL, NULL));
    assert_int_equal(__atomic_load_n(&ran, __ATOMIC_ACQUIRE), i);
  }
  assert_true(td_device_test_count(w->test[0]).promised >= 6);
  world_end(w);
}

/* So is one that is cancelled, or fails elsewhere. */
static void test_waits_after_a_failure(void **state) {
  world all, *w = &all;
  (void)state;
  world_init(w);
  td_edge y = ON(FIRST, "TestSlow", "slow", w->x);
  td_step_options o = {.timeout = 5000000};
  FAILS(run(w, nothing, y.node, vector(1, 2), &o, NULL), TD_DEADLINE_EXCEEDED,
        "");
  OK(run(w, nothing, y.node, vector(1, 2), NULL, NULL));
  world_end(w);
}

/* An error that is found later is that of the step, and names the node. */
static void test_error_at_completion(void **state) {
  world all, *w = &all;
  td_tensor out;
  (void)state;
  world_init(w);
  td_edge y = ON(FIRST, "Square", "the_square", w->x);
  td_edge z = ON(FIRST, "Sqrt", "root", y);
  td_device_test_faults *doors = td_device_test_doors(w->test[0]);
  for (int fetched = 0; fetched < 2; fetched++) {
    td_fault_arm(&doors->complete, 1, false);
    td_status *s = run(w, fetched ? z : nothing, fetched ? NULL : z.node,
                       vector(1, 2), NULL, &out);
    assert_int_equal(td_status_code(s), TD_UNAVAILABLE);
    assert_string_equal(td_status_node(s), "the_square");
    assert_non_null(strstr(td_status_device(s), "TEST:0"));
    FAILS(s, TD_UNAVAILABLE, "a kernel failed");
    OK(run(w, z, NULL, vector(3, 4), NULL, &out));
    assert_true(td_tensor_get_f(&out, 1) == 4);
    td_tensor_release(&out);
  }
  world_end(w);
}

/* ---- everything fails ---------------------------------------------------- */

/* A chain over both devices and the host, with state. */
static td_edge build_all(world *w) {
  td_build b;
  td_node *v, *assign;
  td_shape shape = td_shape_vector(2);
  td_build_init(&b, w->graph, "VarHandleOp", "v");
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT32));
  td_build_attr(&b, "shape", td_attr_shape(&shape));
  b.device = SECOND;
  OK(td_build_node(&b, &v));
  td_edge y = ON(FIRST, "Square", NULL, w->x);
  for (int i = 0; i < 4; i++) y = ON(FIRST, i % 2 ? "Square" : "Sqrt", NULL, y);
  td_edge there = ON(SECOND, "AddV2", NULL, y, w->x);
  td_build_init(&b, w->graph, "AssignVariableOp", NULL);
  td_build_in(&b, (td_edge){v, 0});
  td_build_in(&b, there);
  b.device = SECOND;
  OK(td_build_node(&b, &assign));
  td_build_init(&b, w->graph, "ReadVariableOp", NULL);
  td_build_in(&b, (td_edge){v, 0});
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT32));
  td_build_control(&b, assign);
  b.device = SECOND;
  td_edge read = {NULL, 0};
  OK(td_build_node(&b, &read.node));
  td_edge z = ON(SECOND, "Neg", NULL, read);
  return ON("/cpu:0", "AddV2", NULL, z, ON(FIRST, "Neg", NULL, y));
}

static td_fault *door(world *w, int device, int which) {
  td_device_test_faults *doors = td_device_test_doors(w->test[device]);
  return which == 0   ? &doors->enqueue
         : which == 1 ? &doors->copy
                      : &doors->complete;
}

/* The n-th call of each kind on each device, once and from then on. */
static void test_nth_failure(void **state) {
  static const char *const what[] = {"enqueueing failed", "a copy failed",
                                     "a kernel failed"};
  (void)state;
  for (int kind = 0; kind < 12; kind++) {
    world all, *w = &all;
    td_tensor out;
    int64_t nth = 1;
    world_init(w);
    td_edge y = build_all(w);
    td_fault *f = door(w, kind & 1, kind / 4);
    for (;; nth++) {
      td_fault_arm(f, nth, kind & 2);
      td_status *s = run(w, y, NULL, vector(1, 2), NULL, &out);
      td_fault_arm(f, 0, false);
      if (td_ok(s)) break;
      FAILS(s, TD_UNAVAILABLE, what[kind / 4]);
    }
    assert_true(nth > 1);
    assert_true(td_tensor_get_f(&out, 1) == -(4 + 2) - 4);
    td_tensor_release(&out);
    world_end(w);
  }
}

/* ---- between devices ----------------------------------------------------- */

static void test_peers(void **state) {
  world all, *w = &all;
  td_tensor out;
  (void)state;
  world_init(w);
  td_edge y = ON(FIRST, "Square", NULL, w->x);
  for (int i = 0; i < 6; i++) y = ON(i % 2 ? FIRST : SECOND, "Neg", NULL, y);
  OK(run(w, y, NULL, vector(3, 4), NULL, &out));
  assert_true(td_tensor_get_f(&out, 0) == 9);
  assert_int_equal(td_device_test_count(w->test[1]).peers, 3);
  assert_int_equal(td_device_test_count(w->test[0]).peers, 3);
  td_tensor_release(&out);
  world_end(w);
}

/* ---- numerics ------------------------------------------------------------ */

/* The first NaN on a device is found and named like one on the host. */
static void test_numerics(void **state) {
  (void)state;
  for (int there = 0; there < 2; there++) {
    world all, *w = &all;
    const char *device = there ? FIRST : "/cpu:0";
    td_step_options o = {.check_numerics = true};
    td_tensor out;
    world_init(w);
    td_edge y = ON(device, "Square", NULL, ON(device, "Log", "log", w->x));
    td_status *s = run(w, y, NULL, vector(-1, 2), &o, &out);
    assert_string_equal(td_status_node(s), "log");
    FAILS(s, TD_INVALID_ARGUMENT,
          "output 0 holds 1 NaN of 2 numbers; input 0 is float32 {2}, -1 to 2, "
          "mean 0.5");
    OK(run(w, y, NULL, vector(1, 1), &o, &out));
    assert_true(td_tensor_get_f(&out, 1) == 0);
    td_tensor_release(&out);
    if (there) {
      td_fault_arm(&td_device_test_doors(w->test[0])->copy, 2, false);
      FAILS(run(w, y, NULL, vector(1, 1), &o, &out), TD_UNAVAILABLE,
            "a copy failed");
    }
    world_end(w);
  }
}

static int begin(void **state) {
  (void)state;
  OK(td_op_register(&module));
  OK(td_kernel_register(&module));
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_waits_for_the_device),
      cmocka_unit_test(test_waits_after_a_failure),
      cmocka_unit_test(test_error_at_completion),
      cmocka_unit_test(test_nth_failure),
      cmocka_unit_test(test_peers),
      cmocka_unit_test(test_numerics),
  };
  return cmocka_run_group_tests(tests, begin, NULL);
}
