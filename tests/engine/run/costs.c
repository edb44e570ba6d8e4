/* costs.c - measured times outlive programs, and belong to nodes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/run/rig.h"

#include "engine/run/program_impl.h"
#include "engine/run/session_impl.h"

typedef struct bench {
  rig r;
  td_session *s;
} bench;

static void bench_init(bench *b, int cache) {
  rig_init(&b->r);
  td_session_options o = {.threads = 2, .cache = cache};
  OK(td_session_new(b->r.runtime, b->r.graph, &o, &b->s));
}

static void bench_deinit(bench *b) {
  td_session_release(b->s);
  rig_deinit(&b->r);
}

static void run(bench *b, td_edge fetch) {
  td_signature sig = {.fetches = &fetch, .n_fetches = 1};
  td_tensor out;
  OK(td_session_run(b->s, &sig, NULL, &out, NULL));
  td_tensor_release(&out);
}

typedef struct wanted {
  const char *name;
  int64_t ns;
} wanted;

static void look_for(void *arg, const td_device *d, const char *node,
                     int64_t ns) {
  wanted *w = arg;
  (void)d;
  if (strcmp(node, w->name) == 0) w->ns = ns;
}

/* What is known of node `name` for a step of this fetch, -1: it has no such
 * node. */
static int64_t known(bench *b, td_edge fetch, const char *name) {
  td_signature sig = {.fetches = &fetch, .n_fetches = 1};
  td_compiled *c;
  wanted w = {name, -1};
  OK(td_session_lookup(b->s, &sig, &c));
  c->participants[0]->ops->costs(c->enrollments[0], look_for, &w);
  td_compiled_release(c);
  return w.ns;
}

static td_edge shaken(rig *r) {
  td_build b;
  td_node *n;
  td_tensor size;
  td_shape one = td_shape_vector(1);
  OK(td_tensor_from(TD_INT32, &one, (int32_t[]){1000}, &size));
  td_build_init(&b, r->graph, "Const", NULL);
  td_build_attr(&b, "dtype", td_attr_type(TD_INT32));
  td_build_attr(&b, "value", td_attr_tensor(&size));
  OK(td_build_node(&b, &n));
  td_tensor_release(&size);
  td_build_init(&b, r->graph, "RandomUniform", "x");
  td_build_in(&b, (td_edge){n, 0});
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT64));
  OK(td_build_node(&b, &n));
  return (td_edge){n, 0};
}

/* A signature that was evicted, and another with the same nodes. */
static void test_known_when_it_comes_again(void **state) {
  bench b;
  (void)state;
  bench_init(&b, 1);
  td_edge x = shaken(&b.r), y = NODE(&b.r, "Exp", "y", x);
  td_edge z = NODE(&b.r, "Neg", "z", x);
  assert_int_equal(known(&b, y, "x"), 0);
  run(&b, y);
  int64_t ns = known(&b, y, "x");
  assert_true(ns > 0);
  assert_int_equal(known(&b, z, "x"), ns);
  assert_int_equal(known(&b, z, "z"), 0);
  assert_int_equal(td_session_read_stats(b.s).evicted, 1);
  assert_int_equal(known(&b, y, "x"), ns);
  assert_true(known(&b, y, "y") > 0);
  assert_int_equal(known(&b, y, "z"), -1);
  td_signature sig = {.fetches = &y, .n_fetches = 1};
  td_compiled *c;
  OK(td_session_lookup(b.s, &sig, &c));
  /* Before it ran. */
  assert_true(c->participants[0]->ops->cost(c->enrollments[0]) > ns);
  td_compiled_release(c);
  bench_deinit(&b);
}

/* In a loop, a node's time is that of one iteration. */
static void test_loops(void **state) {
  bench b;
  (void)state;
  bench_init(&b, 1);
  td_edge x = shaken(&b.r), never = make_endless(&b.r);
  td_signature sig = {.fetches = &never, .n_fetches = 1};
  td_step_options o = {.timeout = 20000000};
  td_tensor out;
  FAILS(td_session_run(b.s, &sig, NULL, &out, &o), TD_DEADLINE_EXCEEDED, "");
  int64_t ns = known(&b, never, "endless_add");
  assert_true(ns > 0);
  run(&b, x);
  assert_int_equal(known(&b, never, "endless_add"), ns);
  bench_deinit(&b);
}

/* ---- the table ----------------------------------------------------------- */

static void test_by_node_and_device(void **state) {
  rig r;
  td_device *other;
  td_costs *c;
  td_measured *m[4] = {NULL};
  (void)state;
  rig_init(&r);
  OK(td_runtime_cpu(r.runtime, 1, &other));
  OK(td_costs_new(&c));
  td_node n = *shaken(&r).node;
  OK(td_costs_get(c, r.device, &n, &m[0]));
  OK(td_costs_get(c, r.device, &n, &m[1]));
  OK(td_costs_get(c, other, &n, &m[2]));
  assert_ptr_equal(m[0], m[1]);
  assert_ptr_not_equal(m[0], m[2]);
  m[0]->ns = 5;
  td_costs_put(c, m, 4);
  OK(td_costs_get(c, r.device, &n, &m[0]));
  assert_int_equal(m[0]->ns, 5);
  n.serial++; /* another node of that name */
  OK(td_costs_get(c, r.device, &n, &m[1]));
  assert_int_equal(m[1]->ns, 0);
  td_costs_put(c, m, 2);
  td_costs_release(c);
  rig_deinit(&r);
}

/* Names that never come again do not stay for ever; those in use do. */
static void test_bounded(void **state) {
  rig r;
  td_costs *c;
  td_measured *kept, *m;
  char name[32] = "kept";
  (void)state;
  rig_init(&r);
  OK(td_costs_new(&c));
  td_node n = *shaken(&r).node;
  n.name = name;
  OK(td_costs_get(c, r.device, &n, &kept));
  kept->ns = 7;
  for (int i = 0; i < 100000; i++) {
    snprintf(name, sizeof name, "node_%d", i);
    OK(td_costs_get(c, r.device, &n, &m));
    m->ns = 1;
    td_costs_put(c, &m, 1);
  }
  snprintf(name, sizeof name, "node_0");
  OK(td_costs_get(c, r.device, &n, &m));
  assert_int_equal(m->ns, 0);
  td_costs_put(c, &m, 1);
  snprintf(name, sizeof name, "kept");
  OK(td_costs_get(c, r.device, &n, &m));
  assert_ptr_equal(m, kept);
  assert_int_equal(m->ns, 7);
  td_costs_put(c, (td_measured *[]){m, kept}, 2);
  td_costs_release(c);
  rig_deinit(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_known_when_it_comes_again),
      cmocka_unit_test(test_loops),
      cmocka_unit_test(test_by_node_and_device),
      cmocka_unit_test(test_bounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
