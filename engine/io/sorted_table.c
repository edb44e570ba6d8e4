/* sorted_table.c - sorted tables to and from bytes.
 *
 *   block   entries: varint shared, varint rest, varint length of the value,
 *           rest of the key, value; then the places of the entries that share
 *           nothing (restarts), 4 bytes each, and their number
 *   behind  1 byte 0 (not packed), 4 bytes masked CRC-32C of block and byte
 *   file    blocks, a block without entries, the block of blocks (a key not
 *           below the block's last, a handle), the foot
 *   handle  varint offset, varint size without what stands behind
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/sorted_table.h"

#include <string.h>

#include "engine/base/bytes.h"
#include "engine/base/crc32c.h"
#include "engine/base/vec.h"

enum {
  BLOCK_BYTES = 262144, /* a block is ended at so many */
  RESTART_EVERY = 16,   /* entries; of the block of blocks 1 */
  BEHIND = 5,           /* bytes behind a block */
  FOOT = 48,
  HANDLES = 40, /* bytes of the foot before the magic number */
};
static const uint64_t magic = 0xdb4775248b80fb57u;

int td_sorted_compare(td_bytes a, td_bytes b) {
  size_t n = a.len < b.len ? a.len : b.len;
  int c = n ? memcmp(a.at, b.at, n) : 0;
  return c ? c : a.len < b.len ? -1 : a.len > b.len;
}

/* ---- writing ------------------------------------------------------------- */

typedef struct builder {
  td_str bytes, last; /* entries so far; the last key */
  TD_VEC(uint32_t) restarts;
  int since, every; /* entries since a restart; at most so many */
  bool failed;
} builder;

static void restart(builder *b) {
  if (!td_vec_push(&b->restarts, (uint32_t)b->bytes.len)) b->failed = true;
  b->since = 0;
}

/* To be used again; what failed before is not forgotten. */
static void renew(td_str *s, bool *failed) {
  if (s->failed) *failed = true;
  td_str_clear(s);
}

static void begin_block(builder *b) {
  renew(&b->bytes, &b->failed);
  renew(&b->last, &b->failed);
  b->restarts.len = 0;
  restart(b);
}

static size_t size_of_block(const builder *b) {
  return b->bytes.len + 4 * b->restarts.len + 4;
}

static size_t shared_with(const td_str *last, td_bytes key) {
  size_t n = last->len < key.len ? last->len : key.len, i = 0;
  while (i < n && last->at[i] == key.at[i]) i++;
  return i;
}

static void add_entry(builder *b, td_bytes key, td_bytes value) {
  if (b->since >= b->every) restart(b);
  size_t shared = b->since > 0 ? shared_with(&b->last, key) : 0;
  td_varint_put(&b->bytes, shared);
  td_varint_put(&b->bytes, key.len - shared);
  td_varint_put(&b->bytes, value.len);
  td_str_addn(&b->bytes, key.at + shared, key.len - shared);
  td_str_addn(&b->bytes, value.at, value.len);
  renew(&b->last, &b->failed);
  td_str_addn(&b->last, key.at, key.len);
  b->since++;
}

/* The block goes to the file; its handle is appended to `handle`. */
static void end_block(builder *b, size_t base, td_str *out, td_str *handle) {
  for (size_t i = 0; i < b->restarts.len; i++)
    td_bytes_put(&b->bytes, b->restarts.at[i], 4);
  td_bytes_put(&b->bytes, b->restarts.len, 4);
  td_varint_put(handle, out->len - base);
  td_varint_put(handle, b->bytes.len);
  td_str_addc(&b->bytes, 0);
  uint32_t crc = td_crc32c(td_str_c(&b->bytes), b->bytes.len);
  td_str_addn(out, td_str_c(&b->bytes), b->bytes.len);
  td_bytes_put(out, td_crc32c_mask(crc), 4);
}

