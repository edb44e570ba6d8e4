/* csv.c - tables of text, read in pieces, row by row.
 *
 * A row is found where it lies, in the reader's buffer: its end is the first
 * line's end outside of quotes. Then it is copied, and changed in that copy:
 * quotes are taken off, and a NUL stands behind each cell, so that a cell is a
 * C string where it is. The second time the text may be another, if somebody
 * writes the file meanwhile: nothing relies on what the first found but sizes,
 * which are looked at again.
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
#include "engine/io/input.h"

enum {
  MAX_COLUMNS = 1 << 20,
  SHOWN = 40, /* bytes of a cell, in messages */
  PIECE = 1 << 16,
  ROW_MOST = 64 << 20,
  PIPE_MOST = 1 << 30,
};

typedef struct cell {
  size_t at, len;
} cell;

/* What the first reading finds. */
typedef struct found {
  char *name;
  td_dtype dtype;
  size_t bytes; /* of text */
} found;

struct td_csv {
  char *from;
  char separator;
  td_input *in;   /* NULL: it is in memory */
  td_bytes text;  /* then */
  td_input *pipe; /* `text` is in its buffer, or NULL */
  size_t at;      /* in `text` */

  char *row; /* with the cells' text */
  size_t row_room, row_len;
  cell *cells;
  size_t n_cells, cells_room;
  int64_t line, row_line; /* from 1: of what comes next, of the row */

  uint64_t body; /* where the rows begin ... */
  int64_t body_line;
  int columns;
  found *column;
  size_t n_rows;
};

/* ---- the text ------------------------------------------------------------ */

/* n bytes, or more; fewer at the end only. */
static td_status *peek(td_csv *c, size_t n, td_bytes *out) {
  if (c->in) return td_input_peek(c->in, n, out);
  *out = (td_bytes){c->text.at + c->at, c->text.len - c->at};
  return NULL;
}

static td_bytes held(const td_csv *c) {
  if (c->in) return td_input_held(c->in);
  return (td_bytes){c->text.at + c->at, c->text.len - c->at};
}

static void pass(td_csv *c, size_t n) {
  if (c->in)
    td_input_take(c->in, n);
  else
    c->at += n;
}

static uint64_t tell(const td_csv *c) {
  return c->in ? td_input_tell(c->in) : c->at;
}

static void seek(td_csv *c, uint64_t at) {
  if (c->in)
    td_input_seek(c->in, at);
  else
    c->at = (size_t)at;
}

/* ---- where a row ends ---------------------------------------------------- */

typedef struct finder {
  size_t at;
  bool begun;  /* within a cell */
  bool quoted; /* within quotes */
} finder;

/* Of a row without a quote, as most are. */
static bool find_plain_end(finder *f, td_bytes b) {
  const char *end = b.len ? memchr(b.at, '\n', b.len) : NULL;
  if (!end || memchr(b.at, '"', (size_t)(end - b.at))) return false;
  f->at = (size_t)(end - b.at) + 1;
  return true;
}

/* Goes on from f->at; true behind a line's end. A quote at the very end may
 * close the cell or be the first of two: it is looked at again. */
static bool find_end(finder *f, char separator, td_bytes b) {
  if (f->at == 0 && find_plain_end(f, b)) return true;
  while (f->at < b.len) {
    char ch = b.at[f->at];
    if (f->quoted) {
      const char *q = memchr(b.at + f->at, '"', b.len - f->at);
      f->at = q ? (size_t)(q - b.at) : b.len;
      if (f->at + 1 >= b.len) return false;
      f->quoted = b.at[f->at + 1] == '"';
      f->at += 1 + f->quoted;
      continue;
    }
    f->at++;
    if (ch == '\n') return true;
    f->quoted = ch == '"' && !f->begun;
    f->begun = ch != separator;
  }
  return false;
}

static td_status *too_long(const td_csv *c) {
  return td_error(TD_DATA_LOSS,
                  "'%s' line %lld: a row is over %d MiB; is a quote not "
                  "closed?",
                  c->from, (long long)c->line, ROW_MOST >> 20);
}

