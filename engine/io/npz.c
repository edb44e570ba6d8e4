/* npz.c - NumPy's .npz archives.
 *
 * libzip reads and makes the archive in memory; files go through base/file, so
 * that a reader of the file never sees half an archive. The library is opened
 * by the first archive: linked, it and what it brings would double the memory
 * of an idle prompt.
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
#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "engine/io/npy.h"

/* ---- libzip -------------------------------------------------------------- */

#define ZIP_FUNCTIONS(X)                                                       \
  X(zip_close)                                                                 \
  X(zip_discard)                                                               \
  X(zip_error_fini)                                                            \
  X(zip_error_init)                                                            \
  X(zip_error_strerror)                                                        \
  X(zip_fclose)                                                                \
  X(zip_file_add)                                                              \
  X(zip_file_set_dostime)                                                      \
  X(zip_fopen_index)                                                           \
  X(zip_fread)                                                                 \
  X(zip_get_num_entries)                                                       \
  X(zip_open_from_source)                                                      \
  X(zip_set_file_compression)                                                  \
  X(zip_source_buffer)                                                         \
  X(zip_source_buffer_create)                                                  \
  X(zip_source_close)                                                          \
  X(zip_source_free)                                                           \
  X(zip_source_keep)                                                           \
  X(zip_source_open)                                                           \
  X(zip_source_read)                                                           \
  X(zip_source_stat)                                                           \
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

struct td_npz {
  char *path;
  char *bytes;  /* the file; `archive` reads from it */
  size_t limit; /* of one array */
  zip_t *archive;
  size_t n;
  char **names; /* without ".npy" */
};

/* DATA_LOSS with libzip's reason. */
static td_status *broken(const char *path, const char *name, const char *why) {
  return td_error(TD_DATA_LOSS, "'%s' is no readable .npz archive: %s%s%s",
                  path, name ? name : "", name ? ": " : "", why);
}

static td_status *open_archive(td_npz *z, size_t len) {
  zip_error_t e;
  td_status *s = NULL;
  if (len == 0) return broken(z->path, NULL, "it is empty"); /* libzip: fine */
  zip.zip_error_init(&e);
  zip_source_t *source = zip.zip_source_buffer_create(z->bytes, len, 0, &e);
  if (source)
    z->archive =
        zip.zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &e);
  if (!z->archive) {
    s = broken(z->path, NULL, zip.zip_error_strerror(&e));
    zip.zip_source_free(source);
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
      return broken(z->path, NULL, zip.zip_strerror(z->archive));
    size_t len = strlen(st.name);
    if (len > 4 && !strcmp(st.name + len - 4, ".npy")) len -= 4;
    z->names[z->n] = td_strndup(st.name, len);
    if (!z->names[z->n++]) return td_oom();
  }
  return NULL;
}

