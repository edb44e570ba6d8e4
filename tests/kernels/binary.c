/* binary.c - the loops of binary.def, broadcasting, integers, strings.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <math.h>
#include <string.h>

#include "kernels/binary.h"
#include "kernels/simd/half.h"
#include "tests/kernels/call.h"

enum { BLOCK = 1024 };

static const char *const names[TD_BINARIES] = {
#define BINARY(op, ...) #op,
#include "kernels/binary.def"
#undef BINARY
};

static uint64_t seed = 1;
static uint64_t draw(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return seed ^ seed >> 31;
}

static double draw_number(void) {
  static const double special[] = {0.0, -0.0,  1,    -1,  INFINITY, -INFINITY,
                                   NAN, 1e-40, 2,    0.5, -3e38,    1e38,
                                   2.5, -2.5,  -6.0, 3,   -0.5,     1e300};
  uint64_t r = draw();
  if (r % 4 == 0) return special[draw() % TD_COUNT(special)];
  return ldexp((double)(draw() % 20001) - 10000, -(int)(draw() % 14));
}

static void fill(td_dtype t, int n, void *to) {
  for (int i = 0; i < n; i++) {
    switch (t) {
    case TD_FLOAT32:
      ((float *)to)[i] = (float)draw_number();
      break;
    case TD_FLOAT64:
      ((double *)to)[i] = draw_number();
      break;
    case TD_INT32:
      ((int32_t *)to)[i] = (int32_t)draw() >> draw() % 32;
      break;
    default:
      ((int64_t *)to)[i] = (int64_t)draw() >> draw() % 64;
      break;
    }
  }
}

/* ---- agreement ----------------------------------------------------------- */

static bool gives_bool(int op) {
  return (op >= TD_BINARY_Equal && op <= TD_BINARY_GreaterEqual);
}

static bool same(td_dtype t, bool bools, const void *a, const void *b, int i) {
  if (bools) return ((const uint8_t *)a)[i] == ((const uint8_t *)b)[i];
  size_t size = td_dtype_size(t), at = (size_t)i * size;
  if (!memcmp((const char *)a + at, (const char *)b + at, size)) return true;
  if (t == TD_FLOAT32)
    return isnan(((const float *)a)[i]) && isnan(((const float *)b)[i]);
  return t == TD_FLOAT64 && isnan(((const double *)a)[i]) &&
         isnan(((const double *)b)[i]);
}

static void compare(int op, td_dtype t, td_isa isa, int n) {
  static _Alignas(64) uint64_t x[BLOCK], y[BLOCK], a[BLOCK], b[BLOCK];
  fill(t, n, x);
  fill(t, n, y);
  td_binary_find(op, t, TD_SCALAR)(n, x, y, a);
  td_binary_find(op, t, isa)(n, x, y, b);
  for (int i = 0; i < n; i++)
    if (!same(t, gives_bool(op), a, b, i))
      fail_msg("%s %s %s: element %d of %d differs from scalar", names[op],
               td_dtype_name(t), td_isa_name(isa), i, n);
  if (gives_bool(op)) return;
  td_binary_find(op, t, isa)(n, x, y, y); /* over the second operand */
  for (int i = 0; i < n; i++) assert_true(same(t, false, y, b, i));
}

static void agree(void) {
  static const td_dtype types[] = {TD_FLOAT32, TD_FLOAT64, TD_INT32, TD_INT64};
  for (int isa = TD_AVX2; isa <= (int)td_cpu_best(); isa++)
    for (int op = 0; op < TD_BINARIES; op++)
      for (size_t t = 0; t < TD_COUNT(types); t++)
        for (int n = 0; td_binary_scalar[op][types[t]] && n < 100; n++)
          compare(op, types[t], (td_isa)isa, n < 70 ? n : BLOCK);
}

/* As tests run, and as kernels do: with denormals off. */
static void test_agreement(void **state) {
  (void)state;
  agree();
  unsigned was = td_cpu_flush_on();
  agree();
  td_cpu_flush_restore(was);
}

/* pow in float against double: a straddle of the rounding at most. */
static void test_pow(void **state) {
  static float x[BLOCK], y[BLOCK], z[BLOCK];
  (void)state;
  for (int round = 0; round < 300; round++) {
    fill(TD_FLOAT32, BLOCK, x);
    fill(TD_FLOAT32, BLOCK, y);
    td_binary_apply(TD_BINARY_Pow, TD_FLOAT32, td_cpu_isa(), BLOCK, x, y, z);
    for (int i = 0; i < BLOCK; i++) {
      double want = pow(x[i], y[i]);
      float nearest = (float)want;
      if (isnan(want)) {
        assert_true(isnan(z[i]));
      } else if (z[i] != nearest) {
        if (fabs(want) < 1.2e-38 && fabs(z[i] - want) < 3e-45) continue;
        if (!(fabs(z[i] - want) <= fabs(want) * 7e-8))
          fail_msg("pow(%a, %a) is %a, not %a", (double)x[i], (double)y[i],
                   (double)z[i], want);
      }
    }
  }
}

