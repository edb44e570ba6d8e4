/* file_replace.h - a file written piece by piece that appears when it is whole.
 *
 *   td_file_replace_open(path, &r)        `path` is as it was ...
 *   td_file_replace_append(r, bytes, n)   ... as often as there are pieces
 *   td_file_replace_commit(r)             now it has what was appended
 *   td_file_replace_close(r)              without commit nothing has happened
 *
 * The pieces go to a file beside it, which is synced and takes the name by
 * rename; then the folder is synced, so that the name outlives a crash. Follows
 * links, to a file that is not there yet too, keeps the mode, refuses a folder.
 * A device, a pipe and a descriptor's name (/dev/stdout) are nothing that could
 * be replaced: pieces go there as they are appended, with no commit too.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FILE_REPLACE_H
#define TD_FILE_REPLACE_H

#include "engine/base/status.h"

TD_BEGIN

typedef struct td_file_replace td_file_replace;

/* Caller owns the result. */
td_status *td_file_replace_open(const char *path,
                                td_file_replace **out) TD_MUST_USE;
/* All n at the end, or an error, after which it takes no more. */
td_status *td_file_replace_append(td_file_replace *r, const void *bytes,
                                  size_t n) TD_MUST_USE;
/* Bytes appended so far. */
uint64_t td_file_replace_size(const td_file_replace *r);
/* Once, and last. */
td_status *td_file_replace_commit(td_file_replace *r) TD_MUST_USE;
/* Frees; removes what was not committed. NULL is ok. */
void td_file_replace_close(td_file_replace *r);

TD_END
#endif
