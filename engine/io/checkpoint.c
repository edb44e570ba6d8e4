/* checkpoint.c - opening a checkpoint; its entries.
 *
 * Of the index three things are kept: the file as it is, the keys, which it
 * holds shortened, and for each where its value stands. An entry is read again
 * when it is asked for; all were read once when the checkpoint was opened, so
 * that this cannot fail. Keys of slices begin with a NUL and come before names.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/bytes.h"
#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/base/nearest.h"
#include "engine/io/checkpoint_entry.h"
#include "engine/io/checkpoint_impl.h"
#include "engine/io/sorted_table.h"

typedef td_checkpoint_record record;
typedef td_checkpoint_shard shard;

static const size_t most_index = (size_t)1 << 30; /* bytes of an index */
enum {
  MOST_ENTRIES = 1 << 22,
  KEYS_PER_BYTE = 16, /* bytes of keys for each of the file */
};

/* ---- opening ------------------------------------------------------------- */

static td_bytes value_of(const td_checkpoint *c, const record *r) {
  return (td_bytes){c->index + r->value, r->value_len};
}

static td_bytes key_of(const td_checkpoint *c, size_t i) {
  const record *r = &c->records.at[i];
  return (td_bytes){c->keys.at + r->key, r->key_len};
}

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
      c->keys.len + key.len > KEYS_PER_BYTE * c->index_len ||
      c->keys.len + key.len >= UINT32_MAX)
    return td_error(TD_RESOURCE_EXHAUSTED,
                    "it has too many names, or names that are too long");
  record r = {(uint32_t)c->keys.len, (uint32_t)key.len,
              (uint32_t)(value.at - c->index), (uint32_t)value.len};
  td_str_addn(&c->keys, key.at, key.len);
  td_str_addc(&c->keys, 0);
  if (c->keys.failed || !td_vec_push(&c->records, r)) return td_oom();
  if (is_slice) c->first_name = c->records.len;
  return NULL;
}

td_status *td_checkpoint_blame(const td_checkpoint *c, const char *name,
                               td_status *s) {
  if (td_ok(s) || td_status_code(s) == TD_RESOURCE_EXHAUSTED) return s;
  td_status *told =
      td_error(td_status_code(s), "checkpoint '%s', tensor \"%s\": %s",
               c->prefix, *name ? name : "(a slice)", td_status_message(s));
  td_status_release(s);
  return told;
}

