/* table.c - lookup tables: finding, inserting, removing, files, marks, many
 * keys, many threads, no memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kernels/table_map.h"
#include "tests/engine/base/pipes.h"
#include "tests/kernels/waiting.h"

/* ---- building ------------------------------------------------------------ */

#define STRINGS(...)                                                           \
  strings((const char *[]){__VA_ARGS__},                                       \
          TD_COUNT(((const char *[]){__VA_ARGS__})))
#define LONGS(...)                                                             \
  longs((int64_t[]){__VA_ARGS__}, TD_COUNT(((int64_t[]){__VA_ARGS__})))

static td_tensor strings(const char *const *at, size_t n) {
  td_tensor t;
  size_t len[16];
  td_shape shape = td_shape_vector((int64_t)n);
  for (size_t i = 0; i < n; i++) len[i] = strlen(at[i]);
  OK(td_tensor_strings(&shape, at, len, &t));
  return t;
}

static td_tensor one_string(const char *s) {
  td_tensor t;
  size_t len = strlen(s);
  td_shape shape = td_shape_scalar();
  OK(td_tensor_strings(&shape, &s, &len, &t));
  return t;
}

static td_tensor longs(const int64_t *at, size_t n) {
  td_tensor t;
  td_shape shape = td_shape_vector((int64_t)n);
  OK(td_tensor_from(TD_INT64, &shape, at, &t));
  return t;
}

static td_tensor one_long(int64_t v) {
  td_tensor t;
  OK(td_tensor_scalar_i(TD_INT64, v, &t));
  return t;
}

static td_edge table_of(net *w, const char *op, td_dtype key, td_dtype value) {
  td_note attrs[] = {{"key_dtype", td_attr_type(key)},
                     {"value_dtype", td_attr_type(value)}};
  return net_node(w, op, NULL, 0, attrs, 2);
}

static td_edge three(net *w, const char *op, td_edge table, td_tensor keys,
                     td_tensor values) {
  td_edge in[] = {table, net_feed(w, keys), net_feed(w, values)};
  return net_node(w, op, in, 3, NULL, 0);
}

static td_edge find_node(net *w, td_edge table, td_tensor keys, td_tensor d) {
  return three(w, "LookupTableFindV2", table, keys, d);
}

static void insert(net *w, td_edge table, td_tensor keys, td_tensor values) {
  OK(net_do(w, three(w, "LookupTableInsertV2", table, keys, values)));
}

static void remove_keys(net *w, td_edge table, td_tensor keys) {
  td_edge in[] = {table, net_feed(w, keys)};
  OK(net_do(w, net_node(w, "LookupTableRemoveV2", in, 2, NULL, 0)));
}

static int64_t size_of(net *w, td_edge table) {
  td_tensor t;
  OK(net_run(w, net_node(w, "LookupTableSizeV2", &table, 1, NULL, 0), &t));
  int64_t n = td_tensor_get_i(&t, 0);
  td_tensor_release(&t);
  return n;
}

static void expect_ints(net *w, td_edge e, int n, const int64_t *want) {
  td_tensor t;
  OK(net_run(w, e, &t));
  assert_int_equal(td_tensor_count(&t), n);
  for (int i = 0; i < n; i++) assert_int_equal(td_tensor_get_i(&t, i), want[i]);
  td_tensor_release(&t);
}

static void check_strings(const td_tensor *t, int n, const char *const *want) {
  size_t len;
  assert_int_equal(td_tensor_count(t), n);
  for (int i = 0; i < n; i++) {
    const char *s = td_tensor_str(t, i, &len);
    assert_int_equal(len, strlen(want[i]));
    assert_memory_equal(s, want[i], len);
  }
}

static void expect_strings(net *w, td_edge e, int n, const char *const *want) {
  td_tensor t;
  OK(net_run(w, e, &t));
  check_strings(&t, n, want);
  td_tensor_release(&t);
}

/* Both outputs of LookupTableExportV2, of a table of strings to strings. */
static td_status *export_all(net *w, td_edge table, td_tensor out[2]) {
  td_note dtypes[] = {{"Tkeys", td_attr_type(TD_STRING)},
                      {"Tvalues", td_attr_type(TD_STRING)}};
  td_edge e = net_node(w, "LookupTableExportV2", &table, 1, dtypes, 2);
  td_tensor handle;
  td_kernel k;
  out[0] = out[1] = (td_tensor){.dtype = TD_INVALID};
  OK(net_run(w, table, &handle));
  OK(td_kernel_init(&k, e.node, w->device, w->states));
  td_status *s = net_start(w, &k, &handle, out);
  td_kernel_deinit(&k);
  td_tensor_release(&handle);
  return s;
}

