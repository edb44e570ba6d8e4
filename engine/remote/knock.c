/* knock.c - see knock.h.
 *
 * Of several addresses that a name has, the first that takes a connection
 * counts, as it does for ZeroMQ.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/remote/knock.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/base/clock.h"

enum { GREETING = 64, SIGNATURE = 10, MECHANISM = 12, MECHANISM_BYTES = 20 };
#define SLICE INT64_C(20000000) /* ns: an interrupt is heard by then */

typedef struct visit {
  int64_t until;
  const int *interrupt;
} visit;

const char *td_knock_name(td_knock_found found) {
  static const char *const names[] = {"unknown",   "refused", "unreachable",
                                      "timed out", "silent",  "stranger",
                                      "plain",     "keys"};
  return names[found];
}

/* ---- waiting ------------------------------------------------------------- */

/* False: the time is over. */
static bool wait_for(const visit *v, int fd, short events) {
  for (;;) {
    int64_t left = v->until - td_clock_now();
    if (left <= 0 ||
        (v->interrupt && __atomic_load_n(v->interrupt, __ATOMIC_RELAXED)))
      return false;
    if (left > SLICE) left = SLICE;
    struct pollfd p = {.fd = fd, .events = events};
    if (poll(&p, 1, (int)(left / 1000000) + 1) > 0) return true;
  }
}

/* ---- connections --------------------------------------------------------- */

static td_knock_found of_errno(int err) {
  switch (err) {
  case ECONNREFUSED:
  case ENOENT:
  case ENOTSOCK:
    return TD_KNOCK_REFUSED;
  case ETIMEDOUT:
    return TD_KNOCK_TIMED_OUT;
  default:
    return TD_KNOCK_UNREACHABLE;
  }
}

