/* queue.c - queues through their kernels: orders, waiting without a thread,
 * closing, failing, batches, errors, memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>

#include "engine/base/io_threads.h"
#include "engine/run/session.h"
#include "kernels/queue.h"
#include "tests/kernels/waiting.h"
#include "tests/kernels/queues.h"

/* A queue of int64 scalars and the nodes that use it. */
typedef struct bench {
  net w;
  td_edge q, x, xs, n; /* handle, what is enqueued (one, many), how many */
  td_edge put, put_many, take, many, up_to, close, cancel, size, closed;
} bench;

static td_tensor longs(int n, const int64_t *v) {
  td_tensor t;
  td_shape shape = td_shape_vector(n);
  OK(td_tensor_from(TD_INT64, &shape, v, &t));
  return t;
}

static td_tensor number(td_dtype dtype, int64_t v) {
  td_tensor t;
  OK(td_tensor_scalar_i(dtype, v, &t));
  return t;
}

static td_tensor text(const char *s) {
  td_tensor t;
  td_shape shape = td_shape_scalar();
  size_t len = strlen(s);
  OK(td_tensor_strings(&shape, &s, &len, &t));
  return t;
}

static td_edge queue(net *w, queue_spec s) {
  td_edge q;
  OK(queue_node(w->graph, &s, &q));
  return q;
}

static void bench_of(bench *b, queue_spec s) {
  td_dtype type = TD_INT64;
  td_graph *g;
  *b = (bench){0};
  net_init(&b->w, 1);
  g = b->w.graph;
  b->q = queue(&b->w, s);
  b->x = net_feed(&b->w, number(TD_INT64, 0));
  b->xs = net_feed(&b->w, longs(0, NULL));
  b->n = net_feed(&b->w, number(TD_INT32, 0));
  OK(enqueue_node(g, false, b->q, &b->x, 1, &b->put));
  OK(enqueue_node(g, true, b->q, &b->xs, 1, &b->put_many));
  OK(dequeue_node(g, b->q, NULL, false, &type, 1, &b->take));
  OK(dequeue_node(g, b->q, &b->n, false, &type, 1, &b->many));
  OK(dequeue_node(g, b->q, &b->n, true, &type, 1, &b->up_to));
  OK(close_node(g, b->q, false, &b->close));
  OK(close_node(g, b->q, true, &b->cancel));
  b->size = net_node(&b->w, "QueueSizeV2", &b->q, 1, NULL, 0);
  b->closed = net_node(&b->w, "QueueIsClosedV2", &b->q, 1, NULL, 0);
}

static void bench_init(bench *b, const char *op, int64_t capacity) {
  queue_spec s = int_queue(op, capacity);
  s.seed = 1;
  s.seed2 = 2;
  bench_of(b, s);
}

static void bench_deinit(bench *b) {
  net_deinit(&b->w);
}

static td_edge putting(bench *b, int64_t v) {
  net_refeed(&b->w, b->x, number(TD_INT64, v));
  return b->put;
}

static td_edge putting_many(bench *b, int n, const int64_t *v) {
  net_refeed(&b->w, b->xs, longs(n, v));
  return b->put_many;
}

/* `e` is b->many or b->up_to. */
static td_edge taking(bench *b, td_edge e, int n) {
  net_refeed(&b->w, b->n, number(TD_INT32, n));
  return e;
}

static void put(bench *b, int64_t v) {
  OK(net_do(&b->w, putting(b, v)));
}

static void is(td_tensor t, int n, const int64_t *want) {
  assert_int_equal(td_tensor_count(&t), n);
  for (int i = 0; i < n; i++) assert_int_equal(td_tensor_get_i(&t, i), want[i]);
  td_tensor_release(&t);
}

#define IS(t, ...)                                                             \
  is(t, (int)TD_COUNT(((int64_t[]){__VA_ARGS__})), (int64_t[]){__VA_ARGS__})
#define PUT_MANY(b, ...)                                                       \
  putting_many(b, (int)TD_COUNT(((int64_t[]){__VA_ARGS__})),                   \
               (int64_t[]){__VA_ARGS__})

static void gives(bench *b, td_edge e, int n, const int64_t *want) {
  td_tensor t;
  OK(net_run(&b->w, e, &t));
  is(t, n, want);
}

#define GIVES(b, e, ...)                                                       \
  gives(b, e, (int)TD_COUNT(((int64_t[]){__VA_ARGS__})),                       \
        (int64_t[]){__VA_ARGS__})

static const char *const kinds[] = {"FIFOQueueV2", "PaddingFIFOQueueV2",
                                    "RandomShuffleQueueV2", "PriorityQueueV2"};

/* ---- orders -------------------------------------------------------------- */

static void test_fifo(void **state) {
  (void)state;
  bench b;
  bench_init(&b, "FIFOQueueV2", -1);
  for (int i = 0; i < 40; i++) put(&b, i);
  for (int i = 0; i < 30; i++) GIVES(&b, b.take, i);
  OK(net_do(&b.w, PUT_MANY(&b, 40, 41, 42)));
  GIVES(&b, b.size, 13);
  GIVES(&b, taking(&b, b.many, 10), 30, 31, 32, 33, 34, 35, 36, 37, 38, 39);
  GIVES(&b, taking(&b, b.up_to, 2), 40, 41);
  GIVES(&b, b.take, 42);
  GIVES(&b, b.closed, 0);
  bench_deinit(&b);
}

