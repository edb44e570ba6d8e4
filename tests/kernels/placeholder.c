/* placeholder.c - placeholders that nobody fed, and shapes checked at run time:
 * PlaceholderWithDefault, EnsureShape.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/eval.h"
#include "tests/engine/device/run_node.h"

static td_status *eval(const char *op, const td_tensor *in,
                       const td_note *attrs, int n_attrs, td_tensor *out) {
  static const int one[] = {1};
  int n_out;
  return td_eval(td_op_find(op), cpu, 2, in, one, attrs, n_attrs, out, 1,
                 &n_out, NULL);
}

/* ---- placeholders -------------------------------------------------------- */

static void test_placeholder_was_not_fed(void **state) {
  td_graph *g;
  td_build b;
  td_node *n;
  td_step step = step_new();
  td_shape shape = td_shape_matrix(-1, 784);
  td_tensor out;
  (void)state;
  OK(td_graph_new(&g));
  td_build_init(&b, g, "Placeholder", "x");
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT32));
  td_build_attr(&b, "shape", td_attr_shape(&shape));
  OK(td_build_node(&b, &n));
  FAILS(run_node(n, cpu, &step, NULL, &out), TD_INVALID_ARGUMENT,
        "you must feed placeholder x (float32 {-1, 784})");
  step_end(&step);
  td_graph_release(g);
}

static void test_default(void **state) {
  td_shape any = td_shape_vector(-1), three = td_shape_vector(3);
  td_note good[] = {{"shape", td_attr_shape(&any)}};
  td_note bad[] = {{"shape", td_attr_shape(&three)}};
  td_tensor x = FLOATS(1, 2), y;
  (void)state;
  OK(eval("PlaceholderWithDefault", &x, good, 1, &y));
  assert_true(td_tensor_same(&x, &y));
  td_tensor_release(&y);
  FAILS(eval("PlaceholderWithDefault", &x, bad, 1, &y), TD_INVALID_ARGUMENT,
        "a default of shape {2} for a placeholder of shape {3}");
  td_tensor_release(&x);
}

/* ---- shapes at run time -------------------------------------------------- */

static void test_ensure_shape(void **state) {
  td_graph *g;
  td_build b;
  td_node *n;
  td_step step = step_new();
  td_shape want = td_shape_vector(3);
  td_tensor good = FLOATS(1, 2, 3), bad = FLOATS(1, 2), out;
  (void)state;
  OK(td_graph_new(&g));
  td_build_init(&b, g, "EnsureShape", NULL);
  td_build_in(&b, placeholder(g, TD_FLOAT32)); /* of unknown shape */
  td_build_attr(&b, "shape", td_attr_shape(&want));
  OK(td_build_node(&b, &n));
  assert_int_equal(n->out[0].shape.dim[0], 3);
  OK(run_node(n, cpu, &step, &good, &out));
  td_tensor_release(&out);
  FAILS(run_node(n, cpu, &step, &bad, &out), TD_INVALID_ARGUMENT,
        "must be of shape {3}, not {2}");
  td_tensor_release(&good);
  td_tensor_release(&bad);
  step_end(&step);
  td_graph_release(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_placeholder_was_not_fed),
      cmocka_unit_test(test_default),
      cmocka_unit_test(test_ensure_shape),
  };
  return cmocka_run_group_tests(tests, begin_cpu, end_cpu);
}
