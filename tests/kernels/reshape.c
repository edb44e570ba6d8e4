/* reshape.c - reshaping, and shapes known before running because they are
 * computed from shapes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include "tests/kernels/arrays.h"

/* ---- Reshape, ExpandDims, Squeeze ---------------------------------------- */

static const struct {
  int64_t from[3], to[4], want[4];
  int ranks[2];
  const char *error;
} reshapes[] = {
    {{2, 3, 4}, {6, 4}, {6, 4}, {3, 2}, NULL},
    {{2, 3, 4}, {-1}, {24}, {3, 1}, NULL},
    {{2, 3, 4}, {4, -1, 2, 1}, {4, 3, 2, 1}, {3, 4}, NULL},
    {{1}, {0}, {0}, {1, 0}, NULL},
    {{0, 3}, {-1, 0}, {3, 0}, {2, 2}, NULL},
    {{0, 3}, {-1, 4}, {0, 4}, {2, 2}, NULL},
    {{2, 3}, {7}, {0}, {2, 1}, "cannot reshape {2, 3} (6 elements) to {7}"},
    {{2, 3}, {4, -1}, {0}, {2, 2}, "cannot reshape {2, 3}"},
    {{2, 3}, {0, -1}, {0}, {2, 2}, "cannot reshape {2, 3}"},
    {{2, 3}, {-1, -1}, {0}, {2, 2}, "only one size of shape may be -1"},
    {{2, 3}, {-2, 3}, {0}, {2, 2}, "must be -1 or more, is -2"},
    {{2, 3}, {INT64_MAX, 4}, {0}, {2, 2}, "cannot reshape {2, 3}"},
};

static void test_reshape(void **state) {
  uint64_t r = 1;
  (void)state;
  for (size_t i = 0; i < TD_COUNT(reshapes); i++) {
    request q = {.op = "Reshape"};
    td_shape from = td_shape_of(reshapes[i].ranks[0], reshapes[i].from);
    td_shape want = td_shape_of(reshapes[i].ranks[1], reshapes[i].want);
    request_in(&q, any_tensor(&r, any_dtype(&r), from));
    request_in(&q, vector64(reshapes[i].ranks[1], reshapes[i].to));
    if (reshapes[i].error) {
      FAILS(ask(&q, &r), TD_INVALID_ARGUMENT, reshapes[i].error);
    } else {
      OK(ask(&q, &r));
      assert_true(td_shape_equal(&q.out[0].shape, &want));
      assert_ptr_equal(q.out[0].buffer, q.in[0].buffer);
    }
    request_end(&q);
  }
}

static void expand(int64_t axis, const int64_t *want, const char *error) {
  uint64_t r = 2;
  request q = {.op = "ExpandDims"};
  td_shape s = td_shape_of(3, want ? want : (int64_t[]){0, 0, 0});
  request_in(&q, any_tensor(&r, TD_FLOAT32, td_shape_matrix(2, 3)));
  request_in(&q, scalar32(axis));
  if (error) {
    FAILS(ask(&q, &r), TD_INVALID_ARGUMENT, error);
  } else {
    OK(ask(&q, &r));
    assert_true(td_shape_equal(&q.out[0].shape, &s));
  }
  request_end(&q);
}

static void test_expand(void **state) {
  (void)state;
  expand(0, (int64_t[]){1, 2, 3}, NULL);
  expand(1, (int64_t[]){2, 1, 3}, NULL);
  expand(2, (int64_t[]){2, 3, 1}, NULL);
  expand(-1, (int64_t[]){2, 3, 1}, NULL);
  expand(-3, (int64_t[]){1, 2, 3}, NULL);
  expand(3, NULL, "dim must be in [-3, 3)");
  expand(-4, NULL, "dim must be in [-3, 3)");
}

static void squeeze(int n, const int64_t *axes, td_shape want,
                    const char *error) {
  uint64_t r = 3;
  request q = {.op = "Squeeze"};
  request_in(
      &q, any_tensor(&r, TD_FLOAT32, td_shape_of(4, (int64_t[]){1, 3, 1, 2})));
  q.attrs[q.n_attrs++] = (td_note){"squeeze_dims", td_attr_ints(axes, n)};
  if (error) {
    FAILS(ask(&q, &r), TD_INVALID_ARGUMENT, error);
  } else {
    OK(ask(&q, &r));
    assert_true(td_shape_equal(&q.out[0].shape, &want));
  }
  request_end(&q);
}

