/* resource_scatter.c - rows of variables: gathered, changed, and what it costs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/variable.h"
#include "tests/check.h"

#include "engine/device/variable.h"
#include "tests/kernels/net.h"

static td_edge variable(net *w, const char *name, td_tensor t) {
  td_edge h = net_variable(w, name, t.dtype, t.shape);
  td_edge in[] = {h, net_feed(w, t)};
  OK(net_do(w, net_node(w, "AssignVariableOp", in, 2, NULL, 0)));
  return h;
}

static td_edge reading(net *w, td_edge handle, td_dtype dtype) {
  td_note attr = {"dtype", td_attr_type(dtype)};
  return net_node(w, "ReadVariableOp", &handle, 1, &attr, 1);
}

static td_edge scatter(net *w, const char *op, td_edge h, td_tensor indices,
                       td_tensor updates) {
  td_edge in[] = {h, net_feed(w, indices), net_feed(w, updates)};
  return net_node(w, op, in, 3, NULL, 0);
}

static td_edge gather(net *w, td_edge h, td_tensor indices, td_dtype dtype,
                      int batch_dims) {
  td_edge in[] = {h, net_feed(w, indices)};
  td_note attrs[] = {{"dtype", td_attr_type(dtype)},
                     {"batch_dims", td_attr_int(batch_dims)}};
  return net_node(w, "ResourceGather", in, 2, attrs, 2);
}

/* ---- what they compute --------------------------------------------------- */

static const double start[] = {1, 2, 3, 4, 5, 6};
static const struct {
  const char *op;
  double want[6];
} rows[] = {
    /* rows 2, 0, 2 of {1 2; 3 4; 5 6} by {4 2; 2 4; 1 8} */
    {"ResourceScatterAdd", {3, 6, 3, 4, 10, 16}},
    {"ResourceScatterSub", {-1, -2, 3, 4, 0, -4}},
    {"ResourceScatterMul", {2, 8, 3, 4, 20, 96}},
    {"ResourceScatterDiv", {0.5, 0.5, 3, 4, 1.25, 0.375}},
    {"ResourceScatterMin", {1, 2, 3, 4, 1, 2}},
    {"ResourceScatterMax", {2, 4, 3, 4, 5, 8}},
    {"ResourceScatterUpdate", {2, 4, 3, 4, 1, 8}},
};

static void test_scatter(void **state) {
  (void)state;
  static const td_dtype dtypes[] = {TD_FLOAT32, TD_FLOAT64, TD_FLOAT16,
                                    TD_BFLOAT16};
  td_shape shape = td_shape_matrix(3, 2);
  for (size_t d = 0; d < TD_COUNT(dtypes); d++)
    for (size_t i = 0; i < TD_COUNT(rows); i++) {
      net w;
      net_init(&w, 2);
      td_edge h = variable(&w, "v", tensor_f(dtypes[d], shape, start));
      OK(net_do(&w, scatter(&w, rows[i].op, h, ints(3, (int[]){2, 0, 2}),
                            tensor_f(dtypes[d], shape,
                                     (double[]){4, 2, 2, 4, 1, 8}))));
      net_expect(&w, reading(&w, h, dtypes[d]), 6, rows[i].want, 0);
      net_deinit(&w);
    }
}

static void test_scatter_scalar(void **state) {
  (void)state;
  net w;
  net_init(&w, 1);
  td_edge h =
      variable(&w, "v", tensor_f(TD_INT32, td_shape_matrix(3, 2), start));
  OK(net_do(&w, scatter(&w, "ResourceScatterAdd", h, ints(2, (int[]){1, 1}),
                        scalar_f(TD_INT32, 10))));
  net_expect(&w, reading(&w, h, TD_INT32), 6, (double[]){1, 2, 23, 24, 5, 6},
             0);
  net_deinit(&w);
}

static td_tensor words(int n, const char *const *at) {
  td_tensor t;
  td_shape shape = td_shape_vector(n);
  size_t len[8];
  for (int i = 0; i < n; i++) len[i] = strlen(at[i]);
  OK(td_tensor_strings(&shape, at, len, &t));
  return t;
}

static void test_strings(void **state) {
  (void)state;
  net w;
  td_tensor t;
  net_init(&w, 1);
  td_edge h = variable(&w, "v", words(3, (const char *[]){"a", "bb", ""}));
  OK(net_do(&w, scatter(&w, "ResourceScatterUpdate", h, ints(2, (int[]){2, 0}),
                        words(2, (const char *[]){"ccc", "d"}))));
  OK(net_run(&w, gather(&w, h, ints(3, (int[]){0, 1, 2}), TD_STRING, 0), &t));
  td_tensor want = words(3, (const char *[]){"d", "bb", "ccc"});
  assert_true(td_tensor_same(&t, &want));
  td_tensor_release(&want);
  td_tensor_release(&t);
  net_deinit(&w);
}

