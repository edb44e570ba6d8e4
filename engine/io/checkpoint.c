/* checkpoint.c - opening a checkpoint and reading its tensors.
 *
 * Of the index three things are kept: the file as it is, the keys, which it
 * holds shortened, and for each where its value stands. An entry is read again
 * when it is asked for; all were read once when the checkpoint was opened, so
 * that this cannot fail. Keys of slices begin with a NUL and come before names.
 *
 * Data are read in pieces that the check goes over while they are warm.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/checkpoint.h"

#include <string.h>

#include "engine/base/bytes.h"
#include "engine/base/crc32c.h"
#include "engine/base/file.h"
#include "engine/base/file_stream.h"
#include "engine/base/mem.h"
#include "engine/base/nearest.h"
#include "engine/base/vec.h"
#include "engine/io/checkpoint_entry.h"
#include "engine/io/sorted_table.h"

static const size_t most_index = (size_t)1 << 30; /* bytes of an index */
enum {
  MOST_ENTRIES = 1 << 22,
  KEYS_PER_BYTE = 16, /* bytes of keys for each of the file */
  PIECE = 1 << 20,    /* bytes read at once */
};

typedef struct record {
  size_t key, key_len; /* in `keys`, with a NUL behind */
  td_bytes value;      /* in the file */
} record;

typedef struct shard {
  int32_t number;
  td_file *file;
  uint64_t size;
  char *path;
} shard;

struct td_checkpoint {
  char *prefix;
  char *index;
  size_t index_len;
  td_str keys;
  TD_VEC(record) records; /* by key, ascending */
  size_t first_name;      /* of them: those before are keys of slices */
  int n_shards;
  bool has_header;
  TD_VEC(shard) shards;      /* those that entries need, by number */
  td_checkpoint_go_on go_on; /* or NULL */
  void *arg;                 /* for it */
};

/* ---- opening ------------------------------------------------------------- */

static td_status *keep_record(void *arg, td_bytes key, td_bytes value) {
  td_checkpoint *c = arg;
  if (key.len == 0) {
    c->has_header = true;
    return td_checkpoint_header_get(value, &c->n_shards);
  }
  if (!c->has_header)
    return td_error(TD_DATA_LOSS,
                    "it is no index of a checkpoint of version 2");
  bool is_slice = key.at[0] == '\0';
  if (!is_slice && memchr(key.at, 0, key.len))
    return td_error(TD_DATA_LOSS, "a name has a NUL within");
  if (c->records.len == MOST_ENTRIES ||
      c->keys.len + key.len > KEYS_PER_BYTE * c->index_len)
    return td_error(TD_RESOURCE_EXHAUSTED,
                    "it has too many names, or names that are too long");
  record r = {c->keys.len, key.len, value};
  td_str_addn(&c->keys, key.at, key.len);
  td_str_addc(&c->keys, 0);
  if (c->keys.failed || !td_vec_push(&c->records, r)) return td_oom();
  if (is_slice) c->first_name = c->records.len;
  return NULL;
}

/* Says where an error was found. */
static td_status *blame(const td_checkpoint *c, const char *name,
                        td_status *s) {
  if (td_ok(s) || td_status_code(s) == TD_RESOURCE_EXHAUSTED) return s;
  td_status *told =
      td_error(td_status_code(s), "checkpoint '%s', tensor \"%s\": %s",
               c->prefix, *name ? name : "(a slice)", td_status_message(s));
  td_status_release(s);
  return told;
}

static shard *find_shard(const td_checkpoint *c, int32_t number) {
  size_t low = 0, high = c->shards.len;
  while (low < high) {
    size_t mid = low + (high - low) / 2;
    if (c->shards.at[mid].number < number)
      low = mid + 1;
    else
      high = mid;
  }
  return low < c->shards.len && c->shards.at[low].number == number
             ? &c->shards.at[low]
             : NULL;
}

