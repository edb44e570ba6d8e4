/* piece_cache.c - pieces in a map by hash, the unpinned ones in a line by age.
 *
 * An entry is in one of three states: *wanted* (pinned, nothing came), *begun*
 * (pinned, memory for all of it, some parts there) and *whole*. Only whole ones
 * outlive their last pin; they stand in the line then. `held` counts what all
 * of them take, the entries as well: a registration that names millions of
 * pieces is refused, not a reason to run out of memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/remote/piece_cache.h"

#include <sodium.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "engine/base/vec.h"

enum { SPANS_MOST = 1024 }; /* places where a piece that has begun has bytes */

typedef struct piece_span {
  size_t from, to;
} piece_span;

typedef struct piece_entry piece_entry;
struct piece_entry {
  td_piece_hash hash;
  char *bytes; /* `size` of them; NULL: nothing came */
  size_t size;
  bool whole;
  TD_VEC(piece_span) came; /* of one that has begun: sorted, none touch */
  size_t pins;
  piece_entry *older, *newer; /* in the line: whole and without a pin */
  uint64_t round;             /* the last question that named it */
};

/* The map's own share is put at four words and a copy of the key. */
enum { ENTRY_BYTES = sizeof(piece_entry) + 4 * 16 + sizeof(td_piece_hash) };

struct td_piece_cache {
  td_map map; /* of piece_entry */
  size_t keep, most;
  size_t kept, held;
  piece_entry *oldest, *newest;
  uint64_t round;
  size_t pieces;
  int64_t hits, misses;
};

static piece_entry *find_entry(const td_piece_cache *c,
                               const td_piece_hash *h) {
  return td_map_getn(&c->map, h->at, sizeof h->at);
}

/* ---- the line of those without a pin ------------------------------------- */

static void leave_line(td_piece_cache *c, piece_entry *e) {
  *(e->older ? &e->older->newer : &c->oldest) = e->newer;
  *(e->newer ? &e->newer->older : &c->newest) = e->older;
  e->older = e->newer = NULL;
  c->kept -= e->size;
}

static void join_line(td_piece_cache *c, piece_entry *e) {
  e->older = c->newest;
  *(c->newest ? &c->newest->newer : &c->oldest) = e;
  c->newest = e;
  c->kept += e->size;
}

/* ---- entries ------------------------------------------------------------- */

static void drop_bytes(td_piece_cache *c, piece_entry *e) {
  if (e->bytes) c->held -= e->size;
  c->pieces -= e->whole;
  td_free(e->bytes);
  td_vec_free(&e->came);
  e->bytes = NULL;
  e->size = 0;
  e->whole = false;
}

/* Stands in no line. */
static void drop_entry(td_piece_cache *c, piece_entry *e) {
  drop_bytes(c, e);
  td_map_removen(&c->map, e->hash.at, sizeof e->hash.at);
  c->held -= ENTRY_BYTES;
  td_free(e);
}

static void drop_oldest(td_piece_cache *c) {
  piece_entry *e = c->oldest;
  leave_line(c, e);
  drop_entry(c, e);
}

static td_status *make_room(td_piece_cache *c, size_t bytes) {
  while (c->oldest && (bytes > c->most || c->held > c->most - bytes))
    drop_oldest(c);
  if (bytes <= c->most && c->held <= c->most - bytes) return NULL;
  return td_error(TD_RESOURCE_EXHAUSTED,
                  "graphs that are being registered take %zu bytes; %zu more "
                  "pass the limit of %zu",
                  c->held, bytes, c->most);
}

static td_status *new_entry(td_piece_cache *c, const td_piece_hash *h,
                            piece_entry **out) {
  TD_TRY(make_room(c, ENTRY_BYTES));
  piece_entry *e = td_calloc(1, sizeof *e);
  if (!e) return td_oom();
  e->hash = *h;
  if (!td_map_putn(&c->map, h->at, sizeof h->at, e)) {
    td_free(e);
    return td_oom();
  }
  c->held += ENTRY_BYTES;
  *out = e;
  return NULL;
}

/* Memory for a piece of that size; `e` has none and stands in no line. */
static td_status *take_bytes(td_piece_cache *c, piece_entry *e, size_t size) {
  TD_TRY(make_room(c, size));
  e->bytes = td_malloc(size);
  if (!e->bytes) return td_oom();
  e->size = size;
  c->held += size;
  return NULL;
}

