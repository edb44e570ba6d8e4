/* mem.c - the one door to malloc, and arenas.
 *
 * Every allocation passes the seam first. Sizes beyond PTRDIFF_MAX are refused
 * here, since no object may be that large.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/mem.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/fault.h"
#include "engine/base/reserve.h"

enum { SMALL = 1 << 16 }; /* bytes that are taken from the reserve */

static td_fault seam;

bool td_mem_try(void) {
  return td_fault_try(&seam);
}
int64_t td_mem_calls(void) {
  return td_fault_calls(&seam);
}

void td_mem_fail(int64_t nth, bool for_ever) {
  td_fault_arm(&seam, nth, for_ever);
}

/* The system has refused so much: is it worth another try? In any case others,
 * such as libraries that end the process, are to find some. */
static bool again(size_t size) {
  return td_reserve_spend() && size <= SMALL;
}

void *td_malloc(size_t size) {
  if (!td_mem_try() || size > PTRDIFF_MAX) return NULL;
  if (!size) size = 1;
  void *p = malloc(size);
  return TD_UNLIKELY(!p) && again(size) ? malloc(size) : p;
}

void *td_calloc(size_t n, size_t size) {
  size_t bytes;
  if (!td_mem_try() || !td_mul(n, size, &bytes) || bytes > PTRDIFF_MAX)
    return NULL;
  if (!bytes) bytes = 1;
  void *p = calloc(bytes, 1);
  return TD_UNLIKELY(!p) && again(bytes) ? calloc(bytes, 1) : p;
}

void *td_realloc(void *p, size_t size) {
  if (!td_mem_try() || size > PTRDIFF_MAX) return NULL;
  if (!size) size = 1;
  void *q = realloc(p, size);
  return TD_UNLIKELY(!q) && again(size) ? realloc(p, size) : q;
}

void *td_aligned_alloc(size_t align, size_t size) {
  void *p = NULL;
  if (!td_mem_try() || size > PTRDIFF_MAX) return NULL;
  if (align & (align - 1)) return NULL; /* no power of two */
  if (align < sizeof(void *)) align = sizeof(void *);
  return posix_memalign(&p, align, size ? size : 1) ? NULL : p;
}

void td_free(void *p) {
  free(p);
}

/* ---- arena ---------------------------------------------------------------
 *
 * Blocks double from 4 KiB to 1 MiB. A piece over a quarter of the next block
 * gets one of its own behind the newest, whose rest stays in use. Blocks come
 * cleared, so that pieces are. */

typedef struct td_arena_block {
  struct td_arena_block *next;
  size_t size; /* of what follows, 16-byte aligned */
} td_arena_block;

enum { ALIGN = 16, MIN_BLOCK = 4096, MAX_BLOCK = 1 << 20 };

static char *bytes_of(td_arena_block *b) {
  return (char *)(b + 1);
}

void td_arena_init(td_arena *a) {
  *a = (td_arena){0};
}

void td_arena_deinit(td_arena *a) {
  for (td_arena_block *b = a->blocks, *next; b; b = next) {
    next = b->next;
    td_free(b);
  }
  *a = (td_arena){0};
}

static td_arena_block *new_block(size_t size) {
  size_t bytes;
  if (!td_add(sizeof(td_arena_block), size, &bytes)) return NULL;
  td_arena_block *b = td_calloc(1, bytes);
  if (b) b->size = size;
  return b;
}

size_t td_arena_bytes(const td_arena *a) {
  size_t sum = 0;
  for (const td_arena_block *b = a->blocks; b; b = b->next) sum += b->size;
  return sum;
}

static void *alloc_alone(td_arena *a, size_t size) {
  td_arena_block *b = new_block(size);
  if (!b) return NULL;
  b->next = a->blocks->next;
  a->blocks->next = b;
  return bytes_of(b);
}

void *td_arena_alloc(td_arena *a, size_t size) {
  if (!td_add(size ? size : 1, ALIGN - 1, &size)) return NULL;
  size &= ~(size_t)(ALIGN - 1);
  if (size > a->size - a->used) {
    size_t next = a->size ? a->size * 2 : MIN_BLOCK;
    if (next > MAX_BLOCK) next = MAX_BLOCK;
    if (a->blocks && size > next / 4) return alloc_alone(a, size);
    if (next < size) next = size;
    td_arena_block *b = new_block(next);
    if (!b) return NULL;
    b->next = a->blocks;
    *a = (td_arena){.blocks = b, .size = next};
  }
  char *p = bytes_of(a->blocks) + a->used;
  a->used += size;
  return p;
}

char *td_arena_strn(td_arena *a, const char *s, size_t len) {
  size_t bytes;
  char *p = td_add(len, 1, &bytes) ? td_arena_alloc(a, bytes) : NULL;
  if (p && len) memcpy(p, s, len);
  return p; /* the arena is cleared: the NUL is there */
}

char *td_arena_str(td_arena *a, const char *s) {
  return td_arena_strn(a, s, strlen(s));
}

/* Behind the newest block of `a`, which stays in use. */
void td_arena_join(td_arena *a, td_arena *from) {
  td_arena_block *last = from->blocks;
  if (!a->blocks) {
    *a = *from;
  } else if (last) {
    while (last->next) last = last->next;
    last->next = a->blocks->next;
    a->blocks->next = from->blocks;
  }
  td_arena_init(from);
}
