/* string_split.c - StringSplit, StringSplitV2: strings cut into a sparse matrix
 * with a row for each.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/text.h"

/* The pieces so far. */
typedef struct pieces {
  td_text text;
  int64_t *row;   /* of each piece */
  int64_t room;   /* in row */
  int64_t widest; /* pieces of the longest row */
  int64_t now;    /* in the row being cut */
  int64_t at;     /* that row */
} pieces;

static void put(pieces *p, const char *at, size_t len) {
  int64_t n = p->text.count;
  if (n == p->room) {
    int64_t room = p->room ? 2 * p->room : 16;
    int64_t *row = td_realloc(p->row, (size_t)room * sizeof *row);
    if (!row) p->text.failed = true;
    if (!row) return;
    p->row = row;
    p->room = room;
  }
  p->row[n] = p->at;
  td_str_addn(&p->text.all, at, len);
  td_text_end(&p->text);
  if (++p->now > p->widest) p->widest = p->now;
}

/* ---- how a string is cut ------------------------------------------------- */

/* At every byte of `delimiter`; between all bytes when it is empty. */
static void cut_bytes(pieces *p, td_bytes s, td_bytes delimiter, bool skip) {
  size_t begin = 0;
  for (size_t i = 0; delimiter.len == 0 && i < s.len; i++) put(p, s.at + i, 1);
  if (delimiter.len == 0) return;
  for (size_t i = 0; i <= s.len; i++) {
    if (i < s.len && !memchr(delimiter.at, s.at[i], delimiter.len)) continue;
    if (i > begin || !skip) put(p, s.at + begin, i - begin);
    begin = i + 1;
  }
}

/* How many white bytes s begins with. */
static size_t spaces(td_bytes s) {
  size_t n = 0;
  while (n < s.len && td_text_space(s.at[n])) n++;
  return n;
}

static td_bytes without(td_bytes s, size_t n) {
  return (td_bytes){s.at + n, s.len - n};
}

/* At runs of white space. After `most` pieces (negative: any number) the rest
 * is one more, as it is, even if empty: TensorFlow's way. */
static void cut_spaces(pieces *p, td_bytes s, int64_t most) {
  s = without(s, spaces(s));
  while (s.len) {
    size_t n = 0;
    while (n < s.len && !td_text_space(s.at[n])) n++;
    put(p, s.at, n);
    s = without(s, n);
    s = without(s, spaces(s));
    if (p->now == most) {
      put(p, s.at, s.len);
      return;
    }
  }
}

/* At every place where `sep` stands. */
static void cut_at(pieces *p, td_bytes s, td_bytes sep, int64_t most) {
  while (most < 0 || p->now < most) {
    const char *next = memmem(s.at, s.len, sep.at, sep.len);
    if (!next) break;
    put(p, s.at, (size_t)(next - s.at));
    s = without(s, (size_t)(next - s.at) + sep.len);
  }
  put(p, s.at, s.len);
}

/* ---- running ------------------------------------------------------------- */

static td_status *finish(td_kernel_ctx *c, const pieces *p, int64_t rows) {
  td_tensor *indices, *shape;
  int64_t n = p->text.count, column = 0;
  td_shape pairs = td_shape_matrix(n, 2), list = td_shape_vector(n);
  td_shape two = td_shape_vector(2);
  if (p->text.failed) return td_oom();
  TD_TRY(td_out(c, 0, &pairs, &indices));
  TD_TRY(td_text_out(c, 1, &list, &p->text));
  TD_TRY(td_out(c, 2, &two, &shape));
  int64_t *at = indices->data, *size = shape->data;
  for (int64_t i = 0; i < n; i++) {
    column = i > 0 && p->row[i] == p->row[i - 1] ? column + 1 : 0;
    at[2 * i] = p->row[i];
    at[2 * i + 1] = column;
  }
  size[0] = rows;
  size[1] = p->widest;
  return NULL;
}

static td_status *run(td_kernel_ctx *c, const char *what, bool v2) {
  const td_tensor *x = td_in(c, 0), *by = td_in(c, 1);
  td_shape_text text;
  bool skip = !v2 && td_node_bool(td_ctx_node(c), "skip_empty");
  int64_t most = v2 ? td_node_int(td_ctx_node(c), "maxsplit") : -1;
  if (x->shape.rank != 1)
    return td_error(TD_INVALID_ARGUMENT, "input must be of rank 1, not %s",
                    td_shape_str(&x->shape, &text));
  if (by->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT, "%s must be a scalar, not of shape %s",
                    what, td_shape_str(&by->shape, &text));
  pieces p = {0};
  td_bytes mark = td_text_at(by, 0);
  for (int64_t rows = x->shape.dim[0]; p.at < rows; p.at++) {
    td_bytes s = td_text_at(x, p.at);
    p.now = 0;
    if (!v2)
      cut_bytes(&p, s, mark, skip);
    else if (most == 0)
      put(&p, s.at, s.len);
    else if (mark.len == 0)
      cut_spaces(&p, s, most);
    else
      cut_at(&p, s, mark, most);
  }
  td_status *s = finish(c, &p, x->shape.dim[0]);
  td_text_drop(&p.text);
  td_free(p.row);
  return s;
}

static td_status *split_run(td_kernel_ctx *c) {
  return run(c, "delimiter", false);
}

static td_status *split_v2_run(td_kernel_ctx *c) {
  return run(c, "sep", true);
}

static td_status *infer(td_infer *c, const char *what) {
  TD_TRY(td_infer_rank(c, 0, 1, "input", NULL));
  TD_TRY(td_infer_rank(c, 1, 0, what, NULL));
  td_infer_out(c, 0, td_shape_matrix(-1, 2));
  td_infer_out(c, 1, td_shape_vector(-1));
  td_infer_out(c, 2, td_shape_vector(2));
  return NULL;
}

static td_status *split_infer(td_infer *c) {
  return infer(c, "delimiter");
}

static td_status *split_v2_infer(td_infer *c) {
  return infer(c, "sep");
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "StringSplit",
     .sig = "input: string, delimiter: string -> indices: int64, "
            "values: string, shape: int64; skip_empty: bool = true",
     .shape = split_infer,
     .doc = "Each string cut at the bytes of delimiter, or into bytes when it "
            "is empty, as a sparse matrix.",
     .lua = "",
     .section = "Strings"},
    {.type = "StringSplitV2",
     .sig = "input: string, sep: string -> indices: int64, values: string, "
            "shape: int64; maxsplit: int = -1",
     .shape = split_v2_infer,
     .doc = "Each string cut where sep stands, at white space when it is "
            "empty, at most maxsplit times, as a sparse matrix.",
     .lua = "",
     .section = "Strings"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "StringSplit", .device = "CPU", .run = split_run},
    {.op = "StringSplitV2", .device = "CPU", .run = split_v2_run},
    {0},
};

TD_MODULE(string_split, ops, kernels)
