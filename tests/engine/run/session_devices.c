/* session_devices.c - devices that come and go while sessions live.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/run/rig.h"

#include <pthread.h>

#include "engine/run/callable.h"
#include "engine/run/partial.h"

typedef struct world {
  rig r;
  td_session *s;
  td_device *test; /* the last one added */
} world;

/* Nothing is folded: what is computed is computed on a device. One plan is
 * kept: who runs two signatures in turn plans each time. */
static td_status *new_session(world *w, td_session **out) {
  td_session_options o = {.passes_off = td_plan_pass_bit("fold"), .cache = 1};
  return td_session_new(w->r.runtime, w->r.graph, &o, out);
}

static void world_init(world *w) {
  rig_init(&w->r);
  w->test = NULL;
  OK(new_session(w, &w->s));
}

static void world_deinit(world *w) {
  td_device_release(w->test);
  td_session_release(w->s);
  rig_deinit(&w->r);
}

static void add_test(world *w) {
  td_device_release(w->test);
  OK(td_device_test_new("/job:localhost/replica:0/task:0", 0, 1, NULL,
                        &w->test));
  OK(td_runtime_add_device(w->r.runtime, w->test));
}

static td_edge on_test(world *w, const char *op, const char *name,
                       const td_edge *in, int n, const char *attr, td_attr a) {
  td_build b;
  td_node *node;
  td_build_init(&b, w->r.graph, op, name);
  b.device = "/device:TEST:0";
  td_build_flat(&b, in, n);
  if (attr) td_build_attr(&b, attr, a);
  OK(td_build_node(&b, &node));
  return (td_edge){node, 0};
}

/* -x, on TEST:0 while there is one. */
static td_edge negative(world *w, const char *name, td_edge x) {
  return on_test(w, "Neg", name, &x, 1, NULL, (td_attr){0});
}

static td_status *fetch(td_session *s, td_edge y, double *out) {
  td_tensor got;
  td_signature sig = {.fetches = &y, .n_fetches = 1};
  td_status *st = td_session_run(s, &sig, NULL, &got, NULL);
  if (td_ok(st)) *out = td_tensor_get_f(&got, 0);
  td_tensor_release(&got);
  return st;
}

static void assert_gives(world *w, td_edge y, double want) {
  double got = 0;
  OK(fetch(w->s, y, &got));
  assert_true(got == want);
}

static void assert_explains(world *w, const char *line) {
  td_str text;
  td_str_init(&text);
  td_session_explain_placement(w->s, &text);
  if (!strstr(td_str_c(&text), line))
    fail_msg("\"%s\" lacks \"%s\"", td_str_c(&text), line);
  td_str_deinit(&text);
}

static int devices_of(td_session *s) {
  td_device **all;
  int n;
  OK(td_session_list_devices(s, &all, &n));
  td_runtime_drop_devices(all, n);
  return n;
}

/* Nobody else holds it, once what its threads are about is over. */
static void assert_let_go(const td_device *d) {
  struct timespec t = {.tv_nsec = 1000000};
  for (int i = 0; i < 20000 && __atomic_load_n(&d->refs, __ATOMIC_ACQUIRE) > 1;
       i++)
    nanosleep(&t, NULL);
  assert_int_equal(__atomic_load_n(&d->refs, __ATOMIC_ACQUIRE), 1);
}

/* ---- coming -------------------------------------------------------------- */

