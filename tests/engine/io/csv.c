/* csv.c - tables of text when memory runs out; what they hold is in
 * tests/lua/data.lua.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <string.h>

#include "engine/base/mem.h"
#include "engine/io/csv.h"

static td_status *read_all(const char *text) {
  td_csv_options o = {.header = true};
  td_csv *c;
  TD_TRY(td_csv_parse(text, strlen(text), "x.csv", &o, &c));
  td_status *s = NULL;
  for (int i = 0; td_ok(s) && i < td_csv_columns(c); i++) {
    td_tensor t;
    s = td_csv_column(c, i, TD_INVALID, NULL, &t);
    if (td_ok(s)) td_tensor_release(&t);
  }
  td_csv_free(c);
  return s;
}

static void test_no_memory(void **state) {
  int refused = 0;
  (void)state;
  for (int nth = 1; nth < 30; nth++) {
    td_mem_fail(nth, false);
    td_status *s = read_all("a,b,c\n1,2.5,x\n3,,\"y\"\n");
    td_mem_fail(0, false);
    if (td_ok(s)) continue;
    assert_int_equal(td_status_code(s), TD_RESOURCE_EXHAUSTED);
    td_status_release(s);
    refused++;
  }
  assert_true(refused >= 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
