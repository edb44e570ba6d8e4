/* sparse.cu - sums of chosen rows by segments, their gradients, and sparse
 * tensors beside dense ones, on a card.
 *
 * Items are sorted by the row that they go to (td_cuda_row_order), so that each
 * element of a result is made by one thread, in the order of the items.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/array.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/row_reduce.cuh"
#include "kernels/cuda/table_rows.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/row_plans.h"

namespace {

enum { DATA, INDICES, IDS }; /* inputs of SparseSegmentSum and kin */

td_status *list_of(td_kernel_ctx *c, int64_t n, td_tensor *t) {
  td_shape all = td_shape_vector(n);
  return td_temp(c, TD_INT64, &all, t);
}

/* ---- segments ------------------------------------------------------------ */

/* Numbers of rows as they are given, int32 or int64. */
struct numbers {
  const void *at;
  bool wide;
  int64_t limit;

  __device__ int64_t operator()(int64_t i) const {
    return wide ? static_cast<const int64_t *>(at)[i]
                : static_cast<const int32_t *>(at)[i];
  }
};

numbers numbers_of(const td_tensor *t, int64_t limit) {
  return numbers{t->data, t->dtype == TD_INT64, limit};
}

/* Items of which one of the two is out of range, or of what must be sorted
 * below the one before, go nowhere. */
__global__ void pair_rows(int64_t n, numbers f, numbers t, bool sorted,
                          int64_t *from, int64_t *to, td_cuda_report report) {
  TD_EACH(i, n) {
    int64_t a = f(i), b = t(i), last = sorted && i > 0 ? t(i - 1) : 0;
    bool bad = b < 0 || b >= t.limit || b < last;
    if (bad) td_cuda_tell(report, b, b < last ? last : t.limit);
    if (a < 0 || a >= f.limit) {
      td_cuda_tell(report, a, f.limit);
      bad = true;
    }
    from[i] = bad ? 0 : a;
    to[i] = bad ? -1 : b;
  }
}

/* By how many there are of each row, or by the root of that. */
__global__ void weigh(int64_t n, const int64_t *row, const int64_t *begin,
                      bool root, double *by) {
  TD_EACH(i, n) {
    double count = (double)(begin[row[i] + 1] - begin[row[i]]);
    by[i] = count > 0 ? 1 / (root ? sqrt(count) : count) : 1;
  }
}

struct segment_lists {
  td_tensor from, to, by, items, begin;
};

void drop_lists(segment_lists *l) {
  td_tensor_release(&l->from);
  td_tensor_release(&l->to);
  td_tensor_release(&l->by);
  td_tensor_release(&l->items);
  td_tensor_release(&l->begin);
}

td_status *read_pairs(td_kernel_ctx *c, int64_t n, const numbers &f,
                      const numbers &t, bool sorted, segment_lists *l) {
  td_cuda_report report = td_cuda_report_of(
      c, "an index or a segment id is %lld, which is out of range or order: "
         "the limit, or the id before it, is %lld");
  TD_TRY(list_of(c, n, &l->from));
  TD_TRY(list_of(c, n, &l->to));
  if (n == 0) return nullptr;
  return TD_LAUNCH(c, pair_rows, td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n, f, t,
                   sorted, td_cuda_at<int64_t>(&l->from),
                   td_cuda_at<int64_t>(&l->to), report);
}

td_status *reduce_pairs(td_kernel_ctx *c, const td_segments_plan *p,
                        const segment_lists *l, td_row_divisor over) {
  td_row_reduce f = {};
  f.op = TD_ROW_REDUCE_SUM;
  f.n = p->n;
  f.each = p->each;
  f.to = td_cuda_at<const int64_t>(&l->to);
  f.from = td_cuda_at<const int64_t>(&l->from);
  f.by = td_cuda_at<const double>(&l->by);
  return td_cuda_row_reduce(c, DATA, &f, over, &p->out);
}

