/* npy.c - .npy files: exact bytes, every dtype, damaged and hostile ones.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/io/npy.h"

/* A file under construction. */
typedef struct image {
  char bytes[1024];
  size_t len;
} image;

static void put(image *f, const void *bytes, size_t n) {
  assert_true(f->len + n <= sizeof f->bytes);
  memcpy(f->bytes + f->len, bytes, n);
  f->len += n;
}

static image make(int version, const char *header, const void *data, size_t n) {
  image f = {.len = 0};
  size_t len = strlen(header);
  put(&f, "\x93NUMPY", 6);
  put(&f, (char[]){(char)version, 0}, 2);
  put(&f, (char[]){(char)len, (char)(len >> 8), 0, 0}, version == 1 ? 2 : 4);
  put(&f, header, len);
  put(&f, data, n);
  return f;
}

static td_status *decode(const image *f, td_tensor *out) {
  char *exact = td_malloc(f->len); /* so that a read beyond the end is seen */
  memcpy(exact, f->bytes, f->len);
  td_status *s = td_npy_decode(exact, f->len, "'x.npy'", out);
  td_free(exact);
  return s;
}

/* ---- writing ------------------------------------------------------------- */

static void test_exact(void **state) {
  static const char want[] =
      "\x93NUMPY\x01\0v\0{'descr': '<f4', 'fortran_order': False, "
      "'shape': (2, 3), }                                                     "
      "     \n"
      "\0\0\x80?\0\0\0@\0\0@@\0\0\x80@\0\0\xa0@\0\0\xc0@";
  td_shape shape = td_shape_matrix(2, 3);
  td_tensor t;
  char *bytes;
  size_t len;
  (void)state;
  assert_null(
      td_tensor_from(TD_FLOAT32, &shape, (float[]){1, 2, 3, 4, 5, 6}, &t));
  assert_null(td_npy_encode(&t, &bytes, &len));
  assert_int_equal(len, sizeof want - 1);
  assert_memory_equal(bytes, want, len);
  td_free(bytes);
  td_tensor_release(&t);
}

static void test_headers(void **state) {
  static const struct {
    td_dtype dtype;
    td_shape shape;
    const char *text;
  } rows[] = {
      {TD_BOOL,
       {0, {0}},
       "{'descr': '|b1', 'fortran_order': False, 'shape': (), }"},
      {TD_INT8, {1, {3}}, "'|i1', 'fortran_order': False, 'shape': (3,), }"},
      {TD_UINT8, {1, {0}}, "'|u1', 'fortran_order': False, 'shape': (0,), }"},
      {TD_COMPLEX128,
       {3, {1, 2, 3}},
       "'<c16', 'fortran_order': False, 'shape': (1, 2, 3), }"},
      {TD_FLOAT16, {8, {1, 1, 1, 1, 1, 1, 1, 2}}, "(1, 1, 1, 1, 1, 1, 1, 2)"},
  };
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_tensor t;
    char *bytes;
    size_t len;
    assert_null(td_tensor_new(NULL, rows[i].dtype, &rows[i].shape, &t));
    memset(t.data, 0, td_tensor_bytes(&t));
    assert_null(td_npy_encode(&t, &bytes, &len));
    assert_int_equal((len - td_tensor_bytes(&t)) % 64, 0);
    assert_non_null(memmem(bytes, len, rows[i].text, strlen(rows[i].text)));
    td_free(bytes);
    td_tensor_release(&t);
  }
}

