/* entropy.c - the system's entropy.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/entropy.h"

#include <errno.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/philox.h"

uint64_t td_entropy(void) {
  uint64_t x;
  ssize_t n;
  do n = getrandom(&x, sizeof x, 0);
  while (n < 0 && errno == EINTR);
  if (n == (ssize_t)sizeof x) return x;
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  x = (uint64_t)t.tv_nsec << 32 ^ (uint64_t)t.tv_sec ^ (uint64_t)getpid() << 48;
  td_philox p;
  uint32_t out[4];
  td_philox_init(&p, x, (uintptr_t)&x);
  td_philox_next(&p, out);
  return (uint64_t)out[1] << 32 | out[0];
}
