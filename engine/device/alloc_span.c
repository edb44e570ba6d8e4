/* alloc_span.c - small and medium blocks, cut from chunks of 2 MiB.
 *
 * A chunk is 128 pages of 16 KiB; the first holds its book. A span is some
 * neighbouring pages: blocks of one small class, or one medium block. The book
 * of a block is found by masking its address. Free medium spans wait in a list
 * by length and melt back into their chunks only when a chunk would otherwise
 * be mapped, so that a repeated step finds what it left. Pages are asked of the
 * system some at a time and ahead of use: what a step needs differs a little
 * from run to run, and this would be a page fault each time.
 *
 * Everything here runs under the heap's lock.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/alloc_heap.h"

enum { AHEAD = 16 /* pages: 256 KiB */ };

_Static_assert(sizeof(td_alloc_chunk) <= TD_ALLOC_PAGE, "the book is a page");
_Static_assert(TD_ALLOC_PAGES <= 256, "a page's number fits a byte");

static td_alloc_chunk *chunk_of(void *p) {
  return (td_alloc_chunk *)((uintptr_t)p & ~(uintptr_t)(TD_ALLOC_CHUNK - 1));
}

td_alloc_span *td_alloc_span_of(void *p) {
  td_alloc_chunk *c = chunk_of(p);
  return &c->spans[c->owner[(uintptr_t)p % TD_ALLOC_CHUNK / TD_ALLOC_PAGE]];
}

static char *span_bytes(td_alloc_span *s) {
  return (char *)chunk_of(s) + (size_t)s->page * TD_ALLOC_PAGE;
}

/* ---- lists --------------------------------------------------------------- */

static void link_span(td_alloc_span **list, td_alloc_span *s) {
  s->prev = NULL;
  s->next = *list;
  if (s->next) s->next->prev = s;
  *list = s;
}

static void unlink_span(td_alloc_span **list, td_alloc_span *s) {
  if (s->next) s->next->prev = s->prev;
  if (s->prev)
    s->prev->next = s->next;
  else
    *list = s->next;
}

/* ---- chunks and their pages ---------------------------------------------- */

static td_alloc_chunk *new_chunk(td_alloc_heap *h) {
  td_alloc_chunk *c = td_alloc_system_take(h, TD_ALLOC_CHUNK);
  if (!c) return NULL;
  /* fresh from the system: cleared */
  c->n_free = TD_ALLOC_PAGES - 1;
  c->next = h->chunks;
  if (c->next) c->next->prev = c;
  h->chunks = c;
  return c;
}

static void drop_chunk(td_alloc_heap *h, td_alloc_chunk *c) {
  if (c->next) c->next->prev = c->prev;
  if (c->prev)
    c->prev->next = c->next;
  else
    h->chunks = c->next;
  td_alloc_system_give(h, c, TD_ALLOC_CHUNK);
}

/* The first of n free neighbours; 0 (the book's page) when there are none. */
static unsigned find_pages(const td_alloc_chunk *c, unsigned n) {
  unsigned run = 0;
  if (c->n_free < (int)n) return 0;
  for (unsigned i = 1; i < TD_ALLOC_PAGES; i++) {
    run = c->owner[i] ? 0 : run + 1;
    if (run == n) return i + 1 - n;
  }
  return 0;
}

/* The first `n` pages, and some more, are there. */
static void make_present(td_alloc_chunk *c, int n) {
  if (n <= c->n_present) return;
  int up = (n + AHEAD - 1) / AHEAD * AHEAD;
  if (up > TD_ALLOC_PAGES) up = TD_ALLOC_PAGES;
  td_alloc_system_touch((char *)c + (size_t)c->n_present * TD_ALLOC_PAGE,
                        (size_t)(up - c->n_present) * TD_ALLOC_PAGE);
  c->n_present = up;
}

static td_alloc_span *claim(td_alloc_chunk *c, unsigned first, unsigned n) {
  td_alloc_span *s = &c->spans[first];
  make_present(c, (int)(first + n));
  for (unsigned i = 0; i < n; i++) c->owner[first + i] = (uint8_t)first;
  c->n_free -= (int)n;
  *s = (td_alloc_span){.page = (uint8_t)first, .pages = (uint8_t)n};
  return s;
}

static void free_span(td_alloc_span *s) {
  td_alloc_chunk *c = chunk_of(s);
  for (unsigned i = 0; i < s->pages; i++) c->owner[s->page + i] = 0;
  c->n_free += s->pages;
}

/* Kept medium spans become free pages; false when there were none. */
static bool melt(td_alloc_heap *h) {
  bool any = false;
  for (unsigned n = 0; n < TD_ALLOC_RUNS; n++)
    for (td_alloc_span *s; (s = h->runs[n]) != NULL; any = true) {
      unlink_span(&h->runs[n], s);
      free_span(s);
    }
  return any;
}

static td_alloc_span *find_span(td_alloc_heap *h, unsigned n) {
  for (td_alloc_chunk *c = h->chunks; c; c = c->next) {
    unsigned first = find_pages(c, n);
    if (first) return claim(c, first, n);
  }
  return NULL;
}

