/* record.c - TFRecord files: TensorFlow's own, and damaged in every way.
 *
 * Files are in memory (mem_files.h) but for TensorFlow's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <stdio.h>

#include "engine/base/crc32c.h"
#include "engine/base/file_fault.h"
#include "engine/base/mem.h"
#include "engine/io/record.h"
#include "engine/io/source.h"
#include "tests/engine/base/mem_files.h"

/* ---- files --------------------------------------------------------------- */

static const char path[] = "mem://a";

static mem_file *file_of(const void *bytes, size_t n) {
  mem_files_clear();
  td_file *f;
  OK(td_file_open(path, TD_FILE_WRITE, &f));
  OK(td_file_append(f, bytes, n));
  OK(td_file_close(f));
  return mem_find(path);
}

static mem_file *write_records(const char *compression, int n,
                               const char *const *at) {
  td_record_writer *w;
  mem_files_clear();
  OK(td_record_writer_open(path, compression, &w));
  for (int i = 0; i < n; i++) OK(td_record_write(w, at[i], strlen(at[i])));
  OK(td_record_writer_close(w));
  return mem_find(path);
}

/* What reading gives: "abc|de|", and "!code" where an error ends it. */
typedef struct result {
  char text[512];
  char message[512];
  int64_t skipped;
} result;

static result read_with(const td_source_options *o) {
  result r = {.skipped = 0};
  td_record_source *s;
  td_source_record rec;
  bool more = true;
  OK(td_source_open(path, o, &s));
  td_status *failed = NULL;
  while (td_ok(failed) && more) {
    failed = td_source_next(s, &rec, &more);
    size_t len = strlen(r.text);
    if (td_ok(failed) && more && len + rec.len + 16 < sizeof r.text)
      snprintf(r.text + len, sizeof r.text - len, "%.*s|", (int)rec.len,
               rec.at);
  }
  size_t len = strlen(r.text);
  if (!td_ok(failed)) {
    snprintf(r.text + len, sizeof r.text - len, "!%d", td_status_code(failed));
    snprintf(r.message, sizeof r.message, "%s", td_status_message(failed));
  }
  td_status_release(failed);
  r.skipped = td_source_tell(s).skipped;
  td_source_close(s);
  return r;
}

static result read_all(const char *compression, int64_t skip) {
  td_source_options o = {.compression = compression, .skip_errors = skip};
  return read_with(&o);
}

static const char *const words[] = {"abc", "", "hello", "wide world"};
static const size_t ends[] = {19, 35, 56, 82}; /* of their frames */
#define ALL "abc||hello|wide world|"

/* ---- what is right ------------------------------------------------------- */

static void test_vectors(void **state) {
  (void)state;
  static const uint8_t want[] = {
      0,    0,    0,    0,    0,   0,   0,   0,    0x29, 0x03, 0x98, 0x07,
      0xd8, 0xea, 0x82, 0xa2, 3,   0,   0,   0,    0,    0,    0,    0,
      0xb0, 0x99, 0x49, 0x0e, 'a', 'b', 'c', 0x6e, 0x57, 0xf1, 0x21};
  static const char *const at[] = {"", "abc"};
  mem_file *m = write_records("", 2, at);
  assert_int_equal(m->len, sizeof want);
  assert_memory_equal(m->bytes, want, sizeof want);
}

static void test_written_and_read(void **state) {
  (void)state;
  static const char *const how[] = {NULL, "", "ZLIB", "GZIP"};
  for (size_t i = 0; i < TD_COUNT(how); i++) {
    write_records(how[i], 4, words);
    assert_string_equal(read_all(how[i], 0).text, ALL);
    write_records(how[i], 0, words);
    assert_string_equal(read_all(how[i], 0).text, "");
    file_of("", 0);
    assert_string_equal(read_all(how[i], 0).text, "");
  }
}

