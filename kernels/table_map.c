/* table_map.c - records, and an index of slots over them; see table_map.h.
 *
 * A slot has 32 bits of the hash, whose lowest say where its search begins: the
 * index grows, and closes the gap behind a slot that goes, without a look at
 * the keys. A string is two words: its length with the first four bytes, then
 * the next eight, or where it stands among the long ones; short ones are equal
 * when both words are. Hashes have a secret of the process, so that nobody can
 * make keys collide; nothing that is seen depends on it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/table_map.h"

#include <string.h>
#include <sys/mman.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"

enum { SHORT = 12 };                       /* bytes of a string in its words */
enum { MOST_BYTES = 1 << 30 };             /* of one record */
static const size_t most = UINT32_MAX - 1; /* records */

/* ---- life ---------------------------------------------------------------- */

static td_status *unusable(const char *what, td_dtype t) {
  return td_error(TD_INVALID_ARGUMENT, "a lookup table has no %s of dtype %s",
                  what, td_dtype_name(t));
}

/* Bytes of n elements in a record, a multiple of 8. */
static td_status *record_bytes(td_dtype t, size_t n, size_t *size,
                               size_t *padded) {
  size_t each = t == TD_STRING ? 2 * sizeof(uint64_t) : td_dtype_size(t);
  if (!td_mul(n, each, size) || *size > MOST_BYTES)
    return td_error(TD_INVALID_ARGUMENT,
                    "%zu elements of dtype %s are too many for a key or value "
                    "of a lookup table",
                    n, td_dtype_name(t));
  *padded = (*size + 7) / 8 * 8;
  return NULL;
}

td_status *td_table_map_init(td_table_map *m, td_dtype key, size_t key_n,
                             td_dtype value, size_t value_n) {
  size_t end = 0;
  *m = (td_table_map){.key = key,
                      .value = value,
                      .key_n = key_n,
                      .value_n = value_n,
                      .secret = td_hash_secret()};
  if (key != TD_INT32 && key != TD_INT64 && key != TD_STRING)
    return unusable("keys", key);
  if (value != TD_STRING && !td_dtype_is_plain(value))
    return unusable("values", value);
  if (key_n == 0 || (key_n > 1 && key == TD_STRING))
    return td_error(TD_INVALID_ARGUMENT,
                    "a key of a lookup table cannot be %zu elements of dtype "
                    "%s",
                    key_n, td_dtype_name(key));
  m->keys = key == TD_STRING ? TD_KEYS_TEXT
            : key_n > 1      ? TD_KEYS_BYTES
                             : TD_KEYS_INT;
  TD_TRY(record_bytes(key, key_n, &m->key_size, &m->value_at));
  TD_TRY(record_bytes(value, value_n, &m->value_size, &end));
  m->stride = m->value_at + end;
  return NULL;
}

void td_table_map_deinit(td_table_map *m) {
  td_free(m->records);
  td_free(m->slots);
  td_free(m->text);
  *m = (td_table_map){0};
}

/* ---- strings ------------------------------------------------------------- */

static uint64_t get32(const char *s) {
  uint32_t v;
  memcpy(&v, s, sizeof v);
  return v;
}

static uint64_t get64(const char *s) {
  uint64_t v;
  memcpy(&v, s, sizeof v);
  return v;
}

/* Both words of a string of at most SHORT bytes, nothing behind it being read:
 * loads overlap, and what was loaded twice is shifted out. */
static inline void pack_short(const char *s, size_t len, uint64_t word[2]) {
  uint64_t first = 0, rest = 0;
  if (len >= 8) {
    first = get32(s);
    rest = get64(s + len - 8) >> (SHORT - len) * 8;
  } else if (len >= 4) {
    first = get32(s);
    rest = get32(s + len - 4) >> (8 - len) * 8;
  } else if (len) {
    first = (uint64_t)(uint8_t)s[0] |
            (uint64_t)(uint8_t)s[len >> 1] << 8 * (len >> 1) |
            (uint64_t)(uint8_t)s[len - 1] << 8 * (len - 1);
  }
  word[0] = len | first << 32;
  word[1] = rest;
}

