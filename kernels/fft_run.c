/* fft_run.c - transforms of whole arrays, along an axis.
 *
 * Many short lines go through tiles, side by side; long ones one by one, either
 * spread over the threads or, where there are several of no great length, each
 * on one thread. Of reals an even number is taken as half as many pairs; an odd
 * one as complex numbers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/fft.h"

enum {
  PIECE = 16384, /* numbers that are worth a thread */
  ALONE = 65536, /* a line from here on is itself spread over threads ... */
  SEVERAL = 4,   /* ... unless there are so many */
  LANES_MAX = TD_FFT_LINE / 4,
};

typedef struct run {
  const td_fft_axis *a;
  const td_fft_plan *plan;
  td_kernel_ctx *c;
  int64_t room; /* bytes that a line needs */
  bool starved; /* atomic: a piece found no memory */
} run;

static td_status *get_plan(td_kernel_ctx *c, const td_fft_kind *kind,
                           td_fft_plan **plan) {
  return td_fft_plans_get(c->kernel->state, kind, plan);
}

static void *room_of(run *r, size_t bytes) {
  void *room = td_aligned_alloc(TD_FFT_LINE, bytes);
  if (!room) __atomic_store_n(&r->starved, true, __ATOMIC_RELAXED);
  return room;
}

/* ---- tiles --------------------------------------------------------------- */

/* Where lines [first, ...) are; lanes of them. */
static td_fft_place place_of(const run *r, const void *at, int64_t pitch,
                             int64_t first, int64_t *offset) {
  const td_fft_axis *a = r->a;
  int64_t left = a->outer * a->inner - first;
  int lanes = td_fft_lanes(a->wide), used = left < lanes ? (int)left : lanes;
  for (int l = 0; l < used; l++) {
    int64_t line = first + l;
    offset[l] = a->inner == 1
                    ? line * pitch
                    : line / a->inner * (a->n * a->inner) + line % a->inner;
  }
  return (td_fft_place){.at = (char *)(uintptr_t)at,
                        .offset = offset,
                        .step = a->inner,
                        .lanes = used,
                        .dense = offset[used - 1] - offset[0] == used - 1,
                        .swap = a->inverse};
}

static void tile_at(const run *r, int64_t first, char *x, size_t room) {
  const td_fft_axis *a = r->a;
  const td_fft_loops *f = r->plan->loops;
  int64_t offset[LANES_MAX];
  td_fft_place at = place_of(r, a->from, a->from_pitch, first, offset);
  f->load(&at, a->n, x);
  const void *y = td_fft_tile_run(f, r->plan->tile, x, x + room);
  at = place_of(r, a->to, a->to_pitch, first, offset);
  f->store(y, a->n, a->scale, &at);
}

static void tile_piece(void *arg, int64_t begin, int64_t end) {
  run *r = arg;
  size_t room = td_fft_tile_room(r->plan->tile);
  int lanes = td_fft_lanes(r->a->wide);
  char *x = room_of(r, 2 * room);
  for (int64_t i = begin; x && i < end && !td_stopped(r->c); i++)
    tile_at(r, i * lanes, x, room);
  td_free(x);
}

static void run_tiles(run *r) {
  const td_fft_axis *a = r->a;
  int lanes = td_fft_lanes(a->wide);
  int64_t each = a->n * lanes, lines = a->outer * a->inner;
  td_for(r->c, (lines + lanes - 1) / lanes, each < PIECE ? PIECE / each : 1,
         tile_piece, r);
}

/* ---- long lines ---------------------------------------------------------- */

/* Line i where it is in memory, and `step` numbers between its own. */
static const char *line_at(const td_fft_axis *a, const void *at, int64_t pitch,
                           int64_t i) {
  int64_t first = a->inner == 1
                      ? i * pitch
                      : i / a->inner * (a->n * a->inner) + i % a->inner;
  return (const char *)at + (size_t)first * td_fft_complex(a->wide);
}

static void copy_line(const td_fft_axis *a, const char *from, int64_t step,
                      char *to, int64_t to_step) {
  size_t one = td_fft_complex(a->wide);
  for (int64_t i = 0; i < a->n; i++)
    memcpy(to + (size_t)(i * to_step) * one, from + (size_t)(i * step) * one,
           one);
}

