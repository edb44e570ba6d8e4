/* checkpoint_faults.c - files and memory that fail, bits that flip: there is a
 * whole checkpoint always, and what is damaged is told.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/engine/io/saved.h"

enum { ONCE, FOR_EVER, MEMORY_ONCE, MEMORY_FOR_EVER, WAYS };

static void shut(int way, int64_t n) {
  if (way <= FOR_EVER)
    td_file_fail(n, way == FOR_EVER);
  else
    td_mem_fail(n, way == MEMORY_FOR_EVER);
}

static void open_all(void) {
  td_file_fail(0, false);
  td_mem_fail(0, false);
}

static int64_t calls(int way) {
  return way <= FOR_EVER ? td_file_calls() : td_mem_calls();
}

/* ---- saving -------------------------------------------------------------- */

/* Saves of the next step with call n failing, for every n. */
static void save_with_faults(int way) {
  int64_t step = 1;
  int failed = 0, held = saved_descriptors();
  OK(saved_write(saved_prefix, step));
  for (int64_t n = 1;; n++) {
    int64_t before = calls(way);
    shut(way, n);
    td_status *s = saved_write(saved_prefix, step + 1);
    open_all();
    bool reached = calls(way) - before >= n;
    int64_t got = saved_step(saved_prefix);
    if (td_ok(s) ? got != step + 1 : got != step && got != step + 1)
      fail_msg("call %d, step %d: %d is there", (int)n, (int)step, (int)got);
    step = got;
    failed += !td_ok(s);
    td_status_release(s);
    assert_int_equal(saved_descriptors(), held);
    if (!reached) break;
  }
  assert_true(failed > 25);
  OK(saved_write(saved_prefix, step + 1));
  saved_assert_tidy(1);
  assert_int_equal(saved_step(saved_prefix), step + 1);
}

static void test_each_operation_fails_once(void **state) {
  (void)state;
  save_with_faults(ONCE);
}

static void test_each_operation_fails_for_ever(void **state) {
  (void)state;
  save_with_faults(FOR_EVER);
}

static void test_each_allocation_fails_once(void **state) {
  (void)state;
  save_with_faults(MEMORY_ONCE);
}

static void test_each_allocation_fails_for_ever(void **state) {
  (void)state;
  save_with_faults(MEMORY_FOR_EVER);
}

/* A file that fails at any moment leaves nothing that the next save does not
 * take away. */
static void test_each_next_save_is_tidy(void **state) {
  (void)state;
  int64_t step = 1;
  OK(saved_write(saved_prefix, step));
  for (int64_t n = 1;; n++) {
    int64_t before = td_file_calls();
    td_file_fail(n, true);
    td_status *s = saved_write(saved_prefix, step + 1);
    open_all();
    bool reached = td_file_calls() - before >= n;
    td_status_release(s);
    step += 2;
    OK(saved_write(saved_prefix, step));
    saved_assert_tidy(1);
    if (!reached) break;
  }
}

static void test_a_first_save_that_fails(void **state) {
  (void)state;
  for (int64_t n = 1;; n++) {
    td_checkpoint *c;
    td_file_fail(n, true);
    td_status *s = saved_write(saved_prefix, 1);
    open_all();
    if (td_ok(s)) break;
    td_status_release(s);
    s = td_checkpoint_open(saved_prefix, &c);
    if (td_ok(s)) { /* it failed behind the last rename */
      td_checkpoint_close(c);
      assert_int_equal(saved_step(saved_prefix), 1);
      break;
    }
    assert_int_equal(td_status_code(s), TD_NOT_FOUND);
    td_status_release(s);
  }
}

/* ---- restoring ----------------------------------------------------------- */

static void test_restoring_with_faults(void **state) {
  (void)state;
  int held = saved_descriptors();
  OK(saved_write(saved_prefix, 3));
  for (int way = 0; way < WAYS; way++)
    for (int64_t n = 1;; n++) {
      int64_t step = 0, before = calls(way);
      shut(way, n);
      td_status *s = saved_read(saved_prefix, &step);
      open_all();
      bool reached = calls(way) - before >= n;
      if (td_ok(s)) assert_int_equal(step, 3);
      td_status_release(s);
      assert_int_equal(saved_descriptors(), held);
      if (!reached) break;
    }
}

/* ---- full disks ---------------------------------------------------------- */

/* The real thing: a limit of the system on the size of files. */
static void test_no_room(void **state) {
  (void)state;
  OK(saved_write(saved_prefix, 1));
  pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {SAVED_NUMBERS, SAVED_NUMBERS};
    setrlimit(RLIMIT_FSIZE, &limit);
    td_status *s = saved_write(saved_prefix, 2);
    bool told = td_status_code(s) == TD_RESOURCE_EXHAUSTED &&
                strstr(td_status_message(s), "ulimit -f");
    td_status_release(s);
    _exit(told ? 0 : 1);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_int_equal(saved_step(saved_prefix), 1);
  saved_assert_tidy(1);
}

/* ---- flipped bits -------------------------------------------------------- */

static void write_raw(const char *path, const char *bytes, size_t n) {
  FILE *f = fopen(path, "r+");
  assert_non_null(f);
  assert_int_equal(fwrite(bytes, 1, n, f), n);
  fclose(f);
}

/* Is the damage found, by who looks for it and by who reads? */
static void assert_found(const char *end, size_t where) {
  int64_t step;
  td_checkpoint *c = NULL;
  td_status *s = td_checkpoint_open(saved_prefix, &c);
  if (td_ok(s)) s = td_checkpoint_verify(c);
  td_checkpoint_close(c);
  if (td_ok(s)) fail_msg("byte %zu of %s: not found", where, end);
  td_status_release(s);
  s = saved_read(saved_prefix, &step);
  if (td_ok(s)) fail_msg("byte %zu of %s: restored", where, end);
  td_status_release(s);
}

/* One bit in each `every` bytes of a file. */
static void flip(const char *end, size_t every) {
  char path[400], *bytes;
  size_t len;
  unsigned seed = 1;
  snprintf(path, sizeof path, "%s%s", saved_prefix, end);
  OK(td_file_read(path, 1 << 24, &bytes, &len));
  for (size_t at = 0; at < len; at += every) {
    size_t room = len - at < every ? len - at : every;
    size_t where = at + (size_t)rand_r(&seed) % room;
    char bit = (char)(1 << rand_r(&seed) % 8);
    bytes[where] ^= bit;
    write_raw(path, bytes, len);
    assert_found(end, where);
    bytes[where] ^= bit;
  }
  write_raw(path, bytes, len);
  (void)saved_step(saved_prefix);
  td_free(bytes);
}

static void test_flipped_bits(void **state) {
  (void)state;
  OK(saved_write(saved_prefix, 1));
  flip(".data-00000-of-00001", 4096);
  OK(saved_write(saved_prefix, 2));
  flip(".index", 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      SAVED_TEST(test_each_operation_fails_once),
      SAVED_TEST(test_each_operation_fails_for_ever),
      SAVED_TEST(test_each_allocation_fails_once),
      SAVED_TEST(test_each_allocation_fails_for_ever),
      SAVED_TEST(test_each_next_save_is_tidy),
      SAVED_TEST(test_a_first_save_that_fails),
      SAVED_TEST(test_restoring_with_faults),
      SAVED_TEST(test_no_room),
      SAVED_TEST(test_flipped_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
