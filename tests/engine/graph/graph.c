/* graph.c - tests of engine/graph/graph.h: names, references, life.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops.h"
#include "engine/graph/build.h"
#include "engine/graph/graph_check.h"
#include "engine/graph/node_edit.h"

#include <pthread.h>
#include <stdio.h>

static td_node *no_op(td_graph *g, const char *name, bool exact) {
  td_build b;
  td_node *n;
  td_build_init(&b, g, "TestNoOp", name);
  b.exact_name = exact;
  OK(td_build_node(&b, &n));
  return n;
}

static void names_are_unique(void **state) {
  (void)state;
  td_graph *g = new_graph();
  const char *name;
  assert_string_equal(no_op(g, "x", false)->name, "x");
  assert_string_equal(no_op(g, "x", false)->name, "x_1");
  assert_string_equal(no_op(g, "x_2", false)->name, "x_2");
  assert_string_equal(no_op(g, "x", false)->name, "x_3");
  assert_string_equal(no_op(g, "x_1", false)->name, "x_1_1");
  assert_string_equal(no_op(g, NULL, false)->name, "TestNoOp");
  assert_string_equal(no_op(g, NULL, false)->name, "TestNoOp_1");
  OK(td_graph_unique(g, "scope", &name));
  assert_string_equal(name, "scope");
  OK(td_graph_unique(g, "scope", &name));
  assert_string_equal(name, "scope_1");
  assert_null(td_graph_find(g, "scope"));
  assert_string_equal(no_op(g, "scope", false)->name, "scope_2");
  td_node *n = no_op(g, "scope_1", true); /* who reserved it may use it */
  assert_ptr_equal(td_graph_find(g, "scope_1"), n);
  td_graph_release(g);
}

static void exact_names(void **state) {
  (void)state;
  td_graph *g = new_graph();
  td_build b;
  td_node *n;
  no_op(g, "x", false);
  td_build_init(&b, g, "TestNoOp", "x");
  b.exact_name = true;
  FAILS(td_build_node(&b, &n), TD_ALREADY_EXISTS, "a node \"x\" exists");
  assert_null(n);
  assert_string_equal(no_op(g, "_hidden", true)->name, "_hidden");
  td_build_init(&b, g, "_TestOwn", NULL);
  OK(td_build_node(&b, &n));
  assert_string_equal(n->name, "TestOwn");
  td_graph_release(g);
}

static void names_have_rules(void **state) {
  (void)state;
  static const char *const good[] = {"a", "A.b_c/d-e", "0", ".x", "a/", "a//b"};
  static const char *const bad[] = {"",    "_a", "/a",       "-a",  "a b",
                                    "a:0", "^a", "\xc3\xa9", "a\n", "a\\"};
  td_graph *g = new_graph();
  const char *name;
  for (size_t i = 0; i < TD_COUNT(good); i++)
    assert_string_equal(no_op(g, good[i], false)->name, good[i]);
  for (size_t i = 0; i < TD_COUNT(bad); i++) {
    td_build b;
    td_node *n;
    td_build_init(&b, g, "TestNoOp", bad[i]);
    FAILS(td_build_node(&b, &n), TD_INVALID_ARGUMENT, "a name must be");
    FAILS(td_graph_unique(g, bad[i], &name), TD_INVALID_ARGUMENT,
          "a name must be");
  }
  size_t len = (1 << 16) + 1;
  char *big = td_calloc(1, len + 1);
  memset(big, 'a', len);
  FAILS(td_graph_unique(g, big, &name), TD_INVALID_ARGUMENT, "65536 bytes");
  big[len - 1] = '\0';
  OK(td_graph_unique(g, big, &name));
  td_free(big);
  assert_int_equal(td_graph_size(g), TD_COUNT(good));
  td_graph_release(g);
}

static void references(void **state) {
  (void)state;
  static const struct {
    const char *ref, *node;
    int port;
    td_code code;
    const char *part;
  } rows[] = {
      {"layer/split", "layer/split", 0, TD_OK, ""},
      {"layer/split:0", "layer/split", 0, TD_OK, ""},
      {"layer/split:2", "layer/split", 2, TD_OK, ""},
      {"^layer/split", "layer/split", -1, TD_OK, ""},
      {"^done", "done", -1, TD_OK, ""},
      {"layer/split:3", "", 0, TD_NOT_FOUND, "TestSplit gives 3 outputs"},
      {"done", "", 0, TD_NOT_FOUND, "TestNoOp gives 0 outputs"},
      {"layer/spilt", "", 0, TD_NOT_FOUND, "did you mean \"layer/split\"?"},
      {"nothing like it", "", 0, TD_NOT_FOUND, "no node \"nothing like it\""},
      {"layer/split:", "", 0, TD_INVALID_ARGUMENT, "name, name:port or ^name"},
      {"layer/split:01", "", 0, TD_INVALID_ARGUMENT, "name:port"},
      {"layer/split:-1", "", 0, TD_INVALID_ARGUMENT, "name:port"},
      {"layer/split:9999999999", "", 0, TD_INVALID_ARGUMENT, "name:port"},
      {"^layer/split:0", "", 0, TD_NOT_FOUND, "no node \"layer/split:0\""},
      {"", "", 0, TD_NOT_FOUND, "no node \"\""},
      {"^", "", 0, TD_NOT_FOUND, "no node"},
  };
  td_graph *g = new_graph();
  td_build b;
  td_node *n;
  no_op(g, "done", false);
  td_build_init(&b, g, "TestSplit", "layer/split");
  td_build_in(&b, ints(g, (int32_t[]){0}, -1));
  td_build_in(&b, ints(g, (int32_t[]){1, 2, 3}, 3));
  td_build_attr(&b, "num_split", td_attr_int(3));
  OK(td_build_node(&b, &n));
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_edge e;
    td_status *s = td_graph_edge(g, rows[i].ref, &e);
    if (rows[i].code != TD_OK) {
      FAILS(s, rows[i].code, rows[i].part);
      continue;
    }
    OK(s);
    assert_string_equal(e.node->name, rows[i].node);
    assert_int_equal(e.port, rows[i].port);
  }
  td_graph_release(g);
}