td_status *segment(td_kernel_ctx *c, td_segments_plan *p, td_row_divisor over) {
  segment_lists l = {};
  p->out.dim[0] = p->segments;
  TD_TRY(td_array_count(&p->out, nullptr));
  td_status *s = read_pairs(
      c, p->n, numbers_of(td_in(c, INDICES), td_in(c, DATA)->shape.dim[0]),
      numbers_of(td_in(c, IDS), p->segments), true, &l);
  if (td_ok(s)) s = reduce_pairs(c, p, &l, over);
  drop_lists(&l);
  return s;
}

template <td_row_divisor over> td_status *counted_run(td_kernel_ctx *c) {
  td_segments_plan p;
  TD_TRY(td_sparse_segment_read(c, &p));
  return segment(c, &p, over);
}

__global__ void tell_last(int64_t n, numbers ids, int64_t *told) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *told = n > 0 ? ids(n - 1) : -1;
}

td_status *last_first(td_kernel_ctx *c, td_cuda_halves *h) {
  td_segments_plan p;
  TD_TRY(td_sparse_segment_read(c, &p));
  h->n = 1;
  TD_TRY(list_of(c, 1, &h->told));
  return TD_LAUNCH(c, tell_last, 1, 1, 0, p.n, numbers_of(td_in(c, IDS), 0),
                   td_cuda_at<int64_t>(&h->told));
}

template <td_row_divisor over>
td_status *last_second(td_kernel_ctx *c, td_cuda_halves *h) {
  td_segments_plan p;
  TD_TRY(td_sparse_segment_read(c, &p));
  if (h->number[0] == INT64_MAX)
    return td_error(TD_INVALID_ARGUMENT, "an id of 2^63-1 is too large");
  p.segments = h->number[0] < 0 ? 0 : h->number[0] + 1;
  return segment(c, &p, over);
}

template <td_row_divisor over> void last_start(td_kernel_ctx *c) {
  td_cuda_in_halves(c, last_first, last_second<over>);
}

/* ---- their gradients ----------------------------------------------------- */

td_status *weights(td_kernel_ctx *c, const td_segments_plan *p,
                   td_row_divisor over, segment_lists *l) {
  td_shape all = td_shape_vector(p->n);
  const int64_t *from = td_cuda_at<const int64_t>(&l->from);
  if (over == TD_ROW_BY_ONE || p->n == 0) return nullptr;
  TD_TRY(td_cuda_row_order(c, p->n, from, td_in(c, DATA)->shape.dim[0],
                           &l->items, &l->begin));
  TD_TRY(td_temp(c, TD_FLOAT64, &all, &l->by));
  return TD_LAUNCH(c, weigh, td_cuda_grid(c, p->n), TD_CUDA_BLOCK, 0, p->n,
                   from, td_cuda_at<const int64_t>(&l->begin),
                   over == TD_ROW_BY_ROOT, td_cuda_at<double>(&l->by));
}

template <td_row_divisor over> td_status *back_run(td_kernel_ctx *c) {
  td_segments_plan p;
  segment_lists l = {};
  TD_TRY(td_sparse_segment_read(c, &p));
  td_status *s = read_pairs(
      c, p.n, numbers_of(td_in(c, IDS), td_in(c, DATA)->shape.dim[0]),
      numbers_of(td_in(c, INDICES), p.segments), false, &l);
  if (td_ok(s)) s = weights(c, &p, over, &l);
  if (td_ok(s)) s = reduce_pairs(c, &p, &l, TD_ROW_BY_ONE);
  drop_lists(&l);
  return s;
}

/* ---- places in a dense tensor -------------------------------------------- */

struct place {
  int k;
  int64_t size[TD_MAX_RANK];
  numbers index;
  td_cuda_report report;

  __device__ int64_t operator()(int64_t i) const {
    int64_t at = 0;
    for (int j = 0; j < k; j++) {
      int64_t v = index(i * k + j);
      if (v < 0 || v >= size[j]) {
        td_cuda_tell(report, v, size[j]);
        return -1;
      }
      at = at * size[j] + v;
    }
    return at;
  }
};

