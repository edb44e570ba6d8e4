/* record.c - TFRecord files; see record.h.
 *
 * Of a length nothing is believed: a frame is looked at in one piece, for which
 * memory is taken as bytes come, and is taken when both checks are right. What
 * is wrong with one is one of a few `verdict`s, which say how to go on.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/record.h"

#include <string.h>
#include <zlib.h>

#include "engine/base/crc32c.h"
#include "engine/base/file_stream.h"
#include "engine/base/mem.h"

enum { HEADER = 12, AROUND = 16 }; /* bytes before, and around a payload */

static uint64_t get(const char *at, int n) {
  uint64_t v = 0;
  for (int i = 0; i < n; i++) v |= (uint64_t)(uint8_t)at[i] << 8 * i;
  return v;
}

static void put(char *at, uint64_t v, int n) {
  for (int i = 0; i < n; i++) at[i] = (char)(v >> 8 * i & 0xff);
}

static uint32_t check_of(const char *at, size_t n) {
  return td_crc32c_mask(td_crc32c(at, n));
}

static bool header_fits(const char *at) {
  return check_of(at, 8) == (uint32_t)get(at + 8, 4);
}

/* ---- one frame ----------------------------------------------------------- */

typedef enum verdict {
  FINE,
  FAILED,      /* it could not be read; nothing is said of it */
  BAD_HEADER,  /* nothing is known of where the next is */
  TOO_LARGE,   /* over the limit; its length is to be believed */
  CUT_SHORT,   /* the file ends within it */
  BAD_PAYLOAD, /* it is all there, in memory */
  BROKEN       /* it could not be unpacked: nothing follows */
} verdict;

static unsigned long long here(const td_input *in) {
  return (unsigned long long)td_input_tell(in);
}

static td_status *bad_check(const td_input *in, const char *what, uint32_t want,
                            const char *found) {
  return td_error(TD_DATA_LOSS,
                  "'%s' has a damaged record at offset %llu: the crc of its "
                  "%s is 0x%08x, where 0x%08x is written",
                  td_input_path(in), here(in), what, want,
                  (uint32_t)get(found, 4));
}

static td_status *cut_short(const td_input *in, uint64_t want, uint64_t has) {
  return td_error(TD_DATA_LOSS,
                  "'%s' is cut short: the record at offset %llu takes %llu "
                  "bytes, and %llu are left",
                  td_input_path(in), here(in), (unsigned long long)want,
                  (unsigned long long)has);
}

static td_status *peek(td_input *in, size_t n, td_bytes *b, verdict *v) {
  td_status *s = td_input_peek(in, n, b);
  if (!td_ok(s)) *v = td_status_code(s) == TD_DATA_LOSS ? BROKEN : FAILED;
  return s;
}

/* The length; *more is false at the file's end. */
static td_status *read_header(td_input *in, uint64_t *n, bool *more,
                              verdict *v) {
  td_bytes b;
  TD_TRY(peek(in, HEADER, &b, v));
  *more = b.len > 0;
  if (!*more) return NULL;
  if (b.len < HEADER) {
    *v = CUT_SHORT;
    return cut_short(in, AROUND, b.len);
  }
  if (!header_fits(b.at)) {
    *v = BAD_HEADER;
    return bad_check(in, "length", check_of(b.at, 8), b.at + 8);
  }
  *n = get(b.at, 8);
  return NULL;
}

/* Looks at the file's size only where a frame is not in memory. */
static td_status *check_length(td_input *in, uint64_t n, uint64_t limit,
                               verdict *v) {
  uint64_t left;
  if (n <= limit && n + AROUND <= td_input_held(in).len) return NULL;
  if (td_input_left(in, &left) && (n > left || n + AROUND > left)) {
    *v = CUT_SHORT;
    return td_error(TD_DATA_LOSS,
                    "'%s' is cut short: the record at offset %llu is of %llu "
                    "bytes, and with all around it %llu are left",
                    td_input_path(in), here(in), (unsigned long long)n,
                    (unsigned long long)left);
  }
  if (n <= limit) return NULL;
  *v = TOO_LARGE;
  return td_error(n > INT64_MAX / 2 ? TD_DATA_LOSS : TD_RESOURCE_EXHAUSTED,
                  "'%s' has a record of %llu bytes at offset %llu, where %llu "
                  "are allowed",
                  td_input_path(in), (unsigned long long)n, here(in),
                  (unsigned long long)limit);
}