static td_status *open_shard(td_checkpoint *c, int32_t number) {
  td_str path = {0};
  td_str_addf(&path, "%s.data-%05d-of-%05d", c->prefix, number, c->n_shards);
  shard new = {.number = number, .path = td_str_take(&path)};
  if (!new.path) return td_oom();
  td_status *s = td_file_open(new.path, TD_FILE_READ, &new.file);
  if (td_status_code(s) == TD_NOT_FOUND) {
    td_status_release(s);
    s = td_error(TD_DATA_LOSS,
                 "'%s' is missing: copy all files of the checkpoint, or take "
                 "the one before",
                 new.path);
  }
  if (td_ok(s)) s = td_file_size(new.file, &new.size);
  if (td_ok(s) && !td_vec_push(&c->shards, new)) s = td_oom();
  if (td_ok(s)) return NULL;
  if (new.file) td_status_release(td_file_close(new.file));
  td_free(new.path);
  return s;
}

/* Puts the shard that came last where its number belongs. */
static void sort_last(td_checkpoint *c) {
  for (size_t i = c->shards.len - 1; i > 0; i--) {
    shard *a = &c->shards.at[i - 1], *b = &c->shards.at[i];
    if (a->number < b->number) return;
    shard swap = *a;
    *a = *b;
    *b = swap;
  }
}

static td_status *check_entry(td_checkpoint *c, const record *r) {
  td_checkpoint_entry e;
  TD_TRY(td_checkpoint_entry_get(r->value, &e));
  if (e.n_slices > 0) return NULL;
  if (e.shard >= c->n_shards)
    return td_error(TD_DATA_LOSS, "it is in shard %d of %d", e.shard,
                    c->n_shards);
  const shard *sh = find_shard(c, e.shard);
  if (!sh) {
    TD_TRY(open_shard(c, e.shard));
    sort_last(c);
    sh = find_shard(c, e.shard);
  }
  if (e.size > sh->size || e.offset > sh->size - e.size)
    return td_error(TD_DATA_LOSS,
                    "its bytes %llu to %llu are not in '%s' of %llu: the file "
                    "was cut short",
                    (unsigned long long)e.offset,
                    (unsigned long long)(e.offset + e.size), sh->path,
                    (unsigned long long)sh->size);
  return NULL;
}

static td_status *read_index(td_checkpoint *c) {
  td_str path = {0};
  td_str_addf(&path, "%s.index", c->prefix);
  if (path.failed) return td_oom();
  td_status *s = td_file_read(path.at, most_index, &c->index, &c->index_len);
  td_bytes file = {c->index, c->index_len};
  if (td_ok(s)) {
    s = td_sorted_table_read(file, keep_record, c);
    if (td_ok(s) && !c->has_header)
      s = td_error(TD_DATA_LOSS, "it has no header");
    if (!td_ok(s)) {
      td_status *told = td_error(td_status_code(s), "'%s' is damaged: %s",
                                 path.at, td_status_message(s));
      td_status_release(s);
      s = told;
    }
  }
  td_str_deinit(&path);
  return s;
}

td_status *td_checkpoint_open(const char *prefix, td_checkpoint **out) {
  td_checkpoint *c = td_calloc(1, sizeof *c);
  if (!c) return td_oom();
  c->prefix = td_strdup(prefix);
  td_status *s = c->prefix ? read_index(c) : td_oom();
  for (size_t i = 0; td_ok(s) && i < c->records.len; i++)
    s = blame(c, c->keys.at + c->records.at[i].key,
              check_entry(c, &c->records.at[i]));
  if (td_ok(s))
    *out = c;
  else
    td_checkpoint_close(c);
  return s;
}

void td_checkpoint_close(td_checkpoint *c) {
  if (!c) return;
  for (size_t i = 0; i < c->shards.len; i++) {
    td_status_release(td_file_close(c->shards.at[i].file));
    td_free(c->shards.at[i].path);
  }
  td_vec_free(&c->shards);
  td_vec_free(&c->records);
  td_str_deinit(&c->keys);
  td_free(c->index);
  td_free(c->prefix);
  td_free(c);
}

