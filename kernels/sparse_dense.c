/* sparse_dense.c - sparse tensors and dense ones: SparseToDense,
 * SparseTensorDenseMatMul, and SparseReorder.
 *
 * A sparse tensor is three: indices with a row for each element, values, and
 * the dense shape. A product is summed in the order of the elements, each
 * column on one thread.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "kernels/cost.h"
#include "kernels/cpu.h"
#include "kernels/element.h"
#include "kernels/gather_nd.h"
#include "kernels/simd/half.h"
#include "kernels/operand.h"
#include "kernels/array.h"
#include "kernels/row_plans.h"

/* ---- SparseToDense ------------------------------------------------------- */

/* Indices as a matrix of n rows of k: a scalar is one of one, a vector n of
 * one. */
static td_status *as_matrix(const td_tensor *t, int k, td_tensor *out) {
  td_shape_text text;
  *out = *t;
  int rank = t->shape.rank;
  if (rank < 2)
    out->shape = td_shape_matrix(rank == 0 ? 1 : t->shape.dim[0], 1);
  if (rank <= 2 && out->shape.dim[1] == k) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "sparse_indices must have a row of %d, one for each axis of "
                  "the result, for each value; they are of shape %s",
                  k, td_shape_str(&t->shape, &text));
}

static td_status *check_order(const int64_t *rows, int64_t n) {
  for (int64_t i = 1; i < n; i++)
    if (rows[i] <= rows[i - 1])
      return td_error(TD_INVALID_ARGUMENT,
                      "sparse_indices %lld is %s; sort them, or turn "
                      "validate_indices off",
                      (long long)i,
                      rows[i] == rows[i - 1] ? "the same as the one before it"
                                             : "out of order");
  return NULL;
}

static td_status *check_values(const td_tensor *values, int64_t n) {
  const td_shape *s = &values->shape;
  td_shape_text text;
  if (s->rank == 0 || (s->rank == 1 && s->dim[0] == n)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "sparse_values must be a scalar or a vector of %lld, as many "
                  "as there are indices, not of shape %s",
                  (long long)n, td_shape_str(s, &text));
}

static td_status *to_dense_infer(td_infer *c) {
  td_shape shape;
  TD_TRY(td_infer_rank(c, 1, 1, "output_shape", NULL));
  TD_TRY(td_infer_rank(c, 3, 0, "default_value", NULL));
  TD_TRY(td_infer_shape_from(c, 1, &shape));
  td_infer_out(c, 0, shape);
  return NULL;
}

/* The default everywhere, then the values. */
static td_status *put_values(td_kernel_ctx *c, const td_shape *shape,
                             const int64_t *rows, int64_t n) {
  td_array values = {0}, other = {0}, y = {0};
  int64_t each = td_in(c, 2)->shape.rank == 0 ? 0 : 1;
  td_status *s = td_array_in(td_in(c, 2), &values);
  if (td_ok(s)) s = td_array_in(td_in(c, 3), &other);
  if (td_ok(s)) s = td_array_out(c, 0, shape, &y);
  int64_t count = td_ok(s) ? td_shape_count(shape) : 0;
  for (int64_t i = 0; i < count; i++)
    memcpy(y.at + (size_t)i * y.size, other.at, y.size);
  for (int64_t i = 0; td_ok(s) && i < n; i++)
    memcpy(y.at + (size_t)rows[i] * y.size,
           values.at + (size_t)(i * each) * y.size, y.size);
  if (td_ok(s)) s = td_array_done(c, 0, &y);
  td_array_drop(&values);
  td_array_drop(&other);
  td_array_drop(&y);
  return s;
}

static td_status *to_dense_operands(td_kernel_ctx *c, td_shape *shape,
                                    td_tensor *indices) {
  if (td_in(c, 3)->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT, "default_value must be a scalar");
  TD_TRY(td_operand_shape(td_in(c, 1), "output_shape", shape));
  TD_TRY(td_array_count(shape, NULL));
  TD_TRY(as_matrix(td_in(c, 0), shape->rank, indices));
  return check_values(td_in(c, 2), indices->shape.dim[0]);
}

