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
 * When there is no room, regions that are all free go back, after a wait for
 * the kernels that may use them. TIDE_CUDA_CACHE=0, and AddressSanitizer, give
 * each block a region, so that what leaves a block leaves a region.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "kernels/cuda/cuda.h"

enum {
  GRANULE = 512,
  BINS = 48 * 4, /* four to each power of two */
  TAG = 48,
  NAMED = 5,
};
#define SMALL ((size_t)1 << 20)        /* shares regions of ... */
#define SMALL_REGION ((size_t)2 << 20) /* ... this size */
#define MIDDLE ((size_t)10 << 20)
#define MIDDLE_REGION ((size_t)20 << 20)

typedef struct block {
  struct block *left, *right; /* neighbours in the region */
  struct block *next, *prev;  /* in the list of its bin, when it is free */
  char *at;
  size_t size;
  uint64_t mark; /* kernels that may use what it held */
  bool free, small;
  char tag[TAG];
} block;

typedef struct memory {
  td_allocator base;    /* first */
  td_cuda *of;          /* NULL: the device is gone */
  pthread_mutex_t lock; /* of all that follows */
  td_map live;          /* address -> block */
  block *bins[2][BINS]; /* of small regions, of all others */
  bool caching, released;
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
  block **list = &m->bins[b->small][bin_of(b->size)];
  b->free = true;
  b->prev = NULL;
  b->next = *list;
  if (b->next) b->next->prev = b;
  *list = b;
}

static void take_free(memory *m, block *b) {
  if (b->prev)
    b->prev->next = b->next;
  else
    m->bins[b->small][bin_of(b->size)] = b->next;
  if (b->next) b->next->prev = b->prev;
  b->free = false;
}

