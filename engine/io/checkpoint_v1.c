/* checkpoint_v1.c - reading checkpoints of version 1.
 *
 *   SavedTensorSlices    1 SavedTensorSliceMeta, or 2 SavedSlice
 *   SavedTensorSliceMeta 1 SavedSliceMeta, repeated
 *   SavedSliceMeta       1 name, 2 shape, 3 dtype, 4 slice, repeated
 *   SavedSlice           1 name, 2 slice, 3 values: a TensorProto of values
 * only
 *
 * Of a file its bytes are kept, the keys, and where each value stands; what the
 * tables of contents say of a tensor is read again when it is asked for.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/checkpoint_v1.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/graphdef/graphdef.h"
#include "engine/io/checkpoint_entry.h"
#include "engine/io/field.h"
#include "engine/io/matching.h"
#include "engine/io/sorted_table.h"

static const size_t most_bytes = (size_t)1 << 32; /* of a file */
enum { KEYS_PER_BYTE = 16 }; /* bytes of keys for each of a file */

typedef struct value {
  size_t key, key_len; /* in `keys` */
  td_bytes bytes;      /* in the file */
} value;

typedef struct file {
  char *path, *bytes;
  size_t len;
  td_str keys;
  TD_VEC(value) values; /* by key, ascending */
} file;

/* What a file says of a tensor. */
typedef struct record {
  char *name;
  size_t file;
  td_bytes meta; /* its SavedSliceMeta */
} record;

struct td_checkpoint_v1 {
  char *path;
  TD_VEC(file) files;
  TD_VEC(record) records; /* by name, then file */
};

static td_status *broken(const char *what) {
  return td_error(TD_DATA_LOSS, "its table of contents is broken: %s", what);
}

/* ---- what a file says of its tensors ------------------------------------- */

static td_status *take(td_bytes *from, td_field *f) {
  return td_field_take(from, f) ? NULL : broken("a field is cut off");
}

/* Everything but the slices; the name's bytes apart. */
static td_status *read_meta(td_bytes from, td_bytes *name,
                            td_checkpoint_entry *e) {
  *e = (td_checkpoint_entry){0};
  *name = (td_bytes){0};
  for (td_field f; from.len > 0;) {
    TD_TRY(take(&from, &f));
    if (f.number == 1) *name = f.bytes;
    if (f.number == 2) TD_TRY(td_checkpoint_shape_get(f.bytes, &e->shape));
    if (f.number == 3) e->dtype = f.v < TD_DTYPES ? (td_dtype)f.v : TD_INVALID;
    if (f.number == 4) e->n_slices++;
  }
  if (name->len == 0 || memchr(name->at, 0, name->len))
    return broken("a name is empty or has a NUL");
  if (!td_dtype_is_plain(e->dtype) && e->dtype != TD_STRING)
    return td_error(TD_UNIMPLEMENTED,
                    "a tensor of dtype %s (%d) is not read from checkpoints",
                    td_dtype_name(e->dtype), (int)e->dtype);
  return td_shape_count(&e->shape) < 0 ? broken("a shape has too many elements")
                                       : NULL;
}

/* The next slice of a tensor: false when there is none any more. */
static bool next_slice(td_bytes *meta, td_slice *out) {
  for (td_field f; meta->len > 0 && td_field_take(meta, &f);) {
    if (f.number != 4) continue;
    td_status *bad = td_checkpoint_slice_get(f.bytes, out);
    td_status_release(bad);
    return !bad; /* all were read once: it cannot be */
  }
  return false;
}

static td_status *check_slices(td_bytes meta, const td_checkpoint_entry *e) {
  for (td_field f; meta.len > 0;) {
    td_slice s;
    td_shape part;
    TD_TRY(take(&meta, &f));
    if (f.number != 4) continue;
    TD_TRY(td_checkpoint_slice_get(f.bytes, &s));
    td_status *bad = td_slice_shape(&e->shape, &s, &part);
    td_status_release(bad);
    if (bad) return broken("a slice lies beyond its tensor");
  }
  return NULL;
}

static td_status *add_record(td_checkpoint_v1 *c, td_bytes meta) {
  td_checkpoint_entry e;
  td_bytes name;
  TD_TRY(read_meta(meta, &name, &e));
  TD_TRY(check_slices(meta, &e));
  record r = {td_strndup(name.at, name.len), c->files.len - 1, meta};
  if (r.name && td_vec_push(&c->records, r)) return NULL;
  td_free(r.name);
  return td_oom();
}

