/* file_stream.h - open files, of any file system: ranges, appending, locks.
 *
 * A path names its file system (file_system.h). Every call passes the counted
 * door of file_fault.h. One thread at a time uses a td_file; reads of one may be
 * many at once. td_file_read and td_file_write (file.h) are for whole files.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FILE_STREAM_H
#define TD_FILE_STREAM_H

#include "engine/base/file_system.h"

TD_BEGIN

typedef struct td_file td_file;

td_status *td_file_open(const char *path, td_file_mode mode,
                        td_file **out) TD_MUST_USE;
/* Writes what is held, closes and frees, whatever it returns: the first error
 * of a write is told here once more. NULL is ok. */
td_status *td_file_close(td_file *f) TD_MUST_USE;
/* Bytes now, those held among them; 0 where none is known (a pipe). */
td_status *td_file_size(td_file *f, uint64_t *bytes) TD_MUST_USE;
/* n bytes from offset; fewer only at the end of the file. What is no file on a
 * disk is read in order, as many at once as there are, none at its end: that
 * may wait (file_stop.h). */
td_status *td_file_read_at(td_file *f, uint64_t offset, void *to, size_t n,
                           size_t *got) TD_MUST_USE;
/* All n, or an error, after which the file takes no more. Small pieces are held
 * until there is enough to write. */
td_status *td_file_append(td_file *f, const void *bytes, size_t n) TD_MUST_USE;
/* Others see what was appended. */
td_status *td_file_flush(td_file *f) TD_MUST_USE;
/* It outlives a crash, too. */
td_status *td_file_sync(td_file *f) TD_MUST_USE;
/* What was appended is on its way to the disk when this returns: between pieces
 * of a large file it makes td_file_sync short. */
void td_file_start_sync(td_file *f);

/* A whole file, read only. Who cuts the file short meanwhile crashes whoever
 * reads behind its end. */
typedef struct td_file_mapping {
  const void *at; /* never NULL while mapped */
  size_t size;
  const td_file_system *fs; /* private: whose unmap; NULL: memory */
} td_file_mapping;

/* Caller owns the mapping, until td_file_unmap. */
td_status *td_file_map(const char *path, td_file_mapping *out) TD_MUST_USE;
void td_file_unmap(td_file_mapping *m);

/* `to` is what was there before or all of `from`: never half, never neither. */
td_status *td_file_rename(const char *from, const char *to) TD_MUST_USE;
td_status *td_file_remove(const char *path) TD_MUST_USE;
/* Names made, changed and removed in the folder outlive a crash. */
td_status *td_file_sync_folder(const char *path) TD_MUST_USE;

typedef struct td_file_lock td_file_lock;

/* Alone with the path among those who ask, until td_file_unlock or the end of
 * the process; makes an empty file of that name. UNAVAILABLE at once, with the
 * holder's process where it is known, while another has it. */
td_status *td_file_lock_take(const char *path, td_file_lock **out) TD_MUST_USE;
void td_file_unlock(td_file_lock *lock);

TD_END
#endif
