/* batcher.c - batches from the input thread: order, bounds, leaving, faults.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <string.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/io/batcher.h"

enum { ROWS = 23 };

/* Column 0: the row's number; column 1: bytes, read as float32 of half. */
static void make_columns(td_batch_column c[2]) {
  td_shape shape = td_shape_vector(ROWS);
  memset(c, 0, 2 * sizeof *c);
  assert_null(td_tensor_new(NULL, TD_INT64, &shape, &c[0].rows));
  shape = td_shape_matrix(ROWS, 3);
  assert_null(td_tensor_new(NULL, TD_UINT8, &shape, &c[1].rows));
  for (int i = 0; i < ROWS; i++) td_tensor_set_i(&c[0].rows, i, i);
  for (int i = 0; i < 3 * ROWS; i++) td_tensor_set_i(&c[1].rows, i, i / 3);
  c[1].scale = 0.5f;
}

static void release_columns(td_batch_column c[2]) {
  td_tensor_release(&c[0].rows);
  td_tensor_release(&c[1].rows);
}

/* All row numbers in their order, up to `cap`; checks what holds for every
 * batch. */
static int collect(td_batcher *b, int64_t size, int64_t *rows, int cap) {
  int n = 0;
  int64_t step = 0;
  for (;;) {
    td_tensor out[2];
    td_batch_place place;
    bool done;
    assert_null(td_batcher_next(b, NULL, out, &place, &done));
    if (done) return n;
    assert_int_equal(place.step, ++step);
    assert_true(out[0].shape.dim[0] <= size);
    assert_int_equal(out[1].dtype, TD_FLOAT32);
    for (int64_t i = 0; i < out[0].shape.dim[0]; i++) {
      int64_t row = td_tensor_get_i(&out[0], i);
      assert_true(td_tensor_get_f(&out[1], 3 * i + 2) == (double)row * 0.5);
      if (n < cap) rows[n++] = row;
    }
    td_tensor_release(&out[0]);
    td_tensor_release(&out[1]);
  }
}

static void test_shards(void **state) {
  td_batch_column c[2];
  int seen[ROWS] = {0};
  (void)state;
  make_columns(c);
  for (int k = 0; k < 4; k++) {
    td_batcher *b;
    int64_t rows[4 * ROWS];
    td_batch_options o = {.size = 4, .epochs = 2, .first = k, .step = 4};
    assert_null(td_batcher_new(c, 2, &o, &b));
    int n = collect(b, 4, rows, 4 * ROWS);
    assert_int_equal(n, 2 * ((ROWS - 1 - k) / 4 + 1));
    for (int i = 0; i < n; i++) seen[rows[i]]++;
    td_batcher_release(b);
  }
  for (int i = 0; i < ROWS; i++) assert_int_equal(seen[i], 2);
  release_columns(c);
}

/* The same seed, the same order; every epoch all rows, in another order. */
static void test_shuffle(void **state) {
  td_batch_column c[2];
  int64_t rows[3][2 * ROWS];
  (void)state;
  make_columns(c);
  for (int k = 0; k < 3; k++) {
    td_batcher *b;
    td_batch_options o = {.size = 5,
                          .epochs = 2,
                          .step = 1,
                          .shuffle = true,
                          .seed = k < 2 ? 42 : 43};
    assert_null(td_batcher_new(c, 2, &o, &b));
    assert_int_equal(td_batcher_per_epoch(b), 5);
    assert_int_equal(collect(b, 5, rows[k], 2 * ROWS), 2 * ROWS);
    td_batcher_release(b);
  }
  assert_memory_equal(rows[0], rows[1], sizeof rows[0]);
  assert_memory_not_equal(rows[0], rows[2], sizeof rows[0]);
  assert_memory_not_equal(rows[0], rows[0] + ROWS, ROWS * sizeof(int64_t));
  for (int epoch = 0; epoch < 2; epoch++) {
    int64_t sum = 0;
    for (int i = 0; i < ROWS; i++) sum += rows[0][epoch * ROWS + i];
    assert_int_equal(sum, ROWS * (ROWS - 1) / 2);
  }
  release_columns(c);
}

/* Behind each number of batches it goes on as if they had been given. */
static void test_given(void **state) {
  enum { ALL = 15 };
  td_batch_column c[2];
  (void)state;
  make_columns(c);
  for (int shuffled = 0; shuffled < 2; shuffled++) {
    td_batch_options o = {
        .size = 5, .epochs = 3, .step = 1, .shuffle = shuffled, .seed = 7};
    int64_t want[ALL][5], epoch[ALL];
    for (int given = 0; given <= ALL + 1; given++) {
      td_batcher *b;
      td_tensor out[2];
      td_batch_place place;
      bool done = false;
      o.given = given;
      assert_null(td_batcher_new(c, 2, &o, &b));
      for (int i = given; i < ALL; i++) {
        assert_null(td_batcher_next(b, NULL, out, &place, &done));
        assert_false(done);
        int n = (int)out[0].shape.dim[0];
        if (given == 0) epoch[i] = place.epoch;
        if (given == 0) memcpy(want[i], out[0].data, (size_t)n * 8);
        assert_memory_equal(want[i], out[0].data, (size_t)n * 8);
        assert_int_equal(place.step, i + 1);
        assert_int_equal(place.epoch, epoch[i]);
        td_tensor_release(&out[0]);
        td_tensor_release(&out[1]);
      }
      assert_null(td_batcher_next(b, NULL, out, &place, &done));
      assert_true(done);
      td_batcher_release(b);
    }
  }
  release_columns(c);
}

