/* function_body.c - nodes become a function, and a call becomes nodes.
 *
 * Each test makes a function out of one graph and opens it in another.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/graph_check.h"
#include "engine/graphdef/function.h"
#include "tests/engine/graph/ops.h"

static size_t fill = TD_FUNCTION_FILL;

typedef struct world {
  td_graph *body, *g;
  td_edge x, y; /* arguments of the body */
  td_edge a, b; /* what is there in g */
} world;

static td_status *open_world(world *w) {
  td_build b;
  td_node *n;
  *w = (world){0};
  TD_TRY(td_graph_new(&w->body));
  TD_TRY(td_graph_new(&w->g));
  td_edge *to[] = {&w->x, &w->y, &w->a, &w->b};
  const char *names[] = {"x", "y", "a", "b"};
  for (int i = 0; i < 4; i++) {
    td_shape shape = i < 2 ? td_shape_unknown() : td_shape_vector(3);
    td_build_init(&b, i < 2 ? w->body : w->g, "TestPlaceholder", names[i]);
    td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT32));
    td_build_attr(&b, "shape", td_attr_shape(&shape));
    TD_TRY(td_build_node(&b, &n));
    *to[i] = (td_edge){n, 0};
  }
  return NULL;
}

static void close_world(world *w) {
  td_graph_release(w->body);
  td_graph_release(w->g);
}

/* add = x + y; both = {add, x}, an IdentityN; the results: both:1, both:0, y */
static td_status *make(world *w, const char *name) {
  static const char *const names[] = {"x", "y"};
  td_build b;
  td_node *add, *both, *last;
  td_build_init(&b, w->body, "TestAdd", "add");
  td_build_in(&b, w->x);
  td_build_in(&b, w->y);
  TD_TRY(td_build_node(&b, &add));
  td_edge list[] = {{add, 0}, w->x};
  td_build_init(&b, w->body, "TestIdentityN", "both");
  td_build_list(&b, list, 2);
  TD_TRY(td_build_node(&b, &both));
  td_build_init(&b, w->body, "TestNoOp", "last");
  td_build_control(&b, add);
  TD_TRY(td_build_node(&b, &last));
  td_edge args[] = {w->x, w->y}, results[] = {{both, 1}, {both, 0}, w->y};
  td_function_spec f = {.name = name,
                        .args = args,
                        .arg_names = names,
                        .n_args = 2,
                        .results = results,
                        .n_results = 3,
                        .controls = &last,
                        .n_controls = 1};
  return td_function_make(w->body, &f, w->g);
}

static td_status *call_of(world *w, const char *f, int n_in, int n_out,
                          td_node **out) {
  td_func_attr func = {.name = f};
  td_attr attr = {.kind = TD_ATTR_FUNC, .func = &func};
  td_edge in[] = {w->a, w->b, w->a};
  td_dtype types[] = {TD_FLOAT32, TD_FLOAT32, TD_FLOAT32, TD_FLOAT32};
  td_build b;
  td_build_init(&b, w->g, "PartitionedCall", "call");
  td_build_list(&b, in, n_in);
  td_build_attr(&b, "Tout", td_attr_types(types, n_out));
  td_build_attr(&b, "f", attr);
  return td_build_node(&b, out);
}

static td_status *whole(void *arg) {
  world *w = arg;
  td_node *call;
  td_function_body body = {0};
  td_status *s = open_world(w);
  if (td_ok(s)) s = make(w, "f");
  if (td_ok(s)) s = call_of(w, "f", 2, 3, &call);
  if (td_ok(s)) s = td_function_infer(call);
  td_edge args[] = {w->a, w->b};
  if (td_ok(s)) s = td_function_expand(w->g, call, args, &fill, &body);
  td_function_body_deinit(&body);
  close_world(w);
  return s;
}

