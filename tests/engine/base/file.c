/* file.c - tests of engine/base/file.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <dirent.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "engine/base/file.h"
#include "engine/base/mem.h"

static char dir[256]; /* of one test */

static const char *in_dir(const char *name) {
  static char path[4][512];
  static int i;
  char *p = path[i = (i + 1) % 4];
  snprintf(p, sizeof path[0], "%s/%s", dir, name);
  return p;
}

static int make_dir(void **state) {
  (void)state;
  const char *tmp = getenv("TMPDIR");
  snprintf(dir, sizeof dir, "%.200s/tide-file-XXXXXX", tmp ? tmp : "/tmp");
  return mkdtemp(dir) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int type,
                      struct FTW *at) {
  (void)st, (void)type, (void)at;
  return remove(path);
}

static int remove_dir(void **state) {
  (void)state;
  return nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static int files_in_dir(void) {
  DIR *d = opendir(dir);
  int n = 0;
  while (readdir(d)) n++;
  closedir(d);
  return n - 2;
}

static void assert_holds(const char *path, const char *want) {
  char *bytes;
  size_t len;
  OK(td_file_read(path, 1 << 20, &bytes, &len));
  assert_int_equal(len, strlen(want));
  assert_string_equal(bytes, want);
  td_free(bytes);
}

/* ---- reading and writing ------------------------------------------------- */

static void writes_and_reads(void **state) {
  (void)state;
  static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 100000};
  const char *path = in_dir("f");
  char *data = td_calloc(1, 100000);
  for (size_t i = 0; i < TD_COUNT(sizes); i++) {
    size_t n = sizes[i], len;
    char *bytes;
    memset(data, 'a' + (int)i, n);
    OK(td_file_write(path, data, n));
    OK(td_file_read(path, n, &bytes, &len));
    assert_int_equal(len, n);
    assert_memory_equal(bytes, data, n);
    assert_int_equal(bytes[n], '\0');
    td_free(bytes);
    if (n > 0)
      FAILS(td_file_read(path, n - 1, &bytes, &len), TD_RESOURCE_EXHAUSTED,
            "larger than");
  }
  td_free(data);
  assert_int_equal(files_in_dir(), 1);
}

/* Files of /proc say they are empty. */
static void reads_files_without_a_size(void **state) {
  (void)state;
  char *bytes;
  size_t len;
  OK(td_file_read("/proc/self/status", 1 << 20, &bytes, &len));
  assert_true(len > 100);
  td_free(bytes);
  FAILS(td_file_read("/proc/self/status", 10, &bytes, &len),
        TD_RESOURCE_EXHAUSTED, "10 bytes");
  FAILS(td_file_read("/dev/zero", 100000, &bytes, &len), TD_RESOURCE_EXHAUSTED,
        "100000 bytes");
}

static void says_what_went_wrong(void **state) {
  (void)state;
  char *b;
  size_t n;
  char long_name[5000];
  memset(long_name, 'x', sizeof long_name);
  long_name[sizeof long_name - 1] = '\0';
  OK(td_file_write(in_dir("f"), "x", 1));
  FAILS(td_file_read(in_dir("no"), 10, &b, &n), TD_NOT_FOUND, "/no'");
  FAILS(td_file_read(dir, 10, &b, &n), TD_FAILED_PRECONDITION, dir);
  FAILS(td_file_write(dir, "x", 1), TD_FAILED_PRECONDITION, dir);
  FAILS(td_file_write(in_dir("no/f"), "x", 1), TD_NOT_FOUND, "no");
  FAILS(td_file_write(in_dir("f/g"), "x", 1), TD_FAILED_PRECONDITION, "f/g");
  assert_int_equal(mkfifo(in_dir("pipe"), 0600), 0);
  FAILS(td_file_write(in_dir("pipe"), "x", 1), TD_FAILED_PRECONDITION,
        "nobody reads");
  FAILS(td_file_write(long_name, "x", 1), TD_INVALID_ARGUMENT, "long");
  FAILS(td_file_write("", "x", 1), TD_NOT_FOUND, "''");
  FAILS(td_file_mkdirs(""), TD_NOT_FOUND, "''");
  FAILS(td_file_mkdirs(in_dir("f/g")), TD_FAILED_PRECONDITION, "f'");
  assert_int_equal(files_in_dir(), 2);
}

