/* random.c - the random ops: whose turn of which stream a kernel draws.
 *
 * As in TensorFlow, a kernel owns a stream that goes on from step to step: a
 * run reserves its part under a lock, 256 blocks for every element, and fills
 * it on any number of threads. In a loop iterations run in any order; there the
 * stream is one of its own for each (step, frame, iteration), derived from the
 * seeds. Steps count from the first that came here, so that a program begun
 * again draws the same numbers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cost.h"
#include "kernels/random.h"

#include <pthread.h>
#include <string.h>

#include "engine/base/bytes.h"
#include "engine/base/entropy.h"
#include "kernels/cpu.h"
#include "kernels/row_gather.h"
#include "kernels/operand.h"
#include "kernels/array.h"

enum { REMEMBERED = 16 }; /* steps that may be inside loops at once */

typedef struct stream {
  pthread_mutex_t mutex;
  td_philox start; /* mutex: of the stream */
  td_philox next;  /* mutex: where the next run begins */
  int64_t steps;   /* mutex: steps that met this kernel inside a loop */
  uint64_t step[REMEMBERED]; /* mutex: their ids + 1, at their number modulo */
  int64_t number[REMEMBERED];
} stream;

/* ---- streams ------------------------------------------------------------- */

td_status *td_random_make(const td_kernel_info *info, void **state) {
  uint64_t seed = (uint64_t)td_node_int(info->node, "seed");
  uint64_t seed2 = (uint64_t)td_node_int(info->node, "seed2");
  stream *s = td_calloc(1, sizeof *s);
  if (!s) return td_oom();
  if (seed == 0 && seed2 == 0) {
    seed = td_entropy();
    seed2 = td_entropy();
  }
  td_philox_init(&s->start, seed, seed2);
  s->next = s->start;
  pthread_mutex_init(&s->mutex, NULL);
  *state = s;
  return NULL;
}

void td_random_drop(void *state) {
  stream *s = state;
  pthread_mutex_destroy(&s->mutex);
  td_free(s);
}

/* ---- streams as bytes: version, where it starts, the next run, steps ----- */

enum { STREAM_VERSION = 1 };

static void save_philox(const td_philox *p, td_str *out) {
  for (int i = 0; i < 4; i++) td_bytes_put(out, p->counter[i], 4);
  for (int i = 0; i < 2; i++) td_bytes_put(out, p->key[i], 4);
}

static bool load_word(td_bytes *from, uint32_t *to) {
  uint64_t word;
  bool got = td_bytes_get(from, 4, &word);
  if (got) *to = (uint32_t)word;
  return got;
}

static bool load_philox(td_bytes *from, td_philox *p) {
  bool got = true;
  for (int i = 0; i < 4; i++) got = got && load_word(from, &p->counter[i]);
  for (int i = 0; i < 2; i++) got = got && load_word(from, &p->key[i]);
  return got;
}

td_status *td_random_save(const void *state, td_str *out) {
  stream *s = (stream *)state;
  pthread_mutex_lock(&s->mutex);
  td_philox start = s->start, next = s->next;
  uint64_t steps = (uint64_t)s->steps;
  pthread_mutex_unlock(&s->mutex);
  td_bytes_put(out, STREAM_VERSION, 1);
  save_philox(&start, out);
  save_philox(&next, out);
  td_bytes_put(out, steps, 8);
  return out->failed ? td_oom() : NULL;
}

td_status *td_random_load(void *state, td_bytes from) {
  stream *s = state;
  uint64_t version, steps;
  td_philox start, next;
  if (!td_bytes_get(&from, 1, &version) || version != STREAM_VERSION ||
      !load_philox(&from, &start) || !load_philox(&from, &next) ||
      !td_bytes_get(&from, 8, &steps) || steps > INT64_MAX / 2 || from.len)
    return td_error(TD_DATA_LOSS, "these are not the bytes of a stream");
  pthread_mutex_lock(&s->mutex);
  s->start = start;
  s->next = next;
  s->steps = (int64_t)steps;
  memset(s->step, 0, sizeof s->step); /* steps are numbered from here */
  pthread_mutex_unlock(&s->mutex);
  return NULL;
}

/* ---- whose turn ---------------------------------------------------------- */

/* The number of a step among those that met this kernel. */
static int64_t number_of(stream *s, uint64_t id) {
  for (int i = 0; i < REMEMBERED; i++)
    if (s->step[i] == id + 1) return s->number[i];
  int64_t n = s->steps++;
  s->step[n % REMEMBERED] = id + 1;
  s->number[n % REMEMBERED] = n;
  return n;
}

/* The output of one block becomes the key and the upper counter of a stream. */
static td_philox derive(const td_philox *from, uint64_t low, uint64_t high) {
  td_philox p = *from;
  uint32_t words[4];
  p.counter[0] ^= (uint32_t)low;
  p.counter[1] ^= (uint32_t)(low >> 32);
  p.counter[2] ^= (uint32_t)high;
  p.counter[3] ^= (uint32_t)(high >> 32);
  td_philox_next(&p, words);
  return (td_philox){.key = {words[0], words[1]},
                     .counter = {0, 0, words[2], words[3]}};
}