/* ---- once initialized ---------------------------------------------------- */

static void test_initialized_once(void **state) {
  (void)state;
  net w;
  net_init(&w, 2);
  td_edge t = table_of(&w, "HashTableV2", TD_STRING, TD_INT64);
  td_edge find = find_node(
      &w, t, STRINGS("b", "", "a string of many bytes", "none"), one_long(-1));
  FAILS(net_do(&w, find), TD_FAILED_PRECONDITION, "not initialized");
  assert_int_equal(size_of(&w, t), 0);
  td_edge init =
      three(&w, "InitializeTableV2", t,
            STRINGS("a", "b", "", "a string of many bytes"), LONGS(1, 2, 3, 4));
  OK(net_do(&w, init));
  expect_ints(&w, find, 4, (int64_t[]){2, 3, 4, -1});
  OK(net_do(&w, init));
  OK(net_do(&w, three(&w, "InitializeTableV2", t,
                      STRINGS("", "b", "a", "a string of many bytes"),
                      LONGS(3, 2, 1, 4))));
  FAILS(net_do(&w, three(&w, "InitializeTableV2", t, STRINGS("a"), LONGS(1))),
        TD_FAILED_PRECONDITION, "with other content");
  FAILS(net_do(&w, three(&w, "InitializeTableV2", t,
                         STRINGS("a", "b", "", "a string of many bytes"),
                         LONGS(1, 2, 3, 5))),
        TD_FAILED_PRECONDITION, "with other content");
  FAILS(net_do(&w, three(&w, "LookupTableInsertV2", t, STRINGS("x"), LONGS(1))),
        TD_UNIMPLEMENTED, "nothing is inserted into");
  assert_int_equal(size_of(&w, t), 4);
  net_deinit(&w);
}

static void test_bad_content(void **state) {
  (void)state;
  net w;
  net_init(&w, 1);
  td_edge t = table_of(&w, "HashTableV2", TD_STRING, TD_INT64);
  const char *init = "InitializeTableV2";
  FAILS(net_do(&w, three(&w, init, t, STRINGS("a", "b", "a"), LONGS(1, 7, 2))),
        TD_FAILED_PRECONDITION, "key \"a\" comes twice");
  FAILS(net_do(&w, three(&w, init, t, STRINGS("a", "b"), LONGS(1))),
        TD_INVALID_ARGUMENT, "values must be of shape {2}");
  FAILS(net_do(&w, three(&w, init, t, one_string("a"), one_long(1))),
        TD_INVALID_ARGUMENT, "keys must be a vector");
  FAILS(net_do(&w, three(&w, init, t, strings(NULL, 0), longs(NULL, 0))),
        TD_INVALID_ARGUMENT, "must not be empty");
  td_edge e, in[] = {t, net_feed(&w, LONGS(1)), net_feed(&w, LONGS(1))};
  FAILS(net_try(&w, init, in, 3, NULL, 0, &e), TD_INVALID_ARGUMENT,
        "maps string to int64");
  OK(net_do(&w, three(&w, init, t, STRINGS("a", "a"), LONGS(1, 1))));
  assert_int_equal(size_of(&w, t), 1);
  FAILS(net_do(&w, find_node(&w, t, STRINGS("a", "b", "c"), LONGS(1, 2))),
        TD_INVALID_ARGUMENT, "default_value must have shape {}, or {3}");
  expect_ints(&w, find_node(&w, t, STRINGS("x", "a", "y"), LONGS(7, 8, 9)), 3,
              (int64_t[]){7, 1, 9});
  net_deinit(&w);
}

