/* random_index.c - RandomIndexShuffle: where an index is after a shuffle that
 * nobody does.
 *
 * A block cipher is a permutation of the numbers of so many bits. An index is
 * encrypted until it is one of those up to max_index, which is a permutation of
 * these. The cipher is Simon, of a word of 8 to 32 bits, with the key's three
 * words first in its schedule, as TensorFlow has it; so too a block of too few
 * bits for a max_index that is a power of two.
 * Source: Beaulieu et al., "The SIMON and SPECK families of lightweight block
 * ciphers", 2013.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "kernels/cpu.h"

enum { KEYS = 3, MIN_BITS = 16, MAX_ROUNDS = 1 << 16 };

typedef struct cipher {
  int word;       /* bits */
  uint32_t mask;  /* of a word */
  int rounds;     /* even */
  uint32_t *keys; /* of each round */
} cipher;

/* ---- the cipher ---------------------------------------------------------- */

static uint32_t left(const cipher *c, uint32_t x, int by) {
  return (x << by | x >> (c->word - by)) & c->mask;
}
static uint32_t right(const cipher *c, uint32_t x, int by) {
  return (x >> by | x << (c->word - by)) & c->mask;
}

static void schedule(cipher *c, const uint32_t *key) {
  uint64_t z = UINT64_C(0x7369f885192c0ef5);
  uint32_t *k = c->keys;
  for (int i = 0; i < KEYS; i++) k[i] = key[i] & c->mask;
  for (int i = KEYS; i < c->rounds; i++, z >>= 1)
    k[i] = ((0xfffffffc ^ (uint32_t)(z & 1)) & c->mask) ^ k[i - 3] ^
           right(c, k[i - 1], 3) ^ right(c, k[i - 1], 4);
}

static uint32_t mix(const cipher *c, uint32_t x) {
  return (left(c, x, 1) & left(c, x, 8 % c->word)) ^ left(c, x, 2);
}

static uint64_t encrypt(const cipher *c, uint64_t value) {
  uint32_t high = (uint32_t)(value >> c->word) & c->mask;
  uint32_t low = (uint32_t)value & c->mask;
  for (int i = 0; i < c->rounds; i += 2) {
    high ^= mix(c, low) ^ c->keys[i];
    low ^= mix(c, high) ^ c->keys[i + 1];
  }
  return (uint64_t)high << c->word | low;
}

/* Bits that hold the largest index, an even number of them. */
static int bits_for(uint64_t most) {
  int bits = most > 1 ? (int)ceil(log2((double)most)) : 0;
  bits += bits % 2;
  return bits < MIN_BITS ? MIN_BITS : bits;
}

static uint64_t place(cipher *c, const uint32_t *key, uint64_t index,
                      uint64_t most) {
  c->word = bits_for(most) / 2;
  c->mask = UINT32_MAX >> (32 - c->word);
  schedule(c, key);
  do index = encrypt(c, index);
  while (index > most);
  return index;
}

/* ---- running ------------------------------------------------------------- */

typedef struct job {
  const td_tensor *index, *seed, *most;
  td_tensor *out;
  int rounds;
  bool starved; /* atomic: a piece found no memory */
} job;

/* Element i of a vector, or the scalar. */
static int64_t element(const td_tensor *t, int64_t i) {
  return td_tensor_get_i(t, t->shape.rank > 0 ? i : 0);
}

static void piece(void *arg, int64_t begin, int64_t end) {
  job *j = arg;
  cipher c = {.rounds = j->rounds};
  c.keys = td_malloc((size_t)c.rounds * sizeof *c.keys);
  if (!c.keys) __atomic_store_n(&j->starved, true, __ATOMIC_RELAXED);
  for (int64_t i = begin; c.keys && i < end; i++) {
    uint32_t key[KEYS];
    int64_t row = j->seed->shape.rank == 2 ? i * KEYS : 0;
    for (int k = 0; k < KEYS; k++)
      key[k] = (uint32_t)td_tensor_get_i(j->seed, row + k);
    uint64_t at = place(&c, key, (uint64_t)element(j->index, i),
                        (uint64_t)element(j->most, i));
    td_tensor_set_i(j->out, i, (int64_t)at);
  }
  td_free(c.keys);
}

/* Indices of one run: the largest of three counts; -1 where it is not known.
 * `scalar`: the result is one number. */
static int64_t count_of(const td_shape *index, const td_shape *seed,
                        const td_shape *most, bool *scalar) {
  const td_shape *const all[] = {index, most};
  int64_t n = 1;
  if (index->rank < 0 || seed->rank < 0 || most->rank < 0) return -1;
  *scalar = index->rank == 0 && seed->rank == 1 && most->rank == 0;
  for (int i = 0; i < 2; i++) {
    if (all[i]->rank == 1 && all[i]->dim[0] < 0) return -1;
    if (all[i]->rank == 1 && all[i]->dim[0] > n) n = all[i]->dim[0];
  }
  if (seed->rank == 2 && seed->dim[0] < 0) return -1;
  return seed->rank == 2 && seed->dim[0] > n ? seed->dim[0] : n;
}

