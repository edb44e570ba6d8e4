/* channel_zmq_socket.c - sockets, and how a thread hears of what they have.
 *
 * ZMQ_FD of a socket is a signal and not a state: ZeroMQ sets it when a thread
 * of its own tells the socket something (a message came, a connection is
 * there), and it is taken back by whatever is called next on the socket, also
 * by a send. A thread that only sends so takes the signal of a message that
 * another thread sleeps for. The rule that loses none:
 *
 *   A socket on which something was called is *ready*, to be looked at by
 *   the next drain, unless it was seen since to have nothing: a receive said
 *   EAGAIN, or ZMQ_EVENTS had no ZMQ_POLLIN. Either has read all that was
 *   told, so that the next thing sets the signal.
 *
 * So `drain` receives until EAGAIN, or leaves the socket ready when it had
 * enough; what else touches a socket ends with td_zmq_socket_look, which makes
 * it ready when there is something, and has `wait` end. (A callback that
 * answers by the socket that is being read need not: the read goes on after
 * it.) `wait` does not begin to sleep while something is ready, and `drain`
 * makes ready whatever has a signal. All signals are in one epoll set, which
 * needs no lock.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/remote/channel_zmq_impl.h"

enum { BATCH = 64, SPARE = 16 };

void td_zmq_socket_set(td_zmq_socket *s, int option, int value) {
  zmq_setsockopt(s->zmq, option, &value, sizeof value);
}

enum { LINGER_MS = 200 }; /* what was sent before a close may go: a leave */

static td_status *watch(td_zmq *c, td_zmq_socket *s) {
  size_t size = sizeof s->fd;
  struct epoll_event e = {.events = EPOLLIN, .data.ptr = s};
  if (zmq_getsockopt(s->zmq, ZMQ_FD, &s->fd, &size) == 0 &&
      epoll_ctl(c->poll_fd, EPOLL_CTL_ADD, s->fd, &e) == 0)
    return NULL;
  return td_error(TD_RESOURCE_EXHAUSTED, "cannot watch a socket: %s",
                  zmq_strerror(errno));
}

/* Whether so many files could be opened that ZeroMQ, which ends the process
 * when it wants one and there is none, has enough to begin to listen or to
 * connect, and to start its threads. */
static bool has_files(td_zmq *c) {
  int fd[SPARE], n = 0;
  while (n < SPARE && (fd[n] = fcntl(c->wake_fd, F_DUPFD_CLOEXEC, 0)) >= 0) n++;
  int err = errno;
  for (int i = 0; i < n; i++) close(fd[i]);
  errno = err;
  return n == SPARE;
}

td_status *td_zmq_socket_open(td_zmq *c, td_zmq_socket *s, int type,
                              const char *to) {
  s->zmq = has_files(c) ? zmq_socket(c->context, type) : NULL;
  if (!s->zmq)
    return td_error(TD_RESOURCE_EXHAUSTED,
                    "cannot open a socket for %s: %s; how many files a process "
                    "may open is said by ulimit -n",
                    to, zmq_strerror(errno));
  td_zmq_socket_set(s, ZMQ_LINGER, LINGER_MS);
  td_status *status = watch(c, s);
  if (td_ok(status)) return NULL;
  zmq_close(s->zmq);
  s->zmq = NULL;
  return status;
}

void td_zmq_socket_close(td_zmq *c, td_zmq_socket *s) {
  if (!s->zmq) return;
  epoll_ctl(c->poll_fd, EPOLL_CTL_DEL, s->fd, NULL);
  zmq_close(s->zmq);
  s->zmq = NULL;
}

/* ---- those that are ready --------------------------------------------------
 */

void td_zmq_socket_ready(td_zmq *c, td_zmq_socket *s) {
  if (s->ready || !s->zmq) return;
  s->ready = true;
  s->next = NULL;
  if (c->last[s->rank])
    c->last[s->rank]->next = s;
  else
    c->first[s->rank] = s;
  c->last[s->rank] = s;
}

