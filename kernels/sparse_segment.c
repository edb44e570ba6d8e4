/* sparse_segment.c - sums and means of chosen rows by segments, which never
 * gather the rows first, and their gradients.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/row_reduce.h"
#include "kernels/operand.h"
#include "kernels/array.h"
#include "kernels/row_plans.h"

#include <math.h>

enum { DATA, INDICES, IDS, SIZE }; /* inputs */

/* What a sum of n rows is divided by. */
typedef enum divisor { ONE, COUNT, ROOT } divisor;

/* ---- shapes -------------------------------------------------------------- */

static td_status *check_shapes(const td_shape *data, const td_shape *indices,
                               const td_shape *ids) {
  td_shape vector = td_shape_vector(-1);
  td_shape_text a, b, d;
  bool fit = data->rank != 0 && td_shape_compatible(indices, &vector) &&
             td_shape_compatible(ids, &vector) &&
             td_shape_compatible(indices, ids);
  if (fit) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "indices and segment_ids must be vectors of one size, for "
                  "rows of a tensor of rank 1 or more, not of shapes %s and %s "
                  "for one of %s",
                  td_shape_str(indices, &a), td_shape_str(ids, &b),
                  td_shape_str(data, &d));
}

static td_status *check_size(int64_t size, const char *what) {
  if (size >= 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "%s must not be negative, is %lld", what,
                  (long long)size);
}

/* As data, but for the number of rows. */
static td_status *infer(td_infer *c, const char *what) {
  td_shape out = *td_infer_in(c, DATA);
  td_small v;
  TD_TRY(check_shapes(&out, td_infer_in(c, INDICES), td_infer_in(c, IDS)));
  int64_t rows = -1;
  if (what) {
    TD_TRY(td_infer_rank(c, SIZE, 0, what, NULL));
    if (td_infer_small(c, SIZE, &v) && v.known[0]) rows = v.at[0];
    if (td_infer_small(c, SIZE, &v) && v.known[0])
      TD_TRY(check_size(rows, what));
  }
  if (out.rank > 0) out.dim[0] = rows;
  td_infer_out(c, 0, out);
  return NULL;
}

static td_status *shape_last(td_infer *c) {
  return infer(c, NULL);
}
static td_status *shape_counted(td_infer *c) {
  return infer(c, "num_segments");
}
static td_status *shape_gradient(td_infer *c) {
  return infer(c, "output_dim0");
}

/* ---- reading ------------------------------------------------------------- */

/* Integers of a vector in [0, limit), sorted if they must be. Caller owns *out.
 */
static td_status *read_rows(const td_tensor *t, const char *what, int64_t limit,
                            bool sorted, int64_t **out) {
  int64_t n = td_tensor_count(t);
  td_status *s = NULL;
  *out = td_calloc((size_t)n, sizeof **out);
  if (!*out) return td_oom();
  for (int64_t i = 0; i < n && td_ok(s); i++) {
    int64_t row = (*out)[i] = td_tensor_get_i(t, i);
    if (sorted && i > 0 && row < (*out)[i - 1])
      s = td_error(TD_INVALID_ARGUMENT,
                   "%s must be sorted: number %lld is %lld, the one before it "
                   "%lld",
                   what, (long long)i, (long long)row,
                   (long long)(*out)[i - 1]);
    else if (row < 0 || row >= limit)
      s = td_error(TD_INVALID_ARGUMENT, "%s[%lld] is %lld, not in [0, %lld)",
                   what, (long long)i, (long long)row, (long long)limit);
  }
  if (td_ok(s)) return NULL;
  td_free(*out);
  *out = NULL;
  return s;
}

/* What each of the segments is divided by, 1 where it is empty. Caller owns
 * the result; without data for ONE. */
static td_status *divisors(td_kernel_ctx *c, divisor kind, const int64_t *ids,
                           int64_t n, int64_t segments, td_tensor *over) {
  if (kind == ONE) return NULL;
  td_shape shape = td_shape_vector(segments);
  TD_TRY(td_temp(c, TD_FLOAT64, &shape, over));
  double *v = over->data;
  for (int64_t k = 0; k < segments; k++) v[k] = 0;
  for (int64_t i = 0; i < n; i++) v[ids[i]]++;
  for (int64_t k = 0; k < segments; k++) {
    if (v[k] == 0) v[k] = 1;
    if (kind == ROOT) v[k] = sqrt(v[k]);
  }
  return NULL;
}

/* ---- forward ------------------------------------------------------------- */

td_status *td_sparse_segment_read(td_kernel_ctx *c, td_segments_plan *p) {
  const td_node *n = td_ctx_node(c);
  p->out = td_in(c, DATA)->shape;
  p->n = td_tensor_count(td_in(c, IDS));
  p->segments = -1;
  TD_TRY(
      check_shapes(&p->out, &td_in(c, INDICES)->shape, &td_in(c, IDS)->shape));
  p->each = td_shape_span(&p->out, 1, p->out.rank);
  if (c->n_in <= SIZE) return NULL;
  const char *what = n->op->in[SIZE].name;
  TD_TRY(td_operand_scalar(td_in(c, SIZE), what, &p->segments));
  TD_TRY(check_size(p->segments, what));
  p->out.dim[0] = p->segments;
  return td_array_count(&p->out, NULL);
}

