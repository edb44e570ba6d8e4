/* lines.c - lines of text and pieces of one size; see lines.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/lines.h"

#include <string.h>

/* ---- lines --------------------------------------------------------------- */

static td_status *too_long(const td_input *in, uint64_t limit) {
  return td_error(TD_RESOURCE_EXHAUSTED,
                  "'%s' has a line of more than the %llu bytes allowed at "
                  "offset %llu",
                  td_input_path(in), (unsigned long long)limit,
                  (unsigned long long)td_input_tell(in));
}

/* All up to the line's end in b, and where that is; NULL in *end when the file
 * ends before. */
static td_status *find_end(td_input *in, uint64_t limit, td_bytes *b,
                           const char **end) {
  size_t seen = 0;
  for (;;) {
    TD_TRY(td_input_peek(in, seen + 1, b));
    bool more = b->len > seen;
    *end = more ? memchr(b->at + seen, '\n', b->len - seen) : NULL;
    if (*end && (size_t)(*end - b->at) > limit + 1) return too_long(in, limit);
    if (*end || !more) return NULL;
    seen = b->len;
    if (seen > limit + 1) return too_long(in, limit);
  }
}

td_status *td_lines_next(td_input *in, uint64_t limit, td_bytes *out,
                         bool *more) {
  const char *end;
  *more = false;
  *out = (td_bytes){"", 0};
  TD_TRY(find_end(in, limit, out, &end));
  bool last = !end;
  if (end) out->len = (size_t)(end - out->at);
  size_t taken = out->len + !last;
  if (out->len > 0 && out->at[out->len - 1] == '\r') out->len--;
  if (out->len > limit) return too_long(in, limit);
  *more = !last || out->len > 0;
  td_input_take(in, taken);
  return NULL;
}

bool td_lines_held(const td_input *in) {
  td_bytes b = td_input_held(in);
  return b.len > 0 && memchr(b.at, '\n', b.len);
}

/* ---- pieces -------------------------------------------------------------- */

td_status *td_lines_piece(td_input *in, size_t record, size_t footer,
                          td_bytes *out, bool *more) {
  *more = false;
  TD_TRY(td_input_peek(in, record + footer, out));
  if (out->len < record + footer) return NULL;
  *more = true;
  out->len = record;
  return NULL;
}