/* The smallest of the first bin that has one; NULL: none is large enough. */
static block *find_free(const memory *m, size_t size, bool small) {
  for (int i = bin_of(size); i < BINS; i++) {
    block *best = NULL;
    for (block *b = m->bins[small][i]; b; b = b->next)
      if (b->size >= size && (!best || b->size < best->size)) best = b;
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
static block *new_region_of(memory *m, size_t bytes, bool small,
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
  if (*e != cudaSuccess) {
    (void)cudaGetLastError();
    td_free(b);
    return NULL;
  }
  m->stats.held += bytes;
  m->stats.system_allocs++;
  *b = (block){.at = at, .size = bytes, .small = small};
  put_free(m, b);
  return b;
}

/* Where there is no room for a region to be shared, one of the size asked for.
 */
static block *new_region(memory *m, size_t size, bool small, cudaError_t *e) {
  size_t bytes = region_for(m, size);
  block *b = new_region_of(m, bytes, small, e);
  if (b || *e == cudaSuccess || bytes == size) return b;
  return new_region_of(m, size, small, e);
}

/* Gives regions back that are one free block. Their kernels may run still:
 * cudaFree waits for them. */
static void drop_regions(memory *m, size_t keep) {
  for (int small = 0; small < 2; small++)
    for (int i = 0; i < BINS; i++)
      for (block *b = m->bins[small][i], *next; b; b = next) {
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

/* ---- blocks -------------------------------------------------------------- */

/* What is left over of a block becomes one of its own, unless it is a sliver.
 */
static void split(memory *m, block *b, size_t size) {
  size_t rest = b->size - size;
  if (rest < (b->small ? (size_t)GRANULE : SMALL)) return;
  block *r = td_calloc(1, sizeof *r);
  if (!r) return; /* then it is larger than it has to be */
  *r = (block){.left = b,
               .right = b->right,
               .at = b->at + size,
               .size = rest,
               .mark = b->mark,
               .small = b->small};
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

static block *back(memory *m, block *b) {
  if (b->right && b->right->free) {
    take_free(m, b->right);
    join(b);
  }
  if (b->left && b->left->free) {
    b = b->left;
    take_free(m, b);
    join(b);
  }
  put_free(m, b);
  return b;
}

static bool make_live(memory *m, block *b) {
  if (!td_map_putn(&m->live, &b->at, sizeof b->at, b)) return false;
  m->stats.in_use += b->size;
  m->stats.allocs++;
  if (m->stats.in_use > m->stats.peak) m->stats.peak = m->stats.in_use;
  b->tag[0] = '\0';
  return true;
}

/* Under the lock. */
static void *take(memory *m, size_t size) {
  bool small = size <= SMALL;
  cudaError_t e = cudaSuccess;
  if (m->stats.limit && m->stats.in_use + size > m->stats.limit) return NULL;
  block *b = find_free(m, size, small);
  if (!b) b = new_region(m, size, small, &e);
  if (!b && e != cudaSuccess) {
    drop_regions(m, 0);
    b = new_region(m, size, small, &e);
  }
  if (!b) return NULL;
  take_free(m, b);
  split(m, b, size);
  if (make_live(m, b)) return b->at;
  (void)back(m, b);
  return NULL;
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

/* On any thread, also when the device is gone. It calls nothing of CUDA, but
 * where it is the last to use what a device that is gone has left. */
static void memory_free(td_allocator *a, void *p, size_t bytes) {
  memory *m = (memory *)a;
  (void)bytes;
  pthread_mutex_lock(&m->lock);
  block *b = td_map_removen(&m->live, &p, sizeof p);
  m->stats.in_use -= b->size;
  m->stats.frees++;
  b->mark = m->of ? __atomic_load_n(&m->of->enqueued, __ATOMIC_ACQUIRE) : 0;
  (void)back(m, b);
  bool last = m->released && m->live.count == 0;
  pthread_mutex_unlock(&m->lock);
  if (last) drop(m);
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

static size_t rank(const memory *m, td_allocator_block *out, size_t most) {
  const td_map_entry *e;
  size_t n = 0;
  for (size_t i = 0; td_map_next(&m->live, &i, &e);) {
    const block *b = e->value;
    size_t k = n < most ? n++ : most;
    while (k > 0 && out[k - 1].size < b->size) {
      if (k < most) out[k] = out[k - 1];
      k--;
    }
    if (k == most) continue;
    out[k].size = b->size;
    memcpy(out[k].tag, b->tag, TAG);
  }
  return n;
}

static size_t memory_largest(td_allocator *a, td_allocator_block *out,
                             size_t n) {
  memory *m = (memory *)a;
  pthread_mutex_lock(&m->lock);
  size_t got = rank(m, out, n);
  pthread_mutex_unlock(&m->lock);
  return got;
}

static void add_size(td_str *s, size_t bytes) {
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  unsigned u = 0;
  double v = (double)bytes;
  for (; v >= 1024 && u + 1 < TD_COUNT(units); u++) v /= 1024;
  td_str_addf(s, u ? "%.1f %s" : "%.0f %s", v, units[u]);
}

/* Why there is no room, or why the card cannot be used at all. */
static td_status *memory_refusal(td_allocator *a, size_t bytes) {
  memory *m = (memory *)a;
  td_allocator_block blocks[NAMED];
  td_str s;
  size_t left = 0, total = 0;
  TD_TRY(td_cuda_enter(m->of));
  TD_CUDA(cudaMemGetInfo(&left, &total)); /* or why that is not the reason */
  td_str_init(&s);
  pthread_mutex_lock(&m->lock);
  td_str_addf(&s, "%s has no %zu bytes (", a->name, bytes);
  add_size(&s, bytes);
  td_str_add(&s, "): ");
  add_size(&s, m->stats.in_use);
  td_str_add(&s, " are in use, ");
  add_size(&s, m->stats.held - m->stats.in_use);
  td_str_add(&s, " more are held, ");
  add_size(&s, left);
  td_str_add(&s, " of the card's ");
  add_size(&s, total);
  td_str_add(&s, " are free; limit ");
  add_size(&s, m->stats.limit);
  size_t n = rank(m, blocks, NAMED);
  pthread_mutex_unlock(&m->lock);
  for (size_t i = 0; i < n; i++) {
    td_str_addf(&s, "%s%s ", i ? ", " : "; the largest: ",
                blocks[i].tag[0] ? blocks[i].tag : "(unnamed)");
    add_size(&s, blocks[i].size);
  }
  td_status *st =
      s.failed ? td_oom() : td_error(TD_RESOURCE_EXHAUSTED, "%s", td_str_c(&s));
  td_str_deinit(&s);
  return st;
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
  m->stats.limit = limit;
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
