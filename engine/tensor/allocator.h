/* allocator.h - where bytes live, and who gives them out.
 *
 * An allocator stands for one space of memory. Two questions are asked of it,
 * which have different answers: is it *host memory*, where operands that an op
 * wants on the host may live; and may *this process touch it*, may our code
 * follow a pointer into it.
 *
 *                                  host   touchable
 *   plain and pinned memory        yes    yes
 *   a device's memory              no     no
 *   memory that both sides see     no     yes
 *   another process's host memory  yes    no
 *
 * Only alloc and free are demanded. Limits, statistics and names of blocks are
 * offered where a hook is there: the functions below ask whoever is asked for
 * them, and do nothing where nobody answers. The caching allocator (device/
 * alloc.h) is one implementation; a device may bring its own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_ALLOCATOR_H
#define TD_ALLOCATOR_H

#include "engine/base/status.h"

TD_BEGIN

typedef struct td_allocator_stats {
  size_t in_use; /* bytes in live blocks */
  size_t peak;   /* the most there were */
  size_t held;   /* bytes taken from the system, kept ones included */
  size_t limit;  /* for `in_use`, perhaps shared with others */
  int64_t allocs, frees; /* blocks handed out and taken back */
  int64_t system_allocs; /* regions taken from the system */
  int64_t system_frees;  /* and given back */
} td_allocator_stats;

typedef struct td_allocator_block {
  size_t size;
  char tag[48]; /* "" when nobody named it */
} td_allocator_block;

typedef struct td_allocator td_allocator;
struct td_allocator {
  const char *name; /* of the device, for messages */
  bool host;        /* host memory */
  bool touchable;   /* code of this process may follow pointers into it */
  /* 64-byte aligned, not cleared; NULL when there is none. */
  void *(*alloc)(td_allocator *a, size_t bytes);
  /* On any thread, also after the device is gone; cannot fail. */
  void (*free)(td_allocator *a, void *p, size_t bytes);
  /* Optional, all that follow: see the functions of these names. `refusal`:
   * why the last alloc on this thread said no; adds to the error. */
  td_status *(*refusal)(td_allocator *a, size_t bytes);
  void (*trim)(td_allocator *a, size_t keep);
  void (*set_limit)(td_allocator *a, size_t limit);
  void (*read_stats)(td_allocator *a, td_allocator_stats *out);
  void (*reset_peak)(td_allocator *a);
  void (*tag)(td_allocator *a, void *p, size_t bytes, const char *tag);
  size_t (*largest)(td_allocator *a, td_allocator_block *out, size_t n);
};

/* Plain aligned host memory through td_mem; always there. */
td_allocator *td_allocator_host(void);

/* Gives kept memory back to the system until at most `keep` bytes beyond those
 * in use are held. */
void td_allocator_trim(td_allocator *a, size_t keep);
void td_allocator_set_limit(td_allocator *a, size_t limit);
/* All zero where nothing is counted. */
td_allocator_stats td_allocator_read_stats(td_allocator *a);
/* Lets `peak` start again from what is in use. */
void td_allocator_reset_peak(td_allocator *a);
/* Names the owner of block `p` of `bytes`, in case memory runs out: a copy of
 * at most 47 bytes is kept, where small blocks are named at all. */
void td_allocator_tag(td_allocator *a, void *p, size_t bytes, const char *tag);
/* The largest live blocks that can be named, largest first; returns how many. */
size_t td_allocator_largest(td_allocator *a, td_allocator_block *out, size_t n);

TD_END
#endif
