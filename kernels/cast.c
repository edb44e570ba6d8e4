/* cast.c - one dtype to another.
 *
 * Between real types there is one loop a pair. Halves and complex numbers go
 * through a block of float or double on the way in, the way out, or both.
 * TensorFlow leaves a float that does not fit its integer to the processor;
 * here it becomes the nearest integer there is, and NaN becomes 0. Integers
 * wrap. A complex number loses its imaginary part. Quantized integers are cast
 * as the integers they are stored in.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/checks.h"
#include "kernels/cost.h"
#include "kernels/cpu.h"
#include "kernels/element.h"
#include "kernels/simd/vec.h"

enum { BLOCK = TD_HALF_BLOCK };

/* ---- loops --------------------------------------------------------------- */

typedef void (*cast_loop)(int64_t n, const void *x, void *y);

/* [low, high) is what truncation brings into range; both are exact. */
#define SATURATE(to, low, high, least, most)                                   \
  static inline td_##to f32_to_##to(float x) {                                 \
    td_##to y = (td_##to)(x >= (low) && x < (high) ? x : 0);                   \
    y = x >= (high) ? (most) : y;                                              \
    return x < (low) ? (least) : y;                                            \
  }                                                                            \
  static inline td_##to f64_to_##to(double x) {                                \
    td_##to y = (td_##to)(x >= (low) && x < (high) ? x : 0);                   \
    y = x >= (high) ? (most) : y;                                              \
    return x < (low) ? (least) : y;                                            \
  }                                                                            \
  static inline td_##to int_to_##to(uint64_t x) {                              \
    return (td_##to)x;                                                         \
  }
SATURATE(i8, -0x1p7f, 0x1p7f, INT8_MIN, INT8_MAX)
SATURATE(i16, -0x1p15f, 0x1p15f, INT16_MIN, INT16_MAX)
SATURATE(i32, -0x1p31f, 0x1p31f, INT32_MIN, INT32_MAX)
SATURATE(i64, -0x1p63f, 0x1p63f, INT64_MIN, INT64_MAX)
SATURATE(u8, 0.0f, 0x1p8f, 0, UINT8_MAX)
SATURATE(u16, 0.0f, 0x1p16f, 0, UINT16_MAX)
SATURATE(u32, 0.0f, 0x1p32f, 0, UINT32_MAX)
SATURATE(u64, 0.0f, 0x1p64f, 0, UINT64_MAX)

