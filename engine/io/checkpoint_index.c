/* checkpoint_index.c - entries by name, sorted at the end.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/checkpoint_index.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "engine/base/vec.h"
#include "engine/io/checkpoint_entry.h"
#include "engine/io/sorted_table.h"

/* An entry of the index to be. */
typedef struct item {
  td_str key;
  td_checkpoint_entry e;
  td_str slices; /* of a tensor in slices: as they are to stand */
} item;

struct td_checkpoint_index {
  char *prefix;
  TD_VEC(item *) items;
  td_map by_key; /* item * */
};

td_status *td_checkpoint_index_new(const char *prefix,
                                   td_checkpoint_index **out) {
  td_checkpoint_index *x = td_calloc(1, sizeof *x);
  if (!x) return td_oom();
  td_map_init(&x->by_key);
  x->prefix = td_strdup(prefix);
  if (!x->prefix) {
    td_checkpoint_index_free(x);
    return td_oom();
  }
  *out = x;
  return NULL;
}

static void free_item(item *it) {
  td_str_deinit(&it->key);
  td_str_deinit(&it->slices);
  td_free(it);
}

void td_checkpoint_index_free(td_checkpoint_index *x) {
  if (!x) return;
  for (size_t i = 0; i < x->items.len; i++) free_item(x->items.at[i]);
  td_vec_free(&x->items);
  td_map_deinit(&x->by_key);
  td_free(x->prefix);
  td_free(x);
}

/* ---- adding -------------------------------------------------------------- */

static td_status *new_item(td_checkpoint_index *x, td_bytes key, td_dtype dtype,
                           const td_shape *shape, item **out) {
  item *it = td_calloc(1, sizeof *it);
  if (!it) return td_oom();
  td_str_addn(&it->key, key.at, key.len);
  it->e.dtype = dtype;
  it->e.shape = *shape;
  if (it->key.failed || !td_vec_reserve(&x->items, 1) ||
      !td_map_putn(&x->by_key, key.at, key.len, it)) {
    free_item(it);
    return td_oom();
  }
  x->items.at[x->items.len++] = it;
  *out = it;
  return NULL;
}

static void drop_last(td_checkpoint_index *x) {
  item *it = x->items.at[--x->items.len];
  (void)td_map_removen(&x->by_key, it->key.at, it->key.len);
  free_item(it);
}

static td_status *twice(const td_checkpoint_index *x, const char *name) {
  return td_error(TD_ALREADY_EXISTS,
                  "checkpoint '%s' is given tensor \"%s\" twice", x->prefix,
                  name);
}

td_status *td_checkpoint_index_add(td_checkpoint_index *x, const char *name,
                                   td_dtype dtype, const td_shape *shape,
                                   td_checkpoint_entry **out) {
  item *it;
  if (td_map_get(&x->by_key, name)) return twice(x, name);
  TD_TRY(new_item(x, (td_bytes){name, strlen(name)}, dtype, shape, &it));
  *out = &it->e;
  return NULL;
}

static td_status *check_agree(const item *all, const char *name, td_dtype dtype,
                              const td_shape *whole) {
  td_shape_text a, b;
  if (all->e.dtype == dtype && td_shape_equal(&all->e.shape, whole))
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "the slices of tensor \"%s\" do not agree: %s %s and %s %s",
                  name, td_dtype_name(all->e.dtype),
                  td_shape_str(&all->e.shape, &a), td_dtype_name(dtype),
                  td_shape_str(whole, &b));
}

static td_status *check_apart(const item *all, const char *name,
                              const td_shape *whole, const td_slice *slice) {
  td_slice s, common;
  td_bytes at = {td_str_c(&all->slices), all->slices.len};
  while (td_checkpoint_next_slice(&at, &s))
    if (td_slice_meet(whole, &s, slice, &common))
      return td_error(TD_INVALID_ARGUMENT,
                      "slices of tensor \"%s\" overlap from element %lld of "
                      "dimension 0 on",
                      name, common.rank > 0 ? (long long)common.start[0] : 0ll);
  return NULL;
}

