/* file_ops.c - reading, writing and finding files: when files fail, memory runs
 * out, steps are cancelled; RecordInput too. What they give is in
 * tests/lua/readers.lua.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <stdio.h>

#include "engine/base/file.h"
#include "engine/base/file_fault.h"
#include "engine/base/io_threads.h"
#include "engine/io/record.h"
#include "tests/engine/base/mem_files.h"
#include "tests/engine/base/pipes.h"
#include "tests/kernels/waiting.h"

static td_tensor text(const char *s) {
  td_tensor t;
  td_shape scalar = td_shape_scalar();
  size_t len = strlen(s);
  OK(td_tensor_strings(&scalar, &s, &len, &t));
  return t;
}

static td_edge op(net *n, const char *type, const char *a, const char *b) {
  td_edge in[2] = {net_feed(n, text(a))};
  if (b) in[1] = net_feed(n, text(b));
  return net_node(n, type, in, b ? 2 : 1, NULL, 0);
}

/* All strings of the value, each with a bar. */
static void expect(net *n, td_edge e, const char *want) {
  char all[256] = "";
  td_tensor t;
  OK(net_run(n, e, &t));
  for (int64_t i = 0; i < td_tensor_count(&t); i++) {
    size_t len;
    const char *at = td_tensor_str(&t, i, &len);
    snprintf(all + strlen(all), sizeof all - strlen(all), "%.*s|", (int)len,
             at);
  }
  td_tensor_release(&t);
  assert_string_equal(all, want);
}

static void test_files_of_a_file_system(void **state) {
  (void)state;
  net n;
  net_init(&n, 1);
  OK(net_do(&n, op(&n, "WriteFile", "mem://b", "moon")));
  OK(net_do(&n, op(&n, "WriteFile", "mem://a", "tide")));
  expect(&n, op(&n, "ReadFile", "mem://b", NULL), "moon|");
  expect(&n, op(&n, "MatchingFiles", "mem://*", NULL), "mem://a|mem://b|");
  expect(&n, op(&n, "MatchingFiles", "mem://[b-z]", NULL), "mem://b|");
  expect(&n, op(&n, "MatchingFiles", "mem://a", NULL), "mem://a|");
  expect(&n, op(&n, "MatchingFiles", "mem://c", NULL), "");
  net_deinit(&n);
  mem_files_clear();
}

static void test_no_memory(void **state) {
  (void)state;
  net n;
  net_init(&n, 1);
  net_starve(&n, op(&n, "WriteFile", "mem://b", "moon"));
  net_starve(&n, op(&n, "ReadFile", "mem://b", NULL));
  net_starve(&n, op(&n, "MatchingFiles", "mem://*", NULL));
  net_deinit(&n);
  mem_files_clear();
}

static void test_files_fail(void **state) {
  (void)state;
  net n;
  net_init(&n, 1);
  td_edge write = op(&n, "WriteFile", "mem://b", "moon");
  td_edge read = op(&n, "ReadFile", "mem://b", NULL);
  OK(net_do(&n, write));
  for (int k = 0; k < 2; k++)
    for (int nth = 1; nth < 3; nth++) {
      td_file_fail(nth, false);
      td_status *s = net_do(&n, k ? write : read);
      td_file_fail(0, false);
      FAILS(s, TD_UNAVAILABLE, "mem://");
    }
  expect(&n, read, "moon|");
  net_deinit(&n);
  mem_files_clear();
}

/* ---- RecordInput --------------------------------------------------------- */

static td_edge record_input(net *n) {
  td_note attrs[] = {{"file_pattern", td_attr_string("mem://r*")},
                     {"batch_size", td_attr_int(4)},
                     {"file_buffer_size", td_attr_int(3)},
                     {"file_parallelism", td_attr_int(2)}};
  return net_node(n, "RecordInput", NULL, 0, attrs, 4);
}

static void write_records(void) {
  for (int i = 0; i < 3; i++) {
    td_record_writer *w;
    char path[32];
    snprintf(path, sizeof path, "mem://r%d", i);
    OK(td_record_writer_open(path, "", &w));
    for (int k = 0; k < 4; k++) {
      char rec = (char)('a' + i * 4 + k);
      OK(td_record_write(w, &rec, 1));
    }
    OK(td_record_writer_close(w));
  }
}

