/* build.c - tests of td_build: deduction, defaults, checks, messages.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops.h"
#include "engine/graph/build.h"
#include "engine/graph/graph_check.h"

#include <stdio.h>

/* The nodes that rows name: f float32 {2, 3}, g float32 {3}, i int32 ?, s a
 * string, h a resource. */
static td_graph *graph_of_rows(void) {
  td_graph *g = new_graph();
  placeholder(g, TD_FLOAT32, td_shape_matrix(2, 3), "f");
  placeholder(g, TD_FLOAT32, td_shape_vector(3), "g");
  placeholder(g, TD_INT32, td_shape_unknown(), "i");
  placeholder(g, TD_STRING, td_shape_scalar(), "s");
  placeholder(g, TD_RESOURCE, td_shape_scalar(), "h");
  return g;
}

static td_edge named(td_graph *g, char name) {
  char text[2] = {name, '\0'};
  return (td_edge){td_graph_find(g, text), 0};
}

/* "fg" two inputs, "[fg]f" a list and an input, "=fg" flattened. */
static void give(td_build *b, td_graph *g, const char *inputs) {
  td_edge list[16];
  int n = 0;
  bool flat = *inputs == '=', open = false;
  for (const char *p = inputs + flat; *p; p++) {
    if (*p == '[') {
      open = true;
      n = 0;
    } else if (*p == ']') {
      td_build_list(b, list, n);
      open = false;
    } else if (open || flat) {
      list[n++] = named(g, *p);
    } else {
      td_build_in(b, named(g, *p));
    }
  }
  if (flat) td_build_flat(b, list, n);
}

/* ---- what is refused ----------------------------------------------------- */

typedef struct row {
  const char *op, *inputs;
  td_note attr[2];
  const char *part;
} row;

static const int64_t one_int[] = {1};
static const td_dtype two_types[] = {TD_FLOAT32, TD_INT32};
static const td_dtype odd_types[] = {TD_FLOAT32, TD_BOOL};

#define INT(v)                                                                 \
  { .kind = TD_ATTR_INT, .i = v }
#define TYPE(v)                                                                \
  { .kind = TD_ATTR_TYPE, .type = v }
#define TEXT(v)                                                                \
  {                                                                            \
    .kind = TD_ATTR_STRING, .s = { v, sizeof v - 1 }                           \
  }
#define TYPES(v)                                                               \
  { .kind = TD_ATTR_TYPE, .is_list = true, .len = 2, .types = v }

