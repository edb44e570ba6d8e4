/* placer.c - tests of engine/plan/placer*.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "world.h"
#include "engine/graph/build.h"

/* "a=CPU:0 b=CPU:1", in order of nodes; "-" for nowhere. */
static void assert_places(world *w, const char *want) {
  td_str text = {0};
  td_status *s = td_placer_extend(placer_of(w), w->g);
  td_status_release(s);
  for (int32_t id = 0; id < td_graph_size(w->g); id++) {
    const td_node *n = td_graph_node(w->g, id);
    td_str_addf(&text, "%s%s=", id ? " " : "", n->name);
    if (n->placed < 0)
      td_str_addc(&text, '-');
    else
      td_str_addf(&text, "%s:%d", w->devices[n->placed]->type,
                  (int)w->devices[n->placed]->index);
  }
  assert_string_equal(td_str_c(&text), want);
  td_str_deinit(&text);
}

static void extend(world *w) {
  OK(td_placer_extend(placer_of(w), w->g));
}

static void assert_explains(world *w, const char *line) {
  td_str text = {0};
  td_placer_explain(placer_of(w), w->g, &text);
  if (!strstr(td_str_c(&text), line))
    fail_msg("\"%s\" lacks \"%s\"", td_str_c(&text), line);
  td_str_deinit(&text);
}

static void test_requests(void **state) {
  (void)state;
  world w = new_world("CCF");
  add(&w, "a", "PlanSource", "");
  add(&w, "b", "PlanNeg", "a @c1");
  add(&w, "c", "PlanFake", "b");
  extend(&w);
  assert_places(&w, "a=CPU:0 b=CPU:1 c=FAKE:0");
  assert_explains(&w, "PlanSource (a) -> CPU:0: the default device\n");
  assert_explains(&w, "PlanNeg (b) -> CPU:1: asks for \"/device:CPU:1\"\n");
  assert_explains(&w, "PlanFake (c) -> FAKE:0: the first device with a kernel");
  free_world(&w);
}

/* What a request that cannot be had becomes. */
static const struct {
  const char *op, *inputs, *soft, *error;
} impossible[] = {
    {"PlanNeg", "a @t", "CPU:0",
     "no such device; PlanNeg has kernels for CPU; devices: CPU:0, CPU:1"},
    {"PlanMatMul", "a a @f", "CPU:0",
     "asks for \"/device:FAKE:0\", where there is no kernel"},
    {"PlanNowhere", "a", NULL, "PlanNowhere"},
};

static void test_impossible(void **state) {
  (void)state;
  for (size_t i = 0; i < TD_COUNT(impossible); i++) {
    for (int soft = 0; soft < 2; soft++) {
      world w = new_world(i == 1 ? "CF" : "CC");
      char want[64];
      const char *place = soft ? impossible[i].soft : NULL;
      w.soft = soft;
      add(&w, "a", "PlanSource", "");
      add(&w, "b", impossible[i].op, impossible[i].inputs);
      td_status *s = td_placer_extend(placer_of(&w), w.g);
      assert_int_equal(s == NULL, place != NULL);
      if (s && !strstr(td_status_message(s), impossible[i].error))
        fail_msg("%s", td_status_message(s));
      td_status_release(s);
      snprintf(want, sizeof want, "a=CPU:0 b=%s", place ? place : "-");
      assert_places(&w, want);
      free_world(&w);
    }
  }
}

/* One bad node does not stop those who do not need it. */
static void test_others_go_on(void **state) {
  (void)state;
  world w = new_world("C");
  td_plan *p;
  w.origin = "a.lua:7";
  add(&w, "a", "PlanSource", "");
  add(&w, "bad", "PlanNeg", "a @t");
  OK(plan(&w, "", "a", &p));
  td_plan_free(p);
  td_status *s = plan(&w, "", "bad", &p);
  assert_int_equal(td_status_code(s), TD_INVALID_ARGUMENT);
  assert_string_equal(td_status_node(s), "bad");
  assert_string_equal(td_status_origin(s), "a.lua:7");
  td_status_release(s);
  add(&w, "b", "PlanNeg", "a");
  OK(td_placer_extend(placer_of(&w), w.g)); /* nothing new is wrong */
  assert_explains(&w, "PlanNeg (bad) -> nowhere: it asks for");
  free_world(&w);
}

