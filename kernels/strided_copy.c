/* strided_copy.c - strided copies; see strided_copy.h.
 *
 * A copy is first brought into its simplest form: loops that run once go, loops
 * that continue each other become one, and a short dense run becomes an
 * element of twice, four times, ... the size. What then is innermost decides:
 *   run        dense on both sides: memcpy
 *   fill       one source element again and again
 *   transpose  the source is dense along another loop: done in blocks that
 *              stay in the cache
 *   step       anything else: element by element
 * The work is cut into units, each a row, a part of a row, or a rectangle of
 * blocks; units depend on the sizes only.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/strided_copy.h"

#include <emmintrin.h>
#include <string.h>

#include "kernels/array.h"

enum {
  BLOCK = 32,      /* elements along a side of a block */
  LONG_SIDE = 512, /* elements along the long side of a rectangle */
  PIECE = 1 << 17, /* bytes of a piece of work, about */
  WIDEST = 16,     /* bytes of the largest element */
};

typedef enum copy_kind { RUN, FILL, STEP, TRANSPOSE } copy_kind;

/* All strides here count bytes. */
typedef struct copy_job {
  copy_kind kind;
  size_t size; /* bytes of an element: a power of two */
  int loops;   /* outer loops */
  int64_t count[TD_STRIDED_COPY_LOOPS], from[TD_STRIDED_COPY_LOOPS],
      to[TD_STRIDED_COPY_LOOPS];
  /* The inner loop i and, for a transpose, the loop j along which the source
   * is dense; otherwise j runs once. */
  int64_t count_i, from_i, to_i;
  int64_t count_j, to_j;
  int64_t part_i, part_j;   /* rounds of them in one unit */
  int64_t parts_i, parts_j; /* units along them */
  const char *source;
  char *target;
} copy_job;

void td_strided_copy_loop(td_strided_copy *m, int64_t count, int64_t from,
                          int64_t to) {
  int k = m->loops++;
  m->count[k] = count;
  m->from[k] = from;
  m->to[k] = to;
}

/* ---- the simplest form --------------------------------------------------- */

static bool copies_nothing(const td_strided_copy *m) {
  for (int k = 0; k < m->loops; k++)
    if (m->count[k] <= 0) return true;
  return false;
}

/* Takes the loops over, in bytes, those merged that continue each other. */
static void take_loops(const td_strided_copy *m, size_t size, copy_job *job) {
  int n = 0;
  job->size = size;
  for (int k = 0; k < m->loops; k++) {
    int64_t count = m->count[k];
    if (count == 1) continue;
    int64_t from = m->from[k] * (int64_t)size, to = m->to[k] * (int64_t)size;
    if (n > 0 && job->from[n - 1] == from * count &&
        job->to[n - 1] == to * count)
      count *= job->count[--n];
    job->count[n] = count;
    job->from[n] = from;
    job->to[n++] = to;
  }
  if (n == 0) { /* a single element */
    job->count[0] = 1;
    job->from[0] = job->to[0] = (int64_t)size;
    n = 1;
  }
  job->loops = n;
}

/* A short dense run inside other loops becomes a larger element. */
static void widen(copy_job *job) {
  while (job->loops > 1) {
    int in = job->loops - 1;
    int64_t size = (int64_t)job->size, count = job->count[in];
    if (job->from[in] != size || job->to[in] != size) return;
    if (count > WIDEST / size || (count & (count - 1)) != 0) return;
    job->size *= (size_t)count;
    job->loops--;
  }
}

static void drop_loop(copy_job *job, int k) {
  job->loops--;
  for (; k < job->loops; k++) {
    job->count[k] = job->count[k + 1];
    job->from[k] = job->from[k + 1];
    job->to[k] = job->to[k + 1];
  }
}

/* Takes the inner loops out and decides how they are done. */
static void choose(copy_job *job) {
  int in = --job->loops;
  int64_t size = (int64_t)job->size;
  job->count_i = job->count[in];
  job->from_i = job->from[in];
  job->to_i = job->to[in];
  job->count_j = 1;
  job->to_j = 0;
  job->kind = STEP;
  if (job->to_i != size) return;
  if (job->from_i == size) job->kind = RUN;
  if (job->from_i == 0) job->kind = FILL;
  if (job->kind != STEP) return;
  for (int k = in - 1; k >= 0; k--) {
    if (job->from[k] != size) continue;
    job->kind = TRANSPOSE;
    job->count_j = job->count[k];
    job->to_j = job->to[k];
    drop_loop(job, k);
    return;
  }
}

static int64_t parts(int64_t n, int64_t part) {
  return n / part + (n % part != 0);
}

static void cut(copy_job *job) {
  job->part_j = 1;
  job->part_i = PIECE / (int64_t)job->size;
  if (job->kind == TRANSPOSE) {
    job->part_j = job->count_i < BLOCK ? LONG_SIDE : BLOCK;
    job->part_i = LONG_SIDE;
  }
  if (job->part_i > job->count_i) job->part_i = job->count_i;
  if (job->part_j > job->count_j) job->part_j = job->count_j;
  job->parts_i = parts(job->count_i, job->part_i);
  job->parts_j = parts(job->count_j, job->part_j);
}