static void test_unwritable(void **state) {
  static const struct {
    td_dtype dtype;
    const char *part;
  } rows[] = {
      {TD_BFLOAT16, "bfloat16: cast it to float32 first"},
      {TD_QINT8, "qint8: cast it to an integer"},
      {TD_QUINT16, "quint16"},
  };
  td_shape shape = td_shape_vector(2);
  td_tensor t = {0};
  char *bytes;
  size_t len;
  (void)state;
  FAILS(td_npy_encode(&t, &bytes, &len), TD_INVALID_ARGUMENT, "no tensor");
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    assert_null(td_tensor_new(NULL, rows[i].dtype, &shape, &t));
    FAILS(td_npy_encode(&t, &bytes, &len), TD_INVALID_ARGUMENT, rows[i].part);
    td_tensor_release(&t);
  }
  assert_null(td_tensor_strings(&shape, (const char *[]){"a", "b"},
                                (size_t[]){1, 1}, &t));
  FAILS(td_npy_encode(&t, &bytes, &len), TD_INVALID_ARGUMENT, "no string");
  td_tensor_release(&t);
}

/* What was written is read again, for every dtype that can be. */
static void test_round(void **state) {
  td_shape shape = td_shape_matrix(3, 5);
  (void)state;
  for (int d = 1; d < TD_DTYPES; d++) {
    td_tensor t, back;
    char *bytes;
    size_t len;
    if (!td_dtype_is_plain((td_dtype)d)) continue;
    assert_null(td_tensor_new(NULL, (td_dtype)d, &shape, &t));
    for (int i = 0; i < 15; i++)
      td_tensor_set_i(&t, i, d == TD_BOOL ? i & 1 : i);
    td_status *s = td_npy_encode(&t, &bytes, &len);
    if (td_ok(s)) {
      assert_null(td_npy_decode(bytes, len, "memory", &back));
      assert_true(td_tensor_same(&t, &back));
      td_tensor_release(&back);
      td_free(bytes);
    }
    td_status_release(s);
    td_tensor_release(&t);
  }
}

/* ---- reading ------------------------------------------------------------- */

static void test_versions(void **state) {
  static const char *const headers[] = {
      "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }\n",
      "{\"shape\":(2,),\"fortran_order\":False,\"descr\":\"<i4\"}",
      "{'shape': (2L,), 'descr': 'i4', 'fortran_order': True}   \n",
      "{ 'shape' : ( 2 ) , 'descr' : '=i4' , 'fortran_order' : False , } ",
  };
  (void)state;
  for (int version = 1; version <= 3; version++)
    for (size_t i = 0; i < TD_COUNT(headers); i++) {
      td_tensor t;
      image f = make(version, headers[i], (int32_t[]){7, -7}, 8);
      assert_null(decode(&f, &t));
      assert_int_equal(t.dtype, TD_INT32);
      assert_int_equal(t.shape.rank, 1);
      assert_int_equal(td_tensor_get_i(&t, 1), -7);
      td_tensor_release(&t);
    }
}

static void test_byte_order(void **state) {
  static const struct {
    const char *descr;
    const char *data;
    size_t n;
    double want;
  } rows[] = {
      {">i2", "\xff\xfe", 2, -2},
      {">u4", "\x01\x02\x03\x04", 4, 0x01020304},
      {">f8", "\xc0\x04\0\0\0\0\0\0", 8, -2.5},
      {">f4", "\xc0\x20\0\0", 4, -2.5},
      {">f2", "\xc1\0", 2, -2.5},
      {">c8", "\xc0\x20\0\0\x3f\x80\0\0", 8, -2.5},
      {">i1", "\xfe", 1, -2},
      {"<i8", "\xfe\xff\xff\xff\xff\xff\xff\xff", 8, -2},
      {"|u1", "\xfe", 1, 254},
      {"|b1", "\x07", 1, 1},
  };
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    char header[128];
    td_tensor t;
    snprintf(header, sizeof header,
             "{'descr': '%s', 'fortran_order': False, 'shape': (), }",
             rows[i].descr);
    image f = make(1, header, rows[i].data, rows[i].n);
    assert_null(decode(&f, &t));
    assert_true(td_tensor_get_f(&t, 0) == rows[i].want);
    if (t.dtype == TD_COMPLEX64) assert_true(((float *)t.data)[1] == 1.0f);
    if (t.dtype == TD_BOOL) assert_int_equal(*(uint8_t *)t.data, 1);
    td_tensor_release(&t);
  }
}

