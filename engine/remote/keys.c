/* keys.c - keys as text, and pairs in files.
 *
 * Z85 writes 4 bytes, most significant first, as 5 digits of base 85. A secret
 * goes from the stack to the file and back, and is wiped; it is in no message,
 * and no file that others could have opened. A file has its name from the
 * moment it is whole: by link, which never takes a name that is there, or, by
 * force, by rename.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/remote/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/entropy.h"
#include "engine/base/file.h"
#include "engine/base/file_stream.h"
#include "engine/base/mem.h"
#include "engine/remote/keys_impl.h"

static const char secret_name[] = "tide.key", pub_name[] = "tide.pub";

/* ---- text ---------------------------------------------------------------- */

static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz"
                             "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                             ".-:+=^!/*?&<>()[]{}@%$#";

enum { BASE = sizeof digits - 1, GROUP = 5, GROUPS = TD_KEY_TEXT / GROUP };

static int digit_of(char c) {
  const char *at = memchr(digits, c, BASE);
  return at ? (int)(at - digits) : -1;
}

bool td_keys_parse(const char *text, size_t len, td_keys_key *out) {
  if (len != TD_KEY_TEXT) return false;
  for (int g = 0; g < GROUPS; g++) {
    uint64_t v = 0;
    for (int i = 0; i < GROUP; i++) {
      int d = digit_of(text[g * GROUP + i]);
      if (d < 0) return false;
      v = v * BASE + (uint64_t)d;
    }
    if (v > UINT32_MAX) return false;
    for (int i = 0; i < 4; i++)
      out->bytes[4 * g + i] = (uint8_t)(v >> (24 - 8 * i));
  }
  return true;
}

void td_keys_print(const td_keys_key *key, char text[TD_KEY_TEXT + 1]) {
  for (int g = 0; g < GROUPS; g++) {
    const uint8_t *b = key->bytes + 4 * g;
    uint32_t v = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 |
                 (uint32_t)b[2] << 8 | b[3];
    for (int i = GROUP - 1; i >= 0; i--, v /= BASE)
      text[g * GROUP + i] = digits[v % BASE];
  }
  text[TD_KEY_TEXT] = '\0';
}

/* ---- lines --------------------------------------------------------------- */

static bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

/* Sets word and rest of the line from `at` to `end`; false where it says
 * nothing. */
static bool cut(td_keys_line *l, const char *at, const char *end) {
  while (end > at && is_blank(end[-1])) end--;
  while (at < end && is_blank(*at)) at++;
  if (at == end || *at == '#') return false;
  const char *stop = at;
  while (stop < end && !is_blank(*stop)) stop++;
  l->word = (td_bytes){at, (size_t)(stop - at)};
  while (stop < end && is_blank(*stop)) stop++;
  l->rest = (td_bytes){stop, (size_t)(end - stop)};
  return true;
}

bool td_keys_next_line(td_keys_line *l) {
  while (l->at < l->end) {
    const char *from = l->at;
    const char *stop = memchr(from, '\n', (size_t)(l->end - from));
    l->at = stop ? stop + 1 : l->end;
    l->number++;
    if (cut(l, from, stop ? stop : l->end)) return true;
  }
  return false;
}

td_status *td_keys_of_line(const td_keys_line *l, const char *what,
                           td_keys_key *out) {
  if (td_keys_parse(l->word.at, l->word.len, out)) return NULL;
  if (l->word.len != TD_KEY_TEXT)
    return td_error(TD_INVALID_ARGUMENT,
                    "%s, line %d: a key has %d characters, this word has %zu",
                    what, l->number, TD_KEY_TEXT, l->word.len);
  return td_error(TD_INVALID_ARGUMENT,
                  "%s, line %d: these %d characters are no key", what,
                  l->number, TD_KEY_TEXT);
}

/* ---- pairs --------------------------------------------------------------- */

void td_keys_wipe(td_keys_pair *pair) {
  sodium_memzero(pair, sizeof *pair);
}

td_status *td_keys_generate(td_keys_pair *out) {
  memset(out, 0, sizeof *out);
  if (sodium_init() < 0)
    return td_error(TD_INTERNAL, "libsodium does not start");
  crypto_box_keypair(out->pub.bytes, out->secret.bytes);
  return NULL;
}

static td_status *join(td_str *path, const char *folder, const char *name) {
  td_str_clear(path);
  td_str_addf(path, "%s/%s", *folder ? folder : ".", name);
  return path->failed ? td_oom() : NULL;
}

static td_status *home_of_user(td_str *path) {
  struct passwd user, *found = NULL;
  char text[4096];
  const char *home = getenv("HOME");
  if (!home || home[0] != '/') {
    if (getpwuid_r(geteuid(), &user, text, sizeof text, &found) || !found)
      return td_error(TD_FAILED_PRECONDITION,
                      "no home folder is known, where keys are kept: set HOME, "
                      "or name the folder");
    home = user.pw_dir;
  }
  td_str_addf(path, "%s/.config/tide", home);
  return path->failed ? td_oom() : NULL;
}