static void test_resources(void **state) {
  (void)state;
  world w = new_world("CCF");
  add(&w, "v", "PlanVar", "@c1");
  add(&w, "id", "Identity", "v");
  add(&w, "read", "PlanRead", "id");
  add(&w, "one", "PlanNeg", "read");
  add(&w, "set", "PlanUpdate", "v one");
  extend(&w);
  assert_places(&w, "v=CPU:1 id=CPU:1 read=CPU:1 one=CPU:0 set=CPU:1");
  assert_explains(&w, "PlanUpdate (set) -> CPU:1: colocated with v\n");
  free_world(&w);
}

/* The request of a reader places the variable when nothing else does. */
static void test_request_of_a_member(void **state) {
  (void)state;
  world w = new_world("CC");
  add(&w, "v", "PlanVar", "");
  add(&w, "read", "PlanRead", "v @c1");
  extend(&w);
  assert_places(&w, "v=CPU:1 read=CPU:1");
  free_world(&w);
}

/* The group's kernels decide, too: an update runs on CPUs only. */
static void test_kernels_of_all(void **state) {
  (void)state;
  world w = new_world("FC");
  add_const(&w, "k", TD_FLOAT32, 1, "");
  add(&w, "u", "PlanVar", "");
  add(&w, "v", "PlanVar", "");
  add(&w, "set", "PlanUpdate", "v k");
  extend(&w);
  assert_places(&w, "k=CPU:0 u=FAKE:0 v=CPU:0 set=CPU:0");
  free_world(&w);
}

static void test_conflicts(void **state) {
  (void)state;
  for (int soft = 0; soft < 2; soft++) {
    world w = new_world("CC");
    w.soft = soft;
    w.origin = "a.lua:1";
    add(&w, "v", "PlanVar", "@c1");
    w.origin = "a.lua:2";
    add(&w, "read", "PlanRead", "v @c0");
    td_status *s = td_placer_extend(placer_of(&w), w.g);
    if (soft) {
      assert_null(s);
      assert_places(&w, "v=CPU:1 read=CPU:1");
      assert_explains(&w, "colocated with v, though it asks for");
    } else {
      assert_string_equal(
          td_status_message(s),
          "it asks for \"/device:CPU:0\", and must be with PlanVar \"v\" "
          "(a.lua:1), which asks for \"/device:CPU:1\"; what shares a resource "
          "shares a device");
      assert_string_equal(td_status_node(s), "read");
      assert_places(&w, "v=CPU:1 read=-");
    }
    td_status_release(s);
    free_world(&w);
  }
}

/* A node between two variables that live apart for good. */
static void test_two_resources(void **state) {
  (void)state;
  world w = new_world("CC");
  w.soft = true;
  add_const(&w, "k", TD_FLOAT32, 1, "");
  add(&w, "u", "PlanVar", "@c0");
  add(&w, "v", "PlanVar", "@c1");
  extend(&w);
  add(&w, "set", "PlanUpdate2", "u v k");
  FAILS(td_placer_extend(placer_of(&w), w.g), TD_INVALID_ARGUMENT,
        "it must be with PlanVar \"u\", which is on CPU:0 for good, and must "
        "be with PlanVar \"v\", which is on CPU:1 for good");
  assert_places(&w, "k=CPU:0 u=CPU:0 v=CPU:1 set=-");
  free_world(&w);
}

static void test_colocation(void **state) {
  (void)state;
  world w = new_world("CC");
  td_bytes with_b = {"loc:@b", 6}, with_x = {"loc:@x", 6};
  add(&w, "a", "PlanSource", "");
  add(&w, "b", "PlanNeg", "a @c1");
  attr(&w, "_class", td_attr_strings(&with_b, 1));
  add(&w, "c", "PlanNeg", "a");
  extend(&w);
  assert_places(&w, "a=CPU:0 b=CPU:1 c=CPU:1");
  attr(&w, "_class", td_attr_strings(&with_x, 1));
  add(&w, "d", "PlanNeg", "a");
  FAILS(td_placer_extend(placer_of(&w), w.g), TD_INVALID_ARGUMENT,
        "colocated with \"x\", but there is no such node");
  free_world(&w);
}

/* Sources go with the one that takes them, control flow and metadata with what
 * they take. */
