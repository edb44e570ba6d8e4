/* parse_example.c - Examples as other writers make them, broken ones, and no
 * memory for them.
 *
 * What the op gives for sound Examples is in its golden file. Here one Example
 * is written in many ways that mean the same, and cut and changed at every
 * byte.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include "engine/base/bytes.h"
#include "engine/base/mem.h"
#include "tests/kernels/examples.h"

/* ---- writing ------------------------------------------------------------- */

enum {
  PLAIN = 0,
  UNPACKED = 1, /* numbers one by one */
  UNKNOWN = 2,  /* fields and groups that are not of the format */
  PARTS = 4,    /* lists and maps in two parts */
  TWICE = 8,    /* each key once before, with something else */
  SLOPPY = 16,  /* lengths with more bytes than they need */
  ALL_WAYS = 32
};

static void put_varint(td_str *s, uint64_t v) {
  for (; v > 127; v >>= 7) td_str_addc(s, (char)((v & 127) | 128));
  td_str_addc(s, (char)v);
}

static void put_length(td_str *s, size_t n, int how) {
  if (!(how & SLOPPY)) {
    put_varint(s, n);
    return;
  }
  for (int i = 0; i < 4; i++, n >>= 7) td_str_addc(s, (char)((n & 127) | 128));
  td_str_addc(s, (char)n);
}

/* A field of bytes. Empties `from`. */
static void put(td_str *s, int number, td_str *from, int how) {
  static const char unknown[] =
      "\x98\x06\xff\x01"                         /* a varint */
      "\xa3\x06\xab\x06\x08\x01\xac\x06\xa4\x06" /* groups */
      "\xa1\x06"
      "12345678";
  if (how & UNKNOWN) td_str_addn(s, unknown, sizeof unknown - 1);
  put_varint(s, (uint64_t)number << 3 | 2);
  put_length(s, from->len, how);
  td_str_addn(s, td_str_c(from), from->len);
  td_str_clear(from);
}

/* Numbers [begin, end) of what every feature has: 1, 3, 5, ... or -2^k. */
static void put_numbers(td_str *list, int kind, int begin, int end, int how) {
  td_str packed = {0};
  for (int i = begin; i < end; i++) {
    float f = (float)i + 0.5f;
    td_str *to = how & UNPACKED ? list : &packed;
    if (how & UNPACKED) put_varint(list, kind == 2 ? 1 << 3 | 5 : 1 << 3);
    if (kind == 2)
      td_str_addn(to, (const char *)&f, sizeof f);
    else
      put_varint(to, i % 2 ? (uint64_t)i : -(UINT64_C(1) << i % 64));
  }
  if (packed.len) put(list, 1, &packed, how);
  td_str_deinit(&packed);
}

static void put_list(td_str *feature, int kind, int begin, int end, int how) {
  td_str list = {0}, word = {0};
  for (int i = begin; kind == 1 && i < end; i++) {
    td_str_addf(&word, "word %d", i);
    put(&list, 1, &word, how);
  }
  if (kind != 1) put_numbers(&list, kind, begin, end, how);
  put(feature, kind, &list, how);
  td_str_deinit(&list);
  td_str_deinit(&word);
}

static void put_entry(td_str *map, const char *name, int kind, int n, int how) {
  td_str key = {0}, feature = {0}, entry = {0};
  int half = how & PARTS ? n / 2 : 0;
  if (half) put_list(&feature, kind, 0, half, how);
  put_list(&feature, kind, half, n, how);
  td_str_add(&key, name);
  put(&entry, 1, &key, how);
  put(&entry, 2, &feature, how);
  put(map, 1, &entry, how);
  td_str_deinit(&key);
  td_str_deinit(&feature);
  td_str_deinit(&entry);
}

