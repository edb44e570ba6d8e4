/* file_claim.h - a file that says who writes here, so that nobody else does.
 *
 * A claim is a file that names host, boot, process and the process's start; it
 * is there while the claim is held, on any file system that more than one host
 * may see. One that a dead process or an earlier boot of this host left is taken
 * over. Another host's is not: from here nobody can tell whether that process
 * lives.
 *
 * Where the file system has locks the file is locked as well. Who can lock it
 * judges alone, so that of two who would take over one does.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FILE_CLAIM_H
#define TD_FILE_CLAIM_H

#include "engine/base/status.h"

TD_BEGIN

typedef struct td_file_claim td_file_claim;

/* UNAVAILABLE at once while another has the path, in this process or elsewhere:
 * the message names it and says what helps. Caller owns the result. */
td_status *td_file_claim_take(const char *path, td_file_claim **out) TD_MUST_USE;
/* Removes the file and frees. A forked child has no claim of its parent's: it
 * only frees. NULL is ok. */
void td_file_claim_release(td_file_claim *c);

TD_END
#endif
