/* stage_cache.c - elements kept in memory and in files: faults at every place,
 * damaged files, epochs that are cut short.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/file_fault.h"
#include "engine/base/file_stream.h"
#include "engine/base/mem.h"
#include "engine/pipeline/pipeline.h"
#include "tests/engine/base/mem_files.h"

enum { ROWS = 150, EPOCHS = 3 };

static const char path[] = "mem://cache";

/* Column 0: a row's number, column 1: two strings that tell it. */
static td_pipeline *rows_of(int n) {
  td_tensor columns[2];
  td_shape shape = td_shape_vector(n);
  static char text[2 * ROWS][16];
  const char *at[2 * ROWS];
  size_t len[2 * ROWS];
  td_pipeline *p;
  OK(td_tensor_new(NULL, TD_INT64, &shape, &columns[0]));
  for (int i = 0; i < n; i++) td_tensor_set_i(&columns[0], i, i);
  for (int i = 0; i < 2 * n; i++) {
    at[i] = text[i];
    len[i] = (size_t)snprintf(text[i], sizeof text[i], "row %d", i / 2);
  }
  shape = td_shape_matrix(n, 2);
  OK(td_tensor_strings(&shape, at, len, &columns[1]));
  td_pipeline_rows o = {.columns = columns, .n_columns = 2, .step = 1};
  OK(td_pipeline_from_rows(&o, &p));
  td_tensor_release(&columns[0]);
  td_tensor_release(&columns[1]);
  return p;
}

static td_pipeline *cached(int n, const char *at) {
  td_pipeline *p = rows_of(n);
  OK(td_pipeline_cache(p, at));
  return p;
}

/* What stands in the row, which both columns tell. */
static int64_t row_in(td_tensor at[2]) {
  char want[16];
  size_t len;
  int64_t row = td_tensor_get_i(&at[0], 0);
  int n = snprintf(want, sizeof want, "row %d", (int)row);
  assert_int_equal(td_tensor_count(&at[1]), 2);
  const char *is = td_tensor_str(&at[1], 1, &len);
  assert_int_equal(len, n);
  assert_memory_equal(is, want, len);
  td_tensor_release(&at[0]);
  td_tensor_release(&at[1]);
  return row;
}

/* An epoch: its rows ascend from `first` on. How many, and how many errors. */
static int epoch(td_pipeline *p, int *errors) {
  int n = 0;
  int64_t last = -1;
  bool end = false;
  *errors = 0;
  while (!end && *errors < 2 * ROWS) {
    td_tensor at[2];
    td_status *s = td_pipeline_take(p, NULL, at, &end);
    *errors += !td_ok(s);
    bool got = td_ok(s) && !end;
    td_status_release(s);
    if (!got) continue;
    int64_t row = row_in(at);
    assert_true(row > last);
    last = row;
    n++;
  }
  return n;
}

static void whole_epochs(td_pipeline *p, int n) {
  int errors;
  for (int i = 0; i < EPOCHS; i++) {
    assert_int_equal(epoch(p, &errors), n);
    assert_int_equal(errors, 0);
    td_pipeline_again(p);
  }
}

/* Returns when nobody works for it any more. */
static void let_go(td_pipeline *p) {
  const td_object *o = &td_pipeline_elements(p)->base.object;
  td_pipeline_close(p);
  while (__atomic_load_n(&o->refs, __ATOMIC_ACQUIRE) > 1) sched_yield();
  td_pipeline_release(p);
}

/* Files whose name begins with the path's, once nobody works on them. */
static int count_files(void) {
  MEM_LOCKED;
  int n = 0;
  for (int i = 0; i < MEM_FILES; i++)
    n += strncmp(mem_files[i].name, path, strlen(path)) == 0;
  return n;
}

static void wait_for_files(int want) {
  for (int i = 0; i < 60000 && count_files() != want; i++) usleep(1000);
  assert_int_equal(count_files(), want);
}

static void start(void) {
  static bool there;
  if (!there) OK(td_file_system_register(&mem_file_system));
  there = true;
  mem_files_clear();
}

/* ---- epochs -------------------------------------------------------------- */