/* Of a longer one the second word is left to who keeps it. */
static inline void pack(const char *s, size_t len, uint64_t word[2]) {
  if (TD_LIKELY(len <= SHORT)) {
    pack_short(s, len, word);
  } else {
    word[0] = (uint32_t)len | get32(s) << 32;
    word[1] = 0;
  }
}

/* The string whose words stand at `word`, in a record. */
static inline td_bytes unpack(const td_table_map *m, const char *word) {
  size_t len = get32(word);
  if (len <= SHORT) return (td_bytes){word + 4, len};
  return (td_bytes){m->text + get64(word + 8), len};
}

static td_status *check_text(size_t len) {
  if (len <= UINT32_MAX) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "a string of %zu bytes is too long for a lookup table", len);
}

/* ---- keys ---------------------------------------------------------------- */

static inline uint32_t mix(uint64_t a, uint64_t b) {
  unsigned __int128 p = (unsigned __int128)a * b;
  uint64_t v = (uint64_t)p ^ (uint64_t)(p >> 64);
  return (uint32_t)(v ^ v >> 32);
}

static inline void int_key(const td_table_map *m, int64_t v,
                           td_table_key *key) {
  key->word[0] = (uint64_t)v;
  key->hash = mix((uint64_t)v ^ m->secret, 0x9e3779b97f4a7c15u);
}

static inline void text_key(const td_table_map *m, const char *s, size_t len,
                            td_table_key *key) {
  pack(s, len, key->word);
  key->at = s;
  key->len = len;
  if (TD_LIKELY(len <= SHORT))
    key->hash = mix(key->word[0] ^ m->secret,
                    key->word[1] ^ (m->secret * 0x9e3779b97f4a7c15u | 1));
  else
    key->hash = (uint32_t)td_hash(s, len, m->secret);
}

static void bytes_key(const td_table_map *m, const char *at,
                      td_table_key *key) {
  key->at = at;
  key->len = m->key_size;
  key->hash = (uint32_t)td_hash(at, m->key_size, m->secret);
}

void td_table_map_key_text(const td_table_map *m, td_bytes s,
                           td_table_key *key) {
  text_key(m, s.at, s.len, key);
}

void td_table_map_key_int(const td_table_map *m, int64_t v, td_table_key *key) {
  int_key(m, v, key);
}

static void text_keys(const td_table_map *m, const td_tensor *t, int64_t first,
                      int n, td_table_key *key) {
  const uint64_t *offset = (const uint64_t *)t->data + first;
  const char *base = t->buffer->data;
  for (int i = 0; i < n; i++)
    text_key(m, base + offset[i], offset[i + 1] - offset[i], &key[i]);
}

void td_table_map_keys(const td_table_map *m, const td_tensor *t, int64_t first,
                       int n, td_table_key *key) {
  const int64_t *wide = (const int64_t *)t->data + first;
  const int32_t *narrow = (const int32_t *)t->data + first;
  const char *at = t->data;
  if (m->keys == TD_KEYS_TEXT)
    text_keys(m, t, first, n, key);
  else if (m->keys == TD_KEYS_BYTES)
    for (int i = 0; i < n; i++)
      bytes_key(m, at + (size_t)(first + i) * m->key_size, &key[i]);
  else if (m->key == TD_INT64)
    for (int i = 0; i < n; i++) int_key(m, wide[i], &key[i]);
  else
    for (int i = 0; i < n; i++) int_key(m, narrow[i], &key[i]);
}

void td_table_map_key(const td_table_map *m, const td_tensor *t, int64_t i,
                      td_table_key *key) {
  td_table_map_keys(m, t, i, 1, key);
}

