/* checkpoint_place.c - who writes there, under which names, and the last act.
 *
 * Files beside have fixed names: only who has the prefix makes them. One that
 * is there when the prefix is taken is nobody's, and is written over.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/checkpoint_place.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/file_stream.h"
#include "engine/base/mem.h"
#include "engine/io/checkpoint_entry.h"
#include "engine/io/sorted_table.h"

static const size_t most_index = (size_t)1 << 30;

/* ---- folders ------------------------------------------------------------- */

/* "a/b" -> "a", "b" -> ".", "/b" -> "/", "mem://b" -> "mem://". */
static char *folder_of(const char *path) {
  const char *slash = strrchr(path, '/');
  if (!slash) return td_strdup(".");
  size_t n = (size_t)(slash - path);
  bool is_root = n == 0 || (n > 1 && path[n - 1] == '/' && path[n - 2] == ':');
  return td_strndup(path, is_root ? n + 1 : n);
}

/* A folder that is made outlives a crash when the one it is in is synced. */
static td_status *make_folders(const char *folder) {
  if (td_file_exists(folder)) return td_file_mkdirs(folder);
  char *above = folder_of(folder);
  if (!above) return td_oom();
  td_status *s = NULL;
  if (strlen(above) < strlen(folder) && !td_file_exists(above))
    s = make_folders(above);
  if (td_ok(s)) s = td_file_mkdirs(folder);
  if (td_ok(s)) s = td_file_sync_folder(above);
  td_free(above);
  return s;
}

/* ---- names --------------------------------------------------------------- */

void td_checkpoint_place_shard(const td_checkpoint_place *p, int shard,
                               int shards, td_str *out) {
  td_str_clear(out);
  td_str_addf(out, "%s.data-%05d-of-%05d", p->prefix, shard, shards);
}

static bool are_free(const td_checkpoint_place *p, int first, int shards,
                     td_str *path) {
  for (int i = first; i < shards; i++) {
    td_checkpoint_place_shard(p, i, shards, path);
    if (path->failed || td_file_exists(path->at)) return false;
  }
  return true;
}

td_status *td_checkpoint_place_choose(const td_checkpoint_place *p, int n,
                                      int *first, int *shards) {
  td_str path = {0};
  int all = n;
  while (all <= TD_CHECKPOINT_MOST_SHARDS && !path.failed &&
         (all == p->live || !are_free(p, all - n, all, &path)))
    all++;
  td_status *s = path.failed ? td_oom() : NULL;
  if (td_ok(s) && all > TD_CHECKPOINT_MOST_SHARDS)
    s = td_error(TD_RESOURCE_EXHAUSTED,
                 "checkpoint '%s' has no numbers left for %d shards", p->prefix,
                 n);
  td_str_deinit(&path);
  *first = all - n;
  *shards = all;
  return s;
}

/* The number of `digits` at `at`; -1 for what is none. */
static int digits_at(const char *at) {
  int v = 0;
  for (int i = 0; i < 5; i++) {
    if (at[i] < '0' || at[i] > '9') return -1;
    v = 10 * v + at[i] - '0';
  }
  return v;
}

/* Of how many shards a file of the prefix's folder is one; 0: it is none. */
static int shards_of(const td_checkpoint_place *p, const char *name) {
  static const char data[] = ".data-", of[] = "-of-";
  const char *slash = strrchr(p->prefix, '/');
  const char *base = slash ? slash + 1 : p->prefix;
  size_t n = strlen(base);
  if (strncmp(name, base, n) != 0 || strncmp(name + n, data, 6) != 0 ||
      strlen(name + n) != 6 + 5 + 4 + 5)
    return 0;
  name += n + 6;
  if (digits_at(name) < 0 || strncmp(name + 5, of, 4) != 0) return 0;
  int shards = digits_at(name + 9);
  return shards > 0 ? shards : 0;
}

/* Removes the data of this prefix but those of `shards` shards. What cannot be
 * removed stays: it is in nobody's way. Names are listed first. */
static td_status *clean(const td_checkpoint_place *p, int shards,
                        bool sync_first) {
  td_str names = {0}, path = {0};
  td_status *s = td_file_list(p->folder, &names);
  const char *end = td_str_c(&names) + names.len;
  for (const char *at = td_str_c(&names); td_ok(s) && at < end;
       at += strlen(at) + 1) {
    int of = shards_of(p, at);
    if (of == 0 || of == shards) continue;
    if (sync_first) s = td_file_sync_folder(p->folder);
    sync_first = false;
    td_str_clear(&path);
    td_str_addf(&path, "%s/%s", p->folder, at);
    if (path.failed) s = td_oom();
    if (td_ok(s)) td_status_release(td_file_remove(path.at));
  }
  td_str_deinit(&names);
  td_str_deinit(&path);
  return s;
}

/* ---- the index that is there --------------------------------------------- */

static td_status *note_header(void *arg, td_bytes key, td_bytes value) {
  return key.len == 0 ? td_checkpoint_header_get(value, arg) : NULL;
}

static td_status *read_live(td_checkpoint_place *p) {
  td_str path = {0};
  char *bytes = NULL;
  size_t len = 0;
  td_str_addf(&path, "%s.index", p->prefix);
  td_status *s =
      path.failed ? td_oom() : td_file_read(path.at, most_index, &bytes, &len);
  td_str_deinit(&path);
  if (td_ok(s))
    s = td_sorted_table_read((td_bytes){bytes, len}, note_header, &p->live);
  td_free(bytes);
  td_code code = td_status_code(s);
  if (code == TD_NOT_FOUND) p->live = 0;
  if (code == TD_DATA_LOSS || code == TD_UNIMPLEMENTED) p->live = -1;
  if (td_ok(s) && p->live == 0) p->live = -1; /* a table without a header */
  if (code != TD_NOT_FOUND && code != TD_DATA_LOSS && code != TD_UNIMPLEMENTED)
    return s;
  td_status_release(s);
  return NULL;
}

