/* fft_plan.c - what a transform of a length does, and its roots of unity.
 *
 * Roots are computed in double: exp(-2 pi i e / n) is the product of two, from
 * tables of about sqrt(n) whose angles are brought into an octant first, so
 * that a table of any length is cheap and its last bit mostly right.
 *
 * A length whose factors are 2 to 13 goes by passes. Others go through a chirp:
 * with j k = (j^2 + k^2 - (k - j)^2) / 2 a transform is a convolution with
 * exp(pi i j^2 / n), and that a product of transforms of any length >= 2 n - 1.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "kernels/fft.h"

static const double TURN = 6.283185307179586;

/* ---- roots of unity ------------------------------------------------------ */

typedef struct roots {
  int64_t n;
  int shift;          /* root e is high[e >> shift] low[e & mask] */
  double *low, *high; /* pairs */
} roots;

/* exp(-2 pi i e / n), 0 <= e < n: e / n is some quarters and at most an eighth
 * more or less. */
static void root(int64_t e, int64_t n, double *to) {
  int64_t quarter = (8 * e + n) / (2 * n), rest = 4 * e - quarter * n;
  double angle = TURN * (double)rest / (4 * (double)n);
  double c = cos(angle), s = sin(angle);
  const double turned[4][2] = {{c, -s}, {-s, -c}, {-c, s}, {s, c}};
  memcpy(to, turned[quarter & 3], 2 * sizeof *to);
}

static void roots_drop(roots *r) {
  td_free(r->low);
  td_free(r->high);
}

static td_status *roots_make(int64_t n, roots *r) {
  *r = (roots){.n = n};
  while (INT64_C(1) << 2 * r->shift < n) r->shift++;
  int64_t lows = INT64_C(1) << r->shift, highs = (n >> r->shift) + 1;
  r->low = td_malloc((size_t)lows * 2 * sizeof *r->low);
  r->high = td_malloc((size_t)highs * 2 * sizeof *r->high);
  if (!r->low || !r->high) {
    roots_drop(r);
    return td_oom();
  }
  for (int64_t i = 0; i < lows; i++) root(i % n, n, r->low + 2 * i);
  for (int64_t i = 0; i < highs; i++)
    root((i << r->shift) % n, n, r->high + 2 * i);
  return NULL;
}

/* Sets number `at` of a table to root e. */
static void put_root(const roots *r, int64_t e, bool wide, int64_t at,
                     void *table) {
  const double *a = r->high + 2 * (e >> r->shift);
  const double *b = r->low + 2 * (e & ((INT64_C(1) << r->shift) - 1));
  double re = a[0] * b[0] - a[1] * b[1], im = a[0] * b[1] + a[1] * b[0];
  if (wide) {
    ((double *)table)[2 * at] = re;
    ((double *)table)[2 * at + 1] = im;
  } else {
    ((float *)table)[2 * at] = (float)re;
    ((float *)table)[2 * at + 1] = (float)im;
  }
}

/* The same into an element of a tile: parts are `apart` reals from each other.
 */
static void put_split(const roots *r, int64_t e, bool wide, int64_t at,
                      int apart, void *table) {
  double pair[2];
  put_root(r, e, true, 0, pair);
  for (int i = 0; i < 2; i++) {
    if (wide)
      ((double *)table)[at + i * apart] = pair[i];
    else
      ((float *)table)[at + i * apart] = (float)pair[i];
  }
}

static td_status *numbers(int64_t n, bool wide, void **out) {
  size_t bytes;
  if (!td_mul((size_t)n, td_fft_complex(wide), &bytes)) return td_oom();
  *out = td_aligned_alloc(TD_FFT_LINE, bytes);
  return *out ? NULL : td_oom();
}

/* ---- passes -------------------------------------------------------------- */

/* The next factor of a length, 4 rather than 2; 0 when there is none to 13. */
static int factor_of(int64_t n) {
  static const int all[] = {4, 2, 3, 5, 7, 11, 13};
  for (int i = 0; i < (int)(sizeof all / sizeof *all); i++)
    if (n % all[i] == 0) return all[i];
  return 0;
}

static bool smooth(int64_t n) {
  int f;
  while (n > 1 && (f = factor_of(n)) != 0) n /= f;
  return n == 1;
}

/* The smallest product of 2s, 3s and 5s that is >= least; where it is long, of
 * enough 2s that tiles are full. */
static int64_t good_length(int64_t least) {
  int64_t twos = least < 1024 ? 1 : 64, best = twos;
  while (best < least) best *= 2;
  for (int64_t five = twos; five < best; five *= 5)
    for (int64_t odd = five; odd < best; odd *= 3) {
      int64_t n = odd;
      while (n < least) n *= 2;
      if (n < best) best = n;
    }
  return best;
}