/* The next row with its line's end; false in *more at the end of the text. */
static td_status *find_row(td_csv *c, td_bytes *row, bool *more) {
  finder f = {0};
  td_bytes b = held(c);
  bool end = find_end(&f, c->separator, b), last = false;
  while (!end && !last) {
    size_t want = b.len + PIECE;
    if (b.len > ROW_MOST) return too_long(c);
    TD_TRY(peek(c, want, &b));
    last = b.len < want;
    end = find_end(&f, c->separator, b);
  }
  *row = (td_bytes){b.at, end ? f.at : b.len};
  *more = row->len > 0;
  return NULL;
}

/* ---- cells --------------------------------------------------------------- */

/* Room for `n` of `size` bytes. */
static bool reserve(void **at, size_t *room, size_t n, size_t size) {
  size_t want = *room ? *room : 64, bytes;
  if (n <= *room) return true;
  while (want < n) {
    if (want > SIZE_MAX / 2) return false;
    want *= 2;
  }
  if (!td_mul(want, size, &bytes)) return false;
  void *p = td_realloc(*at, bytes);
  if (!p) return false;
  *at = p;
  *room = want;
  return true;
}

static td_status *add_cell(td_csv *c, size_t at, size_t len) {
  if (!reserve((void **)&c->cells, &c->cells_room, c->n_cells + 1,
               sizeof *c->cells))
    return td_oom();
  c->cells[c->n_cells++] = (cell){at, len};
  return NULL;
}

/* Behind a cell: true when the row goes on. Puts the NUL where the separator or
 * the line's end was; `end` is where the cell's text ends. */
static bool end_cell(td_csv *c, size_t *at, size_t end) {
  char *t = c->row;
  bool more = *at < c->row_len && t[*at] == c->separator;
  if (!more && *at < c->row_len) c->line++;
  if (more) ++*at;
  t[end] = '\0';
  return more;
}

static bool ends_here(const td_csv *c, size_t at) {
  const char *t = c->row;
  return at >= c->row_len || t[at] == c->separator || t[at] == '\n' ||
         (t[at] == '\r' && (at + 1 >= c->row_len || t[at + 1] == '\n'));
}

static td_status *plain_cell(td_csv *c, size_t *at, bool *more) {
  const char *t = c->row; /* a NUL ends it */
  size_t from = *at, end = from;
  for (;; end++) {
    while ((unsigned char)t[end] > '\r' && t[end] != c->separator) end++;
    if (ends_here(c, end)) break;
  }
  *at = end;
  TD_TRY(add_cell(c, from, end - from));
  *more = end_cell(c, at, end);
  return NULL;
}

/* Takes the quotes off; a doubled one stays as one. */
static td_status *quoted_cell(td_csv *c, size_t *at, bool *more) {
  char *t = c->row;
  size_t from = *at, to = *at, i = *at + 1;
  int64_t line = c->line;
  for (; i < c->row_len; i++) {
    if (t[i] == '"' && !(i + 1 < c->row_len && t[i + 1] == '"')) break;
    if (t[i] == '"') i++;
    if (t[i] == '\n') c->line++;
    t[to++] = t[i];
  }
  if (i >= c->row_len)
    return td_error(TD_DATA_LOSS, "'%s' line %lld: a quote is not closed",
                    c->from, (long long)line);
  *at = i + 1;
  if (!ends_here(c, *at))
    return td_error(TD_DATA_LOSS,
                    "'%s' line %lld: there is text behind a closing quote",
                    c->from, (long long)c->line);
  TD_TRY(add_cell(c, from, to - from));
  *more = end_cell(c, at, to);
  return NULL;
}

/* The cells of the row, none of an empty one. */
static td_status *split(td_csv *c) {
  bool more = true;
  size_t at = 0;
  c->n_cells = 0;
  if (ends_here(c, 0) && c->row[0] != c->separator) {
    c->line++;
    return NULL;
  }
  while (more) {
    if (c->n_cells == MAX_COLUMNS)
      return td_error(TD_RESOURCE_EXHAUSTED,
                      "'%s' line %lld has over %d columns", c->from,
                      (long long)c->line, MAX_COLUMNS);
    bool quoted = at < c->row_len && c->row[at] == '"';
    TD_TRY(quoted ? quoted_cell(c, &at, &more) : plain_cell(c, &at, &more));
  }
  return NULL;
}

/* ---- rows ---------------------------------------------------------------- */

