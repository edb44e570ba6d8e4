/* file_claim.c - claims among real processes, and what is left of dead ones.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/file_claim.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/file_stop.h"
#include "engine/base/file_stream.h"
#include "engine/base/mem.h"
#include "tests/check.h"
#include "tests/engine/base/mem_files.h"

static char path[512];

static int set_up(void **state) {
  (void)state;
  td_str dir = {0};
  OK(td_file_temp_dir(200, &dir));
  snprintf(path, sizeof path, "%s/claim", dir.at);
  td_str_deinit(&dir);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  unlink(path);
  *strrchr(path, '/') = '\0';
  assert_int_equal(rmdir(path), 0); /* no other file stays */
  return 0;
}

static void write_text(const char *text) {
  OK(td_file_write(path, text, strlen(text)));
}

/* This process's claim as text, with lines that begin with `key` changed. */
static void write_changed(const char *key, const char *value) {
  td_file_claim *c;
  char *text;
  size_t len;
  td_str out = {0};
  OK(td_file_claim_take(path, &c));
  OK(td_file_read(path, 4096, &text, &len));
  td_file_claim_release(c);
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
    if (strncmp(line, key, strlen(key)) == 0)
      td_str_addf(&out, "%s %s\n", key, value);
    else
      td_str_addf(&out, "%s\n", line);
  write_text(td_str_c(&out));
  td_str_deinit(&out);
  td_free(text);
}

/* A child that takes the path and waits to be killed; its number. */
static pid_t child_with_it(void) {
  int up[2];
  char said = 0;
  assert_int_equal(pipe(up), 0);
  pid_t child = fork();
  if (child == 0) {
    td_file_claim *c;
    td_status *s = td_file_claim_take(path, &c);
    said = td_ok(s) ? 'y' : 'n';
    if (write(up[1], &said, 1) != 1) _exit(1);
    for (;;) pause();
  }
  assert_int_equal(read(up[0], &said, 1), 1);
  assert_int_equal(said, 'y');
  close(up[0]);
  close(up[1]);
  return child;
}

static void end_child(pid_t child) {
  kill(child, SIGKILL);
  assert_int_equal(waitpid(child, NULL, 0), child);
}

static void assert_can_be_taken(void) {
  td_file_claim *c;
  OK(td_file_claim_take(path, &c));
  td_file_claim_release(c);
  assert_false(td_file_exists(path));
}

/* ---- one holder ---------------------------------------------------------- */

static void test_one_at_a_time(void **state) {
  (void)state;
  td_file_claim *a, *b;
  char *text;
  size_t len;
  OK(td_file_claim_take(path, &a));
  OK(td_file_read(path, 4096, &text, &len));
  assert_non_null(strstr(text, "host "));
  assert_non_null(strstr(text, "\nboot "));
  assert_non_null(strstr(text, "\nprocess "));
  assert_non_null(strstr(text, "\nstart "));
  td_free(text);
  FAILS(td_file_claim_take(path, &b), TD_UNAVAILABLE,
        "is held by this process already");
  td_file_claim_release(a);
  assert_can_be_taken();
}

/* By another way to the same file: the lock tells. */
static void test_under_another_name(void **state) {
  (void)state;
  td_file_claim *a, *b;
  char other[600];
  OK(td_file_claim_take(path, &a));
  snprintf(other, sizeof other, "/.%s", path);
  FAILS(td_file_claim_take(other, &b), TD_UNAVAILABLE,
        "is held by this process already");
  td_file_claim_release(a);
}

static void test_a_living_process(void **state) {
  (void)state;
  td_file_claim *c;
  char words[64];
  pid_t child = child_with_it();
  snprintf(words, sizeof words, "held by process %d: wait for its end", child);
  FAILS(td_file_claim_take(path, &c), TD_UNAVAILABLE, words);
  kill(child, SIGKILL); /* not buried yet: dead all the same */
  siginfo_t info;
  assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
  assert_can_be_taken();
  end_child(child);
}

