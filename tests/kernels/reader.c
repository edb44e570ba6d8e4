/* reader.c - readers when steps are cancelled, files fail and memory runs out;
 * what they read is in tests/lua/readers.lua.
 *
 * Files are in memory (mem_files.h) but for a pipe. A read is started by hand,
 * so that many stand in line at once.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <stdio.h>

#include "engine/base/file_fault.h"
#include "engine/base/io_threads.h"
#include "kernels/reader_state.h"
#include "tests/engine/base/mem_files.h"
#include "tests/engine/base/pipes.h"
#include "tests/kernels/net.h"

/* ---- a queue, a reader, files -------------------------------------------- */

typedef struct world {
  net net;
  td_edge queue, reader, name, enqueue, read, state, produced;
} world;

static td_tensor text(const char *s) {
  td_tensor t;
  td_shape scalar = td_shape_scalar();
  size_t len = strlen(s);
  OK(td_tensor_strings(&scalar, &s, &len, &t));
  return t;
}

static td_tensor count(int64_t n) {
  td_tensor t;
  OK(td_tensor_scalar_i(TD_INT64, n, &t));
  return t;
}

/* Reads one record, or up to `most` when that is > 0. */
static void world_init(world *w, const char *kind, int64_t most) {
  static const td_dtype string = TD_STRING;
  net *n = &w->net;
  net_init(n, 1);
  td_note types[] = {{"component_types", td_attr_types(&string, 1)}};
  td_note in_types[] = {{"Tcomponents", td_attr_types(&string, 1)}};
  w->queue = net_node(n, "FIFOQueueV2", NULL, 0, types, 1);
  w->reader = net_node(n, kind, NULL, 0, NULL, 0);
  w->name = net_feed(n, text(""));
  td_edge put[] = {w->queue, w->name};
  w->enqueue = net_node(n, "QueueEnqueueV2", put, 2, in_types, 1);
  td_edge in[] = {w->reader, w->queue, w->reader};
  if (most > 0) in[2] = net_feed(n, count(most));
  w->read = net_node(n, most > 0 ? "ReaderReadUpToV2" : "ReaderReadV2", in,
                     most > 0 ? 3 : 2, NULL, 0);
  w->state = net_node(n, "ReaderSerializeStateV2", in, 1, NULL, 0);
  w->produced = net_node(n, "ReaderNumRecordsProducedV2", in, 1, NULL, 0);
}

static void world_deinit(world *w) {
  net_deinit(&w->net);
  mem_files_clear();
}

static void make_file(const char *path, const char *bytes) {
  td_file *f;
  OK(td_file_open(path, TD_FILE_WRITE, &f));
  OK(td_file_append(f, bytes, strlen(bytes)));
  OK(td_file_close(f));
}

static void put(world *w, const char *path) {
  net_refeed(&w->net, w->name, text(path));
  OK(net_do(&w->net, w->enqueue));
}

/* ---- a read that goes on meanwhile --------------------------------------- */

typedef struct reading {
  net_wait wait;
  td_cancel *cancel;
  td_step step;
  td_kernel kernel;
  td_tensor in[3], out[2];
  td_kernel_ctx ctx;
} reading;

static void prepare(world *w, reading *r) {
  *r = (reading){.wait = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                          .cond = PTHREAD_COND_INITIALIZER}};
  OK(td_cancel_new(&r->cancel));
  r->step = w->net.step;
  r->step.cancel = r->cancel;
  r->step.stop = td_cancel_flag(r->cancel);
  OK(td_kernel_init(&r->kernel, w->read.node, w->net.device, w->net.states));
  for (int i = 0; i < w->read.node->n_in; i++)
    OK(net_run(&w->net, w->read.node->in[i], &r->in[i]));
  r->ctx = (td_kernel_ctx){.kernel = &r->kernel,
                           .step = &r->step,
                           .in = r->in,
                           .out = r->out,
                           .n_in = w->read.node->n_in,
                           .n_out = 2,
                           .done = net_done,
                           .owner = &r->wait};
}

static void start(world *w, reading *r) {
  prepare(w, r);
  r->kernel.def->start(&r->ctx);
}

/* The cancel comes before. */
static void start_stopped(world *w, reading *r) {
  prepare(w, r);
  td_cancel_fire(r->cancel, NULL);
  r->kernel.def->cancel(&r->ctx);
  r->kernel.def->start(&r->ctx);
}

static void cancel(reading *r) {
  td_cancel_fire(r->cancel, NULL);
  r->kernel.def->cancel(&r->ctx);
}

