/* map.h - byte strings to pointers, kept in the order of insertion.
 *
 * Open addressing over an entry array, so that walking a map gives the same
 * order in every run. Keys are copied. Not locked.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_MAP_H
#define TD_MAP_H

#include "engine/base/base.h"

TD_BEGIN

typedef struct td_map_entry {
  char *key;    /* NUL-terminated copy; NULL once removed */
  size_t len;
  uint64_t hash;
  void *value;
} td_map_entry;

typedef struct td_map {
  td_map_entry *entries; /* `used` of them, in order of insertion */
  size_t used, cap;
  size_t count;   /* without removed ones */
  uint32_t *slots; /* index into entries + 1, 0 is empty */
  size_t nslots;  /* power of two */
} td_map;

void td_map_init(td_map *m);
void td_map_deinit(td_map *m); /* values are the caller's */
void *td_map_get(const td_map *m, const char *key); /* NULL when absent */
void *td_map_getn(const td_map *m, const void *key, size_t len);
/* Adds or replaces; false when there is no memory (map unchanged). */
bool td_map_put(td_map *m, const char *key, void *value) TD_MUST_USE;
bool td_map_putn(td_map *m, const void *key, size_t len, void *value)
    TD_MUST_USE;
void *td_map_removen(td_map *m, const void *key, size_t len); /* or NULL */

/* The same value on every machine and in every version. */
uint64_t td_hash(const void *bytes, size_t len, uint64_t seed);
/* A seed of this process for tables of names that come from files, so that
 * nobody can make them collide. Nothing that is seen may depend on it. */
uint64_t td_hash_secret(void);

/* for (size_t i = 0; td_map_next(m, &i, &e);) ... A walk may remove entries and
 * replace values, but not add. */
bool td_map_next(const td_map *m, size_t *i, const td_map_entry **entry);

TD_END
#endif