static void test_epochs(void **state) {
  (void)state;
  start();
  for (int n = 0; n <= ROWS; n += n < 3 ? 1 : 49) {
    td_pipeline *p = cached(n, NULL);
    whole_epochs(p, n);
    let_go(p);
    p = cached(n, path);
    whole_epochs(p, n);
    let_go(p);
    p = cached(1, path); /* what is there is given */
    whole_epochs(p, n);
    let_go(p);
    wait_for_files(1);
    mem_files_clear();
  }
}

static void test_other_columns(void **state) {
  int errors;
  (void)state;
  start();
  td_pipeline *p = cached(3, path);
  whole_epochs(p, 3);
  let_go(p);
  p = rows_of(4);
  OK(td_pipeline_batch(p, &(td_pipeline_batching){.n = 2}));
  OK(td_pipeline_cache(p, path));
  assert_int_equal(epoch(p, &errors), 0); /* the shapes differ */
  assert_int_equal(errors, 1);
  let_go(p);
}

static void test_a_crash_leaves_no_file(void **state) {
  td_tensor at[2];
  bool end;
  (void)state;
  start();
  td_pipeline *p = cached(ROWS, path);
  for (int i = 0; i < ROWS; i++) {
    OK(td_pipeline_take(p, NULL, at, &end));
    row_in(at);
    if (i < ROWS - 5) assert_null(mem_find(path));
  }
  OK(td_pipeline_take(p, NULL, at, &end));
  assert_true(end);
  assert_non_null(mem_find(path));
  mem_files_crash();
  let_go(p);
  p = cached(1, path);
  whole_epochs(p, ROWS);
  let_go(p);
}

/* What a killed process was writing goes; what another still writes stays. */
static void test_what_was_left(void **state) {
  static const struct {
    const char *name;
    bool locked, stays;
  } rows[] = {
      {"cache.part-1-1", false, false}, {"cache.part-77-12", false, false},
      {"cache.part-1-2", true, true},   {"cache.part-1-", false, true},
      {"cache.part--1", false, true},   {"cache.part-1-1.txt", false, true},
      {"other.part-1-1", false, true},  {"cache", false, true},
  };
  (void)state;
  td_str dir = {0};
  td_file_lock *lock = NULL;
  char at[TD_COUNT(rows)][160];
  OK(td_file_temp_dir(100, &dir));
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    snprintf(at[i], sizeof at[i], "%s/%s", td_str_c(&dir), rows[i].name);
    if (i + 1 < TD_COUNT(rows)) OK(td_file_write(at[i], "x", 1));
    if (rows[i].locked) OK(td_file_lock_take(at[i], &lock));
  }
  td_pipeline *p = cached(ROWS, at[TD_COUNT(rows) - 1]);
  whole_epochs(p, ROWS);
  let_go(p);
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    assert_int_equal(td_file_exists(at[i]), rows[i].stays);
    if (rows[i].stays) OK(td_file_remove(at[i]));
  }
  td_file_unlock(lock);
  OK(td_file_remove(td_str_c(&dir))); /* and nothing else is there */
  td_str_deinit(&dir);
}

/* ---- states -------------------------------------------------------------- */

/* Where it stands can be told before anything is asked for, and does not have
 * it begin: a state may still be loaded. */
static void test_states_before_the_first(void **state) {
  td_str s = {0};
  int errors;
  (void)state;
  start();
  for (int i = 0; i < 2; i++) {
    td_pipeline *p = cached(5, i ? path : NULL);
    OK(td_pipeline_save(p, &s));
    OK(td_pipeline_load(p, (td_bytes){td_str_c(&s), s.len}));
    assert_int_equal(epoch(p, &errors), 5);
    FAILS(td_pipeline_load(p, (td_bytes){td_str_c(&s), s.len}),
          TD_FAILED_PRECONDITION, "before the first element");
    td_str_clear(&s);
    let_go(p);
  }
  td_str_deinit(&s);
}

