/* graphdef_tensor.c - TensorProto bytes: every form that is read, the one that
 * is written, and what is refused.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "wire.h"

#include "engine/graphdef/graphdef.h"

enum { LIMIT = 1 << 16 };

/* Values into field `f`, from text: "d" doubles, "f" floats, "i" numbers (all
 * packed), "u" numbers one by one, "s" strings, "h" bytes in hex. */
static void add_values(td_str *m, int f, char form, const char *text) {
  td_str list = {0};
  char *end;
  while (*text) {
    size_t len = strcspn(text, ",");
    double d = strtod(text, &end);
    float x = (float)d;
    unsigned byte;
    if (form == 's') wire_bytes(m, f, text, len);
    if (form == 'u') wire_int(m, f, strtoll(text, NULL, 10));
    if (form == 'i') wire_varint(&list, (uint64_t)strtoll(text, NULL, 10));
    if (form == 'f') td_str_addn(&list, (const char *)&x, sizeof x);
    if (form == 'd') td_str_addn(&list, (const char *)&d, sizeof d);
    if (form == 'h' && sscanf(text, "%2x", &byte) == 1)
      td_str_addc(&list, (char)byte);
    text += len + (text[len] == ',');
  }
  if (form != 's' && form != 'u') wire_message(m, f, &list);
}

static td_str proto(int dtype, const char *shape, int field, char form,
                    const char *values) {
  td_str m = {0}, s = wire_shape(shape);
  wire_int(&m, 1, dtype);
  wire_message(&m, 2, &s);
  if (field) add_values(&m, field, form, values);
  return m;
}

/* clang-format off */
static const struct {
  int dtype; const char *shape; int field; char form; const char *values, *printed;
} good[] = {
  {1, "2", 5, 'f', "1.5,-2", "float32 {2} 1.5 -2"},
  {1, "2,2", 5, 'f', "1,2", "float32 {2, 2} 1 2 2 2"}, /* the last is repeated */
  {1, "2", 0, 0, "", "float32 {2} 0 0"},
  {1, "0,3", 0, 0, "", "float32 {0, 3}"},
  {1, "", 5, 'f', "3", "float32 {} 3"},
  {1, "2", 4, 'h', "00,00,80,3f,00,00,00,40", "float32 {2} 1 2"},
  {2, "2", 6, 'd', "0.1,2", "float64 {2} 0.1 2"},
  {3, "3", 7, 'i', "-1,2", "int32 {3} -1 2 2"},
  {3, "3", 7, 'u', "-1,2,3", "int32 {3} -1 2 3"}, /* not packed */
  {4, "2", 7, 'i', "0,255", "uint8 {2} 0 255"},
  {5, "2", 7, 'i', "-32768,32767", "int16 {2} -32768 32767"},
  {6, "2", 7, 'i', "-128,127", "int8 {2} -128 127"},
  {9, "2", 10, 'i', "-9223372036854775808,5", "int64 {2} -9223372036854775808 5"},
  {10, "3", 11, 'i', "1,0", "bool {3} true false false"},
  {10, "3", 4, 'h', "02,00,ff", "bool {3} true false true"}, /* normalised */
  {12, "1", 7, 'i', "255", "quint8 {1} 255"},
  {13, "1", 7, 'i', "-7", "qint32 {1} -7"},
  {14, "2", 13, 'i', "16256", "bfloat16 {2} 1 1"},
  {17, "1", 7, 'i', "65535", "uint16 {1} 65535"},
  {19, "2", 13, 'i', "15360,49152", "float16 {2} 1 -2"},
  {22, "1", 16, 'i', "4294967295", "uint32 {1} 4294967295"},
  {23, "1", 17, 'i', "18446744073709551615", NULL},
  {8, "2", 9, 'f', "1,2", "complex64 {2} 1+2i 1+2i"},
  {18, "1", 12, 'd', "1,-2", "complex128 {1} 1-2i"},
  {7, "2", 8, 's', "ab,c", "string {2} \"ab\" \"c\""},
  {7, "3", 8, 's', "ab", "string {3} \"ab\" \"ab\" \"ab\""},
  {7, "2", 0, 0, "", "string {2} \"\" \"\""},
  {7, "2", 4, 'h', "02,01,61,62,63", "string {2} \"ab\" \"c\""}, /* packed */
  {7, "2", 4, 'h', "00,00", "string {2} \"\" \"\""},
  /* more values than elements */
  {1, "2", 5, 'f', "1,2,3", "float32 {2} 1 2"},
  {4, "1", 7, 'i', "5,300", "uint8 {1} 5"},
  {8, "1", 9, 'f', "1,2,3,4", "complex64 {1} 1+2i"},
  {7, "", 8, 's', "ab,c", "string {} \"ab\""},
  {1, "0", 4, 'h', "00", "float32 {0}"},
};

