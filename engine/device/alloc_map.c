/* alloc_map.c - the door to the system, and large blocks.
 *
 * A large block is a mapping of its own, in one of sixteen sizes a doubling. A
 * freed one is kept by size and serves requests of up to a quarter less. From 2
 * MiB on mappings begin at a huge page and ask for them: the first touch of a
 * page is the price of a fresh mapping, and huge pages cut it to a quarter.
 *
 * A heap that does not cache takes each block from malloc instead, where the
 * tools that look for overruns see it.
 *
 * Everything here runs under the heap's lock.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/alloc_heap.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "engine/base/mem.h"
#include "engine/base/reserve.h"

enum { FIRST_LOG = 18, LAST_LOG = 46, STEPS = 16, SLACK = 4 };
_Static_assert(1 << FIRST_LOG == TD_ALLOC_MEDIUM, "classes begin there");
_Static_assert((LAST_LOG - FIRST_LOG + 1) * STEPS == TD_ALLOC_MAP_CLASSES,
               "one list a class");

/* ---- the system ---------------------------------------------------------- */

/* While the reserve is spent, what is left is not for tensors. */
static void *map_pages(size_t size) {
  if (TD_UNLIKELY(td_reserve_spent()) && !td_reserve_take()) return NULL;
  void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

/* At a multiple of 2 MiB: maps more and cuts off both ends. */
static void *map_aligned(size_t size, bool huge) {
  char *p = map_pages(size + TD_ALLOC_CHUNK);
  if (!p) return NULL;
  size_t head = -(uintptr_t)p % TD_ALLOC_CHUNK;
  if (head) munmap(p, head);
  munmap(p + head + size, TD_ALLOC_CHUNK - head);
  if (huge) madvise(p + head, size, MADV_HUGEPAGE);
  return p + head;
}

/* The first chunk has small pages: an idle prompt needs little of it. */
static void *map_from_system(const td_alloc_heap *h, size_t size) {
  if (size < TD_ALLOC_CHUNK) return map_pages(size);
  return map_aligned(size, size > TD_ALLOC_CHUNK || h->chunks);
}

void *td_alloc_system_take(td_alloc_heap *h, size_t size) {
  size_t excess = td_alloc_excess(h->budget, size);
  if (excess > 0) {
    size_t unused = td_alloc_unused(h);
    h->trim(h, unused > excess ? unused - excess : 0);
  }
  void *p = map_from_system(h, size);
  if (!p) {
    h->trim(h, 0);
    p = map_from_system(h, size);
  }
  if (!p) return NULL;
  td_alloc_hold(h, (int64_t)size);
  h->system_allocs++;
  return p;
}

void td_alloc_system_touch(void *p, size_t size) {
  madvise(p, size, MADV_POPULATE_WRITE); /* where it is known, Linux 5.14 on */
}

void td_alloc_system_give(td_alloc_heap *h, void *p, size_t size) {
  munmap(p, size);
  td_alloc_hold(h, -(int64_t)size);
  h->system_frees++;
}

/* ---- classes ------------------------------------------------------------- */

static unsigned class_of(size_t bytes) {
  unsigned log = 63u - (unsigned)__builtin_clzll(bytes - 1);
  return (log - FIRST_LOG) * STEPS + ((bytes - 1) >> (log - 4) & (STEPS - 1));
}

static size_t class_size(unsigned cls) {
  return (size_t)(STEPS + 1 + cls % STEPS) << (FIRST_LOG - 4 + cls / STEPS);
}

size_t td_alloc_map_size(const td_alloc_heap *h, size_t bytes) {
  if (bytes > (size_t)1 << (LAST_LOG + 1)) return 0;
  return h->caching ? class_size(class_of(bytes)) : bytes;
}

/* ---- live blocks by address ---------------------------------------------- */

static td_alloc_map **bucket_of(td_alloc_heap *h, void *p) {
  uint64_t page = (uintptr_t)p >> 12;
  return &h->live[page * 0x9e3779b97f4a7c15u >> 55];
}
_Static_assert(TD_ALLOC_BUCKETS == 1 << (64 - 55), "one bucket a hash");

static td_alloc_map **find(td_alloc_heap *h, void *p) {
  td_alloc_map **at = bucket_of(h, p);
  while (*at && (*at)->base != p) at = &(*at)->next;
  return at;
}

td_alloc_map *td_alloc_map_find(td_alloc_heap *h, void *p) {
  return *find(h, p);
}

/* ---- blocks -------------------------------------------------------------- */

static td_alloc_map *take_kept(td_alloc_heap *h, size_t bytes) {
  unsigned cls = class_of(bytes), end = cls + SLACK + 1;
  for (; cls < end && cls < TD_ALLOC_MAP_CLASSES; cls++) {
    td_alloc_map *m = h->kept[cls];
    if (!m) continue;
    size_t more = m->size - class_size(class_of(bytes)); /* than charged */
    if (more > 0 && !td_alloc_budget_allows(h->budget, more)) return NULL;
    h->kept[cls] = m->next;
    return m;
  }
  return NULL;
}

static td_alloc_map *take_fresh(td_alloc_heap *h, size_t bytes) {
  td_alloc_map *m = td_calloc(1, sizeof *m);
  if (!m) return NULL;
  m->size = td_alloc_map_size(h, bytes);
  if (h->caching)
    m->base = td_alloc_system_take(h, m->size);
  else if (posix_memalign(&m->base, 64, m->size))
    m->base = NULL;
  if (m->base) return m;
  td_free(m);
  return NULL;
}

void *td_alloc_map_take(td_alloc_heap *h, size_t bytes, size_t *size) {
  td_alloc_map *m = h->caching ? take_kept(h, bytes) : NULL;
  if (!m) m = take_fresh(h, bytes);
  if (!m) return NULL;
  td_alloc_map **bucket = bucket_of(h, m->base);
  m->tag[0] = 0;
  m->next = *bucket;
  *bucket = m;
  *size = m->size;
  return m->base;
}

size_t td_alloc_map_give(td_alloc_heap *h, void *p) {
  td_alloc_map **at = find(h, p), *m = *at;
  size_t size = m->size;
  *at = m->next;
  if (h->caching) {
    unsigned cls = class_of(size);
    m->next = h->kept[cls];
    h->kept[cls] = m;
  } else {
    free(m->base);
    td_free(m);
  }
  return size;
}

/* The largest first: fewest calls. */
void td_alloc_maps_trim(td_alloc_heap *h, size_t keep) {
  for (unsigned cls = TD_ALLOC_MAP_CLASSES; cls-- > 0;)
    for (td_alloc_map *m; (m = h->kept[cls]) != NULL;) {
      if (td_alloc_unused(h) <= keep) return;
      h->kept[cls] = m->next;
      td_alloc_system_give(h, m->base, m->size);
      td_free(m);
    }
}

void td_alloc_maps_each(td_alloc_heap *h,
                        void (*visit)(void *arg, size_t size, const char *tag),
                        void *arg) {
  for (unsigned i = 0; i < TD_ALLOC_BUCKETS; i++)
    for (td_alloc_map *m = h->live[i]; m; m = m->next)
      visit(arg, m->size, m->tag);
}
