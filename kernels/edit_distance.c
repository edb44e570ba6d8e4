/* edit_distance.c - EditDistance: how many elements must be inserted, removed
 * or replaced to make the truth of a hypothesis.
 *
 * Both are sparse tensors of sequences: of an index all but the last number say
 * which sequence an element belongs to, and the elements of a sequence follow
 * one another. Source: Wagner and Fischer, 1974.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "engine/base/mem.h"
#include "kernels/array.h"
#include "kernels/operand.h"

/* ---- one of both --------------------------------------------------------- */

typedef struct side {
  const char *name; /* "hypothesis" */
  const td_tensor *indices, *values;
  td_shape shape;
  td_array at;  /* of the values */
  int64_t n;    /* elements */
  int64_t next; /* the first whose sequence is still to come */
} side;

static td_status *side_check(side *s) {
  td_shape_text a, b;
  const td_shape *i = &s->indices->shape, *v = &s->values->shape;
  int rank = s->shape.rank;
  if (rank < 2)
    return td_error(TD_INVALID_ARGUMENT,
                    "%s_shape must have 2 sizes or more, not %d", s->name,
                    rank);
  if (i->rank == 2 && v->rank == 1 && i->dim[0] == v->dim[0] &&
      i->dim[1] == rank)
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "%s_indices must be a row of %d for each of the %s_values: "
                  "they are of shapes %s and %s",
                  s->name, rank, s->name, td_shape_str(i, &a),
                  td_shape_str(v, &b));
}

/* Ends with td_array_drop. */
static td_status *side_in(td_kernel_ctx *c, int first, const char *name,
                          side *s) {
  char what[32] = "";
  *s = (side){
      .name = name, .indices = td_in(c, first), .values = td_in(c, first + 1)};
  strcat(strcpy(what, name), "_shape");
  TD_TRY(td_operand_shape(td_in(c, first + 2), what, &s->shape));
  TD_TRY(side_check(s));
  s->n = s->values->shape.dim[0];
  return td_array_in(s->values, &s->at);
}

/* The number of the sequence of element i in a result of that shape. */
static td_status *sequence_of(const side *s, int64_t i, const td_shape *y,
                              int64_t *out) {
  const int64_t *at = (const int64_t *)s->indices->data + i * (y->rank + 1);
  *out = 0;
  for (int k = 0; k < y->rank; k++) {
    if (at[k] < 0 || at[k] >= y->dim[k])
      return td_error(TD_INVALID_ARGUMENT,
                      "%s_indices %lld has %lld where there are %lld sequences",
                      s->name, (long long)i, (long long)at[k],
                      (long long)y->dim[k]);
    *out = *out * y->dim[k] + at[k];
  }
  return NULL;
}

/* How many elements sequence g has, from s->next on. */
static td_status *length_of(const side *s, const td_shape *y, int64_t g,
                            int64_t *length) {
  int64_t i = s->next, of = g;
  for (; i < s->n; i++) {
    TD_TRY(sequence_of(s, i, y, &of));
    if (of != g) break;
  }
  *length = i - s->next;
  if (of >= g) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "%s_indices %lld is out of order",
                  s->name, (long long)i);
}

static bool same(const side *a, int64_t i, const side *b, int64_t j) {
  const char *x = a->at.at + (size_t)i * a->at.size;
  const char *y = b->at.at + (size_t)j * b->at.size;
  const td_bytes *s = (const void *)x, *t = (const void *)y;
  if (td_dtype_is_float(a->at.dtype))
    return td_tensor_get_f(a->values, i) == td_tensor_get_f(b->values, j);
  if (a->at.dtype != TD_STRING) return memcmp(x, y, a->at.size) == 0;
  return s->len == t->len && (!s->len || memcmp(s->at, t->at, s->len) == 0);
}

/* ---- the distance -------------------------------------------------------- */

/* Of the next n of `h` and m of `t`; `row` has room for m + 1. */
static int64_t distance(const side *h, int64_t n, const side *t, int64_t m,
                        int64_t *row) {
  for (int64_t j = 0; j <= m; j++) row[j] = j;
  for (int64_t i = 1; i <= n; i++) {
    int64_t corner = row[0];
    row[0] = i;
    for (int64_t j = 1; j <= m; j++) {
      int64_t replace = corner + !same(h, h->next + i - 1, t, t->next + j - 1);
      int64_t other = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
      corner = row[j];
      row[j] = replace < other ? replace : other;
    }
  }
  return row[m];
}

static float normal(int64_t d, int64_t n, int64_t m) {
  if (m) return (float)d / (float)m;
  return n ? INFINITY : 0;
}