static void draw_batch(net *n, td_edge e, int *seen, int *refused) {
  for (;;) {
    td_tensor t;
    td_status *s = net_run(n, e, &t);
    if (!td_ok(s)) {
      td_code code = td_status_code(s);
      assert_true(code == TD_UNAVAILABLE || code == TD_RESOURCE_EXHAUSTED);
      td_status_release(s);
      ++*refused;
      td_mem_fail(0, false);
      continue;
    }
    for (int64_t i = 0; i < 4; i++) {
      size_t len;
      const char *at = td_tensor_str(&t, i, &len);
      assert_int_equal(len, 1);
      seen[*at - 'a']++;
    }
    td_tensor_release(&t);
    return;
  }
}

/* Whatever fails on the way, an epoch has every record once. */
static void test_record_input_loses_nothing(void **state) {
  (void)state;
  int refused = 0;
  for (int kind = 0; kind < 2; kind++)
    for (int nth = 1; nth < 30; nth++) {
      int seen[12] = {0};
      net n;
      net_init(&n, 1);
      write_records();
      td_edge e = record_input(&n);
      if (kind)
        td_file_fail(nth, false);
      else
        td_mem_fail(nth, false);
      for (int i = 0; i < 3; i++) draw_batch(&n, e, seen, &refused);
      td_file_fail(0, false);
      td_mem_fail(0, false);
      for (int i = 0; i < 12; i++) assert_int_equal(seen[i], 1);
      net_deinit(&n);
      mem_files_clear();
    }
  assert_true(refused >= 20);
}

/* ---- cancelling ---------------------------------------------------------- */

/* The thread that reads the pipe lets go of it at once, time after time. */
static void test_cancelled_while_a_thread_reads(void **state) {
  (void)state;
  fifo p;
  net n;
  fifo_init(&p);
  net_init(&n, 1);
  td_edge e = op(&n, "ReadFile", p.path, NULL);
  int before = fifo_descriptors();
  for (int i = 0; i < 3 * TD_IO_THREADS; i++) {
    waiting w;
    waiting_start(&w, &n, e);
    waiting_why(&w, "a thread that reads '");
    waiting_why(&w, p.path);
    if (i % 4) usleep(1000);
    waiting_cancel(&w);
    assert_true(waiting_over(&w));
    waiting_cancel(&w); /* again: nothing */
    FAILS(waiting_end(&w), TD_CANCELLED, "");
    waiting_drop(&w);
    if (i % 4 == 3) fifo_let_go(before);
  }
  fifo_let_go(before);
  td_edge other = op(&n, "WriteFile", "mem://b", "moon");
  OK(net_do(&n, other));
  net_deinit(&n);
  fifo_deinit(&p);
  mem_files_clear();
}

static void test_in_a_step_that_is_stopped(void **state) {
  (void)state;
  fifo p;
  net n;
  waiting w;
  fifo_init(&p);
  net_init(&n, 1);
  td_edge e = op(&n, "ReadFile", p.path, NULL);
  td_cancel_fire(n.cancel, NULL);
  waiting_start(&w, &n, e);
  assert_true(waiting_over(&w));
  FAILS(waiting_end(&w), TD_CANCELLED, "");
  waiting_drop(&w);
  net_deinit(&n);
  fifo_deinit(&p);
}

/* A draw that waits for one of its files ends, too, and others may follow. */
static void test_record_input_from_a_pipe(void **state) {
  (void)state;
  fifo p;
  net n;
  fifo_init(&p);
  net_init(&n, 1);
  td_note attrs[] = {{"file_pattern", td_attr_string(p.path)},
                     {"batch_size", td_attr_int(4)}};
  td_edge e = net_node(&n, "RecordInput", NULL, 0, attrs, 2);
  int before = fifo_descriptors();
  for (int i = 0; i < 4; i++) {
    waiting w;
    waiting_start(&w, &n, e);
    waiting_why(&w, p.path);
    usleep(10000);
    waiting_cancel(&w);
    FAILS(waiting_end(&w), TD_CANCELLED, "");
    waiting_drop(&w);
  }
  net_deinit(&n);
  fifo_let_go(before);
  fifo_deinit(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_files_of_a_file_system),
      cmocka_unit_test(test_no_memory),
      cmocka_unit_test(test_files_fail),
      cmocka_unit_test(test_record_input_loses_nothing),
      cmocka_unit_test(test_cancelled_while_a_thread_reads),
      cmocka_unit_test(test_in_a_step_that_is_stopped),
      cmocka_unit_test(test_record_input_from_a_pipe),
  };
  td_status_release(td_file_system_register(&mem_file_system));
  return cmocka_run_group_tests(tests, NULL, NULL);
}