td_status *td_to_dense_read(td_kernel_ctx *c, td_shape *shape, int64_t *n) {
  td_tensor indices = {0};
  TD_TRY(to_dense_operands(c, shape, &indices));
  *n = indices.shape.dim[0];
  return NULL;
}

static td_status *to_dense_run(td_kernel_ctx *c) {
  td_shape shape;
  td_tensor indices;
  int64_t *rows, n;
  TD_TRY(to_dense_operands(c, &shape, &indices));
  TD_TRY(td_gather_nd_rows(&indices, &shape, false, &rows, &n));
  td_status *s = NULL;
  if (td_node_bool(td_ctx_node(c), "validate_indices"))
    s = check_order(rows, n);
  if (td_ok(s)) s = put_values(c, &shape, rows, n);
  td_free(rows);
  return s;
}

/* ---- SparseTensorDenseMatMul --------------------------------------------- */

typedef struct product {
  const td_tensor *indices, *values;
  td_shape b; /* of the dense matrix, as it is stored */
  td_sparse_product is;
  const void *a, *x; /* values and matrix, halves as float */
  void *y;
} product;

/* Row and column of an element of op(A). */
static void place(const product *p, int64_t i, int64_t *row, int64_t *col) {
  int64_t r = td_tensor_get_i(p->indices, 2 * i);
  int64_t k = td_tensor_get_i(p->indices, 2 * i + 1);
  *row = p->is.turn_a ? k : r;
  *col = p->is.turn_a ? r : k;
}

#define SAME(x) (x)
#define CONJ_f32 SAME
#define CONJ_f64 SAME
#define CONJ_i32 SAME
#define CONJ_c64 conjf
#define CONJ_c128 conj
/* Integers wrap round, as unsigned ones do. */
#define AS_f32 float
#define AS_f64 double
#define AS_i32 uint32_t
#define AS_c64 td_c64
#define AS_c128 td_c128

/* Columns [begin, end) of the product. */
#define COLUMNS(kind, ...)                                                     \
  static void columns_##kind(void *arg, int64_t begin, int64_t end) {          \
    const product *p = arg;                                                    \
    const td_##kind *a = p->a, *x = p->x;                                      \
    td_##kind *y = p->y;                                                       \
    for (int64_t i = 0; i < p->is.n; i++) {                                    \
      int64_t row, col;                                                        \
      place(p, i, &row, &col);                                                 \
      td_##kind by = p->is.turn_a ? CONJ_##kind(a[i]) : a[i];                  \
      td_##kind *to = y + row * p->is.cols;                                    \
      for (int64_t j = begin; j < end; j++) {                                  \
        td_##kind b = p->is.turn_b ? CONJ_##kind(x[j * p->is.inner + col])     \
                                   : x[col * p->is.cols + j];                  \
        to[j] = (td_##kind)((AS_##kind)to[j] + (AS_##kind)by * (AS_##kind)b);  \
      }                                                                        \
    }                                                                          \
  }
COLUMNS(f32)
COLUMNS(f64)
COLUMNS(i32)
EACH_COMPLEX(COLUMNS, )

static void (*columns_of(td_dtype t))(void *, int64_t, int64_t) {
  if (t == TD_FLOAT64) return columns_f64;
  if (t == TD_INT32) return columns_i32;
  if (t == TD_COMPLEX64) return columns_c64;
  return t == TD_COMPLEX128 ? columns_c128 : columns_f32;
}

static td_status *check_operands(const td_shape *indices,
                                 const td_shape *values, const td_shape *b) {
  td_shape_text i, v, x;
  td_shape pairs = td_shape_matrix(-1, 2), list = td_shape_vector(-1);
  if (values->rank == 1) pairs.dim[0] = values->dim[0];
  td_shape matrix = td_shape_matrix(-1, -1);
  if (td_shape_compatible(indices, &pairs) &&
      td_shape_compatible(values, &list) && td_shape_compatible(b, &matrix))
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "a_indices must be of shape {n, 2}, a_values a vector of n "
                  "and b a matrix, not %s, %s and %s",
                  td_shape_str(indices, &i), td_shape_str(values, &v),
                  td_shape_str(b, &x));
}

