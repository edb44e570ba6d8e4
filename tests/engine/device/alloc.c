/* alloc.c - the caching allocator on one thread.
 *
 * Most tests run twice: with caching and without, as under AddressSanitizer.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/device/alloc.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static td_allocator *make(int caching, size_t limit) {
  td_alloc_options o = {.name = "CPU:7", .limit = limit, .caching = caching};
  td_allocator *a = NULL;
  assert_null(td_alloc_new(&o, &a));
  assert_true(a->host && a->touchable);
  return a;
}

static size_t in_use(td_allocator *a) {
  return td_allocator_read_stats(a).in_use;
}

/* ---- sizes --------------------------------------------------------------- */

static void test_sizes(void **state) {
  static const struct {
    size_t bytes, counted;
  } rows[] = {
      {0, 64},
      {1, 64},
      {64, 64},
      {65, 128},
      {1024, 1024},
      {1025, 1280},
      {1281, 1536},
      {2048, 2048},
      {2049, 2560},
      {20 * KIB, 20 * KIB},
      {32 * KIB - 1, 32 * KIB},
      {32 * KIB, 32 * KIB},
      {32 * KIB + 1, 48 * KIB},
      {64 * KIB, 64 * KIB},
      {256 * KIB, 256 * KIB},
      {256 * KIB + 1, 272 * KIB},
      {512 * KIB, 512 * KIB},
      {MIB, MIB},
      {MIB + 1, MIB + 64 * KIB},
      {2 * MIB, 2 * MIB},
      {100 * MIB, 100 * MIB},
      {100 * MIB + 1, 104 * MIB},
  };
  (void)state;
  td_allocator *a = make(1, 0);
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    char *p = a->alloc(a, rows[i].bytes);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 64, 0);
    assert_int_equal(in_use(a), rows[i].counted);
    p[0] = 1;
    if (rows[i].bytes) p[rows[i].bytes - 1] = 1;
    a->free(a, p, rows[i].bytes);
    assert_int_equal(in_use(a), 0);
  }
  td_alloc_release(a);
}

/* Sizes spread evenly over their logarithm, up to 1 MiB. */
static size_t any_size(uint64_t *seed) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  unsigned bits = (unsigned)(*seed >> 33) % 21;
  return (size_t)(*seed >> 40) & (((size_t)1 << bits) - 1);
}

typedef struct block {
  unsigned char *p;
  size_t size;
  unsigned char mark;
} block;

static void check_and_free(td_allocator *a, block *b) {
  for (size_t i = 0; i < b->size; i += 1 + b->size / 64)
    assert_int_equal(b->p[i], b->mark);
  if (b->size) assert_int_equal(b->p[b->size - 1], b->mark);
  if (b->p) a->free(a, b->p, b->size);
}

/* Live blocks never overlap. */
static void test_contents(void **state) {
  (void)state;
  for (int caching = -1; caching <= 1; caching += 2) {
    td_allocator *a = make(caching, 0);
    uint64_t seed = 1;
    block blocks[300] = {0};
    for (int i = 0; i < 20000; i++) {
      block *b = &blocks[i * 7919 % 300];
      check_and_free(a, b);
      b->size = any_size(&seed);
      b->mark = (unsigned char)i;
      b->p = a->alloc(a, b->size);
      assert_non_null(b->p);
      memset(b->p, b->mark, b->size);
    }
    for (int i = 0; i < 300; i++) check_and_free(a, &blocks[i]);
    td_allocator_stats s = td_allocator_read_stats(a);
    assert_int_equal(s.in_use, 0);
    assert_int_equal(s.allocs, 20000);
    assert_int_equal(s.frees, 20000);
    td_alloc_release(a);
  }
}

/* ---- reuse --------------------------------------------------------------- */

static void one_round(td_allocator *a) {
  static const size_t sizes[] = {1,        100,       128,       4 * KIB,
                                 30 * KIB, 40 * KIB,  MIB,       300 * KIB,
                                 3 * MIB,  200 * KIB, 200 * KIB, 10 * MIB};
  void *p[3][TD_COUNT(sizes)];
  for (int k = 0; k < 3; k++)
    for (size_t i = 0; i < TD_COUNT(sizes); i++)
      assert_non_null(p[k][i] = a->alloc(a, sizes[i]));
  for (int k = 0; k < 3; k++)
    for (size_t i = 0; i < TD_COUNT(sizes); i++) a->free(a, p[k][i], sizes[i]);
}

