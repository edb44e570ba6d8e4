/* input.c - a buffer before a file, with zlib between; see input.h.
 *
 * The buffer is of 256 KiB, and doubles while somebody asks for more in one
 * piece and more comes. What stands in it is unpacked. Going back in a packed
 * file begins at its start again; this and everything else that reads happens
 * in td_input_peek, so that a seek cannot fail.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/input.h"

#include <string.h>
#include <zlib.h>

#include "engine/base/file_stream.h"
#include "engine/base/mem.h"

enum { ROOM = 1 << 18, PACKED_ROOM = 1 << 16 };

typedef struct unpacking {
  z_stream z;
  bool gzip;
  bool within; /* a stream: it has begun and not ended */
  bool over;   /* ZLIB: the stream; nothing may follow */
  uint8_t packed[PACKED_ROOM];
} unpacking;

struct td_input {
  char *path;
  td_file *file;
  uint64_t read_at; /* of the file, next */
  char *buffer;
  size_t room, begin, end; /* what is held: [begin, end) */
  uint64_t offset;         /* of `begin` */
  uint64_t to_pass;        /* bytes until where a seek went */
  bool unsure;             /* does the file reach `offset`? */
  bool ended;
  unpacking *zip; /* NULL: not packed */
};

/* ---- life ---------------------------------------------------------------- */

static bool is_plain(const char *compression) {
  return !compression || !*compression;
}

td_status *td_input_check(const char *compression) {
  if (is_plain(compression) || strcmp(compression, "ZLIB") == 0 ||
      strcmp(compression, "GZIP") == 0)
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "compression must be \"\", \"ZLIB\" or \"GZIP\", not \"%s\"",
                  compression);
}

static voidpf zip_alloc(voidpf opaque, uInt n, uInt size) {
  (void)opaque;
  return td_calloc(n, size);
}

static void zip_free(voidpf opaque, voidpf p) {
  (void)opaque;
  td_free(p);
}

static td_status *unpack_with(td_input *in, const char *compression) {
  enum { GZIP_ONLY = 16 };
  unpacking *u = td_calloc(1, sizeof *u);
  if (!u) return td_oom();
  u->gzip = strcmp(compression, "GZIP") == 0;
  u->z = (z_stream){.zalloc = zip_alloc, .zfree = zip_free};
  if (inflateInit2(&u->z, MAX_WBITS + (u->gzip ? GZIP_ONLY : 0)) != Z_OK) {
    td_free(u);
    return td_oom();
  }
  in->zip = u;
  return NULL;
}

td_status *td_input_open(const char *path, const char *compression,
                         td_input **out) {
  *out = NULL;
  TD_TRY(td_input_check(compression));
  td_input *in = td_calloc(1, sizeof *in);
  if (!in) return td_oom();
  in->path = td_strdup(path);
  td_status *s = in->path ? NULL : td_oom();
  if (td_ok(s) && !is_plain(compression)) s = unpack_with(in, compression);
  if (td_ok(s)) s = td_file_open(path, TD_FILE_READ, &in->file);
  if (td_ok(s))
    *out = in;
  else
    td_input_close(in);
  return s;
}

void td_input_close(td_input *in) {
  if (!in) return;
  td_status_release(td_file_close(in->file)); /* nothing was written */
  if (in->zip) inflateEnd(&in->zip->z);
  td_free(in->zip);
  td_free(in->buffer);
  td_free(in->path);
  td_free(in);
}

const char *td_input_path(const td_input *in) {
  return in->path;
}

/* ---- unpacking ----------------------------------------------------------- */

static const char *packing(const td_input *in) {
  return in->zip->gzip ? "GZIP" : "ZLIB";
}

static td_status *cannot_unpack(const td_input *in, const char *why) {
  const unpacking *u = in->zip;
  return td_error(TD_DATA_LOSS,
                  "'%s' cannot be unpacked as %s at its byte %llu: %s",
                  in->path, packing(in),
                  (unsigned long long)(in->read_at - u->z.avail_in), why);
}