static td_status *pass_make(const roots *r, bool wide, td_fft_pass *p) {
  int radix = p->radix;
  int64_t apart = r->n / (radix * p->m);
  TD_TRY(numbers(p->m * (radix - 1), wide, &p->w));
  for (int64_t i = 0; i < p->m; i++)
    for (int k = 1; k < radix; k++)
      put_root(r, i * k * apart, wide, i * (radix - 1) + k - 1, p->w);
  if (radix % 2 == 0) return NULL;
  TD_TRY(numbers(radix, wide, &p->turn));
  for (int k = 0; k < radix; k++) {
    double at[2]; /* the sine is minus the imaginary part */
    root(k, radix, at);
    for (int i = 0; i < 2; i++) {
      if (wide)
        ((double *)p->turn)[i * radix + k] = i ? -at[i] : at[i];
      else
        ((float *)p->turn)[i * radix + k] = (float)(i ? -at[i] : at[i]);
    }
  }
  return NULL;
}

static td_status *passes_make(td_fft_tile *t, bool wide) {
  roots r;
  td_status *s = NULL;
  TD_TRY(roots_make(t->n, &r));
  int64_t m = t->n, done = 1;
  while (m > 1 && td_ok(s)) {
    td_fft_pass *p = &t->pass[t->passes++];
    p->radix = factor_of(m);
    p->m = m /= p->radix;
    p->s = done;
    done *= p->radix;
    s = pass_make(&r, wide, p);
  }
  roots_drop(&r);
  return s;
}

/* ---- chirps -------------------------------------------------------------- */

/* exp(-pi i j^2 / n) for j < n. */
static td_status *chirp_make(int64_t n, bool wide, void **out) {
  roots r;
  TD_TRY(roots_make(2 * n, &r));
  td_status *s = numbers(n, wide, out);
  int64_t square = 0; /* j^2 modulo 2 n */
  for (int64_t j = 0; j < n && td_ok(s); j++) {
    put_root(&r, square, wide, j, *out);
    square = (square + 2 * j + 1) % (2 * n);
  }
  roots_drop(&r);
  return s;
}

/* The other chirp backwards and forwards, as what a line of `most` numbers is
 * convolved with; scaled for the way back. */
#define FOLD(REAL)                                                             \
  do {                                                                         \
    const REAL *from = chirp;                                                  \
    REAL *at = to, scale = (REAL)1 / (REAL)most;                               \
    for (int64_t j = 0; j < n; j++) {                                          \
      int64_t back = j == 0 ? 0 : most - j;                                    \
      at[2 * j] = at[2 * back] = from[2 * j] * scale;                          \
      at[2 * j + 1] = at[2 * back + 1] = -from[2 * j + 1] * scale;             \
    }                                                                          \
  } while (0)

static void fold(const void *chirp, int64_t n, int64_t most, bool wide,
                 void *to) {
  memset(to, 0, (size_t)most * td_fft_complex(wide));
  if (wide)
    FOLD(double);
  else
    FOLD(float);
}

/* ---- tiles --------------------------------------------------------------- */

static void tile_drop(td_fft_tile *t) {
  if (!t) return;
  for (int i = 0; i < t->passes; i++) {
    td_free(t->pass[i].w);
    td_free(t->pass[i].turn);
  }
  tile_drop(t->inner);
  td_free(t->chirp);
  td_free(t->spectrum);
  td_free(t);
}

static td_status *tile_make(int64_t n, const td_fft_plan *p, td_fft_tile **out);

/* The spectrum is that of lane 0. */
static td_status *tile_spectrum(td_fft_tile *t, const td_fft_plan *p) {
  int64_t most = t->inner->n, none = 0;
  size_t bytes = (size_t)most * 2 * TD_FFT_LINE;
  td_fft_place at = {t->spectrum, &none, 1, 1, false, false};
  char *x = td_aligned_alloc(TD_FFT_LINE, 2 * bytes);
  if (!x) return td_oom();
  fold(t->chirp, t->n, most, p->kind.wide, t->spectrum);
  p->loops->load(&at, most, x);
  const void *y = td_fft_tile_run(p->loops, t->inner, x, x + bytes);
  p->loops->store(y, most, 1, &at);
  td_free(x);
  return NULL;
}

static td_status *tile_chirp(td_fft_tile *t, const td_fft_plan *p) {
  TD_TRY(tile_make(good_length(2 * t->n - 1), p, &t->inner));
  TD_TRY(chirp_make(t->n, p->kind.wide, &t->chirp));
  TD_TRY(numbers(t->inner->n, p->kind.wide, &t->spectrum));
  return tile_spectrum(t, p);
}

static td_status *tile_make(int64_t n, const td_fft_plan *p,
                            td_fft_tile **out) {
  td_fft_tile *t = td_calloc(1, sizeof *t);
  if (!t) return td_oom();
  t->n = n;
  td_status *s = smooth(n) ? passes_make(t, p->kind.wide) : tile_chirp(t, p);
  if (td_ok(s))
    *out = t;
  else
    tile_drop(t);
  return s;
}

/* ---- rows ---------------------------------------------------------------- */

