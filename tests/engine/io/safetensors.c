/* safetensors.c - .safetensors files: the library's own, written, damaged.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/io/safetensors.h"
#include "engine/io/safetensors_writer.h"

#define GOLDEN "tests/golden/safetensors/"
enum { LIMIT = 1 << 22 };
static char dir[] = "/tmp/tide-safetensors-XXXXXX";
static char path[80];

static int make_dir(void **state) {
  (void)state;
  if (!mkdtemp(dir)) return -1;
  snprintf(path, sizeof path, "%s/a.safetensors", dir);
  return 0;
}

static int remove_dir(void **state) {
  (void)state;
  unlink(path);
  return rmdir(dir);
}

/* ---- the library's files ------------------------------------------------- */

static int number_of(const char *kind) {
  static const char *const kinds[] = {"BOOL", "U8",   "I8",  "I16", "U16",
                                      "F16",  "BF16", "I32", "U32", "F32",
                                      "C64",  "F64",  "I64", "U64"};
  for (int i = 0; i < (int)TD_COUNT(kinds); i++)
    if (!strcmp(kinds[i], kind)) return i;
  return -1;
}

/* As tests/peers/safetensors_files.py fills them. */
static void assert_filled(const td_safetensors_entry *e, const td_tensor *t) {
  const uint8_t *at = t->data;
  int i = number_of(e->kind);
  assert_int_equal(t->dtype, e->dtype);
  assert_true(td_shape_equal(&t->shape, &e->shape));
  assert_int_equal(td_tensor_bytes(t), e->size);
  if (strncmp(e->name, "t/", 2)) return;
  for (int k = 0; k < (int)e->size; k++)
    assert_int_equal(at[k], (7 * i + k) % (e->dtype == TD_BOOL ? 2 : 100));
}

static void test_library(void **state) {
  td_safetensors *f;
  (void)state;
  OK(td_safetensors_open(GOLDEN "ours.safetensors", &f));
  assert_int_equal(td_safetensors_count(f), 17);
  for (size_t i = 0; i < 17; i++) {
    td_safetensors_entry e;
    td_tensor t, view;
    size_t found;
    td_safetensors_at(f, i, &e);
    OK(td_safetensors_find(f, e.name, &found));
    assert_int_equal(found, i);
    OK(td_safetensors_read(f, i, &t));
    OK(td_safetensors_map(f, i, &view));
    assert_filled(&e, &t);
    assert_true(td_tensor_same(&t, &view));
    assert_true(e.size == 0 || view.buffer->readonly);
    td_tensor_release(&t);
    td_tensor_release(&view);
  }
  td_safetensors_pair p = {0};
  assert_true(td_safetensors_next_pair(f, &p));
  assert_string_equal(p.key, "by");
  assert_string_equal(p.value, "the library, \"quoted\" \\ \n\xc3\xbc");
  assert_false(td_safetensors_next_pair(f, &p));
  td_safetensors_close(f);
  td_safetensors_close(NULL);
}

/* Kinds without a counterpart are listed; the others are read beside them. */
static void test_other_kinds(void **state) {
  td_safetensors *f;
  td_safetensors_entry e;
  td_tensor t;
  size_t i;
  (void)state;
  OK(td_safetensors_open(GOLDEN "others.safetensors", &f));
  OK(td_safetensors_find(f, "t/F4", &i));
  td_safetensors_at(f, i, &e);
  assert_string_equal(e.kind, "F4");
  assert_int_equal(e.dtype, TD_INVALID);
  assert_int_equal(e.size, 4);
  FAILS(td_safetensors_read(f, i, &t), TD_UNIMPLEMENTED, "'t/F4'");
  FAILS(td_safetensors_map(f, i, &t), TD_UNIMPLEMENTED, "F4");
  OK(td_safetensors_find(f, "n\xc3\xa4me \"x\"\\\n", &i));
  OK(td_safetensors_read(f, i, &t));
  assert_int_equal(*(char *)t.data, 'x');
  td_tensor_release(&t);
  FAILS(td_safetensors_find(f, "t/F5", &i), TD_NOT_FOUND, "\"t/F4\"");
  td_safetensors_close(f);
}

/* ---- writing ------------------------------------------------------------- */

static td_status *write_all(const td_safetensors_spec *specs,
                            const td_tensor *t, size_t n,
                            const td_safetensors_pair *pairs, size_t n_pairs) {
  td_safetensors_writer *w;
  TD_TRY(td_safetensors_writer_open(path, specs, n, pairs, n_pairs, &w));
  td_status *s = NULL;
  for (size_t i; td_ok(s) && (i = td_safetensors_writer_next(w)) < n;)
    s = td_safetensors_writer_add(w, &t[i]);
  if (td_ok(s)) s = td_safetensors_writer_commit(w);
  td_safetensors_writer_close(w);
  return s;
}

