/* source.c - the records of a file, whatever its format; see source.h.
 *
 * What the formats do is in record.c and lines.c; here is what they share: the
 * options, the numbers of a position, and going back to it when a call failed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/source.h"

#include "engine/base/mem.h"
#include "engine/io/lines.h"
#include "engine/io/record.h"

struct td_record_source {
  td_input *in;
  td_source_options o; /* with defaults; compression is not kept */
  td_source_position at;
};

/* ---- options ------------------------------------------------------------- */

static td_status *check_at_least(const char *what, int64_t v, int64_t least) {
  if (v >= least) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "%s must be at least %lld, not %lld",
                  what, (long long)least, (long long)v);
}

static td_status *check_most(const char *what, int64_t v, uint64_t most) {
  if ((uint64_t)v <= most) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "%s must be %llu at most, not %lld",
                  what, (unsigned long long)most, (long long)v);
}

static uint64_t limit_of(const td_source_options *o) {
  const uint64_t most = (uint64_t)1 << 48;
  uint64_t limit = o->limit ? o->limit : TD_SOURCE_LIMIT;
  return limit < most ? limit : most;
}

static td_status *check_fixed(const td_source_options *o) {
  const uint64_t far = (uint64_t)1 << 60, limit = limit_of(o);
  TD_TRY(check_at_least("header_bytes", o->header, 0));
  TD_TRY(check_at_least("record_bytes", o->record, 1));
  TD_TRY(check_at_least("footer_bytes", o->footer, 0));
  TD_TRY(check_at_least("hop_bytes", o->hop, 0));
  TD_TRY(check_most("header_bytes", o->header, far));
  TD_TRY(check_most("record_bytes", o->record, limit));
  TD_TRY(check_most("footer_bytes", o->footer, limit));
  return check_most("hop_bytes", o->hop, far);
}

td_status *td_source_check(const td_source_options *o) {
  TD_TRY(td_input_check(o->compression));
  switch (o->format) {
  case TD_SOURCE_RECORDS:
    return check_at_least("skip_errors", o->skip_errors, -1);
  case TD_SOURCE_LINES:
    return check_at_least("skip_header_lines", o->skip_lines, 0);
  case TD_SOURCE_FIXED:
    return check_fixed(o);
  case TD_SOURCE_WHOLE:
    return NULL;
  }
  return td_error(TD_INVALID_ARGUMENT, "no format of files has number %d",
                  (int)o->format);
}

/* ---- life ---------------------------------------------------------------- */

td_status *td_source_open(const char *path, const td_source_options *o,
                          td_record_source **out) {
  *out = NULL;
  TD_TRY(td_source_check(o));
  td_record_source *s = td_calloc(1, sizeof *s);
  if (!s) return td_oom();
  s->o = *o;
  s->o.compression = NULL;
  s->o.limit = limit_of(o);
  if (s->o.hop == 0) s->o.hop = s->o.record;
  if (o->format == TD_SOURCE_FIXED) s->at.offset = (uint64_t)o->header;
  td_status *failed = td_input_open(path, o->compression, &s->in);
  if (td_ok(failed))
    *out = s;
  else
    td_free(s);
  return failed;
}

void td_source_close(td_record_source *s) {
  if (!s) return;
  td_input_close(s->in);
  td_free(s);
}

static const char *path_of(const td_record_source *s) {
  return td_input_path(s->in);
}

/* ---- one record ---------------------------------------------------------- */

static td_status *next_framed(td_record_source *s, td_bytes *b,
                              uint64_t *offset, bool *more) {
  td_record_rules rules = {s->o.limit, s->o.skip_errors};
  return td_record_next(s->in, &rules, &s->at.skipped, b, offset, more);
}

/* Behind each is a place: who fails in them does not begin with the first. */
static td_status *skip_lines(td_record_source *s) {
  td_bytes b;
  bool more = s->o.format == TD_SOURCE_LINES;
  while (more && s->at.number < s->o.skip_lines) {
    TD_TRY(td_lines_next(s->in, s->o.limit, &b, &more));
    s->at.number += more;
    s->at.offset = td_input_tell(s->in);
  }
  return NULL;
}

static td_status *next_line(td_record_source *s, td_bytes *b, uint64_t *offset,
                            bool *more) {
  *offset = td_input_tell(s->in);
  if (s->at.number < s->o.skip_lines) return NULL; /* there are no more */
  return td_lines_next(s->in, s->o.limit, b, more);
}

/* The input stands at the end of the last piece, or before it where pieces
 * overlap: what it gave is valid until now only. */
