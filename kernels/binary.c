/* binary.c - element-wise ops of two operands.
 *
 * A line of binary.def gives an op its row, its loops for every dtype and every
 * instruction set, and its kernel; there is no other place to write to. The
 * loops see dense memory only: broadcast.h spreads what repeats, block by
 * block. What integers cannot do (divide by 0, be raised to a negative power)
 * is looked for in the second operand before anything is computed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/checks.h"

#define BINARY_TABLE td_binary_scalar
#include "kernels/simd/binary_loops.h"

enum { BLOCK = TD_HALF_BLOCK };

/* ---- loops --------------------------------------------------------------- */

#define GIVES_MATH 0
#define GIVES_ANGLE 0
#define GIVES_NEXT 0
#define GIVES_GAMMA 0
#define GIVES_SAMPLE 0
#define GIVES_ZETA 0
#define GIVES_BITS 0
#define GIVES_GRAD 0
#define GIVES_SLOPE 0
#define GIVES_SLOPE_OUT 0
#define GIVES_TEST 1
#define GIVES_EQUAL 1
#define GIVES_LOGIC 1

static const bool gives_bool[TD_BINARIES] = {
#define BINARY(op, form, ...) [TD_BINARY_##op] = GIVES_##form,
#include "kernels/binary.def"
#undef BINARY
};