static void test_squeeze(void **state) {
  td_shape all = td_shape_matrix(3, 2), none = td_shape_scalar();
  td_shape first = td_shape_of(3, (int64_t[]){3, 1, 2});
  (void)state;
  squeeze(0, (int64_t[]){0}, all, NULL);
  squeeze(2, (int64_t[]){0, -2}, all, NULL);
  squeeze(1, (int64_t[]){0}, first, NULL);
  squeeze(1, (int64_t[]){1}, none, "dimension 1 cannot be squeezed");
  squeeze(1, (int64_t[]){4}, none, "must be in [-4, 4)");
}

/* ---- BroadcastGradientArgs ----------------------------------------------- */

static const struct {
  int n[4]; /* of a, b and the axes of each */
  int32_t a[4], b[4], axes_a[4], axes_b[4];
} gradients[] = {
    {{2, 2, 0, 0}, {2, 3}, {2, 3}, {0}, {0}},
    {{2, 2, 1, 0}, {1, 3}, {2, 3}, {0}, {0}},
    {{2, 1, 1, 1}, {1, 3}, {3}, {0}, {0}},
    {{2, 2, 0, 0}, {1, 1}, {1, 1}, {0}, {0}},
    {{0, 1, 1, 0}, {0}, {2}, {0}, {0}},
    {{3, 2, 1, 2}, {2, 1, 3}, {1, 3}, {1}, {0, 1}},
    {{2, 2, 1, 2}, {1, 4}, {1, 1}, {0}, {0, 1}},
    {{2, 2, 0, 1}, {0, 3}, {1, 3}, {0}, {0}},
};

static void test_broadcast_gradient(void **state) {
  uint64_t r = 4;
  (void)state;
  for (size_t i = 0; i < TD_COUNT(gradients); i++) {
    const int *n = gradients[i].n;
    request q = {.op = "BroadcastGradientArgs"};
    request_in(&q, ints(n[0], gradients[i].a));
    request_in(&q, ints(n[1], gradients[i].b));
    OK(ask(&q, &r));
    assert_int_equal(td_tensor_count(&q.out[0]), n[2]);
    assert_int_equal(td_tensor_count(&q.out[1]), n[3]);
    assert_memory_equal(q.out[0].data, gradients[i].axes_a,
                        (size_t)n[2] * sizeof(int32_t));
    assert_memory_equal(q.out[1].data, gradients[i].axes_b,
                        (size_t)n[3] * sizeof(int32_t));
    request_end(&q);
  }
  request q = {.op = "BroadcastGradientArgs"};
  request_in(&q, ints(2, (int32_t[]){2, 3}));
  request_in(&q, ints(2, (int32_t[]){3, 2}));
  FAILS(ask(&q, &r), TD_INVALID_ARGUMENT, "do not broadcast");
  request_end(&q);
}

/* ---- values known before running ----------------------------------------- */

static td_edge constant(net *w, td_tensor t) {
  td_note attrs[] = {{"value", td_attr_tensor(&t)},
                     {"dtype", td_attr_type(t.dtype)}};
  td_edge e = net_node(w, "Const", NULL, 0, attrs, 2);
  td_tensor_release(&t);
  return e;
}

static td_edge placeholder(net *w, td_shape s) {
  td_note attrs[] = {{"dtype", td_attr_type(TD_FLOAT32)},
                     {"shape", td_attr_shape(&s)}};
  return net_node(w, "Placeholder", NULL, 0, attrs, 2);
}

static void shape_is(td_edge e, int rank, const int64_t *dims) {
  td_shape want = td_shape_of(rank, dims);
  td_shape_text a, b;
  if (!td_shape_equal(td_edge_shape(e), &want))
    fail_msg("%s, not %s", td_shape_str(td_edge_shape(e), &a),
             td_shape_str(&want, &b));
}

/* x of {?, 28, 28} flattened as TensorFlow programs do it:
 * reshape(x, stack([shape(x)[0], shape(x)[1] * shape(x)[2]])). */
