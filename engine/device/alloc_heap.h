/* alloc_heap.h - what the files of the caching allocator share.
 *
 *   alloc.c         the allocator, its life, the lists of each thread; calls the rest
 *   alloc_span.c    chunks of 2 MiB cut into spans: small and medium blocks
 *   alloc_map.c     the door to the system; large blocks, one mapping each
 *   alloc_report.c  statistics, the largest blocks, a refusal (alloc_text.h)
 *   alloc_budget.c  how much several of them may use together
 *   alloc_limit.c   how much memory there is
 *
 * Small: up to 32 KiB, in classes. Medium: up to 256 KiB, whole pages of 16
 * KiB. Large: the rest. The size that is given back with a block tells which.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DEVICE_ALLOC_HEAP_H
#define TD_DEVICE_ALLOC_HEAP_H

#include <pthread.h>

#include "engine/device/alloc.h"

enum {
  TD_ALLOC_SMALL = 32 << 10,
  TD_ALLOC_MEDIUM = 256 << 10,
  TD_ALLOC_PAGE = 16 << 10,
  TD_ALLOC_CHUNK = 2 << 20, /* also the size of a huge page */
  TD_ALLOC_PAGES = TD_ALLOC_CHUNK / TD_ALLOC_PAGE,
  TD_ALLOC_CLASSES = 36,
  TD_ALLOC_RUNS = TD_ALLOC_MEDIUM / TD_ALLOC_PAGE + 1,
  TD_ALLOC_MAP_CLASSES = 29 * 16, /* 256 KiB to 2^47 bytes */
  TD_ALLOC_BUCKETS = 512,
  TD_ALLOC_TAG = 48,
};

/* A free small block. */
typedef struct td_alloc_free {
  struct td_alloc_free *next;
} td_alloc_free;

/* Some pages of a chunk: blocks of one small class, or one medium block. */
typedef struct td_alloc_span {
  struct td_alloc_span *next, *prev; /* in its class's or run's list */
  td_alloc_free *free;               /* small: blocks given back */
  uint16_t n_free, n_blocks;         /* small: free ones of how many */
  uint16_t n_fresh;                  /* small: the last ones, never used yet */
  uint8_t page, pages;               /* first page in the chunk, number */
  uint8_t cls;                       /* small: the class */
  bool live;                         /* medium: handed out */
  char tag[TD_ALLOC_TAG];            /* medium: the owner's name */
} td_alloc_span;

/* The first page of 2 MiB at an address that is a multiple of 2 MiB. */
typedef struct td_alloc_chunk {
  struct td_alloc_chunk *next, *prev; /* in heap->chunks */
  int n_free;                         /* free pages */
  int n_present;                 /* the first pages: the system gave them */
  uint8_t owner[TD_ALLOC_PAGES]; /* first page of its span; 0: free */
  td_alloc_span spans[TD_ALLOC_PAGES]; /* by first page */
} td_alloc_chunk;

/* One mapping: a large block, live or kept. */
typedef struct td_alloc_map {
  struct td_alloc_map *next; /* in its bucket (live) or class (kept) */
  void *base;
  size_t size;
  char tag[TD_ALLOC_TAG];
} td_alloc_map;

/* One class in a thread: a list in use and one that is full or absent, so that
 * a thread that goes up and down around a boundary takes no lock. */
typedef struct td_alloc_list {
  td_alloc_free *head;  /* n of them, at most `batch` */
  td_alloc_free *spare; /* NULL or `batch` of them */
  uint32_t n;
  uint16_t batch;
  uint16_t size; /* bytes of a block */
} td_alloc_list;

typedef enum td_alloc_reason {
  TD_ALLOC_NO_REASON, /* a fault was planted, or no memory for our own */
  TD_ALLOC_OVER_LIMIT,
  TD_ALLOC_NO_SYSTEM_MEMORY,
} td_alloc_reason;

