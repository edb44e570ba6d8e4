/* cache_file.c - records of a header, of elements, and of the end.
 *
 *   header   "tide.cache.1\0", columns (4 bytes), of each its dtype's name and
 *            a NUL
 *   element  'E', of each column: rank (1 byte), sizes (8 bytes each), then the
 *            bytes of the numbers, or of strings all lengths (8 bytes each),
 *            then their text
 *   end      'Z', the number of elements (8 bytes)
 *
 * Numbers of the frame are written lowest byte first; tensors as they lie in
 * memory.
 *
 * What is not whole yet is called path.part-PROCESS-NUMBER, and its writer has
 * it locked: one that nobody has was left by a process that was killed, on
 * whatever machine, and goes when the next is begun.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/pipeline/cache_file.h"

#include <string.h>
#include <unistd.h>

#include "engine/base/bytes.h"
#include "engine/base/file.h"
#include "engine/base/file_stream.h"
#include "engine/base/mem.h"
#include "engine/io/record.h"

static const char magic[] = "tide.cache.1";

enum { ELEMENT = 'E', END = 'Z' };

td_status *td_cache_check(const td_column *columns, int n) {
  for (int i = 0; i < n; i++)
    if (!td_dtype_is_plain(columns[i].dtype) && columns[i].dtype != TD_STRING)
      return td_error(TD_INVALID_ARGUMENT,
                      "cache: column %d is of %s, which no file can hold", i,
                      td_dtype_name(columns[i].dtype));
  return NULL;
}

static void put_header(td_str *out, const td_column *columns, int n) {
  td_str_addn(out, magic, sizeof magic);
  td_bytes_put(out, (uint64_t)n, 4);
  for (int i = 0; i < n; i++) {
    td_str_add(out, td_dtype_name(columns[i].dtype));
    td_str_addc(out, '\0');
  }
}

/* ---- writing ------------------------------------------------------------- */

struct td_cache_writer {
  td_record_writer *records;
  const td_column *columns;
  int n;
  char *path, *part;  /* the name it will have, and has */
  td_file_lock *lock; /* of `part`; NULL: that file system has none */
  uint64_t count;     /* elements written */
  td_str record;      /* room for one */
};

static td_status *write_record(td_cache_writer *w) {
  if (w->record.failed) return td_oom();
  if (w->record.len > TD_SOURCE_LIMIT)
    return td_error(TD_RESOURCE_EXHAUSTED,
                    "an element of %zu bytes is too long for the cache '%s': "
                    "the most is %llu",
                    w->record.len, w->path,
                    (unsigned long long)TD_SOURCE_LIMIT);
  return td_record_write(w->records, td_str_c(&w->record), w->record.len);
}

static td_status *begin(td_cache_writer *w) {
  TD_TRY(td_record_writer_open(w->part, NULL, &w->records));
  put_header(&w->record, w->columns, w->n);
  return write_record(w);
}

static void writer_free(td_cache_writer *w) {
  td_file_unlock(w->lock);
  td_str_deinit(&w->record);
  td_free(w->path);
  td_free(w->part);
  td_free(w);
}

void td_cache_writer_drop(td_cache_writer *w) {
  if (!w) return;
  bool there = w->records || w->lock;
  td_status_release(td_record_writer_close(w->records));
  if (there) td_status_release(td_file_remove(w->part));
  writer_free(w);
}

/* "a/b" -> "a", "/b" -> "/", "b" -> ".", "mem://b" -> "mem://". */
static void folder_of(const char *path, td_str *out) {
  const char *slash = strrchr(path, '/');
  size_t n = slash ? (size_t)(slash - path) : 0;
  td_str_addn(out, path, n);
  if (!slash) td_str_addc(out, '.');
  if (slash && (n == 0 || path[n - 1] == '/')) td_str_addc(out, '/');
}

#define PART ".part-"

/* Is it a name that name_part gives the file of this name? */
static bool is_part(const char *name, const char *of) {
  size_t n = strlen(of);
  if (strncmp(name, of, n) != 0 || strncmp(name + n, PART, strlen(PART)) != 0)
    return false;
  name += n + strlen(PART);
  size_t process = strspn(name, "0123456789");
  if (process == 0 || name[process] != '-') return false;
  name += process + 1;
  return *name && name[strspn(name, "0123456789")] == '\0';
}

