/* staging.c - staging areas and maps: who meets, in what order, tuples in
 * parts, limits, those who wait. The answers are those of real TensorFlow 2.21,
 * but that a key that is there cannot be put again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include "tests/kernels/waiting.h"

/* Tuples of a float32 and an int32. */
static td_dtype types[] = {TD_FLOAT32, TD_INT32};

typedef struct bench {
  net w;
  const char *kind; /* "", "Map", "OrderedMap" */
  int capacity, limit;
  td_edge key, indices, values[2];
} bench;

static td_tensor whole(td_dtype dtype, int64_t v) {
  td_tensor t;
  OK(td_tensor_scalar_i(dtype, v, &t));
  return t;
}

static void bench_init(bench *b, const char *kind) {
  *b = (bench){.kind = kind};
  net_init(&b->w, 1);
  b->key = net_feed(&b->w, whole(TD_INT64, 0));
  b->indices = net_feed(&b->w, ints(2, (int32_t[]){0, 1}));
  b->values[0] = net_feed(&b->w, scalar_f(TD_FLOAT32, 0));
  b->values[1] = net_feed(&b->w, whole(TD_INT32, 0));
}

/* A node whose inputs from `lead` on are a list. */
static td_edge list_node(bench *b, const char *op, const td_edge *in, int n,
                         int lead, const td_note *attrs, int n_attrs) {
  td_build build;
  td_edge e = {NULL, 0};
  td_build_init(&build, b->w.graph, op, NULL);
  for (int i = 0; i < lead; i++) td_build_in(&build, in[i]);
  if (n > lead) td_build_list(&build, in + lead, n - lead);
  for (int i = 0; i < n_attrs; i++)
    td_build_attr(&build, attrs[i].name, attrs[i].value);
  OK(td_build_node(&build, &e.node));
  return e;
}

/* An op of the kind, such as "Stage": those of maps are "MapStage". */
static td_edge node(bench *b, const char *op, const td_edge *in, int n,
                    const td_dtype *dtypes, int n_dtypes) {
  char name[32] = "";
  strcat(strcat(name, b->kind), op);
  td_note attrs[] = {{"dtypes", td_attr_types(dtypes, n_dtypes)},
                     {"shared_name", td_attr_string("s")},
                     {"capacity", td_attr_int(b->capacity)},
                     {"memory_limit", td_attr_int(b->limit)}};
  bool listed = strcmp(op, "Stage") == 0;
  return list_node(b, name, in, n, listed ? 0 : n, attrs, 4);
}

static double number(bench *b, const char *op) {
  td_tensor t;
  OK(net_run(&b->w, node(b, op, NULL, 0, types, 2), &t));
  double n = td_tensor_get_f(&t, 0);
  td_tensor_release(&t);
  return n;
}

static void expect_size(bench *b, double complete, double incomplete) {
  assert_true(number(b, "Size") == complete);
  assert_true(number(b, "IncompleteSize") == incomplete);
}

/* ---- the plain area ------------------------------------------------------ */

static td_edge stage_node(bench *b, int v) {
  net_refeed(&b->w, b->values[0], scalar_f(TD_FLOAT32, v));
  net_refeed(&b->w, b->values[1], whole(TD_INT32, v));
  return node(b, "Stage", b->values, 2, types, 2);
}

static td_status *stage(bench *b, int v) {
  return net_do(&b->w, stage_node(b, v));
}

static void check_values(const td_tensor *out, double v) {
  assert_true(td_tensor_get_f(&out[0], 0) == v);
  assert_true(td_tensor_get_f(&out[1], 0) == v);
}

static void expect_values(bench *b, td_edge e, double v) {
  td_tensor out[2] = {{.dtype = TD_INVALID}};
  OK(net_run(&b->w, e, out));
  check_values(out, v);
  for (int i = 0; i < 2; i++) td_tensor_release(&out[i]);
}

static td_edge unstage_node(bench *b) {
  return node(b, "Unstage", NULL, 0, types, 2);
}

static td_edge peek_node(bench *b, int at) {
  net_refeed(&b->w, b->indices, whole(TD_INT32, at));
  return node(b, "StagePeek", &b->indices, 1, types, 2);
}

