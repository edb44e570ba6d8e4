/* piece_cache.c - tests of engine/remote/piece_cache.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/base/philox.h"
#include "engine/remote/piece_cache.h"

enum { PIECES = 40 };

static char text[PIECES][5000]; /* piece i */
static size_t size[PIECES];
static td_piece_hash hash[PIECES];

static int make_pieces(void **state) {
  (void)state;
  for (int i = 0; i < PIECES; i++) {
    size[i] = (size_t)(100 + 37 * i);
    for (size_t k = 0; k < size[i]; k++) text[i][k] = (char)(i * 31 + k * k);
    OK(td_pieces_hash(text[i], size[i], &hash[i]));
  }
  return 0;
}

static td_status *add(td_piece_cache *c, int i) {
  return td_piece_cache_add(c, &hash[i], text[i], size[i]);
}

/* Bytes [from, to) of piece i. */
static td_status *part(td_piece_cache *c, int i, size_t from, size_t to,
                       bool *whole) {
  return td_piece_cache_part(c, &hash[i], size[i], from, text[i] + from,
                             to - from, whole);
}

static bool is_missing(td_piece_cache *c, int i) {
  size_t at[1];
  return td_piece_cache_missing(c, &hash[i], 1, at) == 1;
}

/* The first `n` pieces are there, and right. */
static void check_join(td_piece_cache *c, int n) {
  char *joined;
  size_t len, at = 0;
  OK(td_piece_cache_join(c, hash, (size_t)n, SIZE_MAX, &joined, &len));
  for (int i = 0; i < n; at += size[i++])
    assert_memory_equal(joined + at, text[i], size[i]);
  assert_true(at == len);
  td_free(joined);
}

static size_t held(const td_piece_cache *c) {
  return td_piece_cache_read_stats(c).held;
}

/* ---- tests --------------------------------------------------------------- */

static void a_registration(void **state) {
  (void)state;
  td_piece_cache *c = td_piece_cache_new(0, 0);
  td_piece_hash list[5] = {hash[0], hash[1], hash[0], hash[2], hash[1]};
  size_t at[5], len;
  char *joined;
  OK(add(c, 1));
  OK(td_piece_cache_pin(c, list, 5));
  assert_int_equal(td_piece_cache_missing(c, list, 5, at), 2);
  assert_int_equal(at[0], 0);
  assert_int_equal(at[1], 3);
  FAILS(td_piece_cache_join(c, list, 5, SIZE_MAX, &joined, &len), TD_NOT_FOUND,
        "piece 1 of 5");
  OK(add(c, 0));
  OK(add(c, 2));
  OK(add(c, 2)); /* once more: nothing happens */
  assert_int_equal(td_piece_cache_missing(c, list, 5, at), 0);
  OK(td_piece_cache_join(c, list, 5, SIZE_MAX, &joined, &len));
  assert_int_equal(len, 2 * size[0] + 2 * size[1] + size[2]);
  assert_memory_equal(joined + size[0], text[1], size[1]);
  td_free(joined);
  FAILS(td_piece_cache_join(c, list, 5, len - 1, &joined, &len),
        TD_RESOURCE_EXHAUSTED, "5 pieces has more than");
  assert_int_equal(td_piece_cache_read_stats(c).kept, 0);
  td_piece_cache_unpin(c, list, 5);
  assert_int_equal(td_piece_cache_read_stats(c).kept,
                   size[0] + size[1] + size[2]);
  OK(td_piece_cache_pin(c, list, 5));
  assert_int_equal(td_piece_cache_missing(c, list, 5, at), 0);
  td_piece_cache_stats s = td_piece_cache_read_stats(c);
  assert_int_equal(s.pieces, 3);
  assert_int_equal(s.hits, 2 + 5);
  assert_int_equal(s.misses, 3);
  td_piece_cache_unpin(c, list, 5);
  td_piece_cache_free(c);
}

static void nothing_joins_to_nothing(void **state) {
  (void)state;
  td_piece_cache *c = td_piece_cache_new(0, 0);
  char *joined;
  size_t len;
  OK(td_piece_cache_pin(c, NULL, 0));
  OK(td_piece_cache_join(c, NULL, 0, 0, &joined, &len));
  assert_int_equal(len, 0);
  td_free(joined);
  td_piece_cache_free(c);
  td_piece_cache_free(NULL);
}

static void the_oldest_go(void **state) {
  (void)state;
  td_piece_cache *c = td_piece_cache_new(1000, 0);
  for (int i = 0; i < 10; i++) OK(add(c, i)); /* 100, 137, ... 433 */
  assert_true(td_piece_cache_read_stats(c).kept <= 1000);
  assert_false(is_missing(c, 9)); /* 433 */
  assert_false(is_missing(c, 8)); /* 396 */
  assert_true(is_missing(c, 7));
  OK(td_piece_cache_pin(c, &hash[8], 1)); /* used: it is the newest */
  td_piece_cache_unpin(c, &hash[8], 1);
  OK(add(c, 7));
  assert_true(is_missing(c, 9));
  assert_false(is_missing(c, 8));
  OK(add(c, 30)); /* 1,210 bytes: too large to be kept */
  assert_true(is_missing(c, 30));
  assert_false(is_missing(c, 8));
  td_piece_cache_free(c);
}