/* What the last id needs. */
static td_status *last_segment(const td_kernel_ctx *c, int64_t *segments) {
  const td_tensor *ids = td_in(c, IDS);
  int64_t n = td_tensor_count(ids);
  int64_t last = n > 0 ? td_tensor_get_i(ids, n - 1) : -1;
  if (last == INT64_MAX)
    return td_error(TD_INVALID_ARGUMENT, "an id of 2^63-1 is too large");
  *segments = last < 0 ? 0 : last + 1;
  return NULL;
}

static td_status *run(td_kernel_ctx *c, divisor kind) {
  const td_tensor *data = td_in(c, DATA);
  td_segments_plan p;
  int64_t *from = NULL, *to = NULL;
  td_tensor over = {0};
  TD_TRY(td_sparse_segment_read(c, &p));
  int64_t n = p.n, segments = p.segments;
  if (segments < 0) TD_TRY(last_segment(c, &segments));
  td_shape out = p.out;
  out.dim[0] = segments;
  td_status *s = td_array_count(&out, NULL);
  if (td_ok(s))
    s = read_rows(td_in(c, INDICES), "indices", data->shape.dim[0], false,
                  &from);
  /* Sorted, they are not above the last, which tells their number. */
  int64_t limit = c->n_in > SIZE ? segments : INT64_MAX;
  if (td_ok(s)) s = read_rows(td_in(c, IDS), "segment_ids", limit, true, &to);
  if (td_ok(s) && td_shape_count(&out) > 0)
    s = divisors(c, kind, to, n, segments, &over);
  if (td_ok(s)) {
    td_row_reduce f = {.n = n,
                       .each = td_shape_span(&out, 1, out.rank),
                       .to = to,
                       .from = from,
                       .over = over.data};
    s = td_row_reduce_run(c, DATA, &f, &out);
  }
  td_free(from);
  td_free(to);
  td_tensor_release(&over);
  return s;
}

static td_status *run_sum(td_kernel_ctx *c) {
  return run(c, ONE);
}
static td_status *run_mean(td_kernel_ctx *c) {
  return run(c, COUNT);
}
static td_status *run_root(td_kernel_ctx *c) {
  return run(c, ROOT);
}

/* ---- gradients ----------------------------------------------------------- */

/* What each item is multiplied by. Caller owns *by; NULL for ONE. */
static td_status *weights(td_kernel_ctx *c, divisor kind, const int64_t *ids,
                          int64_t n, int64_t segments, double **by) {
  td_tensor over = {0};
  TD_TRY(divisors(c, kind, ids, n, segments, &over));
  if (!td_tensor_valid(&over)) return NULL;
  const double *v = over.data;
  *by = td_calloc((size_t)n, sizeof **by);
  for (int64_t i = 0; *by && i < n; i++) (*by)[i] = 1 / v[ids[i]];
  td_tensor_release(&over);
  return *by ? NULL : td_oom();
}

static td_status *back(td_kernel_ctx *c, divisor kind) {
  const td_tensor *dy = td_in(c, DATA);
  td_segments_plan p;
  int64_t *from = NULL, *to = NULL;
  double *by = NULL;
  TD_TRY(td_sparse_segment_read(c, &p));
  int64_t n = p.n, rows = p.segments;
  td_shape out = p.out;
  td_status *s =
      read_rows(td_in(c, IDS), "segment_ids", dy->shape.dim[0], false, &from);
  if (td_ok(s)) s = read_rows(td_in(c, INDICES), "indices", rows, false, &to);
  if (td_ok(s) && td_shape_count(&out) > 0)
    s = weights(c, kind, from, n, dy->shape.dim[0], &by);
  if (td_ok(s)) {
    td_row_reduce f = {.n = n,
                       .each = td_shape_span(&out, 1, out.rank),
                       .to = to,
                       .from = from,
                       .by = by};
    s = td_row_reduce_run(c, DATA, &f, &out);
  }
  td_free(from);
  td_free(to);
  td_free(by);
  return s;
}

static td_status *back_sum(td_kernel_ctx *c) {
  return back(c, ONE);
}
static td_status *back_mean(td_kernel_ctx *c) {
  return back(c, COUNT);
}
static td_status *back_root(td_kernel_ctx *c) {
  return back(c, ROOT);
}

/* ---- cost -----------------------------------------------------------------
 */