static const row bad_rows[] = {
    {"TestAd", "", {{0}}, "no op \"TestAd\" (did you mean \"TestAdd\"?)"},
    {"Zzzzzzzzzzz", "", {{0}}, "no op \"Zzzzzzzzzzz\""},
    {"TestAdd", "f", {{0}}, "TestAdd: takes 2 inputs (x, y), not 1"},
    {"TestAdd", "ffg", {{0}}, "takes 2 inputs (x, y), not 3"},
    {"TestAdd", "=f", {{0}}, "takes 2 inputs (x, y), not 1"},
    {"TestNoOp", "f", {{0}}, "takes 0 inputs, not 1"},
    {"TestAdd",
     "fi",
     {{0}},
     "input y must be float32, not int32 ? (\"i:0\"): T is float32, as input x "
     "is float32 {2, 3} (\"f:0\")"},
    {"TestAdd",
     "fg",
     {{"T", TYPE(TD_INT32)}},
     "input x must be int32, not float32 {2, 3} (\"f:0\"): T is int32, as "
     "given"},
    {"TestAdd",
     "ss",
     {{0}},
     "attribute T must be one of float32, float64, int32, int64, float16, not "
     "string, as input x is string {} (\"s:0\")"},
    {"TestAdd",
     "[ff]f",
     {{0}},
     "input x is a list of 2 tensors, wanted is one"},
    {"TestFill", "ff", {{0}}, "attribute Tdim must be one of int32, int64"},
    {"TestSplit", "fg", {{0}}, "input split_dim must be int32, not float32"},
    {"TestAddN", "[fi]", {{0}}, "input inputs[1] must be float32, not int32"},
    {"TestAddN",
     "[]",
     {{"T", TYPE(TD_FLOAT32)}},
     "N must be at least 1, not 0"},
    {"TestAddN", "[]", {{0}}, "N must be at least 1, not 0"},
    {"TestAddN",
     "[fg]",
     {{"N", INT(3)}},
     "input inputs is a list of 2 tensors, but N calls for 3, as given"},
    {"TestAddN", "=ff", {{0}}, "needs attribute N (int)"},
    {"TestAddN", "=ff", {{"N", INT(3)}}, "takes 1 input (inputs... 3), not 2"},
    {"TestAddN", "=ff", {{"N", INT(1LL << 40)}}, "takes 1 input (inputs...)"},
    {"TestAddN", "=ff", {{"N", INT(-1)}}, "takes 1 input (inputs...), not 2"},
    {"TestAdd",
     "fg",
     {{"transpose", INT(1)}},
     "no attribute \"transpose\"; "
     "there are T"},
    {"TestPack",
     "[f]",
     {{"axes", INT(1)}},
     "no attribute \"axes\" (did you "
     "mean \"axis\"?)"},
    {"TestNoOp", "", {{"a", INT(1)}}, "no attribute \"a\"; it has none"},
    {"TestPack",
     "[f]",
     {{"axis", TEXT("0")}},
     "attribute axis must be int, not "
     "string \"0\""},
    {"TestPack",
     "[f]",
     {{"axis", INT(0)}, {"axis", INT(0)}},
     "attribute axis given twice"},
    {"TestPack",
     "[f]",
     {{"_a", INT(0)}, {"_a", INT(0)}},
     "attribute \"_a\" given twice"},
    {"TestAttrs", "", {{"i", INT(1)}}, "attribute i must be at least 2, not 1"},
    {"TestAttrs",
     "",
     {{"s", TEXT("FULL")}},
     "attribute s must be one of \"SAME\", \"VALID\", not \"FULL\""},
    {"TestAttrs", "", {{"s", TEXT("SAME\0")}}, "attribute s must be one of"},
    {"TestAttrs",
     "",
     {{"t", TYPE(TD_BOOL)}},
     "one of float32, int32, not bool"},
    {"TestAttrs",
     "",
     {{"lt", TYPE(TD_BOOL)}},
     "lt must be list(type), not "
     "type bool"},
    {"TestAttrs",
     "",
     {{"i", {.kind = TD_ATTR_INT, .is_list = true, .len = 1, .is = one_int}}},
     "i must be int, not list(int) {1}"},
    {"TestAttrs",
     "",
     {{"li", {.kind = TD_ATTR_INT, .is_list = true}}},
     "li must be a list of at least 1, not {}"},
    {"TestAttrs",
     "",
     {{"li", {.kind = TD_ATTR_INT, .is_list = true, .len = -1}}},
     "li must be list(int)"},
    {"TestAttrs", "", {{"b", INT(1)}}, "b must be bool, not int 1"},
    {"TestAttrs",
     "",
     {{"i", {.kind = TD_ATTR_FLOAT, .f = 2}}},
     "i must be int, not float 2"},
    {"TestAttrs",
     "",
     {{"free", {.kind = TD_ATTR_PLACEHOLDER, .s = {"T", 1}}}},
     "free must be string, not placeholder $T"},
    {"TestPlaceholder", "", {{0}}, "needs attribute dtype (type)"},
    {"TestPlaceholder", "", {{"dtype", TYPE(0)}}, "dtype must be a dtype"},
    {"TestPlaceholder", "", {{"dtype", TYPE(77)}}, "dtype must be a dtype"},
    {"TestTwoLists",
     "[ff][i][fi]",
     {{0}},
     "input b is a list of 1 tensors, but N calls for 2, as input a[0] is "
     "float32 {2, 3} (\"f:0\")"},
    {"TestTwoLists", "[f][i][]", {{0}}, "T must be a list of at least 1"},
    {"TestTwoLists",
     "[f][i][fh]",
     {{0}},
     "T must be one of float32, int32, string, not {float32, resource}, as "
     "input c[0] is float32"},
    {"TestTwoLists",
     "[f][i][ff]",
     {{"T", TYPES(two_types)}},
     "input c[1] must be int32, not float32 {2, 3} (\"f:0\"): T is int32, as "
     "given"},
    {"TestTwoLists",
     "[f][i][f]",
     {{"T", TYPES(two_types)}},
     "input c is a list of 1 tensors, but T calls for 2, as given"},
    {"TestTwoLists",
     "=fifi",
     {{"N", INT(1)}},
     "needs attribute T (list(type))"},
    {"TestTwoLists",
     "=fif",
     {{"N", INT(1)}, {"T", TYPES(two_types)}},
     "takes 3 inputs (a... 1, b... 1, c... 2), not 3"},
    {"TestTwoLists",
     "[f][i][ff]",
     {{"T", TYPES(odd_types)}},
     "input c[1] must be bool"},
    {"TestSplit",
     "ig",
     {{"num_split", INT(1 << 17)}},
     "output output cannot be a list of 131072 tensors"},
    {"TestSplit", "ig", {{"num_split", INT(INT64_MAX)}}, "at most 65536"},
    {"TestSplit",
     "ig",
     {{"num_split", INT(0)}},
     "num_split must be at least 1"},
};

