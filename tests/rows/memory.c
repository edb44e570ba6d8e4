/* memory.c - a case whose allocations are refused, one at a time.
 *
 * The answer is the same, or the error of memory that ran out; what was taken
 * is given back, which AddressSanitizer looks at.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/rows/rows.h"

/* Cases of an op, and allocations of a case: the later ones repeat what the
 * first did for other pieces. */
enum { CASES = 3, MOST = 24 };

int runs_without_memory;

static void refuse_one(const row *r, const golden_case *c, const built *b,
                       int64_t nth, const result *want) {
  result got;
  run_refuse = nth;
  td_status *s = run_node(b, c, c->in, 0x11, false, 1, &got);
  run_refuse = 0;
  if (!td_ok(s)) {
    if (td_status_code(s) != TD_RESOURCE_EXHAUSTED)
      fail_msg("%s, case %d: allocation %lld refused: %s", r->op, c->index,
               (long long)nth, td_status_message(s));
    td_status_release(s);
    runs_without_memory++;
    return;
  }
  if (!result_same(&got, want, 0))
    fail_msg("%s, case %d: another answer without allocation %lld", r->op,
             c->index, (long long)nth);
  result_drop(&got);
}

void check_without_memory(const row *r, const golden_case *c) {
  result want;
  built b;
  if (c->index >= CASES || td_tensor_valid(&c->again[0])) return;
  OK(build_node(c, c->in, SHAPES, &b));
  OK(run_node(&b, c, c->in, 0x11, false, 1, &want));
  int64_t calls = run_allocations < MOST ? run_allocations : MOST;
  for (int64_t nth = 1; nth <= calls; nth++) refuse_one(r, c, &b, nth, &want);
  result_drop(&want);
  built_drop(&b);
}
