/* accumulator.c - gradients gathered: what counts, means and sums, late ones,
 * those who wait, the same bits in any order.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <unistd.h>

#include "kernels/gradient.h"
#include "tests/kernels/waiting.h"

/* An accumulator, and nodes that use it. */
typedef struct bench {
  net w;
  td_edge handle, step, gradient, slot, need;
  td_edge apply, take, count, set;
} bench;

typedef struct spec {
  td_dtype dtype;
  td_shape shape;
  const char *reduction;
  int slots;
} spec;

static td_tensor whole(td_dtype dtype, int64_t v) {
  td_tensor t;
  OK(td_tensor_scalar_i(dtype, v, &t));
  return t;
}

static td_tensor row(td_dtype dtype, double x, double y) {
  return tensor_f(dtype, td_shape_vector(2), (double[]){x, y});
}

static void bench_init(bench *b, const char *op, const spec *s) {
  td_note made[] = {{"dtype", td_attr_type(s->dtype)},
                    {"shape", td_attr_shape(&s->shape)},
                    {"reduction_type", td_attr_string(s->reduction)},
                    {"slots", td_attr_int(s->slots)}};
  td_note typed[] = {{"dtype", td_attr_type(s->dtype)}};
  net_init(&b->w, 2);
  b->handle = net_node(&b->w, op, NULL, 0, made, s->slots ? 4 : 3);
  b->step = net_feed(&b->w, whole(TD_INT64, 0));
  b->gradient = net_feed(&b->w, row(s->dtype, 0, 0));
  b->slot = net_feed(&b->w, whole(TD_INT32, 0));
  b->need = net_feed(&b->w, whole(TD_INT32, 1));
  td_edge in[] = {b->handle, b->step, b->gradient};
  td_edge into[] = {b->handle, b->slot, b->step, b->gradient};
  b->apply =
      s->slots
          ? net_node(&b->w, "OrderedAccumulatorApplyGradient", into, 4, NULL, 0)
          : net_node(&b->w, "AccumulatorApplyGradient", in, 3, NULL, 0);
  b->take = net_node(&b->w, "AccumulatorTakeGradient",
                     (td_edge[]){b->handle, b->need}, 2, typed, 1);
  b->count =
      net_node(&b->w, "AccumulatorNumAccumulated", &b->handle, 1, NULL, 0);
  b->set = net_node(&b->w, "AccumulatorSetGlobalStep",
                    (td_edge[]){b->handle, b->step}, 2, NULL, 0);
}

static td_status *apply(bench *b, int64_t step, td_tensor gradient) {
  net_refeed(&b->w, b->step, whole(TD_INT64, step));
  net_refeed(&b->w, b->gradient, gradient);
  return net_do(&b->w, b->apply);
}

static td_status *apply_at(bench *b, int slot, td_tensor gradient) {
  net_refeed(&b->w, b->slot, whole(TD_INT32, slot));
  return apply(b, 0, gradient);
}

static void expect_taken(bench *b, int need, double x, double y) {
  net_refeed(&b->w, b->need, whole(TD_INT32, need));
  net_expect(&b->w, b->take, 2, (double[]){x, y}, 0);
}

static void expect_count(bench *b, double n) {
  net_expect(&b->w, b->count, 1, &n, 0);
}

static spec mean_of(td_dtype dtype) {
  return (spec){dtype, td_shape_vector(-1), "MEAN", 0};
}

static void test_mean_and_step(void **state) {
  (void)state;
  static const td_dtype dtypes[] = {TD_FLOAT16, TD_BFLOAT16, TD_FLOAT32,
                                    TD_FLOAT64};
  for (size_t i = 0; i < TD_COUNT(dtypes); i++) {
    bench b;
    spec s = mean_of(dtypes[i]);
    bench_init(&b, "ConditionalAccumulator", &s);
    OK(apply(&b, 0, row(s.dtype, 1, 2)));
    OK(apply(&b, 5, row(s.dtype, 3, 6)));
    OK(apply(&b, 0, row(s.dtype, 5, 4)));
    expect_count(&b, 3);
    expect_taken(&b, 2, 3, 4); /* of all that are there */
    expect_count(&b, 0);
    OK(apply(&b, 0, row(s.dtype, 9, 9))); /* late: the step is 1 now */
    expect_count(&b, 0);
    OK(apply(&b, 1, row(s.dtype, 1, 1)));
    expect_taken(&b, 1, 1, 1);
    net_deinit(&b.w);
  }
}