static void assert_same_files(const char *a, const char *b) {
  char *x, *y;
  size_t x_len, y_len;
  OK(td_file_read(a, LIMIT, &x, &x_len));
  OK(td_file_read(b, LIMIT, &y, &y_len));
  assert_int_equal(x_len, y_len);
  assert_memory_equal(x, y, x_len);
  td_free(x);
  td_free(y);
}

/* What the library wrote becomes, read and written, the same bytes. */
static void test_same_bytes(void **state) {
  td_safetensors_spec specs[17];
  td_tensor t[17];
  td_safetensors_pair pair = {0};
  td_safetensors *f;
  (void)state;
  OK(td_safetensors_open(GOLDEN "ours.safetensors", &f));
  for (size_t i = 0; i < 17; i++) {
    td_safetensors_entry e;
    td_safetensors_at(f, i, &e);
    specs[i] = (td_safetensors_spec){e.name, e.dtype, e.shape};
    OK(td_safetensors_read(f, i, &t[i]));
  }
  assert_true(td_safetensors_next_pair(f, &pair));
  OK(write_all(specs, t, 17, &pair, 1));
  assert_same_files(path, GOLDEN "ours.safetensors");
  for (size_t i = 0; i < 17; i++) td_tensor_release(&t[i]);
  td_safetensors_close(f);
  OK(write_all(NULL, NULL, 0, NULL, 0));
  OK(td_safetensors_open(path, &f));
  assert_int_equal(td_safetensors_count(f), 0);
  td_safetensors_close(f);
}

static void test_refused(void **state) {
  td_shape two = td_shape_vector(2), one = td_shape_scalar();
  td_safetensors_spec specs[2] = {{"a", TD_FLOAT32, two}, {"a", TD_INT32, one}};
  td_safetensors_pair pair = {"k", "\xff"};
  td_safetensors_writer *w;
  td_tensor t;
  (void)state;
  OK(td_tensor_new(NULL, TD_FLOAT32, &one, &t));
  FAILS(write_all(specs, &t, 2, NULL, 0), TD_INVALID_ARGUMENT, "two tensors");
  FAILS(write_all(specs, &t, 1, NULL, 0), TD_INVALID_ARGUMENT,
        "'a' is float32 {2}, given float32 {}");
  FAILS(write_all(specs, &t, 1, &pair, 1), TD_INVALID_ARGUMENT, "'k'");
  specs[0].name = "__metadata__";
  FAILS(write_all(specs, &t, 1, NULL, 0), TD_INVALID_ARGUMENT, "called");
  specs[0].name = "\xc0\xaf";
  FAILS(write_all(specs, &t, 1, NULL, 0), TD_INVALID_ARGUMENT, "UTF-8");
  static const td_dtype lacking[] = {TD_STRING, TD_COMPLEX128, TD_QINT8,
                                     TD_RESOURCE, TD_INVALID};
  for (size_t i = 0; i < TD_COUNT(lacking); i++) {
    td_safetensors_spec s = {"x", lacking[i], one};
    FAILS(write_all(&s, &t, 1, NULL, 0), TD_INVALID_ARGUMENT, "'x'");
  }
  specs[0] = (td_safetensors_spec){"b", TD_FLOAT32, one};
  OK(td_safetensors_writer_open(path, specs, 2, NULL, 0, &w));
  FAILS(td_safetensors_writer_commit(w), TD_FAILED_PRECONDITION, "1 more");
  td_safetensors_writer_close(w);
  OK(td_safetensors_writer_open(path, specs, 1, NULL, 0, &w));
  OK(td_safetensors_writer_add(w, &t));
  FAILS(td_safetensors_writer_add(w, &t), TD_FAILED_PRECONDITION, "written");
  td_safetensors_writer_close(w);
  td_tensor_release(&t);
}

/* ---- what is no such file ------------------------------------------------ */

static void put_file(const char *header, size_t len, size_t data) {
  td_str s = {0};
  for (int i = 0; i < 8; i++) td_str_addc(&s, (char)(len >> 8 * i));
  td_str_addn(&s, header, strlen(header));
  for (size_t i = 0; i < data; i++) td_str_addc(&s, 2);
  OK(td_file_write(path, s.at, s.len));
  td_str_deinit(&s);
}

