/* decode_csv.c - DecodeCSV: records of text as columns of tensors.
 *
 * Each string is one record, without its line end. TensorFlow's rules, which
 * are not those of files (engine/io/csv.c): a line end is passed over where a
 * field begins and refused within one, quotes count only where they open a
 * field, and what stands behind the last selected column is not looked at.
 *
 * Records are split into pieces, for several threads: numbers go to their
 * places at once, strings of a piece are put behind those of the one before
 * when all are there. A piece ends at its first bad record, so that the first
 * piece that has one has the first of all.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/mem.h"
#include "kernels/cost.h"
#include "kernels/cpu.h"
#include "kernels/string_number.h"
#include "kernels/text.h"

/* ---- cutting a record ---------------------------------------------------- */

typedef struct record {
  const char *at, *end;
  char delim;
  bool quotes;           /* do they mean anything? */
  const td_attr *select; /* columns, ascending; none: all */
  int64_t column;        /* the next */
  int n, most;           /* fields found, and wanted */
  td_str *text;          /* of the fields, one after the other */
  size_t *ends;          /* of each of the first `most` */
} record;

static bool is_line_end(char c) {
  return c == '\n' || c == '\r';
}

/* Is the next column wanted? */
static bool is_wanted(const record *r) {
  if (r->select->len == 0) return true;
  return r->n < r->select->len && r->select->is[r->n] == r->column;
}

static void end_field(record *r, bool wanted) {
  if (wanted && r->n < r->most) r->ends[r->n] = r->text->len;
  r->n += wanted;
  r->column++;
}

static void keep(record *r, bool wanted, const char *at, size_t len) {
  if (wanted && r->n < r->most) td_str_addn(r->text, at, len);
}

/* What is wrong with a field, or NULL. */
static const char *cut_plain(record *r, bool wanted) {
  const char *begin = r->at;
  while (r->at < r->end && *r->at != r->delim) {
    if (is_line_end(*r->at)) return "has a line end";
    if (r->quotes && *r->at == '"')
      return "has a quote, but does not begin "
             "with one";
    r->at++;
  }
  keep(r, wanted, begin, (size_t)(r->at - begin));
  return NULL;
}

static const char *cut_quoted(record *r, bool wanted) {
  r->at++;
  for (;;) {
    const char *quote = r->at;
    while (quote < r->end && *quote != '"') quote++;
    keep(r, wanted, r->at, (size_t)(quote - r->at));
    if (quote == r->end) return "begins with a quote and does not end with one";
    r->at = quote + 1;
    if (r->at == r->end || *r->at == r->delim) return NULL;
    if (*r->at != '"') return "has a quote inside: it must be doubled";
    keep(r, wanted, r->at++, 1);
  }
}

static bool has_all(const record *r) {
  return r->select->len > 0 && r->n == r->select->len;
}

static const char *cut(record *r) {
  const char *begin = r->at, *wrong = NULL;
  while (r->at < r->end) {
    if (is_line_end(*r->at)) {
      r->at++;
      continue;
    }
    bool wanted = is_wanted(r);
    wrong = r->quotes && *r->at == '"' ? cut_quoted(r, wanted)
                                       : cut_plain(r, wanted);
    if (wrong) return wrong;
    r->at++; /* the delimiter */
    end_field(r, wanted);
    if (has_all(r)) return NULL;
  }
  bool open = r->end > begin && r->end[-1] == r->delim;
  if (open && is_wanted(r)) end_field(r, true);
  return NULL;
}

/* ---- fields to elements -------------------------------------------------- */

/* A piece of the work. */
typedef struct csv {
  td_kernel_ctx *ctx;
  const td_node *node;
  const td_tensor *defaults; /* of each output */
  int n;
  td_tensor *
      *numbers; /* outputs that are no strings, of all pieces; else NULL */
  td_bytes na;
  /* The piece's own. */
  int64_t begin, end; /* records */
  td_text *strings;   /* of outputs that are */
  td_str text;        /* of the record at hand */
  size_t *ends;
  td_status *status;
} csv;

enum { PIECES = 64 /* at most */ };

static td_status *missing(int64_t row, int field) {
  return td_error(TD_INVALID_ARGUMENT,
                  "record %lld, field %d: is empty, and has no default",
                  (long long)row, field);
}

