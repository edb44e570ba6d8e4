/* allocator.c - what can be asked of any allocator, and the plain one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/tensor/allocator.h"

#include "engine/base/mem.h"

/* ---- host memory --------------------------------------------------------- */

enum { LINE = 64 };

static void *host_alloc(td_allocator *a, size_t bytes) {
  (void)a;
  return td_aligned_alloc(LINE, bytes ? bytes : 1);
}

static void host_free(td_allocator *a, void *p, size_t bytes) {
  (void)a, (void)bytes;
  td_free(p);
}

td_allocator *td_allocator_host(void) {
  static td_allocator host = {.name = "host",
                              .host = true,
                              .touchable = true,
                              .alloc = host_alloc,
                              .free = host_free};
  return &host;
}

/* ---- what need not be there ---------------------------------------------- */

void td_allocator_trim(td_allocator *a, size_t keep) {
  if (a->trim) a->trim(a, keep);
}

void td_allocator_set_limit(td_allocator *a, size_t limit) {
  if (a->set_limit) a->set_limit(a, limit);
}

td_allocator_stats td_allocator_read_stats(td_allocator *a) {
  td_allocator_stats s = {0};
  if (a->read_stats) a->read_stats(a, &s);
  return s;
}

void td_allocator_reset_peak(td_allocator *a) {
  if (a->reset_peak) a->reset_peak(a);
}

void td_allocator_tag(td_allocator *a, void *p, size_t bytes, const char *tag) {
  if (a->tag) a->tag(a, p, bytes, tag);
}

size_t td_allocator_largest(td_allocator *a, td_allocator_block *out,
                            size_t n) {
  return a->largest ? a->largest(a, out, n) : 0;
}