static void test_area(void **state) {
  (void)state;
  bench b;
  bench_init(&b, "");
  for (int i = 1; i < 5; i++) OK(stage(&b, i));
  assert_true(number(&b, "StageSize") == 4);
  expect_values(&b, peek_node(&b, 1), 2);
  expect_values(&b, unstage_node(&b), 1);
  expect_values(&b, unstage_node(&b), 2);
  FAILS(net_do(&b.w, peek_node(&b, -1)), TD_INVALID_ARGUMENT, "negative");
  FAILS(net_do(&b.w, node(&b, "Unstage", NULL, 0, types, 1)),
        TD_INVALID_ARGUMENT, "staging area s have 2 components, not 1");
  td_dtype wrong[] = {TD_FLOAT32, TD_STRING};
  FAILS(net_do(&b.w, node(&b, "Unstage", NULL, 0, wrong, 2)),
        TD_INVALID_ARGUMENT, "is int32 and cannot be had as string");
  assert_true(number(&b, "StageSize") == 2); /* it took none */
  OK(net_do(&b.w, node(&b, "StageClear", NULL, 0, types, 2)));
  assert_true(number(&b, "StageSize") == 0);
  net_deinit(&b.w);
}

static void test_who_meets(void **state) {
  (void)state;
  bench b;
  waiting x;
  bench_init(&b, "");
  td_note other[] = {{"dtypes", td_attr_types(types, 2)},
                     {"shared_name", td_attr_string("t")}};
  td_note map[] = {{"dtypes", td_attr_types(types, 2)},
                   {"shared_name", td_attr_string("s")}};
  waiting_start(&x, &b.w, net_node(&b.w, "Unstage", NULL, 0, other, 2));
  OK(stage(&b, 1));
  assert_false(waiting_over(&x));
  waiting_cancel(&x);
  FAILS(waiting_end(&x), TD_CANCELLED, "cancelled");
  FAILS(net_do(&b.w, net_node(&b.w, "MapSize", NULL, 0, map, 2)),
        TD_INVALID_ARGUMENT, "is a staging area, not a staging map");
  net_deinit(&b.w);
}

static void test_capacity(void **state) {
  (void)state;
  bench b;
  waiting x;
  bench_init(&b, "");
  b.capacity = 1;
  OK(stage(&b, 1));
  waiting_start(&x, &b.w, stage_node(&b, 2));
  assert_false(waiting_over(&x));
  waiting_why(&x, "room in staging area s: 1 tuples, 8 bytes, 1 puts wait, 0 "
                  "takes");
  expect_values(&b, unstage_node(&b), 1);
  OK(waiting_end(&x));
  expect_values(&b, unstage_node(&b), 2);
  b.capacity = 0;
  b.limit = 8;
  OK(stage(&b, 3));
  waiting_start(&x, &b.w, stage_node(&b, 4));
  assert_false(waiting_over(&x));
  OK(net_do(&b.w, node(&b, "StageClear", NULL, 0, types, 2)));
  OK(waiting_end(&x));
  b.limit = 7;
  FAILS(stage(&b, 5), TD_RESOURCE_EXHAUSTED,
        "8 bytes never fit a memory_limit of 7");
  net_deinit(&b.w);
}

static void test_waiting(void **state) {
  (void)state;
  bench b;
  waiting third, first, gone;
  bench_init(&b, "");
  waiting_start(&third, &b.w, peek_node(&b, 1));
  waiting_start(&first, &b.w, peek_node(&b, 0));
  waiting_why(&third,
              "staging area s: 0 tuples, 0 bytes, 0 puts wait, 2 takes");
  OK(stage(&b, 1));
  OK(waiting_end(&first)); /* past one who waits for more */
  check_values(first.out, 1);
  assert_false(waiting_over(&third));
  OK(stage(&b, 2));
  OK(waiting_end(&third));
  check_values(third.out, 2);
  waiting_drop(&first);
  waiting_drop(&third);
  waiting_start(&gone, &b.w, peek_node(&b, 9));
  td_resources_reset(b.w.own, NULL);
  FAILS(waiting_end(&gone), TD_CANCELLED, "staging area s was reset");
  assert_true(number(&b, "StageSize") == 0);
  net_deinit(&b.w);
}