static td_status *product_infer(td_infer *c) {
  const td_shape *b = td_infer_in(c, 3);
  td_small v;
  bool known;
  td_shape y = td_shape_matrix(-1, -1);
  TD_TRY(check_operands(td_infer_in(c, 0), td_infer_in(c, 1), b));
  TD_TRY(td_infer_rank(c, 2, 1, "a_shape", NULL));
  TD_TRY(td_operand_infer_ints(c, 2, "a_shape", &v, &known));
  int turn = td_infer_bool(c, "adjoint_a");
  if (known && v.count == 2 && v.known[turn] && v.at[turn] >= 0)
    y.dim[0] = v.at[turn];
  if (b->rank == 2) y.dim[1] = b->dim[td_infer_bool(c, "adjoint_b") ? 0 : 1];
  td_infer_out(c, 0, y);
  return NULL;
}

/* Sizes agree. */
static td_status *read_sizes(td_kernel_ctx *c, const td_shape *b,
                             td_sparse_product *p) {
  td_shape a;
  td_shape_text text;
  TD_TRY(td_operand_shape(td_in(c, 2), "a_shape", &a));
  if (a.rank != 2)
    return td_error(TD_INVALID_ARGUMENT, "a_shape must have 2 sizes, not %d",
                    a.rank);
  p->rows = a.dim[p->turn_a];
  p->inner = a.dim[!p->turn_a];
  p->cols = b->dim[!p->turn_b];
  if (b->dim[p->turn_b] == p->inner) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "a, with %lld columns%s, cannot be multiplied by b of "
                  "shape %s%s",
                  (long long)p->inner, p->turn_a ? " as its adjoint" : "",
                  td_shape_str(b, &text), p->turn_b ? " as its adjoint" : "");
}

td_status *td_sparse_product_read(td_kernel_ctx *c, td_sparse_product *p) {
  const td_node *node = td_ctx_node(c);
  const td_shape *values = &td_in(c, 1)->shape, *b = &td_in(c, 3)->shape;
  TD_TRY(check_operands(&td_in(c, 0)->shape, values, b));
  p->n = values->dim[0];
  p->turn_a = td_node_bool(node, "adjoint_a");
  p->turn_b = td_node_bool(node, "adjoint_b");
  TD_TRY(read_sizes(c, b, p));
  td_shape shape = td_shape_matrix(p->rows, p->cols);
  return td_array_count(&shape, NULL);
}

/* Every element is within the sizes. */
static td_status *check_places(td_kernel_ctx *c, const product *p) {
  td_shape a;
  td_shape_text text;
  for (int64_t i = 0; i < p->is.n; i++) {
    int64_t row, col;
    place(p, i, &row, &col);
    if (row >= 0 && row < p->is.rows && col >= 0 && col < p->is.inner) continue;
    TD_TRY(td_operand_shape(td_in(c, 2), "a_shape", &a));
    return td_error(TD_INVALID_ARGUMENT,
                    "a_indices[%lld] is outside of a_shape %s", (long long)i,
                    td_shape_str(&a, &text));
  }
  return NULL;
}

static td_status *multiply(td_kernel_ctx *c, product *p, td_dtype t) {
  size_t bytes;
  if (!td_mul((size_t)p->is.rows * td_dtype_size(t), (size_t)p->is.cols,
              &bytes))
    return td_oom();
  if (bytes) memset(p->y, 0, bytes);
  if (p->is.cols > 0)
    td_for(c, p->is.cols, td_grain_of(2 * p->is.n), columns_of(t), p);
  return NULL;
}

