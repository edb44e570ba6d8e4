/* npz.c - .npz archives: written, read, damaged.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <sys/stat.h>
#include <sys/wait.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/io/npz.h"
#include "engine/io/npz_writer.h"

enum { LIMIT = 1 << 22 };
static const char *const names[] = {"weights", "dir/bias", "\xc3\xa9tape"};
static char dir[] = "/tmp/tide-npz-XXXXXX";
static char path[64];

static int make_dir(void **state) {
  (void)state;
  if (!mkdtemp(dir)) return -1;
  snprintf(path, sizeof path, "%s/a.npz", dir);
  return 0;
}

static int remove_dir(void **state) {
  (void)state;
  unlink(path);
  return rmdir(dir);
}

static void make_arrays(td_tensor out[3]) {
  td_shape shape = td_shape_matrix(100, 50);
  assert_null(td_tensor_new(NULL, TD_FLOAT32, &shape, &out[0]));
  for (int i = 0; i < 5000; i++) td_tensor_set_f(&out[0], i, i % 7);
  assert_null(td_tensor_scalar_i(TD_INT64, -3, &out[1]));
  shape = td_shape_vector(0);
  assert_null(td_tensor_new(NULL, TD_BOOL, &shape, &out[2]));
}

static void release_arrays(td_tensor t[3]) {
  for (int i = 0; i < 3; i++) td_tensor_release(&t[i]);
}

static void test_round(void **state) {
  td_tensor t[3];
  size_t size[2];
  (void)state;
  make_arrays(t);
  for (int deflate = 0; deflate < 2; deflate++) {
    td_npz *z;
    char *bytes[2];
    for (int k = 0; k < 2; k++) { /* same arrays, same bytes */
      assert_null(td_npz_write(path, 3, names, t, deflate));
      assert_null(td_file_read(path, LIMIT, &bytes[k], &size[deflate]));
    }
    assert_memory_equal(bytes[0], bytes[1], size[deflate]);
    td_free(bytes[0]);
    td_free(bytes[1]);
    assert_null(td_npz_open(path, LIMIT, &z));
    assert_int_equal(td_npz_count(z), 3);
    for (int i = 2; i >= 0; i--) {
      td_tensor back;
      assert_string_equal(td_npz_name(z, (size_t)i), names[i]);
      assert_null(td_npz_read(z, names[i], &back));
      assert_true(td_tensor_same(&t[i], &back));
      td_tensor_release(&back);
    }
    td_npz_close(z);
  }
  assert_true(size[0] > 20000 && size[1] < 2000);
  release_arrays(t);
}

static void test_empty(void **state) {
  td_npz *z;
  td_tensor t;
  (void)state;
  assert_null(td_npz_write(path, 0, NULL, NULL, false));
  assert_null(td_npz_open(path, LIMIT, &z));
  assert_int_equal(td_npz_count(z), 0);
  FAILS(td_npz_read(z, "x", &t), TD_NOT_FOUND, "no array 'x'");
  td_npz_close(z);
  td_npz_close(NULL);
}

static void test_refused(void **state) {
  td_tensor t[3], one;
  td_npz *z;
  char longest[600];
  const char *twice[] = {"a", "a"}, *empty[] = {""}, *too_long[] = {longest};
  (void)state;
  memset(longest, 'n', sizeof longest - 1);
  longest[sizeof longest - 1] = 0;
  make_arrays(t);
  FAILS(td_npz_write(path, 2, twice, t, false), TD_INVALID_ARGUMENT, "'a'");
  FAILS(td_npz_write(path, 1, empty, t, false), TD_INVALID_ARGUMENT, "name");
  FAILS(td_npz_write(path, 1, too_long, t, false), TD_INVALID_ARGUMENT, "500");
  td_dtype was = t[1].dtype;
  t[1].dtype = TD_QINT32;
  FAILS(td_npz_write(path, 3, names, t, false), TD_INVALID_ARGUMENT, "qint32");
  t[1].dtype = was;
  assert_null(td_npz_write(path, 3, names, t, true));
  FAILS(td_npz_open("/dev/zero", SIZE_MAX, &z), TD_DATA_LOSS,
        "does not begin as a zip archive");
  FAILS(td_npz_open(path, 100, &z), TD_RESOURCE_EXHAUSTED, "100 bytes");
  assert_null(td_npz_open(path, 10000, &z));
  FAILS(td_npz_read(z, "weights", &one), TD_RESOURCE_EXHAUSTED,
        "20128 bytes; 10000 are allowed");
  assert_null(td_npz_read(z, "dir/bias", &one));
  td_tensor_release(&one);
  FAILS(td_npz_read(z, "wieghts", &one), TD_NOT_FOUND,
        "it has: weights, dir/bias");
  td_npz_close(z);
  release_arrays(t);
}

