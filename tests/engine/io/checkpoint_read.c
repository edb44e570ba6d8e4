/* checkpoint_read.c - parts and slices, many entries, long names; sizes that
 * are lies take no memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/io/checkpoint_index.h"
#include "tests/engine/io/saved.h"

/* ---- parts --------------------------------------------------------------- */

enum { A = 5, B = 7, C = 4 };

/* Element (i, j, k) is 100 i + 10 j + k. */
static void make_part(const td_slice *s, td_tensor *t) {
  td_shape whole = td_shape_of(3, (int64_t[]){A, B, C}), shape;
  OK(td_slice_shape(&whole, s, &shape));
  OK(td_tensor_new(NULL, TD_INT32, &shape, t));
  int64_t end[3], n = 0;
  for (int i = 0; i < 3; i++) end[i] = s->start[i] + shape.dim[i];
  for (int64_t i = s->start[0]; i < end[0]; i++)
    for (int64_t j = s->start[1]; j < end[1]; j++)
      for (int64_t k = s->start[2]; k < end[2]; k++)
        td_tensor_set_i(t, n++, 100 * i + 10 * j + k);
}

/* A range of an axis of n, perhaps all of it. */
static void draw_range(unsigned *seed, int64_t n, int64_t *start,
                       int64_t *length) {
  *start = rand_r(seed) % n;
  *length = 1 + rand_r(seed) % (n - *start);
  if (rand_r(seed) % 4 == 0) *start = 0, *length = -1;
}

/* "w" whole, or in the blocks that cuts of its axes make. */
static void save_cube(unsigned *seed, bool in_slices) {
  static const int64_t sizes[] = {A, B, C};
  td_shape whole = td_shape_of(3, sizes);
  td_checkpoint_writer *w;
  int64_t cuts[3][3];
  OK(td_checkpoint_writer_open(saved_prefix, &w));
  for (int i = 0; i < 3; i++) {
    int64_t cut = in_slices ? rand_r(seed) % sizes[i] : 0;
    cuts[i][0] = 0;
    cuts[i][1] = cut;
    cuts[i][2] = sizes[i];
  }
  for (int b = 0; b < 8; b++) {
    td_slice s = {.rank = 3};
    bool empty = false;
    for (int i = 0; i < 3; i++) {
      const int64_t *cut = &cuts[i][b >> i & 1];
      s.start[i] = cut[0];
      s.length[i] = cut[1] - cut[0];
      if (s.length[i] == sizes[i]) s.length[i] = -1;
      empty |= s.length[i] == 0;
    }
    td_tensor t;
    if (empty) continue;
    make_part(&s, &t);
    if (in_slices)
      OK(td_checkpoint_writer_add_slice(w, "w", &whole, &s, &t));
    else
      OK(td_checkpoint_writer_add(w, "w", &t));
    td_tensor_release(&t);
  }
  OK(td_checkpoint_writer_commit(w));
  td_checkpoint_writer_close(w);
}

static void test_parts(void **state) {
  (void)state;
  unsigned seed = 5;
  for (int round = 0; round < 40; round++) {
    td_checkpoint *c;
    td_checkpoint_entry e;
    save_cube(&seed, round % 4 > 0);
    OK(td_checkpoint_open(saved_prefix, &c));
    assert_int_equal(td_checkpoint_count(c), 1);
    assert_true(td_checkpoint_find(c, "w", &e));
    for (int i = 0; i < 20; i++) {
      td_slice s = {.rank = 3};
      td_tensor got, want;
      for (int k = 0; k < 3; k++)
        draw_range(&seed, e.shape.dim[k], &s.start[k], &s.length[k]);
      make_part(&s, &want);
      OK(td_checkpoint_read(c, &e, &s, NULL, &got));
      assert_true(td_tensor_same(&got, &want));
      td_tensor_release(&got);
      td_tensor_release(&want);
    }
    td_checkpoint_close(c);
  }
}

/* ---- indices that lie ---------------------------------------------------- */