static const struct {
  int dtype; const char *shape; int field; char form; const char *values, *part;
} bad[] = {
  {0, "", 0, 0, "", "unknown dtype 0"},
  {24, "", 0, 0, "", "unknown dtype 24"},
  {-1, "", 0, 0, "", "unknown dtype -1"},
  {101, "", 0, 0, "", "reference dtype 101 (float32_ref)"},
  {20, "", 0, 0, "", "dtype resource: handles do not come from files"},
  {21, "", 0, 0, "", "dtype variant"},
  {1, "-1", 0, 0, "", "a known shape, not {-1}"},
  {1, "?", 0, 0, "", "a known shape"},
  {1, "-2", 0, 0, "", "size of -2"},
  {1, "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", 0, 0, "", "17 dimensions: at most 16"},
  {1, "4294967296,4294967296", 0, 0, "", "more than 2^63-1 elements"},
  {1, "0,4294967296,4294967296", 0, 0, "", "more than 2^63-1 elements"},
  {2, "9223372036854775807", 0, 0, "", "repeated values would take"},
  {1, "100000", 5, 'f', "1", "repeated values would take 399996 bytes more"},
  {7, "100000", 8, 's', "x", "repeated values would take"},
  {7, "9223372036854775807", 0, 0, "", "repeated values would take"},
  {8, "2", 9, 'f', "1,2,3", "pairs are needed"},
  {1, "2", 7, 'i', "1", "float32 has values beside float_val"},
  {3, "2", 10, 'i', "1", "int32 has values beside int_val"},
  {3, "1", 14, 's', "x", "has values beside"},
  {6, "1", 7, 'i', "128", "int_val holds 128: int8 goes from -128 to 127"},
  {4, "1", 7, 'i', "-1", "uint8 goes from 0 to 255"},
  {19, "1", 13, 'i', "65536", "float16 goes from 0 to 65535"},
  {1, "2", 4, 'h', "00,00,00,00", "has 4 bytes: not those of float32 {2}"},
  {7, "2", 4, 'h', "02,01,61,62", "does not hold 2 strings"},
  {7, "2", 4, 'h', "02", "does not hold 2 strings"},
  {7, "1", 4, 'h', "01,61,62", "has 2 bytes of text; its lengths say 1"},
  {7, "1", 4, 'h', "ff,ff,ff,ff,ff,01", "does not hold 1 strings"},
  {7, "9223372036854775807", 4, 'h', "00,00", "does not hold"},
};
/* clang-format on */

static void assert_prints(const td_tensor *t, const char *text) {
  td_str s = {0};
  td_tensor_print(t, 8, &s);
  assert_string_equal(td_str_c(&s), text);
  td_str_deinit(&s);
}

/* Written and read again it is the same, and so are the bytes. */
static void assert_round_trip(const td_tensor *t) {
  td_tensor again;
  char *one, *two;
  size_t n_one, n_two;
  OK(td_tensorproto_write(t, &one, &n_one));
  OK(td_tensorproto_read(one, n_one, 64, &again));
  assert_true(td_tensor_same(t, &again));
  OK(td_tensorproto_write(&again, &two, &n_two));
  assert_int_equal(n_one, n_two);
  assert_memory_equal(one, two, n_one);
  td_tensor_release(&again);
  td_free(one);
  td_free(two);
}