/* ---- entries ------------------------------------------------------------- */

const char *td_checkpoint_prefix(const td_checkpoint *c) {
  return c->prefix;
}

int td_checkpoint_shards(const td_checkpoint *c) {
  return c->n_shards;
}

void td_checkpoint_ask(td_checkpoint *c, td_checkpoint_go_on go_on, void *arg) {
  c->go_on = go_on;
  c->arg = arg;
}

size_t td_checkpoint_count(const td_checkpoint *c) {
  return c->records.len - c->first_name;
}

static td_checkpoint_entry entry_of(const td_checkpoint *c, const record *r) {
  td_checkpoint_entry e;
  td_status_release(td_checkpoint_entry_get(r->value, &e));
  e.name = c->keys.at + r->key;
  return e;
}

td_checkpoint_entry td_checkpoint_at(const td_checkpoint *c, size_t i) {
  return entry_of(c, &c->records.at[c->first_name + i]);
}

static const record *find(const td_checkpoint *c, td_bytes key) {
  size_t low = 0, high = c->records.len;
  while (low < high) {
    size_t mid = low + (high - low) / 2;
    const record *r = &c->records.at[mid];
    td_bytes here = {c->keys.at + r->key, r->key_len};
    int order = td_sorted_compare(here, key);
    if (order == 0) return r;
    if (order < 0)
      low = mid + 1;
    else
      high = mid;
  }
  return NULL;
}

bool td_checkpoint_find(const td_checkpoint *c, const char *name,
                        td_checkpoint_entry *out) {
  const record *r = *name ? find(c, (td_bytes){name, strlen(name)}) : NULL;
  if (r) *out = entry_of(c, r);
  return r != NULL;
}

td_status *td_checkpoint_find_slice(const td_checkpoint *c,
                                    const td_checkpoint_entry *e,
                                    const td_slice *s,
                                    td_checkpoint_entry *out) {
  td_str key = {0};
  td_slice_key(e->name, s, &key);
  const record *r =
      key.failed ? NULL : find(c, (td_bytes){td_str_c(&key), key.len});
  bool failed = key.failed;
  td_str_deinit(&key);
  if (failed) return td_oom();
  td_shape part;
  TD_TRY(td_slice_shape(&e->shape, s, &part));
  if (r) *out = entry_of(c, r);
  if (!r || out->n_slices > 0 || out->dtype != e->dtype ||
      !td_shape_equal(&out->shape, &part))
    return td_error(TD_DATA_LOSS, "a slice of it is missing, or another's");
  return NULL;
}

td_status *td_checkpoint_missing(const td_checkpoint *c, const char *name) {
  td_nearest near = td_nearest_to(name);
  for (size_t i = c->first_name; i < c->records.len; i++)
    td_nearest_try(&near, c->keys.at + c->records.at[i].key);
  td_hint hint;
  return td_error(TD_NOT_FOUND, "checkpoint '%s' has no tensor \"%s\"%s",
                  c->prefix, name, td_nearest_hint(&near, &hint));
}

/* ---- reading ------------------------------------------------------------- */

/* What stands in a file from `at` to `end`, in order; the check goes along. */
typedef struct stream {
  const td_checkpoint *of;
  const shard *from;
  uint64_t at, end;
  uint32_t crc;
} stream;

static td_status *changed(const shard *sh) {
  return td_error(TD_DATA_LOSS, "'%s' was cut short while it was read",
                  sh->path);
}

static td_status *stream_take(stream *s, void *to, size_t n) {
  for (size_t done = 0; done < n;) {
    size_t want = n - done < PIECE ? n - done : PIECE, got = 0;
    if (s->of->go_on && !s->of->go_on(s->of->arg, false))
      return td_error(TD_CANCELLED, "reading was stopped");
    TD_TRY(
        td_file_read_at(s->from->file, s->at, (char *)to + done, want, &got));
    if (got < want) return changed(s->from);
    s->crc = td_crc32c_add(s->crc, (char *)to + done, got);
    s->at += got;
    done += got;
  }
  return NULL;
}