/* Ranks, equal ones in order of arrival, a name beside each. */
static void test_priority(void **state) {
  (void)state;
  static const int64_t ranks[] = {5, 1, 3, 1, -7, 3, INT64_MAX, INT64_MIN};
  static const char *const want[] = {"h", "e", "b", "d", "c", "f", "a", "g"};
  net w;
  net_init(&w, 1);
  queue_spec s = {.op = "PriorityQueueV2", .n = 1, .capacity = -1};
  s.types[0] = TD_STRING;
  td_edge q = queue(&w, s), put, take;
  td_edge in[] = {net_feed(&w, number(TD_INT64, 0)), net_feed(&w, text("a"))};
  td_dtype types[] = {TD_INT64, TD_STRING};
  OK(enqueue_node(w.graph, false, q, in, 2, &put));
  OK(dequeue_node(w.graph, q, NULL, false, types, 2, &take));
  for (int i = 0; i < 8; i++) {
    net_refeed(&w, in[0], number(TD_INT64, ranks[i]));
    net_refeed(&w, in[1], text((char[]){(char)('a' + i), 0}));
    OK(net_do(&w, put));
  }
  for (int i = 0; i < 8; i++) {
    net_job j;
    td_tensor out[2];
    size_t len;
    net_begin(&w, take, &j);
    OK(net_end(&j, out));
    IS(out[0], ranks[want[i][0] - 'a']);
    assert_memory_equal(td_tensor_str(&out[1], 0, &len), want[i], 1);
    td_tensor_release(&out[1]);
  }
  net_refeed(&w, in[0], longs(2, ranks));
  FAILS(net_do(&w, put), TD_INVALID_ARGUMENT,
        "is of shape {} and cannot be of "
        "{2}");
  net_deinit(&w);
}

/* What TensorFlow 2.21 gives for these seeds. */
static void test_shuffle(void **state) {
  (void)state;
  for (int again = 0; again < 2; again++) {
    bench b;
    bench_init(&b, "RandomShuffleQueueV2", -1);
    OK(net_do(&b.w, PUT_MANY(&b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)));
    GIVES(&b, taking(&b, b.many, 4), 9, 8, 6, 3);
    GIVES(&b, b.take, 5);
    net_job j;
    net_begin(&b.w, taking(&b, b.many, 6), &j); /* takes five, ... */
    GIVES(&b, b.size, 0);
    net_stop(&j); /* ... and gives them back as if it had not been */
    FAILS(net_end(&j, NULL), TD_CANCELLED, "the step was cancelled");
    GIVES(&b, taking(&b, b.up_to, 5), 1, 4, 7, 2, 0);
    bench_deinit(&b);
  }
}

/* Nobody's memory is shared with the batch. */
static void test_shuffle_copies(void **state) {
  (void)state;
  bench b;
  td_tensor t;
  bench_init(&b, "RandomShuffleQueueV2", -1);
  OK(net_do(&b.w, PUT_MANY(&b, 0, 1, 2, 3)));
  OK(net_run(&b.w, b.take, &t));
  assert_true(td_buffer_sole(t.buffer));
  td_tensor_release(&t);
  bench_deinit(&b);
}

static void test_min_after_dequeue(void **state) {
  (void)state;
  bench b;
  queue_spec s = int_queue("RandomShuffleQueueV2", 8);
  s.keep = 3;
  bench_of(&b, s);
  net_job j;
  OK(net_do(&b.w, PUT_MANY(&b, 7, 7, 7)));
  net_begin(&b.w, b.take, &j);
  assert_false(net_over(&j));
  put(&b, 7);
  assert_true(net_over(&j));
  OK(net_end(&j, NULL));
  net_begin(&b.w, taking(&b, b.many, 3), &j);
  assert_false(net_over(&j));
  OK(net_do(&b.w, b.close)); /* now all may go */
  assert_true(net_over(&j));
  OK(net_end(&j, NULL));
  FAILS(net_do(&b.w, b.take), TD_OUT_OF_RANGE, "requested 1, current size 0");
  bench_deinit(&b);
}

/* ---- waiting ------------------------------------------------------------- */

static void test_room(void **state) {
  (void)state;
  for (size_t k = 0; k < TD_COUNT(kinds); k++) {
    bench b;
    net_job j, m;
    bench_init(&b, kinds[k], 2);
    put(&b, 1);
    put(&b, 1);
    net_begin(&b.w, putting(&b, 1), &j);
    net_begin(&b.w, PUT_MANY(&b, 2, 2, 2), &m); /* behind */
    assert_false(net_over(&j));
    GIVES(&b, b.take, 1);
    assert_true(net_over(&j));
    OK(net_end(&j, NULL));
    assert_false(net_over(&m));
    for (int i = 0; i < 2; i++) OK(net_do(&b.w, b.take));
    assert_false(net_over(&m)); /* two of three */
    GIVES(&b, b.size, 2);
    OK(net_do(&b.w, b.take));
    assert_true(net_over(&m));
    OK(net_end(&m, NULL));
    GIVES(&b, taking(&b, b.many, 2), 2, 2);
    bench_deinit(&b);
  }
}

