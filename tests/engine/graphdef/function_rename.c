/* function_rename.c - functions of regions: names given away, users, what goes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "functions.h"

#include "engine/graphdef/graphdef.h"

/* "e" is in the first cell; "h", of the second, calls it, and so does a node
 * of the third. */
typedef struct world {
  td_graph *g;
  td_region *first, *second, *third;
  td_node *x, *call;
  td_str other; /* another "e" */
} world;

static td_region *begin(td_graph *g) {
  td_region *r;
  OK(td_region_new(g, &r));
  td_region_enter(r);
  return r;
}

static td_node *call(td_graph *g, td_node *x, const char *f) {
  td_func_attr inner = {.name = "e"};
  td_attr hidden = {.kind = TD_ATTR_FUNC, .func = &inner};
  const char *key = "deep";
  td_func_attr func = {
      .name = f, .attr_names = &key, .attrs = &hidden, .n_attrs = 1};
  td_attr attr = {.kind = TD_ATTR_FUNC, .func = &func};
  td_dtype type = TD_FLOAT32;
  td_edge in = {x, 0};
  td_build b;
  td_node *n;
  td_build_init(&b, g, "PartitionedCall", "call");
  td_build_list(&b, &in, 1);
  td_build_attr(&b, "Tout", td_attr_types(&type, 1));
  td_build_attr(&b, "f", attr);
  OK(td_build_node(&b, &n));
  return n;
}

static world new_world(void) {
  world w = {.g = new_graph()};
  w.x = placeholder(w.g, TD_FLOAT32, td_shape_vector(2), "x").node;
  w.first = begin(w.g);
  OK(add_function(w.g, "e", "e(a) r=a"));
  w.second = begin(w.g);
  OK(add_function(w.g, "h", "h(a) r=n:r:0 | n e a; m NoOp @e"));
  w.third = begin(w.g);
  w.call = call(w.g, w.x, "h");
  td_region_enter(NULL);
  return w;
}

static void end(world *w) {
  td_region_enter(NULL);
  td_region_release(w->first);
  td_region_release(w->second);
  td_region_release(w->third);
  td_graph_release(w->g);
}

static void sweep(td_graph *g) {
  int32_t n;
  OK(td_region_sweep(g, &n));
}

/* Names of the library, with a space behind each. */
static void assert_names(const td_graph *g, const char *want) {
  td_str names = {0};
  for (int i = 0; i < td_function_count(g); i++)
    td_str_addf(&names, "%s ", td_function_name(g, i));
  assert_string_equal(td_str_c(&names), want);
  td_str_deinit(&names);
}

static bool has_text(const td_bytes *def, const char *text) {
  return memmem(def->at, def->len, text, strlen(text)) != NULL;
}

static void what_nobody_calls_goes(void **state) {
  (void)state;
  world w = new_world();
  assert_int_equal(td_region_read_stats(w.first).functions, 1);
  assert_true(td_region_read_stats(w.first).bytes > 0);
  OK(td_region_retire(w.third, "c"));
  OK(td_region_retire(w.first, "a"));
  sweep(w.g);
  assert_names(w.g, "e h "); /* h calls e */
  OK(td_region_retire(w.second, "b"));
  sweep(w.g);
  assert_names(w.g, "");
  assert_int_equal(td_region_read_stats(w.first).functions, 0);
  end(&w);
}

static void the_same_again_is_the_new_cells(void **state) {
  (void)state;
  world w = new_world();
  uint64_t serial = td_function_serial(w.g, "e");
  OK(td_region_retire(w.first, "a"));
  td_region_release(w.first);
  w.first = begin(w.g);
  OK(add_function(w.g, "e", "e(a) r=a"));
  td_region_enter(NULL);
  assert_true(td_function_serial(w.g, "e") == serial);
  assert_int_equal(td_region_read_stats(w.first).functions, 1);
  sweep(w.g);
  assert_names(w.g, "e h ");
  end(&w);
}

static void another_one_gets_the_name(void **state) {
  (void)state;
  world w = new_world();
  uint64_t serial = td_function_serial(w.g, "e");
  FAILS(add_function(w.g, "e", "e(b) r=b"), TD_ALREADY_EXISTS, "\"e\" exists");
  assert_true(td_function_name_taken(w.g, "e"));
  OK(td_region_retire(w.first, "a"));
  assert_false(td_function_name_taken(w.g, "e"));
  OK(add_function(w.g, "e", "e(b) r=b"));
  assert_names(w.g, "e e.old h ");
  assert_string_equal(td_function_of_serial(w.g, serial), "e.old");
  assert_true(td_function_serial(w.g, "e") != serial);
  const td_bytes *h = td_function_find(w.g, "h");
  assert_true(has_text(h, "e.old"));
  const td_func_attr *f = td_node_attr(w.call, "f")->func;
  assert_string_equal(f->name, "h");
  assert_string_equal(f->attrs[0].func->name, "e.old");
  sweep(w.g);
  assert_names(w.g, "e e.old h ");
  OK(td_region_retire(w.second, "b"));
  OK(add_function(w.g, "h", "h(a) r=n:r:0 | n e a"));
  assert_names(w.g, "e e.old h h.old ");
  assert_string_equal(td_node_attr(w.call, "f")->func->name, "h.old");
  OK(td_region_retire(w.third, "c"));
  sweep(w.g);
  assert_names(w.g, "e h ");
  assert_null(td_function_of_serial(w.g, serial));
  end(&w);
}