/* Nobody needs it now: a whole one is kept, unless it is too large for that. */
static void let_go(td_piece_cache *c, piece_entry *e) {
  if (!e->whole || e->size > c->keep) {
    drop_entry(c, e);
    return;
  }
  join_line(c, e);
  while (c->kept > c->keep) drop_oldest(c);
}

/* ---- life ---------------------------------------------------------------- */

td_piece_cache *td_piece_cache_new(size_t keep, size_t most) {
  td_piece_cache *c = td_calloc(1, sizeof *c);
  if (!c) return NULL;
  c->keep = keep ? keep : (size_t)256 << 20;
  c->most = most ? most : (size_t)4 << 30;
  return c;
}

void td_piece_cache_free(td_piece_cache *c) {
  const td_map_entry *m;
  if (!c) return;
  for (size_t i = 0; td_map_next(&c->map, &i, &m);) {
    piece_entry *e = m->value;
    drop_bytes(c, e);
    td_free(e);
  }
  td_map_deinit(&c->map);
  td_free(c);
}

td_piece_cache_stats td_piece_cache_read_stats(const td_piece_cache *c) {
  return (td_piece_cache_stats){c->pieces, c->kept, c->held, c->hits,
                                c->misses};
}

/* ---- pins ---------------------------------------------------------------- */

static td_status *pin_one(td_piece_cache *c, const td_piece_hash *h) {
  piece_entry *e = find_entry(c, h);
  if (!e) TD_TRY(new_entry(c, h, &e));
  if (e->whole && !e->pins) leave_line(c, e);
  e->pins++;
  *(e->whole ? &c->hits : &c->misses) += 1;
  return NULL;
}

td_status *td_piece_cache_pin(td_piece_cache *c, const td_piece_hash *hash,
                              size_t n) {
  for (size_t i = 0; i < n; i++) {
    td_status *s = pin_one(c, &hash[i]);
    if (td_ok(s)) continue;
    td_piece_cache_unpin(c, hash, i);
    return s;
  }
  return NULL;
}

void td_piece_cache_unpin(td_piece_cache *c, const td_piece_hash *hash,
                          size_t n) {
  for (size_t i = 0; i < n; i++) {
    piece_entry *e = find_entry(c, &hash[i]);
    if (e && e->pins && --e->pins == 0) let_go(c, e);
  }
}

size_t td_piece_cache_missing(td_piece_cache *c, const td_piece_hash *hash,
                              size_t n, size_t *at) {
  size_t found = 0;
  c->round++;
  for (size_t i = 0; i < n; i++) {
    piece_entry *e = find_entry(c, &hash[i]);
    if (e && (e->whole || e->round == c->round)) continue;
    if (e) e->round = c->round;
    at[found++] = i;
  }
  return found;
}

/* ---- what comes ---------------------------------------------------------- */

static td_status *check_size(uint64_t size) {
  if (size > 0 && size <= TD_PIECE_MOST) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "a piece of a graph has 1 to %zu bytes, not %llu",
                  TD_PIECE_MOST, (unsigned long long)size);
}

static td_status *check_hash(const td_piece_hash *h, const void *bytes,
                             size_t len) {
  td_piece_hash is;
  char name[2 * sizeof h->at + 1];
  TD_TRY(td_pieces_hash(bytes, len, &is));
  if (memcmp(is.at, h->at, sizeof is.at) == 0) return NULL;
  sodium_bin2hex(name, sizeof name, h->at, sizeof h->at);
  return td_error(TD_DATA_LOSS,
                  "%zu bytes came as piece %.16s... of a graph, but have "
                  "another hash",
                  len, name);
}

static td_status *fill(td_piece_cache *c, piece_entry *e, const void *bytes,
                       size_t len) {
  drop_bytes(c, e);
  TD_TRY(take_bytes(c, e, len));
  memcpy(e->bytes, bytes, len);
  e->whole = true;
  c->pieces++;
  return NULL;
}

td_status *td_piece_cache_add(td_piece_cache *c, const td_piece_hash *hash,
                              const void *bytes, size_t len) {
  piece_entry *e = find_entry(c, hash);
  if (e && e->whole) return NULL;
  TD_TRY(check_size(len));
  TD_TRY(check_hash(hash, bytes, len));
  if (!e) TD_TRY(new_entry(c, hash, &e));
  td_status *s = fill(c, e, bytes, len);
  if (!e->pins) let_go(c, e);
  return s;
}

