/* plan.c - tests of engine/plan/plan.c: the passes together, and parts as
 * bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "world.h"
#include "engine/graph/build.h"
#include "engine/graph/node_edit.h"
#include "engine/plan/part.h"

#include <pthread.h>

/* Each pass that can be switched off has a bit of its own. */
static void test_names_of_passes(void **state) {
  (void)state;
  unsigned all = 0;
  for (int i = 0; td_plan_pass_name(i); i++) {
    unsigned bit = td_plan_pass_bit(td_plan_pass_name(i));
    assert_true(bit && !(all & bit));
    all |= bit;
  }
  assert_true(td_plan_pass_bit("fold") & all);
  assert_int_equal(td_plan_pass_bit("prune"), 0); /* always runs */
  assert_int_equal(td_plan_pass_bit(""), 0);
}

/* A loop whose body is on another device, in a branch; what is folded; what is
 * merged; a variable read and updated. */
static world mixed(const char *devices, const char *there) {
  world w = new_world(devices);
  char in[64];
  add_placeholder(&w, "x", td_shape_vector(3));
  add_const(&w, "one", TD_FLOAT32, 1, "");
  add(&w, "two", "PlanAdd", "one one");
  add(&w, "less", "PlanLess", "x x");
  add(&w, "switch", "Switch", "x less");
  add_enter(&w, "enter", "loop", false, "switch:1");
  attr(&w, "N", td_attr_int(2));
  td_node *m = add(&w, "merge", "Merge", "enter ?");
  add(&w, "again", "PlanLess", "merge merge");
  add(&w, "cond", "LoopCond", "again");
  add(&w, "turn", "Switch", "merge cond");
  snprintf(in, sizeof in, "turn:1 %s", there);
  add(&w, "body", "PlanNeg", in);
  td_node *n = add(&w, "next", "NextIteration", "body");
  OK(td_node_set_back_edge(m, 1, (td_edge){n, 0}));
  add(&w, "exit", "Exit", "turn");
  attr(&w, "N", td_attr_int(2));
  add(&w, "join", "Merge", "switch:0 exit");
  add(&w, "y", "PlanAdd", "join two");
  add(&w, "z", "PlanAdd", "join two");
  add(&w, "sum", "PlanAdd", "y z");
  add(&w, "v", "PlanVar", "");
  add(&w, "read", "PlanRead", "v");
  snprintf(in, sizeof in, "^sum %s", there);
  add(&w, "far", "PlanSource", in);
  add(&w, "use", "PlanNeg", "read");
  add(&w, "set", "PlanUpdate", "v one");
  return w;
}

static const char fetches[] = "sum use y ^far ^set";

static void test_all_passes(void **state) {
  (void)state;
  world w = mixed("CC", "@c1");
  td_plan *p;
  w.request.passes_off = 0;
  OK(plan(&w, "x", fetches, &p));
  assert_int_equal(p->n_parts, 2);
  assert_int_equal(p->folded, 1);
  assert_int_equal(p->merged, 1);
  assert_int_equal(p->pruned, 1); /* the placeholder */
  const td_node *set = td_graph_find(p->parts[0].graph, "set");
  assert_string_equal(set->control[0]->name, "use");
  td_plan_free(p);
  free_world(&w);
}

/* Planning again gives the same graphs: nothing was left in the user's. */
static void test_repeats(void **state) {
  (void)state;
  world w = mixed("CC", "@c1");
  td_str text[2] = {{0}, {0}};
  uint64_t version = td_graph_version(w.g);
  w.request.passes_off = 0;
  for (int i = 0; i < 2; i++) {
    td_plan *p;
    OK(plan(&w, "x", fetches, &p));
    print_plan(p, &text[i]);
    td_plan_free(p);
  }
  assert_string_equal(td_str_c(&text[0]), td_str_c(&text[1]));
  assert_int_equal(td_graph_version(w.g), version);
  td_str_deinit(&text[0]);
  td_str_deinit(&text[1]);
  free_world(&w);
}

/* Notes and attributes that others read, besides what print_plan shows. */
static void print_more(const td_plan *p, td_str *out) {
  for (int i = 0; i < p->n_parts; i++)
    for (int32_t id = 0; id < td_graph_size(p->parts[i].graph); id++) {
      const td_node *n = td_graph_node(p->parts[i].graph, id);
      td_str_addf(out, "%s frame %d order %d", n->name, (int)n->frame,
                  (int)n->order);
      if (n->may_die) td_str_add(out, " may die");
      if (n->may_stop) td_str_add(out, " may stop");
      td_str_addf(out, " %s %d %s\n", td_node_string(n, "tensor_name"),
                  (int)td_node_int(n, "_edge"),
                  td_node_string(n, "frame_name"));
    }
}

