/* graphdef.c - graphs written, and read back as they were.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/graph/ops.h"

#include <sys/mman.h>

#include "engine/graph/node_edit.h"
#include "engine/graphdef/graphdef.h"

static td_node *add(td_build *b) {
  td_node *n;
  OK(td_build_node(b, &n));
  return n;
}

static void write_graph(const td_graph *g, td_str *out) {
  char *at;
  size_t len;
  OK(td_graphdef_write(g, &at, &len));
  td_str_addn(out, at, len);
  td_free(at);
}

/* Reads what `g` was written as into a new graph, which must write the same. */
static td_graph *round_trip(const td_graph *g) {
  td_str one = {0}, two = {0};
  td_graph *h = new_graph();
  write_graph(g, &one);
  OK(td_graphdef_read(h, one.at, one.len, NULL));
  write_graph(h, &two);
  assert_int_equal(one.len, two.len);
  assert_memory_equal(td_str_c(&one), td_str_c(&two), one.len);
  td_str_deinit(&one);
  td_str_deinit(&two);
  return h;
}

/* Same nodes, names, edges, attributes, devices and shapes. */
static void assert_same(const td_graph *g, const td_graph *h) {
  assert_int_equal(td_graph_size(g), td_graph_size(h));
  for (int32_t id = 0; id < td_graph_size(g); id++) {
    const td_node *a = td_graph_node(g, id), *b = td_graph_node(h, id);
    assert_string_equal(a->name, b->name);
    assert_ptr_equal(a->op, b->op);
    assert_string_equal(a->device, b->device);
    assert_int_equal(a->n_in, b->n_in);
    assert_int_equal(a->n_control, b->n_control);
    assert_int_equal(a->n_note, b->n_note);
    for (int i = 0; i < a->n_in; i++) {
      assert_int_equal(a->in[i].node->id, b->in[i].node->id);
      assert_int_equal(a->in[i].port, b->in[i].port);
    }
    for (int i = 0; i < a->n_control; i++)
      assert_int_equal(a->control[i]->id, b->control[i]->id);
    for (int i = 0; i < a->op->n_attr; i++)
      assert_true(td_attr_equal(&a->attr[i], &b->attr[i]));
    for (int i = 0; i < a->n_note; i++)
      assert_true(
          td_attr_equal(&a->note[i].value, td_node_attr(b, a->note[i].name)));
    for (int i = 0; i < a->n_out; i++)
      assert_true(td_shape_equal(&a->out[i].shape, &b->out[i].shape));
  }
}

/* ---- bytes --------------------------------------------------------------- */

/* What TensorFlow makes of placeholder(float32, [2, None], "x") and a NoOp
 * after it, annotations aside, serialised with its map entries in order and
 * version 134. */
static void test_bytes(void **state) {
  (void)state;
  static const char want[] = "\x0a\x3b\x0a\x01x\x12\x0bPlaceholder"
                             "\x2a\x0b\x0a\x05"
                             "dtype\x12\x02\x30\x01"
                             "\x2a\x1c\x0a\x05"
                             "shape\x12\x13\x3a\x11\x12\x02\x08\x02\x12\x0b\x08"
                             "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
                             "\x0a\x1a\x0a\x01"
                             "d\x12\x04NoOp\x1a\x02^x\x22\x0b/device:CPU"
                             "\x22\x03\x08\x86\x01";
  td_graph *g = new_graph();
  td_build b;
  td_shape shape = td_shape_matrix(2, -1);
  td_str m = {0};
  td_build_init(&b, g, "Placeholder", "x");
  td_build_attr(&b, "shape", td_attr_shape(&shape)); /* in any order */
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT32));
  td_node *x = add(&b);
  td_build_init(&b, g, "NoOp", "d");
  b.device = "/device:CPU";
  td_build_control(&b, x);
  add(&b);
  write_graph(g, &m);
  assert_int_equal(m.len, sizeof want - 1);
  assert_memory_equal(m.at, want, m.len);
  td_str_deinit(&m);
  td_graph_release(round_trip(g));
  td_graph_release(g);
}

