/* source.c - lines, pieces and whole files, and positions in all formats.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <stdio.h>
#include <sys/stat.h>
#include <pthread.h>
#include <fcntl.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/file_fault.h"
#include "engine/base/mem.h"
#include "engine/io/record.h"
#include "engine/io/source.h"
#include "tests/engine/base/mem_files.h"

static const char path[] = "mem://a";

static void file_of(const void *bytes, size_t n) {
  td_file *f;
  mem_files_clear();
  OK(td_file_open(path, TD_FILE_WRITE, &f));
  OK(td_file_append(f, bytes, n));
  OK(td_file_close(f));
}

/* "a:1=x a:2=y", of what is left. */
static void read_on(td_record_source *s, char *text, size_t room) {
  td_source_record r;
  bool more = true;
  size_t len = 0;
  text[0] = '\0';
  for (;;) {
    td_str key = {0};
    td_status *failed = td_source_next(s, &r, &more);
    if (!td_ok(failed))
      snprintf(text + len, room - len, " !%d", td_status_code(failed));
    td_status_release(failed);
    if (failed || !more) return;
    td_source_key(s, &r, &key);
    len +=
        (size_t)snprintf(text + len, room - len, "%s%s=%.*s", len ? " " : "",
                         td_str_c(&key) + strlen("mem://"), (int)r.len, r.at);
    td_str_deinit(&key);
  }
}

static const char *read_all(const td_source_options *o) {
  static char text[512];
  td_record_source *s;
  OK(td_source_open(path, o, &s));
  read_on(s, text, sizeof text);
  td_source_close(s);
  return text;
}

/* ---- formats ------------------------------------------------------------- */

/* What TensorFlow's TextLineReader gives. */
static void test_lines(void **state) {
  (void)state;
  static const struct {
    const char *bytes, *want;
  } cases[] = {
      {"", ""},
      {"\n", "a:1="},
      {"x", "a:1=x"},
      {"x\n", "a:1=x"},
      {"x\r\ny", "a:1=x a:2=y"},
      {"x\ry\n\r\r\n\nlast\r", "a:1=x\ry a:2=\r a:3= a:4=last"},
      {"x\n\r", "a:1=x"},
  };
  td_source_options o = {.format = TD_SOURCE_LINES};
  for (size_t i = 0; i < TD_COUNT(cases); i++) {
    file_of(cases[i].bytes, strlen(cases[i].bytes));
    assert_string_equal(read_all(&o), cases[i].want);
  }
}

static void test_skipped_lines(void **state) {
  (void)state;
  td_source_options o = {.format = TD_SOURCE_LINES, .skip_lines = 2};
  file_of("a\nb\nc\nd\n", 8);
  assert_string_equal(read_all(&o), "a:3=c a:4=d");
  o.skip_lines = 9;
  assert_string_equal(read_all(&o), "");
}

static void test_long_lines(void **state) {
  (void)state;
  static char text[100001];
  memset(text, 'x', sizeof text);
  text[100000] = '\n';
  td_record_source *s;
  td_source_record r;
  bool more;
  td_source_options o = {.format = TD_SOURCE_LINES, .limit = 100000};
  file_of(text, sizeof text);
  OK(td_source_open(path, &o, &s));
  OK(td_source_next(s, &r, &more));
  assert_true(more && r.len == 100000);
  td_source_close(s);
  o.limit = 99999;
  OK(td_source_open(path, &o, &s));
  FAILS(td_source_next(s, &r, &more), TD_RESOURCE_EXHAUSTED,
        "a line of more than the 99999 bytes allowed at offset 0");
  td_source_close(s);
  o.limit = 3;
  file_of("abc\r\nabcd", 9);
  assert_string_equal(read_all(&o), "a:1=abc !8");
}

/* As TensorFlow's FixedLengthRecordReader. */
static void test_pieces(void **state) {
  (void)state;
  static const struct {
    int64_t header, record, footer, hop;
    const char *want;
  } cases[] = {
      {2, 3, 3, 0, "a:0=012 a:1=345 a:2=678"},
      {2, 3, 3, 2, "a:0=012 a:1=234 a:2=456 a:3=678"},
      {2, 3, 3, 5, "a:0=012 a:1=567"},
      {2, 5, 3, 0, "a:0=01234 a:1=56789"},
      {2, 5, 3, 1000, "a:0=01234"},
      {20, 4, 0, 0, ""},
      {0, 16, 0, 0, ""},
      {0, 15, 0, 0, "a:0=HH0123456789FFF"},
  };
  file_of("HH0123456789FFF", 15);
  for (size_t i = 0; i < TD_COUNT(cases); i++) {
    td_source_options o = {.format = TD_SOURCE_FIXED,
                           .header = cases[i].header,
                           .record = cases[i].record,
                           .footer = cases[i].footer,
                           .hop = cases[i].hop};
    assert_string_equal(read_all(&o), cases[i].want);
  }
}