td_zmq_socket *td_zmq_socket_next(td_zmq *c, td_zmq_rank rank) {
  td_zmq_socket *s = c->first[rank];
  if (!s) return NULL;
  c->first[rank] = s->next;
  if (!s->next) c->last[rank] = NULL;
  s->ready = false;
  return s;
}

void td_zmq_socket_purge(td_zmq *c) {
  for (int rank = 0; rank < TD_ZMQ_RANKS; rank++) {
    td_zmq_socket *s = c->first[rank], *next;
    c->first[rank] = c->last[rank] = NULL;
    for (; s; s = next) {
      next = s->next;
      s->ready = false;
      td_zmq_socket_ready(c, s);
    }
  }
}

void td_zmq_socket_look(td_zmq *c, td_zmq_socket *s) {
  int events = 0;
  size_t size = sizeof events;
  if (s->ready || !s->zmq || s == c->reading) return;
  if (zmq_getsockopt(s->zmq, ZMQ_EVENTS, &events, &size) == 0 &&
      !(events & ZMQ_POLLIN))
    return;
  td_zmq_socket_ready(c, s);
  if (!c->draining) td_zmq_pending(c, true);
}

void td_zmq_socket_sent(td_zmq *c, td_zmq_socket *s) {
  if (!c->base.soon) {
    td_zmq_socket_look(c, s);
  } else if (s != c->reading) {
    td_zmq_socket_ready(c, s);
    if (!c->draining) td_zmq_pending(c, true);
  }
}

void td_zmq_socket_poll(td_zmq *c) {
  struct epoll_event e[BATCH];
  int n = epoll_wait(c->poll_fd, e, BATCH, 0);
  for (int i = 0; i < n; i++)
    if (e[i].data.ptr) td_zmq_socket_ready(c, e[i].data.ptr);
}

/* ---- sleeping
 * ---------------------------------------------------------------- */

static void rouse(td_zmq *c) {
  const uint64_t one = 1;
  if (!__atomic_load_n(&c->waiting, __ATOMIC_SEQ_CST)) return;
  ssize_t n = write(c->wake_fd, &one, sizeof one);
  (void)n; /* refused only when so much is in it that it is set anyway */
}

void td_zmq_pending(td_zmq *c, bool is) {
  __atomic_store_n(&c->pending, is, __ATOMIC_SEQ_CST);
  if (is) rouse(c);
}

void td_zmq_wake(td_zmq *c) {
  __atomic_store_n(&c->woken, 1, __ATOMIC_SEQ_CST);
  rouse(c);
}

/* Milliseconds, rounded up: nobody wakes before it is time. */
static int timeout_of(const td_zmq *c, int64_t until) {
  const int64_t ms = 1000000, most = 3600 * 1000;
  int64_t retry = __atomic_load_n(&c->retry_at, __ATOMIC_RELAXED);
  int64_t flood = __atomic_load_n(&c->flood.until, __ATOMIC_RELAXED);
  if (retry < until) until = retry;
  if (flood < until) until = flood;
  if (until == INT64_MAX) return -1;
  if (td_clock_alarm(until) != until) return 1; /* a test has set the clock */
  int64_t left = until - td_clock_now();
  if (left <= 0) return 0;
  return (int)(left > most * ms ? most : (left + ms - 1) / ms);
}

static void doze(td_zmq *c, int64_t until) {
  struct epoll_event e[8];
  uint64_t count;
  int n = epoll_wait(c->poll_fd, e, (int)TD_COUNT(e), timeout_of(c, until));
  for (int i = 0; i < n; i++)
    if (!e[i].data.ptr) {
      ssize_t got = read(c->wake_fd, &count, sizeof count);
      (void)got;
    }
}

void td_zmq_wait(td_zmq *c, int64_t until) {
  __atomic_store_n(&c->waiting, 1, __ATOMIC_SEQ_CST);
  if (!__atomic_load_n(&c->woken, __ATOMIC_SEQ_CST) &&
      !__atomic_load_n(&c->pending, __ATOMIC_SEQ_CST))
    doze(c, until);
  __atomic_store_n(&c->waiting, 0, __ATOMIC_SEQ_CST);
  __atomic_store_n(&c->woken, 0, __ATOMIC_SEQ_CST);
}
