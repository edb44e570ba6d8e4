/* function.c - libraries of functions: kept, checked, read and written.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "functions.h"

#include "engine/graphdef/graphdef.h"

/* ---- the library --------------------------------------------------------- */

static void test_library(void **state) {
  (void)state;
  td_graph *g = new_graph();
  assert_int_equal(td_function_count(g), 0);
  assert_null(td_function_find(g, "f"));
  assert_null(td_function_name(g, 0));
  OK(add_function(g, "f", "f(a) r=a"));
  OK(add_function(g, "h",
                  "h(a b) r=n:y:0 s=b ^done=m | n Relu a:0; m NoOp ^n"));
  uint64_t version = td_graph_version(g);
  OK(add_function(g, "e", "e()"));
  assert_true(td_graph_version(g) > version);
  OK(add_function(g, "f", "f(a) r=a")); /* the same again */
  FAILS(add_function(g, "f", "f(b) r=b"), TD_ALREADY_EXISTS,
        "another function \"f\"");
  FAILS(add_function(g, "g", "f(a) r=a"), TD_INVALID_ARGUMENT,
        "of function \"g\" is one of \"f\"");
  assert_int_equal(td_function_count(g), 3);
  assert_string_equal(td_function_name(g, 0), "e");
  assert_string_equal(td_function_name(g, 1), "f");
  assert_string_equal(td_function_name(g, 2), "h");
  assert_null(td_function_name(g, 3));
  td_str f = function_of("f(a) r=a");
  const td_bytes *kept = td_function_find(g, "f");
  assert_int_equal(kept->len, f.len);
  assert_memory_equal(kept->at, f.at, f.len);
  td_str_deinit(&f);
  td_graph_finalize(g);
  FAILS(add_function(g, "i", "i()"), TD_FAILED_PRECONDITION,
        "the graph is final");
  td_graph_release(g);
}

/* clang-format off */
static const struct { const char *text, *part; } bad[] = {
  {"(a) r=a", "a function without name"},
  {"f(a a) r=a", "arguments, nodes or results are called \"a\""},
  {"f(a) r=a | a Relu a", "are called \"a\""},
  {"f(a) r=a | n Relu a; n Relu a", "are called \"n\""},
  {"f(a) r=a r=a", "are called \"r\""},
  {"f(a) r=a s=a | n NoOp ^m", "input \"^m\""},
  {"f(a) r=b", "no argument or node for input \"b\""},
  {"f(a) r=a | n Relu b", "no argument or node for input \"b\""},
  {"f(a) r=a | n Relu m", "no argument or node for input \"m\""},
  {"f(a) r=a | n NoOp ^b", "no argument or node for input \"^b\""},
  {"f(a) r=n | n Relu a", "an output is missing in input \"n\""},
  {"f(a) r=a | n Relu a; m Relu n", "an output is missing in input \"n\""},
  {"f(a) r=a ^c=a", "no node for control result \"c\""},
  {"f(a) r=a ^c=n", "no node for control result \"c\""},
  {"f(a) r=a | n", "no op in node \"n\""},
};
/* clang-format on */

static void test_bad(void **state) {
  (void)state;
  td_graph *g = new_graph();
  for (size_t i = 0; i < TD_COUNT(bad); i++) {
    td_status *s = add_function(g, "f", bad[i].text);
    if (!s) fail_msg("%s: no error", bad[i].text);
    assert_int_equal(td_status_code(s), TD_INVALID_ARGUMENT);
    if (!strstr(td_status_message(s), bad[i].part))
      fail_msg("%s: %s", bad[i].text, td_status_message(s));
    td_status_release(s);
  }
  FAILS(td_function_add(g, "f", "\x0b", 1), TD_INVALID_ARGUMENT,
        "not a readable FunctionDef");
  FAILS(td_function_add(g, "f", "", 0), TD_INVALID_ARGUMENT,
        "a function without name");
  td_str f = function_of("f(a) r=a");
  td_str extra = {0}, entry = {0};
  wire_text(&entry, 1, "s");
  td_str_addn(&extra, f.at, f.len);
  wire_message(&extra, 4, &entry);
  FAILS(td_function_add(g, "f", extra.at, extra.len), TD_INVALID_ARGUMENT,
        "gives 2 of its 1 results");
  td_str_deinit(&extra);
  td_str_deinit(&f);
  assert_int_equal(td_function_count(g), 0);
  td_graph_release(g);
}

static void test_recursion(void **state) {
  (void)state;
  td_graph *g = new_graph();
  FAILS(add_function(g, "f", "f(a) r=n:0 | n f a"), TD_INVALID_ARGUMENT,
        "function \"f\" calls itself");
  OK(add_function(g, "a", "a(x) r=n:0 | n b x")); /* b may come later */
  OK(add_function(g, "b", "b(x) r=n:0 | n Relu x; m Any n:0 @c"));
  FAILS(add_function(g, "c", "c(x) r=n:0 | n a x"), TD_INVALID_ARGUMENT,
        "calls itself");
  OK(add_function(g, "c", "c(x) r=x"));
  assert_int_equal(td_function_count(g), 3);
  td_graph_release(g);
}

/* Twenty thousand functions, each calling the next. */
static void test_long_chain(void **state) {
  (void)state;
  enum { FUNCTIONS = 20000 };
  td_str lib = {0}, m = {0};
  char text[64];
  for (int i = 0; i < FUNCTIONS; i++) {
    snprintf(text, sizeof text, "f%d(x) r=n:0 | n f%d x", i, i + 1);
    td_str f = function_of(text);
    wire_message(&lib, 1, &f);
  }
  wire_message(&m, 2, &lib);
  td_graph *g = new_graph();
  OK(td_graphdef_read(g, m.at, m.len, NULL));
  assert_int_equal(td_function_count(g), FUNCTIONS);
  td_str_deinit(&m);
  td_graph_release(g);
}

