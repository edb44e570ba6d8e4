/* alloc_report.c - what the allocator can say: numbers, names, refusals.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/alloc_heap.h"
#include "engine/device/alloc_text.h"

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

static void rank_heap(td_alloc_ranking *r, td_alloc_heap *h) {
  r->now = h->name;
  pthread_mutex_lock(&h->lock);
  td_alloc_maps_each(h, td_alloc_rank, r);
  td_alloc_spans_each(h, td_alloc_rank, r);
  pthread_mutex_unlock(&h->lock);
}

size_t td_alloc_largest(td_allocator *a, td_allocator_block *out, size_t n) {
  td_alloc_ranking r = {.at = out, .cap = n};
  rank_heap(&r, (td_alloc_heap *)a);
  return r.n;
}

/* ---- refusals ------------------------------------------------------------ */

/* Where several devices share the limit, each block's is told. */
static void add_largest(td_str *s, td_alloc_heap *const *all, int n) {
  td_allocator_block blocks[TD_ALLOC_NAMED];
  const char *of[TD_ALLOC_NAMED];
  td_alloc_ranking r = {
      .at = blocks, .of = n > 1 ? of : NULL, .cap = TD_ALLOC_NAMED};
  for (int i = 0; i < n; i++) rank_heap(&r, all[i]);
  td_alloc_add_largest(s, &r);
}

static size_t sum_in_use(td_alloc_heap *const *all, int n) {
  size_t sum = 0;
  for (int i = 0; i < n; i++)
    sum += td_allocator_read_stats(&all[i]->base).in_use;
  return sum;
}

td_status *td_alloc_describe(td_alloc_heap *h, td_alloc_heap *const *all, int n,
                             size_t bytes, bool over_limit) {
  td_str s;
  td_str_init(&s);
  td_str_addf(&s, "%s has no %zu bytes (", h->name, bytes);
  td_alloc_add_size(&s, bytes);
  td_str_add(&s, over_limit ? ") within its memory limit of "
                            : "): the system gives no more; limit ");
  td_alloc_add_size(&s, td_alloc_budget_limit(h->budget));
  if (n > 1) td_str_addf(&s, ", which %d devices share", n);
  td_str_add(&s, ": ");
  td_alloc_add_size(&s, sum_in_use(all, n));
  td_str_add(&s, " are in use");
  add_largest(&s, all, n);
  return td_alloc_refused(&s);
}
