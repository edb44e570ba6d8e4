/* file_disk.c - the local disk as a file system.
 *
 * Calls that a signal interrupts are made again; short reads and writes go on
 * where they stopped. What knows no positions (a pipe, a terminal) is read in
 * order, as much at once as there is: nothing is opened or read so that it
 * blocks, and who must wait does so where he can be stopped (file_stop.h).
 * Locks are flock's: they end with the process, and by its end only, on
 * whatever way it goes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "engine/base/file_fault.h"
#include "engine/base/file_stop.h"
#include "engine/base/file_system.h"
#include "engine/base/mem.h"

typedef struct disk_file {
  int fd;
  bool in_order; /* it knows no positions */
  uint64_t at;   /* of such a one: bytes read */
  char path[];
} disk_file;

/* ---- open, close --------------------------------------------------------- */

/* A descriptor; below 0: see errno. */
static int try_open(const char *path, int flags) {
  int fd;
  do fd = open(path, flags | O_CLOEXEC, 0666);
  while (fd < 0 && errno == EINTR);
  return fd;
}

/* A pipe opens before somebody writes to it. Regular files ignore that flag,
 * but for one that another process has a lease on: it is to be waited for. */
static td_status *open_fd(const char *path, int flags, int *fd) {
  *fd = try_open(path, flags);
  if (*fd < 0 && errno == EWOULDBLOCK && flags & O_NONBLOCK)
    *fd = try_open(path, flags & ~O_NONBLOCK);
  return *fd < 0 ? td_file_error("open", path, errno) : NULL;
}

static td_status *disk_open(const char *path, td_file_mode mode, void **file) {
  static const int flags[] = {
      [TD_FILE_READ] = O_RDONLY | O_NONBLOCK,
      [TD_FILE_APPEND] = O_WRONLY | O_CREAT | O_APPEND,
      [TD_FILE_WRITE] = O_WRONLY | O_CREAT | O_APPEND | O_TRUNC,
      [TD_FILE_CREATE] = O_WRONLY | O_CREAT | O_APPEND | O_EXCL,
  };
  size_t n = strlen(path) + 1;
  disk_file *f = td_malloc(sizeof *f + n);
  if (!f) return td_oom();
  f->in_order = false;
  f->at = 0;
  memcpy(f->path, path, n);
  td_status *s = open_fd(path, flags[mode], &f->fd);
  if (td_ok(s))
    *file = f;
  else
    td_free(f);
  return s;
}

/* After EINTR the descriptor is gone all the same. */
static td_status *disk_close(void *file) {
  disk_file *f = file;
  td_status *s = NULL;
  if (close(f->fd) && errno != EINTR)
    s = td_file_error("close", f->path, errno);
  td_free(f);
  return s;
}

static td_status *disk_size(void *file, uint64_t *bytes) {
  disk_file *f = file;
  struct stat st;
  if (fstat(f->fd, &st)) return td_file_error("stat", f->path, errno);
  if (S_ISDIR(st.st_mode)) return td_file_error("read", f->path, EISDIR);
  *bytes = S_ISREG(st.st_mode) && st.st_size > 0 ? (uint64_t)st.st_size : 0;
  return NULL;
}

/* ---- reading and writing ------------------------------------------------- */

/* What is there of what is read in order, once there is some. Before a pipe has
 * its first writer a read would find its end: so it is waited for first. */
static td_status *read_in_order(disk_file *f, uint64_t offset, void *to,
                                size_t n, size_t *got) {
  ssize_t k = -1;
  if (offset != f->at)
    return td_error(TD_INVALID_ARGUMENT,
                    "cannot read '%s' from position %llu: it is read in "
                    "order, and stands at %llu",
                    f->path, (unsigned long long)offset,
                    (unsigned long long)f->at);
  while (n > 0 && k < 0) {
    TD_TRY(td_file_stop_wait(f->fd, f->path));
    k = read(f->fd, to, n);
    if (k < 0 && errno != EINTR && errno != EAGAIN)
      return td_file_error("read", f->path, errno);
  }
  *got = k > 0 ? (size_t)k : 0;
  f->at += *got;
  return NULL;
}

