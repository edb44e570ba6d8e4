/* metrics_serve.c - the listener of metrics.h: a thread that waits for all
 * connections at once, and for none of them alone.
 *
 * A connection is read until its request is whole, answered, and closed. Its
 * time is counted from its beginning, so that bytes that drip in or out hold
 * nothing up.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "engine/remote/metrics.h"

enum { GUESTS = 16, REQUEST_MOST = 4096, QUEUE = 16 };
#define PATIENCE INT64_C(5000000000) /* ns that a connection may last */

typedef struct guest {
  int fd; /* -1: nobody */
  int64_t until;
  char request[REQUEST_MOST + 1];
  size_t got;
  td_str answer; /* len 0: the request is not whole */
  size_t sent;
} guest;

struct td_metrics {
  td_remote *remote; /* a share */
  int listens, wake;
  int port;
  pthread_t thread;
  guest guests[GUESTS];
};

/* ---- answers ------------------------------------------------------------- */

static void answer(guest *g, const char *status, const char *more,
                   const char *body, size_t len, bool head) {
  td_str_addf(&g->answer,
              "HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4; "
              "charset=utf-8\r\nContent-Length: %zu\r\n%sConnection: close\r\n"
              "\r\n",
              status, len, more);
  if (!head) td_str_addn(&g->answer, body, len);
}

static void refuse(guest *g, const char *status, const char *more) {
  char body[64];
  snprintf(body, sizeof body, "%s\n", status);
  answer(g, status, more, body, strlen(body), false);
}

static void tell(td_metrics *m, guest *g, bool head) {
  td_str text = {0};
  td_metrics_text(m->remote, &text);
  if (text.failed)
    refuse(g, "503 Service Unavailable", "");
  else
    answer(g, "200 OK", "", text.at, text.len, head);
  td_str_deinit(&text);
}

/* Does the text begin with the word? Its rest. */
static const char *behind(const char *text, const char *word) {
  size_t n = strlen(word);
  return strncmp(text, word, n) == 0 ? text + n : NULL;
}

/* The request line: method, path, version. A query is nothing to us. */
static void read_request(td_metrics *m, guest *g) {
  const char *end = strpbrk(g->request, "\r\n"), *path;
  g->request[end ? (size_t)(end - g->request) : g->got] = '\0';
  const char *rest = behind(g->request, "GET ");
  bool head = !rest && (rest = behind(g->request, "HEAD "));
  const char *version = strrchr(g->request, ' ');
  if (!version || !behind(version, " HTTP/1.")) {
    refuse(g, "400 Bad Request", "");
  } else if (!rest) {
    refuse(g, "405 Method Not Allowed", "Allow: GET, HEAD\r\n");
  } else if ((path = behind(rest, "/metrics")) &&
             (*path == ' ' || *path == '?')) {
    tell(m, g, head);
  } else {
    refuse(g, "404 Not Found", "");
  }
}

/* ---- connections --------------------------------------------------------- */

static void leave(guest *g) {
  if (g->fd >= 0) close(g->fd);
  td_str_deinit(&g->answer);
  *g = (guest){.fd = -1};
}

/* A place: a free one, else that of who came first. */
static guest *place(td_metrics *m) {
  guest *oldest = &m->guests[0];
  for (int i = 0; i < GUESTS; i++) {
    if (m->guests[i].fd < 0) return &m->guests[i];
    if (m->guests[i].until < oldest->until) oldest = &m->guests[i];
  }
  leave(oldest);
  return oldest;
}

static void let_in(td_metrics *m) {
  int fd = accept4(m->listens, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return;
  guest *g = place(m);
  g->fd = fd;
  g->until = td_clock_now() + PATIENCE;
}

static bool is_whole(const guest *g) {
  return memmem(g->request, g->got, "\r\n\r\n", 4) ||
         memmem(g->request, g->got, "\n\n", 2);
}

static void hear(td_metrics *m, guest *g) {
  ssize_t n = recv(g->fd, g->request + g->got, REQUEST_MOST - g->got, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    leave(g);
    return;
  }
  g->got += (size_t)n;
  g->request[g->got] = '\0';
  if (is_whole(g))
    read_request(m, g);
  else if (g->got == REQUEST_MOST)
    refuse(g, "431 Request Header Fields Too Large", "");
  if (g->answer.failed) leave(g);
}

static void say(guest *g) {
  ssize_t n = send(g->fd, g->answer.at + g->sent, g->answer.len - g->sent,
                   MSG_NOSIGNAL);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n > 0) g->sent += (size_t)n;
  if (n >= 0 && g->sent < g->answer.len) return;
  shutdown(g->fd, SHUT_WR);
  leave(g);
}

