/* memory.c - the memory of a card: regions of it, cut into blocks.
 *
 * Regions come from cudaMalloc, which stops the card for a moment, and are
 * kept. Small requests share regions of 2 MiB, middling ones of 20 MiB, large
 * ones have their own, so that they do not leave slivers in each other's. A
 * request takes the smallest free block that holds it; neighbours that are free
 * become one again. What is known of a block is here, not on the card.
 *
 * Kernels run on one stream in the order in which they were enqueued, so a
 * block is free at once when its last holder lets go: whoever has it next comes
 * later. Only copies, on streams of their own, must know how many kernels may
 * still use what it held: its mark.
 *
 * A copy into a block that kernels may still use has to wait for them, so what
 * arrives has regions of its own (td_cuda_memory_idle). Their blocks stay apart
 * from their neighbours until the marks of both are reached: one that was just
 * let go would spoil the idle ones beside it.
 *
 * When there is no room, regions that are all free go back, after a wait for
 * the kernels that may use them. TIDE_CUDA_CACHE=0, and AddressSanitizer, give
 * each block a region, so that what leaves a block leaves a region.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "engine/device/alloc_text.h"
#include "kernels/cuda/memory.h"

enum {
  GRANULE = 512,
  BINS = 48 * 4, /* four to each power of two */
  TAG = 48,
};
#define SMALL ((size_t)1 << 20)        /* shares regions of ... */
#define SMALL_REGION ((size_t)2 << 20) /* ... this size */
#define MIDDLE ((size_t)10 << 20)
#define MIDDLE_REGION ((size_t)20 << 20)

/* Whom the blocks of a region are for. */
typedef enum pool_kind { SMALL_POOL, LARGE_POOL, ARRIVALS, POOLS } pool_kind;

typedef struct block {
  struct block *left, *right; /* neighbours in the region */
  struct block *next, *prev;  /* in the list of its bin, when it is free */
  char *at;
  size_t size;
  uint64_t mark; /* kernels that may use what it held */
  pool_kind pool;
  bool free;
  char tag[TAG];
} block;

typedef struct memory {
  td_allocator base;    /* first */
  td_cuda *of;          /* NULL: the device is gone */
  pthread_mutex_t lock; /* of all that follows */
  td_map live;          /* address -> block */
  block *bins[POOLS][BINS];
  size_t waiting; /* bytes of ARRIVALS that are free */
  bool caching, released;
  size_t usual;      /* the limit where none was set; 0: not yet known */
  bool card_refused; /* the last request that failed: it was the card's no */
  td_allocator_stats stats;
} memory;

static void memory_free(td_allocator *a, void *p, size_t bytes);

/* ---- bins ---------------------------------------------------------------- */

/* The bin of blocks that are that large, or a little larger. */
static int bin_of(size_t size) {
  size_t n = size / GRANULE;
  int log = 63 - __builtin_clzll(n);
  int part = log < 2 ? 0 : (int)(n >> (log - 2) & 3);
  int bin = log * 4 + part;
  return bin < BINS ? bin : BINS - 1;
}

static void put_free(memory *m, block *b) {
  block **list = &m->bins[b->pool][bin_of(b->size)];
  b->free = true;
  b->prev = NULL;
  b->next = *list;
  if (b->next) b->next->prev = b;
  *list = b;
  if (b->pool == ARRIVALS) m->waiting += b->size;
}

static void take_free(memory *m, block *b) {
  if (b->prev)
    b->prev->next = b->next;
  else
    m->bins[b->pool][bin_of(b->size)] = b->next;
  if (b->next) b->next->prev = b->prev;
  b->free = false;
  if (b->pool == ARRIVALS) m->waiting -= b->size;
}

/* The smallest of the first bin that has one, whose mark is not beyond
 * `complete`; NULL: there is none that is large enough. */
static block *find_free(const memory *m, size_t size, pool_kind pool,
                        uint64_t complete) {
  for (int i = bin_of(size); i < BINS; i++) {
    block *best = NULL;
    for (block *b = m->bins[pool][i]; b; b = b->next)
      if (b->size >= size && b->mark <= complete &&
          (!best || b->size < best->size))
        best = b;
    if (best) return best;
  }
  return NULL;
}

