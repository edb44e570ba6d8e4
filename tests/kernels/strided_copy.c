/* strided_copy.c - strided copies against plain loops.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/strided_copy.h"
#include "tests/kernels/net.h"

static const size_t sizes[] = {1, 2, 4, 8, 16};

typedef struct walk {
  td_strided_copy m;
  size_t size;
  const char *from;
  char *to;
} walk;

static void plain(const walk *w, int loop, int64_t from, int64_t to) {
  if (loop == w->m.loops) {
    memcpy(w->to + to * (int64_t)w->size, w->from + from * (int64_t)w->size,
           w->size);
    return;
  }
  for (int64_t i = 0; i < w->m.count[loop]; i++)
    plain(w, loop + 1, from + i * w->m.from[loop], to + i * w->m.to[loop]);
}

/* Runs `m` both ways; places count from the middle of both buffers. */
static void compare(const td_strided_copy *m, size_t size, int64_t reach) {
  size_t bytes = (size_t)(2 * reach + 1) * size;
  char *from = test_malloc(bytes), *a = test_malloc(bytes);
  char *b = test_malloc(bytes);
  td_kernel k = {0};
  int stop = 0;
  td_step step = {.threads = 2, .stop = &stop};
  td_kernel_ctx c = {.kernel = &k, .step = &step};
  uint64_t r = 1;
  for (size_t i = 0; i < bytes; i++) from[i] = (char)draw(&r);
  memset(a, 0xaa, bytes);
  memset(b, 0xaa, bytes);
  int64_t middle = reach * (int64_t)size;
  walk w = {.m = *m, .size = size, .from = from + middle, .to = a + middle};
  plain(&w, 0, 0, 0);
  td_strided_copy_run(&c, m, size, from + middle, b + middle);
  assert_memory_equal(a, b, bytes);
  test_free(from);
  test_free(a);
  test_free(b);
}

/* Dense destinations in some order of the loops, sources with any steps. */
static void test_random(void **state) {
  uint64_t r = 2;
  (void)state;
  for (int n = 0; n < 3000; n++) {
    td_strided_copy m;
    td_strided_copy_init(&m);
    int64_t dense = 1, reach = 1, count[6], to[6];
    int loops = (int)(draw(&r) % 7);
    for (int k = loops - 1; k >= 0; k--) {
      count[k] = draw(&r) % 40 == 0 ? 0 : 1 + (int64_t)(draw(&r) % 4);
      to[k] = dense;
      dense *= count[k] ? count[k] : 1;
    }
    for (int k = 0; k < loops; k++) {
      int64_t from = draw(&r) % 2 ? to[k] : (int64_t)(draw(&r) % 21) - 10;
      td_strided_copy_loop(&m, count[k], from, to[k]);
      reach += count[k] * (from < 0 ? -from : from);
    }
    compare(&m, sizes[n % 5], reach + dense);
  }
}

/* Each way of doing the inner loop, over several pieces. */
static void test_large(void **state) {
  static const struct {
    int64_t count[3], from[3], to[3];
  } moves[] = {
      {{1, 1, 400000}, {0, 0, 1}, {0, 0, 1}},              /* run */
      {{3, 700, 300}, {210000, 301, 1}, {210000, 300, 1}}, /* runs */
      {{1, 1, 400000}, {0, 0, 0}, {0, 0, 1}},              /* fill */
      {{2, 1000, 150}, {0, 1, 0}, {150000, 150, 1}},       /* fills */
      {{1, 300, 500}, {0, 1, 300}, {0, 500, 1}},           /* transpose */
      {{1, 3, 70001}, {0, 1, 3}, {0, 70001, 1}},           /* thin */
      {{1, 70001, 3}, {0, 1, 70001}, {0, 3, 1}},           /* and tall */
      {{2, 300, 300}, {1, 600, 2}, {90000, 300, 1}},       /* steps */
      {{1, 500, 400}, {0, -400, -1}, {0, 400, 1}},         /* backwards */
      {{1, 400, 300}, {0, 300, 1}, {0, 900, 3}},           /* spread */
      {{200, 300, 2}, {2, 400, 1}, {600, 2, 1}},           /* pairs */
  };
  (void)state;
  for (size_t i = 0; i < TD_COUNT(moves); i++)
    for (size_t s = 0; s < TD_COUNT(sizes); s++) {
      td_strided_copy m;
      td_strided_copy_init(&m);
      for (int k = 0; k < 3; k++)
        td_strided_copy_loop(&m, moves[i].count[k], moves[i].from[k],
                             moves[i].to[k]);
      compare(&m, sizes[s], 800000);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random),
      cmocka_unit_test(test_large),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