static td_dtype unquantized(td_dtype t) {
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

td_binary_loop td_binary_find(int op, td_dtype t, td_isa isa) {
  td_binary_loop loop = NULL;
  t = unquantized(t);
  if (isa >= TD_AVX512) loop = td_binary_avx512[op][t];
  if (!loop && isa >= TD_AVX2) loop = td_binary_avx2[op][t];
  return loop ? loop : td_binary_scalar[op][t];
}

static void apply_half(int op, td_dtype t, td_isa isa, int64_t n,
                       const uint16_t *x, const uint16_t *y, void *z) {
  td_binary_loop loop = td_binary_find(op, TD_FLOAT32, isa);
  const td_half_table *half = td_half_table_of(t, isa);
  float a[BLOCK], b[BLOCK];
  for (int64_t i = 0; i < n; i += BLOCK) {
    int64_t m = n - i < BLOCK ? n - i : BLOCK;
    half->load(m, x + i, a);
    half->load(m, y + i, b);
    if (gives_bool[op]) {
      loop(m, a, b, (td_b8 *)z + i);
    } else {
      loop(m, a, b, a);
      half->store(m, a, (uint16_t *)z + i);
    }
  }
}

void td_binary_apply(int op, td_dtype t, td_isa isa, int64_t n, const void *x,
                     const void *y, void *z) {
  if (td_is_half(t))
    apply_half(op, t, isa, n, x, y, z);
  else
    td_binary_find(op, t, isa)(n, x, y, z);
}

/* ---- what the second operand must not hold ------------------------------- */

typedef enum check { ANY, NONZERO, NONNEGATIVE } check;

static const check checks[TD_BINARIES] = {
#define BINARY(op, form, allowed, kernels, flags, check, ...)                  \
  [TD_BINARY_##op] = check,
#include "kernels/binary.def"
#undef BINARY
};

typedef struct search {
  td_dtype dtype;
  check check;
  const char *y;
  int found; /* atomic */
} search;

#define FIND(kind, test)                                                       \
  case TD_ELEMENT_##kind: {                                                    \
    const td_##kind *y = (const void *)s->y;                                   \
    for (int64_t i = begin; i < end; i++) found |= y[i] test 0;                \
    break;                                                                     \
  }

static void find_zero(void *arg, int64_t begin, int64_t end) {
  search *s = arg;
  int found = 0;
  switch ((int)s->dtype) { EACH_INTS(FIND, ==) }
  if (found) __atomic_store_n(&s->found, 1, __ATOMIC_RELAXED);
}

static void find_negative(void *arg, int64_t begin, int64_t end) {
  search *s = arg;
  int found = 0;
  switch ((int)s->dtype) {
    EACH_LONG_SIGNED(FIND, <)
    EACH_SHORT_SIGNED(FIND, <)
  }
  if (found) __atomic_store_n(&s->found, 1, __ATOMIC_RELAXED);
}

static inline bool must_check(int op, td_dtype t) {
  return checks[op] != ANY && td_dtype_is_integer(t);
}

static td_status *check_second(const td_kernel_ctx *c, int op) {
  const td_tensor *y = td_in(c, 1);
  search s = {y->dtype, checks[op], y->data, 0};
  td_for(c, td_tensor_count(y), TD_GRAIN,
         s.check == NONZERO ? find_zero : find_negative, &s);
  if (!s.found) return NULL;
  return s.check == NONZERO
             ? td_error(TD_INVALID_ARGUMENT, "integer division by zero")
             : td_error(TD_INVALID_ARGUMENT,
                        "an integer cannot be raised to a negative power; "
                        "cast to a float dtype first");
}

/* ---- kernels ------------------------------------------------------------- */

typedef struct job {
  int op;
  td_dtype dtype;
  td_isa isa;
  size_t size[2], out_size; /* bytes of an element */
  const void *in[2];
  char *out;
  const td_broadcast *plan; /* NULL for equal shapes */
} job;

static void block(void *arg, int64_t n, const void *const *in, int64_t at) {
  const job *j = arg;
  td_binary_apply(j->op, j->dtype, j->isa, n, in[0], in[1],
                  j->out + (size_t)at * j->out_size);
}

static void piece(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  td_broadcast_run(j->plan, j->in, j->size, begin, end, block, arg);
}

static void piece_same(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  const void *in[2] = {(const char *)j->in[0] + (size_t)begin * j->size[0],
                       (const char *)j->in[1] + (size_t)begin * j->size[1]};
  block(arg, end - begin, in, begin);
}

static int64_t grain_for(int op, td_dtype t) {
  bool costly = t == TD_FLOAT64 || td_dtype_is_complex(t) || checks[op] != ANY;
  return costly ? TD_GRAIN_COSTLY : TD_GRAIN;
}

/* TensorFlow's way out when shapes do not broadcast: not equal as a whole. */
static td_status *incomparable(td_kernel_ctx *c, int op) {
  td_shape scalar = td_shape_scalar();
  td_tensor *z;
  TD_TRY(td_out(c, 0, &scalar, &z));
  *(td_b8 *)z->data = op == TD_BINARY_NotEqual;
  return NULL;
}

static td_status *run_strings(td_kernel_ctx *c, int op, const td_broadcast *b,
                              const td_shape *shape) {
  const td_tensor *x = td_in(c, 0), *y = td_in(c, 1);
  td_tensor *z, joined;
  if (op == TD_BINARY_Add) {
    TD_TRY(td_binary_join(x, y, b, shape, &joined));
    td_out_set(c, 0, &joined);
    td_tensor_release(&joined);
    return NULL;
  }
  TD_TRY(td_out(c, 0, shape, &z));
  td_binary_same(x, y, b, op == TD_BINARY_Equal, z);
  return NULL;
}

static td_status *compute(td_kernel_ctx *c, job *j, const td_shape *shape) {
  td_tensor *z;
  int64_t n = td_shape_count(shape);
  if (n > 0 && must_check(j->op, j->dtype)) TD_TRY(check_second(c, j->op));
  TD_TRY(td_out_forward(c, 0, shape, 0, 1, &z));
  j->out = z->data;
  j->out_size = td_dtype_size(z->dtype);
  td_for(c, n, grain_for(j->op, j->dtype), j->plan ? piece : piece_same, j);
  return NULL;
}

/* A few elements, as many on both sides: nothing is set up. */
static td_status *run_few(td_kernel_ctx *c, int op, const td_shape *shape,
                          int64_t n) {
  const td_tensor *x = td_in(c, 0), *y = td_in(c, 1);
  td_tensor *z;
  TD_TRY(td_out_forward(c, 0, shape, 0, 1, &z));
  td_binary_apply(op, x->dtype, td_cpu_isa(), n, x->data, y->data, z->data);
  return NULL;
}

static td_status *run_broadcast(td_kernel_ctx *c, job *j, const td_shape *xs,
                                const td_shape *ys) {
  const td_shape *shapes[] = {xs, ys};
  td_broadcast plan;
  td_shape shape;
  td_status *s = td_broadcast_plan(&plan, 2, shapes, &shape);
  if (!td_ok(s)) {
    const td_attr *strict =
        td_node_attr(td_ctx_node(c), "incompatible_shape_error");
    if (!strict || strict->b) return s;
    td_status_release(s);
    return incomparable(c, j->op);
  }
  if (j->dtype == TD_STRING) return run_strings(c, j->op, &plan, &shape);
  j->plan = &plan;
  return compute(c, j, &shape);
}

td_status *td_binary_run(td_kernel_ctx *c, int op, const td_shape *xs,
                         const td_shape *ys) {
  const td_tensor *x = td_in(c, 0), *y = td_in(c, 1);
  bool same = x->dtype != TD_STRING && td_shape_equal(xs, ys);
  int64_t n = same ? td_shape_count(xs) : 0;
  if (TD_LIKELY(n > 0 && n <= BLOCK && !must_check(op, x->dtype)))
    return run_few(c, op, xs, n);
  size_t size = td_dtype_size(x->dtype);
  job j = {.op = op,
           .dtype = x->dtype,
           .isa = td_cpu_isa(),
           .size = {size, size},
           .in = {x->data, y->data}};
  return same ? compute(c, &j, xs) : run_broadcast(c, &j, xs, ys);
}

static td_status *run(td_kernel_ctx *c, int op) {
  return td_binary_run(c, op, &td_in(c, 0)->shape, &td_in(c, 1)->shape);
}

td_status *td_binary_check_same(const td_tensor *x, const td_tensor *y) {
  td_shape_text a, b;
  if (td_shape_equal(&x->shape, &y->shape)) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "shapes %s and %s must be equal",
                  td_shape_str(&x->shape, &a), td_shape_str(&y->shape, &b));
}