static td_status *put_default(csv *v, int64_t row, int field) {
  const td_tensor *from = &v->defaults[field];
  if (td_tensor_count(from) == 0) return missing(row, field);
  if (from->dtype == TD_STRING) {
    td_bytes s = td_text_at(from, 0);
    td_str_addn(&v->strings[field].all, s.at, s.len);
    return NULL;
  }
  size_t size = td_dtype_size(from->dtype);
  memcpy((char *)v->numbers[field]->data + (size_t)row * size, from->data,
         size);
  return NULL;
}

static td_status *put_number(csv *v, int64_t row, int field, td_bytes s) {
  bool done;
  TD_TRY(td_string_number_put(s, v->numbers[field], row, &done));
  if (done) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "record %lld, field %d: \"%.*s\" is no %s", (long long)row,
                  field, td_text_shown(s), s.at,
                  td_dtype_name(v->numbers[field]->dtype));
}

static td_status *put_field(csv *v, int64_t row, int field) {
  td_text *strings = &v->strings[field];
  size_t begin = field ? v->ends[field - 1] : 0;
  td_bytes s = {td_str_c(&v->text) + begin, v->ends[field] - begin};
  bool none =
      s.len == 0 || (s.len == v->na.len && memcmp(s.at, v->na.at, s.len) == 0);
  td_status *status = NULL;
  if (none)
    status = put_default(v, row, field);
  else if (v->numbers[field])
    status = put_number(v, row, field, s);
  else
    td_str_addn(&strings->all, s.at, s.len);
  if (!v->numbers[field]) td_text_end(strings);
  return status;
}

static td_status *put_record(csv *v, int64_t row, td_bytes from) {
  record r = {.at = from.at,
              .end = from.at + from.len,
              .delim = *td_node_string(v->node, "field_delim"),
              .quotes = td_node_bool(v->node, "use_quote_delim"),
              .select = td_node_attr(v->node, "select_cols"),
              .most = v->n,
              .text = &v->text,
              .ends = v->ends};
  td_str_clear(&v->text);
  const char *wrong = cut(&r);
  if (v->text.failed) return td_oom();
  if (wrong)
    return td_error(TD_INVALID_ARGUMENT, "record %lld, field %lld: %s",
                    (long long)row, (long long)r.column, wrong);
  if (r.n != v->n)
    return td_error(TD_INVALID_ARGUMENT,
                    "record %lld: has %d fields, expected are %d",
                    (long long)row, r.n, v->n);
  for (int i = 0; i < v->n; i++) TD_TRY(put_field(v, row, i));
  return NULL;
}

/* ---- running ------------------------------------------------------------- */

static td_status *check_default(const td_shape *s, int i) {
  td_shape_text text;
  if (s->rank <= 1 && (!td_shape_known(s) || td_shape_count(s) <= 1))
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "record_defaults[%d] must be one value or none, not of shape "
                  "%s",
                  i, td_shape_str(s, &text));
}

static td_status *make_outputs(td_kernel_ctx *c, td_tensor **numbers) {
  for (int i = 0; i < c->n_out; i++) {
    TD_TRY(check_default(&c->in[1 + i].shape, i));
    if (td_ctx_node(c)->out[i].dtype != TD_STRING)
      TD_TRY(td_out(c, i, &td_in(c, 0)->shape, &numbers[i]));
  }
  return NULL;
}

static td_status *put_piece(csv *v) {
  const td_tensor *x = td_in(v->ctx, 0);
  v->strings = td_calloc((size_t)v->n, sizeof *v->strings);
  v->ends = td_calloc((size_t)v->n, sizeof *v->ends);
  if (!v->strings || !v->ends) return td_oom();
  for (int i = 0; i < v->n; i++)
    if (!v->numbers[i] && !td_text_reserve(&v->strings[i], v->end - v->begin))
      return td_oom();
  for (int64_t i = v->begin; i < v->end; i++) {
    if (i % 1024 == 0 && td_stopped(v->ctx))
      return td_status_derive(td_error(TD_CANCELLED, "the step was cancelled"));
    TD_TRY(put_record(v, i, td_text_at(x, i)));
  }
  return NULL;
}

static void put_pieces(void *arg, int64_t begin, int64_t end) {
  csv *pieces = arg;
  for (int64_t i = begin; i < end; i++)
    pieces[i].status = put_piece(&pieces[i]);
}

/* All pieces' strings of a column. */
static td_status *give_strings(td_kernel_ctx *c, csv *pieces, int n, int i) {
  for (int k = 1; k < n; k++)
    td_text_append(&pieces[0].strings[i], &pieces[k].strings[i]);
  return td_text_out(c, i, &td_in(c, 0)->shape, &pieces[0].strings[i]);
}

