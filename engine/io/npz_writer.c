/* npz_writer.c - writing NumPy's .npz archives.
 *
 * A zip file is what comes out of appending: for each entry a head and its
 * bytes, then a directory that repeats the heads and says where they are, and
 * a foot. Sizes and check of an entry are known before its head is written, so
 * that nothing has to be gone back to. Libraries for zip files keep all entries
 * until the end, or write to files of their own.
 * Format: PKWARE's APPNOTE.TXT; numbers that do not fit 32 bits stand in an
 * extra field of the head ("zip64").
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/npz_writer.h"

#include <limits.h>
#include <string.h>
#include <zlib.h>

#include "engine/base/bytes.h"
#include "engine/base/file_replace.h"
#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"
#include "engine/io/npy.h"

enum {
  LONGEST_NAME = 500,
  STORED = 0,
  DEFLATED = 8,
  OLD = 20,       /* the version of the format that is needed to read it */
  ZIP64 = 45,     /* the same where a number does not fit */
  UTF8 = 1 << 11, /* a flag: the name is */
  NEW_YEAR_1980 =
      33, /* the date in NumPy's archives: same arrays, same bytes */
};
static const uint64_t too_big = UINT32_MAX; /* it stands for "see elsewhere" */

struct td_npz_writer {
  td_file_replace *file;
  bool deflate;
  td_str directory;
  td_map names; /* name to anything but NULL */
};

/* What is known of an entry. */
typedef struct member {
  const char *name; /* without ".npy" */
  int method;
  uint32_t crc;
  uint64_t packed, size, at; /* bytes in the file, bytes unpacked, offset */
} member;

td_status *td_npz_writer_open(const char *path, bool deflate,
                              td_npz_writer **out) {
  td_npz_writer *w = td_calloc(1, sizeof *w);
  if (!w) return td_oom();
  w->deflate = deflate;
  td_map_init(&w->names);
  td_status *s = td_file_replace_open(path, &w->file);
  if (td_ok(s))
    *out = w;
  else
    td_npz_writer_close(w);
  return s;
}

void td_npz_writer_close(td_npz_writer *w) {
  if (!w) return;
  td_file_replace_close(w->file);
  td_str_deinit(&w->directory);
  td_map_deinit(&w->names);
  td_free(w);
}

/* ---- heads --------------------------------------------------------------- */

/* What the head before the bytes and the directory have in common. */
static void put_common(td_str *out, const member *e, bool big, size_t extra) {
  bool ascii = true;
  for (const char *c = e->name; *c; c++) ascii = ascii && !(*c & 0x80);
  td_bytes_put(out, big ? ZIP64 : OLD, 2);
  td_bytes_put(out, ascii ? 0 : UTF8, 2);
  td_bytes_put(out, (uint64_t)e->method, 2);
  td_bytes_put(out, 0, 2); /* midnight */
  td_bytes_put(out, NEW_YEAR_1980, 2);
  td_bytes_put(out, e->crc, 4);
  td_bytes_put(out, big ? too_big : e->packed, 4);
  td_bytes_put(out, big ? too_big : e->size, 4);
  td_bytes_put(out, strlen(e->name) + strlen(".npy"), 2);
  td_bytes_put(out, extra, 2);
}

static bool is_big(const member *e) {
  return e->packed >= too_big || e->size >= too_big || e->at >= too_big;
}

static void put_name(td_str *out, const member *e) {
  td_str_add(out, e->name);
  td_str_add(out, ".npy");
}

/* The extra field, with the offset too in the directory. */
static void put_sizes(td_str *out, const member *e, bool with_offset) {
  td_bytes_put(out, 1, 2);
  td_bytes_put(out, with_offset ? 24 : 16, 2);
  td_bytes_put(out, e->size, 8);
  td_bytes_put(out, e->packed, 8);
  if (with_offset) td_bytes_put(out, e->at, 8);
}

static void put_head(td_str *out, const member *e) {
  bool big = is_big(e);
  td_str_addn(out, "PK\3\4", 4);
  put_common(out, e, big, big ? 20 : 0);
  put_name(out, e);
  if (big) put_sizes(out, e, false);
}

static void put_directory(td_str *out, const member *e) {
  bool big = is_big(e);
  td_str_addn(out, "PK\1\2", 4);
  td_bytes_put(out, big ? ZIP64 : OLD, 2); /* made by */
  put_common(out, e, big, big ? 28 : 0);
  td_bytes_put(out, 0, 2 + 2 + 2); /* comment, disk, attributes */
  td_bytes_put(out, 0, 4);
  td_bytes_put(out, big ? too_big : e->at, 4);
  put_name(out, e);
  if (big) put_sizes(out, e, true);
}

/* ---- an array ------------------------------------------------------------ */

static td_status *refuse(const char *name, const char *why) {
  return td_error(TD_INVALID_ARGUMENT, "array '%.200s' cannot be archived: %s",
                  name, why);
}

static td_status *check_name(td_npz_writer *w, const char *name) {
  size_t len = strlen(name);
  if (len == 0 || len > LONGEST_NAME)
    return refuse(name, "a name has 1 to 500 bytes");
  if (!td_utf8_valid(name, len)) return refuse(name, "its name is no UTF-8");
  if (td_map_get(&w->names, name)) return refuse(name, "its name comes twice");
  return td_map_put(&w->names, name, w) ? NULL : td_oom();
}

static voidpf zip_alloc(voidpf opaque, uInt n, uInt size) {
  (void)opaque;
  return td_calloc(n, size);
}

