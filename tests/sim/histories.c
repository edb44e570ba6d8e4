/* histories.c - the checker of histories finds what is wrong with them.
 *
 * A good history of a few steps on two tasks, of which one dies and is started
 * again; then the same with one thing planted in it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include "tests/sim/history.h"

/* What is planted. */
typedef enum planted {
  NOTHING,
  TWICE,           /* an op of a step that succeeded is applied twice */
  TWICE_FAILED,    /* of one that failed */
  TWICE_ELSEWHERE, /* once by the dead process, once by the one after it */
  MISSED,          /* acknowledged, and one task did nothing */
  LATER,           /* acknowledged first, applied then */
  LOST,            /* it was applied, and is not there */
  DOUBLED,         /* applied once, there twice */
  HALF,            /* begun and never ended, by one who lives */
  ZOMBIE,          /* begins where the step was cancelled */
  WRONG_TASK,
  UNKNOWN,
  YOUNGER, /* a new process applies what was begun before it */
  NEVER_ENDED,
  ENDED_TWICE,
  LATE,
  PLANTS
} planted;

enum { FIRST = 10, SECOND, YOUNG };

static void apply(history *h, int process, int64_t step, int op) {
  history_applying(h, process, step, op);
  history_applied(h, process, step, op);
}

static void begin(history *h, int64_t step, int64_t now) {
  history_begin(h, step, now, now + 100);
  history_op(h, step, 0, 0);
  history_op(h, step, 1, 1);
}

static void good_step(history *h, planted what) {
  begin(h, 1, 0);
  apply(h, FIRST, 1, 0);
  if (what == TWICE) apply(h, FIRST, 1, 0);
  if (what != MISSED && what != LATER)
    apply(h, what == WRONG_TASK ? FIRST : SECOND, 1, 1);
  if (what == UNKNOWN) apply(h, FIRST, 1, 7);
  history_acknowledged(h, 1, what == LATE ? 101 : 90);
  if (what == LATER) apply(h, SECOND, 1, 1);
  if (what == ENDED_TWICE) history_failed(h, 1, 95);
}

static void failed_step(history *h, planted what) {
  begin(h, 2, 100);
  apply(h, FIRST, 2, 0);
  if (what == TWICE_FAILED) apply(h, FIRST, 2, 0);
  history_applying(h, SECOND, 2, 1);
  if (what == TWICE_ELSEWHERE) history_applied(h, SECOND, 2, 1);
  if (what != HALF) history_died(h, SECOND); /* in the middle of it */
  history_applied(h, SECOND, 2, 1);          /* nobody sees this */
  history_process(h, YOUNG, 1);
  if (what == YOUNGER || what == TWICE_ELSEWHERE) apply(h, YOUNG, 2, 1);
  history_failed(h, 2, 150);
}

static void stopped_step(history *h, planted what) {
  begin(h, 3, 200);
  history_failed(h, 3, 210);
  history_applying(h, FIRST, 3, 0); /* it has not heard yet */
  history_cancelled(h, FIRST, 3);
  history_applied(h, FIRST, 3, 0);
  history_cancelled(h, YOUNG, 3);
  if (what == ZOMBIE) apply(h, YOUNG, 3, 1);
}

static void last_step(history *h, planted what) {
  begin(h, 4, 300);
  apply(h, FIRST, 4, 0);
  history_applying(h, YOUNG, 4, 1);
  if (what != HALF) history_applied(h, YOUNG, 4, 1);
  if (what != NEVER_ENDED && what != HALF) history_acknowledged(h, 4, 310);
  if (what == HALF) history_failed(h, 4, 310);
}

static void look(history *h, planted what) {
  for (int64_t step = 1; step <= 4; step++)
    if (step != 4 || what != LOST)
      history_found(h, FIRST, step, 0,
                    1 + (what == DOUBLED && step == 3) +
                        (what == TWICE && step == 1) +
                        (what == TWICE_FAILED && step == 2));
}

static bool check(planted what, char *why, size_t room) {
  history *h = history_new();
  history_process(h, FIRST, 0);
  history_process(h, SECOND, 1);
  good_step(h, what);
  failed_step(h, what);
  stopped_step(h, what);
  last_step(h, what);
  look(h, what);
  bool good = history_check(h, why, room);
  if (what == NOTHING) {
    history_sums s = history_count(h);
    assert_int_equal(s.acknowledged, 2);
    assert_int_equal(s.failed, 2);
    assert_int_equal(s.applied, 6);
    assert_int_equal(s.applied_of_failed, 2);
    assert_int_equal(s.missed_of_failed, 2);
  }
  history_free(h);
  return good;
}

static void what_is_planted_is_found(void **state) {
  static const char *const wants[] = {
      [TWICE] = "op 0 of step 1 was applied 2 times (P2)",
      [TWICE_FAILED] = "op 0 of step 2 was applied 2 times (P3)",
      [TWICE_ELSEWHERE] = "op 1 of step 2 was applied 2 times (P3)",
      [MISSED] = "step 1 was acknowledged, op 1 of task 1 was not applied (P2)",
      [LATER] = "step 1 was acknowledged, op 1 of task 1 was applied later",
      [LOST] = "op 0 of step 4 is lost from process 10 (P2)",
      [DOUBLED] = "op 0 of step 3 is there 2 times in process 10, applied 1",
      [HALF] = "op 1 of step 4 began 1 times in process 12 and ended 0 times",
      [ZOMBIE] = "op 1 of step 3 begins in process 12, where it was cancelled",
      [WRONG_TASK] = "op 1 of step 1 is applied by process 10, not task 1 (P7)",
      [UNKNOWN] = "op 7 of step 1 is applied, which nobody began",
      [YOUNGER] = "op 1 of step 2 is applied by process 12, which is younger",
      [NEVER_ENDED] = "step 4 never ended (P1)",
      [ENDED_TWICE] = "step 1 ended twice (P1)",
      [LATE] = "step 1 ended 0 us too late (P1)",
  };
  (void)state;
  for (planted i = NOTHING; i < PLANTS; i++) {
    char why[200] = "";
    bool good = check(i, why, sizeof why);
    if (good != (i == NOTHING)) fail_msg("plant %d: %d %s", i, good, why);
    if (!good && !strstr(why, wants[i]))
      fail_msg("plant %d: \"%s\" lacks \"%s\"", i, why, wants[i]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_planted_is_found)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