/* Takers are served in turn, one that asks for more than there is room for
 * too. */
static void test_more_than_capacity(void **state) {
  (void)state;
  bench b;
  net_job first, second, m;
  td_tensor t;
  bench_init(&b, "FIFOQueueV2", 2);
  net_begin(&b.w, taking(&b, b.many, 5), &first);
  net_begin(&b.w, b.take, &second);
  net_begin(&b.w, PUT_MANY(&b, 1, 2, 3, 4), &m);
  assert_true(net_over(&m));
  OK(net_end(&m, NULL));
  assert_false(net_over(&first));
  put(&b, 5);
  OK(net_end(&first, &t));
  IS(t, 1, 2, 3, 4, 5);
  assert_false(net_over(&second));
  put(&b, 6);
  OK(net_end(&second, &t));
  IS(t, 6);
  bench_deinit(&b);
}

/* A queue without room takes nothing; nothing asked for is there at once. */
static void test_nothing(void **state) {
  (void)state;
  bench b;
  net_job j;
  bench_init(&b, "FIFOQueueV2", 0);
  net_begin(&b.w, putting(&b, 1), &j);
  assert_false(net_over(&j));
  OK(net_do(&b.w, putting_many(&b, 0, NULL)));
  gives(&b, taking(&b, b.many, 0), 0, NULL);
  gives(&b, taking(&b, b.up_to, 0), 0, NULL);
  OK(net_do(&b.w, b.cancel));
  FAILS(net_end(&j, NULL), TD_CANCELLED, "who waited to enqueue cancelled");
  OK(net_do(&b.w, putting_many(&b, 0, NULL)));
  gives(&b, taking(&b, b.many, 0), 0, NULL);
  FAILS(net_do(&b.w, taking(&b, b.many, -1)), TD_INVALID_ARGUMENT,
        "n must not be negative, not -1");
  bench_deinit(&b);
}

/* Who is cancelled gives back what it took, in its old place, and those behind
 * go on. */
static void test_cancel(void **state) {
  (void)state;
  bench b;
  net_job many, one, puts[3];
  td_tensor t;
  bench_init(&b, "FIFOQueueV2", 3);
  OK(net_do(&b.w, PUT_MANY(&b, 1, 2, 3)));
  net_begin(&b.w, taking(&b, b.many, 9), &many);
  put(&b, 4);
  put(&b, 5);
  net_begin(&b.w, b.take, &one);
  assert_false(net_over(&one));
  net_stop(&many);
  FAILS(net_end(&many, NULL), TD_CANCELLED, "the step was cancelled");
  OK(net_end(&one, &t));
  IS(t, 1);
  GIVES(&b, b.size, 4); /* over its capacity, for a while */
  for (int i = 0; i < 3; i++) net_begin(&b.w, putting(&b, 6 + i), &puts[i]);
  net_stop(&puts[1]);
  FAILS(net_end(&puts[1], NULL), TD_CANCELLED, "the step was cancelled");
  GIVES(&b, taking(&b, b.many, 6), 2, 3, 4, 5, 6, 8);
  OK(net_end(&puts[0], NULL));
  OK(net_end(&puts[2], NULL));
  bench_deinit(&b);
}

/* A cancel that comes before the start, and one after the end. */
static void test_cancel_early_and_late(void **state) {
  (void)state;
  bench b;
  net_job j;
  bench_init(&b, "FIFOQueueV2", 3);
  td_cancel_fire(b.w.cancel, NULL);
  FAILS(net_do(&b.w, putting(&b, 1)), TD_CANCELLED, "the step was cancelled");
  FAILS(net_do(&b.w, b.take), TD_CANCELLED, "the step was cancelled");
  net_begin(&b.w, putting(&b, 2), &j);
  net_stop(&j);
  OK(net_end(&j, NULL));
  net_begin(&b.w, b.take, &j);
  net_stop(&j);
  OK(net_end(&j, NULL));
  GIVES(&b, b.size, 0);
  bench_deinit(&b);
}

/* ---- the end ------------------------------------------------------------- */

static void test_close(void **state) {
  (void)state;
  for (size_t k = 0; k < TD_COUNT(kinds); k++) {
    bench b;
    net_job blocked, close, late;
    bench_init(&b, kinds[k], 2);
    OK(net_do(&b.w, PUT_MANY(&b, 1, 1)));
    net_begin(&b.w, putting(&b, 1), &blocked);
    net_begin(&b.w, b.close, &close); /* waits for who came before */
    net_begin(&b.w, putting(&b, 2), &late);
    assert_false(net_over(&close));
    GIVES(&b, b.closed, 0);
    GIVES(&b, b.take, 1);
    OK(net_end(&blocked, NULL));
    OK(net_end(&close, NULL));
    FAILS(net_end(&late, NULL), TD_CANCELLED, "queue q is closed");
    GIVES(&b, b.closed, 1);
    FAILS(net_do(&b.w, b.close), TD_CANCELLED, "queue q is already closed");
    OK(net_do(&b.w, b.cancel));
    FAILS(net_do(&b.w, taking(&b, b.many, 3)), TD_OUT_OF_RANGE,
          "queue q is closed and has insufficient elements (requested 3, "
          "current size 2)");
    GIVES(&b, b.size, 2);
    GIVES(&b, taking(&b, b.up_to, 3), 1, 1);
    FAILS(net_do(&b.w, taking(&b, b.up_to, 3)), TD_OUT_OF_RANGE,
          "requested 3, current size 0");
    FAILS(net_do(&b.w, b.take), TD_OUT_OF_RANGE, "requested 1, current size 0");
    bench_deinit(&b);
  }
}

