/* attr.c - tests of engine/graph/attr.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops.h"

static td_tensor vector(int n) {
  td_tensor t;
  int32_t v[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  td_shape shape = td_shape_vector(n);
  OK(td_tensor_from(TD_INT32, &shape, v, &t));
  return t;
}

static const td_bytes words[] = {{"SAME", 4}, {"a\0b", 3}, {"", 0}};
static const int64_t numbers[] = {1, -2, INT64_MIN};
static const td_dtype types[] = {TD_FLOAT32, TD_STRING, TD_RESOURCE};
static const td_shape shapes[] = {{2, {2, -1}}, {-1, {0}}};
static const float floats[] = {0.1f, 1e30f, 3};
static const bool bools[] = {true, false};

/* One of each kind; `t` backs the tensors, `f` the functions. */
static int make_all(td_attr *a, const td_tensor *t, const td_func_attr *f) {
  int n = 0;
  a[n++] = td_attr_int(-7);
  a[n++] = td_attr_float(0.1f);
  a[n++] = td_attr_bool(true);
  a[n++] = td_attr_string("SAME");
  a[n++] = td_attr_bytes("a\0b", 3);
  a[n++] = td_attr_type(TD_FLOAT32);
  a[n++] = td_attr_shape(&shapes[0]);
  a[n++] = td_attr_tensor(t);
  a[n++] = (td_attr){.kind = TD_ATTR_FUNC, .func = f};
  a[n++] = (td_attr){.kind = TD_ATTR_PLACEHOLDER, .s = {"T", 1}};
  a[n++] = td_attr_ints(numbers, 3);
  a[n++] = td_attr_types(types, 3);
  a[n] = (td_attr){.kind = TD_ATTR_SHAPE, .is_list = true, .len = 2};
  a[n++].shapes = shapes;
  a[n++] = td_attr_strings(words, 3);
  a[n] = (td_attr){.kind = TD_ATTR_FLOAT, .is_list = true, .len = 3};
  a[n++].fs = floats;
  a[n] = (td_attr){.kind = TD_ATTR_BOOL, .is_list = true, .len = 2};
  a[n++].bs = bools;
  a[n] = (td_attr){.kind = TD_ATTR_TENSOR, .is_list = true, .len = 1};
  a[n++].tensors = t;
  a[n] = (td_attr){.kind = TD_ATTR_FUNC, .is_list = true, .len = 1};
  a[n++].funcs = f;
  a[n++] = td_attr_ints(NULL, 0);
  a[n++] = (td_attr){0};
  return n;
}

enum { ALL = 32 };

static const char *const printed[] = {"-7",
                                      "0.1",
                                      "true",
                                      "\"SAME\"",
                                      "\"a\\u0000b\"",
                                      "float32",
                                      "{2, -1}",
                                      NULL, /* the tensor's own business */
                                      "f[n = 3, t = ",
                                      "$T",
                                      "{1, -2, -9223372036854775808}",
                                      "{float32, string, resource}",
                                      "{{2, -1}, ?}",
                                      "{\"SAME\", \"a\\u0000b\", \"\"}",
                                      "{0.1, 1e+30, 3}",
                                      "{true, false}",
                                      NULL,
                                      "{f[n = 3, t = ",
                                      "{}",
                                      "none"};

static void copies_of_every_kind(void **state) {
  (void)state;
  td_attr a[ALL], copy;
  td_tensor t = vector(3);
  const char *names[] = {"n", "t"};
  td_attr inner[] = {td_attr_int(3), td_attr_tensor(&t)};
  td_func_attr f = {"f", names, inner, 2};
  int n = make_all(a, &t, &f);
  assert_int_equal(n, TD_COUNT(printed));
  td_arena arena;
  td_arena_init(&arena);
  for (int i = 0; i < n; i++) {
    td_str text = {0};
    OK(td_attr_copy(&arena, &a[i], &copy));
    assert_true(td_attr_equal(&a[i], &copy));
    assert_true(td_attr_hash(&a[i], 5) == td_attr_hash(&copy, 5));
    for (int k = 0; k < n; k++)
      if (k != i) assert_false(td_attr_equal(&a[k], &copy));
    td_attr_print(&copy, &text);
    if (printed[i] &&
        strncmp(td_str_c(&text), printed[i], strlen(printed[i])) != 0)
      fail_msg("%s, not %s", td_str_c(&text), printed[i]);
    td_str_deinit(&text);
    td_attr_drop(&copy);
  }
  assert_int_equal(t.buffer->refs, 1);
  td_arena_deinit(&arena);
  td_tensor_release(&t);
}

static void a_copy_needs_nothing_of_its_source(void **state) {
  (void)state;
  td_arena arena;
  td_attr copy;
  char text[] = "abc";
  td_bytes list[] = {{text, 3}};
  td_attr from = td_attr_strings(list, 1);
  td_arena_init(&arena);
  OK(td_attr_copy(&arena, &from, &copy));
  memset(text, 'x', 3);
  list[0] = (td_bytes){0};
  assert_string_equal(copy.ss[0].at, "abc");
  td_arena_deinit(&arena);
}

static void tensors_are_held(void **state) {
  (void)state;
  td_arena arena;
  td_attr copy;
  td_tensor t = vector(4);
  td_attr from = td_attr_tensor(&t);
  td_arena_init(&arena);
  OK(td_attr_copy(&arena, &from, &copy));
  assert_int_equal(t.buffer->refs, 2);
  td_tensor_release(&t);
  assert_int_equal(td_tensor_get_i(copy.tensor, 3), 4);
  td_attr_drop(&copy);
  td_arena_deinit(&arena);
}

