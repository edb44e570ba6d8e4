/* variable.c - shares, copies and modes of variables, on CPU and test device.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/device_test.h"
#include "tests/engine/device/run_node.h"

static td_device *devices[2]; /* CPU, TEST */

#define FOR_DEVICES(d)                                                         \
  for (size_t d##_ = 0; d##_ < TD_COUNT(devices); d##_++)                      \
    for (td_device *d = devices[d##_]; d; d = NULL)

/* ---- nodes on a variable ------------------------------------------------- */

typedef struct bench {
  td_device *device;
  td_graph *graph;
  td_variable *v;
  td_tensor handle;
  td_step step;
} bench;

static bench bench_new(td_device *d, td_dtype dtype, td_shape shape) {
  bench b = {.device = d, .step = step_new()};
  OK(td_graph_new(&b.graph));
  OK(td_variable_new(dtype, &shape, &b.v));
  b.v->base.name = td_strdup("W");
  b.handle = handle_of(b.v);
  return b;
}

static void bench_end(bench *b) {
  assert_int_equal(b->v->base.lock.state, 0);
  td_tensor_release(&b->handle);
  assert_int_equal(b->v->base.object.refs, 1);
  td_object_release(&b->v->base.object);
  step_end(&b->step);
  td_graph_release(b->graph);
}

/* Runs `op` on the variable; takes `x`, which may be invalid: no operand. */
static td_status *on(bench *b, const char *op, td_tensor x, td_tensor *out) {
  td_tensor in[] = {b->handle, x};
  td_dtype types[] = {TD_RESOURCE, x.dtype};
  td_node *n = node_of(b->graph, op, types, td_tensor_valid(&x) ? 2 : 1);
  td_status *s = run_node(n, b->device, &b->step, in, out);
  td_tensor_release(&x);
  return s;
}

static void set(bench *b, td_tensor x) {
  OK(on(b, "TestSet", x, NULL));
}

static void update(bench *b, const char *op, float by) {
  OK(on(b, op, floats(-1, &by), NULL));
}

/* The first element, as TestRead (or TestPeek) gives it. */
static float read_with(bench *b, const char *op) {
  td_tensor y;
  OK(on(b, op, (td_tensor){0}, &y));
  float v = (float)td_tensor_get_f(&y, 0);
  td_tensor_release(&y);
  return v;
}

static int64_t copied_on_write(void) {
  return td_variable_read_stats().copied_on_write;
}
static int64_t copied_on_read(void) {
  return td_variable_read_stats().copied_on_read;
}

/* ---- errors -------------------------------------------------------------- */

static void test_errors(void **state) {
  (void)state;
  FOR_DEVICES(d) {
    bench b = bench_new(d, TD_FLOAT32, td_shape_vector(2));
    td_tensor y, none = {0}, wrong = FLOATS(1);
    const char *advice =
        "variable W is not initialised: run sess:init() or its initializer";
    FAILS(on(&b, "TestRead", none, &y), TD_FAILED_PRECONDITION, advice);
    FAILS(on(&b, "TestPeek", none, &y), TD_NOT_FOUND, advice);
    FAILS(on(&b, "TestUpdate", FLOATS(1), NULL), TD_NOT_FOUND, advice);
    FAILS(on(&b, "TestSet", FLOATS(1, 2, 3), NULL), TD_INVALID_ARGUMENT,
          "variable W has shape {2} and cannot hold a value of shape "
          "{3}");
    FAILS(on(&b, "TestSetText", text("x"), NULL), TD_INVALID_ARGUMENT,
          "variable W holds float32 and cannot be given string");
    td_tensor_release(&wrong);
    bench_end(&b);
  }
}

/* Two nodes may name one variable and be on two devices: no kernel follows a
 * pointer of the other device's. */
static void test_memory_of_another_device(void **state) {
  (void)state;
  td_tensor y, none = {0};
  bench b = bench_new(devices[1], TD_FLOAT32, td_shape_vector(2));
  set(&b, FLOATS(1, 2));
  b.device = devices[0];
  FAILS(on(&b, "TestRead", none, &y), TD_FAILED_PRECONDITION,
        "cannot be used on");
  FAILS(on(&b, "TestUpdate", FLOATS(1, 1), NULL), TD_FAILED_PRECONDITION,
        "place what uses it there");
  set(&b, FLOATS(5, 6)); /* it moves */
  assert_true(read_with(&b, "TestRead") == 5);
  bench_end(&b);
}

static void no_free(td_object *o) {
  (void)o;
}

static void test_another_kind_of_handle(void **state) {
  td_resource other = {
      .object = {.refs = 1, .type = "queue", .free = no_free, .named = true}};
  bench b = bench_new(devices[0], TD_FLOAT32, td_shape_vector(1));
  td_tensor real = b.handle, y;
  (void)state;
  td_object_retain(&other.object);
  OK(td_tensor_object(TD_RESOURCE, &other.object, &b.handle));
  FAILS(on(&b, "TestRead", (td_tensor){0}, &y), TD_INVALID_ARGUMENT,
        "must be the handle of a variable, not of a queue");
  td_tensor_release(&b.handle);
  b.handle = real;
  bench_end(&b);
}

/* ---- assigning ----------------------------------------------------------- */

/* On a host device a fresh value is taken over without a copy; what will never
 * be the variable's own is copied. */
static void test_assign_shares_when_safe(void **state) {
  (void)state;
  for (int how = 0; how < 4; how++) {
    bench b = bench_new(devices[0], TD_FLOAT32, td_shape_vector(-1));
    td_tensor x = FLOATS(1, 2, 3, 4, 5, 6, 7, 8), view;
    td_buffer *buffer = x.buffer;
    static float foreign[8] = {1};
    if (how == 1) buffer->readonly = true;
    if (how == 2) {
      OK(td_tensor_rows(&x, 0, 2, &view));
      td_tensor_release(&x);
      x = view;
    }
    if (how == 3) {
      td_tensor_release(&x);
      OK(td_buffer_wrap(foreign, sizeof foreign, NULL, NULL, &buffer));
      x = (td_tensor){.dtype = TD_FLOAT32,
                      .shape = td_shape_vector(8),
                      .buffer = buffer,
                      .data = foreign};
    }
    td_buffer_retain(buffer);
    set(&b, x);
    assert_int_equal(b.v->value.buffer == buffer, how == 0);
    td_buffer_release(buffer);
    int64_t before = copied_on_write();
    update(&b, "TestUpdate", 1);
    assert_int_equal(copied_on_write(), before); /* it is its own by now */
    assert_true(read_with(&b, "TestRead") == 2);
    bench_end(&b);
  }
}

static void test_text(void **state) {
  (void)state;
  FOR_DEVICES(d) {
    bench b = bench_new(d, TD_STRING, td_shape_scalar());
    OK(on(&b, "TestSetText", text("moon"), NULL));
    size_t len;
    const char *s = td_tensor_str(&b.v->value, 0, &len);
    assert_int_equal(len, 4);
    assert_memory_equal(s, "moon", 4);
    bench_end(&b);
  }
}

/* What cannot be shared is copied, the second time of a size into the buffer
 * that is there, whose stamp tells. */
static void test_overwrite(void **state) {
  (void)state;
  bench b = bench_new(devices[0], TD_FLOAT32, td_shape_vector(-1));
  td_buffer *first = NULL;
  uint64_t stamp = 0;
  for (int i = 0; i < 3; i++) {
    td_tensor x = i < 2 ? FLOATS(1, 2) : FLOATS(1, 2, 3);
    x.buffer->readonly = true;
    set(&b, x);
    const td_buffer *now = b.v->value.buffer;
    if (i == 1) assert_ptr_equal(now, first);
    assert_true(now->stamp != stamp);
    first = b.v->value.buffer;
    stamp = now->stamp;
  }
  assert_int_equal(td_tensor_count(&b.v->value), 3);
  bench_end(&b);
}

/* A partly declared shape takes values of several sizes. */
static void test_sizes(void **state) {
  (void)state;
  FOR_DEVICES(d) {
    bench b = bench_new(d, TD_FLOAT32, td_shape_vector(-1));
    OK(on(&b, "TestSet", FLOATS(1, 2), NULL));
    assert_true(read_with(&b, "TestRead") == 1);
    OK(on(&b, "TestSet", FLOATS(5, 6, 7), NULL));
    assert_int_equal(td_tensor_count(&b.v->value), 3);
    assert_true(read_with(&b, "TestRead") == 5);
    bench_end(&b);
  }
}

/* ---- reading and writing ------------------------------------------------- */

/* The value a reader holds does not change under it. */
static void test_copy_on_write(void **state) {
  (void)state;
  FOR_DEVICES(d) {
    bench b = bench_new(d, TD_FLOAT32, td_shape_vector(3));
    set(&b, FLOATS(1, 2, 3));
    int64_t before = copied_on_write();
    update(&b, "TestUpdate", 1);
    assert_int_equal(copied_on_write(), before);
    td_tensor held;
    td_tensor_retain(&b.v->value, &held);
    update(&b, "TestUpdate", 1);
    assert_int_equal(copied_on_write(), before + 12);
    update(&b, "TestUpdate", 1);
    assert_int_equal(copied_on_write(), before + 12); /* once */
    td_tensor old;
    OK(td_device_transfer_wait(d, &held, d->host, &old));
    assert_true(td_tensor_get_f(&old, 0) == 2);
    assert_true(read_with(&b, "TestRead") == 4);
    td_tensor_release(&old);
    td_tensor_release(&held);
    bench_end(&b);
  }
}

/* In memory that cannot be touched it is the device that copies; when it
 * cannot, the value is as it was. */
static void test_the_device_copies(void **state) {
  td_device *d = devices[1];
  td_fault *door = &td_device_test_doors(d)->copy;
  td_tensor held, y;
  (void)state;
  bench b = bench_new(d, TD_FLOAT32, td_shape_vector(3));
  set(&b, FLOATS(1, 2, 3));
  td_node *n = NODE(b.graph, "TestUpdate", TD_RESOURCE, TD_FLOAT32);
  td_tensor in[] = {b.handle, FLOATS(1)};
  for (int nth = 2; nth < 4; nth++) { /* the first brings the operand */
    td_tensor_retain(&b.v->value, &held);
    int64_t before = td_fault_calls(door);
    td_fault_arm(door, nth, false);
    td_status *s = run_node(n, d, &b.step, in, NULL);
    td_fault_arm(door, 0, false);
    assert_int_equal(td_fault_calls(door), before + 2);
    if (nth == 2)
      FAILS(s, TD_UNAVAILABLE, "a copy failed");
    else
      OK(s);
    td_tensor_release(&held);
    assert_true(read_with(&b, "TestRead") == nth - 1);
  }
  update(&b, "TestRows", 1); /* from now on reads copy */
  td_fault_arm(door, 1, false);
  FAILS(on(&b, "TestRead", (td_tensor){0}, &y), TD_UNAVAILABLE,
        "a copy failed");
  assert_true(read_with(&b, "TestRead") == 3);
  td_tensor_release(&in[1]);
  bench_end(&b);
}

/* Once rows are touched, reads copy and updates stay in place. */
static void test_sparse_mode(void **state) {
  (void)state;
  FOR_DEVICES(d) {
    bench b = bench_new(d, TD_FLOAT32, td_shape_vector(3));
    set(&b, FLOATS(1, 2, 3));
    assert_false(b.v->sparse);
    update(&b, "TestRows", 1);
    assert_true(b.v->sparse);
    int64_t writes = copied_on_write(), reads = copied_on_read();
    td_buffer *buffer = b.v->value.buffer;
    td_tensor y;
    OK(on(&b, "TestRead", (td_tensor){0}, &y));
    assert_int_equal(copied_on_read(), reads + 12);
    assert_int_equal(buffer->refs, 1); /* the reader took no share */
    update(&b, "TestRows", 1);
    assert_true(read_with(&b, "TestPeek") == 3);
    assert_true(td_tensor_get_f(&y, 0) == 2);
    assert_ptr_equal(b.v->value.buffer, buffer);
    assert_int_equal(copied_on_write(), writes);
    assert_int_equal(copied_on_read(), reads + 12);
    td_tensor_release(&y);
    bench_end(&b);
  }
}

/* ---- readers beside a writer --------------------------------------------- */

enum { ROUNDS = 300, ELEMENTS = 1000 };

typedef struct reader {
  td_device *device;
  td_node *read;
  td_tensor handle;
  int32_t stop; /* atomic */
} reader;

/* All elements of the variable are equal at any time. */
static void *read_on(void *arg) {
  reader *r = arg;
  td_step step = step_new();
  while (!__atomic_load_n(&r->stop, __ATOMIC_ACQUIRE)) {
    td_tensor y;
    OK(run_node(r->read, r->device, &step, &r->handle, &y));
    for (int i = 1; i < ELEMENTS; i++)
      assert_true(td_tensor_get_f(&y, i) == td_tensor_get_f(&y, 0));
    td_tensor_release(&y);
  }
  step_end(&step);
  return NULL;
}

static void test_no_read_is_torn(void **state) {
  (void)state;
  for (int sparse = 0; sparse < 2; sparse++) {
    FOR_DEVICES(d) {
      static const float zeros[ELEMENTS];
      bench b = bench_new(d, TD_FLOAT32, td_shape_vector(ELEMENTS));
      set(&b, floats(ELEMENTS, zeros));
      const char *op = sparse ? "TestRows" : "TestUpdate";
      td_node *n = NODE(b.graph, op, TD_RESOURCE, TD_FLOAT32);
      reader r = {d, NODE(b.graph, "TestRead", TD_RESOURCE), b.handle, 0};
      td_tensor in[] = {b.handle, FLOATS(1)};
      pthread_t thread;
      assert_int_equal(pthread_create(&thread, NULL, read_on, &r), 0);
      for (int i = 0; i < ROUNDS; i++) OK(run_node(n, d, &b.step, in, NULL));
      __atomic_store_n(&r.stop, 1, __ATOMIC_RELEASE);
      pthread_join(thread, NULL);
      assert_true(read_with(&b, "TestRead") == ROUNDS);
      td_tensor_release(&in[1]);
      bench_end(&b);
    }
  }
}

static int begin(void **state) {
  register_node_ops(state);
  OK(td_device_cpu_new(PLACE, 0, 0, &devices[0]));
  OK(td_device_test_new(PLACE, 0, 1, NULL, &devices[1]));
  return 0;
}

static int end(void **state) {
  (void)state;
  FOR_DEVICES(d) td_device_release(d);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_errors),
      cmocka_unit_test(test_another_kind_of_handle),
      cmocka_unit_test(test_memory_of_another_device),
      cmocka_unit_test(test_assign_shares_when_safe),
      cmocka_unit_test(test_text),
      cmocka_unit_test(test_overwrite),
      cmocka_unit_test(test_sizes),
      cmocka_unit_test(test_copy_on_write),
      cmocka_unit_test(test_the_device_copies),
      cmocka_unit_test(test_sparse_mode),
      cmocka_unit_test(test_no_read_is_torn),
  };
  return cmocka_run_group_tests(tests, begin, end);
}
