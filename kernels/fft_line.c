/* fft_line.c - the transform of a tile, and of one line of any length.
 *
 * A line of rows x columns numbers: blocks of columns go through tiles of
 * length `rows` into a matrix of rows of elements (the middle), then blocks of
 * its rows through tiles of length `columns` to where they belong. Blocks are
 * spread over threads; each is the same work wherever it runs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/fft.h"

enum {
  ELEMENT = 2 * TD_FFT_LINE, /* bytes of one in a tile */
  PIECE = 16384,             /* numbers that are worth a thread */
};

/* ---- tiles --------------------------------------------------------------- */

size_t td_fft_tile_room(const td_fft_tile *t) {
  return (size_t)(t->inner ? t->inner->n : t->n) * ELEMENT;
}

static void *run_passes(const td_fft_loops *f, const td_fft_tile *t, void *x,
                        void *y) {
  for (int i = 0; i < t->passes; i++) {
    void *next = x;
    f->pass(&t->pass[i], x, y);
    x = y;
    y = next;
  }
  return x;
}

/* The convolution's second transform is of exchanged parts, that is backwards;
 * the last product sets them right. */
static void *run_chirp(const td_fft_loops *f, const td_fft_tile *t, void *x,
                       void *y) {
  size_t used = (size_t)t->n * ELEMENT;
  f->times(t->n, t->chirp, 0, x, y);
  memset((char *)y + used, 0, td_fft_tile_room(t) - used);
  void *z = run_passes(f, t->inner, y, x), *other = z == x ? y : x;
  f->times(t->inner->n, t->spectrum, TD_FFT_SWAP, z, other);
  z = run_passes(f, t->inner, other, z);
  other = z == x ? y : x;
  f->times(t->n, t->chirp, TD_FFT_CONJ | TD_FFT_SWAP, z, other);
  return other;
}

void *td_fft_tile_run(const td_fft_loops *f, const td_fft_tile *t, void *x,
                      void *y) {
  return t->inner ? run_chirp(f, t, x, y) : run_passes(f, t, x, y);
}

/* ---- four steps ---------------------------------------------------------- */

typedef struct steps {
  const td_fft_line *line;
  char *middle;   /* rows of `blocks` elements */
  int64_t blocks; /* of columns */
  char *tiles;    /* two buffers; NULL: every piece has its own */
  size_t room;    /* bytes of one */
  bool starved;   /* atomic: a piece found no memory */
} steps;

static size_t tiles_room(const td_fft_row *r) {
  size_t down = td_fft_tile_room(r->down), along = td_fft_tile_room(r->along);
  return down > along ? down : along;
}

static int64_t blocks_of(int64_t n, bool wide) {
  int lanes = td_fft_lanes(wide);
  return (n + lanes - 1) / lanes;
}

/* Lanes from `first` on, n in all, that are next to each other. */
static td_fft_place place_of(const td_fft_line *l, const void *at,
                             const int64_t *first, int64_t n, int64_t step) {
  int64_t left = n - *first;
  int lanes = td_fft_lanes(l->wide);
  return (td_fft_place){.at = (char *)(uintptr_t)at,
                        .offset = first,
                        .step = step,
                        .lanes = left < lanes ? (int)left : lanes,
                        .dense = true,
                        .swap = l->inverse};
}

static void step_down(const steps *s, int64_t b, char *x) {
  const td_fft_line *l = s->line;
  const td_fft_row *r = l->row;
  int64_t first = b * td_fft_lanes(l->wide);
  size_t turns = (size_t)(b * r->rows) * td_fft_complex(l->wide);
  td_fft_place at = place_of(l, l->from, &first, r->columns, r->columns);
  l->loops->load(&at, r->rows, x);
  const void *z = td_fft_tile_run(l->loops, r->down, x, x + s->room);
  l->loops->twist(r->rows, (const char *)r->coarse + turns, r->fine, z,
                  s->blocks, s->middle + b * ELEMENT);
}

static void step_along(const steps *s, int64_t b, char *x) {
  const td_fft_line *l = s->line;
  const td_fft_row *r = l->row;
  int64_t first = b * td_fft_lanes(l->wide);
  td_fft_place to = place_of(l, l->to, &first, r->rows, r->rows);
  l->loops->turn(s->middle + first * s->blocks * ELEMENT, s->blocks, r->columns,
                 x);
  const void *z = td_fft_tile_run(l->loops, r->along, x, x + s->room);
  l->loops->store(z, r->columns, l->scale, &to);
}