static void test_tensorflow_wrote(void **state) {
  (void)state;
  static const char *const how[][2] = {
      {"plain", ""}, {"zlib", "ZLIB"}, {"gzip", "GZIP"}};
  for (size_t k = 0; k < TD_COUNT(how); k++) {
    char name[64];
    td_record_source *s;
    td_source_record r;
    bool more;
    td_source_options o = {.compression = how[k][1]};
    snprintf(name, sizeof name, "tests/golden/records/%s.tfrecord", how[k][0]);
    OK(td_source_open(name, &o, &s));
    for (size_t i = 0; i < 40; i++) {
      OK(td_source_next(s, &r, &more));
      assert_true(more);
      assert_int_equal(r.len, i * i);
      for (size_t j = 0; j < r.len; j++)
        assert_int_equal(r.at[j], 'a' + (int)i % 26);
    }
    OK(td_source_next(s, &r, &more));
    assert_false(more);
    td_source_close(s);
  }
}

static void test_large_records(void **state) {
  (void)state;
  enum { N = 200000 };
  static char big[N];
  for (int k = 0; k < 3; k++) {
    const char *how = k == 0 ? "" : k == 1 ? "ZLIB" : "GZIP";
    td_record_writer *w;
    td_record_source *s;
    td_source_record r;
    bool more;
    uint32_t seed = 1;
    mem_files_clear();
    for (int i = 0; i < N; i++)
      big[i] = (char)((seed = seed * 1664525 + 1013904223) >> 27);
    OK(td_record_writer_open(path, how, &w));
    OK(td_record_write(w, big, N));
    OK(td_record_writer_flush(w));
    OK(td_record_write(w, big, 5));
    OK(td_record_writer_close(w));
    td_source_options o = {.compression = how};
    OK(td_source_open(path, &o, &s));
    OK(td_source_next(s, &r, &more));
    assert_true(more && r.len == N && memcmp(r.at, big, N) == 0);
    OK(td_source_next(s, &r, &more));
    assert_true(more && r.len == 5 && memcmp(r.at, big, 5) == 0);
    td_source_close(s);
  }
}

static void test_flushed_is_seen(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    td_record_writer *w;
    mem_files_clear();
    OK(td_record_writer_open(path, k ? "GZIP" : "", &w));
    OK(td_record_write(w, "abc", 3));
    OK(td_record_writer_flush(w));
    result r = read_all(k ? "GZIP" : "", 0);
    assert_true(strncmp(r.text, "abc|", 4) == 0);
    OK(td_record_writer_close(w));
  }
}

/* ---- what is damaged ----------------------------------------------------- */

/* What is left of the words when frame `bad` is gone. */
static const char *without(int bad) {
  static char text[64];
  text[0] = '\0';
  for (int i = 0; i < 4; i++)
    if (i != bad) sprintf(text + strlen(text), "%s|", words[i]);
  return text;
}

static const char *before(int bad) {
  static char text[64];
  text[0] = '\0';
  for (int i = 0; i < bad; i++) sprintf(text + strlen(text), "%s|", words[i]);
  return text;
}

static int frame_at(size_t offset) {
  int i = 0;
  while (offset >= ends[i]) i++;
  return i;
}

static void test_every_flipped_bit(void **state) {
  (void)state;
  mem_file *m = write_records("", 4, words);
  for (size_t i = 0; i < m->len; i++)
    for (int bit = 0; bit < 8; bit++) {
      int bad = frame_at(i);
      char want[64];
      m->bytes[i] ^= (char)(1 << bit);
      result r = read_all("", 0);
      snprintf(want, sizeof want, "%s!%d", before(bad), TD_DATA_LOSS);
      assert_string_equal(r.text, want);
      snprintf(want, sizeof want, "offset %zu", bad ? ends[bad - 1] : 0);
      assert_non_null(strstr(r.message, want));
      assert_non_null(strstr(r.message, path));
      r = read_all("", 1);
      assert_string_equal(r.text, without(bad));
      assert_int_equal(r.skipped, 1);
      m->bytes[i] ^= (char)(1 << bit);
    }
  assert_string_equal(read_all("", 0).text, ALL);
}

static void test_crc_is_told(void **state) {
  (void)state;
  char want[64];
  mem_file *m = write_records("", 4, words);
  m->bytes[12] = 'x';
  uint32_t crc = td_crc32c_mask(td_crc32c("xbc", 3));
  snprintf(want, sizeof want, "payload is 0x%08x, where 0x21f1576e is", crc);
  assert_non_null(strstr(read_all("", 0).message, want));
}