static void test_no_such_table(void **state) {
  (void)state;
  net w;
  net_init(&w, 1);
  td_note attrs[] = {{"key_dtype", td_attr_type(TD_FLOAT32)},
                     {"value_dtype", td_attr_type(TD_INT64)},
                     {"value_shape", td_attr_shape(&(td_shape){.rank = -1})}};
  td_edge e;
  FAILS(net_try(&w, "HashTableV2", NULL, 0, attrs, 2, &e), TD_INVALID_ARGUMENT,
        "no keys of dtype float32");
  attrs[0].value = td_attr_type(TD_INT64);
  FAILS(net_do(&w,
               net_node(&w, "MutableHashTableOfTensorsV2", NULL, 0, attrs, 3)),
        TD_INVALID_ARGUMENT, "must be fully known");
  td_edge v = net_variable(&w, "v", TD_INT64, td_shape_scalar());
  FAILS(net_do(&w, net_node(&w, "LookupTableSizeV2", &v, 1, NULL, 0)),
        TD_INVALID_ARGUMENT, "must be the handle of a lookup table");
  net_deinit(&w);
}

static void test_names(void **state) {
  (void)state;
  net w;
  net_init(&w, 1);
  td_note attrs[] = {{"key_dtype", td_attr_type(TD_INT64)},
                     {"value_dtype", td_attr_type(TD_INT64)},
                     {"shared_name", td_attr_string("both")}};
  td_edge a = net_node(&w, "MutableHashTableV2", NULL, 0, attrs, 3);
  td_edge b = net_node(&w, "MutableHashTableV2", NULL, 0, attrs, 3);
  td_edge c = net_node(&w, "HashTableV2", NULL, 0, attrs, 3);
  attrs[1].value = td_attr_type(TD_FLOAT32);
  td_edge d = net_node(&w, "MutableHashTableV2", NULL, 0, attrs, 3);
  insert(&w, a, LONGS(5), LONGS(50));
  expect_ints(&w, find_node(&w, b, LONGS(5), one_long(0)), 1, (int64_t[]){50});
  FAILS(net_do(&w, c), TD_INVALID_ARGUMENT,
        "is a mutable hash table, not a hash table");
  FAILS(net_do(&w, d), TD_INVALID_ARGUMENT,
        "maps int64 to int64, not int64 to float32");
  td_edge e = table_of(&w, "AnonymousMutableHashTable", TD_INT64, TD_INT64);
  insert(&w, e, LONGS(5), LONGS(50));
  assert_int_equal(size_of(&w, e), 0); /* another each time */
  net_deinit(&w);
}

/* ---- mutable ------------------------------------------------------------- */

static void test_mutable(void **state) {
  (void)state;
  net w;
  net_init(&w, 1);
  td_edge t = table_of(&w, "MutableHashTableV2", TD_STRING, TD_STRING);
  insert(&w, t, STRINGS("a", "b", "a"),
         STRINGS("one", "a value of some length", "two"));
  td_edge find = find_node(&w, t, STRINGS("b", "a", "c"), one_string("?"));
  expect_strings(&w, find, 3,
                 (const char *[]){"a value of some length", "two", "?"});
  remove_keys(&w, t, STRINGS("b", "not there"));
  expect_strings(&w, find, 3, (const char *[]){"?", "two", "?"});
  OK(net_do(&w, three(&w, "LookupTableImportV2", t, STRINGS("c", "b", "c"),
                      STRINGS("1", "2", "3"))));
  expect_strings(&w, find, 3, (const char *[]){"2", "?", "3"});
  td_tensor all[2];
  OK(export_all(&w, t, all));
  check_strings(&all[0], 2, (const char *[]){"c", "b"});
  check_strings(&all[1], 2, (const char *[]){"3", "2"});
  td_tensor_release(&all[0]);
  td_tensor_release(&all[1]);
  FAILS(
      net_do(&w, three(&w, "InitializeTableV2", t, STRINGS("x"), STRINGS("y"))),
      TD_INVALID_ARGUMENT, "is inserted into, not initialized");
  net_deinit(&w);
}

/* What is kept inside a record, and what is not; a NUL is a byte like others.
 */
