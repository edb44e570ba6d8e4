/* pinned.c - memory of the host that copies reach at full speed.
 *
 * The driver locks such memory, which takes it a while: blocks are kept and
 * handed out again, of four sizes to each power of two. Small ones are cut out
 * of chunks of 64 KiB, large ones are a chunk each. Small operands are locked,
 * too: a copy to or from memory that is not has whoever enqueues it wait.
 *
 * A block is given back when its last holder lets go, and a copy holds its
 * tensors until it is over, so there is nothing to wait for. Where the card
 * cannot be used, or no more can be locked, it is plain memory. Chunks go with
 * the device, or with the last block that is in use then.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "engine/base/mem.h"
#include "kernels/cuda/cuda.h"

enum {
  FIRST = 8, /* the smallest is of 2^FIRST bytes */
  CLASSES = (48 - FIRST) * 4,
  CHUNK = 64 << 10,
};

/* Before each block, in what would be its last 64 bytes. */
typedef struct head {
  struct head *next; /* while it is kept */
  int cls;           /* -1: plain */
  char pad[48];
} head;
_Static_assert(sizeof(head) == 64, "blocks stay aligned");

typedef struct pinned {
  td_allocator base; /* first */
  pthread_mutex_t lock;
  td_cuda *of; /* under the lock, as all that follows; NULL: gone */
  head *kept[CLASSES];
  TD_VEC(void *) chunks;
  bool released;
  td_allocator_stats stats;
} pinned;

/* 256, 320, 384, 448, 512, 640, ... */
static size_t class_bytes(int cls) {
  return (size_t)(4 + cls % 4) << (FIRST - 2 + cls / 4);
}

/* `bytes` are 2^46 and a head at most. */
static int class_of(size_t bytes) {
  if (bytes <= (size_t)1 << FIRST) return 0;
  int log = 63 - __builtin_clzll(bytes - 1);
  return (log - FIRST) * 4 + (int)((bytes - 1) >> (log - 2) & 3) + 1;
}

static void keep(pinned *m, head *h) {
  h->next = m->kept[h->cls];
  m->kept[h->cls] = h;
}

static head *take_kept(pinned *m, int cls) {
  head *h = m->kept[cls];
  if (h) m->kept[cls] = h->next;
  return h;
}

/* ---- chunks -------------------------------------------------------------- */

static size_t chunk_bytes(int cls) {
  return class_bytes(cls) < CHUNK ? CHUNK : class_bytes(cls);
}

/* Without the lock: the driver takes its time. */
static void *lock_chunk(td_cuda *d, size_t bytes) {
  void *at = NULL;
  td_status *s = d ? td_cuda_enter(d) : td_oom();
  if (!td_ok(s)) {
    td_status_release(s);
    return NULL;
  }
  if (cudaHostAlloc(&at, bytes, cudaHostAllocPortable) == cudaSuccess)
    return at;
  (void)cudaGetLastError();
  return NULL;
}

/* Under the lock. The first block of a new chunk; the others are kept. */
static head *cut(pinned *m, char *at, size_t bytes, int cls) {
  size_t each = class_bytes(cls);
  for (size_t i = each; i + each <= bytes; i += each) {
    head *h = (head *)(void *)(at + i);
    h->cls = cls;
    keep(m, h);
  }
  head *first = (head *)(void *)at;
  first->cls = cls;
  return first;
}

/* Under the lock: a chunk that is one block, and kept; the largest. */
static head *take_spare(pinned *m) {
  for (int cls = CLASSES; cls-- > 0 && class_bytes(cls) >= CHUNK;) {
    head *h = take_kept(m, cls);
    if (!h) continue;
    for (size_t i = m->chunks.len; i-- > 0;)
      if (m->chunks.at[i] == (void *)h)
        m->chunks.at[i] = m->chunks.at[--m->chunks.len];
    m->stats.held -= class_bytes(cls);
    m->stats.system_frees++;
    return h;
  }
  return NULL;
}

