/* checkpoint_kill.c - a process that saves is killed, at random moments and at
 * each of its calls: what it reported as saved is there, or something newer.
 *
 * TIDE_KILLS says how often it is killed at random.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/file_stream.h"
#include "tests/engine/io/saved.h"

/* ---- at random moments --------------------------------------------------- */

/* Saves step after step and reports each, until it is killed. */
static void save_on(int report, int64_t step) {
  for (;; step++) {
    td_status *s = saved_write(saved_prefix, step);
    if (!td_ok(s)) {
      fprintf(stderr, "%s\n", td_status_message(s));
      _exit(1);
    }
    if (write(report, &step, sizeof step) != sizeof step) _exit(2);
  }
}

/* The last step that a process reported, which was killed after that time. */
static int64_t kill_after(long ns, int64_t step) {
  int ends[2], status;
  int64_t reported = step, last = step;
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) save_on(ends[1], step + 1);
  close(ends[1]);
  struct timespec t = {.tv_nsec = ns};
  nanosleep(&t, NULL);
  kill(child, SIGKILL);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status));
  while (read(ends[0], &reported, sizeof reported) == sizeof reported)
    last = reported;
  close(ends[0]);
  return last;
}

static void test_killed_at_random(void **state) {
  (void)state;
  const char *often = getenv("TIDE_KILLS"), *soak = getenv("TIDE_SOAK");
  int times = often ? atoi(often) : soak && *soak == '1' ? 500 : 50;
  int64_t step = 1, newer = 0;
  unsigned seed = (unsigned)time(NULL);
  print_message("seed %u, %d times\n", seed, times);
  OK(saved_write(saved_prefix, step));
  for (int i = 0; i < times; i++) {
    int64_t last = kill_after(rand_r(&seed) % 40000000, step);
    step = saved_step(saved_prefix);
    if (step < last || step > last + 1)
      fail_msg("step %d was saved, %d is there", (int)last, (int)step);
    newer += step > last;
  }
  print_message("%d steps, %d times a newer one\n", (int)step, (int)newer);
  assert_true(step > times / 10);
  OK(saved_write(saved_prefix, step + 1));
  saved_assert_tidy(1);
}

/* ---- at each call -------------------------------------------------------- */

/* "kill://" is the disk; the process ends before its n-th call, and a write
 * half way. */
static int64_t calls_left = -1; /* below 0: for ever */

static bool last_call(void) {
  return calls_left > 0 && --calls_left == 0;
}

static void one_call(void) {
  if (last_call()) kill(getpid(), SIGKILL);
}

static const char *disk_path(const char *path) {
  return path + strlen("kill://");
}

static td_status *kill_open(const char *path, td_file_mode mode, void **file) {
  one_call();
  return td_file_disk.open(disk_path(path), mode, file);
}

static td_status *kill_close(void *file) {
  one_call();
  return td_file_disk.close(file);
}

static td_status *kill_append(void *file, const void *bytes, size_t n) {
  if (last_call()) {
    td_status_release(td_file_disk.append(file, bytes, n / 2));
    kill(getpid(), SIGKILL);
  }
  return td_file_disk.append(file, bytes, n);
}

static td_status *kill_sync(void *file) {
  one_call();
  return td_file_disk.sync(file);
}

static td_status *kill_rename(const char *from, const char *to) {
  one_call();
  return td_file_disk.rename(disk_path(from), disk_path(to));
}

static td_status *kill_remove(const char *path) {
  one_call();
  return td_file_disk.remove(disk_path(path));
}

static bool kill_exists(const char *path) {
  return td_file_disk.exists(disk_path(path));
}

static td_status *kill_make_folders(const char *path) {
  one_call();
  return td_file_disk.make_folders(disk_path(path));
}

static td_status *kill_list(const char *path, td_str *names) {
  return td_file_disk.list(disk_path(path), names);
}

static td_status *kill_sync_folder(const char *path) {
  one_call();
  return td_file_disk.sync_folder(disk_path(path));
}

static td_status *kill_lock(const char *path, void **lock) {
  one_call();
  return td_file_disk.lock(disk_path(path), lock);
}

static void kill_unlock(void *lock) {
  one_call();
  td_file_disk.unlock(lock);
}

static td_status *kill_size(void *file, uint64_t *bytes) {
  return td_file_disk.size(file, bytes);
}

static td_status *kill_read(void *file, uint64_t offset, void *to, size_t n,
                            size_t *got) {
  return td_file_disk.read(file, offset, to, n, got);
}

static const td_file_system kill_file_system = {
    .prefix = "kill://",
    .open = kill_open,
    .close = kill_close,
    .read = kill_read,
    .append = kill_append,
    .size = kill_size,
    .sync = kill_sync,
    .rename = kill_rename,
    .remove = kill_remove,
    .exists = kill_exists,
    .make_folders = kill_make_folders,
    .list = kill_list,
    .sync_folder = kill_sync_folder,
    .lock = kill_lock,
    .unlock = kill_unlock,
};

/* true when the process came to its end before call n. */
static bool save_until(const char *prefix, int64_t step, int64_t n) {
  int status;
  pid_t child = fork();
  if (child == 0) {
    calls_left = n;
    td_status *s = saved_write(prefix, step);
    _exit(td_ok(s) ? 0 : 1);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WIFEXITED(status)) assert_int_equal(WEXITSTATUS(status), 0);
  return WIFEXITED(status);
}

static void test_killed_at_each_call(void **state) {
  (void)state;
  char prefix[400];
  int64_t step = 1, newer = 0, n = 1;
  snprintf(prefix, sizeof prefix, "kill://%s", saved_prefix);
  OK(saved_write(prefix, step));
  for (bool done = false; !done; n++) {
    done = save_until(prefix, step + 1, n);
    int64_t there = saved_step(prefix);
    assert_in_range(there, step, step + 1);
    if (done) assert_int_equal(there, step + 1);
    newer += there > step;
    step = there;
  }
  print_message("%d calls, %d times a newer one\n", (int)n, (int)newer);
  assert_true(n > 25);
  assert_true(newer > 2);
  OK(saved_write(saved_prefix, step + 1));
  saved_assert_tidy(1);
}

/* What was left at any call is taken away by the very next save. */
static void test_left_by_the_killed(void **state) {
  (void)state;
  char prefix[400];
  int64_t step = 1;
  snprintf(prefix, sizeof prefix, "kill://%s", saved_prefix);
  OK(saved_write(prefix, step));
  for (int64_t n = 1; !save_until(prefix, step + 1, n); n++) {
    step = saved_step(prefix) + 1;
    OK(saved_write(saved_prefix, step));
    saved_assert_tidy(1);
  }
}

int main(void) {
  OK(td_file_system_register(&kill_file_system));
  const struct CMUnitTest tests[] = {
      SAVED_TEST(test_killed_at_random),
      SAVED_TEST(test_killed_at_each_call),
      SAVED_TEST(test_left_by_the_killed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