static void test_sum(void **state) {
  (void)state;
  bench b;
  spec s = {TD_FLOAT32, td_shape_unknown(), "SUM", 0};
  bench_init(&b, "ResourceConditionalAccumulator", &s);
  for (int i = 0; i < 3; i++) OK(apply(&b, 0, row(s.dtype, 1, i)));
  expect_taken(&b, 3, 3, 3);
  net_deinit(&b.w);
}

/* 2048 + 1 + 1: 16 bits would lose both ones. */
static void test_halves_are_rounded_once(void **state) {
  (void)state;
  bench b;
  spec s = {TD_FLOAT16, td_shape_vector(2), "SUM", 0};
  bench_init(&b, "ConditionalAccumulator", &s);
  OK(apply(&b, 0, row(s.dtype, 2048, 0)));
  OK(apply(&b, 0, row(s.dtype, 1, 0)));
  OK(apply(&b, 0, row(s.dtype, 1, 0)));
  expect_taken(&b, 1, 2050, 0);
  net_deinit(&b.w);
}

static void test_set_step(void **state) {
  (void)state;
  bench b;
  spec s = mean_of(TD_FLOAT32);
  bench_init(&b, "ConditionalAccumulator", &s);
  net_refeed(&b.w, b.step, whole(TD_INT64, 7));
  OK(net_do(&b.w, b.set));
  OK(apply(&b, 6, row(s.dtype, 1, 1)));
  expect_count(&b, 0);
  OK(apply(&b, 7, row(s.dtype, 1, 1)));
  expect_count(&b, 1);
  net_refeed(&b.w, b.step, whole(TD_INT64, 6));
  FAILS(net_do(&b.w, b.set), TD_INVALID_ARGUMENT,
        "is at global step 7 and cannot go back to 6");
  net_deinit(&b.w);
}

static void test_what_is_refused(void **state) {
  (void)state;
  bench b;
  td_tensor t;
  spec s = mean_of(TD_FLOAT32);
  bench_init(&b, "ConditionalAccumulator", &s);
  FAILS(apply(&b, 0, scalar_f(s.dtype, 1)), TD_INVALID_ARGUMENT,
        "have shape {-1}: one of shape {} cannot be added");
  OK(apply(&b, 0, row(s.dtype, 1, 2)));
  FAILS(apply(&b, 0, tensor_f(s.dtype, td_shape_vector(1), (double[]){1})),
        TD_INVALID_ARGUMENT, "have shape {2}: one of shape {1}");
  FAILS(apply(&b, 0, row(TD_FLOAT64, 1, 2)), TD_INVALID_ARGUMENT,
        "holds float32, not float64");
  expect_count(&b, 1);
  net_refeed(&b.w, b.need, whole(TD_INT32, 0));
  FAILS(net_run(&b.w, b.take, &t), TD_INVALID_ARGUMENT, "positive, not 0");
  td_note other[] = {{"dtype", td_attr_type(s.dtype)},
                     {"shape", td_attr_shape(&s.shape)},
                     {"shared_name", td_attr_string(b.handle.node->name)},
                     {"reduction_type", td_attr_string("SUM")}};
  FAILS(
      net_do(&b.w, net_node(&b.w, "ConditionalAccumulator", NULL, 0, other, 4)),
      TD_INVALID_ARGUMENT, "gives means, not sums");
  FAILS(net_do(&b.w, net_node(&b.w, "SparseConditionalAccumulator", NULL, 0,
                              other, 4)),
        TD_INVALID_ARGUMENT, "not a sparse accumulator");
  net_deinit(&b.w);
}

/* ---- those who wait ------------------------------------------------------ */

static void test_take_waits(void **state) {
  (void)state;
  bench b;
  waiting x, y;
  spec s = mean_of(TD_FLOAT32);
  bench_init(&b, "ConditionalAccumulator", &s);
  net_refeed(&b.w, b.need, whole(TD_INT32, 2));
  waiting_start(&x, &b.w, b.take);
  waiting_start(&y, &b.w, b.take);
  OK(apply(&b, 0, row(s.dtype, 1, 2)));
  assert_false(waiting_over(&x));
  waiting_why(&x, "accumulator ConditionalAccumulator: 1 of 2 gradients, "
                  "global step 0, 2 takes wait");
  OK(apply(&b, 0, row(s.dtype, 3, 4)));
  OK(waiting_end(&x));
  assert_true(td_tensor_get_f(&x.out[0], 0) == 2);
  waiting_drop(&x);
  waiting_why(&y, "0 of 2 gradients, global step 1");
  OK(apply(&b, 1, row(s.dtype, 1, 2)));
  OK(apply(&b, 1, row(s.dtype, 1, 2)));
  OK(waiting_end(&y));
  waiting_drop(&y);
  net_deinit(&b.w);
}

