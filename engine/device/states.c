/* states.c - what kernels keep from step to step, by device, node and row.
 *
 * The row is part of the key, because planning may give a node of the same name
 * another kernel. `make` runs without the lock; of two that were made at once
 * the first stays. A node that took the place of one of its name, as its serial
 * tells, begins anew; the old state goes with the last program that has it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "engine/device/states.h"

typedef struct entry {
  int32_t refs; /* under the mutex: the kernels that have it */
  uint64_t serial;
  const td_kernel_def *def;
  void *state;
  struct entry *next; /* of the old ones */
} entry;

struct td_states {
  int32_t refs; /* atomic */
  pthread_mutex_t mutex;
  td_map entries; /* under the mutex; key_of -> entry */
  entry *old;     /* under the mutex: replaced, and still needed */
};

td_status *td_states_new(td_states **out) {
  td_states *s = td_malloc(sizeof *s);
  if (!s) return td_oom();
  pthread_mutex_init(&s->mutex, NULL);
  td_map_init(&s->entries);
  s->old = NULL;
  s->refs = 1;
  *out = s;
  return NULL;
}

static void free_entry(entry *e) {
  if (!e) return;
  if (e->def->drop) e->def->drop(e->state);
  td_free(e);
}

td_states *td_states_retain(td_states *s) {
  if (s) __atomic_fetch_add(&s->refs, 1, __ATOMIC_RELAXED);
  return s;
}

void td_states_release(td_states *s) {
  const td_map_entry *e;
  if (!s || __atomic_fetch_sub(&s->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
  for (size_t i = 0; td_map_next(&s->entries, &i, &e);) free_entry(e->value);
  for (entry *next; s->old; s->old = next) {
    next = s->old->next;
    free_entry(s->old);
  }
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

static bool is_of(const entry *e, uint64_t serial) {
  return e && (e->serial == serial || !e->serial || !serial);
}

static entry *find(td_states *s, const td_str *key, uint64_t serial) {
  pthread_mutex_lock(&s->mutex);
  entry *e = td_map_getn(&s->entries, key->at, key->len);
  if (!is_of(e, serial)) e = NULL;
  if (e) e->refs++;
  pthread_mutex_unlock(&s->mutex);
  return e;
}

static td_status *make(const td_kernel_info *info, const td_kernel_def *def,
                       entry **out) {
  entry *e = td_malloc(sizeof *e);
  if (!e) return td_oom();
  *e = (entry){.refs = 1, .serial = info->node->serial, .def = def};
  td_status *s = def->make(info, &e->state);
  if (!td_ok(s)) {
    td_free(e);
    return s;
  }
  *out = e;
  return NULL;
}

/* `e`, which may be NULL, is out of the map: returned when nobody has it. */
static entry *replaced(td_states *s, entry *e) {
  if (!e || e->refs == 0) return e;
  e->next = s->old;
  s->old = e;
  return NULL;
}

/* Takes ownership of *e; afterwards it is the one that counts, or NULL. */
static void keep(td_states *s, const td_str *key, entry **e) {
  entry *extra = *e;
  pthread_mutex_lock(&s->mutex);
  entry *first = td_map_getn(&s->entries, key->at, key->len);
  if (is_of(first, (*e)->serial)) {
    *e = first;
    first->refs++;
  } else if (td_map_putn(&s->entries, key->at, key->len, *e)) {
    extra = replaced(s, first);
  } else {
    *e = NULL;
  }
  pthread_mutex_unlock(&s->mutex);
  free_entry(extra);
}

/* Takes the one with that state from the list of old ones. */
static entry *find_old(td_states *s, const void *state, entry ***at) {
  for (*at = &s->old; **at; *at = &(**at)->next)
    if ((**at)->state == state) return **at;
  return NULL;
}

void td_states_put(td_states *s, const td_kernel *k) {
  td_kernel_info info = {.node = k->node, .device = k->device};
  td_str key;
  entry **at, *last = NULL;
  if (!k->state || k->owns_state) return;
  td_status *none = key_of(&info, k->def, &key);
  if (!td_ok(none)) { /* no memory: it stays until the session goes */
    td_status_release(none);
    return;
  }
  pthread_mutex_lock(&s->mutex);
  entry *e = td_map_getn(&s->entries, key.at, key.len);
  if (e && e->state == k->state) {
    e->refs--;
  } else if ((e = find_old(s, k->state, &at)) && --e->refs == 0) {
    *at = e->next;
    last = e;
  }
  pthread_mutex_unlock(&s->mutex);
  td_str_deinit(&key);
  free_entry(last);
}

td_status *td_states_get(td_states *s, const td_kernel_info *info,
                         const td_kernel_def *def, void **out) {
  td_str key;
  td_status *status = NULL;
  TD_TRY(key_of(info, def, &key));
  entry *e = find(s, &key, info->node->serial);
  if (!e) {
    status = make(info, def, &e);
    if (td_ok(status)) keep(s, &key, &e);
    if (td_ok(status) && !e) status = td_oom();
  }
  td_str_deinit(&key);
  if (td_ok(status)) *out = e->state;
  return status;
}