/* The gradient ops do not broadcast. */
static td_status *run_same(td_kernel_ctx *c, int op) {
  TD_TRY(td_binary_check_same(td_in(c, 0), td_in(c, 1)));
  return run(c, op);
}

#define RUN_MATH run
#define RUN_ANGLE run
#define RUN_NEXT run
#define RUN_GAMMA run
#define RUN_SAMPLE run
#define RUN_ZETA run
#define RUN_BITS run
#define RUN_TEST run
#define RUN_EQUAL run
#define RUN_LOGIC run
#define RUN_GRAD run_same
#define RUN_SLOPE run_same
#define RUN_SLOPE_OUT run_same

#define BINARY(op, form, ...)                                                  \
  static td_status *run_##op(td_kernel_ctx *c) {                               \
    return RUN_##form(c, TD_BINARY_##op);                                      \
  }
#include "kernels/binary.def"
#undef BINARY

/* ---- shapes and small values --------------------------------------------- */

static td_status *shape_equal(td_infer *c) {
  const td_shape *x = td_infer_in(c, 0), *y = td_infer_in(c, 1);
  td_shape shape;
  if (td_infer_bool(c, "incompatible_shape_error"))
    return td_infer_broadcasting(c);
  if (!td_shape_broadcast(x, y, &shape))
    td_infer_out(c, 0, td_shape_scalar());
  else if (td_shape_known(x) && td_shape_known(y))
    td_infer_out(c, 0, shape);
  else
    td_infer_out(c, 0, td_shape_unknown());
  return NULL;
}

static bool small_element(int op, int64_t x, int64_t y, bool narrow,
                          int64_t *z) {
  if (checks[op] == NONZERO && y == 0) return false;
  td_binary_apply(op, TD_INT64, TD_SCALAR, 1, &x, &y, z);
  return !narrow || *z == (int32_t)*z;
}

/* A scalar, or a vector of one, goes with every element of the other. */
static bool value_of(td_infer *c, int op, td_small *v) {
  td_small x, y;
  if (!td_infer_small(c, 0, &x) || !td_infer_small(c, 1, &y)) return false;
  if (x.count != y.count && x.count != 1 && y.count != 1) return false;
  v->rank = x.rank > y.rank ? x.rank : y.rank;
  v->count = x.count == 1 ? y.count : x.count;
  for (int i = 0; i < v->count; i++) {
    int k = x.count == 1 ? 0 : i, l = y.count == 1 ? 0 : i;
    v->at[i] = 0;
    v->known[i] = x.known[k] && y.known[l] &&
                  small_element(op, x.at[k], y.at[l],
                                td_infer_in_type(c, 0) == TD_INT32, &v->at[i]);
  }
  return true;
}