static void test_lengths(void **state) {
  (void)state;
  td_table_map m;
  td_table_key key;
  char text[64];
  OK(td_table_map_init(&m, TD_STRING, 1, TD_INT64, 1));
  for (int fill = 0; fill < 2; fill++)
    for (int64_t len = 0; len < 40; len++) {
      memset(text, fill ? 'x' : 0, sizeof text);
      int64_t value = len * 2 + fill;
      td_table_map_key_text(&m, (td_bytes){text, (size_t)len}, &key);
      OK(td_table_map_put(&m, &key, &value));
    }
  assert_int_equal(m.count, 79); /* the empty one twice */
  for (int64_t len = 1; len < 40; len++) {
    int64_t got = 0;
    td_bytes s;
    memset(text, 0, sizeof text);
    td_table_map_key_text(&m, (td_bytes){text, (size_t)len}, &key);
    uint32_t entry = td_table_map_find(&m, &key);
    assert_true(entry != TD_TABLE_NONE);
    td_table_map_get(&m, entry, &got);
    td_table_map_get_key(&m, entry, &s);
    assert_int_equal(got, len * 2);
    assert_int_equal(s.len, len);
    text[len - 1] = 'y';
    td_table_map_key_text(&m, (td_bytes){text, (size_t)len}, &key);
    assert_true(td_table_map_find(&m, &key) == TD_TABLE_NONE);
  }
  td_table_map_deinit(&m);
}

/* Keys whose searches begin at one of two slots, as long as there are few. */
static void colliding(const td_table_map *m, td_table_key *key, int n) {
  int64_t v = 0;
  for (int i = 0; i < n; v++) {
    td_table_map_key_int(m, v, &key[i]);
    if ((key[i].hash & 511) >> 1 == 255) i++;
  }
}

/* Keys that collide are told apart, whichever are removed. */
static void test_colliding(void **state) {
  (void)state;
  enum { N = 200 };
  td_table_map m;
  td_table_key key[N];
  bool there[N] = {false};
  uint64_t seed = 7;
  OK(td_table_map_init(&m, TD_INT64, 1, TD_INT64, 1));
  colliding(&m, key, N);
  for (int step = 0; step < 20000; step++) {
    int64_t i = (int64_t)(draw(&seed) % N), v = i * 3, got = -1;
    uint32_t entry = td_table_map_find(&m, &key[i]);
    assert_true((entry != TD_TABLE_NONE) == there[i]);
    if (there[i]) {
      td_table_map_get(&m, entry, &got);
      assert_int_equal(got, v);
      td_table_map_remove(&m, entry);
    } else {
      OK(td_table_map_add(&m, &key[i], &v));
    }
    there[i] = !there[i];
  }
  td_table_map_deinit(&m);
}

/* Long values that come and go do not pile up. */
static void test_text_is_reclaimed(void **state) {
  (void)state;
  td_table_map m;
  td_table_key key;
  char text[1000];
  memset(text, 'v', sizeof text);
  OK(td_table_map_init(&m, TD_INT64, 1, TD_STRING, 2));
  for (int i = 0; i < 20000; i++) {
    td_bytes v[] = {{text, (size_t)(i % 1000)}, {"short", 5}}, got[2];
    td_table_map_key_int(&m, i % 50, &key);
    OK(td_table_map_put(&m, &key, v));
    td_table_map_get(&m, td_table_map_find(&m, &key), got);
    assert_int_equal(got[0].len, v[0].len);
    assert_int_equal(got[1].len, 5);
  }
  assert_true(m.text_room < 50 * 1000 * 3);
  td_table_map_deinit(&m);
}

static void test_of_tensors(void **state) {
  (void)state;
  net w;
  net_init(&w, 1);
  td_shape two = td_shape_vector(2);
  td_note attrs[] = {{"key_dtype", td_attr_type(TD_INT32)},
                     {"value_dtype", td_attr_type(TD_FLOAT32)},
                     {"value_shape", td_attr_shape(&two)}};
  td_edge t = net_node(&w, "MutableHashTableOfTensorsV2", NULL, 0, attrs, 3);
  td_tensor v =
      tensor_f(TD_FLOAT32, td_shape_matrix(2, 2), (double[]){1, 2, 3, 4});
  insert(&w, t, ints(2, (int32_t[]){-7, 8}), v);
  td_tensor none = tensor_f(TD_FLOAT32, two, (double[]){-1, -2});
  td_edge find = find_node(&w, t, ints(3, (int32_t[]){8, 9, -7}), none);
  net_expect(&w, find, 6, (double[]){3, 4, -1, -2, 1, 2}, 0);
  FAILS(net_do(&w, find_node(&w, t, ints(1, (int32_t[]){8}),
                             scalar_f(TD_FLOAT32, 0))),
        TD_INVALID_ARGUMENT, "default_value must have shape {2}, or {1, 2}");
  net_deinit(&w);
}

