/* pieces.c - where a GraphDef is split, and the hashes of its pieces.
 *
 * Only the fields of the message are looked at, and those of its library:
 *
 *   GraphDef            node = 1 (repeated), library = 2, others
 *   FunctionDefLibrary  function = 1 (repeated), others
 *
 * The library's own length stands before its functions and changes with each of
 * them; tag and length are a piece of a few bytes, so that they spoil no other.
 *
 * Where a piece ends is decided by a cheap hash with a fixed seed: the same on
 * every machine. Who chooses nodes so that none ends one gets long pieces.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/remote/pieces.h"

#include <sodium.h>

#include "engine/base/bytes.h"
#include "engine/base/map.h"
#include "engine/base/vec.h"

enum { LIBRARY = 2 << 3 | 2, FUNCTION = 1 << 3 | 2 };
enum { SEED = 18, END_MASK = 31 }; /* a piece has 32 nodes, in the mean */

td_status *td_pieces_hash(const void *bytes, size_t len, td_piece_hash *out) {
  /* Chooses the code for this processor, the first time. */
  if (sodium_init() < 0 ||
      crypto_generichash(out->at, sizeof out->at, bytes, len, NULL, 0))
    return td_error(TD_INTERNAL, "libsodium cannot hash %zu bytes", len);
  return NULL;
}

/* ---- fields -------------------------------------------------------------- */

typedef struct wire_field {
  uint64_t tag;
  size_t body, end; /* offsets of its contents, and of what follows */
} wire_field;

/* The field at bytes[at]; false when that is none that ends before `end`. */
static bool read_field(const char *bytes, size_t at, size_t end,
                       wire_field *f) {
  td_bytes rest = {bytes + at, end - at};
  uint64_t size = 0, number;
  if (!td_varint_take(&rest, &f->tag)) return false;
  if (f->tag >> 3 == 0 || f->tag > UINT32_MAX) return false;
  switch (f->tag & 7) {
  case 0:
    if (!td_varint_take(&rest, &number)) return false;
    break;
  case 1:
    size = 8;
    break;
  case 2:
    if (!td_varint_take(&rest, &size)) return false;
    break;
  case 5:
    size = 4;
    break;
  default:
    return false; /* groups: nobody writes them */
  }
  if (size > rest.len) return false;
  f->body = end - rest.len;
  f->end = f->body + (size_t)size;
  return true;
}

/* ---- splitting ----------------------------------------------------------- */

typedef struct splitter {
  const char *bytes;
  size_t start; /* of the piece that is open */
  td_pieces *out;
  td_status *status; /* of the pieces so far */
} splitter;

static td_status *add_piece(splitter *s, size_t len) {
  td_piece p = {.offset = s->start, .len = len};
  TD_TRY(td_pieces_hash(s->bytes + p.offset, len, &p.hash));
  if (!td_vec_push(s->out, p)) return td_oom();
  s->start += len;
  return NULL;
}

/* The open piece ends here. */
static void end_piece(splitter *s, size_t end) {
  while (td_ok(s->status) && s->start < end) {
    size_t len = end - s->start;
    s->status = add_piece(s, len < TD_PIECE_MOST ? len : TD_PIECE_MOST);
  }
}

static bool ends_by_content(const char *field, size_t len) {
  return (td_hash(field, len, SEED) & END_MASK) == 0;
}

static void split_field(splitter *s, size_t at, const wire_field *f,
                        bool library) {
  bool alone = f->end - at >= TD_PIECE_ALONE || (library && f->tag == FUNCTION);
  if (alone) end_piece(s, at);
  if (alone || f->end - s->start >= TD_PIECE_LONG ||
      ends_by_content(s->bytes + at, f->end - at))
    end_piece(s, f->end);
}

/* The fields of the library, from `at` to `end`. */
static bool split_library(splitter *s, size_t at, size_t end) {
  wire_field f;
  for (; at < end && td_ok(s->status); at = f.end) {
    if (!read_field(s->bytes, at, end, &f)) return false;
    split_field(s, at, &f, true);
  }
  end_piece(s, end);
  return true;
}

/* false when this is no message, or its library is none. */
static bool split_graph(splitter *s, size_t len) {
  wire_field f;
  for (size_t at = 0; at < len && td_ok(s->status); at = f.end) {
    if (!read_field(s->bytes, at, len, &f)) return false;
    if (f.tag == LIBRARY) {
      end_piece(s, at);
      end_piece(s, f.body);
      if (!split_library(s, f.body, f.end)) return false;
    } else {
      split_field(s, at, &f, false);
    }
  }
  end_piece(s, len);
  return true;
}

td_status *td_pieces_split(const void *bytes, size_t len, td_pieces *out) {
  splitter s = {.bytes = bytes, .out = out};
  out->len = 0;
  if (!split_graph(&s, len)) {
    out->len = s.start = 0;
    end_piece(&s, len);
  }
  if (!td_ok(s.status)) out->len = 0;
  return s.status;
}

void td_pieces_free(td_pieces *p) {
  td_vec_free(p);
}