/* A short key that is not below `last` and below `next`. */
static void put_between(td_str *out, td_bytes last, td_bytes next) {
  size_t i = 0;
  while (i < last.len && i < next.len && last.at[i] == next.at[i]) i++;
  bool apart = i < last.len && i < next.len &&
               (uint8_t)last.at[i] + 1 < (uint8_t)next.at[i];
  td_str_addn(out, last.at, apart ? i : last.len);
  if (apart) td_str_addc(out, (char)(last.at[i] + 1));
}

/* A short key that is not below the last one of all. */
static void put_above(td_str *out, td_bytes last) {
  size_t i = 0;
  while (i < last.len && (uint8_t)last.at[i] == 0xff) i++;
  td_str_addn(out, last.at, i);
  if (i < last.len) td_str_addc(out, (char)(last.at[i] + 1));
}

typedef struct table {
  td_str *out;
  size_t base; /* where the table begins in `out` */
  builder data, index;
  td_str key, handle; /* of the block that ends */
  bool failed;
} table;

/* Ends the block whose last entry is `last`; `next` NULL: there is none. */
static void cut(table *w, td_bytes last, const td_bytes *next) {
  renew(&w->key, &w->failed);
  renew(&w->handle, &w->failed);
  end_block(&w->data, w->base, w->out, &w->handle);
  if (next)
    put_between(&w->key, last, *next);
  else
    put_above(&w->key, last);
  add_entry(&w->index, (td_bytes){td_str_c(&w->key), w->key.len},
            (td_bytes){td_str_c(&w->handle), w->handle.len});
  begin_block(&w->data);
}

static void write_blocks(table *w, const td_sorted_entry *e, size_t n) {
  for (size_t i = 0; i < n; i++) {
    size_t more = e[i].key.len + e[i].value.len;
    if (more >= 2 * BLOCK_BYTES && w->data.bytes.len > 0)
      cut(w, e[i - 1].key, &e[i].key);
    add_entry(&w->data, e[i].key, e[i].value);
    if (i + 1 == n)
      cut(w, e[i].key, NULL);
    else if (size_of_block(&w->data) >= BLOCK_BYTES)
      cut(w, e[i].key, &e[i + 1].key);
  }
}

static void write_end(table *w) {
  td_str handles = {0};
  begin_block(&w->data);
  end_block(&w->data, w->base, w->out, &handles);
  end_block(&w->index, w->base, w->out, &handles);
  while (!handles.failed && handles.len < HANDLES) td_str_addc(&handles, 0);
  if (handles.failed) w->out->failed = true;
  td_str_addn(w->out, td_str_c(&handles), handles.len);
  td_bytes_put(w->out, magic, 8);
  td_str_deinit(&handles);
}

static bool free_block(builder *b) {
  bool failed = b->failed || b->bytes.failed || b->last.failed;
  td_str_deinit(&b->bytes);
  td_str_deinit(&b->last);
  td_vec_free(&b->restarts);
  return failed;
}

td_status *td_sorted_table_write(const td_sorted_entry *entries, size_t n,
                                 td_str *out) {
  table w = {.out = out,
             .base = out->len,
             .data.every = RESTART_EVERY,
             .index.every = 1};
  begin_block(&w.data);
  begin_block(&w.index);
  write_blocks(&w, entries, n);
  write_end(&w);
  bool failed = w.failed || out->failed || w.key.failed || w.handle.failed;
  failed |= free_block(&w.data);
  failed |= free_block(&w.index);
  td_str_deinit(&w.key);
  td_str_deinit(&w.handle);
  return failed ? td_oom() : NULL;
}

/* ---- reading ------------------------------------------------------------- */

static td_status *broken(const char *what) {
  return td_error(TD_DATA_LOSS, "a sorted table is broken: %s", what);
}

static uint32_t number_at(const char *at) {
  uint32_t v = 0;
  for (int i = 0; i < 4; i++) v |= (uint32_t)(uint8_t)at[i] << 8 * i;
  return v;
}

