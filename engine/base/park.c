/* park.c - sleeping by futex, on the monotonic clock.
 *
 * The kernel compares the word and sleeps in one act, so that a change between
 * our look and our sleep is not missed. The moment is absolute: being woken for
 * nothing costs no drift, and nobody who sets the wall clock is heard.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/park.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"

void td_park(const int32_t *word, int32_t seen, int64_t until_ns) {
  enum { SECOND = 1000000000 };
  int64_t at = until_ns == INT64_MAX ? 0 : td_clock_alarm(until_ns);
  struct timespec t = {(time_t)(at / SECOND), (long)(at % SECOND)};
  syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, seen,
          until_ns == INT64_MAX ? NULL : &t, NULL, FUTEX_BITSET_MATCH_ANY);
}

void td_unpark(const int32_t *word) {
  int was = errno; /* of the code that a signal handler interrupted */
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
  errno = was;
}
