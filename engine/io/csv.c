/* csv.c - cells found in one pass over a copy of the text, converted by column.
 *
 * The copy is changed in place: quotes are taken off, and a NUL stands behind
 * each cell, so that a cell is a C string where it is.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/csv.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/str.h"

enum { MAX_COLUMNS = 1 << 20, SHOWN = 40 /* bytes of a cell, in messages */ };

typedef struct cell {
  size_t at, len;
} cell;

struct td_csv {
  char *from, *text;
  cell *cells; /* row by row, without the head */
  size_t n_cells, room;
  int64_t *lines; /* of each row, from 1 */
  size_t n_rows, rows_room;
  int columns;
  char **names;
};

/* ---- growing ------------------------------------------------------------- */

/* Room for one more of `size` bytes. */
static bool grow(void **at, size_t *room, size_t n, size_t size) {
  size_t want = *room ? *room * 2 : 64, bytes;
  if (n < *room) return true;
  if (*room > SIZE_MAX / 2 || !td_mul(want, size, &bytes)) return false;
  void *p = td_realloc(*at, bytes);
  if (!p) return false;
  *at = p;
  *room = want;
  return true;
}

/* ---- cells --------------------------------------------------------------- */

typedef struct scan {
  td_csv *c;
  size_t at, len;
  char separator;
  int64_t line;
} scan;

static td_status *add_cell(td_csv *c, size_t at, size_t len) {
  if (!grow((void **)&c->cells, &c->room, c->n_cells, sizeof *c->cells))
    return td_oom();
  c->cells[c->n_cells++] = (cell){at, len};
  return NULL;
}

/* Behind a cell: true when the row goes on. Puts the NUL where the separator or
 * the line's end was; `end` is where the cell's text ends. */
static bool end_cell(scan *s, size_t end) {
  char *t = s->c->text;
  bool more = s->at < s->len && t[s->at] == s->separator;
  if (!more && s->at < s->len && t[s->at] == '\r') s->at++;
  if (!more && s->at < s->len) s->line++;
  if (s->at < s->len) s->at++;
  t[end] = '\0';
  return more;
}

static bool ends_here(const scan *s, size_t at) {
  const char *t = s->c->text;
  return at >= s->len || t[at] == s->separator || t[at] == '\n' ||
         (t[at] == '\r' && (at + 1 >= s->len || t[at + 1] == '\n'));
}

static td_status *plain_cell(scan *s, bool *more) {
  size_t from = s->at;
  while (!ends_here(s, s->at)) s->at++;
  size_t end = s->at;
  TD_TRY(add_cell(s->c, from, end - from));
  *more = end_cell(s, end);
  return NULL;
}

/* Takes the quotes off; a doubled one stays as one. */
static td_status *quoted_cell(scan *s, bool *more) {
  char *t = s->c->text;
  size_t from = s->at, to = s->at;
  int64_t line = s->line;
  for (s->at++; s->at < s->len; s->at++) {
    if (t[s->at] == '"' && !(s->at + 1 < s->len && t[s->at + 1] == '"')) break;
    if (t[s->at] == '"') s->at++;
    if (t[s->at] == '\n') s->line++;
    t[to++] = t[s->at];
  }
  if (s->at >= s->len)
    return td_error(TD_DATA_LOSS, "'%s' line %lld: a quote is not closed",
                    s->c->from, (long long)line);
  s->at++;
  if (!ends_here(s, s->at))
    return td_error(TD_DATA_LOSS,
                    "'%s' line %lld: there is text behind a closing quote",
                    s->c->from, (long long)s->line);
  TD_TRY(add_cell(s->c, from, to - from));
  *more = end_cell(s, to);
  return NULL;
}

/* The cells of one line; *n of them, 0 for an empty one. */
static td_status *scan_row(scan *s, int *n) {
  bool more = true;
  size_t at = s->at;
  *n = 0;
  if (ends_here(s, at) && !(at < s->len && s->c->text[at] == s->separator)) {
    end_cell(s, s->len); /* the text's own NUL is behind it */
    return NULL;
  }
  while (more) {
    if (*n == MAX_COLUMNS)
      return td_error(TD_RESOURCE_EXHAUSTED,
                      "'%s' line %lld has over %d columns", s->c->from,
                      (long long)s->line, MAX_COLUMNS);
    bool quoted = s->at < s->len && s->c->text[s->at] == '"';
    TD_TRY(quoted ? quoted_cell(s, &more) : plain_cell(s, &more));
    (*n)++;
  }
  return NULL;
}

