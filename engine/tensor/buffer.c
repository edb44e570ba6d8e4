/* buffer.c - counted memory that tensors look into.
 *
 * A small buffer in memory that we may touch is one block: the header, then the
 * contents at the next 64-byte line. Such a block costs one call of the
 * allocator, which matters because a step makes one per small op. Larger
 * contents stand alone, so that sizes that are powers of two stay so; they and
 * memory of other spaces get a header from td_mem.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/tensor/buffer.h"

#include "engine/base/mem.h"

enum { LINE = 64, INLINE_MAX = 4096 - LINE };
_Static_assert(sizeof(td_buffer) <= LINE, "the header fits one line");

/* ---- content stamps ------------------------------------------------------ */

enum { STAMPS = 1 << 16 };
static uint64_t stamp_source; /* atomic: the next range not yet handed out */
static TD_THREAD_LOCAL uint64_t stamp_next; /* in this thread's range */

/* Never the same twice in this process; a thread takes them by ranges, so that
 * writing small tensors on many threads shares no cache line. */
static inline uint64_t stamp_new(void) {
  uint64_t next = stamp_next;
  if (TD_UNLIKELY(next % STAMPS == 0))
    next = __atomic_add_fetch(&stamp_source, STAMPS, __ATOMIC_RELAXED) + 1;
  stamp_next = next + 1;
  return next;
}

void td_buffer_touch(td_buffer *b) {
  __atomic_store_n(&b->stamp, stamp_new(), __ATOMIC_RELEASE);
}

/* ---- life ---------------------------------------------------------------- */

static td_status *refused(td_allocator *a, size_t bytes) {
  td_status *why = a->refusal ? a->refusal(a, bytes) : NULL;
  return why ? why : td_oom();
}

static td_status *new_inlined(td_allocator *a, size_t size, td_buffer **out) {
  td_buffer *b = a->alloc(a, LINE + size);
  if (TD_UNLIKELY(!b)) return refused(a, LINE + size);
  *b = (td_buffer){.refs = 1,
                   .inlined = true,
                   .size = size,
                   .data = (char *)b + LINE,
                   .allocator = a,
                   .stamp = stamp_new()};
  *out = b;
  return NULL;
}

static td_status *new_apart(td_allocator *a, size_t size, td_buffer **out) {
  td_buffer *b = td_malloc(sizeof *b);
  if (!b) return td_oom();
  void *data = a->alloc(a, size);
  if (!data) {
    td_free(b);
    return refused(a, size);
  }
  *b = (td_buffer){.refs = 1,
                   .size = size,
                   .data = data,
                   .allocator = a,
                   .stamp = stamp_new()};
  *out = b;
  return NULL;
}

td_status *td_buffer_new(td_allocator *a, size_t size, td_buffer **out) {
  if (!a) a = td_allocator_host();
  if (TD_LIKELY(size <= INLINE_MAX && a->touchable))
    return new_inlined(a, size, out);
  return new_apart(a, size, out);
}

td_status *td_buffer_wrap(void *data, size_t size,
                          void (*release)(void *arg, void *data, size_t size),
                          void *arg, td_buffer **out) {
  td_buffer *b = td_malloc(sizeof *b);
  if (!b) return td_oom();
  *b = (td_buffer){.refs = 1,
                   .foreign = true,
                   .size = size,
                   .data = data,
                   .allocator = td_allocator_host(),
                   .release = release,
                   .arg = arg,
                   .stamp = stamp_new()};
  *out = b;
  return NULL;
}

/* A release callback of memory that is ours only lets go of what the contents
 * point to (objects); the memory is still to be freed. */
void td_buffer_free(td_buffer *b) {
  td_allocator *a = b->allocator;
  if (b->release) b->release(b->arg, b->data, b->size);
  if (TD_LIKELY(b->inlined)) {
    a->free(a, b, LINE + b->size);
    return;
  }
  if (!b->foreign) a->free(a, b->data, b->size);
  td_free(b);
}
