/* keys_leave.c - public keys of workers on this machine, in a folder that is
 * one user's alone.
 *
 * Who may write there is believed, so the folder is looked at each time: where
 * there is no $XDG_RUNTIME_DIR it lies in /tmp, where anybody may have made one
 * of its name before. A worker is found by its port, or by the last part of its
 * socket's path. Of a tcp address the host decides first: the key of the worker
 * here at port 8888 is not that of another machine's. What a worker left that
 * was killed goes when the next one leaves its key.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/file_stream.h"
#include "engine/base/mem.h"
#include "engine/remote/keys_impl.h"

enum { MOST_HOST = 255, MOST_TEXT = 256 };

/* ---- the folder ---------------------------------------------------------- */

static td_status *folder_path(td_str *path) {
  const char *base = getenv("XDG_RUNTIME_DIR");
  td_str_clear(path);
  if (base && base[0] == '/')
    td_str_addf(path, "%s/tide", base);
  else
    td_str_addf(path, "/tmp/tide-%u", (unsigned)geteuid());
  return path->failed ? td_oom() : NULL;
}

static td_status *not_ours(const char *path, const char *why) {
  return td_error(TD_PERMISSION_DENIED,
                  "the folder '%s', where workers leave their public keys, %s: "
                  "remove it, or set XDG_RUNTIME_DIR to a folder of your own",
                  path, why);
}

static td_status *check_folder(const char *path) {
  struct stat st;
  char why[64];
  TD_TRY(td_file_enter("stat", path));
  if (lstat(path, &st)) return td_file_error("stat", path, errno);
  if (S_ISLNK(st.st_mode)) return not_ours(path, "is a link");
  if (!S_ISDIR(st.st_mode)) return not_ours(path, "is no folder");
  if (st.st_uid != geteuid()) {
    snprintf(why, sizeof why, "belongs to user %u", (unsigned)st.st_uid);
    return not_ours(path, why);
  }
  if (st.st_mode & 077) {
    snprintf(why, sizeof why, "is open to others (mode %04o)",
             (unsigned)st.st_mode & 07777);
    return not_ours(path, why);
  }
  return NULL;
}

td_status *td_keys_runtime_folder(td_str *path) {
  TD_TRY(folder_path(path));
  TD_TRY(td_file_enter("make directory", path->at));
  if (mkdir(path->at, 0700) && errno != EEXIST)
    return td_file_error("make directory", path->at, errno);
  return check_folder(path->at);
}

/* ---- addresses ----------------------------------------------------------- */

/* What names a worker on its machine, and the host where its address says. */
typedef struct place {
  char name[NAME_MAX];      /* a port, or of a socket's path the last part */
  char host[MOST_HOST + 1]; /* "" of a socket */
} place;

static td_status *no_address(const char *address, const char *why) {
  return td_error(TD_INVALID_ARGUMENT,
                  "the address '%s' %s; write tcp://host:port or ipc:///path",
                  address, why);
}

static td_status *parse_socket(const char *address, place *p) {
  const char *name = strrchr(address, '/') + 1;
  size_t n = strlen(name);
  if (n == 0 || !strcmp(name, ".") || !strcmp(name, "..") ||
      n > sizeof p->name - sizeof ".pub")
    return no_address(address, "names no socket");
  memcpy(p->name, name, n + 1);
  return NULL;
}

/* "host:8888" or "[::1]:8888". */
static td_status *parse_host(const char *address, const char *text, place *p) {
  const char *colon = strrchr(text, ':');
  size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
  long port = digits > 0 && digits < 6 && !colon[1 + digits]
                  ? strtol(colon + 1, NULL, 10)
                  : 0;
  if (port < 1 || port > 65535) return no_address(address, "has no port");
  size_t n = (size_t)(colon - text);
  bool bracketed = n >= 2 && text[0] == '[' && colon[-1] == ']';
  if (bracketed) {
    text++;
    n -= 2;
  }
  if (n == 0 || n > MOST_HOST) return no_address(address, "has no host");
  memcpy(p->host, text, n);
  p->host[n] = '\0';
  snprintf(p->name, sizeof p->name, "%ld", port);
  return NULL;
}

