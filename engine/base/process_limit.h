/* process_limit.h - how much memory the process may take, and how it ends when a
 * library cannot live with that.
 *
 * For who serves others. Beyond the limit malloc says no, which is an error of
 * whoever asked, long before the kernel would kill the process or another one of
 * the machine. Some libraries abort then: that becomes a message and an exit
 * code of its own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROCESS_LIMIT_H
#define TD_PROCESS_LIMIT_H

#include "engine/base/base.h"

TD_BEGIN

enum { TD_EXIT_MEMORY = 71 }; /* of a process whose memory was used up */

/* From now on, for good: of private memory, used or not, at most so much. Nothing
 * when a lower limit is there, or more is taken already (as a sanitizer does).
 * False: there is none. */
bool td_process_limit_set(size_t bytes);

TD_END
#endif