static void test_fortran(void **state) {
  int32_t data[24];
  td_tensor t;
  (void)state;
  /* element (i, j, k) of {2, 3, 4} lies at i + 2 j + 6 k */
  for (int i = 0; i < 24; i++) data[i] = i;
  image f = make(1,
                 "{'descr': '<i4', 'fortran_order': True, "
                 "'shape': (2, 3, 4)}",
                 data, sizeof data);
  assert_null(decode(&f, &t));
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 3; j++)
      for (int k = 0; k < 4; k++)
        assert_int_equal(td_tensor_get_i(&t, i * 12 + j * 4 + k),
                         i + 2 * j + 6 * k);
  td_tensor_release(&t);
  f = make(1, "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 2)}",
           "\0\1\0\2\0\3\0\4", 8);
  assert_null(decode(&f, &t));
  assert_int_equal(td_tensor_get_i(&t, 1), 3);
  assert_int_equal(td_tensor_get_i(&t, 2), 2);
  td_tensor_release(&t);
  f = make(1, "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 0, 3)}", "",
           0);
  assert_null(decode(&f, &t));
  assert_int_equal(td_tensor_count(&t), 0);
  td_tensor_release(&t);
}

#define HEAD(descr, shape)                                                     \
  "{'descr': " descr ", 'fortran_order': False, 'shape': " shape ", }"

/* Four bytes of data behind each of these. */
static void test_bad_headers(void **state) {
  static const struct {
    const char *header;
    td_code code;
    const char *part;
  } rows[] = {
      {HEAD("'<i4'", "(1,)"), TD_OK, ""},
      {"", TD_DATA_LOSS, "no dictionary"},
      {"{", TD_DATA_LOSS, "no dictionary"},
      {"{}", TD_DATA_LOSS, "is missing"},
      {"{'descr': '<i4'}", TD_DATA_LOSS, "is missing"},
      {"{'descr': '<i4', 'descr': '<i4'}", TD_DATA_LOSS, "comes twice"},
      {"{'descr': '<i4', 'extra': 1}", TD_DATA_LOSS, "unknown key"},
      {"{'descr' '<i4'}", TD_DATA_LOSS, "no dictionary"},
      {"{'descr': '<i4' 'shape': ()}", TD_DATA_LOSS, "no dictionary"},
      {"{'descr': '<i4", TD_DATA_LOSS, "no string"},
      {"{'descr", TD_DATA_LOSS, "no dictionary"},
      {"{'descr': 4}", TD_DATA_LOSS, "no string"},
      {"{'fortran_order': 1}", TD_DATA_LOSS, "neither True nor"},
      {"{'fortran_order': Tru", TD_DATA_LOSS, "neither True nor"},
      {HEAD("'<i4'", "(1,)") "x", TD_DATA_LOSS, "text follows"},
      {HEAD("'<i4'", "1"), TD_DATA_LOSS, "no tuple"},
      {HEAD("'<i4'", "(-1,)"), TD_DATA_LOSS, "something else"},
      {HEAD("'<i4'", "(1 1)"), TD_DATA_LOSS, "no tuple of"},
      {HEAD("'<i4'", "(,)"), TD_DATA_LOSS, "something else"},
      {"{'shape': (1", TD_DATA_LOSS, "no tuple of"},
      {"{'shape': (", TD_DATA_LOSS, "something else"},
      {HEAD("'<i4'", "(2,)"), TD_DATA_LOSS,
       "4 bytes of data do not make int32 {2}"},
      {HEAD("'<i4'", "(0,)"), TD_DATA_LOSS, "4 bytes of data"},
      {HEAD("'<i4'", "(9223372036854775807,)"), TD_DATA_LOSS, "do not make"},
      {HEAD("'<i4'", "(9223372036854775808,)"), TD_DATA_LOSS,
       "else than sizes"},
      {HEAD("'<i4'", "(4611686018427387905,)"), TD_DATA_LOSS, "do not make"},
      {HEAD("'<i4'", "(4294967296, 4294967296, 4)"), TD_DATA_LOSS,
       "do not make"},
      {HEAD("'<i4'", "(0, 9223372036854775807, 9)"), TD_DATA_LOSS, "do not"},
      {HEAD("'<i4'", "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)"), TD_UNIMPLEMENTED,
       "16 dimensions"},
      {HEAD("'<U4'", "(1,)"), TD_UNIMPLEMENTED, "'<U4', which has no"},
      {HEAD("'|O'", "(1,)"), TD_UNIMPLEMENTED, "no counterpart"},
      {HEAD("'<V2'", "(2,)"), TD_UNIMPLEMENTED, "astype('float32')"},
      {HEAD("'<f16'", "(1,)"), TD_UNIMPLEMENTED, "no counterpart"},
      {HEAD("''", "(1,)"), TD_UNIMPLEMENTED, "no counterpart"},
      {HEAD("'<'", "(1,)"), TD_UNIMPLEMENTED, "no counterpart"},
      {HEAD("[('a', '<i4')]", "(1,)"), TD_UNIMPLEMENTED, "record"},
  };
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_tensor t = {0};
    image f = make(1, rows[i].header, "\1\0\0\0", 4);
    td_status *s = decode(&f, &t);
    if (s) assert_non_null(strstr(td_status_message(s), "'x.npy'"));
    if (rows[i].code == TD_OK)
      OK(s);
    else
      FAILS(s, rows[i].code, rows[i].part);
    td_tensor_release(&t);
  }
}