/* An Example with n values of each feature that takes any number of them. */
static td_str example(int n, int how) {
  static const struct {
    const char *key;
    int kind, fixed;
  } rows[] = {{"i", 3, 0}, {"s", 1, 0}, {"x", 2, 0}, {"d", 3, 2},
              {"t", 1, 1}, {"r", 2, 0}, {"q", 1, 0}, {"unasked", 1, 0}};
  td_str map = {0}, all = {0};
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    int count = rows[i].fixed ? rows[i].fixed : n;
    if (how & TWICE) put_entry(&map, rows[i].key, 2, 3, how);
    put_entry(&map, rows[i].key, rows[i].kind, count, how);
    if (how & PARTS) put(&all, 1, &map, how);
  }
  if (!(how & PARTS)) put(&all, 1, &map, how);
  td_str_deinit(&map);
  return all;
}

/* ---- reading ------------------------------------------------------------- */

static td_device *cpu;

static td_tensor batch_of(const td_str *at, int n) {
  const char *text[64];
  size_t len[64];
  td_tensor t;
  td_shape shape = td_shape_vector(n);
  for (int i = 0; i < n; i++) {
    text[i] = td_str_c(&at[i]);
    len[i] = at[i].len;
  }
  OK(td_tensor_strings(&shape, text, len, &t));
  return t;
}

static void drop(td_tensor out[EXAMPLE_OUTPUTS]) {
  for (int i = 0; i < EXAMPLE_OUTPUTS; i++) td_tensor_release(&out[i]);
}

static void assert_same(const td_tensor a[EXAMPLE_OUTPUTS],
                        const td_tensor b[EXAMPLE_OUTPUTS], const char *what,
                        int which) {
  for (int i = 0; i < EXAMPLE_OUTPUTS; i++)
    if (!td_tensor_same(&a[i], &b[i]))
      fail_msg("%s %d: output %d differs", what, which, i);
}

static void test_ways_to_write_an_example(void **state) {
  (void)state;
  td_tensor want[EXAMPLE_OUTPUTS], got[EXAMPLE_OUTPUTS];
  for (int how = 0; how < ALL_WAYS; how++) {
    td_str all[4] = {example(0, how), example(40, how), example(2, how),
                     example(10, how)};
    OK(examples_parse(cpu, 1, batch_of(all, 4), how ? got : want));
    assert_true(examples_whole(how ? got : want));
    if (how) assert_same(want, got, "way", how);
    if (how) drop(got);
    for (int i = 0; i < 4; i++) td_str_deinit(&all[i]);
  }
  assert_int_equal(td_tensor_count(&want[I_VALUES]), 52);
  assert_int_equal(td_tensor_get_i(&want[I_VALUES], 2), -4);
  assert_int_equal(want[X].shape.dim[1], 20);
  drop(want);
}

/* Many Examples, so that there are several pieces of work. */
static void test_threads_agree(void **state) {
  (void)state;
  enum { MANY = 64 };
  td_tensor one[EXAMPLE_OUTPUTS], more[EXAMPLE_OUTPUTS];
  td_str all[MANY];
  for (int i = 0; i < MANY; i++) all[i] = example(i * 14 % 200, i % ALL_WAYS);
  OK(examples_parse(cpu, 1, batch_of(all, MANY), one));
  OK(examples_parse(cpu, 4, batch_of(all, MANY), more));
  assert_same(one, more, "threads", 4);
  drop(one);
  drop(more);
  all[50].len--; /* the first of the broken ones is told */
  all[20].len--;
  FAILS(examples_parse(cpu, 4, batch_of(all, MANY), one), TD_INVALID_ARGUMENT,
        "example 20: its");
  for (int i = 0; i < MANY; i++) td_str_deinit(&all[i]);
}

/* ---- broken -------------------------------------------------------------- */

static int accepted, refused;

static void try_bytes(const td_str *bytes) {
  td_tensor out[EXAMPLE_OUTPUTS];
  td_status *s = examples_parse(cpu, 1, batch_of(bytes, 1), out);
  if (!td_ok(s)) {
    assert_int_equal(td_status_code(s), TD_INVALID_ARGUMENT);
    assert_non_null(strstr(td_status_message(s), "example 0"));
    td_status_release(s);
    refused++;
    return;
  }
  assert_true(examples_whole(out));
  accepted++;
  drop(out);
}

