/* file_stop.c - a flag, and a descriptor for those who sleep on descriptors.
 *
 * Who waits makes the descriptor known first and looks at the flag then; who
 * fires sets the flag first and looks for a descriptor then: one of them sees
 * the other. Nothing is looked at by the clock.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/file_stop.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/file_fault.h"
#include "engine/base/io_threads.h"

static TD_THREAD_LOCAL td_file_stop *here; /* of what this thread reads */

static bool is_fired(const td_file_stop *s) {
  return __atomic_load_n(&s->fired, __ATOMIC_SEQ_CST) != 0;
}

/* ---- the object ---------------------------------------------------------- */

void td_file_stop_deinit(td_file_stop *s) {
  int32_t wake = __atomic_load_n(&s->wake, __ATOMIC_ACQUIRE);
  if (wake) close(wake - 1);
  s->wake = 0;
}

void td_file_stop_fire(td_file_stop *s) {
  __atomic_store_n(&s->fired, 1, __ATOMIC_SEQ_CST);
  int32_t wake = __atomic_load_n(&s->wake, __ATOMIC_SEQ_CST);
  if (wake) (void)!eventfd_write(wake - 1, 1);
}

void td_file_stop_reset(td_file_stop *s) {
  eventfd_t was;
  int32_t wake = __atomic_load_n(&s->wake, __ATOMIC_ACQUIRE);
  if (wake && is_fired(s)) (void)!eventfd_read(wake - 1, &was);
  __atomic_store_n(&s->fired, 0, __ATOMIC_SEQ_CST);
  s->hurry = false;
}

bool td_file_stop_ended(const td_file_stop *s, const td_status *read) {
  return td_status_code(read) == TD_CANCELLED && (s->hurry || is_fired(s));
}

td_file_stop *td_file_stop_enter(td_file_stop *s) {
  td_file_stop *outer = here;
  here = s;
  return outer;
}

void td_file_stop_leave(td_file_stop *outer) {
  here = outer;
}

/* ---- reading under it ---------------------------------------------------- */

static td_status *stopped(const char *path) {
  return td_status_derive(
      td_error(TD_CANCELLED, "the reading of '%s' was ended", path));
}

td_status *td_file_stop_check(const char *path) {
  return TD_UNLIKELY(here && is_fired(here)) ? stopped(path) : NULL;
}

/* The descriptor of `s`, made when it is wanted for the first time. */
static td_status *wake_of(td_file_stop *s, const char *path, int *fd) {
  int32_t wake = __atomic_load_n(&s->wake, __ATOMIC_ACQUIRE);
  if (!wake) {
    int made = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (made < 0) return td_file_error("wait for", path, errno);
    wake = made + 1;
    __atomic_store_n(&s->wake, wake, __ATOMIC_SEQ_CST);
  }
  *fd = wake - 1;
  return NULL;
}

/* False: there is nothing within `ms` (-1: for ever), or a signal came. What
 * cannot be polled is read, and says itself what is wrong. */
static bool is_ready(struct pollfd *fds, nfds_t n, int ms) {
  int k = poll(fds, n, ms);
  if (k < 0) return errno != EINTR;
  return fds[0].revents != 0;
}

static td_status *sleep_for(struct pollfd *fds, nfds_t n, const char *path) {
  td_status *s = NULL;
  bool ready = false;
  td_io_step_aside();
  while (!ready && td_ok(s)) {
    ready = is_ready(fds, n, -1);
    s = td_file_stop_check(path);
  }
  td_io_step_back();
  return s;
}

td_status *td_file_stop_wait(int fd, const char *path) {
  struct pollfd fds[2] = {{.fd = fd, .events = POLLIN}, {.events = POLLIN}};
  TD_TRY(td_file_stop_check(path));
  if (is_ready(fds, 1, 0)) return NULL;
  if (!here) return sleep_for(fds, 1, path);
  if (here->hurry) return stopped(path);
  TD_TRY(wake_of(here, path, &fds[1].fd));
  TD_TRY(td_file_stop_check(path));
  return sleep_for(fds, 2, path);
}
