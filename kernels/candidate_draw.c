/* candidate_draw.c - how candidate samplers draw.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/bytes.h"
#include "engine/base/mem.h"
#include "kernels/candidate.h"

/* ---- words --------------------------------------------------------------- */

static uint32_t next(td_candidate_words *w) {
  if (w->left == 0) {
    td_philox_next(&w->stream, w->word);
    w->left = 4;
  }
  return w->word[4 - w->left--];
}

static uint64_t next64(td_candidate_words *w) {
  uint64_t low = next(w);
  return low | (uint64_t)next(w) << 32;
}

uint32_t td_candidate_below32(td_candidate_words *w, uint32_t n) {
  if ((n & (n - 1)) == 0) return next(w) & (n - 1);
  uint32_t rest = UINT32_MAX % n + 1, x;
  do x = next(w);
  while (x > UINT32_MAX - rest);
  return x % n;
}

uint64_t td_candidate_below64(td_candidate_words *w, uint64_t n) {
  if ((n & (n - 1)) == 0) return next64(w) & (n - 1);
  uint64_t rest = UINT64_MAX % n + 1, x;
  do x = next64(w);
  while (x > UINT64_MAX - rest);
  return x % n;
}

/* The words are the fraction of a number in [1, 2). */
double td_candidate_double(td_candidate_words *w) {
  uint64_t high = next(w) & 0xfffff;
  union {
    uint64_t u;
    double d;
  } v = {.u = UINT64_C(1023) << 52 | high << 32 | next(w)};
  return v.d - 1.0;
}

static float next_float(td_candidate_words *w) {
  union {
    uint32_t u;
    float f;
  } v = {.u = UINT32_C(127) << 23 | (next(w) & 0x7fffff)};
  return v.f - 1.0f;
}

/* ---- a fixed table ------------------------------------------------------- */

/* Slots with less than their share are topped up from one with more, the last
 * of each first. What rounding leaves over keeps its slot. */
static void pair(td_candidate_alias *a, double *share, int32_t *low,
                 int32_t *high) {
  int64_t lows = 0, highs = 0;
  for (int64_t i = 0; i < a->n; i++)
    if (share[i] < 1)
      low[lows++] = (int32_t)i;
    else
      high[highs++] = (int32_t)i;
  while (lows > 0 && highs > 0) {
    int32_t l = low[--lows], h = high[--highs];
    a->other[l] = h;
    a->keep[l] = (float)share[l];
    share[h] -= 1 - share[l];
    if (share[h] < 1)
      low[lows++] = h;
    else
      high[highs++] = h;
  }
  while (lows + highs > 0) {
    int32_t i = lows > 0 ? low[--lows] : high[--highs];
    a->keep[i] = 1;
    a->other[i] = i;
  }
}

td_status *td_candidate_alias_init(td_candidate_alias *a, const float *weights,
                                   int64_t n) {
  size_t count = (size_t)n;
  double sum = 0, *share = td_calloc(count, sizeof *share);
  int32_t *stacks = td_calloc(count, 2 * sizeof *stacks);
  a->n = n;
  a->keep = td_calloc(count, sizeof *a->keep);
  a->other = td_calloc(count, sizeof *a->other);
  bool ok = share && stacks && a->keep && a->other;
  for (int64_t i = 0; ok && i < n; i++) sum += (double)weights[i];
  for (int64_t i = 0; ok && i < n; i++)
    share[i] = (double)(weights[i] * (float)n) / sum;
  if (ok) pair(a, share, stacks, stacks + n);
  td_free(share);
  td_free(stacks);
  if (ok) return NULL;
  td_candidate_alias_deinit(a);
  return td_oom();
}

void td_candidate_alias_deinit(td_candidate_alias *a) {
  td_free(a->keep);
  td_free(a->other);
  *a = (td_candidate_alias){0};
}

int64_t td_candidate_alias_pick(const td_candidate_alias *a,
                                td_candidate_words *w) {
  float r = next_float(w);
  uint32_t i = td_candidate_below32(w, (uint32_t)a->n);
  return r < a->keep[i] ? (int64_t)i : a->other[i];
}

/* ---- a growing table ----------------------------------------------------- */

td_status *td_candidate_tree_init(td_candidate_tree *t, int64_t n) {
  *t = (td_candidate_tree){.n = n, .total = n};
  t->sums = td_calloc((size_t)n + 1, sizeof *t->sums);
  return t->sums ? NULL : td_oom();
}

void td_candidate_tree_deinit(td_candidate_tree *t) {
  td_free(t->sums);
  t->sums = NULL;
}

void td_candidate_tree_add(td_candidate_tree *t, int64_t i) {
  if (t->total >= INT32_MAX) return;
  t->total++;
  for (int64_t k = i + 1; k <= t->n; k += k & -k) t->sums[k]++;
}

/* Counts of the classes below i. */
static int64_t counts_below(const td_candidate_tree *t, int64_t i) {
  int64_t sum = 0;
  for (; i > 0; i -= i & -i) sum += t->sums[i];
  return sum;
}

int64_t td_candidate_tree_weight(const td_candidate_tree *t, int64_t i) {
  if (i < 0 || i >= t->n) return 0;
  return 1 + counts_below(t, i + 1) - counts_below(t, i);
}

/* The class that the number falls into when all lie beside each other. */
void td_candidate_tree_save(const td_candidate_tree *t, td_str *out) {
  td_bytes_put(out, (uint64_t)t->n, 8);
  for (int64_t i = 0; i < t->n; i++)
    td_bytes_put(out, (uint64_t)td_candidate_tree_weight(t, i) - 1, 4);
}

bool td_candidate_tree_loads(const td_candidate_tree *t, td_bytes from) {
  uint64_t n, count, total = (uint64_t)t->n;
  if (!td_bytes_get(&from, 8, &n) || n != total) return false;
  for (int64_t i = 0; i < t->n; i++) {
    if (!td_bytes_get(&from, 4, &count)) return false;
    total += count;
    if (total > INT32_MAX) return false;
  }
  return from.len == 0;
}

void td_candidate_tree_load(td_candidate_tree *t, td_bytes from) {
  uint64_t count = 0;
  td_bytes_get(&from, 8, &count);
  t->total = t->n;
  for (int64_t i = 1; i <= t->n && td_bytes_get(&from, 4, &count); i++) {
    t->sums[i] = (int32_t)count;
    t->total += (int64_t)count;
  }
  for (int64_t i = 1; i <= t->n; i++) {
    int64_t above = i + (i & -i);
    if (above <= t->n) t->sums[above] += t->sums[i];
  }
}

int64_t td_candidate_tree_pick(const td_candidate_tree *t,
                               td_candidate_words *w) {
  int64_t place = td_candidate_below32(w, (uint32_t)t->total), i = 0, step = 1;
  while (step * 2 <= t->n) step *= 2;
  for (; step > 0; step /= 2) {
    int64_t next = i + step;
    if (next > t->n || t->sums[next] + step > place) continue;
    place -= t->sums[next] + step;
    i = next;
  }
  return i;
}
