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
  FAILS(td_file_replace_open(dir, &r), TD_FAILED_PRECONDITION, "regular");
  FAILS(td_file_replace_open("/nowhere/f", &r), TD_NOT_FOUND, "/nowhere");
  FAILS(td_file_replace_open("", &r), TD_NOT_FOUND, "");
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
      cmocka_unit_test(every_step_may_fail),
  };
  return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
