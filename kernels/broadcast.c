/* broadcast.c - plans and walks of operands that repeat.
 *
 * Two walks. With a long innermost axis, each run along it is one call: an
 * operand either lies there in one piece or is one element, which is spread
 * once for the run. With a short one, blocks cross many runs: operands that
 * repeat are gathered into the buffer, the others are used where they lie.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/broadcast.h"

#include <string.h>

enum {
  BLOCK = TD_BROADCAST_BLOCK,
  LONG_RUN = 64, /* a call for each run pays from here on */
  WIDEST = 16,   /* bytes of the largest element */
};

/* ---- planning ------------------------------------------------------------ */

/* Sizes of `s` as seen from axis `axis` of a result of rank `rank`. */
static int64_t size_at(const td_shape *s, int rank, int axis) {
  int own = axis - (rank - s->rank);
  return own < 0 ? 1 : s->dim[own];
}

static bool merges(const td_broadcast *b, const int64_t *step, int64_t size) {
  if (b->rank == 0) return false;
  for (int k = 0; k < b->n; k++)
    if (b->step[k][b->rank - 1] != step[k] * size) return false;
  return true;
}

static void add_axis(td_broadcast *b, const int64_t *step, int64_t size) {
  bool merge = merges(b, step, size);
  int axis = merge ? b->rank - 1 : b->rank++;
  b->size[axis] = merge ? b->size[axis] * size : size;
  for (int k = 0; k < b->n; k++) b->step[k][axis] = step[k];
}

static void plan_axes(td_broadcast *b, const td_shape *const *shapes,
                      const td_shape *out) {
  int64_t inner[TD_BROADCAST_MAX]; /* elements below the current axis */
  int64_t step[TD_MAX_RANK][TD_BROADCAST_MAX];
  for (int k = 0; k < b->n; k++) inner[k] = 1;
  for (int axis = out->rank - 1; axis >= 0; axis--) {
    for (int k = 0; k < b->n; k++) {
      int64_t size = size_at(shapes[k], out->rank, axis);
      step[axis][k] = size == 1 ? 0 : inner[k];
      inner[k] *= size;
    }
  }
  for (int axis = 0; axis < out->rank; axis++)
    if (out->dim[axis] != 1) add_axis(b, step[axis], out->dim[axis]);
  for (int k = 0; k < b->n; k++) b->dense[k] = inner[k] == b->count;
}

static td_status *refuse(int n, const td_shape *const *shapes,
                         const char *why) {
  td_shape_text text[TD_BROADCAST_MAX];
  const char *s[TD_BROADCAST_MAX];
  for (int k = 0; k < n; k++) s[k] = td_shape_str(shapes[k], &text[k]);
  if (n == 2)
    return td_error(TD_INVALID_ARGUMENT, "shapes %s and %s %s", s[0], s[1],
                    why);
  return td_error(TD_INVALID_ARGUMENT, "shapes %s, %s and %s %s", s[0], s[1],
                  s[2], why);
}

td_status *td_broadcast_plan(td_broadcast *b, int n,
                             const td_shape *const *shapes, td_shape *out) {
  *out = *shapes[0];
  for (int k = 1; k < n; k++)
    if (!td_shape_broadcast(out, shapes[k], out))
      return refuse(n, shapes, "do not broadcast");
  b->n = n;
  b->rank = 0;
  b->count = td_shape_count(out);
  if (b->count < 0)
    return refuse(n, shapes, "broadcast to more elements than can be counted");
  if (b->count) plan_axes(b, shapes, out);
  if (!b->rank) { /* one element, or none */
    b->rank = 1;
    b->size[0] = b->count;
    for (int k = 0; k < n; k++) {
      b->step[k][0] = 1;
      b->dense[k] = true;
    }
  }
  return NULL;
}

int64_t td_broadcast_index(const td_broadcast *b, int k, int64_t i) {
  int64_t at = 0;
  for (int axis = b->rank - 1; axis >= 0; axis--) {
    at += i % b->size[axis] * b->step[k][axis];
    i /= b->size[axis];
  }
  return at;
}