static void test_every_truncation(void **state) {
  (void)state;
  for (int how = 0; how < ALL_WAYS; how = how ? 2 * how : 1) {
    td_str s = example(4, how);
    for (accepted = refused = 0; s.len > 0;) {
      s.len--;
      try_bytes(&s);
    }
    assert_true(refused > 100 && accepted <= 8 * 2 + 1);
    td_str_deinit(&s);
  }
}

static void test_every_byte_changed(void **state) {
  (void)state;
  static const char change[] = {1, 2, 4, 8, 16, 32, 64, (char)128, (char)255};
  accepted = refused = 0;
  for (int how = 0; how < ALL_WAYS; how = how ? 2 * how : 1) {
    td_str s = example(4, how);
    for (size_t i = 0; i < s.len; i++)
      for (size_t k = 0; k < TD_COUNT(change); k++) {
        s.at[i] ^= change[k];
        try_bytes(&s);
        s.at[i] ^= change[k];
      }
    td_str_deinit(&s);
  }
  assert_true(accepted > 5000 && refused > 5000);
}

/* A map with one entry whose Feature has these bytes. */
static void check_feature(const char *key, const char *bytes, size_t len,
                          const char *part) {
  td_tensor out[EXAMPLE_OUTPUTS];
  td_str k = {0}, feature = {0}, entry = {0}, map = {0}, all = {0};
  td_str_add(&k, key);
  td_str_addn(&feature, bytes, len);
  put(&entry, 1, &k, 0);
  put(&entry, 2, &feature, 0);
  put(&map, 1, &entry, 0);
  put(&all, 1, &map, 0);
  td_status *s = examples_parse(cpu, 1, batch_of(&all, 1), out);
  if (part) {
    FAILS(s, TD_INVALID_ARGUMENT, part);
  } else {
    OK(s);
    drop(out);
  }
  td_str_deinit(&k);
  td_str_deinit(&feature);
  td_str_deinit(&entry);
  td_str_deinit(&map);
  td_str_deinit(&all);
}

#define BYTES(s) s, sizeof s - 1

static void test_lists(void **state) {
  (void)state;
  static const char broken[] = "is broken";
  check_feature("i", BYTES("\x1a\x03\x0a\x01\x05"), NULL);
  check_feature("i", BYTES("\x1a\x03\x0a\x01\x80"), broken);
  check_feature("i", BYTES("\x1a\x03\x0a\x02\x05"), broken);
  check_feature("i", BYTES("\x1a\x04\x0a\x01\x05"), broken);
  check_feature("i",
                BYTES("\x1a\x0c\x0a\x0a\x80\x80\x80\x80\x80\x80\x80\x80"
                      "\x80\x01"),
                NULL);
  check_feature("i",
                BYTES("\x1a\x0d\x0a\x0b\x80\x80\x80\x80\x80\x80\x80\x80"
                      "\x80\x80\x01"),
                broken);
  check_feature("i",
                BYTES("\x1a\x14\x0a\x12\x01\x01\x01\x01\x01\x01\x80\x80"
                      "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"),
                broken);
  check_feature("r",
                BYTES("\x12\x05\x0a\x03"
                      "abc"),
                broken);
  check_feature("r",
                BYTES("\x12\x06\x0a\x04"
                      "abcd"),
                NULL);
  check_feature("r", BYTES("\x1a\x00"), "has values of int64, not of float32");
  check_feature("r", BYTES("\x0b\x0c"), NULL);
  check_feature("r", BYTES("\x0b\x14"), broken);
  check_feature("r", BYTES("\x0c"), broken);
  check_feature("r", BYTES("\x03\x04"), broken);
  check_feature("r", BYTES("\x0e"), broken);
  check_feature("d", BYTES("\x1a\x03\x0a\x01\x05"),
                "has 1 value, and shape {2}");
  check_feature("d", BYTES("\x1a\x00"), "has 0 values, and shape {2} takes 2");
  check_feature("x",
                BYTES("\x12\x06\x0a\x04"
                      "abcd"),
                "a row has 2");
  check_feature("s", BYTES("\x0a\x02\x0a\x7f"), broken);
  check_feature("s",
                BYTES("\x0a\x0b\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff"
                      "\x01"),
                broken);
}

