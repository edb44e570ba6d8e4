/* alloc.c - the caching allocator: its life, and the lists of each thread.
 *
 * A thread has a table of caches, one for each allocator it used. A small block
 * is popped from or pushed to a list there: no lock, no shared cache line. Half
 * full lists are exchanged with the heap in batches, under its lock.
 *
 * What a thread handed out minus what it took back is its drift. It is added to
 * the heap's count now and then; only the thread writes it, and it writes it
 * last, so that whoever reads the sum of all drifts as "nothing is in use" may
 * take the caches apart: their threads are done with them.
 *
 * Locks: `registry.lock` before a heap's lock. The registry is of the process,
 * because a thread that ends must find all its caches, and a heap that has no
 * room those it shares a budget with.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/alloc.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/device/alloc_heap.h"

enum { SLOTS = 256, DRIFT = 64 << 10, BATCH_BYTES = 32 << 10 };

/* The one place that knows how this was built; gcc and clang say it each in
 * their way. */
#if defined(__SANITIZE_ADDRESS__)
#define ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#define ADDRESS_SANITIZER __has_feature(address_sanitizer)
#else
#define ADDRESS_SANITIZER 0
#endif
enum { CACHING_AS_BUILT = ADDRESS_SANITIZER ? -1 : 1 };

typedef struct thread_caches {
  td_alloc_cache *at[SLOTS]; /* by heap->slot */
} thread_caches;