static td_status *put_all(td_kernel_ctx *c, csv *pieces, int n) {
  td_status *s = NULL;
  td_for(c, n, 1, put_pieces, pieces);
  for (int k = 0; k < n; k++) {
    if (td_ok(s))
      s = pieces[k].status;
    else
      td_status_release(pieces[k].status);
  }
  if (td_ok(s) && td_stopped(c))
    s = td_status_derive(td_error(TD_CANCELLED, "the step was cancelled"));
  for (int i = 0; td_ok(s) && i < c->n_out; i++)
    if (!pieces[0].numbers[i]) s = give_strings(c, pieces, n, i);
  return s;
}

static void drop_piece(csv *v) {
  for (int i = 0; v->strings && i < v->n; i++) td_text_drop(&v->strings[i]);
  td_str_deinit(&v->text);
  td_free(v->strings);
  td_free(v->ends);
}

/* Records in a piece. */
static int64_t piece_of(const td_tensor *x, int64_t rows) {
  int64_t each = rows ? (int64_t)td_tensor_bytes(x) / rows : 0;
  int64_t grain = td_grain_of(8 * each), least = (rows + PIECES - 1) / PIECES;
  return grain > least ? grain : least;
}

static td_status *split(td_kernel_ctx *c, td_tensor **numbers) {
  const td_attr *na = td_node_attr(td_ctx_node(c), "na_value");
  int64_t rows = td_tensor_count(td_in(c, 0));
  int64_t each = piece_of(td_in(c, 0), rows);
  int n = rows ? (int)((rows + each - 1) / each) : 1;
  csv *pieces = td_calloc((size_t)n, sizeof *pieces);
  if (!pieces) return td_oom();
  for (int64_t k = 0; k < n; k++)
    pieces[k] = (csv){.ctx = c,
                      .node = td_ctx_node(c),
                      .defaults = c->in + 1,
                      .n = c->n_out,
                      .numbers = numbers,
                      .na = na ? na->s : (td_bytes){0},
                      .begin = k * each,
                      .end = k == n - 1 ? rows : (k + 1) * each};
  td_status *s = put_all(c, pieces, n);
  for (int k = 0; k < n; k++) drop_piece(&pieces[k]);
  td_free(pieces);
  return s;
}

static td_status *run(td_kernel_ctx *c) {
  td_tensor **numbers = td_calloc((size_t)c->n_out, sizeof(td_tensor *));
  if (!numbers) return td_oom();
  td_status *s = make_outputs(c, numbers);
  if (td_ok(s)) s = split(c, numbers);
  td_free(numbers);
  return s;
}

/* ---- what is asked for --------------------------------------------------- */

static td_status *check_columns(const td_attr *select, int n) {
  if (select->len > 0 && select->len != n)
    return td_error(TD_INVALID_ARGUMENT,
                    "select_cols has %d columns, record_defaults %d",
                    (int)select->len, n);
  for (int i = 0; i < select->len; i++)
    if (select->is[i] < 0 || (i && select->is[i] <= select->is[i - 1]))
      return td_error(TD_INVALID_ARGUMENT,
                      "select_cols[%d] is %lld: columns are counted from 0 and "
                      "stand in their order",
                      i, (long long)select->is[i]);
  return NULL;
}

static td_status *infer(td_infer *c) {
  size_t delim = td_infer_attr(c, "field_delim")->s.len;
  int n = td_infer_outputs(c);
  if (delim != 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "field_delim must be one character, not %zu", delim);
  TD_TRY(check_columns(td_infer_attr(c, "select_cols"), n));
  for (int i = 0; i < n; i++) {
    TD_TRY(check_default(td_infer_in(c, 1 + i), i));
    td_infer_out(c, i, *td_infer_in(c, 0));
  }
  return NULL;
}

static const td_op_def ops[] = {
    {.type = "DecodeCSV",
     .sig = "records: string, record_defaults: OUT_TYPE -> output: OUT_TYPE; "
            "OUT_TYPE: list({float, double, int32, int64, string}) >= 1; "
            "field_delim: string = \",\"; use_quote_delim: bool = true; "
            "na_value: string = \"\"; select_cols: list(int) = {}",
     .shape = infer,
     .cost = td_cost_move,
     .doc = "Records of text as tensors, one for each column; an empty field "
            "is its default.",
     .flags = TD_NO_GRADIENT,
     .lua = "",
     .section = "I/O: readers, checkpoints, files"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "DecodeCSV", .device = "CPU", .run = run},
    {0},
};

TD_MODULE(decode_csv, ops, kernels)