static void test_cancel_and_reset(void **state) {
  (void)state;
  bench b;
  waiting x, y;
  spec s = mean_of(TD_FLOAT32);
  bench_init(&b, "ConditionalAccumulator", &s);
  waiting_start(&x, &b.w, b.take);
  waiting_start(&y, &b.w, b.take);
  waiting_cancel(&x);
  FAILS(waiting_end(&x), TD_CANCELLED, "cancelled");
  assert_false(waiting_over(&y));
  td_resources_reset(b.w.own, NULL);
  FAILS(waiting_end(&y), TD_CANCELLED, "was reset");
  expect_count(&b, 0); /* a new one */
  td_tensor old;
  OK(net_run(&b.w, b.handle, &old));
  td_resources_reset(b.w.own, NULL); /* between the handle and the take */
  b.w.fed[b.handle.node->id] = old;
  FAILS(net_do(&b.w, b.take), TD_CANCELLED, "was reset");
  net_deinit(&b.w);
}

/* ---- many at once -------------------------------------------------------- */

enum { WORKERS = 8, LONG = 5000 };

typedef struct worker {
  bench b; /* its own nodes, of the accumulator of all */
  int index, pause;
} worker;

/* Sums whose order shows: large and small, of both signs. */
static td_tensor telling(int who) {
  td_tensor t;
  td_shape shape = td_shape_vector(LONG);
  uint64_t seed = (uint64_t)who;
  OK(td_tensor_new(NULL, TD_FLOAT32, &shape, &t));
  for (int i = 0; i < LONG; i++) {
    double scale = (double)(1 << draw(&seed) % 24);
    td_tensor_set_f(&t, i, scale * ((double)(draw(&seed) % 2001) - 1000) / 7);
  }
  return t;
}

static void *work(void *arg) {
  worker *w = arg;
  usleep((useconds_t)w->pause);
  OK(net_do(&w->b.w, w->b.apply));
  return NULL;
}

/* All share the first one's containers, as workers of a server do. */
static void workers_init(worker *w, const char *op, const spec *s) {
  for (int i = 0; i < WORKERS; i++) {
    w[i] = (worker){.index = i};
    bench_init(&w[i].b, op, s);
    w[i].b.w.step.own = w[0].b.w.own;
    net_refeed(&w[i].b.w, w[i].b.slot, whole(TD_INT32, i));
    net_refeed(&w[i].b.w, w[i].b.gradient, telling(i));
  }
}

static void one_step(worker *w, int64_t step, uint64_t *seed, td_tensor *sum) {
  pthread_t id[WORKERS];
  for (int i = 0; i < WORKERS; i++) {
    net_refeed(&w[i].b.w, w[i].b.step, whole(TD_INT64, step));
    w[i].pause = (int)(draw(seed) % 300);
    assert_int_equal(pthread_create(&id[i], NULL, work, &w[i]), 0);
  }
  net_refeed(&w->b.w, w->b.need, whole(TD_INT32, WORKERS));
  OK(net_run(&w->b.w, w->b.take, sum));
  for (int i = 0; i < WORKERS; i++) pthread_join(id[i], NULL);
}

static void workers_deinit(worker *w) {
  for (int i = WORKERS - 1; i >= 0; i--) net_deinit(&w[i].b.w);
}

/* What one thread adds in order of slots. */
static td_tensor in_order(void) {
  td_tensor sum = telling(0);
  for (int i = 1; i < WORKERS; i++) {
    td_tensor t = telling(i);
    for (int k = 0; k < LONG; k++)
      ((float *)sum.data)[k] += ((float *)t.data)[k];
    td_tensor_release(&t);
  }
  return sum;
}

static void test_ordered_bits(void **state) {
  (void)state;
  worker w[WORKERS];
  uint64_t seed = 1;
  spec s = {TD_FLOAT32, td_shape_unknown(), "SUM", WORKERS};
  td_tensor want = in_order(), got;
  workers_init(w, "OrderedConditionalAccumulator", &s);
  for (int i = 0; i < 100; i++) {
    one_step(w, i, &seed, &got);
    assert_true(td_tensor_same(&got, &want));
    td_tensor_release(&got);
  }
  td_tensor_release(&want);
  workers_deinit(w);
}