static td_status *check_crc(const stream *s, const td_checkpoint_entry *e) {
  if (s->crc == e->crc) return NULL;
  return td_error(TD_DATA_LOSS,
                  "the check of its bytes %llu to %llu in '%s' does not hold: "
                  "the file is damaged",
                  (unsigned long long)e->offset,
                  (unsigned long long)(e->offset + e->size), s->from->path);
}

static td_status *read_plain(stream *s, const td_checkpoint_entry *e,
                             td_allocator *a, td_tensor *out) {
  TD_TRY(td_tensor_new(a, e->dtype, &e->shape, out));
  td_status *bad = stream_take(s, out->data, e->size);
  if (td_ok(bad)) bad = check_crc(s, e);
  if (!td_ok(bad)) td_tensor_release(out);
  return bad;
}

/* The lengths of n strings, as varints, and where they add up to. */
static bool take_lengths(td_bytes *from, int64_t n, uint64_t *offsets,
                         uint32_t *crc) {
  for (int64_t i = 0; i < n; i++) {
    uint64_t len;
    if (!td_varint_take(from, &len) || len > INT64_MAX - offsets[i])
      return false;
    offsets[i + 1] = offsets[i] + len;
    *crc = td_checkpoint_length_crc(*crc, len);
  }
  return true;
}

static td_status *cut_off(void) {
  return td_error(TD_DATA_LOSS, "its strings do not fit their lengths");
}

/* Text of which the lengths were added up from 0: offsets of a string tensor
 * count from elsewhere. */
static td_status *build_strings(const td_checkpoint_entry *e,
                                const uint64_t *ends, td_bytes text,
                                td_tensor *out) {
  uint64_t *offsets;
  char *to;
  TD_TRY(td_tensor_strings_new(&e->shape, text.len, out, &offsets, &to));
  if (text.len) memcpy(to, text.at, text.len);
  int64_t n = td_shape_count(&e->shape);
  for (int64_t i = 1; i <= n; i++) offsets[i] = offsets[0] + ends[i];
  return NULL;
}

static td_status *parse_strings(stream *s, const td_checkpoint_entry *e,
                                td_bytes from, uint64_t *ends, td_tensor *out) {
  int64_t n = td_shape_count(&e->shape);
  td_bytes mark = {0};
  uint32_t crc = 0;
  if (!take_lengths(&from, n, ends, &crc)) return cut_off();
  if (!td_bytes_take(&from, 4, &mark) || from.len != ends[n]) return cut_off();
  td_bytes number = mark;
  uint64_t masked;
  (void)td_bytes_get(&number, 4, &masked);
  if (td_crc32c_mask(crc) != masked) return cut_off();
  s->crc = td_crc32c_add(td_crc32c_add(crc, mark.at, 4), from.at, from.len);
  TD_TRY(check_crc(s, e));
  return build_strings(e, ends, from, out);
}

static td_status *read_strings(stream *s, const td_checkpoint_entry *e,
                               td_tensor *out) {
  int64_t n = td_shape_count(&e->shape); /* <= e->size */
  char *bytes = td_malloc(e->size + 1);
  uint64_t *ends = td_calloc((size_t)n + 1, sizeof *ends);
  td_status *bad = bytes && ends ? stream_take(s, bytes, e->size) : td_oom();
  if (td_ok(bad))
    bad = parse_strings(s, e, (td_bytes){bytes, e->size}, ends, out);
  td_free(ends);
  td_free(bytes);
  return bad;
}

static td_status *read_stored(const td_checkpoint *c,
                              const td_checkpoint_entry *e, td_allocator *a,
                              td_tensor *out) {
  stream s = {.of = c, .from = find_shard(c, e->shard), .at = e->offset};
  s.end = e->offset + e->size;
  return e->dtype == TD_STRING ? read_strings(&s, e, out)
                               : read_plain(&s, e, a, out);
}

