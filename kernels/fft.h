/* fft.h - discrete Fourier transforms of any length in O(n log n).
 *
 * Transforms run side by side in *tiles*: as many as there are reals in 64
 * bytes, each in a lane of its own, so that every step is vectors whatever the
 * length. An element of a tile is 64 bytes of real parts and 64 of imaginary
 * ones. A tile is transformed by Stockham's passes of radix 4, 2 and the odd
 * primes to 13, from one buffer to the other and back (fft_plan.c).
 *
 * A line that is long is itself made of tiles: n = rows * columns, columns are
 * transformed, turned by roots of unity, then rows (Bailey's four steps). Other
 * lengths are convolved with a chirp, whose transforms are of a length of small
 * factors (Bluestein). Which way is taken depends on sizes only, and lanes do
 * not depend on each other: bits depend neither on threads nor on processors.
 *
 * The inverse is the same transform with real and imaginary parts exchanged on
 * the way in and out.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FFT_H
#define TD_FFT_H

#include "engine/base/cpu.h"
#include "engine/device/kernel.h"

TD_BEGIN

enum {
  TD_FFT_LINE = 64,       /* bytes of the real parts of an element of a tile */
  TD_FFT_MAX_RADIX = 13,  /* of a pass */
  TD_FFT_MAX_PASSES = 64, /* of a length below 2^63 */
  TD_FFT_SPLIT = 256,     /* lines from here on are of four steps ... */
  TD_FFT_TALL = 8192,     /* ... and columns from here on */
};

/* One pass: y[q + s (r p + k)] = w(r m)^(p k) sum_j w(r)^(j k) x[q + s (p + m
 * j)], for k, j < r, p < m, q < s, where w(n) = exp(-2 pi i / n). */
typedef struct td_fft_pass {
  int32_t radix;
  int64_t m, s;
  void *w;    /* w(r m)^(p k) at p (r - 1) + k - 1, complex */
  void *turn; /* of odd radices: r cosines and r sines of 2 pi k / r */
} td_fft_pass;

/* Of products: take w's conjugate; exchange the parts of the result. */
enum { TD_FFT_CONJ = 1, TD_FFT_SWAP = 2 };

/* Where the complex numbers of a tile lie: element i of lane l at
 * at + 2 (offset[l] + i step) reals. */
typedef struct td_fft_place {
  char *at;
  const int64_t *offset;
  int64_t step;
  int lanes;  /* in use; the rest are zeros */
  bool dense; /* lane l is at offset[0] + l, whatever else offset has */
  bool swap;  /* imaginary parts come first */
} td_fft_place;

/* The loops, by precision and instruction set; same bits from each. Tiles are
 * aligned to 64 bytes. */
typedef struct td_fft_loops {
  void (*pass)(const td_fft_pass *p, const void *x, void *y);
  /* n elements into a tile, and out of it times a scale. */
  void (*load)(const td_fft_place *from, int64_t n, void *tile);
  void (*store)(const void *tile, int64_t n, double scale,
                const td_fft_place *to);
  /* y[i] = x[i] coarse[i] fine[i]: n elements of a tile, numbers and elements
   * again; those of y are `pitch` elements apart. */
  void (*twist)(int64_t n, const void *coarse, const void *fine, const void *x,
                int64_t pitch, void *y);
  /* y[i] = x[i] w[i], each w[i] one number; `how`: TD_FFT_CONJ, TD_FFT_SWAP. */
  void (*times)(int64_t n, const void *w, int how, const void *x, void *y);
  /* Element j of the tile is lane j of elements in as many rows as there are
   * lanes, `pitch` elements apart; its lanes are in rows of elements. */
  void (*turn)(const void *rows, int64_t pitch, int64_t n, void *tile);
  /* The same of numbers in a row, and times a scale. */
  void (*product)(int64_t n, const void *w, int how, double scale,
                  const void *x, void *y);
  /* From the transform z of n / 2 pairs of reals to that of the n reals, and
   * back, where the halves are not taken; w(n)^k for k <= n / 4. `y` may be
   * `z`. */
  void (*unpack)(int64_t n, const void *w, const void *z, void *y);
  void (*pack)(int64_t n, const void *w, const void *x, void *z);
} td_fft_loops;

extern const td_fft_loops td_fft_float_scalar, td_fft_float_avx2,
    td_fft_float_avx512, td_fft_double_scalar, td_fft_double_avx2,
    td_fft_double_avx512;
const td_fft_loops *td_fft_loops_of(bool wide, td_isa isa);

/* ---- plans (fft_plan.c) -------------------------------------------------- */