/* ---- rows ---------------------------------------------------------------- */

static td_status *set_names(td_csv *c, bool header) {
  char made[32];
  c->names = td_calloc((size_t)c->columns, sizeof *c->names);
  if (!c->names) return td_oom();
  for (int i = 0; i < c->columns; i++) {
    snprintf(made, sizeof made, "c%d", i);
    c->names[i] = td_strdup(header ? c->text + c->cells[i].at : made);
    if (!c->names[i]) return td_oom();
  }
  return NULL;
}

static td_status *add_row(td_csv *c, int64_t line, int n, bool header) {
  if (!c->names) {
    c->columns = n;
    TD_TRY(set_names(c, header));
    if (header) {
      c->n_cells = 0;
      return NULL;
    }
  }
  if (n != c->columns)
    return td_error(TD_DATA_LOSS,
                    "'%s' line %lld has %d columns, the first line %d", c->from,
                    (long long)line, n, c->columns);
  if (!grow((void **)&c->lines, &c->rows_room, c->n_rows, sizeof *c->lines))
    return td_oom();
  c->lines[c->n_rows++] = line;
  return NULL;
}

static td_status *scan_all(td_csv *c, size_t len, const td_csv_options *o) {
  scan s = {c, 0, len, o->separator ? o->separator : ',', 1};
  if (len >= 3 && memcmp(c->text, "\xef\xbb\xbf", 3) == 0) s.at = 3;
  while (s.at < len) {
    int64_t line = s.line;
    int n;
    TD_TRY(scan_row(&s, &n));
    if (n > 0) TD_TRY(add_row(c, line, n, o->header));
  }
  if (c->names) return NULL;
  return td_error(TD_DATA_LOSS, "'%s' has no lines", c->from);
}

td_status *td_csv_parse(const char *bytes, size_t len, const char *from,
                        const td_csv_options *o, td_csv **out) {
  if (o->separator == '"' || o->separator == '\n' || o->separator == '\r')
    return td_error(TD_INVALID_ARGUMENT,
                    "a separator is neither a quote nor a line's end");
  td_csv *c = td_calloc(1, sizeof *c);
  if (!c) return td_oom();
  c->from = td_strdup(from);
  c->text = td_strndup(bytes, len);
  td_status *s = c->from && c->text ? NULL : td_oom();
  if (td_ok(s)) s = scan_all(c, len, o);
  if (td_ok(s))
    *out = c;
  else
    td_csv_free(c);
  return s;
}

void td_csv_free(td_csv *c) {
  if (!c) return;
  for (int i = 0; c->names && i < c->columns; i++) td_free(c->names[i]);
  td_free(c->names);
  td_free(c->lines);
  td_free(c->cells);
  td_free(c->text);
  td_free(c->from);
  td_free(c);
}

int64_t td_csv_rows(const td_csv *c) {
  return (int64_t)c->n_rows;
}

int td_csv_columns(const td_csv *c) {
  return c->columns;
}

const char *td_csv_name(const td_csv *c, int column) {
  return c->names[column];
}

/* ---- numbers ------------------------------------------------------------- */

/* A decimal point is a point, whatever the program's language. */
static locale_t plain_locale;

static void make_locale(void) {
  plain_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static const cell *cell_of(const td_csv *c, size_t row, int column) {
  return &c->cells[row * (size_t)c->columns + (size_t)column];
}

static bool is_blank(const char *s) {
  return s[strspn(s, " \t")] == '\0';
}

/* The whole cell, but for space around it. */
static bool read_float(const td_csv *c, const cell *e, double *out) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  const char *s = c->text + e->at;
  char *end;
  pthread_once(&once, make_locale);
  if (strlen(s) != e->len || is_blank(s)) return false;
  *out = plain_locale ? strtod_l(s, &end, plain_locale) : strtod(s, &end);
  return end != s && is_blank(end);
}

static bool read_int(const td_csv *c, const cell *e, int64_t *out) {
  const char *s = c->text + e->at;
  char *end;
  if (strlen(s) != e->len || is_blank(s)) return false;
  errno = 0;
  *out = strtoll(s, &end, 10);
  return end != s && is_blank(end) && errno == 0;
}

static bool missing_cell(const td_csv *c, const cell *e) {
  return strlen(c->text + e->at) == e->len && is_blank(c->text + e->at);
}

