/* graph_edit.c - tests of rewriting: copies, edges, order, verify.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops.h"

#include <stdio.h>

#include "engine/graph/build.h"
#include "engine/graph/graph_check.h"
#include "engine/graph/graph_edit.h"
#include "engine/graph/graph_impl.h"
#include "engine/graph/node_edit.h"

/* ---- a loop -------------------------------------------------------------- */

/* x -> merge -> add(merge, one) -> next -> merge, and one more node. */
typedef struct loop {
  td_graph *g;
  td_node *x, *one, *merge, *add, *next, *done;
} loop;

static td_node *no_op(td_graph *g, const char *name) {
  td_build b;
  td_node *n;
  td_build_init(&b, g, "TestNoOp", name);
  OK(td_build_node(&b, &n));
  return n;
}

static td_edge of(td_node *n) {
  return (td_edge){n, 0};
}

static loop new_loop(td_shape shape) {
  loop l = {.g = new_graph()};
  td_build b;
  l.x = placeholder(l.g, TD_INT32, shape, "x").node;
  l.one = ints(l.g, (int32_t[]){1}, -1).node;
  td_build_init(&b, l.g, "TestMerge", "merge");
  td_build_flat(&b, (td_edge[]){of(l.x), {NULL, 0}}, 2);
  td_build_attr(&b, "T", td_attr_type(TD_INT32));
  td_build_attr(&b, "N", td_attr_int(2));
  OK(td_build_node(&b, &l.merge));
  l.add = binary(l.g, "TestAdd", of(l.merge), of(l.one)).node;
  l.next = unary(l.g, "TestNext", of(l.add)).node;
  l.done = no_op(l.g, "done");
  return l;
}

static void back_edges(void **state) {
  (void)state;
  loop l = new_loop(td_shape_vector(2));
  td_edge f = placeholder(l.g, TD_FLOAT32, td_shape_vector(2), "f");
  td_node *wrong = unary(l.g, "TestNext", f).node;
  td_edge any = placeholder(l.g, TD_INT32, td_shape_vector(-1), "any");
  td_node *wide = unary(l.g, "TestNext", any).node;
  FAILS(td_node_set_back_edge(l.merge, 0, of(l.next)), TD_INVALID_ARGUMENT,
        "no open input 0");
  FAILS(td_node_set_back_edge(l.merge, 2, of(l.next)), TD_INVALID_ARGUMENT,
        "no open input 2");
  FAILS(td_node_set_back_edge(l.add, 0, of(l.next)), TD_INVALID_ARGUMENT,
        "no open input");
  FAILS(td_node_set_back_edge(l.merge, 1, of(l.add)), TD_INVALID_ARGUMENT,
        "must come from a NextIteration");
  FAILS(td_node_set_back_edge(l.merge, 1, of(wrong)), TD_INVALID_ARGUMENT,
        "loop variable \"merge\" is int32, but comes back as float32");
  FAILS(td_node_set_back_edge(l.merge, 1, of(wide)), TD_INVALID_ARGUMENT,
        "has shape {2}, but comes back with {-1}: give a shape_invariants");
  uint64_t version = td_graph_version(l.g);
  OK(td_node_set_back_edge(l.merge, 1, of(l.next)));
  assert_true(td_graph_version(l.g) > version);
  assert_ptr_equal(l.merge->in[1].node, l.next);
  FAILS(td_node_set_back_edge(l.merge, 1, of(l.next)), TD_INVALID_ARGUMENT,
        "no open input 1");
  OK(td_graph_verify(l.g));
  td_graph_release(l.g);
}

static void merge_needs_its_type(void **state) {
  (void)state;
  td_graph *g = new_graph();
  td_build b;
  td_node *n;
  td_build_init(&b, g, "TestMerge", NULL);
  td_build_flat(&b, (td_edge[]){{NULL, 0}}, 1);
  td_build_attr(&b, "N", td_attr_int(1));
  FAILS(td_build_node(&b, &n), TD_INVALID_ARGUMENT, "needs attribute T");
  td_graph_release(g);
}

static void control_edges(void **state) {
  (void)state;
  loop l = new_loop(td_shape_scalar());
  OK(td_node_add_control(l.done, l.add));
  OK(td_node_add_control(l.done, l.x));
  OK(td_node_add_control(l.done, l.add)); /* there already */
  assert_int_equal(l.done->n_control, 2);
  FAILS(td_node_add_control(l.done, l.done), TD_INVALID_ARGUMENT, "are one");
  loop m = new_loop(td_shape_scalar());
  FAILS(td_node_add_control(l.done, m.x), TD_INVALID_ARGUMENT,
        "of two graphs");
  OK(td_graph_verify(l.g));
  td_node_drop_control(l.done, 0);
  assert_int_equal(l.done->n_control, 1);
  assert_ptr_equal(l.done->control[0], l.x);
  td_graph_release(l.g);
  td_graph_release(m.g);
}