static td_status *insert_span(piece_entry *e, size_t place, piece_span span) {
  size_t n = e->came.len;
  if (n == SPANS_MOST)
    return td_error(TD_RESOURCE_EXHAUSTED,
                    "a piece of a graph came in more than %zu parts that do "
                    "not touch",
                    n);
  if (!td_vec_reserve(&e->came, 1)) return td_oom();
  piece_span *at = e->came.at + place;
  memmove(at + 1, at, (n - place) * sizeof *at);
  *at = span;
  e->came.len++;
  return NULL;
}

/* Notes what is there: one span takes the place of those that it touches. */
static td_status *note_span(piece_entry *e, piece_span span) {
  piece_span *at = e->came.at;
  size_t first = 0, n = e->came.len;
  while (first < n && at[first].to < span.from) first++;
  size_t end = first;
  while (end < n && at[end].from <= span.to) end++;
  if (first == end) return insert_span(e, first, span);
  if (at[first].from < span.from) span.from = at[first].from;
  if (at[end - 1].to > span.to) span.to = at[end - 1].to;
  at[first] = span;
  memmove(at + first + 1, at + end, (n - end) * sizeof *at);
  e->came.len -= end - first - 1;
  return NULL;
}

/* All bytes have come. */
static td_status *complete(td_piece_cache *c, piece_entry *e) {
  td_status *s = check_hash(&e->hash, e->bytes, e->size);
  if (!td_ok(s)) {
    drop_bytes(c, e);
    return s;
  }
  td_vec_free(&e->came);
  e->whole = true;
  c->pieces++;
  return NULL;
}

static td_status *check_part(const piece_entry *e, uint64_t size,
                             uint64_t offset, size_t n) {
  if (!e || !e->pins)
    return td_error(TD_NOT_FOUND,
                    "%zu bytes of a piece of a graph came that nobody asked "
                    "for",
                    n);
  TD_TRY(check_size(size));
  if (e->bytes && size != e->size)
    return td_error(TD_INVALID_ARGUMENT,
                    "a piece of a graph has %llu bytes now, and had %zu before",
                    (unsigned long long)size, e->size);
  if (offset <= size && n > 0 && n <= size - offset) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "%zu bytes at %llu are no part of a piece of %llu bytes", n,
                  (unsigned long long)offset, (unsigned long long)size);
}

td_status *td_piece_cache_part(td_piece_cache *c, const td_piece_hash *hash,
                               uint64_t size, uint64_t offset,
                               const void *bytes, size_t n, bool *whole) {
  piece_entry *e = find_entry(c, hash);
  *whole = false;
  TD_TRY(check_part(e, size, offset, n));
  if (e->whole) {
    *whole = true;
    return NULL;
  }
  if (n == size) {
    td_status *s = td_piece_cache_add(c, hash, bytes, n);
    *whole = e->whole;
    return s;
  }
  if (!e->bytes) TD_TRY(take_bytes(c, e, (size_t)size));
  TD_TRY(note_span(e, (piece_span){(size_t)offset, (size_t)offset + n}));
  memcpy(e->bytes + offset, bytes, n);
  if (e->came.at[0].from > 0 || e->came.at[0].to < e->size) return NULL;
  TD_TRY(complete(c, e));
  *whole = true;
  return NULL;
}

/* ---- joining ------------------------------------------------------------- */

static td_status *sum_sizes(const td_piece_cache *c, const td_piece_hash *hash,
                            size_t n, size_t most, size_t *sum) {
  *sum = 0;
  for (size_t i = 0; i < n; i++) {
    const piece_entry *e = find_entry(c, &hash[i]);
    if (!e || !e->whole)
      return td_error(TD_NOT_FOUND, "piece %zu of %zu of a graph is not here",
                      i + 1, n);
    if (e->size > most - *sum)
      return td_error(TD_RESOURCE_EXHAUSTED,
                      "a graph of %zu pieces has more than %zu bytes", n, most);
    *sum += e->size;
  }
  return NULL;
}

td_status *td_piece_cache_join(td_piece_cache *c, const td_piece_hash *hash,
                               size_t n, size_t most, char **out, size_t *len) {
  size_t sum;
  TD_TRY(sum_sizes(c, hash, n, most, &sum));
  char *to = td_malloc(sum);
  if (!to) return td_oom();
  *out = to;
  *len = sum;
  for (size_t i = 0; i < n; i++) {
    const piece_entry *e = find_entry(c, &hash[i]);
    memcpy(to, e->bytes, e->size);
    to += e->size;
  }
  return NULL;
}
