/* checkpoint_state.c - `checkpoint` files as TensorFlow writes them, damaged
 * ones; removing checkpoints.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <stdio.h>

#include "engine/base/mem.h"
#include "engine/base/file.h"
#include "engine/base/file_claim.h"
#include "engine/base/file_fault.h"
#include "engine/base/file_stream.h"
#include "engine/io/checkpoint_state.h"

static td_bytes text_of(const char *text) {
  return (td_bytes){text, strlen(text)};
}

static void reads(void **state) {
  (void)state;
  td_checkpoint_state s;
  OK(td_checkpoint_state_parse(
      text_of("# made by hand\n"
              "model_checkpoint_path: \"model-3\"\n"
              "all_model_checkpoint_paths: 'a' \"\\x62\\143\\n\"\n"
              "all_model_checkpoint_paths:\"model-3\", unknown: 17 ; more: "
              "'x'\n"
              "all_model_checkpoint_timestamps: 1.5e9f\n"
              "last_preserved_timestamp: 12.25"),
      &s));
  assert_string_equal(s.newest, "model-3");
  assert_int_equal(s.paths.len, 2);
  assert_string_equal(s.paths.at[0], "abc\n");
  assert_int_equal(s.times.len, 1);
  assert_true(s.times.at[0] == 1.5e9 && s.preserved == 12.25);
  td_checkpoint_state_deinit(&s);
}

static void prints(void **state) {
  (void)state;
  td_checkpoint_state s;
  td_str out = {0};
  const char *want = "model_checkpoint_path: \"m \\\"\\303\\244\\n\"\n"
                     "all_model_checkpoint_paths: \"/a/m-1\"\n"
                     "all_model_checkpoint_timestamps: 1700000000.25\n"
                     "last_preserved_timestamp: 0.1\n";
  OK(td_checkpoint_state_parse(text_of(want), &s));
  td_checkpoint_state_print(&s, &out);
  assert_string_equal(out.at, want);
  td_str_deinit(&out);
  td_checkpoint_state_deinit(&s);
}

static void refuses(void **state) {
  (void)state;
  static const struct {
    const char *text, *part;
  } rows[] = {
      {"model_checkpoint_path", "expected :"},
      {"\n\n: 3", "line 3: expected the name"},
      {"model_checkpoint_path: 3", "expected a string"},
      {"model_checkpoint_path: \"a", "no end"},
      {"model_checkpoint_path: \"a\nb\"", "no end"},
      {"model_checkpoint_path: \"\"", "no path"},
      {"model_checkpoint_path: \"a\\0b\"", "no path"},
      {"model_checkpoint_path: \"\\q\"", "wrong escape"},
      {"model_checkpoint_path: \"\\777\"", "wrong escape"},
      {"model_checkpoint_path: \"\\x\"", "wrong escape"},
      {"last_preserved_timestamp: nan", "expected a number"},
      {"last_preserved_timestamp: 1x", "expected a number"},
      {"all_model_checkpoint_timestamps: 1", "more times"},
      {"other { a: 1 }", "expected :"},
      {"other: { a: 1 }", "expected a value"},
  };
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_checkpoint_state s;
    FAILS(td_checkpoint_state_parse(text_of(rows[i].text), &s), TD_DATA_LOSS,
          rows[i].part);
  }
}

static void zeros(void **state) {
  (void)state;
  td_checkpoint_state s;
  OK(td_checkpoint_state_parse((td_bytes){"", 0}, &s));
  assert_null(s.newest);
  td_checkpoint_state_deinit(&s);
  FAILS(td_checkpoint_state_parse((td_bytes){"\0a: 1", 5}, &s), TD_DATA_LOSS,
        "name of a field");
}

/* Each allocation fails in turn. */
static void out_of_memory(void **state) {
  (void)state;
  td_bytes text = text_of("model_checkpoint_path: \"model-3\" "
                          "all_model_checkpoint_paths: \"model-3\" "
                          "all_model_checkpoint_timestamps: 1");
  bool whole = false;
  for (int n = 1; !whole && n < 100; n++) {
    td_checkpoint_state s;
    td_mem_fail(n, false);
    td_status *st = td_checkpoint_state_parse(text, &s);
    td_mem_fail(0, false);
    whole = td_ok(st);
    if (whole) {
      assert_string_equal(s.newest, "model-3");
      td_checkpoint_state_deinit(&s);
    }
    assert_true(whole || td_status_code(st) == TD_RESOURCE_EXHAUSTED);
    td_status_release(st);
  }
  assert_true(whole);
}

