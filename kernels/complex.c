/* complex.c - complex numbers from their parts, and parts of them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cost.h"
#include "kernels/cpu.h"
#include "kernels/element.h"

/* ---- loops --------------------------------------------------------------- */

typedef void (*part_loop)(int64_t n, const void *from, void *to);

#define PART(name, to_kind, kind, expression)                                  \
  static void name##_##kind(int64_t n, const void *from, void *to) {           \
    const td_##kind *in = from;                                                \
    td_##to_kind *out = to;                                                    \
    for (int64_t i = 0; i < n; i++) {                                          \
      td_##kind x = in[i];                                                     \
      out[i] = expression;                                                     \
    }                                                                          \
  }
PART(real, f32, c64, crealf(x))
PART(real, f64, c128, creal(x))
PART(imag, f32, c64, cimagf(x))
PART(imag, f64, c128, cimag(x))
PART(abs, f32, c64, cabsf(x))
PART(abs, f64, c128, cabs(x))
PART(angle, f32, c64, cargf(x))
PART(angle, f64, c128, carg(x))
PART(conj, c64, c64, conjf(x))
PART(conj, c128, c128, conj(x))

typedef struct part_job {
  part_loop loop;
  const char *x;
  char *y;
  size_t in_size, out_size;
} part_job;

static void part_piece(void *arg, int64_t begin, int64_t end) {
  const part_job *j = arg;
  j->loop(end - begin, j->x + (size_t)begin * j->in_size,
          j->y + (size_t)begin * j->out_size);
}

static td_status *run_part(td_kernel_ctx *c, part_loop single, part_loop wide) {
  const td_tensor *x = td_in(c, 0);
  td_tensor *y;
  TD_TRY(td_out_like(c, 0, 0, &y));
  part_job j = {.loop = x->dtype == TD_COMPLEX64 ? single : wide,
                .x = x->data,
                .y = y->data,
                .in_size = td_dtype_size(x->dtype),
                .out_size = td_dtype_size(y->dtype)};
  td_for(c, td_tensor_count(x), TD_GRAIN_COSTLY, part_piece, &j);
  return NULL;
}

#define RUN_PART(name)                                                         \
  static td_status *run_##name(td_kernel_ctx *c) {                             \
    return run_part(c, name##_c64, name##_c128);                               \
  }
RUN_PART(real)
RUN_PART(imag)
RUN_PART(abs)
RUN_PART(angle)
RUN_PART(conj)

/* ---- from two parts ------------------------------------------------------ */

typedef struct pair_job {
  td_broadcast plan;
  const void *in[2];
  size_t size[2];
  bool wide;
  void *out;
} pair_job;

#define PAIRS(kind)                                                            \
  for (int64_t i = 0; i < n; i++) {                                            \
    ((td_##kind *)j->out)[2 * (at + i)] = ((const td_##kind *)in[0])[i];       \
    ((td_##kind *)j->out)[2 * (at + i) + 1] = ((const td_##kind *)in[1])[i];   \
  }

static void pair_block(void *arg, int64_t n, const void *const *in,
                       int64_t at) {
  const pair_job *j = arg;
  if (j->wide)
    PAIRS(f64)
  else
    PAIRS(f32)
}

static void pair_piece(void *arg, int64_t begin, int64_t end) {
  const pair_job *j = arg;
  td_broadcast_run(&j->plan, j->in, j->size, begin, end, pair_block, arg);
}

static td_status *run_complex(td_kernel_ctx *c) {
  const td_tensor *x = td_in(c, 0), *y = td_in(c, 1);
  const td_shape *shapes[] = {&x->shape, &y->shape};
  size_t size = td_dtype_size(x->dtype);
  pair_job j = {.in = {x->data, y->data},
                .size = {size, size},
                .wide = x->dtype == TD_FLOAT64};
  td_shape shape;
  td_tensor *z;
  TD_TRY(td_broadcast_plan(&j.plan, 2, shapes, &shape));
  TD_TRY(td_out(c, 0, &shape, &z));
  j.out = z->data;
  td_for(c, j.plan.count, TD_GRAIN, pair_piece, &j);
  return NULL;
}

/* ---- rows ---------------------------------------------------------------- */

/* T and the dtype of its parts must go together. */
static td_status *check_pair(td_dtype whole, td_dtype part) {
  td_dtype want = whole == TD_COMPLEX64 ? TD_FLOAT32 : TD_FLOAT64;
  if (part == want) return NULL;
  return td_error(
      TD_INVALID_ARGUMENT, "the parts of %s are %s, not %s: give Tout",
      td_dtype_name(whole), td_dtype_name(want), td_dtype_name(part));
}

static td_status *shape_part(td_infer *c) {
  TD_TRY(check_pair(td_infer_type(c, "T"), td_infer_type(c, "Tout")));
  return td_infer_same(c);
}

static td_status *shape_complex(td_infer *c) {
  TD_TRY(check_pair(td_infer_type(c, "Tout"), td_infer_type(c, "T")));
  return td_infer_broadcasting(c);
}

#define PART_SIG(in, out)                                                      \
  in ": T -> " out ": Tout; T: {complex64, complex128} = complex64; "          \
     "Tout: {float, double} = float"
#define PART_OP(name, sign, said, text)                                        \
  {                                                                            \
    .type = name, .sig = sign, .shape = shape_part, .doc = text, .lua = said,  \
    .flags = TD_IN_PLACE, .section = "Element-wise math"                       \
  }
#define PART_KERNEL(name, fn)                                                  \
  {.op = name,                                                                 \
   .device = "CPU",                                                            \
   .types = "T=complex64, Tout=float",                                         \
   .run = fn},                                                                 \
  {                                                                            \
    .op = name, .device = "CPU", .types = "T=complex128, Tout=double",         \
    .run = fn                                                                  \
  }

static const td_op_def ops[] = {
    PART_OP("Real", PART_SIG("input", "output"), "real",
            "Real parts of complex numbers."),
    PART_OP("Imag", PART_SIG("input", "output"), "imag",
            "Imaginary parts of complex numbers."),
    PART_OP("Angle", PART_SIG("input", "output"), "angle",
            "Angles of complex numbers, in (-pi, pi]."),
    PART_OP("ComplexAbs", PART_SIG("x", "y"), "",
            "Absolute values of complex numbers."),
    {.type = "Conj",
     .sig = "input: T -> output: T; "
            "T: {complex64, complex128, variant} = complex64",
     .shape = td_infer_same,
     .doc = "Complex conjugate.",
     .lua = "conj",
     .flags = TD_IN_PLACE,
     .section = "Element-wise math"},
    {.type = "Complex",
     .sig = "real: T, imag: T -> out: Tout; T: {float, double} = float; "
            "Tout: {complex64, complex128} = complex64",
     .shape = shape_complex,
     .cost = td_cost_move,
     .doc = "Complex numbers from their parts, broadcasting.",
     .lua = "complex",
     .section = "Element-wise math"},
    {0},
};

static const td_kernel_def kernels[] = {
    PART_KERNEL("Real", run_real),
    PART_KERNEL("Imag", run_imag),
    PART_KERNEL("Angle", run_angle),
    PART_KERNEL("ComplexAbs", run_abs),
    {.op = "Conj",
     .device = "CPU",
     .types = "T=complex64|complex128",
     .run = run_conj},
    {.op = "Complex",
     .device = "CPU",
     .types = "T=float, Tout=complex64",
     .run = run_complex},
    {.op = "Complex",
     .device = "CPU",
     .types = "T=double, Tout=complex128",
     .run = run_complex},
    {0},
};

TD_MODULE(complex, ops, kernels)