static void serve_one(td_metrics *m, guest *g, short events) {
  if (g->answer.len == 0 && events) hear(m, g);
  if (g->fd >= 0 && g->answer.len > 0) say(g);
}

/* ---- the thread ---------------------------------------------------------- */

/* ms until the first connection has had its time; -1: none is there. */
static int patience(const td_metrics *m, int64_t now) {
  int64_t least = INT64_MAX;
  for (int i = 0; i < GUESTS; i++)
    if (m->guests[i].fd >= 0 && m->guests[i].until < least)
      least = m->guests[i].until;
  if (least == INT64_MAX) return -1;
  return least <= now ? 0 : (int)((least - now) / 1000000) + 1;
}

static void look(td_metrics *m, const struct pollfd *polled) {
  int64_t now = td_clock_now();
  for (int i = 0; i < GUESTS; i++) {
    guest *g = &m->guests[i];
    if (g->fd < 0 || g->fd != polled[i].fd) continue;
    if (polled[i].revents) serve_one(m, g, polled[i].revents);
    if (g->fd >= 0 && now >= g->until) leave(g);
  }
}

static void *serve(void *arg) {
  td_metrics *m = arg;
  struct pollfd polled[GUESTS + 2];
  for (;;) {
    for (int i = 0; i < GUESTS; i++) {
      guest *g = &m->guests[i];
      polled[i] = (struct pollfd){
          .fd = g->fd, .events = g->answer.len > 0 ? POLLOUT : POLLIN};
    }
    polled[GUESTS] = (struct pollfd){.fd = m->listens, .events = POLLIN};
    polled[GUESTS + 1] = (struct pollfd){.fd = m->wake, .events = POLLIN};
    int n = poll(polled, GUESTS + 2, patience(m, td_clock_now()));
    if (n > 0 && polled[GUESTS + 1].revents) return NULL;
    if (n >= 0) look(m, polled);
    if (n > 0 && polled[GUESTS].revents) let_in(m);
  }
}

/* ---- life ---------------------------------------------------------------- */

static int listen_at(const struct addrinfo *a) {
  int yes = 1;
  int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, QUEUE) == 0)
    return fd;
  int err = errno;
  close(fd);
  errno = err;
  return -1;
}

static td_status *open_port(td_metrics *m, const char *host, int port) {
  char number[8];
  struct addrinfo *all = NULL,
                  hints = {.ai_socktype = SOCK_STREAM,
                           .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
  struct sockaddr_storage at = {0};
  socklen_t len = sizeof at;
  snprintf(number, sizeof number, "%d", port);
  int rc = getaddrinfo(host, number, &hints, &all);
  if (rc)
    return td_error(TD_INVALID_ARGUMENT, "metrics: the host \"%s\": %s", host,
                    gai_strerror(rc));
  for (struct addrinfo *a = all; a && m->listens < 0; a = a->ai_next)
    m->listens = listen_at(a);
  int err = errno;
  freeaddrinfo(all);
  if (m->listens < 0)
    return td_error(TD_UNAVAILABLE, "metrics: cannot listen at %s:%d: %s", host,
                    port, strerror(err));
  getsockname(m->listens, (struct sockaddr *)&at, &len);
  if (getnameinfo((struct sockaddr *)&at, len, NULL, 0, number, sizeof number,
                  NI_NUMERICSERV) == 0)
    sscanf(number, "%d", &m->port);
  return NULL;
}

static void drop(td_metrics *m) {
  for (int i = 0; i < GUESTS; i++) leave(&m->guests[i]);
  if (m->listens >= 0) close(m->listens);
  if (m->wake >= 0) close(m->wake);
  td_remote_release(m->remote);
  td_free(m);
}

td_status *td_metrics_new(td_remote *r, const char *host, int port,
                          td_metrics **out) {
  td_metrics *m = td_calloc(1, sizeof *m);
  if (!m) return td_oom();
  for (int i = 0; i < GUESTS; i++) m->guests[i].fd = -1;
  m->remote = td_remote_retain(r);
  m->listens = -1;
  m->wake = eventfd(0, EFD_CLOEXEC);
  td_status *s = m->wake < 0 ? td_error(TD_RESOURCE_EXHAUSTED, "metrics: %s",
                                        strerror(errno))
                             : open_port(m, host, port);
  if (td_ok(s) && !td_thread_start(&m->thread, "tide-metrics", -1, serve, m))
    s = td_error(TD_RESOURCE_EXHAUSTED, "metrics: no thread to serve with");
  if (!td_ok(s)) {
    drop(m);
    return s;
  }
  *out = m;
  return NULL;
}

int td_metrics_port(const td_metrics *m) {
  return m->port;
}

void td_metrics_free(td_metrics *m) {
  if (!m) return;
  (void)!eventfd_write(m->wake, 1);
  pthread_join(m->thread, NULL);
  drop(m);
}
