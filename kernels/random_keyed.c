/* random_keyed.c - random numbers of a key and a counter, and what makes these
 * of a seed.
 *
 * The key of Philox is one number, its counter two: a seed is scrambled into
 * them once, and then serves many ops. The numbers are those of the ops that
 * take the seed itself. Algorithms have numbers; Philox is 1, and what 3, "the
 * device's", stands for here.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cost.h"
#include "kernels/operand.h"
#include "kernels/random_stateless.h"

enum { PHILOX = 1, AUTOMATIC = 3 };

/* ---- keys ---------------------------------------------------------------- */

static td_status *ask_key(const td_shape *s) {
  td_shape_text text;
  if (s->rank < 0 || (s->rank == 1 && (s->dim[0] == 1 || s->dim[0] < 0)))
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "key must be a vector of one number, not of shape %s",
                  td_shape_str(s, &text));
}

static td_status *ask_counter(const td_shape *s) {
  td_shape_text text;
  if (s->rank < 0 || (s->rank == 1 && (s->dim[0] >= 2 || s->dim[0] < 0)))
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "counter must be a vector of at least two numbers, not of "
                  "shape %s",
                  td_shape_str(s, &text));
}

static uint64_t number(const td_tensor *t, int i) {
  return ((const uint64_t *)t->data)[i];
}

/* The stream that inputs 1 to 3 tell. */
static td_status *keyed(const td_kernel_ctx *c, td_philox *p) {
  const td_tensor *key = td_in(c, 1), *counter = td_in(c, 2);
  int64_t alg;
  TD_TRY(ask_key(&key->shape));
  TD_TRY(ask_counter(&counter->shape));
  if (td_in(c, 3)->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT, "alg must be a scalar");
  TD_TRY(td_operand_scalar(td_in(c, 3), "alg", &alg));
  if (alg != PHILOX && alg != AUTOMATIC)
    return td_error(TD_INVALID_ARGUMENT,
                    "alg must be 1, Philox, or 3, the device's own; it is %lld",
                    (long long)alg);
  uint64_t k = number(key, 0), a = number(counter, 0), b = number(counter, 1);
  *p = (td_philox){.key = {(uint32_t)k, (uint32_t)(k >> 32)},
                   .counter = {(uint32_t)a, (uint32_t)(a >> 32), (uint32_t)b,
                               (uint32_t)(b >> 32)}};
  return NULL;
}

static td_status *ask_keyed(td_infer *c) {
  TD_TRY(ask_key(td_infer_in(c, 1)));
  TD_TRY(ask_counter(td_infer_in(c, 2)));
  return td_infer_rank(c, 3, 0, "alg", NULL);
}

/* ---- numbers ------------------------------------------------------------- */

static td_status *infer(td_infer *c) {
  TD_TRY(ask_keyed(c));
  return td_random_infer(c);
}

static td_status *integer_infer(td_infer *c) {
  TD_TRY(td_infer_rank(c, 4, 0, "minval", NULL));
  TD_TRY(td_infer_rank(c, 5, 0, "maxval", NULL));
  return infer(c);
}

td_status *td_random_keyed_on(td_kernel_ctx *c, td_random_kind kind,
                              td_random_how how) {
  td_philox base;
  TD_TRY(keyed(c, &base));
  return td_random_from(c, kind, &base, 4, how);
}

static td_status *uniform_run(td_kernel_ctx *c) {
  return td_random_keyed_on(c, TD_RANDOM_UNIFORM, td_random_run);
}
static td_status *normal_run(td_kernel_ctx *c) {
  return td_random_keyed_on(c, TD_RANDOM_NORMAL, td_random_run);
}
static td_status *truncated_run(td_kernel_ctx *c) {
  return td_random_keyed_on(c, TD_RANDOM_TRUNCATED, td_random_run);
}
static td_status *integer_run(td_kernel_ctx *c) {
  return td_random_keyed_on(c, TD_RANDOM_INTEGER, td_random_run);
}
static td_status *bits_run(td_kernel_ctx *c) {
  return td_random_keyed_on(c, TD_RANDOM_BITS, td_random_run);
}

/* Words of the stream tell the order, as in RandomShuffle. */
static td_status *shuffle_run(td_kernel_ctx *c) {
  td_philox p;
  TD_TRY(keyed(c, &p));
  return td_random_shuffle(c, &p);
}

static td_status *shuffle_infer(td_infer *c) {
  TD_TRY(ask_keyed(c));
  td_infer_out(c, 0, *td_infer_in(c, 0));
  return NULL;
}

/* ---- keys of a seed ------------------------------------------------------ */

static td_status *seed_infer(td_infer *c) {
  TD_TRY(td_random_ask_seed(c, 0));
  td_infer_out(c, 0, td_shape_vector(1));
  td_infer_out(c, 1, td_shape_vector(2));
  if (td_infer_outputs(c) > 2) td_infer_out(c, 2, td_shape_scalar());
  return NULL;
}

static td_status *put_algorithm(td_kernel_ctx *c, int i) {
  td_shape scalar = td_shape_scalar();
  td_tensor *alg;
  TD_TRY(td_out(c, i, &scalar, &alg));
  *(int32_t *)alg->data = PHILOX;
  return NULL;
}