static void test_bad_frame(void **state) {
  static const struct {
    const char *bytes;
    size_t len;
    td_code code;
  } rows[] = {
      {"", 0, TD_DATA_LOSS},
      {"\x93NUMPY\1\0\0", 9, TD_DATA_LOSS},
      {"\x92NUMPY\1\0\0\0", 10, TD_DATA_LOSS},
      {"\x93NUMPY\0\0\0\0", 10, TD_UNIMPLEMENTED},
      {"\x93NUMPY\4\0\0\0\0\0", 12, TD_UNIMPLEMENTED},
      {"\x93NUMPY\1\0\1\0", 10, TD_DATA_LOSS},
      {"\x93NUMPY\2\0\0\0", 10, TD_DATA_LOSS},
      {"\x93NUMPY\2\0\xff\xff\xff\xff", 12, TD_DATA_LOSS},
      {"\x93NUMPY\2\0\0\0\1\0", 12, TD_DATA_LOSS},
      {"PK\3\4abcdefgh", 12, TD_DATA_LOSS},
  };
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_tensor t;
    image f = {.len = 0};
    put(&f, rows[i].bytes, rows[i].len);
    FAILS(decode(&f, &t), rows[i].code, "'x.npy'");
  }
}

/* Every prefix, and every byte changed to several others: an array or an
 * error, never a crash. */
static void test_damage(void **state) {
  static const char changes[] = "\0\1(),'{}9 \x80\xff";
  image good = make(1, HEAD("'>c8'", "(1, 2)"), "0123456789abcdef", 16);
  int accepted = 0;
  (void)state;
  for (size_t i = 0; i < good.len; i++) {
    td_tensor t = {0};
    image f = good;
    f.len = i;
    FAILS(decode(&f, &t), TD_DATA_LOSS, "");
    for (size_t k = 0; k < sizeof changes - 1; k++) {
      f = good;
      f.bytes[i] = changes[k];
      td_status *s = decode(&f, &t);
      accepted += td_ok(s);
      td_status_release(s);
      td_tensor_release(&t);
    }
  }
  assert_in_range(accepted, 16 * 12, 16 * 12 + 60); /* data and padding */
}

/* ---- files and faults ---------------------------------------------------- */

