/* channel_zmq_address.c - what addresses may be, and listening at them.
 *
 * By ipc nothing is encrypted and nobody asked who he is: the folder says who
 * may come. Only we may enter it, so its mode is 0700 and it is ours; it is
 * looked at by who listens and by who dials.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/remote/channel_zmq_impl.h"

static const char tcp[] = "tcp://", ipc[] = "ipc://", suffix[] = "-data";

enum { PATH_MOST = sizeof(((struct sockaddr_un *)0)->sun_path) - 1 };

static bool starts(const char *s, const char *with) {
  return strncmp(s, with, strlen(with)) == 0;
}

bool td_zmq_address_is_ipc(const char *address) {
  return starts(address, ipc);
}

/* ---- checks ----------------------------------------------------------------
 */

static td_status *malformed(const char *address) {
  return td_error(TD_INVALID_ARGUMENT,
                  "%s is no address: write tcp://HOST:PORT or ipc:///PATH",
                  address);
}

static td_status *check_tcp(const char *address, bool listen) {
  const char *host = address + strlen(tcp), *colon = strrchr(host, ':');
  if (!colon || colon == host || strpbrk(host, ";/ *"))
    return malformed(address);
  int port = 0, digits = 0;
  for (const char *p = colon + 1; *p; p++, digits++) {
    if (*p < '0' || *p > '9' || digits == 5) return malformed(address);
    port = 10 * port + *p - '0';
  }
  if (digits == 0 || port > UINT16_MAX) return malformed(address);
  if (port > 0 || listen) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "%s: nobody listens at port 0; it means any port, and who "
                  "listens says which one it got",
                  address);
}

/* Only we may enter `folder`. */
static td_status *check_folder(const char *address, const char *folder) {
  struct stat st;
  if (lstat(folder, &st) != 0)
    return td_error(errno == ENOENT ? TD_NOT_FOUND : TD_PERMISSION_DENIED,
                    "%s: the folder %s: %s", address, folder, strerror(errno));
  if (!S_ISDIR(st.st_mode))
    return td_error(TD_FAILED_PRECONDITION, "%s: %s is not a folder", address,
                    folder);
  if (st.st_uid == geteuid() && (st.st_mode & 0777) == 0700) return NULL;
  return td_error(TD_PERMISSION_DENIED,
                  "%s: the folder %s is of user %u and has mode %04o, but what "
                  "goes by ipc is not encrypted: it must be ours and have mode "
                  "0700 (chmod 700 %s)",
                  address, folder, (unsigned)st.st_uid, st.st_mode & 07777u,
                  folder);
}

static td_status *check_ipc(const char *address) {
  const char *path = address + strlen(ipc), *slash = strrchr(path, '/');
  if (path[0] != '/' || !slash[1]) return malformed(address);
  if (strlen(path) > PATH_MOST)
    return td_error(TD_INVALID_ARGUMENT,
                    "%s: the path has %zu bytes, and that of a socket may have "
                    "%d; take a shorter folder",
                    address, strlen(path), (int)PATH_MOST);
  if (slash == path) return check_folder(address, "/");
  char *folder = td_strndup(path, (size_t)(slash - path));
  if (!folder) return td_oom();
  td_status *s = check_folder(address, folder);
  td_free(folder);
  return s;
}

td_status *td_zmq_address_check(const char *address, bool listen) {
  if (starts(address, tcp)) return check_tcp(address, listen);
  if (starts(address, ipc)) return check_ipc(address);
  return malformed(address);
}

char *td_zmq_address_for_data(const char *control) {
  td_str s;
  td_str_init(&s);
  if (td_zmq_address_is_ipc(control)) {
    td_str_addf(&s, "%s%s", control, suffix);
  } else {
    const char *colon = strrchr(control, ':');
    td_str_addn(&s, control, (size_t)(colon - control));
    td_str_add(&s, ":0");
  }
  char *address = s.failed ? NULL : td_str_take(&s);
  td_str_deinit(&s);
  return address;
}

/* ---- listening -------------------------------------------------------------
 */

/* ZeroMQ takes a path away from who listens there. */
static bool is_taken(const char *path) {
  struct sockaddr_un a = {.sun_family = AF_UNIX};
  memcpy(a.sun_path, path, strlen(path));
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  bool taken = connect(fd, (struct sockaddr *)&a, sizeof a) == 0 ||
               errno == EAGAIN; /* its queue is full */
  close(fd);
  return taken;
}

