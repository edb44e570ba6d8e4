/* print.c - values as TensorFlow 2.21 writes them, and when Print speaks.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/device/run_node.h"

#include <math.h>

/* What step->print was given. */
static td_str printed;

static void keep(void *arg, const char *at, size_t len) {
  (void)arg;
  td_str_addn(&printed, at, len);
}

static td_node *print_node(td_graph *g, td_dtype type, const char *message,
                           int summarize, int first_n) {
  td_build b;
  td_node *n;
  td_edge data;
  td_build_init(&b, g, "Print", NULL);
  td_build_in(&b, placeholder(g, TD_FLOAT32));
  data = placeholder(g, type);
  td_build_list(&b, &data, 1);
  td_build_attr(&b, "message", td_attr_string(message));
  td_build_attr(&b, "summarize", td_attr_int(summarize));
  td_build_attr(&b, "first_n", td_attr_int(first_n));
  OK(td_build_node(&b, &n));
  return n;
}

/* Takes `t`. */
static void check_print(td_tensor t, int summarize, const char *want) {
  td_graph *g;
  td_step step = step_new();
  td_tensor in[] = {FLOATS(1), t}, out;
  step.print = keep;
  OK(td_graph_new(&g));
  td_node *n = print_node(g, t.dtype, "m: ", summarize, -1);
  td_str_clear(&printed);
  OK(run_node(n, cpu, &step, in, &out));
  assert_string_equal(td_str_c(&printed), want);
  assert_true(td_tensor_same(&in[0], &out));
  td_tensor_release(&in[0]);
  td_tensor_release(&in[1]);
  td_tensor_release(&out);
  step_end(&step);
  td_graph_release(g);
}

/* 0, 1, 2, ... */
static td_tensor counted(int rank, const int64_t *dims) {
  td_tensor t;
  td_shape shape = td_shape_of(rank, dims);
  OK(td_tensor_new(NULL, TD_INT32, &shape, &t));
  for (int64_t i = 0; i < td_tensor_count(&t); i++) td_tensor_set_i(&t, i, i);
  return t;
}

static void test_brackets(void **state) {
  static const struct {
    int rank;
    int64_t dims[3];
    int summarize;
    const char *want;
  } rows[] = {
      {0, {0}, 3, "m: [0]\n"},
      {0, {0}, 0, "m: [...]\n"},
      {1, {3}, 3, "m: [0 1 2]\n"},
      {1, {5}, 3, "m: [0 1 2...]\n"},
      {1, {0}, 3, "m: []\n"},
      {2, {2, 0}, 3, "m: []\n"},
      {2, {0, 2}, 3, "m: []\n"},
      {2, {2, 2}, 2, "m: [[0 1]...]\n"},
      {2, {3, 4}, 3, "m: [[0 1 2...]...]\n"},
      {2, {3, 4}, 5, "m: [[0 1 2 3][4...]...]\n"},
      {2, {3, 4}, 4, "m: [[0 1 2 3]...]\n"},
      {2, {3, 4}, 12, "m: [[0 1 2 3][4 5 6 7][8 9 10 11]]\n"},
      {2, {3, 4}, -1, "m: [[0 1 2 3][4 5 6 7][8 9 10 11]]\n"},
      {3, {2, 2, 2}, 2, "m: [[[0 1]]...]\n"},
      {3, {2, 3, 4}, 7, "m: [[[0 1 2 3][4 5 6...]]...]\n"},
      {3, {2, 3, 4}, 0, "m: [...]\n"},
  };
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++)
    check_print(counted(rows[i].rank, rows[i].dims), rows[i].summarize,
                rows[i].want);
}

static td_tensor of(td_dtype dtype, int n, const double *at) {
  td_tensor t;
  td_shape shape = td_shape_vector(n);
  OK(td_tensor_new(NULL, dtype, &shape, &t));
  for (int i = 0; i < n; i++) td_tensor_set_f(&t, i, at[i]);
  return t;
}

