/* ternary.c - element-wise ops of three operands, scalars or of one shape:
 * ClipByValue, Betainc.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/checks.h"
#include "kernels/cpu.h"
#include "kernels/num.h"
#include "kernels/special.h"

enum { OPERANDS = 3, BLOCK = TD_HALF_BLOCK };

/* ---- loops --------------------------------------------------------------- */

typedef void (*ternary_loop)(int64_t n, const void *const *in, void *to);

#define LOOP(kind, name, expression)                                           \
  static void name##_##kind(int64_t n, const void *const *in, void *to) {      \
    const td_##kind *p = in[0], *q = in[1], *r = in[2];                        \
    td_##kind *out = to;                                                       \
    TD_VEC_LOOP                                                                \
    for (int64_t i = 0; i < n; i++) {                                          \
      td_##kind x = p[i], y = q[i], z = r[i];                                  \
      out[i] = (td_##kind)(expression);                                        \
    }                                                                          \
  }
/* A bound that is NaN bounds nothing. */
#define BELOW(x, high) ((high) < (x) ? (high) : (x))
#define ABOVE(x, low) ((x) < (low) ? (low) : (x))
EACH_REALS(LOOP, clip, ABOVE(BELOW(x, z), y))
EACH_LONG_FLOATS(LOOP, betainc, td_special_betainc(x, y, z))

/* The real and the imaginary part, each between those of the bounds. */
static void clip_c64(int64_t n, const void *const *in, void *to) {
  clip_f32(2 * n, in, to);
}
static void clip_c128(int64_t n, const void *const *in, void *to) {
  clip_f64(2 * n, in, to);
}

#define ENTRY(kind, name) [TD_ELEMENT_##kind] = name##_##kind,
static const ternary_loop clips[TD_DTYPES] = {
    EACH_REALS(ENTRY, clip)[TD_COMPLEX64] = clip_c64, [TD_COMPLEX128] =
                                                          clip_c128};
static const ternary_loop betaincs[TD_DTYPES] = {
    EACH_LONG_FLOATS(ENTRY, betainc)};

/* ---- kernels ------------------------------------------------------------- */

typedef struct job {
  ternary_loop loop;
  td_dtype dtype;
  td_broadcast plan;
  const void *in[OPERANDS];
  size_t size[OPERANDS];
  char *out;
} job;

static void half_block(const job *j, int64_t n, const void *const *in,
                       char *out) {
  float block[OPERANDS][BLOCK];
  const void *const at[] = {block[0], block[1], block[2]};
  for (int64_t i = 0; i < n; i += BLOCK) {
    int64_t m = n - i < BLOCK ? n - i : BLOCK;
    for (int k = 0; k < OPERANDS; k++)
      td_half_load(j->dtype, m, (const uint16_t *)in[k] + i, block[k]);
    j->loop(m, at, block[0]);
    td_half_store(j->dtype, m, block[0], (uint16_t *)(void *)out + i);
  }
}

static void block(void *arg, int64_t n, const void *const *in, int64_t at) {
  const job *j = arg;
  char *out = j->out + (size_t)at * j->size[0];
  if (td_is_half(j->dtype))
    half_block(j, n, in, out);
  else
    j->loop(n, in, out);
}

static void piece(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  td_broadcast_run(&j->plan, j->in, j->size, begin, end, block, arg);
}

/* Scalars go with everything; others must agree. */
static td_status *merge(const td_shape *const *shapes, td_shape *out) {
  td_shape_text a, b, d;
  *out = *shapes[0];
  for (int k = 1; k < OPERANDS; k++) {
    if (shapes[k]->rank == 0) continue;
    if (out->rank == 0)
      *out = *shapes[k];
    else if (!td_shape_merge(out, shapes[k], out))
      return td_error(TD_INVALID_ARGUMENT,
                      "operands must be scalars or of one shape, not of "
                      "shapes %s, %s and %s",
                      td_shape_str(shapes[0], &a), td_shape_str(shapes[1], &b),
                      td_shape_str(shapes[2], &d));
  }
  return NULL;
}