/* ---- removing ------------------------------------------------------------ */

static td_str dir;

static const char *in(const char *name) {
  static char path[4200];
  (void)snprintf(path, sizeof path, "%s/%s", dir.at, name);
  return path;
}

static const char *const files[] = {"m-1.index", "m-1.data-00000-of-00002",
                                    "m-1.index.tempstate",
                                    "m-1.data-00001-of-00002", "m-1.meta"};
static const char *const others[] = {"m-10.index", "m-10.data-00000-of-00001",
                                     "m-1tempstate", "m-1.data-00000-of-0000x",
                                     "m-1.txt"};

static void fill(void) {
  for (size_t i = 0; i < TD_COUNT(files); i++) {
    OK(td_file_write(in(files[i]), "x", 1));
    OK(td_file_write(in(others[i]), "x", 1));
  }
}

static void clear(void) {
  for (size_t i = 0; i < TD_COUNT(files); i++) {
    if (td_file_exists(in(files[i]))) OK(td_file_remove(in(files[i])));
    OK(td_file_remove(in(others[i])));
  }
  OK(td_file_remove(dir.at));
  td_str_deinit(&dir);
}

static void removes(void **state) {
  (void)state;
  OK(td_file_temp_dir(4000, &dir));
  fill();
  char prefix[4200];
  (void)snprintf(prefix, sizeof prefix, "%s/m-1", dir.at);
  for (int twice = 0; twice < 2; twice++) {
    OK(td_checkpoint_remove(prefix));
    for (size_t i = 0; i < TD_COUNT(files); i++) {
      assert_false(td_file_exists(in(files[i])));
      assert_true(td_file_exists(in(others[i])));
    }
  }
  OK(td_checkpoint_remove(in("none/m-1")));
  td_file_claim *claim;
  fill();
  OK(td_file_claim_take(in("m-1.lock"), &claim));
  FAILS(td_checkpoint_remove(prefix), TD_UNAVAILABLE, "is held by this");
  assert_true(td_file_exists(in("m-1.index")));
  td_file_claim_release(claim);
  FAILS(td_checkpoint_remove("a/"), TD_INVALID_ARGUMENT, "names no file");
  clear();
}

/* Whichever call fails: where the index is, so is all that it names. */
static void fails_anywhere(void **state) {
  (void)state;
  OK(td_file_temp_dir(4000, &dir));
  char prefix[4200];
  (void)snprintf(prefix, sizeof prefix, "%s/m-1", dir.at);
  bool whole = false;
  for (int n = 1; !whole && n < 100; n++) {
    fill();
    td_file_fail(n, true);
    td_status *s = td_checkpoint_remove(prefix);
    td_file_fail(0, false);
    whole = td_ok(s);
    td_status_release(s);
    bool is_there = td_file_exists(in("m-1.index"));
    assert_false(whole && is_there);
    for (size_t i = 0; i < TD_COUNT(files); i++)
      assert_true(!is_there || td_file_exists(in(files[i])));
    OK(td_checkpoint_remove(prefix));
    assert_false(td_file_exists(in("m-1.data-00000-of-00002")));
  }
  assert_true(whole);
  clear();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads),          cmocka_unit_test(prints),
      cmocka_unit_test(refuses),        cmocka_unit_test(zeros),
      cmocka_unit_test(out_of_memory),  cmocka_unit_test(removes),
      cmocka_unit_test(fails_anywhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