static void versions_seeds_flows(void **state) {
  (void)state;
  td_graph *g = new_graph();
  int64_t seed = 0;
  int32_t loop, branch, none;
  assert_false(td_graph_seed(g, &seed));
  uint64_t v = td_graph_version(g);
  td_graph_set_seed(g, -5);
  assert_true(td_graph_version(g) > v);
  assert_true(td_graph_seed(g, &seed));
  assert_int_equal(seed, -5);
  assert_int_equal(td_graph_flow_at(g, 0)->kind, 'r');
  OK(td_graph_flow(g, 0, 'w', "while", &loop));
  OK(td_graph_flow(g, loop, 'c', "cond", &branch));
  FAILS(td_graph_flow(g, 7, 'c', "x", &none), TD_INVALID_ARGUMENT, "no flow 7");
  FAILS(td_graph_flow(g, -1, 'c', "x", &none), TD_INVALID_ARGUMENT, "no flow");
  assert_int_equal(td_graph_flow_at(g, branch)->parent, loop);
  assert_string_equal(td_graph_flow_at(g, branch)->name, "cond");
  assert_null(td_graph_flow_at(g, 3));
  v = td_graph_version(g);
  td_node *n = no_op(g, "a", false);
  assert_true(td_graph_version(g) > v);
  assert_int_equal(n->id, 0);
  assert_ptr_equal(td_graph_node(g, 0), n);
  assert_null(td_graph_node(g, 1));
  assert_null(td_graph_node(g, -1));
  td_graph_release(g);
}

static void a_final_graph_stays(void **state) {
  (void)state;
  td_graph *g = new_graph();
  td_build b;
  td_node *n = no_op(g, "a", false), *m = no_op(g, "b", false);
  td_graph_finalize(g);
  td_build_init(&b, g, "TestNoOp", "c");
  FAILS(td_build_node(&b, &n), TD_FAILED_PRECONDITION, "final");
  FAILS(td_node_add_control(m, td_graph_node(g, 0)), TD_FAILED_PRECONDITION,
        "final");
  assert_int_equal(td_graph_size(g), 2);
  td_graph_release(g);
}

static void holders_count(void **state) {
  (void)state;
  td_graph *g = new_graph();
  assert_ptr_equal(td_graph_retain(g), g);
  td_graph_release(g);
  no_op(g, "still", false);
  td_graph_release(g);
  td_graph_release(NULL);
  assert_null(td_graph_retain(NULL));
}

enum { THREADS = 4, EACH = 500 };

static void *build_many(void *arg) {
  td_graph *g = arg;
  for (int i = 0; i < EACH; i++) {
    td_build b;
    td_node *n;
    const char *name;
    td_build_init(&b, g, "TestNoOp", "same");
    td_status *s = td_build_node(&b, &n);
    if (!s) s = td_graph_unique(g, "same", &name);
    if (s) return s;
    td_graph_lock(g);
    bool found = td_graph_find(g, n->name) == n;
    td_graph_unlock(g);
    if (!found) return n;
  }
  return NULL;
}

static void threads_share_a_graph(void **state) {
  (void)state;
  td_graph *g = new_graph();
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, build_many, g), 0);
  for (int i = 0; i < THREADS; i++) {
    void *wrong;
    pthread_join(threads[i], &wrong);
    assert_null(wrong);
  }
  assert_int_equal(td_graph_size(g), THREADS * EACH);
  OK(td_graph_verify(g));
  td_graph_release(g);
}

static td_status *use_names(void *arg) {
  td_graph *g;
  td_edge e;
  const char *name;
  (void)arg;
  TD_TRY(td_graph_new(&g));
  td_status *s = NULL;
  int32_t flow;
  for (int i = 0; i < 70 && !s; i++) {
    int32_t had = td_graph_size(g);
    uint64_t version = td_graph_version(g);
    td_build b;
    td_node *n;
    td_build_init(&b, g, "TestNoOp", "a_node_with_some_name");
    s = td_build_node(&b, &n);
    if (s) { /* nothing changed */
      assert_int_equal(td_graph_size(g), had);
      assert_int_equal(td_graph_version(g), version);
    }
    if (!s) s = td_graph_unique(g, "reserved", &name);
    if (!s) s = td_graph_flow(g, 0, 'c', "branch", &flow);
    if (!s) s = td_graph_edge(g, "^a_node_with_some_name", &e);
  }
  td_graph_release(g);
  return s;
}

static void no_memory(void **state) {
  (void)state;
  print_message("%lld allocations failed\n",
                (long long)fail_each(use_names, NULL));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_are_unique),
      cmocka_unit_test(exact_names),
      cmocka_unit_test(names_have_rules),
      cmocka_unit_test(references),
      cmocka_unit_test(versions_seeds_flows),
      cmocka_unit_test(a_final_graph_stays),
      cmocka_unit_test(holders_count),
      cmocka_unit_test(threads_share_a_graph),
      cmocka_unit_test(no_memory),
  };
  return cmocka_run_group_tests(tests, register_ops, NULL);
}
