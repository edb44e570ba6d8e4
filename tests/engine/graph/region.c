/* region.c - tests of regions: names, what stays, what goes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/graph_check.h"
#include "engine/graph/node_edit.h"
#include "engine/graph/region.h"

#include "ops.h"

typedef struct world {
  td_graph *g;
  td_region *old, *fresh;
  td_node *x, *y, *user; /* x -> y, of `old`; y -> user, of the graph */
} world;

static td_node *identity(td_graph *g, td_node *of, const char *name) {
  td_build b;
  td_node *n;
  td_build_init(&b, g, "TestIdentity", name);
  td_build_in(&b, (td_edge){of, 0});
  OK(td_build_node(&b, &n));
  return n;
}

static td_region *begin(td_graph *g) {
  td_region *r;
  OK(td_region_new(g, &r));
  td_region_enter(r);
  return r;
}

static td_node *source(td_graph *g, const char *name) {
  return placeholder(g, TD_FLOAT32, td_shape_vector(2), name).node;
}

static world new_world(void) {
  world w = {.g = new_graph()};
  w.old = begin(w.g);
  w.x = source(w.g, "x");
  w.y = identity(w.g, w.x, "y");
  td_region_enter(NULL);
  return w;
}

static void end(world *w) {
  td_region_enter(NULL);
  td_region_release(w->old);
  td_region_release(w->fresh);
  td_graph_release(w->g);
}

static int32_t sweep(td_graph *g) {
  int32_t n;
  OK(td_region_sweep(g, &n));
  OK(td_graph_verify(g));
  return n;
}

static void what_nobody_uses_goes(void **state) {
  (void)state;
  world w = new_world();
  source(w.g, "other");
  uint64_t cuts = td_graph_removals(w.g), serial = td_graph_next_serial(w.g);
  OK(td_region_retire(w.old, "cell In[1] ran again"));
  OK(td_graph_verify(w.g));
  assert_string_equal(w.x->name, "x.old");
  assert_true(td_region_has_old_name(w.x));
  w.fresh = begin(w.g);
  td_node *x = source(w.g, "x"), *more = source(w.g, "x");
  assert_string_equal(x->name, "x");
  assert_string_equal(more->name, "x_1");
  assert_int_equal(x->serial, serial);
  assert_int_equal(sweep(w.g), 2);
  assert_int_equal(td_graph_size(w.g), 3);
  assert_true(td_graph_removals(w.g) > cuts);
  assert_true(w.x->gone && w.y->gone && !x->gone);
  assert_int_equal(w.y->n_in, 0);
  assert_string_equal(w.y->name, "y");
  assert_int_equal(td_region_read_stats(w.old).nodes, 0);
  td_build b;
  td_node *none;
  td_build_init(&b, w.g, "TestIdentity", "z");
  td_build_in(&b, (td_edge){w.y, 0});
  FAILS(td_build_node(&b, &none), TD_FAILED_PRECONDITION,
        "node \"y\" was replaced when cell In[1] ran again");
  FAILS(td_node_add_control(x, w.x), TD_FAILED_PRECONDITION, "\"x\" was");
  FAILS(td_node_add_control(w.x, x), TD_FAILED_PRECONDITION, "\"x\" was");
  end(&w);
}

static void what_is_used_stays(void **state) {
  (void)state;
  world w = new_world();
  w.user = identity(w.g, w.y, "user");
  OK(td_region_retire(w.old, "a"));
  w.fresh = begin(w.g);
  td_node *x = source(w.g, "x");
  td_region_enter(NULL);
  assert_int_equal(sweep(w.g), 0);
  assert_string_equal(w.x->name, "x.old"); /* the name is taken */
  assert_string_equal(w.y->name, "y");
  assert_ptr_equal(td_graph_find(w.g, "x"), x);
  td_region *users[8];
  int n;
  OK(td_region_users(w.g, &w.old, 1, users, &n));
  assert_int_equal(n, 2); /* its own, and the graph's for `user` */
  assert_ptr_equal(users[0], w.old);
  assert_true(td_region_is_root(users[1]));
  OK(td_region_retire(w.old, "a")); /* again */
  assert_string_equal(w.y->name, "y.old");
  OK(td_region_retire(w.fresh, "b"));
  assert_int_equal(sweep(w.g), 1);
  assert_string_equal(w.x->name, "x");
  td_region_restore(w.old);
  assert_false(td_region_retired(w.old));
  end(&w);
}

