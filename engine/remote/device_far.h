/* device_far.h - a device of another process.
 *
 * Nodes are placed on it by its name and by the kernels that it says it has;
 * nothing of it is touched here.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DEVICE_FAR_H
#define TD_DEVICE_FAR_H

#include "engine/device/device.h"

TD_BEGIN

typedef struct td_far_device {
  const char *name;    /* "/job:worker/replica:0/task:1/device:CPU:0" */
  const char *type, *kernels;
  uint64_t incarnation;
  size_t memory; /* its limit, bytes; 0: unknown */
  bool host;     /* its memory is host memory there */
  struct td_kernel_table *table; /* retained; NULL: it has what we have */
} td_far_device;

/* Copies. Caller owns the result. */
td_status *td_device_far_new(const td_far_device *from,
                             td_device **out) TD_MUST_USE;

/* Another of the same name and incarnation: a session has its own, which it
 * marks when it is gone. Caller owns the result. */
td_status *td_device_far_copy(const td_device *d, td_device **out) TD_MUST_USE;

TD_END
#endif