/* Halves: the product in float, rounded once. */
static td_status *multiply_halves(td_kernel_ctx *c, product *p, td_tensor *y) {
  int64_t n = td_tensor_count(p->values), m = td_shape_count(&p->b);
  int64_t k = td_tensor_count(y);
  float *wide = td_calloc((size_t)(n + m) + (size_t)k, sizeof *wide);
  if (!wide) return td_oom();
  td_half_load(y->dtype, n, p->a, wide);
  td_half_load(y->dtype, m, p->x, wide + n);
  p->a = wide;
  p->x = wide + n;
  p->y = wide + n + m;
  td_status *s = multiply(c, p, TD_FLOAT32);
  td_half_store(y->dtype, k, wide + n + m, y->data);
  td_free(wide);
  return s;
}

static td_status *product_run(td_kernel_ctx *c) {
  td_tensor *y;
  product p = {.indices = td_in(c, 0),
               .values = td_in(c, 1),
               .b = td_in(c, 3)->shape,
               .a = td_in(c, 1)->data,
               .x = td_in(c, 3)->data};
  TD_TRY(td_sparse_product_read(c, &p.is));
  TD_TRY(check_places(c, &p));
  td_shape shape = td_shape_matrix(p.is.rows, p.is.cols);
  TD_TRY(td_out(c, 0, &shape, &y));
  p.y = y->data;
  if (td_is_half(y->dtype)) return multiply_halves(c, &p, y);
  return multiply(c, &p, y->dtype);
}

/* ---- SparseReorder ------------------------------------------------------- */

static td_status *check_reorder(const td_shape *indices, const td_shape *values,
                                const td_shape *shape) {
  td_shape_text i, v, s;
  td_shape rows = td_shape_matrix(-1, -1), list = td_shape_vector(-1);
  if (values->rank == 1) rows.dim[0] = values->dim[0];
  if (shape->rank == 1) rows.dim[1] = shape->dim[0];
  if (td_shape_compatible(indices, &rows) &&
      td_shape_compatible(values, &list) && td_shape_compatible(shape, &list))
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "input_indices must have a row for each value and a column "
                  "for each size of input_shape; they are of shape %s, the "
                  "values of %s, the sizes of %s",
                  td_shape_str(indices, &i), td_shape_str(values, &v),
                  td_shape_str(shape, &s));
}

static td_status *reorder_infer(td_infer *c) {
  TD_TRY(
      check_reorder(td_infer_in(c, 0), td_infer_in(c, 1), td_infer_in(c, 2)));
  td_infer_out(c, 0, *td_infer_in(c, 0));
  td_infer_out(c, 1, *td_infer_in(c, 1));
  return NULL;
}

typedef struct element {
  int64_t at, number; /* where it is in the dense tensor; which it was */
} element;

static int in_order(const void *a, const void *b) {
  const element *x = a, *y = b;
  if (x->at != y->at) return x->at < y->at ? -1 : 1;
  return x->number < y->number ? -1 : x->number > y->number;
}

static td_status *put_ordered(td_kernel_ctx *c, const element *e, int64_t n) {
  const td_tensor *indices = td_in(c, 0);
  int64_t rank = indices->shape.dim[1];
  td_array x = {0}, y = {0};
  td_tensor *to;
  TD_TRY(td_out(c, 0, &indices->shape, &to));
  for (int64_t i = 0; rank && i < n; i++)
    memcpy((int64_t *)to->data + i * rank,
           (const int64_t *)indices->data + e[i].number * rank,
           (size_t)rank * sizeof(int64_t));
  td_status *s = td_array_in(td_in(c, 1), &x);
  if (td_ok(s)) s = td_array_out(c, 1, &td_in(c, 1)->shape, &y);
  for (int64_t i = 0; td_ok(s) && i < n; i++)
    memcpy(y.at + (size_t)i * y.size, x.at + (size_t)e[i].number * x.size,
           y.size);
  if (td_ok(s)) s = td_array_done(c, 1, &y);
  td_array_drop(&x);
  td_array_drop(&y);
  return s;
}

