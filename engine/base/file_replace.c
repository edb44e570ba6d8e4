/* file_replace.c - a file written piece by piece that appears when it is whole.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/file_replace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file_fault.h"
#include "engine/base/file_stream.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"

struct td_file_replace {
  char real[PATH_MAX]; /* where the bytes shall end up */
  char dir[PATH_MAX];  /* its folder */
  mode_t mode;         /* 0: a new file's */
  bool through;        /* it is no file that a rename could replace */
  td_str tmp;          /* the file beside it; empty: there is none */
  td_file *file;       /* NULL once it is closed */
  uint64_t size;
};

/* "a/b" -> "a", "/b" -> "/", "b" -> ".", "mem://b" -> "mem://". */
static void parent_of(const char *path, char dir[PATH_MAX]) {
  const char *slash = strrchr(path, '/');
  size_t n = slash ? (size_t)(slash - path) : 1;
  memcpy(dir, slash ? path : ".", n);
  bool is_root = n == 0 || (n > 1 && dir[n - 1] == '/' && dir[n - 2] == ':');
  if (is_root) dir[n++] = '/';
  dir[n] = '\0';
}

/* From links to the name that the last of them gives; nothing is there yet. */
static td_status *follow(char at[PATH_MAX]) {
  enum { MOST = 40 }; /* as in the kernel */
  char to[PATH_MAX], dir[PATH_MAX];
  for (int i = 0; i < MOST; i++) {
    ssize_t n = readlink(at, to, sizeof to - 1);
    if (n < 0) return NULL;
    to[n] = '\0';
    parent_of(at, dir);
    size_t before = *to == '/' ? 0 : strlen(dir) + 1;
    if (before + (size_t)n >= PATH_MAX)
      return td_file_error("write", at, ENAMETOOLONG);
    memmove(to + before, to, (size_t)n + 1);
    if (before) {
      memcpy(to, dir, before - 1);
      to[before - 1] = '/';
    }
    strcpy(at, to);
  }
  return td_file_error("write", at, ELOOP);
}

/* Is it a descriptor's name? What that is open on has an owner, who goes on
 * writing there. */
static bool is_descriptor(const char *path) {
  static const char *const names[] = {"/dev/stdout", "/dev/stderr", "/dev/fd/",
                                      "/proc/"};
  for (size_t i = 0; i < TD_COUNT(names); i++)
    if (strncmp(path, names[i], strlen(names[i])) == 0) return true;
  return false;
}

/* Through a link to its file. What a rename would destroy (a device, a pipe) is
 * written to as it stands; a folder is refused. */
static td_status *resolve(td_file_replace *r, const char *path) {
  struct stat st;
  TD_TRY(td_file_enter("stat", path));
  bool on_disk = td_file_system_of(path) == &td_file_disk;
  if (strlen(path) >= PATH_MAX)
    return td_file_error("write", path, ENAMETOOLONG);
  if (!on_disk || stat(path, &st)) {
    if (on_disk && (errno != ENOENT || !*path))
      return td_file_error("write", path, errno);
    strcpy(r->real, path);
    return on_disk ? follow(r->real) : NULL;
  }
  if (S_ISDIR(st.st_mode))
    return td_error(TD_FAILED_PRECONDITION,
                    "cannot replace '%s': it is a folder", path);
  r->through = !S_ISREG(st.st_mode) || is_descriptor(path);
  if (r->through)
    strcpy(r->real, path);
  else if (!realpath(path, r->real))
    return td_file_error("write", path, errno);
  r->mode = st.st_mode & 07777;
  return NULL;
}

/* A fresh file in the folder. Names carry process and count; one left behind
 * by a crash is stepped over. */
static td_status *open_beside(td_file_replace *r) {
  static unsigned count;
  td_status *s = NULL;
  for (int tries = 0; tries < 100; tries++) {
    unsigned n = __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
    td_status_release(s);
    td_str_clear(&r->tmp);
    td_str_addf(&r->tmp, "%s/.tide-%d-%u", r->dir, (int)getpid(), n);
    if (r->tmp.failed) return td_oom();
    s = td_file_open(r->tmp.at, TD_FILE_CREATE, &r->file);
    if (td_status_code(s) != TD_ALREADY_EXISTS) break;
  }
  return s;
}

/* Without a reader the opening of a pipe would wait for one, perhaps for ever:
 * a first one, which waits for nothing, tells. */
static td_status *open_through(td_file_replace *r) {
  int fd = open(r->real, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0 && errno == ENXIO)
    return td_error(TD_FAILED_PRECONDITION,
                    "cannot write '%s': nobody reads at its other end",
                    r->real);
  td_status *s = td_file_open(r->real, TD_FILE_APPEND, &r->file);
  if (fd >= 0) close(fd);
  return s;
}

td_status *td_file_replace_open(const char *path, td_file_replace **out) {
  td_file_replace *r = td_calloc(1, sizeof *r);
  if (!r) return td_oom();
  td_status *s = resolve(r, path);
  if (td_ok(s) && r->through) {
    s = open_through(r);
  } else if (td_ok(s)) {
    parent_of(r->real, r->dir);
    s = open_beside(r);
    if (!td_ok(s)) td_str_clear(&r->tmp);
  }
  if (td_ok(s))
    *out = r;
  else
    td_file_replace_close(r);
  return s;
}

td_status *td_file_replace_append(td_file_replace *r, const void *bytes,
                                  size_t n) {
  TD_TRY(td_file_append(r->file, bytes, n));
  r->size += n;
  return NULL;
}

uint64_t td_file_replace_size(const td_file_replace *r) {
  return r->size;
}

td_status *td_file_replace_commit(td_file_replace *r) {
  td_status *s = NULL;
  if (r->through) {
    s = td_file_close(r->file);
    r->file = NULL;
    return s;
  }
  if (r->mode && chmod(r->tmp.at, r->mode))
    s = td_file_error("set the mode of", r->tmp.at, errno);
  if (td_ok(s)) s = td_file_sync(r->file);
  s = td_status_first(s, td_file_close(r->file));
  r->file = NULL;
  if (td_ok(s)) s = td_file_rename(r->tmp.at, r->real);
  if (!td_ok(s)) return s;
  td_str_clear(&r->tmp);
  return td_file_sync_folder(r->dir);
}

void td_file_replace_close(td_file_replace *r) {
  if (!r) return;
  td_status_release(td_file_close(r->file));
  if (r->tmp.len > 0)
    td_status_release(td_file_system_of(r->real)->remove(r->tmp.at));
  td_str_deinit(&r->tmp);
  td_free(r);
}
