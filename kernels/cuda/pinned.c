/* pinned.c - memory of the host that copies reach at full speed.
 *
 * The driver locks such memory, which takes it a while: blocks are of powers of
 * two, kept and handed out again. A block is given back when its last holder
 * lets go, and a copy holds its tensors until it is over, so there is nothing
 * to wait for. Where the card cannot be used, or no more can be locked, it is
 * plain memory, which copies more slowly.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "engine/base/mem.h"
#include "kernels/cuda/cuda.h"

enum { FIRST = 12, CLASSES = 48 - FIRST }; /* 4 KiB and up */

/* Before each block, in what would be its last 64 bytes. */
typedef struct head {
  struct head *next; /* while it is kept */
  int cls;           /* -1: plain */
  char pad[48];
} head;
_Static_assert(sizeof(head) == 64, "blocks stay aligned");

typedef struct pinned {
  td_allocator base; /* first */
  td_cuda *of;       /* under the lock, as all that follows; NULL: gone */
  pthread_mutex_t lock;
  head *kept[CLASSES];
  int64_t live;
  bool released;
  td_allocator_stats stats;
} pinned;

static int class_of(size_t bytes) {
  int log = FIRST;
  while (log < FIRST + CLASSES - 1 && (size_t)1 << log < bytes) log++;
  return log - FIRST;
}

/* Under the lock. */
static head *take_kept(pinned *m, int cls) {
  head *h = m->kept[cls];
  if (h) m->kept[cls] = h->next;
  return h;
}

static head *lock_more(td_cuda *d, int cls) {
  void *at = NULL;
  td_status *s = d ? td_cuda_enter(d) : td_oom();
  if (!td_ok(s)) {
    td_status_release(s);
    return NULL;
  }
  if (cudaHostAlloc(&at, (size_t)1 << (cls + FIRST), cudaHostAllocPortable) !=
      cudaSuccess) {
    (void)cudaGetLastError();
    return NULL;
  }
  ((head *)at)->cls = cls;
  return at;
}

static head *take_plain(size_t bytes) {
  head *h = aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (h) h->cls = -1;
  return h;
}

static void *pinned_alloc(td_allocator *a, size_t bytes) {
  pinned *m = (pinned *)a;
  if (bytes > (size_t)1 << 46) return NULL;
  size_t whole = bytes + sizeof(head);
  int cls = class_of(whole);
  pthread_mutex_lock(&m->lock);
  head *h = take_kept(m, cls);
  td_cuda *d = m->of;
  pthread_mutex_unlock(&m->lock);
  if (!h && whole >= (size_t)1 << FIRST) h = lock_more(d, cls);
  if (!h) h = take_plain(whole);
  if (!h) return NULL;
  pthread_mutex_lock(&m->lock);
  m->live++;
  m->stats.in_use += bytes;
  m->stats.allocs++;
  if (m->stats.in_use > m->stats.peak) m->stats.peak = m->stats.in_use;
  pthread_mutex_unlock(&m->lock);
  return h + 1;
}

static void drop(pinned *m) {
  pthread_mutex_destroy(&m->lock);
  td_free((void *)m->base.name);
  td_free(m);
}

/* Locked memory of a device that is gone stays with the process's context. */
static void pinned_free(td_allocator *a, void *p, size_t bytes) {
  pinned *m = (pinned *)a;
  head *h = (head *)p - 1;
  pthread_mutex_lock(&m->lock);
  m->stats.in_use -= bytes;
  m->stats.frees++;
  bool last = --m->live == 0 && m->released;
  if (h->cls >= 0 && m->of) {
    h->next = m->kept[h->cls];
    m->kept[h->cls] = h;
    h = NULL;
  }
  pthread_mutex_unlock(&m->lock);
  if (h && h->cls < 0) free(h);
  if (last) drop(m);
}

static void pinned_read_stats(td_allocator *a, td_allocator_stats *out) {
  pinned *m = (pinned *)a;
  pthread_mutex_lock(&m->lock);
  *out = m->stats;
  pthread_mutex_unlock(&m->lock);
}

td_status *td_cuda_pinned_new(td_cuda *d, td_allocator **out) {
  pinned *m = td_calloc(1, sizeof *m);
  if (!m) return td_oom();
  m->base = (td_allocator){.name = td_strdup(d->base.name),
                           .host = true,
                           .touchable = true,
                           .alloc = pinned_alloc,
                           .free = pinned_free,
                           .read_stats = pinned_read_stats};
  if (!m->base.name) {
    td_free(m);
    return td_oom();
  }
  m->of = d;
  pthread_mutex_init(&m->lock, NULL);
  *out = &m->base;
  return NULL;
}

void td_cuda_pinned_release(td_allocator *a) {
  pinned *m = (pinned *)a;
  if (!m) return;
  pthread_mutex_lock(&m->lock);
  for (int i = 0; i < CLASSES; i++)
    for (head *h; (h = take_kept(m, i));) (void)cudaFreeHost(h);
  m->of = NULL;
  m->released = true;
  bool last = m->live == 0;
  pthread_mutex_unlock(&m->lock);
  if (last) drop(m);
}