/* How a tile of n elements is transformed: passes, or through a chirp. */
typedef struct td_fft_tile {
  int64_t n;
  int passes;
  td_fft_pass pass[TD_FFT_MAX_PASSES];
  struct td_fft_tile *inner; /* of the chirp's length, or NULL */
  void *chirp, *spectrum;    /* n and inner->n numbers; the latter / its n */
} td_fft_tile;

/* How n numbers in a row are: in four steps, or through a chirp. */
typedef struct td_fft_row td_fft_row;
struct td_fft_row {
  int64_t n, rows, columns;
  td_fft_tile *down, *along; /* of lengths rows and columns */
  void *coarse;              /* w(n)^(k b lanes) for blocks b, rows k */
  void *fine;                /* w(n)^(k l), elements for rows k */
  td_fft_row *inner;         /* of the chirp's length, or NULL */
  void *chirp, *spectrum;
};

/* What a plan is for: one may be kept for many runs. */
typedef struct td_fft_kind {
  int64_t n;
  bool wide; /* double */
  bool row;  /* numbers in a row, in four steps, rather than tiles */
  bool half; /* the transform of 2 n reals */
} td_fft_kind;

/* All that transforms of a length and precision need. */
typedef struct td_fft_plan {
  td_fft_kind kind;
  const td_fft_loops *loops;
  td_fft_tile *tile; /* one of them */
  td_fft_row *row;
  void *half;   /* w(2 n)^k for k <= n / 2: of 2 n reals as n pairs */
  int32_t refs; /* atomic */
} td_fft_plan;

/* Caller owns the result; n >= 1. */
td_status *td_fft_plan_new(const td_fft_kind *kind,
                           td_fft_plan **out) TD_MUST_USE;
td_fft_plan *td_fft_plan_retain(td_fft_plan *p);
void td_fft_plan_release(td_fft_plan *p);

static inline int td_fft_lanes(bool wide) {
  return TD_FFT_LINE / (wide ? 8 : 4);
}
static inline size_t td_fft_complex(bool wide) { /* bytes */
  return wide ? 16 : 8;
}

/* ---- plans of a kernel (fft_plans.c) ------------------------------------- */

/* A kernel's state: the plans of its last lengths. */
td_status *td_fft_plans_make(const td_kernel_info *info,
                             void **state) TD_MUST_USE;
void td_fft_plans_drop(void *state);
/* Caller owns the result. */
td_status *td_fft_plans_get(void *state, const td_fft_kind *kind,
                            td_fft_plan **out) TD_MUST_USE;

/* ---- tiles and rows (fft_line.c) ----------------------------------------- */

/* Bytes of each of the two buffers of a tile. */
size_t td_fft_tile_room(const td_fft_tile *t);
/* Transforms what is in x, with the help of y; which of them has the result. */
void *td_fft_tile_run(const td_fft_loops *f, const td_fft_tile *t, void *x,
                      void *y);

/* A transform of numbers in a row. */
typedef struct td_fft_line {
  const td_fft_loops *loops;
  const td_fft_row *row;
  bool wide, inverse;
  double scale;
  const void *from;
  void *to;         /* may be `from` */
  td_kernel_ctx *c; /* NULL: cannot be stopped */
  bool spread;      /* over the kernel's threads; else on this one */
} td_fft_line;

/* Bytes that a line needs beside its own, aligned to 64; -1: too many. */
int64_t td_fft_line_room(const td_fft_row *r, bool wide);
td_status *td_fft_line_run(const td_fft_line *l, void *room) TD_MUST_USE;

/* ---- running (fft_run.c) ------------------------------------------------- */

/* A dense array of complex numbers {outer, n, inner}, transformed along n. In
 * memory a line of `from` is from_pitch numbers after the one before it, when
 * inner is 1. */
typedef struct td_fft_axis {
  int64_t outer, n, inner;
  const void *from;
  void *to; /* may be `from`, when pitches agree */
  int64_t from_pitch, to_pitch;
  bool inverse, wide;
  double scale;
} td_fft_axis;

/* Transforms every line, on the threads of the kernel. */
td_status *td_fft_run(td_kernel_ctx *c, const td_fft_axis *a) TD_MUST_USE;
/* Lines of n reals to n / 2 + 1 complex numbers, and back (times 1 / n). */
td_status *td_fft_forth(td_kernel_ctx *c, bool wide, int64_t lines, int64_t n,
                        const void *x, void *y) TD_MUST_USE;
td_status *td_fft_back(td_kernel_ctx *c, bool wide, int64_t lines, int64_t n,
                       const void *y, void *x) TD_MUST_USE;

TD_END
#endif