/* What was planned stays where it is; the next plan uses the new device. */
static void test_added(void **state) {
  (void)state;
  world w;
  world_init(&w);
  td_edge x = make_const(&w.r, TD_FLOAT64, 2, NULL);
  td_edge y = negative(&w, "y", x), z = negative(&w, "z", y);
  assert_gives(&w, y, -2);
  assert_explains(&w, "Neg (y) -> CPU:0: asks for \"/device:TEST:0\", which "
                      "cannot be had");
  assert_int_equal(devices_of(w.s), 1);
  add_test(&w);
  assert_int_equal(devices_of(w.s), 2);
  assert_explains(&w, "Neg (y) -> TEST:0: asks for \"/device:TEST:0\"\n");
  FAILS(td_runtime_add_device(w.r.runtime, w.test), TD_ALREADY_EXISTS,
        "there is a device /job:localhost/replica:0/task:0/device:TEST:0");
  int64_t plans = td_session_read_stats(w.s).plans;
  assert_gives(&w, y, -2);
  assert_int_equal(td_session_read_stats(w.s).plans, plans);
  assert_gives(&w, z, 2);
  td_plan *p;
  td_signature sig = {.fetches = &z, .n_fetches = 1};
  OK(td_session_plan(w.s, &sig, &p));
  assert_int_equal(p->n_parts, 1);
  assert_ptr_equal(p->parts[0].device, w.test);
  td_plan_free(p);
  world_deinit(&w);
}

/* Two sessions place one graph in their own ways at once. */
static void test_two_sessions(void **state) {
  (void)state;
  world w;
  td_session *other;
  td_plan *p;
  world_init(&w);
  add_test(&w);
  td_session_options o = {.first = "TEST"};
  OK(td_session_new(w.r.runtime, w.r.graph, &o, &other));
  td_build b;
  td_node *x;
  td_shape scalar = td_shape_scalar();
  td_build_init(&b, w.r.graph, "Placeholder", "x");
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT64));
  td_build_attr(&b, "shape", td_attr_shape(&scalar));
  OK(td_build_node(&b, &x));
  td_edge feed = {x, 0}, y = NODE(&w.r, "Neg", "y", feed);
  td_signature sig = {
      .feeds = &feed, .n_feeds = 1, .fetches = &y, .n_fetches = 1};
  for (int i = 0; i < 6; i++) {
    OK(td_session_plan(i % 2 ? other : w.s, &sig, &p));
    assert_string_equal(p->parts[0].device->type, i % 2 ? "TEST" : "CPU");
    assert_int_equal(y.node->placed, -1);
    td_plan_free(p);
  }
  td_session_release(other);
  world_deinit(&w);
}

/* ---- going --------------------------------------------------------------- */

static void test_removed(void **state) {
  (void)state;
  world w;
  world_init(&w);
  add_test(&w);
  td_edge x = make_const(&w.r, TD_FLOAT64, 2, NULL);
  td_edge y = negative(&w, "y", x);
  td_signature sig = {.fetches = &y, .n_fetches = 1};
  td_callable *c;
  td_tensor got;
  OK(td_callable_new(w.s, &sig, &c));
  assert_gives(&w, y, -2);
  OK(td_runtime_remove_device(w.r.runtime, w.test, false));
  FAILS(td_runtime_remove_device(w.r.runtime, w.test, false), TD_NOT_FOUND,
        "there is no device");
  FAILS(td_runtime_remove_device(w.r.runtime, w.r.device, true),
        TD_INVALID_ARGUMENT, "CPU devices are made on demand");
  assert_int_equal(devices_of(w.s), 1);
  assert_gives(&w, y, -2); /* planned anew */
  for (int i = 0; i < 2; i++) {
    OK(td_callable_run(c, NULL, &got, NULL)); /* this one too, once */
    td_tensor_release(&got);
  }
  assert_int_equal(td_session_read_stats(w.s).plans, 2);
  assert_explains(&w, "Neg (y) -> CPU:0: asks for");
  td_callable_release(c);
  assert_let_go(w.test);
  world_deinit(&w);
}

static td_edge variable(world *w, const char *name, const char *container) {
  td_build b;
  td_node *n;
  td_shape shape = td_shape_scalar();
  td_build_init(&b, w->r.graph, "VarHandleOp", name);
  b.device = "/device:TEST:0";
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT64));
  td_build_attr(&b, "shape", td_attr_shape(&shape));
  td_build_attr(&b, "container", td_attr_string(container));
  OK(td_build_node(&b, &n));
  return (td_edge){n, 0};
}

static td_node *assign(world *w, td_edge v, td_edge x) {
  td_edge in[] = {v, x};
  return on_test(w, "AssignVariableOp", NULL, in, 2, "dtype",
                 td_attr_type(TD_FLOAT64))
      .node;
}