static void test_followers(void **state) {
  (void)state;
  world w = new_world("CC");
  add_const(&w, "k", TD_FLOAT32, 1, "");
  add_const(&w, "both", TD_FLOAT32, 1, "");
  add_const(&w, "t", TD_BOOL, 1, "");
  add(&w, "a", "PlanNeg", "k @c1");
  add(&w, "b", "PlanAdd", "both a @c1");
  add(&w, "c", "PlanNeg", "both");
  add(&w, "id", "Identity", "a");
  add(&w, "shape", "Shape", "b");
  add(&w, "switch", "Switch", "a t");
  extend(&w);
  assert_places(&w, "k=CPU:1 both=CPU:0 t=CPU:1 a=CPU:1 b=CPU:1 c=CPU:0 "
                    "id=CPU:1 shape=CPU:1 switch=CPU:1");
  assert_explains(&w, "Const (k) -> CPU:1: with its consumer a\n");
  assert_explains(&w, "Identity (id) -> CPU:1: with its input a\n");
  free_world(&w);
}

/* What was placed stays, whatever comes. */
static void test_incremental(void **state) {
  (void)state;
  world w = new_world("CC");
  add(&w, "v", "PlanVar", "");
  add_const(&w, "k", TD_FLOAT32, 1, "");
  extend(&w);
  add(&w, "set", "PlanUpdate", "v k @c1");
  FAILS(td_placer_extend(placer_of(&w), w.g), TD_INVALID_ARGUMENT,
        "which is on CPU:0 for good");
  add(&w, "a", "PlanNeg", "k @c1");
  extend(&w);
  assert_places(&w, "v=CPU:0 k=CPU:0 set=- a=CPU:1");
  free_world(&w);
}

/* Two sessions place one graph, each in its own way. */
static void test_two_placers(void **state) {
  (void)state;
  world w = new_world("CC"), v = new_world("C");
  td_plan *p;
  td_graph_release(v.g);
  v.g = td_graph_retain(w.g);
  v.soft = true;
  add(&w, "a", "PlanSource", "@c1");
  for (int i = 0; i < 4; i++) {
    OK(plan(i % 2 ? &v : &w, "", "a", &p));
    assert_int_equal(p->parts[0].device->index, i % 2 ? 0 : 1);
    td_plan_free(p);
  }
  free_world(&w);
  free_world(&v);
}

/* Parts of a device string are enough; names are full where tasks differ. */
static void test_tasks(void **state) {
  (void)state;
  world w = new_world("C");
  td_build b;
  td_node *n;
  OK(td_device_cpu_new("/job:ps/replica:0/task:3", 0, 0, &w.devices[1]));
  w.n_devices = 2;
  td_build_init(&b, w.g, "PlanSource", "a");
  b.device = "/job:ps";
  OK(td_build_node(&b, &n));
  add(&w, "b", "PlanNeg", "a");
  extend(&w);
  assert_int_equal(n->placed, 1);
  assert_explains(&w, "(a) -> /job:ps/replica:0/task:3/device:CPU:0: asks for "
                      "\"/job:ps\"");
  assert_explains(&w, "(b) -> " TASK "/device:CPU:0: the default device");
  free_world(&w);
}

static void test_no_memory(void **state) {
  (void)state;
  world w = new_world("CC");
  w.soft = true;
  add_const(&w, "k", TD_FLOAT32, 1, "");
  add(&w, "v", "PlanVar", "@c1");
  add(&w, "read", "PlanRead", "v @c0");
  add(&w, "set", "PlanUpdate", "v k");
  w.request.passes_off = 0;
  starve(&w, "", "read ^set");
  free_world(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_requests),
      cmocka_unit_test(test_impossible),
      cmocka_unit_test(test_others_go_on),
      cmocka_unit_test(test_resources),
      cmocka_unit_test(test_request_of_a_member),
      cmocka_unit_test(test_kernels_of_all),
      cmocka_unit_test(test_conflicts),
      cmocka_unit_test(test_two_resources),
      cmocka_unit_test(test_colocation),
      cmocka_unit_test(test_followers),
      cmocka_unit_test(test_incremental),
      cmocka_unit_test(test_two_placers),
      cmocka_unit_test(test_tasks),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, register_ops, NULL);
}