bool td_table_map_same_key(const td_table_map *m, const td_table_key *a,
                           const td_table_key *b) {
  if (a->hash != b->hash) return false;
  if (m->keys == TD_KEYS_INT) return a->word[0] == b->word[0];
  return a->len == b->len && (!a->len || !memcmp(a->at, b->at, a->len));
}

/* ---- finding ------------------------------------------------------------- */

static inline char *record_at(const td_table_map *m, uint32_t entry) {
  return m->records + entry * m->stride;
}

static inline bool is_key(const td_table_map *m, td_table_kind keys,
                          uint32_t entry, const td_table_key *k) {
  const char *r = record_at(m, entry);
  if (keys == TD_KEYS_INT) return get64(r) == k->word[0];
  if (keys == TD_KEYS_BYTES) return memcmp(r, k->at, k->len) == 0;
  if (get64(r) != k->word[0]) return false;
  if (k->len <= SHORT) return get64(r + 8) == k->word[1];
  return memcmp(m->text + get64(r + 8), k->at, k->len) == 0;
}

/* The next record from slot *at on whose hash is that; *at is behind it. */
static inline uint32_t candidate(const td_table_map *m, uint32_t hash,
                                 size_t *at) {
  size_t mask = m->n_slots - 1, i = *at;
  while (m->slots[i].entry && m->slots[i].hash != hash) i = (i + 1) & mask;
  *at = (i + 1) & mask;
  return m->slots[i].entry - 1; /* of a free one TD_TABLE_NONE */
}

void td_table_probe_slots(const td_table_map *m, const td_table_probe *p) {
  size_t mask = m->n_slots - 1;
  if (!m->n_slots) return;
  for (int i = 0; i < p->n; i++)
    __builtin_prefetch(&m->slots[p->key[i].hash & mask]);
}

void td_table_probe_records(const td_table_map *m, td_table_probe *p) {
  size_t mask = m->n_slots - 1;
  for (int i = 0; i < p->n; i++) {
    p->entry[i] = TD_TABLE_NONE;
    if (!m->n_slots) continue;
    p->at[i] = p->key[i].hash & mask;
    p->entry[i] = candidate(m, p->key[i].hash, &p->at[i]);
    if (p->entry[i] == TD_TABLE_NONE) continue;
    const char *r = record_at(m, p->entry[i]);
    __builtin_prefetch(r);
    __builtin_prefetch(r + m->stride - 1);
  }
}

static inline void settle(const td_table_map *m, td_table_kind keys,
                          td_table_probe *p) {
  for (int i = 0; i < p->n; i++)
    while (p->entry[i] != TD_TABLE_NONE &&
           !is_key(m, keys, p->entry[i], &p->key[i]))
      p->entry[i] = candidate(m, p->key[i].hash, &p->at[i]);
}

void td_table_probe_settle(const td_table_map *m, td_table_probe *p) {
  if (m->keys == TD_KEYS_INT)
    settle(m, TD_KEYS_INT, p);
  else if (m->keys == TD_KEYS_TEXT)
    settle(m, TD_KEYS_TEXT, p);
  else
    settle(m, TD_KEYS_BYTES, p);
}

void td_table_map_find_many(const td_table_map *m, td_table_probe *p) {
  td_table_probe_slots(m, p);
  td_table_probe_records(m, p);
  td_table_probe_settle(m, p);
}

uint32_t td_table_map_find(const td_table_map *m, const td_table_key *key) {
  if (!m->n_slots) return TD_TABLE_NONE;
  size_t at = key->hash & (m->n_slots - 1);
  uint32_t entry = candidate(m, key->hash, &at);
  while (entry != TD_TABLE_NONE && !is_key(m, m->keys, entry, key))
    entry = candidate(m, key->hash, &at);
  return entry;
}

/* ---- reading records ----------------------------------------------------- */

void td_table_map_get(const td_table_map *m, uint32_t entry, void *to) {
  const char *from = record_at(m, entry) + m->value_at;
  if (m->value == TD_STRING) {
    td_bytes *s = to;
    for (size_t i = 0; i < m->value_n; i++) s[i] = unpack(m, from + i * 16);
  } else if (m->value_size == 8) {
    memcpy(to, from, 8);
  } else if (m->value_size == 4) {
    memcpy(to, from, 4);
  } else if (m->value_size) {
    memcpy(to, from, m->value_size);
  }
}