/* Saved in a later epoch; the file is there then, damaged, or not. */
static void test_filled_again(void **state) {
  td_str s = {0};
  td_tensor at[2];
  bool end;
  int errors;
  (void)state;
  start();
  td_pipeline *p = cached(7, path);
  assert_int_equal(epoch(p, &errors), 7);
  td_pipeline_again(p);
  for (int i = 0; i < 3; i++) {
    OK(td_pipeline_take(p, NULL, at, &end));
    row_in(at);
  }
  OK(td_pipeline_save(p, &s));
  let_go(p);
  for (int i = 0; i < 8; i++) { /* damage in each eighth */
    wait_for_files(1);
    if (i == 1) OK(td_file_remove(path));
    char *bytes = mem_find(path) ? mem_find(path)->bytes : NULL;
    size_t at_byte = bytes ? mem_find(path)->len * (size_t)i / 8 : 0;
    if (i > 1) bytes[at_byte] ^= 1;
    p = cached(7, path);
    OK(td_pipeline_load(p, (td_bytes){td_str_c(&s), s.len}));
    int n = epoch(p, &errors);
    assert_int_equal(errors, i > 1);
    assert_true(i > 1 ? n <= 4 : n == 4);
    td_pipeline_again(p);
    if (i < 2) assert_int_equal(epoch(p, &errors), 7);
    let_go(p);
    if (i > 1) bytes[at_byte] ^= 1;
  }
  td_str_deinit(&s);
}

/* ---- damage -------------------------------------------------------------- */

static void test_damaged_files(void **state) {
  static char good[MEM_BYTES];
  (void)state;
  start();
  td_pipeline *p = cached(5, path);
  whole_epochs(p, 5);
  let_go(p);
  wait_for_files(1);
  size_t len = mem_find(path)->len;
  memcpy(good, mem_find(path)->bytes, len);
  for (size_t i = 0; i < 2 * len; i++) {
    mem_file *f = mem_find(path);
    memcpy(f->bytes, good, len);
    f->len = i < len ? i : len;
    if (i >= len) f->bytes[i - len] ^= 0x40;
    int errors;
    p = cached(5, path);
    assert_true(epoch(p, &errors) <= 5);
    assert_int_equal(errors, 1);
    td_pipeline_again(p);
    assert_true(epoch(p, &errors) <= 5);
    assert_int_equal(errors, 1);
    /* Once it is removed it is made anew. */
    if (i % 16 == 0) {
      OK(td_file_remove(path));
      td_pipeline_again(p);
      epoch(p, &errors); /* perhaps it was read ahead */
      td_pipeline_again(p);
      whole_epochs(p, 5);
    }
    let_go(p);
    wait_for_files(1);
  }
}

/* ---- faults -------------------------------------------------------------- */

static int faulty; /* runs in which something was told */

/* One run under faults; what it gives is right or an error, and what it leaves
 * is whole. */
static void run_faulty(const char *at, void (*faults)(int64_t nth, bool ever),
                       int64_t nth, bool ever) {
  int errors, all = 0;
  td_pipeline *p = cached(ROWS, at);
  faults(nth, ever);
  for (int i = 0; i < EPOCHS; i++) {
    int n = epoch(p, &errors);
    all += errors;
    assert_true(n <= ROWS);
    if (all == 0) assert_int_equal(n, ROWS);
    td_pipeline_again(p);
  }
  faults(0, false);
  let_go(p);
  faulty += all > 0;
  if (!at) return;
  for (int i = 0; i < 60000 && count_files() > 1; i++) usleep(1000);
  bool there = mem_find(path) != NULL;
  assert_true(count_files() <= there + ever); /* it could not be removed */
  p = cached(ROWS, at);
  whole_epochs(p, ROWS);
  let_go(p);
}

static void test_file_faults(void **state) {
  (void)state;
  start();
  faulty = 0;
  for (int ever = 0; ever < 2; ever++)
    for (int64_t nth = 1; nth < 40; nth++) {
      mem_files_clear();
      run_faulty(path, td_file_fail, nth, ever);
    }
  assert_true(faulty > 20);
}

static void test_memory_faults(void **state) {
  (void)state;
  start();
  faulty = 0;
  for (int ever = 0; ever < 2; ever++)
    for (int64_t nth = 1; nth < 3500; nth += nth < 100 ? 1 : 37) {
      run_faulty(NULL, td_mem_fail, nth, ever);
      mem_files_clear();
      run_faulty(path, td_mem_fail, nth, ever);
    }
  assert_true(faulty > 200);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_epochs),
      cmocka_unit_test(test_other_columns),
      cmocka_unit_test(test_a_crash_leaves_no_file),
      cmocka_unit_test(test_what_was_left),
      cmocka_unit_test(test_states_before_the_first),
      cmocka_unit_test(test_filled_again),
      cmocka_unit_test(test_damaged_files),
      cmocka_unit_test(test_file_faults),
      cmocka_unit_test(test_memory_faults),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
