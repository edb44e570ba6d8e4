/* sort.cuh - numbers put in order on a card, those that are equal in the order
 * in which they were.
 *
 *   td_cuda_sort_new(c, n, bits, &s); fill s.keys, s.items;
 *   td_cuda_sort(c, &s); ... s.keys, s.items ...; td_cuda_sort_drop(&s);
 *
 * Keys are 64 bits, of which the lowest `bits` count; with each goes an item, a
 * number. Four bits a round: tiles count their digits, running sums tell where
 * each digit of each tile goes, and tiles put their items there. In each tile a
 * thread has a few neighbours, and the counts of all sixteen digits are packed
 * in four words, so that four sums over the block rank them all.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_SORT_CUH
#define TD_CUDA_SORT_CUH

#include "kernels/cuda/scan.cuh"

namespace {

enum {
  TD_SORT_BITS = 4,
  TD_SORT_DIGITS = 1 << TD_SORT_BITS,
  TD_SORT_WORDS = TD_SORT_DIGITS / 4, /* 16 bits a digit */
  TD_SORT_EACH = 8,
  TD_SORT_TILE = TD_CUDA_BLOCK * TD_SORT_EACH,
};

struct td_cuda_sorting {
  int64_t n;
  int bits;
  uint64_t *keys;
  int64_t *items;
  td_tensor held[2][2]; /* keys and items, from and to */
  td_tensor counts, places;
};

__device__ inline int td_sort_digit(uint64_t key, int shift) {
  return (int)(key >> shift & (TD_SORT_DIGITS - 1));
}

/* Digit d's 16 bits of packed counts. */
__device__ inline unsigned td_sort_get(const uint64_t *words, int d) {
  uint64_t word = 0;
  for (int w = 0; w < TD_SORT_WORDS; w++)
    if (w == d / 4) word = words[w];
  return (unsigned)(word >> d % 4 * 16 & 0xffff);
}

__device__ inline void td_sort_count(uint64_t *words, int d) {
  for (int w = 0; w < TD_SORT_WORDS; w++)
    if (w == d / 4) words[w] += (uint64_t)1 << d % 4 * 16;
}

/* The digits of this thread's items, counted. */
__device__ inline void td_sort_own(int64_t n, const uint64_t *keys, int shift,
                                   uint64_t *words) {
  int64_t first = (int64_t)blockIdx.x * TD_SORT_TILE +
                  (int64_t)threadIdx.x * TD_SORT_EACH;
  for (int w = 0; w < TD_SORT_WORDS; w++) words[w] = 0;
  for (int k = 0; k < TD_SORT_EACH; k++)
    if (first + k < n)
      td_sort_count(words, td_sort_digit(keys[first + k], shift));
}

/* counts[digit * tiles + tile] */
static __global__ void td_sort_counts(int64_t n, const uint64_t *keys,
                                      int shift, int64_t *counts) {
  uint64_t words[TD_SORT_WORDS], all[TD_SORT_WORDS];
  td_sort_own(n, keys, shift, words);
  for (int w = 0; w < TD_SORT_WORDS; w++) td_block_scan(words[w], &all[w]);
  if (threadIdx.x < TD_SORT_DIGITS)
    counts[threadIdx.x * gridDim.x + blockIdx.x] =
        td_sort_get(all, (int)threadIdx.x);
}

static __global__ void td_sort_place(int64_t n, const uint64_t *keys,
                                     const int64_t *items, int shift,
                                     const int64_t *places, uint64_t *new_keys,
                                     int64_t *new_items) {
  int64_t first = (int64_t)blockIdx.x * TD_SORT_TILE +
                  (int64_t)threadIdx.x * TD_SORT_EACH;
  uint64_t words[TD_SORT_WORDS], all;
  td_sort_own(n, keys, shift, words);
  for (int w = 0; w < TD_SORT_WORDS; w++)
    words[w] = td_block_scan(words[w], &all);
  for (int k = 0; k < TD_SORT_EACH && first + k < n; k++) {
    uint64_t key = keys[first + k];
    int d = td_sort_digit(key, shift);
    int64_t to = places[d * gridDim.x + blockIdx.x] + td_sort_get(words, d);
    td_sort_count(words, d);
    new_keys[to] = key;
    new_items[to] = items[first + k];
  }
}