td_philox td_random_reserve_of(td_kernel_ctx *c, void *state, uint64_t blocks) {
  stream *s = state;
  td_philox p;
  int64_t number = 0;
  pthread_mutex_lock(&s->mutex);
  bool own = c->frame != 0 || c->step->draw != 0;
  if (c->step->draw) {
    number = (int64_t)c->step->draw;
  } else if (own) {
    number = number_of(s, c->step->id);
  } else {
    p = s->next;
    td_philox_skip(&s->next, blocks);
  }
  td_philox start = s->start;
  pthread_mutex_unlock(&s->mutex);
  if (!own) return p;
  p = derive(&start, c->frame, (uint64_t)number);
  return derive(&p, (uint64_t)c->iteration, 0);
}

td_philox td_random_reserve(td_kernel_ctx *c, uint64_t blocks) {
  return td_random_reserve_of(c, c->kernel->state, blocks);
}

/* ---- numbers ------------------------------------------------------------- */

td_status *td_random_run(td_kernel_ctx *c, td_random_draw *d) {
  int64_t each = td_random_group(d->dtype);
  bool costly = d->kind == TD_RANDOM_NORMAL || d->kind == TD_RANDOM_TRUNCATED;
  d->isa = td_cpu_isa();
  td_for(c, (d->count + each - 1) / each,
         (costly ? TD_GRAIN_COSTLY : TD_GRAIN) / each, td_random_fill, d);
  return NULL;
}

/* From inputs `i` and i + 1: scalars, minval below maxval unless nothing is to
 * be drawn. */
static td_status *read_range(const td_kernel_ctx *c, int i, bool any,
                             td_random_draw *d) {
  const td_tensor *min = td_in(c, i), *max = td_in(c, i + 1);
  if (min->shape.rank != 0 || max->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT, "minval and maxval must be scalars");
  int64_t low = td_tensor_get_i(min, 0), high = td_tensor_get_i(max, 0);
  if (any && low >= high)
    return td_error(TD_INVALID_ARGUMENT,
                    "minval must be below maxval: they are %lld and %lld",
                    (long long)low, (long long)high);
  d->low = (uint64_t)low;
  d->range = (uint64_t)high - (uint64_t)low;
  return NULL;
}

td_status *td_random_out(td_kernel_ctx *c, int range, td_random_draw *d) {
  td_shape shape;
  td_tensor *y;
  TD_TRY(td_operand_shape(td_in(c, 0), "shape", &shape));
  TD_TRY(td_out(c, 0, &shape, &y));
  d->dtype = y->dtype;
  d->count = td_tensor_count(y);
  d->to = y->data;
  if (d->kind != TD_RANDOM_INTEGER) return NULL;
  return read_range(c, range, d->count > 0, d);
}

td_status *td_random_on(td_kernel_ctx *c, td_random_kind kind,
                        td_random_how how) {
  td_random_draw d = {.kind = kind};
  TD_TRY(td_random_out(c, 1, &d));
  if (d.count == 0) return NULL;
  d.base = td_random_reserve(c, (uint64_t)d.count * TD_RANDOM_RESERVED);
  return how(c, &d);
}

static td_status *uniform_run(td_kernel_ctx *c) {
  return td_random_on(c, TD_RANDOM_UNIFORM, td_random_run);
}
static td_status *normal_run(td_kernel_ctx *c) {
  return td_random_on(c, TD_RANDOM_NORMAL, td_random_run);
}
static td_status *truncated_run(td_kernel_ctx *c) {
  return td_random_on(c, TD_RANDOM_TRUNCATED, td_random_run);
}
static td_status *integer_run(td_kernel_ctx *c) {
  return td_random_on(c, TD_RANDOM_INTEGER, td_random_run);
}

td_status *td_random_infer(td_infer *c) {
  td_shape shape;
  TD_TRY(td_infer_rank(c, 0, 1, "shape", NULL));
  TD_TRY(td_infer_shape_from(c, 0, &shape));
  td_infer_out(c, 0, shape);
  return NULL;
}

static td_status *integer_infer(td_infer *c) {
  TD_TRY(td_infer_rank(c, 1, 0, "minval", NULL));
  TD_TRY(td_infer_rank(c, 2, 0, "maxval", NULL));
  return td_random_infer(c);
}

/* ---- RandomShuffle ------------------------------------------------------- */

/* Words of a stream, one by one. */
typedef struct words {
  td_philox p;
  uint32_t block[4];
  int used;
} words;

static uint32_t next_word(words *w) {
  if (w->used == 4) {
    td_philox_next(&w->p, w->block);
    w->used = 0;
  }
  return w->block[w->used++];
}

/* Row i changes places with one of those from i on. */
static void shuffle(words *w, int64_t *rows, int64_t n) {
  for (int64_t i = 0; i < n; i++) rows[i] = i;
  for (int64_t i = 0; i < n - 1; i++) {
    int64_t other = i + next_word(w) % (uint32_t)(n - i), row = rows[i];
    rows[i] = rows[other];
    rows[other] = row;
  }
}

