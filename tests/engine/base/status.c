/* status.c - tests of engine/base/status.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <pthread.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/status.h"

static void carries_code_and_message(void **state) {
  (void)state;
  td_status *s = td_error(TD_NOT_FOUND, "no node '%s' in %d", "x", 7);
  assert_false(td_ok(s));
  assert_int_equal(td_status_code(s), TD_NOT_FOUND);
  assert_string_equal(td_status_message(s), "no node 'x' in 7");
  assert_string_equal(td_status_op(s), "");
  assert_string_equal(td_status_node(s), "");
  assert_string_equal(td_status_origin(s), "");
  assert_string_equal(td_status_device(s), "");
  assert_string_equal(td_status_about_task(s), "");
  assert_false(td_status_derived(s));
  td_status_release(s);
}

static void null_is_success(void **state) {
  (void)state;
  assert_true(td_ok(NULL));
  assert_int_equal(td_status_code(NULL), TD_OK);
  assert_string_equal(td_status_message(NULL), "");
  assert_false(td_status_derived(NULL));
  assert_null(td_status_at(NULL, "Op", "node", "a.lua:1", "CPU:0"));
  assert_null(td_status_derive(NULL));
  assert_null(td_status_about(NULL, "task"));
  assert_string_equal(td_status_about_task(NULL), "");
  assert_null(td_status_applied(NULL, "all at a"));
  assert_string_equal(td_status_applied_where(NULL), "");
  assert_null(td_status_retain(NULL));
  assert_null(td_status_first(NULL, NULL));
  td_status_release(NULL);
}

static void code_names(void **state) {
  (void)state;
  static const struct {
    int code;
    const char *name;
  } rows[] = {
      {TD_OK, "ok"},
      {TD_CANCELLED, "cancelled"},
      {TD_INVALID_ARGUMENT, "invalid_argument"},
      {TD_DEADLINE_EXCEEDED, "deadline_exceeded"},
      {TD_RESOURCE_EXHAUSTED, "resource_exhausted"},
      {TD_UNAUTHENTICATED, "unauthenticated"},
      {17, "unknown"},
      {-1, "unknown"},
  };
  for (size_t i = 0; i < TD_COUNT(rows); i++)
    assert_string_equal(td_code_name((td_code)rows[i].code), rows[i].name);
}

/* A code from the wire may be anything; it never reads as success. */
static void odd_codes_are_unknown(void **state) {
  (void)state;
  static const int codes[] = {0, -3, 17, 1 << 30};
  for (size_t i = 0; i < TD_COUNT(codes); i++) {
    td_status *s = td_error((td_code)codes[i], "x");
    assert_int_equal(td_status_code(s), TD_UNKNOWN);
    td_status_release(s);
  }
}

static void first_place_stays(void **state) {
  (void)state;
  td_status *s = td_error(TD_INTERNAL, "boom");
  s = td_status_at(s, "MatMul", NULL, "", "CPU:0");
  s = td_status_at(s, "Add", "mm", "a.lua:3", "CPU:1");
  s = td_status_at(s, "Sub", "x", "b.lua:9", "CPU:2");
  assert_string_equal(td_status_message(s), "boom");
  assert_string_equal(td_status_op(s), "MatMul");
  assert_string_equal(td_status_node(s), "mm");
  assert_string_equal(td_status_origin(s), "a.lua:3");
  assert_string_equal(td_status_device(s), "CPU:0");
  td_status_release(s);
}

/* Who holds the old one must not see the place appear. */
static void shared_is_copied(void **state) {
  (void)state;
  td_status *s = td_error(TD_ABORTED, "gone");
  td_status *held = td_status_retain(s);
  s = td_status_at(s, "Op", "n", NULL, NULL);
  assert_ptr_not_equal(s, held);
  assert_string_equal(td_status_node(held), "");
  assert_string_equal(td_status_node(s), "n");
  td_status *held2 = td_status_retain(s);
  s = td_status_derive(s);
  assert_true(td_status_derived(s));
  assert_false(td_status_derived(held2));
  assert_string_equal(td_status_node(s), "n");
  td_status_release(held2);
  td_status_release(held);
  td_status_release(s);
}