/* Reads all arrays of an archive in memory; true when nothing was wrong. */
static bool readable(const char *bytes, size_t len) {
  td_npz *z;
  assert_null(td_file_write(path, bytes, len));
  td_status *s = td_npz_open(path, LIMIT, &z);
  if (s) {
    td_status_release(s);
    return false;
  }
  bool ok = true;
  for (size_t i = 0; i < td_npz_count(z); i++) {
    td_tensor t = {0};
    s = td_npz_read(z, td_npz_name(z, i), &t);
    ok = ok && td_ok(s);
    td_status_release(s);
    td_tensor_release(&t);
  }
  td_npz_close(z);
  return ok;
}

/* Damage is noticed: a changed byte of the packed data never goes through. */
static void test_damage(void **state) {
  td_tensor t[3];
  char *bytes;
  size_t len;
  (void)state;
  make_arrays(t);
  assert_null(td_npz_write(path, 1, names, t, true));
  assert_null(td_file_read(path, LIMIT, &bytes, &len));
  size_t directory = len - 22 - 46 - strlen("weights.npy");
  for (size_t i = 0; i < len; i += i < 200 || i > directory ? 1 : 3) {
    bool packed = i >= 30 + strlen("weights.npy") && i < directory;
    bytes[i] ^= 0x41;
    bool ok = readable(bytes, len);
    bytes[i] ^= 0x41;
    if (packed) assert_false(ok);
    if (i % 8 == 0) assert_false(readable(bytes, i));
  }
  assert_true(readable(bytes, len));
  td_free(bytes);
  release_arrays(t);
}

/* A size that the packed bytes cannot unpack to. */
static void test_false_size(void **state) {
  td_tensor t[3], one;
  td_npz *z;
  char *bytes;
  size_t len;
  (void)state;
  make_arrays(t);
  assert_null(td_npz_write(path, 1, names, t, true));
  assert_null(td_file_read(path, LIMIT, &bytes, &len));
  size_t directory = len - 22 - 46 - strlen("weights.npy");
  memcpy(bytes + 22, "\0\0\0\x10", 4); /* in the entry's own header ... */
  memcpy(bytes + directory + 24, "\0\0\0\x10", 4); /* ... and the directory */
  assert_null(td_file_write(path, bytes, len));
  assert_null(td_npz_open(path, SIZE_MAX, &z));
  FAILS(td_npz_read(z, "weights", &one), TD_DATA_LOSS, "cannot be true");
  td_npz_close(z);
  td_free(bytes);
  release_arrays(t);
}

/* A line of /proc/self/status, in KiB. */
static long memory(const char *line) {
  char text[128];
  long kib = -1;
  FILE *f = fopen("/proc/self/status", "r");
  while (kib < 0 && fgets(text, sizeof text, f))
    if (!strncmp(text, line, strlen(line)))
      kib = strtol(text + strlen(line) + 1, NULL, 10);
  fclose(f);
  return kib;
}

/* In a process of its own, whose peak begins with what it has. */
static int read_alone(const td_tensor *want) {
  td_tensor back;
  td_npz *z;
  long before = memory("VmRSS:");
  if (!td_ok(td_npz_open(path, SIZE_MAX, &z))) return 1;
  if (!td_ok(td_npz_read(z, "big", &back))) return 2;
  long room = (long)(td_tensor_bytes(want) >> 10) + 16 * 1024;
  if (memory("VmHWM:") - before > room) return 3;
  return td_tensor_same(&back, want) ? 0 : 4;
}

/* Writing takes next to nothing beside the array, or what it is packed to. */
static int write_alone(const td_tensor *t, bool deflate) {
  const char *name[] = {"big"};
  long before = memory("VmRSS:");
  if (!td_ok(td_npz_write(path, 1, name, t, deflate))) return 1;
  return memory("VmHWM:") - before > 8 * 1024 ? 2 : 0;
}

/* Neither the archive nor an entry is ever held whole beside the array. */
static void test_in_pieces(void **state) {
  enum { MIB = 64 };
  td_shape s = td_shape_matrix(MIB, 1 << 18);
  td_tensor t;
  int how;
  (void)state;
  OK(td_tensor_new(NULL, TD_FLOAT32, &s, &t));
  for (int64_t i = 0; i < td_tensor_count(&t); i++)
    ((float *)t.data)[i] = (float)(i % 1000);
  for (int deflate = 0; deflate < 2; deflate++) {
    for (int reads = 0; reads < 2; reads++) {
      pid_t child = fork();
      if (child == 0) _exit(reads ? read_alone(&t) : write_alone(&t, deflate));
      assert_int_equal(waitpid(child, &how, 0), child);
      assert_int_equal(how, 0);
    }
  }
  td_tensor_release(&t);
}

