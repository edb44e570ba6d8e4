/* topk.c - InTopK, TopK, NthElement: rank in a row.
 *
 * Ties are decided by index: the lower comes first. A NaN is the least of all,
 * so that the order is total and the result the same on every machine.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cost.h"
#include "kernels/operand.h"
#include "kernels/cpu.h"
#include "kernels/row_plans.h"

/* ---- InTopK -------------------------------------------------------------- */

typedef struct in_top {
  const float *x;
  const td_tensor *targets;
  int64_t classes, k;
  uint8_t *to;
} in_top;

static td_status *in_top_infer(td_infer *c) {
  td_shape x, targets;
  TD_TRY(td_infer_rank(c, 0, 2, "predictions", &x));
  TD_TRY(td_infer_rank(c, 1, 1, "targets", &targets));
  if (td_infer_inputs(c) > 2) TD_TRY(td_infer_rank(c, 2, 0, "k", NULL));
  if (x.dim[0] >= 0 && targets.dim[0] >= 0 && x.dim[0] != targets.dim[0])
    return td_error(TD_INVALID_ARGUMENT,
                    "there must be a target for each row of predictions: "
                    "%lld for %lld rows",
                    (long long)targets.dim[0], (long long)x.dim[0]);
  td_infer_out(c, 0, td_shape_vector(x.dim[0] < 0 ? targets.dim[0] : x.dim[0]));
  return NULL;
}

/* Fewer than k are larger than the target. What is not finite cannot be
 * ranked. */
static bool is_in_top(const float *x, int64_t n, int64_t target, int64_t k) {
  int64_t larger = 0;
  if (target < 0 || target >= n || !isfinite(x[target])) return false;
  for (int64_t i = 0; i < n; i++) {
    if (!isfinite(x[i])) return false;
    larger += x[i] > x[target];
  }
  return larger < k;
}

static void in_top_rows(void *arg, int64_t begin, int64_t end) {
  const in_top *t = arg;
  for (int64_t i = begin; i < end; i++)
    t->to[i] = is_in_top(t->x + i * t->classes, t->classes,
                         td_tensor_get_i(t->targets, i), t->k);
}

/* k is an operand, or an attribute in the older forms. */
static td_status *read_k(td_kernel_ctx *c, int i, int64_t *k) {
  if (c->n_in <= i) {
    *k = td_node_int(td_ctx_node(c), "k");
    return NULL;
  }
  if (td_in(c, i)->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT, "k must be a scalar");
  *k = td_tensor_get_i(td_in(c, i), 0);
  return NULL;
}

td_status *td_in_top_read(td_kernel_ctx *c, td_in_top_plan *p) {
  const td_shape *x = &td_in(c, 0)->shape, *targets = &td_in(c, 1)->shape;
  td_shape_text a, b;
  TD_TRY(read_k(c, 2, &p->k));
  if (x->rank != 2 || targets->rank != 1 || targets->dim[0] != x->dim[0])
    return td_error(TD_INVALID_ARGUMENT,
                    "predictions must be a matrix and targets a vector with "
                    "an element for each of its rows, not %s and %s",
                    td_shape_str(x, &a), td_shape_str(targets, &b));
  p->rows = x->dim[0];
  p->classes = x->dim[1];
  return td_out(c, 0, targets, &p->y);
}

static td_status *in_top_run(td_kernel_ctx *c) {
  td_in_top_plan p;
  TD_TRY(td_in_top_read(c, &p));
  in_top t = {.x = td_in(c, 0)->data,
              .targets = td_in(c, 1),
              .classes = p.classes,
              .k = p.k,
              .to = p.y->data};
  td_for(c, p.rows, td_grain_of(p.classes), in_top_rows, &t);
  return NULL;
}

/* ---- TopK: the order ----------------------------------------------------- */

/* An element as a number that orders as the element does. */
typedef struct item {
  uint64_t key;
  int64_t index;
} item;

static uint64_t float_key(double x) {
  union {
    double d;
    uint64_t u;
  } v = {.d = x == 0 ? 0 : x}; /* -0 is 0 */
  if (x != x) return 0;
  return v.u >> 63 ? ~v.u : v.u | (uint64_t)1 << 63;
}