/* More packed bytes; *more is false at the file's end. */
static td_status *read_packed(td_input *in, bool *more) {
  unpacking *u = in->zip;
  size_t got;
  TD_TRY(td_file_read_at(in->file, in->read_at, u->packed, PACKED_ROOM, &got));
  *more = got > 0;
  in->read_at += got;
  u->z.next_in = u->packed;
  u->z.avail_in = (uInt)got;
  if (got == 0 && u->within)
    return td_error(TD_DATA_LOSS,
                    "'%s' is cut short: its %s stream goes on behind its "
                    "%llu bytes",
                    in->path, packing(in), (unsigned long long)in->read_at);
  return NULL;
}

/* One call of inflate; *got bytes came of it. */
static td_status *unpack_once(td_input *in, size_t *got) {
  unpacking *u = in->zip;
  size_t room = in->room - in->end;
  if (room > 1u << 30) room = 1u << 30;
  if (u->over) return cannot_unpack(in, "something follows its end");
  u->z.next_out = (Bytef *)in->buffer + in->end;
  u->z.avail_out = (uInt)room;
  u->within = true;
  int rc = inflate(&u->z, Z_NO_FLUSH);
  *got = room - u->z.avail_out;
  if (rc == Z_STREAM_END) {
    u->within = false;
    u->over = !u->gzip; /* gzip's may be several, one behind the other */
    if (u->gzip) rc = inflateReset(&u->z);
  }
  if (*got > 0 || rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR)
    return NULL; /* what is wrong behind these bytes is found again */
  if (rc == Z_MEM_ERROR) return td_oom();
  return cannot_unpack(in, u->z.msg ? u->z.msg : "bad data");
}

static td_status *unpack(td_input *in, size_t *got) {
  bool more = true;
  *got = 0;
  while (*got == 0) {
    if (in->zip->z.avail_in == 0) TD_TRY(read_packed(in, &more));
    if (!more) return NULL;
    TD_TRY(unpack_once(in, got));
  }
  return NULL;
}

/* ---- the buffer ---------------------------------------------------------- */

static size_t held(const td_input *in) {
  return in->end - in->begin;
}

/* What was taken makes room; a buffer that one long record needed goes. */
static void tidy(td_input *in, size_t n) {
  size_t have = held(in);
  if (have && in->begin) memmove(in->buffer, in->buffer + in->begin, have);
  in->begin = 0;
  in->end = have;
  if (in->room > 16 * (size_t)ROOM && n <= ROOM && have <= ROOM) {
    char *less = td_realloc(in->buffer, ROOM);
    if (!less) return;
    in->buffer = less;
    in->room = ROOM;
  }
}

static td_status *make_room(td_input *in) {
  size_t room = ROOM;
  if (in->end < in->room) return NULL;
  if (in->room && !td_mul(in->room, 2, &room)) return td_oom();
  char *more = td_realloc(in->buffer, room);
  if (!more) return td_oom();
  in->buffer = more;
  in->room = room;
  return NULL;
}

static td_status *fill(td_input *in, size_t *got) {
  TD_TRY(make_room(in));
  if (in->zip)
    TD_TRY(unpack(in, got));
  else
    TD_TRY(td_file_read_at(in->file, in->read_at, in->buffer + in->end,
                           in->room - in->end, got));
  if (!in->zip) in->read_at += *got;
  in->end += *got;
  return NULL;
}

/* Until n are held, or there are no more. */
static td_status *need(td_input *in, size_t n) {
  size_t got = 1;
  if (held(in) >= n || in->ended) return NULL;
  tidy(in, n);
  while (got > 0 && held(in) < n) TD_TRY(fill(in, &got));
  return NULL;
}