/* ---- in files ------------------------------------------------------------ */

static td_str library(const char *const *functions, const char *const *grads) {
  td_str m = {0}, lib = {0}, grad = {0};
  for (; *functions; functions++) {
    td_str f = function_of(*functions);
    wire_message(&lib, 1, &f);
  }
  for (; grads && *grads; grads += 2) {
    wire_text(&grad, 1, grads[0]);
    wire_text(&grad, 2, grads[1]);
    wire_message(&lib, 2, &grad);
  }
  wire_message(&m, 2, &lib);
  return m;
}

static void assert_writes(const td_graph *g, const td_str *want) {
  char *at;
  size_t len;
  OK(td_graphdef_write(g, &at, &len));
  assert_int_equal(len, want->len + 5); /* and the version */
  assert_memory_equal(at, want->at, want->len);
  td_free(at);
}

static void test_files(void **state) {
  (void)state;
  const char *sorted[] = {"a() | n b", "b()", "c(x) r=x", NULL};
  const char *mixed[] = {"c(x) r=x", "b()", "a() | n b", "b()", NULL};
  const char *grads[] = {"b", "a", NULL};
  td_str want = library(sorted, grads), m = library(mixed, grads);
  td_graph *g = new_graph(), *copy;
  OK(td_graphdef_read(g, m.at, m.len, NULL));
  assert_int_equal(td_function_count(g), 3);
  assert_writes(g, &want);
  OK(td_graphdef_read(g, m.at, m.len, NULL)); /* again: nothing new */
  assert_writes(g, &want);
  OK(td_graph_new(&copy));
  OK(td_function_copy(g, copy));
  assert_writes(copy, &want);
  td_graph_release(copy);
  td_str_deinit(&want);
  td_str_deinit(&m);
  td_graph_release(g);
}

static void test_bad_files(void **state) {
  (void)state;
  static const struct {
    const char *functions[4], *grads[6];
    td_code code;
    const char *part;
  } rows[] = {
      {{"a() | n b", "b() | n a"}, {0}, TD_INVALID_ARGUMENT, "calls itself"},
      {{"a() | n z"}, {0}, TD_INVALID_ARGUMENT, "calls itself"},
      {{"a()", "a(x)"}, {0}, TD_ALREADY_EXISTS, "another function \"a\""},
      {{"z()"}, {0}, TD_ALREADY_EXISTS, "another function \"z\""},
      {{"a()"}, {"b", "a"}, TD_INVALID_ARGUMENT, "gradient of no function"},
      {{"a()"}, {"a", ""}, TD_INVALID_ARGUMENT, "gradient of no function"},
      {{"a()", "b()"},
       {"a", "b", "a", "a"},
       TD_INVALID_ARGUMENT,
       "two gradients, \"b\" and \"a\""},
      {{"z(x) r=n:0 | n a x"}, {"z", "y"}, TD_ALREADY_EXISTS, "\"z\""},
  };
  td_graph *g = new_graph();
  const char *mine[] = {"z(x) r=n:0 | n a x", NULL}, *grads[] = {"z", "x", 0};
  td_str m = library(mine, grads);
  OK(td_graphdef_read(g, m.at, m.len, NULL));
  td_str_deinit(&m);
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    m = library(rows[i].functions, rows[i].grads);
    FAILS(td_graphdef_read(g, m.at, m.len, NULL), rows[i].code, rows[i].part);
    td_str_deinit(&m);
    assert_int_equal(td_function_count(g), 1);
  }
  td_graph_release(g);
}

/* A node whose op is a function's name becomes a call that names it. */
static void test_calls(void **state) {
  (void)state;
  td_graph *g = new_graph();
  const char *one[] = {"my_fn()", NULL};
  td_str m = library(one, NULL);
  wire_node(&m, "x my_fn");
  OK(td_graphdef_read(g, m.at, m.len, NULL));
  assert_int_equal(td_function_count(g), 1);
  const td_node *n = td_graph_find(g, "x");
  assert_string_equal(n->op->type, "PartitionedCall");
  assert_string_equal(td_node_attr(n, "f")->func->name, "my_fn");
  td_str_deinit(&m);
  td_graph_release(g);
}

typedef struct input {
  td_str file, one;
} input;

static td_status *read_into_new(void *arg) {
  const input *in = arg;
  td_graph *g;
  TD_TRY(td_graph_new(&g));
  td_status *s = td_graphdef_read(g, in->file.at, in->file.len, NULL);
  if (td_ok(s)) s = td_function_add(g, "e", in->one.at, in->one.len);
  td_graph_release(g);
  return s;
}

static void test_no_memory(void **state) {
  (void)state;
  const char *two[] = {"b(x) r=n:y:0 | n Relu x", "a() | n b", NULL};
  const char *grads[] = {"b", "a", NULL};
  input in = {library(two, grads), function_of("e() | n a")};
  assert_true(fail_each(read_into_new, &in) > 20);
  td_str_deinit(&in.file);
  td_str_deinit(&in.one);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_library),   cmocka_unit_test(test_bad),
      cmocka_unit_test(test_recursion), cmocka_unit_test(test_long_chain),
      cmocka_unit_test(test_files),     cmocka_unit_test(test_bad_files),
      cmocka_unit_test(test_calls),     cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, register_ops, NULL);
}