static void each_block(steps *s, int64_t begin, int64_t end,
                       void (*step)(const steps *s, int64_t b, char *x)) {
  const td_kernel_ctx *c = s->line->c;
  char *own = s->tiles ? NULL : td_aligned_alloc(TD_FFT_LINE, 2 * s->room);
  char *x = s->tiles ? s->tiles : own;
  if (!x) __atomic_store_n(&s->starved, true, __ATOMIC_RELAXED);
  for (int64_t b = begin; x && b < end; b++) {
    if (c && td_stopped(c)) break;
    step(s, b, x);
  }
  td_free(own);
}

static void down_piece(void *arg, int64_t begin, int64_t end) {
  each_block(arg, begin, end, step_down);
}
static void along_piece(void *arg, int64_t begin, int64_t end) {
  each_block(arg, begin, end, step_along);
}

/* `each` numbers are a block's. */
static void all_blocks(steps *s, int64_t n, int64_t each,
                       void (*piece)(void *arg, int64_t begin, int64_t end)) {
  const td_fft_line *l = s->line;
  if (l->spread)
    td_for(l->c, n, each < PIECE ? PIECE / each : 1, piece, s);
  else
    piece(s, 0, n);
}

static td_status *run_split(const td_fft_line *l, char *room) {
  const td_fft_row *r = l->row;
  int lanes = td_fft_lanes(l->wide);
  steps s = {.line = l,
             .middle = room,
             .blocks = blocks_of(r->columns, l->wide),
             .room = tiles_room(r)};
  size_t row = (size_t)s.blocks * ELEMENT;
  int64_t all = blocks_of(r->rows, l->wide) * lanes;
  memset(room + (size_t)r->rows * row, 0, (size_t)(all - r->rows) * row);
  if (!l->spread) s.tiles = room + (size_t)all * row;
  all_blocks(&s, s.blocks, r->rows * lanes, down_piece);
  all_blocks(&s, blocks_of(r->rows, l->wide), r->columns * lanes, along_piece);
  return s.starved ? td_oom() : NULL;
}

/* ---- chirps -------------------------------------------------------------- */

static td_status *run_row_chirp(const td_fft_line *l, char *room) {
  const td_fft_row *r = l->row;
  const td_fft_loops *f = l->loops;
  int64_t n = r->n, most = r->inner->n;
  size_t one = td_fft_complex(l->wide);
  char *x = room, *rest = room + (((size_t)most * one + 63) & ~(size_t)63);
  td_fft_line in = *l;
  in.row = r->inner;
  in.inverse = false;
  in.scale = 1;
  in.from = in.to = x;
  f->product(n, r->chirp, l->inverse ? TD_FFT_CONJ | TD_FFT_SWAP : 0, 1,
             l->from, x);
  memset(x + (size_t)n * one, 0, (size_t)(most - n) * one);
  TD_TRY(td_fft_line_run(&in, rest));
  f->product(most, r->spectrum, TD_FFT_SWAP, 1, x, x);
  TD_TRY(td_fft_line_run(&in, rest));
  f->product(n, r->chirp, TD_FFT_CONJ | (l->inverse ? 0 : TD_FFT_SWAP),
             l->scale, x, l->to);
  return NULL;
}

/* ---- lines --------------------------------------------------------------- */

int64_t td_fft_line_room(const td_fft_row *r, bool wide) {
  size_t bytes, tiles;
  if (r->inner) {
    int64_t inner = td_fft_line_room(r->inner, wide);
    size_t own = (size_t)r->inner->n * td_fft_complex(wide) + TD_FFT_LINE;
    return inner < 0 ? -1 : inner + (int64_t)own;
  }
  tiles = tiles_room(r);
  size_t all = (size_t)blocks_of(r->rows, wide) * (size_t)td_fft_lanes(wide);
  if (!td_mul((size_t)blocks_of(r->columns, wide) * ELEMENT, all, &bytes) ||
      !td_add(bytes, 2 * tiles, &bytes) || bytes > INT64_MAX)
    return -1;
  return (int64_t)bytes;
}

td_status *td_fft_line_run(const td_fft_line *l, void *room) {
  return l->row->inner ? run_row_chirp(l, room) : run_split(l, room);
}