/* The small blocks that a thread keeps for one allocator. Only the thread
 * itself touches it, but for the counters, which others may read. */
typedef struct td_alloc_cache {
  struct td_alloc_cache *next;   /* in heap->caches */
  struct td_alloc_cache **place; /* where the thread keeps it */
  int64_t drift;  /* atomic: bytes not yet in heap->in_use, of either sign */
  int64_t allocs; /* atomic */
  int64_t frees;  /* atomic */
  uint64_t epoch; /* heap->epoch when the lists were last emptied */
  /* Why the last allocation of this thread was refused. */
  td_alloc_reason reason;
  td_alloc_list lists[TD_ALLOC_CLASSES];
} td_alloc_cache;

struct td_alloc_budget {
  int32_t refs;  /* atomic */
  int32_t heaps; /* atomic: how many share it */
  bool follows;  /* its limit is the default one, read when the first joins */
  size_t limit;  /* atomic */
  int64_t in_use, held; /* atomic: sums over the heaps */
};

typedef struct td_alloc_heap {
  td_allocator base; /* first: a td_allocator * is one of these */
  char name[64];
  td_alloc_budget *budget; /* retained; charged with in_use and held */
  int slot; /* index in every thread's table */
  bool caching;
  bool closed;          /* atomic: the owner let go */
  /* Gives kept memory back until at most `keep` unused bytes are held: small
   * and large blocks each make room for the other. The lock is held. */
  void (*trim)(struct td_alloc_heap *h, size_t keep);
  uint64_t epoch;       /* lock: lock. Counts trims */
  pthread_mutex_t lock; /* of everything below */
  int64_t in_use; /* without the caches' drifts */
  int64_t peak;
  size_t held;
  int64_t allocs, frees; /* of medium and large blocks, and of ended threads */
  int64_t system_allocs, system_frees;
  td_alloc_cache *caches;
  td_alloc_chunk *chunks;
  td_alloc_span *classes[TD_ALLOC_CLASSES]; /* with free blocks */
  td_alloc_span *runs[TD_ALLOC_RUNS];       /* kept, by pages */
  td_alloc_map *kept[TD_ALLOC_MAP_CLASSES];
  td_alloc_map *live[TD_ALLOC_BUCKETS]; /* by address */
} td_alloc_heap;

/* ---- small classes: steps of 64 up to 1 KiB, then four a doubling -------- */

static inline unsigned td_alloc_class(size_t bytes) {
  size_t last = bytes ? bytes - 1 : 0;
  if (last < 1024) return (unsigned)(last / 64);
  unsigned log = 63u - (unsigned)__builtin_clzll(last);
  return 16 + (log - 10) * 4 + ((last >> (log - 2)) & 3);
}

static inline size_t td_alloc_class_size(unsigned cls) {
  if (cls < 16) return (cls + 1) * 64;
  return (size_t)(5 + (cls - 16) % 4) << (8 + (cls - 16) / 4);
}

static inline unsigned td_alloc_run_pages(size_t bytes) {
  return (unsigned)((bytes + TD_ALLOC_PAGE - 1) / TD_ALLOC_PAGE);
}

/* ---- alloc_span.c; the lock is held -------------------------------------- */

/* Up to n linked blocks of a class; *got says how many, NULL when none. */
td_alloc_free *td_alloc_blocks_take(td_alloc_heap *h, unsigned cls, unsigned n,
                                    unsigned *got);
void td_alloc_blocks_give(td_alloc_heap *h, td_alloc_free *list);
void *td_alloc_run_take(td_alloc_heap *h, unsigned pages);
void td_alloc_run_give(td_alloc_heap *h, void *p);
td_alloc_span *td_alloc_span_of(void *p);
/* Unmaps empty chunks while more than `keep` unused bytes are held. */
void td_alloc_spans_trim(td_alloc_heap *h, size_t keep);
/* Visits every live medium block. */
void td_alloc_spans_each(td_alloc_heap *h,
                         void (*visit)(void *arg, size_t size, const char *tag),
                         void *arg);

