/* states.c - what kernels keep from step to step, by device, node and row.
 *
 * The row is part of the key, because planning may give a node of the same name
 * another kernel. `make` runs without the lock; of two that were made at once
 * the first stays.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "engine/device/kernel.h"

struct td_states {
  pthread_mutex_t mutex;
  td_map entries; /* under the mutex; key_of -> entry */
};

typedef struct entry {
  const td_kernel_def *def;
  void *state;
} entry;

td_status *td_states_new(td_states **out) {
  td_states *s = td_alloc(sizeof *s);
  if (!s) return td_oom();
  pthread_mutex_init(&s->mutex, NULL);
  td_map_init(&s->entries);
  *out = s;
  return NULL;
}

static void free_entry(entry *e) {
  if (!e) return;
  if (e->def->drop) e->def->drop(e->state);
  td_free(e);
}

void td_states_free(td_states *s) {
  const td_map_entry *e;
  if (!s) return;
  for (size_t i = 0; td_map_next(&s->entries, &i, &e);) free_entry(e->value);
  td_map_deinit(&s->entries);
  pthread_mutex_destroy(&s->mutex);
  td_free(s);
}

static td_status *key_of(const td_kernel_info *info, const td_kernel_def *def,
                         td_str *key) {
  td_str_init(key);
  td_str_addn(key, (const char *)&def, sizeof def);
  td_str_addn(key, info->device->name, strlen(info->device->name) + 1);
  td_str_add(key, info->node->name);
  if (!key->failed) return NULL;
  td_str_deinit(key);
  return td_oom();
}

static entry *find(td_states *s, const td_str *key) {
  pthread_mutex_lock(&s->mutex);
  entry *e = td_map_getn(&s->entries, key->at, key->len);
  pthread_mutex_unlock(&s->mutex);
  return e;
}

static td_status *make(const td_kernel_info *info, const td_kernel_def *def,
                       entry **out) {
  entry *e = td_alloc(sizeof *e);
  if (!e) return td_oom();
  *e = (entry){.def = def};
  td_status *s = def->make(info, &e->state);
  if (!td_ok(s)) {
    td_free(e);
    return s;
  }
  *out = e;
  return NULL;
}

/* Takes ownership of *e; afterwards it is the one that counts, or NULL. */
static void keep(td_states *s, const td_str *key, entry **e) {
  pthread_mutex_lock(&s->mutex);
  entry *extra = *e, *first = td_map_getn(&s->entries, key->at, key->len);
  if (first)
    *e = first;
  else if (td_map_putn(&s->entries, key->at, key->len, *e))
    extra = NULL;
  else
    *e = NULL;
  pthread_mutex_unlock(&s->mutex);
  free_entry(extra);
}

td_status *td_states_get(td_states *s, const td_kernel_info *info,
                         const td_kernel_def *def, void **out) {
  td_str key;
  td_status *status = NULL;
  TD_TRY(key_of(info, def, &key));
  entry *e = find(s, &key);
  if (!e) {
    status = make(info, def, &e);
    if (td_ok(status)) keep(s, &key, &e);
    if (td_ok(status) && !e) status = td_oom();
  }
  td_str_deinit(&key);
  if (td_ok(status)) *out = e->state;
  return status;
}
