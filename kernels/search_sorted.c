/* search_sorted.c - where values stand among sorted numbers: Bucketize,
 * LowerBound, UpperBound.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu.h"
#include "kernels/element.h"
#include "kernels/row_plans.h"

/* ---- the search ---------------------------------------------------------- */

/* For each x how many of the n sorted numbers are below it, or, `over`, not
 * above it. */
typedef void (*search_loop)(const void *sorted, int64_t n, bool over,
                            const void *x, int64_t count, int64_t *at);

#define LOOP(kind, name, number)                                               \
  static void name##_##kind(const void *sorted, int64_t n, bool over,          \
                            const void *values, int64_t count, int64_t *at) {  \
    const td_##number *in = sorted;                                            \
    const td_##kind *x = values;                                               \
    for (int64_t i = 0; i < count; i++) {                                      \
      int64_t low = 0, high = n;                                               \
      while (low < high) {                                                     \
        int64_t mid = low + (high - low) / 2;                                  \
        bool right = over ? !(x[i] < in[mid]) : in[mid] < x[i];                \
        if (right)                                                             \
          low = mid + 1;                                                       \
        else                                                                   \
          high = mid;                                                          \
      }                                                                        \
      at[i] = low;                                                             \
    }                                                                          \
  }
#define SAME(kind, name) LOOP(kind, name, kind)
EACH_REALS(SAME, search)
EACH_FLOATS_LONG(LOOP, bucket, f32)

#define ENTRY(kind, name) [TD_ELEMENT_##kind] = name##_##kind,
static const search_loop searches[TD_DTYPES] = {EACH_REALS(ENTRY, search)};
static const search_loop buckets[TD_DTYPES] = {EACH_FLOATS_LONG(ENTRY, bucket)};

enum { BLOCK = 256 }; /* values found at a time */

typedef struct job {
  search_loop loop;
  const char *sorted, *values;
  int64_t n, each; /* sorted numbers, values, of a row */
  size_t size;     /* bytes of one */
  bool over;
  td_tensor *out;
} job;

static void put(td_tensor *y, int64_t at, const int64_t *found, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (y->dtype == TD_INT32)
      ((int32_t *)y->data)[at + i] = (int32_t)found[i];
    else
      ((int64_t *)y->data)[at + i] = found[i];
}

static void piece(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  int64_t found[BLOCK];
  while (begin < end) {
    int64_t row = begin / j->each, left = (row + 1) * j->each - begin;
    int64_t n = end - begin < BLOCK ? end - begin : BLOCK;
    if (n > left) n = left;
    j->loop(j->sorted + (size_t)(row * j->n) * j->size, j->n, j->over,
            j->values + (size_t)begin * j->size, n, found);
    put(j->out, begin, found, n);
    begin += n;
  }
}

/* ---- LowerBound, UpperBound ---------------------------------------------- */

static td_status *check_rows(const td_shape *sorted, const td_shape *values) {
  td_shape_text a, b;
  td_shape row = td_shape_matrix(-1, -1);
  bool fit = td_shape_compatible(sorted, &row) &&
             td_shape_compatible(values, &row) &&
             (sorted->rank < 0 || values->rank < 0 || sorted->dim[0] < 0 ||
              values->dim[0] < 0 || sorted->dim[0] == values->dim[0]);
  if (fit) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "sorted_inputs and values must be matrices of as many rows, "
                  "not of shapes %s and %s",
                  td_shape_str(sorted, &a), td_shape_str(values, &b));
}

static td_status *bound_infer(td_infer *c) {
  TD_TRY(check_rows(td_infer_in(c, 0), td_infer_in(c, 1)));
  td_shape shape = td_shape_matrix(-1, -1);
  (void)td_shape_merge(&shape, td_infer_in(c, 1), &shape);
  td_infer_out(c, 0, shape);
  return NULL;
}

/* Halves as floats, which order alike. */
static td_status *widen(td_kernel_ctx *c, int i, td_tensor *out) {
  const td_tensor *x = td_in(c, i);
  if (!td_is_half(x->dtype)) {
    td_tensor_retain(x, out);
    return NULL;
  }
  TD_TRY(td_temp(c, TD_FLOAT32, &x->shape, out));
  td_half_load(x->dtype, td_tensor_count(x), x->data, out->data);
  return NULL;
}

td_status *td_bound_check(const td_kernel_ctx *c) {
  TD_TRY(check_rows(&td_in(c, 0)->shape, &td_in(c, 1)->shape));
  if (td_in(c, 0)->shape.dim[1] > INT32_MAX &&
      td_ctx_node(c)->out[0].dtype == TD_INT32)
    return td_error(TD_INVALID_ARGUMENT,
                    "%lld sorted numbers are too many to count in int32",
                    (long long)td_in(c, 0)->shape.dim[1]);
  return NULL;
}

