/* checkpoint_slice.c - slices as text, as keys, and what they have in common.
 *
 * Keys are an ordered code: numbers take a byte that says how many follow, then
 * the highest byte first; signed ones have the sign within the first byte's
 * high bits, so that bytes compare as numbers do; a name ends with 00 01, and a
 * 00 or ff within it takes two bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/checkpoint_slice.h"

#include <string.h>

/* ---- text ---------------------------------------------------------------- */

static td_status *no_slice(td_bytes text) {
  return td_error(
      TD_INVALID_ARGUMENT,
      "shape_and_slice \"%.*s\" is not \"SIZE SIZE .. PART:PART:..\""
      " with a part \"start,length\" or \"-\" for each size",
      text.len > 200 ? 200 : (int)text.len, text.at);
}

/* Takes digits, and what must follow them. */
static bool take_number(td_bytes *from, int64_t *v) {
  size_t n = 0;
  *v = 0;
  for (; n < from->len && from->at[n] >= '0' && from->at[n] <= '9'; n++)
    if (__builtin_mul_overflow(*v, 10, v) ||
        __builtin_add_overflow(*v, from->at[n] - '0', v))
      return false;
  from->at += n;
  from->len -= n;
  return n > 0;
}

static bool take_char(td_bytes *from, char c) {
  if (from->len == 0 || *from->at != c) return false;
  from->at++;
  from->len--;
  return true;
}

/* "10 4 ", with a space behind each. */
static bool take_sizes(td_bytes *from, td_shape *whole) {
  *whole = td_shape_scalar();
  for (td_bytes at = *from;; *from = at) {
    int64_t size;
    if (!take_number(&at, &size) || !take_char(&at, ' ')) return true;
    if (whole->rank == TD_MAX_RANK) return false;
    whole->dim[whole->rank++] = size;
  }
}

static bool take_part(td_bytes *from, td_slice *s, int i) {
  s->start[i] = 0;
  s->length[i] = -1;
  if (i > 0 && !take_char(from, ':')) return false;
  if (take_char(from, '-')) return true;
  return take_number(from, &s->start[i]) && take_char(from, ',') &&
         take_number(from, &s->length[i]);
}

td_status *td_slice_parse(td_bytes text, td_shape *whole, td_slice *out) {
  td_bytes at = text;
  td_shape part;
  if (!take_sizes(&at, whole)) return no_slice(text);
  out->rank = whole->rank;
  for (int i = 0; i < whole->rank; i++)
    if (!take_part(&at, out, i)) return no_slice(text);
  if (at.len > 0) return no_slice(text);
  return td_slice_shape(whole, out, &part);
}

void td_slice_print(const td_shape *whole, const td_slice *s, td_str *out) {
  for (int i = 0; i < whole->rank; i++)
    td_str_addf(out, "%lld ", (long long)whole->dim[i]);
  for (int i = 0; i < whole->rank; i++) {
    if (i > 0) td_str_addc(out, ':');
    if (s->length[i] < 0)
      td_str_addc(out, '-');
    else
      td_str_addf(out, "%lld,%lld", (long long)s->start[i],
                  (long long)s->length[i]);
  }
}

/* ---- what it takes ------------------------------------------------------- */

static int64_t length_of(const td_shape *whole, const td_slice *s, int i) {
  return s->length[i] < 0 ? whole->dim[i] : s->length[i];
}

td_status *td_slice_shape(const td_shape *whole, const td_slice *s,
                          td_shape *out) {
  if (s->rank != whole->rank)
    return td_error(TD_INVALID_ARGUMENT,
                    "a slice of %d dimensions of a tensor of %d", s->rank,
                    whole->rank);
  td_shape part = *whole;
  for (int i = 0; i < s->rank; i++) {
    part.dim[i] = length_of(whole, s, i);
    if (s->start[i] < 0 || s->length[i] < -1 ||
        s->start[i] > whole->dim[i] - part.dim[i])
      return td_error(TD_INVALID_ARGUMENT,
                      "the slice of %lld from %lld on does not lie within "
                      "dimension %d of size %lld",
                      (long long)part.dim[i], (long long)s->start[i], i,
                      (long long)whole->dim[i]);
  }
  *out = part;
  return NULL;
}