/* ---- broadcasting -------------------------------------------------------- */

static td_shape draw_shape(void) {
  td_shape s = {.rank = (int32_t)(draw() % 9)};
  for (int i = 0; i < s.rank; i++) {
    uint64_t r = draw() % 40;
    s.dim[i] = r == 0 ? 0 : r < 4 && s.rank < 4 ? 70 : r < 20 ? 1 : 1 + r % 3;
  }
  return s;
}

/* A shape that broadcasts with `s`: some axes 1, some missing. */
static td_shape draw_partner(const td_shape *s) {
  int drop = (int)(draw() % 3);
  td_shape p = {0};
  for (int i = drop < s->rank ? drop : s->rank; i < s->rank; i++)
    p.dim[p.rank++] = draw() % 2 ? s->dim[i] : 1;
  return p;
}

/* Element of `s` that stands at `index` of the result `out`. */
static int64_t naive_at(const td_shape *s, const td_shape *out,
                        const int64_t *index) {
  int64_t at = 0;
  for (int i = 0; i < s->rank; i++) {
    int64_t k = index[i + out->rank - s->rank];
    at = at * s->dim[i] + (s->dim[i] == 1 ? 0 : k);
  }
  return at;
}

static void next_index(const td_shape *s, int64_t *index) {
  for (int i = s->rank - 1; i >= 0 && ++index[i] == s->dim[i]; i--)
    index[i] = 0;
}

static void numbers(td_dtype t, const td_shape *s, int64_t first,
                    td_tensor *out) {
  assert_null(td_tensor_new(NULL, t, s, out));
  for (int64_t i = 0; i < td_tensor_count(out); i++)
    td_tensor_set_i(out, i, (first + i) % 100);
}

static void check_broadcast(td_dtype t, const td_shape *a, const td_shape *b) {
  td_tensor in[2], z;
  numbers(t, a, 3, &in[0]);
  numbers(t, b, 50, &in[1]);
  td_shape want;
  assert_true(td_shape_broadcast(a, b, &want));
  assert_null(call("Sub", 2, in, 2, NULL, 0, &z));
  assert_true(td_shape_equal(&z.shape, &want));
  int64_t index[TD_MAX_RANK] = {0};
  for (int64_t i = 0; i < td_tensor_count(&z); i++) {
    int64_t x = td_tensor_get_i(&in[0], naive_at(a, &want, index));
    int64_t y = td_tensor_get_i(&in[1], naive_at(b, &want, index));
    assert_int_equal(td_tensor_get_i(&z, i), x - y);
    next_index(&want, index);
  }
  td_tensor_release(&z);
  td_tensor_release(&in[0]);
  td_tensor_release(&in[1]);
}

static void test_broadcast(void **state) {
  static const td_dtype types[] = {TD_FLOAT32,  TD_INT8,       TD_FLOAT16,
                                   TD_FLOAT64,  TD_COMPLEX128, TD_INT16,
                                   TD_BFLOAT16, TD_INT64};
  (void)state;
  for (int i = 0; i < 2000; i++) {
    td_shape a = draw_shape(), b = draw_partner(&a);
    td_dtype t = types[i % (int)TD_COUNT(types)];
    if (i & 8)
      check_broadcast(t, &a, &b);
    else
      check_broadcast(t, &b, &a);
  }
}

/* Pieces begin anywhere: the walk must agree with itself from every start. */
static void note_index(void *arg, int64_t n, const void *const *in,
                       int64_t at) {
  int32_t *out = arg;
  const int32_t *x = in[0], *y = in[1], *z = in[2];
  for (int64_t i = 0; i < n; i++)
    out[at + i] = x[i] * 1000000 + y[i] * 1000 + z[i];
}