static td_status *read_contents(td_checkpoint_v1 *c, td_bytes from) {
  for (td_field f; from.len > 0;) {
    TD_TRY(take(&from, &f));
    if (f.number != 1) continue;
    for (td_bytes all = f.bytes; all.len > 0;) {
      TD_TRY(take(&all, &f));
      if (f.number == 1) TD_TRY(add_record(c, f.bytes));
    }
  }
  return NULL;
}

/* ---- opening ------------------------------------------------------------- */

static td_status *keep(void *arg, td_bytes key, td_bytes bytes) {
  td_checkpoint_v1 *c = arg;
  file *f = &c->files.at[c->files.len - 1];
  if (key.len == 0) return read_contents(c, bytes);
  if (f->keys.len + key.len > KEYS_PER_BYTE * f->len)
    return td_error(TD_RESOURCE_EXHAUSTED, "its names are too long");
  value v = {f->keys.len, key.len, bytes};
  td_str_addn(&f->keys, key.at, key.len);
  return !f->keys.failed && td_vec_push(&f->values, v) ? NULL : td_oom();
}

static td_status *open_file(td_checkpoint_v1 *c, const char *path) {
  file new = {.path = td_strdup(path)};
  if (!new.path || !td_vec_push(&c->files, new)) {
    td_free(new.path);
    return td_oom();
  }
  file *f = &c->files.at[c->files.len - 1];
  TD_TRY(td_file_read(path, most_bytes, &f->bytes, &f->len));
  size_t before = c->records.len;
  td_status *s = td_sorted_table_read((td_bytes){f->bytes, f->len}, keep, c);
  if (td_ok(s) && c->records.len == before) s = broken("it names no tensor");
  if (td_ok(s) || td_status_code(s) == TD_RESOURCE_EXHAUSTED) return s;
  td_status *told =
      td_error(td_status_code(s), "'%s' is no checkpoint of version 1: %s",
               path, td_status_message(s));
  td_status_release(s);
  return told;
}

static int by_name(const void *a, const void *b) {
  const record *x = a, *y = b;
  int order = strcmp(x->name, y->name);
  return order ? order : x->file < y->file ? -1 : x->file > y->file;
}

/* Do all files that have slices of a tensor say the same of it? */
static td_status *check_agreement(const td_checkpoint_v1 *c) {
  td_checkpoint_entry e, before = {0};
  td_bytes name;
  for (size_t i = 0; i < c->records.len; i++, before = e) {
    const record *r = &c->records.at[i];
    TD_TRY(read_meta(r->meta, &name, &e));
    if (i == 0 || strcmp(r->name, c->records.at[i - 1].name) != 0) continue;
    if (e.dtype != before.dtype || !td_shape_equal(&e.shape, &before.shape))
      return td_error(TD_DATA_LOSS,
                      "the files of checkpoint '%s' do not agree in dtype and "
                      "shape of tensor \"%s\"",
                      c->path, r->name);
  }
  return NULL;
}

static td_status *find_files(const char *path, td_paths *out) {
  if (td_file_exists(path)) {
    char *copy = td_strdup(path);
    if (copy && td_vec_push(out, copy)) return NULL;
    td_free(copy);
    return td_oom();
  }
  td_str shards = {0};
  TD_TRY(td_matching_files(path, out));
  if (out->len > 0) return NULL;
  td_str_addf(&shards, "%s-????\?-of-?????", path);
  td_status *s = shards.failed ? td_oom() : td_matching_files(shards.at, out);
  td_str_deinit(&shards);
  return s;
}

static td_status *open_files(td_checkpoint_v1 *c) {
  td_paths paths = {0};
  td_status *s = find_files(c->path, &paths);
  if (td_ok(s) && paths.len == 0)
    s = td_error(TD_NOT_FOUND, "there is no checkpoint '%s'", c->path);
  td_paths_sort(&paths);
  for (size_t i = 0; td_ok(s) && i < paths.len; i++)
    s = open_file(c, paths.at[i]);
  td_paths_free(&paths);
  return s;
}

