/* map.c - an insertion-ordered hash map.
 *
 * `slots` holds indices into `entries` (plus one) by linear probing; at most
 * half of it is taken. A removed entry keeps its slot, key NULL, as a
 * gravestone until the next rebuild, which closes the gaps. The hash is keyed
 * by a secret of the process, so that hostile names (a GraphDef's) cannot be
 * made to collide; order never depends on it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/map.h"

#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/entropy.h"

/* ---- hash ----------------------------------------------------------------
 *
 * Folded 64x64 multiplies over 16 bytes at a time. Both factors are keyed: an
 * input that zeroes one cannot be found without the seed. With a fixed seed
 * the value is the same on every machine (op seeds are made of it). */

static uint64_t fold(uint64_t a, uint64_t b) {
  unsigned __int128 p = (unsigned __int128)a * b;
  return (uint64_t)p ^ (uint64_t)(p >> 64);
}

static uint64_t stir(uint64_t x) { /* splitmix64's finish */
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

uint64_t td_hash(const void *bytes, size_t len, uint64_t seed) {
  const char *p = bytes;
  uint64_t k0 = stir(seed + 0x9E3779B97F4A7C15u);
  uint64_t k1 = stir(seed + 0x3C6EF372FE94F82Au);
  uint64_t h = 0, w[2];
  size_t left = len;
  for (; left > sizeof w; left -= sizeof w, p += sizeof w) {
    memcpy(w, p, sizeof w);
    h = fold(w[0] ^ k0, w[1] ^ k1 ^ h);
  }
  w[0] = w[1] = 0;
  if (left) memcpy(w, p, left);
  h = fold(w[0] ^ k0, w[1] ^ k1 ^ h);
  return stir(h ^ k0 ^ len);
}

uint64_t td_hash_secret(void) {
  static uint64_t seed; /* atomic; 0: not drawn yet */
  uint64_t s = __atomic_load_n(&seed, __ATOMIC_RELAXED);
  if (TD_LIKELY(s)) return s;
  uint64_t drawn = td_entropy() | 1;
  bool first = __atomic_compare_exchange_n(&seed, &s, drawn, false,
                                           __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return first ? drawn : s;
}

/* ---- map ----------------------------------------------------------------- */

void td_map_init(td_map *m) {
  *m = (td_map){0};
}

void td_map_deinit(td_map *m) {
  for (size_t i = 0; i < m->used; i++) td_free(m->entries[i].key);
  td_free(m->entries);
  td_free(m->slots);
  *m = (td_map){0};
}

static td_map_entry *find(const td_map *m, const void *key, size_t len,
                          uint64_t hash) {
  if (!m->nslots) return NULL;
  size_t mask = m->nslots - 1;
  for (size_t i = hash & mask; m->slots[i]; i = (i + 1) & mask) {
    td_map_entry *e = &m->entries[m->slots[i] - 1];
    if (e->key && e->hash == hash && e->len == len &&
        (len == 0 || !memcmp(e->key, key, len)))
      return e;
  }
  return NULL;
}

void *td_map_getn(const td_map *m, const void *key, size_t len) {
  if (!m->count) return NULL;
  td_map_entry *e = find(m, key, len, td_hash(key, len, td_hash_secret()));
  return e ? e->value : NULL;
}

void *td_map_get(const td_map *m, const char *key) {
  return td_map_getn(m, key, strlen(key));
}

static void link_entry(uint32_t *slots, size_t nslots, uint64_t hash,
                       size_t index) {
  size_t i = hash & (nslots - 1);
  while (slots[i]) i = (i + 1) & (nslots - 1);
  slots[i] = (uint32_t)(index + 1);
}

/* Closes the gaps and gives room for twice the live entries. All memory is
 * taken before anything changes. */
static bool rebuild(td_map *m) {
  size_t cap = 8, bytes;
  while (cap < (m->count + 1) * 2) cap *= 2; /* count < 2^32 */
  size_t nslots = cap * 2;
  if (cap > UINT32_MAX / 2) return false;
  if (!td_mul(cap, sizeof *m->entries, &bytes)) return false;
  td_map_entry *entries = td_malloc(bytes);
  uint32_t *slots = td_calloc(nslots, sizeof *slots);
  if (!entries || !slots) {
    td_free(entries);
    td_free(slots);
    return false;
  }
  size_t used = 0;
  for (size_t i = 0; i < m->used; i++) {
    if (!m->entries[i].key) continue;
    entries[used] = m->entries[i];
    link_entry(slots, nslots, entries[used].hash, used);
    used++;
  }
  td_free(m->entries);
  td_free(m->slots);
  *m = (td_map){entries, used, cap, used, slots, nslots};
  return true;
}

bool td_map_putn(td_map *m, const void *key, size_t len, void *value) {
  uint64_t hash = td_hash(key, len, td_hash_secret());
  td_map_entry *e = find(m, key, len, hash);
  if (e) {
    e->value = value;
    return true;
  }
  size_t bytes;
  char *copy = td_add(len, 1, &bytes) ? td_malloc(bytes) : NULL;
  if (!copy) return false;
  if (m->used == m->cap && !rebuild(m)) {
    td_free(copy);
    return false;
  }
  if (len) memcpy(copy, key, len);
  copy[len] = '\0';
  m->entries[m->used] = (td_map_entry){copy, len, hash, value};
  link_entry(m->slots, m->nslots, hash, m->used);
  m->used++;
  m->count++;
  return true;
}

bool td_map_put(td_map *m, const char *key, void *value) {
  return td_map_putn(m, key, strlen(key), value);
}

void *td_map_removen(td_map *m, const void *key, size_t len) {
  if (!m->count) return NULL;
  td_map_entry *e = find(m, key, len, td_hash(key, len, td_hash_secret()));
  if (!e) return NULL;
  void *value = e->value;
  td_free(e->key);
  e->key = NULL;
  e->value = NULL;
  m->count--;
  return value;
}

bool td_map_next(const td_map *m, size_t *i, const td_map_entry **entry) {
  while (*i < m->used) {
    const td_map_entry *e = &m->entries[(*i)++];
    if (!e->key) continue;
    *entry = e;
    return true;
  }
  return false;
}
