/* costs.c - how long nodes took, by session, node and device.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/costs.h"

#include <pthread.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"

enum { KEPT = 1 << 14 }; /* at least so many that no program has */

struct td_costs {
  int32_t refs; /* atomic */
  pthread_mutex_t mutex;
  td_map entries; /* mutex; device and node name -> td_measured */
  int64_t unused; /* mutex: entries that no program has */
};

td_status *td_costs_new(td_costs **out) {
  td_costs *c = td_calloc(1, sizeof *c);
  if (!c) return td_oom();
  c->refs = 1;
  pthread_mutex_init(&c->mutex, NULL);
  td_map_init(&c->entries);
  *out = c;
  return NULL;
}

td_costs *td_costs_retain(td_costs *c) {
  if (c) __atomic_fetch_add(&c->refs, 1, __ATOMIC_RELAXED);
  return c;
}

void td_costs_release(td_costs *c) {
  const td_map_entry *e;
  if (!c || __atomic_fetch_sub(&c->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
  for (size_t i = 0; td_map_next(&c->entries, &i, &e);) td_free(e->value);
  td_map_deinit(&c->entries);
  pthread_mutex_destroy(&c->mutex);
  td_free(c);
}

/* Under the mutex. */
static td_status *get(td_costs *c, const td_str *key, uint64_t serial,
                      td_measured **out) {
  td_measured *m = td_map_getn(&c->entries, key->at, key->len);
  if (!m) {
    m = td_calloc(1, sizeof *m);
    if (!m || !td_map_putn(&c->entries, key->at, key->len, m)) {
      td_free(m);
      return td_oom();
    }
    m->serial = serial;
    c->unused++;
  }
  if (m->serial != serial) {
    m->serial = serial;
    __atomic_store_n(&m->ns, 0, __ATOMIC_RELAXED);
  }
  if (m->refs++ == 0) c->unused--;
  *out = m;
  return NULL;
}

td_status *td_costs_get(td_costs *c, const td_device *d, const td_node *n,
                        td_measured **out) {
  td_str key;
  td_str_init(&key);
  td_str_addn(&key, d->name, strlen(d->name) + 1);
  td_str_add(&key, n->name);
  td_status *s = key.failed ? td_oom() : NULL;
  if (td_ok(s)) {
    pthread_mutex_lock(&c->mutex);
    s = get(c, &key, n->serial, out);
    pthread_mutex_unlock(&c->mutex);
  }
  td_str_deinit(&key);
  return s;
}

/* Under the mutex. Too many that are of no use: all of those go. */
static void trim(td_costs *c) {
  const td_map_entry *e;
  if (c->unused <= KEPT || c->unused <= (int64_t)c->entries.count / 2) return;
  for (size_t i = 0; td_map_next(&c->entries, &i, &e);) {
    td_measured *m = e->value;
    if (m->refs > 0) continue;
    td_map_removen(&c->entries, e->key, e->len);
    td_free(m);
  }
  c->unused = 0;
}

void td_costs_put(td_costs *c, td_measured *const *at, int32_t n) {
  if (!c || !at) return;
  pthread_mutex_lock(&c->mutex);
  for (int32_t i = 0; i < n; i++)
    if (at[i] && --at[i]->refs == 0) c->unused++;
  trim(c);
  pthread_mutex_unlock(&c->mutex);
}
