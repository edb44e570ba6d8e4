/* file_stream.c - tests of engine/base/file_stream.h, on the disk and in
 * memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "tests/engine/base/mem_files.h"

static char dir[64];

static const char *on_disk(const char *name) {
  static char path[2][128];
  static int turn;
  turn = !turn;
  snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
  return path[turn];
}

static const char *in_memory(const char *name) {
  static char path[2][64];
  static int turn;
  turn = !turn;
  snprintf(path[turn], sizeof path[turn], "mem://%s", name);
  return path[turn];
}

static const char *(*const places[])(const char *) = {on_disk, in_memory};

static int make_dir(void **state) {
  (void)state;
  strcpy(dir, "/tmp/tide-stream-XXXXXX");
  OK(td_file_system_register(&mem_file_system));
  return mkdtemp(dir) ? 0 : -1;
}

static int drop_dir(void **state) {
  char command[96];
  (void)state;
  mem_files_clear();
  snprintf(command, sizeof command, "rm -rf '%s'", dir);
  return system(command);
}

static void put(const char *path, td_file_mode mode, const char *text) {
  td_file *f;
  OK(td_file_open(path, mode, &f));
  OK(td_file_append(f, text, strlen(text)));
  OK(td_file_close(f));
}

static void assert_holds(const char *path, const char *want) {
  td_file_mapping m;
  OK(td_file_map(path, &m));
  assert_int_equal(m.size, strlen(want));
  assert_memory_equal(m.at, want, m.size);
  td_file_unmap(&m);
  char *bytes;
  size_t len;
  OK(td_file_read(path, 1 << 20, &bytes, &len));
  assert_string_equal(bytes, want);
  td_free(bytes);
}

/* ---- modes, ranges ------------------------------------------------------- */

static void modes_and_names(void **state) {
  (void)state;
  for (size_t i = 0; i < TD_COUNT(places); i++) {
    const char *(*at)(const char *) = places[i];
    td_file *f;
    FAILS(td_file_open(at("a"), TD_FILE_READ, &f), TD_NOT_FOUND, "a'");
    assert_null(f);
    put(at("a"), TD_FILE_CREATE, "one");
    FAILS(td_file_open(at("a"), TD_FILE_CREATE, &f), TD_ALREADY_EXISTS, "a'");
    put(at("a"), TD_FILE_APPEND, " two");
    assert_holds(at("a"), "one two");
    put(at("a"), TD_FILE_WRITE, "");
    assert_holds(at("a"), "");
    put(at("b"), TD_FILE_APPEND, "b");
    OK(td_file_rename(at("b"), at("a")));
    assert_holds(at("a"), "b");
    assert_false(td_file_exists(at("b")));
    OK(td_file_sync_folder(i ? "mem://" : dir));
    td_str names = {0};
    OK(td_file_list(i ? "mem://" : dir, &names));
    assert_int_equal(names.len, 2);
    td_str_deinit(&names);
    OK(td_file_remove(at("a")));
    FAILS(td_file_remove(at("a")), TD_NOT_FOUND, "a'");
    FAILS(td_file_rename(at("a"), at("b")), TD_NOT_FOUND, "'");
  }
  FAILS(td_file_rename(on_disk("a"), in_memory("a")), TD_INVALID_ARGUMENT,
        "two file systems");
}

static void ranges(void **state) {
  (void)state;
  static const struct {
    uint64_t offset;
    size_t n;
    const char *want;
  } rows[] = {
      {0, 3, "abc"}, {2, 4, "cdef"}, {8, 9, "ij"},
      {10, 1, ""},   {99, 5, ""},    {UINT64_MAX, 5, ""},
  };
  for (size_t i = 0; i < TD_COUNT(places); i++) {
    const char *path = places[i]("ranges");
    td_file *f;
    put(path, TD_FILE_WRITE, "abcdefghij");
    OK(td_file_open(path, TD_FILE_READ, &f));
    for (size_t k = 0; k < TD_COUNT(rows); k++) {
      char to[10];
      size_t got;
      OK(td_file_read_at(f, rows[k].offset, to, rows[k].n, &got));
      assert_int_equal(got, strlen(rows[k].want));
      assert_memory_equal(to, rows[k].want, got);
    }
    OK(td_file_close(f));
    OK(td_file_remove(path));
  }
}