/* ---- alloc_map.c; the lock is held --------------------------------------- */

/* What a large request is rounded to; 0 when it is beyond any machine. */
size_t td_alloc_map_size(const td_alloc_heap *h, size_t bytes);
/* A block of *size >= bytes. */
void *td_alloc_map_take(td_alloc_heap *h, size_t bytes, size_t *size);
size_t td_alloc_map_give(td_alloc_heap *h, void *p); /* its size */
td_alloc_map *td_alloc_map_find(td_alloc_heap *h, void *p);
void td_alloc_maps_trim(td_alloc_heap *h, size_t keep);
void td_alloc_maps_each(td_alloc_heap *h,
                        void (*visit)(void *arg, size_t size, const char *tag),
                        void *arg);
/* From and to the system, counted; kept memory goes first when the limit or
 * the system says no. */
void *td_alloc_system_take(td_alloc_heap *h, size_t size);
/* Has the pages of fresh memory made now, not each at its first touch. */
void td_alloc_system_touch(void *p, size_t size);
void td_alloc_system_give(td_alloc_heap *h, void *p, size_t size);

/* Bytes in use, by all threads. */
static inline int64_t td_alloc_in_use(const td_alloc_heap *h) {
  int64_t sum = h->in_use;
  for (td_alloc_cache *c = h->caches; c; c = c->next)
    sum += __atomic_load_n(&c->drift, __ATOMIC_ACQUIRE);
  return sum;
}

/* Bytes held that no block in use needs. */
static inline size_t td_alloc_unused(const td_alloc_heap *h) {
  return (int64_t)h->held > h->in_use ? h->held - (size_t)h->in_use : 0;
}

/* ---- alloc_budget.c ------------------------------------------------------ */

void td_alloc_budget_join(td_alloc_budget *b); /* retains it */
void td_alloc_budget_leave(td_alloc_budget *b);
void td_alloc_budget_set_limit(td_alloc_budget *b, size_t limit);
bool td_alloc_budget_allows(const td_alloc_budget *b, size_t size);
/* The same, and charges it. */
bool td_alloc_budget_take(td_alloc_budget *b, size_t size);

static inline size_t td_alloc_budget_limit(const td_alloc_budget *b) {
  return __atomic_load_n(&b->limit, __ATOMIC_RELAXED);
}
static inline void td_alloc_budget_charge(td_alloc_budget *b, int64_t bytes) {
  __atomic_fetch_add(&b->in_use, bytes, __ATOMIC_RELAXED);
}
/* Bytes that the heap holds of the system's, more or fewer. Its lock is held. */
static inline void td_alloc_hold(td_alloc_heap *h, int64_t bytes) {
  h->held += (size_t)bytes;
  __atomic_fetch_add(&h->budget->held, bytes, __ATOMIC_RELAXED);
}
/* By how much the heaps of a budget would hold too much with `size` more. */
static inline size_t td_alloc_excess(const td_alloc_budget *b, size_t size) {
  int64_t held = __atomic_load_n(&b->held, __ATOMIC_RELAXED);
  int64_t over = held - (int64_t)td_alloc_budget_limit(b);
  return over + (int64_t)size > 0 ? (size_t)(over + (int64_t)size) : 0;
}

/* ---- alloc_report.c ------------------------------------------------------ */

void td_alloc_read_stats(td_allocator *a, td_allocator_stats *out);
void td_alloc_reset_peak(td_allocator *a);
size_t td_alloc_largest(td_allocator *a, td_allocator_block *out, size_t n);
/* The error of a request that h refused: what is in use, the largest blocks of
 * the n heaps of its budget, which stay alive meanwhile. */
td_status *td_alloc_describe(td_alloc_heap *h, td_alloc_heap *const *all, int n,
                             size_t bytes, bool over_limit);

#endif