/* More arrays than 16 bits count. */
static void test_many(void **state) {
  enum { MANY = 66000 };
  td_npz_writer *w;
  td_npz *z;
  td_tensor t;
  td_dtype dtype;
  td_shape shape;
  char name[16];
  (void)state;
  OK(td_npz_writer_open(path, false, &w));
  OK(td_tensor_scalar_i(TD_INT16, 7, &t));
  for (int i = 0; i < MANY; i++) {
    snprintf(name, sizeof name, "%d", i);
    OK(td_npz_writer_add(w, name, &t));
  }
  OK(td_npz_writer_commit(w));
  td_npz_writer_close(w);
  td_tensor_release(&t);
  OK(td_npz_open(path, 1 << 30, &z));
  assert_int_equal(td_npz_count(z), MANY);
  OK(td_npz_describe(z, MANY - 1, &dtype, &shape));
  assert_true(dtype == TD_INT16 && shape.rank == 0);
  OK(td_npz_read(z, "65999", &t));
  assert_int_equal(td_tensor_get_i(&t, 0), 7);
  td_tensor_release(&t);
  td_npz_close(z);
}

/* An array that is refused leaves the others; without commit there is none. */
static void test_writer(void **state) {
  td_npz_writer *w;
  td_npz *z;
  td_tensor t[3];
  (void)state;
  make_arrays(t);
  unlink(path);
  OK(td_npz_writer_open(path, true, &w));
  OK(td_npz_writer_add(w, "a", &t[0]));
  FAILS(td_npz_writer_add(w, "a", &t[1]), TD_INVALID_ARGUMENT, "'a'");
  FAILS(td_npz_writer_add(w, "\xff", &t[1]), TD_INVALID_ARGUMENT, "UTF-8");
  OK(td_npz_writer_add(w, "b", &t[1]));
  assert_false(td_file_exists(path));
  OK(td_npz_writer_commit(w));
  td_npz_writer_close(w);
  OK(td_npz_open(path, LIMIT, &z));
  assert_int_equal(td_npz_count(z), 2);
  td_npz_close(z);
  unlink(path);
  OK(td_npz_writer_open(path, false, &w));
  OK(td_npz_writer_add(w, "a", &t[0]));
  td_npz_writer_close(w);
  assert_false(td_file_exists(path));
  release_arrays(t);
}

/* What cannot be sought in is read whole. */
static void test_pipe(void **state) {
  td_tensor t[3], one;
  td_npz *z;
  char pipe_path[80], command[256];
  (void)state;
  make_arrays(t);
  OK(td_npz_write(path, 3, names, t, true));
  snprintf(pipe_path, sizeof pipe_path, "%s/pipe", dir);
  assert_int_equal(mkfifo(pipe_path, 0600), 0);
  snprintf(command, sizeof command, "cat '%s' >'%s' &", path, pipe_path);
  assert_int_equal(system(command), 0);
  OK(td_npz_open(pipe_path, LIMIT, &z));
  OK(td_npz_read(z, "weights", &one));
  assert_true(td_tensor_same(&one, &t[0]));
  td_tensor_release(&one);
  td_npz_close(z);
  unlink(pipe_path);
  release_arrays(t);
}

static void test_faults(void **state) {
  td_tensor t[3];
  (void)state;
  make_arrays(t);
  for (int files = 0; files < 2; files++)
    for (int64_t n = 1;; n++) {
      td_tensor one = {0};
      td_npz *z = NULL;
      files ? td_file_fail(n, false) : td_mem_fail(n, false);
      td_status *s = td_npz_write(path, 3, names, t, true);
      if (td_ok(s)) s = td_npz_open(path, LIMIT, &z);
      if (td_ok(s)) s = td_npz_read(z, "weights", &one);
      files ? td_file_fail(0, false) : td_mem_fail(0, false);
      td_npz_close(z);
      td_tensor_release(&one);
      if (td_ok(s)) break;
      FAILS(s, files ? TD_UNAVAILABLE : TD_RESOURCE_EXHAUSTED, "");
    }
  release_arrays(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round),     cmocka_unit_test(test_empty),
      cmocka_unit_test(test_refused),   cmocka_unit_test(test_damage),
      cmocka_unit_test(test_faults),    cmocka_unit_test(test_false_size),
      cmocka_unit_test(test_in_pieces), cmocka_unit_test(test_pipe),
      cmocka_unit_test(test_many),      cmocka_unit_test(test_writer),
  };
  return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