bool td_slice_is_whole(const td_shape *whole, const td_slice *s) {
  for (int i = 0; i < s->rank; i++)
    if (s->start[i] != 0 || length_of(whole, s, i) != whole->dim[i])
      return false;
  return true;
}

bool td_slice_meet(const td_shape *whole, const td_slice *a, const td_slice *b,
                   td_slice *out) {
  *out = (td_slice){.rank = whole->rank};
  for (int i = 0; i < whole->rank; i++) {
    int64_t end_a = a->start[i] + length_of(whole, a, i);
    int64_t end_b = b->start[i] + length_of(whole, b, i);
    int64_t start = a->start[i] > b->start[i] ? a->start[i] : b->start[i];
    int64_t end = end_a < end_b ? end_a : end_b;
    if (end <= start) return false;
    out->start[i] = start;
    out->length[i] = end - start;
  }
  return true;
}

/* Elements before that of `at` in a dense array of slice `s`. */
static int64_t place_in(const td_shape *whole, const td_slice *s,
                        const int64_t *at) {
  int64_t place = 0;
  for (int i = 0; i < whole->rank; i++)
    place = place * length_of(whole, s, i) + at[i] - s->start[i];
  return place;
}

/* The next index of all axes but the last; false behind the last one. */
static bool step(const td_slice *common, int64_t *at) {
  for (int i = common->rank - 2; i >= 0; i--) {
    if (++at[i] < common->start[i] + common->length[i]) return true;
    at[i] = common->start[i];
  }
  return false;
}

void td_slice_copy(const td_shape *whole, const td_slice *common,
                   const td_slice *a, const void *from, const td_slice *b,
                   void *to, size_t size) {
  int64_t at[TD_MAX_RANK];
  int rank = whole->rank;
  memcpy(at, common->start, sizeof at);
  size_t row = rank > 0 ? (size_t)common->length[rank - 1] : 1;
  do
    memcpy((char *)to + (size_t)place_in(whole, b, at) * size,
           (const char *)from + (size_t)place_in(whole, a, at) * size,
           row * size);
  while (step(common, at));
}

/* ---- keys ---------------------------------------------------------------- */

static void put_unsigned(uint64_t v, td_str *out) {
  int n = 0;
  for (uint64_t rest = v; rest; rest >>= 8) n++;
  td_str_addc(out, (char)n);
  while (n-- > 0) td_str_addc(out, (char)(v >> 8 * n));
}

static void put_name(const char *name, td_str *out) {
  for (; *name; name++) {
    td_str_addc(out, *name);
    if ((uint8_t)*name == 0xff) td_str_addc(out, 0);
  }
  td_str_addn(out, "\0\1", 2);
}

/* n bytes hold 7 n - 1 bits and a sign; as many ones as bytes, turned over in
 * negative numbers, are xored to the top. */
static void put_signed(int64_t v, td_str *out) {
  uint8_t code[10];
  uint64_t positive = v < 0 ? ~(uint64_t)v : (uint64_t)v;
  int n = 1;
  while (n < 10 && positive >> (7 * n - 1 > 63 ? 63 : 7 * n - 1)) n++;
  for (int i = 0; i < n; i++) {
    int shift = 8 * (n - 1 - i);
    code[i] = shift > 56 ? (v < 0 ? 0xff : 0) : (uint8_t)((uint64_t)v >> shift);
  }
  code[0] ^= n < 8 ? (uint8_t)(0xff00u >> n) : 0xff;
  if (n >= 8) code[1] ^= (uint8_t)(0xff00u >> (n - 8));
  td_str_addn(out, (const char *)code, (size_t)n);
}

void td_slice_key(const char *name, const td_slice *s, td_str *out) {
  put_unsigned(0, out);
  put_name(name, out);
  put_unsigned((uint64_t)s->rank, out);
  for (int i = 0; i < s->rank; i++) {
    put_signed(s->length[i] < 0 ? 0 : s->start[i], out);
    put_signed(s->length[i], out);
  }
}