place place_of(td_kernel_ctx *c, const td_shape *shape, const char *text) {
  place p = {};
  p.k = shape->rank;
  for (int k = 0; k < shape->rank; k++) p.size[k] = shape->dim[k];
  p.index = numbers_of(td_in(c, 0), 0);
  p.report = td_cuda_report_of(c, text);
  return p;
}

__global__ void list_places(int64_t n, place f, bool sorted, int64_t *to) {
  TD_EACH(i, n) {
    int64_t at = f(i);
    if (sorted && i > 0 && at >= 0 && at <= f(i - 1))
      td_cuda_tell(f.report, at, i);
    to[i] = at;
  }
}

/* Output 0 becomes that number everywhere. */
template <class E> __global__ void spread(int64_t n, const E *x, E *y) {
  TD_EACH(i, n) y[i] = x[0];
}

/* The last of the items that go to a place stays. */
template <class E>
__global__ void put_last(int64_t n, const int64_t *begin, const int64_t *items,
                         bool one, const E *x, E *y) {
  TD_EACH(i, n) {
    int64_t last = begin[i + 1];
    if (last > begin[i]) y[i] = x[one ? 0 : items[last - 1]];
  }
}

template <class E>
td_status *fill_dense(td_kernel_ctx *c, const td_tensor *items,
                      const td_tensor *begin) {
  td_tensor *y = &c->out[0];
  int64_t n = td_tensor_count(y);
  TD_TRY(TD_LAUNCH(c, (spread<E>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                   td_cuda_at<const E>(td_in(c, 3)), td_cuda_at<E>(y)));
  return TD_LAUNCH(c, (put_last<E>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                   td_cuda_at<const int64_t>(begin),
                   td_cuda_at<const int64_t>(items),
                   td_in(c, 2)->shape.rank == 0,
                   td_cuda_at<const E>(td_in(c, 2)), td_cuda_at<E>(y));
}

td_status *fill_by_size(td_kernel_ctx *c, const td_tensor *items,
                        const td_tensor *begin) {
  switch (td_dtype_size(c->out[0].dtype)) {
  case 1:
    return fill_dense<uint8_t>(c, items, begin);
  case 2:
    return fill_dense<uint16_t>(c, items, begin);
  case 4:
    return fill_dense<uint32_t>(c, items, begin);
  case 8:
    return fill_dense<uint64_t>(c, items, begin);
  default:
    return fill_dense<td_wide>(c, items, begin);
  }
}

td_status *to_dense_run(td_kernel_ctx *c) {
  td_tensor to = {}, items = {}, begin = {}, *y;
  td_shape shape;
  int64_t n;
  TD_TRY(td_to_dense_read(c, &shape, &n));
  TD_TRY(td_out(c, 0, &shape, &y));
  place f = place_of(c, &shape,
                     "sparse_indices are out of range, or not sorted and each "
                     "once: %lld, against %lld");
  bool sorted = td_node_bool(td_ctx_node(c), "validate_indices");
  td_status *s = list_of(c, n, &to);
  if (td_ok(s) && n > 0)
    s = TD_LAUNCH(c, list_places, td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n, f,
                  sorted, td_cuda_at<int64_t>(&to));
  int64_t count = td_tensor_count(y);
  if (td_ok(s) && count > 0)
    s = td_cuda_row_order(c, n, td_cuda_at<const int64_t>(&to), count, &items,
                          &begin);
  if (td_ok(s) && count > 0) s = fill_by_size(c, &items, &begin);
  td_tensor_release(&to);
  td_tensor_release(&items);
  td_tensor_release(&begin);
  return s;
}

/* ---- SparseTensorDenseMatMul --------------------------------------------- */

/* The row of each element, and the column, of op(A). */
__global__ void split_pairs(int64_t n, numbers index, bool turn, int64_t rows,
                            int64_t cols, int64_t *row, int64_t *col,
                            td_cuda_report report) {
  TD_EACH(i, n) {
    int64_t r = index(2 * i + turn), k = index(2 * i + !turn);
    bool bad = r < 0 || r >= rows || k < 0 || k >= cols;
    if (bad) td_cuda_tell(report, r < 0 || r >= rows ? r : k,
                          r < 0 || r >= rows ? rows : cols);
    row[i] = bad ? -1 : r;
    col[i] = bad ? 0 : k;
  }
}

template <class T> struct product_of {
  td_sparse_product p;
  const int64_t *begin, *items, *col;
  const T *a, *x;
};

template <class T>
__global__ void multiply(int64_t n, product_of<T> f, T *y) {
  typedef typename td_num<T>::in in;
  TD_EACH(i, n) {
    int64_t row = i / f.p.cols, j = i - row * f.p.cols;
    in sum = in(0);
    for (int64_t k = f.begin[row]; k < f.begin[row + 1]; k++) {
      int64_t item = f.items[k], col = f.col[item];
      in a = td_num<T>::load(f.a[item]);
      in b = td_num<T>::load(
          f.x[f.p.turn_b ? j * f.p.inner + col : col * f.p.cols + j]);
      if (f.p.turn_a) a = td_num_conj(a);
      if (f.p.turn_b) b = td_num_conj(b);
      sum = (in)(sum + a * b);
    }
    y[i] = td_num<T>::store(sum);
  }
}

struct product_lists {
  td_tensor row, col, items, begin;
};

template <class T>
td_status *launch(td_kernel_ctx *c, const td_sparse_product *p,
                  const product_lists *l) {
  td_tensor *y = &c->out[0];
  int64_t n = td_tensor_count(y);
  product_of<T> f = {*p,
                     td_cuda_at<const int64_t>(&l->begin),
                     td_cuda_at<const int64_t>(&l->items),
                     td_cuda_at<const int64_t>(&l->col),
                     td_cuda_at<const T>(td_in(c, 1)),
                     td_cuda_at<const T>(td_in(c, 3))};
  return TD_LAUNCH(c, (multiply<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n, f,
                   td_cuda_at<T>(y));
}

td_status *multiply_by_type(td_kernel_ctx *c, const td_sparse_product *p,
                            const product_lists *l) {
  switch ((int)c->out[0].dtype) {
  case TD_FLOAT16:
    return launch<td_f16>(c, p, l);
  case TD_BFLOAT16:
    return launch<td_bf16>(c, p, l);
  case TD_FLOAT32:
    return launch<float>(c, p, l);
  case TD_FLOAT64:
    return launch<double>(c, p, l);
  case TD_INT32:
    return launch<int32_t>(c, p, l);
  case TD_COMPLEX64:
    return launch<td_c64>(c, p, l);
  case TD_COMPLEX128:
    return launch<td_c128>(c, p, l);
  default:
    return td_cuda_no_type(c, 1);
  }
}

td_status *order_pairs(td_kernel_ctx *c, const td_sparse_product *p,
                       product_lists *l) {
  td_cuda_report report =
      td_cuda_report_of(c, "an index of a_indices is %lld, not in [0, %lld)");
  TD_TRY(list_of(c, p->n, &l->row));
  TD_TRY(list_of(c, p->n, &l->col));
  if (p->n > 0)
    TD_TRY(TD_LAUNCH(c, split_pairs, td_cuda_grid(c, p->n), TD_CUDA_BLOCK, 0,
                     p->n, numbers_of(td_in(c, 0), 0), p->turn_a, p->rows,
                     p->inner, td_cuda_at<int64_t>(&l->row),
                     td_cuda_at<int64_t>(&l->col), report));
  return td_cuda_row_order(c, p->n, td_cuda_at<const int64_t>(&l->row), p->rows,
                           &l->items, &l->begin);
}

td_status *product_run(td_kernel_ctx *c) {
  td_sparse_product p;
  product_lists l = {};
  td_tensor *y;
  TD_TRY(td_sparse_product_read(c, &p));
  td_shape shape = td_shape_matrix(p.rows, p.cols);
  TD_TRY(td_out(c, 0, &shape, &y));
  td_status *s = order_pairs(c, &p, &l);
  if (td_ok(s) && td_tensor_count(y) > 0) s = multiply_by_type(c, &p, &l);
  td_tensor_release(&l.row);
  td_tensor_release(&l.col);
  td_tensor_release(&l.items);
  td_tensor_release(&l.begin);
  return s;
}

/* ---- SparseReorder ------------------------------------------------------- */

__global__ void place_keys(int64_t n, place f, uint64_t *keys, int64_t *items) {
  TD_EACH(i, n) {
    int64_t at = f(i);
    keys[i] = at < 0 ? 0 : (uint64_t)at;
    items[i] = i;
  }
}

struct listed {
  const int64_t *row;
  __device__ int64_t operator()(int64_t i) const {
    return row[i];
  }
};

td_status *take(td_kernel_ctx *c, int k, const int64_t *items) {
  const td_tensor *x = td_in(c, k);
  td_tensor *y;
  TD_TRY(td_out(c, k, &x->shape, &y));
  int64_t n = x->shape.dim[0];
  int64_t each = td_shape_span(&x->shape, 1, x->shape.rank);
  return td_cuda_rows(c, listed{items}, n,
                      each * (int64_t)td_dtype_size(x->dtype), x->data,
                      y->data);
}

td_status *reorder(td_kernel_ctx *c, const td_shape *shape,
                   td_cuda_sorting *by) {
  int64_t n = td_tensor_count(td_in(c, 1)), most = td_shape_count(shape);
  place f = place_of(c, shape, "an index is %lld, not in [0, %lld)");
  TD_TRY(td_cuda_sort_new(c, n, td_cuda_bits((uint64_t)most), by));
  if (n > 0)
    TD_TRY(TD_LAUNCH(c, place_keys, td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n, f,
                     by->keys, by->items));
  TD_TRY(td_cuda_sort(c, by));
  TD_TRY(take(c, 0, by->items));
  return take(c, 1, by->items);
}

td_status *reorder_run(td_kernel_ctx *c) {
  td_shape shape;
  td_cuda_sorting by = {};
  TD_TRY(td_sparse_reorder_read(c, &shape));
  td_status *s = reorder(c, &shape, &by);
  td_cuda_sort_drop(&by);
  return s;
}

/* ---- tables -------------------------------------------------------------- */

#define FLOATS "half|bfloat16|float|double"
#define LAST(op_, types_, over)                                                \
  {.op = op_,                                                                  \
   .device = "CUDA",                                                           \
   .types = "T=" types_,                                                       \
   .start = last_start<over>,                                                  \
   .cancel = td_cuda_no_cancel}
#define ROW(op_, types_, run_)                                                 \
  {.op = op_, .device = "CUDA", .types = "T=" types_, .run = run_}

const td_kernel_def kernels[] = {
    LAST("SparseSegmentSum", TD_CUDA_REALS, TD_ROW_BY_ONE),
    LAST("SparseSegmentMean", FLOATS, TD_ROW_BY_COUNT),
    LAST("SparseSegmentSqrtN", FLOATS, TD_ROW_BY_ROOT),
    ROW("SparseSegmentSumWithNumSegments", TD_CUDA_REALS,
        counted_run<TD_ROW_BY_ONE>),
    ROW("SparseSegmentMeanWithNumSegments", FLOATS,
        counted_run<TD_ROW_BY_COUNT>),
    ROW("SparseSegmentSqrtNWithNumSegments", FLOATS,
        counted_run<TD_ROW_BY_ROOT>),
    ROW("SparseSegmentSumGrad", FLOATS, back_run<TD_ROW_BY_ONE>),
    ROW("SparseSegmentMeanGrad", FLOATS, back_run<TD_ROW_BY_COUNT>),
    ROW("SparseSegmentSqrtNGrad", FLOATS, back_run<TD_ROW_BY_ROOT>),
    ROW("SparseToDense", TD_CUDA_PLAIN, to_dense_run),
    ROW("SparseTensorDenseMatMul",
        "half|bfloat16|float|double|int32|complex64|complex128", product_run),
    ROW("SparseReorder", TD_CUDA_PLAIN, reorder_run),
    {},
};

} // namespace

TD_CUDA_MODULE(sparse, kernels)