static void test_empty(void **state) {
  (void)state;
  td_graph *g = new_graph(), *h = round_trip(g);
  td_str m = {0};
  assert_int_equal(td_graph_size(h), 0);
  write_graph(h, &m);
  assert_int_equal(m.len, 5);
  assert_memory_equal(m.at, "\x22\x03\x08\x86\x01", 5);
  OK(td_graphdef_read(h, "", 0, NULL)); /* no bytes are a graph too */
  td_str_deinit(&m);
  td_graph_release(g);
  td_graph_release(h);
}

/* ---- attributes ---------------------------------------------------------- */

/* One of each kind, and a list of each, as notes. */
static void add_notes(td_build *b, const td_tensor *t, const td_shape *shapes) {
  static const int64_t ints[] = {-1, 0, INT64_MIN, INT64_MAX};
  static const float floats[] = {0, -0.0f, 1e30f};
  static const bool bools[] = {true, false};
  static const td_dtype types[] = {TD_FLOAT32, TD_RESOURCE};
  static const td_bytes strings[] = {{"", 0}, {"a\0b", 3}};
  static const char *names[] = {"a", "f"};
  static td_attr inner[2];
  static td_func_attr deep = {"inner", names, inner, 1};
  static td_func_attr func = {"outer", names, inner, 2};
  static td_func_attr funcs[2];
  inner[0] = td_attr_int(5);
  inner[1] = (td_attr){.kind = TD_ATTR_FUNC, .func = &deep};
  funcs[0] = func;
  funcs[1] = deep;
  td_build_attr(b, "_i", td_attr_int(-5));
  td_build_attr(b, "_f", td_attr_float(-0.0f));
  td_build_attr(b, "_b", td_attr_bool(false));
  td_build_attr(b, "_s", td_attr_bytes("x\0y", 3));
  td_build_attr(b, "_t", td_attr_type(TD_INT64));
  td_build_attr(b, "_sh", td_attr_shape(&shapes[0]));
  td_build_attr(b, "_te", td_attr_tensor(t));
  td_build_attr(b, "_fn", (td_attr){.kind = TD_ATTR_FUNC, .func = &func});
  td_build_attr(b, "_li", td_attr_ints(ints, 4));
  td_build_attr(
      b, "_lf",
      (td_attr){
          .kind = TD_ATTR_FLOAT, .is_list = true, .len = 3, .fs = floats});
  td_build_attr(
      b, "_lb",
      (td_attr){.kind = TD_ATTR_BOOL, .is_list = true, .len = 2, .bs = bools});
  td_build_attr(b, "_ls", td_attr_strings(strings, 2));
  td_build_attr(b, "_lt", td_attr_types(types, 2));
  td_build_attr(
      b, "_lsh",
      (td_attr){
          .kind = TD_ATTR_SHAPE, .is_list = true, .len = 3, .shapes = shapes});
  td_build_attr(
      b, "_lte",
      (td_attr){
          .kind = TD_ATTR_TENSOR, .is_list = true, .len = 1, .tensors = t});
  td_build_attr(
      b, "_lfn",
      (td_attr){
          .kind = TD_ATTR_FUNC, .is_list = true, .len = 2, .funcs = funcs});
  td_build_attr(b, "_none", td_attr_strings(NULL, 0));
}

static void test_defaults(void **state) {
  (void)state;
  static const char want[] = "\x0a\x0e\x0a\x01x\x12\x09TestAttrs"
                             "\x22\x03\x08\x86\x01";
  td_graph *g = new_graph();
  td_build b;
  td_str m = {0};
  td_build_init(&b, g, "TestAttrs", "x");
  td_build_attr(&b, "i", td_attr_int(2)); /* what it is anyway */
  add(&b);
  write_graph(g, &m);
  assert_int_equal(m.len, sizeof want - 1);
  assert_memory_equal(m.at, want, m.len);
  td_graph *h = round_trip(g);
  assert_same(g, h);
  assert_int_equal(td_node_int(td_graph_node(h, 0), "i"), 2);
  td_str_deinit(&m);
  td_graph_release(g);
  td_graph_release(h);
}