/* The data can tell orders apart: as they come, backwards, the bits differ. */
static void test_unordered_bits(void **state) {
  (void)state;
  bench b;
  spec s = {TD_FLOAT32, td_shape_unknown(), "SUM", 0};
  td_tensor want = in_order(), got;
  bench_init(&b, "ConditionalAccumulator", &s);
  for (int i = WORKERS - 1; i >= 0; i--) OK(apply(&b, 0, telling(i)));
  OK(net_run(&b.w, b.take, &got));
  assert_false(td_tensor_same(&got, &want));
  td_tensor_release(&got);
  td_tensor_release(&want);
  net_deinit(&b.w);
}

/* Nothing is lost or added twice: whole numbers, whose sums are exact. */
static void test_unordered_sum(void **state) {
  (void)state;
  worker w[WORKERS];
  uint64_t seed = 1;
  spec s = {TD_FLOAT32, td_shape_unknown(), "SUM", 0};
  workers_init(w, "ConditionalAccumulator", &s);
  for (int i = 0; i < WORKERS; i++)
    net_refeed(&w[i].b.w, w[i].b.gradient, row(TD_FLOAT32, 1 << i, i));
  for (int i = 0; i < 100; i++) {
    td_tensor got;
    one_step(w, i, &seed, &got);
    assert_true(td_tensor_get_f(&got, 0) == 255);
    assert_true(td_tensor_get_f(&got, 1) == 28);
    td_tensor_release(&got);
  }
  workers_deinit(w);
}

static void test_slots(void **state) {
  (void)state;
  bench b;
  td_tensor t;
  spec s = {TD_FLOAT32, td_shape_vector(2), "MEAN", 2};
  bench_init(&b, "OrderedConditionalAccumulator", &s);
  OK(apply_at(&b, 1, row(s.dtype, 1, 2)));
  FAILS(apply_at(&b, 1, row(s.dtype, 1, 2)), TD_ALREADY_EXISTS,
        "has its gradient for global step 0");
  FAILS(apply_at(&b, 2, row(s.dtype, 1, 2)), TD_INVALID_ARGUMENT,
        "has 2 slots, there is none of number 2");
  FAILS(apply_at(&b, -1, row(s.dtype, 1, 2)), TD_INVALID_ARGUMENT,
        "not be negative");
  OK(apply_at(&b, 0, row(s.dtype, 3, 4)));
  net_refeed(&b.w, b.need, whole(TD_INT32, 3));
  FAILS(net_run(&b.w, b.take, &t), TD_INVALID_ARGUMENT, "never gathers 3");
  expect_taken(&b, 2, 2, 3);
  td_edge in[] = {b.handle, b.step, b.gradient};
  net_refeed(&b.w, b.step, whole(TD_INT64, 1));
  FAILS(
      net_do(&b.w, net_node(&b.w, "AccumulatorApplyGradient", in, 3, NULL, 0)),
      TD_INVALID_ARGUMENT, "tell the slot");
  net_deinit(&b.w);
}

/* As kernels do, on whatever thread a take ends. */
static void test_denormals_are_zero(void **state) {
  (void)state;
  bench b;
  spec s = {TD_FLOAT32, td_shape_vector(2), "SUM", 2};
  bench_init(&b, "OrderedConditionalAccumulator", &s);
  OK(apply_at(&b, 0, row(s.dtype, 1e-40, 1)));
  OK(apply_at(&b, 1, row(s.dtype, 1e-40, 1)));
  expect_taken(&b, 2, 0, 2);
  net_deinit(&b.w);
}

static void test_scarce_memory(void **state) {
  (void)state;
  for (int ordered = 0; ordered < 2; ordered++) {
    bench b;
    spec s = {TD_FLOAT16, td_shape_vector(2), "MEAN", ordered ? 2 : 0};
    bench_init(&b,
               ordered ? "OrderedConditionalAccumulator"
                       : "ConditionalAccumulator",
               &s);
    for (int i = 0; i < 2; i++) {
      net_refeed(&b.w, b.slot, whole(TD_INT32, i));
      net_refeed(&b.w, b.gradient, row(s.dtype, i, 4));
      net_starve(&b.w, b.apply);
    }
    expect_count(&b, 2);
    net_refeed(&b.w, b.need, whole(TD_INT32, 2));
    net_starve(&b.w, b.take);
    expect_count(&b, 0);
    OK(apply(&b, 0, row(s.dtype, 1, 1))); /* late: the step is over */
    expect_count(&b, 0);
    net_deinit(&b.w);
  }
}