/* The next row that is not empty; false in *more at the end. */
static td_status *next_row(td_csv *c, bool *more) {
  td_bytes b = {0};
  do {
    TD_TRY(find_row(c, &b, more));
    if (!*more) return NULL;
    if (!reserve((void **)&c->row, &c->row_room, b.len + 1, 1)) return td_oom();
    memcpy(c->row, b.at, b.len);
    c->row[b.len] = '\0';
    c->row_len = b.len;
    c->row_line = c->line;
    pass(c, b.len);
    TD_TRY(split(c));
  } while (c->n_cells == 0);
  if (!c->column || c->n_cells == (size_t)c->columns) return NULL;
  return td_error(TD_DATA_LOSS,
                  "'%s' line %lld has %zu columns, the first line %d", c->from,
                  (long long)c->row_line, c->n_cells, c->columns);
}

static const char *text_of(const td_csv *c, const cell *e) {
  return c->row + e->at;
}

static td_status *set_names(td_csv *c, bool header) {
  char made[32];
  c->column = td_calloc(c->n_cells, sizeof *c->column);
  if (!c->column) return td_oom();
  c->columns = (int)c->n_cells;
  for (int i = 0; i < c->columns; i++) {
    snprintf(made, sizeof made, "c%d", i);
    c->column[i].name = td_strdup(header ? text_of(c, &c->cells[i]) : made);
    if (!c->column[i].name) return td_oom();
  }
  return NULL;
}

static td_status *read_first(td_csv *c, bool header) {
  bool more;
  td_bytes b;
  TD_TRY(peek(c, 3, &b));
  if (b.len >= 3 && memcmp(b.at, "\xef\xbb\xbf", 3) == 0) pass(c, 3);
  c->body = tell(c);
  c->body_line = c->line = 1;
  TD_TRY(next_row(c, &more));
  if (!more) return td_error(TD_DATA_LOSS, "'%s' has no lines", c->from);
  TD_TRY(set_names(c, header));
  if (!header) return NULL;
  c->body = tell(c);
  c->body_line = c->line;
  return NULL;
}

/* ---- life ---------------------------------------------------------------- */

/* Takes ownership of `c`, NULL where there was no memory, and of `s`. */
static td_status *begin(td_csv *c, td_status *s, const char *from,
                        const td_csv_options *o, td_csv **out) {
  if (td_ok(s)) c->from = td_strdup(from);
  if (td_ok(s) && !c->from) s = td_oom();
  if (td_ok(s)) {
    c->separator = o->separator ? o->separator : ',';
    s = read_first(c, o->header);
  }
  if (td_ok(s))
    *out = c;
  else
    td_csv_free(c);
  return s;
}

static td_status *check_options(const td_csv_options *o) {
  if (o->separator != '"' && o->separator != '\n' && o->separator != '\r')
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "a separator is neither a quote nor a line's end");
}

static bool is_packed(const char *path) {
  size_t len = strlen(path);
  return len > 3 && strcmp(path + len - 3, ".gz") == 0;
}

/* What can be read once only is kept. */
static td_status *keep_text(td_csv *c, const char *path) {
  size_t want = PIECE;
  for (;; want *= 2) {
    TD_TRY(td_input_peek(c->pipe, want, &c->text));
    if (c->text.len < want) return NULL;
    if (want > PIPE_MOST)
      return td_error(TD_RESOURCE_EXHAUSTED,
                      "'%s' is no file but a pipe, and holds over %d MiB", path,
                      PIPE_MOST >> 20);
  }
}

static td_status *open_text(td_csv *c, const char *path) {
  bool packed = is_packed(path);
  uint64_t bytes;
  TD_TRY(td_input_open(path, packed ? "GZIP" : "", &c->in));
  if (packed || td_input_left(c->in, &bytes)) return NULL;
  c->pipe = c->in;
  c->in = NULL;
  return keep_text(c, path);
}

td_status *td_csv_open(const char *path, const td_csv_options *o,
                       td_csv **out) {
  TD_TRY(check_options(o));
  td_csv *c = td_calloc(1, sizeof *c);
  td_status *s = c ? open_text(c, path) : td_oom();
  return begin(c, s, path, o, out);
}