td_status *td_sparse_reorder_read(td_kernel_ctx *c, td_shape *shape) {
  TD_TRY(check_reorder(&td_in(c, 0)->shape, &td_in(c, 1)->shape,
                       &td_in(c, 2)->shape));
  TD_TRY(td_operand_shape(td_in(c, 2), "input_shape", shape));
  return td_array_count(shape, NULL);
}

static td_status *reorder_run(td_kernel_ctx *c) {
  td_shape shape;
  int64_t *rows, n;
  TD_TRY(td_sparse_reorder_read(c, &shape));
  TD_TRY(td_gather_nd_rows(td_in(c, 0), &shape, false, &rows, &n));
  element *e = td_calloc((size_t)n, sizeof *e);
  for (int64_t i = 0; e && i < n; i++) e[i] = (element){rows[i], i};
  if (e && n) qsort(e, (size_t)n, sizeof *e, in_order);
  td_status *s = e ? put_ordered(c, e, n) : td_oom();
  td_free(e);
  td_free(rows);
  return s;
}

/* ---- cost -----------------------------------------------------------------
 */

/* A multiply-add for each element of the sparse matrix and column. */
static void product_cost(td_infer *c, td_cost *cost) {
  cost->flops =
      2 * td_infer_in_count(c, 1) * td_infer_size(td_infer_out_shape(c, 0), 1);
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "SparseToDense",
     .sig = "sparse_indices: Tindices, output_shape: Tindices, "
            "sparse_values: T, default_value: T -> dense: T; "
            "validate_indices: bool = true; T: type; "
            "Tindices: {int32, int64}",
     .shape = to_dense_infer,
     .cost = td_cost_move,
     .doc = "A tensor of default_value but for sparse_values at the places "
            "that sparse_indices, in order, name.",
     .host = "output_shape",
     .example = "td.sparse_to_dense({1, 3}, {4}, {7, 8}, 0)  --> 0 7 0 8",
     .section = "Sparse"},
    {.type = "SparseTensorDenseMatMul",
     .sig = "a_indices: Tindices, a_values: T, a_shape: int64, b: T -> "
            "product: T; T: type; Tindices: {int32, int64} = int64; "
            "adjoint_a: bool = false; adjoint_b: bool = false",
     .shape = product_infer,
     .cost = product_cost,
     .doc = "A sparse matrix times a dense one, each as its adjoint if so "
            "asked.",
     .lua = "sparse_tensor_dense_matmul",
     .host = "a_shape",
     .example = "td.sparse_tensor_dense_matmul({{0, 1}}, {2.0}, {1, 2}, "
                "{{1.0}, {3.0}})  --> 6",
     .section = "Sparse"},
    {.type = "SparseReorder",
     .sig = "input_indices: int64, input_values: T, input_shape: int64 -> "
            "output_indices: int64, output_values: T; T: type",
     .shape = reorder_infer,
     .cost = td_cost_move,
     .doc = "The elements of a sparse tensor in row-major order.",
     .host = "input_shape",
     .example = "(td.sparse_reorder({{1}, {0}}, {7, 8}, {2}))  --> 0 1",
     .section = "Sparse"},
    {0},
};

#define PLAIN_TYPES                                                            \
  "qint8|quint8|qint16|quint16|qint32|bool|string|half|bfloat16|float|double|" \
  "int8|uint8|int16|uint16|int32|"                                             \
  "uint32|int64|uint64|complex64|complex128"

static const td_kernel_def kernels[] = {
    {.op = "SparseToDense",
     .device = "CPU",
     .types = "T=" PLAIN_TYPES,
     .run = to_dense_run},
    {.op = "SparseTensorDenseMatMul",
     .device = "CPU",
     .types = "T=half|bfloat16|float|double|int32|complex64|complex128",
     .run = product_run},
    {.op = "SparseReorder",
     .device = "CPU",
     .types = "T=" PLAIN_TYPES,
     .run = reorder_run},
    {0},
};

TD_MODULE(sparse_dense, ops, kernels)