static void run_targets(world *w, td_node **targets, int n) {
  td_signature sig = {.targets = targets, .n_targets = n};
  OK(td_session_run(w->s, &sig, NULL, NULL, NULL));
}

/* A device with variables stays; with them dropped it goes, and they begin
 * again elsewhere. */
static void test_variables(void **state) {
  (void)state;
  world w;
  world_init(&w);
  add_test(&w);
  td_edge x = make_const(&w.r, TD_FLOAT64, 2, NULL);
  td_edge v = variable(&w, "v", ""), u = variable(&w, "u", "shared");
  td_node *init[] = {assign(&w, v, x), assign(&w, u, x)};
  td_edge read = on_test(&w, "ReadVariableOp", "read", &v, 1, "dtype",
                         td_attr_type(TD_FLOAT64));
  run_targets(&w, init, 2);
  assert_gives(&w, read, 2);
  FAILS(td_runtime_remove_device(w.r.runtime, w.test, false),
        TD_FAILED_PRECONDITION,
        "TEST:0 holds variables, which would be lost: "
        "u, v; save them");
  assert_gives(&w, read, 2);
  OK(td_runtime_remove_device(w.r.runtime, w.test, true));
  double got;
  FAILS(fetch(w.s, read, &got), TD_FAILED_PRECONDITION, "v");
  run_targets(&w, init, 2);
  assert_gives(&w, read, 2);
  assert_explains(&w, "VarHandleOp (v) -> CPU:0: ");
  world_deinit(&w);
}

/* What has a state but no variable to be lost is refused by name afterwards. */
static void test_bound_to_what_is_gone(void **state) {
  (void)state;
  world w;
  world_init(&w);
  add_test(&w);
  td_edge x = make_const(&w.r, TD_FLOAT64, 2, NULL);
  td_edge v = variable(&w, "v", "");
  td_edge read = on_test(&w, "ReadVariableOp", "read", &v, 1, "dtype",
                         td_attr_type(TD_FLOAT64));
  assert_explains(&w, "VarHandleOp (v) -> TEST:0: ");
  OK(td_runtime_remove_device(w.r.runtime, w.test, false));
  double got;
  FAILS(fetch(w.s, read, &got), TD_UNAVAILABLE,
        "it must be with VarHandleOp \"v\", which is on TEST:0 for good, and "
        "that device was removed");
  assert_gives(&w, negative(&w, "y", x), -2); /* others go on */
  add_test(&w); /* another of that name is another device */
  FAILS(fetch(w.s, read, &got), TD_UNAVAILABLE, "was removed");
  world_deinit(&w);
}

/* A step under way ends, and says why. */
static void test_step_under_way(void **state) {
  (void)state;
  world w;
  world_init(&w);
  add_test(&w);
  td_build b;
  td_node *x;
  td_shape scalar = td_shape_scalar();
  td_build_init(&b, w.r.graph, "Placeholder", "x");
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT64));
  td_build_attr(&b, "shape", td_attr_shape(&scalar));
  OK(td_build_node(&b, &x));
  td_edge feed = {x, 0}, y = negative(&w, "y", feed);
  td_signature sig = {
      .feeds = &feed, .n_feeds = 1, .fetches = &y, .n_fetches = 1};
  td_partial *p;
  td_tensor in, got;
  int first = 0;
  td_step_options o = {.timeout = INT64_C(120000000000)};
  OK(td_tensor_scalar_f(TD_FLOAT64, 2, &in));
  OK(td_partial_new(w.s, &sig, NULL, &p));
  OK(td_runtime_remove_device(w.r.runtime, w.test, false));
  FAILS(td_partial_run(p, &first, &in, 1, &first, &got, 1, &o), TD_UNAVAILABLE,
        "device /job:localhost/replica:0/task:0/device:TEST:0, which the step "
        "was planned for, was removed");
  td_partial_release(p);
  td_tensor_release(&in);
  world_deinit(&w);
}

/* ---- many at once -------------------------------------------------------- */