static void test_files(void **state) {
  char dir[] = "/tmp/tide-npy-XXXXXX", path[64];
  td_tensor t, back = {0};
  (void)state;
  assert_non_null(mkdtemp(dir));
  snprintf(path, sizeof path, "%s/a.npy", dir);
  assert_null(td_tensor_scalar_f(TD_FLOAT64, 2.5, &t));
  assert_null(td_npy_write(path, &t));
  assert_null(td_npy_read(path, 1 << 20, &back));
  assert_true(td_tensor_same(&t, &back));
  td_tensor_release(&back);
  FAILS(td_npy_read(path, 100, &back), TD_RESOURCE_EXHAUSTED, "100 bytes");
  for (int64_t n = 1;; n++) {
    td_file_fail(n, false);
    td_status *s = td_npy_write(path, &t);
    if (td_ok(s)) s = td_npy_read(path, 1 << 20, &back);
    td_file_fail(0, false);
    td_tensor_release(&back);
    if (td_ok(s)) break;
    FAILS(s, TD_UNAVAILABLE, dir);
  }
  assert_null(td_file_write(path, "junk", 4));
  FAILS(td_npy_read(path, 1 << 20, &back), TD_DATA_LOSS, path);
  unlink(path);
  FAILS(td_npy_read(path, 1 << 20, &back), TD_NOT_FOUND, path);
  rmdir(dir);
  td_tensor_release(&t);
}

/* ---- mapped files -------------------------------------------------------- */

static char mapped[64];

static void put_file(const image *f) {
  snprintf(mapped, sizeof mapped, "/tmp/tide-npy-%d.npy", (int)getpid());
  OK(td_file_write(mapped, f->bytes, f->len));
}

/* The file's bytes, without a copy: what is written there is seen. Nobody
 * writes into it, and it outlives the file's name. */
static void test_mapped(void **state) {
  td_shape shape = td_shape_matrix(1000, 300);
  td_tensor t, m, row;
  (void)state;
  put_file(&(image){.len = 0});
  OK(td_tensor_new(NULL, TD_FLOAT32, &shape, &t));
  for (int i = 0; i < 300000; i++) ((float *)t.data)[i] = (float)i;
  OK(td_npy_write(mapped, &t));
  OK(td_npy_map(mapped, &m));
  assert_true(td_tensor_same(&t, &m));
  assert_true(m.buffer->readonly && m.buffer->foreign);
  assert_false(td_buffer_sole(m.buffer));
  FILE *f = fopen(mapped, "r+b");
  float seven = 7;
  fseek(f, -4, SEEK_END);
  assert_int_equal(fwrite(&seven, 4, 1, f), 1);
  fclose(f);
  assert_true(td_tensor_get_f(&m, 299999) == 7);
  OK(td_tensor_rows(&m, 999, 1, &row));
  td_tensor_release(&m);
  unlink(mapped);
  assert_true(td_tensor_get_f(&row, 299) == 7);
  td_tensor_release(&row);
  td_tensor_release(&t);
}

#define HEADER(descr, order, shape)                                            \
  "{'descr': '" descr "', 'fortran_order': " order ", 'shape': " shape ", }"

/* `aligned`: the data begins at a multiple of 16. */
static td_status *map_of(const char *head, bool aligned, const void *data,
                         size_t n, td_tensor *out) {
  char padded[256];
  size_t len = strlen(head), want = 16 - (10 + len + 1) % 16 + !aligned;
  snprintf(padded, sizeof padded, "%s%*s\n", head, (int)want, "");
  image f = make(1, padded, data, n);
  put_file(&f);
  td_status *s = td_npy_map(mapped, out);
  unlink(mapped);
  return s;
}