static void refused(void **state) {
  (void)state;
  td_graph *g = graph_of_rows();
  int32_t size = td_graph_size(g);
  uint64_t version = td_graph_version(g);
  for (size_t i = 0; i < TD_COUNT(bad_rows); i++) {
    const row *r = &bad_rows[i];
    td_build b;
    td_node *n = (td_node *)g;
    td_build_init(&b, g, r->op, "name");
    b.origin = "a.lua:3";
    give(&b, g, r->inputs);
    for (int k = 0; k < 2 && r->attr[k].name; k++)
      td_build_attr(&b, r->attr[k].name, r->attr[k].value);
    td_status *s = td_build_node(&b, &n);
    if (!s) fail_msg("row %zu: no error, wanted \"%s\"", i, r->part);
    if (!strstr(td_status_message(s), r->part))
      fail_msg("row %zu: \"%s\" lacks \"%s\"", i, td_status_message(s),
               r->part);
    assert_null(n);
    assert_string_equal(td_status_node(s), "name");
    assert_string_equal(td_status_origin(s), "a.lua:3");
    td_status_release(s);
  }
  assert_int_equal(td_graph_size(g), size);
  assert_int_equal(td_graph_version(g), version);
  td_graph_release(g);
}

static void shape_errors_name_the_node(void **state) {
  (void)state;
  td_graph *g = graph_of_rows();
  td_edge x = placeholder(g, TD_FLOAT32, td_shape_vector(2), "x");
  td_build b;
  td_node *n;
  td_build_init(&b, g, "TestAdd", "sum");
  b.origin = "a.lua:3";
  td_build_in(&b, x);
  td_build_in(&b, named(g, 'f'));
  td_status *s = td_build_node(&b, &n);
  assert_non_null(strstr(td_status_message(s), "{2} and {2, 3} do not"));
  assert_string_equal(td_status_op(s), "TestAdd");
  assert_string_equal(td_status_node(s), "sum");
  assert_string_equal(td_status_origin(s), "a.lua:3");
  td_status_release(s);
  assert_null(td_graph_find(g, "sum"));
  td_graph_release(g);
}