td_status *td_keys_folder(td_str *path) {
  const char *config = getenv("XDG_CONFIG_HOME");
  td_str_clear(path);
  if (!config || config[0] != '/') return home_of_user(path);
  td_str_addf(path, "%s/tide", config);
  return path->failed ? td_oom() : NULL;
}

/* ---- writing ------------------------------------------------------------- */

/* The folder, for this user alone where it is made now; those above it are made
 * as others are. */
static td_status *make_folder(const char *path) {
  char *above = td_strdup(path);
  if (!above) return td_oom();
  size_t n = strlen(above);
  while (n > 1 && above[n - 1] == '/') above[--n] = '\0';
  char *slash = strrchr(above, '/');
  td_status *s = NULL;
  if (slash && slash != above) {
    *slash = '\0';
    s = td_file_mkdirs(above);
  }
  td_free(above);
  if (td_ok(s)) s = td_file_enter("make directory", path);
  if (td_ok(s) && mkdir(path, 0700) && errno != EEXIST)
    s = td_file_error("make directory", path, errno);
  return s;
}

static td_status *write_all(int fd, const char *path, const char *text) {
  for (size_t n = strlen(text); n > 0;) {
    ssize_t k = write(fd, text, n);
    if (k < 0 && errno == EINTR) continue;
    if (k < 0) return td_file_error("write", path, errno);
    text += k;
    n -= (size_t)k;
  }
  TD_TRY(td_file_enter("sync", path));
  return fsync(fd) ? td_file_error("sync", path, errno) : NULL;
}

/* A file beside `path` that nobody had opened before it had its mode. */
static td_status *write_beside(const char *path, mode_t mode, const char *text,
                               td_str *beside) {
  td_str_addf(beside, "%s.%016llx", path, (unsigned long long)td_entropy());
  if (beside->failed) return td_oom();
  td_status *s = td_file_enter("write", beside->at);
  int fd = td_ok(s)
               ? open(beside->at, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode)
               : -1;
  if (td_ok(s) && fd < 0) s = td_file_error("write", beside->at, errno);
  if (td_ok(s)) s = write_all(fd, beside->at, text);
  if (fd >= 0) close(fd);
  if (td_ok(s)) return NULL;
  if (fd >= 0) unlink(beside->at);
  td_str_clear(beside);
  return s;
}

static td_status *is_there(const char *path) {
  return td_error(TD_ALREADY_EXISTS,
                  "'%s' is there already, and who knows its public key would "
                  "turn away another: take another folder, or force it",
                  path);
}

/* `beside` is empty when the file has its name. */
static td_status *publish(td_str *beside, const char *path, bool force) {
  TD_TRY(td_file_enter("replace", path));
  if (force && rename(beside->at, path))
    return td_file_error("replace", path, errno);
  if (!force && link(beside->at, path))
    return errno == EEXIST ? is_there(path)
                           : td_file_error("write", path, errno);
  if (!force) unlink(beside->at);
  td_str_clear(beside);
  return NULL;
}

/* Where the two files of a folder are, and what becomes them. */
typedef struct writing {
  td_str key, pub, new_key, new_pub;
} writing;

static td_status *write_both(writing *w, const td_keys_pair *pair,
                             const char *name, bool force) {
  char text[TD_KEY_TEXT + 2];
  td_keys_print(&pair->secret, text);
  strcat(text, "\n");
  td_status *s = write_beside(w->key.at, 0600, text, &w->new_key);
  sodium_memzero(text, sizeof text);
  td_str line = {0};
  td_keys_print(&pair->pub, text);
  td_str_addf(&line, "%s  %s\n", text, name);
  if (td_ok(s) && line.failed) s = td_oom();
  if (td_ok(s)) s = write_beside(w->pub.at, 0644, line.at, &w->new_pub);
  td_str_deinit(&line);
  if (!td_ok(s)) return s;
  TD_TRY(publish(&w->new_key, w->key.at, force));
  s = publish(&w->new_pub, w->pub.at, force);
  if (!td_ok(s) && !force) unlink(w->key.at);
  return s;
}

static td_status *check_name(const char *name) {
  for (const char *c = name; *c; c++)
    if ((unsigned char)*c < ' ')
      return td_error(TD_INVALID_ARGUMENT,
                      "the name of a key is one line of text");
  return NULL;
}