static void keeps_mode_and_link(void **state) {
  (void)state;
  struct stat st;
  const char *path = in_dir("f"), *link = in_dir("link");
  mode_t mask = umask(027);
  OK(td_file_write(path, "1", 1));
  umask(mask);
  assert_int_equal(stat(path, &st), 0);
  assert_int_equal(st.st_mode & 0777, 0640);
  assert_int_equal(chmod(path, 0604), 0);
  assert_int_equal(symlink("f", link), 0);
  OK(td_file_write(link, "two", 3));
  assert_int_equal(lstat(link, &st), 0);
  assert_true(S_ISLNK(st.st_mode));
  assert_int_equal(stat(path, &st), 0);
  assert_int_equal(st.st_mode & 0777, 0604);
  assert_holds(path, "two");
}

static void writes_beside_the_directory(void **state) {
  (void)state;
  char was[4096], name[256];
  assert_non_null(getcwd(was, sizeof was));
  assert_int_equal(chdir(dir), 0);
  OK(td_file_write("bare", "x", 1));
  memset(name, 'n', 255); /* the longest name there is */
  name[255] = '\0';
  OK(td_file_write(name, "y", 1));
  assert_holds("bare", "x");
  assert_int_equal(chdir(was), 0);
  assert_int_equal(files_in_dir(), 2);
}

static void makes_directories(void **state) {
  (void)state;
  static const char *const names[] = {"a", "b/c/d", "b/c", "e//f/", "b/c/x//"};
  for (size_t i = 0; i < TD_COUNT(names); i++) {
    assert_false(i < 2 && td_file_exists(in_dir(names[i])));
    OK(td_file_mkdirs(in_dir(names[i])));
    assert_true(td_file_exists(in_dir(names[i])));
  }
  OK(td_file_mkdirs("/"));
  OK(td_file_mkdirs("//"));
}

typedef struct reader {
  const char *path;
  int stop; /* atomic */
  int torn;
} reader;

static void *read_often(void *arg) {
  reader *r = arg;
  while (!__atomic_load_n(&r->stop, __ATOMIC_RELAXED)) {
    char *bytes;
    size_t len;
    td_status *s = td_file_read(r->path, 1 << 20, &bytes, &len);
    if (!td_ok(s)) {
      td_status_release(s);
      r->torn++;
      continue;
    }
    bool whole =
        len == (bytes[0] == 'a' ? 10000 : 20000) && bytes[len - 1] == bytes[0];
    r->torn += !whole;
    td_free(bytes);
  }
  return NULL;
}

static void a_reader_sees_old_or_new(void **state) {
  (void)state;
  reader r = {.path = in_dir("f")};
  char a[10000], b[20000];
  pthread_t thread;
  memset(a, 'a', sizeof a);
  memset(b, 'b', sizeof b);
  OK(td_file_write(r.path, a, sizeof a));
  pthread_create(&thread, NULL, read_often, &r);
  for (int i = 0; i < 50; i++) {
    const char *p = r.path;
    OK(i % 2 ? td_file_write(p, a, sizeof a) : td_file_write(p, b, sizeof b));
  }
  __atomic_store_n(&r.stop, 1, __ATOMIC_RELAXED);
  pthread_join(thread, NULL);
  assert_int_equal(r.torn, 0);
}

/* Every operation fails once: the file is the old one or the new one whole, and
 * nothing is left beside it. */
static void each_operation_may_fail(void **state) {
  (void)state;
  const char *path = in_dir("f");
  for (int n = 1;; n++) {
    td_file_fail(0, false);
    OK(td_file_write(path, "old", 3));
    int64_t before = td_file_calls();
    td_file_fail(n, false);
    td_status *s = td_file_write(path, "brand new", 9);
    td_file_fail(0, false);
    assert_int_equal(files_in_dir(), 1);
    if (td_ok(s)) {
      assert_int_equal(td_file_calls() - before, n - 1);
      /* stat create write sync close rename sync */
      assert_int_equal(n - 1, 7);
      break;
    }
    assert_holds(path, n == 7 ? "brand new" : "old");
    FAILS(s, TD_UNAVAILABLE, "by a test");
  }
  for (int n = 1; n <= 3; n++) { /* open stat read */
    char *bytes;
    size_t len;
    td_file_fail(n, false);
    FAILS(td_file_read(path, 10, &bytes, &len), TD_UNAVAILABLE, "f'");
  }
  td_file_fail(1, true);
  FAILS(td_file_mkdirs(in_dir("d")), TD_UNAVAILABLE, "make directory");
  FAILS(td_file_mkdirs(in_dir("d")), TD_UNAVAILABLE, "make directory");
  td_file_fail(0, false);
  OK(td_file_mkdirs(in_dir("d")));
}