td_status *td_csv_parse(const char *bytes, size_t len, const char *from,
                        const td_csv_options *o, td_csv **out) {
  TD_TRY(check_options(o));
  td_csv *c = td_calloc(1, sizeof *c);
  if (c) c->text = (td_bytes){bytes, len};
  return begin(c, c ? NULL : td_oom(), from, o, out);
}

void td_csv_free(td_csv *c) {
  if (!c) return;
  for (int i = 0; i < c->columns; i++) td_free(c->column[i].name);
  td_free(c->column);
  td_free(c->cells);
  td_free(c->row);
  td_input_close(c->in);
  td_input_close(c->pipe);
  td_free(c->from);
  td_free(c);
}

int td_csv_columns(const td_csv *c) {
  return c->columns;
}

const char *td_csv_name(const td_csv *c, int column) {
  return c->column[column].name;
}

/* ---- numbers ------------------------------------------------------------- */

/* A decimal point is a point, whatever the program's language. */
static locale_t plain_locale;

static void make_locale(void) {
  plain_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static bool is_blank(const char *s) {
  return s[strspn(s, " \t")] == '\0';
}

/* The whole cell, but for space around it. */
static bool read_float(const td_csv *c, const cell *e, double *out) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  const char *s = text_of(c, e);
  char *end;
  pthread_once(&once, make_locale);
  if (strlen(s) != e->len || is_blank(s)) return false;
  *out = plain_locale ? strtod_l(s, &end, plain_locale) : strtod(s, &end);
  return end != s && is_blank(end);
}

static bool read_int(const td_csv *c, const cell *e, int64_t *out) {
  const char *s = text_of(c, e);
  char *end;
  if (strlen(s) != e->len || is_blank(s)) return false;
  errno = 0;
  *out = strtoll(s, &end, 10);
  return end != s && is_blank(end) && errno == 0;
}

static bool missing_cell(const td_csv *c, const cell *e) {
  return strlen(text_of(c, e)) == e->len && is_blank(text_of(c, e));
}

/* ---- the first reading: dtypes and sizes --------------------------------- */

/* What a column is, if it was `t` before this cell. */
static td_dtype guess(const td_csv *c, const cell *e, td_dtype t, bool fill) {
  int64_t n;
  double x;
  if (t == TD_STRING) return t;
  if (t == TD_INT64 && (read_int(c, e, &n) || (fill && missing_cell(c, e))))
    return t;
  return read_float(c, e, &x) || missing_cell(c, e) ? TD_FLOAT32 : TD_STRING;
}

static void measure_row(td_csv *c, const td_csv_as *as) {
  for (int i = 0; i < c->columns; i++) {
    const cell *e = &c->cells[i];
    found *of = &c->column[i];
    of->bytes += e->len; /* no more than there is text */
    if (as[i].dtype == TD_INVALID)
      of->dtype = guess(c, e, of->dtype, as[i].fill);
  }
  c->n_rows++;
}

static td_status *check_dtype(const td_csv *c, td_dtype t) {
  if (t == TD_INVALID || t == TD_STRING || t == TD_BOOL ||
      td_dtype_is_float(t) || td_dtype_is_integer(t))
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "'%s': a column cannot be %s; floats, integers, bool and "
                  "string can",
                  c->from, td_dtype_name(t));
}

static void rewind_rows(td_csv *c) {
  seek(c, c->body);
  c->line = c->body_line;
}

static td_status *measure(td_csv *c, const td_csv_as *as) {
  bool more;
  c->n_rows = 0;
  for (int i = 0; i < c->columns; i++) {
    TD_TRY(check_dtype(c, as[i].dtype));
    c->column[i].bytes = 0;
    c->column[i].dtype = as[i].dtype ? as[i].dtype : TD_INT64;
  }
  rewind_rows(c);
  for (;;) {
    TD_TRY(next_row(c, &more));
    if (!more) break;
    measure_row(c, as);
  }
  for (int i = 0; c->n_rows == 0 && i < c->columns; i++)
    if (as[i].dtype == TD_INVALID) c->column[i].dtype = TD_FLOAT32;
  return NULL;
}

/* ---- the second: into tensors -------------------------------------------- */

