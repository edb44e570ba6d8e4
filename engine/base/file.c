/* file.c - whole files, atomically replaced; gunzip.
 *
 * Every call that touches the file system passes the seam `door` first.
 * td_file_write never leaves a half-written file under the final name: bytes go
 * to a neighbour, are synced, take the name by rename, and the directory is
 * synced so that the rename itself survives a crash.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "engine/base/fault.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"

static td_fault door;

void td_file_fail(int64_t nth, bool for_ever) {
  td_fault_arm(&door, nth, for_ever);
}

int64_t td_file_calls(void) {
  return td_fault_calls(&door);
}

static td_code code_of(int err) {
  switch (err) {
  case ENOENT:
    return TD_NOT_FOUND;
  case EEXIST:
    return TD_ALREADY_EXISTS;
  case EACCES:
  case EPERM:
  case EROFS:
    return TD_PERMISSION_DENIED;
  case ENOSPC:
  case EDQUOT:
  case EFBIG:
  case EMFILE:
  case ENFILE:
  case ENOMEM:
    return TD_RESOURCE_EXHAUSTED;
  case EISDIR:
  case ENOTDIR:
  case ENOTEMPTY:
  case EBUSY:
    return TD_FAILED_PRECONDITION;
  case EINVAL:
  case ELOOP:
  case ENAMETOOLONG:
    return TD_INVALID_ARGUMENT;
  case EIO:
    return TD_DATA_LOSS;
  case EAGAIN:
  case EINTR:
    return TD_UNAVAILABLE;
  default:
    return TD_UNKNOWN;
  }
}

static td_status *sys_error(const char *doing, const char *path, int err) {
  char buf[128];
  return td_error(code_of(err), "cannot %s '%s': %s", doing, path,
                  strerror_r(err, buf, sizeof buf));
}

/* Before each operation: the error that a test asked for, if any. */
static td_status *enter(const char *doing, const char *path) {
  if (TD_LIKELY(td_fault_try(&door))) return NULL;
  return td_error(TD_UNAVAILABLE, "cannot %s '%s': failed by a test", doing,
                  path);
}

/* ---- reading ------------------------------------------------------------- */

/* Up to `room` bytes; *got == 0 is the end of the file. */
static td_status *read_some(int fd, const char *path, char *to, size_t room,
                            size_t *got) {
  ssize_t n;
  TD_TRY(enter("read", path));
  if (room > SSIZE_MAX) room = SSIZE_MAX;
  do n = read(fd, to, room);
  while (n < 0 && errno == EINTR);
  if (n < 0) return sys_error("read", path, errno);
  *got = (size_t)n;
  return NULL;
}

static td_status *too_large(const char *path, size_t limit) {
  return td_error(TD_RESOURCE_EXHAUSTED,
                  "'%s' is larger than the %zu bytes allowed", path, limit);
}

/* Doubles *cap, to at most limit + 1 bytes and the NUL. */
static bool grow(char **bytes, size_t *cap, size_t limit) {
  size_t to = *cap > SIZE_MAX / 2 ? SIZE_MAX : *cap * 2;
  if (limit < SIZE_MAX - 2 && to > limit + 2) to = limit + 2;
  char *p = td_realloc(*bytes, to);
  if (!p) return false;
  *bytes = p;
  *cap = to;
  return true;
}

/* The size that stat tells is a hint only: files grow, /proc says 0. */
static td_status *read_all(int fd, const char *path, size_t hint, size_t limit,
                           char **bytes, size_t *len) {
  size_t cap = hint + 2, at = 0;
  char *p = td_malloc(cap);
  td_status *s = p ? NULL : td_oom();
  for (size_t got = 1; td_ok(s) && got > 0; at += got) {
    got = 0;
    if (at + 1 == cap && !grow(&p, &cap, limit)) s = td_oom();
    if (td_ok(s)) s = read_some(fd, path, p + at, cap - at - 1, &got);
    if (td_ok(s) && got > limit - at) s = too_large(path, limit);
  }
  if (!td_ok(s)) {
    td_free(p);
    return s;
  }
  p[at] = '\0';
  *bytes = p;
  *len = at;
  return NULL;
}

static td_status *read_open(int fd, const char *path, size_t limit,
                            char **bytes, size_t *len) {
  struct stat st;
  TD_TRY(enter("stat", path));
  if (fstat(fd, &st)) return sys_error("stat", path, errno);
  if (S_ISDIR(st.st_mode)) return sys_error("read", path, EISDIR);
  size_t hint = S_ISREG(st.st_mode) && st.st_size > 0 ? (size_t)st.st_size : 0;
  if (hint > limit) return too_large(path, limit);
  return read_all(fd, path, hint < 4096 ? 4096 : hint, limit, bytes, len);
}