static void each_allocation_may_fail(void **state) {
  (void)state;
  const char *path = in_dir("f");
  char *bytes;
  size_t len;
  char big[20000] = {0};
  OK(td_file_write(path, big, sizeof big));
  for (int n = 1, ok = 0; !ok; n++) {
    td_mem_fail(n, false);
    td_status *s = td_file_write(path, big, sizeof big);
    td_mem_fail(0, false);
    ok = td_ok(s);
    if (!ok) FAILS(s, TD_RESOURCE_EXHAUSTED, "memory");
  }
  td_mem_fail(1, false);
  FAILS(td_file_read(path, 1 << 20, &bytes, &len), TD_RESOURCE_EXHAUSTED,
        "memory");
  td_mem_fail(6, false); /* the second growth of what tells no size */
  FAILS(td_file_read("/dev/zero", 1 << 20, &bytes, &len), TD_RESOURCE_EXHAUSTED,
        "memory");
  td_mem_fail(1, false);
  FAILS(td_file_mkdirs(in_dir("d")), TD_RESOURCE_EXHAUSTED, "memory");
  td_mem_fail(0, false);
  assert_int_equal(files_in_dir(), 1);
}

/* ---- gunzip -------------------------------------------------------------- */

static size_t gzip(const void *in, size_t len, char *out, size_t room) {
  z_stream z = {.next_in = (Bytef *)in,
                .avail_in = (uInt)len,
                .next_out = (Bytef *)out,
                .avail_out = (uInt)room};
  assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 31, 8, 0), Z_OK);
  assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
  deflateEnd(&z);
  return z.total_out;
}

static void assert_unpacks(const char *in, size_t len, const char *want,
                           size_t want_len) {
  char *out;
  size_t n;
  OK(td_file_gunzip(in, len, want_len, &out, &n));
  assert_int_equal(n, want_len);
  assert_memory_equal(out, want, want_len);
  assert_int_equal(out[n], '\0');
  td_free(out);
}

static void gunzips(void **state) {
  (void)state;
  static const size_t sizes[] = {0, 1, 4094, 4095, 4096, 4097, 70000};
  static char text[70000], zipped[80000];
  for (size_t i = 0; i < sizeof text; i++) text[i] = (char)(i * i >> 7);
  for (size_t i = 0; i < TD_COUNT(sizes); i++) {
    size_t n = gzip(text, sizes[i], zipped, sizeof zipped), len;
    char *out;
    assert_unpacks(zipped, n, text, sizes[i]);
    if (sizes[i])
      FAILS(td_file_gunzip(zipped, n, sizes[i] - 1, &out, &len),
            TD_RESOURCE_EXHAUSTED, "more than");
  }
}

static void gunzips_members(void **state) {
  (void)state;
  char zipped[200];
  size_t n = gzip("hello ", 6, zipped, sizeof zipped);
  n += gzip("", 0, zipped + n, sizeof zipped - n);
  n += gzip("world", 5, zipped + n, sizeof zipped - n);
  assert_unpacks(zipped, n, "hello world", 11);
}

/* Every cut and every damaged byte gives an error or the right bytes. */
static void refuses_bad_gzip(void **state) {
  (void)state;
  char zipped[200], *out;
  size_t n = gzip("some text, some text", 20, zipped, sizeof zipped), len;
  for (size_t cut = 0; cut < n; cut++) {
    char *exact = td_malloc(cut);
    memcpy(exact, zipped, cut);
    FAILS(td_file_gunzip(exact, cut, 100, &out, &len), TD_DATA_LOSS, "gzip");
    td_free(exact);
  }
  for (size_t i = 0; i < n; i++) {
    zipped[i] ^= 0x55;
    td_status *s = td_file_gunzip(zipped, n, 100, &out, &len);
    zipped[i] ^= 0x55;
    if (td_ok(s)) { /* the header has bytes without meaning */
      assert_true(i < 10);
      td_free(out);
    }
    td_status_release(s);
  }
  memcpy(zipped + n, "tail", 4);
  FAILS(td_file_gunzip(zipped, n + 4, 100, &out, &len), TD_DATA_LOSS, "gzip");
  FAILS(td_file_gunzip(NULL, 0, 100, &out, &len), TD_DATA_LOSS, "early");
}

