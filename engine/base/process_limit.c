/* process_limit.c - see process_limit.h.
 *
 * The limit is the kernel's (RLIMIT_DATA). An abort counts as want of memory
 * when an eighth or less of it is left: who asks for much is refused before all
 * is gone. The handler calls only what may be called there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/process_limit.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static size_t most; /* bytes, written before the handler is there */
static size_t page;

/* The sixth number of /proc/self/statm is pages of data; 0: nobody knows. */
static size_t taken(void) {
  char text[256];
  int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  ssize_t n = fd >= 0 ? read(fd, text, sizeof text) : -1;
  size_t pages = 0;
  int word = 0;
  if (fd >= 0) close(fd);
  for (ssize_t i = 0; i < n && word <= 5; i++) {
    if (text[i] == ' ')
      word++;
    else if (word == 5 && text[i] >= '0' && text[i] <= '9')
      pages = pages * 10 + (size_t)(text[i] - '0');
  }
  return pages * page;
}

static void on_abort(int number) {
  static const char words[] =
      "tide: the memory that this process may take is used up, and a library "
      "cannot go on without: it ends with exit code 71\n";
  size_t now = taken();
  if (now > 0 && now >= most - most / 8) {
    (void)!write(STDERR_FILENO, words, sizeof words - 1);
    _exit(TD_EXIT_MEMORY);
  }
  signal(number, SIG_DFL); /* abort raises it once more */
}

bool td_process_limit_set(size_t bytes) {
  struct rlimit l;
  struct sigaction act;
  page = (size_t)sysconf(_SC_PAGESIZE);
  if (getrlimit(RLIMIT_DATA, &l) || taken() == 0 || taken() >= bytes)
    return false;
  if (bytes > l.rlim_max) bytes = l.rlim_max;
  if (l.rlim_cur > bytes) l.rlim_cur = bytes;
  most = l.rlim_cur;
  if (setrlimit(RLIMIT_DATA, &l)) return false;
  memset(&act, 0, sizeof act);
  act.sa_handler = on_abort;
  return sigaction(SIGABRT, &act, NULL) == 0;
}