static void test_whole(void **state) {
  (void)state;
  td_source_options o = {.format = TD_SOURCE_WHOLE};
  file_of("a\nb", 3);
  assert_string_equal(read_all(&o), "a=a\nb");
  file_of("", 0);
  assert_string_equal(read_all(&o), "a=");
  file_of("abc", 3);
  o.limit = 2;
  assert_string_equal(read_all(&o), " !8");
}

/* ---- positions ----------------------------------------------------------- */

/* From each position, in a fresh source and in one that is somewhere else. */
static void check_positions(const td_source_options *o) {
  char rest[16][512];
  td_source_position at[16];
  td_record_source *s, *other;
  td_source_record r;
  bool more = true;
  int n = 0;
  OK(td_source_open(path, o, &s));
  OK(td_source_open(path, o, &other));
  while (more) {
    assert_true(n < 16);
    at[n] = td_source_tell(s);
    OK(td_source_seek(other, at[n]));
    read_on(other, rest[n++], sizeof rest[0]);
    OK(td_source_next(s, &r, &more));
  }
  td_source_close(s);
  assert_true(n >= 2);
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++) {
      char text[512];
      OK(td_source_seek(other, at[i]));
      read_on(other, text, sizeof text);
      assert_string_equal(text, rest[i]);
      OK(td_source_open(path, o, &s));
      OK(td_source_seek(s, at[k]));
      OK(td_source_next(s, &r, &more));
      OK(td_source_seek(s, at[i]));
      read_on(s, text, sizeof text);
      assert_string_equal(text, rest[i]);
      td_source_close(s);
    }
  td_source_close(other);
}

static void test_positions(void **state) {
  (void)state;
  file_of("one\ntwo\r\n\nfour", 15);
  check_positions(&(td_source_options){.format = TD_SOURCE_LINES});
  check_positions(
      &(td_source_options){.format = TD_SOURCE_LINES, .skip_lines = 1});
  check_positions(&(td_source_options){.format = TD_SOURCE_WHOLE});
  for (int64_t hop = 0; hop < 8; hop++)
    check_positions(&(td_source_options){.format = TD_SOURCE_FIXED,
                                         .header = 1,
                                         .record = 4,
                                         .footer = 2,
                                         .hop = hop});
}

static void test_positions_of_records(void **state) {
  (void)state;
  static const char *const how[] = {"", "ZLIB", "GZIP"};
  for (int k = 0; k < 3; k++) {
    td_record_writer *w;
    mem_files_clear();
    OK(td_record_writer_open(path, how[k], &w));
    for (int i = 0; i < 6; i++) OK(td_record_write(w, "abcdef", (size_t)i));
    OK(td_record_writer_close(w));
    check_positions(&(td_source_options){.compression = how[k]});
    if (k == 0) mem_find(path)->bytes[12 + 16] ^= 1; /* the second's length */
    if (k == 0) check_positions(&(td_source_options){.skip_errors = 1});
  }
}

static void test_bad_positions(void **state) {
  (void)state;
  td_record_source *s;
  td_source_options o = {.format = TD_SOURCE_LINES};
  file_of("abc\n", 4);
  OK(td_source_open(path, &o, &s));
  FAILS(td_source_seek(s, (td_source_position){.offset = 9, .number = 1}),
        TD_DATA_LOSS, "it has 4 bytes, and is to be read from 9 on");
  FAILS(td_source_seek(s, (td_source_position){.number = -1}),
        TD_INVALID_ARGUMENT, "behind -1 records");
  OK(td_source_seek(s, (td_source_position){.offset = 4, .number = 1}));
  td_source_close(s);
  o.compression = "GZIP";
  td_record_writer *w;
  mem_files_clear();
  OK(td_record_writer_open(path, "GZIP", &w));
  OK(td_record_write(w, "abc", 3));
  OK(td_record_writer_close(w));
  OK(td_source_open(path, &o, &s));
  FAILS(td_source_seek(s, (td_source_position){.offset = 20, .number = 1}),
        TD_DATA_LOSS, "it has 19 bytes");
  td_source_close(s);
}

/* ---- what is in memory --------------------------------------------------- */

static void test_ready(void **state) {
  (void)state;
  static const td_source_options o[] = {
      {.format = TD_SOURCE_LINES},
      {.format = TD_SOURCE_FIXED, .record = 4, .hop = 2}};
  td_source_record r;
  bool more;
  file_of("one\ntwo\nxy", 10);
  for (size_t i = 0; i < TD_COUNT(o); i++) {
    td_record_source *s;
    OK(td_source_open(path, &o[i], &s));
    assert_false(td_source_ready(s));
    OK(td_source_next(s, &r, &more));
    assert_true(td_source_ready(s));
    int64_t calls = td_file_calls();
    OK(td_source_next(s, &r, &more));
    assert_true(more);
    assert_int_equal(td_file_calls(), calls);
    td_source_close(s);
  }
}