/* What another process makes of the part. */
static void reopen(td_part *part) {
  td_sealed_part sealed;
  td_part opened;
  OK(td_part_seal(part, &sealed));
  OK(td_part_open(&sealed, part->device, &opened));
  td_sealed_part_deinit(&sealed);
  td_part_deinit(part);
  *part = opened;
}

/* Whoever gets a part as bytes has all there is. */
static void test_roundtrip(void **state) {
  (void)state;
  static const struct {
    const char *devices, *there;
  } where[] = {{"C", ""}, {"CC", "@c1"}, {"CT", "@t"}};
  for (size_t k = 0; k < TD_COUNT(where); k++) {
    td_str text[2] = {{0}, {0}};
    for (int i = 0; i < 2; i++) {
      world w = mixed(where[k].devices, where[k].there);
      td_plan *p;
      w.request.passes_off = 0;
      OK(plan(&w, "x", fetches, &p));
      for (int d = 0; i && d < p->n_parts; d++) reopen(&p->parts[d]);
      print_plan(p, &text[i]);
      print_more(p, &text[i]);
      td_plan_free(p);
      free_world(&w);
    }
    assert_string_equal(td_str_c(&text[0]), td_str_c(&text[1]));
    td_str_deinit(&text[0]);
    td_str_deinit(&text[1]);
  }
}

static void test_empty(void **state) {
  (void)state;
  world w = new_world("C");
  td_plan *p;
  w.request.passes_off = 0;
  OK(plan(&w, "", "", &p));
  assert_int_equal(p->n_parts, 0);
  assert_int_equal(p->n_edges, 0);
  td_plan_free(p);
  td_plan_free(NULL);
  free_world(&w);
}

/* The graph may grow between plans. */
static void test_growing(void **state) {
  (void)state;
  world w = new_world("C");
  td_plan *p;
  w.request.passes_off = 0;
  add_placeholder(&w, "x", td_shape_scalar());
  char last[16] = "x";
  for (int i = 0; i < 8; i++) {
    char name[16];
    snprintf(name, sizeof name, "n%d", i);
    add(&w, name, "PlanNeg", last);
    strcpy(last, name);
    OK(plan(&w, "x", last, &p));
    assert_int_equal(td_graph_size(p->parts[0].graph), i + 3);
    td_plan_free(p);
  }
  free_world(&w);
}

/* Returns the first error. */
static void *plan_often(void *request) {
  td_status *s = NULL;
  for (int i = 0; i < 30 && !s; i++) {
    td_plan *p;
    s = td_plan_new(request, &p);
    td_plan_free(p);
  }
  return s;
}

/* Two sessions plan while somebody else builds: the graph is locked only while
 * it is read. */
static void test_threads(void **state) {
  (void)state;
  world w = mixed("CC", "@c1");
  world session[2] = {w, w};
  asked a[2];
  td_plan_request r[2];
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) {
    session[i].request.passes_off = 0;
    r[i] = request(&session[i], &a[i], "x", fetches);
  }
  for (int i = 0; i < 2; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, plan_often, &r[i]), 0);
  for (int i = 0; i < 2000; i++) {
    td_build b;
    td_node *n;
    td_build_init(&b, w.g, "PlanSource", NULL);
    OK(td_build_node(&b, &n));
  }
  for (int i = 0; i < 2; i++) {
    void *error;
    pthread_join(threads[i], &error);
    OK((td_status *)error);
    td_placer_free(session[i].placer);
  }
  free_world(&w);
}

/* 100,000 nodes in one chain: no walk calls itself. */
static void test_deep(void **state) {
  (void)state;
  world w = new_world("CC");
  td_plan *p;
  w.request.passes_off = 0;
  add_placeholder(&w, "x", td_shape_scalar());
  td_edge at = edge(&w, "x");
  for (int i = 0; i < 100000; i++) {
    td_build b;
    td_node *n;
    td_build_init(&b, w.g, "PlanNeg", NULL);
    td_build_in(&b, at);
    if (i % 1000 == 0) b.device = "/device:CPU:1";
    OK(td_build_node(&b, &n));
    at = (td_edge){n, 0};
  }
  OK(plan(&w, "x", at.node->name, &p));
  assert_int_equal(p->n_parts, 2);
  td_plan_free(p);
  free_world(&w);
}

static void test_no_memory(void **state) {
  (void)state;
  world w = mixed("CC", "@c1");
  w.request.passes_off = 0;

  starve(&w, "x", fetches);
  free_world(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_names_of_passes), cmocka_unit_test(test_all_passes),
      cmocka_unit_test(test_repeats),         cmocka_unit_test(test_roundtrip),
      cmocka_unit_test(test_empty),           cmocka_unit_test(test_growing),
      cmocka_unit_test(test_threads),         cmocka_unit_test(test_deep),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, register_ops, NULL);
}
