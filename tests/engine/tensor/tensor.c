/* tensor.c - tensors made, viewed, copied, compared; objects.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <string.h>

#include "engine/base/mem.h"
#include "engine/tensor/tensor.h"

static void test_new(void **state) {
  (void)state;
  for (int t = 1; t < TD_DTYPES; t++) {
    td_shape shape = td_shape_matrix(3, 5);
    td_tensor x = {0};
    td_status *s = td_tensor_new(NULL, (td_dtype)t, &shape, &x);
    if (!td_dtype_is_plain((td_dtype)t)) {
      FAILS(s, TD_INVALID_ARGUMENT, td_dtype_name((td_dtype)t));
      continue;
    }
    assert_null(s);
    assert_int_equal(td_tensor_count(&x), 15);
    assert_int_equal(td_tensor_bytes(&x), 15 * td_dtype_size((td_dtype)t));
    assert_int_equal(x.buffer->size, td_tensor_bytes(&x));
    assert_true(td_tensor_on_host(&x));
    assert_true(td_buffer_sole(x.buffer));
    td_tensor_release(&x);
    assert_false(td_tensor_valid(&x));
  }
}

static void test_new_refused(void **state) {
  static const struct {
    td_dtype dtype;
    td_shape shape;
    const char *message;
  } rows[] = {
      {TD_FLOAT32, {-1, {0}}, "known shape, not ?"},
      {TD_FLOAT32, {2, {2, -1}}, "known shape, not {2, -1}"},
      {TD_INT8, {2, {INT64_MAX, 2}}, "more than 2^63-1 elements"},
      {TD_FLOAT32, {1, {INT64_MAX}}, "more than 2^63-1 bytes"},
      {TD_INT64, {1, {INT64_MAX / 8 + 1}}, "more than 2^63-1 bytes"},
      {TD_COMPLEX128, {1, {1LL << 60}}, "complex128 tensor of shape"},
      {TD_INT8, {3, {0, INT64_MAX, 2}}, "elements"},
      {TD_INVALID, {0, {0}}, "invalid are not plain"},
  };
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_tensor x = {0};
    FAILS(td_tensor_new(NULL, rows[i].dtype, &rows[i].shape, &x),
          TD_INVALID_ARGUMENT, rows[i].message);
    assert_false(td_tensor_valid(&x));
  }
}

static td_tensor iota(int64_t rows, int64_t cols) {
  td_shape shape = td_shape_matrix(rows, cols);
  td_tensor x;
  assert_null(td_tensor_new(NULL, TD_INT32, &shape, &x));
  for (int64_t i = 0; i < rows * cols; i++) td_tensor_set_i(&x, i, i);
  return x;
}

static void test_empty(void **state) {
  td_tensor x = iota(0, 5), rows, y, none = {0}, copy;
  (void)state;
  assert_int_equal(td_tensor_count(&x), 0);
  assert_int_equal(td_tensor_bytes(&x), 0);
  assert_null(td_tensor_rows(&x, 0, 0, &rows));
  assert_null(td_tensor_copy(&x, &y));
  assert_true(td_tensor_same(&x, &y));
  assert_true(td_tensor_same(&rows, &y));
  assert_null(td_tensor_copy(&none, &copy));
  assert_true(td_tensor_same(&none, &copy));
  assert_int_equal(td_tensor_count(&none), 0);
  assert_false(td_tensor_on_host(&none));
  td_tensor_release(&x);
  td_tensor_release(&rows);
  td_tensor_release(&y);
  td_tensor_release(&none);
}

static void test_reshape(void **state) {
  td_tensor x = iota(3, 4), y, none = {0};
  td_shape six = td_shape_matrix(6, 2), seven = td_shape_vector(7);
  td_shape open = td_shape_vector(-1);
  (void)state;
  assert_null(td_tensor_reshape(&x, &six, &y));
  assert_ptr_equal(x.data, y.data);
  assert_int_equal(y.shape.dim[0], 6);
  assert_false(td_buffer_sole(x.buffer));
  FAILS(td_tensor_reshape(&x, &seven, &y), TD_INVALID_ARGUMENT,
        "{3, 4} (12 elements) to {7}");
  FAILS(td_tensor_reshape(&x, &open, &y), TD_INVALID_ARGUMENT, "not known");
  FAILS(td_tensor_reshape(&none, &seven, &y), TD_INVALID_ARGUMENT, "no tens");
  td_tensor_release(&y);
  td_tensor_release(&x);
}

static void test_rows(void **state) {
  static const struct {
    int64_t begin, n;
    bool ok;
  } cases[] = {
      {0, 4, true},          {1, 2, true},          {4, 0, true},
      {3, 1, true},          {0, 0, true},          {0, 5, false},
      {4, 1, false},         {-1, 1, false},        {1, -1, false},
      {5, 0, false},         {1, INT64_MAX, false}, {INT64_MAX, 1, false},
      {INT64_MIN, 1, false},
  };
  td_tensor x = iota(4, 3), y, none = {0};
  (void)state;
  for (size_t i = 0; i < TD_COUNT(cases); i++) {
    td_status *s = td_tensor_rows(&x, cases[i].begin, cases[i].n, &y);
    if (!cases[i].ok) {
      FAILS(s, TD_OUT_OF_RANGE, "{4, 3}");
      continue;
    }
    assert_null(s);
    assert_int_equal(td_tensor_count(&y), cases[i].n * 3);
    if (cases[i].n)
      assert_int_equal(td_tensor_get_i(&y, 0), cases[i].begin * 3);
    td_tensor_release(&y);
  }
  td_tensor scalar;
  assert_null(td_tensor_scalar_i(TD_INT8, 1, &scalar));
  FAILS(td_tensor_rows(&scalar, 0, 1, &y), TD_INVALID_ARGUMENT, "a scalar");
  FAILS(td_tensor_rows(&none, 0, 1, &y), TD_INVALID_ARGUMENT, "no tensor");
  td_tensor_release(&scalar);
  td_tensor_release(&x);
}

static void test_copy(void **state) {
  td_tensor x = iota(4, 3), middle, y;
  (void)state;
  assert_null(td_tensor_rows(&x, 1, 2, &middle));
  assert_null(td_tensor_copy(&middle, &y));
  assert_true(td_tensor_same(&middle, &y));
  assert_true(td_buffer_sole(y.buffer));
  td_tensor_set_i(&y, 5, 99);
  assert_false(td_tensor_same(&middle, &y));
  td_tensor_release(&middle);
  td_tensor_release(&x);
  td_tensor_release(&y);
}

static void test_same(void **state) {
  td_shape scalar = td_shape_scalar(), one = td_shape_vector(1);
  uint32_t nan = 0x7fc00001;
  td_tensor a, b, c, zero, minus;
  (void)state;
  assert_null(td_tensor_from(TD_FLOAT32, &scalar, &nan, &a));
  assert_null(td_tensor_from(TD_FLOAT32, &scalar, &nan, &b));
  assert_null(td_tensor_from(TD_FLOAT32, &one, &nan, &c));
  assert_null(td_tensor_scalar_f(TD_FLOAT32, 0.0, &zero));
  assert_null(td_tensor_scalar_f(TD_FLOAT32, -0.0, &minus));
  assert_true(td_tensor_same(&a, &b));
  assert_false(td_tensor_same(&a, &c));
  assert_false(td_tensor_same(&zero, &minus));
  zero.dtype = TD_INT32;
  assert_false(td_tensor_same(&zero, &minus));
  td_tensor *all[] = {&a, &b, &c, &zero, &minus};
  for (size_t i = 0; i < TD_COUNT(all); i++) td_tensor_release(all[i]);
}

/* A space whose bytes the host may not touch. */
static void *far_alloc(td_allocator *a, size_t bytes) {
  (void)a;
  return td_malloc(bytes);
}
static void far_free(td_allocator *a, void *p, size_t bytes) {
  (void)a, (void)bytes;
  td_free(p);
}