static void test_cut_at_every_length(void **state) {
  (void)state;
  mem_file *m = write_records("", 4, words);
  size_t whole = m->len;
  for (size_t n = 0; n < whole; n++) {
    int bad = frame_at(n);
    bool clean = n == 0 || n == (bad ? ends[bad - 1] : 0);
    char want[64];
    m->len = n;
    result r = read_all("", 0);
    snprintf(want, sizeof want, "%s%s", before(bad), clean ? "" : "!15");
    assert_string_equal(r.text, want);
    if (!clean) assert_non_null(strstr(r.message, "cut short"));
    r = read_all("", -1);
    assert_string_equal(r.text, before(bad));
    assert_int_equal(r.skipped, !clean);
  }
}

/* A byte that is missing anywhere costs the record it was of, and no other. */
static void test_every_lost_byte(void **state) {
  (void)state;
  char copy[128];
  mem_file *m = write_records("", 4, words);
  size_t whole = m->len;
  memcpy(copy, m->bytes, whole);
  for (size_t i = 0; i < whole; i++) {
    memcpy(m->bytes, copy, i);
    memcpy(m->bytes + i, copy + i + 1, whole - i - 1);
    m->len = whole - 1;
    result r = read_all("", -1);
    assert_string_equal(r.text, without(frame_at(i)));
    assert_true(r.skipped >= 1);
  }
}

static void test_every_byte_too_much(void **state) {
  (void)state;
  char copy[128];
  mem_file *m = write_records("", 4, words);
  size_t whole = m->len;
  memcpy(copy, m->bytes, whole);
  for (size_t i = 0; i < whole; i++) {
    memcpy(m->bytes, copy, i);
    m->bytes[i] = (char)0xa5;
    memcpy(m->bytes + i + 1, copy + i, whole - i);
    m->len = whole + 1;
    bool between = i == 0 || i == ends[0] || i == ends[1] || i == ends[2];
    result r = read_all("", -1);
    assert_string_equal(r.text, between ? ALL : without(frame_at(i)));
    assert_true(r.skipped >= 1);
  }
}

static void header(char *to, uint64_t n) {
  uint32_t crc;
  memcpy(to, &n, 8);
  crc = td_crc32c_mask(td_crc32c(to, 8));
  memcpy(to + 8, &crc, 4);
}

static void test_impossible_lengths(void **state) {
  (void)state;
  static const uint64_t n[] = {
      UINT64_MAX, UINT64_MAX - 3,          UINT64_MAX - 16,   UINT64_MAX - 15,
      INT64_MAX,  (uint64_t)1 << 63,       (uint64_t)1 << 62, (uint64_t)1 << 40,
      1 << 30,    ((uint64_t)1 << 63) - 16};
  for (size_t i = 0; i < TD_COUNT(n); i++) {
    mem_file *m = write_records("", 4, words);
    header(m->bytes + ends[0], n[i]);
    int64_t calls = td_mem_calls();
    result r = read_all("", 0);
    assert_true(td_mem_calls() - calls < 40);
    assert_string_equal(r.text, "abc|!15");
    assert_non_null(strstr(r.message, "cut short"));
    assert_string_equal(read_all("", 1).text, "abc|hello|wide world|");
  }
}

/* Where nobody knows how much is left. */
static void test_impossible_lengths_packed(void **state) {
  (void)state;
  static const uint64_t n[] = {UINT64_MAX, (uint64_t)1 << 63, UINT64_MAX - 16,
                               (uint64_t)1 << 62, (uint64_t)1 << 40};
  for (size_t i = 0; i < TD_COUNT(n); i++) {
    char bytes[64] = "";
    td_record_writer *w;
    header(bytes, n[i]);
    /* The writer packs any bytes: a record whose payload is a damaged file. */
    mem_files_clear();
    OK(td_record_writer_open(path, "GZIP", &w));
    OK(td_record_write(w, "abc", 3));
    OK(td_record_write(w, bytes, sizeof bytes));
    OK(td_record_writer_close(w));
    td_source_options o = {.compression = "GZIP"};
    td_record_source *s;
    td_source_record r;
    bool more;
    OK(td_source_open(path, &o, &s));
    OK(td_source_seek(s, (td_source_position){.offset = 19 + 12}));
    td_status *failed = td_source_next(s, &r, &more);
    bool far = n[i] > INT64_MAX / 2;
    FAILS(failed, far ? TD_DATA_LOSS : TD_RESOURCE_EXHAUSTED, "at offset 31");
    td_source_close(s);
  }
}