/* What cannot be looked at, or removed, stays. */
static void remove_unlocked(const char *part) {
  td_file_lock *lock = NULL;
  td_status *s = td_file_lock_take(part, &lock);
  if (td_ok(s)) s = td_file_remove(part);
  td_file_unlock(lock);
  td_status_release(s);
}

static void remove_left(const char *path) {
  const char *slash = strrchr(path, '/');
  size_t base = slash ? (size_t)(slash + 1 - path) : 0;
  td_str folder = {0}, names = {0}, part = {0};
  folder_of(path, &folder);
  td_status *s =
      folder.failed ? td_oom() : td_file_list(td_str_c(&folder), &names);
  for (size_t at = 0; td_ok(s) && at < names.len;) {
    const char *name = names.at + at;
    at += strlen(name) + 1;
    if (!is_part(name, path + base)) continue;
    td_str_clear(&part);
    td_str_addn(&part, path, base);
    td_str_add(&part, name);
    if (!part.failed) remove_unlocked(td_str_c(&part));
  }
  td_status_release(s);
  td_str_deinit(&folder);
  td_str_deinit(&names);
  td_str_deinit(&part);
}

/* Of this process and this writer alone. */
static char *name_part(const char *path) {
  static unsigned count;
  td_str s = {0};
  td_str_addf(&s, "%s" PART "%d-%u", path, (int)getpid(),
              __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED));
  return td_str_take(&s);
}

/* A name that nobody else has: another may be about to remove one that is left
 * of an earlier process of this number. */
static td_status *take_part(td_cache_writer *w) {
  enum { TRIES = 8 };
  td_status *s = NULL;
  for (int i = 0; i < TRIES; i++) {
    td_status_release(s);
    td_free(w->part);
    w->part = name_part(w->path);
    if (!w->part) return td_oom();
    s = td_file_lock_take(w->part, &w->lock);
    if (td_status_code(s) != TD_UNAVAILABLE) break;
  }
  td_code code = td_status_code(s);
  if (code == TD_UNAVAILABLE || code == TD_RESOURCE_EXHAUSTED) return s;
  td_status_release(s); /* without locks; or what is wrong is said again */
  return NULL;
}

td_status *td_cache_writer_open(const char *path, const td_column *columns,
                                int n, td_cache_writer **out) {
  td_cache_writer *w = td_calloc(1, sizeof *w);
  if (!w) return td_oom();
  w->columns = columns;
  w->n = n;
  w->path = td_strdup(path);
  remove_left(path);
  td_status *s = w->path ? take_part(w) : td_oom();
  if (td_ok(s)) s = begin(w);
  if (td_ok(s))
    *out = w;
  else
    td_cache_writer_drop(w);
  return s;
}

static void put_strings(td_str *out, const td_tensor *t) {
  int64_t n = td_tensor_count(t);
  size_t len;
  for (int64_t i = 0; i < n; i++) {
    td_tensor_str(t, i, &len);
    td_bytes_put(out, len, 8);
  }
  for (int64_t i = 0; i < n; i++) {
    const char *at = td_tensor_str(t, i, &len);
    td_str_addn(out, at, len);
  }
}

static void put_tensor(td_str *out, const td_tensor *t) {
  td_str_addc(out, (char)t->shape.rank);
  for (int i = 0; i < t->shape.rank; i++)
    td_bytes_put(out, (uint64_t)t->shape.dim[i], 8);
  if (t->dtype == TD_STRING)
    put_strings(out, t);
  else
    td_str_addn(out, t->data, td_tensor_bytes(t));
}

td_status *td_cache_write(td_cache_writer *w, const td_element *e) {
  td_str_clear(&w->record);
  td_str_addc(&w->record, ELEMENT);
  for (int i = 0; i < w->n; i++) {
    if (e->at[i].dtype != w->columns[i].dtype)
      return td_error(TD_INTERNAL, "cache: column %d is %s, not %s", i,
                      td_dtype_name(e->at[i].dtype),
                      td_dtype_name(w->columns[i].dtype));
    put_tensor(&w->record, &e->at[i]);
  }
  TD_TRY(write_record(w));
  w->count++;
  return NULL;
}