static void test_far(void **state) {
  td_allocator far = {.name = "MOON:0", .alloc = far_alloc, .free = far_free};
  td_shape shape = td_shape_vector(3);
  td_tensor x, y;
  (void)state;
  assert_null(td_tensor_new(&far, TD_FLOAT32, &shape, &x));
  assert_false(td_tensor_on_host(&x));
  assert_false(x.buffer->inlined);
  FAILS(td_tensor_copy(&x, &y), TD_FAILED_PRECONDITION, "MOON:0");
  td_tensor_release(&x);
}

/* ---- objects ------------------------------------------------------------- */

typedef struct thing {
  td_object base;
  int *freed;
} thing;

static void thing_free(td_object *o) {
  ++*((thing *)o)->freed;
}

static void test_object(void **state) {
  int freed = 0;
  thing it = {{.refs = 1, .type = "thing", .free = thing_free}, &freed};
  td_shape one = td_shape_vector(1);
  td_tensor x, copy, vector, number;
  (void)state;
  assert_null(td_tensor_object(TD_RESOURCE, &it.base, &x));
  assert_ptr_equal(td_tensor_get_object(&x), &it.base);
  assert_int_equal(td_tensor_bytes(&x), 0);
  assert_false(td_buffer_sole(x.buffer)); /* never written in place */
  assert_null(td_tensor_copy(&x, &copy));
  assert_int_equal(it.base.refs, 2);
  assert_true(td_tensor_same(&x, &copy));
  assert_null(td_tensor_reshape(&copy, &one, &vector));
  assert_null(td_tensor_get_object(&vector));
  td_tensor_release(&x);
  td_tensor_release(&copy);
  assert_int_equal(freed, 0);
  td_tensor_release(&vector);
  assert_int_equal(freed, 1);
  assert_null(td_tensor_scalar_i(TD_INT64, 1, &number));
  assert_null(td_tensor_get_object(&number));
  td_tensor_release(&number);
}

