/* file_system.h - who serves a path: the local disk, or another by its prefix.
 *
 * A file system is a table of functions and a prefix such as "mem://". Paths
 * that begin with it are its own, and given to it whole; a path that begins
 * with no registered prefix is the local disk's (td_file_disk). An op library
 * brings file systems in its record; they are registered when it is opened and
 * stay.
 *
 * All functions are called on any thread, several at once for different files.
 * They return errors that name the path; td_file_* (file_stream.h) count them,
 * buffer writes and check bounds.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FILE_SYSTEM_H
#define TD_FILE_SYSTEM_H

#include "engine/base/status.h"
#include "engine/base/str.h"

TD_BEGIN

typedef enum td_file_mode {
  TD_FILE_READ,   /* from anywhere; the file is there */
  TD_FILE_APPEND, /* at the end; made when it is not there */
  TD_FILE_WRITE,  /* the same, emptied first */
  TD_FILE_CREATE  /* the same; ALREADY_EXISTS when it is there */
} td_file_mode;

/* Optional functions are NULL. */
typedef struct td_file_system {
  const char *prefix; /* with "://"; NULL: the disk */
  /* Caller owns *file, to be closed once, whatever close returns. */
  td_status *(*open)(const char *path, td_file_mode mode, void **file);
  td_status *(*close)(void *file);
  /* n bytes from offset, *got of them; fewer at the end only, or where they come
   * one after the other: then at least one, until the end. Who waits for a
   * descriptor does so by td_file_stop_wait (file_stop.h). */
  td_status *(*read)(void *file, uint64_t offset, void *to, size_t n,
                     size_t *got);
  /* All n at the end, or an error. */
  td_status *(*append)(void *file, const void *bytes, size_t n);
  td_status *(*size)(void *file, uint64_t *bytes); /* 0 where none is known */
  /* Returns when what was appended outlives a crash. */
  td_status *(*sync)(void *file);
  /* (optional) The whole file, read only; *at is released by unmap. Without it
   * the file is read into memory. */
  td_status *(*map)(void *file, size_t size, const void **at);
  void (*unmap)(const void *at, size_t size);
  /* In one act: `to` is what was there before or is `from`. */
  td_status *(*rename)(const char *from, const char *to);
  td_status *(*remove)(const char *path); /* a file, or an empty folder */
  bool (*exists)(const char *path);
  td_status *(*make_folders)(const char *path); /* as mkdir -p */
  td_status *(*list)(const char *path, td_str *names); /* as td_file_list */
  /* (optional) Returns when names in the folder outlive a crash. */
  td_status *(*sync_folder)(const char *path);
  /* (optional) Alone with the path, or UNAVAILABLE at once. Caller owns *lock,
   * until unlock. */
  td_status *(*lock)(const char *path, void **lock);
  void (*unlock)(void *lock);
  /* (optional) A hint: what was appended may go to the disk now, so that a later
   * sync has less to wait for. */
  void (*start_sync)(void *file);
} td_file_system;

extern const td_file_system td_file_disk; /* the local disk */

/* `fs` lives for ever. ALREADY_EXISTS when another has the prefix. */
td_status *td_file_system_register(const td_file_system *fs) TD_MUST_USE;
/* Whose the path is; never NULL. */
const td_file_system *td_file_system_of(const char *path);

TD_END
#endif
