/* segments.c - segments by peer, each a row of blocks.
 *
 * A segment's blocks are kept outside of it, in an array by offset, used and
 * free ones, no two free ones side by side: nothing that a peer could write
 * says where the next tensor goes. A new tensor takes the free block of its
 * peer that fits best. Segments double, from 4 MiB to 64 MiB, or are as large
 * as the tensor that needs them.
 *
 * System calls and copies are made without the lock. A segment that is being
 * written when its peer is dropped goes with the last of its writers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/remote/segments.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/vec.h"
#include "engine/remote/segments_impl.h"

enum {
  SEGMENT_LEAST = 4 << 20,
  SEGMENT_LONG = 64 << 20,  /* longer only for a tensor that is */
  SEGMENT_ROUND = 64 << 10, /* a multiple of any page */
  HEAD = TD_SEGMENT_ALIGN,
};
_Static_assert(sizeof(td_segment_head) <= HEAD, "the head has its place");

typedef struct segment_block {
  size_t offset, len;
  bool used;
} segment_block;

/* All fields but the first three are under the table's lock. */
typedef struct segment {
  char name[TD_SEGMENT_NAME]; /* as places have it */
  char *at;
  size_t size;
  struct segment *next; /* of the peer, or of those to be freed */
  int fd;
  TD_VEC(segment_block) blocks;
  int used;         /* blocks in use */
  int writers;      /* copies under way */
  bool dropped;     /* its peer is; the last writer frees it */
  int64_t last_use; /* when it was put into, or taken from */
} segment;

typedef struct segment_peer {
  struct segment_peer *next;
  uint64_t peer;
  uint64_t serial;   /* a peer that is dropped and comes again is another */
  segment *segments; /* the newest first */
  size_t held;       /* of those that are being made, too */
} segment_peer;

struct td_segments {
  uint64_t incarnation;
  size_t per_peer, total;
  pthread_mutex_t lock;
  segment_peer *peers; /* under lock, as all that follows */
  size_t held;
  uint64_t number; /* of the segment made last */
  uint64_t serial;
};

/* ---- a segment and the system -------------------------------------------- */

int td_segments_memfd(const char *name) {
  unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
#ifdef MFD_NOEXEC_SEAL /* some systems demand it, older ones do not know it */
  int fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);
  if (fd >= 0 || errno != EINVAL) return fd;
#endif
  return memfd_create(name, flags);
}

static void segment_delete(segment *g) {
  if (g->at) {
    __atomic_store_n(&((td_segment_head *)(void *)g->at)->gone, 1,
                     __ATOMIC_RELEASE);
    munmap(g->at, g->size);
  }
  if (g->fd >= 0) close(g->fd);
  td_vec_free(&g->blocks);
  td_free(g);
}

static void delete_list(segment *g) {
  for (segment *next; g; g = next) {
    next = g->next;
    segment_delete(g);
  }
}

/* Memory is taken here, all of it: where there is none this is an error, not a
 * signal when the page is written. */
static int fill_pages(int fd, size_t size) {
  int e;
  do e = posix_fallocate(fd, 0, (off_t)size);
  while (e == EINTR);
  if (e) return e;
  if (fchmod(fd, 0600)) return errno;
  int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  return fcntl(fd, F_ADD_SEALS, seals) ? errno : 0;
}

/* Opens and maps `g`, which has its name and size. An errno. */
static int segment_open(segment *g, const char *name) {
  g->fd = td_segments_memfd(name);
  if (g->fd < 0) return errno;
  int e = fill_pages(g->fd, g->size);
  if (e) return e;
  void *at = mmap(NULL, g->size, PROT_READ | PROT_WRITE, MAP_SHARED, g->fd, 0);
  if (at == MAP_FAILED) return errno;
  g->at = at;
  return 0;
}

