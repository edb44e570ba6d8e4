/* variable.c - variables through their kernels: life, locks, copies, errors.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/variable.h"
#include "tests/check.h"

#include "engine/device/variable.h"
#include "tests/kernels/net.h"

static td_edge reading(net *w, td_edge handle, td_dtype dtype) {
  td_note attr = {"dtype", td_attr_type(dtype)};
  return net_node(w, "ReadVariableOp", &handle, 1, &attr, 1);
}

static td_edge writing(net *w, const char *op, td_edge handle, td_tensor t) {
  td_edge in[] = {handle, net_feed(w, t)};
  return net_node(w, op, in, 2, NULL, 0);
}

static void assign(net *w, td_edge handle, td_tensor t) {
  OK(net_do(w, writing(w, "AssignVariableOp", handle, t)));
}

/* A float vector variable with a value. */
static td_edge vector(net *w, const char *name, int n, const double *v) {
  td_edge h = net_variable(w, name, TD_FLOAT32, td_shape_vector(n));
  assign(w, h, tensor_f(TD_FLOAT32, td_shape_vector(n), v));
  return h;
}

/* ---- life ---------------------------------------------------------------- */

static void test_life(void **state) {
  (void)state;
  net w;
  net_init(&w, 1);
  td_shape two = td_shape_vector(2);
  td_edge h = net_variable(&w, "v", TD_FLOAT32, two);
  td_edge read = reading(&w, h, TD_FLOAT32);
  td_edge ready = net_node(&w, "VarIsInitializedOp", &h, 1, NULL, 0);
  assert_true(td_shape_equal(td_edge_shape(read), &two));
  FAILS(net_do(&w, read), TD_FAILED_PRECONDITION, "not initialised");
  net_expect(&w, ready, 1, (double[]){0}, 0);
  assign(&w, h, tensor_f(TD_FLOAT32, two, (double[]){1, 2}));
  net_expect(&w, ready, 1, (double[]){1}, 0);
  net_expect(&w, read, 2, (double[]){1, 2}, 0);
  OK(net_do(&w, writing(&w, "AssignAddVariableOp", h,
                        tensor_f(TD_FLOAT32, two, (double[]){10, 20}))));
  net_expect(&w, read, 2, (double[]){11, 22}, 0);
  OK(net_do(&w, writing(&w, "AssignSubVariableOp", h,
                        tensor_f(TD_FLOAT32, two, (double[]){1, 1}))));
  net_expect(&w, read, 2, (double[]){10, 21}, 0);
  td_edge size = net_node(&w, "VariableShape", &h, 1, NULL, 0);
  net_expect(&w, size, 1, (double[]){2}, 0);
  net_deinit(&w);
}

/* A destroyed variable's handle finds a new one of that name. */
static void test_destroy(void **state) {
  (void)state;
  net w;
  net_init(&w, 1);
  td_edge h = vector(&w, "v", 1, (double[]){3});
  td_edge read = reading(&w, h, TD_FLOAT32);
  td_note strict = {"ignore_lookup_error", td_attr_bool(false)};
  td_edge destroy = net_node(&w, "DestroyResourceOp", &h, 1, NULL, 0);
  OK(net_do(&w, destroy));
  FAILS(net_do(&w, read), TD_FAILED_PRECONDITION, "not initialised");
  assign(&w, h, tensor_f(TD_FLOAT32, td_shape_vector(1), (double[]){4}));
  net_expect(&w, read, 1, (double[]){4}, 0);

  td_tensor handle, none;
  td_kernel k;
  OK(net_run(&w, h, &handle));
  td_edge in = net_feed(&w, handle);
  td_edge again = net_node(&w, "DestroyResourceOp", &in, 1, &strict, 1);
  OK(td_kernel_init(&k, again.node, w.device, NULL));
  OK(net_start(&w, &k, &w.fed[in.node->id], &none));
  FAILS(net_start(&w, &k, &w.fed[in.node->id], &none), TD_NOT_FOUND,
        "destroyed before");
  td_kernel_deinit(&k);
  net_deinit(&w);
}