td_status *td_checkpoint_v1_open(const char *path, td_checkpoint_v1 **out) {
  td_checkpoint_v1 *c = td_calloc(1, sizeof *c);
  if (!c) return td_oom();
  c->path = td_strdup(path);
  td_status *s = c->path ? open_files(c) : td_oom();
  if (td_ok(s)) {
    qsort(c->records.at, c->records.len, sizeof *c->records.at, by_name);
    s = check_agreement(c);
  }
  if (td_ok(s))
    *out = c;
  else
    td_checkpoint_v1_close(c);
  return s;
}

void td_checkpoint_v1_close(td_checkpoint_v1 *c) {
  if (!c) return;
  for (size_t i = 0; i < c->files.len; i++) {
    file *f = &c->files.at[i];
    td_free(f->path);
    td_free(f->bytes);
    td_str_deinit(&f->keys);
    td_vec_free(&f->values);
  }
  for (size_t i = 0; i < c->records.len; i++) td_free(c->records.at[i].name);
  td_vec_free(&c->files);
  td_vec_free(&c->records);
  td_free(c->path);
  td_free(c);
}

/* ---- entries ------------------------------------------------------------- */

size_t td_checkpoint_v1_count(const td_checkpoint_v1 *c) {
  return c->records.len;
}

const char *td_checkpoint_v1_name(const td_checkpoint_v1 *c, size_t i) {
  return c->records.at[i].name;
}

/* The first record not below `name`. */
static size_t find_record(const td_checkpoint_v1 *c, const char *name) {
  size_t low = 0, high = c->records.len;
  while (low < high) {
    size_t mid = low + (high - low) / 2;
    if (strcmp(c->records.at[mid].name, name) < 0)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

static bool is_of(const td_checkpoint_v1 *c, size_t i, const char *name) {
  return i < c->records.len && strcmp(c->records.at[i].name, name) == 0;
}

bool td_checkpoint_v1_find(const td_checkpoint_v1 *c, const char *name,
                           td_checkpoint_entry *out) {
  size_t i = find_record(c, name);
  td_bytes bytes;
  if (!is_of(c, i, name)) return false;
  td_status_release(read_meta(c->records.at[i].meta, &bytes, out));
  out->name = c->records.at[i].name;
  return true;
}

/* ---- reading ------------------------------------------------------------- */

static const value *find_value(const file *f, td_bytes key) {
  size_t low = 0, high = f->values.len;
  while (low < high) {
    size_t mid = low + (high - low) / 2;
    const value *v = &f->values.at[mid];
    td_bytes here = {f->keys.at + v->key, v->key_len};
    int order = td_sorted_compare(here, key);
    if (order == 0) return v;
    if (order < 0)
      low = mid + 1;
    else
      high = mid;
  }
  return NULL;
}

/* The values of a slice: SavedTensorSlices.data.data */
static td_status *find_values(td_bytes from, td_bytes *out) {
  td_bytes slice = {0};
  *out = (td_bytes){0};
  for (td_field f; from.len > 0;) {
    TD_TRY(take(&from, &f));
    if (f.number == 2) slice = f.bytes;
  }
  for (td_field f; slice.len > 0;) {
    TD_TRY(take(&slice, &f));
    if (f.number == 3) *out = f.bytes;
  }
  return NULL;
}

/* Values become a tensor when dtype and shape are put before them. */
static td_status *build(td_bytes values, td_dtype dtype, const td_shape *shape,
                        td_tensor *out) {
  td_str whole = {0};
  td_field_put(&whole, 1, (uint64_t)dtype);
  td_checkpoint_shape_put(&whole, 2, shape);
  td_str_addn(&whole, values.at, values.len);
  td_status *s = whole.failed
                     ? td_oom()
                     : td_tensorproto_read(whole.at, whole.len, 0, out);
  td_str_deinit(&whole);
  if (!td_ok(s) && s != td_oom()) {
    td_status *told = td_error(TD_DATA_LOSS, "the values of a slice: %s",
                               td_status_message(s));
    td_status_release(s);
    s = told;
  }
  TD_TRY(s);
  if (out->dtype == dtype && td_shape_equal(&out->shape, shape)) return NULL;
  td_tensor_release(out);
  return broken("a slice has another's dtype or shape");
}

static td_status *read_slice(const td_checkpoint_v1 *c, const record *r,
                             const td_checkpoint_entry *e, const td_slice *s,
                             td_tensor *out) {
  td_str key = {0};
  td_shape part;
  td_bytes values;
  const file *f = &c->files.at[r->file];
  TD_TRY(td_slice_shape(&e->shape, s, &part));
  td_slice_key(r->name, s, &key);
  const value *v =
      key.failed ? NULL : find_value(f, (td_bytes){key.at, key.len});
  bool failed = key.failed;
  td_str_deinit(&key);
  if (failed) return td_oom();
  if (!v)
    return td_error(TD_DATA_LOSS, "a slice of it is missing in '%s'", f->path);
  TD_TRY(find_values(v->bytes, &values));
  return build(values, e->dtype, &part, out);
}

/* What a stored slice has of the part that is wanted; counts the elements. */
static td_status *copy_slice(const td_checkpoint_v1 *c, const record *r,
                             const td_checkpoint_entry *e, const td_slice *s,
                             const td_slice *part, td_tensor *out,
                             int64_t *filled) {
  td_slice common;
  td_tensor t;
  if (!td_slice_meet(&e->shape, s, part, &common)) return NULL;
  TD_TRY(read_slice(c, r, e, s, &t));
  td_slice_copy(&e->shape, &common, s, t.data, part, out->data,
                td_dtype_size(e->dtype));
  td_tensor_release(&t);
  int64_t n = 1;
  for (int i = 0; i < common.rank; i++) n *= common.length[i];
  *filled += n;
  return NULL;
}

static td_status *copy_slices(const td_checkpoint_v1 *c,
                              const td_checkpoint_entry *e,
                              const td_slice *part, td_tensor *out) {
  int64_t filled = 0;
  td_slice s;
  for (size_t i = find_record(c, e->name); is_of(c, i, e->name); i++) {
    const record *r = &c->records.at[i];
    for (td_bytes at = r->meta; next_slice(&at, &s);)
      TD_TRY(copy_slice(c, r, e, &s, part, out, &filled));
  }
  return filled == td_tensor_count(out)
             ? NULL
             : td_error(TD_DATA_LOSS,
                        "its slices do not cover it, or overlap: %lld of %lld "
                        "elements",
                        (long long)filled, (long long)td_tensor_count(out));
}

/* Is the tensor stored as a whole, and wanted so? Then it is read, not copied.
 */
static bool is_one(const td_checkpoint_v1 *c, const td_checkpoint_entry *e,
                   const td_slice *part, const record **r, td_slice *s) {
  size_t i = find_record(c, e->name);
  *r = &c->records.at[i];
  td_bytes at = (*r)->meta;
  return e->n_slices == 1 && !is_of(c, i + 1, e->name) && next_slice(&at, s) &&
         td_slice_is_whole(&e->shape, s) && td_slice_is_whole(&e->shape, part);
}

/* Each element takes a byte at least: no memory for those that cannot be. */
static td_status *check_count(const td_checkpoint_v1 *c,
                              const td_shape *shape) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < c->files.len; i++) bytes += c->files.at[i].len;
  return (uint64_t)td_shape_count(shape) <= bytes
             ? NULL
             : broken("it has more elements than its files have bytes");
}

