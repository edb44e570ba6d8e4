/* infer.c - tests of engine/graph/infer.h through ops that use it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops.h"

#include <stdio.h>

#include "engine/base/mem.h"
#include "engine/graph/build.h"
#include "engine/graph/infer_impl.h"

/* ---- values -------------------------------------------------------------- */

/* A shape function that shows the test what its input is known to be. */
static td_small seen;
static bool seen_any;
static const td_tensor *seen_const;

static td_status *shape_look(td_infer *c) {
  seen_any = td_infer_small(c, 0, &seen);
  seen_const = td_infer_const(c, 0);
  return NULL;
}

static const td_op_def look_ops[] = {
    {.type = "TestLook", .sig = "x: T ->; T: type", .shape = shape_look}, {0}};
static const td_module look_module = {"look", look_ops, NULL};

static int set_up(void **state) {
  td_status *s = td_op_register(&look_module);
  return s || register_ops(state) ? -1 : 0;
}

/* "{1, ?, 3}" as far as it is known, "none" when not at all. */
static const char *look(td_graph *g, td_edge x) {
  static char text[512];
  td_build b;
  td_node *n;
  td_build_init(&b, g, "TestLook", NULL);
  td_build_in(&b, x);
  OK(td_build_node(&b, &n));
  if (!seen_any) return "none";
  char *p = stpcpy(text, seen.rank ? "{" : "");
  for (int i = 0; i < seen.count; i++) {
    p = stpcpy(p, i ? ", " : "");
    if (seen.known[i])
      p += sprintf(p, "%lld", (long long)seen.at[i]);
    else
      p = stpcpy(p, "?");
  }
  stpcpy(p, seen.rank ? "}" : "");
  return text;
}

static void constants_through_identity(void **state) {
  (void)state;
  td_graph *g = new_graph();
  td_edge v = ints(g, (int32_t[]){4, 5}, 2), x = v;
  for (int i = 0; i < 10; i++) x = unary(g, "TestIdentity", x);
  assert_string_equal(look(g, x), "{4, 5}");
  assert_ptr_equal(seen_const, td_node_attr(v.node, "value")->tensor);
  td_build b;
  td_node *n;
  td_edge both[] = {v, ints(g, (int32_t[]){7}, -1)};
  td_build_init(&b, g, "TestIdentityN", NULL);
  td_build_list(&b, both, 2);
  OK(td_build_node(&b, &n));
  assert_string_equal(look(g, (td_edge){n, 1}), "7");
  assert_string_equal(look(g, (td_edge){n, 0}), "{4, 5}");
  for (int i = 0; i < 100; i++) x = unary(g, "TestIdentity", x);
  assert_string_equal(look(g, x), "{?, ?}"); /* too far: only the length */
  assert_null(seen_const);
  td_graph_release(g);
}

static void what_is_known(void **state) {
  (void)state;
  td_graph *g = new_graph();
  int32_t many[40] = {0};
  td_edge x = placeholder(g, TD_FLOAT32, td_shape_matrix(-1, 3), "x");
  td_edge n = placeholder(g, TD_INT32, td_shape_scalar(), "n");
  td_edge v = placeholder(g, TD_INT32, td_shape_vector(2), "v");
  assert_string_equal(look(g, unary(g, "TestShape", x)), "{?, 3}");
  td_edge parts[] = {n, ints(g, (int32_t[]){8}, -1)};
  td_edge packed = pack(g, parts, 2);
  assert_string_equal(look(g, packed), "{?, 8}");
  td_edge sum = binary(g, "TestAdd", packed, unary(g, "TestShape", x));
  assert_string_equal(look(g, sum), "{?, 11}");
  assert_string_equal(look(g, v), "{?, ?}");
  assert_string_equal(look(g, n), "none");
  assert_string_equal(look(g, x), "none");
  assert_string_equal(look(g, ints(g, many, 0)), "{}");
  assert_string_equal(look(g, ints(g, many, 33)), "none");
  assert_non_null(seen_const); /* as a tensor it is known */
  td_edge unknown = placeholder(g, TD_INT32, td_shape_unknown(), "u");
  assert_string_equal(look(g, unknown), "none");
  td_graph_release(g);
}

