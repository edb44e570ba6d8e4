/* file_replace.c - a file written in pieces is the old one or the new one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/file_replace.h"
#include "engine/base/mem.h"
#include "tests/engine/base/pipes.h"

static char dir[] = "/tmp/tide-replace-XXXXXX";
static char path[80];

static int make_dir(void **state) {
  (void)state;
  if (!mkdtemp(dir)) return -1;
  snprintf(path, sizeof path, "%s/f", dir);
  return 0;
}

static int remove_dir(void **state) {
  (void)state;
  unlink(path);
  return rmdir(dir);
}

/* The file's text; nothing hidden lies beside it. */
static void assert_holds(const char *want) {
  char command[160], *bytes;
  size_t len;
  snprintf(command, sizeof command, "test \"$(ls -A %s)\" = f", dir);
  assert_int_equal(system(command), 0);
  OK(td_file_read(path, 1 << 20, &bytes, &len));
  assert_string_equal(bytes, want);
  td_free(bytes);
}

static td_status *replace(const char *a, const char *b, bool commit) {
  td_file_replace *r;
  TD_TRY(td_file_replace_open(path, &r));
  td_status *s = td_file_replace_append(r, a, strlen(a));
  if (td_ok(s)) s = td_file_replace_append(r, b, strlen(b));
  assert_true(!td_ok(s) || td_file_replace_size(r) == strlen(a) + strlen(b));
  if (td_ok(s) && commit) s = td_file_replace_commit(r);
  td_file_replace_close(r);
  return s;
}

static void pieces_appear_at_once(void **state) {
  struct stat st;
  (void)state;
  OK(replace("old ", "text", true));
  assert_holds("old text");
  assert_int_equal(chmod(path, 0640), 0);
  OK(replace("new ", "words", false));
  assert_holds("old text");
  OK(replace("new ", "words", true));
  assert_holds("new words");
  assert_int_equal(stat(path, &st), 0);
  assert_int_equal(st.st_mode & 07777, 0640);
  td_file_replace_close(NULL);
}

static void what_may_not_be_replaced(void **state) {
  td_file_replace *r;
  (void)state;
  FAILS(td_file_replace_open(dir, &r), TD_FAILED_PRECONDITION, "a folder");
  FAILS(td_file_replace_open("/nowhere/f", &r), TD_NOT_FOUND, "/nowhere");
  FAILS(td_file_replace_open("", &r), TD_NOT_FOUND, "");
}

/* dir/f, by links of all kinds from dir/a. */
static void links_stay(void **state) {
  static const char *const names[] = {"a", "b", "c"};
  char link[3][100], beside[100], *texts[] = {"b", link[2], "./f"};
  td_file_replace *r;
  struct stat st;
  (void)state;
  unlink(path);
  for (int i = 0; i < 3; i++)
    snprintf(link[i], sizeof link[i], "%s/%s", dir, names[i]);
  for (int i = 0; i < 3; i++) assert_int_equal(symlink(texts[i], link[i]), 0);
  for (int i = 0; i < 2; i++) { /* to nothing yet, then to the file */
    OK(td_file_replace_open(link[0], &r));
    OK(td_file_replace_append(r, "text", 4));
    OK(td_file_replace_commit(r));
    td_file_replace_close(r);
    for (int k = 0; k < 3; k++) {
      assert_int_equal(lstat(link[k], &st), 0);
      assert_true(S_ISLNK(st.st_mode));
    }
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(st.st_size, 4);
  }
  unlink(path);
  assert_int_equal(symlink("a", path), 0); /* a ring */
  FAILS(td_file_replace_open(link[0], &r), TD_INVALID_ARGUMENT, link[0]);
  unlink(path);
  unlink(link[2]);
  snprintf(beside, sizeof beside, "%s/none/f", dir);
  assert_int_equal(symlink(beside, link[2]), 0);
  FAILS(td_file_replace_open(link[2], &r), TD_NOT_FOUND, "none");
  for (int i = 0; i < 3; i++) unlink(link[i]);
}

/* A device, a pipe and a descriptor are still what they were. */
static void what_cannot_be_replaced(void **state) {
  fifo p;
  char got[20] = "", name[40];
  struct stat before, after;
  (void)state;
  fifo_init(&p);
  int fd = fifo_open(&p);
  OK(td_file_write(p.path, "words", 5));
  assert_int_equal(read(fd, got, sizeof got), 5);
  assert_string_equal(got, "words");
  assert_int_equal(lstat(p.path, &after), 0);
  assert_true(S_ISFIFO(after.st_mode));
  close(fd);
  fifo_deinit(&p);
  assert_int_equal(lstat("/dev/null", &before), 0);
  OK(td_file_write("/dev/null", "words", 5));
  assert_int_equal(lstat("/dev/null", &after), 0);
  assert_true(S_ISCHR(after.st_mode) && after.st_rdev == before.st_rdev);
  FAILS(td_file_write("/dev/full", "words", 5), TD_RESOURCE_EXHAUSTED, "full");
  /* What a shell has sent to a file: behind what is there. */
  OK(replace("old ", "text", true));
  fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
  assert_true(fd >= 0);
  snprintf(name, sizeof name, "/dev/fd/%d", fd);
  OK(td_file_write(name, ", new", 5));
  assert_int_equal(write(fd, ".", 1), 1);
  close(fd);
  assert_holds("old text, new.");
}

static void every_step_may_fail(void **state) {
  (void)state;
  for (int files = 0; files < 2; files++)
    for (int64_t n = 1;; n++) {
      OK(replace("o", "ld", true));
      int64_t before = td_file_calls();
      files ? td_file_fail(n, false) : td_mem_fail(n, false);
      td_status *s = replace("n", "ew", true);
      files ? td_file_fail(0, false) : td_mem_fail(0, false);
      bool renamed = td_ok(s) || (files && td_file_calls() - before == 7);
      assert_holds(renamed ? "new" : "old");
      if (td_ok(s)) break;
      FAILS(s, files ? TD_UNAVAILABLE : TD_RESOURCE_EXHAUSTED, "");
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pieces_appear_at_once),
      cmocka_unit_test(what_may_not_be_replaced),
      cmocka_unit_test(links_stay),
      cmocka_unit_test(what_cannot_be_replaced),
      cmocka_unit_test(every_step_may_fail),
  };
  return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
