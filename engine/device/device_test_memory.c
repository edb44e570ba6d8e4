/* device_test_memory.c - memory of the test device.
 *
 * It is host memory whose pointers carry a bit no address has: code that
 * follows one without being asked to faults at once.
 *
 * A block made for work on a stream is that stream's own: its work uses the
 * block without holding it. When the last holder lets go the block lies in the
 * stream's queue, behind all work that may still use it. Later work of the
 * stream may have it at once; else, when its turn comes, it is overwritten and
 * goes back to the allocator below, where anyone may get it. All other blocks
 * are held by whatever uses them, and go back at once.
 *
 * When there is no memory left, blocks that lie in a queue although the last
 * work that may use them is complete go back out of turn.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/device/alloc.h"
#include "engine/device/device_test_impl.h"

#define TAG ((uintptr_t)1 << 62)

typedef struct tagged tagged;

/* Before each block. The list is for leak checkers, which do not know a tagged
 * pointer for one. */
typedef struct head {
  td_test_job job; /* first: while the block lies in a queue */
  tagged *memory;
  struct head *prev, *next; /* lock: the memory's */
  size_t bytes;
  int stream;    /* whose it is, or TD_TEST_NONE */
  bool kept;     /* under the streams' mutex: all work holds it */
  uint64_t last; /* under the streams' mutex: work of the stream that uses it
                    without holding it, the latest */
} head;

enum { HEAD = 256 }; /* keeps the block aligned */
_Static_assert(sizeof(head) <= HEAD, "the head has room");

/* Ends with the device and the last of its blocks. */
struct tagged {
  td_allocator base; /* first */
  td_allocator *under;
  td_test_streams *streams;
  int64_t holds; /* atomic: blocks, and the device */
  pthread_mutex_t mutex;
  head *blocks; /* under the mutex */
};

static TD_THREAD_LOCAL struct {
  td_allocator *memory; /* blocks of this one ... */
  int stream;           /* ... are for work on it */
} placing;

void *td_test_tag(void *p) {
  return (void *)((uintptr_t)p | TAG);
}

void *td_test_untag(void *p) {
  return (void *)((uintptr_t)p & ~TAG);
}

static head *head_of(void *data) {
  return (head *)((char *)td_test_untag(data) - HEAD);
}

static void drop(tagged *m) {
  if (__atomic_sub_fetch(&m->holds, 1, __ATOMIC_ACQ_REL) > 0) return;
  td_alloc_release(m->under);
  td_test_streams_free(m->streams);
  pthread_mutex_destroy(&m->mutex);
  td_free((void *)m->base.name);
  td_free(m);
}

/* ---- giving out ---------------------------------------------------------- */

static int stream_here(const td_allocator *a) {
  return placing.memory == a ? placing.stream : TD_TEST_NONE;
}

void td_test_memory_for(td_allocator *a, int stream) {
  placing.memory = stream == TD_TEST_NONE ? NULL : a;
  placing.stream = stream;
}

static void list(tagged *m, head *h) {
  pthread_mutex_lock(&m->mutex);
  h->prev = NULL;
  h->next = m->blocks;
  if (h->next) h->next->prev = h;
  m->blocks = h;
  pthread_mutex_unlock(&m->mutex);
}

static void unlist(tagged *m, head *h) {
  pthread_mutex_lock(&m->mutex);
  *(h->prev ? &h->prev->next : &m->blocks) = h->next;
  if (h->next) h->next->prev = h->prev;
  pthread_mutex_unlock(&m->mutex);
}

static head *take_again(tagged *m, int stream, size_t bytes) {
  pthread_mutex_lock(&m->streams->mutex);
  head *h = (head *)td_test_take_block(m->streams, stream, bytes + HEAD);
  if (h) h->kept = false;
  pthread_mutex_unlock(&m->streams->mutex);
  if (h) td_test_count(&m->streams->counts.reused);
  return h;
}

static head *take_fresh(tagged *m, int stream, size_t bytes) {
  size_t with_head;
  if (!td_add(bytes, HEAD, &with_head)) return NULL;
  head *h = m->under->alloc(m->under, with_head);
  if (!h) return NULL;
  *h = (head){.memory = m, .bytes = bytes, .stream = stream};
  __atomic_fetch_add(&m->holds, 1, __ATOMIC_RELAXED);
  list(m, h);
  return h;
}

/* ---- taking back --------------------------------------------------------- */

/* The ends of what is large: nobody has touched all of it, perhaps. */
void td_test_poison(void *p, size_t bytes) {
  enum { WHOLE = 1 << 20, END = 64 << 10, GARBAGE = 0xff }; /* NaN, or -1 */
  if (bytes <= WHOLE) {
    memset(p, GARBAGE, bytes);
  } else {
    memset(p, GARBAGE, END);
    memset((char *)p + bytes - END, GARBAGE, END);
  }
}