static td_status *parse(const char *address, place *p) {
  memset(p, 0, sizeof *p);
  if (!strncmp(address, "ipc://", 6)) return parse_socket(address, p);
  const char *rest = strncmp(address, "tcp://", 6) ? address : address + 6;
  if (strchr(rest, '/')) return no_address(address, "is of no kind known here");
  return parse_host(address, rest, p);
}

/* ---- is it this machine? ------------------------------------------------- */

/* An address of one of the machine's networks. */
static bool is_own_number(const char *host) {
  struct in6_addr six;
  struct in_addr four;
  bool is4 = inet_pton(AF_INET, host, &four) == 1;
  bool is6 = !is4 && inet_pton(AF_INET6, host, &six) == 1;
  if (is4 && ntohl(four.s_addr) >> 24 == IN_LOOPBACKNET) return true;
  struct ifaddrs *all = NULL;
  if ((!is4 && !is6) || getifaddrs(&all)) return false;
  bool found = false;
  for (struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
    if (!i->ifa_addr) continue;
    const void *a = i->ifa_addr;
    if (is4 && i->ifa_addr->sa_family == AF_INET)
      found = !memcmp(&((const struct sockaddr_in *)a)->sin_addr, &four,
                      sizeof four);
    if (is6 && i->ifa_addr->sa_family == AF_INET6)
      found = !memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr, &six,
                      sizeof six);
  }
  freeifaddrs(all);
  return found;
}

/* The machine's name, whole or up to its first dot. */
static bool is_own_name(const char *host) {
  char own[MOST_HOST + 1];
  if (gethostname(own, sizeof own)) return false;
  own[sizeof own - 1] = '\0';
  if (strcasecmp(own, host) == 0) return true;
  own[strcspn(own, ".")] = '\0';
  return strcasecmp(own, host) == 0;
}

/* Nothing is asked of the network. */
static bool is_here(const char *host) {
  static const char *const names[] = {"",        "localhost", "*",
                                      "0.0.0.0", "::",        "::1"};
  for (size_t i = 0; i < TD_COUNT(names); i++)
    if (strcasecmp(host, names[i]) == 0) return true;
  return is_own_name(host) || is_own_number(host);
}

/* ---- leaving and finding ------------------------------------------------- */

static td_status *file_of(const td_str *folder, const place *p, td_str *path) {
  td_str_addf(path, "%s/%s.pub", folder->at, p->name);
  return path->failed ? td_oom() : NULL;
}

/* Is what lies there of a process that is no more? */
static bool is_stale(const char *path) {
  char *text;
  size_t len;
  bool stale = false;
  td_status *s = td_file_read(path, MOST_TEXT, &text, &len);
  if (td_ok(s)) {
    const char *name = len > TD_KEY_TEXT ? text + TD_KEY_TEXT : "";
    stale = td_keys_owner_gone(name + strspn(name, " "));
    td_free(text);
  }
  td_status_release(s);
  return stale;
}

/* Another may write there just then: only what was taken away first, and is
 * stale still, goes. */
static td_status *remove_stale(const char *path) {
  td_str aside = {0};
  td_str_addf(&aside, "%s-%ld", path, (long)getpid());
  td_status *s = aside.failed ? td_oom() : td_file_rename(path, aside.at);
  if (td_ok(s))
    s = is_stale(aside.at) ? td_file_remove(aside.at)
                           : td_file_rename(aside.at, path);
  td_str_deinit(&aside);
  return s;
}