#define TO_INT(to, x)                                                          \
  _Generic((x), float                                                          \
           : f32_to_##to, double                                               \
           : f64_to_##to, default                                              \
           : int_to_##to)(x)
#define TO_i8(x) TO_INT(i8, x)
#define TO_i16(x) TO_INT(i16, x)
#define TO_i32(x) TO_INT(i32, x)
#define TO_i64(x) TO_INT(i64, x)
#define TO_u8(x) TO_INT(u8, x)
#define TO_u16(x) TO_INT(u16, x)
#define TO_u32(x) TO_INT(u32, x)
#define TO_u64(x) TO_INT(u64, x)
#define TO_f32(x) (float)(x)
#define TO_f64(x) (double)(x)
#define TO_b8(x) ((x) != 0)

#define LOOP(from, to)                                                         \
  static void from##_loop_##to(int64_t n, const void *x, void *y) {            \
    const td_##from *in = x;                                                   \
    td_##to *out = y;                                                          \
    TD_VEC_LOOP                                                                \
    for (int64_t i = 0; i < n; i++) out[i] = (td_##to)TO_##to(in[i]);          \
  }
#define PAIRS(M, from)                                                         \
  M(from, f32)                                                                 \
  M(from, f64)                                                                 \
  M(from, b8)                                                                  \
  M(from, i8)                                                                  \
  M(from, i16)                                                                 \
  M(from, i32) M(from, i64) M(from, u8) M(from, u16) M(from, u32) M(from, u64)
#define ALL_PAIRS(M)                                                           \
  PAIRS(M, f32)                                                                \
  PAIRS(M, f64)                                                                \
  PAIRS(M, b8)                                                                 \
  PAIRS(M, i8)                                                                 \
  PAIRS(M, i16)                                                                \
  PAIRS(M, i32)                                                                \
  PAIRS(M, i64) PAIRS(M, u8) PAIRS(M, u16) PAIRS(M, u32) PAIRS(M, u64)
ALL_PAIRS(LOOP)

#define ENTRY(from, to) [TD_ELEMENT_##from][TD_ELEMENT_##to] = from##_loop_##to,
static const cast_loop loops[TD_DTYPES][TD_DTYPES] = {ALL_PAIRS(ENTRY)};

/* ---- blocks -------------------------------------------------------------- */

typedef struct job {
  td_dtype from, to;           /* stored integers instead of quantized ones */
  td_dtype from_real, to_real; /* what the loop runs on */
  cast_loop loop;
  size_t from_size, to_size;
  bool truncate;
  const char *x;
  char *y;
} job;

/* The type a block is staged in; the dtype itself when it needs no stage. */
static td_dtype real_of(td_dtype t) {
  if (td_is_half(t) || t == TD_COMPLEX64) return TD_FLOAT32;
  return t == TD_COMPLEX128 ? TD_FLOAT64 : t;
}

static const void *load(const job *j, int64_t n, const void *x, void *block) {
  if (j->from == j->from_real) return x;
  if (td_is_half(j->from))
    td_half_load(j->from, n, x, block);
  else if (j->from == TD_COMPLEX64)
    for (int64_t i = 0; i < n; i++)
      ((float *)block)[i] = ((const float *)x)[2 * i];
  else
    for (int64_t i = 0; i < n; i++)
      ((double *)block)[i] = ((const double *)x)[2 * i];
  return block;
}

static void store(const job *j, int64_t n, const void *block, void *y) {
  if (td_is_half(j->to)) {
    td_half_store(j->to, n, block, y);
  } else if (j->to == TD_COMPLEX64) {
    for (int64_t i = 0; i < n; i++) {
      ((float *)y)[2 * i] = ((const float *)block)[i];
      ((float *)y)[2 * i + 1] = 0;
    }
  } else {
    for (int64_t i = 0; i < n; i++) {
      ((double *)y)[2 * i] = ((const double *)block)[i];
      ((double *)y)[2 * i + 1] = 0;
    }
  }
}

/* Fraction bits, the hidden one not counted; 0 when not a float. */
static int fraction_bits(td_dtype t) {
  switch (t) {
  case TD_FLOAT64:
    return 52;
  case TD_FLOAT32:
    return 23;
  case TD_FLOAT16:
    return 10;
  case TD_BFLOAT16:
    return 7;
  default:
    return 0;
  }
}

/* Clears the bits the result has no room for, so that nothing is rounded. */
static const void *clear_fraction(const job *j, int64_t n, const void *x,
                                  void *block) {
  int bits = fraction_bits(j->from_real) - fraction_bits(j->to);
  memcpy(block, x, (size_t)n * td_dtype_size(j->from_real));
  if (j->from_real == TD_FLOAT32)
    for (int64_t i = 0; i < n; i++) ((uint32_t *)block)[i] &= ~0u << bits;
  else
    for (int64_t i = 0; i < n; i++) ((uint64_t *)block)[i] &= ~0ull << bits;
  return block;
}

static void staged(const job *j, int64_t n, const char *x, char *y) {
  _Alignas(64) char in[BLOCK * 8], out[BLOCK * 8];
  for (int64_t i = 0; i < n; i += BLOCK) {
    int64_t m = n - i < BLOCK ? n - i : BLOCK;
    char *to = y + (size_t)i * j->to_size;
    const void *from = load(j, m, x + (size_t)i * j->from_size, in);
    if (j->truncate) from = clear_fraction(j, m, from, in);
    if (j->to == j->to_real) {
      j->loop(m, from, to);
    } else {
      j->loop(m, from, out);
      store(j, m, out, to);
    }
  }
}

static void piece(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  const char *x = j->x + (size_t)begin * j->from_size;
  char *y = j->y + (size_t)begin * j->to_size;
  int64_t n = end - begin;
  if (td_dtype_is_complex(j->from) && td_dtype_is_complex(j->to))
    j->loop(2 * n, x, y);
  else if (j->from != j->from_real || j->to != j->to_real || j->truncate)
    staged(j, n, x, y);
  else
    j->loop(n, x, y);
}

/* ---- Cast ---------------------------------------------------------------- */

static td_dtype stored(td_dtype t) {
  switch (t) {
  case TD_QINT8:
    return TD_INT8;
  case TD_QUINT8:
    return TD_UINT8;
  case TD_QINT16:
    return TD_INT16;
  case TD_QUINT16:
    return TD_UINT16;
  case TD_QINT32:
    return TD_INT32;
  default:
    return t;
  }
}

td_status *td_cast_check(td_dtype from, td_dtype to) {
  if (from == to || (td_dtype_is_plain(from) && td_dtype_is_plain(to)))
    return NULL;
  return td_error(TD_UNIMPLEMENTED, "%s cannot be cast to %s",
                  td_dtype_name(from), td_dtype_name(to));
}

int td_cast_drop(const td_kernel_ctx *c) {
  td_dtype from = td_in(c, 0)->dtype, to = td_ctx_node(c)->out[0].dtype;
  int more = fraction_bits(from) - fraction_bits(to);
  if (fraction_bits(to) == 0 || more <= 0) return 0;
  if (!td_node_bool(td_ctx_node(c), "Truncate")) return 0;
  return fraction_bits(real_of(from)) - fraction_bits(to);
}

static td_status *run_cast(td_kernel_ctx *c) {
  const td_tensor *x = td_in(c, 0);
  td_dtype to = td_ctx_node(c)->out[0].dtype;
  TD_TRY(td_cast_check(x->dtype, to));
  if (x->dtype == to) {
    td_out_pass(c, 0, 0);
    return NULL;
  }
  job j = {.from = stored(x->dtype), .to = stored(to), .x = x->data};
  j.from_real = real_of(j.from);
  j.to_real = real_of(j.to);
  j.from_size = td_dtype_size(j.from);
  j.to_size = td_dtype_size(j.to);
  j.loop = loops[j.from_real][j.to_real];
  j.truncate = td_cast_drop(c) > 0;
  int64_t n = td_tensor_count(x);
  td_tensor *y;
  TD_TRY(td_out_like(c, 0, 0, &y));
  j.y = y->data;
  td_for(c, n, TD_GRAIN, piece, &j);
  return NULL;
}

static td_status *shape_cast(td_infer *c) {
  TD_TRY(td_cast_check(td_infer_in_type(c, 0), td_infer_out_type(c, 0)));
  return td_infer_same(c);
}

static bool value_cast(td_infer *c, int out, td_small *v) {
  td_dtype to = td_infer_out_type(c, out);
  if (to != TD_INT32 && to != TD_INT64) return false;
  if (!td_infer_small(c, 0, v)) return false;
  for (int i = 0; i < v->count; i++)
    if (to == TD_INT32 && v->at[i] != (int32_t)v->at[i]) v->known[i] = false;
  return true;
}

/* ---- Bitcast ------------------------------------------------------------- */

/* A wider result eats the last axis, a narrower one adds an axis. */
static td_status *bitcast_shape(const td_shape *x, td_dtype from, td_dtype to,
                                td_shape *out) {
  int64_t in_size = (int64_t)td_dtype_size(from);
  int64_t out_size = (int64_t)td_dtype_size(to);
  td_shape_text text;
  *out = *x;
  if (x->rank < 0 || in_size == out_size) return NULL;
  if (in_size > out_size) {
    TD_TRY(td_shape_check_rank(x->rank + 1));
    out->dim[out->rank++] = in_size / out_size;
    return NULL;
  }
  int64_t ratio = out_size / in_size;
  int64_t last = x->rank ? x->dim[x->rank - 1] : 0;
  if (last != ratio && last != -1)
    return td_error(TD_INVALID_ARGUMENT,
                    "a bitcast of %s to %s needs a last dimension of %lld, "
                    "not %s",
                    td_dtype_name(from), td_dtype_name(to), (long long)ratio,
                    td_shape_str(x, &text));
  out->rank--;
  return NULL;
}

static td_status *shape_bitcast(td_infer *c) {
  td_shape out;
  TD_TRY(bitcast_shape(td_infer_in(c, 0), td_infer_in_type(c, 0),
                       td_infer_out_type(c, 0), &out));
  td_infer_out(c, 0, out);
  return NULL;
}

static td_status *run_bitcast(td_kernel_ctx *c) {
  const td_tensor *x = td_in(c, 0);
  td_dtype to = td_ctx_node(c)->out[0].dtype;
  td_shape shape;
  TD_TRY(bitcast_shape(&x->shape, x->dtype, to, &shape));
  td_out_pass(c, 0, 0);
  c->out[0].shape = shape;
  c->out[0].dtype = to;
  return NULL;
}

/* ---- rows ---------------------------------------------------------------- */

#define BITS                                                                   \
  "bfloat16, half, float, double, int64, int32, uint8, uint16, uint32, "       \
  "uint64, int8, int16, complex64, complex128, qint8, quint8, qint16, "        \
  "quint16, qint32"

static const td_op_def ops[] = {
    {.type = "Cast",
     .sig = "x: SrcT -> y: DstT; SrcT: type; DstT: type; "
            "Truncate: bool = false",
     .shape = shape_cast,
     .doc = "The same numbers as another dtype; a float beyond an integer "
            "dtype becomes its nearest end, NaN 0.",
     .example = "td.cast(td.tensor{1.5, -2.5}, \"int32\")  --> 1 -2",
     .flags = TD_IN_PLACE,
     .section = "Element-wise math",
     .value = value_cast},
    {.type = "Bitcast",
     .sig = "input: T -> output: type; T: {" BITS "}; type: {" BITS "}",
     .shape = shape_bitcast,
     .cost = td_cost_none,
     .doc = "The same bytes read as another dtype.",
     .flags = TD_CHEAP,
     .section = "Array"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Cast", .device = "CPU", .run = run_cast},
    {.op = "Bitcast",
     .device = "CPU",
     .run = run_bitcast,
     .flags = TD_KERNEL_INLINE},
    {0},
};

TD_MODULE(cast, ops, kernels)