/* ---- the inner loops ----------------------------------------------------- */

/* Each is written once for any size and compiled for five: with a constant
 * size, memcpy is one load and one store that need no alignment. */
#define INLINED static inline __attribute__((always_inline))

INLINED void step_sized(const copy_job *job, size_t size, const char *from,
                        char *to, int64_t n) {
  int64_t from_i = job->from_i, to_i = job->to_i;
  for (int64_t i = 0; i < n; i++)
    memcpy(to + i * to_i, from + i * from_i, size);
}

INLINED void fill_sized(size_t size, const char *from, char *to, int64_t n) {
  char x[WIDEST];
  memcpy(x, from, size);
  for (int64_t i = 0; i < n; i++) memcpy(to + i * (int64_t)size, x, size);
}

INLINED void block_sized(const copy_job *job, size_t size, const char *from,
                         char *to, int64_t nj, int64_t ni) {
  int64_t from_i = job->from_i, to_j = job->to_j, s = (int64_t)size;
  for (int64_t j = 0; j < nj; j++)
    for (int64_t i = 0; i < ni; i++)
      memcpy(to + j * to_j + i * s, from + j * s + i * from_i, size);
}

static void step(const copy_job *job, const char *from, char *to, int64_t n) {
  switch (job->size) {
  case 1:
    step_sized(job, 1, from, to, n);
    break;
  case 2:
    step_sized(job, 2, from, to, n);
    break;
  case 4:
    step_sized(job, 4, from, to, n);
    break;
  case 8:
    step_sized(job, 8, from, to, n);
    break;
  default:
    step_sized(job, 16, from, to, n);
    break;
  }
}

void td_strided_copy_fill(const void *from, size_t size, void *to, int64_t n) {
  switch (size) {
  case 1:
    memset(to, *(const char *)from, (size_t)n);
    break;
  case 2:
    fill_sized(2, from, to, n);
    break;
  case 4:
    fill_sized(4, from, to, n);
    break;
  case 8:
    fill_sized(8, from, to, n);
    break;
  default:
    fill_sized(16, from, to, n);
    break;
  }
}

/* Four by four elements of four bytes. */
static void block_4x4(const char *from, int64_t from_i, char *to,
                      int64_t to_j) {
  __m128i a = _mm_loadu_si128((const __m128i *)from);
  __m128i b = _mm_loadu_si128((const __m128i *)(from + from_i));
  __m128i c = _mm_loadu_si128((const __m128i *)(from + 2 * from_i));
  __m128i d = _mm_loadu_si128((const __m128i *)(from + 3 * from_i));
  __m128i ab = _mm_unpacklo_epi32(a, b), cd = _mm_unpacklo_epi32(c, d);
  __m128i AB = _mm_unpackhi_epi32(a, b), CD = _mm_unpackhi_epi32(c, d);
  _mm_storeu_si128((__m128i *)to, _mm_unpacklo_epi64(ab, cd));
  _mm_storeu_si128((__m128i *)(to + to_j), _mm_unpackhi_epi64(ab, cd));
  _mm_storeu_si128((__m128i *)(to + 2 * to_j), _mm_unpacklo_epi64(AB, CD));
  _mm_storeu_si128((__m128i *)(to + 3 * to_j), _mm_unpackhi_epi64(AB, CD));
}

static void block_of_4(const copy_job *job, const char *from, char *to,
                       int64_t nj, int64_t ni) {
  int64_t j4 = nj & ~(int64_t)3, i4 = ni & ~(int64_t)3;
  for (int64_t j = 0; j < j4; j += 4)
    for (int64_t i = 0; i < i4; i += 4)
      block_4x4(from + j * 4 + i * job->from_i, job->from_i,
                to + j * job->to_j + i * 4, job->to_j);
  if (i4 < ni)
    block_sized(job, 4, from + i4 * job->from_i, to + i4 * 4, j4, ni - i4);
  if (j4 < nj)
    block_sized(job, 4, from + j4 * 4, to + j4 * job->to_j, nj - j4, ni);
}

static void block(const copy_job *job, const char *from, char *to, int64_t nj,
                  int64_t ni) {
  switch (job->size) {
  case 1:
    block_sized(job, 1, from, to, nj, ni);
    break;
  case 2:
    block_sized(job, 2, from, to, nj, ni);
    break;
  case 4:
    block_of_4(job, from, to, nj, ni);
    break;
  case 8:
    block_sized(job, 8, from, to, nj, ni);
    break;
  default:
    block_sized(job, 16, from, to, nj, ni);
    break;
  }
}