/* All who wait when a queue is closed are told: those who take what is there,
 * and one that waits to close, too. */
static void test_close_with_cancel(void **state) {
  (void)state;
  bench b;
  net_job blocked, close, many, up_to;
  td_tensor t;
  bench_init(&b, "FIFOQueueV2", 1);
  put(&b, 1);
  net_begin(&b.w, putting(&b, 2), &blocked);
  net_begin(&b.w, b.close, &close);
  OK(net_do(&b.w, b.cancel));
  FAILS(net_end(&blocked, NULL), TD_CANCELLED, "enqueue cancelled");
  FAILS(net_end(&close, NULL), TD_CANCELLED, "enqueue cancelled");
  GIVES(&b, b.take, 1);
  bench_deinit(&b);
  bench_init(&b, "FIFOQueueV2", 8);
  OK(net_do(&b.w, PUT_MANY(&b, 1, 2)));
  net_begin(&b.w, taking(&b, b.many, 3), &many);
  net_begin(&b.w, taking(&b, b.up_to, 3), &up_to);
  OK(net_do(&b.w, b.close));
  FAILS(net_end(&many, NULL), TD_OUT_OF_RANGE, "requested 3, current size 2");
  OK(net_end(&up_to, &t));
  IS(t, 1, 2);
  bench_deinit(&b);
}

static td_edge failing(bench *b, int code, const char *why) {
  td_edge in[] = {b->q, net_feed(&b->w, number(TD_INT32, code)),
                  net_feed(&b->w, text(why))};
  return net_node(&b->w, "QueueFail", in, 3, NULL, 0);
}

static void test_fail(void **state) {
  (void)state;
  bench b;
  net_job take, puts;
  bench_init(&b, "FIFOQueueV2", 2);
  FAILS(net_do(&b.w, failing(&b, 0, "")), TD_INVALID_ARGUMENT, "from 1 to 16");
  FAILS(net_do(&b.w, failing(&b, 17, "")), TD_INVALID_ARGUMENT, "not 17");
  OK(net_do(&b.w, PUT_MANY(&b, 1, 2)));
  net_begin(&b.w, putting(&b, 3), &puts);
  OK(net_do(&b.w, failing(&b, TD_DATA_LOSS, "disk on fire")));
  FAILS(net_end(&puts, NULL), TD_DATA_LOSS, "queue q failed: disk on fire");
  GIVES(&b, b.take, 1); /* what is there comes out first */
  FAILS(net_do(&b.w, taking(&b, b.many, 2)), TD_DATA_LOSS, "disk on fire");
  GIVES(&b, taking(&b, b.up_to, 2), 2);
  FAILS(net_do(&b.w, b.take), TD_DATA_LOSS, "queue q failed: disk on fire");
  FAILS(net_do(&b.w, putting(&b, 1)), TD_DATA_LOSS, "disk on fire");
  OK(net_do(&b.w, failing(&b, TD_INTERNAL, "later")));
  OK(net_do(&b.w, b.close));
  FAILS(net_do(&b.w, b.take), TD_DATA_LOSS, "disk on fire");
  bench_deinit(&b);
  bench_init(&b, "PriorityQueueV2", 2);
  net_begin(&b.w, b.take, &take);
  OK(net_do(&b.w, failing(&b, TD_ABORTED, "away")));
  FAILS(net_end(&take, NULL), TD_ABORTED, "queue q failed: away");
  bench_deinit(&b);
}

/* The container is reset while some wait: they are told, and the next one that
 * comes finds a new queue; the old one is empty though it is held. */
static void test_reset(void **state) {
  (void)state;
  for (size_t k = 0; k < TD_COUNT(kinds); k++) {
    bench b;
    net_job many, puts;
    td_tensor old;
    queue_spec s = int_queue(kinds[k], 2);
    s.container = "shared";
    bench_of(&b, s);
    OK(net_run(&b.w, b.q, &old));
    net_begin(&b.w, taking(&b, b.many, 3), &many);
    put(&b, 1);
    td_resources_reset(b.w.named, "shared");
    FAILS(net_end(&many, NULL), TD_CANCELLED,
          "the container of queue q was reset");
    const td_queue *q = (td_queue *)td_tensor_get_object(&old);
    assert_int_equal(q->count, 0);
    assert_int_equal(q->lent, 0);
    GIVES(&b, b.size, 0);
    GIVES(&b, b.closed, 0);
    OK(net_do(&b.w, PUT_MANY(&b, 4, 4)));
    net_begin(&b.w, putting(&b, 4), &puts);
    td_resources_reset(b.w.named, NULL);
    FAILS(net_end(&puts, NULL), TD_CANCELLED, "was reset");
    td_tensor_release(&old);
    bench_deinit(&b);
  }
}

/* ---- batches ------------------------------------------------------------- */