/* The value, or "!code". */
static void wait_for(reading *r, char *value, size_t room) {
  pthread_mutex_lock(&r->wait.mutex);
  while (!r->wait.over) pthread_cond_wait(&r->wait.cond, &r->wait.mutex);
  pthread_mutex_unlock(&r->wait.mutex);
  if (td_ok(r->wait.status)) {
    size_t len;
    const char *at = td_tensor_str(&r->out[1], 0, &len);
    snprintf(value, room, "%.*s", (int)len, at);
  } else {
    snprintf(value, room, "!%d", td_status_code(r->wait.status));
  }
  td_status_release(r->wait.status);
  for (int i = 0; i < 3; i++) td_tensor_release(&r->in[i]);
  for (int i = 0; i < 2; i++) td_tensor_release(&r->out[i]);
  td_kernel_deinit(&r->kernel);
  td_cancel_release(r->cancel);
}

static void expect(world *w, const char *want) {
  char value[64];
  reading r;
  start(w, &r);
  wait_for(&r, value, sizeof value);
  assert_string_equal(value, want);
}

static const char *why(reading *r) {
  static char text_[256];
  td_str s = {0};
  r->kernel.def->why(&r->ctx, &s);
  snprintf(text_, sizeof text_, "%s", td_str_c(&s));
  td_str_deinit(&s);
  return text_;
}

/* ---- lines --------------------------------------------------------------- */

static void test_many_in_line(void **state) {
  (void)state;
  enum { N = 60 };
  static reading r[N];
  static bool seen[N];
  world w;
  world_init(&w, "TextLineReaderV2", 0);
  for (int i = 0; i < N; i++) start(&w, &r[i]);
  for (int i = 0; i < N / 6; i++) {
    char path[32], lines[64] = "";
    snprintf(path, sizeof path, "mem://f%d", i);
    for (int k = 0; k < 6; k++)
      sprintf(lines + strlen(lines), "%d\n", i * 6 + k);
    make_file(path, lines);
    put(&w, path);
  }
  for (int i = 0; i < N; i++) {
    char value[64];
    wait_for(&r[i], value, sizeof value);
    int n = atoi(value);
    assert_true(n >= 0 && n < N && !seen[n]);
    seen[n] = true;
  }
  world_deinit(&w);
}

static void test_cancelled_while_it_waits(void **state) {
  (void)state;
  char value[64];
  reading first, second, third;
  world w;
  world_init(&w, "TextLineReaderV2", 0);
  start(&w, &first);
  start(&w, &second);
  start(&w, &third);
  assert_non_null(strstr(why(&first), "which waits for a file name from queue "
                                      "FIFOQueueV2: 0 elements"));
  assert_string_equal(why(&second), "its turn at reader TextLineReaderV2");
  cancel(&second);
  wait_for(&second, value, sizeof value);
  assert_string_equal(value, "!1");
  cancel(&first);
  wait_for(&first, value, sizeof value);
  assert_string_equal(value, "!1");
  make_file("mem://a", "one\ntwo\n");
  put(&w, "mem://a");
  wait_for(&third, value, sizeof value);
  assert_string_equal(value, "one");
  expect(&w, "two");
  world_deinit(&w);
}

static void test_cancelled_before_it_begins(void **state) {
  (void)state;
  char value[64];
  reading r;
  world w;
  world_init(&w, "TextLineReaderV2", 0);
  make_file("mem://a", "one\n");
  put(&w, "mem://a");
  start_stopped(&w, &r);
  wait_for(&r, value, sizeof value);
  assert_string_equal(value, "!1");
  expect(&w, "one");
  world_deinit(&w);
}

static void wait_until_it_reads(reading *r, const char *path) {
  int64_t until = td_clock_now() + PATIENCE;
  while (!strstr(why(r), "which reads") && td_clock_now() < until) usleep(1000);
  assert_non_null(strstr(why(r), path));
}

/* A thread stands in a read of a pipe: the step goes on at once, the thread
 * ends soon, and what comes then, and came before, is the next one's. */
static void cancelled_at_a_pipe(int64_t most) {
  char value[64], want[16];
  reading r;
  world w;
  fifo p;
  fifo_init(&p);
  world_init(&w, "TextLineReaderV2", most);
  put(&w, p.path);
  int before = fifo_descriptors(), fd = fifo_open(&p);
  for (int i = 0; i < 3 * TD_IO_THREADS; i++) {
    start(&w, &r);
    wait_until_it_reads(&r, p.path);
    if (i % 2) usleep(3000);
    cancel(&r);
    wait_for(&r, value, sizeof value);
    assert_string_equal(value, "!1");
    if (i % 4) continue;
    snprintf(want, sizeof want, "line %d", i);
    fifo_put(fd, want); /* a line comes in pieces */
    fifo_put(fd, "\n");
    expect(&w, want);
  }
  fifo_let_go(before + 3); /* ours, the source's, and what wakes a reader */
  close(fd);
  world_deinit(&w);
  fifo_let_go(before);
  fifo_deinit(&p);
}

static void test_cancelled_while_a_thread_reads(void **state) {
  (void)state;
  cancelled_at_a_pipe(0);
  cancelled_at_a_pipe(5);
}