/* The place and the task do not hide one another; the first task stays. */
static void evidence_names_a_task(void **state) {
  (void)state;
  td_status *s = td_error(TD_UNAVAILABLE, "no answer");
  td_status *held = td_status_retain(s);
  s = td_status_about(s, "");
  assert_ptr_equal(s, held);
  s = td_status_about(s, "/job:a/task:1");
  assert_string_equal(td_status_about_task(held), "");
  s = td_status_at(s, "Op", "n", NULL, "CPU:0");
  s = td_status_about(s, "/job:a/task:2");
  s = td_status_derive(s);
  assert_string_equal(td_status_about_task(s), "/job:a/task:1");
  assert_string_equal(td_status_device(s), "CPU:0");
  assert_string_equal(td_status_message(s), "no answer");
  assert_true(td_status_derived(s));
  s = td_status_applied(s, "");
  assert_string_equal(td_status_applied_where(s), "");
  s = td_status_applied(s, "unknown at /job:a/task:1");
  s = td_status_applied(s, "all at /job:a/task:1");
  assert_string_equal(td_status_applied_where(s), "unknown at /job:a/task:1");
  td_status_release(held);
  td_status_release(s);
}

static void oom_is_static(void **state) {
  (void)state;
  td_status *s = td_oom();
  assert_int_equal(td_status_code(s), TD_RESOURCE_EXHAUSTED);
  assert_string_equal(td_status_message(s), "out of memory");
  assert_ptr_equal(td_status_retain(s), s);
  td_status_release(s);
  td_status_release(s);
  td_status_release(s);
  td_status *at = td_status_at(td_oom(), "Op", "n", "a.lua:1", "CPU:0");
  assert_ptr_not_equal(at, td_oom());
  assert_string_equal(td_status_message(at), "out of memory");
  assert_string_equal(td_status_node(at), "n");
  td_status_release(at);
  td_status *about = td_status_about(td_oom(), "task");
  assert_string_equal(td_status_about_task(about), "task");
  assert_string_equal(td_status_about_task(td_oom()), "");
  td_status_release(about);
  about = td_status_applied(td_oom(), "all at a");
  assert_string_equal(td_status_applied_where(about), "all at a");
  assert_string_equal(td_status_applied_where(td_oom()), "");
  td_status_release(about);
  td_status *derived = td_status_derive(td_oom());
  assert_true(td_status_derived(derived));
  assert_false(td_status_derived(td_oom()));
  assert_int_equal(td_status_code(derived), TD_RESOURCE_EXHAUSTED);
  td_status_release(derived);
}

static void without_memory(void **state) {
  (void)state;
  td_status *s = td_error(TD_INTERNAL, "x"), *held = td_status_retain(s);
  td_mem_fail(1, true);
  assert_ptr_equal(td_error(TD_NOT_FOUND, "no"), td_oom());
  assert_ptr_equal(td_status_at(td_oom(), "Op", "n", "o", "d"), td_oom());
  s = td_status_at(s, "Op", "n", "o", "d"); /* without the place */
  assert_ptr_equal(s, held);
  s = td_status_about(s, "task"); /* a root cause then */
  assert_ptr_equal(s, held);
  assert_ptr_equal(td_status_about(td_oom(), "task"), td_oom());
  s = td_status_derive(s); /* shared: cannot be marked */
  assert_true(td_status_derived(s));
  assert_int_equal(td_status_code(s), TD_RESOURCE_EXHAUSTED);
  td_status_release(s);
  held = td_status_derive(held); /* sole now */
  assert_true(td_status_derived(held));
  assert_int_equal(td_status_code(held), TD_INTERNAL);
  td_mem_fail(0, false);
  td_status_release(held);
}

enum { NONE, ROOT, EVIDENCE, DERIVED, BOTH };

static td_status *of_kind(int kind, int number) {
  if (kind == NONE) return NULL;
  td_status *s = td_error(TD_INTERNAL, "%d", number);
  if (kind == EVIDENCE || kind == BOTH) s = td_status_about(s, "task");
  return kind == DERIVED || kind == BOTH ? td_status_derive(s) : s;
}

