/* logged_files.h - a file system in memory, "log://", that keeps a log, and what
 * a crash at any moment may leave of it.
 *
 * What is synced is there. Of what is written and not synced each sector may be
 * there or not, whichever came first; of names made, changed and removed in a
 * folder that is not synced each change may be, by itself. A changed name is
 * one act. A missing sector is zeros.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_LOGGED_FILES_H
#define TEST_LOGGED_FILES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file_stream.h"

enum { LOGGED_NAMES = 48, LOGGED_FILES = 2048, LOGGED_SECTOR = 512 };

typedef struct logged_file {
  char *bytes;
  size_t len;
} logged_file;

/* What a disk holds. A file is the same in all of them by its number. */
typedef struct logged_disk {
  struct {
    char path[96]; /* "": free */
    int file;
  } names[LOGGED_NAMES];
  logged_file files[LOGGED_FILES];
  int n_files;
} logged_disk;

typedef enum logged_kind {
  LOGGED_WRITE,  /* at the end of a file */
  LOGGED_EMPTY,  /* a file is emptied */
  LOGGED_SYNC,   /* a file */
  LOGGED_NAME,   /* a file gets the name `to`, and loses `from` */
  LOGGED_REMOVE, /* the name `from` */
  LOGGED_FOLDER, /* `to` is synced */
  LOGGED_MARK,   /* `value` is what must be there from now on */
} logged_kind;

typedef struct logged_event {
  logged_kind kind;
  int file;
  char *bytes;
  size_t at, len;
  char from[96], to[96];
  int64_t value;
  bool done; /* while a state is made: it is there */
} logged_event;

static logged_disk logged_now; /* what the calls see */
static logged_event *logged_events;
static size_t logged_count;
static bool logged_stopped; /* a state is looked at: nothing is logged */

/* ---- disks --------------------------------------------------------------- */

static inline int logged_find(const logged_disk *d, const char *path) {
  for (int i = 0; i < LOGGED_NAMES; i++)
    if (strcmp(d->names[i].path, path) == 0) return i;
  return -1;
}

static inline void logged_unname(logged_disk *d, const char *path) {
  int i = *path ? logged_find(d, path) : -1;
  if (i >= 0) d->names[i].path[0] = '\0';
}

static inline void logged_name(logged_disk *d, const char *path, int file) {
  logged_unname(d, path);
  int i = logged_find(d, "");
  if (i < 0) abort();
  snprintf(d->names[i].path, sizeof d->names[i].path, "%s", path);
  d->names[i].file = file;
}

/* Writes bytes at a place; zeros come before it where there was nothing. */
static inline void logged_put(logged_file *f, size_t at, const char *bytes,
                              size_t len) {
  if (at + len > f->len) {
    f->bytes = realloc(f->bytes, at + len);
    memset(f->bytes + f->len, 0, at + len - f->len);
    f->len = at + len;
  }
  if (len) memcpy(f->bytes + at, bytes, len);
}

static inline void logged_clear(logged_disk *d) {
  for (int i = 0; i < LOGGED_FILES; i++) free(d->files[i].bytes);
  *d = (logged_disk){.n_files = 0};
}

static inline logged_event *logged_add(logged_kind kind) {
  static logged_event unused;
  if (logged_stopped) return &unused;
  logged_events =
      realloc(logged_events, (logged_count + 1) * sizeof *logged_events);
  logged_event *e = &logged_events[logged_count++];
  *e = (logged_event){.kind = kind};
  return e;
}

static inline void logged_mark(int64_t value) {
  logged_add(LOGGED_MARK)->value = value;
}

/* ---- the file system ----------------------------------------------------- */

static td_status *logged_missing(const char *path) {
  return td_error(TD_NOT_FOUND, "'%s' is not there", path);
}

static void logged_note_name(const char *from, const char *to, int file) {
  logged_event *e = logged_add(LOGGED_NAME);
  snprintf(e->from, sizeof e->from, "%s", from);
  snprintf(e->to, sizeof e->to, "%s", to);
  e->file = file;
}

