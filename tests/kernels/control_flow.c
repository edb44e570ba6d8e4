/* control_flow.c - shapes through loops, and what Merge and Switch pass on.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/device/run_node.h"
#include "engine/graph/node_edit.h"

static td_graph *fresh(void) {
  td_graph *g;
  OK(td_graph_new(&g));
  return g;
}

static td_edge of_shape(td_graph *g, td_shape shape) {
  td_build b;
  td_edge e = {NULL, 0};
  td_build_init(&b, g, "Placeholder", NULL);
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT32));
  td_build_attr(&b, "shape", td_attr_shape(&shape));
  OK(td_build_node(&b, &e.node));
  return e;
}

static void check_shape(td_edge e, const char *want) {
  td_shape_text text_of;
  assert_string_equal(td_shape_str(td_edge_shape(e), &text_of), want);
}

static td_shape shape_of(int rank, int64_t a, int64_t b) {
  return td_shape_of(rank, (int64_t[]){a, b});
}

/* ---- shapes -------------------------------------------------------------- */

static void test_merge_widens(void **state) {
  static const struct {
    int ra, a0, a1, rb, b0, b1;
    const char *want;
  } rows[] = {
      {2, 3, 4, 2, 3, 4, "{3, 4}"},   {2, 3, 4, 2, 3, 5, "{3, -1}"},
      {2, 3, 4, 2, -1, 4, "{-1, 4}"}, {2, 3, 4, 1, 3, 0, "?"},
      {0, 0, 0, 0, 0, 0, "{}"},       {-1, 0, 0, 1, 3, 0, "?"},
  };
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_graph *g = fresh();
    td_build b;
    td_node *n;
    td_edge in[] = {of_shape(g, shape_of(rows[i].ra, rows[i].a0, rows[i].a1)),
                    of_shape(g, shape_of(rows[i].rb, rows[i].b0, rows[i].b1))};
    td_build_init(&b, g, "Merge", NULL);
    td_build_list(&b, in, 2);
    OK(td_build_node(&b, &n));
    check_shape((td_edge){n, 0}, rows[i].want);
    check_shape((td_edge){n, 1}, "{}");
    td_graph_release(g);
  }
}

static td_status *add_enter(td_graph *g, td_edge x, const td_shape *invariant,
                            int parallel, td_edge *out) {
  td_build b;
  td_build_init(&b, g, "Enter", NULL);
  td_build_in(&b, x);
  td_build_attr(&b, "frame_name", td_attr_string("loop"));
  td_build_attr(&b, "parallel_iterations", td_attr_int(parallel));
  if (invariant) td_build_attr(&b, "_invariant", td_attr_shape(invariant));
  *out = (td_edge){NULL, 0};
  return td_build_node(&b, &out->node);
}

static td_node *add_merge(td_graph *g, td_edge enter) {
  td_build b;
  td_node *n;
  td_edge in[] = {enter, {NULL, 0}};
  td_build_init(&b, g, "Merge", NULL);
  td_build_flat(&b, in, 2);
  td_build_attr(&b, "T", td_attr_type(TD_FLOAT32));
  td_build_attr(&b, "N", td_attr_int(2));
  OK(td_build_node(&b, &n));
  return n;
}

static td_edge add_next(td_graph *g, td_edge x) {
  td_build b;
  td_edge e = {NULL, 0};
  td_build_init(&b, g, "NextIteration", NULL);
  td_build_in(&b, x);
  OK(td_build_node(&b, &e.node));
  return e;
}

/* A loop variable keeps the shape it begins with, or its invariant. */
static void test_back_edges(void **state) {
  static const struct {
    int64_t begins, invariant, comes_back; /* invariant 0: none */
    const char *shape;
    bool good;
  } rows[] = {
      {3, 0, 3, "{3}", true},    {3, 0, 4, "{3}", false},
      {3, 0, -1, "{3}", false},  {3, -1, 4, "{-1}", true},
      {3, -1, -1, "{-1}", true}, {-1, 0, 4, "{-1}", true},
  };
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_graph *g = fresh();
    td_shape invariant = td_shape_vector(rows[i].invariant);
    td_edge enter, x = of_shape(g, td_shape_vector(rows[i].begins));
    OK(add_enter(g, x, rows[i].invariant ? &invariant : NULL, 10, &enter));
    td_node *merge = add_merge(g, enter);
    check_shape((td_edge){merge, 0}, rows[i].shape);
    td_edge next =
        add_next(g, of_shape(g, td_shape_vector(rows[i].comes_back)));
    td_status *s = td_node_set_back_edge(merge, 1, next);
    if (rows[i].good) {
      OK(s);
      OK(td_node_infer(merge));
      check_shape((td_edge){merge, 0}, rows[i].shape);
    } else {
      FAILS(s, TD_INVALID_ARGUMENT, "shape");
    }
    td_graph_release(g);
  }
}

