/* random_stateless.c - random numbers that are a function of their seed.
 *
 * The two halves of the seed are scrambled by one block of Philox, whose output
 * is the key and the upper counter of the stream. The numbers are those of the
 * ops with state at the start of that stream.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/random_stateless.h"

#include "kernels/operand.h"

/* ---- seeds --------------------------------------------------------------- */

td_status *td_random_ask_seed(td_infer *c, int i) {
  td_shape seed, two = td_shape_vector(2);
  td_shape_text text;
  TD_TRY(td_infer_rank(c, i, 1, "seed", &seed));
  if (td_shape_merge(&seed, &two, &seed)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "seed must be two numbers, not of shape "
                  "%s",
                  td_shape_str(&seed, &text));
}

td_status *td_random_seeded(const td_tensor *seed, td_philox *p) {
  td_shape_text text;
  uint32_t mix[4];
  if (seed->shape.rank != 1 || seed->shape.dim[0] != 2)
    return td_error(TD_INVALID_ARGUMENT,
                    "seed must be two numbers, not of shape %s",
                    td_shape_str(&seed->shape, &text));
  uint64_t low = (uint64_t)td_tensor_get_i(seed, 0);
  uint64_t high = (uint64_t)td_tensor_get_i(seed, 1);
  *p = (td_philox){.key = {0x3ec8f720, 0x02461e29},
                   .counter = {(uint32_t)low, (uint32_t)(low >> 32),
                               (uint32_t)high, (uint32_t)(high >> 32)}};
  td_philox_next(p, mix);
  *p = (td_philox){.key = {mix[0], mix[1]}, .counter = {0, 0, mix[2], mix[3]}};
  return NULL;
}

/* ---- running ------------------------------------------------------------- */

static td_status *infer(td_infer *c) {
  TD_TRY(td_random_ask_seed(c, 1));
  return td_random_infer(c);
}

static td_status *integer_infer(td_infer *c) {
  TD_TRY(td_infer_rank(c, 2, 0, "minval", NULL));
  TD_TRY(td_infer_rank(c, 3, 0, "maxval", NULL));
  return infer(c);
}

td_status *td_random_from(td_kernel_ctx *c, td_random_kind kind,
                          const td_philox *base, int range, td_random_how how) {
  td_random_draw d = {.kind = kind, .base = *base};
  TD_TRY(td_random_out(c, range, &d));
  return d.count > 0 ? how(c, &d) : NULL;
}

/* The signature of bits allows seeds that TensorFlow's kernels do not take. */
static td_status *check_seed(const td_tensor *seed) {
  if (seed->dtype == TD_INT32 || seed->dtype == TD_INT64) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "seed must be int32 or int64, not %s: cast it first",
                  td_dtype_name(seed->dtype));
}

td_status *td_random_stateless_on(td_kernel_ctx *c, td_random_kind kind,
                                  td_random_how how) {
  td_philox base;
  if (kind == TD_RANDOM_BITS) TD_TRY(check_seed(td_in(c, 1)));
  TD_TRY(td_random_seeded(td_in(c, 1), &base));
  return td_random_from(c, kind, &base, 2, how);
}

static td_status *uniform_run(td_kernel_ctx *c) {
  return td_random_stateless_on(c, TD_RANDOM_UNIFORM, td_random_run);
}
static td_status *normal_run(td_kernel_ctx *c) {
  return td_random_stateless_on(c, TD_RANDOM_NORMAL, td_random_run);
}
static td_status *truncated_run(td_kernel_ctx *c) {
  return td_random_stateless_on(c, TD_RANDOM_TRUNCATED, td_random_run);
}
static td_status *integer_run(td_kernel_ctx *c) {
  return td_random_stateless_on(c, TD_RANDOM_INTEGER, td_random_run);
}
static td_status *bits_run(td_kernel_ctx *c) {
  return td_random_stateless_on(c, TD_RANDOM_BITS, td_random_run);
}

/* ---- tables -------------------------------------------------------------- */

#define SIG                                                                    \
  "shape: T, seed: Tseed -> output: dtype; "                                   \
  "dtype: {half, bfloat16, float, double} = float; "                           \
  "T: {int32, int64} = int32; Tseed: {int32, int64} = int64"

static const td_op_def ops[] = {
    {.type = "StatelessRandomUniform",
     .sig = SIG,
     .shape = infer,
     .doc = "Numbers evenly spread over [0, 1), the same for the same seed.",
     .flags = TD_NO_GRADIENT,
     .host = "shape, seed",
     .section = "Random"},
    {.type = "StatelessRandomNormal",
     .sig = SIG,
     .shape = infer,
     .doc = "Normally distributed numbers, of mean 0 and deviation 1, the same "
            "for the same seed.",
     .flags = TD_NO_GRADIENT,
     .host = "shape, seed",
     .section = "Random"},
    {.type = "StatelessTruncatedNormal",
     .sig = SIG,
     .shape = infer,
     .doc = "Normally distributed numbers, those further than 2 from 0 drawn "
            "again, the same for the same seed.",
     .flags = TD_NO_GRADIENT,
     .host = "shape, seed",
     .section = "Random"},
    {.type = "StatelessRandomUniformInt",
     .sig = "shape: T, seed: Tseed, minval: dtype, maxval: dtype -> "
            "output: dtype; dtype: {int32, int64}; T: {int32, int64}; "
            "Tseed: {int32, int64} = int64",
     .shape = integer_infer,
     .doc = "Integers evenly spread over [minval, maxval), the same for the "
            "same seed.",
     .lua = "",
     .host = "shape, seed, minval, maxval",
     .section = "Random"},
    {.type = "StatelessRandomUniformFullInt",
     .sig = "shape: T, seed: Tseed -> output: dtype; "
            "dtype: {int32, int64, uint32, uint64} = uint64; "
            "T: {int32, int64} = int32; "
            "Tseed: {int32, int64, uint32, uint64} = int64",
     .shape = infer,
     .doc = "Integers evenly spread over all that there are, the same for the "
            "same seed.",
     .lua = "",
     .flags = TD_NO_GRADIENT,
     .host = "shape, seed",
     .section = "Random"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "StatelessRandomUniform", .device = "CPU", .run = uniform_run},
    {.op = "StatelessRandomNormal", .device = "CPU", .run = normal_run},
    {.op = "StatelessTruncatedNormal", .device = "CPU", .run = truncated_run},
    {.op = "StatelessRandomUniformInt", .device = "CPU", .run = integer_run},
    {.op = "StatelessRandomUniformFullInt", .device = "CPU", .run = bits_run},
    {0},
};

TD_MODULE(random_stateless, ops, kernels)