/* With `header` and `data` bytes behind it: no file, with `why`. */
static void assert_broken(const char *header, size_t data, const char *why) {
  td_safetensors *f;
  put_file(header, strlen(header), data);
  td_status *s = td_safetensors_open(path, &f);
  if (td_ok(s)) fail_msg("%s: no error", header);
  if (!strstr(td_status_message(s), why) ||
      !strstr(td_status_message(s), "a.safetensors"))
    fail_msg("%s: %s", header, td_status_message(s));
  td_status_release(s);
}

#define T(name, shape, begin, end)                                             \
  "\"" name "\":{\"dtype\":\"U8\",\"shape\":" shape                            \
  ",\"data_offsets\":[" #begin "," #end "]}"

static void test_headers(void **state) {
  static const struct {
    const char *header;
    size_t data;
    const char *why;
  } cases[] = {
      {"", 0, "does not begin with {"},
      {" {}", 0, "does not begin with {"},
      {"[]", 0, "does not begin with {"},
      {"{", 0, "'\"' is missing"},
      {"{}x", 0, "text follows"},
      {"{}", 1, "bytes follow the last tensor"},
      {"{\"a\":1}", 0, "tensor 'a': '{' is missing"},
      {"{\"a\":{}}", 0, "is missing"},
      {"{" T("a", "[1]", 0, 1) "," T("a", "[1]", 1, 2) "}", 2, "comes twice"},
      {"{" T("a", "[1]", 0, 1) "," T("b", "[1]", 0, 1) "}", 1, "overlaps"},
      {"{" T("a", "[2]", 0, 2) "," T("b", "[2]", 1, 3) "}", 3, "overlaps"},
      {"{" T("a", "[1]", 0, 1) "," T("b", "[1]", 2, 3) "}", 3, "hole"},
      {"{" T("a", "[1]", 1, 2) "}", 2, "hole"},
      {"{" T("a", "[1]", 0, 1) "}", 2, "bytes follow"},
      {"{" T("a", "[1]", 0, 1) "}", 0, "cut short"},
      {"{" T("a", "[1]", 1, 0) "}", 1, "cut short"},
      {"{" T("a", "[0]", 9, 9) "}", 0, "cut short"},
      {"{" T("a", "[2]", 0, 1) "}", 1, "do not make U8 {2}"},
      {"{" T("a", "[4294967296,4294967296]", 0, 0) "}", 0, "do not make"},
      {"{" T("a", "[9223372036854775808]", 0, 0) "}", 0, "too large"},
      {"{" T("a", "[-1]", 0, 1) "}", 1, "whole number"},
      {"{" T("a", "[1.0]", 0, 1) "}", 1, "',' is missing"},
      {"{" T("a", "[01]", 0, 1) "}", 1, "begins with 0"},
      {"{" T("a", "1", 0, 1) "}", 1, "'[' is missing"},
      {"{" T("a", "[[1]]", 0, 1) "}", 1, "whole number"},
      {"{" T("a", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", 0, 1) "}", 1,
       "16 dimensions"},
      {"{\"a\":{\"dtype\":\"U9\",\"shape\":[],\"data_offsets\":[0,1]}}", 1,
       "tensor 'a' has dtype 'U9'"},
      {"{\"a\":{\"dtype\":\"F4\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
       "do not make F4 {1}"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0]}}", 1,
       "',' is missing"},
      {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", 0, "a key comes twice"},
      {"{\"a\":{\"x\":1}}", 0, "not dtype, shape or data_offsets"},
      {"{\"\\u0000\":{}}", 0, "wrong escape"},
      {"{\"\\ud800\":{}}", 0, "wrong escape"},
      {"{\"\\q\":{}}", 0, "wrong escape"},
      {"{\"\xff\":{}}", 0, "not UTF-8"},
      {"{\"a\n\":{}}", 0, "control character"},
      {"{\"a", 0, "does not end"},
      {"{\"a\\", 0, "wrong escape"},
      {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "comes twice"},
      {"{\"__metadata__\":{\"a\":\"b\",\"c\":\"\",\"a\":\"d\"}}", 0,
       "a key of its metadata comes twice"},
      {"{\"__metadata__\":{\"a\":1}}", 0, "'\"' is missing"},
      {"{\"__metadata__\":{\"a\":{\"b\":{}}}}", 0, "'\"' is missing"},
  };
  (void)state;
  for (size_t i = 0; i < TD_COUNT(cases); i++)
    assert_broken(cases[i].header, cases[i].data, cases[i].why);
}