struct td_sort_counted {
  const int64_t *at;
  __device__ int64_t operator()(int64_t i) const {
    return at[i];
  }
};

inline void td_cuda_sort_drop(td_cuda_sorting *s) {
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < 2; k++) td_tensor_release(&s->held[i][k]);
  td_tensor_release(&s->counts);
  td_tensor_release(&s->places);
}

inline void td_sort_use(td_cuda_sorting *s, int which) {
  s->keys = td_cuda_at<uint64_t>(&s->held[which][0]);
  s->items = td_cuda_at<int64_t>(&s->held[which][1]);
}

/* Which of the two the keys are in. */
inline int td_sort_now(const td_cuda_sorting *s) {
  return s->keys == td_cuda_at<uint64_t>(&s->held[1][0]);
}

/* Once more, by other keys: those of s->items, which are to be filled again. */
inline void td_cuda_sort_again(td_cuda_sorting *s, int bits) {
  s->bits = bits;
}

/* Room for n keys and items, to be filled. End it with td_cuda_sort_drop, also
 * when it failed. */
inline td_status *td_cuda_sort_new(td_kernel_ctx *c, int64_t n, int bits,
                                   td_cuda_sorting *s) {
  int64_t tiles = n / TD_SORT_TILE + (n % TD_SORT_TILE != 0);
  td_shape all = td_shape_vector(n);
  td_shape counts = td_shape_vector(tiles * TD_SORT_DIGITS + 1);
  *s = td_cuda_sorting{};
  s->n = n;
  s->bits = bits;
  if (tiles > INT32_MAX / TD_SORT_DIGITS) return td_oom();
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < 2; k++)
      TD_TRY(td_temp(c, TD_INT64, &all, &s->held[i][k]));
  TD_TRY(td_temp(c, TD_INT64, &counts, &s->counts));
  TD_TRY(td_temp(c, TD_INT64, &counts, &s->places));
  td_sort_use(s, 0);
  return nullptr;
}

/* s->keys and s->items are elsewhere then. */
inline td_status *td_cuda_sort(td_kernel_ctx *c, td_cuda_sorting *s) {
  int64_t tiles = s->n / TD_SORT_TILE + (s->n % TD_SORT_TILE != 0);
  int64_t *counts = td_cuda_at<int64_t>(&s->counts);
  int64_t *places = td_cuda_at<int64_t>(&s->places);
  int now = td_sort_now(s);
  if (s->n == 0) return nullptr;
  for (int shift = 0; shift < s->bits; shift += TD_SORT_BITS, now = 1 - now) {
    td_sort_use(s, now);
    TD_TRY(TD_LAUNCH(c, td_sort_counts, dim3((unsigned)tiles), TD_CUDA_BLOCK, 0,
                     s->n, s->keys, shift, counts));
    TD_TRY(td_cuda_scan(c, tiles * TD_SORT_DIGITS, td_sort_counted{counts},
                        places));
    TD_TRY(TD_LAUNCH(c, td_sort_place, dim3((unsigned)tiles), TD_CUDA_BLOCK, 0,
                     s->n, s->keys, s->items, shift, places,
                     td_cuda_at<uint64_t>(&s->held[1 - now][0]),
                     td_cuda_at<int64_t>(&s->held[1 - now][1])));
  }
  td_sort_use(s, now);
  return nullptr;
}

/* Bits that numbers up to `most` have. */
inline int td_cuda_bits(uint64_t most) {
  int bits = 0;
  while (bits < 64 && most >> bits) bits++;
  return bits;
}

} // namespace

#endif