/* After the first round: no call of the system, no growth, same numbers. */
static void test_steady(void **state) {
  (void)state;
  td_allocator *a = make(1, 0);
  one_round(a);
  td_allocator_stats first = td_allocator_read_stats(a);
  int64_t calls = td_mem_calls();
  for (int i = 0; i < 30000; i++) one_round(a); /* 1,080,000 blocks */
  td_allocator_stats last = td_allocator_read_stats(a);
  assert_int_equal(td_mem_calls() - calls, 30000 * 36); /* the seam saw each */
  assert_int_equal(last.system_allocs, first.system_allocs);
  assert_int_equal(last.system_frees, 0);
  assert_int_equal(last.held, first.held);
  assert_int_equal(last.peak, first.peak);
  assert_int_equal(last.in_use, 0);
  assert_int_equal(last.allocs, 30001 * 36);
  td_alloc_release(a);
}

static void test_determined(void **state) {
  td_allocator_stats s[2];
  (void)state;
  for (int turn = 0; turn < 2; turn++) {
    td_allocator *a = make(1, 1024 * MIB);
    uint64_t seed = 42;
    block blocks[64] = {0};
    for (int i = 0; i < 5000; i++) {
      block *b = &blocks[i % 64];
      if (b->p) a->free(a, b->p, b->size);
      b->size = any_size(&seed);
      b->p = a->alloc(a, b->size);
    }
    s[turn] = td_allocator_read_stats(a);
    for (int i = 0; i < 64; i++) a->free(a, blocks[i].p, blocks[i].size);
    td_alloc_release(a);
  }
  assert_memory_equal(&s[0], &s[1], sizeof s[0]);
}

/* A freed block of 100 MB serves the next: three never exist. */
static void test_large_reuse(void **state) {
  (void)state;
  td_allocator *a = make(1, 0);
  for (int i = 0; i < 300; i++) {
    size_t bytes = 100000000 - (size_t)(i % 10) * 1000000;
    void *p = a->alloc(a, bytes);
    assert_non_null(p);
    a->free(a, p, bytes);
  }
  td_allocator_stats s = td_allocator_read_stats(a);
  assert_true(s.system_allocs <= 2);
  td_alloc_release(a);
}

static void test_trim(void **state) {
  (void)state;
  td_allocator *a = make(1, 0);
  one_round(a);
  assert_true(td_allocator_read_stats(a).held > 40 * MIB);
  td_allocator_trim(a, 20 * MIB);
  td_allocator_stats s = td_allocator_read_stats(a);
  assert_true(s.held <= 20 * MIB && s.held > 8 * MIB);
  void *p = a->alloc(a, 100);
  td_allocator_trim(a, 0);
  assert_int_equal(td_allocator_read_stats(a).held, 2 * MIB); /* one chunk */
  a->free(a, p, 100);
  td_allocator_trim(a, 0);
  s = td_allocator_read_stats(a);
  assert_int_equal(s.held, 0);
  assert_int_equal(s.system_allocs, s.system_frees);
  one_round(a);
  td_alloc_release(a);
}

/* ---- limits -------------------------------------------------------------- */

static void expect_refusal(td_allocator *a, size_t bytes, const char *part) {
  assert_null(a->alloc(a, bytes));
  td_status *s = a->refusal(a, bytes);
  assert_int_equal(td_status_code(s), TD_RESOURCE_EXHAUSTED);
  assert_non_null(strstr(td_status_message(s), part));
  td_status_release(s);
}