static void pinned_ones_stay(void **state) {
  (void)state;
  td_piece_cache *c = td_piece_cache_new(1, 0);
  OK(td_piece_cache_pin(c, hash, 20));
  for (int i = 0; i < 40; i++) OK(add(c, i));
  check_join(c, 20);
  OK(td_piece_cache_pin(c, hash, 10));
  td_piece_cache_unpin(c, hash, 20);
  check_join(c, 10);
  assert_true(is_missing(c, 10));
  td_piece_cache_unpin(c, hash, 10);
  td_piece_cache_unpin(c, hash, 10); /* of what is gone: nothing */
  assert_int_equal(held(c), 0);
  td_piece_cache_free(c);
}

static void there_is_a_limit(void **state) {
  (void)state;
  td_piece_cache *c = td_piece_cache_new(0, 4000);
  for (int i = 0; i < PIECES; i++) OK(add(c, i)); /* older ones make room */
  assert_true(held(c) <= 4000);
  FAILS(td_piece_cache_pin(c, hash, PIECES), TD_RESOURCE_EXHAUSTED,
        "the limit of 4000");
  OK(td_piece_cache_pin(c, hash, 4)); /* the pins of before are gone */
  bool whole;
  uint64_t huge = 3900;
  FAILS(td_piece_cache_part(c, hash, huge, 0, text[0], 10, &whole),
        TD_RESOURCE_EXHAUSTED, "3900 more");
  OK(add(c, 0));
  td_piece_cache_unpin(c, hash, 4);
  td_piece_cache_free(c);
}

static void parts_in_any_order(void **state) {
  (void)state;
  td_piece_cache *c = td_piece_cache_new(0, 0);
  td_philox ph;
  td_philox_init(&ph, 5, 6);
  for (int round = 0; round < 300; round++) {
    bool have[5000] = {0}, whole = false;
    int i = round % PIECES;
    size_t left = size[i];
    OK(td_piece_cache_pin(c, &hash[i], 1));
    while (!whole) {
      uint32_t r[4];
      td_philox_next(&ph, r);
      size_t from = r[0] % size[i], to = from + 1 + r[1] % 60;
      if (to > size[i]) to = size[i];
      OK(part(c, i, from, to, &whole));
      for (size_t k = from; k < to; k++) left -= !have[k], have[k] = true;
      assert_int_equal(whole, left == 0);
    }
    OK(part(c, i, 0, 3, &whole)); /* late: nothing happens */
    assert_true(whole);
    td_piece_cache_unpin(c, &hash[i], 1);
    if (round == PIECES - 1) { /* all are there: then none is */
      check_join(c, PIECES);
      td_piece_cache_free(c);
      c = td_piece_cache_new(1, 0);
    }
  }
  td_piece_cache_free(c);
}

static void the_whole_is_a_part(void **state) {
  (void)state;
  td_piece_cache *c = td_piece_cache_new(0, 0);
  bool whole;
  OK(td_piece_cache_pin(c, hash, 1));
  OK(part(c, 0, 3, 20, &whole));
  assert_false(whole);
  OK(part(c, 0, 0, size[0], &whole));
  assert_true(whole);
  check_join(c, 1);
  td_piece_cache_unpin(c, hash, 1);
  td_piece_cache_free(c);
}

static void wrong_parts(void **state) {
  (void)state;
  td_piece_cache *c = td_piece_cache_new(0, 0);
  bool whole;
  static const struct {
    uint64_t size, offset;
    size_t n;
    const char *says;
  } rows[] = {
      {0, 0, 0, "not 0"},
      {0, 0, 1, "not 0"},
      {(uint64_t)TD_PIECE_MOST + 1, 0, 1, "not 2147483649"},
      {UINT64_MAX, UINT64_MAX - 5, 6, "not 18446744073709551615"},
      {90, 90, 1, "1 bytes at 90"},
      {90, 91, 1, "1 bytes at 91"},
      {90, 0, 91, "91 bytes at 0"},
      {90, 50, 41, "of 90 bytes"},
      {90, UINT64_MAX, 2, "2 bytes at 18446744073709551615"},
      {90, 0, 0, "0 bytes at 0"},
  };
  FAILS(part(c, 0, 0, 10, &whole), TD_NOT_FOUND, "nobody asked");
  OK(add(c, 0)); /* there, but not asked for */
  FAILS(part(c, 0, 0, 10, &whole), TD_NOT_FOUND, "nobody asked");
  OK(td_piece_cache_pin(c, hash, 2));
  size_t before = held(c);
  for (size_t i = 0; i < TD_COUNT(rows); i++)
    FAILS(td_piece_cache_part(c, &hash[1], rows[i].size, rows[i].offset,
                              text[1], rows[i].n, &whole),
          TD_INVALID_ARGUMENT, rows[i].says);
  assert_int_equal(held(c), before);
  OK(part(c, 1, 5, 10, &whole));
  FAILS(td_piece_cache_part(c, &hash[1], size[1] + 1, 0, text[1], 5, &whole),
        TD_INVALID_ARGUMENT, "and had 137 before");
  FAILS(td_piece_cache_add(c, &hash[2], text[2], 0), TD_INVALID_ARGUMENT,
        "not 0");
  td_piece_cache_unpin(c, hash, 2);
  assert_true(is_missing(c, 1)); /* what had begun is gone */
  td_piece_cache_free(c);
}

