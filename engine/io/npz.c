/* npz.c - NumPy's .npz archives.
 *
 * libzip reads the archive through base/file_stream, in pieces. What is no file
 * on a disk is read whole. The library is opened by the first archive: linked,
 * it and what it brings would double the memory of an idle prompt.
 *
 * Unpacked sizes are claims until they are unpacked. An entry that claims more
 * than deflate can make of its packed bytes is refused before memory is taken.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/npz.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <zip.h>

#include "engine/base/file.h"
#include "engine/base/file_stream.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "engine/io/npy.h"
#include "engine/io/npz_writer.h"

/* ---- libzip -------------------------------------------------------------- */

#define ZIP_FUNCTIONS(X)                                                       \
  X(zip_discard)                                                               \
  X(zip_error_fini)                                                            \
  X(zip_error_init)                                                            \
  X(zip_error_set)                                                             \
  X(zip_error_strerror)                                                        \
  X(zip_fclose)                                                                \
  X(zip_fopen_index)                                                           \
  X(zip_fread)                                                                 \
  X(zip_get_num_entries)                                                       \
  X(zip_open_from_source)                                                      \
  X(zip_source_free)                                                           \
  X(zip_source_function_create)                                                \
  X(zip_source_make_command_bitmap)                                            \
  X(zip_source_seek_compute_offset)                                            \
  X(zip_stat_index)                                                            \
  X(zip_strerror)

static struct {
#define ZIP_FIELD(name) __typeof__(name) *name;
  ZIP_FUNCTIONS(ZIP_FIELD)
#undef ZIP_FIELD
  bool ready;
} zip;

static void load_zip(void) {
  void *lib = dlopen("libzip.so.4", RTLD_NOW | RTLD_LOCAL);
  if (!lib) lib = dlopen("libzip.so.5", RTLD_NOW | RTLD_LOCAL);
  if (!lib) return;
  zip.ready = true;
#define ZIP_LOAD(name)                                                         \
  zip.name = (__typeof__(name) *)dlsym(lib, #name);                            \
  if (!zip.name) zip.ready = false;
  ZIP_FUNCTIONS(ZIP_LOAD)
#undef ZIP_LOAD
}

static td_status *need_zip(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load_zip);
  if (zip.ready) return NULL;
  return td_error(TD_UNIMPLEMENTED,
                  ".npz files need libzip (libzip.so.4 or .5), which this "
                  "system does not have: install it, or use .npy files");
}

/* ---- opening ------------------------------------------------------------- */

/* What `archive` reads from: a file, or its bytes. */
typedef struct origin {
  td_file *file; /* NULL: bytes */
  char *bytes;
  uint64_t size, at;
  zip_error_t error;
  td_status *failed; /* the first error of a read */
} origin;

struct td_npz {
  char *path;
  origin from;
  size_t limit; /* of one array */
  zip_t *archive;
  size_t n;
  char **names; /* without ".npy" */
};

/* Why the file could not be read, or DATA_LOSS with libzip's reason. */
static td_status *broken(td_npz *z, const char *name, const char *why) {
  td_status *s = z->from.failed;
  z->from.failed = NULL;
  if (s) return s;
  return td_error(TD_DATA_LOSS, "'%s' is no readable .npz archive: %s%s%s",
                  z->path, name ? name : "", name ? ": " : "", why);
}

static zip_int64_t read_some(origin *f, void *to, uint64_t n) {
  size_t got = 0;
  if (n > f->size - f->at) n = f->size - f->at;
  if (f->file) {
    td_status *s = td_file_read_at(f->file, f->at, to, n, &got);
    if (!td_ok(s)) {
      f->failed = td_status_first(f->failed, s);
      zip.zip_error_set(&f->error, ZIP_ER_READ, 0);
      return -1;
    }
  } else {
    memcpy(to, f->bytes + f->at, n);
    got = n;
  }
  f->at += got;
  return (zip_int64_t)got;
}

static zip_int64_t seek(origin *f, void *how, uint64_t len) {
  zip_int64_t at =
      zip.zip_source_seek_compute_offset(f->at, f->size, how, len, &f->error);
  if (at < 0) return -1;
  f->at = (uint64_t)at;
  return 0;
}

static zip_int64_t tell_size(origin *f, zip_stat_t *st) {
  memset(st, 0, sizeof *st);
  st->valid = ZIP_STAT_SIZE;
  st->size = f->size;
  return sizeof *st;
}