typedef struct runner {
  world *w;
  td_edge y[2];
  bool calls;            /* a callable, made anew now and then */
  td_callable *callable; /* or NULL */
  int *stop;             /* atomic */
  td_status *bad;        /* what a step must not end with */
  int64_t ran, ended;    /* steps that gave a value; that were ended */
} runner;

static td_status *step(runner *a, int64_t i, double *out) {
  td_tensor got;
  if (!a->calls) return fetch(a->w->s, a->y[i % 2], out);
  if (i % 100 == 0) {
    td_signature sig = {.fetches = a->y, .n_fetches = 1};
    td_callable_release(a->callable);
    a->callable = NULL;
    TD_TRY(td_callable_new(a->w->s, &sig, &a->callable));
  }
  if (!a->callable) return td_error(TD_UNAVAILABLE, "device:TEST:0 before");
  td_status *s = td_callable_run(a->callable, NULL, &got, NULL);
  if (td_ok(s)) *out = td_tensor_get_f(&got, 0);
  td_tensor_release(&got);
  return s;
}

static bool stopped(const runner *a) {
  return __atomic_load_n(a->stop, __ATOMIC_RELAXED);
}

static void *run_steps(void *arg) {
  runner *a = arg;
  for (int64_t i = 0; !a->bad && (!stopped(a) || !a->ran); i++) {
    double got = 0;
    td_status *s = step(a, i, &got);
    if (td_ok(s) && got == -2)
      a->ran++;
    else if (td_status_code(s) == TD_UNAVAILABLE &&
             strstr(td_status_message(s), "device:TEST:0"))
      a->ended++;
    else
      a->bad = td_ok(s) ? td_error(TD_INTERNAL, "a step gave %g", got)
                        : td_status_retain(s);
    td_status_release(s);
  }
  return NULL;
}

/* Sessions begin and end, too. */
static void *make_sessions(void *arg) {
  runner *a = arg;
  while (!a->bad && (!stopped(a) || !a->ran)) {
    td_session *s = NULL;
    double got = 0;
    td_status *st = new_session(a->w, &s);
    if (td_ok(st)) st = fetch(s, a->y[0], &got);
    if (td_ok(st))
      a->ran++;
    else if (td_status_code(st) == TD_UNAVAILABLE)
      td_status_release(st);
    else
      a->bad = st;
    td_session_release(s);
  }
  return NULL;
}

static void test_come_and_go(void **state) {
  (void)state;
  world w;
  int stop = 0;
  world_init(&w);
  td_edge x = make_const(&w.r, TD_FLOAT64, 2, NULL);
  td_edge id = NODE(&w.r, "Identity", NULL, x);
  td_edge y = negative(&w, "y", id), z = negative(&w, "z", id);
  runner all[4];
  pthread_t thread[4];
  for (int i = 0; i < 4; i++) {
    all[i] = (runner){.w = &w, .y = {y, z}, .calls = i == 1, .stop = &stop};
    assert_int_equal(pthread_create(&thread[i], NULL,
                                    i == 3 ? make_sessions : run_steps,
                                    &all[i]),
                     0);
  }
  int n = rounds(200, 4000);
  for (int i = 0; i < n; i++) {
    struct timespec t = {.tv_nsec = i % 7 * 300000};
    add_test(&w);
    nanosleep(&t, NULL);
    OK(td_runtime_remove_device(w.r.runtime, w.test, i % 2));
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < 4; i++) {
    pthread_join(thread[i], NULL);
    OK(all[i].bad);
    print_message("%lld steps ran, %lld were ended\n", (long long)all[i].ran,
                  (long long)all[i].ended);
    td_callable_release(all[i].callable);
  }
  assert_gives(&w, y, -2);
  assert_let_go(w.test);
  world_deinit(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_added),
      cmocka_unit_test(test_two_sessions),
      cmocka_unit_test(test_removed),
      cmocka_unit_test(test_variables),
      cmocka_unit_test(test_bound_to_what_is_gone),
      cmocka_unit_test(test_step_under_way),
      cmocka_unit_test(test_come_and_go),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