static td_status *bound_run(td_kernel_ctx *c, bool over) {
  const td_shape *shape = &td_in(c, 1)->shape;
  td_tensor sorted = {0}, values = {0}, *y;
  TD_TRY(td_bound_check(c));
  TD_TRY(td_out(c, 0, shape, &y));
  td_status *s = widen(c, 0, &sorted);
  if (td_ok(s)) s = widen(c, 1, &values);
  if (td_ok(s)) {
    job j = {.loop = searches[sorted.dtype],
             .sorted = sorted.data,
             .values = values.data,
             .n = sorted.shape.dim[1],
             .each = shape->dim[1],
             .size = td_dtype_size(sorted.dtype),
             .over = over,
             .out = y};
    td_for(c, td_shape_count(shape), TD_GRAIN_COSTLY, piece, &j);
  }
  td_tensor_release(&sorted);
  td_tensor_release(&values);
  return s;
}

static td_status *lower_run(td_kernel_ctx *c) {
  return bound_run(c, false);
}
static td_status *upper_run(td_kernel_ctx *c) {
  return bound_run(c, true);
}

/* ---- Bucketize ----------------------------------------------------------- */

static td_status *check_sorted(const td_attr *boundaries) {
  for (int i = 1; i < boundaries->len; i++)
    if (!(boundaries->fs[i - 1] <= boundaries->fs[i]))
      return td_error(TD_INVALID_ARGUMENT,
                      "boundaries must be sorted: number %d is %g, the one "
                      "before it %g",
                      i, (double)boundaries->fs[i],
                      (double)boundaries->fs[i - 1]);
  return NULL;
}

static td_status *bucket_infer(td_infer *c) {
  TD_TRY(check_sorted(td_infer_attr(c, "boundaries")));
  return td_infer_same(c);
}

td_status *td_bucketize_read(const td_kernel_ctx *c, const float **boundaries,
                             int *n) {
  const td_attr *a = td_node_attr(td_ctx_node(c), "boundaries");
  TD_TRY(check_sorted(a));
  *boundaries = a->fs;
  *n = a->len;
  return NULL;
}

static td_status *bucket_run(td_kernel_ctx *c) {
  const td_tensor *x = td_in(c, 0);
  const float *boundaries;
  td_tensor *y;
  int n;
  TD_TRY(td_bucketize_read(c, &boundaries, &n));
  TD_TRY(td_out(c, 0, &x->shape, &y));
  job j = {.loop = buckets[x->dtype],
           .sorted = (const char *)boundaries,
           .values = x->data,
           .n = n,
           .each = INT64_MAX,
           .size = td_dtype_size(x->dtype),
           .over = true,
           .out = y};
  td_for(c, td_tensor_count(x), TD_GRAIN_COSTLY, piece, &j);
  return NULL;
}

/* ---- tables -------------------------------------------------------------- */

#define SIG                                                                    \
  "sorted_inputs: T, values: T -> output: out_type; T: type; "                 \
  "out_type: {int32, int64} = int32"

static const td_op_def ops[] = {
    {.type = "LowerBound",
     .sig = SIG,
     .shape = bound_infer,
     .doc = "For each value how many of the sorted numbers in its row are "
            "below it.",
     .example = "td.lower_bound({{1, 3, 5}}, {{3, 4}})  --> {1, 2} 1 2",
     .section = "Array"},
    {.type = "UpperBound",
     .sig = SIG,
     .shape = bound_infer,
     .doc = "For each value how many of the sorted numbers in its row are not "
            "above it.",
     .example = "td.upper_bound({{1, 3, 5}}, {{3, 4}})  --> {1, 2} 2 2",
     .section = "Array"},
    {.type = "Bucketize",
     .sig = "input: T -> output: int32; T: {int32, int64, float, double}; "
            "boundaries: list(float)",
     .shape = bucket_infer,
     .doc = "For each element how many of the sorted boundaries are not above "
            "it.",
     .example = "td.bucketize(td.tensor{1, 7, 3}, {boundaries = {2, 5}})"
                "  --> 0 2 1",
     .section = "Array"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "LowerBound",
     .device = "CPU",
     .types = TYPES_REALS,
     .run = lower_run},
    {.op = "UpperBound",
     .device = "CPU",
     .types = TYPES_REALS,
     .run = upper_run},
    {.op = "Bucketize",
     .device = "CPU",
     .types = TYPES_LONG,
     .run = bucket_run},
    {0},
};

TD_MODULE(search_sorted, ops, kernels)
