/* graphdef_scan.c - bytes that must not reach protobuf-c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "wire.h"

#include "engine/graphdef/graphdef_impl.h"

static td_status *scan(const td_str *m) {
  return td_graphdef_scan(&td__graph_def__descriptor, td_str_c(m), m->len);
}

/* Hex with spaces. */
static td_str bytes(const char *hex) {
  td_str m = {0};
  for (unsigned v; sscanf(hex, "%2x", &v) == 1;) {
    td_str_addc(&m, (char)v);
    hex += 2 + (hex[2] == ' ');
  }
  return m;
}

/* clang-format off */
static const struct { const char *hex, *part; } rows[] = {
  {"", NULL},
  {"0a 00", NULL},                   /* an empty node */
  {"18 05", NULL},                   /* version */
  {"18 85 80 80 80 80 80 80 80 80 01", NULL}, /* ten bytes of number */
  {"7a 03 61 62 63", NULL},          /* a field nobody knows */
  {"7d 01 02 03 04", NULL},
  {"79 01 02 03 04 05 06 07 08", NULL},
  {"22 04 1a 02 01 02", NULL},       /* packed, and one by one */
  {"22 04 18 01 18 02", NULL},
  {"22 02 1a 00", NULL},
  {"80", "no field number"},
  {"00 01", "no field number"},
  {"02 00", "no field number"},
  {"8a 80 80 80 80 00 00", "no field number"}, /* a tag of six bytes */
  {"18", "a number is cut off"},
  {"18 85 80 80 80 80 80 80 80 80 81 01", "a number is cut off"},
  {"7d 01 02", "a number is cut off"},
  {"0a", "no length"},
  {"0a ff ff ff ff 0f", "no length"},
  {"0a 05 0a 00", "a field reaches beyond its message"},
  {"0a 02 0a 05 61 61 61 61 61", "a field reaches beyond its message"},
  {"0b 0c", "a field of no known kind"},       /* a group */
  {"0e 00", "a field of no known kind"},
  {"08 01", "a field is of another kind"},     /* node as a number */
  {"1a 01 05", "a field is of another kind"},  /* version as bytes */
  {"1d 00 00 00 00", "a field is of another kind"},
  {"0a 02 08 01", "a field is of another kind"},
  {"18 01 18 01", "comes twice"},
  {"22 00 22 00", "comes twice"},
  {"0a 06 0a 01 61 0a 01 62", "comes twice"},  /* two names */
  {"0a 08 2a 06 12 04 18 01 28 01", "comes twice"}, /* int and bool */
  {"0a 03 0a 01 00", "a name holds a NUL"},
  {"0a 05 1a 03 61 00 62", "a name holds a NUL"},
  {"22 03 1a 01 80", "a list ends within"},
  {"22 0d 1a 0b 80 80 80 80 80 80 80 80 80 80 01", "over 64 bits"},
  /* a list of floats of 5 bytes, of doubles of 7 */
  {"0a 0d 2a 0b 12 09 0a 07 22 05 00 00 00 00 00", "a list ends within"},
  {"0a 0f 2a 0d 12 0b 42 09 32 07 00 00 00 00 00 00 00", "a list ends within"},
};
/* clang-format on */

static void test_rows(void **state) {
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_str m = bytes(rows[i].hex);
    td_status *s = scan(&m);
    if (!rows[i].part) {
      if (s) fail_msg("%s: %s", rows[i].hex, td_status_message(s));
    } else {
      if (!s) fail_msg("%s: no error", rows[i].hex);
      assert_int_equal(td_status_code(s), TD_INVALID_ARGUMENT);
      if (!strstr(td_status_message(s), rows[i].part))
        fail_msg("%s: %s", rows[i].hex, td_status_message(s));
      td_status_release(s);
    }
    td_str_deinit(&m);
  }
}

/* `n` functions in attributes of one another: three messages each. */
static td_str nested(int n) {
  td_str m = {0}, outer = {0};
  for (int i = 0; i < n; i++) {
    wire_message(&outer, 10, &m); /* AttrValue.func */
    m = outer;
    outer = (td_str){0};
    wire_message(&outer, 2, &m); /* AttrEntry.value */
    m = outer;
    outer = (td_str){0};
    wire_message(&outer, i + 1 < n ? 2 : 5, &m); /* NameAttrList, NodeDef */
    m = outer;
    outer = (td_str){0};
  }
  wire_message(&outer, 1, &m);
  return outer;
}

static void test_depth(void **state) {
  (void)state;
  td_str m = nested(32);
  OK(scan(&m));
  td_str_deinit(&m);
  m = nested(33);
  FAILS(scan(&m), TD_INVALID_ARGUMENT, "more than 100 deep");
  td_str_deinit(&m);
  m = nested(5000); /* would overflow the stack further on */
  FAILS(scan(&m), TD_INVALID_ARGUMENT, "more than 100 deep");
  td_str_deinit(&m);
}

/* Two bytes of file that take over a hundred of memory. */
static void test_memory(void **state) {
  (void)state;
  td_str m = {0};
  size_t n = (size_t)8 << 20;
  for (size_t i = 0; i < n; i++) td_str_addn(&m, "\x0a\x00", 2);
  assert_false(m.failed);
  FAILS(scan(&m), TD_INVALID_ARGUMENT, "too much memory");
  m.len = 4096;
  OK(scan(&m));
  td_str_deinit(&m);
}

static void test_every_prefix(void **state) {
  (void)state;
  td_str m = wire_graph("x Placeholder dtype=t1 shape=S2,-1 _n=T1,2\n"
                        "y Identity x T=t1 _c=Cloc:@x\nversions 22 0");
  OK(scan(&m));
  size_t whole = 0;
  for (size_t n = 0; n < m.len; n++) {
    td_str part = m;
    part.len = n;
    td_status *s = scan(&part);
    if (!s) whole++;
    td_status_release(s);
  }
  assert_int_equal(whole, 3); /* before each of the three fields */
  td_str_deinit(&m);
}

static void test_unpack(void **state) {
  (void)state;
  td_arena arena;
  Td__GraphDef *def;
  td_str m = wire_graph("x Placeholder dtype=t1\ny Identity x T=t1");
  for (int64_t fail = 0; fail < 2; fail++) {
    td_arena_init(&arena);
    td_mem_fail(fail, false);
    td_status *s = td_graphdef_unpack(&td__graph_def__descriptor, &arena,
                                      td_str_c(&m), m.len, &def);
    td_mem_fail(0, false);
    assert_int_equal(td_status_code(s), fail ? TD_RESOURCE_EXHAUSTED : TD_OK);
    if (!fail) {
      assert_int_equal(def->n_node, 2);
      assert_string_equal(def->node[1]->input[0], "x");
    }
    td_status_release(s);
    td_arena_deinit(&arena);
  }
  td_str_deinit(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows),   cmocka_unit_test(test_depth),
      cmocka_unit_test(test_memory), cmocka_unit_test(test_every_prefix),
      cmocka_unit_test(test_unpack),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