static td_status *next_piece(td_record_source *s, td_bytes *b, uint64_t *offset,
                             bool *more) {
  uint64_t here = td_input_tell(s->in);
  *offset = s->at.offset;
  if (here < *offset) TD_TRY(td_input_pass(s->in, *offset - here));
  *more = td_input_tell(s->in) == *offset;
  if (!*more) return NULL;
  size_t record = (size_t)s->o.record;
  TD_TRY(td_lines_piece(s->in, record, (size_t)s->o.footer, b, more));
  uint64_t hop = (uint64_t)s->o.hop;
  if (*more) td_input_take(s->in, hop < record ? (size_t)hop : record);
  return NULL;
}

static td_status *next_whole(td_record_source *s, td_bytes *b, uint64_t *offset,
                             bool *more) {
  *offset = 0;
  *more = s->at.number == 0;
  if (!*more) return NULL;
  TD_TRY(td_input_peek(s->in, (size_t)s->o.limit + 1, b));
  if (b->len > s->o.limit)
    return td_error(TD_RESOURCE_EXHAUSTED,
                    "'%s' has more than the %llu bytes allowed", path_of(s),
                    (unsigned long long)s->o.limit);
  td_input_take(s->in, b->len);
  return NULL;
}

static td_status *next_of(td_record_source *s, td_bytes *b, uint64_t *offset,
                          bool *more) {
  switch (s->o.format) {
  case TD_SOURCE_LINES:
    return next_line(s, b, offset, more);
  case TD_SOURCE_FIXED:
    return next_piece(s, b, offset, more);
  case TD_SOURCE_WHOLE:
    return next_whole(s, b, offset, more);
  default:
    return next_framed(s, b, offset, more);
  }
}

td_status *td_source_next(td_record_source *s, td_source_record *out,
                          bool *more) {
  td_bytes b = {"", 0};
  uint64_t offset = 0;
  *more = false;
  TD_TRY(skip_lines(s));
  td_source_position before = s->at;
  uint64_t place = td_input_tell(s->in);
  td_status *failed = next_of(s, &b, &offset, more);
  if (!td_ok(failed)) {
    s->at = before;
    /* Nothing is taken of pieces, and what is between them may stay passed. */
    if (s->o.format != TD_SOURCE_FIXED) td_input_seek(s->in, place);
    return failed;
  }
  bool lines = s->o.format == TD_SOURCE_LINES;
  *out = (td_source_record){b.at, b.len, offset, s->at.number + lines};
  s->at.number += *more;
  if (s->o.format != TD_SOURCE_FIXED)
    s->at.offset = td_input_tell(s->in);
  else if (*more)
    s->at.offset += (uint64_t)s->o.hop;
  return NULL;
}

bool td_source_ready(const td_record_source *s) {
  switch (s->o.format) {
  case TD_SOURCE_LINES:
    return s->at.number >= s->o.skip_lines && td_lines_held(s->in);
  case TD_SOURCE_FIXED:
    return td_input_tell(s->in) == s->at.offset &&
           td_input_held(s->in).len >= (size_t)(s->o.record + s->o.footer);
  case TD_SOURCE_WHOLE:
    return false;
  default:
    return td_record_held(s->in);
  }
}

void td_source_key(const td_record_source *s, const td_source_record *r,
                   td_str *out) {
  td_str_add(out, path_of(s));
  if (s->o.format == TD_SOURCE_RECORDS)
    td_str_addf(out, ":%llu", (unsigned long long)r->offset);
  else if (s->o.format != TD_SOURCE_WHOLE)
    td_str_addf(out, ":%lld", (long long)r->number);
}

/* ---- positions ----------------------------------------------------------- */

td_source_position td_source_tell(const td_record_source *s) {
  return s->at;
}

/* A piece that would begin behind the file's end is no error: from the end of
 * the one before, or of the file's beginning, next_piece goes there. */
static uint64_t sure_place(const td_record_source *s, td_source_position to) {
  uint64_t gap = (uint64_t)s->o.header;
  if (s->o.format != TD_SOURCE_FIXED) return to.offset;
  if (to.number > 0)
    gap = s->o.hop > s->o.record ? (uint64_t)(s->o.hop - s->o.record) : 0;
  return to.offset > gap ? to.offset - gap : 0;
}

td_status *td_source_seek(td_record_source *s, td_source_position to) {
  td_bytes b;
  if (to.number < 0 || to.skipped < 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "no place in '%s' is behind %lld records and %lld errors",
                    path_of(s), (long long)to.number, (long long)to.skipped);
  td_input_seek(s->in, sure_place(s, to));
  TD_TRY(td_input_peek(s->in, 0, &b));
  s->at = to;
  return NULL;
}

bool td_source_back(td_record_source *s, td_source_position to) {
  if (td_input_tell(s->in) > to.offset && !td_input_back(s->in, to.offset))
    return false;
  s->at = to;
  return true;
}