/* Groups in groups end at some depth, and never on the stack. */
static void test_groups(void **state) {
  (void)state;
  for (int depth = 99; depth <= 101; depth++) {
    td_str s = {0};
    for (int i = 0; i < depth; i++) td_str_addc(&s, 0x0b);
    for (int i = 0; i < depth; i++) td_str_addc(&s, 0x0c);
    check_feature("r", s.at, s.len, depth > 100 ? "is broken" : NULL);
    td_str_deinit(&s);
  }
  td_str deep = {0};
  for (int i = 0; i < 100000; i++) td_str_addc(&deep, 0x0b);
  check_feature("r", deep.at, deep.len, "is broken");
  td_str_deinit(&deep);
}

/* ---- SequenceExamples ---------------------------------------------------- */

/* A list of steps with 0, 1, ... values (or `fixed`) of a kind. */
static void put_steps(td_str *map, const char *name, int kind, int steps,
                      int fixed, int how) {
  td_str key = {0}, list = {0}, step = {0}, entry = {0};
  for (int i = 0; i < steps; i++) {
    put_list(&step, kind, 0, fixed ? fixed : i % 5, how);
    put(&list, 1, &step, how);
  }
  td_str_add(&key, name);
  put(&entry, 1, &key, how);
  put(&entry, 2, &list, how);
  put(map, 1, &entry, how);
  td_str_deinit(&key);
  td_str_deinit(&list);
  td_str_deinit(&step);
  td_str_deinit(&entry);
}

static td_str sequence(int steps, int how) {
  td_str all = {0}, map = {0};
  put_entry(&map, "i", 3, steps, how);
  put(&all, 1, &map, how);
  if (how & TWICE) put_steps(&map, "x", 1, 3, 1, how);
  put_steps(&map, "i", 3, steps, 0, how);
  put_steps(&map, "x", 2, steps + 1, 2, how);
  if (how & PARTS) put(&all, 2, &map, how);
  put_steps(&map, "t", 1, steps, 1, how);
  put_steps(&map, "r", 2, steps, 0, how);
  put_steps(&map, "q", 1, steps, 0, how);
  put(&all, 2, &map, how);
  td_str_deinit(&map);
  return all;
}

static void drop_sequences(td_tensor out[SEQUENCE_OUTPUTS]) {
  for (int i = 0; i < SEQUENCE_OUTPUTS; i++) td_tensor_release(&out[i]);
}

static void test_ways_to_write_a_sequence(void **state) {
  (void)state;
  td_tensor want[SEQUENCE_OUTPUTS], got[SEQUENCE_OUTPUTS];
  for (int how = 0; how < ALL_WAYS; how++) {
    td_str all[3] = {sequence(0, how), sequence(40, how), sequence(7, how)};
    td_tensor *out = how ? got : want;
    OK(sequences_parse(cpu, how % 2 ? 4 : 1, batch_of(all, 3), out));
    assert_true(sequences_whole(out));
    for (int i = 0; how && i < SEQUENCE_OUTPUTS; i++)
      if (!td_tensor_same(&want[i], &got[i]))
        fail_msg("way %d: output %d differs", how, i);
    if (how) drop_sequences(got);
    for (int i = 0; i < 3; i++) td_str_deinit(&all[i]);
  }
  assert_int_equal(want[L_X].shape.dim[1], 41);
  assert_int_equal(td_tensor_get_i(&want[X_STEPS], 2), 8);
  assert_int_equal(td_tensor_count(&want[L_VALUES]), 8 * 10 + 10 + 0 + 1);
  assert_int_equal(td_tensor_get_i(&want[Q_OUTER], 3), 47);
  drop_sequences(want);
}