static void pinned_trim(td_allocator *a, size_t spare) {
  pinned *m = (pinned *)a;
  for (head *h = NULL;; (void)cudaFreeHost(h)) {
    pthread_mutex_lock(&m->lock);
    bool enough = m->stats.held <= m->stats.in_use + spare;
    h = enough ? NULL : take_spare(m);
    pthread_mutex_unlock(&m->lock);
    if (!h) break;
  }
  (void)cudaGetLastError();
}

/* Where no more can be locked, what is kept for other sizes goes first. */
static head *take_new(pinned *m, td_cuda *d, int cls) {
  size_t bytes = chunk_bytes(cls);
  void *at = lock_chunk(d, bytes);
  if (!at && d) {
    pinned_trim(&m->base, 0);
    at = lock_chunk(d, bytes);
  }
  if (!at) return NULL;
  pthread_mutex_lock(&m->lock);
  bool room = td_vec_push(&m->chunks, at);
  head *h = room ? cut(m, at, bytes, cls) : NULL;
  if (room) {
    m->stats.held += bytes;
    m->stats.system_allocs++;
  }
  pthread_mutex_unlock(&m->lock);
  if (!room) (void)cudaFreeHost(at);
  return h;
}

static head *take_plain(size_t bytes) {
  head *h = aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (h) h->cls = -1;
  return h;
}

/* ---- blocks -------------------------------------------------------------- */

static void *pinned_alloc(td_allocator *a, size_t bytes) {
  pinned *m = (pinned *)a;
  if (bytes > (size_t)1 << 46) return NULL;
  size_t whole = bytes + sizeof(head);
  int cls = class_of(whole);
  pthread_mutex_lock(&m->lock);
  head *h = take_kept(m, cls);
  td_cuda *d = m->of;
  pthread_mutex_unlock(&m->lock);
  if (!h) h = take_new(m, d, cls);
  if (!h) h = take_plain(whole);
  if (!h) return NULL;
  pthread_mutex_lock(&m->lock);
  m->stats.in_use += bytes;
  m->stats.allocs++;
  if (m->stats.in_use > m->stats.peak) m->stats.peak = m->stats.in_use;
  pthread_mutex_unlock(&m->lock);
  return h + 1;
}

static void drop(pinned *m) {
  for (size_t i = 0; i < m->chunks.len; i++)
    (void)cudaFreeHost(m->chunks.at[i]);
  (void)cudaGetLastError();
  td_vec_free(&m->chunks);
  pthread_mutex_destroy(&m->lock);
  td_free((void *)m->base.name);
  td_free(m);
}

static void pinned_free(td_allocator *a, void *p, size_t bytes) {
  pinned *m = (pinned *)a;
  head *h = (head *)p - 1;
  if (h->cls < 0) free(h), h = NULL;
  pthread_mutex_lock(&m->lock);
  m->stats.in_use -= bytes;
  m->stats.frees++;
  if (h) keep(m, h);
  bool last = m->released && m->stats.frees == m->stats.allocs;
  pthread_mutex_unlock(&m->lock);
  if (last) drop(m);
}

static void pinned_read_stats(td_allocator *a, td_allocator_stats *out) {
  pinned *m = (pinned *)a;
  pthread_mutex_lock(&m->lock);
  *out = m->stats;
  pthread_mutex_unlock(&m->lock);
}

/* ---- life ---------------------------------------------------------------- */

td_status *td_cuda_pinned_new(td_cuda *d, td_allocator **out) {
  pinned *m = td_calloc(1, sizeof *m);
  if (!m) return td_oom();
  m->base = (td_allocator){.name = td_strdup(d->base.name),
                           .host = true,
                           .touchable = true,
                           .alloc = pinned_alloc,
                           .free = pinned_free,
                           .trim = pinned_trim,
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
  m->of = NULL;
  m->released = true;
  bool last = m->stats.frees == m->stats.allocs;
  pthread_mutex_unlock(&m->lock);
  if (last) drop(m);
}
