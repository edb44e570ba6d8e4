/* kernel_table.c - what a device says that it has kernels for.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/kernel_table.h"
#include "tests/engine/device/run_node.h"

static td_node *unary(td_graph *g, const char *op, td_dtype t) {
  td_build b;
  td_node *n;
  td_shape shape = td_shape_scalar();
  td_build_init(&b, g, "Placeholder", NULL);
  td_build_attr(&b, "dtype", td_attr_type(t));
  td_build_attr(&b, "shape", td_attr_shape(&shape));
  OK(td_build_node(&b, &n));
  td_build_init(&b, g, op, NULL);
  td_build_in(&b, (td_edge){n, 0});
  OK(td_build_node(&b, &n));
  return n;
}

static td_kernel_table *table(const td_kernel_offer *rows, size_t n) {
  td_kernel_table *t;
  OK(td_kernel_table_new(rows, n, &t));
  return t;
}

static void test_rows(void **state) {
  static const td_kernel_offer rows[] = {
      {"Neg", "T=float|double"},
      {"OfAnotherLibrary", "Z=bool"},
      {"Abs", NULL},
      {"Neg", "T=int32"},
      {"Exp", "T=nonsense"},
      {"Exp", "U=float"},
  };
  static const struct {
    const char *op;
    td_dtype type;
    bool has;
  } cases[] = {
      {"Neg", TD_FLOAT32, true},  {"Neg", TD_INT32, true},
      {"Neg", TD_INT64, false},   {"Abs", TD_INT64, true},
      {"Exp", TD_FLOAT32, false}, {"Sqrt", TD_FLOAT32, false},
  };
  (void)state;
  td_graph *g;
  size_t n;
  OK(td_graph_new(&g));
  td_kernel_table *t = table(rows, TD_COUNT(rows));
  for (size_t i = 0; i < TD_COUNT(cases); i++)
    assert_int_equal(
        td_kernel_table_has(t, NULL, unary(g, cases[i].op, cases[i].type)),
        cases[i].has);
  const td_kernel_offer *sorted = td_kernel_table_rows(t, &n);
  assert_int_equal(n, TD_COUNT(rows));
  assert_string_equal(sorted[0].op, "Abs");
  assert_string_equal(sorted[5].op, "OfAnotherLibrary");
  td_kernel_table_release(t);
  td_graph_release(g);
}

static void test_same(void **state) {
  static const td_kernel_offer a[] = {{"Neg", "T=float"}, {"Abs", NULL}};
  static const td_kernel_offer b[] = {{"Abs", NULL}, {"Neg", "T=float"}};
  static const td_kernel_offer c[] = {{"Abs", NULL}, {"Neg", "T=double"}};
  (void)state;
  td_kernel_table *x = table(a, 2), *y = table(b, 2), *z = table(c, 2),
                  *one = table(a, 1), *none = table(NULL, 0);
  assert_true(td_kernel_table_same(x, y) && td_kernel_table_same(NULL, NULL));
  assert_false(td_kernel_table_same(x, z) || td_kernel_table_same(x, one));
  assert_false(td_kernel_table_same(none, NULL));
  td_kernel_table *all[] = {x, y, z, one, none};
  for (size_t i = 0; i < TD_COUNT(all); i++) td_kernel_table_release(all[i]);
}

/* What this process would send says of every node what its registry says. */
static void test_here(void **state) {
  static const td_dtype types[] = {TD_FLOAT32, TD_FLOAT64, TD_INT32, TD_INT64,
                                   TD_COMPLEX64};
  static const char *const ops[] = {"Neg", "Abs", "Exp", "Sqrt", "Square"};
  (void)state;
  td_graph *g;
  td_kernel_table *t, *again;
  int found = 0;
  OK(td_graph_new(&g));
  OK(td_kernel_table_here("CPU", &t));
  OK(td_kernel_table_here("CPU", &again));
  assert_true(td_kernel_table_same(t, again));
  for (size_t o = 0; o < TD_COUNT(ops); o++)
    for (size_t i = 0; i < TD_COUNT(types); i++) {
      const td_op *op = td_op_find(ops[o]);
      if (!(op->attr[0].types >> types[i] & 1)) continue;
      td_node *n = unary(g, ops[o], types[i]);
      bool has = td_kernel_table_has(NULL, "CPU", n);
      assert_int_equal(td_kernel_table_has(t, NULL, n), has);
      found += has;
    }
  assert_true(found > 10);
  td_kernel_table_release(t);
  td_kernel_table_release(again);
  OK(td_kernel_table_here("NONE", &t));
  td_kernel_table_release(t);
  td_graph_release(g);
}

static void test_no_memory(void **state) {
  static const td_kernel_offer rows[] = {{"Neg", "T=float"}, {"Abs", NULL}};
  (void)state;
  td_kernel_table *t;
  int64_t n = 1;
  for (;; n++) {
    td_mem_fail(n, n % 2);
    td_status *s = td_kernel_table_new(rows, TD_COUNT(rows), &t);
    td_mem_fail(0, false);
    if (td_ok(s)) break;
    FAILS(s, TD_RESOURCE_EXHAUSTED, "");
  }
  assert_int_equal(n, 6);
  td_kernel_table_release(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows),
      cmocka_unit_test(test_same),
      cmocka_unit_test(test_here),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