static void test_limit(void **state) {
  (void)state;
  for (int caching = -1; caching <= 1; caching += 2) {
    td_allocator *a = make(caching, 10 * MIB);
    void *p = a->alloc(a, 6 * MIB), *q = a->alloc(a, 64 * KIB);
    td_allocator_tag(a, p, 6 * MIB, "conv1/weights");
    td_allocator_tag(a, q, 64 * KIB,
                     "a name that is far longer than the 47 bytes "
                     "that are kept");
    expect_refusal(a, 5 * MIB,
                   "CPU:7 has no 5242880 bytes (5.0 MiB) within its memory "
                   "limit of 10.0 MiB: 6.1 MiB are in use; the largest: "
                   "conv1/weights 6.0 MiB, a name that is far longer than the "
                   "47 bytes tha 64.0 KiB");
    expect_refusal(a, SIZE_MAX, "no 18446744073709551615 bytes");
    expect_refusal(a, (size_t)1 << 47, "(128.0 TiB)");
    td_buffer *b;
    td_status *s = td_buffer_new(a, 5 * MIB, &b);
    assert_non_null(strstr(td_status_message(s), "conv1/weights"));
    td_status_release(s);
    a->free(a, p, 6 * MIB);
    assert_non_null(p = a->alloc(a, 9 * MIB));
    a->free(a, p, 9 * MIB);
    a->free(a, q, 64 * KIB);
    td_allocator_set_limit(a, SIZE_MAX);
    assert_non_null(p = a->alloc(a, 20 * MIB));
    a->free(a, p, 20 * MIB);
    td_alloc_release(a);
  }
}

/* Many small blocks meet the limit too, and can be used again after it. */
static void test_limit_small(void **state) {
  enum { MOST = 40000 };
  (void)state;
  for (int caching = -1; caching <= 1; caching += 2) {
    td_allocator *a = make(caching, 4 * MIB);
    void **p = td_calloc(MOST, sizeof *p);
    for (int turn = 0; turn < 2; turn++) {
      size_t n = 0;
      while (n < MOST && (p[n] = a->alloc(a, 256)) != NULL) n++;
      assert_in_range(n * 256, 4 * MIB - 64 * KIB, 4 * MIB + 64 * KIB);
      expect_refusal(a, 256, "4.0 MiB are in use");
      while (n > 0) a->free(a, p[--n], 256);
    }
    td_free(p);
    td_alloc_release(a);
  }
}

/* What is only kept makes room first. */
static void test_limit_reclaims(void **state) {
  (void)state;
  td_allocator *a = make(1, 12 * MIB);
  static const size_t sizes[] = {9 * MIB, 5 * MIB, 200 * KIB, 12 * MIB};
  for (int turn = 0; turn < 3; turn++)
    for (size_t i = 0; i < TD_COUNT(sizes); i++) {
      void *p = a->alloc(a, sizes[i]);
      assert_non_null(p);
      a->free(a, p, sizes[i]);
      assert_true(td_allocator_read_stats(a).held <= 12 * MIB);
    }
  td_alloc_release(a);
}

/* ---- a budget of several ------------------------------------------------- */

static td_allocator *member(const char *name, td_alloc_budget *b, int caching) {
  td_alloc_options o = {.name = name, .budget = b, .caching = caching};
  td_allocator *a = NULL;
  assert_null(td_alloc_new(&o, &a));
  return a;
}

/* What one has in use the other cannot have, and is named when it asks. */
static void test_shared_limit(void **state) {
  (void)state;
  for (int caching = -1; caching <= 1; caching += 2) {
    td_alloc_budget *b;
    OK(td_alloc_budget_new(10 * MIB, &b));
    td_allocator *a[] = {member("CPU:0", b, caching),
                         member("CPU:1", b, caching)};
    td_alloc_budget_release(b);
    void *p = a[0]->alloc(a[0], 6 * MIB), *q = a[1]->alloc(a[1], 2 * MIB);
    td_allocator_tag(a[0], p, 6 * MIB, "conv1/weights");
    expect_refusal(a[1], 3 * MIB,
                   "CPU:1 has no 3145728 bytes (3.0 MiB) within its memory "
                   "limit of 10.0 MiB, which 2 devices share: 8.0 MiB are in "
                   "use; the largest: conv1/weights 6.0 MiB (CPU:0), (unnamed) "
                   "2.0 MiB (CPU:1)");
    assert_int_equal(in_use(a[0]), 6 * MIB);
    a[0]->free(a[0], p, 6 * MIB);
    assert_non_null(p = a[1]->alloc(a[1], 8 * MIB));
    expect_refusal(a[0], 1 * MIB, "CPU:1");
    td_allocator_set_limit(a[0], 12 * MIB); /* of both */
    assert_int_equal(td_allocator_read_stats(a[1]).limit, 12 * MIB);
    a[1]->free(a[1], q, 2 * MIB);
    td_alloc_release(a[0]);
    expect_refusal(a[1], 5 * MIB, "limit of 12.0 MiB: 8.0 MiB");
    a[1]->free(a[1], p, 8 * MIB);
    td_alloc_release(a[1]);
  }
}