/* An addition for each element of the rows that are taken. */
static void rows_cost(td_infer *c, td_cost *cost) {
  const td_shape *data = td_infer_in(c, 0);
  double row = td_infer_in_count(c, 0) / fmax(td_infer_size(data, 0), 1);
  double size = (double)td_dtype_size(td_infer_in_type(c, 0));
  cost->flops = row * td_infer_in_count(c, 1);
  cost->bytes = cost->flops * size + td_infer_in_bytes(c, 1) +
                td_infer_in_bytes(c, 2) + td_infer_out_bytes(c, 0);
}

/* ---- tables -------------------------------------------------------------- */

#define REALS                                                                  \
  "float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, "  \
  "uint32, uint64"
#define FLOATS "bfloat16, half, float, double"
#define INPUTS "indices: Tidx, segment_ids: Tsegmentids"
#define IDS_ATTRS                                                              \
  "Tidx: {int32, int64} = int32; Tsegmentids: {int32, int64} = int32"
#define OP(name, allowed, text, part)                                          \
  {                                                                            \
    .type = name,                                                              \
    .sig = "data: T, " INPUTS " -> output: T; T: {" allowed "}; " IDS_ATTRS    \
           "; sparse_gradient: bool = false",                                  \
    .shape = shape_last, .cost = rows_cost, .doc = text, .section = part       \
  }
#define COUNTED(name, allowed, text)                                           \
  {                                                                            \
    .type = name,                                                              \
    .sig = "data: T, " INPUTS ", num_segments: Tnumsegments -> output: T; "    \
           "T: {" allowed "}; Tidx: {int32, int64} = int32; "                  \
           "Tnumsegments: {int32, int64} = int32; "                            \
           "Tsegmentids: {int32, int64} = int32; "                             \
           "sparse_gradient: bool = false",                                    \
    .shape = shape_counted, .cost = rows_cost, .doc = text,                    \
    .host = "num_segments", .lua = "",                                         \
    .section = "Reductions, ranges, segments"                                  \
  }
#define GRADIENT(name, of, part)                                               \
  {                                                                            \
    .type = name,                                                              \
    .sig = "grad: T, " INPUTS ", output_dim0: int32 -> output: T; "            \
           "T: {" FLOATS "}; " IDS_ATTRS,                                      \
    .shape = shape_gradient, .cost = rows_cost,                                \
    .doc = "Gradient of " of " for data.", .host = "output_dim0", .lua = "",   \
    .section = part                                                            \
  }
#define ANY_REAL                                                               \
  "T=half|bfloat16|float|double|int8|uint8|int16|uint16|int32|uint32|int64|"   \
  "uint64"
#define ANY_FLOAT "T=half|bfloat16|float|double"
#define KERNEL(name, dtypes, fn)                                               \
  { .op = name, .device = "CPU", .types = dtypes, .run = fn }
#define SECTION "Reductions, ranges, segments"

static const td_op_def ops[] = {
    OP("SparseSegmentSum", REALS,
       "Sums of the rows of data that indices name, by sorted segment ids.",
       SECTION),
    OP("SparseSegmentMean", FLOATS,
       "Means of the rows of data that indices name, by sorted segment ids.",
       SECTION),
    OP("SparseSegmentSqrtN", FLOATS,
       "Sums of the rows of data that indices name, by sorted segment ids, "
       "each divided by the square root of their number.",
       SECTION),
    COUNTED("SparseSegmentSumWithNumSegments", REALS,
            "SparseSegmentSum with as many rows as num_segments says."),
    COUNTED("SparseSegmentMeanWithNumSegments", FLOATS,
            "SparseSegmentMean with as many rows as num_segments says."),
    COUNTED("SparseSegmentSqrtNWithNumSegments", FLOATS,
            "SparseSegmentSqrtN with as many rows as num_segments says."),
    GRADIENT("SparseSegmentSumGrad", "SparseSegmentSum",
             "Reductions, ranges, segments"),
    GRADIENT("SparseSegmentMeanGrad", "SparseSegmentMean", SECTION),
    GRADIENT("SparseSegmentSqrtNGrad", "SparseSegmentSqrtN",
             "Reductions, ranges, segments"),
    {0},
};

static const td_kernel_def kernels[] = {
    KERNEL("SparseSegmentSum", ANY_REAL, run_sum),
    KERNEL("SparseSegmentMean", ANY_FLOAT, run_mean),
    KERNEL("SparseSegmentSqrtN", ANY_FLOAT, run_root),
    KERNEL("SparseSegmentSumWithNumSegments", ANY_REAL, run_sum),
    KERNEL("SparseSegmentMeanWithNumSegments", ANY_FLOAT, run_mean),
    KERNEL("SparseSegmentSqrtNWithNumSegments", ANY_FLOAT, run_root),
    KERNEL("SparseSegmentSumGrad", ANY_FLOAT, back_sum),
    KERNEL("SparseSegmentMeanGrad", ANY_FLOAT, back_mean),
    KERNEL("SparseSegmentSqrtNGrad", ANY_FLOAT, back_root),
    {0},
};

TD_MODULE(sparse_segment, ops, kernels)