/* A file is handed out as its number + 1. */
static td_status *logged_open(const char *path, td_file_mode mode,
                              void **file) {
  logged_disk *d = &logged_now;
  int i = logged_find(d, path);
  if (i >= 0 && mode == TD_FILE_CREATE)
    return td_error(TD_ALREADY_EXISTS, "'%s' is there", path);
  if (i < 0 && mode == TD_FILE_READ) return logged_missing(path);
  int number = i < 0 ? d->n_files++ : d->names[i].file;
  if (number >= LOGGED_FILES) abort();
  if (i < 0) {
    logged_name(d, path, number);
    logged_note_name("", path, number);
  } else if (mode == TD_FILE_WRITE) {
    d->files[number].len = 0;
    logged_add(LOGGED_EMPTY)->file = number;
  }
  *file = (void *)(intptr_t)(number + 1);
  return NULL;
}

static td_status *logged_close(void *file) {
  (void)file;
  return NULL;
}

static int logged_number(void *file) {
  return (int)(intptr_t)file - 1;
}

static td_status *logged_read(void *file, uint64_t offset, void *to, size_t n,
                              size_t *got) {
  const logged_file *f = &logged_now.files[logged_number(file)];
  *got = offset < f->len ? f->len - offset : 0;
  if (*got > n) *got = n;
  if (*got) memcpy(to, f->bytes + offset, *got);
  return NULL;
}

static td_status *logged_append(void *file, const void *bytes, size_t n) {
  logged_file *f = &logged_now.files[logged_number(file)];
  logged_event *e = logged_add(LOGGED_WRITE);
  e->file = logged_number(file);
  e->at = f->len;
  e->len = n;
  if (!logged_stopped) {
    e->bytes = malloc(n);
    memcpy(e->bytes, bytes, n);
  }
  logged_put(f, f->len, bytes, n);
  return NULL;
}

static td_status *logged_size(void *file, uint64_t *bytes) {
  *bytes = logged_now.files[logged_number(file)].len;
  return NULL;
}

static td_status *logged_sync(void *file) {
  logged_add(LOGGED_SYNC)->file = logged_number(file);
  return NULL;
}

static td_status *logged_remove(const char *path) {
  if (logged_find(&logged_now, path) < 0) return logged_missing(path);
  logged_unname(&logged_now, path);
  snprintf(logged_add(LOGGED_REMOVE)->from, 96, "%s", path);
  return NULL;
}

static td_status *logged_rename(const char *from, const char *to) {
  int i = logged_find(&logged_now, from);
  if (i < 0) return logged_missing(from);
  int file = logged_now.names[i].file;
  logged_unname(&logged_now, from);
  logged_name(&logged_now, to, file);
  logged_note_name(from, to, file);
  return NULL;
}

/* Folders are where a name begins with them. */
static bool logged_exists(const char *path) {
  size_t n = strlen(path);
  if (strcmp(path, "log://") == 0) return true;
  for (int i = 0; i < LOGGED_NAMES; i++) {
    const char *name = logged_now.names[i].path;
    if (strncmp(name, path, n) == 0 && (!name[n] || name[n] == '/'))
      return true;
  }
  return false;
}

static td_status *logged_make_folders(const char *path) {
  (void)path;
  return NULL;
}

static td_status *logged_list(const char *path, td_str *names) {
  size_t n = strlen(path);
  for (int i = 0; i < LOGGED_NAMES; i++) {
    const char *name = logged_now.names[i].path;
    if (strncmp(name, path, n) != 0 || !name[n]) continue;
    name += name[n] == '/' ? n + 1 : n;
    if (!strchr(name, '/')) td_str_addn(names, name, strlen(name) + 1);
  }
  return NULL;
}

static td_status *logged_sync_folder(const char *path) {
  snprintf(logged_add(LOGGED_FOLDER)->to, 96, "%s", path);
  return NULL;
}

/* One process: it is never refused, and makes the file. */
static td_status *logged_lock(const char *path, void **lock) {
  *lock = NULL;
  return logged_open(path, TD_FILE_APPEND, lock);
}

static void logged_unlock(void *lock) {
  (void)lock;
}

static const td_file_system logged_file_system = {
    .prefix = "log://",
    .open = logged_open,
    .close = logged_close,
    .read = logged_read,
    .append = logged_append,
    .size = logged_size,
    .sync = logged_sync,
    .rename = logged_rename,
    .remove = logged_remove,
    .exists = logged_exists,
    .make_folders = logged_make_folders,
    .list = logged_list,
    .sync_folder = logged_sync_folder,
    .lock = logged_lock,
    .unlock = logged_unlock,
};