/* x + x + ...: 2^n paths. The answer may be "not known", but soon. */
static void hooks_are_bounded(void **state) {
  (void)state;
  td_graph *g = new_graph();
  td_edge one = ints(g, (int32_t[]){1}, -1), x = one;
  for (int i = 0; i < 6; i++) x = binary(g, "TestAdd", x, x);
  assert_string_equal(look(g, x), "64");
  for (int i = 0; i < 100; i++) x = binary(g, "TestAdd", x, x);
  assert_string_equal(look(g, x), "none");
  x = one;
  for (int i = 0; i < 15; i++) x = binary(g, "TestAdd", x, one);
  assert_string_equal(look(g, x), "16");
  for (int i = 0; i < 5; i++) x = binary(g, "TestAdd", x, one);
  assert_string_equal(look(g, x), "none"); /* too deep */
  td_graph_release(g);
}

/* ---- shapes from values -------------------------------------------------- */

static td_status *fill(td_graph *g, td_edge dims, td_edge *out) {
  td_build b;
  td_node *n;
  td_build_init(&b, g, "TestFill", NULL);
  td_build_in(&b, dims);
  td_build_in(&b, ints(g, (int32_t[]){1}, -1));
  td_status *s = td_build_node(&b, &n);
  *out = (td_edge){n, 0};
  return s;
}

static void shapes_from_values(void **state) {
  (void)state;
  td_graph *g = new_graph();
  td_edge e, x = placeholder(g, TD_FLOAT32, td_shape_matrix(-1, 3), "x");
  int32_t ones[17] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  OK(fill(g, ints(g, (int32_t[]){2, 0, 5}, 3), &e));
  assert_shape(e, "{2, 0, 5}");
  OK(fill(g, ints(g, (int32_t[]){2, -1}, 2), &e));
  assert_shape(e, "{2, -1}");
  OK(fill(g, ints(g, ones, 0), &e));
  assert_shape(e, "{}");
  OK(fill(g, unary(g, "TestShape", x), &e));
  assert_shape(e, "{-1, 3}");
  OK(fill(g, placeholder(g, TD_INT32, td_shape_vector(2), "v"), &e));
  assert_shape(e, "{-1, -1}");
  OK(fill(g, placeholder(g, TD_INT32, td_shape_vector(-1), "w"), &e));
  assert_shape(e, "?");
  OK(fill(g, placeholder(g, TD_INT32, td_shape_unknown(), "u"), &e));
  assert_shape(e, "?");
  FAILS(fill(g, ints(g, (int32_t[]){2, -3}, 2), &e), TD_INVALID_ARGUMENT,
        "size 1 of a shape must not be negative, is -3");
  FAILS(fill(g, ints(g, ones, 17), &e), TD_UNIMPLEMENTED,
        "a tensor of 17 dimensions: at most 16");
  FAILS(fill(g, placeholder(g, TD_INT32, td_shape_vector(17), "n"), &e),
        TD_UNIMPLEMENTED, "a tensor of 17 dimensions");
  FAILS(fill(g, ints(g, ones, -1), &e), TD_INVALID_ARGUMENT,
        "a vector of sizes, not of shape {}");
  FAILS(fill(g, placeholder(g, TD_INT32, td_shape_matrix(-1, 1), "m"), &e),
        TD_INVALID_ARGUMENT, "not of shape {-1, 1}");
  td_graph_release(g);
}

/* ---- checks -------------------------------------------------------------- */

/* A td_infer over one placeholder of that shape. */
typedef struct one_input {
  td_graph *graph;
  td_edge in;
  td_infer infer;
} one_input;

static one_input *begin(one_input *c, td_shape shape) {
  c->graph = new_graph();
  c->in = placeholder(c->graph, TD_FLOAT32, shape, "x");
  c->infer = (td_infer){
      .op = c->in.node->op, .attr = c->in.node->attr, .in = &c->in, .n_in = 1};
  return c;
}

