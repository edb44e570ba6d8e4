/* stdio.c - the process's standard streams become the notebook's.
 *
 * C's stdin, stdout and stderr are replaced by streams of ours before Lua opens
 * its io library on them: what Lua and C code of this process print arrives in
 * order and with the request whose thread printed it, and io.read in all its
 * forms asks the client. What goes to descriptors 1 and 2 past them (child
 * processes, C code with its own streams) comes through pipes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "jupyter/kernel_impl.h"
#include "jupyter/log.h"
#include "lua/console/capture.h"

enum { PIPE_BYTES = 1 << 20 };

static td_jupyter_kernel
    *kernel; /* streams are the process's, so is their kernel */
static int real[3] = {-1, -1, -1};
static FILE *was_in, *was_out, *was_err;
static td_str line; /* what of the last line typed was not read yet */
static size_t line_at;

/* ---- writing ---- */

static ssize_t write_text(int stream, const char *bytes, size_t len) {
  if (!td_capture_write(stream, bytes, len) && kernel->iopub)
    td_jupyter_iopub_text(kernel->iopub, td_jupyter_worker_request(), stream,
                          bytes, len);
  return (ssize_t)len;
}

static ssize_t write_out(void *cookie, const char *bytes, size_t len) {
  (void)cookie;
  return write_text(1, bytes, len);
}

static ssize_t write_err(void *cookie, const char *bytes, size_t len) {
  (void)cookie;
  return write_text(2, bytes, len);
}

/* ---- reading ---- */

static bool ask(void) {
  td_line *l = td_line_current();
  td_str_clear(&line);
  line_at = 0;
  if (!l || !kernel->shell) return false;
  td_line_wait(l);
  td_host_outcome o = td_jupyter_shell_input(
      kernel->shell, td_jupyter_worker_request(), l, "", false, &line);
  td_line_resume(l);
  if (o == TD_HOST_OK) {
    td_str_addc(&line, '\n');
    return true;
  }
  td_str_clear(&line);
  return false;
}

/* Lua holds the interpreter here, which also guards `line`. */
static ssize_t read_in(void *cookie, char *bytes, size_t len) {
  (void)cookie;
  if (line_at >= line.len && !ask()) {
    td_line *l = td_line_current();
    if (!l || !td_line_interrupted(l)) return 0;
    errno = EINTR;
    return -1;
  }
  size_t n = line.len - line_at;
  if (n > len) n = len;
  memcpy(bytes, line.at + line_at, n);
  line_at += n;
  return (ssize_t)n;
}

/* ---- taking over ---- */

static FILE *stream(const char *mode, cookie_read_function_t *reader,
                    cookie_write_function_t *writer) {
  FILE *f = fopencookie(
      NULL, mode, (cookie_io_functions_t){.read = reader, .write = writer});
  if (f && writer) setvbuf(f, NULL, _IONBF, 0);
  return f;
}

/* The reading end of a pipe that descriptor `fd` now writes to, or -1. */
static int redirect(int fd) {
  int ends[2];
  real[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  fcntl(ends[0], F_SETPIPE_SZ, PIPE_BYTES);
  dup2(ends[1], fd);
  close(ends[1]);
  return ends[0];
}

td_status *td_jupyter_stdio_take(td_jupyter_kernel *k) {
  FILE *in = stream("r", read_in, NULL);
  FILE *out = stream("w", NULL, write_out);
  FILE *err = stream("w", NULL, write_err);
  if (!in || !out || !err) return td_oom();
  kernel = k;
  fflush(NULL);
  was_in = stdin, was_out = stdout, was_err = stderr;
  stdin = in, stdout = out, stderr = err;
  int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing >= 0) {
    dup2(nothing, 0);
    close(nothing);
  }
  int from_out = redirect(1), from_err = redirect(2);
  if (real[2] >= 0) td_jupyter_log_to(real[2]);
  td_jupyter_iopub_capture(k->iopub, from_out, from_err);
  return NULL;
}

void td_jupyter_stdio_give_back(void) {
  if (!was_out) return;
  fflush(stdout);
  stdin = was_in, stdout = was_out, stderr = was_err;
  for (int fd = 1; fd <= 2; fd++)
    if (real[fd] >= 0) dup2(real[fd], fd);
}