static void test_attrs(void **state) {
  (void)state;
  td_graph *g = new_graph();
  td_build b;
  td_tensor t;
  td_shape shapes[] = {td_shape_unknown(), td_shape_scalar(),
                       td_shape_matrix(-1, 7)};
  OK(td_tensor_from(TD_INT32, &(td_shape){.rank = 1, .dim = {2}},
                    (int32_t[]){3, 4}, &t));
  td_build_init(&b, g, "TestAttrs", "defaults");
  add(&b);
  td_build_init(&b, g, "TestAttrs", "notes");
  add_notes(&b, &t, shapes);
  add(&b);
  td_build_init(&b, g, "TestAttrs", "given");
  td_build_attr(&b, "i", td_attr_int(7));
  td_build_attr(&b, "s", td_attr_string("VALID"));
  td_build_attr(&b, "ls", td_attr_strings(NULL, 0));
  td_build_attr(&b, "lt", td_attr_types(NULL, 0));
  td_build_attr(&b, "free", td_attr_bytes("\0\xff", 2));
  add(&b);
  td_tensor_release(&t);
  td_graph *h = round_trip(g);
  assert_same(g, h);
  td_graph_release(g);
  td_graph_release(h);
}

/* ---- edges --------------------------------------------------------------- */

static void test_edges(void **state) {
  (void)state;
  td_graph *g = new_graph();
  td_build b;
  td_edge axis = ints(g, (int32_t[]){0}, -1);
  td_edge x = placeholder(g, TD_FLOAT32, td_shape_vector(6), "x");
  td_build_init(&b, g, "TestSplit", "s");
  td_build_in(&b, axis);
  td_build_in(&b, x);
  td_build_attr(&b, "num_split", td_attr_int(3));
  b.device = "/job:a/task:1";
  td_node *s = add(&b);
  td_build_init(&b, g, "TestAddN", "n");
  td_build_list(&b, (td_edge[]){{s, 2}, {s, 0}, {s, 1}, {s, 0}}, 4);
  td_build_control(&b, x.node);
  td_build_control(&b, axis.node);
  td_node *n = add(&b);
  td_build_init(&b, g, "TestTwoLists", NULL);
  td_build_list(&b, &x, 1);
  td_build_list(&b, &axis, 1);
  td_build_list(&b, (td_edge[]){{n, 0}, axis}, 2);
  add(&b);
  td_graph *h = round_trip(g);
  assert_same(g, h);
  td_graph_release(g);
  td_graph_release(h);
}

/* i = 0; x = ones; while (i < 10) { i += 1; x = concat(x, x) } */
static td_graph *loop_graph(bool closed) {
  td_graph *g = new_graph();
  td_build b;
  td_node *m, *next;
  td_shape invariant = td_shape_vector(-1);
  td_edge x = ints(g, (int32_t[]){1}, 1);
  td_build_init(&b, g, "Enter", NULL);
  td_build_in(&b, x);
  td_build_attr(&b, "frame_name", td_attr_string("loop"));
  td_build_attr(&b, "_invariant", td_attr_shape(&invariant));
  td_edge enter = {add(&b), 0};
  td_build_init(&b, g, "Merge", NULL);
  td_build_flat(&b, (td_edge[]){enter, {NULL, 0}}, 2);
  td_build_attr(&b, "N", td_attr_int(2));
  td_build_attr(&b, "T", td_attr_type(TD_INT32));
  m = add(&b);
  td_edge size = unary(g, "Size", (td_edge){m, 0});
  td_build_init(&b, g, "Const", NULL);
  td_tensor ten;
  OK(td_tensor_scalar_i(TD_INT32, 10, &ten));
  td_build_attr(&b, "value", td_attr_tensor(&ten));
  td_build_attr(&b, "dtype", td_attr_type(TD_INT32));
  td_build_control(&b, m);
  td_edge bound = {add(&b), 0};
  td_tensor_release(&ten);
  td_edge cond = unary(g, "LoopCond", binary(g, "Less", size, bound));
  td_build_init(&b, g, "Switch", NULL);
  td_build_in(&b, (td_edge){m, 0});
  td_build_in(&b, cond);
  td_node *sw = add(&b);
  td_edge body = binary(g, "TestAdd", (td_edge){sw, 1}, (td_edge){sw, 1});
  next = unary(g, "NextIteration", body).node;
  unary(g, "Exit", (td_edge){sw, 0});
  if (closed) OK(td_node_set_back_edge(m, 1, (td_edge){next, 0}));
  return g;
}