static void test_a_forked_child_has_none(void **state) {
  (void)state;
  td_file_claim *c, *other;
  OK(td_file_claim_take(path, &c));
  pid_t child = fork();
  if (child == 0) {
    td_status *s = td_file_claim_take(path, &other);
    bool refused = td_status_code(s) == TD_UNAVAILABLE;
    td_file_claim_release(c); /* is the parent's */
    _exit(refused && td_file_exists(path) ? 0 : 1);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  FAILS(td_file_claim_take(path, &other), TD_UNAVAILABLE, "this process");
  td_file_claim_release(c);
  assert_false(td_file_exists(path));
}

/* ---- what was left ------------------------------------------------------- */

static void test_left_by_the_dead(void **state) {
  (void)state;
  end_child(child_with_it());
  assert_true(td_file_exists(path));
  assert_can_be_taken();
  write_text(""); /* killed before it wrote */
  assert_can_be_taken();
  write_text("host a\nboot b\nspace c\nproc");
  assert_can_be_taken();
}

/* The number of a process is given again; its start is not. */
static void test_a_number_that_is_anothers_now(void **state) {
  (void)state;
  write_changed("process", "1");
  assert_can_be_taken();
}

static void test_another_boot(void **state) {
  (void)state;
  write_changed("boot", "0000-an-earlier-one");
  assert_can_be_taken();
}

static void test_another_host(void **state) {
  (void)state;
  td_file_claim *c;
  write_text("host far\nboot 1\nspace 2\nprocess 77\nstart 5\n");
  FAILS(td_file_claim_take(path, &c), TD_UNAVAILABLE,
        "is held by process 77 of host far: wait for its end, or remove that "
        "file if it has ended");
  assert_true(td_file_exists(path));
}

/* A claim that someone removed by hand, and another made. */
static void test_removes_only_its_own(void **state) {
  (void)state;
  td_file_claim *c;
  OK(td_file_claim_take(path, &c));
  unlink(path);
  write_text("host far\nboot 1\nspace 2\nprocess 77\nstart 5\n");
  td_file_claim_release(c);
  assert_true(td_file_exists(path));
}

/* ---- two takers ---------------------------------------------------------- */

/* As of a save that is cancelled. */
static void test_released_under_a_stop(void **state) {
  (void)state;
  td_file_claim *c;
  td_file_stop stop = {0};
  td_file_stop *outer = td_file_stop_enter(&stop);
  OK(td_file_claim_take(path, &c));
  td_file_stop_fire(&stop);
  td_file_claim_release(c);
  td_file_stop_leave(outer);
  td_file_stop_deinit(&stop);
  assert_false(td_file_exists(path));
}

/* Of one that was cancelled before it began. */
static void test_taken_under_a_stop(void **state) {
  (void)state;
  td_file_claim *c;
  td_file_stop stop = {0};
  td_file_stop *outer = td_file_stop_enter(&stop);
  td_file_stop_fire(&stop);
  OK(td_file_claim_take(path, &c));
  assert_true(td_file_exists(path));
  td_file_claim_release(c);
  td_file_stop_leave(outer);
  td_file_stop_deinit(&stop);
  assert_false(td_file_exists(path));
}

/* In each round all find what a dead process left; who has it counts itself
 * in, and out again. */
static void test_takers_at_once(void **state) {
  (void)state;
  enum { TAKERS = 4, ROUNDS = 60 };
  char inside[600];
  snprintf(inside, sizeof inside, "%s-inside", path);
  pid_t takers[TAKERS];
  for (int i = 0; i < TAKERS; i++) {
    takers[i] = fork();
    if (takers[i] > 0) continue;
    int won = 0;
    for (int r = 0; won < ROUNDS && r < 1000000; r++) {
      td_file_claim *c;
      td_status *s = td_file_claim_take(path, &c);
      td_status_release(s);
      if (s) continue;
      FILE *f = fopen(inside, "wx"); /* fails when it is there */
      if (!f) _exit(1);
      fclose(f);
      sched_yield();
      unlink(inside);
      if (++won % 2) {
        td_file_claim_release(c);
      } else { /* as if it had died */
        f = fopen(path, "w");
        if (f) fputs("host a", f), fclose(f);
        td_file_claim_release(c);
      }
    }
    _exit(won == ROUNDS ? 0 : 2);
  }
  for (int i = 0; i < TAKERS; i++) {
    int status;
    assert_int_equal(waitpid(takers[i], &status, 0), takers[i]);
    assert_int_equal(status, 0);
  }
}

/* ---- faults, other file systems ------------------------------------------ */

static void test_each_operation_fails(void **state) {
  (void)state;
  for (int way = 0; way < 4; way++)
    for (int64_t n = 1;; n++) {
      td_file_claim *c;
      if (way < 2)
        td_file_fail(n, way == 1);
      else
        td_mem_fail(n, way == 3);
      td_status *s = td_file_claim_take(path, &c);
      td_file_fail(0, false);
      td_mem_fail(0, false);
      bool done = td_ok(s);
      if (done) td_file_claim_release(c);
      td_status_release(s);
      assert_can_be_taken();
      if (done) break;
    }
}

/* Without locks the file is made by one only. */
static void test_a_file_system_without_locks(void **state) {
  (void)state;
  static const char *const far = "mem://claim";
  td_file_claim *a, *b;
  OK(td_file_claim_take(far, &a));
  FAILS(td_file_claim_take(far, &b), TD_UNAVAILABLE, "this process");
  td_file_fail(2, true); /* the file stays behind */
  td_file_claim_release(a);
  td_file_fail(0, false);
  assert_true(td_file_exists(far));
  OK(td_file_claim_take(far, &a));
  td_file_claim_release(a);
  assert_false(td_file_exists(far));
  static const char text[] = "host far\nboot 1\nspace 2\nprocess 7\nstart 5\n";
  OK(td_file_write(far, text, strlen(text)));
  FAILS(td_file_claim_take(far, &a), TD_UNAVAILABLE, "host far");
  mem_files_clear();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  OK(td_file_system_register(&mem_file_system));
  const struct CMUnitTest tests[] = {
      TEST(test_one_at_a_time),
      TEST(test_under_another_name),
      TEST(test_a_living_process),
      TEST(test_a_forked_child_has_none),
      TEST(test_left_by_the_dead),
      TEST(test_a_number_that_is_anothers_now),
      TEST(test_another_boot),
      TEST(test_another_host),
      TEST(test_removes_only_its_own),
      TEST(test_released_under_a_stop),
      TEST(test_taken_under_a_stop),
      TEST(test_takers_at_once),
      TEST(test_each_operation_fails),
      TEST(test_a_file_system_without_locks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