/* ---- walking ------------------------------------------------------------- */

/* Where a walk is: an index on every axis, and each operand's element there. */
typedef struct cursor {
  int64_t index[TD_MAX_RANK];
  int64_t at[TD_BROADCAST_MAX];
} cursor;

static void cursor_set(const td_broadcast *b, int64_t i, cursor *c) {
  memset(c, 0, sizeof *c);
  for (int axis = b->rank - 1; axis >= 0 && i; axis--) {
    c->index[axis] = i % b->size[axis];
    i /= b->size[axis];
    for (int k = 0; k < b->n; k++)
      c->at[k] += c->index[axis] * b->step[k][axis];
  }
}

/* Moves on over `rows` runs of n elements: several only when they are whole and
 * stay within the axis next to the innermost. */
static void cursor_move(const td_broadcast *b, int64_t n, int64_t rows,
                        cursor *c) {
  int axis = b->rank - 1;
  c->index[axis] += n;
  for (int k = 0; k < b->n; k++) c->at[k] += n * b->step[k][axis];
  if (rows > 1) {
    c->index[axis - 1] += rows - 1;
    for (int k = 0; k < b->n; k++)
      c->at[k] += (rows - 1) * b->step[k][axis - 1];
  }
  for (; axis > 0 && c->index[axis] == b->size[axis]; axis--) {
    c->index[axis] = 0;
    c->index[axis - 1]++;
    for (int k = 0; k < b->n; k++)
      c->at[k] += b->step[k][axis - 1] - b->size[axis] * b->step[k][axis];
  }
}

/* n copies of the element at `from`. */
static inline void spread(const char *from, char *to, int64_t n, size_t size) {
  char one[WIDEST];
  memcpy(one, from, size);
  for (int64_t i = 0; i < n; i++) memcpy(to + (size_t)i * size, one, size);
}

static inline void copy(const char *from, char *to, int64_t n, size_t size) {
  for (int64_t i = 0; i < n; i++)
    memcpy(to + (size_t)i * size, from + (size_t)i * size, size);
}

static void spread_any(const char *from, char *to, int64_t n, size_t size) {
  switch (size) {
  case 1:
    memset(to, *from, (size_t)n);
    break;
  case 2:
    spread(from, to, n, 2);
    break;
  case 4:
    spread(from, to, n, 4);
    break;
  case 8:
    spread(from, to, n, 8);
    break;
  default:
    spread(from, to, n, 16);
    break;
  }
}

typedef struct walk {
  const td_broadcast *b;
  const void *const *in;
  const size_t *size;
  td_broadcast_fn fn;
  void *arg;
  char (*stage)[BLOCK * WIDEST]; /* a buffer for each operand */
} walk;

static const char *element(const walk *w, int k, int64_t i) {
  return (const char *)w->in[k] + (size_t)i * w->size[k];
}

/* Results [at, at + n) lie on one run of the innermost axis. */
static void run_call(const walk *w, const cursor *c, int64_t at, int64_t n) {
  const td_broadcast *b = w->b;
  const void *p[TD_BROADCAST_MAX];
  int64_t most = n;
  for (int k = 0; k < b->n; k++) {
    p[k] = element(w, k, c->at[k]);
    if (b->step[k][b->rank - 1]) continue;
    most = n < BLOCK ? n : BLOCK;
    spread_any(p[k], w->stage[k], most, w->size[k]);
    p[k] = w->stage[k];
  }
  for (int64_t i = 0; i < n; i += most) {
    w->fn(w->arg, n - i < most ? n - i : most, p, at + i);
    for (int k = 0; k < b->n; k++)
      if (b->step[k][b->rank - 1])
        p[k] = (const char *)p[k] + (size_t)most * w->size[k];
  }
}