static void test_flatten(void **state) {
  net w;
  td_note shrink[] = {{"shrink_axis_mask", td_attr_int(1)}};
  td_edge dims[2], in[4];
  (void)state;
  net_init(&w, 1);
  td_edge x = placeholder(&w, td_shape_of(3, (int64_t[]){-1, 28, 28}));
  td_edge shape = net_node(&w, "Shape", &x, 1, NULL, 0);
  for (int k = 0; k < 2; k++) {
    in[0] = shape;
    in[1] = constant(&w, ints(1, &(int32_t){k}));
    in[2] = constant(&w, ints(1, &(int32_t){k + 1}));
    in[3] = constant(&w, ints(1, &(int32_t){1}));
    dims[k] = net_node(&w, "StridedSlice", in, 4, shrink, 1);
  }
  dims[1] = constant(&w, scalar32(784));
  td_build b;
  td_edge packed = {NULL, 0};
  td_build_init(&b, w.graph, "Pack", NULL);
  td_build_list(&b, dims, 2);
  OK(td_build_node(&b, &packed.node));
  td_edge flat = net_node(&w, "Reshape", (td_edge[]){x, packed}, 2, NULL, 0);
  shape_is(flat, 2, (int64_t[]){-1, 784});
  td_edge zeros = net_node(
      &w, "Fill", (td_edge[]){packed, constant(&w, scalar_f(TD_FLOAT32, 0))}, 2,
      NULL, 0);
  shape_is(zeros, 2, (int64_t[]){-1, 784});
  net_deinit(&w);
}

/* Each of these hands a known vector on. */
static void test_value_hooks(void **state) {
  net w;
  td_edge in[4];
  (void)state;
  net_init(&w, 1);
  td_edge x = placeholder(&w, td_shape_of(4, (int64_t[]){2, 3, 5, 7}));
  td_edge s = net_node(&w, "Shape", &x, 1, NULL, 0);
  td_edge zero = constant(&w, scalar_f(TD_FLOAT32, 0));
  in[0] = s;
  in[1] = constant(&w, ints(1, &(int32_t){1}));
  in[2] = constant(&w, ints(1, &(int32_t){-1}));
  td_edge tail = net_node(&w, "Slice", in, 3, NULL, 0); /* 3 5 7 */
  shape_is(net_node(&w, "Fill", (td_edge[]){tail, zero}, 2, NULL, 0), 3,
           (int64_t[]){3, 5, 7});
  in[1] = constant(&w, ints(2, (int32_t[]){3, 0}));
  in[2] = constant(&w, scalar32(0));
  td_note batch[] = {{"batch_dims", td_attr_int(0)}};
  td_edge some = net_node(&w, "GatherV2", in, 3, batch, 1); /* 7 2 */
  shape_is(net_node(&w, "Fill", (td_edge[]){some, zero}, 2, NULL, 0), 2,
           (int64_t[]){7, 2});
  td_build b;
  td_edge joined = {NULL, 0};
  td_build_init(&b, w.graph, "ConcatV2", NULL);
  td_build_list(&b, (td_edge[]){some, tail}, 2);
  td_build_in(&b, constant(&w, scalar32(0)));
  OK(td_build_node(&b, &joined.node));
  shape_is(net_node(&w, "Fill", (td_edge[]){joined, zero}, 2, NULL, 0), 5,
           (int64_t[]){7, 2, 3, 5, 7});
  td_edge rank = net_node(&w, "Rank", &x, 1, NULL, 0);
  in[0] = constant(&w, scalar32(0));
  in[1] = rank;
  in[2] = constant(&w, scalar32(1));
  td_edge axes = net_node(&w, "Range", in, 3, NULL, 0); /* 0 1 2 3 */
  shape_is(axes, 1, (int64_t[]){4});
  shape_is(net_node(&w, "Transpose", (td_edge[]){x, axes}, 2, NULL, 0), 4,
           (int64_t[]){2, 3, 5, 7});
  td_edge size = net_node(&w, "Size", &x, 1, NULL, 0);
  td_edge one =
      net_node(&w, "ExpandDims", (td_edge[]){size, constant(&w, scalar32(0))},
               2, NULL, 0);
  shape_is(net_node(&w, "Reshape", (td_edge[]){x, one}, 2, NULL, 0), 1,
           (int64_t[]){210});
  td_note num[] = {{"num", td_attr_int(4)}};
  td_edge third = net_node(&w, "Unpack", &s, 1, num, 1);
  third.port = 2;
  in[0] = constant(&w, scalar32(0));
  in[1] = third;
  shape_is(net_node(&w, "Range", in, 3, NULL, 0), 1, (int64_t[]){5});
  net_deinit(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reshape), cmocka_unit_test(test_expand),
      cmocka_unit_test(test_squeeze), cmocka_unit_test(test_broadcast_gradient),
      cmocka_unit_test(test_flatten), cmocka_unit_test(test_value_hooks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