static void give_back(td_test_job *j) {
  head *h = (head *)j;
  tagged *m = h->memory;
  size_t bytes = h->bytes;
  unlist(m, h);
  td_test_poison((char *)h + HEAD, bytes);
  m->under->free(m->under, h, bytes + HEAD);
  drop(m);
}

static void tagged_free(td_allocator *a, void *p, size_t bytes) {
  tagged *m = (tagged *)a;
  head *h = head_of(p);
  bool queued = false;
  if (h->stream != TD_TEST_NONE) {
    h->job = (td_test_job){.run = give_back, .block = bytes + HEAD};
    pthread_mutex_lock(&m->streams->mutex);
    td_test_after_add(&h->job.after, td_test_event(h->stream, h->last));
    queued = td_test_push_behind(m->streams, h->stream, &h->job);
    pthread_mutex_unlock(&m->streams->mutex);
  }
  if (!queued) give_back(&h->job);
}

/* False when there was nothing to be given back. */
static bool give_back_complete(tagged *m) {
  pthread_mutex_lock(&m->streams->mutex);
  td_test_job *j = td_test_take_complete(m->streams);
  pthread_mutex_unlock(&m->streams->mutex);
  bool any = j != NULL;
  for (td_test_job *next; j; j = next) {
    next = j->next;
    give_back(j);
  }
  return any;
}

static void *tagged_alloc(td_allocator *a, size_t bytes) {
  tagged *m = (tagged *)a;
  int stream = stream_here(a);
  head *h = stream == TD_TEST_NONE ? NULL : take_again(m, stream, bytes);
  if (!h) h = take_fresh(m, stream, bytes);
  if (!h && give_back_complete(m)) h = take_fresh(m, stream, bytes);
  return h ? td_test_tag((char *)h + HEAD) : NULL;
}

bool td_test_memory_stays(void *data, int stream) {
  const head *h = head_of(data);
  return h->stream == stream && !h->kept;
}

void td_test_memory_used(void *data, uint64_t number) {
  head_of(data)->last = number;
}

void td_test_memory_keep(void *data) {
  head_of(data)->kept = true;
}

/* ---- the rest is the allocator's below ----------------------------------- */

static td_allocator *under(td_allocator *a) {
  return ((tagged *)a)->under;
}

static td_status *tagged_refusal(td_allocator *a, size_t bytes) {
  td_allocator *u = under(a);
  return u->refusal ? u->refusal(u, bytes) : NULL;
}

static void tagged_trim(td_allocator *a, size_t keep) {
  td_allocator_trim(under(a), keep);
}

static void tagged_set_limit(td_allocator *a, size_t limit) {
  td_allocator_set_limit(under(a), limit);
}

static void tagged_read_stats(td_allocator *a, td_allocator_stats *out) {
  *out = td_allocator_read_stats(under(a));
}

static void tagged_reset_peak(td_allocator *a) {
  td_allocator_reset_peak(under(a));
}

static void tagged_tag(td_allocator *a, void *p, size_t bytes,
                       const char *tag) {
  td_allocator_tag(under(a), head_of(p), bytes + HEAD, tag);
}

static size_t tagged_largest(td_allocator *a, td_allocator_block *out,
                             size_t n) {
  return td_allocator_largest(under(a), out, n);
}

/* ---- life ---------------------------------------------------------------- */

static const td_allocator hooks = {.alloc = tagged_alloc,
                                   .free = tagged_free,
                                   .refusal = tagged_refusal,
                                   .trim = tagged_trim,
                                   .set_limit = tagged_set_limit,
                                   .read_stats = tagged_read_stats,
                                   .reset_peak = tagged_reset_peak,
                                   .tag = tagged_tag,
                                   .largest = tagged_largest};

td_status *td_test_memory_new(const char *name, td_test_streams *streams,
                              td_allocator **out) {
  const char *env = getenv("TIDE_TEST_MEMORY");
  td_alloc_options options = {.name = name,
                              .limit = env ? strtoull(env, NULL, 10) : 0};
  tagged *m = td_calloc(1, sizeof *m);
  if (!m) return td_oom();
  m->base = hooks;
  m->base.name = td_strdup(name);
  td_status *s = m->base.name ? NULL : td_oom();
  if (td_ok(s)) s = td_alloc_new(&options, &m->under);
  if (!td_ok(s)) {
    td_free((void *)m->base.name);
    td_free(m);
    return s;
  }
  pthread_mutex_init(&m->mutex, NULL);
  m->streams = streams;
  m->holds = 1;
  *out = &m->base;
  return NULL;
}

void td_test_memory_release(td_allocator *a) {
  if (a) drop((tagged *)a);
}

bool td_test_is_memory(const td_allocator *a) {
  return a->free == tagged_free;
}

td_test_streams *td_test_memory_streams(const td_allocator *a) {
  return ((const tagged *)a)->streams;
}