/* ---- regions ------------------------------------------------------------- */

static size_t region_for(const memory *m, size_t size) {
  if (!m->caching) return size;
  if (m->stats.limit && m->stats.held + MIDDLE_REGION > m->stats.limit)
    return size; /* there is no room to be generous */
  if (size <= SMALL) return SMALL_REGION;
  if (size <= MIDDLE) return MIDDLE_REGION;
  return (size + SMALL_REGION - 1) / SMALL_REGION * SMALL_REGION;
}

/* NULL, *e: there is none. */
static block *new_region_of(memory *m, size_t bytes, pool_kind pool,
                            cudaError_t *e) {
  *e = cudaErrorMemoryAllocation;
  if (m->stats.limit && m->stats.held + bytes > m->stats.limit) return NULL;
  block *b = td_calloc(1, sizeof *b);
  if (!b) {
    *e = cudaSuccess;
    return NULL;
  }
  void *at = NULL;
  *e = cudaMalloc(&at, bytes);
  m->card_refused = *e != cudaSuccess;
  if (m->card_refused) {
    (void)cudaGetLastError();
    td_free(b);
    return NULL;
  }
  m->stats.held += bytes;
  m->stats.system_allocs++;
  *b = (block){.at = at, .size = bytes, .pool = pool};
  put_free(m, b);
  return b;
}

/* Where there is no room for a region to be shared, one of the size asked for.
 */
static block *new_region(memory *m, size_t size, pool_kind pool,
                         cudaError_t *e) {
  size_t bytes = region_for(m, size);
  block *b = new_region_of(m, bytes, pool, e);
  if (b || *e == cudaSuccess || bytes == size) return b;
  return new_region_of(m, size, pool, e);
}

/* ---- blocks -------------------------------------------------------------- */

/* What is left over of a block becomes one of its own, unless it is a sliver.
 */
static void split(memory *m, block *b, size_t size) {
  size_t rest = b->size - size;
  if (rest < (b->pool == LARGE_POOL ? SMALL : (size_t)GRANULE)) return;
  block *r = td_calloc(1, sizeof *r);
  if (!r) return; /* then it is larger than it has to be */
  *r = (block){.left = b,
               .right = b->right,
               .at = b->at + size,
               .size = rest,
               .mark = b->mark,
               .pool = b->pool};
  if (r->right) r->right->left = r;
  b->right = r;
  b->size = size;
  put_free(m, r);
}

/* `b` and its right neighbour, both taken out of their lists. */
static void join(block *b) {
  block *r = b->right;
  b->size += r->size;
  if (r->mark > b->mark) b->mark = r->mark;
  b->right = r->right;
  if (b->right) b->right->left = b;
  td_free(r);
}

static void back(memory *m, block *b) {
  bool apart = b->pool == ARRIVALS;
  if (!apart && b->right && b->right->free) {
    take_free(m, b->right);
    join(b);
  }
  if (!apart && b->left && b->left->free) {
    b = b->left;
    take_free(m, b);
    join(b);
  }
  put_free(m, b);
}

static bool is_idle(const block *b, uint64_t complete) {
  return b && b->free && b->mark <= complete;
}

/* What arrived and was let go becomes whole again, where no kernel beyond
 * `complete` may use it. From the left, which may lie in another list. */
static void join_arrivals(memory *m, uint64_t complete) {
  for (int i = 0; i < BINS; i++)
    for (block *b = m->bins[ARRIVALS][i], *next; b; b = next) {
      next = b->next;
      if (!is_idle(b, complete) || !is_idle(b->right, complete)) continue;
      while (is_idle(b->left, complete)) b = b->left;
      take_free(m, b);
      while (is_idle(b->right, complete)) {
        take_free(m, b->right);
        join(b);
      }
      put_free(m, b);
      i = -1; /* the lists are others now */
      break;
    }
}

/* Gives regions back that are one free block. Their kernels may run still:
 * cudaFree waits for them. */