static void test_elements(void **state) {
  static const struct {
    td_dtype dtype;
    double at[8];
    int n;
    const char *want;
  } rows[] = {
      {TD_FLOAT32,
       {1 / 3.0, 0.1, 1e10, 1e-10, 123456789, 1e20, 1234567, 3.4e38},
       8,
       "m: [0.333333343 0.1 1e+10 1e-10 123456792 1e+20 1234567 3.4e+38]\n"},
      {TD_FLOAT64,
       {1 / 3.0, 0.1, 1e10, 1e-10, -0.0, 123456789, 1e15, 0.1 + 0.2},
       8,
       "m: [0.33333333333333331 0.1 10000000000 1e-10 -0 123456789 1e+15 "
       "0.30000000000000004]\n"},
      {TD_FLOAT32, {NAN, INFINITY, -INFINITY}, 3, "m: [nan inf -inf]\n"},
      {TD_FLOAT32, {-NAN}, 1, "m: [nan]\n"},
      {TD_FLOAT16, {1 / 3.0, 0.1}, 2, "m: [0.333251953 0.0999755859]\n"},
      {TD_INT8, {1, -2}, 2, "m: [1 -2]\n"},
      {TD_UINT8, {200}, 1, "m: [200]\n"},
      {TD_BOOL, {1, 0}, 2, "m: [1 0]\n"},
      {TD_COMPLEX64, {1.5}, 1, "m: [(1.5,0)]\n"},
  };
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++)
    check_print(of(rows[i].dtype, rows[i].n, rows[i].at), -1, rows[i].want);
  check_print(text("a\"b\n\x01\xff"), -1, "m: [a\\\"b\\n\\001\xff]\n");
}

/* Print counts its runs where first_n is given; the count is the session's. */
static void test_first_n(void **state) {
  td_graph *g;
  td_states *states_of;
  td_step step = step_new();
  td_tensor in[] = {FLOATS(1), INTS(1)};
  (void)state;
  step.print = keep;
  OK(td_graph_new(&g));
  OK(td_states_new(&states_of));
  td_node *n = print_node(g, TD_INT32, "", 3, 2);
  td_str_clear(&printed);
  for (int i = 0; i < 4; i++) {
    pending f;
    OK(pending_init(&f, n, cpu, states_of, &step, in));
    td_kernel_start(&f.ctx);
    OK(pending_wait(&f));
    pending_end(&f);
  }
  assert_string_equal(td_str_c(&printed), "[1]\n[1]\n");
  td_tensor_release(&in[0]);
  td_tensor_release(&in[1]);
  td_states_release(states_of);
  step_end(&step);
  td_graph_release(g);
}

static void test_assert(void **state) {
  td_graph *g;
  td_build b;
  td_node *n;
  td_step step = step_new();
  bool yes = true;
  (void)state;
  OK(td_graph_new(&g));
  td_edge data[] = {placeholder(g, TD_INT32), placeholder(g, TD_STRING)};
  td_build_init(&b, g, "Assert", NULL);
  td_build_in(&b, placeholder(g, TD_BOOL));
  td_build_list(&b, data, 2);
  OK(td_build_node(&b, &n));
  td_tensor in[] = {{.dtype = 0}, INTS(1, 2, 3, 4), text("hi")};
  td_shape scalar = td_shape_scalar();
  OK(td_tensor_from(TD_BOOL, &scalar, &yes, &in[0]));
  OK(run_node(n, cpu, &step, in, NULL));
  *(bool *)in[0].data = false;
  FAILS(run_node(n, cpu, &step, in, NULL), TD_INVALID_ARGUMENT,
        "assertion failed: [1 2 3...] [hi]");
  in[0].shape = td_shape_vector(1);
  FAILS(run_node(n, cpu, &step, in, NULL), TD_INVALID_ARGUMENT,
        "condition must be a scalar, not of {1}");
  for (int i = 0; i < 3; i++) td_tensor_release(&in[i]);
  step_end(&step);
  td_graph_release(g);
}

static int begin(void **state) {
  (void)state;
  td_str_init(&printed);
  return begin_cpu(state);
}

static int end(void **state) {
  (void)state;
  td_str_deinit(&printed);
  td_device_release(cpu);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_brackets),
      cmocka_unit_test(test_elements),
      cmocka_unit_test(test_first_n),
      cmocka_unit_test(test_assert),
  };
  return cmocka_run_group_tests(tests, begin, end);
}
