/* checkpoint_writer.c - data, then index, each beside, synced and renamed.
 *
 * The data's final name holds the number of shards, and so can be one that the
 * index which is there does not use: 0 of 1, or, while that one is live, 1
 * of 2. An index never names a file that something else is put in place of.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/checkpoint_writer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/bytes.h"
#include "engine/base/crc32c.h"
#include "engine/base/file.h"
#include "engine/base/file_stream.h"
#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "engine/base/vec.h"
#include "engine/io/checkpoint_entry.h"
#include "engine/io/sorted_table.h"

enum { PIECE = 1 << 20 }; /* bytes written at once */

/* An entry of the index to be. */
typedef struct item {
  td_str key;
  td_checkpoint_entry e;
  td_str slices; /* of a tensor in slices: as they are to stand */
} item;

struct td_checkpoint_writer {
  char *prefix, *folder; /* "a/b" and "a" */
  td_file_lock *lock;
  td_str data_path; /* of the file beside; "" once it is renamed */
  td_file *data;
  uint64_t size; /* of the data so far */
  TD_VEC(item *) items;
  td_map by_key;             /* item * */
  bool failed;               /* a file's error: nothing is taken any more */
  td_checkpoint_go_on go_on; /* or NULL */
  void *arg;                 /* for it */
};

/* ---- opening ------------------------------------------------------------- */

/* "a/b" -> "a", "b" -> "." */
static char *folder_of(const char *prefix) {
  const char *slash = strrchr(prefix, '/');
  if (!slash) return td_strdup(".");
  return td_strndup(prefix, slash == prefix ? 1 : (size_t)(slash - prefix));
}

static td_status *open_data(td_checkpoint_writer *w) {
  td_str_addf(&w->data_path, "%s.data.tempstate-%d", w->prefix, (int)getpid());
  if (w->data_path.failed) return td_oom();
  return td_file_open(w->data_path.at, TD_FILE_WRITE, &w->data);
}

static td_status *take_lock(td_checkpoint_writer *w) {
  td_str path = {0};
  td_str_addf(&path, "%s.lock", w->prefix);
  td_status *s = path.failed ? td_oom() : td_file_lock_take(path.at, &w->lock);
  td_str_deinit(&path);
  return s;
}

td_status *td_checkpoint_writer_open(const char *prefix,
                                     td_checkpoint_writer **out) {
  const char *slash = strrchr(prefix, '/');
  if (!*prefix || (slash && !slash[1]))
    return td_error(TD_INVALID_ARGUMENT,
                    "a checkpoint's prefix \"%s\" names no file", prefix);
  td_checkpoint_writer *w = td_calloc(1, sizeof *w);
  if (!w) return td_oom();
  td_map_init(&w->by_key);
  w->prefix = td_strdup(prefix);
  w->folder = folder_of(prefix);
  td_status *s = w->prefix && w->folder ? NULL : td_oom();
  if (td_ok(s)) s = td_file_mkdirs(w->folder);
  if (td_ok(s)) s = take_lock(w);
  if (td_ok(s)) s = open_data(w);
  if (td_ok(s))
    *out = w;
  else
    td_checkpoint_writer_close(w);
  return s;
}

static void free_item(item *it) {
  td_str_deinit(&it->key);
  td_str_deinit(&it->slices);
  td_free(it);
}

void td_checkpoint_writer_close(td_checkpoint_writer *w) {
  if (!w) return;
  if (w->data) td_status_release(td_file_close(w->data));
  if (w->data_path.len > 0 && w->lock)
    td_status_release(td_file_remove(w->data_path.at));
  for (size_t i = 0; i < w->items.len; i++) free_item(w->items.at[i]);
  td_vec_free(&w->items);
  td_map_deinit(&w->by_key);
  td_str_deinit(&w->data_path);
  if (w->lock) td_file_unlock(w->lock);
  td_free(w->prefix);
  td_free(w->folder);
  td_free(w);
}

/* ---- tensors ------------------------------------------------------------- */

void td_checkpoint_writer_ask(td_checkpoint_writer *w,
                              td_checkpoint_go_on go_on, void *arg) {
  w->go_on = go_on;
  w->arg = arg;
}

static td_status *ask(const td_checkpoint_writer *w, bool last) {
  if (!w->go_on || w->go_on(w->arg, last)) return NULL;
  return td_error(TD_CANCELLED, "writing checkpoint '%s' was stopped",
                  w->prefix);
}

static td_status *append(td_checkpoint_writer *w, const void *bytes, size_t n,
                         uint32_t *crc) {
  for (size_t done = 0; done < n;) {
    size_t piece = n - done < PIECE ? n - done : PIECE;
    const char *at = (const char *)bytes + done;
    TD_TRY(ask(w, false));
    *crc = td_crc32c_add(*crc, at, piece);
    TD_TRY(td_file_append(w->data, at, piece));
    done += piece;
  }
  w->size += n;
  return NULL;
}