static void drop_regions(memory *m, size_t keep) {
  join_arrivals(m, UINT64_MAX);
  for (int pool = 0; pool < POOLS; pool++)
    for (int i = 0; i < BINS; i++)
      for (block *b = m->bins[pool][i], *next; b; b = next) {
        next = b->next;
        if (b->left || b->right) continue;
        if (m->stats.held - m->stats.in_use <= keep) return;
        take_free(m, b);
        (void)cudaFree(b->at);
        m->stats.held -= b->size;
        m->stats.system_frees++;
        td_free(b);
      }
  (void)cudaGetLastError();
}

static bool make_live(memory *m, block *b) {
  if (!td_map_putn(&m->live, &b->at, sizeof b->at, b)) return false;
  m->stats.in_use += b->size;
  m->stats.allocs++;
  if (m->stats.in_use > m->stats.peak) m->stats.peak = m->stats.in_use;
  b->tag[0] = '\0';
  return true;
}

/* Makes it a block in use of `size` bytes. */
static void *hand_out(memory *m, block *b, size_t size) {
  take_free(m, b);
  split(m, b, size);
  if (make_live(m, b)) return b->at;
  back(m, b);
  return NULL;
}

/* Where there is no room for more regions: what any of them has. */
static block *find_any(const memory *m, size_t size) {
  block *b = NULL;
  for (int pool = POOLS; !b && pool-- > 0;)
    b = find_free(m, size, (pool_kind)pool, UINT64_MAX);
  return b;
}

/* Under the lock. */
static void *take(memory *m, size_t size) {
  pool_kind pool = size <= SMALL ? SMALL_POOL : LARGE_POOL;
  cudaError_t e = cudaSuccess;
  m->card_refused = false;
  if (m->stats.limit && m->stats.in_use + size > m->stats.limit) return NULL;
  block *b = find_free(m, size, pool, UINT64_MAX);
  if (!b) b = new_region(m, size, pool, &e);
  if (!b && e != cudaSuccess) {
    drop_regions(m, 0);
    b = new_region(m, size, pool, &e);
    if (!b) b = find_any(m, size);
  }
  return b ? hand_out(m, b, size) : NULL;
}

static void *memory_alloc(td_allocator *a, size_t bytes) {
  memory *m = (memory *)a;
  if (bytes > (size_t)1 << 46) return NULL;
  size_t size = (bytes + !bytes + GRANULE - 1) / GRANULE * GRANULE;
  td_status *s = td_cuda_enter(m->of);
  if (!td_ok(s)) {
    td_status_release(s);
    return NULL;
  }
  pthread_mutex_lock(&m->lock);
  void *p = take(m, size);
  pthread_mutex_unlock(&m->lock);
  return p;
}

/* Nothing is in use: all regions are one free block each. */
static void drop(memory *m) {
  drop_regions(m, 0);
  td_map_deinit(&m->live);
  pthread_mutex_destroy(&m->lock);
  td_free((void *)m->base.name);
  td_free(m);
}

/* Under the lock. */
static void let_go(memory *m, block *b, uint64_t mark) {
  m->stats.in_use -= b->size;
  m->stats.frees++;
  b->mark = mark;
  back(m, b);
}

/* On any thread, also when the device is gone. It calls nothing of CUDA, but
 * where it is the last to use what a device that is gone has left. */
static void memory_free(td_allocator *a, void *p, size_t bytes) {
  memory *m = (memory *)a;
  (void)bytes;
  pthread_mutex_lock(&m->lock);
  block *b = td_map_removen(&m->live, &p, sizeof p);
  let_go(m, b, m->of ? __atomic_load_n(&m->of->enqueued, __ATOMIC_ACQUIRE) : 0);
  bool last = m->released && m->live.count == 0;
  pthread_mutex_unlock(&m->lock);
  if (last) drop(m);
}

/* ---- what arrives -------------------------------------------------------- */

/* So much may wait to be used again: an eighth of the limit. */
static bool may_grow(const memory *m, size_t size) {
  return m->caching && m->stats.limit && size < m->stats.limit / 8 &&
         m->waiting < m->stats.limit / 8 - size;
}