/* Pieces of all sizes around the buffer's; sizes count what is held. */
static void what_is_held_is_written(void **state) {
  (void)state;
  static char piece[70000];
  memset(piece, 'x', sizeof piece);
  static const size_t sizes[] = {1, 65535, 1, 65536, 0, 70000, 5, 40000};
  for (size_t i = 0; i < TD_COUNT(places); i++) {
    const char *path = places[i]("held");
    td_file *f, *other;
    uint64_t sum = 0, size;
    OK(td_file_open(path, TD_FILE_WRITE, &f));
    for (size_t k = 0; k < 6; k++) {
      OK(td_file_append(f, piece, sizes[k]));
      OK(td_file_size(f, &size));
      assert_int_equal(size, sum += sizes[k]);
    }
    OK(td_file_append(f, "tail", 4));
    OK(td_file_flush(f));
    OK(td_file_open(path, TD_FILE_READ, &other));
    OK(td_file_size(other, &size));
    assert_int_equal(size, sum + 4);
    OK(td_file_close(other));
    OK(td_file_close(f));
    OK(td_file_remove(path));
  }
}

static void a_crash_leaves_what_was_synced(void **state) {
  (void)state;
  td_file *f;
  OK(td_file_open("mem://log", TD_FILE_APPEND, &f));
  OK(td_file_append(f, "safe", 4));
  OK(td_file_sync(f));
  OK(td_file_append(f, "lost", 4));
  OK(td_file_close(f));
  mem_files_crash();
  assert_holds("mem://log", "safe");
  OK(td_file_write("mem://whole", "bytes", 5));
  mem_files_crash();
  assert_holds("mem://whole", "bytes");
  OK(td_file_remove("mem://log"));
  OK(td_file_remove("mem://whole"));
}

/* ---- what goes wrong ----------------------------------------------------- */

static td_status *write_two(const char *path) {
  td_file *f;
  TD_TRY(td_file_open(path, TD_FILE_WRITE, &f));
  td_status *s = td_file_append(f, "abc", 3);
  if (td_ok(s)) s = td_file_sync(f);
  if (td_ok(s)) s = td_file_append(f, "def", 3);
  return td_status_first(s, td_file_close(f));
}

/* Each operation and each allocation fails once; nothing leaks (sanitizers). */
static void each_call_may_fail(void **state) {
  (void)state;
  for (size_t i = 0; i < TD_COUNT(places); i++) {
    const char *path = places[i]("faults");
    int n = 0;
    td_status *s;
    do {
      td_file_fail(++n, false);
      s = write_two(path);
      td_file_fail(0, false);
      if (s) FAILS(s, TD_UNAVAILABLE, "by a test");
    } while (s);
    assert_int_equal(n - 1, 5); /* open write sync write close */
    n = 0;
    do {
      td_mem_fail(++n, false);
      s = write_two(path);
      td_mem_fail(0, false);
      if (s) FAILS(s, TD_RESOURCE_EXHAUSTED, "memory");
    } while (s);
    td_file_mapping m;
    n = 0;
    do {
      td_file_fail(++n, false);
      s = td_file_map(path, &m);
      td_file_fail(0, false);
      if (s) FAILS(s, TD_UNAVAILABLE, "by a test");
    } while (s);
    assert_int_equal(n - 1, 4); /* open stat map-or-read close */
    td_file_unmap(&m);
    assert_holds(path, "abcdef");
    OK(td_file_remove(path));
  }
}

/* The disk is full: the stream says so, names path and remedy, keeps to it. */
static void a_broken_stream_takes_no_more(void **state) {
  (void)state;
  td_file *f;
  OK(td_file_open("/dev/full", TD_FILE_APPEND, &f));
  OK(td_file_append(f, "x", 1));
  FAILS(td_file_flush(f), TD_RESOURCE_EXHAUSTED,
        "cannot write '/dev/full': No space left on device: the disk is full; "
        "make room there, or choose another");
  FAILS(td_file_append(f, "y", 1), TD_RESOURCE_EXHAUSTED, "/dev/full");
  FAILS(td_file_sync(f), TD_RESOURCE_EXHAUSTED, "/dev/full");
  FAILS(td_file_close(f), TD_RESOURCE_EXHAUSTED, "/dev/full");
}

/* A limit in the middle of a write: some of it is written, then none. */
static void a_short_write_is_an_error(void **state) {
  (void)state;
  const char *path = on_disk("short");
  static char big[100000];
  td_file *f;
  struct rlimit was, small;
  getrlimit(RLIMIT_FSIZE, &was);
  small = (struct rlimit){.rlim_cur = 30000, .rlim_max = was.rlim_max};
  signal(SIGXFSZ, SIG_IGN);
  OK(td_file_open(path, TD_FILE_WRITE, &f));
  setrlimit(RLIMIT_FSIZE, &small);
  td_status *s = td_file_append(f, big, sizeof big);
  setrlimit(RLIMIT_FSIZE, &was);
  FAILS(s, TD_RESOURCE_EXHAUSTED, "ulimit -f");
  FAILS(td_file_close(f), TD_RESOURCE_EXHAUSTED, "short'");
  struct stat st;
  assert_int_equal(stat(path, &st), 0);
  assert_int_equal(st.st_size, 30000);
  OK(td_file_remove(path));
}

