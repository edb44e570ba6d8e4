/* alloc_report.c - what the allocator can say: numbers, names, refusals.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "engine/base/str.h"
#include "engine/device/alloc_heap.h"

/* ---- numbers ------------------------------------------------------------- */

int64_t td_alloc_in_use(const td_alloc_heap *h) {
  int64_t sum = h->in_use;
  for (td_alloc_cache *c = h->caches; c; c = c->next)
    sum += __atomic_load_n(&c->drift, __ATOMIC_ACQUIRE);
  return sum;
}

static void add_counts(const td_alloc_heap *h, td_alloc_stats *s) {
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

td_alloc_stats td_alloc_read_stats(td_allocator *a) {
  td_alloc_heap *h = (td_alloc_heap *)a;
  pthread_mutex_lock(&h->lock);
  td_alloc_stats s = {.in_use = seen_in_use(h),
                      .held = h->held,
                      .limit = h->limit,
                      .allocs = h->allocs,
                      .frees = h->frees,
                      .system_allocs = h->system_allocs,
                      .system_frees = h->system_frees};
  add_counts(h, &s);
  s.peak = (int64_t)s.in_use > h->peak ? s.in_use : (size_t)h->peak;
  h->peak = (int64_t)s.peak;
  if (!h->caching) s.held = s.in_use;
  pthread_mutex_unlock(&h->lock);
  return s;
}

void td_alloc_reset_peak(td_allocator *a) {
  td_alloc_heap *h = (td_alloc_heap *)a;
  pthread_mutex_lock(&h->lock);
  h->peak = (int64_t)seen_in_use(h);
  pthread_mutex_unlock(&h->lock);
}

void td_alloc_set_limit(td_allocator *a, size_t limit) {
  td_alloc_heap *h = (td_alloc_heap *)a;
  if (limit > PTRDIFF_MAX) limit = PTRDIFF_MAX; /* sums of sizes are signed */
  pthread_mutex_lock(&h->lock);
  h->limit = limit;
  pthread_mutex_unlock(&h->lock);
}

/* ---- names --------------------------------------------------------------- */

void td_alloc_tag(td_allocator *a, void *p, size_t bytes, const char *tag) {
  td_alloc_heap *h = td_alloc_heap_of(a);
  char *to = NULL;
  if (!h || bytes <= TD_ALLOC_SMALL) return;
  pthread_mutex_lock(&h->lock);
  if (h->caching && bytes <= TD_ALLOC_MEDIUM) {
    to = td_alloc_span_of(p)->tag;
  } else {
    td_alloc_map *m = td_alloc_map_find(h, p);
    if (m) to = m->tag;
  }
  if (to) snprintf(to, TD_ALLOC_TAG, "%s", tag);
  pthread_mutex_unlock(&h->lock);
}

/* The first `n` by size of what was seen so far. */
typedef struct ranking {
  td_alloc_block *at;
  size_t n, cap;
} ranking;

static void rank(void *arg, size_t size, const char *tag) {
  ranking *r = arg;
  if (r->n == r->cap && (r->cap == 0 || r->at[r->n - 1].size >= size)) return;
  size_t i = r->n < r->cap ? r->n++ : r->n - 1;
  for (; i > 0 && r->at[i - 1].size < size; i--) r->at[i] = r->at[i - 1];
  r->at[i].size = size;
  memcpy(r->at[i].tag, tag, sizeof r->at[i].tag);
}

size_t td_alloc_largest(td_allocator *a, td_alloc_block *out, size_t n) {
  td_alloc_heap *h = td_alloc_heap_of(a);
  ranking r = {.at = out, .cap = n};
  if (!h) return 0;
  pthread_mutex_lock(&h->lock);
  td_alloc_maps_each(h, rank, &r);
  td_alloc_spans_each(h, rank, &r);
  pthread_mutex_unlock(&h->lock);
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

static void add_largest(td_str *s, td_allocator *a) {
  td_alloc_block blocks[NAMED];
  size_t n = td_alloc_largest(a, blocks, NAMED);
  for (size_t i = 0; i < n; i++) {
    const char *tag = blocks[i].tag;
    td_str_addf(s, "%s%s ",
                i ? ", " : "; the largest: ", tag[0] ? tag : "(unnamed)");
    add_size(s, blocks[i].size);
  }
}

static td_status *describe(td_allocator *a, size_t bytes, bool over_limit) {
  td_alloc_stats now = td_alloc_read_stats(a);
  td_str s;
  td_str_init(&s);
  td_str_addf(&s, "%s has no %zu bytes (", a->name, bytes);
  add_size(&s, bytes);
  td_str_add(&s, over_limit ? ") within its memory limit of "
                            : "): the system gives no more; limit ");
  add_size(&s, now.limit);
  td_str_add(&s, ": ");
  add_size(&s, now.in_use);
  td_str_add(&s, " are in use");
  add_largest(&s, a);
  td_status *st =
      s.failed ? td_oom() : td_error(TD_RESOURCE_EXHAUSTED, "%s", td_str_c(&s));
  td_str_deinit(&s);
  return st;
}

td_status *td_alloc_refusal(td_allocator *a, size_t bytes) {
  td_alloc_cache *c = td_alloc_cache_find((td_alloc_heap *)a);
  if (!c || c->reason == TD_ALLOC_NO_REASON) return NULL;
  return describe(a, bytes, c->reason == TD_ALLOC_OVER_LIMIT);
}
