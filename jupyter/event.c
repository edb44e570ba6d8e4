/* event.c - what wakes a thread that polls sockets: an eventfd.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "jupyter/event.h"

#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

int td_jupyter_event_open(void) {
  return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}

void td_jupyter_event_set(int fd) {
  uint64_t one = 1;
  ssize_t n = write(fd, &one, sizeof one);
  (void)n; /* it can only fail where it is set already */
}

bool td_jupyter_event_clear(int fd) {
  uint64_t count;
  return read(fd, &count, sizeof count) > 0;
}