static td_status *segment_new(uint64_t incarnation, uint64_t number,
                              size_t size, segment **out) {
  char name[48];
  segment *g = td_calloc(1, sizeof *g);
  if (!g) return td_oom();
  g->fd = -1;
  g->size = size;
  snprintf(name, sizeof name, "tide-%016" PRIx64 "-%" PRIu64, incarnation,
           number);
  int e = td_vec_push(&g->blocks, ((segment_block){HEAD, size - HEAD, false}))
              ? segment_open(g, name)
              : ENOMEM;
  if (e) {
    segment_delete(g);
    return td_error(TD_RESOURCE_EXHAUSTED,
                    "no shared memory of %zu bytes is to be had: %s", size,
                    strerror(e));
  }
  snprintf(g->name, sizeof g->name, "%.42s@%d/%d", name, (int)getpid(), g->fd);
  *out = g;
  return NULL;
}

/* ---- blocks -------------------------------------------------------------- */

/* The smallest free block of `need` bytes and more in the peer's segments. */
static segment_block *best_block(const segment_peer *p, size_t need,
                                 segment **of) {
  segment_block *best = NULL;
  for (segment *g = p->segments; g; g = g->next) {
    for (size_t i = 0; i < g->blocks.len; i++) {
      segment_block *b = &g->blocks.at[i];
      if (b->used || b->len < need || (best && best->len <= b->len)) continue;
      best = b;
      *of = g;
    }
  }
  return best;
}

/* The first `need` bytes of free block `i`. */
static td_status *take_block(segment *g, size_t i, size_t need) {
  if (!td_vec_reserve(&g->blocks, 1)) return td_oom();
  segment_block *b = &g->blocks.at[i];
  if (b->len > need) {
    memmove(b + 2, b + 1, (g->blocks.len - i - 1) * sizeof *b);
    b[1] = (segment_block){b->offset + need, b->len - need, false};
    b->len = need;
    g->blocks.len++;
  }
  b->used = true;
  g->used++;
  g->last_use = td_clock_now();
  return NULL;
}

static void remove_block(segment *g, size_t i) {
  segment_block *b = &g->blocks.at[i];
  memmove(b, b + 1, (g->blocks.len - i - 1) * sizeof *b);
  g->blocks.len--;
}

/* Free ones beside it become one with it. */
static void free_block(segment *g, size_t i) {
  segment_block *b = g->blocks.at;
  b[i].used = false;
  g->used--;
  g->last_use = td_clock_now();
  if (i + 1 < g->blocks.len && !b[i + 1].used) {
    b[i].len += b[i + 1].len;
    remove_block(g, i + 1);
  }
  if (i > 0 && !b[i - 1].used) {
    b[i - 1].len += b[i].len;
    remove_block(g, i);
  }
}

/* The block at `offset`, or SIZE_MAX. */
static size_t find_block(const segment *g, uint64_t offset) {
  size_t low = 0, high = g->blocks.len;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (g->blocks.at[mid].offset == offset) return mid;
    if (g->blocks.at[mid].offset < offset)
      low = mid + 1;
    else
      high = mid;
  }
  return SIZE_MAX;
}

/* What a tensor of `len` bytes takes; false when there is no such size. */
static bool block_size(size_t len, size_t *need) {
  if (!len) len = 1;
  if (!td_add(len, TD_SEGMENT_ALIGN - 1, need)) return false;
  *need -= *need % TD_SEGMENT_ALIGN;
  return *need <= PTRDIFF_MAX / 2;
}

/* ---- peers --------------------------------------------------------------- */

static segment_peer *find_peer(const td_segments *t, uint64_t peer) {
  segment_peer *p = t->peers;
  while (p && p->peer != peer) p = p->next;
  return p;
}

static segment_peer *find_or_add_peer(td_segments *t, uint64_t peer) {
  segment_peer *p = find_peer(t, peer);
  if (p) return p;
  p = td_calloc(1, sizeof *p);
  if (!p) return NULL;
  *p = (segment_peer){.next = t->peers, .peer = peer, .serial = ++t->serial};
  t->peers = p;
  return p;
}

/* What the limits allow it to have more. */
static size_t room_for(const td_segments *t, const segment_peer *p) {
  size_t own = p->held < t->per_peer ? t->per_peer - p->held : 0;
  size_t all = t->held < t->total ? t->total - t->held : 0;
  return own < all ? own : all;
}

static bool is_idle(const segment *g) {
  return !g->used && !g->writers;
}

static size_t idle_bytes(const segment_peer *p) {
  size_t sum = 0;
  for (const segment *g = p->segments; g; g = g->next)
    if (is_idle(g)) sum += g->size;
  return sum;
}