static void test_whole(void **state) {
  (void)state;
  world w;
  td_node *call;
  td_function_body body;
  OK(open_world(&w));
  OK(make(&w, "f"));
  OK(call_of(&w, "f", 2, 3, &call));
  OK(td_function_infer(call));
  assert_shape((td_edge){call, 0}, "?"); /* TestIdentityN does not say */
  assert_shape((td_edge){call, 2}, "{3}");
  td_edge args[] = {w.a, w.b};
  OK(td_function_expand(w.g, call, args, &fill, &body));
  assert_int_equal(body.begin, 3);
  assert_int_equal(td_graph_size(w.g), 6);
  const td_node *both = td_graph_find(w.g, "call/both");
  const td_node *add = td_graph_find(w.g, "call/add");
  assert_ptr_equal(body.results[0].node, both);
  assert_int_equal(body.results[0].port, 1);
  assert_int_equal(body.results[1].port, 0);
  assert_ptr_equal(body.results[2].node, w.b.node);
  assert_ptr_equal(both->in[0].node, add);
  assert_ptr_equal(both->in[1].node, w.a.node);
  assert_int_equal(body.n_controls, 1);
  assert_string_equal(body.controls[0]->name, "call/last");
  assert_ptr_equal(body.controls[0]->control[0], add);
  OK(td_graph_verify(w.g));
  td_function_body_deinit(&body);
  close_world(&w);
}

/* What makes an argument stays out of the body. */
static void test_cut(void **state) {
  (void)state;
  static const char *const names[] = {"middle"};
  world w;
  td_build b;
  td_node *add, *twice, *call;
  td_function_body body;
  OK(open_world(&w));
  td_build_init(&b, w.body, "TestAdd", "add");
  td_build_in(&b, w.x);
  td_build_in(&b, w.y);
  OK(td_build_node(&b, &add));
  td_edge middle = {add, 0};
  td_build_init(&b, w.body, "TestAdd", "twice");
  td_build_in(&b, middle);
  td_build_in(&b, middle);
  td_build_control(&b, add);
  OK(td_build_node(&b, &twice));
  td_edge result = {twice, 0};
  td_function_spec f = {.name = "f",
                        .args = &middle,
                        .arg_names = names,
                        .n_args = 1,
                        .results = &result,
                        .n_results = 1};
  OK(td_function_make(w.body, &f, w.g));
  OK(call_of(&w, "f", 1, 1, &call));
  OK(td_function_expand(w.g, call, &w.a, &fill, &body));
  assert_int_equal(td_graph_size(w.g), 4);
  assert_int_equal(body.results[0].node->n_control, 0);
  td_function_body_deinit(&body);
  f.args = &w.x; /* now it needs y, too */
  f.name = "g";
  FAILS(td_function_make(w.body, &f, w.g), TD_INVALID_ARGUMENT,
        "a placeholder that is no argument, \"y\"");
  close_world(&w);
}

static void test_wrong_calls(void **state) {
  (void)state;
  static const struct {
    const char *f;
    int in, out;
    td_code code;
    const char *part;
  } rows[] = {
      {"g", 2, 3, TD_NOT_FOUND, "the graph has no function \"g\""},
      {"f", 1, 3, TD_INVALID_ARGUMENT, "other than the 1 tensors"},
      {"f", 3, 3, TD_INVALID_ARGUMENT, "other than the 3 tensors"},
      {"f", 2, 2, TD_INVALID_ARGUMENT, "more tensors than the call, 2"},
      {"f", 2, 4, TD_INVALID_ARGUMENT, "gives 3 tensors, the call 4"},
  };
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    world w;
    td_node *call;
    td_function_body body;
    OK(open_world(&w));
    OK(make(&w, "f"));
    OK(call_of(&w, rows[i].f, rows[i].in, rows[i].out, &call));
    td_edge args[] = {w.a, w.b, w.a};
    FAILS(td_function_expand(w.g, call, args, &fill, &body), rows[i].code,
          rows[i].part);
    close_world(&w);
  }
}

static void test_no_memory(void **state) {
  (void)state;
  world w;
  assert_true(fail_each(whole, &w) > 50);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_whole),
      cmocka_unit_test(test_cut),
      cmocka_unit_test(test_wrong_calls),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, register_ops, NULL);
}