/* libzip's door to it. */
static zip_int64_t serve(void *arg, void *data, zip_uint64_t len,
                         zip_source_cmd_t command) {
  origin *f = arg;
  switch (command) {
  case ZIP_SOURCE_OPEN:
    f->at = 0;
    return 0;
  case ZIP_SOURCE_READ:
    return read_some(f, data, len);
  case ZIP_SOURCE_SEEK:
    return seek(f, data, len);
  case ZIP_SOURCE_TELL:
    return (zip_int64_t)f->at;
  case ZIP_SOURCE_STAT:
    return tell_size(f, data);
  case ZIP_SOURCE_ERROR: {
    int codes[2] = {f->error.zip_err, f->error.sys_err};
    memcpy(data, codes, sizeof codes);
    return sizeof codes;
  }
  case ZIP_SOURCE_SUPPORTS:
    return zip.zip_source_make_command_bitmap(
        ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT,
        ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE, ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL,
        -1);
  default:
    return 0; /* nothing to close or to free */
  }
}

static td_status *too_large(const td_npz *z) {
  return td_error(TD_RESOURCE_EXHAUSTED,
                  "'%s' has %llu bytes; %zu bytes are allowed", z->path,
                  (unsigned long long)z->from.size, z->limit);
}

/* A pipe: nobody knows its size before its end. */
static td_status *read_whole(td_npz *z) {
  enum { PIECE = 1 << 16 };
  origin *f = &z->from;
  size_t got = PIECE, room = 0;
  while (got > 0) {
    if (f->size > z->limit) return too_large(z);
    if (f->size >= 2 && memcmp(f->bytes, "PK", 2) != 0)
      return broken(z, NULL, "it does not begin as a zip archive");
    if (room - f->size < PIECE) {
      room = 2 * room + PIECE;
      char *bytes = td_realloc(f->bytes, room);
      if (!bytes) return td_oom();
      f->bytes = bytes;
    }
    TD_TRY(td_file_read_at(f->file, f->size, f->bytes + f->size, PIECE, &got));
    f->size += got;
  }
  td_status_release(td_file_close(f->file));
  f->file = NULL;
  return NULL;
}

static td_status *open_origin(td_npz *z) {
  origin *f = &z->from;
  zip.zip_error_init(&f->error);
  TD_TRY(td_file_open(z->path, TD_FILE_READ, &f->file));
  TD_TRY(td_file_size(f->file, &f->size));
  if (f->size > z->limit) return too_large(z);
  if (f->size == 0) TD_TRY(read_whole(z));
  return f->size > 0 ? NULL : broken(z, NULL, "it is empty");
}

static td_status *open_archive(td_npz *z) {
  zip_error_t e;
  td_status *s = NULL;
  zip.zip_error_init(&e);
  zip_source_t *from = zip.zip_source_function_create(serve, &z->from, &e);
  if (from)
    z->archive = zip.zip_open_from_source(from, ZIP_RDONLY | ZIP_CHECKCONS, &e);
  if (!z->archive) {
    s = broken(z, NULL, zip.zip_error_strerror(&e));
    zip.zip_source_free(from);
  }
  zip.zip_error_fini(&e);
  return s;
}

static td_status *read_names(td_npz *z) {
  zip_int64_t n = zip.zip_get_num_entries(z->archive, 0);
  z->names = td_calloc(n > 0 ? (size_t)n : 1, sizeof *z->names);
  if (!z->names) return td_oom();
  for (zip_int64_t i = 0; i < n; i++) {
    zip_stat_t st;
    if (zip.zip_stat_index(z->archive, (zip_uint64_t)i, 0, &st))
      return broken(z, NULL, zip.zip_strerror(z->archive));
    size_t len = strlen(st.name);
    if (len > 4 && !strcmp(st.name + len - 4, ".npy")) len -= 4;
    z->names[z->n] = td_strndup(st.name, len);
    if (!z->names[z->n++]) return td_oom();
  }
  return NULL;
}

td_status *td_npz_open(const char *path, size_t limit, td_npz **out) {
  TD_TRY(need_zip());
  td_npz *z = td_calloc(1, sizeof *z);
  if (!z) return td_oom();
  z->limit = limit;
  z->path = td_strdup(path);
  td_status *s = z->path ? NULL : td_oom();
  if (td_ok(s)) s = open_origin(z);
  if (td_ok(s)) s = open_archive(z);
  if (td_ok(s)) s = read_names(z);
  if (td_ok(s))
    *out = z;
  else
    td_npz_close(z);
  return s;
}

void td_npz_close(td_npz *z) {
  if (!z) return;
  if (z->archive) zip.zip_discard(z->archive);
  for (size_t i = 0; i < z->n; i++) td_free(z->names[i]);
  td_free(z->names);
  if (z->from.file) td_status_release(td_file_close(z->from.file));
  td_status_release(z->from.failed);
  td_free(z->from.bytes);
  td_free(z->path);
  td_free(z);
}

