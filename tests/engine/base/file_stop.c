/* file_stop.c - reads of pipes that wait, and are told to end.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/base/pipes.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "engine/base/file_stop.h"
#include "engine/base/file_stream.h"
#include "engine/base/io_threads.h"
#include "engine/base/mem.h"

enum { ROUNDS = 20, MANY = 3 * TD_IO_THREADS };

/* ---- one reader ---------------------------------------------------------- */

typedef struct reader {
  pthread_t thread;
  td_file *f;
  uint64_t at;
  td_file_stop stop;
  char to[64];
  size_t got;
  td_status *status;
  long slept; /* how often it went to sleep */
} reader;

static void *read_once(void *arg) {
  reader *r = arg;
  struct rusage u;
  td_file_stop *outer = td_file_stop_enter(&r->stop);
  r->status = td_file_read_at(r->f, r->at, r->to, sizeof r->to, &r->got);
  td_file_stop_leave(outer);
  getrusage(RUSAGE_THREAD, &u);
  r->slept = u.ru_nvcsw;
  r->at += r->got;
  return NULL;
}

static void start(reader *r) {
  assert_int_equal(pthread_create(&r->thread, NULL, read_once, r), 0);
}

/* At once. */
static void ends(reader *r) {
  int64_t begun = td_clock_now();
  pthread_join(r->thread, NULL);
  assert_true(td_clock_now() - begun < in_time(500000000));
}

static void assert_got(reader *r, const char *want) {
  OK(r->status);
  assert_int_equal(r->got, strlen(want));
  assert_memory_equal(r->to, want, r->got);
}

static void a_wait_is_ended(void **state) {
  (void)state;
  fifo p;
  fifo_init(&p);
  int before = fifo_descriptors();
  for (int i = 0; i < ROUNDS; i++) {
    reader r = {0};
    OK(td_file_open(p.path, TD_FILE_READ, &r.f)); /* nobody writes yet */
    start(&r);
    usleep(i % 4 * 5000);
    td_file_stop_fire(&r.stop);
    ends(&r);
    assert_true(td_file_stop_ended(&r.stop, r.status));
    FAILS(r.status, TD_CANCELLED, p.path);
    OK(td_file_close(r.f));
    td_file_stop_deinit(&r.stop);
  }
  assert_int_equal(fifo_descriptors(), before);
  fifo_deinit(&p);
}

/* What came is there for the next read; a stop can be used again. */
static void nothing_is_lost(void **state) {
  (void)state;
  fifo p;
  reader r = {0};
  fifo_init(&p);
  OK(td_file_open(p.path, TD_FILE_READ, &r.f));
  int fd = fifo_open(&p);
  fifo_put(fd, "one");
  start(&r);
  ends(&r);
  assert_got(&r, "one");
  start(&r);
  usleep(20000);
  td_file_stop_fire(&r.stop);
  ends(&r);
  FAILS(r.status, TD_CANCELLED, "was ended");
  fifo_put(fd, "two");
  read_once(&r); /* it was fired, and stays so */
  FAILS(r.status, TD_CANCELLED, "was ended");
  td_file_stop_reset(&r.stop);
  start(&r);
  ends(&r);
  assert_got(&r, "two");
  start(&r);
  usleep(20000);
  fifo_put(fd, "three");
  ends(&r);
  assert_got(&r, "three");
  close(fd);
  start(&r);
  ends(&r);
  assert_got(&r, "");
  OK(td_file_close(r.f));
  td_file_stop_deinit(&r.stop);
  fifo_deinit(&p);
}

/* In a hurry it takes what is there, and does not wait. */
static void hurry(void **state) {
  (void)state;
  fifo p;
  reader r = {.stop = {.hurry = true}};
  fifo_init(&p);
  OK(td_file_open(p.path, TD_FILE_READ, &r.f));
  int fd = fifo_open(&p);
  fifo_put(fd, "one");
  read_once(&r);
  assert_got(&r, "one");
  read_once(&r);
  assert_true(td_file_stop_ended(&r.stop, r.status));
  FAILS(r.status, TD_CANCELLED, p.path);
  assert_int_equal(r.stop.wake, 0); /* and needs nothing for that */
  close(fd);
  OK(td_file_close(r.f));
  fifo_deinit(&p);
}