/* ---- maps ---------------------------------------------------------------- */

/* Components `first` to `last` of a key, with a value. */
static td_edge put_node(bench *b, int64_t key, int first, int last, int v) {
  int32_t at[] = {first, last};
  td_edge in[4] = {b->key, b->indices, b->values[first]};
  td_note attrs[] = {{"dtypes", td_attr_types(types, 2)},
                     {"shared_name", td_attr_string("s")},
                     {"capacity", td_attr_int(b->capacity)},
                     {"memory_limit", td_attr_int(b->limit)}};
  char name[32] = "";
  int n = last - first + 1;
  if (n == 2) in[3] = b->values[1];
  net_refeed(&b->w, b->key, whole(TD_INT64, key));
  net_refeed(&b->w, b->indices, ints(n, at));
  net_refeed(&b->w, b->values[0], scalar_f(TD_FLOAT32, v));
  net_refeed(&b->w, b->values[1], whole(TD_INT32, v));
  return list_node(b, strcat(strcat(name, b->kind), "Stage"), in, 2 + n, 2,
                   attrs, 4);
}

static td_status *put(bench *b, int64_t key, int first, int last, int v) {
  return net_do(&b->w, put_node(b, key, first, last, v));
}

static td_edge get_node(bench *b, const char *op, int64_t key, int first,
                        int last) {
  int32_t at[] = {first, last};
  int n = last - first + 1;
  net_refeed(&b->w, b->key, whole(TD_INT64, key));
  net_refeed(&b->w, b->indices, ints(n, at));
  return node(b, op, (td_edge[]){b->key, b->indices}, 2, types + first, n);
}

/* The key and the values that come without asking for a key. */
static void expect_next(bench *b, int64_t key, double v) {
  td_tensor out[3] = {{.dtype = TD_INVALID}};
  net_refeed(&b->w, b->indices, ints(2, (int32_t[]){0, 1}));
  OK(net_run(&b->w, node(b, "UnstageNoKey", &b->indices, 1, types, 2), out));
  assert_int_equal(td_tensor_get_i(&out[0], 0), key);
  check_values(out + 1, v);
  for (int i = 0; i < 3; i++) td_tensor_release(&out[i]);
}

static void test_maps(void **state) {
  (void)state;
  for (int ordered = 0; ordered < 2; ordered++) {
    bench b;
    double v = 5;
    bench_init(&b, ordered ? "OrderedMap" : "Map");
    OK(put(&b, 3, 0, 1, 30));
    OK(put(&b, 1, 0, 0, 5));
    expect_size(&b, 1, 1);
    FAILS(put(&b, 1, 0, 0, 6), TD_INVALID_ARGUMENT,
          "has component 0 of key 1 already");
    OK(put(&b, 1, 1, 1, 5));
    expect_size(&b, 2, 0);
    FAILS(put(&b, 1, 0, 1, 6), TD_INVALID_ARGUMENT, "has a tuple of key 1");
    expect_values(&b, get_node(&b, "Peek", 1, 0, 1), 5);
    net_expect(&b.w, get_node(&b, "Unstage", 1, 1, 1), 1, &v, 0);
    expect_size(&b, 2, 0); /* it goes with its last component */
    FAILS(net_do(&b.w, get_node(&b, "Unstage", 1, 1, 1)), TD_INVALID_ARGUMENT,
          "component 1 of key 1 was taken before");
    net_expect(&b.w, get_node(&b, "Unstage", 1, 0, 0), 1, &v, 0);
    expect_size(&b, 1, 0);
    OK(put(&b, 20, 0, 1, 200));
    OK(put(&b, 15, 0, 1, 150));
    expect_next(&b, 3, 30);
    expect_next(&b, 15, 150);
    OK(net_do(&b.w, node(&b, "Clear", NULL, 0, types, 2)));
    expect_size(&b, 0, 0);
    net_deinit(&b.w);
  }
}

