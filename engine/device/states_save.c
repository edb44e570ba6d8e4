/* states_save.c - states as bytes, and from bytes.
 *
 * "TDSTATES", version, how many; of each, in order of names, two lengths, the
 * name and what its row wrote. Nothing else may follow. A row is called with
 * the state held, not the table locked: it may wait for a kernel that runs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/bytes.h"
#include "engine/base/mem.h"
#include "engine/device/states_impl.h"

static const char magic[] = "TDSTATES";
enum { MAGIC = sizeof magic - 1, VERSION = 1, MAX_NAME = 1 << 16 };

/* ---- saving -------------------------------------------------------------- */

typedef struct item {
  const char *name; /* a map's: of `entries` they stay, of `loaded` for now */
  td_state *state;  /* held; NULL: */
  const td_str *loaded;
} item;

typedef struct items {
  item *at;
  int64_t n;
} items;

static int compare(const void *a, const void *b) {
  return strcmp(((const item *)a)->name, ((const item *)b)->name);
}

/* Holds what is there; a name that was loaded and not claimed has both, and the
 * bytes count. */
static td_status *collect(td_states *s, items *list) {
  const td_map_entry *e;
  pthread_mutex_lock(&s->mutex);
  list->at = td_calloc(s->entries.count + s->loaded.count + 1, sizeof(item));
  for (size_t i = 0; list->at && td_map_next(&s->loaded, &i, &e);)
    list->at[list->n++] = (item){.name = e->key, .loaded = e->value};
  for (size_t i = 0; list->at && td_map_next(&s->entries, &i, &e);) {
    td_state *state = e->value;
    if (!state->def->save || td_map_get(&s->loaded, e->key)) continue;
    state->refs++;
    list->at[list->n++] = (item){.name = e->key, .state = state};
  }
  pthread_mutex_unlock(&s->mutex);
  if (!list->at) return td_oom();
  qsort(list->at, (size_t)list->n, sizeof *list->at, compare);
  return NULL;
}

static td_status *save_one(const item *i, td_str *out) {
  td_str bytes;
  td_str_init(&bytes);
  const td_str *from = i->loaded ? i->loaded : &bytes;
  td_status *st =
      i->state ? i->state->def->save(i->state->state, &bytes) : NULL;
  if (td_ok(st) && bytes.failed) st = td_oom();
  size_t len = strlen(i->name);
  td_bytes_put(out, len, 4);
  td_bytes_put(out, from->len, 8);
  td_str_addn(out, i->name, len);
  td_str_addn(out, td_str_c(from), from->len);
  td_str_deinit(&bytes);
  return td_status_at(st, NULL, i->name, NULL, NULL);
}

td_status *td_states_save(td_states *s, td_str *out) {
  items list = {0};
  pthread_mutex_lock(&s->loading);
  td_status *st = collect(s, &list);
  td_str_addn(out, magic, MAGIC);
  td_bytes_put(out, VERSION, 4);
  td_bytes_put(out, (uint64_t)list.n, 4);
  for (int64_t i = 0; td_ok(st) && i < list.n; i++)
    st = save_one(&list.at[i], out);
  for (int64_t i = 0; i < list.n; i++)
    if (list.at[i].state) td_states_drop(s, list.at[i].state);
  pthread_mutex_unlock(&s->loading);
  td_free(list.at);
  return td_ok(st) && out->failed ? td_oom() : st;
}

/* ---- loading ------------------------------------------------------------- */

static td_status *broken(const char *what) {
  return td_error(TD_DATA_LOSS, "saved states are broken: %s", what);
}

/* The next name and bytes. `last`: the name before, which this one follows. */
static td_status *next(td_bytes *from, td_bytes *last, td_bytes *bytes) {
  uint64_t name_len, len;
  td_bytes name;
  if (!td_bytes_get(from, 4, &name_len) || !td_bytes_get(from, 8, &len) ||
      name_len == 0 || name_len > MAX_NAME ||
      !td_bytes_take(from, (size_t)name_len, &name) ||
      !td_bytes_take(from, (size_t)len, bytes))
    return broken("they end early");
  if (memchr(name.at, 0, name.len)) return broken("a name has a zero byte");
  size_t least = name.len < last->len ? name.len : last->len;
  int order = least ? memcmp(name.at, last->at, least) : 1;
  if (order < 0 || (order == 0 && name.len <= last->len))
    return broken("names are not in order");
  *last = name;
  return NULL;
}

/* Puts a copy in, for a state to claim; what it had for that name goes. */
static td_status *put(td_states *s, td_bytes name, td_bytes bytes) {
  td_str *t = td_malloc(sizeof *t);
  if (!t) return td_oom();
  td_str_init(t);
  td_str_addn(t, bytes.at, bytes.len);
  td_str *before = td_map_getn(&s->loaded, name.at, name.len);
  if (t->failed || !td_map_putn(&s->loaded, name.at, name.len, t)) {
    td_states_free_bytes(t);
    return td_oom();
  }
  td_states_free_bytes(before);
  return NULL;
}

/* The entry of that name, held. */
static td_state *find(td_states *s, const char *name) {
  pthread_mutex_lock(&s->mutex);
  td_state *e = td_map_get(&s->entries, name);
  if (e) e->refs++;
  pthread_mutex_unlock(&s->mutex);
  return e;
}

/* What has its state already goes on from what was loaded. */
static td_status *claim_all(td_states *s) {
  const td_map_entry *e;
  td_status *first = NULL;
  for (size_t i = 0; td_map_next(&s->loaded, &i, &e);) {
    td_state *state = find(s, e->key);
    if (!state) continue;
    td_status *st = td_states_claim(s, e->key, state);
    td_states_drop(s, state);
    if (td_ok(st)) continue;
    td_states_forget(s, e->key);
    first = td_status_first(first, st);
  }
  return first;
}

static td_status *read_head(td_bytes *from, uint64_t *count) {
  td_bytes head;
  uint64_t version;
  if (!td_bytes_take(from, MAGIC, &head) || memcmp(head.at, magic, MAGIC) != 0)
    return broken("these are none");
  if (!td_bytes_get(from, 4, &version) || !td_bytes_get(from, 4, count))
    return broken("they end early");
  if (version == VERSION) return NULL;
  return td_error(TD_FAILED_PRECONDITION,
                  "saved states are of version %u, this Tide reads %d",
                  (unsigned)version, VERSION);
}

/* Reads all; with `s`, puts them in. */
static td_status *read_all(td_bytes from, td_states *s) {
  td_bytes name = {"", 0}, bytes = name;
  uint64_t count = 0;
  TD_TRY(read_head(&from, &count));
  for (uint64_t i = 0; i < count; i++) {
    TD_TRY(next(&from, &name, &bytes));
    if (s) TD_TRY(put(s, name, bytes));
  }
  return from.len == 0 ? NULL : broken("something follows them");
}

td_status *td_states_load(td_states *s, td_bytes from) {
  TD_TRY(read_all(from, NULL));
  pthread_mutex_lock(&s->loading);
  td_status *st = read_all(from, s);
  td_states_count_loaded(s);
  if (td_ok(st)) st = claim_all(s);
  pthread_mutex_unlock(&s->loading);
  return st;
}

void td_states_list_loaded(td_states *s, td_str *out) {
  const td_map_entry *e;
  pthread_mutex_lock(&s->loading);
  for (size_t i = 0; td_map_next(&s->loaded, &i, &e);)
    td_str_addf(out, "%s\n", e->key);
  pthread_mutex_unlock(&s->loading);
}
