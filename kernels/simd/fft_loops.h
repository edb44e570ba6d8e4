/* fft_loops.h - the loops of fft.h as FFT_LOOPS, for reals of type REAL in
 * vectors of PART.
 *
 * Included once by each fft_<precision>_<processor>.c. Products and sums are
 * never contracted and lanes never meet, so that all processors agree.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/fft.h"
#include "kernels/simd/vec.h"

typedef REAL lane __attribute__((vector_size(PART * sizeof(REAL))));
typedef REAL loose /* anywhere in memory */
    __attribute__((vector_size(PART * sizeof(REAL)), aligned(sizeof(REAL))));

enum {
  LANES = TD_FFT_LINE / sizeof(REAL),
  STEP = 2 * LANES, /* reals of an element of a tile */
};

typedef struct number {
  lane re, im;
} number;

static inline number get(const REAL *at) {
  return (number){*(const lane *)(const void *)at,
                  *(const lane *)(const void *)(at + LANES)};
}
static inline void put(number a, REAL *at) {
  *(lane *)(void *)at = a.re;
  *(lane *)(void *)(at + LANES) = a.im;
}
static inline number add(number a, number b) {
  return (number){a.re + b.re, a.im + b.im};
}
static inline number sub(number a, number b) {
  return (number){a.re - b.re, a.im - b.im};
}
static inline number mul(number a, REAL re, REAL im) {
  return (number){a.re * re - a.im * im, a.re * im + a.im * re};
}
static inline number both(number a, number b) { /* a b */
  return (number){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
static inline number down(number a) { /* -i a */
  return (number){a.im, -a.re};
}

/* ---- passes -------------------------------------------------------------- */

/* b[k] *= w[k - 1], unless p is 0, where all are 1. */
static inline void twiddle(bool turned, const REAL *w, int radix, number *b) {
  if (turned)
    for (int k = 1; k < radix; k++)
      b[k] = mul(b[k], w[2 * k - 2], w[2 * k - 1]);
}

static inline void radix2(number *a) {
  number t = a[0];
  a[0] = add(t, a[1]);
  a[1] = sub(t, a[1]);
}

static inline void radix4(number *a) {
  number s = add(a[0], a[2]), d = sub(a[0], a[2]);
  number t = add(a[1], a[3]), e = down(sub(a[1], a[3]));
  a[0] = add(s, t);
  a[1] = add(d, e);
  a[2] = sub(s, t);
  a[3] = sub(d, e);
}

/* Numbers k and r - k of the result share their sums: cosines of a[j] + a[r -
 * j], sines of a[j] - a[r - j]. */
static inline void radix_odd(int r, const REAL *turn, number *a) {
  number b[TD_FFT_MAX_RADIX], first = a[0];
  for (int j = 1; 2 * j < r; j++) {
    b[j] = add(a[j], a[r - j]);
    b[r - j] = sub(a[j], a[r - j]);
    a[0] = add(a[0], b[j]);
  }
  for (int k = 1; 2 * k < r; k++) {
    number c = first, s = {{0}, {0}};
    for (int j = 1; 2 * j < r; j++) {
      int at = j * k % r;
      c.re += b[j].re * turn[at];
      c.im += b[j].im * turn[at];
      s.re += b[r - j].re * turn[r + at];
      s.im += b[r - j].im * turn[r + at];
    }
    a[k] = add(c, down(s));
    a[r - k] = sub(c, down(s));
  }
}

static inline void pass_at(const td_fft_pass *p, int r, bool turned,
                           int64_t at, const REAL *x, REAL *y) {
  int64_t far = p->m * p->s * STEP, near = p->s * STEP;
  const REAL *w = (const REAL *)p->w + 2 * (r - 1) * at;
  x += at * near;
  y += r * at * near;
  for (int64_t q = 0; q < near; q += STEP) {
    for (int v = 0; v < LANES; v += PART) {
      number a[TD_FFT_MAX_RADIX];
      for (int j = 0; j < r; j++) a[j] = get(x + q + v + j * far);
      if (r == 2)
        radix2(a);
      else if (r == 4)
        radix4(a);
      else
        radix_odd(r, p->turn, a);
      twiddle(turned, w, r, a);
      for (int k = 0; k < r; k++) put(a[k], y + q + v + k * near);
    }
  }
}

static inline void pass_of(const td_fft_pass *p, int r, const REAL *x,
                           REAL *y) {
  pass_at(p, r, false, 0, x, y);
  for (int64_t at = 1; at < p->m; at++) pass_at(p, r, true, at, x, y);
}

/* Each radix has code of its own. */
static void pass(const td_fft_pass *p, const void *x, void *y) {
  switch (p->radix) {
    case 2: pass_of(p, 2, x, y); break;
    case 3: pass_of(p, 3, x, y); break;
    case 4: pass_of(p, 4, x, y); break;
    case 5: pass_of(p, 5, x, y); break;
    default: pass_of(p, p->radix, x, y); break;
  }
}

/* ---- rows and columns ---------------------------------------------------- */

#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#if PART == 2
#define LOW(a, b) SHUFFLE(a, b, 0, 2)
#define HIGH(a, b) SHUFFLE(a, b, 1, 3)
#elif PART == 4
#define LOW(a, b) SHUFFLE(a, b, 0, 4, 1, 5)
#define HIGH(a, b) SHUFFLE(a, b, 2, 6, 3, 7)
#elif PART == 8
#define LOW(a, b) SHUFFLE(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(a, b) SHUFFLE(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define LOW(a, b)                                                              \
  SHUFFLE(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH(a, b)                                                             \
  SHUFFLE(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#endif

/* Rows become columns, by shuffling one half into the other. */
static inline void flip(lane *a) {
  for (int half = 1; half < PART; half *= 2) {
    lane b[PART];
    for (int i = 0; i < PART / 2; i++) {
      b[2 * i] = LOW(a[i], a[i + PART / 2]);
      b[2 * i + 1] = HIGH(a[i], a[i + PART / 2]);
    }
    for (int i = 0; i < PART; i++) a[i] = b[i];
  }
}

static inline lane get_loose(const REAL *at) {
  return *(const loose *)(const void *)at;
}

/* Where real c of a number in memory has its lanes in a tile. */
static inline int64_t column(int64_t c, int im) {
  return c / 2 * STEP + (c % 2 ? im : LANES - im);
}

/* Lanes that are lines of numbers in a row: n of them, LANES / 2 at a time. */
static int64_t load_rows(const td_fft_place *from, int64_t n, int im, REAL *y) {
  const REAL *at = (const REAL *)(const void *)from->at;
  int64_t i = 0;
  for (; i + LANES / 2 <= n; i += LANES / 2)
    for (int l = 0; l < LANES; l += PART)
      for (int c = 0; c < LANES; c += PART) {
        lane a[PART];
        for (int k = 0; k < PART; k++)
          a[k] = get_loose(at + 2 * (from->offset[l + k] + i) + c);
        flip(a);
        for (int k = 0; k < PART; k++)
          *(lane *)(void *)(y + column(2 * i + c + k, im) + l) = a[k];
      }
  return i;
}

static int64_t store_rows(const REAL *x, int64_t n, REAL by, int im,
                          const td_fft_place *to) {
  REAL *at = (REAL *)(void *)to->at;
  int64_t i = 0;
  for (; i + LANES / 2 <= n; i += LANES / 2)
    for (int l = 0; l < LANES; l += PART)
      for (int c = 0; c < LANES; c += PART) {
        lane a[PART];
        for (int k = 0; k < PART; k++)
          a[k] = *(const lane *)(const void *)(x + column(2 * i + c + k, im) +
                                               l) *
                 by;
        flip(a);
        for (int k = 0; k < PART; k++)
          *(loose *)(void *)(at + 2 * (to->offset[l + k] + i) + c) = a[k];
      }
  return i;
}

static void turn(const void *rows, int64_t pitch, int64_t n, void *tile) {
  for (int64_t j = 0; j < n; j += PART)
    for (int l = 0; l < LANES; l += PART)
      for (int im = 0; im < STEP; im += LANES) {
        const REAL *x = (const REAL *)rows + j / LANES * STEP + j % LANES + im;
        REAL *y = (REAL *)tile + j * STEP + im + l;
        lane a[PART];
        for (int k = 0; k < PART; k++)
          a[k] = *(const lane *)(const void *)(x + (l + k) * pitch * STEP);
        flip(a);
        for (int k = 0; k < PART && j + k < n; k++)
          *(lane *)(void *)(y + k * STEP) = a[k];
      }
}

/* ---- in and out ---------------------------------------------------------- */

static void load_dense(const REAL *x, int64_t step, int64_t n, int lanes,
                       int im, REAL *y) {
  for (int64_t i = 0; i < n; i++, x += 2 * step, y += STEP) {
    REAL *re = y + (LANES - im), *of = y + im;
    TD_VEC_LOOP
    for (int l = 0; l < lanes; l++) {
      re[l] = x[2 * l];
      of[l] = x[2 * l + 1];
    }
    for (int l = lanes; l < LANES; l++) re[l] = of[l] = 0;
  }
}

/* Numbers [i, n) of lanes that are anywhere. */
static void load_any(const td_fft_place *from, int64_t i, int64_t n, int im,
                     REAL *y) {
  for (int l = 0; l < LANES; l++) {
    bool used = l < from->lanes;
    const REAL *x = (const REAL *)(const void *)from->at +
                    2 * (used ? from->offset[l] : 0);
    REAL *re = y + (LANES - im) + l, *of = y + im + l;
    for (int64_t k = i; k < n; k++) {
      re[k * STEP] = used ? x[2 * k * from->step] : 0;
      of[k * STEP] = used ? x[2 * k * from->step + 1] : 0;
    }
  }
}

static void load(const td_fft_place *from, int64_t n, void *tile) {
  int im = from->swap ? 0 : LANES;
  int64_t done = 0;
  const REAL *first =
      (const REAL *)(const void *)from->at + 2 * from->offset[0];
  if (from->dense && from->lanes == LANES) {
    load_dense(first, from->step, n, LANES, im, tile);
  } else if (from->dense) {
    load_dense(first, from->step, n, from->lanes, im, tile);
  } else {
    if (from->lanes == LANES && from->step == 1)
      done = load_rows(from, n, im, tile);
    load_any(from, done, n, im, tile);
  }
}

static void store_dense(const REAL *x, int64_t n, REAL scale, int lanes, int im,
                        int64_t step, REAL *y) {
  for (int64_t i = 0; i < n; i++, x += STEP, y += 2 * step) {
    const REAL *re = x + (LANES - im), *of = x + im;
    TD_VEC_LOOP
    for (int l = 0; l < lanes; l++) {
      y[2 * l] = re[l] * scale;
      y[2 * l + 1] = of[l] * scale;
    }
  }
}

static void store_any(const REAL *x, int64_t i, int64_t n, REAL scale, int im,
                      const td_fft_place *to) {
  for (int l = 0; l < to->lanes; l++) {
    const REAL *re = x + (LANES - im) + l, *of = x + im + l;
    REAL *y = (REAL *)(void *)to->at + 2 * to->offset[l];
    for (int64_t k = i; k < n; k++) {
      y[2 * k * to->step] = re[k * STEP] * scale;
      y[2 * k * to->step + 1] = of[k * STEP] * scale;
    }
  }
}

static void store(const void *tile, int64_t n, double scale,
                  const td_fft_place *to) {
  int im = to->swap ? 0 : LANES;
  int64_t done = 0;
  REAL *first = (REAL *)(void *)to->at + 2 * to->offset[0], by = (REAL)scale;
  if (to->dense && to->lanes == LANES) {
    store_dense(tile, n, by, LANES, im, to->step, first);
  } else if (to->dense) {
    store_dense(tile, n, by, to->lanes, im, to->step, first);
  } else {
    if (to->lanes == LANES && to->step == 1)
      done = store_rows(tile, n, by, im, to);
    store_any(tile, done, n, by, im, to);
  }
}

/* ---- between ------------------------------------------------------------- */

static void twist(int64_t n, const void *coarse, const void *fine,
                  const void *from, int64_t pitch, void *to) {
  const REAL *c = coarse, *f = fine, *x = from;
  REAL *y = to;
  for (int64_t i = 0; i < n; i++, c += 2, f += STEP, x += STEP)
    for (int v = 0; v < LANES; v += PART)
      put(both(get(x + v), mul(get(f + v), c[0], c[1])),
          y + i * pitch * STEP + v);
}

static void times(int64_t n, const void *numbers, int how, const void *from,
                  void *to) {
  const REAL *w = numbers, *x = from, sign = how & TD_FFT_CONJ ? -1 : 1;
  REAL *y = to;
  for (int64_t i = 0; i < n; i++, w += 2, x += STEP, y += STEP)
    for (int v = 0; v < LANES; v += PART) {
      number a = mul(get(x + v), w[0], w[1] * sign);
      put(how & TD_FFT_SWAP ? (number){a.im, a.re} : a, y + v);
    }
}

/* ---- numbers in a row ---------------------------------------------------- */

static void product(int64_t n, const void *numbers, int how, double scale,
                    const void *from, void *to) {
  const REAL *w = numbers, *x = from;
  REAL *y = to, by = (REAL)scale, sign = how & TD_FFT_CONJ ? -by : by;
  int im = how & TD_FFT_SWAP ? 0 : 1;
  TD_VEC_LOOP
  for (int64_t i = 0; i < n; i++) {
    REAL c = w[2 * i] * by, s = w[2 * i + 1] * sign;
    REAL a = x[2 * i] * c - x[2 * i + 1] * s;
    REAL b = x[2 * i] * s + x[2 * i + 1] * c;
    y[2 * i + 1 - im] = a;
    y[2 * i + im] = b;
  }
}

/* ---- reals as pairs ------------------------------------------------------ */

/* Z = E + i O, of even and odd reals, whose transforms are Hermitian; X[k] =
 * E[k] + w^k O[k]. Numbers k and h - k come from the same two. */
static void unpack(int64_t n, const void *ws, const void *zs, void *ys) {
  int64_t h = n / 2;
  const REAL *w = ws, *z = zs;
  REAL *y = ys, first = z[0] + z[1], last = z[0] - z[1];
  for (int64_t k = 1; 2 * k <= h; k++) {
    const REAL *a = z + 2 * k, *b = z + 2 * (h - k);
    REAL even_re = (REAL)0.5 * (a[0] + b[0]), even_im = (REAL)0.5 * (a[1] - b[1]);
    REAL odd_re = (REAL)0.5 * (a[1] + b[1]), odd_im = (REAL)0.5 * (b[0] - a[0]);
    REAL re = odd_re * w[2 * k] - odd_im * w[2 * k + 1];
    REAL im = odd_re * w[2 * k + 1] + odd_im * w[2 * k];
    y[2 * k] = even_re + re;
    y[2 * k + 1] = even_im + im;
    if (2 * k == h) break;
    y[2 * (h - k)] = even_re - re;
    y[2 * (h - k) + 1] = im - even_im;
  }
  y[0] = first;
  y[1] = 0;
  y[2 * h] = last;
  y[2 * h + 1] = 0;
}

/* Back: E[k] = X[k] + conj X[h - k] and O[k] = (X[k] - conj X[h - k]) / w^k,
 * both twice what they are. */
static void pack(int64_t n, const void *ws, const void *xs, void *zs) {
  int64_t h = n / 2;
  const REAL *w = ws, *x = xs;
  REAL *z = zs;
  z[0] = x[0] + x[2 * h];
  z[1] = x[0] - x[2 * h];
  for (int64_t k = 1; 2 * k <= h; k++) {
    const REAL *a = x + 2 * k, *b = x + 2 * (h - k);
    REAL even_re = a[0] + b[0], even_im = a[1] - b[1];
    REAL odd_re = a[0] - b[0], odd_im = a[1] + b[1];
    REAL re = odd_re * w[2 * k] + odd_im * w[2 * k + 1];
    REAL im = odd_im * w[2 * k] - odd_re * w[2 * k + 1];
    z[2 * k] = even_re - im;
    z[2 * k + 1] = even_im + re;
    if (2 * k == h) break;
    z[2 * (h - k)] = even_re + im;
    z[2 * (h - k) + 1] = re - even_im;
  }
}

const td_fft_loops FFT_LOOPS = {pass, load,    store,  twist, times,
                                turn, product, unpack, pack};