td_status *td_npz_open(const char *path, size_t limit, td_npz **out) {
  size_t len;
  TD_TRY(need_zip());
  td_npz *z = td_calloc(1, sizeof *z);
  if (!z) return td_oom();
  z->limit = limit;
  z->path = td_strdup(path);
  td_status *s = z->path ? NULL : td_oom();
  if (td_ok(s)) s = td_file_read(path, limit, &z->bytes, &len);
  if (td_ok(s)) s = open_archive(z, len);
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
  td_free(z->bytes);
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

static td_status *check_entry(const td_npz *z, const zip_stat_t *st) {
  if (st->size > z->limit)
    return td_error(TD_RESOURCE_EXHAUSTED,
                    "%s in '%s' unpacks to %llu bytes; %zu are allowed",
                    st->name, z->path, (unsigned long long)st->size, z->limit);
  if (st->size / DEFLATE_RATIO > st->comp_size)
    return broken(z->path, st->name, "its size cannot be true");
  return NULL;
}

/* All of the entry. Reading on past its end makes libzip compare the checksum,
 * and shows whether there is more than was claimed. */
static td_status *unpack(const td_npz *z, const zip_stat_t *st, char *to) {
  zip_file_t *f = zip.zip_fopen_index(z->archive, st->index, 0);
  size_t got = 0;
  zip_int64_t n = 1;
  char beyond;
  if (!f) return broken(z->path, st->name, zip.zip_strerror(z->archive));
  while (got < st->size && (n = zip.zip_fread(f, to + got, st->size - got)) > 0)
    got += (size_t)n;
  if (n > 0 || st->size == 0) n = zip.zip_fread(f, &beyond, 1);
  zip.zip_fclose(f);
  if (got == st->size && n == 0) return NULL;
  return broken(z->path, st->name, "its bytes do not agree with its checksum");
}

static td_status *read_entry(td_npz *z, size_t i, td_tensor *out) {
  zip_stat_t st;
  char from[256];
  if (zip.zip_stat_index(z->archive, i, 0, &st))
    return broken(z->path, z->names[i], zip.zip_strerror(z->archive));
  TD_TRY(check_entry(z, &st));
  char *bytes = td_malloc(st.size);
  if (!bytes) return td_oom();
  snprintf(from, sizeof from, "%s in '%s'", st.name, z->path);
  td_status *s = unpack(z, &st, bytes);
  if (td_ok(s)) s = td_npy_decode(bytes, st.size, from, out);
  td_free(bytes);
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

/* An archive that is being made. */
typedef struct maker {
  zip_source_t *bytes; /* what libzip writes; kept */
  zip_t *archive;      /* NULL once closed */
  char **parts;        /* the encoded arrays, read when the archive closes */
  size_t n;
} maker;

static td_status *zip_failed(const char *name, const char *why) {
  return td_error(TD_INVALID_ARGUMENT, "array '%s' cannot be archived: %s",
                  name, why);
}

static td_status *start(maker *m, size_t n) {
  zip_error_t e;
  zip.zip_error_init(&e);
  m->parts = td_calloc(n ? n : 1, sizeof *m->parts);
  if (m->parts) m->bytes = zip.zip_source_buffer_create(NULL, 0, 0, &e);
  if (m->bytes) {
    zip.zip_source_keep(m->bytes);
    m->archive = zip.zip_open_from_source(m->bytes, ZIP_TRUNCATE, &e);
    if (!m->archive)
      zip.zip_source_free(m->bytes); /* the share it did not take */
  }
  zip.zip_error_fini(&e);
  return m->archive ? NULL : td_oom();
}

/* The time is that of NumPy's archives, so that same arrays are same bytes. */
static td_status *add(maker *m, const char *name, const td_tensor *t,
                      bool deflate) {
  const zip_uint16_t new_year_1980 = 1 << 5 | 1;
  char file[512];
  size_t len;
  if (!*name || snprintf(file, sizeof file, "%s.npy", name) >= (int)sizeof file)
    return zip_failed(name, "a name has 1 to 500 bytes");
  TD_TRY(td_npy_encode(t, &m->parts[m->n], &len));
  zip_source_t *source =
      zip.zip_source_buffer(m->archive, m->parts[m->n++], len, 0);
  if (!source) return zip_failed(name, zip.zip_strerror(m->archive));
  zip_int64_t i = zip.zip_file_add(m->archive, file, source, ZIP_FL_ENC_UTF_8);
  if (i < 0) {
    zip.zip_source_free(source);
    return zip_failed(name, zip.zip_strerror(m->archive));
  }
  zip_int32_t how = deflate ? ZIP_CM_DEFLATE : ZIP_CM_STORE;
  if (zip.zip_set_file_compression(m->archive, (zip_uint64_t)i, how, 0) ||
      zip.zip_file_set_dostime(m->archive, (zip_uint64_t)i, 0, new_year_1980,
                               0))
    return zip_failed(name, zip.zip_strerror(m->archive));
  return NULL;
}

/* What libzip made. */
static td_status *collect(maker *m, char **bytes, size_t *len) {
  zip_stat_t st;
  if (zip.zip_close(m->archive))
    return td_error(TD_INTERNAL, "the archive cannot be made: %s",
                    zip.zip_strerror(m->archive));
  m->archive = NULL;
  if (zip.zip_source_stat(m->bytes, &st) || zip.zip_source_open(m->bytes))
    return td_oom();
  *len = st.size;
  *bytes = td_malloc(*len);
  zip_int64_t got = *bytes ? zip.zip_source_read(m->bytes, *bytes, *len) : -1;
  zip.zip_source_close(m->bytes);
  return got == (zip_int64_t)*len ? NULL : td_oom();
}

static void end(maker *m) {
  if (m->archive) zip.zip_discard(m->archive);
  if (m->bytes) zip.zip_source_free(m->bytes);
  for (size_t i = 0; i < m->n; i++) td_free(m->parts[i]);
  td_free(m->parts);
}

/* libzip makes no file of an archive without entries: this is the empty one. */
static const char empty_archive[22] = "PK\5\6";

td_status *td_npz_write(const char *path, size_t n, const char *const *names,
                        const td_tensor *arrays, bool deflate) {
  maker m = {0};
  char *bytes = NULL;
  size_t len = 0;
  if (n == 0) return td_file_write(path, empty_archive, sizeof empty_archive);
  TD_TRY(need_zip());
  td_status *s = start(&m, n);
  for (size_t i = 0; td_ok(s) && i < n; i++)
    s = add(&m, names[i], &arrays[i], deflate);
  if (td_ok(s)) s = collect(&m, &bytes, &len);
  if (td_ok(s)) s = td_file_write(path, bytes, len);
  td_free(bytes);
  end(&m);
  return s;
}