static uint64_t key_at(const td_tensor *t, int64_t i) {
  if (t->dtype == TD_FLOAT32)
    return float_key((double)((const float *)t->data)[i]);
  if (td_dtype_is_float(t->dtype)) return float_key(td_tensor_get_f(t, i));
  if (t->dtype == TD_UINT64) return ((const uint64_t *)t->data)[i];
  return (uint64_t)td_tensor_get_i(t, i) ^ (uint64_t)1 << 63;
}

static bool before(const item *a, const item *b) {
  return a->key != b->key ? a->key > b->key : a->index < b->index;
}

/* Puts `x` at place `at` of a heap of n items whose first is the last in order;
 * the places below it are in order. */
static void sink(item *heap, int64_t n, int64_t at, item x) {
  for (int64_t child; (child = 2 * at + 1) < n; at = child) {
    if (child + 1 < n && before(&heap[child], &heap[child + 1])) child++;
    if (!before(&x, &heap[child])) break;
    heap[at] = heap[child];
  }
  heap[at] = x;
}

/* The first k of n elements from `first` on, in order. */
static void select_top(const td_tensor *x, int64_t first, int64_t n, int64_t k,
                       item *heap) {
  for (int64_t i = 0; i < k; i++) heap[i] = (item){key_at(x, first + i), i};
  for (int64_t i = k / 2 - 1; i >= 0; i--) sink(heap, k, i, heap[i]);
  for (int64_t i = k; i < n; i++) {
    item new = {key_at(x, first + i), i};
    if (before(&new, &heap[0])) sink(heap, k, 0, new);
  }
  for (int64_t i = k - 1; i > 0; i--) {
    item last = heap[0];
    sink(heap, i, 0, heap[i]);
    heap[i] = last;
  }
}

/* ---- TopK: rows ---------------------------------------------------------- */

typedef struct top {
  const td_tensor *x;
  int64_t n, k;
  item *items; /* k for each row */
  td_tensor *values, *indices;
} top;

static void top_rows(void *arg, int64_t begin, int64_t end) {
  const top *t = arg;
  size_t size = td_dtype_size(t->x->dtype);
  for (int64_t row = begin; row < end; row++) {
    item *items = t->items + row * t->k;
    select_top(t->x, row * t->n, t->n, t->k, items);
    for (int64_t i = 0; i < t->k; i++) {
      int64_t from = row * t->n + items[i].index, to = row * t->k + i;
      memcpy((char *)t->values->data + (size_t)to * size,
             (const char *)t->x->data + (size_t)from * size, size);
      td_tensor_set_i(t->indices, to, items[i].index);
    }
  }
}

static td_status *check_top(const td_shape *x, int64_t k) {
  td_shape_text text;
  int64_t n = x->dim[x->rank - 1];
  if (k >= 0 && (n < 0 || k <= n)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "k must be in [0, %lld], the size of the last dimension of "
                  "%s, is %lld",
                  (long long)n, td_shape_str(x, &text), (long long)k);
}

static int64_t largest_of(td_dtype t) {
  if (t == TD_INT16) return INT16_MAX;
  return t == TD_INT32 ? INT32_MAX : INT64_MAX;
}

td_status *td_top_read(td_kernel_ctx *c, td_top_plan *p) {
  td_shape shape = td_in(c, 0)->shape;
  int last = shape.rank - 1;
  *p = (td_top_plan){0};
  TD_TRY(read_k(c, 1, &p->k));
  if (last < 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "input must be of rank 1 or more, not a scalar");
  TD_TRY(check_top(&shape, p->k));
  p->n = shape.dim[last];
  shape.dim[last] = p->k;
  TD_TRY(td_out(c, 0, &shape, &p->values));
  TD_TRY(td_out(c, 1, &shape, &p->indices));
  if (p->n - 1 > largest_of(p->indices->dtype))
    return td_error(TD_INVALID_ARGUMENT,
                    "index_type %s cannot number %lld elements",
                    td_dtype_name(p->indices->dtype), (long long)p->n);
  return NULL;
}

