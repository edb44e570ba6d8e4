/* unary.c - element-wise ops of one operand.
 *
 * A line of unary.def gives an op its row, its loops for every dtype and every
 * instruction set, and its kernel; there is no other place to write to. The
 * loops are plain C over dense memory, so that a fused kernel can run them
 * block by block.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define UNARY_TABLE td_unary_scalar
#include "kernels/simd/unary_loops.h"

#include "kernels/cpu.h"

enum { BLOCK = TD_HALF_BLOCK };

/* ---- loops --------------------------------------------------------------- */

#define GIVES_MATH 0
#define GIVES_BITS 0
#define GIVES_COUNT 0
#define GIVES_ACTIVATION 0
#define GIVES_TEST 1
#define GIVES_LOGIC 1

static const bool gives_bool[TD_UNARIES] = {
#define UNARY(op, form, ...) [TD_UNARY_##op] = GIVES_##form,
#include "kernels/unary.def"
#undef UNARY
};

td_unary_loop td_unary_find(int op, td_dtype t, td_isa isa) {
  td_unary_loop loop = NULL;
  if (isa >= TD_AVX512) loop = td_unary_avx512[op][t];
  if (!loop && isa >= TD_AVX2) loop = td_unary_avx2[op][t];
  return loop ? loop : td_unary_scalar[op][t];
}

static void apply_half(int op, td_dtype t, td_isa isa, int64_t n,
                       const uint16_t *x, void *y) {
  td_unary_loop loop = td_unary_find(op, TD_FLOAT32, isa);
  const td_half_table *half = td_half_table_of(t, isa);
  float block[BLOCK];
  for (int64_t i = 0; i < n; i += BLOCK) {
    int64_t m = n - i < BLOCK ? n - i : BLOCK;
    half->load(m, x + i, block);
    if (gives_bool[op]) {
      loop(m, block, (td_b8 *)y + i);
    } else {
      loop(m, block, block);
      half->store(m, block, (uint16_t *)y + i);
    }
  }
}

void td_unary_apply(int op, td_dtype t, td_isa isa, int64_t n, const void *x,
                    void *y) {
  if (td_is_half(t))
    apply_half(op, t, isa, n, x, y);
  else
    td_unary_find(op, t, isa)(n, x, y);
}

/* ---- kernels ------------------------------------------------------------- */

typedef struct job {
  int op;
  td_dtype dtype;
  td_isa isa;
  size_t in_size, out_size; /* bytes of an element */
  const char *x;
  char *y;
} job;

static void piece(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  td_unary_apply(j->op, j->dtype, j->isa, end - begin,
                 j->x + (size_t)begin * j->in_size,
                 j->y + (size_t)begin * j->out_size);
}

/* Functions of double and complex numbers are libm's and slow. */
static int64_t grain_for(td_dtype t) {
  return t == TD_FLOAT64 || td_dtype_is_complex(t) ? TD_GRAIN_COSTLY : TD_GRAIN;
}

static td_status *run(td_kernel_ctx *c, int op) {
  const td_tensor *x = td_in(c, 0);
  job j = {op, x->dtype, td_cpu_isa(), td_dtype_size(x->dtype), 0, x->data, 0};
  int64_t n = td_tensor_count(x);
  td_tensor *y;
  TD_TRY(td_out_like(c, 0, 0, &y));
  j.out_size = td_dtype_size(y->dtype);
  j.y = y->data;
  td_for(c, n, grain_for(j.dtype), piece, &j);
  return NULL;
}

#define UNARY(op, ...)                                                         \
  static td_status *run_##op(td_kernel_ctx *c) {                               \
    return run(c, TD_UNARY_##op);                                              \
  }
#include "kernels/unary.def"
#undef UNARY

/* ---- rows ---------------------------------------------------------------- */

/* Names of operand and result, and where help lists the op. */
#define FORM_MATH(allowed) "x: T -> y: T; T: {" allowed "}"
#define FORM_BITS(allowed) FORM_MATH(allowed)
#define FORM_COUNT(allowed) "x: T -> y: uint8; T: {" allowed "}"
#define FORM_ACTIVATION(allowed)                                               \
  "features: T -> activations: T; T: {" allowed "}"
#define FORM_TEST(allowed) "x: T -> y: bool; T: {" allowed "}"
#define FORM_LOGIC(allowed) "x: bool -> y: bool"
#define SECTION_MATH "Element-wise math"
#define SECTION_BITS SECTION_MATH
#define SECTION_COUNT SECTION_MATH
#define SECTION_ACTIVATION "Neural-network building blocks"
#define SECTION_TEST SECTION_MATH
#define SECTION_LOGIC SECTION_MATH

static const td_op_def ops[] = {
#define UNARY(op, form, allowed, kernels, expression, name, text)              \
  {.type = #op,                                                                \
   .sig = FORM_##form(SIG_##allowed),                                          \
   .shape = td_infer_same,                                                     \
   .doc = text,                                                                \
   .lua = name,                                                                \
   .flags = TD_IN_PLACE,                                                       \
   .section = SECTION_##form},
#include "kernels/unary.def"
#undef UNARY
    {0},
};

static const td_kernel_def kernels[] = {
#define UNARY(op_, form, allowed, kernels, ...)                                \
  {.op = #op_, .device = "CPU", .types = TYPES_##kernels, .run = run_##op_},
#include "kernels/unary.def"
#undef UNARY
    {0},
};

TD_MODULE(unary, ops, kernels)
