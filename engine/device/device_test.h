/* device_test.h - what a test may ask of the test device beyond any other.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DEVICE_TEST_H
#define TD_DEVICE_TEST_H

#include "engine/base/fault.h"
#include "engine/device/device.h"

TD_BEGIN

/* Doors that a test can shut for the n-th call (fault.h). */
typedef struct td_device_test_faults {
  td_fault enqueue;  /* a kernel is taken: its `done` gets the error at once */
  td_fault copy;     /* a copy, also inside the device, ends in an error */
  td_fault complete; /* a kernel that ran turns out to have failed */
} td_device_test_faults;

/* Borrowed; valid while `d` lives. */
td_device_test_faults *td_device_test_doors(td_device *d);
/* The longest delay from now on, in ns, before one piece of work in four; drawn
 * evenly below. New devices: $TIDE_TEST_DELAY in microseconds, else 100. */
void td_device_test_delay(td_device *d, int64_t most);

typedef struct td_device_test_counts {
  int64_t promised; /* kernels that were done when they were enqueued */
  int64_t whole;    /* kernels that were done when they were complete */
  int64_t waits;    /* how often a stream waited for another */
  int64_t reused;   /* blocks handed on in stream order, before the event */
  int64_t peers;    /* copies out of another device's memory */
} td_device_test_counts;

td_device_test_counts td_device_test_count(td_device *d);

TD_END
#endif
