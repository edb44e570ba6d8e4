/* eval.c - ops computed at once: values, checks, messages, operands kept.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/eval.h"
#include "tests/engine/device/run_node.h"

#include "engine/base/clock.h"

/* An op with one tensor in each of its first n arguments. */
static td_status *eval(const char *op, const td_tensor *in, int n,
                       const td_note *attrs, int n_attrs, td_tensor *out,
                       int cap, int *n_out) {
  static const int ones[] = {1, 1, 1, 1};
  (void)n;
  return td_eval(td_op_find(op), cpu, 1, in, ones, attrs, n_attrs, out, cap,
                 n_out, NULL);
}

/* ---- values -------------------------------------------------------------- */

static void test_values(void **state) {
  td_tensor in[] = {FLOATS(5, 6, 7), INTS(2)}, out[2];
  int n_out;
  (void)state;
  in[1].shape = td_shape_scalar();
  OK(eval("TestTake", in, 2, NULL, 0, out, 2, &n_out));
  assert_int_equal(n_out, 2);
  assert_int_equal(td_tensor_count(&out[0]), 2);
  assert_true(td_tensor_get_f(&out[0], 1) == 6);
  assert_int_equal(td_tensor_get_i(&out[1], 0), 2);
  for (int i = 0; i < 2; i++) {
    td_tensor_release(&out[i]);
    td_tensor_release(&in[i]);
  }
}

/* The operand is never written, though the caller alone holds it. */
static void test_operands_are_kept(void **state) {
  td_tensor x = FLOATS(1, 2), y;
  int n_out;
  (void)state;
  OK(eval("TestDouble", &x, 1, NULL, 0, &y, 1, &n_out));
  assert_true(td_tensor_get_f(&x, 1) == 2);
  assert_true(td_tensor_get_f(&y, 1) == 4);
  assert_int_equal(x.buffer->refs, 1);
  td_tensor_release(&x);
  td_tensor_release(&y);
}

static void test_lists(void **state) {
  td_tensor in[10], out[10];
  int groups[] = {10}, n_out;
  (void)state;
  for (int i = 0; i < 10; i++) in[i] = i % 2 ? INTS(i) : FLOATS((float)i);
  OK(td_eval(td_op_find("IdentityN"), cpu, 1, in, groups, NULL, 0, out, 10,
             &n_out, NULL));
  assert_int_equal(n_out, 10);
  for (int i = 0; i < 10; i++) {
    assert_int_equal(out[i].dtype, in[i].dtype);
    assert_true(td_tensor_get_f(&out[i], 0) == i);
    td_tensor_release(&in[i]);
    td_tensor_release(&out[i]);
  }
}

static void test_attributes(void **state) {
  td_shape shape = td_shape_vector(2);
  td_note attrs[] = {{"shape", td_attr_shape(&shape)}};
  td_tensor good = FLOATS(1, 2), bad = FLOATS(1, 2, 3), y;
  int n_out;
  (void)state;
  OK(eval("EnsureShape", &good, 1, attrs, 1, &y, 1, &n_out));
  assert_true(td_tensor_same(&good, &y));
  td_tensor_release(&y);
  FAILS(eval("EnsureShape", &bad, 1, attrs, 1, &y, 1, &n_out),
        TD_INVALID_ARGUMENT, "must be of shape {2}, not {3}");
  td_tensor_release(&good);
  td_tensor_release(&bad);
}

/* ---- errors -------------------------------------------------------------- */