/* ---- what knows no positions, and signals -------------------------------- */

static void nothing_to_do(int number) {
  (void)number;
}

static int over; /* atomic */

static void *interrupt_often(void *arg) {
  while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
    pthread_kill(*(pthread_t *)arg, SIGUSR1);
    usleep(200);
  }
  return NULL;
}

static void *write_slowly(void *arg) {
  for (int i = 0; i < 50; i++) {
    FILE *to = arg;
    fputs("0123456789", to);
    fflush(to);
    usleep(500);
  }
  fclose(arg);
  return NULL;
}

/* All n bytes, in as many reads as it takes. */
static void read_all(td_file *f, uint64_t offset, char *to, size_t n) {
  size_t got = 1;
  for (size_t at = 0; at < n && got > 0; at += got) {
    OK(td_file_read_at(f, offset + at, to + at, n - at, &got));
    assert_true(got > 0);
  }
}

/* Short reads of a pipe, each cut by signals: all bytes come, in order. */
static void reads_a_pipe_whole(void **state) {
  (void)state;
  struct sigaction was, a = {.sa_handler = nothing_to_do};
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  sigaction(SIGUSR1, &a, &was);
  pthread_t self = pthread_self(), writer, signals;
  pthread_create(&writer, NULL, write_slowly, fdopen(ends[1], "w"));
  pthread_create(&signals, NULL, interrupt_often, &self);
  char path[40], to[600];
  size_t got;
  td_file *f;
  snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
  OK(td_file_open(path, TD_FILE_READ, &f));
  read_all(f, 0, to, 300);
  FAILS(td_file_read_at(f, 5, to, 1, &got), TD_INVALID_ARGUMENT, "position");
  read_all(f, 300, to + 300, 200);
  OK(td_file_read_at(f, 500, to + 500, 100, &got));
  assert_int_equal(got, 0);
  OK(td_file_close(f));
  __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
  pthread_join(signals, NULL);
  pthread_join(writer, NULL);
  sigaction(SIGUSR1, &was, NULL);
  close(ends[0]);
  for (int i = 0; i < 500; i++) assert_int_equal(to[i], '0' + i % 10);
}

/* ---- locks --------------------------------------------------------------- */

static void one_holds_a_lock(void **state) {
  (void)state;
  const char *path = on_disk("lock");
  td_file_lock *mine, *no;
  OK(td_file_lock_take(path, &mine));
  char me[40];
  snprintf(me, sizeof me, "process %d has it", (int)getpid());
  FAILS(td_file_lock_take(path, &no), TD_UNAVAILABLE, me);
  assert_null(no);
  pid_t child = fork();
  if (child == 0) {
    td_status *s = td_file_lock_take(path, &no);
    _exit(td_status_code(s) == TD_UNAVAILABLE ? 0 : 1);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  td_file_unlock(mine);
  OK(td_file_lock_take(path, &mine));
  td_file_unlock(mine);
  td_file_unlock(NULL);
  FAILS(td_file_lock_take(on_disk("no/lock"), &no), TD_NOT_FOUND, "no/lock");
  FAILS(td_file_lock_take("mem://x", &no), TD_UNIMPLEMENTED, "mem://");
}

/* A holder that is killed leaves no lock. */
static void a_lock_ends_with_its_process(void **state) {
  (void)state;
  const char *path = on_disk("killed");
  int ends[2];
  char c;
  td_file_lock *mine;
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    if (!td_ok(td_file_lock_take(path, &mine))) _exit(1);
    if (write(ends[1], "x", 1) == 1) pause();
    _exit(1);
  }
  assert_int_equal(read(ends[0], &c, 1), 1);
  char who[40];
  snprintf(who, sizeof who, "process %d", (int)child);
  FAILS(td_file_lock_take(path, &mine), TD_UNAVAILABLE, who);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  OK(td_file_lock_take(path, &mine));
  td_file_unlock(mine);
  close(ends[0]);
  close(ends[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(modes_and_names),
      cmocka_unit_test(ranges),
      cmocka_unit_test(what_is_held_is_written),
      cmocka_unit_test(a_crash_leaves_what_was_synced),
      cmocka_unit_test(each_call_may_fail),
      cmocka_unit_test(a_broken_stream_takes_no_more),
      cmocka_unit_test(a_short_write_is_an_error),
      cmocka_unit_test(reads_a_pipe_whole),
      cmocka_unit_test(one_holds_a_lock),
      cmocka_unit_test(a_lock_ends_with_its_process),
  };
  return cmocka_run_group_tests(tests, make_dir, drop_dir);
}