/* ---- dense --------------------------------------------------------------- */

static td_edge dense_of(net *w, td_tensor empty, td_tensor deleted,
                        int64_t buckets, const char *name) {
  td_edge in[] = {net_feed(w, empty), net_feed(w, deleted)};
  td_note attrs[] = {{"value_dtype", td_attr_type(TD_INT64)},
                     {"initial_num_buckets", td_attr_int(buckets)},
                     {"shared_name", td_attr_string(name)}};
  return net_node(w, "MutableDenseHashTableV2", in, 2, attrs, 3);
}

static void test_dense(void **state) {
  (void)state;
  net w;
  net_init(&w, 1);
  td_edge t = dense_of(&w, one_long(-1), one_long(-2), 4, "t");
  insert(&w, t, LONGS(1, 2, 3, 4, 5), LONGS(10, 20, 30, 40, 50));
  expect_ints(&w, find_node(&w, t, LONGS(5, 9), one_long(0)), 2,
              (int64_t[]){50, 0});
  FAILS(net_do(&w, find_node(&w, t, LONGS(5, -1), one_long(0))),
        TD_INVALID_ARGUMENT, "cannot be used as keys");
  FAILS(net_do(&w,
               three(&w, "LookupTableInsertV2", t, LONGS(6, -2), LONGS(1, 2))),
        TD_INVALID_ARGUMENT, "cannot be used as keys");
  assert_int_equal(size_of(&w, t), 5);
  OK(net_do(&w, three(&w, "LookupTableImportV2", t, LONGS(-1, 7, -2),
                      LONGS(0, 70, 0))));
  assert_int_equal(size_of(&w, t), 1);
  FAILS(net_do(&w, dense_of(&w, one_long(-1), one_long(-3), 4, "t")),
        TD_INVALID_ARGUMENT, "another empty_key");
  FAILS(net_do(&w, dense_of(&w, one_long(-1), one_long(-1), 4, "u")),
        TD_INVALID_ARGUMENT, "must not be equal");
  FAILS(net_do(&w, dense_of(&w, one_long(-1), one_long(-2), 3, "v")),
        TD_INVALID_ARGUMENT, "a power of 2");
  net_deinit(&w);
}

static void test_dense_vectors(void **state) {
  (void)state;
  net w;
  net_init(&w, 1);
  td_edge t = dense_of(&w, LONGS(0, 0), LONGS(0, 1), 4, "t");
  td_shape pairs = td_shape_matrix(2, 2);
  td_tensor k, q;
  OK(td_tensor_from(TD_INT64, &pairs, (int64_t[]){1, 2, 3, 4}, &k));
  OK(td_tensor_from(TD_INT64, &pairs, (int64_t[]){3, 4, 2, 1}, &q));
  insert(&w, t, k, LONGS(12, 34));
  expect_ints(&w, find_node(&w, t, q, one_long(-1)), 2, (int64_t[]){34, -1});
  FAILS(net_do(&w, find_node(&w, t, LONGS(1, 2, 3), one_long(0))),
        TD_INVALID_ARGUMENT, "has keys of shape {2}");
  net_deinit(&w);
}

/* ---- files --------------------------------------------------------------- */

typedef struct text_file {
  char path[64];
} text_file;

static void write_file(text_file *f, const char *text) {
  snprintf(f->path, sizeof f->path, "/tmp/tide_table_%d.txt", (int)getpid());
  FILE *out = fopen(f->path, "wb");
  assert_non_null(out);
  fwrite(text, 1, strlen(text), out);
  fclose(out);
}

typedef struct lines {
  int64_t key, value, most;
  td_dtype from, to;
} lines;

static td_edge load_node(net *w, td_edge t, const char *path, const lines *l) {
  td_edge in[] = {t, net_feed(w, one_string(path))};
  td_note attrs[] = {{"key_index", td_attr_int(l->key)},
                     {"value_index", td_attr_int(l->value)},
                     {"vocab_size", td_attr_int(l->most)}};
  return net_node(w, "InitializeTableFromTextFileV2", in, 2, attrs, 3);
}

static const lines numbers = {-2, -1, -1, TD_STRING, TD_INT64};