/* Would there be room if all idle segments went? */
static bool could_be_room(const td_segments *t, const segment_peer *p,
                          size_t size) {
  size_t idle = 0;
  for (const segment_peer *q = t->peers; q; q = q->next) idle += idle_bytes(q);
  return size <= t->per_peer && p->held - idle_bytes(p) <= t->per_peer - size &&
         size <= t->total && t->held - idle <= t->total - size;
}

/* Moves idle segments of `p` to *out: those not used since `before`, or as many
 * as make room for `size` bytes for peer `of`, if that is not NULL. */
static void take_idle(td_segments *t, segment_peer *p, int64_t before,
                      const segment_peer *of, size_t size, segment **out) {
  for (segment **at = &p->segments, *g; (g = *at);) {
    if (of && room_for(t, of) >= size) return;
    if (!is_idle(g) || g->last_use >= before) {
      at = &g->next;
      continue;
    }
    *at = g->next;
    p->held -= g->size;
    t->held -= g->size;
    g->next = *out;
    *out = g;
  }
}

/* How large a segment for `need` more bytes of `p` is to be; 0: the limits
 * allow none. Idle segments go only when they are in the way: *idle. */
static size_t choose_size(td_segments *t, segment_peer *p, size_t need,
                          segment **idle) {
  size_t least = need + HEAD + SEGMENT_ROUND - 1;
  least -= least % SEGMENT_ROUND;
  size_t size = p->held < SEGMENT_LEAST  ? SEGMENT_LEAST
                : p->held < SEGMENT_LONG ? p->held - p->held % SEGMENT_LEAST
                                         : SEGMENT_LONG;
  size += SEGMENT_ROUND; /* the head is not to cost a block of 2^n bytes */
  if (size < least) size = least;
  if (room_for(t, p) >= size) return size;
  if (!could_be_room(t, p, least)) return 0;
  take_idle(t, p, INT64_MAX, p, least, idle);
  for (segment_peer *q = t->peers; q; q = q->next)
    if (q != p) take_idle(t, q, INT64_MAX, p, least, idle);
  size_t room = room_for(t, p) - room_for(t, p) % SEGMENT_ROUND;
  return size < room ? size : least < room ? room : least;
}

/* ---- putting ------------------------------------------------------------- */

/* A new segment for peer `p`, which may be dropped meanwhile. The lock is held
 * before and after, and let go of in between. */
static td_status *add_segment(td_segments *t, segment_peer *p, size_t need,
                              segment **out) {
  segment *idle = NULL, *g = NULL;
  uint64_t peer = p->peer, serial = p->serial;
  size_t size = choose_size(t, p, need, &idle);
  if (!size)
    return td_error(TD_RESOURCE_EXHAUSTED,
                    "%zu bytes of shared memory wait for a peer, %zu for all; "
                    "%zu more pass the limits of %zu and %zu",
                    p->held, t->held, need, t->per_peer, t->total);
  uint64_t number = ++t->number;
  p->held += size;
  t->held += size;
  pthread_mutex_unlock(&t->lock);
  delete_list(idle);
  td_status *s = segment_new(t->incarnation, number, size, &g);
  pthread_mutex_lock(&t->lock);
  p = find_peer(t, peer);
  if (p && p->serial != serial) p = NULL;
  if (td_ok(s) && p) {
    g->next = p->segments;
    p->segments = g;
    *out = g;
    return NULL;
  }
  if (p) p->held -= size;
  t->held -= size;
  if (g) segment_delete(g);
  return td_ok(s) ? td_error(TD_UNAVAILABLE, "the peer is gone") : s;
}

/* A block of `need` bytes, in use, and a writer of its segment. Under the
 * lock. */
static td_status *reserve(td_segments *t, uint64_t peer, size_t need,
                          segment **of, uint64_t *offset) {
  segment_peer *p = find_or_add_peer(t, peer);
  if (!p) return td_oom();
  segment_block *b = best_block(p, need, of);
  size_t i = b ? (size_t)(b - (*of)->blocks.at) : 0;
  if (!b) TD_TRY(add_segment(t, p, need, of));
  TD_TRY(take_block(*of, i, need));
  *offset = (*of)->blocks.at[i].offset;
  (*of)->writers++;
  return NULL;
}