static void test_gather(void **state) {
  (void)state;
  net w;
  net_init(&w, 1);
  td_edge h =
      variable(&w, "v", tensor_f(TD_FLOAT32, td_shape_matrix(3, 2), start));
  net_expect(&w, gather(&w, h, ints(2, (int[]){2, 0}), TD_FLOAT32, 0), 4,
             (double[]){5, 6, 1, 2}, 0);
  net_expect(&w, gather(&w, h, ints(3, (int[]){1, 0, 1}), TD_FLOAT32, 1), 3,
             (double[]){2, 3, 6}, 0);
  net_expect(&w, gather(&w, h, ints(0, NULL), TD_FLOAT32, 0), 0, NULL, 0);
  net_deinit(&w);
}

/* ---- a mistake leaves the variable as it was ----------------------------- */

static void test_errors(void **state) {
  (void)state;
  net w;
  net_init(&w, 2);
  td_shape two = td_shape_matrix(2, 2);
  td_edge h =
      variable(&w, "v", tensor_f(TD_INT32, td_shape_matrix(3, 2), start));
  td_edge wide = scatter(&w, "ResourceScatterAdd", h, ints(2, (int[]){0, 3}),
                         tensor_f(TD_INT32, two, start));
  td_edge below = scatter(&w, "ResourceScatterAdd", h, ints(2, (int[]){0, -1}),
                          tensor_f(TD_INT32, two, start));
  td_edge zero = scatter(&w, "ResourceScatterDiv", h, ints(2, (int[]){0, 1}),
                         tensor_f(TD_INT32, two, (double[]){1, 1, 1, 0}));
  td_edge shape = scatter(&w, "ResourceScatterAdd", h, ints(1, (int[]){0}),
                          tensor_f(TD_INT32, two, start));
  FAILS(net_do(&w, wide), TD_INVALID_ARGUMENT, "index 1 is 3, not in [0, 3)");
  FAILS(net_do(&w, below), TD_INVALID_ARGUMENT, "index 1 is -1");
  FAILS(net_do(&w, zero), TD_INVALID_ARGUMENT, "update 3 is 0");
  FAILS(net_do(&w, shape), TD_INVALID_ARGUMENT,
        "updates must be of shape {1, 2}");
  FAILS(net_do(&w, gather(&w, h, ints(1, (int[]){3}), TD_INT32, 0)),
        TD_INVALID_ARGUMENT, "index 0 is 3");
  FAILS(net_do(&w, gather(&w, h, ints(2, (int[]){0, 0}), TD_INT32, 1)),
        TD_INVALID_ARGUMENT, "must be equal");
  net_expect(&w, reading(&w, h, TD_INT32), 6, start, 0);
  net_deinit(&w);
}

static void test_no_memory(void **state) {
  (void)state;
  net w;
  td_tensor held;
  net_init(&w, 1);
  td_edge h =
      variable(&w, "v", tensor_f(TD_FLOAT32, td_shape_matrix(3, 2), start));
  td_edge text = variable(&w, "t", words(3, (const char *[]){"a", "bb", ""}));
  OK(net_run(&w, reading(&w, h, TD_FLOAT32), &held));
  net_starve(&w, scatter(&w, "ResourceScatterAdd", h, ints(1, (int[]){1}),
                         scalar_f(TD_FLOAT32, 1)));
  net_starve(&w, gather(&w, h, ints(1, (int[]){1}), TD_FLOAT32, 0));
  net_starve(&w, scatter(&w, "ResourceScatterUpdate", text, ints(1, (int[]){1}),
                         words(1, (const char *[]){"c"})));
  net_starve(&w, gather(&w, text, ints(1, (int[]){1}), TD_STRING, 0));
  net_expect(&w, reading(&w, h, TD_FLOAT32), 6, (double[]){1, 2, 4, 5, 5, 6},
             0);
  td_tensor_release(&held);
  net_deinit(&w);
}

/* ---- the same bits for any number of threads ----------------------------- */

enum { TABLE = 1000, WIDTH = 65, TOUCHED = 5000 };