size_t td_npz_count(const td_npz *z) {
  return z->n;
}

const char *td_npz_name(const td_npz *z, size_t i) {
  return z->names[i];
}

/* ---- reading ------------------------------------------------------------- */

enum { DEFLATE_RATIO = 1032 }; /* the most that deflate can pack into a byte */

static td_status *check_entry(td_npz *z, const zip_stat_t *st) {
  if (st->size > z->limit)
    return td_error(TD_RESOURCE_EXHAUSTED,
                    "%s in '%s' unpacks to %llu bytes; %zu are allowed",
                    st->name, z->path, (unsigned long long)st->size, z->limit);
  if (st->size / DEFLATE_RATIO > st->comp_size)
    return broken(z, st->name, "its size cannot be true");
  return NULL;
}

/* An entry under way. */
typedef struct entry {
  td_npz *archive;
  const zip_stat_t *stat;
  zip_file_t *file;
} entry;

static td_status *read_bytes(void *arg, void *to, size_t n) {
  entry *e = arg;
  char *at = to;
  while (n > 0) {
    zip_int64_t got = zip.zip_fread(e->file, at, n);
    if (got <= 0)
      return broken(e->archive, e->stat->name,
                    "its bytes do not agree with its checksum");
    at += got;
    n -= (size_t)got;
  }
  return NULL;
}

/* Reading on past its end makes libzip compare the checksum, and shows whether
 * there is more than was claimed. */
static td_status *check_end(const entry *e) {
  char beyond;
  if (zip.zip_fread(e->file, &beyond, 1) == 0) return NULL;
  return broken(e->archive, e->stat->name,
                "its bytes do not agree with its checksum");
}

/* Begins entry i; `stat` and `from` are filled for it. */
static td_status *open_entry(td_npz *z, size_t i, zip_stat_t *stat,
                             char from[256], entry *e, td_npy_source *source) {
  if (zip.zip_stat_index(z->archive, i, 0, stat))
    return broken(z, z->names[i], zip.zip_strerror(z->archive));
  TD_TRY(check_entry(z, stat));
  *e = (entry){z, stat, zip.zip_fopen_index(z->archive, stat->index, 0)};
  if (!e->file) return broken(z, stat->name, zip.zip_strerror(z->archive));
  snprintf(from, 256, "%s in '%s'", stat->name, z->path);
  *source = (td_npy_source){read_bytes, e, stat->size, from};
  return NULL;
}

static td_status *read_entry(td_npz *z, size_t i, td_tensor *out) {
  zip_stat_t stat;
  char from[256];
  entry e;
  td_npy_source source;
  TD_TRY(open_entry(z, i, &stat, from, &e, &source));
  td_status *s = td_npy_decode_from(&source, out);
  if (td_ok(s)) {
    s = check_end(&e);
    if (!td_ok(s)) td_tensor_release(out);
  }
  zip.zip_fclose(e.file);
  return s;
}

td_status *td_npz_describe(td_npz *z, size_t i, td_dtype *dtype,
                           td_shape *shape) {
  zip_stat_t stat;
  char from[256];
  entry e;
  td_npy_source source;
  TD_TRY(open_entry(z, i, &stat, from, &e, &source));
  td_status *s = td_npy_describe_from(&source, dtype, shape);
  zip.zip_fclose(e.file);
  return s;
}

static td_status *no_such(const td_npz *z, const char *name) {
  td_str has;
  td_str_init(&has);
  for (size_t i = 0; i < z->n && has.len < 200; i++)
    td_str_addf(&has, i ? ", %s" : "%s", z->names[i]);
  td_status *s =
      td_error(TD_NOT_FOUND, "'%s' has no array '%s'; it has: %s%s", z->path,
               name, td_str_c(&has), has.len < 200 ? "" : ", ...");
  td_str_deinit(&has);
  return s;
}

td_status *td_npz_read(td_npz *z, const char *name, td_tensor *out) {
  for (size_t i = 0; i < z->n; i++)
    if (!strcmp(z->names[i], name)) return read_entry(z, i, out);
  return no_such(z, name);
}

/* ---- writing ------------------------------------------------------------- */

td_status *td_npz_write(const char *path, size_t n, const char *const *names,
                        const td_tensor *arrays, bool deflate) {
  td_npz_writer *w;
  TD_TRY(td_npz_writer_open(path, deflate, &w));
  td_status *s = NULL;
  for (size_t i = 0; td_ok(s) && i < n; i++)
    s = td_npz_writer_add(w, names[i], &arrays[i]);
  if (td_ok(s)) s = td_npz_writer_commit(w);
  td_npz_writer_close(w);
  return s;
}