static td_tensor floats(int rows, int cols, float first) {
  td_tensor t;
  td_shape s = {.rank = 2, .dim = {rows, cols}};
  OK(td_tensor_new(NULL, TD_FLOAT32, &s, &t));
  for (int i = 0; i < rows * cols; i++)
    td_tensor_set_f(&t, i, first + (float)i);
  return t;
}

static void test_padding(void **state) {
  (void)state;
  net w;
  net_init(&w, 1);
  queue_spec s = {.op = "PaddingFIFOQueueV2", .n = 2, .n_shapes = 2};
  s.capacity = -1;
  s.types[0] = TD_FLOAT32;
  s.types[1] = TD_STRING;
  s.shapes[0] = (td_shape){.rank = 2, .dim = {-1, -1}};
  s.shapes[1] = td_shape_vector(-1);
  td_edge q = queue(&w, s), put, take;
  td_shape one = td_shape_vector(1);
  td_tensor names, out[2];
  const char *ab = "ab";
  size_t len = 2;
  OK(td_tensor_strings(&one, &ab, &len, &names));
  td_edge in[] = {net_feed(&w, floats(1, 2, 1)), net_feed(&w, names)};
  td_edge n = net_feed(&w, number(TD_INT32, 2));
  OK(enqueue_node(w.graph, false, q, in, 2, &put));
  OK(dequeue_node(w.graph, q, &n, false, s.types, 2, &take));
  OK(net_do(&w, put));
  net_refeed(&w, in[0], floats(2, 1, 3));
  td_shape none = td_shape_vector(0);
  OK(td_tensor_strings(&none, NULL, NULL, &names));
  net_refeed(&w, in[1], names);
  OK(net_do(&w, put));
  net_job j;
  net_begin(&w, take, &j);
  OK(net_end(&j, out));
  assert_int_equal(out[1].shape.dim[1], 1);
  assert_memory_equal(td_tensor_str(&out[1], 0, &len), "ab", 2);
  td_tensor_str(&out[1], 1, &len);
  assert_int_equal(len, 0);
  td_tensor_release(&out[1]);
  IS(out[0], 1, 2, 0, 0, 3, 0, 4, 0);
  net_refeed(&w, in[0], number(TD_FLOAT32, 1));
  FAILS(net_do(&w, put), TD_INVALID_ARGUMENT,
        "is of shape {-1, -1} and cannot "
        "be of {}");
  net_deinit(&w);
}

/* Strings, in one and in many, to and fro. */
static void test_strings(void **state) {
  (void)state;
  for (size_t k = 0; k < 3; k++) {
    net w;
    net_init(&w, 1);
    queue_spec s = int_queue(kinds[k], -1);
    s.types[0] = TD_STRING;
    td_edge q = queue(&w, s), put, take, many;
    const char *at[] = {"same", "same", "same"};
    size_t len[] = {4, 4, 4};
    td_shape three = td_shape_vector(3);
    td_tensor t;
    OK(td_tensor_strings(&three, at, len, &t));
    td_edge xs = net_feed(&w, t), n = net_feed(&w, number(TD_INT32, 2));
    OK(enqueue_node(w.graph, true, q, &xs, 1, &put));
    OK(dequeue_node(w.graph, q, NULL, false, s.types, 1, &take));
    OK(dequeue_node(w.graph, q, &n, false, s.types, 1, &many));
    OK(net_do(&w, put));
    OK(net_run(&w, take, &t));
    assert_memory_equal(td_tensor_str(&t, 0, len), "same", 4);
    td_tensor_release(&t);
    OK(net_run(&w, many, &t));
    assert_int_equal(td_tensor_count(&t), 2);
    assert_memory_equal(td_tensor_str(&t, 1, len), "same", 4);
    td_tensor_release(&t);
    net_deinit(&w);
  }
}

/* A batch of a megabyte is made on the pool. */
static void test_large(void **state) {
  (void)state;
  net w;
  net_init(&w, 2);
  queue_spec s = int_queue("FIFOQueueV2", -1);
  s.types[0] = TD_FLOAT32;
  s.shapes[0] = td_shape_vector(1 << 16);
  td_edge q = queue(&w, s), put, take;
  td_edge xs = net_feed(&w, floats(5, 1 << 16, 0));
  td_edge n = net_feed(&w, number(TD_INT32, 4));
  td_tensor t;
  OK(enqueue_node(w.graph, true, q, &xs, 1, &put));
  OK(dequeue_node(w.graph, q, &n, false, s.types, 1, &take));
  OK(net_do(&w, put));
  OK(net_run(&w, take, &t));
  for (int i = 0; i < 4 << 16; i += 4095)
    assert_true(td_tensor_get_f(&t, i) == (float)i);
  td_tensor_release(&t);
  net_deinit(&w);
}

/* ---- errors -------------------------------------------------------------- */

static td_status *try_queue(net *w, queue_spec s) {
  td_edge q;
  TD_TRY(queue_node(w->graph, &s, &q));
  return net_do(w, q);
}