static void zip_free(voidpf opaque, voidpf p) {
  (void)opaque;
  td_free(p);
}

/* Packs n bytes more; with `last` all that is held back, too. */
static bool pack(z_stream *z, const void *bytes, size_t n, bool last,
                 td_str *out) {
  char piece[1 << 14];
  z->next_in = (Bytef *)bytes; /* zlib only reads it */
  do {
    size_t some = n < UINT_MAX ? n : UINT_MAX;
    z->avail_in = (uInt)some;
    n -= some;
    do {
      z->next_out = (Bytef *)piece;
      z->avail_out = sizeof piece;
      (void)deflate(z, last && n == 0 ? Z_FINISH : Z_NO_FLUSH);
      td_str_addn(out, piece, sizeof piece - z->avail_out);
    } while (z->avail_out == 0);
  } while (n > 0);
  return !out->failed;
}

static td_status *deflate_array(const td_str *head, const td_tensor *t,
                                td_str *out) {
  z_stream z = {.zalloc = zip_alloc, .zfree = zip_free};
  if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    return td_oom();
  bool ok = pack(&z, head->at, head->len, false, out) &&
            pack(&z, t->data, td_tensor_bytes(t), true, out);
  deflateEnd(&z);
  return ok ? NULL : td_oom();
}

static td_status *write_entry(td_npz_writer *w, member *e, const td_str *head,
                              const td_tensor *t, const td_str *packed) {
  td_str s = {0};
  size_t kept = w->directory.len;
  e->at = td_file_replace_size(w->file);
  put_head(&s, e);
  put_directory(&w->directory, e);
  if (s.failed || w->directory.failed) {
    td_str_deinit(&s);
    return td_oom();
  }
  td_status *bad = td_file_replace_append(w->file, s.at, s.len);
  td_str_deinit(&s);
  if (td_ok(bad) && e->method == DEFLATED)
    bad = td_file_replace_append(w->file, packed->at, packed->len);
  if (td_ok(bad) && e->method == STORED) {
    bad = td_file_replace_append(w->file, head->at, head->len);
    if (td_ok(bad))
      bad = td_file_replace_append(w->file, t->data, td_tensor_bytes(t));
  }
  if (!td_ok(bad)) w->directory.len = kept;
  return bad;
}

/* What comes before the elements; an error says of which array. */
static td_status *make_head(const char *name, const td_tensor *t,
                            td_str *head) {
  td_status *s = td_npy_head(t, head);
  if (td_ok(s) || td_status_code(s) == TD_RESOURCE_EXHAUSTED) return s;
  td_status *told = td_error(td_status_code(s), "array '%.200s': %s", name,
                             td_status_message(s));
  td_status_release(s);
  return told;
}

static td_status *add(td_npz_writer *w, const char *name, const td_tensor *t,
                      td_str *head, td_str *packed) {
  TD_TRY(check_name(w, name));
  size_t bytes = td_tensor_bytes(t);
  member e = {.name = name, .size = head->len + bytes};
  uLong crc = crc32_z(0, (const Bytef *)head->at, head->len);
  e.crc = (uint32_t)(bytes ? crc32_z(crc, t->data, bytes) : crc);
  e.packed = e.size;
  if (w->deflate) {
    TD_TRY(deflate_array(head, t, packed));
    e.method = DEFLATED;
    e.packed = packed->len;
  }
  return write_entry(w, &e, head, t, packed);
}

td_status *td_npz_writer_add(td_npz_writer *w, const char *name,
                             const td_tensor *t) {
  td_str head = {0}, packed = {0};
  td_status *s = make_head(name, t, &head);
  if (td_ok(s)) s = add(w, name, t, &head, &packed);
  td_str_deinit(&head);
  td_str_deinit(&packed);
  return s;
}

/* ---- the end ------------------------------------------------------------- */

static void put_big_foot(td_str *out, uint64_t n, uint64_t size, uint64_t at) {
  td_str_addn(out, "PK\6\6", 4);
  td_bytes_put(out, 44, 8); /* bytes of this record from here */
  td_bytes_put(out, ZIP64, 2);
  td_bytes_put(out, ZIP64, 2);
  td_bytes_put(out, 0, 8); /* disks */
  td_bytes_put(out, n, 8);
  td_bytes_put(out, n, 8);
  td_bytes_put(out, size, 8);
  td_bytes_put(out, at, 8);
  td_str_addn(out, "PK\6\7", 4);
  td_bytes_put(out, 0, 4);
  td_bytes_put(out, at + size, 8); /* where the record above is */
  td_bytes_put(out, 1, 4);
}

static void put_foot(td_str *out, uint64_t n, uint64_t size, uint64_t at) {
  bool big = n >= UINT16_MAX || size >= too_big || at >= too_big;
  if (big) put_big_foot(out, n, size, at);
  td_str_addn(out, "PK\5\6", 4);
  td_bytes_put(out, 0, 4); /* disks */
  td_bytes_put(out, big ? UINT16_MAX : n, 2);
  td_bytes_put(out, big ? UINT16_MAX : n, 2);
  td_bytes_put(out, big ? too_big : size, 4);
  td_bytes_put(out, big ? too_big : at, 4);
  td_bytes_put(out, 0, 2); /* comment */
}

td_status *td_npz_writer_commit(td_npz_writer *w) {
  td_str *d = &w->directory;
  uint64_t at = td_file_replace_size(w->file);
  put_foot(d, w->names.count, d->len, at);
  if (d->failed) return td_oom();
  TD_TRY(td_file_replace_append(w->file, d->at, d->len));
  return td_file_replace_commit(w->file);
}