static void foreign_nodes(void **state) {
  (void)state;
  td_graph *g = graph_of_rows(), *h = graph_of_rows();
  td_build b;
  td_node *n;
  td_build_init(&b, g, "TestAdd", NULL);
  td_build_in(&b, named(h, 'f'));
  td_build_in(&b, named(g, 'f'));
  FAILS(td_build_node(&b, &n), TD_INVALID_ARGUMENT, "of another graph");
  td_build_init(&b, g, "TestNoOp", NULL);
  td_build_control(&b, td_graph_find(h, "f"));
  FAILS(td_build_node(&b, &n), TD_INVALID_ARGUMENT, "of another graph");
  td_build_init(&b, g, "TestIdentity", NULL);
  td_build_in(&b, (td_edge){td_graph_find(g, "f"), 1});
  FAILS(td_build_node(&b, &n), TD_INVALID_ARGUMENT,
        "input 0 is output 1 of \"f\", a TestPlaceholder with 1");
  td_build_init(&b, g, "TestIdentity", NULL);
  td_build_in(&b, (td_edge){NULL, 0});
  FAILS(td_build_node(&b, &n), TD_INVALID_ARGUMENT, "input 0 is no tensor");
  td_build_init(&b, g, "TestIdentity", NULL);
  b.flow = 3;
  td_build_in(&b, named(g, 'f'));
  FAILS(td_build_node(&b, &n), TD_INVALID_ARGUMENT, "no flow 3");
  td_build_init(&b, g, "TestIdentity", NULL);
  b.device = "/cpu:x";
  td_build_in(&b, named(g, 'f'));
  FAILS(td_build_node(&b, &n), TD_INVALID_ARGUMENT, "/cpu:x");
  td_build_init(&b, g, "TestAdd", NULL);
  td_build_in(&b, named(g, 'f'));
  td_build_flat(&b, &(td_edge){td_graph_find(g, "f"), 0}, 1);
  FAILS(td_build_node(&b, &n), TD_INVALID_ARGUMENT, "flattened inputs after");
  td_build_init(&b, g, "TestAdd", NULL);
  td_build_flat(&b, &(td_edge){td_graph_find(g, "f"), 0}, 1);
  td_build_in(&b, named(g, 'f'));
  FAILS(td_build_node(&b, &n), TD_INVALID_ARGUMENT, "after flattened ones");
  td_graph_release(g);
  td_graph_release(h);
}

static void constants_are_what_they_say(void **state) {
  (void)state;
  td_graph *g = new_graph();
  td_build b;
  td_node *n;
  td_tensor t;
  OK(td_tensor_scalar_f(TD_FLOAT32, 1, &t));
  td_build_init(&b, g, "TestConst", NULL);
  td_build_attr(&b, "value", td_attr_tensor(&t));
  td_build_attr(&b, "dtype", td_attr_type(TD_INT32));
  FAILS(td_build_node(&b, &n), TD_INVALID_ARGUMENT,
        "value is float32 but attribute dtype is int32");
  td_tensor_release(&t);
  t = (td_tensor){.dtype = TD_RESOURCE};
  td_build_init(&b, g, "TestConst", NULL);
  td_build_attr(&b, "value", td_attr_tensor(&t));
  td_build_attr(&b, "dtype", td_attr_type(TD_RESOURCE));
  FAILS(td_build_node(&b, &n), TD_INVALID_ARGUMENT,
        "a resource cannot be a constant");
  td_graph_release(g);
}

/* ---- what is built ------------------------------------------------------- */

static void types_and_numbers_are_deduced(void **state) {
  (void)state;
  td_graph *g = graph_of_rows();
  td_build b;
  td_node *n;
  td_build_init(&b, g, "TestTwoLists", NULL);
  give(&b, g, "[fg][ii][fis]");
  OK(td_build_node(&b, &n));
  assert_int_equal(td_node_int(n, "N"), 2);
  const td_attr *types = td_node_attr(n, "T");
  assert_int_equal(types->len, 3);
  assert_int_equal(types->types[2], TD_STRING);
  static const td_dtype outs[] = {TD_FLOAT32, TD_FLOAT32, TD_FLOAT32,
                                  TD_INT32,   TD_STRING,  TD_RESOURCE};
  assert_int_equal(n->n_out, TD_COUNT(outs));
  for (int i = 0; i < n->n_out; i++) assert_int_equal(n->out[i].dtype, outs[i]);
  int begin, count;
  td_node_in_range(n, 2, &begin, &count);
  assert_int_equal(begin, 4);
  assert_int_equal(count, 3);
  td_node_out_range(n, 1, &begin, &count);
  assert_int_equal(begin, 2);
  assert_string_equal(td_node_in_arg(n, 3)->name, "b");
  assert_string_equal(td_node_out_arg(n, 5)->name, "f");
  assert_null(td_node_in_arg(n, 7));
  td_graph_release(g);
}