void td_table_map_get_key(const td_table_map *m, uint32_t entry, void *to) {
  const char *from = record_at(m, entry);
  if (m->keys == TD_KEYS_TEXT)
    *(td_bytes *)to = unpack(m, from);
  else
    memcpy(to, from, m->key_size); /* of an int32 the lower half */
}

bool td_table_map_same_value(const td_table_map *m, uint32_t entry,
                             const void *value) {
  const char *have = record_at(m, entry) + m->value_at;
  const td_bytes *s = value;
  if (m->value != TD_STRING)
    return !m->value_size || memcmp(have, value, m->value_size) == 0;
  for (size_t i = 0; i < m->value_n; i++) {
    td_bytes h = unpack(m, have + i * 16);
    if (h.len != s[i].len || (h.len && memcmp(h.at, s[i].at, h.len))) {
      return false;
    }
  }
  return true;
}

/* ---- room ---------------------------------------------------------------- */

static td_status *too_many(size_t have, size_t more) {
  return td_error(TD_RESOURCE_EXHAUSTED,
                  "a lookup table of %zu keys has no room for %zu more: it "
                  "takes %zu",
                  have, more, most);
}

/* Large memory that was not touched yet, to be looked at here and there: on
 * pages of the usual size most look-ups would miss their addresses' cache. */
static void *on_huge_pages(void *p, size_t bytes) {
  enum { HUGE = 1 << 21 };
  uintptr_t begin = ((uintptr_t)p + HUGE - 1) & -(uintptr_t)HUGE;
  uintptr_t end = ((uintptr_t)p + bytes) & -(uintptr_t)HUGE;
  if (p && begin < end) madvise((void *)begin, end - begin, MADV_HUGEPAGE);
  return p;
}

/* Puts a slot into the index, which has a free one. */
static void link_slot(td_table_slot *slots, size_t mask, td_table_slot s) {
  size_t i = s.hash & mask;
  while (slots[i].entry) i = (i + 1) & mask;
  slots[i] = s;
}

/* At most five of eight slots are taken. */
static td_status *reserve_slots(td_table_map *m, size_t n) {
  size_t want = m->n_slots ? m->n_slots : 16;
  while (n > want / 8 * 5) want *= 2; /* n < 2^32 */
  if (want == m->n_slots) return NULL;
  size_t bytes = want * sizeof(td_table_slot);
  td_table_slot *slots = on_huge_pages(td_calloc(1, bytes), bytes);
  if (!slots) return td_oom();
  for (size_t i = 0; i < m->n_slots; i++)
    if (m->slots[i].entry) link_slot(slots, want - 1, m->slots[i]);
  td_free(m->slots);
  m->slots = slots;
  m->n_slots = want;
  return NULL;
}

static td_status *reserve_records(td_table_map *m, size_t n) {
  size_t room = m->room + m->room / 2, bytes;
  if (n <= m->room) return NULL;
  if (room < n) room = n;
  if (room < 8) room = 8;
  if (room > most) room = most;
  if (!td_mul(room, m->stride, &bytes)) return td_oom();
  char *records = on_huge_pages(td_malloc(bytes), bytes);
  if (!records) return td_oom();
  if (m->count) memcpy(records, m->records, m->count * m->stride);
  td_free(m->records);
  m->records = records;
  m->room = room;
  return NULL;
}

td_status *td_table_map_reserve(td_table_map *m, size_t more) {
  if (more > most - m->count) return too_many(m->count, more);
  size_t n = m->count + more;
  TD_TRY(reserve_slots(m, n));
  return reserve_records(m, n);
}

/* ---- the block of long strings ------------------------------------------- */