static void shapes_narrow(void **state) {
  (void)state;
  td_graph *g = new_graph();
  td_edge x = placeholder(g, TD_FLOAT32, td_shape_unknown(), "x");
  td_shape two = td_shape_matrix(-1, 3), row = td_shape_matrix(4, -1);
  td_shape bad = td_shape_matrix(5, 3);
  td_edge y = unary(g, "TestIdentity", x);
  OK(td_node_set_shape(x.node, 0, &two));
  OK(td_node_set_shape(x.node, 0, &row));
  assert_shape(x, "{4, 3}");
  FAILS(td_node_set_shape(x.node, 0, &bad), TD_INVALID_ARGUMENT,
        "\"x:0\" has shape {4, 3}, which is not {5, 3}");
  FAILS(td_node_set_shape(x.node, 1, &bad), TD_INVALID_ARGUMENT, "no output 1");
  assert_shape(y, "?");
  OK(td_node_infer(y.node));
  assert_shape(y, "{4, 3}");
  OK(td_node_infer(x.node)); /* what was narrowed stays */
  assert_shape(x, "{4, 3}");
  td_edge z = placeholder(g, TD_FLOAT32, td_shape_vector(9), "z");
  td_node_set_in(y.node, 0, z);
  OK(td_node_infer(y.node));
  assert_shape(y, "{9}");
  td_edge sum = binary(g, "TestAdd", y, z);
  td_node_set_in(sum.node, 0, x);
  FAILS(td_node_infer(sum.node), TD_INVALID_ARGUMENT, "do not broadcast");
  td_graph_release(g);
}

/* ---- copies -------------------------------------------------------------- */

static void clones(void **state) {
  (void)state;
  loop l = new_loop(td_shape_vector(2));
  td_graph *g = new_graph();
  td_node *x, *one, *add;
  OK(td_graph_clone_node(g, l.x, "x", NULL, NULL, 0, &x));
  OK(td_graph_clone_node(g, l.one, "_one", NULL, &x, 1, &one));
  l.add->frame = 3;
  l.add->may_die = l.add->may_stop = true;
  l.add->placed = 2;
  OK(td_node_set_device(l.add, "/cpu:1"));
  OK(td_node_set_note(l.add, "_class", td_attr_string("x")));
  td_edge in[] = {of(x), {NULL, 0}};
  OK(td_graph_clone_node(g, l.add, "add", in, NULL, 0, &add));
  assert_ptr_equal(one->control[0], x);
  assert_ptr_equal(one->graph, g);
  assert_string_equal(one->name, "_one");
  FAILS(td_graph_verify(g), TD_INTERNAL, "node \"add\" (TestAdd): bad input 1");
  td_node_set_in(add, 1, of(one));
  OK(td_graph_verify(g));
  assert_int_equal(add->frame, 3);
  assert_true(add->may_die && add->may_stop);
  assert_int_equal(add->placed, 2);
  assert_string_equal(td_node_string(add, "_class"), "x");
  assert_string_equal(add->device, l.add->device);
  assert_string_equal(add->origin, l.add->origin);
  assert_int_equal(add->flow, l.add->flow);
  assert_int_equal(add->out[0].dtype, l.add->out[0].dtype);
  assert_int_equal(td_node_attr(l.one, "value")->tensor->buffer->refs, 2);
  FAILS(td_graph_clone_node(g, l.add, "add", in, NULL, 0, &add),
        TD_ALREADY_EXISTS, "\"add\" exists");
  FAILS(td_graph_clone_node(g, l.add, "a b", in, NULL, 0, &add),
        TD_INVALID_ARGUMENT, "a name must be");
  td_graph_release(l.g);
  OK(td_graph_verify(g));
  td_graph_release(g);
}

static void removes(void **state) {
  (void)state;
  loop l = new_loop(td_shape_scalar());
  td_edge two = ints(l.g, (int32_t[]){2}, -1);
  OK(td_node_set_back_edge(l.merge, 1, of(l.next)));
  td_node_set_in(l.add, 1, two);
  td_buffer *value =
      td_buffer_retain(td_node_attr(l.one, "value")->tensor->buffer);
  const char *reserved;
  OK(td_graph_unique(l.g, "scope", &reserved));
  bool drop[7] = {false, true}; /* "one" */
  td_graph_remove(l.g, drop);
  assert_int_equal(value->refs, 1);
  td_buffer_release(value);
  assert_int_equal(td_graph_size(l.g), 6);
  for (int i = 0; i < 6; i++) assert_int_equal(td_graph_node(l.g, i)->id, i);
  assert_null(td_graph_find(l.g, "TestConst"));
  assert_ptr_equal(td_graph_find(l.g, "merge"), l.merge);
  OK(td_graph_verify(l.g));
  assert_string_equal(no_op(l.g, "TestConst")->name, "TestConst");
  assert_string_equal(no_op(l.g, "scope")->name, "scope_1");
  td_graph_release(l.g);
}

