/* file_stream.c - a file system's functions, counted, with writes held back.
 *
 * A record is a few bytes, a system call a microsecond: appended pieces gather
 * in a buffer. What was to be written when a write failed may have been written
 * in part, so nothing may follow it: the stream keeps the error.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/file_stream.h"

#include <string.h>

#include "engine/base/file_fault.h"
#include "engine/base/file_stop.h"
#include "engine/base/mem.h"

enum { HELD = 1 << 16 };

struct td_file {
  const td_file_system *fs;
  void *file;
  char *path;
  char *buffer; /* HELD bytes, from the first append on */
  size_t held;
  td_status *broken; /* why it takes no more */
};

struct td_file_lock {
  const td_file_system *fs;
  void *lock;
};

td_status *td_file_open(const char *path, td_file_mode mode, td_file **out) {
  *out = NULL;
  TD_TRY(td_file_enter("open", path));
  td_file *f = td_calloc(1, sizeof *f);
  char *copy = td_strdup(path);
  td_status *s = f && copy ? NULL : td_oom();
  if (td_ok(s)) {
    f->fs = td_file_system_of(path);
    f->path = copy;
    s = f->fs->open(path, mode, &f->file);
  }
  if (td_ok(s)) {
    *out = f;
    return NULL;
  }
  td_free(f);
  td_free(copy);
  return s;
}

td_status *td_file_close(td_file *f) {
  if (!f) return NULL;
  td_status *s = td_file_flush(f);
  td_status *closed = td_file_enter("close", f->path);
  closed = td_status_first(closed, f->fs->close(f->file));
  td_status_release(f->broken);
  td_free(f->buffer);
  td_free(f->path);
  td_free(f);
  return td_status_first(s, closed);
}

td_status *td_file_size(td_file *f, uint64_t *bytes) {
  TD_TRY(td_file_enter("stat", f->path));
  TD_TRY(f->fs->size(f->file, bytes));
  *bytes += f->held;
  return NULL;
}

td_status *td_file_read_at(td_file *f, uint64_t offset, void *to, size_t n,
                           size_t *got) {
  *got = 0;
  TD_TRY(td_file_enter("read", f->path));
  TD_TRY(td_file_stop_check(f->path));
  return f->fs->read(f->file, offset, to, n, got);
}

/* ---- writing ------------------------------------------------------------- */

static td_status *write_out(td_file *f, const void *bytes, size_t n) {
  if (f->broken) return td_status_retain(f->broken);
  td_status *s = td_file_enter("write", f->path);
  if (td_ok(s)) s = f->fs->append(f->file, bytes, n);
  f->broken = td_status_retain(s);
  return s;
}

td_status *td_file_flush(td_file *f) {
  if (f->broken) return td_status_retain(f->broken);
  size_t n = f->held;
  f->held = 0;
  return n ? write_out(f, f->buffer, n) : NULL;
}

td_status *td_file_append(td_file *f, const void *bytes, size_t n) {
  if (f->broken) return td_status_retain(f->broken);
  if (n > HELD - f->held) TD_TRY(td_file_flush(f));
  if (n >= HELD) return write_out(f, bytes, n);
  if (!f->buffer) f->buffer = td_malloc(HELD);
  if (!f->buffer) return td_oom();
  if (n) memcpy(f->buffer + f->held, bytes, n);
  f->held += n;
  return NULL;
}

td_status *td_file_sync(td_file *f) {
  TD_TRY(td_file_flush(f));
  TD_TRY(td_file_enter("sync", f->path));
  td_status *s = f->fs->sync(f->file);
  f->broken = td_status_retain(s); /* what is lost then, nobody knows */
  return s;
}

void td_file_start_sync(td_file *f) {
  if (!f->broken && f->fs->start_sync) f->fs->start_sync(f->file);
}

/* ---- mapping ------------------------------------------------------------- */

/* Without pages of the system: into memory. */
static td_status *read_whole(td_file *f, size_t size, td_file_mapping *m) {
  char *at = td_malloc(size + 1);
  size_t got = 0;
  td_status *s = at ? td_file_read_at(f, 0, at, size, &got) : td_oom();
  if (td_ok(s) && got < size)
    s = td_error(TD_DATA_LOSS, "'%s' was cut short while it was read", f->path);
  if (!td_ok(s)) {
    td_free(at);
    return s;
  }
  *m = (td_file_mapping){at, size, NULL};
  return NULL;
}

/* A file of no size may be one whose size nobody knows, such as a pipe. */
static td_status *check_empty(td_file *f) {
  char first;
  size_t got;
  TD_TRY(td_file_read_at(f, 0, &first, 1, &got));
  if (got == 0) return NULL;
  return td_error(TD_FAILED_PRECONDITION,
                  "'%s' does not tell its size and cannot be mapped: read it",
                  f->path);
}

static td_status *map_open(td_file *f, td_file_mapping *m) {
  uint64_t size;
  TD_TRY(td_file_size(f, &size));
  if (size >= SIZE_MAX) return td_oom();
  if (size == 0) TD_TRY(check_empty(f));
  if (!f->fs->map || size == 0) return read_whole(f, (size_t)size, m);
  TD_TRY(td_file_enter("map", f->path));
  TD_TRY(f->fs->map(f->file, (size_t)size, &m->at));
  m->size = (size_t)size;
  m->fs = f->fs;
  return NULL;
}

td_status *td_file_map(const char *path, td_file_mapping *out) {
  td_file *f;
  *out = (td_file_mapping){0};
  TD_TRY(td_file_open(path, TD_FILE_READ, &f));
  td_status *s = map_open(f, out);
  s = td_status_first(s, td_file_close(f));
  if (!td_ok(s)) td_file_unmap(out);
  return s;
}

void td_file_unmap(td_file_mapping *m) {
  if (m->fs)
    m->fs->unmap(m->at, m->size);
  else
    td_free((void *)m->at);
  *m = (td_file_mapping){0};
}

/* ---- names --------------------------------------------------------------- */

td_status *td_file_rename(const char *from, const char *to) {
  const td_file_system *fs = td_file_system_of(from);
  if (fs != td_file_system_of(to))
    return td_error(TD_INVALID_ARGUMENT,
                    "cannot rename '%s' to '%s': these are two file systems; "
                    "copy it and remove the first",
                    from, to);
  TD_TRY(td_file_enter("rename", from));
  return fs->rename(from, to);
}

td_status *td_file_remove(const char *path) {
  TD_TRY(td_file_enter("remove", path));
  return td_file_system_of(path)->remove(path);
}

td_status *td_file_sync_folder(const char *path) {
  const td_file_system *fs = td_file_system_of(path);
  TD_TRY(td_file_enter("sync", path));
  return fs->sync_folder ? fs->sync_folder(path) : NULL;
}

td_status *td_file_lock_take(const char *path, td_file_lock **out) {
  const td_file_system *fs = td_file_system_of(path);
  *out = NULL;
  TD_TRY(td_file_enter("lock", path));
  if (!fs->lock)
    return td_error(TD_UNIMPLEMENTED, "cannot lock '%s': %s has no locks", path,
                    fs->prefix);
  td_file_lock *l = td_calloc(1, sizeof *l);
  if (!l) return td_oom();
  l->fs = fs;
  td_status *s = fs->lock(path, &l->lock);
  if (td_ok(s))
    *out = l;
  else
    td_free(l);
  return s;
}

void td_file_unlock(td_file_lock *lock) {
  if (!lock) return;
  lock->fs->unlock(lock->lock);
  td_free(lock);
}
