/* log.h - what the kernel says to whoever started it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_JUPYTER_LOG_H
#define TD_JUPYTER_LOG_H

#include "engine/base/status.h"

/* Writes a line on the process's own stderr; any thread. */
void td_jupyter_log(const char *fmt, ...) TD_PRINTF(1, 2);
/* Says that a message was dropped, and why; a flood is said in few words. Takes
 * ownership of `why`. */
void td_jupyter_log_dropped(td_status *why);
/* That stderr is now this descriptor, since the notebook has taken 2. */
void td_jupyter_log_to(int fd);

#endif
