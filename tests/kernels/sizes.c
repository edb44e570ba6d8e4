/* sizes.c - sizes computed from sizes are known while a graph is built: the
 * value functions of the element-wise ops, the reductions and Cast.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include "engine/graph/build.h"
#include "engine/graph/graph.h"

static td_edge node(td_build *b) {
  td_edge e = {NULL, 0};
  assert_null(td_build_node(b, &e.node));
  return e;
}

static td_edge constant(td_graph *g, int rank, int64_t n, const int32_t *v) {
  td_build b;
  td_tensor t;
  td_shape s = td_shape_of(rank, &n);
  assert_null(td_tensor_from(TD_INT32, &s, v, &t));
  td_build_init(&b, g, "Const", "c");
  td_build_attr(&b, "value", td_attr_tensor(&t));
  td_build_attr(&b, "dtype", td_attr_type(TD_INT32));
  td_edge e = node(&b);
  td_tensor_release(&t);
  return e;
}

/* Shape of a placeholder {4, -1}, as int32. */
static td_edge sizes(td_graph *g) {
  td_build b;
  td_shape s = td_shape_matrix(4, -1);
  td_build_init(&b, g, "Placeholder", "x");
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT32));
  td_build_attr(&b, "shape", td_attr_shape(&s));
  td_edge x = node(&b);
  td_build_init(&b, g, "Shape", "s");
  td_build_in(&b, x);
  return node(&b);
}

/* The shape of something filled to the sizes in `dims`. */
static td_shape filled(td_graph *g, td_edge dims) {
  td_build b;
  td_build_init(&b, g, "Fill", "f");
  td_build_in(&b, dims);
  td_build_in(&b, constant(g, 0, 0, (int32_t[]){0}));
  return *td_edge_shape(node(&b));
}

static void check(td_graph *g, td_edge dims, const char *want) {
  td_shape_text text;
  td_shape s = filled(g, dims);
  assert_string_equal(td_shape_str(&s, &text), want);
}

static void test_binary(void **state) {
  static const struct {
    const char *op;
    int rank;
    int32_t y[2];
    const char *want; /* {4, -1} op y */
  } rows[] = {
      {"Add", 1, {1, 2}, "{5, -1}"},       {"AddV2", 0, {3}, "{7, -1}"},
      {"Sub", 1, {1, 1}, "{3, -1}"},       {"Mul", 0, {2}, "{8, -1}"},
      {"FloorDiv", 0, {3}, "{1, -1}"},     {"FloorDiv", 1, {0, 1}, "{-1, -1}"},
      {"Maximum", 1, {6, 6}, "{6, -1}"},   {"Minimum", 0, {3}, "{3, -1}"},
      {"Mul", 0, {INT32_MAX}, "{-1, -1}"},
  };
  td_graph *g;
  (void)state;
  assert_null(td_graph_new(&g));
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_build b;
    td_build_init(&b, g, rows[i].op, "y");
    td_build_in(&b, sizes(g));
    td_build_in(&b, constant(g, rows[i].rank, 2, rows[i].y));
    check(g, node(&b), rows[i].want);
  }
  td_graph_release(g);
}

static td_edge reduced(td_graph *g, const char *op, td_edge x) {
  td_build b;
  td_build_init(&b, g, op, "r");
  td_build_in(&b, x);
  td_build_in(&b, constant(g, 1, 1, (int32_t[]){-1}));
  td_build_attr(&b, "keep_dims", td_attr_bool(true));
  return node(&b);
}

static void test_reduced(void **state) {
  static const int32_t three[] = {4, 5, 6};
  td_graph *g;
  (void)state;
  assert_null(td_graph_new(&g));
  check(g, reduced(g, "Prod", constant(g, 1, 3, three)), "{120}");
  check(g, reduced(g, "Sum", constant(g, 1, 3, three)), "{15}");
  check(g, reduced(g, "Prod", sizes(g)), "{-1}");
  td_graph_release(g);
}

static void test_cast(void **state) {
  td_graph *g;
  td_build b;
  (void)state;
  assert_null(td_graph_new(&g));
  td_build_init(&b, g, "Cast", "wide");
  td_build_in(&b, sizes(g));
  td_build_attr(&b, "DstT", td_attr_type(TD_INT64));
  check(g, node(&b), "{4, -1}");
  td_graph_release(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_binary),
      cmocka_unit_test(test_reduced),
      cmocka_unit_test(test_cast),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