static void root_cause_wins(void **state) {
  (void)state;
  static const struct {
    int first, second;
    int wins; /* 1 first, 2 second */
  } rows[] = {
      {ROOT, NONE, 1},        {NONE, ROOT, 2},     {NONE, EVIDENCE, 2},
      {NONE, DERIVED, 2},     {ROOT, ROOT, 1},     {ROOT, EVIDENCE, 1},
      {ROOT, DERIVED, 1},     {ROOT, BOTH, 1},     {EVIDENCE, ROOT, 2},
      {EVIDENCE, NONE, 1},    {EVIDENCE, BOTH, 1}, {EVIDENCE, EVIDENCE, 1},
      {EVIDENCE, DERIVED, 1}, {DERIVED, ROOT, 2},  {DERIVED, EVIDENCE, 2},
      {DERIVED, DERIVED, 1},  {DERIVED, NONE, 1},  {DERIVED, BOTH, 1},
      {BOTH, ROOT, 2},        {BOTH, EVIDENCE, 2}, {BOTH, DERIVED, 1}};
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_status *won =
        td_status_first(of_kind(rows[i].first, 1), of_kind(rows[i].second, 2));
    assert_string_equal(td_status_message(won), rows[i].wins == 1 ? "1" : "2");
    td_status_release(won);
  }
  td_status *s = td_error(TD_INTERNAL, "same");
  s = td_status_first(s, td_status_retain(s));
  assert_string_equal(td_status_message(s), "same");
  td_status_release(s);
}

static void long_message_is_cut(void **state) {
  (void)state;
  td_status *s = td_error(TD_INTERNAL, "%*s", 3 << 20, "x");
  size_t len = strlen(td_status_message(s));
  assert_int_equal(len, 1 << 20);
  s = td_status_at(s, "Op", "n", NULL, NULL);
  assert_string_equal(td_status_op(s), "Op");
  td_status_release(s);
}

static td_status *fails_at(int n, int depth) {
  if (depth == n) return td_error(TD_OUT_OF_RANGE, "%d", depth);
  if (depth > 10) return NULL;
  TD_TRY(fails_at(n, depth + 1));
  return NULL;
}

static void try_returns_the_error(void **state) {
  (void)state;
  assert_null(fails_at(99, 0));
  td_status *s = fails_at(5, 0);
  assert_string_equal(td_status_message(s), "5");
  td_status_release(s);
}

static void *hold_and_place(void *arg) {
  td_status *shared = arg;
  for (int i = 0; i < 2000; i++) {
    td_status *mine = td_status_retain(shared);
    mine = td_status_at(mine, "Op", "mine", NULL, NULL);
    if (i % 2) mine = td_status_derive(mine);
    td_status_release(mine);
    td_status_release(td_status_retain(td_oom()));
  }
  td_status_release(shared);
  return NULL;
}

static void many_threads_hold_one(void **state) {
  (void)state;
  enum { N = 4 };
  pthread_t threads[N];
  td_status *s = td_error(TD_INTERNAL, "shared");
  for (int i = 0; i < N; i++)
    pthread_create(&threads[i], NULL, hold_and_place, td_status_retain(s));
  for (int i = 0; i < N; i++) pthread_join(threads[i], NULL);
  assert_string_equal(td_status_node(s), "");
  assert_false(td_status_derived(s));
  td_status_release(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(carries_code_and_message),
      cmocka_unit_test(null_is_success),
      cmocka_unit_test(code_names),
      cmocka_unit_test(odd_codes_are_unknown),
      cmocka_unit_test(first_place_stays),
      cmocka_unit_test(shared_is_copied),
      cmocka_unit_test(evidence_names_a_task),
      cmocka_unit_test(oom_is_static),
      cmocka_unit_test(without_memory),
      cmocka_unit_test(root_cause_wins),
      cmocka_unit_test(long_message_is_cut),
      cmocka_unit_test(try_returns_the_error),
      cmocka_unit_test(many_threads_hold_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