static void test_good(void **state) {
  (void)state;
  for (size_t i = 0; i < TD_COUNT(good); i++) {
    td_str m = proto(good[i].dtype, good[i].shape, good[i].field, good[i].form,
                     good[i].values);
    td_tensor t;
    OK(td_tensorproto_read(td_str_c(&m), m.len, LIMIT, &t));
    if (good[i].printed) assert_prints(&t, good[i].printed);
    assert_round_trip(&t);
    td_tensor_release(&t);
    td_str_deinit(&m);
  }
}

/* An empty tensor of any dtype, however it is written. */
static void test_empty(void **state) {
  (void)state;
  static const char *const shapes[] = {"0", "2,0", "0,3,1000"};
  static const struct {
    int field;
    char form;
    const char *values;
  } beside[] = {{0, 0, ""},       {4, 'h', ""},    {4, 'h', "00,01"},
                {5, 'f', "1"},    {6, 'd', "1,2"}, {7, 'i', "1"},
                {8, 's', "x,yz"}, {9, 'f', "1"},   {13, 'i', "1"}};
  for (int dtype = 1; dtype < TD_DTYPES; dtype++) {
    if (dtype == TD_RESOURCE || dtype == TD_VARIANT) continue;
    for (size_t i = 0; i < TD_COUNT(shapes) * TD_COUNT(beside); i++) {
      size_t k = i % TD_COUNT(beside);
      td_str m = proto(dtype, shapes[i / TD_COUNT(beside)], beside[k].field,
                       beside[k].form, beside[k].values);
      td_tensor t;
      OK(td_tensorproto_read(td_str_c(&m), m.len, LIMIT, &t));
      assert_int_equal(t.dtype, dtype);
      assert_int_equal(td_tensor_count(&t), 0);
      assert_round_trip(&t);
      td_tensor_release(&t);
      td_str_deinit(&m);
    }
  }
}

static void test_bad(void **state) {
  (void)state;
  for (size_t i = 0; i < TD_COUNT(bad); i++) {
    td_str m = proto(bad[i].dtype, bad[i].shape, bad[i].field, bad[i].form,
                     bad[i].values);
    td_tensor t;
    td_status *s = td_tensorproto_read(td_str_c(&m), m.len, LIMIT, &t);
    if (!s) fail_msg("no error, wanted \"%s\"", bad[i].part);
    if (!strstr(td_status_message(s), bad[i].part))
      fail_msg("\"%s\" lacks \"%s\"", td_status_message(s), bad[i].part);
    assert_false(td_tensor_valid(&t));
    td_status_release(s);
    td_str_deinit(&m);
  }
}

static void test_two_forms(void **state) {
  (void)state;
  td_tensor t;
  td_str m = proto(4, "1", 7, 'i', "1");
  add_values(&m, 4, 'h', "01");
  FAILS(td_tensorproto_read(td_str_c(&m), m.len, LIMIT, &t),
        TD_INVALID_ARGUMENT, "tensor_content and int_val");
  td_str_deinit(&m);
  td_str shape = wire_shape("2");
  wire_int(&shape, 3, 1);
  wire_int(&m, 1, TD_FLOAT32);
  wire_message(&m, 2, &shape);
  FAILS(td_tensorproto_read(td_str_c(&m), m.len, LIMIT, &t),
        TD_INVALID_ARGUMENT, "a shape of unknown rank has 1 sizes");
  td_str_deinit(&m);
  FAILS(td_tensorproto_read("\x0a", 1, LIMIT, &t), TD_INVALID_ARGUMENT,
        "not a readable TensorProto");
}