/* Writes what an index tells, and `n` bytes of data, from 0 on. */
static void write_files(td_checkpoint_index *x, size_t n) {
  td_str bytes = {0};
  char path[400];
  OK(td_checkpoint_index_bytes(x, 0, 1, &bytes));
  td_checkpoint_index_free(x);
  snprintf(path, sizeof path, "%s.index", saved_prefix);
  OK(td_file_write(path, bytes.at, bytes.len));
  td_str_deinit(&bytes);
  snprintf(path, sizeof path, "%s.data-00000-of-00001", saved_prefix);
  char *data = td_calloc(n + 1, 1);
  OK(td_file_write(path, data, n));
  td_free(data);
}

static td_checkpoint_entry *add(td_checkpoint_index *x, const char *name,
                                td_dtype dtype, int64_t count) {
  td_checkpoint_entry *e;
  td_shape shape = td_shape_vector(count);
  OK(td_checkpoint_index_add(x, name, dtype, &shape, &e));
  e->size = (uint64_t)count * td_dtype_size(dtype);
  return e;
}

/* Reads all there is; the first error. */
static td_status *read_all(void) {
  td_checkpoint *c;
  TD_TRY(td_checkpoint_open(saved_prefix, &c));
  td_status *s = NULL;
  for (size_t i = 0; td_ok(s) && i < td_checkpoint_count(c); i++) {
    td_checkpoint_entry e = td_checkpoint_at(c, i);
    td_tensor t;
    s = td_checkpoint_read(c, &e, NULL, NULL, &t);
    if (td_ok(s)) td_tensor_release(&t);
  }
  td_checkpoint_close(c);
  return s;
}

/* Address space that reading took at its highest, in bytes: what memory is
 * asked for counts, whether it is touched or not. */
static size_t pages(const char *what) {
  char line[256];
  size_t kib = 0;
  FILE *f = fopen("/proc/self/status", "re");
  while (fgets(line, sizeof line, f))
    if (strncmp(line, what, strlen(what)) == 0)
      kib = strtoul(line + strlen(what), NULL, 10);
  fclose(f);
  return kib << 10;
}

/* A sanitizer's memory is its own matter. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SLACK = 1 << 28 };
#else
enum { SLACK = 1 << 19 };
#endif

/* In a process of its own. Ends with `code`, and takes less than twice `bytes`
 * and half a MiB. */