static int64_t at_most(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static void rectangle(const copy_job *job, const char *from, char *to,
                      int64_t nj, int64_t ni) {
  int64_t size = (int64_t)job->size;
  for (int64_t j = 0; j < nj; j += BLOCK)
    for (int64_t i = 0; i < ni; i += BLOCK)
      block(job, from + j * size + i * job->from_i,
            to + j * job->to_j + i * size, at_most(BLOCK, nj - j),
            at_most(BLOCK, ni - i));
}

/* ---- units --------------------------------------------------------------- */

static void do_unit(const copy_job *job, const char *from, char *to,
                    int64_t part_j, int64_t part_i) {
  int64_t i = part_i * job->part_i, j = part_j * job->part_j;
  int64_t ni = at_most(job->part_i, job->count_i - i);
  from += i * job->from_i;
  to += i * job->to_i;
  switch (job->kind) {
  case RUN:
    memcpy(to, from, (size_t)ni * job->size);
    break;
  case FILL:
    td_strided_copy_fill(from, job->size, to, ni);
    break;
  case STEP:
    step(job, from, to, ni);
    break;
  case TRANSPOSE:
    rectangle(job, from + j * (int64_t)job->size, to + j * job->to_j,
              at_most(job->part_j, job->count_j - j), ni);
    break;
  }
}

/* Where a piece of work stands: rounds of the outer loops, and the places they
 * have come to. */
typedef struct place {
  int64_t round[TD_STRIDED_COPY_LOOPS];
  const char *from;
  char *to;
} place;

static void place_at(const copy_job *job, int64_t row, place *p) {
  p->from = job->source;
  p->to = job->target;
  for (int k = job->loops - 1; k >= 0; k--) {
    p->round[k] = row % job->count[k];
    row /= job->count[k];
    p->from += p->round[k] * job->from[k];
    p->to += p->round[k] * job->to[k];
  }
}

static void place_next(const copy_job *job, place *p) {
  for (int k = job->loops - 1; k >= 0; k--) {
    p->from += job->from[k];
    p->to += job->to[k];
    if (++p->round[k] < job->count[k]) return;
    p->from -= job->count[k] * job->from[k];
    p->to -= job->count[k] * job->to[k];
    p->round[k] = 0;
  }
}

static void do_units(void *arg, int64_t begin, int64_t end) {
  const copy_job *job = arg;
  place p;
  int64_t part_i = begin % job->parts_i;
  int64_t part_j = begin / job->parts_i % job->parts_j;
  place_at(job, begin / job->parts_i / job->parts_j, &p);
  while (begin++ < end) {
    do_unit(job, p.from, p.to, part_j, part_i);
    if (++part_i < job->parts_i) continue;
    part_i = 0;
    if (++part_j < job->parts_j) continue;
    part_j = 0;
    place_next(job, &p);
  }
}

void td_strided_copy_run(const td_kernel_ctx *c, const td_strided_copy *m,
                         size_t size, const void *from, void *to) {
  if (copies_nothing(m)) return;
  copy_job job;
  job.source = from;
  job.target = to;
  take_loops(m, size, &job);
  widen(&job);
  choose(&job);
  cut(&job);
  int64_t units = job.parts_i * job.parts_j;
  for (int k = 0; k < job.loops; k++) units *= job.count[k];
  int64_t bytes = job.part_i * job.part_j * (int64_t)job.size;
  td_for(c, units, bytes < PIECE ? PIECE / bytes : 1, do_units, &job);
}

td_status *td_strided_copy_do(const td_kernel_ctx *c, const td_strided_copy *m,
                              size_t size, const void *from, void *to) {
  const td_device *d = c->kernel->device;
  if (copies_nothing(m)) return NULL;
  if (d->copy_strided) return d->copy_strided(c, m, size, from, NULL, to);
  td_strided_copy_run(c, m, size, from, to);
  return NULL;
}

td_status *td_strided_copy_spread(const td_kernel_ctx *c,
                                  const td_strided_copy *m, size_t size,
                                  const void *value, void *to) {
  const td_device *d = c->kernel->device;
  td_strided_copy still = *m;
  if (copies_nothing(m)) return NULL;
  if (d->copy_strided) return d->copy_strided(c, m, size, NULL, value, to);
  for (int k = 0; k < still.loops; k++) still.from[k] = 0;
  td_strided_copy_run(c, &still, size, value, to);
  return NULL;
}

td_status *td_strided_copy_kernel(td_kernel_ctx *c, int in, int out,
                                  const td_shape *shape,
                                  const td_strided_copy *m, int64_t first) {
  td_array x = {0}, y = {0};
  td_status *s = td_array_in(td_in(c, in), &x);
  if (td_ok(s)) s = td_array_out(c, out, shape, &y);
  if (td_ok(s) && !copies_nothing(m))
    s = td_strided_copy_do(c, m, x.size, x.at + first * (int64_t)x.size, y.at);
  if (td_ok(s)) s = td_array_done(c, out, &y);
  td_array_drop(&x);
  td_array_drop(&y);
  return s;
}