static void try_sequence(const td_str *bytes) {
  td_tensor out[SEQUENCE_OUTPUTS];
  td_status *s = sequences_parse(cpu, 1, batch_of(bytes, 1), out);
  if (!td_ok(s)) {
    assert_int_equal(td_status_code(s), TD_INVALID_ARGUMENT);
    assert_non_null(strstr(td_status_message(s), "example 0"));
    td_status_release(s);
    refused++;
    return;
  }
  assert_true(sequences_whole(out));
  accepted++;
  drop_sequences(out);
}

/* Cut and changed at every byte. */
static void test_broken_sequences(void **state) {
  (void)state;
  static const char change[] = {1, 2, 4, 8, 32, (char)128, (char)255};
  accepted = refused = 0;
  for (int how = 0; how < ALL_WAYS; how = how ? 2 * how : 1) {
    td_str s = sequence(3, how);
    for (size_t i = 0; i < s.len; i++)
      for (size_t k = 0; k < TD_COUNT(change); k++) {
        s.at[i] ^= change[k];
        try_sequence(&s);
        s.at[i] ^= change[k];
      }
    while (s.len > 0) {
      s.len--;
      try_sequence(&s);
    }
    td_str_deinit(&s);
  }
  assert_true(accepted > 1000 && refused > 5000);
}

static void test_no_memory_for_sequences(void **state) {
  (void)state;
  td_tensor out[SEQUENCE_OUTPUTS];
  td_str all[2] = {sequence(4, 0), sequence(9, UNPACKED)};
  int64_t n = 1;
  for (;; n++) {
    td_tensor batch = batch_of(all, 2);
    td_mem_fail(n, false);
    td_status *s = sequences_parse(cpu, 1, batch, out);
    td_mem_fail(0, false);
    if (td_ok(s)) break;
    assert_int_equal(td_status_code(s), TD_RESOURCE_EXHAUSTED);
    td_status_release(s);
  }
  assert_true(n > 20 && sequences_whole(out));
  drop_sequences(out);
  td_str_deinit(&all[0]);
  td_str_deinit(&all[1]);
}

/* ---- no memory ----------------------------------------------------------- */

static void test_no_memory(void **state) {
  (void)state;
  td_tensor out[EXAMPLE_OUTPUTS], want[EXAMPLE_OUTPUTS];
  td_str all[2] = {example(4, 0), example(30, UNPACKED)};
  OK(examples_parse(cpu, 1, batch_of(all, 2), want));
  int64_t n = 1;
  for (;; n++) {
    td_tensor batch = batch_of(all, 2);
    td_mem_fail(n, false);
    td_status *s = examples_parse(cpu, 1, batch, out);
    td_mem_fail(0, false);
    if (td_ok(s)) break;
    assert_int_equal(td_status_code(s), TD_RESOURCE_EXHAUSTED);
    td_status_release(s);
  }
  assert_true(n > 20);
  assert_same(want, out, "after", (int)n);
  drop(want);
  drop(out);
  td_str_deinit(&all[0]);
  td_str_deinit(&all[1]);
}

static int setup(void **state) {
  (void)state;
  OK(td_device_cpu_new("/job:localhost/replica:0/task:0", 0, 0, &cpu));
  return 0;
}

static int teardown(void **state) {
  (void)state;
  td_device_release(cpu);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ways_to_write_an_example),
      cmocka_unit_test(test_threads_agree),
      cmocka_unit_test(test_every_truncation),
      cmocka_unit_test(test_every_byte_changed),
      cmocka_unit_test(test_lists),
      cmocka_unit_test(test_groups),
      cmocka_unit_test(test_ways_to_write_a_sequence),
      cmocka_unit_test(test_broken_sequences),
      cmocka_unit_test(test_no_memory_for_sequences),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