td_status *td_keys_write(const char *folder, const td_keys_pair *pair,
                         const char *name, bool force) {
  writing w = {0};
  TD_TRY(check_name(name));
  td_status *s = make_folder(folder);
  if (td_ok(s)) s = join(&w.key, folder, secret_name);
  if (td_ok(s)) s = join(&w.pub, folder, pub_name);
  for (int i = 0; i < 2 && td_ok(s) && !force; i++) {
    const char *path = i ? w.pub.at : w.key.at;
    if (td_file_exists(path)) s = is_there(path);
  }
  if (td_ok(s)) s = write_both(&w, pair, name, force);
  if (td_ok(s)) s = td_file_sync_folder(folder);
  if (w.new_key.len > 0) unlink(w.new_key.at);
  if (w.new_pub.len > 0) unlink(w.new_pub.at);
  td_str_deinit(&w.key);
  td_str_deinit(&w.pub);
  td_str_deinit(&w.new_key);
  td_str_deinit(&w.new_pub);
  return s;
}

/* ---- reading ------------------------------------------------------------- */

enum { MOST_SECRET = 4096 }; /* bytes of tide.key */

/* Of the file that is open, so that it cannot be another when it is read. */
static td_status *check_secret(int fd, const char *path) {
  struct stat st;
  if (fstat(fd, &st)) return td_file_error("stat", path, errno);
  if (!S_ISREG(st.st_mode))
    return td_error(TD_FAILED_PRECONDITION,
                    "'%s' holds no key: it is no regular file", path);
  if (st.st_mode & 077)
    return td_error(TD_PERMISSION_DENIED,
                    "'%s' is open to others (mode %04o), and a secret key is "
                    "its owner's alone: chmod 600 '%s', and make a new pair if "
                    "somebody may have read it",
                    path, (unsigned)st.st_mode & 07777, path);
  return NULL;
}

static td_status *read_text(int fd, const char *path, char *text, size_t *len) {
  TD_TRY(check_secret(fd, path));
  for (*len = 0; *len < MOST_SECRET;) {
    ssize_t k = read(fd, text + *len, MOST_SECRET - *len);
    if (k < 0 && errno == EINTR) continue;
    if (k < 0) return td_file_error("read", path, errno);
    if (k == 0) return NULL;
    *len += (size_t)k;
  }
  return td_error(TD_INVALID_ARGUMENT,
                  "'%s' has %d bytes or more: it is no key", path, MOST_SECRET);
}

/* The one key of the text. */
static td_status *only_key(const char *text, size_t len, const char *what,
                           td_keys_key *out) {
  td_keys_line l = {.at = text, .end = text + len};
  if (!td_keys_next_line(&l))
    return td_error(TD_INVALID_ARGUMENT, "%s holds no key", what);
  TD_TRY(td_keys_of_line(&l, what, out));
  if (td_keys_next_line(&l))
    return td_error(TD_INVALID_ARGUMENT, "%s, line %d: one key was expected",
                    what, l.number);
  return NULL;
}

static td_status *read_secret(const char *path, td_keys_key *out) {
  char text[MOST_SECRET], what[PATH_MAX + 8];
  size_t len = 0;
  TD_TRY(td_file_enter("open", path));
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    if (errno == ENOENT)
      return td_error(TD_NOT_FOUND,
                      "there is no secret key '%s': tide keygen makes a pair",
                      path);
    return td_file_error("open", path, errno);
  }
  snprintf(what, sizeof what, "'%s'", path);
  td_status *s = read_text(fd, path, text, &len);
  close(fd);
  if (td_ok(s)) s = only_key(text, len, what, out);
  sodium_memzero(text, sizeof text);
  return s;
}

/* The public key that lies beside it, if one does, is the same. */
static td_status *check_pub(const char *path, const td_keys_key *pub) {
  char *text, what[PATH_MAX + 8];
  size_t len;
  td_keys_key beside;
  td_status *s = td_file_read(path, MOST_SECRET, &text, &len);
  if (td_status_code(s) == TD_NOT_FOUND) {
    td_status_release(s);
    return NULL;
  }
  if (!td_ok(s)) return s;
  snprintf(what, sizeof what, "'%s'", path);
  s = only_key(text, len, what, &beside);
  td_free(text);
  if (td_ok(s) && memcmp(&beside, pub, sizeof beside) != 0)
    s = td_error(TD_FAILED_PRECONDITION,
                 "'%s' is not the public key of the %s beside it: remove the "
                 "wrong one",
                 path, secret_name);
  return s;
}

td_status *td_keys_read(const char *folder, td_keys_pair *out) {
  td_str path = {0};
  td_status *s = join(&path, folder, secret_name);
  if (td_ok(s)) s = read_secret(path.at, &out->secret);
  if (td_ok(s) &&
      crypto_scalarmult_base(out->pub.bytes, out->secret.bytes) != 0)
    s = td_error(TD_INVALID_ARGUMENT, "'%s' holds no key that can be used",
                 path.at);
  if (td_ok(s)) s = join(&path, folder, pub_name);
  if (td_ok(s)) s = check_pub(path.at, &out->pub);
  td_str_deinit(&path);
  if (!td_ok(s)) td_keys_wipe(out);
  return s;
}