/* A line of a column is brought together first. */
static td_status *one_line(const run *r, int64_t i, bool spread, char *room) {
  const td_fft_axis *a = r->a;
  td_fft_line l = {.loops = r->plan->loops,
                   .row = r->plan->row,
                   .wide = a->wide,
                   .inverse = a->inverse,
                   .scale = a->scale,
                   .from = line_at(a, a->from, a->from_pitch, i),
                   .to = (char *)(uintptr_t)line_at(a, a->to, a->to_pitch, i),
                   .c = r->c,
                   .spread = spread};
  if (a->inner == 1) return td_fft_line_run(&l, room);
  char *to = l.to, *own = room + r->room;
  copy_line(a, l.from, a->inner, own, 1);
  l.from = l.to = own;
  TD_TRY(td_fft_line_run(&l, room));
  copy_line(a, own, 1, to, a->inner);
  return NULL;
}

static size_t line_bytes(const run *r) {
  const td_fft_axis *a = r->a;
  size_t own = a->inner == 1 ? 0 : (size_t)a->n * td_fft_complex(a->wide);
  return (size_t)r->room + own;
}

static void lines_piece(void *arg, int64_t begin, int64_t end) {
  run *r = arg;
  char *room = room_of(r, line_bytes(r));
  for (int64_t i = begin; room && i < end && !td_stopped(r->c); i++) {
    td_status *s = one_line(r, i, false, room); /* out of memory, if any */
    if (!td_ok(s)) __atomic_store_n(&r->starved, true, __ATOMIC_RELAXED);
    td_status_release(s);
  }
  td_free(room);
}

static td_status *run_lines(run *r) {
  const td_fft_axis *a = r->a;
  int64_t lines = a->outer * a->inner;
  r->room = td_fft_line_room(r->plan->row, a->wide);
  if (r->room < 0) return td_oom();
  if (lines >= SEVERAL || a->n < ALONE) {
    td_for(r->c, lines, a->n < PIECE ? PIECE / a->n : 1, lines_piece, r);
    return NULL;
  }
  td_status *s = NULL;
  char *room = td_aligned_alloc(TD_FFT_LINE, line_bytes(r));
  if (!room) return td_oom();
  for (int64_t i = 0; i < lines && td_ok(s) && !td_stopped(r->c); i++)
    s = one_line(r, i, true, room);
  td_free(room);
  return s;
}

/* ---- an axis ------------------------------------------------------------- */

static bool in_rows(int64_t n, int64_t inner) {
  return n >= (inner == 1 ? TD_FFT_SPLIT : TD_FFT_TALL);
}

static td_status *run_axis(td_kernel_ctx *c, const td_fft_axis *a,
                           const td_fft_plan *plan) {
  run r = {.a = a, .plan = plan, .c = c};
  td_status *s = NULL;
  if (plan->row)
    s = run_lines(&r);
  else
    run_tiles(&r);
  return td_ok(s) && r.starved ? td_oom() : s;
}

td_status *td_fft_run(td_kernel_ctx *c, const td_fft_axis *a) {
  td_fft_kind kind = {a->n, a->wide, in_rows(a->n, a->inner), false};
  td_fft_plan *plan;
  if (a->outer * a->n * a->inner == 0) return NULL;
  TD_TRY(get_plan(c, &kind, &plan));
  td_status *s = run_axis(c, a, plan);
  td_fft_plan_release(plan);
  return s;
}

/* ---- reals --------------------------------------------------------------- */

typedef struct reals {
  const td_fft_plan *plan;
  int64_t n;
  const char *from;
  char *to;
  size_t real; /* bytes of one */
} reals;

/* Of lines of n / 2 + 1 numbers, in place. */
static void unpack_piece(void *arg, int64_t begin, int64_t end) {
  const reals *r = arg;
  size_t line = (size_t)(r->n / 2 + 1) * 2 * r->real;
  for (int64_t i = begin; i < end; i++)
    r->plan->loops->unpack(r->n, r->plan->half, r->to + (size_t)i * line,
                           r->to + (size_t)i * line);
}

static void pack_piece(void *arg, int64_t begin, int64_t end) {
  const reals *r = arg;
  size_t line = (size_t)(r->n / 2 + 1) * 2 * r->real;
  for (int64_t i = begin; i < end; i++)
    r->plan->loops->pack(r->n, r->plan->half, r->from + (size_t)i * line,
                         r->to + (size_t)(i * r->n) * r->real);
}

static int64_t grain_of(int64_t n) {
  return n < PIECE ? PIECE / n : 1;
}