static td_status *cannot_listen(const char *address, int err) {
  td_code code = TD_UNAVAILABLE;
  const char *what = zmq_strerror(err), *remedy = "";
  if (err == EADDRINUSE) {
    what = "another process listens there";
    remedy = td_zmq_address_is_ipc(address)
                 ? "; take another path"
                 : "; take another port, or 0 for any that is free";
  } else if (err == EADDRNOTAVAIL || err == ENODEV) {
    code = TD_INVALID_ARGUMENT;
    what = "this machine has no such address";
    remedy = "; tcp://0.0.0.0:PORT listens at all it has";
  } else if (err == EACCES || err == EPERM) {
    code = TD_PERMISSION_DENIED;
    if (!td_zmq_address_is_ipc(address))
      remedy = "; ports below 1024 are the system's, take a larger one";
  }
  return td_error(code, "cannot listen at %s: %s%s", address, what, remedy);
}

/* ZeroMQ binds to numbers and names of interfaces, not to names of hosts: the
 * same address with a number in place of the name. NULL: not known. */
static char *with_number(const char *address) {
  const char *host = address + strlen(tcp), *colon = strrchr(host, ':');
  char *name = td_strndup(host, (size_t)(colon - host));
  struct addrinfo hint = {.ai_socktype = SOCK_STREAM}, *found = NULL;
  char number[NI_MAXHOST];
  td_str s;
  td_str_init(&s);
  if (name && getaddrinfo(name, NULL, &hint, &found) == 0 &&
      getnameinfo(found->ai_addr, found->ai_addrlen, number, sizeof number,
                  NULL, 0, NI_NUMERICHOST) == 0)
    td_str_addf(&s, strchr(number, ':') ? "%s[%s]%s" : "%s%s%s", tcp, number,
                colon);
  if (found) freeaddrinfo(found);
  td_free(name);
  char *out = s.len && !s.failed ? td_str_take(&s) : NULL;
  td_str_deinit(&s);
  return out;
}

static int bind_tcp(td_zmq_socket *s, const char *address) {
  /* Where it is on, addresses of four numbers are told as ones of IPv6. */
  td_zmq_socket_set(s, ZMQ_IPV6, address[strlen(tcp)] == '[');
  return zmq_bind(s->zmq, address) == 0 ? 0 : zmq_errno();
}

/* 0, or the error's number. */
static int bind_to(td_zmq_socket *s, const char *address) {
  if (td_zmq_address_is_ipc(address)) {
    if (is_taken(address + strlen(ipc))) return EADDRINUSE;
    return zmq_bind(s->zmq, address) == 0 ? 0 : zmq_errno();
  }
  int err = bind_tcp(s, address);
  char *number = err == ENODEV ? with_number(address) : NULL;
  if (number) err = bind_tcp(s, number);
  td_free(number);
  return err;
}

/* "[::ffff:127.0.0.1]" is how IPv6 writes 127.0.0.1. Caller owns the result;
 * NULL: no memory. */
static char *as_written(const char *endpoint) {
  static const char mapped[] = "tcp://[::ffff:";
  const char *number = endpoint + strlen(mapped), *end = strchr(endpoint, ']');
  if (!starts(endpoint, mapped) || !end || end < number)
    return td_strdup(endpoint);
  td_str s;
  td_str_init(&s);
  td_str_add(&s, tcp);
  td_str_addn(&s, number, (size_t)(end - number));
  td_str_add(&s, end + 1);
  char *out = s.failed ? NULL : td_str_take(&s);
  td_str_deinit(&s);
  return out;
}

td_status *td_zmq_address_listen(td_zmq_socket *s, const char *address,
                                 char **out) {
  TD_TRY(td_zmq_address_check(address, true));
  int err = bind_to(s, address);
  if (err) return cannot_listen(address, err);
  char endpoint[NI_MAXHOST + 32];
  size_t len = sizeof endpoint;
  if (zmq_getsockopt(s->zmq, ZMQ_LAST_ENDPOINT, endpoint, &len) != 0)
    return cannot_listen(address, zmq_errno());
  *out = as_written(endpoint);
  return *out ? NULL : td_oom();
}

/* While it listens, so that nobody else's is taken away. */
void td_zmq_address_leave(const char *address) {
  if (address && td_zmq_address_is_ipc(address)) unlink(address + strlen(ipc));
}
