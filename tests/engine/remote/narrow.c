/* narrow.c - tests of engine/remote/narrow.h.
 *
 * The reference compares in double which of the two neighbours is nearer.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <math.h>
#include <stdlib.h>

#include "engine/base/clock.h"
#include "engine/base/cpu.h"
#include "engine/base/philox.h"
#include "engine/remote/narrow.h"

static float float_of(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

/* The value of 16 bits, where infinity is the number it stands for. */
static double value_of(uint32_t h) {
  return (h & 0x7fff) == 0x7f80 ? (h >> 15 ? -0x1p128 : 0x1p128)
                                : (double)float_of(h << 16);
}

static uint16_t reference(uint32_t u) {
  uint32_t low = u >> 16;
  if (isnan(float_of(u)) || isinf(float_of(u)) || !(u & 0xffff))
    return (uint16_t)low;
  double below = fabs((double)float_of(u) - value_of(low));
  double above = fabs((double)float_of(u) - value_of(low + 1));
  bool up = above < below || (above == below && low % 2);
  return (uint16_t)(low + up);
}

/* n <= 1 << 16 floats of these bits, and what comes of them. */
static void check(const uint32_t *u, size_t n) {
  static float f[1 << 16];
  static uint16_t h[1 << 16];
  memcpy(f, u, n * sizeof *u);
  td_narrow_pack(f, n, h);
  for (size_t i = 0; i < n; i++) {
    if (isnan(f[i])) {
      assert_true(isnan(float_of((uint32_t)h[i] << 16)));
      assert_int_equal(h[i] >> 15, u[i] >> 31);
    } else if (h[i] != reference(u[i])) {
      fail_msg("%08x: %04x, not %04x", u[i], h[i], reference(u[i]));
    }
  }
}

/* ---- tests --------------------------------------------------------------- */

/* All there are: each comes back as it was. */
static void all_of_16_bits(void **state) {
  (void)state;
  static uint16_t h[1 << 16], again[1 << 16];
  static float f[1 << 16];
  static uint32_t u[1 << 16];
  for (uint32_t i = 0; i < 1 << 16; i++) h[i] = (uint16_t)i;
  td_narrow_unpack(h, 1 << 16, f);
  memcpy(u, f, sizeof u);
  for (uint32_t i = 0; i < 1 << 16; i++) assert_int_equal(u[i], i << 16);
  td_narrow_pack(f, 1 << 16, again);
  for (uint32_t i = 0; i < 1 << 16; i++)
    assert_int_equal(again[i], isnan(f[i]) ? i | 0x40 : i);
}

/* Around each of them: the ties and what is beside them. */
static void ties(void **state) {
  (void)state;
  static const uint32_t low[] = {1, 0x7fff, 0x8000, 0x8001, 0xffff};
  static uint32_t u[1 << 16];
  for (size_t k = 0; k < TD_COUNT(low); k++) {
    for (uint32_t i = 0; i < 1 << 16; i++) u[i] = i << 16 | low[k];
    check(u, 1 << 16);
  }
}

static void random_floats(void **state) {
  (void)state;
  static uint32_t u[1 << 16];
  td_philox ph;
  td_philox_init(&ph, 16, 24);
  for (int round = 0; round < 256; round++) { /* 2^24 */
    for (int i = 0; i < 1 << 16; i += 4) td_philox_next(&ph, u + i);
    check(u, 1 << 16);
  }
}

static void some_by_name(void **state) {
  (void)state;
  static const struct {
    uint32_t from;
    uint16_t to;
  } rows[] = {
      {0x00000000, 0x0000}, {0x80000000, 0x8000}, /* zeros */
      {0x3f800000, 0x3f80},                       /* 1 */
      {0x00000001, 0x0000}, {0x00010000, 0x0001}, /* denormals */
      {0x00018000, 0x0002}, {0x007fffff, 0x0080},
      {0x7f7f7fff, 0x7f7f}, {0x7f7f8000, 0x7f80}, /* the largest */
      {0x7f800000, 0x7f80}, {0xff800000, 0xff80}, /* infinite */
      {0x7f800001, 0x7fc0}, {0xff800001, 0xffc0}, /* NaN by its last bit */
      {0x7fc00000, 0x7fc0}, {0xffffffff, 0xffff},
  };
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    float f = float_of(rows[i].from);
    uint16_t h;
    td_narrow_pack(&f, 1, &h);
    assert_int_equal(h, rows[i].to);
  }
}