static void test_containers(void **state) {
  (void)state;
  net w;
  net_init(&w, 1);
  td_shape one = td_shape_scalar();
  td_note attrs[] = {{"dtype", td_attr_type(TD_INT32)},
                     {"shape", td_attr_shape(&one)},
                     {"shared_name", td_attr_string("n")},
                     {"container", td_attr_string("box")}};
  td_edge boxed = net_node(&w, "VarHandleOp", NULL, 0, attrs, 4);
  td_edge mine = net_node(&w, "VarHandleOp", NULL, 0, attrs, 3);
  td_edge twin = net_node(&w, "VarHandleOp", NULL, 0, attrs, 4);
  assign(&w, boxed, scalar_f(TD_INT32, 1));
  assign(&w, mine, scalar_f(TD_INT32, 2));
  net_expect(&w, reading(&w, boxed, TD_INT32), 1, (double[]){1}, 0);
  net_expect(&w, reading(&w, mine, TD_INT32), 1, (double[]){2}, 0);
  net_expect(&w, reading(&w, twin, TD_INT32), 1, (double[]){1}, 0);
  td_resources_reset(w.named, "box");
  FAILS(net_do(&w, reading(&w, twin, TD_INT32)), TD_FAILED_PRECONDITION,
        "not initialised");
  attrs[0].value = td_attr_type(TD_FLOAT32);
  td_edge other = net_node(&w, "VarHandleOp", NULL, 0, attrs, 4);
  FAILS(net_do(&w, other), TD_INVALID_ARGUMENT, "is int32 {}, not float32");
  net_deinit(&w);
}

/* ---- errors -------------------------------------------------------------- */

static void test_errors(void **state) {
  (void)state;
  net w;
  net_init(&w, 1);
  td_edge h = vector(&w, "v", 2, (double[]){1, 2});
  td_edge read = reading(&w, h, TD_FLOAT32);
  td_shape three = td_shape_vector(3);
  td_note dtype = {"dtype", td_attr_type(TD_INT32)};
  td_edge bad;
  FAILS(net_try(&w, "ReadVariableOp", &h, 1, &dtype, 1, &bad),
        TD_INVALID_ARGUMENT, "cannot be read as int32");
  FAILS(net_do(&w, writing(&w, "AssignVariableOp", h,
                           tensor_f(TD_FLOAT32, three, (double[]){1, 2, 3}))),
        TD_INVALID_ARGUMENT, "cannot hold a value of shape {3}");
  FAILS(net_do(&w, writing(&w, "AssignAddVariableOp", h,
                           tensor_f(TD_FLOAT32, three, (double[]){1, 2, 3}))),
        TD_INVALID_ARGUMENT, "the value of shape {3}");
  net_expect(&w, read, 2, (double[]){1, 2}, 0);
  net_deinit(&w);
}

static void test_validate_shape(void **state) {
  (void)state;
  net w;
  net_init(&w, 1);
  td_edge h = net_variable(&w, "v", TD_FLOAT32, td_shape_vector(-1));
  td_note strict = {"validate_shape", td_attr_bool(true)};
  td_edge in[] = {
      h, net_feed(&w, tensor_f(TD_FLOAT32, td_shape_vector(1), (double[]){1}))};
  td_edge set = net_node(&w, "AssignVariableOp", in, 2, &strict, 1);
  OK(net_do(&w, set));
  net_refeed(&w, in[1],
             tensor_f(TD_FLOAT32, td_shape_vector(2), (double[]){1, 2}));
  FAILS(net_do(&w, set), TD_INVALID_ARGUMENT, "is of shape {1} now");
  assign(&w, h, tensor_f(TD_FLOAT32, td_shape_vector(2), (double[]){1, 2}));
  net_expect(&w, reading(&w, h, TD_FLOAT32), 2, (double[]){1, 2}, 0);
  net_deinit(&w);
}

/* ---- reads share, updates copy only what is shared ----------------------- */

static void test_copies(void **state) {
  (void)state;
  net w;
  net_init(&w, 1);
  td_edge h = vector(&w, "v", 2, (double[]){1, 2});
  td_edge read = reading(&w, h, TD_FLOAT32);
  td_edge add =
      writing(&w, "AssignAddVariableOp", h,
              tensor_f(TD_FLOAT32, td_shape_vector(2), (double[]){1, 1}));
  td_tensor before;
  OK(net_do(&w, add)); /* the fed tensor was shared: copied once */
  int64_t copied = td_variable_read_stats().copied_on_write;
  OK(net_do(&w, add));
  assert_int_equal(td_variable_read_stats().copied_on_write, copied);
  OK(net_run(&w, read, &before));
  OK(net_do(&w, add));
  assert_int_equal(td_variable_read_stats().copied_on_write - copied, 8);
  assert_true(td_tensor_get_f(&before, 0) == 3.0); /* not torn */
  net_expect(&w, read, 2, (double[]){4, 5}, 0);
  td_tensor_release(&before);
  net_deinit(&w);
}