static td_tensor scattered(int threads) {
  net w;
  td_tensor t;
  net_init(&w, threads);
  td_edge h =
      variable(&w, "v", random_f(TD_FLOAT32, td_shape_matrix(TABLE, WIDTH), 1));
  OK(net_do(&w,
            scatter(&w, "ResourceScatterAdd", h,
                    random_i(TD_INT64, td_shape_vector(TOUCHED), 2, TABLE),
                    random_f(TD_FLOAT32, td_shape_matrix(TOUCHED, WIDTH), 3))));
  OK(net_run(&w, reading(&w, h, TD_FLOAT32), &t));
  net_deinit(&w);
  return t;
}

/* Against one addition after the other. */
static void test_threads(void **state) {
  (void)state;
  td_tensor one = scattered(1), four = scattered(4);
  td_tensor x = random_f(TD_FLOAT32, td_shape_matrix(TABLE, WIDTH), 1);
  td_tensor at = random_i(TD_INT64, td_shape_vector(TOUCHED), 2, TABLE);
  td_tensor by = random_f(TD_FLOAT32, td_shape_matrix(TOUCHED, WIDTH), 3);
  float *sum = x.data, *add = by.data;
  for (int64_t i = 0; i < TOUCHED; i++)
    for (int64_t k = 0; k < WIDTH; k++)
      sum[td_tensor_get_i(&at, i) * WIDTH + k] += add[i * WIDTH + k];
  assert_true(td_tensor_same(&one, &four));
  assert_true(td_tensor_same(&one, &x));
  td_tensor_release(&one);
  td_tensor_release(&four);
  td_tensor_release(&x);
  td_tensor_release(&at);
  td_tensor_release(&by);
}

/* ---- the cost follows the rows ------------------------------------------- */

static int64_t bytes_copied(void) {
  td_variable_stats s = td_variable_read_stats();
  return s.copied_on_write + s.copied_on_read;
}

/* 32 rows of a variable of 1 GB, whose pages are touched only there. */
static void test_large_table(void **state) {
  (void)state;
  enum { ROWS = 1 << 22, EACH = 64 };
  net w;
  td_tensor handle;
  net_init(&w, 2);
  td_shape shape = td_shape_matrix(ROWS, EACH);
  td_edge h = net_variable(&w, "table", TD_FLOAT32, shape);
  OK(net_run(&w, h, &handle));
  td_variable *v = (td_variable *)td_tensor_get_object(&handle);
  OK(td_tensor_new(w.device->memory, TD_FLOAT32, &shape, &v->value));
  v->seen = v->value;

  td_tensor at = random_i(TD_INT32, td_shape_vector(32), 5, ROWS), same;
  td_tensor_retain(&at, &same);
  td_edge zero =
      scatter(&w, "ResourceScatterUpdate", h, at, scalar_f(TD_FLOAT32, 0));
  td_edge add = scatter(&w, "ResourceScatterAdd", h, same,
                        random_f(TD_FLOAT32, td_shape_matrix(32, EACH), 6));
  td_tensor_retain(&same, &at);
  td_edge get = gather(&w, h, at, TD_FLOAT32, 0);
  int64_t before = bytes_copied();
  OK(net_do(&w, zero));
  for (int i = 0; i < 10; i++) {
    OK(net_do(&w, get));
    OK(net_do(&w, add));
  }
  assert_true(bytes_copied() - before < 1 << 20);
  td_tensor_release(&handle);
  net_deinit(&w);
}

/* A value that was read is held, and stays as it was; the scatter copies
 * nothing for it. */
static void test_reader_held(void **state) {
  (void)state;
  enum { ROWS = 1 << 16, EACH = 64 };
  net w;
  td_tensor held, before;
  net_init(&w, 2);
  td_shape shape = td_shape_matrix(ROWS, EACH);
  td_edge h = variable(&w, "table", random_f(TD_FLOAT32, shape, 1));
  td_edge add = scatter(&w, "ResourceScatterAdd", h,
                        random_i(TD_INT32, td_shape_vector(32), 5, ROWS),
                        scalar_f(TD_FLOAT32, 1));
  OK(net_do(&w, add)); /* from here on it is a table of rows */
  OK(net_run(&w, reading(&w, h, TD_FLOAT32), &held));
  OK(td_tensor_copy(&held, &before));
  int64_t copied = bytes_copied();
  OK(net_do(&w, add));
  assert_true(bytes_copied() - copied < 1 << 20);
  assert_true(td_tensor_same(&held, &before));
  td_tensor_release(&held);
  td_tensor_release(&before);
  net_deinit(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_scatter),     cmocka_unit_test(test_scatter_scalar),
      cmocka_unit_test(test_strings),     cmocka_unit_test(test_gather),
      cmocka_unit_test(test_errors),      cmocka_unit_test(test_no_memory),
      cmocka_unit_test(test_threads),     cmocka_unit_test(test_large_table),
      cmocka_unit_test(test_reader_held),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
