/* mem.c - tests of engine/base/mem.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <string.h>

#include "engine/base/mem.h"

static void gives_memory(void **state) {
  (void)state;
  char *p = td_malloc(10);
  memset(p, 1, 10);
  p = td_realloc(p, 100);
  assert_int_equal(p[9], 1);
  td_free(p);
  p = td_malloc(0);
  assert_non_null(p);
  p = td_realloc(p, 0);
  assert_non_null(p);
  td_free(p);
  td_free(NULL);
  p = td_calloc(25, 4);
  for (int i = 0; i < 100; i++) assert_int_equal(p[i], 0);
  td_free(p);
  p = td_calloc(0, 8);
  assert_non_null(p);
  td_free(p);
}

static void aligns(void **state) {
  (void)state;
  for (size_t align = 1; align <= 4096; align *= 2) {
    void *p = td_aligned_alloc(align, 33);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % align, 0);
    td_free(p);
  }
  assert_null(td_aligned_alloc(48, 1)); /* no power of two */
}

static void refuses_what_no_object_can_be(void **state) {
  (void)state;
  size_t too_large = (size_t)PTRDIFF_MAX + 1;
  char *p = td_malloc(1);
  assert_null(td_malloc(too_large));
  assert_null(td_malloc(SIZE_MAX));
  assert_null(td_calloc(SIZE_MAX / 2, 3));
  assert_null(td_calloc(1, too_large));
  assert_null(td_realloc(p, too_large));
  assert_null(td_aligned_alloc(64, SIZE_MAX));
  td_free(p);
}

static void checked_arithmetic(void **state) {
  (void)state;
  size_t r = 7;
  assert_false(td_mul(SIZE_MAX / 2, 3, &r));
  assert_false(td_add(SIZE_MAX, 1, &r));
  assert_int_equal(r, 7);
  assert_true(td_mul(6, 7, &r));
  assert_int_equal(r, 42);
  assert_true(td_add(SIZE_MAX - 1, 1, &r));
  assert_true(r == SIZE_MAX);
}

static void *by_alloc(void) {
  return td_malloc(8);
}
static void *by_zero(void) {
  return td_calloc(2, 4);
}
static void *by_aligned(void) {
  return td_aligned_alloc(64, 8);
}
static void *by_realloc(void) {
  return td_realloc(NULL, 8);
}

static void every_door_passes_the_seam(void **state) {
  (void)state;
  static void *(*const doors[])(void) = {by_alloc, by_zero, by_aligned,
                                         by_realloc};
  for (size_t i = 0; i < TD_COUNT(doors); i++) {
    int64_t before = td_mem_calls();
    td_mem_fail(2, false);
    void *first = doors[i](), *second = doors[i](), *third = doors[i]();
    assert_non_null(first);
    assert_null(second);
    assert_non_null(third);
    assert_int_equal(td_mem_calls() - before, 3);
    td_free(first);
    td_free(third);
  }
  td_mem_fail(1, true);
  assert_false(td_mem_try());
  assert_null(td_malloc(1));
  td_mem_fail(0, false);
  assert_true(td_mem_try());
}

static void failed_realloc_keeps_the_block(void **state) {
  (void)state;
  char *p = td_malloc(4);
  memcpy(p, "abc", 4);
  td_mem_fail(1, false);
  assert_null(td_realloc(p, 1000));
  assert_string_equal(p, "abc");
  td_free(p);
}

static void arena_gives_clear_aligned_pieces(void **state) {
  (void)state;
  static const size_t sizes[] = {1, 15, 16, 17, 0, 900, 5000, 100000, 3 << 20};
  td_arena a;
  td_arena_init(&a);
  for (int round = 0; round < 300; round++)
    for (size_t i = 0; i < TD_COUNT(sizes); i++) {
      size_t size = sizes[i];
      if (size > 1000 && round > 3) continue;
      unsigned char *p = td_arena_alloc(&a, size);
      assert_non_null(p);
      assert_int_equal((uintptr_t)p % 16, 0);
      for (size_t k = 0; k < size; k++)
        if (p[k]) fail_msg("byte %zu of %zu is not clear", k, size);
      memset(p, 0xAA, size); /* overlaps would be seen above */
    }
  td_arena_deinit(&a);
  td_arena_deinit(&a);
}

/* A large piece does not waste what is left of the newest block. */
static void arena_keeps_the_newest_block(void **state) {
  (void)state;
  td_arena a;
  td_arena_init(&a);
  char *first = td_arena_alloc(&a, 16);
  assert_non_null(td_arena_alloc(&a, 1 << 20));
  char *second = td_arena_alloc(&a, 16);
  assert_ptr_equal(second, first + 16);
  td_arena_deinit(&a);
}

static void arena_copies_strings(void **state) {
  (void)state;
  td_arena a;
  td_arena_init(&a);
  assert_string_equal(td_arena_str(&a, "hello"), "hello");
  assert_string_equal(td_arena_str(&a, ""), "");
  assert_string_equal(td_arena_strn(&a, "hello", 2), "he");
  assert_string_equal(td_arena_strn(&a, NULL, 0), "");
  assert_null(td_arena_strn(&a, "x", SIZE_MAX));
  td_arena_deinit(&a);
}

static void arena_without_memory(void **state) {
  (void)state;
  td_arena a;
  td_arena_init(&a);
  assert_null(td_arena_alloc(&a, SIZE_MAX));
  assert_null(td_arena_alloc(&a, SIZE_MAX - 20));
  td_mem_fail(1, false);
  assert_null(td_arena_alloc(&a, 10));
  char *p = td_arena_alloc(&a, 10);
  assert_non_null(p);
  td_mem_fail(1, false);
  assert_null(td_arena_alloc(&a, 1 << 20));
  assert_non_null(td_arena_alloc(&a, 10));
  td_mem_fail(0, false);
  td_arena_deinit(&a);
}

static void arenas_join(void **state) {
  (void)state;
  for (int both = 0; both < 4; both++) {
    td_arena a, b;
    char *of_a = NULL, *of_b = NULL;
    td_arena_init(&a);
    td_arena_init(&b);
    if (both & 1) of_a = td_arena_str(&a, "of a");
    if (both & 2) {
      of_b = td_arena_str(&b, "of b");
      assert_non_null(td_arena_alloc(&b, 1 << 20));
    }
    td_arena_join(&a, &b);
    assert_null(b.blocks);
    td_arena_deinit(&b);
    assert_string_equal(td_arena_str(&a, "new"), "new");
    if (of_a) assert_string_equal(of_a, "of a");
    if (of_b) assert_string_equal(of_b, "of b");
    td_arena_deinit(&a);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gives_memory),
      cmocka_unit_test(aligns),
      cmocka_unit_test(refuses_what_no_object_can_be),
      cmocka_unit_test(checked_arithmetic),
      cmocka_unit_test(every_door_passes_the_seam),
      cmocka_unit_test(failed_realloc_keeps_the_block),
      cmocka_unit_test(arena_gives_clear_aligned_pieces),
      cmocka_unit_test(arena_keeps_the_newest_block),
      cmocka_unit_test(arena_copies_strings),
      cmocka_unit_test(arena_without_memory),
      cmocka_unit_test(arenas_join),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