static void test_wrong_queues(void **state) {
  (void)state;
  net w;
  net_init(&w, 1);
  queue_spec s = int_queue("FIFOQueueV2", 4), t = s;
  t.shapes[0] = td_shape_vector(-1);
  FAILS(try_queue(&w, t), TD_INVALID_ARGUMENT, "must be fully known");
  t.op = "PaddingFIFOQueueV2";
  t.shapes[0] = td_shape_unknown();
  FAILS(try_queue(&w, t), TD_INVALID_ARGUMENT, "its rank must be known");
  t = s;
  t.n_shapes = 2;
  FAILS(try_queue(&w, t), TD_INVALID_ARGUMENT,
        "of 1 components is given 2 shapes");
  OK(try_queue(&w, s));
  OK(try_queue(&w, s)); /* another node, the same queue */
  t = s;
  t.op = "PaddingFIFOQueueV2";
  FAILS(try_queue(&w, t), TD_INVALID_ARGUMENT,
        "queue q is a FIFO queue, not a padding FIFO queue");
  t = s;
  t.capacity = 5;
  FAILS(try_queue(&w, t), TD_INVALID_ARGUMENT, "a capacity of 4, not of 5");
  t = s;
  t.types[0] = TD_INT32;
  FAILS(try_queue(&w, t), TD_INVALID_ARGUMENT, "other dtypes or shapes");
  t = s;
  t.n_shapes = 0;
  FAILS(try_queue(&w, t), TD_INVALID_ARGUMENT, "other dtypes or shapes");
  net_deinit(&w);
}

static void test_wrong_shuffle(void **state) {
  (void)state;
  net w;
  net_init(&w, 1);
  queue_spec s = int_queue("RandomShuffleQueueV2", 4), t = s;
  s.keep = 2;
  s.seed = 3;
  t.keep = -1;
  FAILS(try_queue(&w, t), TD_INVALID_ARGUMENT, "must not be negative, not -1");
  t.keep = 4;
  FAILS(try_queue(&w, t), TD_INVALID_ARGUMENT,
        "min_after_dequeue is 4 and the capacity 4");
  OK(try_queue(&w, s));
  t.keep = 2;
  OK(try_queue(&w, t)); /* no seeds: any will do */
  t.seed2 = 3;
  FAILS(try_queue(&w, t), TD_INVALID_ARGUMENT,
        "queue q has the seeds 3 and 0, not 0 and 3");
  t = s;
  t.keep = 1;
  FAILS(try_queue(&w, t), TD_INVALID_ARGUMENT,
        "a min_after_dequeue of 2, not of 1");
  net_deinit(&w);
}

/* A handle of which nothing is known when the graph is built, so that kernels
 * see what shape functions refuse otherwise. */
static td_edge unknown_handle(net *w, td_edge q) {
  td_tensor t;
  OK(net_run(w, q, &t));
  return net_feed(w, t);
}

static void test_wrong_components(void **state) {
  (void)state;
  bench b;
  bench_init(&b, "FIFOQueueV2", 4);
  td_graph *g = b.w.graph;
  td_edge q = unknown_handle(&b.w, b.q), e;
  td_edge half = net_feed(&b.w, number(TD_INT32, 1)), two[] = {b.x, b.x};
  td_dtype types[] = {TD_FLOAT32, TD_INT64};
  FAILS(enqueue_node(g, false, b.q, &half, 1, &e), TD_INVALID_ARGUMENT,
        "is int64 and cannot be int32");
  OK(enqueue_node(g, false, q, &half, 1, &e));
  FAILS(net_do(&b.w, e), TD_INVALID_ARGUMENT,
        "component 0 of queue q is int64 and cannot be int32");
  FAILS(enqueue_node(g, false, b.q, two, 2, &e), TD_INVALID_ARGUMENT,
        "tuples of 1 components, not of 2");
  OK(enqueue_node(g, false, q, two, 2, &e));
  FAILS(net_do(&b.w, e), TD_INVALID_ARGUMENT, "and is given 2");
  net_refeed(&b.w, b.x, longs(2, (int64_t[]){1, 2}));
  FAILS(net_do(&b.w, b.put), TD_INVALID_ARGUMENT,
        "component 0 of queue q is of shape {} and cannot be of {2}");
  net_refeed(&b.w, b.xs, number(TD_INT64, 1));
  FAILS(net_do(&b.w, b.put_many), TD_INVALID_ARGUMENT, "takes batches");
  OK(dequeue_node(g, q, NULL, false, types, 1, &e));
  FAILS(net_do(&b.w, e), TD_INVALID_ARGUMENT,
        "is int64 and cannot be had as float32");
  OK(dequeue_node(g, q, NULL, false, types, 2, &e));
  FAILS(net_do(&b.w, e), TD_INVALID_ARGUMENT, "of 1 components, not of 2");
  OK(dequeue_node(g, net_variable(&b.w, "v", TD_INT64, td_shape_scalar()), NULL,
                  false, types, 1, &e));
  FAILS(net_do(&b.w, e), TD_INVALID_ARGUMENT,
        "must be the handle of a queue, not of a variable");
  GIVES(&b, b.size, 0);
  bench_deinit(&b);
}