static struct {
  pthread_mutex_t lock; /* of everything here and of who has caches */
  pthread_once_t once;
  pthread_key_t key; /* its destructor sees a thread end */
  bool has_key;
  td_alloc_heap *heaps[SLOTS]; /* NULL: free */
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

static TD_THREAD_LOCAL thread_caches *mine;

/* ---- one thread's counters ----------------------------------------------- */

static inline void count(int64_t *counter) {
  __atomic_store_n(counter, *counter + 1, __ATOMIC_RELAXED);
}

/* The last that a thread does to its cache: see the top of the file. */
static inline void add_drift(td_alloc_cache *c, int64_t bytes) {
  __atomic_store_n(&c->drift, c->drift + bytes, __ATOMIC_RELEASE);
}

static inline bool drifted(const td_alloc_cache *c) {
  return (uint64_t)(c->drift + DRIFT) > 2 * DRIFT;
}

/* What the budget knows of already. The heap's lock is held. */
static void add_in_use(td_alloc_heap *h, int64_t bytes) {
  h->in_use += bytes;
  if (h->in_use > h->peak) h->peak = h->in_use;
}

/* The heap's lock is held. */
static void charge(td_alloc_heap *h, int64_t bytes) {
  td_alloc_budget_charge(h->budget, bytes);
  add_in_use(h, bytes);
}

/* The heap's lock is held. */
static void settle(td_alloc_heap *h, td_alloc_cache *c) {
  charge(h, c->drift);
  __atomic_store_n(&c->drift, 0, __ATOMIC_RELEASE);
}

static void settle_now(td_alloc_heap *h, td_alloc_cache *c) {
  pthread_mutex_lock(&h->lock);
  settle(h, c);
  pthread_mutex_unlock(&h->lock);
}

/* Kept memory goes back to the system, large blocks first. The heap's lock is
 * held. */
static void trim(td_alloc_heap *h, size_t keep) {
  td_alloc_maps_trim(h, keep);
  td_alloc_spans_trim(h, keep);
}

/* ---- a heap ends --------------------------------------------------------- */

/* The heap's lock is held. */
static void empty_lists(td_alloc_heap *h, td_alloc_cache *c) {
  for (unsigned i = 0; i < TD_ALLOC_CLASSES; i++) {
    td_alloc_list *l = &c->lists[i];
    td_alloc_blocks_give(h, l->head);
    td_alloc_blocks_give(h, l->spare);
    l->head = l->spare = NULL;
    l->n = 0;
  }
}

/* The registry's and the heap's lock are held. */
static void end_cache(td_alloc_heap *h, td_alloc_cache *c) {
  td_alloc_cache **at = &h->caches;
  while (*at != c) at = &(*at)->next;
  *at = c->next;
  empty_lists(h, c);
  settle(h, c);
  h->allocs += c->allocs;
  h->frees += c->frees;
  *c->place = NULL;
  td_free(c);
}

/* The registry's lock is held. */
static void end_if_unused(td_alloc_heap *h) {
  pthread_mutex_lock(&h->lock);
  bool ends = h->closed && td_alloc_in_use(h) == 0;
  if (ends) {
    while (h->caches) end_cache(h, h->caches);
    trim(h, 0);
    registry.heaps[h->slot] = NULL;
  }
  pthread_mutex_unlock(&h->lock);
  if (!ends) return;
  td_alloc_budget_leave(h->budget);
  pthread_mutex_destroy(&h->lock);
  td_free(h);
}

/* ---- a thread begins and ends -------------------------------------------- */

static void thread_ends(void *arg) {
  thread_caches *t = arg;
  pthread_mutex_lock(&registry.lock);
  for (int slot = 0; slot < SLOTS; slot++) {
    td_alloc_heap *h = registry.heaps[slot];
    if (!t->at[slot]) continue;
    pthread_mutex_lock(&h->lock);
    end_cache(h, t->at[slot]);
    pthread_mutex_unlock(&h->lock);
    end_if_unused(h);
  }
  pthread_mutex_unlock(&registry.lock);
  mine = NULL;
  td_free(t);
}

static void make_key(void) {
  registry.has_key = pthread_key_create(&registry.key, thread_ends) == 0;
}

static bool has_table(void) {
  if (mine) return true;
  pthread_once(&registry.once, make_key);
  thread_caches *t = registry.has_key ? td_calloc(1, sizeof *t) : NULL;
  if (t && pthread_setspecific(registry.key, t)) {
    td_free(t);
    t = NULL;
  }
  mine = t;
  return t != NULL;
}

static void init_lists(td_alloc_cache *c) {
  for (unsigned i = 0; i < TD_ALLOC_CLASSES; i++) {
    size_t size = td_alloc_class_size(i), batch = BATCH_BYTES / size;
    c->lists[i].size = (uint16_t)size;
    c->lists[i].batch = (uint16_t)(batch > 128 ? 128 : batch < 2 ? 2 : batch);
  }
}

static td_alloc_cache *new_cache(td_alloc_heap *h) {
  td_alloc_cache *c = has_table() ? td_calloc(1, sizeof *c) : NULL;
  if (!c) return NULL;
  init_lists(c);
  c->place = &mine->at[h->slot];
  pthread_mutex_lock(&registry.lock);
  pthread_mutex_lock(&h->lock);
  c->epoch = h->epoch;
  c->next = h->caches;
  h->caches = c;
  *c->place = c;
  pthread_mutex_unlock(&h->lock);
  pthread_mutex_unlock(&registry.lock);
  return c;
}

/* This thread's; NULL when it has none yet. */
static inline td_alloc_cache *find_cache(td_alloc_heap *h) {
  return TD_LIKELY(mine != NULL) ? mine->at[h->slot] : NULL;
}

static inline td_alloc_cache *cache_of(td_alloc_heap *h) {
  td_alloc_cache *c = find_cache(h);
  return TD_LIKELY(c != NULL) ? c : new_cache(h);
}

/* ---- under the lock ------------------------------------------------------ */

static void *refuse(td_alloc_heap *h, td_alloc_reason reason) {
  td_alloc_cache *c = find_cache(h);
  if (c) c->reason = reason;
  return NULL;
}

/* A block of *size bytes, uncharged. The heap's lock is held. */
static void *take(td_alloc_heap *h, size_t bytes, size_t *size) {
  unsigned got;
  void *p = NULL;
  if (bytes > TD_ALLOC_MEDIUM || (!h->caching && bytes > TD_ALLOC_SMALL))
    return td_alloc_map_take(h, bytes, size);
  if (!h->caching) return posix_memalign(&p, 64, *size) ? NULL : p;
  if (bytes > TD_ALLOC_SMALL)
    return td_alloc_run_take(h, td_alloc_run_pages(bytes));
  return td_alloc_blocks_take(h, td_alloc_class(bytes), 1, &got);
}

/* What `bytes` count for; 0 when no machine has as many. */
static size_t rounded(const td_alloc_heap *h, size_t bytes) {
  if (bytes > TD_ALLOC_MEDIUM) return td_alloc_map_size(h, bytes);
  if (!h->caching) return bytes ? bytes : 1;
  if (bytes <= TD_ALLOC_SMALL)
    return td_alloc_class_size(td_alloc_class(bytes));
  return (size_t)td_alloc_run_pages(bytes) * TD_ALLOC_PAGE;
}

/* NULL and a reason, or a block that is charged. */
static void *try_locked(td_alloc_heap *h, size_t bytes,
                        td_alloc_reason *reason) {
  td_alloc_cache *c = cache_of(h);
  size_t asked = rounded(h, bytes), size = asked;
  void *p = NULL;
  pthread_mutex_lock(&h->lock);
  if (c) settle(h, c);
  bool allowed = td_alloc_budget_take(h->budget, asked);
  if (allowed) p = take(h, bytes, &size);
  if (p)
    add_in_use(h, (int64_t)asked), charge(h, (int64_t)(size - asked));
  else if (allowed)
    td_alloc_budget_charge(h->budget, -(int64_t)asked);
  h->allocs += p != NULL;
  pthread_mutex_unlock(&h->lock);
  *reason = allowed ? TD_ALLOC_NO_SYSTEM_MEMORY : TD_ALLOC_OVER_LIMIT;
  return p;
}

/* What the others of the budget only keep goes back to the system. */
static void trim_others(const td_alloc_heap *h) {
  pthread_mutex_lock(&registry.lock);
  for (int slot = 0; slot < SLOTS; slot++) {
    td_alloc_heap *other = registry.heaps[slot];
    if (!other || other == h || other->budget != h->budget) continue;
    pthread_mutex_lock(&other->lock);
    other->epoch++;
    trim(other, 0);
    pthread_mutex_unlock(&other->lock);
  }
  pthread_mutex_unlock(&registry.lock);
}

static bool has_others(const td_alloc_heap *h) {
  return __atomic_load_n(&h->budget->heaps, __ATOMIC_RELAXED) > 1;
}

static void *locked_alloc(td_alloc_heap *h, size_t bytes) {
  td_alloc_reason reason;
  size_t size = rounded(h, bytes);
  if (TD_UNLIKELY(td_alloc_excess(h->budget, size) > 0) && has_others(h) &&
      td_alloc_budget_allows(h->budget, size))
    trim_others(h);
  void *p = try_locked(h, bytes, &reason);
  if (TD_UNLIKELY(!p) && reason == TD_ALLOC_NO_SYSTEM_MEMORY && has_others(h)) {
    trim_others(h);
    p = try_locked(h, bytes, &reason);
  }
  return p ? p : refuse(h, reason);
}

/* The heap's lock is held. */
static void give(td_alloc_heap *h, void *p, size_t bytes) {
  size_t size = rounded(h, bytes);
  if (bytes > TD_ALLOC_MEDIUM || (!h->caching && bytes > TD_ALLOC_SMALL)) {
    size = td_alloc_map_give(h, p);
  } else if (!h->caching) {
    free(p);
  } else if (bytes > TD_ALLOC_SMALL) {
    td_alloc_run_give(h, p);
  } else {
    ((td_alloc_free *)p)->next = NULL;
    td_alloc_blocks_give(h, p);
  }
  charge(h, -(int64_t)size);
  h->frees++;
}

/* Once closed, each block may be the last: the heap then ends under us. */
static void locked_free(td_alloc_heap *h, void *p, size_t bytes) {
  bool closed = __atomic_load_n(&h->closed, __ATOMIC_ACQUIRE);
  if (closed) pthread_mutex_lock(&registry.lock);
  pthread_mutex_lock(&h->lock);
  give(h, p, bytes);
  pthread_mutex_unlock(&h->lock);
  if (!closed) return;
  end_if_unused(h);
  pthread_mutex_unlock(&registry.lock);
}

/* ---- the thread's lists -------------------------------------------------- */

/* After a trim the lists of every thread are to be emptied once. The heap's
 * lock is held. */
static void follow_trim(td_alloc_heap *h, td_alloc_cache *c) {
  if (c->epoch == h->epoch) return;
  c->epoch = h->epoch;
  empty_lists(h, c);
}

static bool refill(td_alloc_heap *h, td_alloc_cache *c, td_alloc_list *l) {
  td_alloc_reason reason = TD_ALLOC_NO_SYSTEM_MEMORY;
  if (l->spare) {
    l->head = l->spare, l->n = l->batch;
    l->spare = NULL;
    return true;
  }
  pthread_mutex_lock(&h->lock);
  settle(h, c);
  follow_trim(h, c);
  if (!td_alloc_budget_allows(h->budget, l->size))
    reason = TD_ALLOC_OVER_LIMIT;
  else
    l->head =
        td_alloc_blocks_take(h, (unsigned)(l - c->lists), l->batch, &l->n);
  pthread_mutex_unlock(&h->lock);
  if (!l->head) refuse(h, reason);
  return l->head != NULL;
}

/* The list in use is full. */
static void make_room(td_alloc_heap *h, td_alloc_cache *c, td_alloc_list *l) {
  if (l->spare) {
    pthread_mutex_lock(&h->lock);
    td_alloc_blocks_give(h, l->spare);
    l->spare = NULL;
    follow_trim(h, c);
    pthread_mutex_unlock(&h->lock);
  }
  l->spare = l->n ? l->head : NULL;
  l->head = NULL, l->n = 0;
}

/* The same; what others of the budget only keep goes back before it fails. */
static bool refill_at_last(td_alloc_heap *h, td_alloc_cache *c,
                           td_alloc_list *l) {
  if (TD_LIKELY(refill(h, c, l))) return true;
  if (c->reason != TD_ALLOC_NO_SYSTEM_MEMORY || !has_others(h)) return false;
  trim_others(h);
  return refill(h, c, l);
}

static void *cached_alloc(td_allocator *a, size_t bytes) {
  td_alloc_heap *h = (td_alloc_heap *)a;
  td_alloc_cache *c = cache_of(h);
  if (TD_UNLIKELY(!td_mem_try())) return refuse(h, TD_ALLOC_NO_REASON);
  if (TD_UNLIKELY(bytes > TD_ALLOC_SMALL || !c)) return locked_alloc(h, bytes);
  td_alloc_list *l = &c->lists[td_alloc_class(bytes)];
  if (TD_UNLIKELY(!l->head) && !refill_at_last(h, c, l)) return NULL;
  td_alloc_free *b = l->head;
  l->head = b->next, l->n--;
  if (TD_UNLIKELY(drifted(c))) settle_now(h, c);
  count(&c->allocs);
  add_drift(c, l->size);
  return b;
}

static void cached_free(td_allocator *a, void *p, size_t bytes) {
  td_alloc_heap *h = (td_alloc_heap *)a;
  bool closed = __atomic_load_n(&h->closed, __ATOMIC_RELAXED);
  td_alloc_cache *c = closed ? NULL : cache_of(h);
  if (TD_UNLIKELY(bytes > TD_ALLOC_SMALL || !c)) {
    locked_free(h, p, bytes);
    return;
  }
  td_alloc_list *l = &c->lists[td_alloc_class(bytes)];
  if (TD_UNLIKELY(l->n == l->batch)) make_room(h, c, l);
  ((td_alloc_free *)p)->next = l->head;
  l->head = p, l->n++;
  if (TD_UNLIKELY(drifted(c))) settle_now(h, c);
  count(&c->frees);
  add_drift(c, -(int64_t)l->size);
}

static void *plain_alloc(td_allocator *a, size_t bytes) {
  td_alloc_heap *h = (td_alloc_heap *)a;
  if (!td_mem_try()) return refuse(h, TD_ALLOC_NO_REASON);
  return locked_alloc(h, bytes);
}

static void plain_free(td_allocator *a, void *p, size_t bytes) {
  locked_free((td_alloc_heap *)a, p, bytes);
}

/* ---- life ---------------------------------------------------------------- */

static td_status *refusal(td_allocator *a, size_t bytes) {
  td_alloc_heap *h = (td_alloc_heap *)a, *all[SLOTS];
  td_alloc_cache *c = find_cache(h);
  int n = 0;
  if (!c || c->reason == TD_ALLOC_NO_REASON) return NULL;
  pthread_mutex_lock(&registry.lock);
  for (int slot = 0; slot < SLOTS; slot++) {
    td_alloc_heap *one = registry.heaps[slot];
    if (one && one->budget == h->budget) all[n++] = one;
  }
  td_status *s =
      td_alloc_describe(h, all, n, bytes, c->reason == TD_ALLOC_OVER_LIMIT);
  pthread_mutex_unlock(&registry.lock);
  return s;
}

static void set_limit(td_allocator *a, size_t limit) {
  td_alloc_budget_set_limit(((td_alloc_heap *)a)->budget, limit);
}

static void trim_all(td_allocator *a, size_t keep) {
  td_alloc_heap *h = (td_alloc_heap *)a;
  td_alloc_cache *c = find_cache(h);
  pthread_mutex_lock(&h->lock);
  h->epoch++;
  if (c) settle(h, c), follow_trim(h, c);
  trim(h, keep);
  pthread_mutex_unlock(&h->lock);
}

static void set_tag(td_allocator *a, void *p, size_t bytes, const char *tag) {
  td_alloc_heap *h = (td_alloc_heap *)a;
  char *to = NULL;
  if (bytes <= TD_ALLOC_SMALL) return;
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

static void init_heap(td_alloc_heap *h, const td_alloc_options *o) {
  int caching = o->caching ? o->caching : CACHING_AS_BUILT;
  pthread_mutex_init(&h->lock, NULL);
  snprintf(h->name, sizeof h->name, "%s", o->name ? o->name : "the host");
  h->caching = caching > 0;
  h->trim = trim;
  td_alloc_budget_join(h->budget);
  h->base = (td_allocator){.name = h->name,
                           .host = true,
                           .touchable = true,
                           .alloc = h->caching ? cached_alloc : plain_alloc,
                           .free = h->caching ? cached_free : plain_free,
                           .refusal = refusal,
                           .trim = trim_all,
                           .set_limit = set_limit,
                           .read_stats = td_alloc_read_stats,
                           .reset_peak = td_alloc_reset_peak,
                           .tag = set_tag,
                           .largest = td_alloc_largest};
}

static bool take_slot(td_alloc_heap *h) {
  pthread_mutex_lock(&registry.lock);
  for (h->slot = 0; h->slot < SLOTS; h->slot++)
    if (!registry.heaps[h->slot]) break;
  if (h->slot < SLOTS) registry.heaps[h->slot] = h;
  pthread_mutex_unlock(&registry.lock);
  return h->slot < SLOTS;
}

td_status *td_alloc_new(const td_alloc_options *options, td_allocator **out) {
  td_alloc_heap *h = td_calloc(1, sizeof *h);
  if (!h) return td_oom();
  h->budget = td_alloc_budget_retain(options->budget);
  td_status *s =
      h->budget ? NULL : td_alloc_budget_new(options->limit, &h->budget);
  if (!td_ok(s)) {
    td_free(h);
    return s;
  }
  init_heap(h, options);
  td_alloc_budget_release(h->budget); /* it has joined */
  if (take_slot(h)) {
    *out = &h->base;
    return NULL;
  }
  td_alloc_budget_leave(h->budget);
  pthread_mutex_destroy(&h->lock);
  td_free(h);
  return td_error(TD_RESOURCE_EXHAUSTED,
                  "%d allocators exist already: close devices or sessions that "
                  "are no longer used",
                  SLOTS);
}

void td_alloc_release(td_allocator *a) {
  if (!a) return;
  td_alloc_heap *h = (td_alloc_heap *)a;
  pthread_mutex_lock(&registry.lock);
  __atomic_store_n(&h->closed, true, __ATOMIC_RELEASE);
  end_if_unused(h);
  pthread_mutex_unlock(&registry.lock);
}