/* It matters to nobody whether this works. */
static void sweep(const td_str *folder) {
  td_str names = {0};
  td_status *s = td_file_list(folder->at, &names);
  const char *end = td_str_c(&names) + names.len;
  for (const char *name = td_str_c(&names); td_ok(s) && name < end;
       name += strlen(name) + 1) {
    size_t n = strlen(name);
    td_str path = {0};
    if (n < 4 || strcmp(name + n - 4, ".pub") != 0) continue;
    td_str_addf(&path, "%s/%s", folder->at, name);
    if (!path.failed && is_stale(path.at))
      td_status_release(remove_stale(path.at));
    td_str_deinit(&path);
  }
  td_status_release(s);
  td_str_deinit(&names);
}

td_status *td_keys_leave(const char *address, const td_keys_key *pub) {
  char key[TD_KEY_TEXT + 1];
  td_str folder = {0}, path = {0}, text = {0};
  place p;
  td_status *s = parse(address, &p);
  if (td_ok(s)) s = td_keys_runtime_folder(&folder);
  if (td_ok(s)) s = file_of(&folder, &p, &path);
  if (td_ok(s)) {
    td_keys_print(pub, key);
    td_str_addf(&text, "%s  ", key);
    td_keys_owner_text(&text);
    td_str_add(&text, "\n");
    s = text.failed ? td_oom() : td_file_write(path.at, text.at, text.len);
  }
  if (td_ok(s)) sweep(&folder);
  td_str_deinit(&text);
  td_str_deinit(&folder);
  td_str_deinit(&path);
  return s;
}

static td_status *read_left(const char *path, td_keys_key *out) {
  char *text;
  size_t len;
  td_keys_list *list;
  TD_TRY(td_file_read(path, MOST_TEXT, &text, &len));
  td_status *s = td_keys_list_parse(text, len, path, &list);
  td_free(text);
  if (!td_ok(s)) return s;
  if (td_keys_list_count(list) == 1)
    (void)td_keys_list_at(list, 0, out);
  else
    s = td_error(TD_DATA_LOSS, "'%s' does not hold one key: remove it", path);
  td_keys_list_free(list);
  return s;
}

/* The path of what was left, in a folder that was looked at. */
static td_status *find_left(const place *p, td_str *path) {
  td_str folder = {0};
  td_status *s = folder_path(&folder);
  if (td_ok(s)) s = check_folder(folder.at);
  if (td_ok(s)) s = file_of(&folder, p, path);
  td_str_deinit(&folder);
  return s;
}

static td_status *none_left(const char *address, const td_str *path) {
  return td_error(TD_NOT_FOUND,
                  "no worker of this user has left its public key for '%s'%s%s"
                  "%s: start it on this machine, or give its key",
                  address, path->len > 0 ? " in '" : "", td_str_c(path),
                  path->len > 0 ? "'" : "");
}

td_status *td_keys_find(const char *address, td_keys_key *out) {
  td_str path = {0};
  place p;
  TD_TRY(parse(address, &p));
  if (!is_here(p.host))
    return td_error(TD_NOT_FOUND,
                    "the public key of '%s' is not known: '%s' is another "
                    "machine, so give the key, which stands in tide.pub there",
                    address, p.host);
  td_status *s = find_left(&p, &path);
  if (td_ok(s)) s = read_left(path.at, out);
  if (td_status_code(s) == TD_NOT_FOUND) {
    td_status_release(s);
    s = none_left(address, &path);
  }
  td_str_deinit(&path);
  return s;
}

td_status *td_keys_remove(const char *address, const td_keys_key *pub) {
  td_str path = {0};
  td_keys_key left;
  place p;
  TD_TRY(parse(address, &p));
  td_status *s = find_left(&p, &path);
  if (td_ok(s)) s = read_left(path.at, &left);
  if (td_ok(s) && memcmp(&left, pub, sizeof left) == 0)
    s = td_file_remove(path.at);
  if (td_status_code(s) == TD_NOT_FOUND) {
    td_status_release(s);
    s = NULL;
  }
  td_str_deinit(&path);
  return s;
}