/* Without shapes tuples of any shape go in, and out one by one. */
static void test_without_shapes(void **state) {
  (void)state;
  bench b;
  queue_spec s = int_queue("FIFOQueueV2", 4);
  s.n_shapes = 0;
  bench_of(&b, s);
  put(&b, 1);
  net_refeed(&b.w, b.x, longs(2, (int64_t[]){2, 3}));
  OK(net_do(&b.w, b.put));
  FAILS(net_do(&b.w, taking(&b, b.many, 2)), TD_INVALID_ARGUMENT,
        "does not know the shapes");
  GIVES(&b, b.take, 1);
  GIVES(&b, b.take, 2, 3);
  bench_deinit(&b);
}

static void test_ragged_batch(void **state) {
  (void)state;
  net w;
  net_init(&w, 1);
  queue_spec s = {.op = "FIFOQueueV2", .n = 2, .capacity = -1};
  s.types[0] = s.types[1] = TD_INT64;
  td_edge q = queue(&w, s), e;
  td_edge in[] = {net_feed(&w, longs(2, (int64_t[]){1, 2})),
                  net_feed(&w, longs(1, (int64_t[]){1}))};
  OK(enqueue_node(w.graph, true, q, in, 2, &e));
  FAILS(net_do(&w, e), TD_INVALID_ARGUMENT,
        "component 1 has 1 rows, component 0 2");
  net_deinit(&w);
}

/* ---- cancelled while a batch is made ------------------------------------- */

/* What was taken for it comes back, unless somebody took what stood behind. */
static void test_cancelled_batch(void **state) {
  (void)state;
  bench b;
  waiting x;
  td_cancel *cancel;
  bench_init(&b, "FIFOQueueV2", -1);
  OK(td_cancel_new(&cancel));
  OK(net_do(&b.w, PUT_MANY(&b, 1, 2)));
  waiting_start(&x, &b.w, taking(&b, b.many, 3));
  assert_false(waiting_over(&x));
  td_step own = b.w.step;
  own.stop = td_cancel_flag(cancel);
  x.ctx.step = &own;
  td_cancel_fire(cancel, NULL); /* and nobody has told the kernel yet */
  put(&b, 3);
  FAILS(waiting_end(&x), TD_CANCELLED, "cancelled");
  waiting_drop(&x);
  GIVES(&b, b.size, 3);
  for (int i = 1; i <= 3; i++) GIVES(&b, b.take, i);
  td_cancel_release(cancel);
  bench_deinit(&b);
}

/* ---- memory -------------------------------------------------------------- */

/* Whatever allocation fails, nothing is lost or comes twice, but for the rows
 * that an enqueue_many had put by then. */
static void test_starved(void **state) {
  (void)state;
  for (size_t k = 0; k < TD_COUNT(kinds); k++) {
    bench b;
    bench_init(&b, kinds[k], -1);
    net_starve(&b.w, b.q);
    net_starve(&b.w, putting(&b, 1));
    GIVES(&b, b.size, 1);
    OK(net_do(&b.w, PUT_MANY(&b, 1, 1, 1, 1)));
    net_starve(&b.w, taking(&b, b.many, 2));
    GIVES(&b, b.size, 3);
    net_starve(&b.w, taking(&b, b.up_to, 2));
    GIVES(&b, b.size, 1);
    net_starve(&b.w, b.take);
    GIVES(&b, b.size, 0);
    net_starve(&b.w, b.size);
    net_starve(&b.w, b.closed);
    net_starve(&b.w, PUT_MANY(&b, 1, 1, 1));
    net_starve(&b.w, b.close);
    GIVES(&b, b.closed, 1);
    bench_deinit(&b);
  }
}

/* In the order that would have been after a batch could not be made. */
static void test_starved_order(void **state) {
  (void)state;
  for (size_t k = 0; k < TD_COUNT(kinds); k++) {
    bench b, fed;
    td_tensor t, want;
    bench_init(&b, kinds[k], -1);
    bench_init(&fed, kinds[k], -1);
    OK(net_do(&b.w, PUT_MANY(&b, 1, 2, 3, 4)));
    OK(net_do(&fed.w, PUT_MANY(&fed, 1, 2, 3, 4)));
    OK(net_run(&fed.w, taking(&fed, fed.many, 4), &want));
    (void)taking(&b, b.many, 4);
    td_status *s = td_oom();
    for (int n = 1; s; n++) {
      td_status_release(s);
      td_mem_fail(n, false);
      s = net_run(&b.w, b.many, &t);
      td_mem_fail(0, false);
    }
    is(t, 4, want.data);
    td_tensor_release(&want);
    bench_deinit(&b);
    bench_deinit(&fed);
  }
}

static int threads(void) {
  int n = 0;
  DIR *dir = opendir("/proc/self/task");
  assert_non_null(dir);
  for (struct dirent *e; (e = readdir(dir));) n += e->d_name[0] != '.';
  closedir(dir);
  return n;
}

enum { CROWD = 1000 };

/* A thousand who wait hold no thread and, beside what a step of the test has,
 * less than a megabyte. */
