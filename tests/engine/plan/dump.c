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

/* The path of the `turn`-th file (from 0) that the pass wrote, whatever its
 * number among all: "dir/002_fold.txt". False when there is none. */
static bool find(const place *p, const char *pass, int turn, char path[128]) {
  for (int i = 0; i < 100; i++) {
    snprintf(path, 128, "%s/%03d_%s.txt", p->dir, i, pass);
    if (td_file_exists(path) && turn-- == 0) return true;
  }
  return false;
}

static void assert_has(const place *p, const char *pass, int turn,
                       const char *part) {
  char path[128], *text;
  size_t len;
  assert_true(find(p, pass, turn, path));
  OK(td_file_read(path, 1 << 20, &text, &len));
  if (!strstr(text, part))
    fail_msg("%s: \"%s\" lacks \"%s\"", path, text, part);
  td_free(text);
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
  assert_has(&where, "prune", 0,
             "a = PlanAdd(_arg_x_0:0, two:0); CPU:0; float32 {-1, 4}\n");
  assert_has(&where, "prune", 0, "kept 8 of 9 nodes");
  assert_has(&where, "prune", 0, "# after prune, which copies what ");
  assert_has(&where, "fold", 0,
             "two (PlanAdd) is constant, now _const_two_0: float32 {} 2");
  assert_has(&where, "cse", 0, "b (PlanAdd) equals a");
  assert_has(&where, "order_updates", 0,
             "read goes before the update set");
  assert_has(&where, "order_updates", 0, ") ^read; CPU:0\n");
  assert_has(&where, "schedule", 0, "a: 67 to go");
  assert_has(&where, "partition", 0, "edge_0_a: ");
  assert_has(&where, "partition", 1, "c = PlanAdd(_recv_0:0, _recv_0:0)");
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
  char first[128], second[128];
  assert_true(find(&where, "partition", 1, first));
  assert_true(find(&where, "prune", 1, second));
  assert_true(strcmp(first, second) < 0);
  assert_true(find(&where, "partition", 2, first));
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
