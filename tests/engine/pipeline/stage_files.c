/* stage_files.c - pipelines over pipes: what is there is given, a loop that is
 * interrupted or closed lets go of its thread, and nothing is lost. Files are
 * tested by tests/lua/pipelines.lua.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/base/pipes.h"

#include <pthread.h>

#include "engine/base/io_threads.h"
#include "engine/pipeline/pipeline.h"

static td_pipeline *lines_of(const fifo *f, int64_t header) {
  const char *path = f->path;
  td_pipeline *p = NULL;
  td_pipeline_files o = {
      .paths = &path,
      .n_paths = 1,
      .options = {.format = TD_SOURCE_LINES, .skip_lines = header},
      .step = 1};
  OK(td_pipeline_from_files(&o, &p));
  return p;
}

static void drop(td_pipeline *p) {
  td_pipeline_close(p);
  td_pipeline_release(p);
}

static void gives(td_pipeline *p, const char *want) {
  td_tensor x[2];
  size_t len;
  bool end;
  OK(td_pipeline_take(p, NULL, x, &end));
  assert_false(end);
  const char *at = td_tensor_str(&x[0], 0, &len);
  assert_int_equal(len, strlen(want));
  assert_memory_equal(at, want, len);
  for (int i = 0; i < 2; i++) td_tensor_release(&x[i]);
}

static void ends(td_pipeline *p) {
  td_tensor x[2];
  bool end;
  OK(td_pipeline_take(p, NULL, x, &end));
  assert_true(end);
}

static bool is_reading(td_pipeline *p, const char *what) {
  td_str s = {0};
  td_pipeline_why(p, &s);
  bool is = strstr(td_str_c(&s), what) != NULL;
  td_str_deinit(&s);
  return is;
}

static void becomes_reading(td_pipeline *p, const char *what, bool want) {
  int64_t until = td_clock_now() + PATIENCE;
  while (is_reading(p, what) != want && td_clock_now() < until) usleep(1000);
  assert_int_equal(is_reading(p, what), want);
}

/* The thread that reads ahead comes back, too. */
static void is_interrupted(td_pipeline *p) {
  td_tensor x[2];
  int interrupt = 1;
  bool end;
  FAILS(td_pipeline_take(p, &interrupt, x, &end), TD_CANCELLED, "interrupted");
  becomes_reading(p, "being read", false);
}

/* ---- tests --------------------------------------------------------------- */

static void test_lines_as_they_come(void **state) {
  (void)state;
  fifo f;
  fifo_init(&f);
  td_pipeline *p = lines_of(&f, 1);
  int fd = fifo_open(&f);
  fifo_put(fd, "head");
  is_interrupted(p); /* it never came to wait */
  fifo_put(fd, "er\none\ntwo\nthr");
  gives(p, "one");
  becomes_reading(p, f.path, true);
  gives(p, "two");
  is_interrupted(p);
  fifo_put(fd, "ee\n");
  gives(p, "three");
  for (int i = 0; i < 20; i++) {
    char line[16];
    snprintf(line, sizeof line, "%d", i);
    fifo_put(fd, line);
    is_interrupted(p);
    fifo_put(fd, "\n");
    gives(p, line);
  }
  fifo_put(fd, "last");
  close(fd);
  gives(p, "last");
  ends(p);
  drop(p);
  fifo_deinit(&f);
}

/* Of the header some lines come, then none. */
static void test_header_in_pieces(void **state) {
  (void)state;
  fifo f;
  fifo_init(&f);
  td_pipeline *p = lines_of(&f, 2);
  int fd = fifo_open(&f);
  fifo_put(fd, "a\nb");
  for (int i = 0; i < 3; i++) is_interrupted(p);
  fifo_put(fd, "\nc\n");
  gives(p, "c");
  close(fd);
  ends(p);
  drop(p);
  fifo_deinit(&f);
}

/* Each thread is free again, whatever ends the loop. */
static void test_nothing_stays(void **state) {
  (void)state;
  fifo f;
  fifo_init(&f);
  int before = fifo_descriptors();
  for (int i = 0; i < 3 * TD_IO_THREADS; i++) {
    td_pipeline *p = lines_of(&f, 0);
    int fd = fifo_open(&f);
    fifo_put(fd, "one\n");
    gives(p, "one");
    if (i % 3) becomes_reading(p, f.path, true);
    if (i % 2) is_interrupted(p);
    drop(p);
    close(fd);
    fifo_let_go(before);
  }
  fifo_deinit(&f);
}

/* The rest of the epoch is not waited for when nobody wants it. */
static void test_first_lines_of_many(void **state) {
  (void)state;
  fifo f;
  fifo_init(&f);
  td_pipeline *p = lines_of(&f, 0);
  OK(td_pipeline_first(p, 2));
  int fd = fifo_open(&f);
  fifo_put(fd, "one\ntwo\n");
  gives(p, "one");
  gives(p, "two");
  ends(p);
  drop(p);
  close(fd);
  fifo_deinit(&f);
}

typedef struct taker {
  pthread_t thread;
  td_pipeline *p;
  int interrupt; /* atomic */
  int64_t ended;
} taker;

static void *take(void *arg) {
  taker *t = arg;
  td_tensor x[2];
  bool end;
  FAILS(td_pipeline_take(t->p, &t->interrupt, x, &end), TD_CANCELLED, "");
  t->ended = td_clock_now();
  return NULL;
}

/* Of two who wait one leaves: it is read on for the other. */
static void test_one_of_two_leaves(void **state) {
  (void)state;
  fifo f;
  taker t[2] = {0};
  fifo_init(&f);
  td_pipeline *p = lines_of(&f, 0);
  int fd = fifo_open(&f);
  for (int i = 0; i < 2; i++) {
    t[i].p = p;
    pthread_create(&t[i].thread, NULL, take, &t[i]);
  }
  becomes_reading(p, f.path, true);
  usleep(20000); /* both wait */
  for (int i = 0; i < 2; i++) {
    int64_t begun = td_clock_now();
    __atomic_store_n(&t[i].interrupt, 1, __ATOMIC_RELEASE);
    pthread_join(t[i].thread, NULL);
    assert_true(t[i].ended - begun < in_time(500000000));
    if (i == 0) usleep(20000);
    becomes_reading(p, f.path, i == 0);
  }
  fifo_put(fd, "one\n");
  gives(p, "one");
  drop(p);
  close(fd);
  fifo_deinit(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lines_as_they_come),
      cmocka_unit_test(test_header_in_pieces),
      cmocka_unit_test(test_nothing_stays),
      cmocka_unit_test(test_first_lines_of_many),
      cmocka_unit_test(test_one_of_two_leaves),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
