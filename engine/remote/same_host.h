/* same_host.h - may two processes use shared memory?
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SAME_HOST_H
#define TD_SAME_HOST_H

#include "engine/base/str.h"

TD_BEGIN

/* Appends a line of at most 255 printable bytes. Of two processes that show the
 * same, each may try to open the other's segments (segment_views.h): one kernel
 * since one start, one table of processes, the same user, whom the kernel lets
 * look into the other. What only opening shows (a security module's rules) is
 * not in it. A process for which this cannot be says something that nobody else
 * says. */
void td_same_host_text(td_str *out);

TD_END
#endif