static void test_limit(void **state) {
  (void)state;
  write_records("", 4, words);
  td_source_options o = {.limit = 4};
  result r = read_with(&o);
  assert_string_equal(r.text, "abc||!8");
  assert_non_null(strstr(r.message, "a record of 5 bytes at offset 35"));
  o.skip_errors = 2;
  r = read_with(&o);
  assert_string_equal(r.text, "abc||");
  assert_int_equal(r.skipped, 2);
  o.limit = 5;
  assert_string_equal(read_with(&o).text, "abc||hello|");
  o.limit = UINT64_MAX;
  assert_string_equal(read_with(&o).text, ALL);
}

static void test_too_many_errors(void **state) {
  (void)state;
  mem_file *m = write_records("", 4, words);
  m->bytes[12] ^= 1;
  m->bytes[ends[1] + 12] ^= 1;
  assert_string_equal(read_all("", 1).text, "|!15");
  result r = read_all("", 2);
  assert_string_equal(r.text, "|wide world|");
  assert_int_equal(r.skipped, 2);
}

static void test_packed_cut_and_flipped(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    const char *how = k ? "GZIP" : "ZLIB";
    mem_file *m = write_records(how, 4, words);
    size_t whole = m->len;
    for (size_t n = 1; n < whole; n++) {
      m->len = n;
      result r = read_all(how, 0);
      assert_non_null(strstr(r.text, "!15"));
      assert_non_null(strstr(r.message, "cut short"));
      r = read_all(how, -1);
      assert_null(strchr(r.text, '!'));
      assert_true(strncmp(r.text, ALL, strlen(r.text)) == 0);
      assert_int_equal(r.skipped, 1);
    }
    m->len = whole;
    for (size_t i = 0; i < whole * 8; i++) {
      m->bytes[i / 8] ^= (char)(1 << i % 8);
      result r = read_all(how, 0);
      assert_true(strstr(r.text, "!15") || strcmp(r.text, ALL) == 0);
      r = read_all(how, -1);
      assert_null(strchr(r.text, '!'));
      m->bytes[i / 8] ^= (char)(1 << i % 8);
    }
  }
}

static void test_packed_members(void **state) {
  (void)state;
  char copy[512];
  mem_file *m = write_records("GZIP", 4, words);
  memcpy(copy, m->bytes, m->len);
  memcpy(m->bytes + m->len, copy, m->len);
  m->len *= 2;
  assert_string_equal(read_all("GZIP", 0).text, ALL ALL);
  m = write_records("ZLIB", 4, words);
  m->bytes[m->len++] = 'x';
  result r = read_all("ZLIB", 0);
  assert_string_equal(r.text, ALL "!15");
  assert_non_null(strstr(r.message, "something follows its end"));
}

/* ---- faults -------------------------------------------------------------- */

/* The n-th operation fails: that is told, and then all goes on. */
static void test_every_operation_fails(void **state) {
  (void)state;
  static const char *const how[] = {"", "GZIP"};
  int refused = 0;
  for (int k = 0; k < 2; k++)
    for (int nth = 1; nth < 12; nth++) {
      td_source_options o = {.compression = how[k], .skip_errors = nth % 2};
      td_record_source *s = NULL;
      td_source_record r;
      bool more = true;
      int n = 0;
      write_records(how[k], 4, words);
      td_file_fail(nth, false);
      while (!s) {
        td_status *failed = td_source_open(path, &o, &s);
        if (!td_ok(failed)) refused++;
        td_status_release(failed);
      }
      while (more) {
        td_status *failed = td_source_next(s, &r, &more);
        if (td_ok(failed) && more) n++;
        if (!td_ok(failed)) {
          assert_int_equal(td_status_code(failed), TD_UNAVAILABLE);
          refused++;
          more = true;
        }
        td_status_release(failed);
      }
      td_file_fail(0, false);
      assert_int_equal(n, 4);
      assert_int_equal(td_source_tell(s).skipped, 0);
      td_source_close(s);
    }
  assert_true(refused >= 4);
}