static void test_loop(void **state) {
  (void)state;
  td_graph *g = loop_graph(true), *h = round_trip(g);
  assert_same(g, h);
  assert_shape((td_edge){td_graph_find(h, "Exit"), 0}, "{-1}");
  td_graph_release(g);
  td_graph_release(h);
  g = loop_graph(false);
  char *at;
  size_t len;
  FAILS(td_graphdef_write(g, &at, &len), TD_FAILED_PRECONDITION,
        "a loop that is not closed");
  assert_null(at);
  td_graph_release(g);
}

/* A control edge from a later node: the file's order is another, once. */
static void test_late_control(void **state) {
  (void)state;
  td_graph *g = new_graph();
  td_build b;
  td_str one = {0};
  td_edge x = placeholder(g, TD_FLOAT32, td_shape_scalar(), "x");
  td_edge y = unary(g, "TestIdentity", x);
  td_build_init(&b, g, "TestNoOp", "gate");
  td_node *gate = add(&b);
  OK(td_node_add_control(y.node, gate));
  write_graph(g, &one);
  td_graph *h = new_graph();
  OK(td_graphdef_read(h, one.at, one.len, NULL));
  assert_string_equal(td_graph_node(h, 1)->name, "gate");
  assert_string_equal(td_graph_node(h, 2)->control[0]->name, "gate");
  td_graph_release(round_trip(h));
  td_str_deinit(&one);
  td_graph_release(g);
  td_graph_release(h);
}

/* ---- sizes --------------------------------------------------------------- */

static void unmap(void *arg, void *data, size_t size) {
  (void)arg;
  munmap(data, size);
}

/* A constant that takes address space only. */
static void add_large(td_graph *g, const char *name, size_t bytes) {
  td_build b;
  td_tensor t = {.dtype = TD_UINT8, .shape = td_shape_vector((int64_t)bytes)};
  void *at = mmap(NULL, bytes, PROT_READ,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  assert_ptr_not_equal(at, MAP_FAILED);
  OK(td_buffer_wrap(at, bytes, unmap, NULL, &t.buffer));
  t.data = at;
  td_build_init(&b, g, "Const", name);
  td_build_attr(&b, "value", td_attr_tensor(&t));
  td_build_attr(&b, "dtype", td_attr_type(TD_UINT8));
  add(&b);
  td_tensor_release(&t);
}

static void test_two_gigabytes(void **state) {
  (void)state;
  td_graph *g = new_graph();
  char *at;
  size_t len;
  add_large(g, "small", 1 << 10);
  add_large(g, "a", 700 << 20);
  add_large(g, "most", 900 << 20);
  add_large(g, "b", 700 << 20);
  FAILS(td_graphdef_write(g, &at, &len), TD_RESOURCE_EXHAUSTED,
        "protobuf allows 2 GiB. Its largest constants: \"most\" (943718400 "
        "bytes), \"a\" (734003200 bytes), \"b\" (734003200 bytes)");
  td_graph_release(g);
}

/* ---- faults -------------------------------------------------------------- */

static td_status *write_once(void *arg) {
  char *at;
  size_t len;
  td_status *s = td_graphdef_write(arg, &at, &len);
  td_free(at);
  return s;
}

static void test_no_memory(void **state) {
  (void)state;
  td_graph *g = loop_graph(true);
  assert_true(fail_each(write_once, g) >= 4);
  td_graph_release(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bytes),        cmocka_unit_test(test_empty),
      cmocka_unit_test(test_attrs),        cmocka_unit_test(test_defaults),
      cmocka_unit_test(test_edges),        cmocka_unit_test(test_loop),
      cmocka_unit_test(test_late_control), cmocka_unit_test(test_two_gigabytes),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, register_ops, NULL);
}
