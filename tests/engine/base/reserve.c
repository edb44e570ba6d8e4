/* reserve.c - when malloc is refused, the reserve makes room, once.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include "tests/check.h"

#include "engine/base/mem.h"
#include "engine/base/reserve.h"

enum { PIECE = 4096, MOST = 1 << 16 };

static void test_life(void **state) {
  (void)state;
  assert_false(td_reserve_spend());
  assert_false(td_reserve_spent());
  assert_true(td_reserve_take());
  assert_true(td_reserve_take());
  assert_true(td_reserve_spend());
  assert_false(td_reserve_spend());
  assert_true(td_reserve_spent());
  assert_true(td_reserve_take());
  assert_false(td_reserve_spent());
}

#ifndef __SANITIZE_ADDRESS__ /* whose allocator ends the process instead */

/* 256 MB of address space more than there is now. */
static void test_under_a_limit(void **state) {
  (void)state;
  static void *pieces[MOST];
  static struct rlimit was;
  struct rlimit l;
  unsigned long pages = 0;
  int n = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  assert_non_null(f);
  assert_int_equal(fscanf(f, "%lu", &pages), 1);
  fclose(f);
  getrlimit(RLIMIT_AS, &was);
  l = was;
  l.rlim_cur = pages * 4096 + (256u << 20);
  if (setrlimit(RLIMIT_AS, &l) != 0) fail_msg("no limit can be set");
  assert_null(td_malloc(1u << 30)); /* too much, and yet room is made */
  assert_true(td_reserve_spent());
  assert_true(td_reserve_take());
  while (n < MOST && !td_reserve_spent()) pieces[n++] = td_malloc(PIECE);
  void *more = td_malloc(PIECE);
  bool spent = td_reserve_spent(), got = pieces[n - 1] && more;
  while (n > 0) td_free(pieces[--n]);
  td_free(more);
  setrlimit(RLIMIT_AS, &was);
  assert_true(spent);
  assert_true(got);
  assert_true(td_reserve_take());
}

#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_life),
#ifndef __SANITIZE_ADDRESS__
      cmocka_unit_test(test_under_a_limit),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