static void ranks(void **state) {
  (void)state;
  one_input c;
  td_shape out;
  td_shape_text text;
  begin(&c, td_shape_vector(3));
  OK(td_infer_rank(&c.infer, 0, 1, "x", &out));
  assert_string_equal(td_shape_str(&out, &text), "{3}");
  FAILS(td_infer_rank(&c.infer, 0, 2, "logits", NULL), TD_INVALID_ARGUMENT,
        "logits must be of rank 2, not {3}");
  OK(td_infer_rank_at_least(&c.infer, 0, 1, "x"));
  FAILS(td_infer_rank_at_least(&c.infer, 0, 2, "x"), TD_INVALID_ARGUMENT,
        "x must be of rank 2 or more, not {3}");
  td_graph_release(c.graph);
  begin(&c, td_shape_unknown());
  OK(td_infer_rank(&c.infer, 0, 2, "x", &out));
  assert_string_equal(td_shape_str(&out, &text), "{-1, -1}");
  OK(td_infer_rank_at_least(&c.infer, 0, 5, "x"));
  td_graph_release(c.graph);
}

static void axes(void **state) {
  (void)state;
  int axis;
  OK(td_infer_axis(-1, 3, "axis", &axis));
  assert_int_equal(axis, 2);
  OK(td_infer_axis(0, 1, "axis", &axis));
  assert_int_equal(axis, 0);
  FAILS(td_infer_axis(3, 3, "axis", &axis), TD_INVALID_ARGUMENT,
        "axis must be in [-3, 3) for rank 3, is 3");
  FAILS(td_infer_axis(-4, 3, "axis", &axis), TD_INVALID_ARGUMENT, "is -4");
  FAILS(td_infer_axis(0, 0, "axis", &axis), TD_INVALID_ARGUMENT, "rank 0");
  FAILS(td_infer_axis(INT64_MIN, 8, "axis", &axis), TD_INVALID_ARGUMENT, "is");
}

static void attributes(void **state) {
  (void)state;
  td_graph *g = new_graph();
  td_build b;
  td_node *n;
  td_build_init(&b, g, "TestAttrs", NULL);
  td_build_attr(&b, "_hint", td_attr_int(3));
  OK(td_build_node(&b, &n));
  td_infer c = {
      .op = n->op, .attr = n->attr, .note = n->note, .n_note = n->n_note};
  assert_int_equal(td_infer_int(&c, "i"), 2);
  assert_true(td_infer_float(&c, "f") == 1.5f);
  assert_false(td_infer_bool(&c, "b"));
  assert_string_equal(td_infer_string(&c, "s"), "SAME");
  assert_int_equal(td_infer_type(&c, "t"), TD_FLOAT32);
  assert_int_equal(td_infer_attr_shape(&c, "sh")->rank, 2);
  assert_int_equal(td_infer_int(&c, "_hint"), 3);
  assert_int_equal(td_infer_int(&c, "absent"), 0);
  assert_string_equal(td_infer_string(&c, "absent"), "");
  assert_int_equal(td_infer_type(&c, "i"), TD_INVALID);
  assert_null(td_infer_attr_shape(&c, "absent"));
  assert_null(td_infer_attr(&c, "absent"));
  td_graph_release(g);
}

/* ---- shared shape functions ---------------------------------------------- */

static void shared_functions(void **state) {
  (void)state;
  td_graph *g = new_graph();
  td_edge a = placeholder(g, TD_FLOAT32, td_shape_matrix(-1, 3), "a");
  td_edge b = placeholder(g, TD_FLOAT32, td_shape_matrix(2, -1), "b");
  td_edge c = placeholder(g, TD_FLOAT32, td_shape_vector(3), "c");
  td_edge d = placeholder(g, TD_FLOAT32, td_shape_matrix(4, 3), "d");
  td_node *n;
  td_build build;
  assert_shape(unary(g, "TestIdentity", a), "{-1, 3}");
  assert_shape(binary(g, "TestAdd", a, c), "{-1, 3}");
  td_build_init(&build, g, "TestAddN", NULL);
  td_build_list(&build, (td_edge[]){a, b}, 2);
  OK(td_build_node(&build, &n));
  assert_shape((td_edge){n, 0}, "{2, 3}");
  td_build_init(&build, g, "TestAddN", NULL);
  td_build_list(&build, (td_edge[]){a, b, d}, 3);
  FAILS(td_build_node(&build, &n), TD_INVALID_ARGUMENT,
        "input 2 is {4, 3}, those before it {2, 3}");
  td_infer scalars = {
      .op = a.node->op, .attr = a.node->attr, .out = a.node->out, .n_out = 1};
  OK(td_infer_scalars(&scalars));
  assert_shape(a, "{}");
  OK(td_infer_any(&scalars));
  assert_shape(a, "?");
  OK(td_infer_same(&scalars)); /* no input: nothing known */
  assert_shape(a, "?");
  td_graph_release(g);
}