static td_status *each_sequence(td_kernel_ctx *c, side *h, side *t,
                                td_tensor *y, int64_t *row) {
  bool normalize = td_node_bool(td_ctx_node(c), "normalize");
  int64_t count = td_tensor_count(y), n, m;
  float *to = y->data;
  for (int64_t g = 0; g < count && !td_stopped(c); g++) {
    TD_TRY(length_of(h, &y->shape, g, &n));
    TD_TRY(length_of(t, &y->shape, g, &m));
    int64_t d = distance(h, n, t, m, row);
    to[g] = normalize ? normal(d, n, m) : (float)d;
    h->next += n;
    t->next += m;
  }
  return NULL;
}

/* The larger of both, without the last size. */
static td_status *result_shape(const side *h, const side *t, td_shape *out) {
  int64_t count;
  td_shape_text text;
  if (h->shape.rank != t->shape.rank)
    return td_error(TD_INVALID_ARGUMENT,
                    "hypothesis_shape and truth_shape must have as many sizes, "
                    "not %d and %d",
                    h->shape.rank, t->shape.rank);
  *out = h->shape;
  out->rank--;
  for (int k = 0; k < out->rank; k++)
    if (t->shape.dim[k] > out->dim[k]) out->dim[k] = t->shape.dim[k];
  TD_TRY(td_array_count(out, &count));
  if (count) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "there are no sequences: the result would be of shape %s",
                  td_shape_str(out, &text));
}

static td_status *run_sides(td_kernel_ctx *c, side *h, side *t) {
  td_shape shape;
  td_tensor *y;
  TD_TRY(result_shape(h, t, &shape));
  TD_TRY(td_out(c, 0, &shape, &y));
  int64_t *row = td_calloc((size_t)t->n + 1, sizeof *row);
  if (!row) return td_oom();
  td_status *s = each_sequence(c, h, t, y, row);
  td_free(row);
  return s;
}

static td_status *edit_run(td_kernel_ctx *c) {
  side h, t = {0};
  td_status *s = side_in(c, 0, "hypothesis", &h);
  if (td_ok(s)) s = side_in(c, 3, "truth", &t);
  if (td_ok(s)) s = run_sides(c, &h, &t);
  td_array_drop(&h.at);
  td_array_drop(&t.at);
  return s;
}

/* ---- rows ---------------------------------------------------------------- */

static td_status *edit_infer(td_infer *c) {
  td_shape h, t, out;
  for (int i = 0; i < 6; i += 3) {
    const char *of = i ? "truth" : "hypothesis";
    TD_TRY(td_infer_rank(c, i, 2, i ? "truth_indices" : "hypothesis_indices",
                         NULL));
    TD_TRY(td_infer_rank(c, i + 1, 1, of, NULL));
    TD_TRY(td_infer_rank(c, i + 2, 1, i ? "truth_shape" : "hypothesis_shape",
                         NULL));
  }
  TD_TRY(td_infer_any(c));
  TD_TRY(td_infer_shape_from(c, 2, &h));
  TD_TRY(td_infer_shape_from(c, 5, &t));
  if (h.rank < 2 || t.rank != h.rank) return NULL;
  out = td_shape_ranked(h.rank - 1);
  for (int k = 0; k < out.rank; k++)
    if (h.dim[k] >= 0 && t.dim[k] >= 0)
      out.dim[k] = h.dim[k] > t.dim[k] ? h.dim[k] : t.dim[k];
  td_infer_out(c, 0, out);
  return NULL;
}

static const td_op_def ops[] = {
    {.type = "EditDistance",
     .sig = "hypothesis_indices: int64, hypothesis_values: T, "
            "hypothesis_shape: int64, truth_indices: int64, truth_values: T, "
            "truth_shape: int64 -> output: float; normalize: bool = true; "
            "T: type",
     .shape = edit_infer,
     .doc = "The Levenshtein distance of sequences, which are rows of sparse "
            "tensors; divided by the length of the truth unless normalize is "
            "false.",
     .flags = TD_NO_GRADIENT,
     .example = "local at = td.tensor({{0, 0}, {0, 1}}, \"int64\")\n"
                "local shape = td.tensor({1, 2}, \"int64\")\n"
                "td.edit_distance(at, {1, 2}, shape, at, {1, 3}, shape)  "
                "--> 0.5",
     .section = "Strings"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "EditDistance", .device = "CPU", .run = edit_run},
    {0},
};

TD_MODULE(edit_distance, ops, kernels)
