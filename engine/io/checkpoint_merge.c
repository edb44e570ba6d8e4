/* checkpoint_merge.c - one checkpoint of several.
 *
 * No byte of a tensor is copied: data files change their names, and a new index
 * tells of all. Everything that can be wrong with the parts is found before the
 * first file is renamed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/file_stream.h"
#include "engine/base/mem.h"
#include "engine/base/vec.h"
#include "engine/io/checkpoint_index.h"
#include "engine/io/checkpoint_place.h"
#include "engine/io/checkpoint_writer.h"

typedef struct merge {
  const char *const *parts;
  size_t n;
  td_checkpoint_place place;
  td_checkpoint_index *index;
  TD_VEC(char *) data; /* paths of the parts' data files, in order */
} merge;

/* ---- what the parts have ------------------------------------------------- */

/* The data files of a part: shards of the merged checkpoint, in this order. */
static td_status *note_data(merge *m, const char *part, int shards) {
  td_str path = {0};
  td_status *s = NULL;
  for (int i = 0; td_ok(s) && i < shards; i++) {
    td_str_addf(&path, "%s.data-%05d-of-%05d", part, i, shards);
    char *taken = td_str_take(&path);
    if (!taken || !td_vec_push(&m->data, taken)) {
      td_free(taken);
      s = td_oom();
    }
  }
  td_str_deinit(&path);
  return s;
}

/* An entry's place in the part is its place in the merged checkpoint, but for
 * the shard, which counts on from the shards of the parts before. */
static void place_entry(td_checkpoint_entry *to, const td_checkpoint_entry *e,
                        size_t before) {
  to->shard = e->shard + (int32_t)before;
  to->offset = e->offset;
  to->size = e->size;
  to->crc = e->crc;
}

static td_status *add_slices(merge *m, const td_checkpoint *c,
                             const td_checkpoint_entry *e, size_t before) {
  td_slice s;
  for (td_bytes at = e->slices; td_checkpoint_next_slice(&at, &s);) {
    td_checkpoint_entry stored, *to;
    TD_TRY(td_checkpoint_find_slice(c, e, &s, &stored));
    TD_TRY(td_checkpoint_index_add_slice(m->index, e->name, e->dtype, &e->shape,
                                         &s, &to));
    place_entry(to, &stored, before);
  }
  return NULL;
}

static td_status *add_part(merge *m, const td_checkpoint *c) {
  size_t before = m->data.len;
  for (size_t i = 0; i < td_checkpoint_count(c); i++) {
    td_checkpoint_entry e = td_checkpoint_at(c, i), *to;
    if (e.n_slices > 0) {
      TD_TRY(add_slices(m, c, &e, before));
      continue;
    }
    TD_TRY(td_checkpoint_index_add(m->index, e.name, e.dtype, &e.shape, &to));
    place_entry(to, &e, before);
  }
  return note_data(m, td_checkpoint_prefix(c), td_checkpoint_shards(c));
}

static td_status *read_parts(merge *m) {
  td_status *s = NULL;
  for (size_t i = 0; td_ok(s) && i < m->n; i++) {
    td_checkpoint *c;
    TD_TRY(td_checkpoint_open(m->parts[i], &c));
    s = add_part(m, c);
    td_checkpoint_close(c);
  }
  return s;
}

/* ---- their files --------------------------------------------------------- */

/* Parts that others wrote may not have been synced. */
static td_status *sync_file(const char *path) {
  td_file *f;
  TD_TRY(td_file_open(path, TD_FILE_APPEND, &f));
  td_status *s = td_file_sync(f);
  return td_status_first(s, td_file_close(f));
}

/* Gives data files their new names, or, going `back`, the old ones. A shard
 * that no entry needs may be missing. */
static td_status *rename_data(merge *m, int first, int shards, bool back) {
  td_str path = {0};
  td_status *s = NULL;
  for (size_t i = 0; td_ok(s) && i < m->data.len; i++) {
    const char *from = m->data.at[i];
    td_checkpoint_place_shard(&m->place, first + (int)i, shards, &path);
    if (path.failed) {
      s = td_oom();
    } else if (back) {
      if (td_file_exists(path.at) && !td_file_exists(from))
        td_status_release(td_file_rename(path.at, from));
    } else if (td_file_exists(from)) {
      s = sync_file(from);
      if (td_ok(s)) s = td_file_rename(from, path.at);
    }
  }
  td_str_deinit(&path);
  return s;
}

static void remove_parts(const merge *m, bool folders) {
  td_str path = {0};
  for (size_t i = 0; i < 2 * m->n; i++) {
    td_str_clear(&path);
    td_str_addf(&path, "%s.%s", m->parts[i / 2], i % 2 ? "lock" : "index");
    if (!path.failed) td_status_release(td_file_remove(path.at));
  }
  for (size_t i = 0; folders && i < m->n; i++) {
    const char *slash = strrchr(m->parts[i], '/');
    if (!slash || slash == m->parts[i]) continue;
    td_str_clear(&path);
    td_str_addn(&path, m->parts[i], (size_t)(slash - m->parts[i]));
    if (!path.failed && td_file_exists(path.at))
      td_status_release(td_file_remove(path.at)); /* refused with files in it */
  }
  td_str_deinit(&path);
}

static td_status *commit(merge *m, bool remove_folders) {
  int first, shards, n = (int)m->data.len;
  bool begun = false;
  td_str bytes = {0};
  TD_TRY(td_checkpoint_place_choose(&m->place, n, &first, &shards));
  td_status *s = td_checkpoint_index_bytes(m->index, first, shards, &bytes);
  if (td_ok(s)) {
    s = rename_data(m, first, shards, false);
    if (td_ok(s))
      s = td_checkpoint_place_commit(&m->place, &bytes, shards, &begun);
    if (td_ok(s))
      remove_parts(m, remove_folders);
    else if (!begun)
      td_status_release(rename_data(m, first, shards, true));
  }
  td_str_deinit(&bytes);
  return s;
}

td_status *td_checkpoint_merge(const char *const *parts, size_t n,
                               const char *prefix, bool remove_folders) {
  merge m = {.parts = parts, .n = n};
  if (n == 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "checkpoint '%s' is to be made of no parts", prefix);
  for (size_t i = 0; i < n; i++)
    if (strcmp(parts[i], prefix) == 0)
      return td_error(TD_INVALID_ARGUMENT,
                      "checkpoint '%s' cannot be a part of itself", prefix);
  TD_TRY(td_checkpoint_place_take(prefix, &m.place));
  td_status *s = td_checkpoint_index_new(prefix, &m.index);
  if (td_ok(s)) s = read_parts(&m);
  if (td_ok(s)) s = commit(&m, remove_folders);
  for (size_t i = 0; i < m.data.len; i++) td_free(m.data.at[i]);
  td_vec_free(&m.data);
  td_checkpoint_index_free(m.index);
  td_checkpoint_place_leave(&m.place);
  return s;
}