static td_status *bad_cell(const td_csv *c, int column, td_dtype t) {
  const cell *e = &c->cells[column];
  return td_error(
      TD_DATA_LOSS, "'%s' line %lld, column %d (%s): \"%.*s\" is no %s",
      c->from, (long long)c->row_line, column + 1, c->column[column].name,
      e->len < SHOWN ? (int)e->len : SHOWN, text_of(c, e), td_dtype_name(t));
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
    if (strcmp(text_of(c, e), words[k]) == 0) {
      ((bool *)y->data)[i] = k >= 2;
      return true;
    }
  return false;
}

/* False when the cell is no such value. */
static bool set_cell(const td_csv *c, const cell *e, const td_csv_as *as,
                     td_tensor *y, size_t i) {
  bool absent = missing_cell(c, e);
  int64_t n;
  double x;
  if (td_dtype_is_float(y->dtype)) {
    if (absent)
      x = as->fill ? as->missing : (double)NAN;
    else if (!read_float(c, e, &x))
      return false;
    td_tensor_set_f(y, (int64_t)i, x);
    return true;
  }
  if (absent && y->dtype == TD_BOOL) {
    ((bool *)y->data)[i] = as->fill && as->missing != 0;
    return true;
  }
  if (absent && as->fill && fabs(as->missing) < 0x1p63)
    return set_int(y, i, (int64_t)as->missing);
  if (y->dtype == TD_BOOL) return set_bool(c, e, y, i);
  return read_int(c, e, &n) && set_int(y, i, n);
}

static td_status *changed(const td_csv *c) {
  return td_error(TD_DATA_LOSS, "'%s' changed while it was read", c->from);
}

/* Text has room for what was measured. */
static bool set_text(const td_csv *c, const cell *e, size_t most, td_tensor *y,
                     size_t i) {
  uint64_t *offset = y->data;
  if (e->len > most - (size_t)(offset[i] - offset[0])) return false;
  memcpy((char *)y->buffer->data + offset[i], text_of(c, e), e->len);
  offset[i + 1] = offset[i] + e->len;
  return true;
}

static td_status *make_columns(const td_csv *c, td_tensor *out) {
  td_shape shape = td_shape_vector((int64_t)c->n_rows);
  td_status *s = NULL;
  for (int i = 0; td_ok(s) && i < c->columns; i++) {
    uint64_t *offsets;
    char *text;
    const found *of = &c->column[i];
    s = of->dtype == TD_STRING
            ? td_tensor_strings_new(&shape, of->bytes, &out[i], &offsets, &text)
            : td_tensor_new(NULL, of->dtype, &shape, &out[i]);
  }
  return s;
}

static td_status *set_row(const td_csv *c, const td_csv_as *as, td_tensor *out,
                          size_t row) {
  for (int i = 0; i < c->columns; i++) {
    const cell *e = &c->cells[i];
    if (out[i].dtype == TD_STRING) {
      if (!set_text(c, e, c->column[i].bytes, &out[i], row)) return changed(c);
    } else if (!set_cell(c, e, &as[i], &out[i], row)) {
      return bad_cell(c, i, out[i].dtype);
    }
  }
  return NULL;
}

static bool is_whole(const td_csv *c, const td_tensor *t, int i) {
  const uint64_t *offset = t->data;
  return t->dtype != TD_STRING ||
         offset[c->n_rows] - offset[0] == c->column[i].bytes;
}

static td_status *fill(td_csv *c, const td_csv_as *as, td_tensor *out) {
  bool more;
  rewind_rows(c);
  for (size_t row = 0;; row++) {
    TD_TRY(next_row(c, &more));
    if (more != (row < c->n_rows)) return changed(c);
    if (!more) break;
    TD_TRY(set_row(c, as, out, row));
  }
  for (int i = 0; i < c->columns; i++)
    if (!is_whole(c, &out[i], i)) return changed(c);
  return NULL;
}

td_status *td_csv_read(td_csv *c, const td_csv_as *as, td_tensor *out) {
  for (int i = 0; i < c->columns; i++) out[i] = (td_tensor){0};
  td_status *s = measure(c, as);
  if (td_ok(s)) s = make_columns(c, out);
  if (td_ok(s)) s = fill(c, as, out);
  for (int i = 0; !td_ok(s) && i < c->columns; i++) td_tensor_release(&out[i]);
  return s;
}