static void flat_inputs_are_the_same(void **state) {
  (void)state;
  td_graph *g = graph_of_rows();
  td_build b;
  td_node *n, *m;
  td_build_init(&b, g, "TestTwoLists", NULL);
  give(&b, g, "[f][i][fi]");
  OK(td_build_node(&b, &n));
  td_build_init(&b, g, "TestTwoLists", NULL);
  give(&b, g, "=fifi");
  td_build_attr(&b, "N", td_attr_int(1));
  td_build_attr(&b, "T", td_attr_types(two_types, 2));
  OK(td_build_node(&b, &m));
  assert_int_equal(n->n_in, m->n_in);
  for (int i = 0; i < n->n_in; i++)
    assert_ptr_equal(n->in[i].node, m->in[i].node);
  for (int i = 0; i < n->op->n_attr; i++)
    assert_true(td_attr_equal(&n->attr[i], &m->attr[i]));
  td_graph_release(g);
}

static void defaults_and_given(void **state) {
  (void)state;
  td_graph *g = new_graph();
  td_build b;
  td_node *n;
  int64_t whole[] = {1, 2};
  td_attr none = {.is_list = true};
  td_shape shape = td_shape_vector(7);
  td_build_init(&b, g, "TestAttrs", NULL);
  OK(td_build_node(&b, &n));
  assert_int_equal(td_node_int(n, "i"), 2);
  assert_true(td_node_float(n, "f") == 1.5f);
  assert_string_equal(td_node_string(n, "s"), "SAME");
  assert_int_equal(td_node_type(n, "t"), TD_FLOAT32);
  assert_int_equal(td_node_attr(n, "sh")->shape->dim[1], -1);
  assert_string_equal(td_node_attr(n, "ls")->ss[1].at, "b");
  td_build_init(&b, g, "TestAttrs", NULL);
  td_build_attr(&b, "f", td_attr_int(3)); /* an int is a float */
  td_build_attr(&b, "lf", td_attr_ints(whole, 2));
  td_build_attr(&b, "lt", none); /* an empty list is of any kind */
  td_build_attr(&b, "sh", td_attr_shape(&shape));
  td_build_attr(&b, "b", td_attr_bool(true));
  td_build_attr(&b, "free", td_attr_bytes("a\0b", 3));
  td_build_attr(&b, "_note", td_attr_int(9));
  td_build_attr(&b, "_class", td_attr_strings(&(td_bytes){"loc:@x", 6}, 1));
  OK(td_build_node(&b, &n));
  whole[1] = 0;
  shape.dim[0] = 0;
  assert_true(td_node_float(n, "f") == 3);
  assert_true(td_node_attr(n, "lf")->fs[1] == 2);
  assert_int_equal(td_node_attr(n, "lt")->kind, TD_ATTR_TYPE);
  assert_int_equal(td_node_attr(n, "sh")->shape->dim[0], 7);
  assert_true(td_node_bool(n, "b"));
  assert_int_equal(td_node_attr(n, "free")->s.len, 3);
  assert_int_equal(td_node_int(n, "_note"), 9);
  assert_string_equal(td_node_attr(n, "_class")->ss[0].at, "loc:@x");
  assert_null(td_node_attr(n, "absent"));
  OK(td_graph_verify(g));
  td_graph_release(g);
}