static void test_crowd(void **state) {
  (void)state;
  bench b;
  net_job *j = td_calloc(CROWD, sizeof *j);
  bench_init(&b, "FIFOQueueV2", -1);
  put(&b, 1);
  GIVES(&b, b.take, 1);
  int before = threads(), io = td_io_threads();
  int64_t tasks = td_pool_read_stats().tasks;
  size_t bytes = mallinfo2().uordblks;
  for (int i = 0; i < CROWD; i++) net_begin(&b.w, b.take, &j[i]);
  bytes = mallinfo2().uordblks - bytes;
  assert_int_equal(threads(), before);
  assert_int_equal(td_io_threads(), io);
  assert_int_equal(td_pool_read_stats().tasks, tasks);
  print_message("%d who wait take %zu bytes each\n", CROWD, bytes / CROWD);
  assert_true(bytes < 1 << 20);
  for (int i = 0; i < CROWD; i++) put(&b, i);
  for (int i = 0; i < CROWD; i++) {
    td_tensor t;
    OK(net_end(&j[i], &t));
    IS(t, i);
  }
  td_free(j);
  bench_deinit(&b);
}

/* Elements come from a device and go there; the queue is in host memory. Steps
 * share it by its container. */
static void test_device(void **state) {
  (void)state;
  net w;
  td_runtime *rt;
  td_session *s[2];
  td_runtime_options with = {.test_devices = 1};
  td_session_options first = {.first = "TEST", .verify = true};
  net_init(&w, 1);
  OK(td_runtime_new(&with, &rt));
  queue_spec spec = int_queue("FIFOQueueV2", 4);
  spec.container = "shared";
  spec.types[0] = TD_FLOAT32;
  td_edge q = queue(&w, spec), put, take;
  td_edge x = net_feed(&w, number(TD_FLOAT32, 0)), in[] = {x, x};
  td_edge twice = net_node(&w, "AddV2", in, 2, NULL, 0);
  OK(enqueue_node(w.graph, false, q, &twice, 1, &put));
  OK(dequeue_node(w.graph, q, NULL, false, spec.types, 1, &take));
  td_edge pair[] = {take, take};
  td_edge y = net_node(&w, "AddV2", pair, 2, NULL, 0);
  td_signature puts = {.feeds = &x,
                       .n_feeds = 1,
                       .targets = &put.node,
                       .n_targets = 1},
               takes = {.fetches = &y, .n_fetches = 1};
  for (int i = 0; i < 2; i++) OK(td_session_new(rt, w.graph, &first, &s[i]));
  for (int i = 1; i <= 4; i++) {
    td_tensor t = number(TD_FLOAT32, i);
    OK(td_session_run(s[0], &puts, &t, NULL, NULL));
    td_tensor_release(&t);
  }
  td_step_options soon = {.timeout = 20000000};
  td_tensor late = number(TD_FLOAT32, 5);
  FAILS(td_session_run(s[0], &puts, &late, NULL, &soon), TD_DEADLINE_EXCEEDED,
        "");
  td_tensor_release(&late);
  for (int i = 1; i <= 4; i++) {
    td_tensor t;
    OK(td_session_run(s[1], &takes, NULL, &t, NULL));
    IS(t, 4 * i);
  }
  FAILS(td_session_run(s[1], &takes, NULL, &late, &soon), TD_DEADLINE_EXCEEDED,
        "");
  for (int i = 0; i < 2; i++) td_session_release(s[i]);
  td_runtime_release(rt);
  net_deinit(&w);
}

/* What a waiting step is told to wait for. */
static void test_why(void **state) {
  (void)state;
  bench b;
  net_job take, puts;
  td_str s;
  bench_init(&b, "FIFOQueueV2", 1);
  td_str_init(&s);
  net_begin(&b.w, b.take, &take);
  td_kernel_why(&take.ctx, &s);
  assert_string_equal(s.at, "queue q: 0 of 1 elements, 1 dequeues wait; "
                            "nothing has enqueued yet");
  put(&b, 1);
  OK(net_end(&take, NULL));
  put(&b, 1);
  net_begin(&b.w, putting(&b, 2), &puts);
  td_str_clear(&s);
  td_kernel_why(&puts.ctx, &s);
  assert_string_equal(s.at, "room in queue q: 1 of 1 elements, 1 enqueues "
                            "wait, 0 dequeues");
  GIVES(&b, b.take, 1);
  OK(net_end(&puts, NULL));
  td_str_deinit(&s);
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fifo),
      cmocka_unit_test(test_priority),
      cmocka_unit_test(test_shuffle),
      cmocka_unit_test(test_shuffle_copies),
      cmocka_unit_test(test_min_after_dequeue),
      cmocka_unit_test(test_room),
      cmocka_unit_test(test_more_than_capacity),
      cmocka_unit_test(test_nothing),
      cmocka_unit_test(test_cancel),
      cmocka_unit_test(test_cancel_early_and_late),
      cmocka_unit_test(test_close),
      cmocka_unit_test(test_close_with_cancel),
      cmocka_unit_test(test_fail),
      cmocka_unit_test(test_reset),
      cmocka_unit_test(test_padding),
      cmocka_unit_test(test_strings),
      cmocka_unit_test(test_large),
      cmocka_unit_test(test_wrong_queues),
      cmocka_unit_test(test_wrong_shuffle),
      cmocka_unit_test(test_wrong_components),
      cmocka_unit_test(test_without_shapes),
      cmocka_unit_test(test_ragged_batch),
      cmocka_unit_test(test_cancelled_batch),
      cmocka_unit_test(test_starved),
      cmocka_unit_test(test_starved_order),
      cmocka_unit_test(test_crowd),
      cmocka_unit_test(test_device),
      cmocka_unit_test(test_why),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