/* Under the lock. */
static block *find_idle(memory *m, size_t size, uint64_t complete) {
  cudaError_t e;
  block *b = find_free(m, size, ARRIVALS, complete);
  if (b) return b;
  join_arrivals(m, complete);
  b = find_free(m, size, ARRIVALS, complete);
  if (b || !may_grow(m, size)) return b;
  return new_region(m, size, ARRIVALS, &e);
}

void *td_cuda_memory_idle(td_allocator *a, void *p, uint64_t complete) {
  memory *m = (memory *)a;
  pthread_mutex_lock(&m->lock);
  block *b = td_map_getn(&m->live, &p, sizeof p), *idle = NULL;
  if (b && b->mark > complete) idle = find_idle(m, b->size, complete);
  if (idle) m->stats.in_use -= b->size; /* never both */
  void *other = idle ? hand_out(m, idle, b->size) : NULL;
  if (idle) m->stats.in_use += b->size;
  if (other) {
    (void)td_map_removen(&m->live, &p, sizeof p);
    let_go(m, b, b->mark);
  }
  pthread_mutex_unlock(&m->lock);
  return other ? other : p;
}

/* ---- what it tells ------------------------------------------------------- */

static void memory_tag(td_allocator *a, void *p, size_t bytes,
                       const char *tag) {
  memory *m = (memory *)a;
  (void)bytes;
  pthread_mutex_lock(&m->lock);
  block *b = td_map_getn(&m->live, &p, sizeof p);
  if (b) {
    strncpy(b->tag, tag, TAG - 1);
    b->tag[TAG - 1] = '\0';
  }
  pthread_mutex_unlock(&m->lock);
}

/* Under the lock. */
static void rank(const memory *m, td_alloc_ranking *r) {
  const td_map_entry *e;
  for (size_t i = 0; td_map_next(&m->live, &i, &e);) {
    const block *b = e->value;
    td_alloc_rank(r, b->size, b->tag);
  }
}

static size_t memory_largest(td_allocator *a, td_allocator_block *out,
                             size_t n) {
  memory *m = (memory *)a;
  td_alloc_ranking r = {.at = out, .cap = n};
  pthread_mutex_lock(&m->lock);
  rank(m, &r);
  pthread_mutex_unlock(&m->lock);
  return r.n;
}

/* Under the lock. What the card has beyond its limit others may use. */
static void add_use(const memory *m, td_str *s, size_t left, size_t total) {
  if (m->card_refused) {
    td_str_add(s, "): the card gives no more, ");
    td_alloc_add_size(s, left);
    td_str_add(s, " of its ");
    td_alloc_add_size(s, total);
    td_str_add(s, " are free; limit ");
  } else {
    td_str_add(s, ") within its memory limit of ");
  }
  td_alloc_add_size(s, m->stats.limit);
  td_str_add(s, ": ");
  td_alloc_add_size(s, m->stats.in_use);
  td_str_add(s, " are in use");
  if (m->stats.held == m->stats.in_use) return;
  td_str_add(s, ", ");
  td_alloc_add_size(s, m->stats.held - m->stats.in_use);
  td_str_add(s, " more are kept for later");
}

/* Why there is no room, or why the card cannot be used at all. */
static td_status *memory_refusal(td_allocator *a, size_t bytes) {
  memory *m = (memory *)a;
  td_allocator_block blocks[TD_ALLOC_NAMED];
  td_alloc_ranking r = {.at = blocks, .cap = TD_ALLOC_NAMED};
  td_str s;
  size_t left = 0, total = 0;
  TD_TRY(td_cuda_enter(m->of));
  TD_CUDA(cudaMemGetInfo(&left, &total)); /* or why that is not the reason */
  td_str_init(&s);
  td_str_addf(&s, "%s has no %zu bytes (", a->name, bytes);
  td_alloc_add_size(&s, bytes);
  pthread_mutex_lock(&m->lock);
  add_use(m, &s, left, total);
  rank(m, &r);
  pthread_mutex_unlock(&m->lock);
  td_alloc_add_largest(&s, &r);
  return td_alloc_refused(&s);
}

static void memory_read_stats(td_allocator *a, td_allocator_stats *out) {
  memory *m = (memory *)a;
  pthread_mutex_lock(&m->lock);
  *out = m->stats;
  pthread_mutex_unlock(&m->lock);
}