static td_status *write_end(td_cache_writer *w) {
  td_str_clear(&w->record);
  td_str_addc(&w->record, END);
  td_bytes_put(&w->record, w->count, 8);
  return write_record(w);
}

static td_status *sync_file(const char *path) {
  td_file *f;
  TD_TRY(td_file_open(path, TD_FILE_APPEND, &f));
  td_status *s = td_file_sync(f);
  return td_status_first(s, td_file_close(f));
}

static td_status *sync_folder_of(const char *path) {
  td_str folder = {0};
  folder_of(path, &folder);
  td_status *s =
      folder.failed ? td_oom() : td_file_sync_folder(td_str_c(&folder));
  td_str_deinit(&folder);
  return s;
}

td_status *td_cache_writer_finish(td_cache_writer *w) {
  td_status *s = write_end(w);
  s = td_status_first(s, td_record_writer_close(w->records));
  w->records = NULL;
  if (td_ok(s)) s = sync_file(w->part);
  if (td_ok(s)) s = td_file_rename(w->part, w->path);
  if (!td_ok(s)) {
    td_status_release(td_file_remove(w->part));
  } else {
    /* It has its name: if a crash takes that away, it is made anew. */
    td_status_release(sync_folder_of(w->path));
  }
  writer_free(w);
  return s;
}

/* ---- reading ------------------------------------------------------------- */

struct td_cache_reader {
  td_record_source *source;
  char *path; /* for messages */
  const td_column *columns;
  int n;
  uint64_t count; /* elements read */
};

static td_status *damaged(const td_cache_reader *r, const char *what) {
  return td_error(TD_DATA_LOSS,
                  "the cache '%s' is damaged: %s (after %llu elements); remove "
                  "it, and it is made anew",
                  r->path, what, (unsigned long long)r->count);
}

/* The same for what the file's records themselves are found to have. */
static td_status *next_record(td_cache_reader *r, td_bytes *out) {
  td_source_record record;
  bool more = false;
  td_status *s = td_source_next(r->source, &record, &more);
  if (td_status_code(s) == TD_DATA_LOSS) {
    td_status *told = damaged(r, td_status_message(s));
    td_status_release(s);
    return told;
  }
  if (td_ok(s) && !more) s = damaged(r, "it is cut short");
  if (td_ok(s)) *out = (td_bytes){record.at, record.len};
  return s;
}

static td_status *check_header(td_cache_reader *r) {
  td_bytes b;
  td_str want = {0};
  TD_TRY(next_record(r, &b));
  if (b.len < sizeof magic || memcmp(b.at, magic, sizeof magic) != 0)
    return td_error(TD_FAILED_PRECONDITION,
                    "'%s' is there and is no cache; give another path, or "
                    "remove it",
                    r->path);
  put_header(&want, r->columns, r->n);
  bool failed = want.failed;
  bool same = !failed && b.len == want.len &&
              memcmp(b.at, td_str_c(&want), want.len) == 0;
  td_str_deinit(&want);
  if (failed) return td_oom();
  if (same) return NULL;
  return td_error(TD_FAILED_PRECONDITION,
                  "the cache '%s' holds elements of other columns than the %d "
                  "of this pipeline; remove it, and it is made anew",
                  r->path, r->n);
}

td_status *td_cache_reader_open(const char *path, const td_column *columns,
                                int n, td_cache_reader **out) {
  td_source_options o = {0};
  td_cache_reader *r = td_calloc(1, sizeof *r);
  if (!r) return td_oom();
  r->columns = columns;
  r->n = n;
  r->path = td_strdup(path);
  td_status *s = r->path ? td_source_open(path, &o, &r->source) : td_oom();
  if (td_ok(s)) s = check_header(r);
  if (td_ok(s))
    *out = r;
  else
    td_cache_reader_close(r);
  return s;
}

void td_cache_reader_close(td_cache_reader *r) {
  if (!r) return;
  td_source_close(r->source);
  td_free(r->path);
  td_free(r);
}

/* False: this cannot be a shape. The product of its sizes, zeros as ones, is
 * within bounds, so that whoever multiplies them is safe. */