static td_status *put_rows(td_kernel_ctx *c, const int64_t *rows, int64_t n) {
  const td_shape *shape = &td_in(c, 0)->shape;
  td_array x = {0}, y = {0};
  td_status *s = td_array_in(td_in(c, 0), &x);
  if (td_ok(s)) s = td_array_out(c, 0, shape, &y);
  if (td_ok(s)) {
    size_t row = (size_t)td_shape_span(shape, 1, shape->rank) * x.size;
    td_row_gather(c, x.at, rows, n, row, y.at);
    s = td_array_done(c, 0, &y);
  }
  td_array_drop(&x);
  td_array_drop(&y);
  return s;
}

/* Rows of a tensor that have an order, 1 where there is nothing to shuffle. */
static int64_t rows_of(const td_tensor *x) {
  int64_t n = x->shape.rank > 0 ? x->shape.dim[0] : 1;
  return td_tensor_count(x) <= 1 ? 1 : n;
}

td_status *td_random_shuffle(td_kernel_ctx *c, const td_philox *p) {
  int64_t n = rows_of(td_in(c, 0));
  if (n <= 1) return td_array_share(c, 0, 0, &td_in(c, 0)->shape);
  if (n > UINT32_MAX)
    return td_error(TD_INVALID_ARGUMENT,
                    "%lld rows are more than can be shuffled, 2^32-1",
                    (long long)n);
  int64_t *rows = td_malloc((size_t)n * sizeof *rows);
  if (!rows) return td_oom();
  words w = {.p = *p, .used = 4};
  shuffle(&w, rows, n);
  td_status *s = put_rows(c, rows, n);
  td_free(rows);
  return s;
}

static td_status *shuffle_run(td_kernel_ctx *c) {
  int64_t n = rows_of(td_in(c, 0));
  td_philox p = {{0}, {0}};
  if (n > 1 && n <= UINT32_MAX) p = td_random_reserve(c, (uint64_t)(n + 2) / 4);
  return td_random_shuffle(c, &p);
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "RandomUniform",
     .sig = "shape: T -> output: dtype; seed: int = 0; seed2: int = 0; "
            "dtype: {half, bfloat16, float, double}; T: {int32, int64}",
     .shape = td_random_infer,
     .doc = "Numbers evenly spread over [0, 1).",
     .flags = TD_STATEFUL | TD_NO_GRADIENT,
     .host = "shape",
     .section = "Random"},
    {.type = "RandomStandardNormal",
     .sig = "shape: T -> output: dtype; seed: int = 0; seed2: int = 0; "
            "dtype: {half, bfloat16, float, double}; T: {int32, int64}",
     .shape = td_random_infer,
     .doc = "Normally distributed numbers, of mean 0 and deviation 1.",
     .flags = TD_STATEFUL | TD_NO_GRADIENT,
     .host = "shape",
     .example = "td.random_standard_normal({2, 3}, {dtype = "
                "\"float32\"}).shape  --> {2, 3}",
     .section = "Random"},
    {.type = "TruncatedNormal",
     .sig = "shape: T -> output: dtype; seed: int = 0; seed2: int = 0; "
            "dtype: {half, bfloat16, float, double}; T: {int32, int64}",
     .shape = td_random_infer,
     .doc = "Normally distributed numbers, those further than 2 from 0 drawn "
            "again.",
     .flags = TD_STATEFUL | TD_NO_GRADIENT,
     .host = "shape",
     .section = "Random"},
    {.type = "RandomUniformInt",
     .sig = "shape: T, minval: Tout, maxval: Tout -> output: Tout; "
            "seed: int = 0; seed2: int = 0; Tout: {int32, int64}; "
            "T: {int32, int64}",
     .shape = integer_infer,
     .doc = "Integers evenly spread over [minval, maxval).",
     .lua = "",
     .flags = TD_STATEFUL | TD_NO_GRADIENT,
     .host = "shape, minval, maxval",
     .section = "Random"},
    {.type = "RandomShuffle",
     .sig = "value: T -> output: T; seed: int = 0; seed2: int = 0; T: type",
     .shape = td_infer_same,
     .cost = td_cost_move,
     .doc = "The rows of value in random order.",
     .flags = TD_STATEFUL,
     .example = "td.random_shuffle({1, 2, 3}).shape  --> {3}",
     .section = "Random"},
    {0},
};

#define STREAM .device = "CPU", TD_RANDOM_STREAM

static const td_kernel_def kernels[] = {
    {.op = "RandomUniform", STREAM, .run = uniform_run},
    {.op = "RandomStandardNormal", STREAM, .run = normal_run},
    {.op = "TruncatedNormal", STREAM, .run = truncated_run},
    {.op = "RandomUniformInt", STREAM, .run = integer_run},
    {.op = "RandomShuffle", STREAM, .run = shuffle_run},
    {0},
};

TD_MODULE(random, ops, kernels)