static void move_text(char *word, const char *from, char *to, size_t *len) {
  size_t n = get32(word);
  uint64_t at;
  if (n <= SHORT) return;
  memcpy(&at, word + 8, sizeof at);
  memcpy(to + *len, from + at, n);
  at = *len;
  memcpy(word + 8, &at, sizeof at);
  *len += n;
}

/* What is used moves to a block of its own. */
static void gather_text(td_table_map *m, char *to) {
  size_t len = 0;
  for (uint32_t e = 0; e < m->count; e++) {
    char *r = record_at(m, e);
    if (m->keys == TD_KEYS_TEXT) move_text(r, m->text, to, &len);
    for (size_t i = 0; m->value == TD_STRING && i < m->value_n; i++)
      move_text(r + m->value_at + i * 16, m->text, to, &len);
  }
  td_free(m->text);
  m->text = to;
  m->text_len = len;
  m->text_lost = 0;
}

static td_status *reserve_text(td_table_map *m, size_t more) {
  size_t used = m->text_len - m->text_lost, room;
  if (more <= m->text_room - m->text_len) return NULL;
  if (!td_add(used, used / 2, &room) || !td_add(room, more, &room))
    return td_oom();
  room += m->count + 256; /* so that it is not done all the time */
  char *text = td_malloc(room);
  if (!text) return td_oom();
  gather_text(m, text);
  m->text_room = room;
  return NULL;
}

/* There is room for it. */
static void keep_text(td_table_map *m, td_bytes s, char *word) {
  uint64_t w[2];
  pack(s.at, s.len, w);
  if (s.len > SHORT) {
    memcpy(m->text + m->text_len, s.at, s.len);
    w[1] = m->text_len;
    m->text_len += s.len;
  }
  memcpy(word, w, sizeof w);
}

static td_status *add_long(size_t len, size_t *bytes) {
  TD_TRY(check_text(len));
  if (len > SHORT && !td_add(*bytes, len, bytes)) return td_oom();
  return NULL;
}

/* Bytes of text that a value needs. */
static td_status *value_text(const td_table_map *m, const void *value,
                             size_t *bytes) {
  const td_bytes *s = value;
  for (size_t i = 0; m->value == TD_STRING && i < m->value_n; i++)
    TD_TRY(add_long(s[i].len, bytes));
  return NULL;
}

static void lose_text(td_table_map *m, const char *word) {
  size_t len = get32(word);
  if (len > SHORT) m->text_lost += len;
}

/* ---- writing records ----------------------------------------------------- */

static void keep_value(td_table_map *m, uint32_t entry, const void *value) {
  char *to = record_at(m, entry) + m->value_at;
  const td_bytes *s = value;
  if (m->value == TD_STRING)
    for (size_t i = 0; i < m->value_n; i++) keep_text(m, s[i], to + i * 16);
  else if (m->value_size)
    memcpy(to, value, m->value_size);
}

static void keep_key(td_table_map *m, uint32_t entry, const td_table_key *key) {
  char *to = record_at(m, entry);
  if (m->keys == TD_KEYS_INT)
    memcpy(to, key->word, sizeof key->word[0]);
  else if (m->keys == TD_KEYS_TEXT)
    keep_text(m, (td_bytes){key->at, key->len}, to);
  else
    memcpy(to, key->at, key->len);
}

td_status *td_table_map_add(td_table_map *m, const td_table_key *key,
                            const void *value) {
  size_t bytes = 0;
  if (m->keys == TD_KEYS_TEXT) TD_TRY(add_long(key->len, &bytes));
  TD_TRY(value_text(m, value, &bytes));
  TD_TRY(td_table_map_reserve(m, 1));
  TD_TRY(reserve_text(m, bytes));
  uint32_t entry = (uint32_t)m->count++;
  keep_key(m, entry, key);
  keep_value(m, entry, value);
  link_slot(m->slots, m->n_slots - 1, (td_table_slot){key->hash, entry + 1});
  return NULL;
}