static void test_bad_enter(void **state) {
  td_graph *g = fresh();
  td_edge e, x = of_shape(g, td_shape_vector(3));
  td_shape narrow = td_shape_vector(4);
  (void)state;
  FAILS(add_enter(g, x, &narrow, 10, &e), TD_INVALID_ARGUMENT,
        "begins with shape {3}, which its invariant {4} does not allow");
  FAILS(add_enter(g, x, NULL, 0, &e), TD_INVALID_ARGUMENT,
        "parallel_iterations must be at least 1, is 0");
  td_graph_release(g);
}

static void test_scalars_are_demanded(void **state) {
  td_graph *g = fresh();
  td_build b;
  td_node *n;
  td_edge e = {NULL, 0};
  td_shape two = td_shape_vector(2);
  (void)state;
  td_build_init(&b, g, "Placeholder", NULL);
  td_build_attr(&b, "dtype", td_attr_type(TD_BOOL));
  td_build_attr(&b, "shape", td_attr_shape(&two));
  OK(td_build_node(&b, &e.node));
  td_build_init(&b, g, "Switch", NULL);
  td_build_in(&b, of_shape(g, two));
  td_build_in(&b, e);
  FAILS(td_build_node(&b, &n), TD_INVALID_ARGUMENT, "rank 0");
  td_build_init(&b, g, "LoopCond", NULL);
  td_build_in(&b, e);
  FAILS(td_build_node(&b, &n), TD_INVALID_ARGUMENT, "rank 0");
  td_graph_release(g);
}

/* ---- kernels ------------------------------------------------------------- */

/* Merge gets one input that is there; its index is known without looking. */
static void test_merge(void **state) {
  td_graph *g = fresh();
  td_build b;
  td_node *n;
  td_step step = step_new();
  td_edge in[3];
  (void)state;
  for (int i = 0; i < 3; i++) in[i] = placeholder(g, TD_FLOAT32);
  td_build_init(&b, g, "Merge", NULL);
  td_build_list(&b, in, 3);
  OK(td_build_node(&b, &n));
  for (int live = 0; live < 4; live++) {
    td_tensor x[4] = {{.dtype = 0}}, out[2];
    x[live] = FLOATS(7, 8);
    if (live == 3) {
      FAILS(run_node(n, cpu, &step, x, out), TD_INTERNAL, "live");
    } else {
      OK(run_node(n, cpu, &step, x, out));
      assert_true(td_tensor_same(&out[0], &x[live]));
      assert_int_equal(td_tensor_get_i(&out[1], 0), live);
      td_tensor_release(&out[0]);
      td_tensor_release(&out[1]);
    }
    td_tensor_release(&x[live]);
  }
  step_end(&step);
  td_graph_release(g);
}

/* The predicate's shape may be known at run time only. */
static void test_switch_checks_its_predicate(void **state) {
  td_graph *g = fresh();
  td_node *n = NODE(g, "Switch", TD_FLOAT32, TD_BOOL);
  td_step step = step_new();
  td_shape two = td_shape_vector(2);
  bool yes[2] = {true, true};
  td_tensor in[] = {FLOATS(1), {.dtype = 0}}, out[2];
  (void)state;
  OK(td_tensor_from(TD_BOOL, &two, yes, &in[1]));
  FAILS(run_node(n, cpu, &step, in, out), TD_INVALID_ARGUMENT,
        "pred must be a scalar, not of {2}");
  td_tensor_release(&in[0]);
  td_tensor_release(&in[1]);
  step_end(&step);
  td_graph_release(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_merge_widens),
      cmocka_unit_test(test_back_edges),
      cmocka_unit_test(test_bad_enter),
      cmocka_unit_test(test_scalars_are_demanded),
      cmocka_unit_test(test_merge),
      cmocka_unit_test(test_switch_checks_its_predicate),
  };
  return cmocka_run_group_tests(tests, begin_cpu, end_cpu);
}