/* ---- files beside -------------------------------------------------------- */

static td_status *write_beside(const char *path, const void *bytes, size_t n,
                               bool sync) {
  td_file *f;
  TD_TRY(td_file_open(path, TD_FILE_WRITE, &f));
  td_status *s = td_file_append(f, bytes, n);
  if (td_ok(s) && sync) s = td_file_sync(f);
  return td_status_first(s, td_file_close(f));
}

static void remove_beside(const td_str *path) {
  if (!path->failed && td_file_exists(path->at))
    td_status_release(td_file_remove(path->at));
}

/* The one that stays is empty: there is nothing of it to wait for. */
static td_status *replace(const char *a, const char *b) {
  char *bytes;
  size_t n;
  TD_TRY(write_beside(a, "", 0, false));
  TD_TRY(write_beside(b, "b", 1, false));
  TD_TRY(td_file_rename(a, b));
  TD_TRY(td_file_read(b, 1, &bytes, &n));
  bool done = n == 0 && !td_file_exists(a);
  td_free(bytes);
  return done ? NULL
              : td_error(TD_INTERNAL, "'%s' is not what was put there", b);
}

/* Can the file system put a file in the place of another? Two small ones show
 * it. */
static td_status *try_replacing(const td_checkpoint_place *p) {
  td_str a = {0}, b = {0};
  td_str_addf(&a, "%s.trial-a.tempstate", p->prefix);
  td_str_addf(&b, "%s.trial-b.tempstate", p->prefix);
  td_status *s = a.failed || b.failed ? td_oom() : replace(a.at, b.at);
  td_code code = td_status_code(s);
  if (code == TD_ALREADY_EXISTS || code == TD_UNIMPLEMENTED ||
      code == TD_INTERNAL || code == TD_FAILED_PRECONDITION) {
    td_status *told = td_error(
        TD_FAILED_PRECONDITION,
        "a checkpoint cannot be kept in '%s': there no file can be put in the "
        "place of another by renaming (%s); choose another file system",
        p->folder, td_status_message(s));
    td_status_release(s);
    s = told;
  }
  remove_beside(&a);
  remove_beside(&b);
  td_str_deinit(&a);
  td_str_deinit(&b);
  return s;
}

/* ---- taking and leaving -------------------------------------------------- */

static td_status *take_claim(td_checkpoint_place *p) {
  td_str path = {0};
  td_str_addf(&path, "%s.lock", p->prefix);
  td_status *s =
      path.failed ? td_oom() : td_file_claim_take(path.at, &p->claim);
  td_str_deinit(&path);
  return s;
}

td_status *td_checkpoint_place_take(const char *prefix,
                                    td_checkpoint_place *out) {
  const char *slash = strrchr(prefix, '/');
  if (!*prefix || (slash && !slash[1]))
    return td_error(TD_INVALID_ARGUMENT,
                    "a checkpoint's prefix \"%s\" names no file", prefix);
  td_checkpoint_place p = {
      .prefix = td_strdup(prefix), .folder = folder_of(prefix), .live = 0};
  td_status *s = p.prefix && p.folder ? NULL : td_oom();
  if (td_ok(s)) s = make_folders(p.folder);
  if (td_ok(s)) s = take_claim(&p);
  if (td_ok(s)) s = try_replacing(&p);
  if (td_ok(s)) s = read_live(&p);
  if (td_ok(s) && p.live >= 0) s = clean(&p, p.live, true);
  if (td_ok(s))
    *out = p;
  else
    td_checkpoint_place_leave(&p);
  return s;
}

void td_checkpoint_place_leave(td_checkpoint_place *p) {
  td_file_claim_release(p->claim);
  td_free(p->prefix);
  td_free(p->folder);
  *p = (td_checkpoint_place){0};
}

/* ---- committing ---------------------------------------------------------- */

/* Once the index has been told to take its name nobody knows what a crash
 * leaves: both checkpoints' data stay then. */
static td_status *put_index(td_checkpoint_place *p, const td_str *index,
                            bool *begun) {
  td_str beside = {0}, path = {0};
  td_str_addf(&beside, "%s.index.tempstate", p->prefix);
  td_str_addf(&path, "%s.index", p->prefix);
  td_status *s = beside.failed || path.failed ? td_oom() : NULL;
  if (td_ok(s)) s = write_beside(beside.at, index->at, index->len, true);
  if (td_ok(s)) s = td_file_sync_folder(p->folder); /* the data's names */
  if (td_ok(s)) {
    *begun = true;
    s = td_file_rename(beside.at, path.at);
    if (td_ok(s)) s = td_file_sync_folder(p->folder);
  }
  if (!td_ok(s)) remove_beside(&beside);
  td_str_deinit(&beside);
  td_str_deinit(&path);
  return s;
}

td_status *td_checkpoint_place_commit(td_checkpoint_place *p,
                                      const td_str *index, int shards,
                                      bool *begun) {
  *begun = false;
  TD_TRY(put_index(p, index, begun));
  p->live = shards;
  td_status_release(clean(p, shards, false));
  return NULL;
}