static void test_walk(void **state) {
  (void)state;
  for (int round = 0; round < 300; round++) {
    td_shape out, s[3] = {draw_shape()};
    s[1] = draw_partner(&s[0]);
    s[2] = draw_partner(&s[0]);
    const td_shape *shapes[] = {&s[0], &s[1], &s[2]};
    td_broadcast b;
    assert_null(td_broadcast_plan(&b, 3, shapes, &out));
    if (b.count > 5000) continue;
    static int32_t data[5000], whole[5000], parts[5000];
    for (int i = 0; i < 5000; i++) data[i] = i % 1000;
    const void *in[] = {data, data, data};
    const size_t size[] = {4, 4, 4};
    td_broadcast_run(&b, in, size, 0, b.count, note_index, whole);
    for (int64_t i = 0; i < b.count;) {
      int64_t end = i + 1 + (int64_t)(draw() % 700);
      if (end > b.count) end = b.count;
      td_broadcast_run(&b, in, size, i, end, note_index, parts);
      i = end;
    }
    assert_memory_equal(whole, parts, (size_t)b.count * 4);
    for (int64_t i = 0; i < b.count; i++)
      assert_int_equal(parts[i], data[td_broadcast_index(&b, 0, i)] * 1000000 +
                                     data[td_broadcast_index(&b, 1, i)] * 1000 +
                                     data[td_broadcast_index(&b, 2, i)]);
  }
}

/* ---- integers ------------------------------------------------------------ */

static void test_integers(void **state) {
  static const struct {
    const char *op;
    td_dtype dtype;
    int64_t x, y, want;
  } rows[] = {
      {"Div", TD_INT32, -7, 3, -2},
      {"Div", TD_INT32, INT32_MIN, -1, INT32_MIN},
      {"Div", TD_INT64, INT64_MIN, -1, INT64_MIN},
      {"TruncateDiv", TD_INT8, -128, -1, -128},
      {"FloorDiv", TD_INT8, -7, 3, -3},
      {"FloorDiv", TD_INT8, -128, -1, -128},
      {"FloorDiv", TD_INT64, 7, -3, -3},
      {"FloorDiv", TD_UINT8, 200, 7, 28},
      {"FloorMod", TD_INT32, -7, 3, 2},
      {"FloorMod", TD_INT32, 7, -3, -2},
      {"FloorMod", TD_INT32, INT32_MIN, -1, 0},
      {"Mod", TD_INT64, -7, 3, -1},
      {"Pow", TD_INT32, 3, 40, 689956897},
      {"Pow", TD_INT8, 2, 9, 0},
      {"Pow", TD_INT64, -2, 63, INT64_MIN},
      {"Pow", TD_INT16, 0, 0, 1},
      {"Add", TD_INT32, INT32_MAX, 1, INT32_MIN},
      {"Mul", TD_INT16, 300, 300, 24464},
      {"Mul", TD_UINT16, 65535, 65535, 1},
      {"LeftShift", TD_INT32, 1, 31, INT32_MIN},
      {"LeftShift", TD_INT32, 1, 32, INT32_MIN},
      {"LeftShift", TD_INT32, 5, -1, 5},
      {"LeftShift", TD_INT8, 1, 7, -128},
      {"LeftShift", TD_UINT8, 200, 1, 144},
      {"RightShift", TD_INT8, -8, 1, -4},
      {"RightShift", TD_INT8, -1, 40, -1},
      {"RightShift", TD_UINT8, 255, 40, 1},
      {"RightShift", TD_INT64, -200, 1, -100},
      {"Maximum", TD_UINT64, -1, 1, -1},
      {"SquaredDifference", TD_INT64, 3, -4, 49},
      {"BitwiseXor", TD_UINT16, 0xff00, 0x0ff0, 0xf0f0},
      {"Relu6Grad", TD_INT32, 9, 5, 9},
      {"ReluGrad", TD_UINT8, 9, 0, 0},
  };
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_tensor in[2], z;
    td_shape scalar = td_shape_scalar();
    for (int k = 0; k < 2; k++) {
      assert_null(td_tensor_new(NULL, rows[i].dtype, &scalar, &in[k]));
      td_tensor_set_i(&in[k], 0, k ? rows[i].y : rows[i].x);
    }
    assert_null(call(rows[i].op, 1, in, 2, NULL, 0, &z));
    if (td_tensor_get_i(&z, 0) != rows[i].want)
      fail_msg("%s %s: %lld", rows[i].op, td_dtype_name(rows[i].dtype),
               (long long)td_tensor_get_i(&z, 0));
    td_tensor_release(&z);
    td_tensor_release(&in[0]);
    td_tensor_release(&in[1]);
  }
}

static void check_refused(const char *op, td_dtype t, const td_shape *a,
                          const td_shape *b, int64_t second,
                          const char *message) {
  td_tensor in[2], z;
  numbers(t, a, 1, &in[0]);
  numbers(t, b, 1, &in[1]);
  if (td_tensor_count(&in[1])) td_tensor_set_i(&in[1], 0, second);
  td_status *s = call(op, 2, in, 2, NULL, 0, &z);
  assert_int_equal(td_status_code(s), TD_INVALID_ARGUMENT);
  assert_non_null(strstr(td_status_message(s), message));
  td_status_release(s);
  td_tensor_release(&in[0]);
  td_tensor_release(&in[1]);
}