static void a_wait_sleeps(void **state) {
  (void)state;
  fifo p;
  reader r = {0};
  fifo_init(&p);
  OK(td_file_open(p.path, TD_FILE_READ, &r.f));
  start(&r);
  usleep(300000);
  fifo_is_read(&p); /* a writer that writes nothing: the end */
  ends(&r);
  assert_got(&r, "");
  assert_true(r.slept < 10);
  OK(td_file_close(r.f));
  td_file_stop_deinit(&r.stop);
  fifo_deinit(&p);
}

/* A regular file is read as if there were none, until it is fired. */
static void files_do_not_wait(void **state) {
  (void)state;
  char *bytes;
  size_t n;
  td_str path = {0};
  OK(td_file_temp("", &path));
  OK(td_file_write(path.at, "tide", 4));
  td_file_stop stop = {0};
  td_file_stop *outer = td_file_stop_enter(&stop);
  assert_null(outer);
  OK(td_file_read(path.at, 10, &bytes, &n));
  assert_string_equal(bytes, "tide");
  td_free(bytes);
  assert_int_equal(stop.wake, 0);
  td_file_stop_fire(&stop);
  FAILS(td_file_read(path.at, 10, &bytes, &n), TD_CANCELLED, path.at);
  td_file_stop_leave(outer);
  OK(td_file_read(path.at, 10, &bytes, &n));
  td_free(bytes);
  td_file_stop_deinit(&stop);
  unlink(path.at);
  td_str_deinit(&path);
}

/* ---- many ---------------------------------------------------------------- */

typedef struct work {
  td_task task;
  const char *path;     /* NULL: it reads nothing */
  int32_t opened, over; /* atomic */
} work;

static void set(int32_t *flag) {
  __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
}

static bool is_set(int32_t *flag) {
  for (int i = 0; i < 60000; i++) {
    if (__atomic_load_n(flag, __ATOMIC_ACQUIRE)) return true;
    usleep(1000);
  }
  return false;
}

static void read_whole(td_task *task) {
  work *w = (work *)task;
  td_file *f;
  char to[64];
  size_t got;
  if (w->path) {
    OK(td_file_open(w->path, TD_FILE_READ, &f));
    set(&w->opened);
    OK(td_file_read_at(f, 0, to, sizeof to, &got));
    OK(td_file_close(f));
  }
  set(&w->over);
}

/* Reads that wait leave room on the I/O threads for others. */
static void others_go_on(void **state) {
  (void)state;
  fifo p;
  work w[MANY + 1] = {0};
  fifo_init(&p);
  int fd = fifo_open(&p);
  for (int i = 0; i < MANY; i++) {
    w[i] = (work){{.run = read_whole}, p.path, 0, 0};
    assert_true(td_io_submit(&w[i].task));
  }
  w[MANY] = (work){{.run = read_whole}, NULL, 0, 0};
  assert_true(td_io_submit(&w[MANY].task));
  assert_true(is_set(&w[MANY].over));
  for (int i = 0; i < MANY; i++) assert_true(is_set(&w[i].opened));
  for (int i = 0; i < 60000 && td_io_threads() < MANY; i++) usleep(1000);
  assert_true(td_io_threads() >= MANY);
  close(fd); /* the end, for all */
  for (int i = 0; i < MANY; i++) assert_true(is_set(&w[i].over));
  for (int i = 0; i < 60000 && td_io_threads() > 0; i++) usleep(1000);
  assert_int_equal(td_io_threads(), 0);
  fifo_deinit(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_wait_is_ended),
      cmocka_unit_test(nothing_is_lost),
      cmocka_unit_test(hurry),
      cmocka_unit_test(a_wait_sleeps),
      cmocka_unit_test(files_do_not_wait),
      cmocka_unit_test(others_go_on),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
