/* file_system.c - tests of engine/base/file_system.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <stdio.h>

#include "engine/base/mem.h"
#include "tests/engine/base/mem_files.h"

static void prefixes_choose(void **state) {
  (void)state;
  assert_ptr_equal(td_file_system_of("mem://a"), &td_file_disk);
  td_mem_fail(1, false);
  td_status *s = td_file_system_register(&mem_file_system);
  td_mem_fail(0, false);
  FAILS(s, TD_RESOURCE_EXHAUSTED, "memory");
  OK(td_file_system_register(&mem_file_system));
  OK(td_file_system_register(&mem_file_system)); /* once more is nothing */
  static const struct {
    const char *path;
    const td_file_system *fs;
  } rows[] = {
      {"mem://a", &mem_file_system}, {"mem://", &mem_file_system},
      {"mem:/a", &td_file_disk},     {"/mem://a", &td_file_disk},
      {"", &td_file_disk},           {"other://a", &td_file_disk},
  };
  for (size_t i = 0; i < TD_COUNT(rows); i++)
    assert_ptr_equal(td_file_system_of(rows[i].path), rows[i].fs);
}

static void bad_ones_are_refused(void **state) {
  (void)state;
  static const char *const prefixes[] = {NULL, "", "mem", "://", "mem://x"};
  td_file_system fs = mem_file_system;
  for (size_t i = 0; i < TD_COUNT(prefixes); i++) {
    fs.prefix = prefixes[i];
    FAILS(td_file_system_register(&fs), TD_INVALID_ARGUMENT, "prefix");
  }
  fs.prefix = "mem://";
  FAILS(td_file_system_register(&fs), TD_ALREADY_EXISTS, "mem://");
  fs.prefix = "lacks://";
  fs.read = NULL;
  FAILS(td_file_system_register(&fs), TD_INVALID_ARGUMENT, "lacks a function");
  fs = mem_file_system;
  fs.prefix = "half://";
  fs.lock = td_file_disk.lock; /* and no unlock */
  FAILS(td_file_system_register(&fs), TD_INVALID_ARGUMENT, "lacks a function");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(prefixes_choose),
      cmocka_unit_test(bad_ones_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