static void places_are_kept(void **state) {
  (void)state;
  td_graph *g = graph_of_rows();
  td_build b;
  td_node *n, *m;
  char device[] = "/device:CPU:1", origin[] = "a.lua:3";
  for (int i = 0; i < 2; i++) {
    td_build_init(&b, g, "TestIdentity", NULL);
    td_build_in(&b, named(g, 'f'));
    b.device = device;
    b.origin = origin;
    OK(td_build_node(&b, i ? &m : &n));
  }
  device[0] = origin[0] = '#';
  assert_string_equal(n->device, "/device:CPU:1");
  assert_string_equal(n->origin, "a.lua:3");
  assert_ptr_equal(n->device, m->device);
  assert_ptr_equal(n->origin, m->origin);
  assert_int_equal(n->placed, -1);
  assert_string_equal(td_graph_find(g, "f")->device, "");
  td_status *s = td_node_blame(td_error(TD_INTERNAL, "x"), n);
  assert_string_equal(td_status_op(s), "TestIdentity");
  assert_string_equal(td_status_origin(s), "a.lua:3");
  td_status_release(s);
  assert_null(td_node_blame(NULL, n));
  td_graph_release(g);
}

static void controls_once_each(void **state) {
  (void)state;
  td_graph *g = new_graph();
  td_build b;
  td_node *n[40], *few, *all;
  for (int i = 0; i < 40; i++) {
    td_build_init(&b, g, "TestNoOp", NULL);
    OK(td_build_node(&b, &n[i]));
  }
  td_build_init(&b, g, "TestNoOp", "few");
  for (int i = 0; i < 6; i++) td_build_control(&b, n[i / 2]);
  OK(td_build_node(&b, &few));
  assert_int_equal(few->n_control, 3);
  td_build_init(&b, g, "TestNoOp", "all");
  for (int i = 0; i < 80; i++) td_build_control(&b, n[39 - i / 2]);
  OK(td_build_node(&b, &all));
  assert_int_equal(all->n_control, 40);
  for (int i = 0; i < 40; i++) assert_ptr_equal(all->control[i], n[39 - i]);
  OK(td_graph_verify(g));
  td_graph_release(g);
}

static void many_of_everything(void **state) {
  (void)state;
  td_graph *g = graph_of_rows();
  td_build b;
  td_node *n;
  td_edge f = named(g, 'f'), edges[300];
  char names[257][8];
  for (int i = 0; i < 300; i++) edges[i] = f;
  td_build_init(&b, g, "TestAddN", NULL);
  td_build_list(&b, edges, 300);
  for (int i = 0; i < 257; i++) snprintf(names[i], sizeof names[i], "_n%d", i);
  for (int i = 0; i < 20; i++) td_build_attr(&b, names[i], td_attr_int(i));
  OK(td_build_node(&b, &n));
  assert_int_equal(n->n_in, 300);
  assert_int_equal(td_node_int(n, "N"), 300);
  assert_int_equal(n->n_note, 20);
  assert_int_equal(td_node_int(n, "_n19"), 19);
  assert_shape((td_edge){n, 0}, "{2, 3}");
  td_build_init(&b, g, "TestNoOp", NULL);
  for (int i = 0; i < 257; i++) td_build_attr(&b, names[i], td_attr_int(i));
  FAILS(td_build_node(&b, &n), TD_INVALID_ARGUMENT, "more than 256 annot");
  td_build_init(&b, g, "TestSplit", NULL);
  td_build_in(&b, named(g, 'i'));
  td_build_in(&b, f);
  td_build_attr(&b, "num_split", td_attr_int(1000));
  OK(td_build_node(&b, &n));
  assert_int_equal(n->n_out, 1000);
  OK(td_graph_verify(g));
  td_graph_release(g);
}

static void a_build_can_be_dropped(void **state) {
  (void)state;
  td_graph *g = graph_of_rows();
  td_build b;
  td_edge edges[20];
  for (int i = 0; i < 20; i++) edges[i] = named(g, 'f');
  td_build_init(&b, g, "TestAddN", NULL);
  td_build_list(&b, edges, 20);
  td_build_in(&b, (td_edge){NULL, 0}); /* keeps an error */
  td_build_drop(&b);
  assert_int_equal(td_graph_size(g), 5);
  td_graph_release(g);
}

/* ---- no memory ----------------------------------------------------------- */

