/* multinomial.c - Multinomial, StatelessMultinomial: classes drawn from rows of
 * logits.
 *
 * A number below the sum of the exponentials is looked up among their running
 * sums. Sample number i of all takes words 2 i and 2 i + 1 of the stream, which
 * is what TensorFlow draws on one thread. The sums are those of a few rows at a
 * time, so that no more memory is taken than one long row needs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>

#include "kernels/array.h"
#include "kernels/operand.h"
#include "kernels/cpu.h"
#include "kernels/multinomial.h"
#include "kernels/random_stateless.h"

enum { SUMS = 1 << 16 }; /* of the rows at hand, if not of a single one */

typedef struct job {
  const td_tensor *logits;
  td_tensor *out;
  double *sums;  /* of the rows at hand; a row's last is their total */
  int64_t first; /* of those rows */
  int64_t classes, samples;
  td_philox base;
} job;

/* ---- rows ---------------------------------------------------------------- */

/* Logits that are not finite count for nothing. */
static void add_up(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  for (int64_t r = begin; r < end; r++) {
    double largest = -DBL_MAX, total = 0;
    int64_t first = (j->first + r) * j->classes, to = r * j->classes;
    for (int64_t k = 0; k < j->classes; k++) {
      double x = td_tensor_get_f(j->logits, first + k);
      if (isfinite(x) && x > largest) largest = x;
    }
    for (int64_t k = 0; k < j->classes; k++) {
      double x = td_tensor_get_f(j->logits, first + k);
      if (isfinite(x)) total += exp(x - largest);
      j->sums[to + k] = total;
    }
  }
}

/* The first class whose running sum is above x; the last one in a row without a
 * finite logit. */
