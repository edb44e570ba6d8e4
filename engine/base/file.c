/* file.c - whole files, atomically replaced; gunzip.
 *
 * Every call that touches a file system passes the door of file_fault.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "engine/base/file_replace.h"
#include "engine/base/file_stream.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"

/* ---- reading ------------------------------------------------------------- */

static td_status *too_large(const char *path, size_t limit) {
  return td_error(TD_RESOURCE_EXHAUSTED,
                  "'%s' is larger than the %zu bytes allowed", path, limit);
}

/* Doubles *cap, to at most limit + 1 bytes and the NUL. */
static bool grow(char **bytes, size_t *cap, size_t limit) {
  size_t to = *cap > SIZE_MAX / 2 ? SIZE_MAX : *cap * 2;
  if (limit < SIZE_MAX - 2 && to > limit + 2) to = limit + 2;
  char *p = td_realloc(*bytes, to);
  if (!p) return false;
  *bytes = p;
  *cap = to;
  return true;
}

/* The size that stat tells is a hint only: files grow, /proc says 0. */
static td_status *read_all(td_file *f, const char *path, size_t hint,
                           size_t limit, char **bytes, size_t *len) {
  size_t cap = hint + 2, at = 0;
  char *p = td_malloc(cap);
  td_status *s = p ? NULL : td_oom();
  for (size_t got = 1; td_ok(s) && got > 0; at += got) {
    got = 0;
    if (at + 1 == cap && !grow(&p, &cap, limit)) s = td_oom();
    if (td_ok(s)) s = td_file_read_at(f, at, p + at, cap - at - 1, &got);
    if (td_ok(s) && got > limit - at) s = too_large(path, limit);
  }
  if (!td_ok(s)) {
    td_free(p);
    return s;
  }
  p[at] = '\0';
  *bytes = p;
  *len = at;
  return NULL;
}

static td_status *read_open(td_file *f, const char *path, size_t limit,
                            char **bytes, size_t *len) {
  uint64_t hint;
  TD_TRY(td_file_size(f, &hint));
  if (hint > limit) return too_large(path, limit);
  return read_all(f, path, hint < 4096 ? 4096 : (size_t)hint, limit, bytes,
                  len);
}

td_status *td_file_read(const char *path, size_t limit, char **bytes,
                        size_t *len) {
  td_file *f;
  TD_TRY(td_file_open(path, TD_FILE_READ, &f));
  td_status *s = read_open(f, path, limit, bytes, len);
  td_status_release(td_file_close(f)); /* of what was only read */
  return s;
}

td_status *td_file_list(const char *path, td_str *names) {
  TD_TRY(td_file_enter("list", path));
  return td_file_system_of(path)->list(path, names);
}

/* ---- writing ------------------------------------------------------------- */

td_status *td_file_write(const char *path, const void *bytes, size_t len) {
  td_file_replace *r;
  TD_TRY(td_file_replace_open(path, &r));
  td_status *s = td_file_replace_append(r, bytes, len);
  if (td_ok(s)) s = td_file_replace_commit(r);
  td_file_replace_close(r);
  return s;
}

bool td_file_exists(const char *path) {
  return td_file_system_of(path)->exists(path);
}

td_status *td_file_mkdirs(const char *path) {
  TD_TRY(td_file_enter("make directory", path));
  return td_file_system_of(path)->make_folders(path);
}

/* ---- for a while --------------------------------------------------------- */

static td_status *temp_path(const char *suffix, size_t most, td_str *path) {
  static const char name[] = "/tide-XXXXXX";
  const char *dir = getenv("TMPDIR");
  if (!dir || dir[0] != '/' || strlen(dir) + strlen(name) > most) dir = "/tmp";
  td_str_clear(path);
  td_str_addf(path, "%s%s%s", dir, name, suffix);
  return path->failed ? td_oom() : td_file_enter("make", td_str_c(path));
}

td_status *td_file_temp(const char *suffix, td_str *path) {
  TD_TRY(temp_path(suffix, PATH_MAX, path));
  int fd = mkostemps(path->at, (int)strlen(suffix), O_CLOEXEC);
  if (fd < 0) return td_file_error("make", td_str_c(path), errno);
  close(fd);
  return NULL;
}

td_status *td_file_temp_dir(size_t most, td_str *path) {
  TD_TRY(temp_path("", most, path));
  if (mkdtemp(path->at)) return NULL;
  return td_file_error("make", td_str_c(path), errno);
}

/* ---- gunzip -------------------------------------------------------------- */

static voidpf zip_alloc(voidpf opaque, uInt n, uInt size) {
  (void)opaque;
  return td_calloc(n, size);
}

static void zip_free(voidpf opaque, voidpf p) {
  (void)opaque;
  td_free(p);
}

/* Inflates all members of z's input behind each other. */
static td_status *inflate_all(z_stream *z, size_t left, size_t limit,
                              char **out, size_t *cap, size_t *at) {
  for (;;) {
    if (z->avail_in == 0) {
      z->avail_in = left > UINT_MAX ? UINT_MAX : (uInt)left;
      left -= z->avail_in;
    }
    if (*at + 1 == *cap && !grow(out, cap, limit)) return td_oom();
    size_t room = *cap - *at - 1;
    if (room > UINT_MAX) room = UINT_MAX;
    z->next_out = (Bytef *)*out + *at;
    z->avail_out = (uInt)room;
    int rc = inflate(z, Z_NO_FLUSH);
    *at += room - z->avail_out;
    if (*at > limit)
      return td_error(TD_RESOURCE_EXHAUSTED,
                      "gzip data unpacks to more than the %zu bytes allowed",
                      limit);
    if (rc == Z_STREAM_END) {
      if (z->avail_in == 0 && left == 0) return NULL;
      rc = inflateReset(z);
    }
    if (rc == Z_MEM_ERROR) return td_oom();
    if (rc != Z_OK)
      return td_error(TD_DATA_LOSS, "bad gzip data: %s",
                      z->msg ? z->msg : "it ends too early");
  }
}

td_status *td_file_gunzip(const void *in, size_t len, size_t limit, char **out,
                          size_t *out_len) {
  z_stream z = {.zalloc = zip_alloc,
                .zfree = zip_free,
                .next_in = (Bytef *)in}; /* zlib only reads it */
  enum { GZIP_ONLY = 16 };
  size_t cap = limit < 4096 ? limit + 2 : 4096, at = 0;
  char *p = td_malloc(cap);
  if (!p || inflateInit2(&z, MAX_WBITS + GZIP_ONLY) != Z_OK) {
    td_free(p);
    return td_oom();
  }
  td_status *s = inflate_all(&z, len, limit, &p, &cap, &at);
  inflateEnd(&z);
  if (!td_ok(s)) {
    td_free(p);
    return s;
  }
  p[at] = '\0';
  *out = p;
  *out_len = at;
  return NULL;
}