shard *td_checkpoint_find_shard(const td_checkpoint *c, int32_t number) {
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

/* The bytes of an entry, and whose they are. */
typedef struct extent {
  int32_t shard;
  uint32_t record;
  uint64_t begin, end;
} extent;

static td_status *check_place(const td_checkpoint_entry *e, const shard *sh) {
  if (e->size <= sh->size && e->offset <= sh->size - e->size) return NULL;
  return td_error(TD_DATA_LOSS,
                  "its bytes %llu to %llu are not in '%s' of %llu: the file "
                  "was cut short",
                  (unsigned long long)e->offset,
                  (unsigned long long)(e->offset + e->size), sh->path,
                  (unsigned long long)sh->size);
}

static td_status *check_entry(td_checkpoint *c, const record *r, extent *out) {
  td_checkpoint_entry e;
  *out = (extent){.record = (uint32_t)(r - c->records.at)};
  TD_TRY(td_checkpoint_entry_get(value_of(c, r), &e));
  if (e.n_slices > 0) return NULL;
  if (e.shard >= c->n_shards)
    return td_error(TD_DATA_LOSS, "it is in shard %d of %d", e.shard,
                    c->n_shards);
  const shard *sh = td_checkpoint_find_shard(c, e.shard);
  if (!sh) {
    TD_TRY(open_shard(c, e.shard));
    sort_last(c);
    sh = td_checkpoint_find_shard(c, e.shard);
  }
  out->shard = e.shard;
  out->begin = e.offset;
  out->end = e.offset + e.size;
  return check_place(&e, sh);
}

static int by_place(const void *a, const void *b) {
  const extent *x = a, *y = b;
  if (x->shard != y->shard) return x->shard < y->shard ? -1 : 1;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return (x->end > y->end) - (x->end < y->end);
}

static const char *name_of(const td_checkpoint *c, uint32_t i) {
  const char *name = c->keys.at + c->records.at[i].key;
  return *name ? name : "(a slice)";
}

/* Two tensors on the same bytes: what takes no room in the file would take it
 * in memory. */
static td_status *check_apart(const td_checkpoint *c, extent *at) {
  size_t n = 0;
  for (size_t i = 0; i < c->records.len; i++)
    if (at[i].end > at[i].begin) at[n++] = at[i];
  if (n > 0) qsort(at, n, sizeof *at, by_place);
  for (size_t i = 1; i < n; i++)
    if (at[i].shard == at[i - 1].shard && at[i].begin < at[i - 1].end)
      return td_error(TD_DATA_LOSS,
                      "checkpoint '%s': tensors \"%s\" and \"%s\" lie on the "
                      "same bytes",
                      c->prefix, name_of(c, at[i - 1].record),
                      name_of(c, at[i].record));
  return NULL;
}

static td_status *check_entries(td_checkpoint *c) {
  size_t n = c->records.len;
  extent *at = td_calloc(n + 1, sizeof *at);
  td_status *s = at ? NULL : td_oom();
  for (size_t i = 0; td_ok(s) && i < n; i++)
    s = td_checkpoint_blame(c, c->keys.at + c->records.at[i].key,
                            check_entry(c, &c->records.at[i], &at[i]));
  if (td_ok(s)) s = check_apart(c, at);
  td_free(at);
  return s;
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
  pthread_mutex_init(&c->lock, NULL);
  c->prefix = td_strdup(prefix);
  td_status *s = c->prefix ? read_index(c) : td_oom();
  if (td_ok(s)) s = check_entries(c);
  if (td_ok(s))
    *out = c;
  else
    td_checkpoint_close(c);
  return s;
}

void td_checkpoint_unmap(td_checkpoint_mapping *m) {
  if (!m || __atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
  td_file_unmap(&m->file);
  td_free(m);
}

void td_checkpoint_close(td_checkpoint *c) {
  if (!c) return;
  for (size_t i = 0; i < c->shards.len; i++) {
    td_status_release(td_file_close(c->shards.at[i].file));
    td_checkpoint_unmap(c->shards.at[i].mapping);
    td_free(c->shards.at[i].path);
  }
  td_vec_free(&c->shards);
  td_vec_free(&c->records);
  td_str_deinit(&c->keys);
  td_free(c->index);
  pthread_mutex_destroy(&c->lock);
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

td_checkpoint_entry td_checkpoint_entry_of(const td_checkpoint *c,
                                           const record *r) {
  td_checkpoint_entry e;
  td_status_release(td_checkpoint_entry_get(value_of(c, r), &e));
  e.name = c->keys.at + r->key;
  return e;
}

td_checkpoint_entry td_checkpoint_at(const td_checkpoint *c, size_t i) {
  return td_checkpoint_entry_of(c, &c->records.at[c->first_name + i]);
}

size_t td_checkpoint_lower(const td_checkpoint *c, td_bytes key) {
  size_t low = 0, high = c->records.len;
  while (low < high) {
    size_t mid = low + (high - low) / 2;
    if (td_sorted_compare(key_of(c, mid), key) < 0)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

static const record *find(const td_checkpoint *c, td_bytes key) {
  size_t i = td_checkpoint_lower(c, key);
  bool there = i < c->records.len && td_sorted_compare(key_of(c, i), key) == 0;
  return there ? &c->records.at[i] : NULL;
}

bool td_checkpoint_find(const td_checkpoint *c, const char *name,
                        td_checkpoint_entry *out) {
  const record *r = *name ? find(c, (td_bytes){name, strlen(name)}) : NULL;
  if (r) *out = td_checkpoint_entry_of(c, r);
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
  if (r) *out = td_checkpoint_entry_of(c, r);
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
