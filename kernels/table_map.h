/* table_map.h - the content of a lookup table: keys to values of any dtype.
 *
 * Keys and values stand side by side in records, dense and in the order in
 * which they came (the last takes the place of one that is removed). An index
 * of slots, open addressing, finds a record by its key's hash. Integers are in
 * the record; so are strings of up to twelve bytes, longer ones in one block
 * of text. A look-up in a large table waits for memory two or three times, so
 * that those of many keys are done side by side.
 *
 * Not locked. Elements are passed as those of a td_array: a string is a
 * td_bytes. Errors leave the map as it was.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TABLE_MAP_H
#define TD_TABLE_MAP_H

#include "engine/base/str.h"
#include "engine/tensor/tensor.h"

TD_BEGIN

enum { TD_TABLE_BATCH = 32 };
#define TD_TABLE_NONE UINT32_MAX /* no record */

typedef struct td_table_slot {
  uint32_t hash;
  uint32_t entry; /* number of the record + 1; 0: free */
} td_table_slot;

typedef enum td_table_kind {
  TD_KEYS_INT,
  TD_KEYS_TEXT,
  TD_KEYS_BYTES
} td_table_kind;

typedef struct td_table_map {
  td_dtype key, value;
  td_table_kind keys;        /* how they are kept */
  size_t key_n, value_n;     /* elements of one key, of one value */
  size_t key_size;           /* bytes of a key in a tensor; of text 0 */
  size_t value_size;         /* bytes of a value in a record */
  size_t value_at, stride;   /* where it stands there; from record to record */
  uint64_t secret;           /* goes into hashes */
  char *records;
  size_t count, room;        /* records; never over UINT32_MAX - 1 */
  td_table_slot *slots;
  size_t n_slots;            /* a power of two, more than count; or 0 */
  char *text;                /* long strings */
  size_t text_len, text_room;
  size_t text_lost;          /* bytes of it that nobody uses any more */
} td_table_map;

/* A key that is looked for. */
typedef struct td_table_key {
  uint64_t word[2]; /* an integer; or a string's length and first bytes */
  const char *at;   /* of strings and several elements. Borrowed */
  size_t len;
  uint32_t hash;
} td_table_key;

/* An empty map of keys of key_n elements (one, when they are strings) and
 * values of value_n. INVALID_ARGUMENT when there are no such keys or values, or
 * they are too large. */
td_status *td_table_map_init(td_table_map *m, td_dtype key, size_t key_n,
                             td_dtype value, size_t value_n) TD_MUST_USE;
void td_table_map_deinit(td_table_map *m);

/* Key i of a tensor of the map's dtype: elements [i * key_n, ..). Borrows the
 * tensor's memory. */
void td_table_map_key(const td_table_map *m, const td_tensor *t, int64_t i,
                      td_table_key *key);
/* The same of n keys, from `first` on. */
void td_table_map_keys(const td_table_map *m, const td_tensor *t, int64_t first,
                       int n, td_table_key *key);
void td_table_map_key_text(const td_table_map *m, td_bytes s,
                           td_table_key *key);
void td_table_map_key_int(const td_table_map *m, int64_t v, td_table_key *key);
bool td_table_map_same_key(const td_table_map *m, const td_table_key *a,
                           const td_table_key *b);

/* The record of a key, or TD_TABLE_NONE. Good until the map changes. */
uint32_t td_table_map_find(const td_table_map *m, const td_table_key *key);

/* Keys that are looked for side by side: in three steps, each of which asks for
 * the memory that the next one looks at. Other work may come between them. */
typedef struct td_table_probe {
  int n;                              /* <= TD_TABLE_BATCH */
  td_table_key key[TD_TABLE_BATCH];   /* given */
  uint32_t entry[TD_TABLE_BATCH];     /* at the end: their records */
  size_t at[TD_TABLE_BATCH];          /* private */
} td_table_probe;

void td_table_probe_slots(const td_table_map *m, const td_table_probe *p);
void td_table_probe_records(const td_table_map *m, td_table_probe *p);
void td_table_probe_settle(const td_table_map *m, td_table_probe *p);
void td_table_map_find_many(const td_table_map *m, td_table_probe *p); /* all */

/* Copies the value of a record to `to`, and its key. Strings point into the map
 * until it changes. */
void td_table_map_get(const td_table_map *m, uint32_t entry, void *to);
void td_table_map_get_key(const td_table_map *m, uint32_t entry, void *to);
bool td_table_map_same_value(const td_table_map *m, uint32_t entry,
                             const void *value);

/* Room for so many more; they need no memory then but for long strings. */
td_status *td_table_map_reserve(td_table_map *m, size_t more) TD_MUST_USE;
/* A key that is not there yet. */
td_status *td_table_map_add(td_table_map *m, const td_table_key *key,
                            const void *value) TD_MUST_USE;
td_status *td_table_map_set(td_table_map *m, uint32_t entry,
                            const void *value) TD_MUST_USE;
/* Adds the key or sets its value. */
td_status *td_table_map_put(td_table_map *m, const td_table_key *key,
                            const void *value) TD_MUST_USE;
/* The last record takes the place of this one. */
void td_table_map_remove(td_table_map *m, uint32_t entry);

/* Have both maps, of the same dtypes, the same keys with the same values? */
bool td_table_map_same(const td_table_map *a, const td_table_map *b);

TD_END
#endif