static void test_refused(void **state) {
  td_shape v3 = td_shape_vector(3), v2 = td_shape_vector(2);
  td_shape e = td_shape_matrix(0, 3), v0 = td_shape_vector(0);
  td_tensor in[2], z;
  (void)state;
  check_refused("FloorDiv", TD_INT32, &v3, &v3, 0, "division by zero");
  check_refused("FloorMod", TD_UINT8, &v3, &v3, 0, "division by zero");
  check_refused("Div", TD_INT64, &v3, &v3, 0, "division by zero");
  check_refused("Mod", TD_INT64, &v3, &v3, 0, "division by zero");
  check_refused("Pow", TD_INT8, &v3, &v3, -1, "negative power");
  check_refused("Add", TD_INT8, &v3, &v2, 1, "shapes {3} and {2} do not");
  check_refused("Equal", TD_INT8, &v3, &v0, 1, "shapes {3} and {0} do not");
  check_refused("ReluGrad", TD_FLOAT32, &v3, &v2, 1, "must be equal");
  /* nothing is divided: nothing to refuse */
  numbers(TD_INT32, &e, 0, &in[0]);
  numbers(TD_INT32, &v3, 0, &in[1]);
  assert_null(call("FloorDiv", 1, in, 2, NULL, 0, &z));
  assert_true(td_shape_equal(&z.shape, &e));
  td_tensor_release(&z);
  td_tensor_release(&in[0]);
  td_tensor_release(&in[1]);
}

/* ---- the rest ------------------------------------------------------------ */

static void test_incomparable(void **state) {
  td_shape v3 = td_shape_vector(3), v2 = td_shape_vector(2);
  td_note lax = {"incompatible_shape_error", td_attr_bool(false)};
  td_tensor in[2], z;
  (void)state;
  numbers(TD_INT32, &v3, 0, &in[0]);
  numbers(TD_INT32, &v2, 0, &in[1]);
  for (int not_equal = 0; not_equal < 2; not_equal++) {
    assert_null(call(not_equal ? "NotEqual" : "Equal", 1, in, 2, &lax, 1, &z));
    assert_int_equal(z.shape.rank, 0);
    assert_int_equal(td_tensor_get_i(&z, 0), not_equal);
    td_tensor_release(&z);
  }
  td_tensor_release(&in[0]);
  td_tensor_release(&in[1]);
}

static void test_strings(void **state) {
  static const char *const a[] = {"x", "", "long text"}, *const b[] = {"x"};
  static const size_t a_len[] = {1, 0, 9}, b_len[] = {1};
  static const char *const joined[] = {"xx", "x", "long textx"};
  td_shape v3 = td_shape_vector(3), v1 = td_shape_vector(1);
  td_tensor in[2], z;
  (void)state;
  assert_null(td_tensor_strings(&v3, a, a_len, &in[0]));
  assert_null(td_tensor_strings(&v1, b, b_len, &in[1]));
  assert_null(call("Add", 1, in, 2, NULL, 0, &z));
  for (int i = 0; i < 3; i++) {
    size_t len;
    const char *s = td_tensor_str(&z, i, &len);
    assert_int_equal(len, strlen(joined[i]));
    assert_memory_equal(s, joined[i], len);
  }
  td_tensor_release(&z);
  assert_null(call("NotEqual", 1, in, 2, NULL, 0, &z));
  for (int i = 0; i < 3; i++) assert_int_equal(td_tensor_get_i(&z, i), i != 0);
  td_tensor_release(&z);
  td_tensor_release(&in[0]);
  td_tensor_release(&in[1]);
}

/* Large enough for many pieces: the same on one thread and two. */
static void test_threads(void **state) {
  td_shape rows = td_shape_matrix(1000, 300), row = td_shape_vector(300);
  td_tensor in[2], one, two;
  (void)state;
  for (int k = 0; k < 2; k++) {
    assert_null(td_tensor_new(NULL, TD_FLOAT32, k ? &row : &rows, &in[k]));
    fill(TD_FLOAT32, (int)td_tensor_count(&in[k]), in[k].data);
  }
  assert_null(call("Mul", 1, in, 2, NULL, 0, &one));
  assert_null(call("Mul", 2, in, 2, NULL, 0, &two));
  assert_true(td_tensor_same(&one, &two));
  td_tensor_release(&one);
  td_tensor_release(&two);
  td_tensor_release(&in[0]);
  td_tensor_release(&in[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_agreement), cmocka_unit_test(test_pow),
      cmocka_unit_test(test_broadcast), cmocka_unit_test(test_walk),
      cmocka_unit_test(test_integers),  cmocka_unit_test(test_refused),
      cmocka_unit_test(test_strings),   cmocka_unit_test(test_incomparable),
      cmocka_unit_test(test_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
