/* matching.h - the files whose paths fit a pattern.
 *
 * In a pattern * is any bytes of a name, ? one, [a-z] one of a range; none is a
 * slash. What follows a \ stands for itself. Hidden names are not found.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_MATCHING_H
#define TD_MATCHING_H

#include "engine/base/status.h"
#include "engine/base/str.h"
#include "engine/base/vec.h"

TD_BEGIN

typedef TD_VEC(char *) td_paths;

void td_paths_free(td_paths *p);
/* Appends the paths that are there, of any file system (file_system.h). One
 * without a wildcard is found when it is there; folders are found too. */
td_status *td_matching_files(const char *pattern, td_paths *out) TD_MUST_USE;
/* By their bytes. */
void td_paths_sort(td_paths *p);

TD_END
#endif