static void test_no_memory(void **state) {
  (void)state;
  net w;
  net_init(&w, 1);
  td_shape two = td_shape_vector(2);
  td_edge h = net_variable(&w, "v", TD_FLOAT32, two);
  td_edge read = reading(&w, h, TD_FLOAT32);
  td_tensor held;
  net_starve(&w, h);
  net_starve(&w, writing(&w, "AssignVariableOp", h,
                         tensor_f(TD_FLOAT32, two, (double[]){1, 2})));
  td_edge add = writing(&w, "AssignAddVariableOp", h,
                        tensor_f(TD_FLOAT32, two, (double[]){1, 1}));
  OK(net_run(&w, read, &held)); /* so that the update must copy */
  net_starve(&w, add);
  net_expect(&w, read, 2, (double[]){2, 3}, 0);
  net_starve(&w, net_node(&w, "VariableShape", &h, 1, NULL, 0));
  td_tensor_release(&held);
  net_deinit(&w);
}

/* ---- many threads -------------------------------------------------------- */

enum { ADDERS = 4, ROUNDS = 100000 };

typedef struct adder {
  net *w;
  const td_kernel *k;
  td_tensor in[2];
  int failed;
} adder;

static void *add_many(void *arg) {
  adder *a = arg;
  td_tensor none = {.dtype = TD_INVALID};
  for (int i = 0; i < ROUNDS; i++) {
    td_status *s = net_start(a->w, a->k, a->in, &none);
    if (s) a->failed++;
    td_status_release(s);
  }
  return NULL;
}

static void test_no_update_is_lost(void **state) {
  (void)state;
  net w;
  adder a[ADDERS];
  pthread_t threads[ADDERS];
  td_kernel k;
  net_init(&w, 1);
  td_edge h = net_variable(&w, "n", TD_INT64, td_shape_vector(2));
  assign(&w, h, tensor_f(TD_INT64, td_shape_vector(2), (double[]){0, 0}));
  td_edge add =
      writing(&w, "AssignAddVariableOp", h,
              tensor_f(TD_INT64, td_shape_vector(2), (double[]){1, 3}));
  OK(td_kernel_init(&k, add.node, w.device, w.states));
  for (int i = 0; i < ADDERS; i++) {
    a[i] = (adder){.w = &w, .k = &k};
    OK(net_run(&w, h, &a[i].in[0]));
    OK(net_run(&w, add.node->in[1], &a[i].in[1]));
    assert_int_equal(pthread_create(&threads[i], NULL, add_many, &a[i]), 0);
  }
  for (int i = 0; i < ADDERS; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(a[i].failed, 0);
    td_tensor_release(&a[i].in[0]);
    td_tensor_release(&a[i].in[1]);
  }
  double n = (double)ADDERS * ROUNDS;
  net_expect(&w, reading(&w, h, TD_INT64), 2, (double[]){n, 3 * n}, 0);
  td_kernel_deinit(&k);
  net_deinit(&w);
}

/* A variable whose rows are worked on is read as a copy; DisableCopyOnRead has
 * it shared, and the next work on its rows leaves who shares it in peace. */
static void test_disable_copy_on_read(void **state) {
  (void)state;
  net w;
  net_init(&w, 1);
  td_edge h = vector(&w, "v", 2, (double[]){1, 2}),
          read = reading(&w, h, TD_FLOAT32);
  td_edge in[] = {
      h, net_feed(&w, ints(1, (int32_t[]){1})),
      net_feed(&w, tensor_f(TD_FLOAT32, td_shape_vector(1), (double[]){10}))};
  td_edge add = net_node(&w, "ResourceScatterAdd", in, 3, NULL, 0);
  td_edge whole = net_node(&w, "DisableCopyOnRead", &h, 1, NULL, 0);
  td_tensor before;
  OK(net_do(&w, add));
  td_variable_stats was = td_variable_read_stats();
  OK(net_do(&w, read));
  assert_int_equal(td_variable_read_stats().copied_on_read - was.copied_on_read,
                   8);
  OK(net_do(&w, whole));
  was = td_variable_read_stats();
  OK(net_run(&w, read, &before));
  assert_int_equal(td_variable_read_stats().copied_on_read, was.copied_on_read);
  OK(net_do(&w, add));
  assert_int_equal(
      td_variable_read_stats().copied_on_write - was.copied_on_write, 8);
  assert_true(td_tensor_get_f(&before, 1) == 12.0);
  net_expect(&w, read, 2, (double[]){1, 22}, 0);
  td_tensor_release(&before);
  td_edge other = net_feed(&w, scalar_f(TD_FLOAT32, 1));
  td_edge e;
  FAILS(net_try(&w, "DisableCopyOnRead", &other, 1, NULL, 0, &e),
        TD_INVALID_ARGUMENT, "resource");
  net_deinit(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_life),
      cmocka_unit_test(test_destroy),
      cmocka_unit_test(test_containers),
      cmocka_unit_test(test_errors),
      cmocka_unit_test(test_validate_shape),
      cmocka_unit_test(test_copies),
      cmocka_unit_test(test_disable_copy_on_read),
      cmocka_unit_test(test_no_memory),
      cmocka_unit_test(test_no_update_is_lost),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