static void memory_reset_peak(td_allocator *a) {
  memory *m = (memory *)a;
  pthread_mutex_lock(&m->lock);
  m->stats.peak = m->stats.in_use;
  pthread_mutex_unlock(&m->lock);
}

static void memory_set_limit(td_allocator *a, size_t limit) {
  memory *m = (memory *)a;
  pthread_mutex_lock(&m->lock);
  m->stats.limit = limit ? limit : m->usual;
  pthread_mutex_unlock(&m->lock);
}

void td_cuda_memory_found(td_allocator *a, size_t left) {
  memory *m = (memory *)a;
  pthread_mutex_lock(&m->lock);
  m->usual = left / 10 * 9;
  if (m->stats.limit == 0) m->stats.limit = m->usual;
  pthread_mutex_unlock(&m->lock);
}

/* Unless the card was never used, or is lost. */
static void memory_trim(td_allocator *a, size_t keep) {
  memory *m = (memory *)a;
  pthread_mutex_lock(&m->lock);
  bool any = m->of && m->stats.held > m->stats.in_use;
  pthread_mutex_unlock(&m->lock);
  if (!any) return;
  td_status *s = td_cuda_enter(m->of);
  if (td_ok(s)) {
    pthread_mutex_lock(&m->lock);
    drop_regions(m, keep);
    pthread_mutex_unlock(&m->lock);
  }
  td_status_release(s);
}

uint64_t td_cuda_memory_mark(td_allocator *a, const void *p) {
  memory *m = (memory *)a;
  pthread_mutex_lock(&m->lock);
  const block *b = td_map_getn(&m->live, &p, sizeof p);
  uint64_t mark = b ? b->mark : UINT64_MAX;
  pthread_mutex_unlock(&m->lock);
  return mark;
}

/* ---- life ---------------------------------------------------------------- */

static bool wants_cache(void) {
  const char *text = getenv("TIDE_CUDA_CACHE");
#if defined(__SANITIZE_ADDRESS__)
  return text && *text == '1';
#else
  return !text || *text != '0';
#endif
}

td_status *td_cuda_memory_new(td_cuda *d, td_allocator **out) {
  memory *m = td_calloc(1, sizeof *m);
  if (!m) return td_oom();
  m->base = (td_allocator){.name = td_strdup(d->base.name),
                           .alloc = memory_alloc,
                           .free = memory_free,
                           .refusal = memory_refusal,
                           .trim = memory_trim,
                           .set_limit = memory_set_limit,
                           .read_stats = memory_read_stats,
                           .reset_peak = memory_reset_peak,
                           .tag = memory_tag,
                           .largest = memory_largest};
  if (!m->base.name) {
    td_free(m);
    return td_oom();
  }
  m->of = d;
  m->caching = wants_cache();
  pthread_mutex_init(&m->lock, NULL);
  *out = &m->base;
  return NULL;
}

bool td_cuda_is_memory(const td_allocator *a) {
  return a->alloc == memory_alloc;
}

/* A device that ends takes the lock before it is gone, but may have no share
 * left to be retained. */
td_cuda *td_cuda_memory_owner(td_allocator *a) {
  memory *m = (memory *)a;
  pthread_mutex_lock(&m->lock);
  td_cuda *d = m->of;
  int32_t n = d ? __atomic_load_n(&d->base.refs, __ATOMIC_RELAXED) : 0;
  while (n > 0 &&
         !__atomic_compare_exchange_n(&d->base.refs, &n, n + 1, true,
                                      __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
  }
  pthread_mutex_unlock(&m->lock);
  return n > 0 ? d : NULL;
}

/* The device is set on the calling thread, if it was ever opened. Regions that
 * blocks in use are in go with the last of these. */
void td_cuda_memory_release(td_allocator *a) {
  memory *m = (memory *)a;
  if (!m) return;
  pthread_mutex_lock(&m->lock);
  drop_regions(m, 0);
  m->of = NULL;
  m->released = true;
  bool last = m->live.count == 0;
  pthread_mutex_unlock(&m->lock);
  if (last) drop(m);
}