static void test_maps_refused(void **state) {
  (void)state;
  bench b;
  bench_init(&b, "Map");
  td_edge e = put_node(&b, 1, 0, 1, 1);
  net_refeed(&b.w, b.indices, ints(2, (int32_t[]){0, 0}));
  FAILS(net_do(&b.w, e), TD_INVALID_ARGUMENT, "ascending: 0 comes after 0");
  net_refeed(&b.w, b.indices, ints(2, (int32_t[]){0, 7}));
  FAILS(net_do(&b.w, e), TD_INVALID_ARGUMENT, "indices[1] is 7");
  net_refeed(&b.w, b.indices, ints(1, (int32_t[]){0}));
  FAILS(net_do(&b.w, e), TD_INVALID_ARGUMENT, "a vector of 2");
  e = put_node(&b, 1, 0, 0, 1);
  net_refeed(&b.w, b.indices, ints(1, (int32_t[]){1}));
  FAILS(net_do(&b.w, e), TD_INVALID_ARGUMENT, "is int32 and cannot be float32");
  OK(put(&b, 1, 0, 1, 1));
  e = get_node(&b, "Unstage", 1, 0, 0);
  net_refeed(&b.w, b.indices, ints(1, (int32_t[]){9}));
  FAILS(net_do(&b.w, e), TD_INVALID_ARGUMENT, "components 0 to 1, not 9");
  net_deinit(&b.w);
}

static void test_keys_wait_apart(void **state) {
  (void)state;
  bench b;
  waiting seven, eight, full;
  bench_init(&b, "Map");
  b.capacity = 1;
  waiting_start(&seven, &b.w, get_node(&b, "Unstage", 7, 0, 1));
  waiting_start(&eight, &b.w, get_node(&b, "Unstage", 8, 0, 1));
  waiting_why(&eight, "key 8 in staging map s: 0 tuples");
  OK(put(&b, 8, 0, 1, 80));
  OK(waiting_end(&eight));
  check_values(eight.out, 80);
  waiting_drop(&eight);
  OK(put(&b, 9, 0, 1, 90));
  waiting_start(&full, &b.w, put_node(&b, 7, 0, 1, 70));
  assert_false(waiting_over(&full));
  expect_next(&b, 9, 90);
  OK(waiting_end(&full));
  OK(waiting_end(&seven));
  check_values(seven.out, 70);
  waiting_drop(&seven);
  net_deinit(&b.w);
}

/* One that waits for much room lets another pass that completes a tuple. */
static void test_small_puts_pass(void **state) {
  (void)state;
  bench b;
  waiting large;
  bench_init(&b, "Map");
  b.limit = 12;
  OK(put(&b, 1, 0, 0, 5));
  OK(put(&b, 2, 0, 0, 6));
  waiting_start(&large, &b.w, put_node(&b, 3, 0, 1, 7));
  assert_false(waiting_over(&large));
  OK(put(&b, 1, 1, 1, 5));
  expect_values(&b, get_node(&b, "Unstage", 1, 0, 1), 5);
  OK(waiting_end(&large));
  expect_size(&b, 1, 1);
  net_deinit(&b.w);
}

static void test_scarce_memory(void **state) {
  (void)state;
  bench b;
  bench_init(&b, "Map");
  net_starve(&b.w, put_node(&b, 7, 0, 0, 70));
  net_starve(&b.w, put_node(&b, 7, 1, 1, 70));
  expect_size(&b, 1, 0);
  net_starve(&b.w, get_node(&b, "Unstage", 7, 0, 0));
  expect_size(&b, 1, 0);
  net_starve(&b.w, get_node(&b, "Unstage", 7, 1, 1));
  expect_size(&b, 0, 0);
  net_deinit(&b.w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_area),
      cmocka_unit_test(test_who_meets),
      cmocka_unit_test(test_capacity),
      cmocka_unit_test(test_waiting),
      cmocka_unit_test(test_maps),
      cmocka_unit_test(test_maps_refused),
      cmocka_unit_test(test_keys_wait_apart),
      cmocka_unit_test(test_small_puts_pass),
      cmocka_unit_test(test_scarce_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