static td_status *seed_run(td_kernel_ctx *c) {
  td_shape one = td_shape_vector(1), two = td_shape_vector(2);
  td_tensor *key, *counter;
  td_philox p;
  TD_TRY(td_random_seeded(td_in(c, 0), &p));
  TD_TRY(td_out(c, 0, &one, &key));
  TD_TRY(td_out(c, 1, &two, &counter));
  *(uint64_t *)key->data = (uint64_t)p.key[1] << 32 | p.key[0];
  for (int i = 0; i < 2; i++)
    ((uint64_t *)counter->data)[i] =
        (uint64_t)p.counter[2 * i + 1] << 32 | p.counter[2 * i];
  return c->n_out > 2 ? put_algorithm(c, 2) : NULL;
}

static td_status *algorithm_run(td_kernel_ctx *c) {
  return put_algorithm(c, 0);
}

/* ---- tables -------------------------------------------------------------- */

#define KEYED "shape: Tshape, key: uint64, counter: uint64, alg: int32"
#define SHAPES "Tshape: {int32, int64} = int32"
#define FLOATS                                                                 \
  KEYED " -> output: dtype; "                                                  \
        "dtype: {half, bfloat16, float, double} = float; " SHAPES

static const td_op_def ops[] = {
    {.type = "StatelessRandomUniformV2",
     .sig = FLOATS,
     .shape = infer,
     .doc = "Numbers evenly spread over [0, 1), of a key and a counter.",
     .lua = "",
     .flags = TD_NO_GRADIENT,
     .host = "shape, key, counter, alg",
     .section = "Random"},
    {.type = "StatelessRandomNormalV2",
     .sig = FLOATS,
     .shape = infer,
     .doc = "Normally distributed numbers, of mean 0 and deviation 1, of a key "
            "and a counter.",
     .lua = "",
     .flags = TD_NO_GRADIENT,
     .host = "shape, key, counter, alg",
     .section = "Random"},
    {.type = "StatelessTruncatedNormalV2",
     .sig = FLOATS,
     .shape = infer,
     .doc = "Normally distributed numbers, those further than 2 from 0 drawn "
            "again, of a key and a counter.",
     .lua = "",
     .flags = TD_NO_GRADIENT,
     .host = "shape, key, counter, alg",
     .section = "Random"},
    {.type = "StatelessRandomUniformIntV2",
     .sig = KEYED ", minval: dtype, maxval: dtype -> output: dtype; "
                  "dtype: {int32, int64, uint32, uint64}; " SHAPES,
     .shape = integer_infer,
     .doc = "Integers evenly spread over [minval, maxval), of a key and a "
            "counter.",
     .lua = "",
     .flags = TD_NO_GRADIENT,
     .host = "shape, key, counter, alg, minval, maxval",
     .section = "Random"},
    {.type = "StatelessRandomUniformFullIntV2",
     .sig = KEYED " -> output: dtype; "
                  "dtype: {int32, int64, uint32, uint64} = uint64; " SHAPES,
     .shape = infer,
     .doc = "Integers evenly spread over all that there are, of a key and a "
            "counter.",
     .lua = "",
     .flags = TD_NO_GRADIENT,
     .host = "shape, key, counter, alg",
     .section = "Random"},
    {.type = "StatelessShuffle",
     .sig = "value: T, key: uint64, counter: uint64, alg: int32 -> output: T; "
            "T: type",
     .shape = shuffle_infer,
     .cost = td_cost_move,
     .doc = "The rows of value in an order of a key and a counter.",
     .lua = "",
     .flags = TD_NO_GRADIENT,
     .host = "key, counter, alg",
     .section = "Random"},
    {.type = "StatelessRandomGetKeyCounter",
     .sig = "seed: Tseed -> key: uint64, counter: uint64; "
            "Tseed: {int32, int64} = int64",
     .shape = seed_infer,
     .doc = "The key and the counter that a seed of two numbers stands for.",
     .lua = "",
     .flags = TD_NO_GRADIENT,
     .host = "*",
     .section = "Random"},
    {.type = "StatelessRandomGetKeyCounterAlg",
     .sig = "seed: Tseed -> key: uint64, counter: uint64, alg: int32; "
            "Tseed: {int32, int64} = int64",
     .shape = seed_infer,
     .doc = "The key and the counter that a seed of two numbers stands for, "
            "and the device's algorithm.",
     .lua = "",
     .flags = TD_NO_GRADIENT,
     .host = "*",
     .section = "Random"},
    {.type = "StatelessRandomGetAlg",
     .sig = "-> alg: int32",
     .shape = td_infer_scalars,
     .doc = "The number of the device's algorithm: 1, Philox.",
     .lua = "",
     .flags = TD_STATEFUL | TD_NO_GRADIENT,
     .host = "*",
     .section = "Random"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "StatelessRandomUniformV2", .device = "CPU", .run = uniform_run},
    {.op = "StatelessRandomNormalV2", .device = "CPU", .run = normal_run},
    {.op = "StatelessTruncatedNormalV2", .device = "CPU", .run = truncated_run},
    {.op = "StatelessRandomUniformIntV2",
     .device = "CPU",
     .types = "dtype=int32|int64",
     .run = integer_run},
    {.op = "StatelessRandomUniformFullIntV2", .device = "CPU", .run = bits_run},
    {.op = "StatelessShuffle", .device = "CPU", .run = shuffle_run},
    {.op = "StatelessRandomGetKeyCounter", .device = "CPU", .run = seed_run},
    {.op = "StatelessRandomGetKeyCounterAlg", .device = "CPU", .run = seed_run},
    {.op = "StatelessRandomGetAlg", .device = "CPU", .run = algorithm_run},
    {0},
};

TD_MODULE(random_keyed, ops, kernels)