static void equality_is_by_bits(void **state) {
  (void)state;
  float nan = __builtin_nanf("");
  td_attr a = td_attr_float(nan), b = td_attr_float(nan);
  assert_true(td_attr_equal(&a, &b));
  a = td_attr_float(0.0f);
  b = td_attr_float(-0.0f);
  assert_false(td_attr_equal(&a, &b));
  a = td_attr_int(1);
  b = td_attr_bool(true);
  assert_false(td_attr_equal(&a, &b));
  b = td_attr_ints(&(int64_t){1}, 1);
  assert_false(td_attr_equal(&a, &b));
  td_tensor x = vector(2), y = vector(2), z = vector(3);
  a = td_attr_tensor(&x);
  b = td_attr_tensor(&y);
  assert_true(td_attr_equal(&a, &b));
  assert_true(td_attr_hash(&a, 0) == td_attr_hash(&b, 0));
  b = td_attr_tensor(&z);
  assert_false(td_attr_equal(&a, &b));
  assert_false(td_attr_hash(&a, 0) == td_attr_hash(&b, 0));
  td_tensor_release(&x);
  td_tensor_release(&y);
  td_tensor_release(&z);
}

static void strings_in_tensors_compare_by_text(void **state) {
  (void)state;
  td_tensor x, y;
  td_shape shape = td_shape_vector(2);
  const char *text[] = {"ab", "c"};
  size_t len[] = {2, 1};
  OK(td_tensor_strings(&shape, text, len, &x));
  OK(td_tensor_strings(&shape, text, len, &y));
  td_attr a = td_attr_tensor(&x), b = td_attr_tensor(&y);
  assert_true(td_attr_equal(&a, &b));
  assert_true(td_attr_hash(&a, 1) == td_attr_hash(&b, 1));
  td_tensor_release(&x);
  td_tensor_release(&y);
}

static void functions_nest_so_far(void **state) {
  (void)state;
  enum { DEEP = 40 };
  td_func_attr f[DEEP];
  td_attr a[DEEP];
  const char *name = "inner";
  td_arena arena;
  td_attr copy;
  td_arena_init(&arena);
  for (int i = 0; i < DEEP; i++) {
    f[i] = (td_func_attr){"f", &name, i ? &a[i - 1] : NULL, i ? 1 : 0};
    a[i] = (td_attr){.kind = TD_ATTR_FUNC, .func = &f[i]};
  }
  OK(td_attr_copy(&arena, &a[31], &copy));
  assert_true(td_attr_equal(&copy, &a[31]));
  td_attr_drop(&copy);
  FAILS(td_attr_copy(&arena, &a[DEEP - 1], &copy), TD_INVALID_ARGUMENT,
        "nest deeper than 32");
  assert_int_equal(copy.kind, TD_ATTR_NONE);
  td_arena_deinit(&arena);
}

static void reading_is_total(void **state) {
  (void)state;
  td_attr i = td_attr_int(4), t = td_attr_type(TD_BOOL);
  td_attr list = td_attr_ints(numbers, 3);
  assert_int_equal(td_attr_as_int(&i), 4);
  assert_int_equal(td_attr_as_int(&list), 0);
  assert_int_equal(td_attr_as_int(NULL), 0);
  assert_int_equal(td_attr_as_type(&t), TD_BOOL);
  assert_int_equal(td_attr_as_type(&i), TD_INVALID);
  assert_string_equal(td_attr_as_string(&i), "");
  assert_null(td_attr_as_shape(NULL));
  assert_false(td_attr_as_bool(&i));
  assert_true(td_attr_as_float(&i) == 0);
  assert_string_equal(td_attr_kind_name(TD_ATTR_SHAPE, true), "list(shape)");
  assert_string_equal(td_attr_kind_name((td_attr_kind)99, false), "none");
}

static td_status *copy_all(void *arg) {
  td_arena arena;
  td_attr a[ALL];
  td_tensor *t = arg;
  const char *names[] = {"n", "t"};
  td_attr inner[] = {td_attr_tensor(t), td_attr_strings(words, 3)};
  td_func_attr f = {"f", names, inner, 2};
  int n = make_all(a, t, &f);
  td_status *s = NULL;
  td_arena_init(&arena);
  for (int i = 0; i < n && !s; i++) {
    td_attr copy;
    for (int k = 0; k < 20 && !s; k++) { /* past the first arena block */
      s = td_attr_copy(&arena, &a[i], &copy);
      if (!s)
        td_attr_drop(&copy);
      else
        assert_int_equal(copy.kind, TD_ATTR_NONE);
    }
  }
  td_arena_deinit(&arena);
  assert_int_equal(t->buffer->refs, 1);
  return s;
}

static void no_memory(void **state) {
  (void)state;
  td_tensor t = vector(16);
  print_message("%lld allocations failed\n",
                (long long)fail_each(copy_all, &t));
  td_tensor_release(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(copies_of_every_kind),
      cmocka_unit_test(a_copy_needs_nothing_of_its_source),
      cmocka_unit_test(tensors_are_held),
      cmocka_unit_test(equality_is_by_bits),
      cmocka_unit_test(strings_in_tensors_compare_by_text),
      cmocka_unit_test(functions_nest_so_far),
      cmocka_unit_test(reading_is_total),
      cmocka_unit_test(no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