/* A scalar or a vector of n; of keys a vector or n rows. */
static td_status *ask_vector(const td_shape *s, const char *what, int64_t n) {
  td_shape_text text;
  if (s->rank <= 0 ||
      (s->rank == 1 && (n < 0 || s->dim[0] < 0 || s->dim[0] == n)))
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "%s must be a scalar, or a vector of as many as there are "
                  "indices and seeds, not of shape %s",
                  what, td_shape_str(s, &text));
}

static td_status *ask_seed(const td_shape *s, int64_t n) {
  td_shape_text text;
  int64_t last = s->rank > 0 ? s->dim[s->rank - 1] : -1;
  bool rows = s->rank == 2 && (n < 0 || s->dim[0] < 0 || s->dim[0] == n);
  if (s->rank < 0 || ((s->rank == 1 || rows) && (last == KEYS || last < 0)))
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "seed must be a vector of 3 numbers, or a row of 3 for each "
                  "index, not of shape %s",
                  td_shape_str(s, &text));
}

static td_status *ask_shapes(const td_shape *index, const td_shape *seed,
                             const td_shape *most, td_shape *out) {
  bool scalar = false;
  int64_t n = count_of(index, seed, most, &scalar);
  TD_TRY(ask_vector(index, "index", n));
  TD_TRY(ask_seed(seed, n));
  TD_TRY(ask_vector(most, "max_index", n));
  *out = scalar ? td_shape_scalar() : td_shape_vector(n);
  return NULL;
}

static td_status *ask_rounds(int64_t rounds) {
  if (rounds >= 4 && rounds % 2 == 0 && rounds <= MAX_ROUNDS) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "rounds must be an even number from 4 to %d: it is %lld",
                  MAX_ROUNDS, (long long)rounds);
}

static td_status *infer(td_infer *c) {
  td_shape out;
  const td_shape *index = td_infer_in(c, 0), *seed = td_infer_in(c, 1);
  const td_shape *most = td_infer_in(c, 2);
  TD_TRY(ask_rounds(td_infer_int(c, "rounds")));
  TD_TRY(ask_shapes(index, seed, most, &out));
  if (index->rank >= 0 && seed->rank >= 0 && most->rank >= 0)
    td_infer_out(c, 0, out);
  return NULL;
}

static td_status *ask_values(const job *j, int64_t n) {
  bool whole = j->out->dtype == TD_INT32 || j->out->dtype == TD_INT64;
  for (int64_t i = 0; i < n; i++) {
    int64_t index = element(j->index, i), most = element(j->most, i);
    if (whole && (index < 0 || most < 0))
      return td_error(TD_INVALID_ARGUMENT,
                      "index and max_index must not be negative: they are %lld "
                      "and %lld",
                      (long long)index, (long long)most);
    if ((uint64_t)index > (uint64_t)most)
      return td_error(TD_INVALID_ARGUMENT,
                      "index must be up to max_index: %llu is above %llu",
                      (unsigned long long)index, (unsigned long long)most);
  }
  return NULL;
}

static td_status *run(td_kernel_ctx *c) {
  job j = {.index = td_in(c, 0), .seed = td_in(c, 1), .most = td_in(c, 2)};
  td_shape out;
  int64_t rounds = td_node_int(td_ctx_node(c), "rounds");
  TD_TRY(ask_rounds(rounds));
  j.rounds = (int)rounds;
  TD_TRY(ask_shapes(&j.index->shape, &j.seed->shape, &j.most->shape, &out));
  TD_TRY(td_out(c, 0, &out, &j.out));
  int64_t n = td_tensor_count(j.out);
  TD_TRY(ask_values(&j, n));
  td_for(c, n, TD_GRAIN_COSTLY / 8, piece, &j);
  return j.starved ? td_oom() : NULL;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "RandomIndexShuffle",
     .sig = "index: dtype, seed: Tseed, max_index: dtype -> output: dtype; "
            "rounds: int = 4; dtype: {int32, uint32, int64, uint64}; "
            "Tseed: {int32, uint32, int64, uint64}",
     .shape = infer,
     .doc =
         "Where each index from 0 to max_index is after a shuffle that three "
         "numbers of seed tell.",
     .lua = "random_index_shuffle",
     .flags = TD_NO_GRADIENT,
     .example = "td.random.index_shuffle({0, 1, 2}, {1, 2, 3}, 2)  --> 2 0 1",
     .section = "Random"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "RandomIndexShuffle", .device = "CPU", .run = run},
    {0},
};

TD_MODULE(random_index, ops, kernels)
