/* limits.h - what the system must grant a kernel before it starts.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_JUPYTER_LIMITS_H
#define TD_JUPYTER_LIMITS_H

#include "engine/base/status.h"

/* Raises the limit of open files where it is low and may be raised. An error
 * that names the limit when too few descriptors are left for the sockets. */
td_status *td_jupyter_limits_check(void) TD_MUST_USE;

#endif
