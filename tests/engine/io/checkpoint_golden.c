/* checkpoint_golden.c - TensorFlow's checkpoints are read, and ours of the same
 * tensors have the same bytes.
 *
 * tests/peers/checkpoints.py made them and says what is in them. With a folder
 * as its argument this program writes its own there, for TensorFlow to read.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/io/saved.h"

static const char golden[] = "tests/golden/checkpoints";

/* In the script's order. */
static const td_dtype dtypes[] = {
    TD_FLOAT32, TD_FLOAT64,    TD_INT32,   TD_UINT8,  TD_INT16,
    TD_INT8,    TD_COMPLEX64,  TD_INT64,   TD_BOOL,   TD_BFLOAT16,
    TD_UINT16,  TD_COMPLEX128, TD_FLOAT16, TD_UINT32, TD_UINT64,
    TD_QINT8,   TD_QUINT8,     TD_QINT32,  TD_QINT16, TD_QUINT16,
};

/* Integers of the same bytes, for those that have no numbers of their own. */
static td_dtype plain_of(td_dtype d) {
  switch (d) {
  case TD_QINT8:
    return TD_INT8;
  case TD_QUINT8:
    return TD_UINT8;
  case TD_QINT32:
    return TD_INT32;
  case TD_QINT16:
    return TD_INT16;
  case TD_QUINT16:
    return TD_UINT16;
  default:
    return d;
  }
}

static void make(td_dtype dtype, const td_shape *shape, td_tensor *t) {
  OK(td_tensor_new(NULL, plain_of(dtype), shape, t));
  for (int64_t k = 0; k < td_tensor_count(t); k++) {
    int64_t v = (3 * k + 1) % 100;
    td_tensor_set_i(t, k, dtype == TD_BOOL ? v % 2 : v);
    if (dtype == TD_COMPLEX64) ((float *)t->data)[2 * k + 1] = (float)-v;
    if (dtype == TD_COMPLEX128) ((double *)t->data)[2 * k + 1] = (double)-v;
  }
  t->dtype = dtype;
}

static td_shape shape_of(int kind) {
  return kind == 0   ? td_shape_matrix(2, 3)
         : kind == 1 ? td_shape_scalar()
                     : td_shape_matrix(0, 3);
}

static void make_strings(const td_shape *shape, td_tensor *t) {
  static char xs[300];
  memset(xs, 'x', sizeof xs);
  const char *const at[] = {"", "a", "b\0c", "\xc3\xa9", xs, ""};
  static const size_t len[] = {0, 1, 3, 2, 300, 0};
  OK(td_tensor_strings(shape, at, len, t));
}

/* The tensor of that name in `dtypes`. */
static void make_named(const char *name, td_tensor *t) {
  static const char *const kinds[] = {"matrix/", "scalar/", "empty/"};
  static const char *const words[] = {"one", "two"}, *const lone[] = {"lone"};
  static const size_t lengths[] = {3, 3}, length[] = {4};
  td_shape two = td_shape_matrix(2, 3), none = td_shape_vector(0),
           one = td_shape_vector(1), pair = td_shape_vector(2),
           scalar = td_shape_scalar(),
           eight = td_shape_of(8, (int64_t[]){1, 2, 1, 2, 1, 2, 1, 2});
  for (int k = 0; k < 3; k++) {
    size_t n = strlen(kinds[k]);
    td_shape shape = shape_of(k);
    if (strncmp(name, kinds[k], n) == 0) {
      make(td_dtype_parse(name + n, strlen(name + n)), &shape, t);
      return;
    }
  }
  if (strcmp(name, "strings") == 0) make_strings(&two, t);
  if (strcmp(name, "no_strings") == 0) make_strings(&none, t);
  if (strcmp(name, "string") == 0)
    OK(td_tensor_strings(&scalar, lone, length, t));
  if (strcmp(name, "a") == 0) OK(td_tensor_strings(&pair, words, lengths, t));
  if (strncmp(name, "long/", 5) == 0) make(TD_INT32, &one, t);
  if (strcmp(name, "rank_8") == 0) make(TD_INT8, &eight, t);
}

/* ---- written ------------------------------------------------------------- */

static void add(td_checkpoint_writer *w, const char *name) {
  td_tensor t = {0};
  make_named(name, &t);
  OK(td_checkpoint_writer_add(w, name, &t));
  td_tensor_release(&t);
}