static void test_no_header(void **state) {
  td_safetensors *f;
  (void)state;
  OK(td_file_write(path, "1234567", 7));
  FAILS(td_safetensors_open(path, &f), TD_DATA_LOSS, "7 bytes");
  put_file("{}", 3, 0);
  FAILS(td_safetensors_open(path, &f), TD_DATA_LOSS, "3 bytes in a file of 10");
  put_file("{}", SIZE_MAX, 0);
  FAILS(td_safetensors_open(path, &f), TD_DATA_LOSS, "18446744073709551615");
  FAILS(td_safetensors_open("/nowhere", &f), TD_NOT_FOUND, "/nowhere");
}

/* Space and escapes wherever JSON has them, keys in any order. */
static void test_free_form(void **state) {
  static const char header[] =
      "{ \"__metadata__\" : { \"\\u00e9\\ud83d\\ude00\" : \"\\/\\b\" ,"
      "\"x\":\"y\"} ,\r\n\t\"a\\tb\" : { \"data_offsets\" : [ 0 , 2 ] , "
      "\"sh\\u0061pe\" : [ 2 , 1 ],\"dtype\":\"BOOL\"} }  \n";
  td_safetensors *f;
  td_safetensors_pair p = {0};
  td_safetensors_entry e;
  td_tensor t;
  (void)state;
  put_file(header, strlen(header), 2);
  OK(td_safetensors_open(path, &f));
  assert_true(td_safetensors_next_pair(f, &p));
  assert_string_equal(p.key, "\xc3\xa9\xf0\x9f\x98\x80");
  assert_string_equal(p.value, "/\b");
  assert_true(td_safetensors_next_pair(f, &p));
  assert_string_equal(p.value, "y");
  assert_false(td_safetensors_next_pair(f, &p));
  td_safetensors_at(f, 0, &e);
  assert_string_equal(e.name, "a\tb");
  assert_int_equal(e.shape.rank, 2);
  assert_int_equal(e.shape.dim[0], 2);
  /* bytes that are no bools are made so, and not in the file */
  OK(td_safetensors_map(f, 0, &t));
  assert_memory_equal(t.data, "\1\1", 2);
  assert_false(t.buffer->readonly);
  td_tensor_release(&t);
  td_safetensors_close(f);
}

/* Every byte changed, every length: an error or the same names. */
static void test_damage(void **state) {
  char *bytes;
  size_t len;
  (void)state;
  OK(td_file_read(GOLDEN "ours.safetensors", LIMIT, &bytes, &len));
  for (size_t i = 0; i < len; i++) {
    td_safetensors *f;
    bytes[i] ^= 0x41;
    OK(td_file_write(path, bytes, len));
    bytes[i] ^= 0x41;
    td_status *s = td_safetensors_open(path, &f);
    if (td_ok(s)) td_safetensors_close(f);
    td_status_release(s);
    OK(td_file_write(path, bytes, i));
    s = td_safetensors_open(path, &f);
    assert_non_null(s);
    td_status_release(s);
  }
  td_free(bytes);
}

/* ---- mapping ------------------------------------------------------------- */

static void test_mapping(void **state) {
  td_shape shape = td_shape_vector(3);
  td_safetensors_spec spec = {"a", TD_FLOAT32, shape};
  static const float values[] = {1, 2, 3}, others[] = {4, 5, 6};
  td_tensor t, other, view, again;
  td_safetensors *f;
  (void)state;
  OK(td_tensor_from(TD_FLOAT32, &shape, values, &t));
  OK(td_tensor_from(TD_FLOAT32, &shape, others, &other));
  OK(write_all(&spec, &t, 1, NULL, 0));
  OK(td_safetensors_open(path, &f));
  OK(td_safetensors_map(f, 0, &view));
  /* another file takes the name: who reads keeps the one that was opened */
  spec.name = "b";
  OK(write_all(&spec, &other, 1, NULL, 0));
  OK(td_safetensors_map(f, 0, &again));
  td_safetensors_close(f);
  assert_ptr_equal(view.data, again.data);
  assert_true(td_tensor_same(&view, &t));
  td_tensor_release(&again);
  td_tensor_release(&view);
  OK(td_safetensors_open(path, &f));
  spec.name = "c";
  OK(write_all(&spec, &t, 1, NULL, 0));
  FAILS(td_safetensors_map(f, 0, &view), TD_ABORTED, "replaced");
  OK(td_safetensors_read(f, 0, &again));
  assert_true(td_tensor_same(&again, &other));
  td_tensor_release(&again);
  td_safetensors_close(f);
  td_tensor_release(&t);
  td_tensor_release(&other);
}