/* ---- states -------------------------------------------------------------- */

/* What becomes of that which is not synced. */
typedef enum logged_fate {
  LOGGED_LOST,
  LOGGED_KEPT,
  LOGGED_DATA_ONLY,  /* written, no name changed */
  LOGGED_NAMES_ONLY, /* names changed, nothing written */
  LOGGED_DRAWN,      /* each by itself */
} logged_fate;

static inline bool logged_in(const char *path, const char *folder) {
  size_t n = strlen(folder);
  if (strncmp(path, folder, n) != 0) return false;
  path += n + (path[n] == '/');
  return !strchr(path, '/');
}

static inline void logged_apply(logged_disk *d, logged_event *e) {
  if (e->done) return;
  e->done = true;
  if (e->kind == LOGGED_WRITE)
    logged_put(&d->files[e->file], e->at, e->bytes, e->len);
  if (e->kind == LOGGED_EMPTY) d->files[e->file].len = 0;
  if (e->kind == LOGGED_NAME || e->kind == LOGGED_REMOVE)
    logged_unname(d, e->from);
  if (e->kind == LOGGED_NAME) logged_name(d, e->to, e->file);
}

/* Some sectors of a write. */
static inline void logged_tear(logged_disk *d, logged_event *e,
                               unsigned *seed) {
  unsigned keep = (unsigned)rand_r(seed) % 5; /* of 4; 4: up to some byte */
  size_t end = (size_t)rand_r(seed) % (e->len + 1);
  for (size_t at = 0; at < e->len; at += LOGGED_SECTOR) {
    size_t n = e->len - at < LOGGED_SECTOR ? e->len - at : LOGGED_SECTOR;
    if (keep == 4 ? at + n > end : (unsigned)rand_r(seed) % 4 >= keep) continue;
    logged_put(&d->files[e->file], e->at + at, e->bytes + at, n);
  }
}

/* What a sync makes safe, of the events before it. */
static inline void logged_secure(logged_disk *d, size_t sync) {
  const logged_event *s = &logged_events[sync];
  for (size_t i = 0; i < sync; i++) {
    logged_event *e = &logged_events[i];
    bool data = e->kind == LOGGED_WRITE || e->kind == LOGGED_EMPTY;
    bool name = e->kind == LOGGED_NAME || e->kind == LOGGED_REMOVE;
    const char *path = e->kind == LOGGED_REMOVE ? e->from : e->to;
    if (s->kind == LOGGED_SYNC ? data && e->file == s->file
                               : name && logged_in(path, s->to))
      logged_apply(d, e);
  }
}

/* Makes of logged_now what a crash after the first n events may leave; the value
 * of the last mark among them. */
static inline int64_t logged_crash(size_t n, logged_fate fate, unsigned seed) {
  int64_t mark = 0;
  logged_disk *d = &logged_now;
  logged_clear(d);
  for (size_t i = 0; i < logged_count; i++) {
    logged_event *e = &logged_events[i];
    e->done = false;
    if (e->file >= d->n_files) d->n_files = e->file + 1;
  }
  for (size_t i = 0; i < n; i++) {
    logged_kind kind = logged_events[i].kind;
    if (kind == LOGGED_MARK) mark = logged_events[i].value;
    if (kind == LOGGED_SYNC || kind == LOGGED_FOLDER) logged_secure(d, i);
  }
  for (size_t i = 0; i < n; i++) {
    logged_event *e = &logged_events[i];
    bool data = e->kind == LOGGED_WRITE || e->kind == LOGGED_EMPTY;
    if (fate == LOGGED_DRAWN && e->kind == LOGGED_WRITE && !e->done)
      logged_tear(d, e, &seed);
    else if (fate == LOGGED_DRAWN ? rand_r(&seed) % 2
                                  : fate == LOGGED_KEPT ||
                                        (fate == LOGGED_DATA_ONLY) == data)
      if (fate != LOGGED_LOST) logged_apply(d, e);
  }
  return mark;
}

#endif