/* Bytes come when they come. */
static void *feed(void *arg) {
  int fd = open(arg, O_WRONLY);
  for (int i = 0; i < 3 && fd >= 0; i++) {
    usleep(2000);
    if (write(fd, "ab\ncd", 5) != 5) break;
  }
  close(fd);
  return NULL;
}

static void test_a_pipe(void **state) {
  (void)state;
  td_str dir = {0}, name = {0};
  OK(td_file_temp_dir(80, &dir));
  td_str_addf(&name, "%s/p", td_str_c(&dir));
  assert_int_equal(mkfifo(td_str_c(&name), 0600), 0);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, feed, name.at), 0);
  td_record_source *s;
  td_source_record r;
  bool more = true;
  int n = 0;
  td_source_options o = {.format = TD_SOURCE_LINES};
  OK(td_source_open(td_str_c(&name), &o, &s));
  while (more) {
    OK(td_source_next(s, &r, &more));
    if (more) assert_int_equal(r.len, n == 0 || n == 3 ? 2 : 4);
    n += more;
  }
  assert_int_equal(n, 4);
  td_source_close(s);
  pthread_join(thread, NULL);
  unlink(td_str_c(&name));
  rmdir(td_str_c(&dir));
  td_str_deinit(&name);
  td_str_deinit(&dir);
}

/* ---- what is refused ----------------------------------------------------- */

static void test_refused(void **state) {
  (void)state;
  static const struct {
    td_source_options o;
    const char *part;
  } cases[] = {
      {{.format = TD_SOURCE_FIXED}, "record_bytes must be at least 1, not 0"},
      {{.format = TD_SOURCE_FIXED, .record = INT64_MAX},
       "record_bytes must be"},
      {{.format = TD_SOURCE_FIXED, .record = 1, .header = -1}, "header_bytes"},
      {{.format = TD_SOURCE_FIXED, .record = 1, .footer = -1}, "footer_bytes"},
      {{.format = TD_SOURCE_FIXED, .record = 1, .footer = INT64_MAX},
       "footer_bytes"},
      {{.format = TD_SOURCE_FIXED, .record = 1, .hop = -1}, "hop_bytes"},
      {{.format = TD_SOURCE_FIXED, .record = 1, .hop = INT64_MAX}, "hop_bytes"},
      {{.format = TD_SOURCE_LINES, .skip_lines = -1}, "skip_header_lines"},
      {{.format = TD_SOURCE_WHOLE, .compression = "zip"}, "compression"},
      {{.format = (td_source_format)7}, "number 7"},
  };
  file_of("abc", 3);
  for (size_t i = 0; i < TD_COUNT(cases); i++) {
    td_record_source *s;
    FAILS(td_source_open(path, &cases[i].o, &s), TD_INVALID_ARGUMENT,
          cases[i].part);
  }
}

/* A read that fails, at any time, loses nothing. */
static void test_reads_fail(void **state) {
  (void)state;
  static const td_source_options o[] = {
      {.format = TD_SOURCE_LINES},
      {.format = TD_SOURCE_LINES, .skip_lines = 1},
      {.format = TD_SOURCE_FIXED, .header = 1, .record = 4, .hop = 3},
      {.format = TD_SOURCE_WHOLE}};
  file_of("one\ntwo\nxyz\n", 12);
  for (size_t i = 0; i < TD_COUNT(o); i++) {
    char want[512];
    snprintf(want, sizeof want, "%s", read_all(&o[i]));
    for (int nth = 1; nth < 6; nth++) {
      td_record_source *s;
      td_source_record r;
      bool more = true;
      char text[512] = "";
      OK(td_source_open(path, &o[i], &s));
      td_file_fail(nth, false);
      while (more) {
        td_str key = {0};
        td_status *failed = td_source_next(s, &r, &more);
        if (!td_ok(failed)) more = true;
        if (td_ok(failed) && more) {
          td_source_key(s, &r, &key);
          size_t len = strlen(text);
          snprintf(text + len, sizeof text - len, "%s%s=%.*s", len ? " " : "",
                   td_str_c(&key) + strlen("mem://"), (int)r.len, r.at);
        }
        td_str_deinit(&key);
        td_status_release(failed);
      }
      td_file_fail(0, false);
      assert_string_equal(text, want);
      td_source_close(s);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lines),
      cmocka_unit_test(test_skipped_lines),
      cmocka_unit_test(test_long_lines),
      cmocka_unit_test(test_pieces),
      cmocka_unit_test(test_whole),
      cmocka_unit_test(test_positions),
      cmocka_unit_test(test_positions_of_records),
      cmocka_unit_test(test_bad_positions),
      cmocka_unit_test(test_ready),
      cmocka_unit_test(test_a_pipe),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_reads_fail),
  };
  td_status_release(td_file_system_register(&mem_file_system));
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  mem_files_clear();
  return failed;
}