static td_alloc_span *new_span(td_alloc_heap *h, unsigned n) {
  td_alloc_span *s = find_span(h, n);
  if (!s && melt(h)) s = find_span(h, n);
  if (s) return s;
  td_alloc_chunk *c = new_chunk(h);
  return c ? claim(c, 1, n) : NULL;
}

/* ---- small blocks -------------------------------------------------------- */

/* The fewest pages of which a sixteenth at most is lost. */
static unsigned pages_for(size_t size) {
  for (unsigned n = 1; n < 8; n++) {
    size_t bytes = (size_t)n * TD_ALLOC_PAGE;
    if (bytes >= size && bytes % size <= bytes / 16) return n;
  }
  return 8;
}

static td_alloc_span *new_small(td_alloc_heap *h, unsigned cls) {
  size_t size = td_alloc_class_size(cls);
  unsigned pages = pages_for(size);
  td_alloc_span *s = new_span(h, pages);
  if (!s) return NULL;
  s->cls = (uint8_t)cls;
  s->n_blocks = (uint16_t)(pages * TD_ALLOC_PAGE / size);
  s->n_free = s->n_fresh = s->n_blocks;
  link_span(&h->classes[cls], s);
  return s;
}

/* Used blocks first: untouched memory stays untouched while it can. */
static td_alloc_free *take_block(td_alloc_span *s, size_t size) {
  td_alloc_free *b = s->free;
  s->n_free--;
  if (b) {
    s->free = b->next;
    return b;
  }
  size_t index = s->n_blocks - s->n_fresh--;
  return (td_alloc_free *)(span_bytes(s) + index * size);
}

td_alloc_free *td_alloc_blocks_take(td_alloc_heap *h, unsigned cls, unsigned n,
                                    unsigned *got) {
  size_t size = td_alloc_class_size(cls);
  td_alloc_free *list = NULL;
  for (*got = 0; *got < n; ++*got) {
    td_alloc_span *s = h->classes[cls];
    if (!s && (*got || !(s = new_small(h, cls)))) break;
    td_alloc_free *b = take_block(s, size);
    b->next = list;
    list = b;
    if (s->n_free == 0) unlink_span(&h->classes[cls], s);
  }
  return list;
}

static void give_block(td_alloc_heap *h, td_alloc_free *b) {
  td_alloc_span *s = td_alloc_span_of(b);
  td_alloc_span **list = &h->classes[s->cls];
  b->next = s->free;
  s->free = b;
  if (s->n_free++ == 0) link_span(list, s);
  if (s->n_free < s->n_blocks || (*list == s && !s->next)) return;
  unlink_span(list, s); /* empty, and not the last of its class */
  free_span(s);
}

void td_alloc_blocks_give(td_alloc_heap *h, td_alloc_free *list) {
  for (td_alloc_free *next; list; list = next) {
    next = list->next;
    give_block(h, list);
  }
}

/* ---- medium blocks ------------------------------------------------------- */

void *td_alloc_run_take(td_alloc_heap *h, unsigned pages) {
  td_alloc_span *s = h->runs[pages];
  if (s)
    unlink_span(&h->runs[pages], s);
  else if (!(s = new_span(h, pages)))
    return NULL;
  s->live = true;
  s->tag[0] = 0;
  return span_bytes(s);
}

void td_alloc_run_give(td_alloc_heap *h, void *p) {
  td_alloc_span *s = td_alloc_span_of(p);
  s->live = false;
  link_span(&h->runs[s->pages], s);
}

/* ---- all of them --------------------------------------------------------- */

static void free_empty_spans(td_alloc_heap *h) {
  for (unsigned cls = 0; cls < TD_ALLOC_CLASSES; cls++)
    for (td_alloc_span *s = h->classes[cls], *next; s; s = next) {
      next = s->next;
      if (s->n_free < s->n_blocks) continue;
      unlink_span(&h->classes[cls], s);
      free_span(s);
    }
}

void td_alloc_spans_trim(td_alloc_heap *h, size_t keep) {
  if (td_alloc_unused(h) <= keep) return;
  melt(h);
  free_empty_spans(h);
  for (td_alloc_chunk *c = h->chunks, *next; c; c = next) {
    next = c->next;
    if (td_alloc_unused(h) <= keep) return;
    if (c->n_free == TD_ALLOC_PAGES - 1) drop_chunk(h, c);
  }
}

void td_alloc_spans_each(td_alloc_heap *h,
                         void (*visit)(void *arg, size_t size, const char *tag),
                         void *arg) {
  for (td_alloc_chunk *c = h->chunks; c; c = c->next)
    for (unsigned i = 1; i < TD_ALLOC_PAGES; i++) {
      td_alloc_span *s = &c->spans[i];
      if (c->owner[i] == i && s->live)
        visit(arg, (size_t)s->pages * TD_ALLOC_PAGE, s->tag);
    }
}