td_status *td_file_read(const char *path, size_t limit, char **bytes,
                        size_t *len) {
  TD_TRY(enter("open", path));
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return sys_error("open", path, errno);
  td_status *s = read_open(fd, path, limit, bytes, len);
  close(fd);
  return s;
}

td_status *td_file_list(const char *path, td_str *names) {
  TD_TRY(enter("list", path));
  DIR *dir = opendir(path);
  if (!dir) return sys_error("list", path, errno);
  errno = 0;
  for (struct dirent *e; (e = readdir(dir)); errno = 0)
    if (e->d_name[0] != '.')
      td_str_addn(names, e->d_name, strlen(e->d_name) + 1);
  td_status *s = errno ? sys_error("list", path, errno) : NULL;
  closedir(dir);
  return td_ok(s) && names->failed ? td_oom() : s;
}

/* ---- writing ------------------------------------------------------------- */

/* Where the bytes shall end up: through a link to its file. Refuses what a
 * rename would destroy (a device, a pipe, a directory). */
static td_status *resolve(const char *path, char real[PATH_MAX], mode_t *mode) {
  struct stat st;
  *mode = 0; /* a new file: 0666 less the umask */
  TD_TRY(enter("stat", path));
  if (stat(path, &st)) {
    if (errno != ENOENT || !*path) return sys_error("write", path, errno);
    if (strlen(path) >= PATH_MAX) return sys_error("write", path, ENAMETOOLONG);
    strcpy(real, path);
    return NULL;
  }
  if (!S_ISREG(st.st_mode))
    return td_error(TD_FAILED_PRECONDITION,
                    "cannot replace '%s': not a regular file", path);
  if (!realpath(path, real)) return sys_error("write", path, errno);
  *mode = st.st_mode & 07777;
  return NULL;
}

static td_status *write_all(int fd, const char *path, const char *p,
                            size_t len) {
  while (len > 0) {
    TD_TRY(enter("write", path));
    ssize_t n = write(fd, p, len > SSIZE_MAX ? SSIZE_MAX : len);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return sys_error("write", path, errno);
    p += n;
    len -= (size_t)n;
  }
  return NULL;
}

static void parent_of(const char *path, char dir[PATH_MAX]) {
  const char *slash = strrchr(path, '/');
  size_t n = slash ? (size_t)(slash - path) : 1;
  memcpy(dir, slash ? path : ".", n);
  if (n == 0) dir[n++] = '/';
  dir[n] = '\0';
}

/* Some file systems cannot sync a directory and say EINVAL. */
static td_status *sync_dir(const char *dir) {
  TD_TRY(enter("sync", dir));
  int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return sys_error("open", dir, errno);
  int err = fsync(fd) ? errno : 0;
  close(fd);
  return err && err != EINVAL ? sys_error("sync", dir, err) : NULL;
}

/* A fresh file in `dir`. Names carry process and count; one left behind by a
 * crash is stepped over. */