static void lose_value(td_table_map *m, uint32_t entry) {
  const char *at = record_at(m, entry) + m->value_at;
  for (size_t i = 0; m->value == TD_STRING && i < m->value_n; i++)
    lose_text(m, at + i * 16);
}

td_status *td_table_map_set(td_table_map *m, uint32_t entry,
                            const void *value) {
  size_t bytes = 0;
  TD_TRY(value_text(m, value, &bytes));
  TD_TRY(reserve_text(m, bytes));
  lose_value(m, entry);
  keep_value(m, entry, value);
  return NULL;
}

td_status *td_table_map_put(td_table_map *m, const td_table_key *key,
                            const void *value) {
  uint32_t entry = td_table_map_find(m, key);
  return entry == TD_TABLE_NONE ? td_table_map_add(m, key, value)
                                : td_table_map_set(m, entry, value);
}

/* ---- removing ------------------------------------------------------------ */

/* The key of a record, as one to be looked for. */
static void key_of(const td_table_map *m, uint32_t entry, td_table_key *key) {
  const char *r = record_at(m, entry);
  td_bytes s;
  if (m->keys == TD_KEYS_INT) {
    int_key(m, (int64_t)get64(r), key);
  } else if (m->keys == TD_KEYS_BYTES) {
    bytes_key(m, r, key);
  } else {
    s = unpack(m, r);
    text_key(m, s.at, s.len, key);
  }
}

static size_t slot_of(const td_table_map *m, uint32_t entry) {
  td_table_key key;
  key_of(m, entry, &key);
  size_t mask = m->n_slots - 1, i = key.hash & mask;
  while (m->slots[i].entry != entry + 1) i = (i + 1) & mask;
  return i;
}

/* Those behind a free slot whose search passes it move up. */
static void close_gap(td_table_map *m, size_t gap) {
  size_t mask = m->n_slots - 1;
  for (size_t i = (gap + 1) & mask; m->slots[i].entry; i = (i + 1) & mask) {
    size_t begins = m->slots[i].hash & mask;
    if (((i - begins) & mask) < ((i - gap) & mask)) continue;
    m->slots[gap] = m->slots[i];
    gap = i;
  }
  m->slots[gap] = (td_table_slot){0};
}

void td_table_map_remove(td_table_map *m, uint32_t entry) {
  uint32_t last = (uint32_t)m->count - 1;
  if (m->keys == TD_KEYS_TEXT) lose_text(m, record_at(m, entry));
  lose_value(m, entry);
  size_t gap = slot_of(m, entry);
  if (entry != last) {
    m->slots[slot_of(m, last)].entry = entry + 1;
    memcpy(record_at(m, entry), record_at(m, last), m->stride);
  }
  close_gap(m, gap);
  m->count--;
}

/* ---- whole maps ---------------------------------------------------------- */

static bool same_text(const td_table_map *a, const char *x,
                      const td_table_map *b, const char *y) {
  td_bytes s = unpack(a, x), t = unpack(b, y);
  return s.len == t.len && (!s.len || !memcmp(s.at, t.at, s.len));
}

/* Has `a` the key of a record of `b`, with its value? */
static bool has(const td_table_map *a, const td_table_map *b, uint32_t entry) {
  td_table_key key;
  key_of(b, entry, &key);
  uint32_t e = td_table_map_find(a, &key);
  if (e == TD_TABLE_NONE) return false;
  const char *x = record_at(a, e) + a->value_at;
  const char *y = record_at(b, entry) + b->value_at;
  if (a->value != TD_STRING)
    return !a->value_size || memcmp(x, y, a->value_size) == 0;
  for (size_t i = 0; i < a->value_n; i++)
    if (!same_text(a, x + i * 16, b, y + i * 16)) return false;
  return true;
}

bool td_table_map_same(const td_table_map *a, const td_table_map *b) {
  if (a->count != b->count) return false;
  for (uint32_t e = 0; e < b->count; e++)
    if (!has(a, b, e)) return false;
  return true;
}
