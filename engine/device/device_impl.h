/* device_impl.h - what the devices of this folder share.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DEVICE_IMPL_H
#define TD_DEVICE_IMPL_H

#include "engine/device/device.h"

/* Name, type, number and incarnation of a new device that runs the CPU's
 * kernels; one reference. */
td_status *td_device_describe(td_device *d, const char *place, const char *type,
                              int index) TD_MUST_USE;
void td_device_forget(td_device *d); /* frees what describe made */

#endif
