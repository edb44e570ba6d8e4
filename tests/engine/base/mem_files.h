/* mem_files.h - a file system in memory, "mem://": for tests.
 *
 * mem_files_crash is what a crash does to a disk: what was not synced is lost.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_MEM_FILES_H
#define TEST_MEM_FILES_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/file_stream.h"

enum { MEM_FILES = 16, MEM_BYTES = 1 << 18 };

typedef struct mem_file {
  char name[64]; /* "": free */
  char *bytes;
  size_t len, safe; /* what there is; what a crash leaves of it */
} mem_file;

static mem_file mem_files[MEM_FILES]; /* under the mutex */
static pthread_mutex_t mem_mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static inline int mem_lock(void) {
  return pthread_mutex_lock(&mem_mutex);
}

static inline void mem_unlock(int *locked) {
  (void)locked;
  pthread_mutex_unlock(&mem_mutex);
}

/* The first line of who looks at them: to the end of the block. */
#define MEM_LOCKED                                                             \
  __attribute__((cleanup(mem_unlock), unused)) int mem_locked = mem_lock()

static inline mem_file *mem_find(const char *name) {
  for (int i = 0; i < MEM_FILES; i++)
    if (strcmp(mem_files[i].name, name) == 0) return &mem_files[i];
  return NULL;
}

static td_status *mem_missing(const char *path) {
  return td_error(TD_NOT_FOUND, "'%s' is not there", path);
}

static td_status *mem_open(const char *path, td_file_mode mode, void **file) {
  MEM_LOCKED;
  mem_file *m = mem_find(path);
  if (m && mode == TD_FILE_CREATE)
    return td_error(TD_ALREADY_EXISTS, "'%s' is there", path);
  if (!m && mode == TD_FILE_READ) return mem_missing(path);
  if (!m) {
    m = mem_find("");
    if (!m) return td_error(TD_RESOURCE_EXHAUSTED, "'%s': full", path);
    snprintf(m->name, sizeof m->name, "%s", path);
    m->bytes = malloc(MEM_BYTES);
    m->len = m->safe = 0;
  }
  if (mode == TD_FILE_WRITE) m->len = 0;
  *file = m;
  return NULL;
}

static td_status *mem_close(void *file) {
  (void)file;
  return NULL;
}

static td_status *mem_read(void *file, uint64_t offset, void *to, size_t n,
                           size_t *got) {
  MEM_LOCKED;
  mem_file *m = file;
  *got = offset < m->len ? m->len - offset : 0;
  if (*got > n) *got = n;
  if (*got) memcpy(to, m->bytes + offset, *got);
  return NULL;
}

static td_status *mem_append(void *file, const void *bytes, size_t n) {
  MEM_LOCKED;
  mem_file *m = file;
  if (n > MEM_BYTES - m->len)
    return td_error(TD_RESOURCE_EXHAUSTED, "'%s' is full", m->name);
  memcpy(m->bytes + m->len, bytes, n);
  m->len += n;
  return NULL;
}

static td_status *mem_size(void *file, uint64_t *bytes) {
  MEM_LOCKED;
  *bytes = ((mem_file *)file)->len;
  return NULL;
}

static td_status *mem_sync(void *file) {
  MEM_LOCKED;
  mem_file *m = file;
  m->safe = m->len;
  return NULL;
}

static td_status *mem_remove(const char *path) {
  MEM_LOCKED;
  mem_file *m = mem_find(path);
  if (!m) return mem_missing(path);
  free(m->bytes);
  *m = (mem_file){.len = 0};
  return NULL;
}

static td_status *mem_rename(const char *from, const char *to) {
  MEM_LOCKED;
  mem_file *m = mem_find(from);
  if (!m) return mem_missing(from);
  td_status_release(mem_remove(to));
  snprintf(m->name, sizeof m->name, "%s", to);
  return NULL;
}

static bool mem_exists(const char *path) {
  MEM_LOCKED;
  return mem_find(path) != NULL;
}

static td_status *mem_make_folders(const char *path) {
  (void)path;
  return NULL;
}

static td_status *mem_list(const char *path, td_str *names) {
  MEM_LOCKED;
  size_t n = strlen(path);
  for (int i = 0; i < MEM_FILES; i++)
    if (strncmp(mem_files[i].name, path, n) == 0 && mem_files[i].name[n])
      td_str_addn(names, mem_files[i].name + n,
                  strlen(mem_files[i].name + n) + 1);
  return NULL;
}

/* What was not synced is gone. */
static inline void mem_files_crash(void) {
  MEM_LOCKED;
  for (int i = 0; i < MEM_FILES; i++) mem_files[i].len = mem_files[i].safe;
}

static inline void mem_files_clear(void) {
  MEM_LOCKED;
  for (int i = 0; i < MEM_FILES; i++)
    if (mem_files[i].name[0])
      td_status_release(mem_remove(mem_files[i].name));
}

static const td_file_system mem_file_system = {
    .prefix = "mem://",
    .open = mem_open,
    .close = mem_close,
    .read = mem_read,
    .append = mem_append,
    .size = mem_size,
    .sync = mem_sync,
    .rename = mem_rename,
    .remove = mem_remove,
    .exists = mem_exists,
    .make_folders = mem_make_folders,
    .list = mem_list,
};

/* For fuzz targets: the file and no other; false when it is too large. */
static inline bool mem_files_only(const char *path, const void *bytes,
                                  size_t n) {
  static bool known;
  td_file *f;
  if (!known) td_status_release(td_file_system_register(&mem_file_system));
  known = true;
  mem_files_clear();
  if (n > MEM_BYTES || td_file_open(path, TD_FILE_WRITE, &f)) return false;
  return !td_file_append(f, bytes, n) && !td_file_close(f);
}

#endif