static void test_no_memory(void **state) {
  (void)state;
  int refused = 0;
  for (int k = 0; k < 3; k++)
    for (int nth = 1; nth < 20; nth++) {
      const char *how = k == 0 ? "" : k == 1 ? "ZLIB" : "GZIP";
      td_source_options o = {.compression = how};
      td_record_source *s;
      td_source_record r;
      bool more;
      write_records(how, 4, words);
      td_mem_fail(nth, false);
      td_status *failed = td_source_open(path, &o, &s);
      if (td_ok(failed)) {
        failed = td_source_next(s, &r, &more);
        td_source_close(s);
      }
      td_mem_fail(0, false);
      if (td_ok(failed)) continue;
      assert_int_equal(td_status_code(failed), TD_RESOURCE_EXHAUSTED);
      td_status_release(failed);
      refused++;
    }
  assert_true(refused >= 9);
}

static void test_writing_fails(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++)
    for (int nth = 1; nth < 4; nth++) {
      td_record_writer *w = NULL;
      mem_files_clear();
      td_file_fail(nth, false);
      td_status *failed = td_record_writer_open(path, k ? "ZLIB" : "", &w);
      if (td_ok(failed)) failed = td_record_write(w, "abc", 3);
      if (td_ok(failed)) failed = td_record_writer_flush(w);
      if (w && !td_ok(failed))
        FAILS(td_record_write(w, "abc", 3), TD_UNAVAILABLE, "");
      failed = td_status_first(failed, td_record_writer_close(w));
      td_file_fail(0, false);
      assert_int_equal(td_status_code(failed), TD_UNAVAILABLE);
      td_status_release(failed);
    }
}

static void test_refused(void **state) {
  (void)state;
  td_record_writer *w;
  td_record_source *s;
  td_source_options o = {.compression = "LZ4"};
  FAILS(td_record_writer_open(path, "gzip", &w), TD_INVALID_ARGUMENT,
        "compression must be \"\", \"ZLIB\" or \"GZIP\", not \"gzip\"");
  FAILS(td_source_open(path, &o, &s), TD_INVALID_ARGUMENT, "not \"LZ4\"");
  o = (td_source_options){.skip_errors = -2};
  FAILS(td_source_open(path, &o, &s), TD_INVALID_ARGUMENT, "skip_errors");
  o = (td_source_options){.skip_errors = 0};
  mem_files_clear();
  FAILS(td_source_open(path, &o, &s), TD_NOT_FOUND, path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_vectors),
      cmocka_unit_test(test_written_and_read),
      cmocka_unit_test(test_tensorflow_wrote),
      cmocka_unit_test(test_large_records),
      cmocka_unit_test(test_flushed_is_seen),
      cmocka_unit_test(test_every_flipped_bit),
      cmocka_unit_test(test_crc_is_told),
      cmocka_unit_test(test_cut_at_every_length),
      cmocka_unit_test(test_every_lost_byte),
      cmocka_unit_test(test_every_byte_too_much),
      cmocka_unit_test(test_impossible_lengths),
      cmocka_unit_test(test_impossible_lengths_packed),
      cmocka_unit_test(test_limit),
      cmocka_unit_test(test_too_many_errors),
      cmocka_unit_test(test_packed_cut_and_flipped),
      cmocka_unit_test(test_packed_members),
      cmocka_unit_test(test_every_operation_fails),
      cmocka_unit_test(test_no_memory),
      cmocka_unit_test(test_writing_fails),
      cmocka_unit_test(test_refused),
  };
  td_status_release(td_file_system_register(&mem_file_system));
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  mem_files_clear();
  return failed;
}