/* What one only keeps goes back before the other takes more than there is. */
static void test_shared_reclaims(void **state) {
  td_alloc_budget *b;
  (void)state;
  OK(td_alloc_budget_new(12 * MIB, &b));
  td_allocator *a[] = {member("CPU:0", b, 1), member("CPU:1", b, 1)};
  for (int turn = 0; turn < 6; turn++) {
    td_allocator *now = a[turn % 2];
    void *p = now->alloc(now, 9 * MIB);
    assert_non_null(p);
    now->free(now, p, 9 * MIB);
    assert_true(td_allocator_read_stats(a[0]).held +
                    td_allocator_read_stats(a[1]).held <=
                12 * MIB);
  }
  for (int i = 0; i < 2; i++) td_alloc_release(a[i]);
  td_alloc_budget_release(b);
}

/* That of the process takes its limit from the environment when it is joined
 * and nobody else is there. */
static void test_process_limit(void **state) {
  (void)state;
  for (int turn = 1; turn < 3; turn++) {
    setenv("TIDE_MEMORY_LIMIT", turn == 1 ? "1000000" : "2000000", 1);
    td_allocator *a = member("CPU:0", td_alloc_budget_process(), 0);
    setenv("TIDE_MEMORY_LIMIT", "5", 1);
    td_allocator *other = member("CPU:1", td_alloc_budget_process(), 0);
    assert_int_equal(td_allocator_read_stats(other).limit, turn * 1000000);
    td_alloc_release(a);
    td_alloc_release(other);
  }
  unsetenv("TIDE_MEMORY_LIMIT");
}

static void test_default_limit(void **state) {
  (void)state;
  size_t limit = td_alloc_default_limit();
  assert_true(limit > 16 * MIB && limit < (size_t)1 << 46);
  td_allocator *a = make(0, 0);
  assert_int_equal(td_allocator_read_stats(a).limit, limit);
  td_alloc_release(a);
  setenv("TIDE_MEMORY_LIMIT", "12345678", 1);
  assert_int_equal(td_alloc_default_limit(), 12345678);
  unsetenv("TIDE_MEMORY_LIMIT");
}

/* ---- reports ------------------------------------------------------------- */

static void test_largest(void **state) {
  static const size_t sizes[] = {48 * KIB, 3 * MIB, 96 * KIB,
                                 256,      MIB,     64 * KIB};
  static const char *const order[] = {"1", "4", "2", "5"};
  (void)state;
  for (int caching = -1; caching <= 1; caching += 2) {
    td_allocator *a = make(caching, 0);
    void *p[TD_COUNT(sizes)];
    td_allocator_block out[8];
    assert_int_equal(td_allocator_largest(a, out, 8), 0);
    for (size_t i = 0; i < TD_COUNT(sizes); i++) {
      p[i] = a->alloc(a, sizes[i]);
      td_allocator_tag(a, p[i], sizes[i], (char[]){(char)('0' + i), 0});
    }
    assert_int_equal(td_allocator_largest(a, out, 0), 0);
    assert_int_equal(td_allocator_largest(a, out, 8), 5);
    assert_int_equal(out[4].size, 48 * KIB);
    assert_int_equal(td_allocator_largest(a, out, 4), 4);
    for (int i = 0; i < 4; i++) assert_string_equal(out[i].tag, order[i]);
    for (size_t i = 0; i < TD_COUNT(sizes); i++) a->free(a, p[i], sizes[i]);
    /* the next owner of the same memory does not inherit the name */
    p[0] = a->alloc(a, 3 * MIB), p[1] = a->alloc(a, 64 * KIB);
    assert_int_equal(td_allocator_largest(a, out, 8), 2);
    assert_string_equal(out[0].tag, "");
    assert_string_equal(out[1].tag, "");
    a->free(a, p[0], 3 * MIB);
    a->free(a, p[1], 64 * KIB);
    td_alloc_release(a);
  }
  td_allocator_block out[1];
  td_allocator_tag(td_allocator_host(), out, MIB, "not ours");
}