static void reserved_names_and_numbers_are_free(void **state) {
  (void)state;
  const char *name;
  td_graph *g = new_graph();
  source(g, "n");
  td_region *r = begin(g);
  OK(td_graph_unique(g, "scope", &name));
  source(g, "n");
  OK(td_region_retire(r, "a"));
  td_region_enter(NULL);
  assert_int_equal(sweep(g), 1);
  OK(td_graph_unique(g, "scope", &name));
  assert_string_equal(name, "scope");
  assert_string_equal(source(g, "n")->name, "n_1");
  td_region_release(r);
  td_graph_release(g);
}

static const char *class_of(const td_node *n) {
  return td_node_attr(n, "_class")->ss[0].at;
}

static void colocation_follows(void **state) {
  (void)state;
  world w = new_world();
  td_bytes text = {"loc:@x", 6};
  td_attr with = {
      .kind = TD_ATTR_STRING, .is_list = true, .len = 1, .ss = &text};
  td_node *n = source(w.g, "beside");
  OK(td_node_set_note(n, "_class", with));
  OK(td_region_retire(w.old, "a"));
  assert_string_equal(class_of(n), "loc:@x.old");
  assert_int_equal(sweep(w.g), 1); /* y */
  assert_string_equal(class_of(n), "loc:@x");
  end(&w);
}

static void flows_are_used_again(void **state) {
  (void)state;
  int32_t outer, inner, again;
  td_graph *g = new_graph();
  td_region *r = begin(g);
  OK(td_graph_flow(g, 0, 'w', "outer", &outer));
  OK(td_graph_flow(g, outer, 'c', "inner", &inner));
  td_build b;
  td_node *n;
  td_build_init(&b, g, "TestNoOp", "n");
  b.flow = inner;
  OK(td_build_node(&b, &n));
  td_region_enter(NULL);
  sweep(g);
  assert_int_equal(td_graph_flow_at(g, inner)->kind, 'c');
  assert_int_equal(td_graph_flow_at(g, outer)->kind, 'w');
  OK(td_region_retire(r, "a"));
  assert_int_equal(sweep(g), 1);
  OK(td_graph_flow(g, 0, 'c', "again", &again));
  assert_int_equal(again, outer);
  td_region_release(r);
  td_graph_release(g);
}

static void a_final_graph_stays(void **state) {
  (void)state;
  world w = new_world();
  td_graph_finalize(w.g);
  FAILS(td_region_retire(w.old, "a"), TD_FAILED_PRECONDITION, "final");
  assert_string_equal(w.x->name, "x");
  end(&w);
}

static void graphs_may_go_first(void **state) {
  (void)state;
  const char *name;
  world w = new_world();
  td_region_enter(w.old);
  OK(td_graph_unique(w.g, "kept", &name));
  td_region_enter(NULL);
  td_graph_release(w.g);
  assert_string_equal(w.x->name, "x"); /* the region holds it */
  td_region_release(w.old);
}

static td_status *rerun(void *arg) {
  world *w = arg;
  int32_t n;
  TD_TRY(td_region_retire(w->old, "a"));
  TD_TRY(td_region_retire(w->fresh, "b"));
  return td_region_sweep(w->g, &n);
}

static void no_memory(void **state) {
  (void)state;
  world w = new_world();
  w.user = identity(w.g, w.y, "user");
  w.fresh = begin(w.g);
  for (int i = 0; i < 50; i++) source(w.g, "more");
  td_region_enter(NULL);
  print_message("%lld allocations failed\n", (long long)fail_each(rerun, &w));
  OK(td_graph_verify(w.g));
  assert_int_equal(td_graph_size(w.g), 3);
  assert_string_equal(w.y->name, "y");
  end(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_nobody_uses_goes),
      cmocka_unit_test(what_is_used_stays),
      cmocka_unit_test(reserved_names_and_numbers_are_free),
      cmocka_unit_test(colocation_follows),
      cmocka_unit_test(flows_are_used_again),
      cmocka_unit_test(a_final_graph_stays),
      cmocka_unit_test(graphs_may_go_first),
      cmocka_unit_test(no_memory),
  };
  return cmocka_run_group_tests(tests, register_ops, NULL);
}
