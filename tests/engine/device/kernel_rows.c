/* kernel_rows.c - the registry of kernels: rows found, refused, listed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/kernel_rows.h"
#include "tests/engine/device/run_node.h"

static td_graph *fresh_graph(void) {
  td_graph *g;
  OK(td_graph_new(&g));
  return g;
}

/* ---- before there is any ---------------------------------------------------
 */

/* The first look-up reads all rows. Without memory it says so and the next one
 * tries again; the n-th allocation fails, once or for ever. */
static int read_without_memory(void **state) {
  int64_t nth = 1;
  (void)state;
  OK(td_op_check());
  for (;; nth++) {
    td_mem_fail(nth, nth % 2);
    td_status *s = td_kernel_check();
    td_mem_fail(0, false);
    if (td_ok(s)) break;
    FAILS(s, TD_RESOURCE_EXHAUSTED, "");
  }
  print_message("%lld allocations failed\n", (long long)nth - 1);
  assert_true(nth > 100);
  return register_node_ops(state);
}

/* ---- the registry -------------------------------------------------------- */

static void test_registry_is_sound(void **state) {
  (void)state;
  OK(td_op_check());
  OK(td_kernel_check());
}

static td_node *types_node(td_graph *g, td_dtype t, td_dtype ti, td_dtype u) {
  td_build b;
  td_node *n;
  td_build_init(&b, g, "TestTypes", NULL);
  td_build_in(&b, placeholder(g, t));
  td_build_in(&b, placeholder(g, ti));
  td_build_attr(&b, "U", td_attr_types(&u, 1));
  OK(td_build_node(&b, &n));
  return n;
}

static void test_rows_by_dtype(void **state) {
  static const struct {
    td_dtype t, ti, u;
    const char *device;
    int row; /* in node_kernels from the first TestTypes, -1: none */
  } rows[] = {
      {TD_FLOAT32, TD_INT32, TD_BOOL, "CPU", 0},
      {TD_FLOAT64, TD_INT64, TD_BOOL, "CPU", 0},
      {TD_INT32, TD_INT64, TD_BOOL, "CPU", 1},
      {TD_INT32, TD_INT32, TD_BOOL, "CPU", -1},
      {TD_STRING, TD_INT32, TD_BOOL, "CPU", -1},
      {TD_STRING, TD_INT32, TD_FLOAT16, "CUDA", 2},
      {TD_STRING, TD_INT32, TD_FLOAT32, "CUDA", -1},
      {TD_FLOAT32, TD_INT32, TD_FLOAT16, "TEST", -1},
  };
  const td_kernel_def *first = node_kernels;
  while (strcmp(first->op, "TestTypes") != 0) first++;
  td_graph *g = fresh_graph();
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    const td_kernel_def *got = NULL;
    td_node *n = types_node(g, rows[i].t, rows[i].ti, rows[i].u);
    td_status *s = td_kernel_find(n, rows[i].device, &got);
    assert_int_equal(td_kernel_exists(n, rows[i].device), rows[i].row >= 0);
    if (rows[i].row < 0) {
      FAILS(s, TD_NOT_FOUND, "there are: T=float|double");
      continue;
    }
    OK(s);
    assert_ptr_equal(got, first + rows[i].row);
  }
  td_graph_release(g);
}

static void test_message_names_what_was_given(void **state) {
  const td_kernel_def *def;
  td_graph *g = fresh_graph();
  td_node *n = types_node(g, TD_STRING, TD_INT64, TD_BOOL);
  (void)state;
  FAILS(td_kernel_find(n, "CPU", &def), TD_NOT_FOUND,
        "no CPU kernel for op TestTypes with T=string, Ti=int64; there "
        "are: T=float|double; T=int32, Ti=int64; U=half on CUDA");
  td_graph_release(g);
}