static void devices_and_notes(void **state) {
  (void)state;
  loop l = new_loop(td_shape_scalar());
  td_tensor t;
  OK(td_tensor_scalar_i(TD_INT32, 1, &t));
  OK(td_node_set_device(l.add, "/device:CPU:1"));
  assert_string_equal(l.add->device, "/device:CPU:1");
  FAILS(td_node_set_device(l.add, "nonsense"), TD_INVALID_ARGUMENT, "nonsense");
  OK(td_node_set_device(l.add, ""));
  assert_string_equal(l.add->device, "");
  OK(td_node_set_note(l.add, "_a", td_attr_tensor(&t)));
  OK(td_node_set_note(l.add, "_b", td_attr_int(2)));
  assert_int_equal(t.buffer->refs, 2);
  OK(td_node_set_note(l.add, "_a", td_attr_int(5)));
  assert_int_equal(t.buffer->refs, 1);
  assert_int_equal(l.add->n_note, 2);
  assert_int_equal(td_node_int(l.add, "_a"), 5);
  assert_int_equal(td_node_int(l.add, "_b"), 2);
  OK(td_node_set_note(l.add, "_a", td_attr_tensor(&t)));
  td_graph_release(l.g);
  assert_int_equal(t.buffer->refs, 1);
  td_tensor_release(&t);
}

/* ---- order --------------------------------------------------------------- */

static void order_is_stable(void **state) {
  (void)state;
  loop l = new_loop(td_shape_scalar());
  int32_t *order;
  OK(td_node_set_back_edge(l.merge, 1, of(l.next)));
  OK(td_graph_order(l.g, &order));
  for (int i = 0; i < td_graph_size(l.g); i++) assert_int_equal(order[i], i);
  td_free(order);
  OK(td_node_add_control(l.x, l.done)); /* done comes before x now */
  OK(td_graph_order(l.g, &order));
  static const int32_t want[] = {5, 0, 1, 2, 3, 4};
  assert_memory_equal(order, want, sizeof want);
  td_free(order);
  td_graph_release(l.g);
  td_graph *g = new_graph();
  OK(td_graph_order(g, &order));
  td_free(order);
  td_graph_release(g);
}

static void cycles_are_named(void **state) {
  (void)state;
  td_graph *g = new_graph();
  int32_t *order;
  td_node *n[12];
  for (int i = 0; i < 12; i++) {
    char name[8];
    snprintf(name, sizeof name, "n%d", i);
    n[i] = no_op(g, name);
    if (i) OK(td_node_add_control(n[i], n[i - 1]));
  }
  OK(td_node_add_control(n[4], n[6]));
  FAILS(td_graph_order(g, &order), TD_INVALID_ARGUMENT,
        "a cycle that passes no NextIteration: \"n4\" <- \"n5\" <- \"n6\" <- "
        "\"n4\"");
  assert_null(order);
  FAILS(td_graph_verify(g), TD_INVALID_ARGUMENT, "a cycle");
  td_node_drop_control(n[4], 1);
  OK(td_node_add_control(n[0], n[11]));
  FAILS(td_graph_order(g, &order), TD_INVALID_ARGUMENT, "<- 3 more <- \"n0\"");
  td_graph_release(g);
}

/* A chain of a million nodes, linked so that every walk must go to its end. */
static void long_chains(void **state) {
  (void)state;
  enum { LONG = 1000000 };
  td_graph *g = new_graph();
  int32_t *order;
  td_node *first = NULL, *last = NULL, *n;
  for (int i = 0; i < LONG; i++) {
    td_build b;
    td_build_init(&b, g, "TestNoOp", "n");
    OK(td_build_node(&b, &n));
    if (last) OK(td_node_add_control(last, n));
    last = n;
    if (!first) first = n;
  }
  OK(td_graph_order(g, &order));
  assert_int_equal(order[0], LONG - 1);
  assert_int_equal(order[LONG - 1], 0);
  td_free(order);
  OK(td_graph_verify(g));
  td_graph_release(g);
}

/* ---- verify -------------------------------------------------------------- */