static bool get_shape(td_bytes *b, td_shape *shape) {
  uint64_t rank, size;
  size_t product = 1;
  if (!td_bytes_get(b, 1, &rank) || rank > TD_MAX_RANK) return false;
  *shape = td_shape_scalar();
  shape->rank = (int)rank;
  for (int i = 0; i < shape->rank; i++) {
    if (!td_bytes_get(b, 8, &size) || size > INT64_MAX ||
        !td_mul(product, size ? size : 1, &product) || product > INT64_MAX)
      return false;
    shape->dim[i] = (int64_t)size;
  }
  return true;
}

/* *fits false: the bytes are not there. */
static td_status *get_strings(td_bytes *b, const td_shape *shape,
                              td_tensor *out, bool *fits) {
  size_t n = (size_t)td_shape_count(shape), total = 0, bytes;
  td_bytes lengths, all;
  uint64_t *offsets, len;
  char *text;
  *fits = td_mul(n, 8, &bytes) && td_bytes_take(b, bytes, &lengths);
  td_bytes at = *fits ? lengths : (td_bytes){0};
  for (size_t i = 0; *fits && i < n; i++)
    *fits = td_bytes_get(&at, 8, &len) && td_add(total, len, &total);
  *fits = *fits && td_bytes_take(b, total, &all);
  if (!*fits) return NULL;
  TD_TRY(td_tensor_strings_new(shape, total, out, &offsets, &text));
  if (total) memcpy(text, all.at, total);
  at = lengths;
  for (size_t i = 0; i < n && td_bytes_get(&at, 8, &len); i++)
    offsets[i + 1] = offsets[i] + len;
  return NULL;
}

static td_status *get_numbers(td_bytes *b, td_dtype dtype,
                              const td_shape *shape, td_tensor *out,
                              bool *fits) {
  size_t bytes;
  td_bytes all;
  *fits = td_mul((size_t)td_shape_count(shape), td_dtype_size(dtype), &bytes) &&
          td_bytes_take(b, bytes, &all);
  if (!*fits) return NULL;
  TD_TRY(td_tensor_new(NULL, dtype, shape, out));
  if (bytes) memcpy(out->data, all.at, bytes);
  for (size_t i = 0; dtype == TD_BOOL && i < bytes; i++) /* 0 and 1 only */
    ((uint8_t *)out->data)[i] = all.at[i] != 0;
  return NULL;
}

static td_status *get_tensor(const td_cache_reader *r, td_bytes *b, int i,
                             td_tensor *out) {
  const td_column *c = &r->columns[i];
  td_shape shape;
  td_shape_text is, wanted;
  bool fits = false;
  if (!get_shape(b, &shape)) return damaged(r, "a shape is none");
  if (!td_shape_compatible(&shape, &c->shape))
    return td_error(TD_FAILED_PRECONDITION,
                    "the cache '%s' holds tensors of shape %s, and column %d "
                    "of this pipeline is of shape %s; remove it, and it is "
                    "made anew",
                    r->path, td_shape_str(&shape, &is), i,
                    td_shape_str(&c->shape, &wanted));
  td_status *s = c->dtype == TD_STRING
                     ? get_strings(b, &shape, out, &fits)
                     : get_numbers(b, c->dtype, &shape, out, &fits);
  return td_ok(s) && !fits ? damaged(r, "a tensor is cut short") : s;
}

static td_status *get_element(td_cache_reader *r, td_bytes b, td_element *e) {
  TD_TRY(td_element_new(r->n, e));
  td_status *s = NULL;
  for (int i = 0; td_ok(s) && i < r->n; i++)
    s = get_tensor(r, &b, i, &e->at[i]);
  if (td_ok(s) && b.len > 0) s = damaged(r, "an element is too long");
  if (!td_ok(s)) td_element_drop(e);
  return s;
}

static td_status *check_end(td_cache_reader *r, td_bytes b) {
  uint64_t count;
  if (!td_bytes_get(&b, 8, &count) || b.len > 0 || count != r->count)
    return damaged(r, "elements are missing");
  return NULL;
}

td_status *td_cache_read(td_cache_reader *r, td_element *e, bool *more) {
  td_bytes b;
  uint64_t kind = 0;
  *more = false;
  TD_TRY(next_record(r, &b));
  if (!td_bytes_get(&b, 1, &kind) || (kind != ELEMENT && kind != END))
    return damaged(r, "a record is neither an element nor the end");
  if (kind == END) return check_end(r, b);
  TD_TRY(get_element(r, b, e));
  r->count++;
  *more = true;
  return NULL;
}