static void add_vector(td_checkpoint_writer *w, const char *name, td_dtype d,
                       int64_t n) {
  td_shape shape = td_shape_vector(n);
  td_tensor t;
  make(d, &shape, &t);
  OK(td_checkpoint_writer_add(w, name, &t));
  td_tensor_release(&t);
}

/* `text`: a slice as operands of SaveV2 have it. */
static void add_slice(td_checkpoint_writer *w, const char *name, td_dtype d,
                      const char *text) {
  td_shape whole, part;
  td_slice s, all = {0}, common;
  td_tensor full, t;
  OK(td_slice_parse((td_bytes){text, strlen(text)}, &whole, &s));
  OK(td_slice_shape(&whole, &s, &part));
  make(d, &whole, &full);
  OK(td_tensor_new(NULL, d, &part, &t));
  all.rank = whole.rank;
  for (int i = 0; i < all.rank; i++) all.length[i] = -1;
  assert_true(td_slice_meet(&whole, &s, &all, &common));
  td_slice_copy(&whole, &common, &all, full.data, &s, t.data, td_dtype_size(d));
  OK(td_checkpoint_writer_add_slice(w, name, &whole, &s, &t));
  td_tensor_release(&full);
  td_tensor_release(&t);
}

static td_checkpoint_writer *begin(const char *folder, const char *name) {
  td_checkpoint_writer *w;
  char prefix[400];
  snprintf(prefix, sizeof prefix, "%s/%s", folder, name);
  OK(td_checkpoint_writer_open(prefix, &w));
  return w;
}

static void end(td_checkpoint_writer *w) {
  OK(td_checkpoint_writer_commit(w));
  td_checkpoint_writer_close(w);
}

static void write_dtypes(const char *folder) {
  static const char *const kinds[] = {"matrix", "scalar", "empty"};
  char name[400];
  td_checkpoint_writer *w = begin(folder, "dtypes");
  for (size_t i = 0; i < TD_COUNT(dtypes); i++)
    for (int k = 0; k < 3; k++) {
      snprintf(name, sizeof name, "%s/%s", kinds[k], td_dtype_name(dtypes[i]));
      add(w, name);
    }
  add(w, "strings");
  add(w, "string");
  add(w, "no_strings");
  snprintf(name, sizeof name, "long/%0300d", 0);
  for (char *at = name + 5; *at; at++) *at = 'n';
  add(w, name);
  add(w, "rank_8");
  end(w);
}

static void write_sliced(const char *folder) {
  td_checkpoint_writer *w = begin(folder, "sliced");
  add_slice(w, "w", TD_INT32, "4 6 0,2:0,3");
  add_slice(w, "w", TD_INT32, "4 6 0,2:3,3");
  add_slice(w, "w", TD_INT32, "4 6 2,2:-");
  add_slice(w, "v", TD_FLOAT32, "1000 0,70");
  add_slice(w, "v", TD_FLOAT32, "1000 70,930");
  add_vector(w, "whole", TD_FLOAT64, 3);
  add_slice(w, "u", TD_INT8, "2 2 2 -:0,1:-");
  add_slice(w, "u", TD_INT8, "2 2 2 -:1,1:-");
  end(w);
}

static void write_sharded(const char *folder) {
  char a[400], b[400], prefix[400];
  td_checkpoint_writer *w = begin(folder, "temp/part-0");
  add_vector(w, "b", TD_FLOAT32, 5);
  add_slice(w, "w", TD_INT64, "4 2 0,3:-");
  end(w);
  w = begin(folder, "temp/part-1");
  add_slice(w, "w", TD_INT64, "4 2 3,1:-");
  add(w, "a");
  add_vector(w, "c", TD_BOOL, 3);
  end(w);
  snprintf(a, sizeof a, "%s/temp/part-0", folder);
  snprintf(b, sizeof b, "%s/temp/part-1", folder);
  snprintf(prefix, sizeof prefix, "%s/sharded", folder);
  const char *const parts[] = {a, b};
  OK(td_checkpoint_merge(parts, 2, prefix, true));
}

static void write_all(const char *folder) {
  write_dtypes(folder);
  write_sliced(folder);
  write_sharded(folder);
}