/* The payload of the frame that is next; nothing is taken. */
static td_status *read_frame(td_input *in, uint64_t limit, td_bytes *out,
                             bool *more, verdict *v) {
  uint64_t n = 0;
  td_bytes b;
  *v = FINE;
  TD_TRY(read_header(in, &n, more, v));
  if (!*more) return NULL;
  TD_TRY(check_length(in, n, limit, v));
  TD_TRY(peek(in, (size_t)n + AROUND, &b, v));
  if (b.len < n + AROUND) {
    *v = CUT_SHORT;
    return cut_short(in, n + AROUND, b.len);
  }
  *out = (td_bytes){b.at + HEADER, (size_t)n};
  uint32_t want = check_of(out->at, out->len);
  if (want == (uint32_t)get(out->at + n, 4)) return NULL;
  *v = BAD_PAYLOAD;
  return bad_check(in, "payload", want, out->at + n);
}

/* ---- going on behind a bad place ----------------------------------------- */

/* Could this be a frame's header, `before` bytes from here? */
static bool looks_right(td_input *in, const char *at, size_t before,
                        uint64_t limit) {
  uint64_t left, n = get(at, 8);
  if (n > limit || !header_fits(at)) return false;
  return !td_input_left(in, &left) || n + before + AROUND <= left;
}

/* To the next place that looks like a header, or to the end. */
static td_status *search(td_input *in, uint64_t limit) {
  for (;;) {
    td_bytes b;
    TD_TRY(td_input_peek(in, HEADER, &b));
    size_t i = 0, last = b.len < HEADER ? 0 : b.len - HEADER + 1;
    while (i < last && !looks_right(in, b.at + i, i, limit)) i++;
    td_input_take(in, last ? i : b.len);
    if (i < last || last == 0) return NULL;
  }
}

static td_status *search_from(td_input *in, size_t from, uint64_t limit) {
  size_t held = td_input_held(in).len;
  td_input_take(in, from < held ? from : held);
  return search(in, limit);
}

/* A payload that lost some of its bytes is followed by the next frame earlier
 * than its length says, within what was taken for its own. */
static td_status *pass_payload(td_input *in, uint64_t limit) {
  td_bytes b = td_input_held(in);
  size_t n = (size_t)get(b.at, 8) + AROUND;
  TD_TRY(td_input_peek(in, n + HEADER, &b));
  bool fits = b.len == n || (b.len >= n + HEADER && header_fits(b.at + n));
  if (!fits) return search_from(in, HEADER, limit);
  td_input_take(in, n);
  return NULL;
}

static td_status *pass_over(td_input *in, verdict v, uint64_t limit) {
  switch (v) {
  case BAD_HEADER:
    return search_from(in, 1, limit);
  case BAD_PAYLOAD:
    return pass_payload(in, limit);
  case TOO_LARGE: {
    uint64_t n = get(td_input_held(in).at, 8);
    return td_input_pass(in, n < INT64_MAX ? n + AROUND : n);
  }
  case CUT_SHORT:
    return search_from(in, HEADER, limit);
  default:
    td_input_end(in);
    return NULL;
  }
}

/* That was counted already, when the stream broke while searching. */
static td_status *end_if_broken(td_input *in, td_status *s) {
  if (td_ok(s) || td_status_code(s) != TD_DATA_LOSS) return s;
  td_status_release(s);
  td_input_end(in);
  return NULL;
}

td_status *td_record_next(td_input *in, const td_record_rules *rules,
                          int64_t *skipped, td_bytes *out, uint64_t *offset,
                          bool *more) {
  for (;;) {
    verdict v;
    *offset = td_input_tell(in);
    td_status *s = read_frame(in, rules->limit, out, more, &v);
    if (td_ok(s)) break;
    bool may = rules->skip_errors < 0 || *skipped < rules->skip_errors;
    if (v == FAILED || !may) return s;
    td_status_release(s);
    ++*skipped;
    TD_TRY(end_if_broken(in, pass_over(in, v, rules->limit)));
  }
  if (*more) td_input_take(in, out->len + AROUND);
  return NULL;
}

bool td_record_held(const td_input *in) {
  td_bytes b = td_input_held(in);
  return b.len >= AROUND && header_fits(b.at) && get(b.at, 8) <= b.len - AROUND;
}

/* ---- writing ------------------------------------------------------------- */

