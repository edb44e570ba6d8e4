/* errand.c - work on an I/O thread, let go of by a cancel or waited for.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/errand.h"
#include "tests/check.h"

#include <unistd.h>

#include "tests/kernels/net.h"

typedef struct chore {
  td_errand base; /* first */
  bool holds;     /* a cancel is to wait for it */
  bool held, wanted;
} chore;

static int begun, may_end, dropped; /* atomic */

static void wait_for(const int *flag) {
  while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE)) usleep(100);
}

static void set(int *flag, int value) {
  __atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

static chore seen; /* what the last one found */

static td_status *work(td_errand *e) {
  chore *w = (chore *)e;
  if (w->holds) w->held = td_errand_hold(e);
  set(&begun, 1);
  wait_for(&may_end);
  w->wanted = td_errand_wanted(e);
  return NULL;
}

static void drop(td_errand *e) {
  seen = *(chore *)e;
  td_free(e);
  set(&dropped, 1);
}

static const td_errand_kind plain = {"does", work, NULL, drop};

typedef struct run {
  net n;
  net_wait wait;
  td_kernel kernel;
  td_kernel_ctx ctx;
} run;

static void run_begin(run *r, const td_errand_kind *kind, bool holds) {
  *r = (run){.wait = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                      .cond = PTHREAD_COND_INITIALIZER}};
  net_init(&r->n, 1);
  r->ctx = (td_kernel_ctx){.kernel = &r->kernel,
                           .step = &r->n.step,
                           .done = net_done,
                           .owner = &r->wait};
  set(&begun, 0);
  set(&may_end, 0);
  set(&dropped, 0);
  chore *w = td_calloc(1, sizeof *w);
  assert_non_null(w);
  w->base.kind = kind;
  w->base.what = "a chore";
  w->holds = holds;
  td_errand_start(&w->base, &r->ctx);
}

static bool is_over(run *r) {
  pthread_mutex_lock(&r->wait.mutex);
  bool over = r->wait.over;
  pthread_mutex_unlock(&r->wait.mutex);
  return over;
}

static td_status *run_end(run *r) {
  pthread_mutex_lock(&r->wait.mutex);
  while (!r->wait.over) pthread_cond_wait(&r->wait.cond, &r->wait.mutex);
  pthread_mutex_unlock(&r->wait.mutex);
  wait_for(&dropped);
  net_deinit(&r->n);
  return r->wait.status;
}

static void test_let_go(void **state) {
  (void)state;
  run r;
  run_begin(&r, &plain, false);
  wait_for(&begun);
  td_str why = {0};
  td_errand_why(&r.ctx, &why);
  assert_string_equal(td_str_c(&why), "a thread that does 'a chore'");
  td_str_deinit(&why);
  td_errand_cancel(&r.ctx);
  assert_true(is_over(&r)); /* at once */
  td_errand_cancel(&r.ctx);
  set(&may_end, 1);
  FAILS(run_end(&r), TD_CANCELLED, "");
  assert_false(seen.wanted);
}

static void test_held(void **state) {
  (void)state;
  run r;
  run_begin(&r, &plain, true);
  wait_for(&begun);
  td_errand_cancel(&r.ctx);
  assert_false(is_over(&r));
  set(&may_end, 1);
  OK(run_end(&r));
  assert_true(seen.held && seen.wanted);
}

/* Asked for once it was let go of, it is not to be had. */
static td_status *work_late(td_errand *e) {
  chore *w = (chore *)e;
  set(&begun, 1);
  wait_for(&may_end);
  w->held = td_errand_hold(e);
  return NULL;
}

static void test_too_late(void **state) {
  (void)state;
  static const td_errand_kind late = {"does", work_late, NULL, drop};
  run r;
  run_begin(&r, &late, false);
  wait_for(&begun);
  td_errand_cancel(&r.ctx);
  set(&may_end, 1);
  FAILS(run_end(&r), TD_CANCELLED, "");
  assert_false(seen.held);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_let_go),
      cmocka_unit_test(test_held),
      cmocka_unit_test(test_too_late),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