static void test_object_refused(void **state) {
  int freed = 0;
  thing it = {{.refs = 1, .type = "thing", .free = thing_free}, &freed};
  td_tensor x;
  (void)state;
  FAILS(td_tensor_object(TD_FLOAT32, &it.base, &x), TD_INVALID_ARGUMENT,
        "float32");
  assert_int_equal(freed, 1); /* owned even then */
  FAILS(td_tensor_object(TD_VARIANT, NULL, &x), TD_INVALID_ARGUMENT, "null");
  assert_null(td_object_retain(NULL));
  td_object_release(NULL);
}

/* ---- memory that runs out ------------------------------------------------ */

static td_status *scenario(td_object *o) {
  td_shape shape = td_shape_matrix(40, 50);
  td_tensor x = {0}, y = {0}, z = {0}, h = {0};
  td_status *s = td_tensor_new(NULL, TD_FLOAT64, &shape, &x);
  if (td_ok(s)) memset(x.data, 0, td_tensor_bytes(&x));
  if (td_ok(s)) s = td_tensor_copy(&x, &y);
  if (td_ok(s)) s = td_tensor_scalar_f(TD_FLOAT32, 2.5, &z);
  if (td_ok(s)) s = td_tensor_object(TD_VARIANT, td_object_retain(o), &h);
  td_tensor_release(&x);
  td_tensor_release(&y);
  td_tensor_release(&z);
  td_tensor_release(&h);
  return s;
}

static void test_faults(void **state) {
  int freed = 0, failed = 0;
  thing it = {{.refs = 1, .type = "thing", .free = thing_free}, &freed};
  (void)state;
  for (int64_t n = 1;; n++, failed++) {
    td_mem_fail(n, false);
    td_status *s = scenario(&it.base);
    td_mem_fail(0, false);
    assert_int_equal(it.base.refs, 1);
    if (td_ok(s)) break;
    FAILS(s, TD_RESOURCE_EXHAUSTED, "memory");
  }
  assert_int_equal(failed, 6);
  assert_int_equal(freed, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_new),    cmocka_unit_test(test_new_refused),
      cmocka_unit_test(test_empty),  cmocka_unit_test(test_reshape),
      cmocka_unit_test(test_rows),   cmocka_unit_test(test_copy),
      cmocka_unit_test(test_same),   cmocka_unit_test(test_far),
      cmocka_unit_test(test_object), cmocka_unit_test(test_object_refused),
      cmocka_unit_test(test_faults),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