/* Builds nodes of all sorts; every failure leaves the graph as it was. */
static td_status *build_all(void *arg) {
  td_tensor *value = arg;
  td_graph *g;
  td_node *n;
  td_build b;
  TD_TRY(td_graph_new(&g));
  td_status *s = NULL;
  td_shape shape = td_shape_vector(3);
  static const char *const notes[] = {"_a", "_b", "_c", "_d", "_e",
                                      "_f", "_g", "_h", "_i"};
  for (int i = 0; i < 12 && !s; i++) {
    int32_t size = td_graph_size(g);
    td_build_init(&b, g, "TestConst", "value");
    td_build_attr(&b, "value", td_attr_tensor(value));
    td_build_attr(&b, "dtype", td_attr_type(TD_INT32));
    td_build_attr(&b, "_note", td_attr_tensor(value));
    b.origin = i % 2 ? "a.lua:1" : "a.lua:2";
    b.device = i % 2 ? "/cpu:1" : "";
    s = td_build_node(&b, &n);
    td_edge e[12];
    for (int k = 0; k < 12 && n; k++) e[k] = (td_edge){n, 0};
    if (!s) {
      td_build_init(&b, g, "TestAddN", NULL);
      td_build_list(&b, e, 12);
      for (int k = 0; k < 20; k++) td_build_control(&b, n);
      for (int k = 0; k < 9; k++)
        td_build_attr(&b, notes[k], td_attr_shape(&shape));
      s = td_build_node(&b, &n);
    }
    if (!s) {
      td_build_init(&b, g, "TestTwoLists", NULL);
      td_build_list(&b, NULL, 0);
      td_build_list(&b, NULL, 0);
      td_build_list(&b, e, 12);
      s = td_build_node(&b, &n);
    }
    if (s) assert_in_range(td_graph_size(g), size, size + 2);
  }
  td_status *whole = td_graph_verify(g);
  if (whole) assert_int_equal(td_status_code(whole), TD_RESOURCE_EXHAUSTED);
  td_status_release(whole);
  td_graph_release(g);
  assert_int_equal(value->buffer->refs, 1);
  return s;
}

static void no_memory(void **state) {
  (void)state;
  td_tensor t;
  OK(td_tensor_scalar_i(TD_INT32, 1, &t));
  print_message("%lld allocations failed\n",
                (long long)fail_each(build_all, &t));
  td_tensor_release(&t);
}

/* Whatever fails, an error in what was given is an error. */
static td_status *build_badly(void *arg) {
  td_graph *g = arg;
  int32_t size = td_graph_size(g);
  for (size_t i = 0; i < TD_COUNT(bad_rows); i++) {
    const row *r = &bad_rows[i];
    td_build b;
    td_node *n;
    td_build_init(&b, g, r->op, "name");
    give(&b, g, r->inputs);
    for (int k = 0; k < 2 && r->attr[k].name; k++)
      td_build_attr(&b, r->attr[k].name, r->attr[k].value);
    td_status *s = td_build_node(&b, &n);
    assert_non_null(s);
    assert_int_equal(td_graph_size(g), size);
    bool oom = td_status_code(s) == TD_RESOURCE_EXHAUSTED;
    if (oom) return s;
    td_status_release(s);
  }
  return NULL;
}

static void no_memory_for_the_error(void **state) {
  (void)state;
  td_graph *g = graph_of_rows();
  print_message("%lld allocations failed\n",
                (long long)fail_each(build_badly, g));
  td_graph_release(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refused),
      cmocka_unit_test(shape_errors_name_the_node),
      cmocka_unit_test(foreign_nodes),
      cmocka_unit_test(constants_are_what_they_say),
      cmocka_unit_test(types_and_numbers_are_deduced),
      cmocka_unit_test(flat_inputs_are_the_same),
      cmocka_unit_test(defaults_and_given),
      cmocka_unit_test(places_are_kept),
      cmocka_unit_test(controls_once_each),
      cmocka_unit_test(many_of_everything),
      cmocka_unit_test(a_build_can_be_dropped),
      cmocka_unit_test(no_memory),
      cmocka_unit_test(no_memory_for_the_error),
  };
  return cmocka_run_group_tests(tests, register_ops, NULL);
}