/* Lengths, their check, and the text, which lies in one piece. */
static td_status *append_strings(td_checkpoint_writer *w, const td_tensor *t,
                                 uint32_t *crc) {
  int64_t n = td_tensor_count(t);
  td_str head = {0};
  size_t len, total = 0, first;
  for (int64_t i = 0; i < n; i++) {
    (void)td_tensor_str(t, i, &len);
    td_varint_put(&head, len);
    *crc = td_checkpoint_length_crc(*crc, len);
    total += len;
  }
  size_t lengths = head.len;
  td_bytes_put(&head, td_crc32c_mask(*crc), 4);
  td_status *s = head.failed ? td_oom() : NULL;
  uint32_t unused = 0;
  if (td_ok(s)) s = append(w, head.at, lengths, &unused);
  if (td_ok(s)) s = append(w, head.at + lengths, 4, crc);
  td_str_deinit(&head);
  if (td_ok(s) && total > 0)
    s = append(w, td_tensor_str(t, 0, &first), total, crc);
  return s;
}

static td_status *append_tensor(td_checkpoint_writer *w, const td_tensor *t,
                                td_checkpoint_entry *e) {
  uint32_t crc = 0;
  e->offset = w->size;
  td_status *s = t->dtype == TD_STRING
                     ? append_strings(w, t, &crc)
                     : append(w, t->data, td_tensor_bytes(t), &crc);
  e->size = w->size - e->offset;
  e->crc = crc;
  if (!td_ok(s)) w->failed = true;
  return s;
}

static td_status *new_item(td_checkpoint_writer *w, td_bytes key,
                           td_dtype dtype, const td_shape *shape, item **out) {
  item *it = td_calloc(1, sizeof *it);
  if (!it) return td_oom();
  td_str_addn(&it->key, key.at, key.len);
  it->e.dtype = dtype;
  it->e.shape = *shape;
  if (it->key.failed || !td_vec_push(&w->items, it)) {
    free_item(it);
    return td_oom();
  }
  if (!td_map_putn(&w->by_key, key.at, key.len, it)) {
    w->items.len--;
    free_item(it);
    return td_oom();
  }
  *out = it;
  return NULL;
}

static td_status *check_tensor(const td_checkpoint_writer *w, const char *name,
                               const td_tensor *t) {
  if (w->failed)
    return td_error(TD_FAILED_PRECONDITION,
                    "checkpoint '%s' takes no more: writing it failed before",
                    w->prefix);
  if (!*name)
    return td_error(TD_INVALID_ARGUMENT,
                    "a tensor of a checkpoint has no name");
  if (!td_dtype_is_plain(t->dtype) && t->dtype != TD_STRING)
    return td_error(TD_UNIMPLEMENTED,
                    "tensor \"%s\" of dtype %s cannot be saved: it is no value",
                    name, td_dtype_name(t->dtype));
  if (!td_tensor_on_host(t))
    return td_error(TD_INTERNAL, "tensor \"%s\" is not in host memory", name);
  return NULL;
}

static td_status *twice(const td_checkpoint_writer *w, const char *name) {
  return td_error(TD_ALREADY_EXISTS,
                  "checkpoint '%s' is given tensor \"%s\" twice", w->prefix,
                  name);
}

td_status *td_checkpoint_writer_add(td_checkpoint_writer *w, const char *name,
                                    const td_tensor *t) {
  TD_TRY(check_tensor(w, name, t));
  item *it;
  if (td_map_get(&w->by_key, name)) return twice(w, name);
  TD_TRY(new_item(w, (td_bytes){name, strlen(name)}, t->dtype, &t->shape, &it));
  return append_tensor(w, t, &it->e);
}

/* The entry that tells of a tensor's slices; the first one makes it. */
static td_status *whole_of(td_checkpoint_writer *w, const char *name,
                           const td_shape *whole, td_dtype dtype, item **out) {
  *out = td_map_get(&w->by_key, name);
  if (!*out)
    return new_item(w, (td_bytes){name, strlen(name)}, dtype, whole, out);
  if ((*out)->e.n_slices == 0) return twice(w, name);
  if ((*out)->e.dtype == dtype && td_shape_equal(&(*out)->e.shape, whole))
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "the slices of tensor \"%s\" do not agree in dtype and shape",
                  name);
}

td_status *td_checkpoint_writer_add_slice(td_checkpoint_writer *w,
                                          const char *name,
                                          const td_shape *whole,
                                          const td_slice *slice,
                                          const td_tensor *t) {
  td_shape part;
  item *all, *it;
  TD_TRY(check_tensor(w, name, t));
  TD_TRY(td_slice_shape(whole, slice, &part));
  if (!td_shape_equal(&part, &t->shape))
    return td_error(TD_INVALID_ARGUMENT,
                    "tensor \"%s\" has not the shape of its slice", name);
  TD_TRY(whole_of(w, name, whole, t->dtype, &all));
  td_str key = {0};
  td_slice_key(name, slice, &key);
  td_status *s = key.failed ? td_oom() : NULL;
  if (td_ok(s) && td_map_getn(&w->by_key, key.at, key.len)) s = twice(w, name);
  if (td_ok(s))
    s = new_item(w, (td_bytes){key.at, key.len}, t->dtype, &part, &it);
  td_str_deinit(&key);
  TD_TRY(s);
  all->e.n_slices++;
  td_checkpoint_entry_put_slice(whole, slice, &all->slices);
  return append_tensor(w, t, &it->e);
}