/* The bounds follow x, never the other way round. */
static td_status *check_bounds(const td_shape *x, const td_shape *low,
                               const td_shape *high) {
  td_shape_text a, b, d;
  if (x->rank != 0 || (low->rank <= 0 && high->rank <= 0)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "clip_value_min and clip_value_max must be scalars or of the "
                  "shape of t, %s, not of shapes %s and %s",
                  td_shape_str(x, &a), td_shape_str(low, &b),
                  td_shape_str(high, &d));
}

td_status *td_ternary_check(const td_kernel_ctx *c, bool clip,
                            td_broadcast *plan, td_shape *out) {
  const td_shape *shapes[OPERANDS];
  for (int k = 0; k < OPERANDS; k++) shapes[k] = &td_in(c, k)->shape;
  if (clip) TD_TRY(check_bounds(shapes[0], shapes[1], shapes[2]));
  TD_TRY(merge(shapes, out));
  return td_broadcast_plan(plan, OPERANDS, shapes, out);
}

static td_status *run(td_kernel_ctx *c, const ternary_loop *loops,
                      int64_t grain) {
  job j = {.dtype = td_in(c, 0)->dtype};
  td_shape shape;
  td_tensor *y;
  j.loop = loops[td_is_half(j.dtype) ? TD_FLOAT32 : j.dtype];
  for (int k = 0; k < OPERANDS; k++) {
    j.in[k] = td_in(c, k)->data;
    j.size[k] = td_dtype_size(j.dtype);
  }
  TD_TRY(td_ternary_check(c, loops == clips, &j.plan, &shape));
  TD_TRY(td_out_forward(c, 0, &shape, 0, 1, &y));
  j.out = y->data;
  td_for(c, j.plan.count, grain, piece, &j);
  return NULL;
}

static td_status *run_clip(td_kernel_ctx *c) {
  return run(c, clips, TD_GRAIN);
}

static td_status *run_betainc(td_kernel_ctx *c) {
  return run(c, betaincs, TD_GRAIN_COSTLY);
}

/* ---- shapes -------------------------------------------------------------- */

static td_status *shape_ternary(td_infer *c) {
  const td_shape *shapes[OPERANDS];
  td_shape shape;
  bool known = true;
  for (int k = 0; k < OPERANDS; k++) {
    shapes[k] = td_infer_in(c, k);
    known = known && shapes[k]->rank >= 0;
  }
  TD_TRY(merge(shapes, &shape));
  /* What is not known may be a scalar. */
  if (known || shape.rank > 0) td_infer_out(c, 0, shape);
  return NULL;
}

static td_status *shape_clip(td_infer *c) {
  TD_TRY(check_bounds(td_infer_in(c, 0), td_infer_in(c, 1), td_infer_in(c, 2)));
  TD_TRY(shape_ternary(c));
  return td_infer_same(c);
}

/* ---- rows ---------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "ClipByValue",
     .sig = "t: T, clip_value_min: T, clip_value_max: T -> output: T; "
            "T: {" SIG_NUMBERS ", qint8, quint8, qint32, qint16, quint16}",
     .shape = shape_clip,
     .doc = "t with its elements brought into clip_value_min .. "
            "clip_value_max; of complex numbers, each part.",
     .lua = "clip_by_value",
     .example = "td.clip_by_value(td.tensor{-3, 1, 9}, 0, 5)  --> 0 1 5",
     .flags = TD_IN_PLACE,
     .section = "Element-wise math"},
    {.type = "Betainc",
     .sig = "a: T, b: T, x: T -> z: T; T: {float, double}",
     .shape = shape_ternary,
     .doc = "Regularised incomplete beta function I_x(a, b).",
     .flags = TD_IN_PLACE,
     .section = "Element-wise math"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "ClipByValue",
     .device = "CPU",
     .types = TYPES_NUMBERS,
     .run = run_clip},
    {.op = "Betainc",
     .device = "CPU",
     .types = TYPES_LONG_FLOATS,
     .run = run_betainc},
    {0},
};

TD_MODULE(ternary, ops, kernels)
