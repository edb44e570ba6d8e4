/* limits.c - are there descriptors enough?
 *
 * ZeroMQ ends the process when it gets none for a socket of its own, and takes
 * no connection when it gets none for that: a kernel then runs and never
 * answers. So they are counted before. A kernel takes 33 and each client five
 * more; what is left is the cells'.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "jupyter/limits.h"

#include <fcntl.h>
#include <sys/resource.h>

enum {
  LEAST = 56, /* without the three streams and what the parent left open */
  PLENTY = 1024
};

/* Many programs cannot work with numbers beyond PLENTY, so children get none.
 */
static rlim_t raise_limit(void) {
  struct rlimit l;
  if (getrlimit(RLIMIT_NOFILE, &l) != 0) return RLIM_INFINITY;
  if (l.rlim_cur >= PLENTY) return l.rlim_cur;
  l.rlim_cur = l.rlim_max < PLENTY ? l.rlim_max : PLENTY;
  setrlimit(RLIMIT_NOFILE, &l);
  getrlimit(RLIMIT_NOFILE, &l);
  return l.rlim_cur;
}

static int count_free(rlim_t limit) {
  int n = 0;
  for (int fd = 0; (rlim_t)fd < limit && n < LEAST; fd++)
    n += fcntl(fd, F_GETFD) < 0;
  return n;
}

td_status *td_jupyter_limits_check(void) {
  rlim_t limit = raise_limit();
  int n = count_free(limit);
  if (n >= LEAST) return NULL;
  return td_error(TD_RESOURCE_EXHAUSTED,
                  "a kernel needs %d file descriptors, %d are left of the %llu "
                  "that the limit allows; raise it with `ulimit -n %d`",
                  LEAST, n, (unsigned long long)limit, PLENTY);
}