/* ".old" may be taken, and a file may bring what is put aside. */
static void names_that_are_taken(void **state) {
  (void)state;
  world w = new_world();
  OK(add_function(w.g, "e.old", "e.old()"));
  OK(td_region_retire(w.first, "a"));
  td_str def = {0}, library = {0}, f = function_of("e(b) r=b");
  wire_message(&library, 1, &f);
  wire_message(&def, 2, &library);
  OK(td_graphdef_read(w.g, def.at, def.len, NULL));
  td_str_deinit(&def);
  assert_names(w.g, "e e.old e.old_1 h ");
  end(&w);
}

static void gradients_are_kept(void **state) {
  (void)state;
  td_graph *g = new_graph();
  td_region *r = begin(g);
  td_str def = {0}, library = {0}, one = {0};
  one = function_of("a(x) r=n:r:0 | n b x");
  wire_message(&library, 1, &one);
  one = function_of("b(x) r=x");
  wire_message(&library, 1, &one);
  one = function_of("c(x) r=x");
  wire_message(&library, 1, &one);
  wire_text(&one, 1, "b");
  wire_text(&one, 2, "c");
  wire_message(&library, 2, &one);
  wire_message(&def, 2, &library);
  OK(td_graphdef_read(g, def.at, def.len, NULL));
  td_str_deinit(&def);
  td_region_enter(NULL);
  call(g, placeholder(g, TD_FLOAT32, td_shape_vector(2), "x").node, "a");
  OK(td_region_retire(r, "a"));
  sweep(g);
  assert_names(g, "a b c ");
  OK(td_function_rename(g, "c", "d"));
  assert_names(g, "a b d ");
  sweep(g);
  assert_names(g, "a b d ");
  FAILS(td_function_rename(g, "c", "e"), TD_NOT_FOUND, "no function \"c\"");
  FAILS(td_function_rename(g, "b", "a"), TD_ALREADY_EXISTS, "called \"a\"");
  td_region_release(r);
  td_graph_release(g);
}

static void users_by_way_of_functions(void **state) {
  (void)state;
  world w = new_world();
  td_region *users[8];
  int n;
  OK(td_region_users(w.g, &w.first, 1, users, &n));
  bool second = false, third = false;
  for (int i = 0; i < n; i++) {
    second = second || users[i] == w.second;
    third = third || users[i] == w.third;
  }
  assert_true(second && third);
  OK(td_region_users(w.g, &w.third, 1, users, &n));
  assert_int_equal(n, 1);
  assert_ptr_equal(users[0], w.third);
  end(&w);
}

/* A copy, as planners make, goes on with what it has. */
static void copies_stay(void **state) {
  (void)state;
  world w = new_world();
  td_graph *copy;
  OK(td_graph_new(&copy));
  OK(td_function_copy(w.g, copy));
  uint64_t serial = td_function_serial(w.g, "e");
  OK(td_region_retire(w.first, "a"));
  OK(add_function(w.g, "e", "e(b) r=b"));
  assert_names(copy, "e h ");
  assert_true(td_function_serial(copy, "e") == serial);
  td_graph_release(w.g);
  w.g = NULL;
  assert_false(has_text(td_function_find(copy, "h"), "old"));
  td_graph_release(copy);
  end(&w);
}

static td_status *replace(void *arg) {
  world *w = arg;
  int32_t n;
  td_region *users[8];
  TD_TRY(td_region_retire(w->first, "a"));
  TD_TRY(td_function_add(w->g, "e", w->other.at, w->other.len));
  TD_TRY(td_region_users(w->g, &w->first, 1, users, &n));
  return td_region_sweep(w->g, &n);
}

static void no_memory(void **state) {
  (void)state;
  world w = new_world();
  w.other = function_of("e(b) r=b");
  assert_true(fail_each(replace, &w) > 20);
  assert_names(w.g, "e e.old h ");
  assert_string_equal(td_node_attr(w.call, "f")->func->attrs[0].func->name,
                      "e.old");
  td_str_deinit(&w.other);
  end(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_nobody_calls_goes),
      cmocka_unit_test(the_same_again_is_the_new_cells),
      cmocka_unit_test(another_one_gets_the_name),
      cmocka_unit_test(names_that_are_taken),
      cmocka_unit_test(gradients_are_kept),
      cmocka_unit_test(users_by_way_of_functions),
      cmocka_unit_test(copies_stay),
      cmocka_unit_test(no_memory),
  };
  return cmocka_run_group_tests(tests, register_ops, NULL);
}