static td_status *top_run(td_kernel_ctx *c) {
  td_top_plan p;
  TD_TRY(td_top_read(c, &p));
  int64_t count = td_tensor_count(p.values);
  top t = {.x = td_in(c, 0),
           .n = p.n,
           .k = p.k,
           .values = p.values,
           .indices = p.indices};
  if (count == 0) return NULL;
  t.items = td_calloc((size_t)count, sizeof *t.items);
  if (!t.items) return td_oom();
  td_for(c, count / p.k, td_grain_of(2 * p.n), top_rows, &t);
  td_free(t.items);
  return NULL;
}

/* k -1: not known. */
static td_status *top_infer_k(td_infer *c, int64_t k) {
  td_shape shape = *td_infer_in(c, 0);
  TD_TRY(td_infer_rank_at_least(c, 0, 1, "input"));
  if (shape.rank < 0) return NULL;
  if (k >= 0) TD_TRY(check_top(&shape, k));
  shape.dim[shape.rank - 1] = k;
  td_infer_out(c, 0, shape);
  td_infer_out(c, 1, shape);
  return NULL;
}

static td_status *top_infer(td_infer *c) {
  return top_infer_k(c, td_infer_int(c, "k"));
}

static td_status *top_v2_infer(td_infer *c) {
  td_small v;
  bool known;
  int64_t k = 0;
  TD_TRY(td_infer_rank(c, 1, 0, "k", NULL));
  TD_TRY(td_operand_infer_ints(c, 1, "k", &v, &known));
  if (known) TD_TRY(td_operand_single(&v, "k", &k, &known));
  if (known && k < 0)
    return td_error(TD_INVALID_ARGUMENT, "k must not be negative, is %lld",
                    (long long)k);
  return top_infer_k(c, known ? k : -1);
}

/* ---- NthElement ---------------------------------------------------------- */

typedef struct nth {
  const td_tensor *x;
  int64_t n, k; /* the size of a row; how many are before the one wanted */
  bool smallest;
  td_tensor *values;
  bool failed; /* no memory: set by any thread */
} nth;

static int by_key(const void *a, const void *b) {
  const item *p = a, *q = b;
  return before(p, q) ? -1 : before(q, p) ? 1 : 0;
}

static void nth_rows(void *arg, int64_t begin, int64_t end) {
  nth *t = arg;
  size_t size = td_dtype_size(t->x->dtype);
  item *items = td_calloc((size_t)t->n, sizeof *items);
  if (!items) t->failed = true;
  for (int64_t row = begin; items && row < end; row++) {
    for (int64_t i = 0; i < t->n; i++)
      items[i] = (item){key_at(t->x, row * t->n + i), i};
    qsort(items, (size_t)t->n, sizeof *items, by_key);
    int64_t from = items[t->smallest ? t->n - 1 - t->k : t->k].index;
    memcpy((char *)t->values->data + (size_t)row * size,
           (const char *)t->x->data + (size_t)(row * t->n + from) * size, size);
  }
  td_free(items);
}

static td_status *check_nth(const td_shape *x, int64_t n) {
  td_shape_text text;
  int64_t last = x->rank > 0 ? x->dim[x->rank - 1] : 0;
  if (x->rank > 0 && n >= 0 && (last < 0 || n < last)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "n must be in [0, %lld), the last dimension of input %s, is "
                  "%lld",
                  (long long)last, td_shape_str(x, &text), (long long)n);
}

static td_status *nth_infer(td_infer *c) {
  td_shape x = *td_infer_in(c, 0);
  td_small v;
  bool known;
  int64_t n = 0;
  TD_TRY(td_infer_rank_at_least(c, 0, 1, "input"));
  TD_TRY(td_infer_rank(c, 1, 0, "n", NULL));
  TD_TRY(td_operand_infer_ints(c, 1, "n", &v, &known));
  if (known) TD_TRY(td_operand_single(&v, "n", &n, &known));
  if (x.rank < 0) return NULL;
  if (known) TD_TRY(check_nth(&x, n));
  x.rank--;
  td_infer_out(c, 0, x);
  return NULL;
}