/* A connection as *fd (the caller's), or -1 and what was found instead. */
static td_knock_found enter(const visit *v, const struct sockaddr *a,
                            socklen_t len, int *fd, int *err) {
  socklen_t size = sizeof *err;
  *err = 0;
  *fd = socket(a->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (*fd < 0 || (connect(*fd, a, len) && errno != EINPROGRESS))
    *err = errno;
  else if (!wait_for(v, *fd, POLLOUT))
    *err = ETIMEDOUT;
  else if (getsockopt(*fd, SOL_SOCKET, SO_ERROR, err, &size))
    *err = errno;
  if (!*err) return TD_KNOCK_SILENT;
  if (*fd >= 0) close(*fd);
  *fd = -1;
  return of_errno(*err);
}

/* ---- the greeting -------------------------------------------------------- */

/* Ten bytes, then version and mechanism: ZMTP 3. */
static bool say_greeting(int fd, const char *mechanism) {
  uint8_t bytes[GREETING] = {[0] = 0xff, [8] = 1, [9] = 0x7f, [10] = 3};
  memcpy(bytes + MECHANISM, mechanism, strlen(mechanism));
  return send(fd, bytes, sizeof bytes, MSG_NOSIGNAL) == (ssize_t)sizeof bytes;
}

/* How much of a greeting comes, as far as it is one; `closed`: it was ended
 * before it was whole. */
static size_t hear(const visit *v, int fd, uint8_t bytes[GREETING],
                   bool *closed) {
  size_t n = 0;
  *closed = false;
  while (n < GREETING && !*closed && (n == 0 || bytes[0] == 0xff) &&
         wait_for(v, fd, POLLIN)) {
    ssize_t got = recv(fd, bytes + n, GREETING - n, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    *closed = got <= 0;
    if (got > 0) n += (size_t)got;
  }
  return n;
}

/* One whose mechanism is another hangs up after the first ten bytes. */
static td_knock_found greet(const visit *v, int fd, const char *mechanism) {
  uint8_t bytes[GREETING] = {0};
  bool closed;
  if (!say_greeting(fd, mechanism)) return TD_KNOCK_STRANGER;
  size_t n = hear(v, fd, bytes, &closed);
  if (n == 0) return closed ? TD_KNOCK_STRANGER : TD_KNOCK_SILENT;
  if (bytes[0] != 0xff || (n >= SIGNATURE && bytes[SIGNATURE - 1] != 0x7f))
    return TD_KNOCK_STRANGER;
  if (n < MECHANISM + MECHANISM_BYTES)
    return closed ? TD_KNOCK_PLAIN : TD_KNOCK_SILENT;
  return memcmp(bytes + MECHANISM, "CURVE", 6) ? TD_KNOCK_PLAIN : TD_KNOCK_KEYS;
}

static td_knock_found visit_one(const visit *v, const struct sockaddr *a,
                                socklen_t len, int *err) {
  int fd;
  td_knock_found found = enter(v, a, len, &fd, err);
  if (fd < 0) return found;
  found = greet(v, fd, a->sa_family == AF_UNIX ? "NULL" : "CURVE");
  close(fd);
  return found;
}

/* ---- addresses ----------------------------------------------------------- */

static td_status *knock_path(const visit *v, const char *path,
                             td_knock_found *out, td_str *what) {
  struct sockaddr_un a = {.sun_family = AF_UNIX};
  int err;
  if (strlen(path) >= sizeof a.sun_path)
    return td_error(TD_INVALID_ARGUMENT, "the path '%s' is too long", path);
  memcpy(a.sun_path, path, strlen(path));
  *out = visit_one(v, (const struct sockaddr *)&a, sizeof a, &err);
  td_str_add(what, err ? strerror(err) : path);
  return NULL;
}

static bool is_met(td_knock_found f) {
  return f >= TD_KNOCK_SILENT;
}

/* "host:port", "[::1]:port": two texts, of sizes of their own. */
static bool split(const char *text, char host[256], char port[8]) {
  const char *colon = strrchr(text, ':');
  if (!colon || strlen(colon + 1) < 1 || strlen(colon + 1) > 5) return false;
  size_t n = (size_t)(colon - text);
  bool bracketed = n > 2 && text[0] == '[' && colon[-1] == ']';
  if (bracketed) text++, n -= 2;
  if (n == 0 || n > 255) return false;
  memcpy(host, text, n);
  host[n] = '\0';
  strcpy(port, colon + 1);
  return true;
}

static void add_number(td_str *what, const struct addrinfo *a) {
  char host[64];
  if (getnameinfo(a->ai_addr, a->ai_addrlen, host, sizeof host, NULL, 0,
                  NI_NUMERICHOST) == 0)
    td_str_add(what, host);
}

static void knock_each(const visit *v, const struct addrinfo *all,
                       td_knock_found *out, td_str *what) {
  for (const struct addrinfo *a = all; a; a = a->ai_next) {
    int err;
    *out = visit_one(v, a->ai_addr, a->ai_addrlen, &err);
    if (!is_met(*out) && a->ai_next) continue;
    add_number(what, a);
    if (err) td_str_addf(what, ": %s", strerror(err));
    return;
  }
}

td_status *td_knock(const char *address, int64_t until, const int *interrupt,
                    td_knock_found *out, td_str *what) {
  visit v = {until, interrupt};
  char host[256], port[8];
  struct addrinfo *all = NULL, hints = {.ai_family = AF_UNSPEC,
                                        .ai_socktype = SOCK_STREAM,
                                        .ai_flags = AI_NUMERICSERV};
  if (strncmp(address, "ipc://", 6) == 0)
    return knock_path(&v, address + 6, out, what);
  if (strncmp(address, "tcp://", 6) != 0 || !split(address + 6, host, port))
    return td_error(TD_INVALID_ARGUMENT, "'%s' is not tcp://host:port",
                    address);
  int rc = getaddrinfo(host, port, &hints, &all);
  if (rc) {
    *out = TD_KNOCK_UNKNOWN;
    td_str_add(what, rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
    return NULL;
  }
  knock_each(&v, all, out, what);
  freeaddrinfo(all);
  return NULL;
}