static int64_t look_up(const double *sums, int64_t n, double x) {
  int64_t low = 0, high = n - 1;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (sums[middle] > x)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static void draw(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  int64_t before = j->first * j->samples;
  td_philox p = j->base;
  uint32_t words[4];
  begin += before;
  end += before;
  td_philox_skip(&p, (uint64_t)begin / 2);
  if (begin % 2) td_philox_next(&p, words);
  for (int64_t i = begin; i < end; i++) {
    const double *sums = j->sums + (i - before) / j->samples * j->classes;
    if (i % 2 == 0) td_philox_next(&p, words);
    double x = td_random_double(words + i % 2 * 2) * sums[j->classes - 1];
    td_tensor_set_i(j->out, i, look_up(sums, j->classes, x));
  }
}

/* ---- running ------------------------------------------------------------- */

static td_status *check(const td_shape *logits, int64_t samples) {
  td_shape_text text;
  if (logits->rank >= 0 && logits->rank != 2)
    return td_error(TD_INVALID_ARGUMENT, "logits must be of rank 2, not %s",
                    td_shape_str(logits, &text));
  if (logits->rank == 2 && logits->dim[1] == 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "logits must have at least one class, not shape %s",
                    td_shape_str(logits, &text));
  if (samples >= 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "num_samples must not be negative, given %lld",
                  (long long)samples);
}

static td_status *infer(td_infer *c) {
  const td_shape *x = td_infer_in(c, 0);
  td_small v;
  int64_t samples = -1;
  bool known;
  TD_TRY(td_infer_rank(c, 1, 0, "num_samples", NULL));
  TD_TRY(td_operand_infer_ints(c, 1, "num_samples", &v, &known));
  if (known) TD_TRY(td_operand_single(&v, "num_samples", &samples, &known));
  TD_TRY(check(x, known ? samples : 0));
  td_infer_out(
      c, 0,
      td_shape_matrix(x->rank == 2 ? x->dim[0] : -1, known ? samples : -1));
  return NULL;
}

static td_status *stateless_infer(td_infer *c) {
  TD_TRY(td_random_ask_seed(c, 2));
  return infer(c);
}

/* TensorFlow reserves as if samples came in fours, of two words each. */
static uint64_t reserved(int64_t rows, int64_t samples) {
  uint64_t fours = ((uint64_t)samples + 3) / 4 * 4;
  return (uint64_t)rows * fours * 2 * TD_RANDOM_RESERVED;
}

static td_status *prepare(td_kernel_ctx *c, job *j) {
  const td_shape *x = &td_in(c, 0)->shape;
  td_shape_text text;
  if (td_in(c, 1)->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "num_samples must be a scalar, not of shape %s",
                    td_shape_str(&td_in(c, 1)->shape, &text));
  j->samples = td_tensor_get_i(td_in(c, 1), 0);
  TD_TRY(check(x, j->samples));
  td_shape out = td_shape_matrix(x->dim[0], j->samples);
  j->logits = td_in(c, 0);
  j->classes = x->dim[1];
  TD_TRY(td_array_count(&out, NULL));
  return td_out(c, 0, &out, &j->out);
}

static td_status *fill(td_kernel_ctx *c, job *j) {
  td_tensor sums;
  int64_t rows = j->logits->shape.dim[0];
  int64_t most = j->classes < SUMS ? SUMS / j->classes : 1;
  td_shape shape = td_shape_matrix(rows < most ? rows : most, j->classes);
  TD_TRY(td_temp(c, TD_FLOAT64, &shape, &sums));
  j->sums = sums.data;
  for (j->first = 0; j->first < rows; j->first += most) {
    int64_t n = rows - j->first < most ? rows - j->first : most;
    td_for(c, n,
           j->classes < TD_GRAIN_COSTLY ? TD_GRAIN_COSTLY / j->classes : 1,
           add_up, j);
    td_for(c, n * j->samples, TD_GRAIN_COSTLY, draw, j);
  }
  td_tensor_release(&sums);
  return NULL;
}

static td_status *read(td_kernel_ctx *c, job *j) {
  bool seeded = c->n_in > 2;
  if (seeded) TD_TRY(td_random_seeded(td_in(c, 2), &j->base));
  TD_TRY(prepare(c, j));
  if (td_tensor_count(j->out) > 0 && !seeded)
    j->base =
        td_random_reserve(c, reserved(j->logits->shape.dim[0], j->samples));
  return NULL;
}

td_status *td_multinomial_read(td_kernel_ctx *c, td_multinomial *p) {
  job j = {0};
  TD_TRY(read(c, &j));
  *p = (td_multinomial){j.logits->shape.dim[0], j.classes, j.samples, j.base,
                        j.out};
  return NULL;
}

static td_status *run(td_kernel_ctx *c) {
  job j = {0};
  TD_TRY(read(c, &j));
  return td_tensor_count(j.out) ? fill(c, &j) : NULL;
}

/* ---- tables -------------------------------------------------------------- */

#define TYPES                                                                  \
  "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, "    \
  "half, uint32, uint64}; "

static const td_op_def ops[] = {
    {.type = "Multinomial",
     .sig = "logits: T, num_samples: int32 -> output: output_dtype; "
            "seed: int = 0; seed2: int = 0; " TYPES
            "output_dtype: {int32, int64} = int64",
     .shape = infer,
     .doc = "Classes drawn from each row of logits, unnormalised logarithms of "
            "their probabilities.",
     .flags = TD_STATEFUL | TD_NO_GRADIENT,
     .host = "num_samples",
     .example = "td.multinomial({{0.0, 0.0}}, 5).shape  --> {1, 5}",
     .section = "Random"},
    {.type = "StatelessMultinomial",
     .sig = "logits: T, num_samples: int32, seed: Tseed -> "
            "output: output_dtype; " TYPES "Tseed: {int32, int64} = int64; "
            "output_dtype: {int32, int64} = int64",
     .shape = stateless_infer,
     .doc = "Classes drawn from each row of logits, the same for the same "
            "seed.",
     .flags = TD_NO_GRADIENT,
     .host = "num_samples, seed",
     .example =
         "td.stateless_multinomial({{0.0, 0.0}}, 5, {1, 2}).shape  --> {1, 5}",
     .section = "Random"},
    {0},
};

#define FLOATS "T=half|bfloat16|float|double"

static const td_kernel_def kernels[] = {
    {.op = "Multinomial",
     .device = "CPU",
     .types = FLOATS,
     TD_RANDOM_STREAM,
     .run = run},
    {.op = "StatelessMultinomial",
     .device = "CPU",
     .types = FLOATS,
     .run = run},
    {0},
};

TD_MODULE(multinomial, ops, kernels)
