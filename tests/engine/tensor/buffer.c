/* buffer.c - buffers of our own, of another space, and foreign ones.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <string.h>

#include "engine/base/mem.h"
#include "engine/tensor/buffer.h"

/* An allocator that keeps count; `none` makes it refuse. */
typedef struct counted {
  td_allocator base;
  int calls;   /* of alloc */
  size_t live; /* bytes not yet freed */
  bool none;   /* refuses */
} counted;

static void *counted_alloc(td_allocator *a, size_t bytes) {
  counted *c = (counted *)a;
  c->calls++;
  void *p = c->none ? NULL : td_aligned_alloc(64, bytes ? bytes : 1);
  if (p) c->live += bytes;
  return p;
}

static void counted_free(td_allocator *a, void *p, size_t bytes) {
  counted *c = (counted *)a;
  c->live -= bytes;
  td_free(p);
}

static td_status *counted_refusal(td_allocator *a, size_t bytes) {
  return td_error(TD_RESOURCE_EXHAUSTED, "%s has no %zu bytes", a->name, bytes);
}

static counted counted_make(bool host) {
  return (counted){.base = {.name = "counted",
                            .host = host,
                            .touchable = host,
                            .alloc = counted_alloc,
                            .free = counted_free,
                            .refusal = counted_refusal}};
}

static void test_sizes(void **state) {
  static const size_t sizes[] = {0, 1, 4, 64, 4032, 4033, 4096, 1 << 20};
  (void)state;
  for (size_t i = 0; i < TD_COUNT(sizes); i++) {
    td_buffer *b;
    assert_null(td_buffer_new(NULL, sizes[i], &b));
    assert_int_equal(b->size, sizes[i]);
    assert_int_equal((uintptr_t)b->data % 64, 0);
    assert_ptr_equal(b->allocator, td_allocator_host());
    memset(b->data, 0xaa, sizes[i]);
    td_buffer_release(b);
  }
}

static void test_one_block(void **state) {
  (void)state;
  for (int host = 0; host < 2; host++) {
    counted a = counted_make(host);
    td_buffer *small, *large;
    int64_t before = td_mem_calls();
    assert_null(td_buffer_new(&a.base, 4, &small));
    int64_t calls = td_mem_calls() - before;
    assert_int_equal(calls, host ? 1 : 2); /* the header apart or not */
    assert_null(td_buffer_new(&a.base, 1 << 16, &large));
    assert_int_equal(a.calls, 2);
    assert_int_equal(small->inlined, host);
    assert_false(large->inlined);
    td_buffer_release(small);
    td_buffer_release(large);
    assert_int_equal(a.live, 0);
  }
}

static void test_refused(void **state) {
  static const size_t sizes[] = {4, 1 << 16};
  (void)state;
  for (size_t i = 0; i < TD_COUNT(sizes); i++) {
    counted a = counted_make(true);
    td_buffer *b = NULL;
    a.none = true;
    td_status *s = td_buffer_new(&a.base, sizes[i], &b);
    assert_int_equal(td_status_code(s), TD_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(td_status_message(s), "counted has no"));
    td_status_release(s);
    a.base.refusal = NULL;
    s = td_buffer_new(&a.base, sizes[i], &b);
    assert_ptr_equal(s, td_oom());
    td_status_release(s);
    assert_null(b);
  }
}

static void note_release(void *arg, void *data, size_t size) {
  int *calls = arg;
  ++*calls;
  assert_int_equal(size, 5);
  assert_memory_equal(data, "tides", 5);
}

static void test_wrap(void **state) {
  char foreign[] = "tides";
  int calls = 0;
  td_buffer *b, *quiet;
  (void)state;
  assert_null(td_buffer_wrap(foreign, 5, note_release, &calls, &b));
  assert_ptr_equal(b->data, foreign);
  assert_true(td_buffer_sole(b));
  td_buffer_retain(b);
  assert_false(td_buffer_sole(b));
  td_buffer_release(b);
  assert_int_equal(calls, 0);
  td_buffer_release(b);
  assert_int_equal(calls, 1);
  assert_null(td_buffer_wrap(foreign, 5, NULL, NULL, &quiet));
  td_buffer_release(quiet);
  td_buffer_release(NULL);
  assert_null(td_buffer_retain(NULL));
}

static void test_sole(void **state) {
  td_buffer *b;
  (void)state;
  assert_null(td_buffer_new(NULL, 8, &b));
  assert_true(td_buffer_sole(b));
  b->readonly = true;
  assert_false(td_buffer_sole(b));
  td_buffer_release(b);
  assert_false(td_buffer_sole(NULL));
}

static void test_stamps(void **state) {
  td_buffer *a, *b;
  uint64_t last = 0;
  (void)state;
  assert_null(td_buffer_new(NULL, 8, &a));
  assert_null(td_buffer_new(NULL, 8, &b));
  assert_true(a->stamp != b->stamp);
  for (int i = 0; i < 200000; i++) { /* over the ends of several ranges */
    td_buffer *t = i & 1 ? a : b;
    td_buffer_touch(t);
    assert_true(t->stamp > last);
    last = t->stamp;
  }
  td_buffer_release(a);
  td_buffer_release(b);
}

/* Fails each allocation in turn until all goes through. */
static void test_faults(void **state) {
  char foreign[5] = "tide";
  int failed = 0;
  (void)state;
  for (int64_t n = 1;; n++) {
    td_buffer *a = NULL, *b = NULL, *c = NULL;
    td_mem_fail(n, false);
    td_status *s = td_buffer_new(NULL, 16, &a);
    if (td_ok(s)) s = td_buffer_new(NULL, 1 << 16, &b);
    if (td_ok(s)) s = td_buffer_wrap(foreign, 5, NULL, NULL, &c);
    td_mem_fail(0, false);
    td_buffer_release(a);
    td_buffer_release(b);
    td_buffer_release(c);
    if (td_ok(s)) break;
    assert_int_equal(td_status_code(s), TD_RESOURCE_EXHAUSTED);
    td_status_release(s);
    failed++;
  }
  assert_int_equal(failed, 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sizes),   cmocka_unit_test(test_one_block),
      cmocka_unit_test(test_refused), cmocka_unit_test(test_wrap),
      cmocka_unit_test(test_sole),    cmocka_unit_test(test_stamps),
      cmocka_unit_test(test_faults),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