/* A step that is stopped while it adds leaves no half sum to the others. */
static void test_a_stopped_step_adds(void **state) {
  (void)state;
  enum { N = 200000 };
  bench b;
  td_kernel k;
  td_tensor x, y;
  td_shape shape = td_shape_vector(N);
  spec s = mean_of(TD_FLOAT32);
  bench_init(&b, "ConditionalAccumulator", &s);
  OK(td_kernel_init(&k, b.apply.node, b.w.device, b.w.states));
  td_kernel_ctx c = {.kernel = &k, .step = &b.w.step};
  OK(td_tensor_new(NULL, TD_FLOAT32, &shape, &x));
  OK(td_tensor_new(NULL, TD_FLOAT32, &shape, &y));
  for (int i = 0; i < N; i++) ((float *)x.data)[i] = 1;
  for (int i = 0; i < N; i++) ((float *)y.data)[i] = 2;
  td_cancel_fire(b.w.cancel, NULL);
  OK(td_gradient_add(&c, &x, &y));
  for (int i = 0; i < N; i++) assert_true(((float *)x.data)[i] == 3);
  td_tensor_release(&x);
  td_tensor_release(&y);
  td_kernel_deinit(&k);
  net_deinit(&b.w);
}

/* ---- rows ---------------------------------------------------------------- */

typedef struct sparse {
  net w;
  td_edge handle, step, indices, values, shape, need, apply, take;
} sparse;

static td_tensor longs(int n, const int64_t *v) {
  td_tensor t;
  td_shape shape = td_shape_vector(n);
  OK(td_tensor_from(TD_INT64, &shape, v, &t));
  return t;
}

static void sparse_init(sparse *b, const char *reduction, bool known) {
  td_shape shape = td_shape_of(2, (int64_t[]){4, 2});
  td_note made[] = {{"dtype", td_attr_type(TD_FLOAT32)},
                    {"shape", td_attr_shape(&shape)},
                    {"reduction_type", td_attr_string(reduction)}};
  td_note applied[] = {{"has_known_shape", td_attr_bool(known)}};
  net_init(&b->w, 1);
  b->handle = net_node(&b->w, "SparseConditionalAccumulator", NULL, 0, made, 3);
  b->step = net_feed(&b->w, whole(TD_INT64, 0));
  b->indices = net_feed(&b->w, longs(0, NULL));
  b->values = net_feed(&b->w, row(TD_FLOAT32, 0, 0));
  b->shape = net_feed(&b->w, longs(2, (int64_t[]){4, 2}));
  b->need = net_feed(&b->w, whole(TD_INT32, 1));
  td_edge in[] = {b->handle, b->step, b->indices, b->values, b->shape};
  b->apply =
      net_node(&b->w, "SparseAccumulatorApplyGradient", in, 5, applied, 1);
  b->take = net_node(&b->w, "SparseAccumulatorTakeGradient",
                     (td_edge[]){b->handle, b->need}, 2, made, 1);
}

/* n rows of two. */
static void feed_rows(sparse *b, int n, const int64_t *index, const double *v) {
  td_shape s = td_shape_of(2, (int64_t[]){n, 2});
  net_refeed(&b->w, b->indices, longs(n, index));
  net_refeed(&b->w, b->values, tensor_f(TD_FLOAT32, s, v));
}

static td_status *add_rows(sparse *b, int n, const int64_t *index,
                           const double *v) {
  feed_rows(b, n, index, v);
  return net_do(&b->w, b->apply);
}

static void expect_rows(sparse *b, int need, int n, const int64_t *index,
                        const double *v) {
  td_tensor out[3] = {{.dtype = TD_INVALID}};
  net_refeed(&b->w, b->need, whole(TD_INT32, need));
  OK(net_run(&b->w, b->take, out));
  assert_int_equal(out[0].shape.dim[0], n);
  for (int i = 0; i < n; i++)
    assert_int_equal(td_tensor_get_i(&out[0], i), index[i]);
  for (int i = 0; i < 2 * n; i++)
    assert_true(td_tensor_get_f(&out[1], i) == v[i]);
  assert_int_equal(td_tensor_get_i(&out[2], 0), 4);
  assert_int_equal(td_tensor_get_i(&out[2], 1), 2);
  for (int i = 0; i < 3; i++) td_tensor_release(&out[i]);
}