/* Words of the text to their lines' numbers. */
static void expect_numbers(const char *text, td_tensor words, int n,
                           const int64_t *want) {
  net w;
  text_file f;
  net_init(&w, 1);
  write_file(&f, text);
  td_edge t = table_of(&w, "HashTableV2", TD_STRING, TD_INT64);
  td_edge load = load_node(&w, t, f.path, &numbers);
  OK(net_do(&w, load));
  OK(net_do(&w, load));
  expect_ints(&w, find_node(&w, t, words, one_long(-1)), n, want);
  write_file(&f, "something else\n");
  FAILS(net_do(&w, load), TD_FAILED_PRECONDITION, "with other content");
  unlink(f.path);
  net_deinit(&w);
}

static void test_lines(void **state) {
  (void)state;
  int64_t in_order[] = {0, 1, 2, -1};
  expect_numbers("a\nb\nc\n", STRINGS("a", "b", "c", ""), 4, in_order);
  expect_numbers("a\nb\nc", STRINGS("a", "b", "c", "c\n"), 4, in_order);
  expect_numbers("a\r\nb\r\nc\r\n", STRINGS("a", "b", "c", "a\r"), 4, in_order);
}

/* The step that waits for a pipe ends when it is cancelled; the table is as it
 * was. */
static void test_a_pipe_is_given_up(void **state) {
  (void)state;
  net w;
  fifo p;
  fifo_init(&p);
  net_init(&w, 1);
  td_edge t = table_of(&w, "HashTableV2", TD_STRING, TD_INT64);
  td_edge load = load_node(&w, t, p.path, &numbers);
  int before = fifo_descriptors();
  for (int i = 0; i < 4; i++) {
    waiting x;
    waiting_start(&x, &w, load);
    waiting_why(&x, p.path);
    usleep(i * 5000);
    waiting_cancel(&x);
    FAILS(waiting_end(&x), TD_CANCELLED, p.path);
    waiting_drop(&x);
    fifo_let_go(before);
  }
  int fd = fifo_open(&p);
  fifo_put(fd, "moon\n");
  waiting x;
  waiting_start(&x, &w, load);
  usleep(20000);
  close(fd);
  OK(waiting_end(&x));
  waiting_drop(&x);
  int64_t first = 0;
  expect_ints(&w, find_node(&w, t, STRINGS("moon"), one_long(-1)), 1, &first);
  net_deinit(&w);
  fifo_deinit(&p);
}

/* What a file of that text is refused with. */
static td_status *refused(const char *text, const lines *l) {
  net w;
  text_file f;
  net_init(&w, 1);
  write_file(&f, text);
  td_edge t = table_of(&w, "HashTableV2", l->from, l->to);
  td_status *s = net_do(&w, load_node(&w, t, f.path, l));
  assert_int_equal(size_of(&w, t), 0);
  unlink(f.path);
  net_deinit(&w);
  return s;
}

static void test_bad_files(void **state) {
  (void)state;
  lines columns = {0, 1, -1, TD_STRING, TD_INT64}, few = numbers,
        narrow = {-2, -1, -1, TD_STRING, TD_INT32},
        of_bool = {0, 1, -1, TD_STRING, TD_BOOL};
  FAILS(refused("a\n\nb\n", &numbers), TD_INVALID_ARGUMENT,
        "line 2 of /tmp/tide_table_");
  FAILS(refused("a\nb\na\n", &numbers), TD_FAILED_PRECONDITION,
        "key \"a\" comes twice");
  FAILS(refused("", &numbers), TD_OUT_OF_RANGE, "has no lines");
  FAILS(refused("a\t1\nb\n", &columns), TD_INVALID_ARGUMENT,
        "1 columns (\"b\")");
  FAILS(refused("a\t1\nb\tx\n", &columns), TD_INVALID_ARGUMENT,
        "\"x\" is no int64");
  FAILS(refused("a\n", &narrow), TD_INVALID_ARGUMENT,
        "the line's number, is int64");
  FAILS(refused("a\ttrue\n", &of_bool), TD_INVALID_ARGUMENT,
        "cannot be read from a file");
  few.most = 4;
  FAILS(refused("a\nb\nc\n", &few), TD_INVALID_ARGUMENT,
        "has 3 lines, and vocab_size is 4");
  few.most = 0;
  FAILS(refused("a\nb\nc\n", &few), TD_OUT_OF_RANGE, "vocab_size is 0");
  net w;
  net_init(&w, 1);
  td_edge t = table_of(&w, "HashTableV2", TD_STRING, TD_INT64);
  FAILS(net_do(&w, load_node(&w, t, "/tmp/tide_table_none", &numbers)),
        TD_NOT_FOUND, "/tmp/tide_table_none");
  net_deinit(&w);
}

