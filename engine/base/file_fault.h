/* file_fault.h - the counted door of file operations, and their errors.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FILE_FAULT_H
#define TD_FILE_FAULT_H

#include "engine/base/status.h"

TD_BEGIN

/* Makes the n-th file operation from now fail with UNAVAILABLE; 0 ends it. */
void td_file_fail(int64_t nth, bool for_ever);
int64_t td_file_calls(void);

/* Before each operation: the error that a test asked for, if any. */
td_status *td_file_enter(const char *doing, const char *path) TD_MUST_USE;
/* "cannot DOING 'PATH': what errno `err` means", and what helps against it. */
td_status *td_file_error(const char *doing, const char *path, int err);

TD_END
#endif