static ssize_t read_some(const disk_file *f, uint64_t offset, void *to,
                         size_t n) {
  if (offset > INT64_MAX - n) return 0;
  return pread(f->fd, to, n, (off_t)offset);
}

static td_status *disk_read(void *file, uint64_t offset, void *to, size_t n,
                            size_t *got) {
  disk_file *f = file;
  if (n > SSIZE_MAX) n = SSIZE_MAX;
  if (f->in_order) return read_in_order(f, offset, to, n, got);
  for (size_t at = 0; at < n;) {
    ssize_t k = read_some(f, offset + at, (char *)to + at, n - at);
    if (k < 0 && errno == EINTR) continue;
    if (k < 0 && errno == EAGAIN) { /* a device */
      TD_TRY(td_file_stop_wait(f->fd, f->path));
      continue;
    }
    if (k < 0 && errno == ESPIPE && at == 0) {
      f->in_order = true;
      return read_in_order(f, offset, to, n, got);
    }
    if (k < 0) return td_file_error("read", f->path, errno);
    if (k == 0) break;
    *got = at += (size_t)k;
  }
  return NULL;
}

static td_status *disk_append(void *file, const void *bytes, size_t n) {
  disk_file *f = file;
  for (const char *p = bytes; n > 0;) {
    ssize_t k = write(f->fd, p, n > SSIZE_MAX ? SSIZE_MAX : n);
    if (k < 0 && errno == EINTR) continue;
    if (k < 0) return td_file_error("write", f->path, errno);
    p += k;
    n -= (size_t)k;
  }
  return NULL;
}

static td_status *disk_sync(void *file) {
  disk_file *f = file;
  int rc;
  do rc = fsync(f->fd);
  while (rc && errno == EINTR);
  return rc ? td_file_error("sync", f->path, errno) : NULL;
}

static void disk_start_sync(void *file) {
  disk_file *f = file;
  (void)sync_file_range(f->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
}

static td_status *disk_map(void *file, size_t size, const void **at) {
  disk_file *f = file;
  void *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, f->fd, 0);
  if (p == MAP_FAILED) return td_file_error("map", f->path, errno);
  *at = p;
  return NULL;
}

static void disk_unmap(const void *at, size_t size) {
  munmap((void *)at, size);
}

/* ---- names --------------------------------------------------------------- */

static td_status *disk_rename(const char *from, const char *to) {
  return rename(from, to) ? td_file_error("replace", to, errno) : NULL;
}

static td_status *disk_remove(const char *path) {
  return remove(path) ? td_file_error("remove", path, errno) : NULL;
}

static bool disk_exists(const char *path) {
  return access(path, F_OK) == 0;
}

/* Some file systems cannot sync a folder and say EINVAL. */
static td_status *disk_sync_folder(const char *path) {
  int fd, err = 0;
  TD_TRY(open_fd(path, O_RDONLY | O_DIRECTORY, &fd));
  while (fsync(fd))
    if ((err = errno) != EINTR) break;
  close(fd);
  return err && err != EINVAL && err != EINTR ? td_file_error("sync", path, err)
                                              : NULL;
}

static td_status *disk_list(const char *path, td_str *names) {
  DIR *dir = opendir(path);
  if (!dir) return td_file_error("list", path, errno);
  errno = 0;
  for (struct dirent *e; (e = readdir(dir)); errno = 0)
    if (e->d_name[0] != '.')
      td_str_addn(names, e->d_name, strlen(e->d_name) + 1);
  td_status *s = errno ? td_file_error("list", path, errno) : NULL;
  closedir(dir);
  return td_ok(s) && names->failed ? td_oom() : s;
}