static void test_columns(void **state) {
  (void)state;
  net w;
  text_file f;
  lines l = {1, 0, 2, TD_INT32, TD_FLOAT32};
  net_init(&w, 1);
  write_file(&f, "0.5\t 7\n1.5\t8\tmore\nbeyond vocab_size\n");
  td_edge t = table_of(&w, "HashTableV2", TD_INT32, TD_FLOAT32);
  OK(net_do(&w, load_node(&w, t, f.path, &l)));
  net_expect(
      &w,
      find_node(&w, t, ints(3, (int32_t[]){7, 8, 9}), scalar_f(TD_FLOAT32, -1)),
      3, (double[]){0.5, 1.5, -1}, 0);
  unlink(f.path);
  net_deinit(&w);
}

/* Lines that go over the end of a block. */
static void test_large_file(void **state) {
  (void)state;
  enum { N = 60000 };
  net w;
  text_file f;
  td_tensor found;
  td_str text;
  net_init(&w, 2);
  td_str_init(&text);
  for (int i = 0; i < N; i++) td_str_addf(&text, "word number %d\n", i);
  write_file(&f, td_str_c(&text));
  td_str_deinit(&text);
  td_edge t = table_of(&w, "HashTableV2", TD_STRING, TD_INT64);
  OK(net_do(&w, load_node(&w, t, f.path, &numbers)));
  assert_int_equal(size_of(&w, t), N);
  OK(net_run(&w,
             find_node(&w, t, STRINGS("word number 59999", "word number 0"),
                       one_long(-1)),
             &found));
  assert_int_equal(td_tensor_get_i(&found, 0), N - 1);
  td_tensor_release(&found);
  unlink(f.path);
  net_deinit(&w);
}

/* ---- no memory ----------------------------------------------------------- */

static void test_no_memory(void **state) {
  (void)state;
  net w;
  text_file f;
  net_init(&w, 1);
  td_edge t = table_of(&w, "HashTableV2", TD_STRING, TD_STRING);
  td_edge m = table_of(&w, "MutableHashTableV2", TD_STRING, TD_STRING);
  td_edge file = table_of(&w, "HashTableV2", TD_STRING, TD_INT64);
  td_edge d = dense_of(&w, one_long(-1), one_long(-2), 4, "d");
  net_starve(&w, t);
  net_starve(&w, d);
  net_starve(&w, three(&w, "InitializeTableV2", t,
                       STRINGS("a", "a long key in the block"),
                       STRINGS("a long value in the block", "b")));
  net_starve(&w, three(&w, "LookupTableInsertV2", m,
                       STRINGS("a", "a long key in the block"),
                       STRINGS("a long value in the block", "b")));
  net_starve(&w, find_node(&w, t, STRINGS("a", "b"), one_string("c")));
  net_starve(&w, three(&w, "LookupTableImportV2", m, STRINGS("x"),
                       STRINGS("some longer text")));
  write_file(&f, "one\ntwo\na line of more than twelve bytes\n");
  net_starve(&w, load_node(&w, file, f.path, &numbers));
  unlink(f.path);
  net_deinit(&w);
}

/* ---- many keys, many threads --------------------------------------------- */

enum { MANY = 1000000 };

static void test_a_million(void **state) {
  (void)state;
  net w;
  td_tensor keys, values, found;
  td_shape all = td_shape_vector(MANY);
  net_init(&w, 2);
  OK(td_tensor_new(NULL, TD_INT64, &all, &keys));
  OK(td_tensor_new(NULL, TD_INT64, &all, &values));
  for (int64_t i = 0; i < MANY; i++) {
    ((int64_t *)keys.data)[i] = i << 32; /* low bits that are all the same */
    ((int64_t *)values.data)[i] = i;
  }
  td_edge t = table_of(&w, "MutableHashTableV2", TD_INT64, TD_INT64);
  td_edge k = net_feed(&w, keys), v = net_feed(&w, values);
  td_edge d = net_feed(&w, one_long(-1));
  OK(net_do(&w, net_node(&w, "LookupTableInsertV2", (td_edge[]){t, k, v}, 3,
                         NULL, 0)));
  assert_int_equal(size_of(&w, t), MANY);
  OK(net_run(
      &w, net_node(&w, "LookupTableFindV2", (td_edge[]){t, k, d}, 3, NULL, 0),
      &found));
  assert_true(td_tensor_same(&found, &values));
  td_tensor_release(&found);
  net_deinit(&w);
}