/* Of a pipe are given as many as there are. */
static void test_up_to_of_a_pipe(void **state) {
  (void)state;
  world w;
  fifo p;
  td_tensor out[2];
  fifo_init(&p);
  world_init(&w, "TextLineReaderV2", 10);
  put(&w, p.path);
  int fd = fifo_open(&p);
  fifo_put(fd, "one\ntwo\nthr");
  OK(net_run(&w.net, w.read, out));
  assert_int_equal(td_tensor_count(&out[1]), 2);
  for (int i = 0; i < 2; i++) td_tensor_release(&out[i]);
  fifo_put(fd, "ee\n");
  expect(&w, "three");
  close(fd);
  world_deinit(&w);
  fifo_deinit(&p);
}

/* ---- faults -------------------------------------------------------------- */

/* Any operation on files fails once: that is told, and no record is lost. */
static void test_every_operation_fails(void **state) {
  (void)state;
  int refused = 0;
  for (int nth = 1; nth < 8; nth++) {
    char all[64] = "";
    world w;
    world_init(&w, "TextLineReaderV2", 0);
    make_file("mem://a", "1\n2\n");
    make_file("mem://b", "3\n4\n");
    put(&w, "mem://a");
    put(&w, "mem://b");
    td_file_fail(nth, false);
    while (strlen(all) < 4) {
      char value[64];
      reading r;
      start(&w, &r);
      wait_for(&r, value, sizeof value);
      refused += value[0] == '!';
      if (value[0] == '!')
        assert_string_equal(value, "!14");
      else
        strcat(all, value);
    }
    td_file_fail(0, false);
    assert_string_equal(all, "1234");
    world_deinit(&w);
  }
  assert_true(refused >= 4);
}

static void test_no_memory(void **state) {
  (void)state;
  int refused = 0;
  for (int k = 0; k < 2; k++)
    for (int nth = 1; nth < 40; nth++) {
      char value[64];
      world w;
      reading r;
      world_init(&w, "TextLineReaderV2", k ? 2 : 0);
      make_file("mem://a", "1\n2\n");
      put(&w, "mem://a");
      put(&w, "mem://a"); /* a name may go with the memory for it */
      prepare(&w, &r);
      td_mem_fail(nth, false);
      r.kernel.def->start(&r.ctx);
      wait_for(&r, value, sizeof value);
      td_mem_fail(0, false);
      if (value[0] == '!') {
        assert_string_equal(value, "!8");
        refused++;
        expect(&w, "1");
      } else {
        assert_string_equal(value, "1");
      }
      net_expect(&w.net, w.produced, 1, (double[]){k ? 2 : 1}, 0);
      world_deinit(&w);
    }
  assert_true(refused >= 20);
}

/* ---- states -------------------------------------------------------------- */

static void test_any_bytes_as_state(void **state) {
  (void)state;
  td_reader_state s = {.started = 4,
                       .finished = 3,
                       .produced = 300,
                       .at = {.offset = 1 << 20, .number = 130, .skipped = 2}};
  td_str bytes = {0};
  s.work = td_strdup("a/b");
  s.work_len = 3;
  td_reader_state_save(&s, &bytes);
  td_reader_state t = {0};
  OK(td_reader_state_load(&t, (td_bytes){bytes.at, bytes.len}));
  assert_int_equal(t.started, 4);
  assert_int_equal(t.finished, 3);
  assert_int_equal(t.produced, 300);
  assert_string_equal(t.work, "a/b");
  assert_int_equal(t.at.offset, 1 << 20);
  assert_int_equal(t.at.number, 130);
  assert_int_equal(t.at.skipped, 2);
  for (size_t i = 0; i < bytes.len * 8; i++) {
    bytes.at[i / 8] ^= (char)(1 << i % 8);
    td_status *failed =
        td_reader_state_load(&t, (td_bytes){bytes.at, bytes.len});
    if (failed) assert_int_equal(td_status_code(failed), TD_INVALID_ARGUMENT);
    td_status_release(failed);
    bytes.at[i / 8] ^= (char)(1 << i % 8);
  }
  for (size_t n = 0; n < bytes.len; n++)
    td_status_release(td_reader_state_load(&t, (td_bytes){bytes.at, n}));
  td_reader_state_clear(&s);
  td_reader_state_clear(&t);
  td_str_deinit(&bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_many_in_line),
      cmocka_unit_test(test_cancelled_while_it_waits),
      cmocka_unit_test(test_cancelled_before_it_begins),
      cmocka_unit_test(test_cancelled_while_a_thread_reads),
      cmocka_unit_test(test_up_to_of_a_pipe),
      cmocka_unit_test(test_every_operation_fails),
      cmocka_unit_test(test_no_memory),
      cmocka_unit_test(test_any_bytes_as_state),
  };
  td_status_release(td_file_system_register(&mem_file_system));
  return cmocka_run_group_tests(tests, NULL, NULL);
}