/* An even number of reals forth or back, as pairs. */
static td_status *run_pairs(td_kernel_ctx *c, bool wide, int64_t lines,
                            int64_t n, bool back, const void *x, void *y) {
  int64_t h = n / 2;
  td_fft_kind kind = {h, wide, in_rows(h, 1), true};
  td_fft_axis a = {.outer = lines,
                   .n = h,
                   .inner = 1,
                   .from = back ? y : x,
                   .to = y,
                   .from_pitch = h,
                   .to_pitch = back ? h : h + 1,
                   .inverse = back,
                   .wide = wide,
                   .scale = back ? 1 / (double)n : 1};
  td_fft_plan *plan;
  TD_TRY(get_plan(c, &kind, &plan));
  reals r = {plan, n, x, y, td_fft_complex(wide) / 2};
  if (back) td_for(c, lines, grain_of(n), pack_piece, &r);
  td_status *s = run_axis(c, &a, plan);
  if (td_ok(s) && !back) td_for(c, lines, grain_of(n), unpack_piece, &r);
  td_fft_plan_release(plan);
  return s;
}

/* Reals as complex numbers; the first half of these, and the whole of them from
 * that half; the real parts. */
static void widen_piece(void *arg, int64_t begin, int64_t end) {
  const reals *r = arg;
  size_t one = r->real;
  for (int64_t i = begin * r->n; i < end * r->n; i++) {
    memcpy(r->to + (size_t)i * 2 * one, r->from + (size_t)i * one, one);
    memset(r->to + (size_t)i * 2 * one + one, 0, one);
  }
}

static void halve_piece(void *arg, int64_t begin, int64_t end) {
  const reals *r = arg;
  size_t one = 2 * r->real, half = (size_t)(r->n / 2 + 1) * one;
  for (int64_t i = begin; i < end; i++)
    memcpy(r->to + (size_t)i * half, r->from + (size_t)(i * r->n) * one, half);
}

#define MIRROR(REAL)                                                           \
  static void mirror_##REAL(int64_t n, const REAL *x, REAL *y) {               \
    memcpy(y, x, (size_t)(n / 2 + 1) * 2 * sizeof *y);                         \
    y[1] = 0; /* of what is real it is ignored */                              \
    for (int64_t k = 1; 2 * k < n; k++) {                                      \
      y[2 * (n - k)] = y[2 * k];                                               \
      y[2 * (n - k) + 1] = -y[2 * k + 1];                                      \
    }                                                                          \
  }
MIRROR(float)
MIRROR(double)

static void mirror_piece(void *arg, int64_t begin, int64_t end) {
  const reals *r = arg;
  size_t one = 2 * r->real;
  for (int64_t i = begin; i < end; i++) {
    const void *x = r->from + (size_t)(i * (r->n / 2 + 1)) * one;
    void *y = r->to + (size_t)(i * r->n) * one;
    if (r->real == sizeof(float))
      mirror_float(r->n, x, y);
    else
      mirror_double(r->n, x, y);
  }
}

static void narrow_piece(void *arg, int64_t begin, int64_t end) {
  const reals *r = arg;
  size_t one = r->real;
  for (int64_t i = begin * r->n; i < end * r->n; i++)
    memcpy(r->to + (size_t)i * one, r->from + (size_t)i * 2 * one, one);
}

/* An odd number of them. */
static td_status *run_odd(td_kernel_ctx *c, bool wide, int64_t lines, int64_t n,
                          bool back, const void *x, void *y) {
  td_tensor t = {0};
  td_shape shape = td_shape_matrix(lines, n);
  TD_TRY(td_temp(c, wide ? TD_COMPLEX128 : TD_COMPLEX64, &shape, &t));
  reals in = {NULL, n, x, t.data, td_fft_complex(wide) / 2};
  reals out = {NULL, n, t.data, y, in.real};
  td_fft_axis a = {.outer = lines,
                   .n = n,
                   .inner = 1,
                   .from = t.data,
                   .to = t.data,
                   .from_pitch = n,
                   .to_pitch = n,
                   .inverse = back,
                   .wide = wide,
                   .scale = back ? 1 / (double)n : 1};
  td_for(c, lines, grain_of(n), back ? mirror_piece : widen_piece, &in);
  td_status *s = td_fft_run(c, &a);
  if (td_ok(s))
    td_for(c, lines, grain_of(n), back ? narrow_piece : halve_piece, &out);
  td_tensor_release(&t);
  return s;
}

static td_status *run_reals(td_kernel_ctx *c, bool wide, int64_t lines,
                            int64_t n, bool back, const void *x, void *y) {
  if (lines == 0 || n == 0) return NULL;
  return n % 2 == 0 ? run_pairs(c, wide, lines, n, back, x, y)
                    : run_odd(c, wide, lines, n, back, x, y);
}

td_status *td_fft_forth(td_kernel_ctx *c, bool wide, int64_t lines, int64_t n,
                        const void *x, void *y) {
  return run_reals(c, wide, lines, n, false, x, y);
}

td_status *td_fft_back(td_kernel_ctx *c, bool wide, int64_t lines, int64_t n,
                       const void *y, void *x) {
  return run_reals(c, wide, lines, n, true, y, x);
}
