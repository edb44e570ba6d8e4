/* alloc_report.c - what the allocator can say: numbers, names, refusals.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "engine/base/str.h"
#include "engine/device/alloc_heap.h"

/* ---- numbers ------------------------------------------------------------- */

static void add_counts(const td_alloc_heap *h, td_allocator_stats *s) {
  for (td_alloc_cache *c = h->caches; c; c = c->next) {
    s->allocs += __atomic_load_n(&c->allocs, __ATOMIC_RELAXED);
    s->frees += __atomic_load_n(&c->frees, __ATOMIC_RELAXED);
  }
}

/* While other threads work, a block may be seen freed but not yet allocated. */
static size_t seen_in_use(const td_alloc_heap *h) {
  int64_t sum = td_alloc_in_use(h);
  return sum > 0 ? (size_t)sum : 0;
}

void td_alloc_read_stats(td_allocator *a, td_allocator_stats *out) {
  td_alloc_heap *h = (td_alloc_heap *)a;
  pthread_mutex_lock(&h->lock);
  td_allocator_stats s = {.in_use = seen_in_use(h),
                          .held = h->held,
                          .limit = td_alloc_budget_limit(h->budget),
                          .allocs = h->allocs,
                          .frees = h->frees,
                          .system_allocs = h->system_allocs,
                          .system_frees = h->system_frees};
  add_counts(h, &s);
  s.peak = (int64_t)s.in_use > h->peak ? s.in_use : (size_t)h->peak;
  h->peak = (int64_t)s.peak;
  if (!h->caching) s.held = s.in_use;
  pthread_mutex_unlock(&h->lock);
  *out = s;
}

void td_alloc_reset_peak(td_allocator *a) {
  td_alloc_heap *h = (td_alloc_heap *)a;
  pthread_mutex_lock(&h->lock);
  h->peak = (int64_t)seen_in_use(h);
  pthread_mutex_unlock(&h->lock);
}

/* ---- names --------------------------------------------------------------- */

/* The first `n` by size of what was seen so far. */
typedef struct ranking {
  td_allocator_block *at;
  const char **of; /* the device of each, or NULL: nobody asks */
  size_t n, cap;
  const char *now; /* the device being looked at */
} ranking;

static void rank(void *arg, size_t size, const char *tag) {
  ranking *r = arg;
  if (r->n == r->cap && (r->cap == 0 || r->at[r->n - 1].size >= size)) return;
  size_t i = r->n < r->cap ? r->n++ : r->n - 1;
  for (; i > 0 && r->at[i - 1].size < size; i--) {
    r->at[i] = r->at[i - 1];
    if (r->of) r->of[i] = r->of[i - 1];
  }
  r->at[i].size = size;
  memcpy(r->at[i].tag, tag, sizeof r->at[i].tag);
  if (r->of) r->of[i] = r->now;
}

static void rank_heap(ranking *r, td_alloc_heap *h) {
  r->now = h->name;
  pthread_mutex_lock(&h->lock);
  td_alloc_maps_each(h, rank, r);
  td_alloc_spans_each(h, rank, r);
  pthread_mutex_unlock(&h->lock);
}

size_t td_alloc_largest(td_allocator *a, td_allocator_block *out, size_t n) {
  ranking r = {.at = out, .cap = n};
  rank_heap(&r, (td_alloc_heap *)a);
  return r.n;
}

/* ---- refusals ------------------------------------------------------------ */

enum { NAMED = 5 };

static void add_size(td_str *s, size_t bytes) {
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  unsigned u = 0;
  double v = (double)bytes;
  for (; v >= 1024 && u + 1 < TD_COUNT(units); u++) v /= 1024;
  td_str_addf(s, u ? "%.1f %s" : "%.0f %s", v, units[u]);
}

/* Where several devices share the limit, each block's is told. */
static void add_largest(td_str *s, td_alloc_heap *const *all, int n) {
  td_allocator_block blocks[NAMED];
  const char *of[NAMED];
  ranking r = {.at = blocks, .of = of, .cap = NAMED};
  for (int i = 0; i < n; i++) rank_heap(&r, all[i]);
  for (size_t i = 0; i < r.n; i++) {
    const char *tag = blocks[i].tag;
    td_str_addf(s, "%s%s ",
                i ? ", " : "; the largest: ", tag[0] ? tag : "(unnamed)");
    add_size(s, blocks[i].size);
    if (n > 1) td_str_addf(s, " (%s)", of[i]);
  }
}

static size_t sum_in_use(td_alloc_heap *const *all, int n) {
  size_t sum = 0;
  for (int i = 0; i < n; i++)
    sum += td_allocator_read_stats(&all[i]->base).in_use;
  return sum;
}

static td_status *take(td_str *s) {
  td_status *st =
      s->failed ? td_oom() : td_error(TD_RESOURCE_EXHAUSTED, "%s", td_str_c(s));
  td_str_deinit(s);
  return st;
}

td_status *td_alloc_describe(td_alloc_heap *h, td_alloc_heap *const *all, int n,
                             size_t bytes, bool over_limit) {
  td_str s;
  td_str_init(&s);
  td_str_addf(&s, "%s has no %zu bytes (", h->name, bytes);
  add_size(&s, bytes);
  td_str_add(&s, over_limit ? ") within its memory limit of "
                            : "): the system gives no more; limit ");
  add_size(&s, td_alloc_budget_limit(h->budget));
  if (n > 1) td_str_addf(&s, ", which %d devices share", n);
  td_str_add(&s, ": ");
  add_size(&s, sum_in_use(all, n));
  td_str_add(&s, " are in use");
  add_largest(&s, all, n);
  return take(&s);
}
