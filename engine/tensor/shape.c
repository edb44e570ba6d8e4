/* shape.c - sizes of a tensor, known or partly known.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/tensor/shape.h"

#include <stdio.h>
#include <string.h>

/* What is beyond the rank is not written: these are called for each output. */

td_shape td_shape_of(int rank, const int64_t *dims) {
  td_shape s;
  if (rank < 0 || rank > TD_MAX_RANK) return td_shape_unknown();
  s.rank = rank;
  for (int i = 0; i < rank; i++) s.dim[i] = dims[i] < 0 ? -1 : dims[i];
  return s;
}

td_shape td_shape_scalar(void) {
  td_shape s;
  s.rank = 0;
  return s;
}

td_shape td_shape_vector(int64_t n) {
  return td_shape_of(1, &n);
}

td_shape td_shape_matrix(int64_t rows, int64_t cols) {
  return td_shape_of(2, (int64_t[]){rows, cols});
}

td_shape td_shape_unknown(void) {
  td_shape s;
  s.rank = -1;
  return s;
}

td_shape td_shape_ranked(int rank) {
  td_shape s;
  s.rank = rank;
  for (int k = 0; k < rank; k++) s.dim[k] = -1;
  return s;
}

td_status *td_shape_check_rank(int64_t rank) {
  if (TD_LIKELY(rank <= TD_MAX_RANK)) return NULL;
  return td_error(TD_UNIMPLEMENTED,
                  "a tensor of %lld dimensions: at most %d are possible",
                  (long long)rank, TD_MAX_RANK);
}

bool td_shape_known(const td_shape *s) {
  for (int i = 0; i < s->rank; i++)
    if (s->dim[i] < 0) return false;
  return s->rank >= 0;
}

int64_t td_shape_product(const td_shape *s) {
  int64_t product = 1;
  bool empty = false;
  if (s->rank < 0 || s->rank > TD_MAX_RANK) return -1;
  for (int i = 0; i < s->rank; i++) {
    if (s->dim[i] < 0) return -1;
    if (s->dim[i] == 0)
      empty = true; /* the rest is still checked: strides must fit as well */
    else if (__builtin_mul_overflow(product, s->dim[i], &product))
      return -1;
  }
  return empty ? 0 : product;
}

int64_t td_shape_span(const td_shape *s, int begin, int end) {
  int64_t n = 1;
  for (int k = begin; k < end; k++) n *= s->dim[k];
  return n;
}

void td_shape_strides(const td_shape *s, int64_t *strides) {
  int64_t stride = 1;
  for (int k = s->rank - 1; k >= 0; k--) {
    strides[k] = stride;
    stride *= s->dim[k];
  }
}

bool td_shape_equal(const td_shape *a, const td_shape *b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dim[i] != b->dim[i]) return false;
  return true;
}

bool td_shape_allows(const td_shape *wide, const td_shape *s) {
  if (wide->rank < 0) return true;
  if (wide->rank != s->rank) return false;
  for (int i = 0; i < wide->rank; i++)
    if (wide->dim[i] >= 0 && wide->dim[i] != s->dim[i]) return false;
  return true;
}

td_shape td_shape_widen(const td_shape *a, const td_shape *b) {
  if (a->rank != b->rank) return td_shape_unknown();
  td_shape s = *a;
  for (int i = 0; i < s.rank; i++)
    if (a->dim[i] != b->dim[i]) s.dim[i] = -1;
  return s;
}

bool td_shape_compatible(const td_shape *a, const td_shape *b) {
  td_shape both;
  return td_shape_merge(a, b, &both);
}

/* `out` may be `a` or `b`; it is written only when they agree. */
bool td_shape_merge(const td_shape *a, const td_shape *b, td_shape *out) {
  if (a->rank < 0 || b->rank < 0) {
    *out = a->rank < 0 ? *b : *a;
    return true;
  }
  if (a->rank != b->rank) return false;
  td_shape s = *a;
  for (int i = 0; i < a->rank; i++) {
    if (s.dim[i] < 0)
      s.dim[i] = b->dim[i];
    else if (b->dim[i] >= 0 && b->dim[i] != s.dim[i])
      return false;
  }
  *out = s;
  return true;
}

/* One dimension of two operands. An unknown size beside one that is not 1 can
 * only be that size or 1, so the result is known. */
static bool broadcast_dim(int64_t x, int64_t y, int64_t *out) {
  if (x == y || y == 1)
    *out = x;
  else if (x == 1 || x < 0)
    *out = y;
  else if (y < 0)
    *out = x;
  else
    return false;
  return true;
}

bool td_shape_broadcast(const td_shape *a, const td_shape *b, td_shape *out) {
  if (a->rank < 0 || b->rank < 0) {
    *out = td_shape_unknown();
    return true;
  }
  const td_shape *tall = a->rank >= b->rank ? a : b;
  const td_shape *flat = tall == a ? b : a;
  td_shape s = *tall;
  int shift = tall->rank - flat->rank;
  for (int i = 0; i < flat->rank; i++)
    if (!broadcast_dim(s.dim[shift + i], flat->dim[i], &s.dim[shift + i]))
      return false;
  *out = s;
  return true;
}

const char *td_shape_str(const td_shape *s, td_shape_text *buf) {
  size_t room = sizeof buf->text, at = 0;
  if (s->rank < 0) return strcpy(buf->text, "?");
  buf->text[at++] = '{';
  for (int i = 0; i < s->rank; i++)
    at += (size_t)snprintf(buf->text + at, room - at, "%s%lld", i ? ", " : "",
                           (long long)s->dim[i]);
  memcpy(buf->text + at, "}", 2);
  return buf->text;
}

void td_shape_print(const td_shape *s, td_str *out) {
  td_shape_text buf;
  td_str_add(out, td_shape_str(s, &buf));
}