static td_status *open_beside(const char *real, const char *dir, td_str *tmp,
                              int *fd) {
  static unsigned count;
  for (int tries = 0; tries < 100; tries++) {
    unsigned n = __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
    td_str_clear(tmp);
    td_str_addf(tmp, "%s/.tide-%d-%u", dir, (int)getpid(), n);
    if (tmp->failed) return td_oom();
    TD_TRY(enter("write", real));
    *fd = open(tmp->at, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (*fd >= 0) return NULL;
    if (errno != EEXIST) break;
  }
  return sys_error("write", real, errno);
}

/* Fills the file beside `real`, synced and closed. */
static td_status *fill(int fd, const char *real, mode_t mode, const void *bytes,
                       size_t len) {
  td_status *s = write_all(fd, real, bytes, len);
  if (td_ok(s) && mode && fchmod(fd, mode))
    s = sys_error("set the mode of", real, errno);
  if (td_ok(s)) s = enter("sync", real);
  if (td_ok(s) && fsync(fd)) s = sys_error("sync", real, errno);
  if (close(fd) && td_ok(s)) s = sys_error("write", real, errno);
  return s;
}

static td_status *take_name(const char *tmp, const char *real) {
  TD_TRY(enter("replace", real));
  return rename(tmp, real) ? sys_error("replace", real, errno) : NULL;
}

td_status *td_file_write(const char *path, const void *bytes, size_t len) {
  char real[PATH_MAX], dir[PATH_MAX];
  mode_t mode;
  int fd = -1;
  td_str tmp = {0};
  TD_TRY(resolve(path, real, &mode));
  parent_of(real, dir);
  td_status *s = open_beside(real, dir, &tmp, &fd);
  if (td_ok(s)) {
    s = fill(fd, real, mode, bytes, len);
    if (td_ok(s)) s = take_name(tmp.at, real);
    if (!td_ok(s)) unlink(tmp.at);
  }
  td_str_deinit(&tmp);
  return td_ok(s) ? sync_dir(dir) : s;
}

bool td_file_exists(const char *path) {
  return access(path, F_OK) == 0;
}

static td_status *make_dir(const char *path) {
  struct stat st;
  TD_TRY(enter("make directory", path));
  if (mkdir(path, 0777) == 0) return NULL;
  int err = errno;
  if (stat(path, &st) == 0)
    return S_ISDIR(st.st_mode) ? NULL
                               : sys_error("make directory", path, ENOTDIR);
  return sys_error("make directory", path, err);
}

td_status *td_file_mkdirs(const char *path) {
  if (!*path) return sys_error("make directory", path, ENOENT);
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

/* ---- for a while --------------------------------------------------------- */

static td_status *temp_path(const char *suffix, size_t most, td_str *path) {
  static const char name[] = "/tide-XXXXXX";
  const char *dir = getenv("TMPDIR");
  if (!dir || dir[0] != '/' || strlen(dir) + strlen(name) > most) dir = "/tmp";
  td_str_clear(path);
  td_str_addf(path, "%s%s%s", dir, name, suffix);
  return path->failed ? td_oom() : enter("make", td_str_c(path));
}

td_status *td_file_temp(const char *suffix, td_str *path) {
  TD_TRY(temp_path(suffix, PATH_MAX, path));
  int fd = mkostemps(path->at, (int)strlen(suffix), O_CLOEXEC);
  if (fd < 0) return sys_error("make", td_str_c(path), errno);
  close(fd);
  return NULL;
}

td_status *td_file_temp_dir(size_t most, td_str *path) {
  TD_TRY(temp_path("", most, path));
  if (mkdtemp(path->at)) return NULL;
  return sys_error("make", td_str_c(path), errno);
}

/* ---- gunzip -------------------------------------------------------------- */

static voidpf zip_alloc(voidpf opaque, uInt n, uInt size) {
  (void)opaque;
  return td_calloc(n, size);
}

static void zip_free(voidpf opaque, voidpf p) {
  (void)opaque;
  td_free(p);
}

/* Inflates all members of z's input behind each other. */
static td_status *inflate_all(z_stream *z, size_t left, size_t limit,
                              char **out, size_t *cap, size_t *at) {
  for (;;) {
    if (z->avail_in == 0) {
      z->avail_in = left > UINT_MAX ? UINT_MAX : (uInt)left;
      left -= z->avail_in;
    }
    if (*at + 1 == *cap && !grow(out, cap, limit)) return td_oom();
    size_t room = *cap - *at - 1;
    if (room > UINT_MAX) room = UINT_MAX;
    z->next_out = (Bytef *)*out + *at;
    z->avail_out = (uInt)room;
    int rc = inflate(z, Z_NO_FLUSH);
    *at += room - z->avail_out;
    if (*at > limit)
      return td_error(TD_RESOURCE_EXHAUSTED,
                      "gzip data unpacks to more than the %zu bytes allowed",
                      limit);
    if (rc == Z_STREAM_END) {
      if (z->avail_in == 0 && left == 0) return NULL;
      rc = inflateReset(z);
    }
    if (rc == Z_MEM_ERROR) return td_oom();
    if (rc != Z_OK)
      return td_error(TD_DATA_LOSS, "bad gzip data: %s",
                      z->msg ? z->msg : "it ends too early");
  }
}

td_status *td_file_gunzip(const void *in, size_t len, size_t limit, char **out,
                          size_t *out_len) {
  z_stream z = {.zalloc = zip_alloc,
                .zfree = zip_free,
                .next_in = (Bytef *)in}; /* zlib only reads it */
  enum { GZIP_ONLY = 16 };
  size_t cap = limit < 4096 ? limit + 2 : 4096, at = 0;
  char *p = td_malloc(cap);
  if (!p || inflateInit2(&z, MAX_WBITS + GZIP_ONLY) != Z_OK) {
    td_free(p);
    return td_oom();
  }
  td_status *s = inflate_all(&z, len, limit, &p, &cap, &at);
  inflateEnd(&z);
  if (!td_ok(s)) {
    td_free(p);
    return s;
  }
  p[at] = '\0';
  *out = p;
  *out_len = at;
  return NULL;
}