#define I(...)                                                                 \
  (int64_t[]) {                                                                \
    __VA_ARGS__                                                                \
  }
#define V(...)                                                                 \
  (double[]) {                                                                 \
    __VA_ARGS__                                                                \
  }

/* As real TensorFlow 2.21 answers: a row's mean is over those who had it. */
static void test_rows(void **state) {
  (void)state;
  sparse b;
  sparse_init(&b, "MEAN", true);
  OK(add_rows(&b, 2, I(0, 2), V(1, 2, 3, 4)));
  OK(add_rows(&b, 2, I(2, 3), V(5, 6, 7, 8)));
  expect_rows(&b, 2, 3, I(0, 2, 3), V(1, 2, 4, 5, 7, 8));
  net_refeed(&b.w, b.step, whole(TD_INT64, 1));
  OK(add_rows(&b, 3, I(3, 1, 3), V(1, 1, 2, 2, 4, 4))); /* out of order */
  expect_rows(&b, 1, 2, I(1, 3), V(2, 2, 5, 5));
  net_deinit(&b.w);
  sparse_init(&b, "SUM", false);
  OK(add_rows(&b, 0, NULL, NULL));
  OK(add_rows(&b, 1, I(2), V(3, 4)));
  OK(add_rows(&b, 1, I(2), V(5, 6)));
  expect_rows(&b, 3, 1, I(2), V(8, 10));
  net_deinit(&b.w);
}

static void test_rows_refused(void **state) {
  (void)state;
  sparse b;
  sparse_init(&b, "MEAN", true);
  FAILS(add_rows(&b, 1, I(4), V(1, 1)), TD_INVALID_ARGUMENT,
        "gradient_indices[0] is 4: it must be in [0, 4)");
  FAILS(add_rows(&b, 2, I(1, -1), V(1, 1, 2, 2)), TD_INVALID_ARGUMENT,
        "gradient_indices[1] is -1");
  net_refeed(&b.w, b.indices, longs(1, I(1)));
  FAILS(net_do(&b.w, b.apply), TD_INVALID_ARGUMENT,
        "has 1 elements, gradient_values 2 rows");
  net_refeed(&b.w, b.values, row(TD_FLOAT32, 1, 2));
  net_refeed(&b.w, b.indices, longs(2, I(1, 2)));
  FAILS(net_do(&b.w, b.apply), TD_INVALID_ARGUMENT,
        "have shape {-1, 2}: values of shape {2} cannot be added");
  net_refeed(&b.w, b.shape, longs(2, I(4, 3)));
  FAILS(add_rows(&b, 1, I(1), V(1, 1)), TD_INVALID_ARGUMENT,
        "have shape {4, 2}, not {4, 3}");
  net_deinit(&b.w);
}

static void test_rows_scarce_memory(void **state) {
  (void)state;
  sparse b;
  sparse_init(&b, "MEAN", false);
  feed_rows(&b, 2, I(2, 0), V(3, 4, 1, 2));
  net_starve(&b.w, b.apply);
  feed_rows(&b, 2, I(2, 3), V(5, 6, 7, 8));
  net_starve(&b.w, b.apply);
  for (int64_t n = 1;; n++) {
    td_tensor out[3] = {{.dtype = TD_INVALID}};
    td_mem_fail(n, false);
    td_status *s = net_run(&b.w, b.take, out);
    td_mem_fail(0, false);
    for (int i = 0; i < 3; i++) td_tensor_release(&out[i]);
    if (!s) break;
    assert_int_equal(td_status_code(s), TD_RESOURCE_EXHAUSTED);
    td_status_release(s);
  }
  net_deinit(&b.w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_mean_and_step),
      cmocka_unit_test(test_sum),
      cmocka_unit_test(test_halves_are_rounded_once),
      cmocka_unit_test(test_set_step),
      cmocka_unit_test(test_what_is_refused),
      cmocka_unit_test(test_take_waits),
      cmocka_unit_test(test_cancel_and_reset),
      cmocka_unit_test(test_ordered_bits),
      cmocka_unit_test(test_unordered_bits),
      cmocka_unit_test(test_unordered_sum),
      cmocka_unit_test(test_slots),
      cmocka_unit_test(test_denormals_are_zero),
      cmocka_unit_test(test_scarce_memory),
      cmocka_unit_test(test_a_stopped_step_adds),
      cmocka_unit_test(test_rows),
      cmocka_unit_test(test_rows_refused),
      cmocka_unit_test(test_rows_scarce_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