static void test_types_of_an_op(void **state) {
  static const struct {
    const char *attr, *device;
    uint32_t want;
  } rows[] = {
      {"T", "CPU", 1u << TD_FLOAT32 | 1u << TD_FLOAT64 | 1u << TD_INT32},
      {"Ti", "CPU", 1u << TD_INT32 | 1u << TD_INT64},
      {"U", "CUDA", 1u << TD_FLOAT16},
      {"T", "CUDA", (1u << TD_DTYPES) - 2},
      {"T", "TEST", 0},
      {"none", "CPU", 0},
  };
  const td_op *op = td_op_find("TestTypes");
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++)
    assert_int_equal(td_kernel_types(op, rows[i].device, rows[i].attr),
                     rows[i].want);
}

static td_status *never_save(const void *state, td_str *out) {
  (void)state, (void)out;
  return NULL;
}

static td_status *never_load(void *state, td_bytes from) {
  (void)state, (void)from;
  return NULL;
}

/* A library's rows are refused whole, whatever is wrong with one. */
static void test_bad_rows(void **state) {
  static const struct {
    td_kernel_def row;
    const char *part;
  } rows[] = {
      {{.op = "NoSuchOp", CPU, .run = never_run}, "no registered op"},
      {{.op = "TestTypes", .run = never_run}, "no device"},
      {{.op = "TestTypes", CPU}, "run or start"},
      {{.op = "TestTypes", CPU, .start = wait_start}, "cannot be cancelled"},
      {{.op = "TestTypes", CPU, .run = never_run, .start = wait_start},
       "cannot be cancelled"},
      {{.op = "TestTypes", CPU, .run = never_run, .save = never_save},
       "cannot load"},
      {{.op = "TestTypes",
        CPU,
        .run = never_run,
        .save = never_save,
        .load = never_load},
       "a state it does not have"},
      {{.op = "TestTypes", CPU, .run = never_run, .types = "T"}, "without"},
      {{.op = "TestTypes", CPU, .run = never_run, .types = "X=float"},
       "no type attribute"},
      {{.op = "TestTypes", CPU, .run = never_run, .types = "T=flaot"},
       "unknown dtype"},
      {{.op = "TestTypes", CPU, .run = never_run, .types = "T="}, "no dtype"},
      {{.op = "TestTypes", CPU, .run = never_run, .exclusive = "x"},
       "no resource input"},
      {{.op = "TestTypes", CPU, .run = never_run, .shared = "y"},
       "no resource input"},
  };
  td_graph *g = fresh_graph();
  td_node *n = types_node(g, TD_BOOL, TD_INT32, TD_BOOL);
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_kernel_def kernels[] = {
        {.op = "TestTypes", CPU, .run = never_run}, rows[i].row, {0}};
    td_module m = {"bad", NULL, kernels};
    FAILS(td_kernel_register(&m), TD_INTERNAL, rows[i].part);
    assert_false(td_kernel_exists(n, "CPU"));
  }
  td_graph_release(g);
}

static void test_register_without_memory(void **state) {
  static const td_op_def ops[] = {
      {.type = "TestLate", .sig = "x: float ->", ANY}, {0}};
  static const td_kernel_def kernels[] = {
      {.op = "TestLate", CPU, .run = never_run},
      {.op = "TestLate", .device = "CUDA", .run = never_run},
      {0}};
  td_module m = {"late", ops, kernels};
  td_graph *g = fresh_graph();
  int64_t nth = 1;
  (void)state;
  OK(td_op_register(&m));
  td_node *n = NODE(g, "TestLate", TD_FLOAT32);
  for (;; nth++) {
    td_mem_fail(nth, false);
    td_status *s = td_kernel_register(&m);
    td_mem_fail(0, false);
    assert_int_equal(td_kernel_exists(n, "CPU"), td_ok(s));
    assert_int_equal(td_kernel_exists(n, "CUDA"), td_ok(s));
    if (td_ok(s)) break;
    FAILS(s, TD_RESOURCE_EXHAUSTED, "");
  }
  assert_true(nth > 2);
  td_graph_release(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_registry_is_sound),
      cmocka_unit_test(test_rows_by_dtype),
      cmocka_unit_test(test_message_names_what_was_given),
      cmocka_unit_test(test_types_of_an_op),
      cmocka_unit_test(test_bad_rows),
      cmocka_unit_test(test_register_without_memory),
  };
  return cmocka_run_group_tests(tests, read_without_memory, NULL);
}