static void assert_same_file(const char *name) {
  char path[400], *ours, *theirs;
  size_t n, m;
  snprintf(path, sizeof path, "%s/%s", saved_folder, name);
  OK(td_file_read(path, 1 << 20, &ours, &n));
  snprintf(path, sizeof path, "%s/%s", golden, name);
  OK(td_file_read(path, 1 << 20, &theirs, &m));
  if (n != m || memcmp(ours, theirs, n) != 0) fail_msg("%s differs", name);
  td_free(ours);
  td_free(theirs);
}

static void test_the_same_bytes(void **state) {
  (void)state;
  static const char *const files[] = {"dtypes.index",
                                      "dtypes.data-00000-of-00001",
                                      "sliced.index",
                                      "sliced.data-00000-of-00001",
                                      "sharded.index",
                                      "sharded.data-00000-of-00002",
                                      "sharded.data-00001-of-00002"};
  write_all(saved_folder);
  for (size_t i = 0; i < TD_COUNT(files); i++) assert_same_file(files[i]);
}

/* ---- read ---------------------------------------------------------------- */

static td_checkpoint *open_golden(const char *name, size_t count) {
  td_checkpoint *c;
  char prefix[400];
  snprintf(prefix, sizeof prefix, "%s/%s", golden, name);
  OK(td_checkpoint_open(prefix, &c));
  OK(td_checkpoint_verify(c));
  assert_int_equal(td_checkpoint_count(c), count);
  return c;
}

static void assert_equal(const td_checkpoint *c, const char *name,
                         td_tensor *want) {
  td_checkpoint_entry e;
  td_tensor got;
  assert_true(td_checkpoint_find(c, name, &e));
  OK(td_checkpoint_read(c, &e, NULL, NULL, &got));
  if (!td_tensor_same(&got, want)) fail_msg("%s differs", name);
  td_tensor_release(&got);
  OK(td_checkpoint_map(c, &e, &got));
  if (!td_tensor_same(&got, want)) fail_msg("%s differs as a view", name);
  td_tensor_release(&got);
  td_tensor_release(want);
}

static void assert_numbers(const td_checkpoint *c, const char *name, td_dtype d,
                           td_shape shape) {
  td_tensor want;
  make(d, &shape, &want);
  assert_equal(c, name, &want);
}

static void test_all_dtypes(void **state) {
  (void)state;
  td_checkpoint *c = open_golden("dtypes", 65);
  for (size_t i = 0; i < td_checkpoint_count(c); i++) {
    td_checkpoint_entry e = td_checkpoint_at(c, i);
    td_tensor want = {0};
    make_named(e.name, &want);
    assert_equal(c, e.name, &want);
  }
  td_checkpoint_close(c);
}

static void test_slices(void **state) {
  (void)state;
  td_checkpoint *c = open_golden("sliced", 4);
  assert_numbers(c, "w", TD_INT32, td_shape_matrix(4, 6));
  assert_numbers(c, "v", TD_FLOAT32, td_shape_vector(1000));
  assert_numbers(c, "whole", TD_FLOAT64, td_shape_vector(3));
  assert_numbers(c, "u", TD_INT8, td_shape_of(3, (int64_t[]){2, 2, 2}));
  td_checkpoint_close(c);
  c = open_golden("partitioned", 2);
  assert_numbers(c, "p", TD_FLOAT32, td_shape_matrix(7, 3));
  assert_numbers(c, "q", TD_INT32, td_shape_vector(4));
  td_checkpoint_close(c);
}

static void test_shards(void **state) {
  (void)state;
  td_tensor want = {0};
  td_checkpoint *c = open_golden("sharded", 4);
  assert_int_equal(td_checkpoint_shards(c), 2);
  assert_numbers(c, "b", TD_FLOAT32, td_shape_vector(5));
  assert_numbers(c, "w", TD_INT64, td_shape_matrix(4, 2));
  assert_numbers(c, "c", TD_BOOL, td_shape_vector(3));
  make_named("a", &want);
  assert_equal(c, "a", &want);
  td_checkpoint_close(c);
}

int main(int argc, char **argv) {
  if (argc > 1) {
    write_all(argv[1]);
    return 0;
  }
  const struct CMUnitTest tests[] = {
      SAVED_TEST(test_the_same_bytes),
      cmocka_unit_test(test_all_dtypes),
      cmocka_unit_test(test_slices),
      cmocka_unit_test(test_shards),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