#define VALUE_0(op) NULL
#define VALUE_1(op) value_##op
#define DEFINE_0(op)
#define DEFINE_1(op)                                                           \
  static bool value_##op(td_infer *c, int out, td_small *v) {                  \
    return out == 0 && value_of(c, TD_BINARY_##op, v);                         \
  }
#define BINARY(op, form, allowed, kernels, flags, check, value, ...)           \
  DEFINE_##value(op)
#include "kernels/binary.def"
#undef BINARY

/* ---- rows ---------------------------------------------------------------- */

/* Names of operands and result, and where help lists the op. */
#define FORM_MATH(allowed) "x: T, y: T -> z: T; T: {" allowed "}"
#define FORM_BITS(allowed) FORM_MATH(allowed)
#define FORM_ANGLE(allowed) "y: T, x: T -> z: T; T: {" allowed "}"
#define FORM_NEXT(allowed) "x1: T, x2: T -> output: T; T: {" allowed "} = float"
#define FORM_GAMMA(allowed) "a: T, x: T -> z: T; T: {" allowed "}"
#define FORM_SAMPLE(allowed)                                                   \
  "alpha: T, sample: T -> output: T; T: {" allowed "}"
#define FORM_ZETA(allowed) "x: T, q: T -> z: T; T: {" allowed "}"
#define FORM_TEST(allowed) "x: T, y: T -> z: bool; T: {" allowed "}"
#define FORM_EQUAL(allowed)                                                    \
  "x: T, y: T -> z: bool; T: type; incompatible_shape_error: bool = true"
#define FORM_LOGIC(allowed) "x: bool, y: bool -> z: bool"
#define FORM_GRAD(allowed) "y: T, dy: T -> z: T; T: {" allowed "}"
#define FORM_SLOPE(allowed)                                                    \
  "gradients: T, features: T -> backprops: T; T: {" allowed "}"
#define FORM_SLOPE_OUT(allowed)                                                \
  "gradients: T, outputs: T -> backprops: T; T: {" allowed "}"

#define SHAPE_MATH td_infer_broadcasting
#define SHAPE_BITS td_infer_broadcasting
#define SHAPE_ANGLE td_infer_broadcasting
#define SHAPE_NEXT td_infer_broadcasting
#define SHAPE_GAMMA td_infer_broadcasting
#define SHAPE_SAMPLE td_infer_broadcasting
#define SHAPE_ZETA td_infer_broadcasting
#define SHAPE_TEST td_infer_broadcasting
#define SHAPE_LOGIC td_infer_broadcasting
#define SHAPE_EQUAL shape_equal
#define SHAPE_GRAD td_infer_same_all
#define SHAPE_SLOPE td_infer_same_all
#define SHAPE_SLOPE_OUT td_infer_same_all

#define SECTION_MATH "Element-wise math"
#define SECTION_BITS SECTION_MATH
#define SECTION_ANGLE SECTION_MATH
#define SECTION_NEXT SECTION_MATH
#define SECTION_GAMMA SECTION_MATH
#define SECTION_SAMPLE SECTION_MATH
#define SECTION_ZETA SECTION_MATH
#define SECTION_TEST SECTION_MATH
#define SECTION_EQUAL SECTION_MATH
#define SECTION_LOGIC SECTION_MATH
#define SECTION_GRAD SECTION_MATH
#define SECTION_SLOPE "Neural-network building blocks"
#define SECTION_SLOPE_OUT SECTION_SLOPE

static const td_op_def ops[] = {
#define BINARY(op, form, allowed, kernels, flag, check, small, expression,     \
               name, text)                                                     \
  {.type = #op,                                                                \
   .sig = FORM_##form(SIG_##allowed),                                          \
   .shape = SHAPE_##form,                                                      \
   .doc = text,                                                                \
   .lua = name,                                                                \
   .flags = (flag) | TD_IN_PLACE,                                              \
   .section = SECTION_##form,                                                  \
   .value = VALUE_##small(op)},
#include "kernels/binary.def"
#undef BINARY
    {0},
};

static const td_kernel_def kernels[] = {
#define BINARY(op_, form, allowed, kernels, ...)                               \
  {.op = #op_, .device = "CPU", .types = TYPES_##kernels, .run = run_##op_},
#include "kernels/binary.def"
#undef BINARY
    {0},
};

TD_MODULE(binary, ops, kernels)
