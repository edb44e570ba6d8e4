/* csv.c - tables of text: without memory, in pieces; what else they hold is in
 * tests/lua/data.lua.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/io/csv.h"

static td_status *read_all(const char *text) {
  td_csv_options o = {.header = true};
  td_csv_as as[8] = {{.dtype = TD_INVALID}};
  td_tensor out[8];
  td_csv *c;
  TD_TRY(td_csv_parse(text, strlen(text), "x.csv", &o, &c));
  td_status *s = td_csv_read(c, as, out);
  for (int i = 0; i < td_csv_columns(c); i++) {
    if (td_ok(s)) assert_int_equal(out[i].shape.dim[0], 2);
    td_tensor_release(&out[i]);
  }
  td_csv_free(c);
  return s;
}

static void test_no_memory(void **state) {
  int refused = 0;
  (void)state;
  for (int nth = 1; nth < 30; nth++) {
    td_mem_fail(nth, false);
    td_status *s = read_all("a,b,c\n1,2.5,x\n3,,\"y\"\n");
    td_mem_fail(0, false);
    if (td_ok(s)) continue;
    assert_int_equal(td_status_code(s), TD_RESOURCE_EXHAUSTED);
    td_status_release(s);
    refused++;
  }
  assert_true(refused >= 10);
}

/* ---- in pieces ----------------------------------------------------------- */

static char path[64];

static int begin(void **state) {
  (void)state;
  snprintf(path, sizeof path, "/tmp/tide-csv-%d.csv", (int)getpid());
  return 0;
}

static int end(void **state) {
  (void)state;
  unlink(path);
  return 0;
}

static void write_rows(int n, void (*row)(FILE *f, int i)) {
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs("n,x,text\n", f);
  for (int i = 0; i < n; i++) row(f, i);
  fclose(f);
}

static void wide_row(FILE *f, int i) {
  fprintf(f, "%d,%d.5,\"line %d,\n\"\"it\"\"\"\r\n", i, i, i);
}

/* Rows and their quotes lie across the pieces in every way; a row is longer
 * than a piece; the same is read again. */
static void test_pieces(void **state) {
  enum { ROWS = 60000, LONG = 300000 };
  td_csv_options o = {.header = true};
  td_csv_as as[3] = {{.dtype = TD_INVALID}};
  td_tensor t[3];
  td_csv *c;
  (void)state;
  write_rows(ROWS, wide_row);
  FILE *f = fopen(path, "a");
  fputs("1,2,\"", f);
  for (int i = 0; i < LONG; i++) fputs("\"\"", f);
  fputs("\"", f); /* and no line's end */
  fclose(f);
  OK(td_csv_open(path, &o, &c));
  for (int turn = 0; turn < 2; turn++) {
    OK(td_csv_read(c, as, t));
    assert_int_equal(t[0].dtype, TD_INT64);
    assert_int_equal(t[1].dtype, TD_FLOAT32);
    assert_int_equal(t[2].dtype, TD_STRING);
    assert_int_equal(t[2].shape.dim[0], ROWS + 1);
    for (int i = 0; i < ROWS; i++) {
      char want[64];
      size_t len;
      snprintf(want, sizeof want, "line %d,\n\"it\"", i);
      const char *text = td_tensor_str(&t[2], i, &len);
      assert_int_equal(td_tensor_get_i(&t[0], i), i);
      assert_true(td_tensor_get_f(&t[1], i) == i + 0.5);
      assert_int_equal(len, strlen(want));
      assert_memory_equal(text, want, len);
    }
    size_t len;
    td_tensor_str(&t[2], ROWS, &len);
    assert_int_equal(len, LONG);
    for (int i = 0; i < 3; i++) td_tensor_release(&t[i]);
  }
  td_csv_free(c);
}

/* KiB of this process, by a word of /proc/self/status. */
static long memory(const char *word) {
  char line[128];
  long kb = -1;
  FILE *f = fopen("/proc/self/status", "r");
  while (f && fgets(line, sizeof line, f))
    if (strncmp(line, word, strlen(word)) == 0)
      kb = strtol(line + strlen(word), NULL, 10);
  if (f) fclose(f);
  return kb;
}

static void large_row(FILE *f, int i) {
  fprintf(f, "%d,%d.25,t%039d\n", i, i % 1000, i);
}

/* In a process of its own, whose peak is its own: 0, or what was wrong. */
static int read_alone(void) {
  td_csv_options o = {.header = true};
  td_csv_as as[3] = {{.dtype = TD_INVALID}};
  td_tensor t[3];
  td_csv *c;
  long before = memory("VmRSS:"), given = 0;
  if (!td_ok(td_csv_open(path, &o, &c))) return 1;
  if (!td_ok(td_csv_read(c, as, t))) return 2;
  for (int i = 0; i < 3; i++) given += (long)(td_tensor_bytes(&t[i]) >> 10);
  long peak = memory("VmHWM:") - before;
  if (given < 30 * 1024) return 3;
  return peak > given + given / 5 + 8192 ? 4 : 0;
}

/* No more than 1.2 times what is given, and a piece: 36 MB of columns, of 30
 * MB of text. */
static void test_peak(void **state) {
  int status;
  (void)state;
  write_rows(600000, large_row);
  pid_t child = fork();
  if (child == 0) _exit(read_alone());
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_endless_row(void **state) {
  td_csv_options o = {0};
  td_csv *c;
  (void)state;
  FILE *f = fopen(path, "w");
  char *piece = malloc(1 << 20);
  memset(piece, 'x', 1 << 20);
  fputs("a,\"", f);
  for (int i = 0; i < 66; i++) fwrite(piece, 1, 1 << 20, f);
  fclose(f);
  free(piece);
  FAILS(td_csv_open(path, &o, &c), TD_DATA_LOSS,
        "line 1: a row is over 64 MiB; is a quote not closed?");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_no_memory),
      cmocka_unit_test(test_pieces),
      cmocka_unit_test(test_peak),
      cmocka_unit_test(test_endless_row),
  };
  return cmocka_run_group_tests(tests, begin, end);
}