static void walk_runs(const walk *w, int64_t begin, int64_t end) {
  const td_broadcast *b = w->b;
  int64_t run = b->size[b->rank - 1];
  cursor c;
  cursor_set(b, begin, &c);
  while (begin < end) {
    int64_t n = run - c.index[b->rank - 1];
    if (n > end - begin) n = end - begin;
    run_call(w, &c, begin, n);
    cursor_move(b, n, 1, &c);
    begin += n;
  }
}

/* Fills `to` with operand k for n results from *c on; a copy of the cursor is
 * moved, since the operands of a block are gathered one after the other. Runs
 * along the axis next to the innermost are walked here, not by the cursor. */
static inline void gather(const td_broadcast *b, int k, cursor c,
                          const char *from, char *to, int64_t n, size_t size) {
  int last = b->rank - 1;
  int64_t run = b->size[last], next = b->step[k][last - 1];
  bool repeats = b->step[k][last] == 0;
  while (n > 0) {
    int64_t rows = b->size[last - 1] - c.index[last - 1];
    int64_t len = run - c.index[last] < n ? run - c.index[last] : n;
    if (len < run || n < run) rows = 1; /* the ends of the block */
    if (rows > n / len) rows = n / len;
    for (int64_t r = 0; r < rows; r++) {
      const char *p = from + (size_t)(c.at[k] + r * next) * size;
      if (repeats)
        spread(p, to, len, size);
      else
        copy(p, to, len, size);
      to += (size_t)len * size;
    }
    n -= rows * len;
    cursor_move(b, len, rows, &c);
  }
}

static void gather_any(const walk *w, int k, const cursor *c, int64_t n) {
  const char *from = w->in[k];
  char *to = w->stage[k];
  switch (w->size[k]) {
  case 1:
    gather(w->b, k, *c, from, to, n, 1);
    break;
  case 2:
    gather(w->b, k, *c, from, to, n, 2);
    break;
  case 4:
    gather(w->b, k, *c, from, to, n, 4);
    break;
  case 8:
    gather(w->b, k, *c, from, to, n, 8);
    break;
  default:
    gather(w->b, k, *c, from, to, n, 16);
    break;
  }
}

/* An operand that only the innermost axis moves looks the same in every block
 * of whole runs: it is gathered once. */
static bool same_each_run(const td_broadcast *b, int k) {
  for (int axis = 0; axis < b->rank - 1; axis++)
    if (b->step[k][axis]) return false;
  return true;
}

/* Up to the end of a run at first, then blocks of whole runs. */
static void walk_blocks(const walk *w, int64_t begin, int64_t end) {
  const td_broadcast *b = w->b;
  int64_t run = b->size[b->rank - 1], most = BLOCK / run * run;
  int64_t staged[TD_BROADCAST_MAX] = {0}; /* elements of the stage to reuse */
  while (begin < end) {
    int64_t n = begin % run ? run - begin % run : most;
    if (n > end - begin) n = end - begin;
    const void *p[TD_BROADCAST_MAX];
    cursor c;
    cursor_set(b, begin, &c);
    for (int k = 0; k < b->n; k++) {
      p[k] = b->dense[k] ? (const void *)element(w, k, begin) : w->stage[k];
      if (b->dense[k] || staged[k] >= n) continue;
      gather_any(w, k, &c, n);
      if (begin % run == 0 && same_each_run(b, k)) staged[k] = n;
    }
    w->fn(w->arg, n, p, begin);
    begin += n;
  }
}

void td_broadcast_run(const td_broadcast *b, const void *const *in,
                      const size_t *size, int64_t begin, int64_t end,
                      td_broadcast_fn fn, void *arg) {
  _Alignas(64) char stage[TD_BROADCAST_MAX][BLOCK * WIDEST];
  walk w = {b, in, size, fn, arg, stage};
  if (b->rank == 1 || b->size[b->rank - 1] >= LONG_RUN)
    walk_runs(&w, begin, end);
  else
    walk_blocks(&w, begin, end);
}