/* The entries of the block at a handle, without the restarts. */
static td_status *find_block(td_bytes file, uint64_t offset, uint64_t size,
                             td_bytes *out) {
  if (file.len < BEHIND || offset > file.len - BEHIND ||
      size > file.len - BEHIND - offset || size < 4)
    return broken("a block lies beyond its end");
  const char *at = file.at + offset;
  uint32_t crc = td_crc32c(at, size + 1);
  if (td_crc32c_mask(crc) != number_at(at + size + 1))
    return broken("the check of a block does not hold");
  if (at[size] != 0) return broken("a block is packed (snappy), or of no kind");
  uint64_t restarts = number_at(at + size - 4);
  if (restarts > (size - 4) / 4) return broken("a block has no restarts");
  *out = (td_bytes){at, size - 4 - 4 * restarts};
  return NULL;
}

/* Takes an entry; the key is put together in `key`. */
static td_status *take_entry(td_bytes *from, td_str *key, td_bytes *value) {
  uint64_t shared, rest, len;
  td_bytes tail;
  if (!td_varint_take(from, &shared) || !td_varint_take(from, &rest) ||
      !td_varint_take(from, &len) || shared > key->len || rest > from->len ||
      !td_bytes_take(from, rest, &tail) || len > from->len ||
      !td_bytes_take(from, len, value))
    return broken("an entry is cut off");
  key->len = shared;
  td_str_addn(key, tail.at, tail.len);
  return key->failed ? td_oom() : NULL;
}

static td_status *take_handle(td_bytes *from, uint64_t *offset,
                              uint64_t *size) {
  if (!td_varint_take(from, offset) || !td_varint_take(from, size))
    return broken("a handle is cut off");
  return NULL;
}

typedef struct reading {
  td_bytes file;
  td_sorted_each each;
  void *arg;
  td_str key, last; /* of the blocks' entries: this one and the one before */
  bool any;         /* is there one before? */
} reading;

static td_status *read_entries(reading *r, td_bytes block) {
  td_bytes value;
  td_str_clear(&r->key);
  while (block.len > 0) {
    TD_TRY(take_entry(&block, &r->key, &value));
    td_bytes key = {td_str_c(&r->key), r->key.len};
    if (r->any && td_sorted_compare((td_bytes){td_str_c(&r->last), r->last.len},
                                    key) >= 0)
      return broken("its keys do not ascend");
    TD_TRY(r->each(r->arg, key, value));
    td_str_clear(&r->last);
    td_str_addn(&r->last, key.at, key.len);
    if (r->last.failed) return td_oom();
    r->any = true;
  }
  return NULL;
}

static td_status *read_blocks(reading *r, td_bytes index, td_str *key) {
  while (index.len > 0) {
    td_bytes handle, entries;
    uint64_t offset, size = 0;
    TD_TRY(take_entry(&index, key, &handle));
    TD_TRY(take_handle(&handle, &offset, &size));
    TD_TRY(find_block(r->file, offset, size, &entries));
    TD_TRY(read_entries(r, entries));
  }
  return NULL;
}

/* The block of blocks, by the foot. Of the block without entries and of what
 * fills the foot up only damage is of interest. */
static td_status *find_index(td_bytes file, td_bytes *out) {
  if (file.len < FOOT) return broken("it is too short");
  td_bytes foot = {file.at + file.len - FOOT, HANDLES};
  td_bytes end = {foot.at + HANDLES, 8};
  uint64_t number, offset, size = 0;
  if (!td_bytes_get(&end, 8, &number) || number != magic)
    return broken("it does not end as one: cut short, or no table at all");
  file.len -= FOOT;
  TD_TRY(take_handle(&foot, &offset, &size));
  TD_TRY(find_block(file, offset, size, out));
  TD_TRY(take_handle(&foot, &offset, &size));
  for (size_t i = 0; i < foot.len; i++)
    if (foot.at[i]) return broken("its foot does not end with zeros");
  return find_block(file, offset, size, out);
}

td_status *td_sorted_table_read(td_bytes file, td_sorted_each each, void *arg) {
  reading r = {.file = file, .each = each, .arg = arg};
  td_str key = {0};
  td_bytes index;
  TD_TRY(find_index(file, &index));
  td_status *s = read_blocks(&r, index, &key);
  td_str_deinit(&key);
  td_str_deinit(&r.key);
  td_str_deinit(&r.last);
  return s;
}