static void test_written_bytes(void **state) {
  (void)state;
  static const char floats[] = "\x08\x01"                 /* dtype */
                               "\x12\x04\x12\x02\x08\x02" /* shape {2} */
                               "\x22\x08\0\0\x80\x3f\0\0\0\x40";
  static const char strings[] = "\x08\x07\x12\x04\x12\x02\x08\x02"
                                "\x42\x01\x61\x42\x00";
  static const char scalar[] = "\x08\x03\x12\x00\x22\x04\x05\0\0\0";
  td_shape two = td_shape_vector(2);
  td_tensor t;
  char *at;
  size_t len;
  OK(td_tensor_from(TD_FLOAT32, &two, (float[]){1, 2}, &t));
  OK(td_tensorproto_write(&t, &at, &len));
  assert_int_equal(len, sizeof floats - 1);
  assert_memory_equal(at, floats, len);
  td_tensor_release(&t);
  td_free(at);
  OK(td_tensor_strings(&two, (const char *[]){"a", ""}, (size_t[]){1, 0}, &t));
  OK(td_tensorproto_write(&t, &at, &len));
  assert_int_equal(len, sizeof strings - 1);
  assert_memory_equal(at, strings, len);
  td_tensor_release(&t);
  td_free(at);
  OK(td_tensor_scalar_i(TD_INT32, 5, &t));
  OK(td_tensorproto_write(&t, &at, &len));
  assert_int_equal(len, sizeof scalar - 1);
  assert_memory_equal(at, scalar, len);
  td_tensor_release(&t);
  td_free(at);
}

/* Empty strings at the end are not written one by one. */
static void test_empty_strings(void **state) {
  (void)state;
  static const struct {
    const char *shape, *values;
    size_t values_written;
  } rows[] = {{"5", "", 1},        {"5", "a", 5},     {"4", "a,,", 2},
              {"4", ",b,,", 3},    {"3", "a,b,c", 3}, {"2,2", ",,b,", 4},
              {"3000000", "", 1}, {"1", "", 1},      {"0", "", 0}};
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    bool none = !*rows[i].values;
    td_str m = proto(7, rows[i].shape, none ? 0 : 8, 's', rows[i].values);
    td_tensor t, again;
    char *at;
    size_t len, values = 0;
    OK(td_tensorproto_read(td_str_c(&m), m.len, SIZE_MAX, &t));
    OK(td_tensorproto_write(&t, &at, &len));
    for (size_t k = 0; k < len; k++) values += at[k] == 0x42; /* the field */
    assert_int_equal(values, rows[i].values_written);
    OK(td_tensorproto_read(at, len, SIZE_MAX, &again));
    assert_true(td_tensor_same(&t, &again));
    td_tensor_release(&t);
    td_tensor_release(&again);
    td_free(at);
    td_str_deinit(&m);
  }
}

static void free_object(td_object *o) {
  td_free(o);
}

static void test_unwritable(void **state) {
  (void)state;
  td_tensor t;
  char *at;
  size_t len;
  td_object *o = td_calloc(1, sizeof *o);
  *o = (td_object){.refs = 1, .type = "thing", .free = free_object};
  OK(td_tensor_object(TD_RESOURCE, o, &t));
  FAILS(td_tensorproto_write(&t, &at, &len), TD_INVALID_ARGUMENT,
        "resource tensor has no form");
  td_tensor_release(&t);
  td_allocator far = {.name = "TEST:0"};
  td_buffer buffer = {.refs = 1, .allocator = &far};
  t = (td_tensor){.dtype = TD_FLOAT32, .buffer = &buffer};
  FAILS(td_tensorproto_write(&t, &at, &len), TD_INVALID_ARGUMENT,
        "memory of TEST:0 must be copied first");
}

static td_status *round_trip(void *arg) {
  const td_str *m = arg;
  td_tensor t = {0};
  char *at = NULL;
  size_t len;
  td_status *s = td_tensorproto_read(td_str_c(m), m->len, LIMIT, &t);
  if (td_ok(s)) s = td_tensorproto_write(&t, &at, &len);
  td_tensor_release(&t);
  td_free(at);
  return s;
}

static void test_no_memory(void **state) {
  (void)state;
  for (int dtype = 1; dtype < 20; dtype++) {
    td_str m = proto(dtype, "3,2", 0, 0, "");
    assert_true(fail_each(round_trip, &m) > 4);
    td_str_deinit(&m);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_good),
      cmocka_unit_test(test_empty),
      cmocka_unit_test(test_bad),
      cmocka_unit_test(test_two_forms),
      cmocka_unit_test(test_written_bytes),
      cmocka_unit_test(test_empty_strings),
      cmocka_unit_test(test_unwritable),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
