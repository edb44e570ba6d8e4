/* dump.c - tests of engine/plan/dump.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/graphdef/graphdef.h"
#include "world.h"

typedef struct place {
  char dir[64];
} place;

static place new_place(void) {
  place p = {"/tmp/tide_dump_XXXXXX"};
  assert_non_null(mkdtemp(p.dir));
  return p;
}

/* The text of a file; the caller's. */
static char *text_of(const place *p, const char *name) {
  char path[128], *text;
  size_t len;
  snprintf(path, sizeof path, "%s/%s", p->dir, name);
  OK(td_file_read(path, 1 << 20, &text, &len));
  return text;
}

static void assert_has(const place *p, const char *name, const char *part) {
  char *text = text_of(p, name);
  if (!strstr(text, part))
    fail_msg("%s: \"%s\" lacks \"%s\"", name, text, part);
  td_free(text);
}

static bool exists(const place *p, const char *name) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s", p->dir, name);
  return td_file_exists(path);
}

static void end_place(place *p) {
  td_str names = {0};
  OK(td_file_list(p->dir, &names));
  for (size_t i = 0; i < names.len; i += strlen(names.at + i) + 1) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", p->dir, names.at + i);
    unlink(path);
  }
  td_str_deinit(&names);
  assert_int_equal(rmdir(p->dir), 0);
}

static world new_dump(const place *p) {
  world w = new_world("CC");
  w.request.passes_off = 0;
  w.request.dump = p->dir;
  add_placeholder(&w, "x", td_shape_matrix(-1, 4));
  add_const(&w, "one", TD_FLOAT32, 1, "");
  add(&w, "two", "PlanAdd", "one one");
  add(&w, "a", "PlanAdd", "x two");
  add(&w, "b", "PlanAdd", "x two");
  add(&w, "c", "PlanAdd", "a b @c1");
  add(&w, "v", "PlanVar", "");
  add(&w, "read", "PlanRead", "v");
  add(&w, "set", "PlanUpdate", "v two");
  return w;
}

static void test_files(void **state) {
  (void)state;
  place where = new_place();
  world w = new_dump(&where);
  td_plan *p;
  OK(plan(&w, "x", "c ^read ^set", &p));
  td_plan_free(p);
  assert_has(&where, "000_prune.txt",
             "a = PlanAdd(_arg_x_0:0, two:0); CPU:0; float32 {-1, 4}\n");
  assert_has(&where, "000_prune.txt", "kept 8 of 9 nodes");
  assert_has(&where, "000_prune.txt", "# after prune, which copies what ");
  assert_has(&where, "002_fold.txt",
             "two (PlanAdd) is constant, now _const_two_0: float32 {} 2");
  assert_has(&where, "003_cse.txt", "b (PlanAdd) equals a");
  assert_has(&where, "004_order_updates.txt",
             "read goes before the update set");
  assert_has(&where, "004_order_updates.txt", ") ^read; CPU:0\n");
  assert_has(&where, "006_schedule.txt", "a: 67 to go");
  assert_has(&where, "007_partition.txt", "edge_0_a: ");
  assert_has(&where, "008_partition.txt", "c = PlanAdd(_recv_0:0, _recv_0:0)");
  free_world(&w);
  end_place(&where);
}

/* A second plan goes on counting. */
static void test_goes_on(void **state) {
  (void)state;
  place where = new_place();
  world w = new_dump(&where);
  td_plan *p;
  OK(plan(&w, "x", "c ^read ^set", &p));
  td_plan_free(p);
  w.request.passes_off = ~0U;
  OK(plan(&w, "x", "c", &p));
  td_plan_free(p);
  assert_true(exists(&where, "009_prune.txt"));
  assert_true(exists(&where, "013_partition.txt"));
  free_world(&w);
  end_place(&where);
}

static void test_graphdef(void **state) {
  (void)state;
  place where = new_place();
  world w = new_dump(&where);
  td_plan *p;
  td_graph *g;
  char path[128], *bytes;
  size_t len;
  OK(plan(&w, "x", "c", &p));
  td_plan_free(p);
  snprintf(path, sizeof path, "%s/000_prune.pb", where.dir);
  OK(td_file_read(path, 1 << 20, &bytes, &len));
  OK(td_graph_new(&g));
  OK(td_graphdef_read(g, bytes, len, NULL));
  assert_non_null(td_graph_find(g, "a"));
  td_graph_release(g);
  td_free(bytes);
  free_world(&w);
  end_place(&where);
}

static void test_bad_directory(void **state) {
  (void)state;
  place where = {"/dev/null/dump"};
  world w = new_dump(&where);
  td_plan *p;
  td_status *s = plan(&w, "x", "c", &p);
  assert_non_null(s);
  td_status_release(s);
  free_world(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_files),
      cmocka_unit_test(test_goes_on),
      cmocka_unit_test(test_graphdef),
      cmocka_unit_test(test_bad_directory),
  };
  return cmocka_run_group_tests(tests, register_ops, NULL);
}
