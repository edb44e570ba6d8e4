/* mem.h - host memory for everything but tensor contents.
 *
 * The one door to malloc, so that a test can fail the n-th call. All functions
 * return NULL when there is no memory; callers answer with td_oom(). Tensor
 * contents come from device/alloc.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_MEM_H
#define TD_MEM_H

#include "engine/base/base.h"

TD_BEGIN

void *td_malloc(size_t size);           /* Not cleared. size 0 is 1. */
void *td_calloc(size_t n, size_t size); /* NULL on overflow of n*size. */
void *td_realloc(void *p, size_t size);
void *td_aligned_alloc(size_t align, size_t size); /* freed by td_free */
void td_free(void *p);

/* a*b, a+b; false (and *out unchanged) on overflow. */
static inline bool td_mul(size_t a, size_t b, size_t *out) {
  size_t r;
  if (__builtin_mul_overflow(a, b, &r)) return false;
  *out = r;
  return true;
}
static inline bool td_add(size_t a, size_t b, size_t *out) {
  size_t r;
  if (__builtin_add_overflow(a, b, &r)) return false;
  *out = r;
  return true;
}

/* The seam. td_mem_calls counts allocations of the process; td_mem_fail makes
 * the n-th allocation from now fail (1 is the next), once or for ever; 0 ends
 * it. td_mem_try is for other allocators (tensor memory, Lua's): counts one
 * call and says whether it may go ahead. */
int64_t td_mem_calls(void);
void td_mem_fail(int64_t nth, bool for_ever);
bool td_mem_try(void);

/* An arena: many small pieces with one lifetime. */
typedef struct td_arena {
  struct td_arena_block *blocks;
  size_t used, size; /* of the newest block */
} td_arena;

void td_arena_init(td_arena *a);
void td_arena_deinit(td_arena *a);
void *td_arena_alloc(td_arena *a, size_t size); /* 16-byte aligned, cleared */
char *td_arena_str(td_arena *a, const char *s);
char *td_arena_strn(td_arena *a, const char *s, size_t len);
/* What it took. */
size_t td_arena_bytes(const td_arena *a);
/* All pieces of `from` live on in `a`; `from` is empty then. Cannot fail. */
void td_arena_join(td_arena *a, td_arena *from);

TD_END
#endif