/* The entry that tells of a tensor's slices; the first one makes it. */
static td_status *whole_of(td_checkpoint_index *x, const char *name,
                           td_dtype dtype, const td_shape *whole, item **out) {
  *out = td_map_get(&x->by_key, name);
  if (!*out)
    return new_item(x, (td_bytes){name, strlen(name)}, dtype, whole, out);
  if ((*out)->e.n_slices == 0) return twice(x, name);
  return check_agree(*out, name, dtype, whole);
}

static td_status *new_slice(td_checkpoint_index *x, const char *name,
                            td_dtype dtype, const td_shape *part,
                            const td_slice *slice, item **out) {
  td_str key = {0};
  td_slice_key(name, slice, &key);
  td_status *s = key.failed ? td_oom() : NULL;
  if (td_ok(s) && td_map_getn(&x->by_key, key.at, key.len)) s = twice(x, name);
  if (td_ok(s)) s = new_item(x, (td_bytes){key.at, key.len}, dtype, part, out);
  td_str_deinit(&key);
  return s;
}

td_status *td_checkpoint_index_add_slice(td_checkpoint_index *x,
                                         const char *name, td_dtype dtype,
                                         const td_shape *whole,
                                         const td_slice *slice,
                                         td_checkpoint_entry **out) {
  td_shape part;
  item *all, *it = NULL;
  TD_TRY(td_slice_shape(whole, slice, &part));
  TD_TRY(whole_of(x, name, dtype, whole, &all));
  td_status *s = check_apart(all, name, whole, slice);
  if (td_ok(s)) s = new_slice(x, name, dtype, &part, slice, &it);
  if (td_ok(s)) {
    td_checkpoint_slice_put(&all->slices, 7, whole, slice);
    if (all->slices.failed) {
      drop_last(x);
      s = td_oom();
    }
  }
  if (td_ok(s))
    all->e.n_slices++;
  else if (all->e.n_slices == 0)
    drop_last(x);
  if (td_ok(s)) *out = &it->e;
  return s;
}

/* ---- the file ------------------------------------------------------------ */

static int by_key(const void *a, const void *b) {
  const item *x = *(item *const *)a, *y = *(item *const *)b;
  return td_sorted_compare((td_bytes){x->key.at, x->key.len},
                           (td_bytes){y->key.at, y->key.len});
}

/* The values of all entries one behind the other, and where each begins. */
static void put_values(td_checkpoint_index *x, int first, int shards,
                       td_str *values, size_t *begin) {
  td_checkpoint_header_put(shards, values);
  begin[1] = values->len;
  for (size_t i = 0; i < x->items.len; i++) {
    item *it = x->items.at[i];
    td_checkpoint_entry e = it->e;
    if (e.n_slices == 0) e.shard += first;
    td_checkpoint_entry_put(&e, values);
    td_str_addn(values, td_str_c(&it->slices), it->slices.len);
    if (it->slices.failed) values->failed = true;
    begin[i + 2] = values->len;
  }
}

static td_status *make_table(const td_checkpoint_index *x, const td_str *values,
                             const size_t *begin, td_str *out) {
  size_t n = x->items.len + 1;
  td_sorted_entry *entries = td_calloc(n, sizeof *entries);
  if (!entries) return td_oom();
  entries[0].key = (td_bytes){"", 0};
  for (size_t i = 0; i < n; i++) {
    entries[i].value =
        (td_bytes){values->at + begin[i], begin[i + 1] - begin[i]};
    if (i == 0) continue;
    const td_str *key = &x->items.at[i - 1]->key;
    entries[i].key = (td_bytes){key->at, key->len};
  }
  td_status *s = td_sorted_table_write(entries, n, out);
  td_free(entries);
  return s;
}

td_status *td_checkpoint_index_bytes(td_checkpoint_index *x, int first,
                                     int shards, td_str *out) {
  td_str values = {0};
  size_t n = x->items.len;
  size_t *begin = td_calloc(n + 2, sizeof *begin);
  if (!begin) return td_oom();
  if (n > 0) qsort(x->items.at, n, sizeof *x->items.at, by_key);
  put_values(x, first, shards, &values, begin);
  td_status *s = values.failed ? td_oom() : make_table(x, &values, begin, out);
  td_free(begin);
  td_str_deinit(&values);
  return s;
}