static td_status *too_short(const td_input *in, uint64_t has) {
  return td_error(TD_DATA_LOSS,
                  "'%s' is cut short: it has %llu bytes, and is "
                  "to be read from %llu on",
                  in->path, (unsigned long long)has,
                  (unsigned long long)td_input_tell(in));
}

/* Where a seek went. */
static td_status *arrive(td_input *in) {
  uint64_t size = 0;
  if (in->unsure) {
    TD_TRY(td_file_size(in->file, &size));
    if (size && in->offset > size) return too_short(in, size);
    in->unsure = false;
  }
  while (in->to_pass > 0) {
    TD_TRY(need(in, 1));
    size_t n = held(in);
    if (n == 0) return too_short(in, in->offset);
    if (n > in->to_pass) n = (size_t)in->to_pass;
    in->begin += n;
    in->offset += n;
    in->to_pass -= n;
  }
  return NULL;
}

td_status *td_input_peek(td_input *in, size_t n, td_bytes *out) {
  *out = (td_bytes){0};
  if (TD_UNLIKELY(in->unsure || in->to_pass > 0)) TD_TRY(arrive(in));
  if (held(in) < n) TD_TRY(need(in, n));
  *out = td_input_held(in);
  return NULL;
}

td_bytes td_input_held(const td_input *in) {
  if (in->unsure || in->to_pass > 0 || in->begin == in->end)
    return (td_bytes){"", 0};
  return (td_bytes){in->buffer + in->begin, held(in)};
}

void td_input_take(td_input *in, size_t n) {
  in->begin += n;
  in->offset += n;
}

void td_input_end(td_input *in) {
  in->begin = in->end;
  in->ended = true;
}

/* ---- places -------------------------------------------------------------- */

uint64_t td_input_tell(const td_input *in) {
  return in->offset + in->to_pass;
}

static void forget(td_input *in, uint64_t offset) {
  in->begin = in->end = 0;
  in->offset = offset;
  in->read_at = offset;
}

static void restart(td_input *in) {
  unpacking *u = in->zip;
  forget(in, 0);
  inflateReset(&u->z);
  u->z.avail_in = 0;
  u->within = u->over = false;
}

/* What was taken stays in the buffer until there is need of room. */
bool td_input_back(td_input *in, uint64_t offset) {
  if (in->ended || in->unsure || offset > in->offset ||
      in->offset - offset > in->begin)
    return false;
  in->begin -= (size_t)(in->offset - offset);
  in->offset = offset;
  in->to_pass = 0;
  return true;
}

void td_input_seek(td_input *in, uint64_t offset) {
  bool behind = offset < in->offset, gone = in->ended || in->unsure;
  in->ended = false;
  in->unsure = false;
  in->to_pass = 0;
  if (!behind && !gone && offset - in->offset <= held(in)) {
    td_input_take(in, (size_t)(offset - in->offset));
  } else if (in->zip) {
    if (behind || gone) restart(in);
    in->to_pass = offset - in->offset;
  } else {
    forget(in, offset);
    in->unsure = true;
  }
}

bool td_input_left(td_input *in, uint64_t *bytes) {
  uint64_t size = 0;
  if (in->zip || in->ended) return false;
  td_status *s = td_file_size(in->file, &size);
  bool known = td_ok(s) && size > 0;
  td_status_release(s);
  *bytes = known && size > in->offset ? size - in->offset : 0;
  return known;
}

td_status *td_input_pass(td_input *in, uint64_t n) {
  uint64_t left;
  td_bytes b;
  if (n > held(in) && td_input_left(in, &left)) {
    td_input_seek(in, td_input_tell(in) + (n < left ? n : left));
    return NULL;
  }
  while (n > 0) {
    TD_TRY(td_input_peek(in, 1, &b));
    if (b.len == 0) return NULL;
    if (b.len > n) b.len = (size_t)n;
    td_input_take(in, b.len);
    n -= b.len;
  }
  return NULL;
}