static void breaks_input(loop *l) {
  l->add->in[0].node = NULL;
}
static void breaks_port(loop *l) {
  l->add->in[0].port = 2;
}
static void breaks_negative(loop *l) {
  l->add->in[0].port = -1;
}
static void breaks_dtype(loop *l) {
  l->x->out[0].dtype = TD_FLOAT32;
}
static void breaks_attr(loop *l) {
  l->merge->attr[0] = (td_attr){0};
}
static void breaks_count(loop *l) {
  l->merge->attr[1].i = 3;
}
static void breaks_fewer(loop *l) {
  l->merge->attr[1].i = 1;
}
static void breaks_id(loop *l) {
  l->one->id = 4;
}
static void breaks_name(loop *l) {
  l->one->name = "merge";
}
static void breaks_rule(loop *l) {
  l->one->name = "a b";
}
static void breaks_flow(loop *l) {
  l->one->flow = 9;
}
static void breaks_device(loop *l) {
  l->one->device = NULL;
}
static void breaks_outputs(loop *l) {
  l->merge->n_out = 1;
}
static void breaks_self(loop *l) {
  l->done->control[0] = l->done;
}
static void breaks_controls(loop *l) {
  l->done->control[1] = l->x;
}
static void breaks_note(loop *l) {
  OK(td_node_set_note(l->one, "plain", td_attr_int(1)));
}
static td_graph *stranger;
static void breaks_graph(loop *l) {
  l->add->in[0].node = td_graph_node(stranger, 0);
}

static void verify_sees_it(void **state) {
  (void)state;
  static const struct {
    void (*breaks)(loop *);
    const char *part;
  } rows[] = {
      {breaks_input, "\"TestAdd\" (TestAdd): bad input 0"},
      {breaks_port, "bad input 0"},
      {breaks_negative, "bad input 0"},
      {breaks_graph, "bad input 0"},
      {breaks_dtype, "\"x\" (TestPlaceholder): bad output 0"},
      {breaks_attr, "bad attribute 0"},
      {breaks_count, "missing input 2"},
      {breaks_fewer, "inputs 2"},
      {breaks_id, "bad id at 1"},
      {breaks_name, "name of another at 1"},
      {breaks_rule, "a name must be"},
      {breaks_flow, "no device, origin or flow at 1"},
      {breaks_device, "no device, origin or flow at 1"},
      {breaks_outputs, "bad output 1"},
      {breaks_self, "bad control input 0"},
      {breaks_controls, "doubled control input 1"},
      {breaks_note, "bad annotation 0"},
  };
  stranger = new_graph();
  no_op(stranger, "s");
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    loop l = new_loop(td_shape_scalar());
    OK(td_node_add_control(l.done, l.x));
    OK(td_node_add_control(l.done, l.one));
    OK(td_graph_verify(l.g));
    rows[i].breaks(&l);
    td_status *s = td_graph_verify(l.g);
    if (!s || !strstr(td_status_message(s), rows[i].part))
      fail_msg("row %zu: \"%s\" lacks \"%s\"", i, td_status_message(s),
               rows[i].part);
    td_status_release(s);
    td_graph_release(l.g);
  }
  td_graph_release(stranger);
}

/* ---- no memory ----------------------------------------------------------- */

static td_status *rewrite(void *arg) {
  loop *l = arg;
  td_graph *g;
  td_node *n;
  int32_t *order;
  TD_TRY(td_graph_new(&g));
  td_status *s = td_graph_verify(l->g);
  if (!s) s = td_graph_order(l->g, &order);
  if (!s) td_free(order);
  for (int i = 0; i < 80 && !s; i++) {
    char name[8];
    snprintf(name, sizeof name, "c%d", i);
    s = td_graph_clone_node(g, l->one, name, NULL, NULL, 0, &n);
    if (!s) s = td_node_set_note(n, "_t", *td_node_attr(l->one, "value"));
    if (!s) s = td_node_set_device(n, i % 2 ? "/cpu:1" : "/cpu:2");
    if (!s) s = td_node_infer(n);
    if (!s && i) s = td_node_add_control(n, td_graph_node(g, i - 1));
  }
  td_graph_release(g);
  return s;
}

static void no_memory(void **state) {
  (void)state;
  loop l = new_loop(td_shape_scalar());
  OK(td_node_set_note(l.one, "_t", *td_node_attr(l.one, "value")));
  OK(td_node_add_control(l.done, l.add));
  for (int i = 0; i < 100; i++) no_op(l.g, "more");
  print_message("%lld allocations failed\n", (long long)fail_each(rewrite, &l));
  assert_int_equal(td_node_attr(l.one, "value")->tensor->buffer->refs, 2);
  OK(td_graph_verify(l.g));
  td_graph_release(l.g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(back_edges),
      cmocka_unit_test(merge_needs_its_type),
      cmocka_unit_test(control_edges),
      cmocka_unit_test(shapes_narrow),
      cmocka_unit_test(clones),
      cmocka_unit_test(removes),
      cmocka_unit_test(devices_and_notes),
      cmocka_unit_test(order_is_stable),
      cmocka_unit_test(cycles_are_named),
      cmocka_unit_test(long_chains),
      cmocka_unit_test(verify_sees_it),
      cmocka_unit_test(no_memory),
  };
  return cmocka_run_group_tests(tests, register_ops, NULL);
}
