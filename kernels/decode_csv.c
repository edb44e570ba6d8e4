/* decode_csv.c - DecodeCSV: records of text as columns of tensors.
 *
 * Each string is one record, without its line end. TensorFlow's rules, which
 * are not those of files (engine/io/csv.c): a line end is passed over where a
 * field begins and refused within one, quotes count only where they open a
 * field, and what stands behind the last selected column is not looked at.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/mem.h"
#include "kernels/cost.h"
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

typedef struct csv {
  td_kernel_ctx *ctx;
  const td_node *node;
  const td_tensor *defaults; /* of each output */
  int n;
  td_tensor **numbers; /* outputs that are no strings; else NULL */
  td_text *strings;    /* those that are */
  td_bytes na;
  td_str text; /* of the record at hand */
  size_t *ends;
} csv;

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

static td_status *make_outputs(csv *v) {
  const td_shape *shape = &td_in(v->ctx, 0)->shape;
  for (int i = 0; i < v->n; i++) {
    TD_TRY(check_default(&v->defaults[i].shape, i));
    if (v->node->out[i].dtype == TD_STRING) {
      if (!td_text_reserve(&v->strings[i], td_shape_count(shape)))
        return td_oom();
      continue;
    }
    TD_TRY(td_out(v->ctx, i, shape, &v->numbers[i]));
  }
  return NULL;
}

static td_status *put_all(csv *v) {
  const td_tensor *x = td_in(v->ctx, 0);
  int64_t rows = td_tensor_count(x);
  for (int64_t i = 0; i < rows; i++) {
    if (i % 1024 == 0 && td_stopped(v->ctx))
      return td_status_derive(td_error(TD_CANCELLED, "the step was cancelled"));
    TD_TRY(put_record(v, i, td_text_at(x, i)));
  }
  for (int i = 0; i < v->n; i++)
    if (!v->numbers[i])
      TD_TRY(td_text_out(v->ctx, i, &x->shape, &v->strings[i]));
  return NULL;
}

static td_status *run(td_kernel_ctx *c) {
  const td_node *node = td_ctx_node(c);
  size_t n = (size_t)c->n_out;
  csv v = {.ctx = c, .node = node, .defaults = c->in + 1, .n = c->n_out};
  const td_attr *na = td_node_attr(node, "na_value");
  if (na) v.na = na->s;
  v.numbers = td_calloc(n, sizeof *v.numbers);
  v.strings = td_calloc(n, sizeof *v.strings);
  v.ends = td_calloc(n, sizeof *v.ends);
  td_status *s = v.numbers && v.strings && v.ends ? NULL : td_oom();
  if (td_ok(s)) s = make_outputs(&v);
  if (td_ok(s)) s = put_all(&v);
  for (size_t i = 0; v.strings && i < n; i++) td_text_drop(&v.strings[i]);
  td_str_deinit(&v.text);
  td_free(v.numbers);
  td_free(v.strings);
  td_free(v.ends);
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