/* Threads that insert and find at the same time, through the locks of kernels:
 * a key has the value that belongs to it, or none. */
typedef struct user {
  net *w;
  td_kernel *insert, *find;
  td_tensor *handle;
  int64_t first;
  int bad;
} user;

enum { ROUNDS = 300, EACH = 50 };

static void put_once(user *u, int64_t round) {
  td_tensor in[3], out[1] = {{.dtype = TD_INVALID}};
  int64_t k[EACH], v[EACH];
  for (int i = 0; i < EACH; i++) {
    k[i] = (u->first + round * EACH + i) % 5000;
    v[i] = k[i] * 7;
  }
  td_tensor_retain(u->handle, &in[0]);
  in[1] = longs(k, EACH);
  in[2] = longs(v, EACH);
  OK(net_start(u->w, u->insert, in, out));
  for (int i = 0; i < 3; i++) td_tensor_release(&in[i]);
}

static void look_once(user *u, int64_t round) {
  td_tensor in[3], out[1] = {{.dtype = TD_INVALID}};
  int64_t k[EACH];
  for (int i = 0; i < EACH; i++) k[i] = (u->first + round * 31 + i) % 5000;
  td_tensor_retain(u->handle, &in[0]);
  in[1] = longs(k, EACH);
  in[2] = one_long(-1);
  OK(net_start(u->w, u->find, in, out));
  for (int i = 0; i < EACH; i++) {
    int64_t got = td_tensor_get_i(&out[0], i);
    u->bad += got != -1 && got != k[i] * 7;
  }
  for (int i = 0; i < 3; i++) td_tensor_release(&in[i]);
  td_tensor_release(&out[0]);
}

static void *use(void *arg) {
  user *u = arg;
  for (int64_t r = 0; r < ROUNDS; r++) {
    put_once(u, r);
    look_once(u, r);
  }
  return NULL;
}

static void test_many_threads(void **state) {
  (void)state;
  enum { THREADS = 4 };
  net w;
  td_kernel put, find;
  td_tensor handle;
  pthread_t thread[THREADS];
  user users[THREADS];
  net_init(&w, 1);
  td_edge t = table_of(&w, "MutableHashTableV2", TD_INT64, TD_INT64);
  td_edge i = three(&w, "LookupTableInsertV2", t, LONGS(0), LONGS(0));
  td_edge f = find_node(&w, t, LONGS(0), one_long(-1));
  OK(net_run(&w, t, &handle));
  OK(td_kernel_init(&put, i.node, w.device, w.states));
  OK(td_kernel_init(&find, f.node, w.device, w.states));
  for (int k = 0; k < THREADS; k++) {
    users[k] = (user){&w, &put, &find, &handle, k * 1250, 0};
    assert_int_equal(pthread_create(&thread[k], NULL, use, &users[k]), 0);
  }
  for (int k = 0; k < THREADS; k++) {
    pthread_join(thread[k], NULL);
    assert_int_equal(users[k].bad, 0);
  }
  assert_int_equal(size_of(&w, t), 5000);
  td_tensor_release(&handle);
  td_kernel_deinit(&put);
  td_kernel_deinit(&find);
  net_deinit(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_initialized_once),
      cmocka_unit_test(test_bad_content),
      cmocka_unit_test(test_no_such_table),
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_mutable),
      cmocka_unit_test(test_lengths),
      cmocka_unit_test(test_colliding),
      cmocka_unit_test(test_text_is_reclaimed),
      cmocka_unit_test(test_of_tensors),
      cmocka_unit_test(test_dense),
      cmocka_unit_test(test_dense_vectors),
      cmocka_unit_test(test_lines),
      cmocka_unit_test(test_a_pipe_is_given_up),
      cmocka_unit_test(test_bad_files),
      cmocka_unit_test(test_columns),
      cmocka_unit_test(test_large_file),
      cmocka_unit_test(test_no_memory),
      cmocka_unit_test(test_a_million),
      cmocka_unit_test(test_many_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