/* What lies at an odd place is read. */
static void test_unaligned(void **state) {
  static const char header[] =
      "{\"a\":{\"dtype\":\"U16\",\"shape\":[1],\"data_offsets\":[0,2]}}";
  td_safetensors *f;
  td_tensor t;
  (void)state;
  for (size_t pad = 0; pad < 2; pad++) {
    char text[sizeof header + 1];
    snprintf(text, sizeof text, "%s%s", header, pad ? " " : "");
    put_file(text, strlen(text), 2);
    OK(td_safetensors_open(path, &f));
    OK(td_safetensors_map(f, 0, &t));
    assert_int_equal(t.buffer->readonly, strlen(text) % 2 == 0);
    assert_int_equal(*(uint16_t *)t.data, 0x0202);
    td_tensor_release(&t);
    td_safetensors_close(f);
  }
}

/* ---- faults -------------------------------------------------------------- */

static td_status *round_trip(const td_safetensors_spec *spec,
                             const td_tensor *t) {
  td_safetensors_pair pair = {"k", "v"};
  td_safetensors *f;
  td_tensor one = {0}, view = {0};
  TD_TRY(write_all(spec, t, 1, &pair, 1));
  TD_TRY(td_safetensors_open(path, &f));
  td_status *s = td_safetensors_read(f, 0, &one);
  if (td_ok(s)) s = td_safetensors_map(f, 0, &view);
  td_tensor_release(&one);
  td_tensor_release(&view);
  td_safetensors_close(f);
  return s;
}

static void test_faults(void **state) {
  td_shape shape = td_shape_vector(3);
  td_safetensors_spec spec = {"a", TD_FLOAT32, shape};
  td_tensor t;
  (void)state;
  OK(td_tensor_new(NULL, TD_FLOAT32, &shape, &t));
  memset(t.data, 0, 12);
  for (int files = 0; files < 2; files++)
    for (int64_t n = 1;; n++) {
      files ? td_file_fail(n, false) : td_mem_fail(n, false);
      td_status *s = round_trip(&spec, &t);
      files ? td_file_fail(0, false) : td_mem_fail(0, false);
      if (td_ok(s)) break;
      FAILS(s, files ? TD_UNAVAILABLE : TD_RESOURCE_EXHAUSTED, "");
    }
  td_tensor_release(&t);
}

/* A line of /proc/self/status, in KiB. */
static long memory(const char *line) {
  char text[128];
  long kib = -1;
  FILE *f = fopen("/proc/self/status", "r");
  while (kib < 0 && fgets(text, sizeof text, f))
    if (!strncmp(text, line, strlen(line)))
      kib = strtol(text + strlen(line) + 1, NULL, 10);
  fclose(f);
  return kib;
}

#if defined(__SANITIZE_ADDRESS__) /* moves what grows, and keeps what was      \
                                     freed */
enum { MOST = 8 };
#else
enum { MOST = 2 }; /* times the file */
#endif

/* In a process of its own, whose peak begins with what it has. */
static int open_alone(size_t bytes, size_t entries) {
  td_safetensors *f;
  long before = memory("VmRSS:");
  if (!td_ok(td_safetensors_open(path, &f))) return 1;
  if (td_safetensors_count(f) != entries) return 2;
  return memory("VmHWM:") - before < (long)(MOST * bytes >> 10) ? 0 : 3;
}

/* A header of nothing but entries takes less than twice its bytes. */
static void test_hostile_memory(void **state) {
  enum { ENTRIES = 200000 };
  td_str s = {0};
  int how;
  (void)state;
  td_str_addc(&s, '{');
  for (int i = 0; i < ENTRIES; i++)
    td_str_addf(&s,
                "%s\"%x\":{\"dtype\":\"U8\",\"shape\":[],"
                "\"data_offsets\":[%d,%d]}",
                i ? "," : "", i, i, i + 1);
  td_str_addc(&s, '}');
  assert_false(s.failed);
  put_file(s.at, s.len, ENTRIES);
  pid_t child = fork();
  if (child == 0) _exit(open_alone(s.len, ENTRIES));
  assert_int_equal(waitpid(child, &how, 0), child);
  assert_int_equal(how, 0);
  td_str_deinit(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_library),    cmocka_unit_test(test_other_kinds),
      cmocka_unit_test(test_same_bytes), cmocka_unit_test(test_refused),
      cmocka_unit_test(test_headers),    cmocka_unit_test(test_no_header),
      cmocka_unit_test(test_free_form),  cmocka_unit_test(test_damage),
      cmocka_unit_test(test_mapping),    cmocka_unit_test(test_unaligned),
      cmocka_unit_test(test_faults),     cmocka_unit_test(test_hostile_memory),
  };
  return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