td_status *td_nth_read(td_kernel_ctx *c, td_top_plan *p) {
  td_shape shape = td_in(c, 0)->shape;
  *p = (td_top_plan){.k = 1};
  p->smallest = !td_node_bool(td_ctx_node(c), "reverse");
  TD_TRY(td_operand_scalar(td_in(c, 1), "n", &p->first));
  TD_TRY(check_nth(&shape, p->first));
  p->n = shape.dim[--shape.rank];
  return td_out(c, 0, &shape, &p->values);
}

static td_status *nth_run(td_kernel_ctx *c) {
  td_top_plan p;
  TD_TRY(td_nth_read(c, &p));
  nth t = {.x = td_in(c, 0),
           .n = p.n,
           .k = p.first,
           .smallest = p.smallest,
           .values = p.values};
  td_for(c, td_tensor_count(t.values), td_grain_of(8 * t.n), nth_rows, &t);
  return t.failed ? td_oom() : NULL;
}

/* ---- tables -------------------------------------------------------------- */

#define TOP_TYPES                                                              \
  "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, "    \
  "half, uint32, uint64}"

static const td_op_def ops[] = {
    {.type = "InTopKV2",
     .sig = "predictions: float, targets: T, k: T -> precision: bool; "
            "T: {int32, int64} = int32",
     .shape = in_top_infer,
     .cost = td_cost_reduce,
     .doc = "Is the prediction for the target class among the k largest of "
            "its row? Ties count as in.",
     .lua = "in_top_k",
     .flags = TD_NO_GRADIENT,
     .host = "k",
     .example = "td.in_top_k({{0.1, 0.7, 0.2}}, {1}, 1)  --> true",
     .section = "Neural-network building blocks"},
    {.type = "InTopK",
     .sig = "predictions: float, targets: T -> precision: bool; k: int; "
            "T: {int32, int64} = int32",
     .shape = in_top_infer,
     .cost = td_cost_reduce,
     .doc = "Is the prediction for the target class among the k largest of "
            "its row? k is an attribute; the older form.",
     .lua = "",
     .flags = TD_NO_GRADIENT,
     .section = "Neural-network building blocks"},
    {.type = "TopKV2",
     .sig = "input: T, k: Tk -> values: T, indices: index_type; "
            "sorted: bool = true; " TOP_TYPES "; "
            "Tk: {int16, int32, int64} = int32; "
            "index_type: {int16, int32, int64} = int32",
     .shape = top_v2_infer,
     .cost = td_cost_reduce,
     .doc = "The k largest elements of each row, largest first, and their "
            "indices; of equal ones the lower index comes first.",
     .lua = "top_k",
     .host = "k",
     .section = "Neural-network building blocks"},
    {.type = "TopK",
     .sig = "input: T -> values: T, indices: int32; k: int >= 0; "
            "sorted: bool = true; " TOP_TYPES,
     .shape = top_infer,
     .cost = td_cost_reduce,
     .doc = "The k largest elements of each row and their indices; k is an "
            "attribute; the older form.",
     .lua = "",
     .section = "Neural-network building blocks"},
    {.type = "NthElement",
     .sig =
         "input: T, n: int32 -> values: T; reverse: bool = false; " TOP_TYPES,
     .shape = nth_infer,
     .cost = td_cost_reduce,
     .doc = "The element of each row that is behind n smaller ones when sorted "
            "(with reverse behind n larger ones).",
     .host = "n",
     .example = "td.nth_element({3, 1, 2}, 0)  --> 1",
     .section = "Neural-network building blocks"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "InTopK", .device = "CPU", .run = in_top_run},
    {.op = "InTopKV2", .device = "CPU", .run = in_top_run},
    {.op = "TopK", .device = "CPU", .run = top_run},
    {.op = "TopKV2", .device = "CPU", .run = top_run},
    {.op = "NthElement", .device = "CPU", .run = nth_run},
    {0},
};

TD_MODULE(topk, ops, kernels)