/* ---- slices -------------------------------------------------------------- */

/* What a stored slice has of the part that is wanted; counts the elements. */
static td_status *copy_slice(const td_checkpoint *c,
                             const td_checkpoint_entry *e, const td_slice *s,
                             const td_slice *part, td_tensor *out,
                             int64_t *filled) {
  td_slice common;
  td_checkpoint_entry stored;
  td_tensor t;
  if (!td_slice_meet(&e->shape, s, part, &common)) return NULL;
  TD_TRY(td_checkpoint_find_slice(c, e, s, &stored));
  TD_TRY(read_stored(c, &stored, NULL, &t));
  td_slice_copy(&e->shape, &common, s, t.data, part, out->data,
                td_dtype_size(e->dtype));
  td_tensor_release(&t);
  int64_t n = 1;
  for (int i = 0; i < common.rank; i++) n *= common.length[i];
  *filled += n;
  return NULL;
}

static td_status *read_slices(const td_checkpoint *c,
                              const td_checkpoint_entry *e,
                              const td_slice *part, td_tensor *out) {
  int64_t filled = 0;
  td_slice s;
  for (td_bytes at = e->slices; td_checkpoint_next_slice(&at, &s);)
    TD_TRY(copy_slice(c, e, &s, part, out, &filled));
  return filled == td_tensor_count(out)
             ? NULL
             : td_error(TD_DATA_LOSS,
                        "its slices do not cover it, or overlap: %lld of %lld "
                        "elements",
                        (long long)filled, (long long)td_tensor_count(out));
}

static td_status *read_part(const td_checkpoint *c,
                            const td_checkpoint_entry *e, const td_slice *part,
                            td_allocator *a, td_tensor *out) {
  td_shape shape;
  TD_TRY(td_slice_shape(&e->shape, part, &shape));
  if (e->dtype == TD_STRING)
    return td_error(TD_UNIMPLEMENTED, "slices of strings are not read");
  TD_TRY(td_tensor_new(a, e->dtype, &shape, out));
  td_status *s = NULL;
  if (e->n_slices > 0) {
    s = read_slices(c, e, part, out);
  } else {
    td_slice all = {.rank = e->shape.rank};
    for (int i = 0; i < all.rank; i++) all.length[i] = -1;
    td_slice common;
    td_tensor t;
    s = read_stored(c, e, NULL, &t);
    if (td_ok(s)) {
      if (td_slice_meet(&e->shape, part, &all, &common))
        td_slice_copy(&e->shape, &common, &all, t.data, part, out->data,
                      td_dtype_size(e->dtype));
      td_tensor_release(&t);
    }
  }
  if (!td_ok(s)) td_tensor_release(out);
  return s;
}

td_status *td_checkpoint_read(const td_checkpoint *c,
                              const td_checkpoint_entry *e,
                              const td_slice *part, td_allocator *a,
                              td_tensor *out) {
  td_slice all = {.rank = e->shape.rank};
  for (int i = 0; i < all.rank; i++) all.length[i] = -1;
  bool whole = !part || (part->rank == e->shape.rank &&
                         td_slice_is_whole(&e->shape, part));
  if (whole && e->n_slices == 0)
    return blame(c, e->name, read_stored(c, e, a, out));
  return blame(c, e->name, read_part(c, e, part ? part : &all, a, out));
}

td_status *td_checkpoint_verify(const td_checkpoint *c) {
  for (size_t i = 0; i < c->records.len; i++) {
    td_checkpoint_entry e = entry_of(c, &c->records.at[i]);
    td_tensor t;
    if (e.n_slices > 0) continue;
    TD_TRY(blame(c, e.name, read_stored(c, &e, NULL, &t)));
    td_tensor_release(&t);
  }
  return NULL;
}
