/* pipes.h - a named pipe, and what a process has open.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TEST_PIPES_H
#define TD_TEST_PIPES_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "tests/check.h"
#include "tests/rounds.h"

typedef struct fifo {
  char path[160];
} fifo;

static inline void fifo_init(fifo *p) {
  td_str dir = {0};
  OK(td_file_temp_dir(100, &dir));
  snprintf(p->path, sizeof p->path, "%s/pipe", td_str_c(&dir));
  td_str_deinit(&dir);
  assert_int_equal(mkfifo(p->path, 0600), 0);
}

static inline void fifo_deinit(fifo *p) {
  unlink(p->path);
  *strrchr(p->path, '/') = '\0';
  rmdir(p->path);
}

/* An end to write to, which needs no reader; the caller closes it. */
static inline int fifo_open(const fifo *p) {
  int fd = open(p->path, O_RDWR | O_CLOEXEC);
  assert_true(fd >= 0);
  return fd;
}

static inline void fifo_put(int fd, const char *text) {
  assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static inline int fifo_descriptors(void) {
  int n = 0;
  DIR *d = opendir("/proc/self/fd");
  assert_non_null(d);
  while (readdir(d)) n++;
  closedir(d);
  return n;
}

/* No more than `most` are open, before long: whoever reads a pipe has let go of
 * it. */
static inline void fifo_let_go(int most) {
  int64_t until = td_clock_now() + PATIENCE;
  while (fifo_descriptors() > most && td_clock_now() < until) usleep(1000);
  assert_true(fifo_descriptors() <= most);
}

/* Somebody reads the pipe: at first the end that is opened here goes to nobody. */
static inline void fifo_is_read(const fifo *p) {
  int fd = -1;
  for (int i = 0; i < 60000 && fd < 0; i++) {
    fd = open(p->path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) usleep(1000);
  }
  assert_true(fd >= 0);
  close(fd);
}

#endif