static td_status *read_part(const td_checkpoint_v1 *c,
                            const td_checkpoint_entry *e, const td_slice *part,
                            td_tensor *out) {
  td_shape shape;
  td_slice s;
  const record *r;
  TD_TRY(td_slice_shape(&e->shape, part, &shape));
  TD_TRY(check_count(c, &shape));
  if (is_one(c, e, part, &r, &s)) return read_slice(c, r, e, &s, out);
  if (e->dtype == TD_STRING)
    return td_error(TD_UNIMPLEMENTED, "slices of strings are not read");
  TD_TRY(td_tensor_new(NULL, e->dtype, &shape, out));
  td_status *bad = copy_slices(c, e, part, out);
  if (!td_ok(bad)) td_tensor_release(out);
  return bad;
}

td_status *td_checkpoint_v1_read(const td_checkpoint_v1 *c,
                                 const td_checkpoint_entry *e,
                                 const td_slice *part, td_tensor *out) {
  td_slice all = {.rank = e->shape.rank};
  for (int i = 0; i < all.rank; i++) all.length[i] = -1;
  td_status *s = read_part(c, e, part ? part : &all, out);
  if (td_ok(s)) return NULL;
  td_status *told =
      td_error(td_status_code(s), "checkpoint '%s', tensor \"%s\": %s", c->path,
               e->name, td_status_message(s));
  td_status_release(s);
  return told;
}
