/* streams.c - output that is lost is an error.
 *
 * print and most scripts do not look whether they could write: onto a full disk
 * `tide ops --json > file` would leave half a file and succeed. C's streams
 * remember it, so it is asked once, at the end, by whatever way that comes.
 *
 * Descriptors 0 to 2 that are closed would be given to the next file that is
 * opened, and prints would go there. They become /dev/null, opened so that to
 * write to it fails. A file that reaches the limit of its size (ulimit -f) is an
 * error of who writes it, as a full disk is, and not the process's end.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "repl/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_LOST = 1 };

static bool is_written(FILE *f) {
  bool lost = ferror(f);
  errno = 0;
  return fflush(f) == 0 && !lost;
}

static void look_back(void) {
  bool out = is_written(stdout);
  int why = errno;
  if (!out)
    fprintf(stderr, "tide: not all of the output could be written%s%s\n",
            why ? ": " : "", why ? strerror(why) : "");
  if (out && is_written(stderr)) return;
  fflush(NULL); /* files that nobody closed */
  _exit(EXIT_LOST);
}

void td_streams_guard(void) {
  for (int fd = 0; fd <= 2; fd++)
    if (fcntl(fd, F_GETFD) < 0) {
      int nothing = open("/dev/null", fd ? O_RDONLY : O_WRONLY);
      if (nothing != fd && nothing >= 0) close(nothing);
    }
  signal(SIGXFSZ, SIG_IGN);
  atexit(look_back);
}