/* ---- the index ----------------------------------------------------------- */

static int by_key(const void *a, const void *b) {
  const item *x = *(item *const *)a, *y = *(item *const *)b;
  return td_sorted_compare((td_bytes){x->key.at, x->key.len},
                           (td_bytes){y->key.at, y->key.len});
}

/* Where the value of each entry begins in `values`; then as a table. */
static td_status *make_table(const td_checkpoint_writer *w,
                             const td_str *values, const size_t *begin,
                             td_str *out) {
  size_t n = w->items.len + 1;
  td_sorted_entry *entries = td_calloc(n, sizeof *entries);
  if (!entries) return td_oom();
  entries[0].key = (td_bytes){"", 0};
  for (size_t i = 0; i < n; i++) {
    entries[i].value =
        (td_bytes){values->at + begin[i], begin[i + 1] - begin[i]};
    if (i == 0) continue;
    const td_str *key = &w->items.at[i - 1]->key;
    entries[i].key = (td_bytes){key->at, key->len};
  }
  td_status *s = td_sorted_table_write(entries, n, out);
  td_free(entries);
  return s;
}

static td_status *make_index(td_checkpoint_writer *w, int shard, int shards,
                             td_str *out) {
  td_str values = {0};
  size_t n = w->items.len;
  size_t *begin = td_calloc(n + 2, sizeof *begin);
  if (!begin) return td_oom();
  if (n > 0) qsort(w->items.at, n, sizeof *w->items.at, by_key);
  td_checkpoint_header_put(shards, &values);
  begin[1] = values.len;
  for (size_t i = 0; i < n; i++) {
    item *it = w->items.at[i];
    it->e.shard = it->e.n_slices > 0 ? 0 : shard;
    td_checkpoint_entry_put(&it->e, &values);
    td_str_addn(&values, td_str_c(&it->slices), it->slices.len);
    if (it->slices.failed) values.failed = true;
    begin[i + 2] = values.len;
  }
  td_status *s = values.failed ? td_oom() : make_table(w, &values, begin, out);
  td_free(begin);
  td_str_deinit(&values);
  return s;
}

/* ---- committing ---------------------------------------------------------- */

/* How many shards the index has that is there; 0 where none is. */
static int live_shards(const char *prefix) {
  td_checkpoint *c;
  td_status *s = td_checkpoint_open(prefix, &c);
  bool there = td_ok(s);
  td_status_release(s);
  if (!there) return 0;
  int n = td_checkpoint_shards(c);
  td_checkpoint_close(c);
  return n;
}

static void shard_path(const char *prefix, int shard, int shards, td_str *out) {
  td_str_clear(out);
  td_str_addf(out, "%s.data-%05d-of-%05d", prefix, shard, shards);
}

static td_status *put_data(td_checkpoint_writer *w, int shard, int shards) {
  td_str to = {0};
  shard_path(w->prefix, shard, shards, &to);
  td_status *s = to.failed ? td_oom() : td_file_sync(w->data);
  if (td_ok(s)) s = ask(w, true);
  if (td_ok(s)) {
    s = td_file_close(w->data);
    w->data = NULL;
  }
  if (td_ok(s)) s = td_file_rename(w->data_path.at, to.at);
  if (td_ok(s)) td_str_clear(&w->data_path);
  if (td_ok(s)) s = td_file_sync_folder(w->folder);
  td_str_deinit(&to);
  return s;
}

static td_status *put_index(td_checkpoint_writer *w, int shard, int shards) {
  td_str bytes = {0}, path = {0};
  td_str_addf(&path, "%s.index", w->prefix);
  td_status *s = path.failed ? td_oom() : make_index(w, shard, shards, &bytes);
  if (td_ok(s)) s = td_file_write(path.at, bytes.at, bytes.len);
  td_str_deinit(&bytes);
  td_str_deinit(&path);
  return s;
}

static void remove_old(td_checkpoint_writer *w, int shards) {
  td_str path = {0};
  for (int i = 0; i < shards; i++) {
    shard_path(w->prefix, i, shards, &path);
    if (!path.failed && td_file_exists(path.at))
      td_status_release(td_file_remove(path.at));
  }
  td_str_deinit(&path);
}

td_status *td_checkpoint_writer_commit(td_checkpoint_writer *w) {
  if (w->failed || !w->data)
    return td_error(TD_FAILED_PRECONDITION,
                    "checkpoint '%s' cannot be ended: writing it failed before",
                    w->prefix);
  int live = live_shards(w->prefix);
  int shards = live == 1 ? 2 : 1, shard = shards - 1;
  td_status *s = put_data(w, shard, shards);
  if (td_ok(s)) s = put_index(w, shard, shards);
  if (!td_ok(s)) w->failed = true;
  TD_TRY(s);
  remove_old(w, live);
  return NULL;
}