enum { PACKED_ROOM = 1 << 16 };

typedef struct packing {
  z_stream z;
  uint8_t packed[PACKED_ROOM];
} packing;

struct td_record_writer {
  td_file *file;
  packing *zip;      /* NULL: not packed */
  td_status *broken; /* why it takes no more */
};

static voidpf zip_alloc(voidpf opaque, uInt n, uInt size) {
  (void)opaque;
  return td_calloc(n, size);
}

static void zip_free(voidpf opaque, voidpf p) {
  (void)opaque;
  td_free(p);
}

static td_status *pack_with(td_record_writer *w, const char *compression) {
  enum { AS_GZIP = 16, MEMORY = 9 };
  int bits = MAX_WBITS + (strcmp(compression, "GZIP") == 0 ? AS_GZIP : 0);
  packing *p = td_calloc(1, sizeof *p);
  if (!p) return td_oom();
  p->z = (z_stream){.zalloc = zip_alloc, .zfree = zip_free};
  if (deflateInit2(&p->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, bits, MEMORY,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    td_free(p);
    return td_oom();
  }
  w->zip = p;
  return NULL;
}

static void writer_free(td_record_writer *w) {
  if (w->zip) deflateEnd(&w->zip->z);
  td_free(w->zip);
  td_status_release(w->broken);
  td_free(w);
}

td_status *td_record_writer_open(const char *path, const char *compression,
                                 td_record_writer **out) {
  *out = NULL;
  TD_TRY(td_input_check(compression));
  td_record_writer *w = td_calloc(1, sizeof *w);
  if (!w) return td_oom();
  td_status *s = NULL;
  if (compression && *compression) s = pack_with(w, compression);
  if (td_ok(s)) s = td_file_open(path, TD_FILE_WRITE, &w->file);
  if (td_ok(s))
    *out = w;
  else
    writer_free(w);
  return s;
}

/* Packs what z has, and all of it out when `how` says so. */
static td_status *pack(td_record_writer *w, int how) {
  packing *p = w->zip;
  do {
    p->z.next_out = p->packed;
    p->z.avail_out = PACKED_ROOM;
    if (deflate(&p->z, how) == Z_STREAM_ERROR)
      return td_error(TD_INTERNAL, "zlib's stream is damaged");
    TD_TRY(td_file_append(w->file, p->packed, PACKED_ROOM - p->z.avail_out));
  } while (p->z.avail_out == 0);
  return NULL;
}

static td_status *write_some(td_record_writer *w, const char *at, size_t n) {
  if (!w->zip) return td_file_append(w->file, at, n);
  while (n > 0) {
    uInt now = n < 1u << 30 ? (uInt)n : 1u << 30;
    w->zip->z.next_in = (Bytef *)at; /* zlib only reads it */
    w->zip->z.avail_in = now;
    TD_TRY(pack(w, Z_NO_FLUSH));
    at += now;
    n -= now;
  }
  return NULL;
}

static td_status *write_frame(td_record_writer *w, const char *at, size_t n) {
  char header[HEADER], footer[4];
  put(header, n, 8);
  put(header + 8, check_of(header, 8), 4);
  put(footer, check_of(at, n), 4);
  TD_TRY(write_some(w, header, sizeof header));
  TD_TRY(write_some(w, at, n));
  return write_some(w, footer, sizeof footer);
}

/* Behind half of a frame nothing may follow. */
static td_status *keep(td_record_writer *w, td_status *s) {
  if (!td_ok(s) && !w->broken) w->broken = td_status_retain(s);
  return s;
}

td_status *td_record_write(td_record_writer *w, const void *bytes, size_t n) {
  if (w->broken) return td_status_retain(w->broken);
  return keep(w, write_frame(w, n ? bytes : "", n));
}

td_status *td_record_writer_flush(td_record_writer *w) {
  if (w->broken) return td_status_retain(w->broken);
  td_status *s = w->zip ? pack(w, Z_SYNC_FLUSH) : NULL;
  if (td_ok(s)) s = td_file_flush(w->file);
  return keep(w, s);
}

td_status *td_record_writer_close(td_record_writer *w) {
  if (!w) return NULL;
  td_status *s = td_status_retain(w->broken);
  if (td_ok(s) && w->zip) s = pack(w, Z_FINISH);
  s = td_status_first(s, td_file_close(w->file));
  writer_free(w);
  return s;
}