static void test_errors(void **state) {
  static const struct {
    const char *op;
    int n; /* operands, FLOATS(1, 2) each */
    int cap;
    td_code code;
    const char *part;
  } rows[] = {
      {"Identity", 0, 1, TD_INVALID_ARGUMENT, "input"},
      {"TestTake", 2, 2, TD_INVALID_ARGUMENT, "k"}, /* must be int32 */
      {"Identity", 1, 0, TD_INVALID_ARGUMENT, "1 outputs, there is room for 0"},
      {"LoopCond", 1, 1, TD_INVALID_ARGUMENT, "bool"},
      {"Placeholder", 0, 1, TD_INVALID_ARGUMENT, "dtype"},
      {"TestWait", 0, 1, TD_UNIMPLEMENTED, "only run in a session"},
      {"NoSuchKernel", 1, 1, TD_NOT_FOUND, "no CPU kernel"},
  };
  td_tensor in[] = {FLOATS(1, 2), FLOATS(1, 2)}, out[2];
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    int groups[2] = {rows[i].n > 0, rows[i].n > 1}, n_out = 7;
    FAILS(td_eval(td_op_find(rows[i].op), cpu, 1, in, groups, NULL, 0, out,
                  rows[i].cap, &n_out, NULL),
          rows[i].code, rows[i].part);
    assert_int_equal(n_out, 0);
  }
  td_tensor_release(&in[0]);
  td_tensor_release(&in[1]);
}

static void test_error_names_the_op(void **state) {
  td_tensor in[] = {FLOATS(1, 2), INTS(3)}, out[2];
  int n_out;
  (void)state;
  in[1].shape = td_shape_scalar();
  td_status *s = eval("TestTake", in, 2, NULL, 0, out, 2, &n_out);
  assert_string_equal(td_status_op(s), "TestTake");
  FAILS(s, TD_OUT_OF_RANGE, "k is 3");
  td_tensor_release(&in[0]);
  td_tensor_release(&in[1]);
}

static void test_stopped(void **state) {
  static const int stop = 1, ones[] = {1};
  td_tensor x = FLOATS(1, 2), y;
  int n_out;
  (void)state;
  FAILS(td_eval(td_op_find("TestDouble"), cpu, 1, &x, ones, NULL, 0, &y, 1,
                &n_out, &stop),
        TD_CANCELLED, "cancelled");
  td_tensor_release(&x);
}

/* ---- memory, time -------------------------------------------------------- */

static void test_without_memory(void **state) {
  td_tensor in[] = {FLOATS(5, 6, 7), INTS(2)}, out[2];
  int64_t nth = 1;
  (void)state;
  in[1].shape = td_shape_scalar();
  for (;; nth++) {
    int n_out;
    td_mem_fail(nth, nth % 2);
    td_status *s = eval("TestTake", in, 2, NULL, 0, out, 2, &n_out);
    td_mem_fail(0, false);
    if (td_ok(s)) break;
    FAILS(s, TD_RESOURCE_EXHAUSTED, "");
  }
  print_message("%lld allocations failed\n", (long long)nth - 1);
  assert_true(nth > 5);
  for (int i = 0; i < 2; i++) {
    td_tensor_release(&in[i]);
    td_tensor_release(&out[i]);
  }
}

static void test_says_how_long_it_takes(void **state) {
  enum { RUNS = 20000 };
  td_tensor in[] = {FLOATS(5, 6, 7), INTS(2)}, out[2];
  int n_out;
  (void)state;
  in[1].shape = td_shape_scalar();
  int64_t start = td_clock_now();
  for (int i = 0; i < RUNS; i++) {
    OK(eval("TestTake", in, 2, NULL, 0, out, 2, &n_out));
    td_tensor_release(&out[0]);
    td_tensor_release(&out[1]);
  }
  print_message("%lld ns for an op of two operands\n",
                (long long)(td_clock_now() - start) / RUNS);
  td_tensor_release(&in[0]);
  td_tensor_release(&in[1]);
}

static const td_op_def without[] = {
    {.type = "NoSuchKernel", .sig = "x: float -> y: float", ANY}, {0}};

static int begin(void **state) {
  td_module m = {"without", without, NULL};
  register_node_ops(state);
  OK(td_op_register(&m));
  return begin_cpu(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_operands_are_kept),
      cmocka_unit_test(test_lists),
      cmocka_unit_test(test_attributes),
      cmocka_unit_test(test_errors),
      cmocka_unit_test(test_error_names_the_op),
      cmocka_unit_test(test_stopped),
      cmocka_unit_test(test_without_memory),
      cmocka_unit_test(test_says_how_long_it_takes),
  };
  return cmocka_run_group_tests(tests, begin, end_cpu);
}