/* Allocations until the second batch, and what is made behind it, is there: at
 * least `least`. */
static int64_t allocations_ahead(size_t bound, int64_t least) {
  td_batch_column c[2];
  td_batcher *b;
  td_tensor out[2];
  td_batch_place place;
  bool done;
  make_columns(c);
  int64_t before = td_mem_calls();
  td_batch_options o = {.size = 2, .epochs = 1, .step = 1, .bound = bound};
  assert_null(td_batcher_new(c, 2, &o, &b));
  assert_null(td_batcher_next(b, NULL, out, &place, &done));
  td_tensor_release(&out[0]);
  td_tensor_release(&out[1]);
  for (int i = 0; i < 5 || (i < 500 && td_mem_calls() - before < least); i++)
    usleep(20000);
  int64_t calls = td_mem_calls() - before;
  int64_t rows[ROWS];
  for (int k = 1; k < 12; k++) {
    assert_null(td_batcher_next(b, NULL, out, &place, &done));
    rows[k] = td_tensor_get_i(&out[0], 0);
    assert_int_equal(rows[k], 2 * k);
    td_tensor_release(&out[0]);
    td_tensor_release(&out[1]);
  }
  td_batcher_release(b);
  release_columns(c);
  return calls;
}

/* Of batches over the bound only one is kept ready. */
static void test_bytes_ahead(void **state) {
  (void)state;
  int64_t one = allocations_ahead(1, 0);
  int64_t two = allocations_ahead(1 << 20, one + 1);
  assert_true(two > one);
}

/* Readers leave before the first batch, in between, and at the end. */
static void test_leave(void **state) {
  td_batch_column c[2];
  (void)state;
  make_columns(c);
  for (int k = 0; k < 60; k++) {
    td_batcher *b;
    td_batch_options o = {.size = 7, .epochs = k % 2 ? -1 : 1, .step = 1};
    assert_null(td_batcher_new(c, 2, &o, &b));
    for (int i = 0; i < k % 6; i++) {
      td_tensor out[2];
      td_batch_place place;
      bool done = false;
      assert_null(td_batcher_next(b, NULL, out, &place, &done));
      if (done) break;
      td_tensor_release(&out[0]);
      td_tensor_release(&out[1]);
    }
    td_batcher_release(b);
  }
  release_columns(c);
}

static void test_refused(void **state) {
  td_batch_column c[2];
  (void)state;
  make_columns(c);
  const struct {
    td_batch_options o;
    const char *part;
  } rows[] = {
      {{.size = 0, .step = 1}, "at least one row"},
      {{.size = 1, .step = 0}, "part k of n"},
      {{.size = 1, .step = 2, .first = 2}, "part k of n"},
      {{.size = 1, .step = 2, .first = -1}, "part k of n"},
      {{.size = 1, .step = 1, .given = -1}, "cannot have been given"},
  };
  td_batcher *b;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_status *s = td_batcher_new(c, 2, &rows[i].o, &b);
    assert_non_null(s);
    assert_non_null(strstr(td_status_message(s), rows[i].part));
    td_status_release(s);
  }
  td_batch_options o = {.size = 1, .epochs = 1, .step = 1};
  c[0].scale = 1;
  td_status *s = td_batcher_new(c, 2, &o, &b);
  assert_non_null(strstr(td_status_message(s), "only uint8"));
  td_status_release(s);
  release_columns(c);
}

/* Whichever allocation fails, the reader is told and nothing stays. */
static void test_no_memory(void **state) {
  td_batch_column c[2];
  td_batch_options o = {.size = 5, .epochs = 1, .step = 1};
  (void)state;
  make_columns(c);
  for (int nth = 1; nth < 60; nth++) { /* 10 while making, 4 for a batch */
    td_batcher *b = NULL;
    bool done = false, whole = false;
    td_mem_fail(nth, false);
    td_status *s = td_batcher_new(c, 2, &o, &b);
    while (td_ok(s) && !done) {
      td_tensor out[2];
      td_batch_place place;
      s = td_batcher_next(b, NULL, out, &place, &done);
      if (!td_ok(s) || done) break;
      whole = place.step == 5;
      td_tensor_release(&out[0]);
      td_tensor_release(&out[1]);
    }
    td_mem_fail(0, false);
    assert_true(whole || !td_ok(s));
    if (!td_ok(s)) assert_int_equal(td_status_code(s), TD_RESOURCE_EXHAUSTED);
    td_status_release(s);
    td_batcher_release(b);
  }
  release_columns(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_shards),    cmocka_unit_test(test_shuffle),
      cmocka_unit_test(test_given),     cmocka_unit_test(test_bytes_ahead),
      cmocka_unit_test(test_leave),     cmocka_unit_test(test_refused),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