static void assert_modest(td_code code, const char *words, size_t bytes) {
  int status;
  pid_t child = fork();
  if (child == 0) {
    size_t before = pages("VmPeak:");
    td_status *s = read_all();
    size_t took = pages("VmPeak:") - before;
    bool told =
        td_status_code(s) == code && strstr(td_status_message(s), words);
    if (!told) fprintf(stderr, "%s\n", td_status_message(s));
    if (took > 2 * bytes + SLACK)
      fprintf(stderr, "%s: %zu bytes for %zu\n", words, took, bytes);
    _exit(!told ? 1 : took > 2 * bytes + SLACK ? 2 : 0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

static void test_a_tensor_beyond_its_file(void **state) {
  (void)state;
  td_checkpoint_index *x;
  OK(td_checkpoint_index_new("m", &x));
  add(x, "far", TD_FLOAT32, (int64_t)1 << 40);
  write_files(x, 4096);
  assert_modest(TD_DATA_LOSS, "tensor \"far\": its bytes 0 to 4398046511104",
                4096);
}

static void test_two_on_the_same_bytes(void **state) {
  (void)state;
  td_checkpoint_index *x;
  OK(td_checkpoint_index_new("m", &x));
  add(x, "a", TD_INT8, 100);
  add(x, "none", TD_INT8, 0)->offset = 50;
  add(x, "c", TD_INT8, 100)->offset = 99;
  write_files(x, 4096);
  assert_modest(TD_DATA_LOSS, "tensors \"a\" and \"c\" lie on the same bytes",
                4096);
}

/* Bytes of 0 are strings of no length: then come their check and the text. */
static void test_strings_that_do_not_fit(void **state) {
  (void)state;
  td_checkpoint_index *x;
  td_checkpoint_entry *e;
  td_shape shape = td_shape_vector(1 << 20);
  OK(td_checkpoint_index_new("m", &x));
  OK(td_checkpoint_index_add(x, "s", TD_STRING, &shape, &e));
  e->size = 1 << 20;
  write_files(x, 1 << 20);
  assert_modest(TD_DATA_LOSS, "tensor \"s\"", 1 << 20);
}

static void add_slice(td_checkpoint_index *x, const td_shape *whole,
                      int64_t start, int64_t n, uint64_t offset) {
  td_checkpoint_entry *e;
  td_slice s = {.rank = 1, .start = {start}, .length = {n}};
  OK(td_checkpoint_index_add_slice(x, "w", TD_INT8, whole, &s, &e));
  e->size = (uint64_t)n;
  e->offset = offset;
}

static void test_slices_that_do_not_cover(void **state) {
  (void)state;
  td_shape whole = td_shape_vector((int64_t)1 << 40);
  td_checkpoint_index *x;
  OK(td_checkpoint_index_new("m", &x));
  add_slice(x, &whole, 0, 1000, 0);
  add_slice(x, &whole, 5000, 1000, 1000);
  write_files(x, 4096);
  assert_modest(TD_DATA_LOSS, "its slices do not cover it", 4096);
}

/* What is right takes no more either: one slice, and strings. */
static void test_what_is_right_takes_no_more(void **state) {
  (void)state;
  enum { N = 1 << 24, STRINGS = 1 << 16, LENGTH = 200 };
  td_shape shape = td_shape_vector(N), words = td_shape_vector(STRINGS);
  td_slice half = {.rank = 1, .start = {0}, .length = {N / 2}};
  td_tensor t, s, part;
  td_checkpoint_writer *w;
  uint64_t *offsets;
  char *text;
  OK(td_tensor_new(NULL, TD_INT8, &shape, &t));
  memset(t.data, 1, N);
  OK(td_tensor_strings_new(&words, STRINGS * LENGTH, &s, &offsets, &text));
  memset(text, 'x', STRINGS * LENGTH);
  for (int i = 1; i <= STRINGS; i++)
    offsets[i] = offsets[0] + (uint64_t)i * LENGTH;
  OK(td_checkpoint_writer_open(saved_prefix, &w));
  OK(td_checkpoint_writer_add(w, "s", &s));
  for (int i = 0; i < 2; i++) {
    half.start[0] = i * N / 2;
    OK(td_tensor_rows(&t, half.start[0], N / 2, &part));
    OK(td_checkpoint_writer_add_slice(w, "t", &shape, &half, &part));
    td_tensor_release(&part);
  }
  OK(td_checkpoint_writer_commit(w));
  td_checkpoint_writer_close(w);
  td_tensor_release(&t);
  td_tensor_release(&s);
  assert_modest(TD_OK, "", N / 2 + STRINGS * LENGTH / 2);
}

/* ---- many, long ---------------------------------------------------------- */

static void test_many_entries(void **state) {
  (void)state;
  enum { N = 100000 };
  td_checkpoint_index *x;
  td_checkpoint *c;
  td_checkpoint_entry e;
  char name[64];
  OK(td_checkpoint_index_new("m", &x));
  for (int i = 0; i < N; i++) {
    snprintf(name, sizeof name, "model/layer_%d/weights_%d", i % 1000, i);
    add(x, name, TD_FLOAT32, 1)->offset = 4 * (uint64_t)i;
  }
  write_files(x, 4 * N);
  int64_t start = td_clock_now();
  OK(td_checkpoint_open(saved_prefix, &c));
  print_message("%d entries open in %.0f ms\n", N,
                (double)(td_clock_now() - start) * 1e-6);
  assert_int_equal(td_checkpoint_count(c), N);
  for (int i = 0; i < N; i += 77) {
    snprintf(name, sizeof name, "model/layer_%d/weights_%d", i % 1000, i);
    assert_true(td_checkpoint_find(c, name, &e));
    assert_int_equal(e.offset, 4 * i);
  }
  td_checkpoint_close(c);
}

static void test_a_long_name(void **state) {
  (void)state;
  enum { N = 1 << 20 };
  char *name = td_malloc(N + 1);
  memset(name, 'n', N);
  name[N] = '\0';
  td_checkpoint_writer *w;
  td_tensor t;
  OK(td_checkpoint_writer_open(saved_prefix, &w));
  for (int i = 0; i < 3; i++) {
    name[N - 1] = (char)('a' + i);
    OK(td_tensor_scalar_i(TD_INT32, i, &t));
    OK(td_checkpoint_writer_add(w, name, &t));
    td_tensor_release(&t);
  }
  OK(td_checkpoint_writer_commit(w));
  td_checkpoint_writer_close(w);
  td_checkpoint *c;
  td_checkpoint_entry e;
  OK(td_checkpoint_open(saved_prefix, &c));
  for (int i = 0; i < 3; i++) {
    name[N - 1] = (char)('a' + i);
    assert_true(td_checkpoint_find(c, name, &e));
    OK(td_checkpoint_read(c, &e, NULL, NULL, &t));
    assert_int_equal(td_tensor_get_i(&t, 0), i);
    td_tensor_release(&t);
  }
  td_checkpoint_close(c);
  td_free(name);
}

/* ---- views --------------------------------------------------------------- */

static void test_views(void **state) {
  (void)state;
  td_checkpoint *c;
  td_checkpoint_entry e;
  td_tensor views[3], want;
  int held = saved_descriptors();
  OK(saved_write(saved_prefix, 4));
  OK(td_checkpoint_open(saved_prefix, &c));
  for (int i = 0; i < 2; i++) {
    assert_true(td_checkpoint_find(c, i ? "step" : "numbers", &e));
    OK(td_checkpoint_map(c, &e, &views[i]));
    assert_true(views[i].buffer->foreign);
    assert_true(views[i].buffer->readonly);
  }
  size_t apart = (size_t)((char *)views[1].data - (char *)views[0].data);
  assert_int_equal(apart, 4 * SAVED_NUMBERS + 64); /* one mapping */
  assert_true(td_checkpoint_find(c, "text", &e));
  OK(td_checkpoint_map(c, &e, &views[2])); /* read: strings are no view */
  td_checkpoint_close(c);
  assert_int_equal(saved_descriptors(), held);
  for (int i = 0; i < 3; i++) {
    OK(saved_tensor(i ? i + 1 : 0, 4, &want));
    assert_true(td_tensor_same(&views[i], &want));
    td_tensor_release(&want);
    td_tensor_release(&views[i]);
  }
}

static void test_views_of_what_is_damaged(void **state) {
  (void)state;
  td_checkpoint_index *x;
  td_checkpoint *c;
  td_checkpoint_entry e;
  td_tensor t;
  OK(td_checkpoint_index_new("m", &x));
  add(x, "bad", TD_FLOAT32, 100)->crc = 1;
  write_files(x, 400);
  OK(td_checkpoint_open(saved_prefix, &c));
  assert_true(td_checkpoint_find(c, "bad", &e));
  FAILS(td_checkpoint_map(c, &e, &t), TD_DATA_LOSS, "does not hold");
  td_checkpoint_close(c);
}

/* ---- threads ------------------------------------------------------------- */

static void *read_and_map(void *arg) {
  const td_checkpoint *c = arg;
  for (int round = 0; round < 20; round++)
    for (size_t i = 0; i < td_checkpoint_count(c); i++) {
      td_checkpoint_entry e = td_checkpoint_at(c, i);
      td_tensor t, view;
      td_status *s = td_checkpoint_read(c, &e, NULL, NULL, &t);
      if (s) return s;
      s = td_checkpoint_map(c, &e, &view);
      bool same = td_ok(s) && td_tensor_same(&t, &view);
      td_tensor_release(&t);
      if (s) return s;
      td_tensor_release(&view);
      if (!same) return td_error(TD_INTERNAL, "%s differs", e.name);
    }
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  enum { THREADS = 4 };
  pthread_t threads[THREADS];
  td_checkpoint *c;
  OK(saved_write(saved_prefix, 2));
  OK(td_checkpoint_open(saved_prefix, &c));
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, read_and_map, c), 0);
  for (int i = 0; i < THREADS; i++) {
    void *result;
    assert_int_equal(pthread_join(threads[i], &result), 0);
    OK(result);
  }
  td_checkpoint_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      SAVED_TEST(test_parts),
      SAVED_TEST(test_a_tensor_beyond_its_file),
      SAVED_TEST(test_two_on_the_same_bytes),
      SAVED_TEST(test_strings_that_do_not_fit),
      SAVED_TEST(test_slices_that_do_not_cover),
      SAVED_TEST(test_what_is_right_takes_no_more),
      SAVED_TEST(test_many_entries),
      SAVED_TEST(test_a_long_name),
      SAVED_TEST(test_views),
      SAVED_TEST(test_threads),
      SAVED_TEST(test_views_of_what_is_damaged),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
