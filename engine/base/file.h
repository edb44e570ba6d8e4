/* file.h - whole files and appending, with a seam for tests.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FILE_H
#define TD_FILE_H

#include "engine/base/file_fault.h"
#include "engine/base/str.h"

TD_BEGIN

/* Reads a whole file of at most `limit` bytes. Caller owns *bytes (td_free),
 * which carries one NUL beyond *len. */
td_status *td_file_read(const char *path, size_t limit, char **bytes,
                        size_t *len) TD_MUST_USE;
/* Writes beside, syncs, renames: a reader sees the old file or the new. Follows
 * a link, keeps the mode, refuses what is no regular file. */
td_status *td_file_write(const char *path, const void *bytes,
                         size_t len) TD_MUST_USE;
bool td_file_exists(const char *path);
/* mkdir -p */
td_status *td_file_mkdirs(const char *path) TD_MUST_USE;
/* Makes an empty file or a folder under a name of its own in $TMPDIR, or in
 * /tmp where that is no path from the root or too long for a path of `most`
 * bytes. Its path is put into `path`; the caller removes it. */
td_status *td_file_temp(const char *suffix, td_str *path) TD_MUST_USE;
td_status *td_file_temp_dir(size_t most, td_str *path) TD_MUST_USE;
/* Appends the names in a folder, each with its NUL, in no order; not "." and
 * ".." and other hidden ones. */
td_status *td_file_list(const char *path, td_str *names) TD_MUST_USE;
/* gunzips `in`; refuses more than `limit` bytes. Caller owns *out. */
td_status *td_file_gunzip(const void *in, size_t len, size_t limit, char **out,
                          size_t *out_len) TD_MUST_USE;

TD_END
#endif