/* ---- columns ------------------------------------------------------------- */

static td_dtype guess(const td_csv *c, int column, bool filled) {
  td_dtype t = TD_INT64;
  for (size_t i = 0; i < c->n_rows; i++) {
    const cell *e = cell_of(c, i, column);
    int64_t n;
    double x;
    if (t == TD_INT64 && (read_int(c, e, &n) || (filled && missing_cell(c, e))))
      continue;
    if (!read_float(c, e, &x) && !missing_cell(c, e)) return TD_STRING;
    t = TD_FLOAT32;
  }
  return c->n_rows ? t : TD_FLOAT32;
}

static td_status *bad_cell(const td_csv *c, size_t row, int column,
                           td_dtype t) {
  const cell *e = cell_of(c, row, column);
  return td_error(
      TD_DATA_LOSS, "'%s' line %lld, column %d (%s): \"%.*s\" is no %s",
      c->from, (long long)c->lines[row], column + 1, c->names[column],
      e->len < SHOWN ? (int)e->len : SHOWN, c->text + e->at, td_dtype_name(t));
}

/* False when it does not fit. */
static bool set_int(td_tensor *y, size_t i, int64_t n) {
  if (y->dtype == TD_UINT64 && n < 0) return false;
  td_tensor_set_i(y, (int64_t)i, n);
  return td_tensor_get_i(y, (int64_t)i) == n;
}

static bool set_bool(const td_csv *c, const cell *e, td_tensor *y, size_t i) {
  static const char *const words[] = {"false", "0", "true", "1"};
  for (int k = 0; k < 4; k++)
    if (strcmp(c->text + e->at, words[k]) == 0) {
      ((bool *)y->data)[i] = k >= 2;
      return true;
    }
  return false;
}

/* False when the cell is no such value. */
static bool set_cell(const td_csv *c, const cell *e, const double *missing,
                     td_tensor *y, size_t i) {
  bool absent = missing_cell(c, e);
  int64_t n;
  double x;
  if (td_dtype_is_float(y->dtype)) {
    if (absent)
      x = missing ? *missing : (double)NAN;
    else if (!read_float(c, e, &x))
      return false;
    td_tensor_set_f(y, (int64_t)i, x);
    return true;
  }
  if (absent && y->dtype == TD_BOOL) {
    ((bool *)y->data)[i] = missing && *missing != 0;
    return true;
  }
  if (absent && missing && fabs(*missing) < 0x1p63)
    return set_int(y, i, (int64_t)*missing);
  if (y->dtype == TD_BOOL) return set_bool(c, e, y, i);
  return read_int(c, e, &n) && set_int(y, i, n);
}

static td_status *string_column(const td_csv *c, int column, td_tensor *out) {
  td_shape shape = td_shape_vector((int64_t)c->n_rows);
  uint64_t *offsets;
  char *text;
  size_t total = 0; /* no more than the file */
  for (size_t i = 0; i < c->n_rows; i++) total += cell_of(c, i, column)->len;
  TD_TRY(td_tensor_strings_new(&shape, total, out, &offsets, &text));
  for (size_t i = 0; i < c->n_rows; i++) {
    const cell *e = cell_of(c, i, column);
    memcpy(text, c->text + e->at, e->len);
    text += e->len;
    offsets[i + 1] = offsets[i] + e->len;
  }
  return NULL;
}

td_status *td_csv_column(const td_csv *c, int column, td_dtype dtype,
                         const double *missing, td_tensor *out) {
  td_shape shape = td_shape_vector((int64_t)c->n_rows);
  if (dtype == TD_INVALID) dtype = guess(c, column, missing != NULL);
  if (dtype == TD_STRING) return string_column(c, column, out);
  if (!td_dtype_is_float(dtype) && !td_dtype_is_integer(dtype) &&
      dtype != TD_BOOL)
    return td_error(TD_INVALID_ARGUMENT,
                    "'%s': a column cannot be %s; floats, integers, bool and "
                    "string can",
                    c->from, td_dtype_name(dtype));
  TD_TRY(td_tensor_new(NULL, dtype, &shape, out));
  for (size_t i = 0; i < c->n_rows; i++)
    if (!set_cell(c, cell_of(c, i, column), missing, out, i)) {
      td_tensor_release(out);
      return bad_cell(c, i, column, dtype);
    }
  return NULL;
}