static void test_peak(void **state) {
  (void)state;
  for (int caching = -1; caching <= 1; caching += 2) {
    td_allocator *a = make(caching, 0);
    void *p = a->alloc(a, 4 * MIB), *q = a->alloc(a, MIB);
    a->free(a, p, 4 * MIB);
    td_allocator_stats s = td_allocator_read_stats(a);
    assert_int_equal(s.peak, 5 * MIB);
    assert_int_equal(s.in_use, MIB);
    td_allocator_reset_peak(a);
    assert_int_equal(td_allocator_read_stats(a).peak, MIB);
    a->free(a, q, MIB);
    assert_int_equal(td_allocator_read_stats(a).peak, MIB);
    td_alloc_release(a);
  }
}

/* ---- life and faults ----------------------------------------------------- */

static void test_blocks_outlive(void **state) {
  (void)state;
  for (int caching = -1; caching <= 1; caching += 2) {
    td_allocator *a = make(caching, 0);
    td_buffer *b[3];
    assert_null(td_buffer_new(a, 16, &b[0]));
    assert_null(td_buffer_new(a, 100 * KIB, &b[1]));
    assert_null(td_buffer_new(a, 3 * MIB, &b[2]));
    td_alloc_release(a);
    for (int i = 0; i < 3; i++) {
      memset(b[i]->data, 1, b[i]->size);
      td_buffer_release(b[i]);
    }
  }
  td_alloc_release(NULL);
}

static void test_slots(void **state) {
  td_allocator *a[257];
  td_alloc_options o = {.name = "many"};
  (void)state;
  for (int turn = 0; turn < 3; turn++) {
    int n = 0;
    td_status *s = NULL;
    while (n < 257 && td_ok(s = td_alloc_new(&o, &a[n]))) n++;
    assert_int_equal(n, 256);
    assert_int_equal(td_status_code(s), TD_RESOURCE_EXHAUSTED);
    td_status_release(s);
    void *p = a[n - 1]->alloc(a[n - 1], 8);
    assert_non_null(p);
    a[n - 1]->free(a[n - 1], p, 8);
    while (n > 0) td_alloc_release(a[--n]);
  }
}

/* Every allocation may fail once or from then on; what was not refused works,
 * and nothing stays in use. */
static void test_faults(void **state) {
  static const size_t sizes[] = {8, 8, 5 * KIB, 50 * KIB, MIB, 3 * MIB};
  (void)state;
  for (int caching = -1; caching <= 1; caching += 2)
    for (int for_ever = 0; for_ever < 2; for_ever++)
      for (int64_t n = 1, failed = 1; failed; n++) {
        td_allocator *a = make(caching, 0);
        void *p[TD_COUNT(sizes)];
        failed = 0;
        td_mem_fail(n, for_ever);
        for (size_t i = 0; i < TD_COUNT(sizes); i++) {
          p[i] = a->alloc(a, sizes[i]);
          if (p[i]) continue;
          td_status *st = a->refusal(a, sizes[i]);
          assert_true(!st || td_status_code(st) == TD_RESOURCE_EXHAUSTED);
          td_status_release(st);
          failed++;
        }
        td_mem_fail(0, false);
        if (n < 3) failed = 1; /* a cache that was not made is no failure */
        for (size_t i = 0; i < TD_COUNT(sizes); i++)
          if (p[i]) a->free(a, p[i], sizes[i]);
        assert_int_equal(in_use(a), 0);
        td_alloc_release(a);
      }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sizes),
      cmocka_unit_test(test_contents),
      cmocka_unit_test(test_steady),
      cmocka_unit_test(test_determined),
      cmocka_unit_test(test_large_reuse),
      cmocka_unit_test(test_trim),
      cmocka_unit_test(test_limit),
      cmocka_unit_test(test_limit_small),
      cmocka_unit_test(test_limit_reclaims),
      cmocka_unit_test(test_shared_limit),
      cmocka_unit_test(test_shared_reclaims),
      cmocka_unit_test(test_process_limit),
      cmocka_unit_test(test_default_limit),
      cmocka_unit_test(test_largest),
      cmocka_unit_test(test_peak),
      cmocka_unit_test(test_blocks_outlive),
      cmocka_unit_test(test_slots),
      cmocka_unit_test(test_faults),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
