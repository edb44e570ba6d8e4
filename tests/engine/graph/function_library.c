/* function_library.c - tests of engine/graph/function_library.h and of the
 * definitions in it: here a definition is any bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <stdio.h>

#include "engine/graph/graph_impl.h"

/* "name gradient call call ...", where "-" is no gradient. */
static td_definition *define(const char *text, const char *bytes) {
  char copy[64], *save;
  const char *words[8] = {0};
  int n = 0;
  snprintf(copy, sizeof copy, "%s", text);
  for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
    words[n++] = w;
  const char *gradient = strcmp(words[1], "-") ? words[1] : NULL;
  td_definition *d;
  OK(td_definition_new(words[0], (td_bytes){bytes, strlen(bytes)}, gradient,
                       words + 2, &d));
  return d;
}

static void add(td_graph *g, const char *text, const char *bytes) {
  OK(td_function_library_add(&g->functions, define(text, bytes), &g->root));
}

static td_graph *new_graph(void) {
  td_graph *g;
  OK(td_graph_new(&g));
  return g;
}

static void definitions(void **state) {
  (void)state;
  td_definition *f = define("f - a b", "one"), *g;
  assert_string_equal(f->name, "f");
  assert_null(f->gradient);
  assert_string_equal(f->calls[1], "b");
  assert_null(f->calls[2]);
  OK(td_definition_with_gradient(f, "df", &g));
  assert_string_equal(g->gradient, "df");
  assert_string_equal(g->calls[0], "a");
  assert_memory_equal(g->bytes.at, "one", 4);
  assert_false(td_definition_differs(f, g)); /* one of them has no gradient */
  td_definition_release(f);
  f = define("f other a b", "one");
  assert_true(td_definition_differs(f, g));
  td_definition_release(f);
  f = define("f - a b", "two");
  assert_true(td_definition_differs(f, g));
  td_definition_release(f);
  td_definition_release(g);
}

static void sorted(void **state) {
  (void)state;
  td_graph *g = new_graph();
  const td_function_library *l = &g->functions;
  static const char *const names[] = {"a", "b", "c"};
  add(g, "c -", "");
  add(g, "a -", "");
  add(g, "b -", "");
  add(g, "b -", ""); /* the same again */
  assert_int_equal(l->list.len, 3);
  for (int i = 0; i < 3; i++)
    assert_string_equal(l->list.at[i].definition->name, names[i]);
  assert_int_equal(td_function_library_index(l, "c"), 2);
  assert_int_equal(td_function_library_index(l, "d"), -1);
  assert_null(td_function_library_find(l, ""));
  td_definition *other = define("b -", "other");
  FAILS(td_function_library_add(&g->functions, other, &g->root),
        TD_ALREADY_EXISTS, "another function \"b\"");
  td_definition_release(other);
  td_graph_release(g);
}

static void used(void **state) {
  (void)state;
  td_graph *g = new_graph();
  size_t order[5];
  add(g, "a da b", ""); /* a calls b, its gradient is da */
  add(g, "b -", "");
  add(g, "c - a", "");
  add(g, "d -", "");
  add(g, "da - d", "");
  td_function_library *l = &g->functions;
  OK(td_function_library_order(l, order));
  bool called[5] = {true}, callers[5] = {true};
  td_function_library_add_called(l, order, called);
  assert_memory_equal(called, ((bool[]){true, true, false, true, true}), 5);
  td_function_library_add_callers(l, order, callers);
  assert_memory_equal(callers, ((bool[]){true, false, true, false, false}), 5);
  td_function_library_sweep(l, called);
  assert_int_equal(l->list.len, 4);
  assert_null(td_function_library_find(l, "c"));
  add(g, "e - f", "");
  add(g, "f - e", "");
  FAILS(td_function_library_order(l, NULL), TD_INVALID_ARGUMENT,
        "calls itself, by way of");
  td_graph_release(g);
}

static void joined(void **state) {
  (void)state;
  td_graph *to = new_graph(), *from = new_graph();
  td_region *r;
  OK(td_region_new(to, &r));
  add(from, "b -", "");
  add(from, "a -", "");
  OK(td_function_library_unite(&to->functions, &from->functions, r));
  td_function_library_take(&to->functions, &from->functions, r);
  assert_int_equal(td_region_read_stats(r).functions, 2);
  assert_int_equal(td_function_library_find(&to->functions, "a")->serial, 1);
  add(from, "b -", "other");
  add(from, "c -", "");
  td_status *s = td_function_library_unite(&to->functions, &from->functions, r);
  assert_int_equal(td_status_code(s), TD_ALREADY_EXISTS);
  td_status_release(s);
  assert_int_equal(to->functions.list.len, 2);
  td_graph_release(from);
  td_graph_release(to); /* and lets go of the region */
  td_region_release(r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(definitions),
      cmocka_unit_test(sorted),
      cmocka_unit_test(used),
      cmocka_unit_test(joined),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
