/* dtype.c - names, sizes and the half-precision conversions.
 *
 * The conversions are checked on every half and, the other way, on both sides
 * of every place where rounding changes its mind.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <math.h>
#include <string.h>

#include "engine/base/cpu.h"
#include "engine/tensor/dtype.h"

/* clang-format off */
static const struct { td_dtype t; const char *name, *sig; size_t size; } known[] = {
  {TD_FLOAT32, "float32", "float", 4},      {TD_FLOAT64, "float64", "double", 8},
  {TD_INT32, "int32", "int32", 4},          {TD_UINT8, "uint8", "uint8", 1},
  {TD_STRING, "string", "string", 8},       {TD_COMPLEX64, "complex64", "complex64", 8},
  {TD_BOOL, "bool", "bool", 1},             {TD_BFLOAT16, "bfloat16", "bfloat16", 2},
  {TD_FLOAT16, "float16", "half", 2},       {TD_COMPLEX128, "complex128", "complex128", 16},
  {TD_UINT64, "uint64", "uint64", 8},       {TD_INVALID, "invalid", "invalid", 0},
  {(td_dtype)24, "invalid", "invalid", 0},  {(td_dtype)-1, "invalid", "invalid", 0},
};
/* clang-format on */

static void test_names(void **state) {
  (void)state;
  for (size_t i = 0; i < TD_COUNT(known); i++) {
    td_dtype t = known[i].t;
    assert_string_equal(td_dtype_name(t), known[i].name);
    if (strcmp(known[i].sig, "invalid"))
      assert_int_equal(td_dtype_parse(known[i].sig, strlen(known[i].sig)), t);
    assert_int_equal(td_dtype_size(t), known[i].size);
  }
  for (int t = 1; t < TD_DTYPES; t++) {
    const char *name = td_dtype_name((td_dtype)t);
    assert_int_equal(td_dtype_parse(name, strlen(name)), t);
  }
  assert_int_equal(td_dtype_parse("invalid", 7), TD_INVALID);
  assert_int_equal(td_dtype_parse("", 0), TD_INVALID);
  assert_int_equal(td_dtype_parse("int32x", 5), TD_INT32);
}

static void test_kinds(void **state) {
  (void)state;
  int floats = 0, integers = 0, complexes = 0, plain = 0;
  for (int t = -1; t <= TD_DTYPES; t++) {
    floats += td_dtype_is_float((td_dtype)t);
    integers += td_dtype_is_integer((td_dtype)t);
    complexes += td_dtype_is_complex((td_dtype)t);
    plain += td_dtype_is_plain((td_dtype)t);
  }
  assert_int_equal(floats, 4);
  assert_int_equal(integers, 8);
  assert_int_equal(complexes, 2);
  assert_int_equal(plain, 20);
  assert_false(td_dtype_is_plain(TD_STRING));
  assert_false(td_dtype_is_plain(TD_RESOURCE));
  assert_false(td_dtype_is_plain(TD_VARIANT));
  assert_false(td_dtype_is_integer(TD_QINT8));
}

static uint32_t bits(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

/* By the definition; 0x7c00 reads as 2^16, which is where rounding puts it. */
static double half_value(uint16_t h) {
  int exponent = h >> 10 & 31, fraction = h & 1023;
  double v =
      exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
  return h & 0x8000 ? -v : v;
}

static void check_every_half(void) {
  for (uint32_t i = 0; i <= 0xffff; i++) {
    uint16_t h = (uint16_t)i;
    float f = td_float_from_half(h);
    if ((h & 0x7fff) > 0x7c00) {
      assert_true(isnan(f));
      assert_int_equal(td_float_to_half(f), h | 0x200);
      assert_int_equal(bits(f) >> 31, h >> 15);
      continue;
    }
    if ((h & 0x7fff) == 0x7c00)
      assert_true(isinf(f));
    else
      assert_true((double)f == half_value(h));
    assert_int_equal(bits(f) >> 31, h >> 15);
    assert_int_equal(td_float_to_half(f), h);
  }
}

static void test_half_to_float(void **state) {
  (void)state;
  check_every_half();
}

/* Kernels run with denormals flushed to zero; nothing may change. */
static void test_half_flushed(void **state) {
  (void)state;
  unsigned was = td_cpu_flush_on();
  check_every_half();
  td_cpu_flush_restore(was);
}

static void test_float_to_half(void **state) {
  (void)state;
  for (uint16_t h = 0; h < 0x7c00; h++) {
    double lo = half_value(h), hi = half_value(h + 1);
    float mid = (float)((lo + hi) / 2);
    uint16_t even = h & 1 ? h + 1 : h;
    const struct {
      float f;
      uint16_t want;
    } rows[] = {
        {nextafterf((float)lo, INFINITY), h},
        {nextafterf(mid, 0), h},
        {mid, even},
        {nextafterf(mid, INFINITY), h + 1},
        {nextafterf((float)hi, 0), h + 1},
    };
    for (size_t i = 0; i < TD_COUNT(rows); i++) {
      assert_int_equal(td_float_to_half(rows[i].f), rows[i].want);
      assert_int_equal(td_float_to_half(-rows[i].f), rows[i].want | 0x8000);
    }
  }
  assert_int_equal(td_float_to_half(65519.996f), 0x7bff);
  assert_int_equal(td_float_to_half(65520.0f), 0x7c00);
  assert_int_equal(td_float_to_half(INFINITY), 0x7c00);
  assert_int_equal(td_float_to_half(-1e30f), 0xfc00);
  assert_int_equal(td_float_to_half(1e-40f), 0);
  assert_int_equal(td_float_to_half(-0.0f), 0x8000);
}

static void test_bfloat16(void **state) {
  (void)state;
  for (uint32_t i = 0; i <= 0xffff; i++) {
    uint16_t h = (uint16_t)i, magnitude = h & 0x7fff;
    float f = td_float_from_bfloat16(h);
    assert_int_equal(bits(f), i << 16);
    if (magnitude > 0x7f80) {
      assert_int_equal(td_float_to_bfloat16(f), h | 0x40);
      continue;
    }
    assert_int_equal(td_float_to_bfloat16(f), h);
    if (magnitude == 0x7f80) continue;
    const struct {
      uint32_t low;
      uint16_t want;
    } rows[] = {
        {1, h},          {0x7fff, h},     {0x8000, (uint16_t)(h + (h & 1))},
        {0x8001, h + 1}, {0xffff, h + 1},
    };
    for (size_t k = 0; k < TD_COUNT(rows); k++) {
      uint32_t u = i << 16 | rows[k].low;
      memcpy(&f, &u, sizeof f);
      assert_int_equal(td_float_to_bfloat16(f), rows[k].want);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_names),         cmocka_unit_test(test_kinds),
      cmocka_unit_test(test_half_to_float), cmocka_unit_test(test_half_flushed),
      cmocka_unit_test(test_float_to_half), cmocka_unit_test(test_bfloat16),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