static void test_not_mapped(void **state) {
  static const char zeros[64] = {0}, two[4] = {0, 1, 2, 0};
  static const char numbers[] = HEADER("<f4", "False", "(4,)");
  td_tensor t;
  (void)state;
  OK(map_of(numbers, true, zeros, 16, &t));
  td_tensor_release(&t);
  FAILS(map_of(numbers, true, zeros, 15, &t), TD_DATA_LOSS, "15 bytes of data");
  FAILS(map_of(numbers, true, zeros, 17, &t), TD_DATA_LOSS, "17 bytes of data");
  FAILS(map_of(numbers, false, zeros, 16, &t), TD_FAILED_PRECONDITION,
        "not aligned in the file; load it without mmap");
  FAILS(map_of(HEADER(">f4", "False", "(4,)"), true, zeros, 16, &t),
        TD_FAILED_PRECONDITION, "big-endian");
  FAILS(map_of(HEADER("<f4", "True", "(2, 2)"), true, zeros, 16, &t),
        TD_FAILED_PRECONDITION, "Fortran order");
  FAILS(map_of(HEADER("|b1", "False", "(4,)"), true, two, 4, &t),
        TD_FAILED_PRECONDITION, "neither 0 nor 1");
  FAILS(map_of("{'descr'", true, zeros, 16, &t), TD_DATA_LOSS, "dictionary");
  OK(map_of(HEADER(">i1", "True", "(4,)"), false, zeros, 4, &t));
  td_tensor_release(&t);
  OK(map_of(HEADER("<f8", "False", "(0, 3)"), true, zeros, 0, &t));
  assert_int_equal(td_tensor_count(&t), 0);
  td_tensor_release(&t);
  FAILS(td_npy_map("/nowhere/x.npy", &t), TD_NOT_FOUND, "/nowhere");
  put_file(&(image){.len = 0});
  FAILS(td_npy_map(mapped, &t), TD_FAILED_PRECONDITION, "empty, or no file");
  unlink(mapped);
  FAILS(td_npy_map("/dev/zero", &t), TD_FAILED_PRECONDITION, "or no file");
  FAILS(td_npy_read("/dev/zero", SIZE_MAX, &t), TD_DATA_LOSS,
        "does not begin with");
}

static void test_map_starved(void **state) {
  static const char zeros[16] = {0};
  td_shape shape = td_shape_vector(4);
  int failed = 0;
  (void)state;
  for (int64_t n = 1;; n++, failed++) {
    td_tensor t = {0};
    OK(td_tensor_from(TD_FLOAT32, &shape, zeros, &t));
    OK(td_npy_write(mapped, &t));
    td_tensor_release(&t);
    td_mem_fail(n, false);
    td_status *s = td_npy_map(mapped, &t);
    td_mem_fail(0, false);
    unlink(mapped);
    td_tensor_release(&t);
    if (td_ok(s)) break;
    FAILS(s, TD_RESOURCE_EXHAUSTED, "memory");
  }
  assert_true(failed >= 2);
}

static void test_faults(void **state) {
  td_tensor t;
  int failed = 0;
  (void)state;
  assert_null(td_tensor_scalar_f(TD_FLOAT64, 2.5, &t));
  for (int64_t n = 1;; n++, failed++) {
    td_tensor back = {0};
    char *bytes = NULL;
    size_t len;
    td_mem_fail(n, false);
    td_status *s = td_npy_encode(&t, &bytes, &len);
    if (td_ok(s)) s = td_npy_decode(bytes, len, "memory", &back);
    td_mem_fail(0, false);
    td_free(bytes);
    td_tensor_release(&back);
    if (td_ok(s)) break;
    FAILS(s, TD_RESOURCE_EXHAUSTED, "memory");
  }
  assert_true(failed >= 3);
  td_tensor_release(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_exact),       cmocka_unit_test(test_headers),
      cmocka_unit_test(test_unwritable),  cmocka_unit_test(test_round),
      cmocka_unit_test(test_versions),    cmocka_unit_test(test_byte_order),
      cmocka_unit_test(test_fortran),     cmocka_unit_test(test_bad_headers),
      cmocka_unit_test(test_bad_frame),   cmocka_unit_test(test_damage),
      cmocka_unit_test(test_mapped),      cmocka_unit_test(test_not_mapped),
      cmocka_unit_test(test_map_starved), cmocka_unit_test(test_files),
      cmocka_unit_test(test_faults),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
