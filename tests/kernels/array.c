/* array.c - array ops when there is no memory: every allocation fails once.
 *
 * Run under AddressSanitizer this shows that nothing leaks.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include "engine/base/mem.h"
#include "tests/kernels/arrays.h"

static void starve(request *q) {
  uint64_t r = 1;
  OK(ask(q, &r));
  drop_outputs(q);
  for (int64_t n = 1;; n++) {
    td_mem_fail(n, false);
    td_graph *g = NULL;
    td_device *d = NULL;
    td_node *node = NULL;
    td_status *s = td_graph_new(&g);
    if (td_ok(s))
      s = td_device_cpu_new("/job:localhost/replica:0/task:0", 0, 0, &d);
    td_mem_fail(0, false);
    if (td_ok(s)) s = build_request(q, g, NULL, &node);
    td_mem_fail(n, false);
    if (td_ok(s)) s = td_eval_node(node, d, 2, q->in, q->out, NULL);
    td_mem_fail(0, false);
    if (td_ok(s)) q->n_out = node->n_out;
    td_device_release(d);
    td_graph_release(g);
    if (td_ok(s)) break;
    assert_int_equal(td_status_code(s), TD_RESOURCE_EXHAUSTED);
    td_status_release(s);
    assert_true(n < 1000);
  }
  request_end(q);
}

static td_tensor strings(uint64_t *r, td_shape s) {
  return any_tensor(r, TD_STRING, s);
}

/* Strings take most memory on the way. */
static void test_no_memory(void **state) {
  uint64_t r = 2;
  td_shape m = td_shape_matrix(4, 5), v = td_shape_vector(4);
  (void)state;
  request q = {.op = "Transpose"};
  request_in(&q, strings(&r, m));
  request_in(&q, vector64(2, (int64_t[]){1, 0}));
  starve(&q);
  q.op = "Pack";
  request_in(&q, strings(&r, m));
  request_in(&q, strings(&r, m));
  request_int(&q, "N", 2);
  starve(&q);
  q.op = "PadV2";
  request_in(&q, strings(&r, v));
  td_shape pads = td_shape_matrix(1, 2);
  td_tensor p = random_i(TD_INT32, pads, 1, 3);
  request_in(&q, p);
  request_in(&q, strings(&r, td_shape_scalar()));
  starve(&q);
  q.op = "OneHot";
  request_in(&q, random_i(TD_INT32, v, 1, 3));
  request_in(&q, scalar32(3));
  request_in(&q, strings(&r, td_shape_scalar()));
  request_in(&q, strings(&r, td_shape_scalar()));
  starve(&q);
  q.op = "StridedSliceGrad";
  request_in(&q, vector64(1, &(int64_t){9}));
  request_in(&q, vector64(1, &(int64_t){1}));
  request_in(&q, vector64(1, &(int64_t){9}));
  request_in(&q, vector64(1, &(int64_t){2}));
  request_in(&q, strings(&r, v));
  starve(&q);
  q.op = "Unpack";
  request_in(&q, strings(&r, m));
  request_int(&q, "num", 5);
  request_int(&q, "axis", 1);
  starve(&q);
}

static void test_no_memory_for_rows(void **state) {
  uint64_t r = 3;
  td_shape m = td_shape_matrix(4, 5), v = td_shape_vector(4);
  (void)state;
  request q = {.op = "GatherNd"};
  request_in(&q, strings(&r, m));
  request_in(&q, random_i(TD_INT32, td_shape_matrix(6, 1), 1, 4));
  starve(&q);
  q.op = "UnsortedSegmentSum";
  request_in(&q, random_i(TD_BFLOAT16, m, 1, 4));
  request_in(&q, random_i(TD_INT32, v, 1, 4));
  request_in(&q, scalar32(4));
  starve(&q);
  q.op = "UniqueWithCounts";
  request_in(&q, strings(&r, v));
  starve(&q);
  q.op = "Where";
  request_in(&q, random_i(TD_INT32, m, 1, 2));
  starve(&q);
  q.op = "DynamicPartition";
  request_in(&q, strings(&r, m));
  request_in(&q, random_i(TD_INT32, v, 1, 3));
  request_int(&q, "num_partitions", 3);
  starve(&q);
  q.op = "DynamicStitch";
  request_in(&q, ints(2, (int32_t[]){1, 0}));
  request_in(&q, ints(2, (int32_t[]){2, 3}));
  request_in(&q, strings(&r, td_shape_matrix(2, 3)));
  request_in(&q, strings(&r, td_shape_matrix(2, 3)));
  request_int(&q, "N", 2);
  starve(&q);
  q.op = "TopKV2";
  request_in(&q, random_i(TD_INT32, m, 1, 100));
  request_in(&q, scalar32(2));
  starve(&q);
  q.op = "SoftmaxCrossEntropyWithLogits";
  request_in(&q, random_f(TD_FLOAT32, m, 1));
  request_in(&q, random_f(TD_FLOAT32, td_shape_matrix(1, 5), 1));
  starve(&q);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_no_memory),
      cmocka_unit_test(test_no_memory_for_rows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