/* 1,000 to 1: stops at the limit, not after 16 MiB. */
static void refuses_a_bomb(void **state) {
  (void)state;
  size_t size = 16 << 20, len;
  char *zeros = td_calloc(1, size), *zipped = td_malloc(1 << 16), *out;
  size_t n = gzip(zeros, size, zipped, 1 << 16);
  FAILS(td_file_gunzip(zipped, n, 1000, &out, &len), TD_RESOURCE_EXHAUSTED,
        "1000 bytes");
  assert_unpacks(zipped, n, zeros, size);
  td_free(zeros);
  td_free(zipped);
}

static void gunzip_without_memory(void **state) {
  (void)state;
  static char text[30000], zipped[1000];
  char *out;
  size_t n = gzip(text, sizeof text, zipped, sizeof zipped), len;
  for (int k = 1;; k++) {
    td_mem_fail(k, false);
    td_status *s = td_file_gunzip(zipped, n, 1 << 20, &out, &len);
    td_mem_fail(0, false);
    if (td_ok(s)) {
      assert_true(k > 4);
      td_free(out);
      break;
    }
    FAILS(s, TD_RESOURCE_EXHAUSTED, "memory");
  }
}

/* $TMPDIR where it can be, else /tmp. */
static void makes_temporary_ones(void **state) {
  (void)state;
  char *was = getenv("TMPDIR") ? td_strdup(getenv("TMPDIR")) : NULL;
  const struct {
    const char *tmpdir, *want;
    size_t most;
  } rows[] = {{dir, dir, 4096},
              {dir, "/tmp", 20},
              {"", "/tmp", 4096},
              {"not/rooted", "/tmp", 4096},
              {NULL, "/tmp", 4096}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    td_str path, again;
    td_str_init(&path);
    td_str_init(&again);
    if (rows[i].tmpdir)
      setenv("TMPDIR", rows[i].tmpdir, 1);
    else
      unsetenv("TMPDIR");
    OK(td_file_temp_dir(rows[i].most, &path));
    assert_memory_equal(td_str_c(&path), rows[i].want, strlen(rows[i].want));
    assert_int_equal(rmdir(td_str_c(&path)), 0);
    if (rows[i].most == 4096) {
      OK(td_file_temp(".lua", &path));
      OK(td_file_temp(".lua", &again));
      assert_string_not_equal(td_str_c(&path), td_str_c(&again));
      assert_memory_equal(td_str_c(&path), rows[i].want, strlen(rows[i].want));
      assert_string_equal(td_str_c(&path) + path.len - 4, ".lua");
      assert_int_equal(unlink(td_str_c(&path)), 0);
      assert_int_equal(unlink(td_str_c(&again)), 0);
    }
    td_str_deinit(&path);
    td_str_deinit(&again);
  }
  setenv("TMPDIR", in_dir("nowhere"), 1);
  td_str path;
  td_str_init(&path);
  FAILS(td_file_temp("", &path), TD_NOT_FOUND, "nowhere/tide-");
  FAILS(td_file_temp_dir(4096, &path), TD_NOT_FOUND, "nowhere/tide-");
  td_str_deinit(&path);
  if (was)
    setenv("TMPDIR", was, 1);
  else
    unsetenv("TMPDIR");
  td_free(was);
}

#define IN_DIR(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(void) {
  const struct CMUnitTest tests[] = {
      IN_DIR(writes_and_reads),
      cmocka_unit_test(reads_files_without_a_size),
      IN_DIR(says_what_went_wrong),
      IN_DIR(keeps_mode_and_link),
      IN_DIR(writes_beside_the_directory),
      IN_DIR(makes_directories),
      IN_DIR(a_reader_sees_old_or_new),
      IN_DIR(each_operation_may_fail),
      IN_DIR(each_allocation_may_fail),
      IN_DIR(makes_temporary_ones),
      cmocka_unit_test(gunzips),
      cmocka_unit_test(gunzips_members),
      cmocka_unit_test(refuses_bad_gzip),
      cmocka_unit_test(refuses_a_bomb),
      cmocka_unit_test(gunzip_without_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