td_status *td_segments_put(td_segments *t, uint64_t peer, const void *bytes,
                           size_t len, td_segment_place *out) {
  size_t need;
  segment *g = NULL;
  if (!block_size(len, &need))
    return td_error(TD_RESOURCE_EXHAUSTED,
                    "a tensor of %zu bytes fits no memory", len);
  pthread_mutex_lock(&t->lock);
  td_status *s = reserve(t, peer, need, &g, &out->offset);
  pthread_mutex_unlock(&t->lock);
  TD_TRY(s);
  if (len) memcpy(g->at + out->offset, bytes, len);
  memcpy(out->segment, g->name, sizeof out->segment);
  out->len = len;
  pthread_mutex_lock(&t->lock);
  bool last = --g->writers == 0, dropped = g->dropped;
  pthread_mutex_unlock(&t->lock);
  if (!dropped) return NULL;
  if (last) segment_delete(g);
  return td_error(TD_UNAVAILABLE, "the peer is gone");
}

bool td_segments_done(td_segments *t, uint64_t peer,
                      const td_segment_place *place) {
  bool found = false;
  pthread_mutex_lock(&t->lock);
  segment_peer *p = find_peer(t, peer);
  segment *g = p ? p->segments : NULL;
  while (g && strncmp(g->name, place->segment, sizeof g->name) != 0)
    g = g->next;
  size_t i = g ? find_block(g, place->offset) : SIZE_MAX, need;
  found = i != SIZE_MAX && g->blocks.at[i].used &&
          block_size(place->len, &need) && need == g->blocks.at[i].len;
  if (found) free_block(g, i);
  pthread_mutex_unlock(&t->lock);
  return found;
}

/* ---- letting go ---------------------------------------------------------- */

/* Unlinks all segments of `p`; those that nobody writes are put before *out. */
static void drop_segments(td_segments *t, segment_peer *p, segment **out) {
  for (segment *g = p->segments, *next; g; g = next) {
    next = g->next;
    t->held -= g->size;
    g->dropped = true;
    if (g->writers) continue;
    g->next = *out;
    *out = g;
  }
}

void td_segments_drop_peer(td_segments *t, uint64_t peer) {
  segment *idle = NULL;
  pthread_mutex_lock(&t->lock);
  segment_peer **at = &t->peers, *p;
  while (*at && (*at)->peer != peer) at = &(*at)->next;
  p = *at;
  if (p) {
    *at = p->next;
    drop_segments(t, p, &idle);
  }
  pthread_mutex_unlock(&t->lock);
  delete_list(idle);
  td_free(p);
}

void td_segments_trim(td_segments *t, int64_t before) {
  segment *idle = NULL;
  pthread_mutex_lock(&t->lock);
  for (segment_peer *p = t->peers; p; p = p->next)
    take_idle(t, p, before, NULL, 0, &idle);
  pthread_mutex_unlock(&t->lock);
  delete_list(idle);
}

/* ---- the table ----------------------------------------------------------- */

td_segments *td_segments_new(uint64_t incarnation, size_t per_peer,
                             size_t total) {
  td_segments *t = td_calloc(1, sizeof *t);
  if (!t) return NULL;
  t->incarnation = incarnation;
  t->per_peer = per_peer;
  t->total = total;
  pthread_mutex_init(&t->lock, NULL);
  return t;
}

void td_segments_free(td_segments *t) {
  if (!t) return;
  while (t->peers) td_segments_drop_peer(t, t->peers->peer);
  pthread_mutex_destroy(&t->lock);
  td_free(t);
}

td_segments_stats td_segments_read_stats(td_segments *t) {
  td_segments_stats s = {0};
  pthread_mutex_lock(&t->lock);
  s.held = t->held;
  s.made = (int64_t)t->number;
  for (const segment_peer *p = t->peers; p; p = p->next) {
    for (const segment *g = p->segments; g; g = g->next) {
      s.segments++;
      s.blocks += g->used;
      for (size_t i = 0; i < g->blocks.len; i++)
        if (g->blocks.at[i].used) s.used += g->blocks.at[i].len;
    }
  }
  pthread_mutex_unlock(&t->lock);
  return s;
}