/* A Merge without its back edge: that input has neither shape nor dtype. */
static void missing_back_edge(void **state) {
  (void)state;
  td_edge none = {NULL, 0};
  td_infer c = {.in = &none, .n_in = 1};
  td_small v;
  td_shape shape;
  assert_null(td_infer_in(&c, 0));
  assert_int_equal(td_infer_in_type(&c, 0), TD_INVALID);
  assert_null(td_infer_const(&c, 0));
  assert_false(td_infer_small(&c, 0, &v));
  OK(td_infer_shape_from(&c, 0, &shape));
  assert_int_equal(shape.rank, -1);
  OK(td_infer_rank(&c, 0, 2, "x", NULL));
}

/* ---- of tensors that are there ------------------------------------------- */

static td_tensor tensor_of(td_dtype dtype, td_shape shape) {
  td_tensor t;
  OK(td_tensor_new(NULL, dtype, &shape, &t));
  for (int64_t i = 0; i < td_tensor_count(&t); i++) td_tensor_set_i(&t, i, 2);
  return t;
}

static void expect_inferred(const td_node *n, const td_tensor *in,
                            const char *want) {
  td_result out[1];
  td_shape_text text;
  OK(td_infer_shapes(n, in, out));
  assert_int_equal(out[0].dtype, n->out[0].dtype);
  assert_string_equal(td_shape_str(&out[0].shape, &text), want);
}

/* Whatever the graph knew of the inputs, these are asked. */
static void shapes_of_tensors(void **state) {
  (void)state;
  td_allocator away = *td_allocator_host();
  td_graph *g = new_graph();
  td_edge x = placeholder(g, TD_FLOAT32, td_shape_unknown(), "x");
  td_edge sizes = placeholder(g, TD_INT32, td_shape_unknown(), "sizes");
  td_tensor in[6];
  td_node *n = binary(g, "Reshape", x, sizes).node;
  in[0] = tensor_of(TD_FLOAT32, td_shape_vector(8));
  in[1] = tensor_of(TD_INT32, td_shape_vector(3));
  expect_inferred(n, in, "{2, 2, 2}");
  away.touchable = false; /* only how many there are is known */
  td_allocator *here = in[1].buffer->allocator;
  in[1].buffer->allocator = &away;
  expect_inferred(n, in, "{-1, -1, -1}");
  in[1].buffer->allocator = here;
  td_tensor_release(&in[1]);
  in[1] = tensor_of(TD_FLOAT32, td_shape_matrix(3, 1));
  td_result out[1];
  td_edge y = placeholder(g, TD_FLOAT32, td_shape_unknown(), "y");
  expect_inferred(binary(g, "TestAdd", x, y).node, in, "{3, 8}");
  td_tensor_release(&in[1]);
  in[1] = tensor_of(TD_FLOAT32, td_shape_vector(3));
  FAILS(td_infer_shapes(binary(g, "TestAdd", x, y).node, in, out),
        TD_INVALID_ARGUMENT, "shapes {8} and {3} do not broadcast");
  td_tensor_release(&in[1]);
  td_build build;
  td_build_init(&build, g, "TestAddN", NULL);
  td_build_list(&build, (td_edge[]){x, x, x, x, x, x}, 6);
  OK(td_build_node(&build, &n));
  for (int i = 1; i < 6; i++) in[i] = in[0];
  expect_inferred(n, in, "{8}");
  td_mem_fail(1, false);
  FAILS(td_infer_shapes(n, in, out), TD_RESOURCE_EXHAUSTED, "");
  td_mem_fail(0, false);
  td_tensor_release(&in[0]);
  td_graph_release(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(constants_through_identity),
      cmocka_unit_test(what_is_known),
      cmocka_unit_test(hooks_are_bounded),
      cmocka_unit_test(shapes_from_values),
      cmocka_unit_test(ranks),
      cmocka_unit_test(axes),
      cmocka_unit_test(attributes),
      cmocka_unit_test(shared_functions),
      cmocka_unit_test(missing_back_edge),
      cmocka_unit_test(shapes_of_tensors),
  };
  return cmocka_run_group_tests(tests, set_up, NULL);
}
