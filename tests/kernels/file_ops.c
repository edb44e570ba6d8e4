/* file_ops.c - reading, writing and finding files: when files fail, memory runs
 * out, steps are cancelled; RecordInput too. What they give is in
 * tests/lua/readers.lua.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/file_fault.h"
#include "engine/io/record.h"
#include "tests/engine/base/mem_files.h"
#include "tests/kernels/net.h"

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

static void test_cancelled_while_a_thread_reads(void **state) {
  (void)state;
  td_str dir = {0}, path = {0};
  OK(td_file_temp_dir(80, &dir));
  td_str_addf(&path, "%s/p", td_str_c(&dir));
  assert_int_equal(mkfifo(path.at, 0600), 0);
  int fd = open(path.at, O_RDWR);
  net n;
  net_init(&n, 1);
  td_edge e = op(&n, "ReadFile", path.at, NULL);
  net_wait wait = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                   .cond = PTHREAD_COND_INITIALIZER};
  td_kernel k;
  td_tensor in, out = {.dtype = TD_INVALID};
  OK(td_kernel_init(&k, e.node, n.device, n.states));
  OK(net_run(&n, e.node->in[0], &in));
  td_kernel_ctx c = {.kernel = &k,
                     .step = &n.step,
                     .in = &in,
                     .out = &out,
                     .n_in = 1,
                     .n_out = 1,
                     .done = net_done,
                     .owner = &wait};
  k.def->start(&c);
  td_str text_ = {0};
  k.def->why(&c, &text_);
  assert_string_equal(td_str_c(&text_), "a thread that reads a file");
  td_str_deinit(&text_);
  td_cancel_fire(n.cancel, NULL);
  k.def->cancel(&c);
  assert_true(wait.over);
  FAILS(wait.status, TD_CANCELLED, "");
  k.def->cancel(&c); /* again: nothing */
  wait.over = false;
  k.def->start(&c); /* in a step that is stopped */
  assert_true(wait.over);
  FAILS(wait.status, TD_CANCELLED, "");
  td_tensor_release(&in);
  td_kernel_deinit(&k);
  net_deinit(&n);
  assert_int_equal(write(fd, "x", 1), 1);
  close(fd);
  usleep(50000); /* the errand ends by itself */
  unlink(path.at);
  rmdir(dir.at);
  td_str_deinit(&path);
  td_str_deinit(&dir);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_files_of_a_file_system),
      cmocka_unit_test(test_no_memory),
      cmocka_unit_test(test_files_fail),
      cmocka_unit_test(test_record_input_loses_nothing),
      cmocka_unit_test(test_cancelled_while_a_thread_reads),
  };
  td_status_release(td_file_system_register(&mem_file_system));
  return cmocka_run_group_tests(tests, NULL, NULL);
}