static void another_hash(void **state) {
  (void)state;
  td_piece_cache *c = td_piece_cache_new(0, 0);
  bool whole;
  FAILS(td_piece_cache_add(c, &hash[0], text[1], size[0]), TD_DATA_LOSS,
        "100 bytes came as piece ");
  assert_int_equal(held(c), 0);
  OK(td_piece_cache_pin(c, hash, 1));
  OK(td_piece_cache_part(c, hash, size[0], 0, text[1], 50, &whole));
  FAILS(part(c, 0, 50, size[0], &whole), TD_DATA_LOSS, "another hash");
  assert_false(whole);
  OK(part(c, 0, 0, 50, &whole)); /* from the start, another way */
  OK(part(c, 0, 40, size[0], &whole));
  assert_true(whole);
  check_join(c, 1);
  td_piece_cache_unpin(c, hash, 1);
  td_piece_cache_free(c);
}

static void too_many_gaps(void **state) {
  (void)state;
  td_piece_cache *c = td_piece_cache_new(0, 0);
  bool whole;
  OK(td_piece_cache_pin(c, hash, 1));
  td_status *s = NULL;
  int parts = 0;
  for (; td_ok(s) && parts < 5000; parts++)
    s = td_piece_cache_part(c, hash, 100000, (uint64_t)parts * 2, text[0], 1,
                            &whole);
  FAILS(s, TD_RESOURCE_EXHAUSTED, "more than 1024 parts");
  assert_int_equal(parts, 1025);
  /* What touches them is taken still. */
  OK(td_piece_cache_part(c, hash, 100000, 1, text[0], 3000, &whole));
  td_piece_cache_unpin(c, hash, 1);
  assert_int_equal(held(c), 0);
  td_piece_cache_free(c);
}

/* One way through everything; each allocation fails once. */
static td_status *work(td_piece_cache *c) {
  bool whole;
  char *joined;
  size_t len;
  TD_TRY(td_piece_cache_pin(c, hash, 12));
  td_status *s = add(c, 0);
  for (int i = 1; i < 12 && td_ok(s); i++) {
    s = part(c, i, 0, 20, &whole);
    if (td_ok(s)) s = part(c, i, 50, 60, &whole);
    if (td_ok(s)) s = part(c, i, 10, size[i], &whole);
    if (td_ok(s)) assert_true(whole);
  }
  if (td_ok(s)) s = td_piece_cache_join(c, hash, 12, SIZE_MAX, &joined, &len);
  if (td_ok(s)) td_free(joined);
  td_piece_cache_unpin(c, hash, 12);
  return s;
}

static void without_memory(void **state) {
  (void)state;
  bool done = false;
  for (int n = 1; !done; n++) {
    td_mem_fail(n, false);
    td_piece_cache *c = td_piece_cache_new(1, 0);
    td_status *s = c ? work(c) : td_oom();
    td_mem_fail(0, false);
    done = td_ok(s);
    if (!done) assert_int_equal(td_status_code(s), TD_RESOURCE_EXHAUSTED);
    td_status_release(s);
    if (!c) continue;
    assert_int_equal(held(c), 0); /* nothing is kept of it */
    OK(work(c));
    td_piece_cache_free(c);
    assert_true(n < 1000);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_registration),
      cmocka_unit_test(nothing_joins_to_nothing),
      cmocka_unit_test(the_oldest_go),
      cmocka_unit_test(pinned_ones_stay),
      cmocka_unit_test(there_is_a_limit),
      cmocka_unit_test(parts_in_any_order),
      cmocka_unit_test(the_whole_is_a_part),
      cmocka_unit_test(wrong_parts),
      cmocka_unit_test(another_hash),
      cmocka_unit_test(too_many_gaps),
      cmocka_unit_test(without_memory),
  };
  return cmocka_run_group_tests(tests, make_pieces, NULL);
}
