/* placer.c - tests of engine/plan/placer*.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "world.h"
#include "engine/device/kernel_start.h"
#include "engine/device/kernel_table.h"
#include "engine/graph/build.h"
#include "engine/plan/placer_impl.h"

/* "a=CPU:0 b=CPU:1", in order of nodes; "-" for nowhere. */
static void assert_places(world *w, const char *want) {
  td_str text = {0};
  td_status *s = td_placer_extend(placer_of(w), w->g);
  td_status_release(s);
  for (int32_t id = 0; id < td_graph_size(w->g); id++) {
    const td_node *n = td_graph_node(w->g, id);
    td_str_addf(&text, "%s%s=", id ? " " : "", n->name);
    int32_t d = td_placer_where(w->placer, n);
    assert_int_equal(n->placed, -1); /* the graph is nobody's own */
    if (d < 0)
      td_str_addc(&text, '-');
    else
      td_str_addf(&text, "%s:%d", w->devices[d]->type,
                  (int)w->devices[d]->index);
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
  extend(&w); /* with a node that is not there: by itself */
  assert_places(&w, "a=CPU:0 b=CPU:1 c=CPU:1 d=CPU:0");
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

/* What requests nothing goes by its name, the same in every placer, with its
 * group. */
static void test_spread(void **state) {
  (void)state;
  world w = new_world("CCF"), v = new_world("CCF");
  char name[8];
  int count[3] = {0};
  w.spread = v.spread = true;
  td_graph_release(v.g);
  v.g = td_graph_retain(w.g);
  add(&w, "v", "PlanVar", "");
  add(&w, "read", "PlanRead", "v");
  add(&w, "asks", "PlanNeg", "read @c1");
  add(&w, "id", "Identity", "asks");
  add(&w, "fake", "PlanFake", "read");
  extend(&w);
  assert_places(&w, "v=CPU:1 read=CPU:1 asks=CPU:1 id=CPU:0 fake=FAKE:0");
  for (int i = 0; i < 60; i++) {
    snprintf(name, sizeof name, "n%d", i);
    add(&w, name, "PlanNeg", "read");
    name[0] = 'm';
    add(&w, name, "PlanAdd", "read read"); /* on CPUs only */
  }
  extend(&w);
  extend(&v);
  for (int32_t id = 5; id < td_graph_size(w.g); id++) {
    const td_node *n = td_graph_node(w.g, id);
    int32_t d = td_placer_where(w.placer, n);
    assert_int_equal(td_placer_where(v.placer, n), d);
    if (id % 2) count[d]++;
    assert_true(id % 2 || d < 2);
  }
  for (int d = 0; d < 3; d++) assert_in_range(count[d], 8, 40);
  assert_explains(&w, "(n0) -> ");
  assert_explains(&w, ": spread by its name\n");
  free_world(&w);
  free_world(&v);
}

/* The type that is tried first is the default where it has a kernel. */
static void test_first(void **state) {
  (void)state;
  world w = new_world("CF");
  w.first = "FAKE";
  add(&w, "v", "PlanVar", "");
  add(&w, "read", "PlanRead", "v");
  add(&w, "a", "PlanAdd", "read read");
  add(&w, "b", "PlanNeg", "a");
  add(&w, "c", "PlanNeg", "a @c0");
  extend(&w);
  assert_places(&w, "v=FAKE:0 read=FAKE:0 a=CPU:0 b=FAKE:0 c=CPU:0");
  assert_explains(&w, "PlanNeg (b) -> FAKE:0: the default device\n");
  assert_explains(&w, "PlanAdd (a) -> CPU:0: the first device with a kernel");
  free_world(&w);
}

/* Or it is said as in a request; one that nobody is like changes nothing. */
static void test_first_by_name(void **state) {
  static const char *const first[] = {"/job:localhost/device:CPU:1",
                                      "/job:worker"};
  (void)state;
  for (int k = 0; k < 2; k++) {
    world w = new_world("CC");
    w.first = first[k];
    add(&w, "v", "PlanVar", "");
    add(&w, "a", "PlanRead", "v");
    add(&w, "b", "PlanNeg", "a @c0");
    extend(&w);
    assert_places(&w, k == 0 ? "v=CPU:1 a=CPU:1 b=CPU:0"
                             : "v=CPU:0 a=CPU:0 b=CPU:0");
    free_world(&w);
  }
  world w = new_world("C");
  td_placer_options o = {
      .devices = w.devices, .n_devices = 1, .first = "/task:x"};
  FAILS(td_placer_new(&o, &w.placer), TD_INVALID_ARGUMENT, "wants a number");
  free_world(&w);
}

/* ---- devices that come and go -------------------------------------------- */

/* Appends a device to the world's, and to the placer's. */
static void add_device(world *w, td_device *d) {
  w->devices[w->n_devices++] = d;
  OK(td_placer_add_device(placer_of(w), d));
}

static td_device *new_cpu(int index) {
  td_device *d;
  OK(td_device_cpu_new(TASK, index, NULL, &d));
  return d;
}

/* What is free goes where it would have gone had the device been there from the
 * first; what is bound stays. */
static void test_added(void **state) {
  (void)state;
  world w = new_world("C");
  w.soft = true;
  add(&w, "v", "PlanVar", "@c1");
  add(&w, "read", "PlanRead", "v");
  add(&w, "a", "PlanNeg", "read @c1");
  add(&w, "b", "PlanNeg", "a");
  add(&w, "id", "Identity", "a");
  extend(&w);
  assert_places(&w, "v=CPU:0 read=CPU:0 a=CPU:0 b=CPU:0 id=CPU:0");
  add_device(&w, new_cpu(1));
  add(&w, "u", "PlanVar", "@c1");
  extend(&w);
  assert_places(&w, "v=CPU:0 read=CPU:0 a=CPU:1 b=CPU:0 id=CPU:1 u=CPU:1");
  assert_explains(&w, "PlanNeg (a) -> CPU:1: asks for \"/device:CPU:1\"\n");
  free_world(&w);
}

/* What fitted nowhere is tried again, and those who failed because of it. */
static void test_added_where_one_was_missed(void **state) {
  (void)state;
  world w = new_world("C");
  td_placer *p = placer_of(&w);
  add(&w, "v", "PlanVar", "@f");
  add(&w, "read", "PlanRead", "v");
  add(&w, "fake", "PlanFake", "read");
  add(&w, "never", "PlanNowhere", "read");
  FAILS(td_placer_extend(p, w.g), TD_INVALID_ARGUMENT, "no such device");
  assert_places(&w, "v=- read=- fake=- never=-");
  add_device(&w, &fake);
  assert_places(&w, "v=FAKE:0 read=FAKE:0 fake=FAKE:0 never=-");
  assert_explains(&w, "PlanNowhere (never) -> nowhere: ");
  add(&w, "set", "PlanUpdate", "v fake"); /* on CPUs only */
  FAILS(td_placer_extend(p, w.g), TD_INVALID_ARGUMENT, "on FAKE:0 for good");
  assert_places(&w, "v=FAKE:0 read=FAKE:0 fake=FAKE:0 never=- set=-");
  free_world(&w);
}

static void test_removed(void **state) {
  (void)state;
  for (int drop = 0; drop < 2; drop++) {
    world w = new_world("CC");
    td_plan *plan_of_a;
    w.soft = true;
    add(&w, "v", "PlanVar", "@c1");
    add(&w, "read", "PlanRead", "v");
    add(&w, "a", "PlanSource", "@c0");
    add(&w, "b", "PlanNeg", "a @c1");
    extend(&w);
    assert_places(&w, "v=CPU:1 read=CPU:1 a=CPU:0 b=CPU:1");
    td_placer_remove_device(w.placer, 1, drop);
    td_device_release(w.devices[1]);
    w.devices[1] = NULL;
    add_device(&w, new_cpu(1)); /* another of that name, at another index */
    w.request.passes_off = ~0U;
    OK(plan(&w, "", "b", &plan_of_a));
    assert_ptr_equal(plan_of_a->parts[1].device, w.devices[2]);
    td_plan_free(plan_of_a);
    assert_int_equal(td_placer_where(w.placer, edge(&w, "b").node), 2);
    if (drop) {
      assert_places(&w, "v=CPU:1 read=CPU:1 a=CPU:0 b=CPU:1");
    } else {
      assert_places(&w, "v=- read=- a=CPU:0 b=CPU:1");
      FAILS(plan(&w, "", "read", &plan_of_a), TD_UNAVAILABLE,
            "it must be with PlanVar \"v\", which is on CPU:1 for good, and "
            "that device was removed");
      assert_explains(&w, "PlanVar (v) -> CPU:1: removed; it was placed there");
      add(&w, "set", "PlanUpdate", "v b");
      FAILS(td_placer_extend(w.placer, w.g), TD_INVALID_ARGUMENT,
            "is on CPU:1 for good, which was removed");
    }
    free_world(&w);
  }
}

/* Indices are not used again, kinds of devices are. */
static void test_many_come_and_go(void **state) {
  (void)state;
  enum { ROUNDS = 100 };
  static td_device kind[ROUNDS];
  static char names[ROUNDS][16];
  world w = new_world("C");
  td_placer *p = placer_of(&w);
  add(&w, "a", "PlanSource", "");
  for (int i = 0; i < ROUNDS; i++) {
    snprintf(names[i], sizeof names[i], "KIND%d", i);
    kind[i] = fake;
    kind[i].kernels = names[i];
    OK(td_placer_add_device(p, &kind[i]));
    if (i >= 20) td_placer_remove_device(p, i - 20 + 1, false);
    OK(td_placer_extend(p, w.g));
  }
  for (int i = ROUNDS; i < ROUNDS + 11; i++)
    OK(td_placer_add_device(p, &kind[i - 50]));
  FAILS(td_placer_add_device(p, &kind[0]), TD_RESOURCE_EXHAUSTED,
        "more than 32 kinds of devices");
  assert_places(&w, "a=CPU:0");
  free_world(&w);
}

static td_status *dead(void) {
  return td_error(TD_ABORTED, "task 1 died");
}

/* Nothing moves away from a device that is lost, and what would be placed there
 * is; who needs it fails until it is back, whatever another may do. */
static void test_lost(void **state) {
  (void)state;
  world w = new_world("CC");
  td_plan *p;
  w.soft = true;
  add(&w, "v", "PlanVar", "@c1");
  add(&w, "read", "PlanRead", "v");
  add(&w, "a", "PlanSource", "@c0");
  add(&w, "b", "PlanNeg", "a @c1");
  add(&w, "id", "Identity", "b");
  extend(&w);
  td_status *why = dead();
  td_placer_lose_device(w.placer, 1, why);
  td_placer_lose_device(w.placer, 1, why);
  td_status_release(why);
  add(&w, "c", "PlanNeg", "a @c1");
  add(&w, "set", "PlanUpdate", "v a");
  FAILS(td_placer_extend(w.placer, w.g), TD_UNAVAILABLE, "task 1 died");
  FAILS(plan(&w, "", "read", &p), TD_UNAVAILABLE,
        "it must be with PlanVar \"v\", which is on CPU:1 for good, and task 1 "
        "died");
  FAILS(plan(&w, "", "id", &p), TD_UNAVAILABLE, "it is on CPU:1, and task 1");
  FAILS(plan(&w, "", "c", &p), TD_UNAVAILABLE, "it is on CPU:1, and task 1");
  OK(plan(&w, "", "a", &p));
  td_plan_free(p);
  assert_places(&w, "v=- read=- a=CPU:0 b=- id=- c=- set=-");
  assert_explains(&w, "PlanNeg (c) -> CPU:1: lost; it is placed there as asks");
  td_device *back = new_cpu(1);
  OK(td_placer_replace_device(w.placer, 1, back));
  td_device_release(w.devices[1]);
  w.devices[1] = back;
  assert_places(&w, "v=CPU:1 read=CPU:1 a=CPU:0 b=CPU:1 id=CPU:1 c=CPU:1 "
                    "set=CPU:1");
  OK(plan(&w, "", "id", &p));
  td_plan_free(p);
  free_world(&w);
}

/* Nodes out of functions as all others. */
static void test_lost_for_inlined(void **state) {
  (void)state;
  world w = new_world("CC");
  td_node *n = add(&w, "n", "PlanSource", "@c1");
  extend(&w);
  td_status *why = dead();
  td_placer_lose_device(w.placer, 1, why);
  td_status_release(why);
  FAILS(td_placer_choose_inlined(w.placer, n, 0), TD_UNAVAILABLE,
        "it is on CPU:1, and task 1 died");
  n = add(&w, "m", "PlanSource", "");
  OK(td_placer_choose_inlined(w.placer, n, 0));
  free_world(&w);
}

/* A device that comes back has the kernels that it has then. */
static void test_back_with_others(void **state) {
  static const td_kernel_offer fewer[] = {{"PlanVar", NULL}, {"PlanNeg", NULL}};
  (void)state;
  world w = new_world("C");
  td_device far = fake, back = fake;
  td_plan *p;
  w.soft = true;
  far.kernels = back.kernels = "CPU";
  OK(td_kernel_table_new(fewer, TD_COUNT(fewer), &back.table));
  placer_of(&w);
  add_device(&w, &far);
  add(&w, "v", "PlanVar", "@f");
  add(&w, "read", "PlanRead", "v");
  add(&w, "a", "PlanSource", "@f");
  add(&w, "b", "PlanMatMul", "a a @f");
  add(&w, "u", "PlanVar", "@f");
  extend(&w);
  assert_places(&w, "v=FAKE:0 read=FAKE:0 a=FAKE:0 b=FAKE:0 u=FAKE:0");
  w.devices[1] = &back;
  for (int64_t nth = 1;; nth++) { /* without memory nothing has changed */
    td_mem_fail(nth, true);
    td_status *s = td_placer_replace_device(w.placer, 1, &back);
    td_mem_fail(0, false);
    if (td_ok(s)) break;
    FAILS(s, TD_RESOURCE_EXHAUSTED, "");
    assert_places(&w, "v=FAKE:0 read=FAKE:0 a=FAKE:0 b=FAKE:0 u=FAKE:0");
  }
  extend(&w);
  assert_places(&w, "v=- read=- a=- b=CPU:0 u=FAKE:0");
  FAILS(
      plan(&w, "", "read", &p), TD_UNAVAILABLE,
      "which is on FAKE:0 for good, and the device came back without kernels");
  OK(td_placer_replace_device(w.placer, 1, &far));
  w.devices[1] = &far;
  extend(&w);
  assert_places(&w, "v=FAKE:0 read=FAKE:0 a=FAKE:0 b=FAKE:0 u=FAKE:0");
  td_kernel_table_release(back.table);
  w.n_devices = 1;
  free_world(&w);
}

/* A device elsewhere is placed on by the table of kernels that it sent, which
 * need not be those of this process. */
static void test_elsewhere(void **state) {
  static const td_kernel_offer rows[] = {
      {"PlanNowhere", "T=float"}, {"PlanNeg", "T=int32"}, {"PlanSource", NULL}};
  (void)state;
  world w = new_world("C");
  td_device far = fake;
  td_kernel k;
  td_plan *p;
  far.kernels = "CPU";
  OK(td_kernel_table_new(rows, TD_COUNT(rows), &far.table));
  add(&w, "a", "PlanSource", "");
  add(&w, "b", "PlanNeg", "a @f");
  td_node *c = add(&w, "c", "PlanNowhere", "a");
  w.soft = true;
  add_device(&w, &far);
  extend(&w);
  assert_places(&w, "a=CPU:0 b=CPU:0 c=FAKE:0");
  OK(plan(&w, "", "c", &p));
  assert_int_equal(p->n_parts, 2);
  assert_ptr_equal(p->parts[1].device, &far);
  td_plan_free(p);
  FAILS(td_kernel_init(&k, c, &far, NULL), TD_FAILED_PRECONDITION,
        "its part of the graph must run where the device is");
  td_node *n = add(&w, "n", "PlanNowhere", "a @c0");
  extend(&w);
  assert_int_equal(td_placer_where(w.placer, n), 1);
  td_kernel_table_release(far.table);
  w.n_devices = 1;
  free_world(&w);
}

/* A change without memory is made at the next look. */
static void test_change_without_memory(void **state) {
  (void)state;
  for (int64_t nth = 1;; nth++) {
    world w = new_world("CC");
    w.soft = true;
    add(&w, "v", "PlanVar", "@f");
    add(&w, "read", "PlanRead", "v");
    add(&w, "a", "PlanFake", "read");
    add(&w, "b", "PlanNeg", "read @c1");
    td_status_release(td_placer_extend(placer_of(&w), w.g));
    td_placer_remove_device(w.placer, 1, false);
    td_device_release(w.devices[1]);
    w.devices[1] = NULL;
    td_mem_fail(nth, true);
    td_status *s = td_placer_add_device(w.placer, &fake);
    if (td_ok(s)) w.devices[w.n_devices++] = &fake;
    if (td_ok(s)) s = td_placer_extend(w.placer, w.g);
    td_mem_fail(0, false);
    bool over = td_ok(s);
    if (!over) {
      FAILS(s, TD_RESOURCE_EXHAUSTED, "");
      if (w.n_devices == 2) add_device(&w, &fake);
      OK(td_placer_extend(w.placer, w.g));
    }
    assert_places(&w, "v=CPU:0 read=CPU:0 a=FAKE:0 b=CPU:0");
    free_world(&w);
    if (over) break;
  }
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
  assert_int_equal(td_placer_where(w.placer, n), 1);
  assert_explains(&w, "(a) -> /job:ps/replica:0/task:3/device:CPU:0: asks for "
                      "\"/job:ps\"");
  assert_explains(&w, "(b) -> " TASK "/device:CPU:0: the default device");
  free_world(&w);
}

/* Soft placement never changes the task. A node is placed when its task comes,
 * and in vain again when that has gone. */
static void test_no_such_task(void **state) {
  (void)state;
  for (int soft = 0; soft < 2; soft++) {
    world w = new_world("CC");
    td_build b;
    td_node *n, *read;
    td_device *far;
    td_edge v;
    OK(td_device_cpu_new("/job:ps/replica:0/task:3", 0, 0, &far));
    w.soft = soft;
    w.origin = "a.lua:7";
    add(&w, "v", "PlanVar", "@c1");
    extend(&w);
    td_build_init(&b, w.g, "PlanSource", "a");
    b.device = "/job:ps/task:3";
    b.origin = "a.lua:8";
    OK(td_build_node(&b, &n));
    td_status *s = td_placer_extend(placer_of(&w), w.g);
    assert_string_equal(td_status_origin(s), "a.lua:8");
    FAILS(s, TD_INVALID_ARGUMENT,
          "it asks for \"/job:ps/task:3\", and no such task takes part in the "
          "session; there is " TASK "; sess:attach(");
    /* Who must be with another gives up no task that is not there. */
    v = edge(&w, "v");
    td_build_init(&b, w.g, "PlanRead", "read");
    b.device = "/job:ps/task:3";
    td_build_flat(&b, &v, 1);
    OK(td_build_node(&b, &read));
    FAILS(td_placer_extend(w.placer, w.g), TD_INVALID_ARGUMENT, "no such task");
    add_device(&w, far);
    td_status_release(td_placer_extend(w.placer, w.g));
    assert_int_equal(td_placer_where(w.placer, n), 2);
    assert_int_equal(td_placer_where(w.placer, read), soft ? 1 : -1);
    td_placer_lose_device(w.placer, 2, s = td_error(TD_UNAVAILABLE, "lost"));
    td_status_release(s);
    FAILS(td_placer_why_not(w.placer, n), TD_UNAVAILABLE, "lost");
    td_placer_remove_device(w.placer, 2, true);
    td_device_release(w.devices[2]);
    w.n_devices = 2;
    OK(td_placer_extend(w.placer, w.g)); /* nothing is new */
    assert_int_equal(td_placer_where(w.placer, n), -1);
    FAILS(td_placer_why_not(w.placer, n), TD_INVALID_ARGUMENT, "no such task");
    free_world(&w);
  }
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
      cmocka_unit_test(test_spread),
      cmocka_unit_test(test_first),
      cmocka_unit_test(test_first_by_name),
      cmocka_unit_test(test_added),
      cmocka_unit_test(test_added_where_one_was_missed),
      cmocka_unit_test(test_removed),
      cmocka_unit_test(test_many_come_and_go),
      cmocka_unit_test(test_lost),
      cmocka_unit_test(test_lost_for_inlined),
      cmocka_unit_test(test_back_with_others),
      cmocka_unit_test(test_elsewhere),
      cmocka_unit_test(test_change_without_memory),
      cmocka_unit_test(test_tasks),
      cmocka_unit_test(test_no_such_task),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, register_ops, NULL);
}