static void row_drop(td_fft_row *r) {
  if (!r) return;
  tile_drop(r->down);
  tile_drop(r->along);
  row_drop(r->inner);
  td_free(r->coarse);
  td_free(r->fine);
  td_free(r->chirp);
  td_free(r->spectrum);
  td_free(r);
}

/* The divisor of a smooth length that is nearest to its root, from below. */
static int64_t divisor(int64_t n) {
  int64_t d = (int64_t)sqrt((double)n);
  while (n % d != 0) d--;
  return d;
}

static td_status *row_turns(td_fft_row *r, bool wide) {
  roots w;
  int lanes = td_fft_lanes(wide);
  int64_t blocks = (r->columns + lanes - 1) / lanes;
  TD_TRY(roots_make(r->n, &w));
  td_status *s = numbers(blocks * r->rows, wide, &r->coarse);
  if (td_ok(s)) s = numbers(r->rows * lanes, wide, &r->fine);
  for (int64_t k = 0; k < r->rows && td_ok(s); k++) {
    for (int64_t b = 0; b < blocks; b++)
      put_root(&w, k * b * lanes % r->n, wide, b * r->rows + k, r->coarse);
    for (int l = 0; l < lanes; l++)
      put_split(&w, k * l % r->n, wide, k * 2 * lanes + l, lanes, r->fine);
  }
  roots_drop(&w);
  return s;
}

static td_status *row_make(int64_t n, const td_fft_plan *p, td_fft_row **out);

static td_status *row_split(td_fft_row *r, const td_fft_plan *p) {
  r->rows = divisor(r->n);
  r->columns = r->n / r->rows;
  TD_TRY(tile_make(r->rows, p, &r->down));
  TD_TRY(tile_make(r->columns, p, &r->along));
  return row_turns(r, p->kind.wide);
}

static td_status *row_chirp(td_fft_row *r, const td_fft_plan *p) {
  TD_TRY(row_make(good_length(2 * r->n - 1), p, &r->inner));
  TD_TRY(chirp_make(r->n, p->kind.wide, &r->chirp));
  TD_TRY(numbers(r->inner->n, p->kind.wide, &r->spectrum));
  fold(r->chirp, r->n, r->inner->n, p->kind.wide, r->spectrum);
  td_fft_line l = {.loops = p->loops,
                   .row = r->inner,
                   .wide = p->kind.wide,
                   .scale = 1,
                   .from = r->spectrum,
                   .to = r->spectrum};
  int64_t bytes = td_fft_line_room(r->inner, l.wide);
  void *room = bytes < 0 ? NULL : td_aligned_alloc(TD_FFT_LINE, (size_t)bytes);
  td_status *s = room ? td_fft_line_run(&l, room) : td_oom();
  td_free(room);
  return s;
}

static td_status *row_make(int64_t n, const td_fft_plan *p, td_fft_row **out) {
  td_fft_row *r = td_calloc(1, sizeof *r);
  if (!r) return td_oom();
  r->n = n;
  td_status *s = smooth(n) ? row_split(r, p) : row_chirp(r, p);
  if (td_ok(s))
    *out = r;
  else
    row_drop(r);
  return s;
}

/* ---- plans --------------------------------------------------------------- */

const td_fft_loops *td_fft_loops_of(bool wide, td_isa isa) {
  static const td_fft_loops *const all[2][3] = {
      {&td_fft_float_scalar, &td_fft_float_avx2, &td_fft_float_avx512},
      {&td_fft_double_scalar, &td_fft_double_avx2, &td_fft_double_avx512}};
  return all[wide][isa];
}

static td_status *half_make(td_fft_plan *p) {
  roots r;
  TD_TRY(roots_make(2 * p->kind.n, &r));
  td_status *s = numbers(p->kind.n / 2 + 1, p->kind.wide, &p->half);
  for (int64_t k = 0; k <= p->kind.n / 2 && td_ok(s); k++)
    put_root(&r, k, p->kind.wide, k, p->half);
  roots_drop(&r);
  return s;
}

td_status *td_fft_plan_new(const td_fft_kind *kind, td_fft_plan **out) {
  td_fft_plan *p = td_calloc(1, sizeof *p);
  if (!p) return td_oom();
  p->kind = *kind;
  p->loops = td_fft_loops_of(kind->wide, td_cpu_isa());
  p->refs = 1;
  td_status *s = kind->row ? row_make(kind->n, p, &p->row)
                           : tile_make(kind->n, p, &p->tile);
  if (td_ok(s) && kind->half) s = half_make(p);
  if (td_ok(s))
    *out = p;
  else
    td_fft_plan_release(p);
  return s;
}

td_fft_plan *td_fft_plan_retain(td_fft_plan *p) {
  __atomic_add_fetch(&p->refs, 1, __ATOMIC_RELAXED);
  return p;
}

void td_fft_plan_release(td_fft_plan *p) {
  if (!p || __atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
  tile_drop(p->tile);
  row_drop(p->row);
  td_free(p->half);
  td_free(p);
}