/* Kernels may have set the processor so that denormals are zeros. */
static void denormals_are_kept(void **state) {
  (void)state;
  uint32_t u[200], back[200];
  uint16_t h[200];
  for (uint32_t i = 0; i < 200; i++) u[i] = (i % 127 + 1) << 16;
  unsigned was = td_cpu_flush_on();
  td_narrow_pack((const float *)(const void *)u, 200, h);
  td_narrow_unpack(h, 200, (float *)(void *)back);
  td_cpu_flush_restore(was);
  assert_memory_equal(u, back, sizeof u);
}

/* Any length, any cut, bytes at odd addresses: the same; nothing beside it is
 * touched. */
static void pieces_of_any_length(void **state) {
  (void)state;
  enum { N = 300 };
  float f[N], whole[N], back[N + 2];
  char h[2 * N], part[2 * N + 3];
  td_philox ph;
  td_philox_init(&ph, 1, 1);
  for (int i = 0; i < N; i += 4) {
    uint32_t r[4];
    td_philox_next(&ph, r);
    for (int k = 0; k < 4; k++) f[i + k] = (float)r[k] / 65536 - 30000;
  }
  td_narrow_pack(f, N, h);
  td_narrow_unpack(h, N, whole);
  for (size_t n = 0; n <= N; n++) {
    memset(part, 7, sizeof part);
    td_narrow_pack(f, n, part + 1);
    td_narrow_pack(f + n, N - n, part + 1 + 2 * n);
    assert_memory_equal(part + 1, h, sizeof h);
    assert_true(part[0] == 7 && part[2 * N + 1] == 7);
    back[n] = 5;
    td_narrow_unpack(part + 1, n, back);
    assert_true(back[n] == 5);
    td_narrow_unpack(part + 1 + 2 * n, N - n, back + n);
    assert_memory_equal(back, whole, sizeof whole);
  }
}

static void takes_a_moment(void **state) {
  (void)state;
  enum { N = 25000000, CHUNK = 128 << 10 };
  float *f = malloc(N * sizeof *f), *to = malloc(N * sizeof *f);
  char *h = malloc(2 * (size_t)N);
  int64_t best[3] = {INT64_MAX, INT64_MAX, INT64_MAX};
  memset(to, 1, N * sizeof *to);
  memset(h, 1, 2 * (size_t)N);
  for (size_t i = 0; i < N; i++) f[i] = (float)i;
  for (int round = 0; round < 5; round++) {
    int64_t at[4] = {td_clock_now()};
    for (size_t i = 0; i < N; i += CHUNK)
      td_narrow_pack(f + i, N - i < CHUNK ? N - i : CHUNK, h + 2 * i);
    at[1] = td_clock_now();
    td_narrow_unpack(h, N, to);
    at[2] = td_clock_now();
    memcpy(to, f, N * sizeof *to);
    at[3] = td_clock_now();
    for (int i = 0; i < 3; i++)
      if (at[i + 1] - at[i] < best[i]) best[i] = at[i + 1] - at[i];
  }
  print_message("100 MB of floats: pack %.1f ms, unpack %.1f ms, memcpy %.1f "
                "ms\n",
                (double)best[0] / 1e6, (double)best[1] / 1e6,
                (double)best[2] / 1e6);
  free(f);
  free(to);
  free(h);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_of_16_bits),
      cmocka_unit_test(ties),
      cmocka_unit_test(random_floats),
      cmocka_unit_test(some_by_name),
      cmocka_unit_test(denormals_are_kept),
      cmocka_unit_test(pieces_of_any_length),
      cmocka_unit_test(takes_a_moment),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