static td_status *make_dir(const char *path) {
  struct stat st;
  if (mkdir(path, 0777) == 0) return NULL;
  int err = errno;
  if (stat(path, &st) == 0)
    return S_ISDIR(st.st_mode) ? NULL
                               : td_file_error("make directory", path, ENOTDIR);
  return td_file_error("make directory", path, err);
}

static td_status *disk_make_folders(const char *path) {
  if (!*path) return td_file_error("make directory", path, ENOENT);
  char *dir = td_strdup(path);
  if (!dir) return td_oom();
  td_status *s = NULL;
  for (char *p = dir + 1; td_ok(s) && p[-1]; p++) {
    if (*p && (*p != '/' || p[-1] == '/')) continue;
    char was = *p;
    *p = '\0';
    s = make_dir(dir);
    *p = was;
    if (!was) break;
  }
  td_free(dir);
  return s;
}

/* ---- locks --------------------------------------------------------------- */

/* Who has it, from a line of /proc/locks; 0 where that is not told. */
static int holder_of(const struct stat *st) {
  char line[256];
  int holder = 0;
  FILE *f = fopen("/proc/locks", "re");
  while (f && !holder && fgets(line, sizeof line, f)) {
    unsigned long long inode;
    unsigned major_number, minor_number;
    int pid;
    if (sscanf(line, "%*d: FLOCK %*s %*s %d %x:%x:%llu", &pid, &major_number,
               &minor_number, &inode) == 4 &&
        inode == st->st_ino && major_number == major(st->st_dev) &&
        minor_number == minor(st->st_dev) && pid > 0)
      holder = pid;
  }
  if (f) fclose(f);
  return holder;
}

static td_status *held(const char *path, int fd) {
  struct stat st;
  int holder = fstat(fd, &st) ? 0 : holder_of(&st);
  char who[32] = "another process";
  if (holder) snprintf(who, sizeof who, "process %d", holder);
  return td_error(TD_UNAVAILABLE,
                  "cannot lock '%s': %s has it; wait for its "
                  "end, or choose another path",
                  path, who);
}

/* Is the locked file still the one of that name? */
static bool is_still(const char *path, int fd) {
  struct stat a, b;
  return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_ino == b.st_ino &&
         a.st_dev == b.st_dev;
}

static td_status *disk_lock(const char *path, void **lock) {
  enum { TRIES = 100 };
  for (int i = 0; i < TRIES; i++) {
    int fd, rc;
    TD_TRY(open_fd(path, O_RDWR | O_CREAT, &fd));
    do rc = flock(fd, LOCK_EX | LOCK_NB);
    while (rc && errno == EINTR);
    if (rc == 0 && is_still(path, fd)) {
      *lock = (void *)(intptr_t)(fd + 1);
      return NULL;
    }
    td_status *s = NULL;
    if (rc)
      s = errno == EWOULDBLOCK ? held(path, fd)
                               : td_file_error("lock", path, errno);
    close(fd);
    if (!td_ok(s)) return s;
  }
  return td_error(TD_UNAVAILABLE, "cannot lock '%s': others replace the file",
                  path);
}

static void disk_unlock(void *lock) {
  int fd = (int)(intptr_t)lock - 1;
  flock(fd, LOCK_UN); /* of a forked child's copy, too */
  close(fd);
}

const td_file_system td_file_disk = {
    .open = disk_open,
    .close = disk_close,
    .read = disk_read,
    .append = disk_append,
    .size = disk_size,
    .sync = disk_sync,
    .map = disk_map,
    .unmap = disk_unmap,
    .rename = disk_rename,
    .remove = disk_remove,
    .exists = disk_exists,
    .make_folders = disk_make_folders,
    .list = disk_list,
    .sync_folder = disk_sync_folder,
    .lock = disk_lock,
    .unlock = disk_unlock,
    .start_sync = disk_start_sync,
};
