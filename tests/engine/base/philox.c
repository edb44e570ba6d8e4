/* philox.c - tests of engine/base/philox.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <string.h>

#include "engine/base/philox.h"

/* The known answers published with the generator (Salmon et al.). */
static void known_answers(void **state) {
  (void)state;
  static const struct {
    td_philox p;
    uint32_t out[4];
  } rows[] = {
      {{{0, 0, 0, 0}, {0, 0}},
       {0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}},
      {{{0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF},
        {0xFFFFFFFF, 0xFFFFFFFF}},
       {0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}},
      {{{0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344},
        {0xA4093822, 0x299F31D0}},
       {0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}},
  };
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_philox p = rows[i].p;
    uint32_t out[4];
    td_philox_next(&p, out);
    assert_memory_equal(out, rows[i].out, sizeof out);
  }
}

static void seeds_take_their_places(void **state) {
  (void)state;
  td_philox p;
  td_philox_init(&p, 0x1111111122222222, 0x3333333344444444);
  const td_philox want = {{0, 0, 0x44444444, 0x33333333},
                          {0x22222222, 0x11111111}};
  assert_memory_equal(&p, &want, sizeof p);
}

static void skipping_is_stepping(void **state) {
  (void)state;
  td_philox a, b;
  uint32_t x[4], y[4];
  td_philox_init(&a, 87654321, 17);
  b = a;
  for (int i = 0; i < 1000; i++) td_philox_next(&a, x);
  td_philox_skip(&b, 1000);
  assert_memory_equal(&a, &b, sizeof a);
  td_philox_next(&a, x);
  td_philox_next(&b, y);
  assert_memory_equal(x, y, sizeof x);
}

static void the_counter_carries(void **state) {
  (void)state;
  static const struct {
    uint32_t from[4];
    uint64_t by;
    uint32_t to[4];
  } rows[] = {
      {{0xFFFFFFFF, 0, 0, 0}, 1, {0, 1, 0, 0}},
      {{0xFFFFFFFF, 0xFFFFFFFF, 0, 0}, 1, {0, 0, 1, 0}},
      {{0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0}, 1, {0, 0, 0, 1}},
      {{0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, 2, {1, 0, 0, 0}},
      {{2, 0, 0, 0}, UINT64_MAX, {1, 0, 1, 0}},
      {{5, 6, 7, 8}, 0, {5, 6, 7, 8}},
      {{0, 0, 0, 0}, (uint64_t)3 << 32, {0, 3, 0, 0}},
  };
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_philox p = {.key = {0}};
    memcpy(p.counter, rows[i].from, sizeof p.counter);
    td_philox_skip(&p, rows[i].by);
    assert_memory_equal(p.counter, rows[i].to, sizeof p.counter);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(known_answers),
      cmocka_unit_test(seeds_take_their_places),
      cmocka_unit_test(skipping_is_stepping),
      cmocka_unit_test(the_counter_carries),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
