/* row_reduce.cu - rows reduced by number on a card; see row_reduce.h.
 *
 * The items are sorted by the row they go to, those of one row in their order,
 * so that each element of the result is made by one thread from first to last:
 * the same bits in every run, and mostly those of the CPU. Halves are reduced
 * in float and rounded once.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/row_reduce.cuh"
#include "kernels/cuda/sort.cuh"

#include <float.h>

namespace {

/* ---- where the items of each row are ------------------------------------- */

__global__ void fill_keys(int64_t n, int64_t rows, const int64_t *to,
                          uint64_t *keys, int64_t *items) {
  TD_EACH(i, n) {
    keys[i] = (uint64_t)(to[i] < 0 ? rows : to[i]);
    items[i] = i;
  }
}

/* begin[row]: the first of n sorted keys that is not below it. */
__global__ void find_rows(int64_t rows, int64_t n, const uint64_t *keys,
                          int64_t *begin) {
  TD_EACH(row, rows) {
    int64_t low = 0, high = n;
    while (low < high) {
      int64_t half = low + (high - low) / 2;
      if (keys[half] < (uint64_t)row)
        low = half + 1;
      else
        high = half;
    }
    begin[row] = low;
  }
}

td_status *sort_items(td_kernel_ctx *c, int64_t n, const int64_t *to,
                      int64_t rows, td_cuda_sorting *by, int64_t *begin) {
  TD_TRY(td_cuda_sort_new(c, n, td_cuda_bits((uint64_t)rows), by));
  if (n > 0) {
    TD_TRY(TD_LAUNCH(c, fill_keys, td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                     rows, to, by->keys, by->items));
    TD_TRY(td_cuda_sort(c, by));
  }
  return TD_LAUNCH(c, find_rows, td_cuda_grid(c, rows + 1), TD_CUDA_BLOCK, 0,
                   rows + 1, n, by->keys, begin);
}

/* ---- kernels ------------------------------------------------------------- */

struct op_sum {
  template <class T> static __device__ inline T of(T x, T y) {
    return (T)(x + y);
  }
};
struct op_sub {
  template <class T> static __device__ inline T of(T x, T y) {
    return (T)(x - y);
  }
};
struct op_prod {
  template <class T> static __device__ inline T of(T x, T y) {
    return (T)(x * y);
  }
};
struct op_max {
  template <class T> static __device__ inline T of(T x, T y) {
    return td_num_max(x, y);
  }
};
struct op_min {
  template <class T> static __device__ inline T of(T x, T y) {
    return td_num_min(x, y);
  }
};
struct op_or {
  template <class T> static __device__ inline T of(T x, T y) {
    return (T)(x | y);
  }
};

template <class A> struct job {
  const int64_t *begin, *items, *from; /* NULL: item i is row i */
  const double *by;                    /* NULL: 1 */
  A start, empty; /* of a row; of one that nothing goes to */
  td_row_divisor over;
};

template <class A> __device__ inline A divide(A sum, int64_t n) {
  return n > 1 ? (A)(sum / (A)n) : sum;
}
/* The count may be more than a short integer holds. */
template <class A> __device__ inline A divide_wide(A sum, int64_t n) {
  return (A)((int64_t)sum / n);
}
__device__ inline int8_t divide(int8_t sum, int64_t n) {
  return n > 1 ? divide_wide(sum, n) : sum;
}
__device__ inline int16_t divide(int16_t sum, int64_t n) {
  return n > 1 ? divide_wide(sum, n) : sum;
}
__device__ inline int32_t divide(int32_t sum, int64_t n) {
  return n > 1 ? divide_wide(sum, n) : sum;
}
__device__ inline uint8_t divide(uint8_t sum, int64_t n) {
  return n > 1 ? divide_wide(sum, n) : sum;
}
__device__ inline uint16_t divide(uint16_t sum, int64_t n) {
  return n > 1 ? divide_wide(sum, n) : sum;
}
__device__ inline uint32_t divide(uint32_t sum, int64_t n) {
  return n > 1 ? divide_wide(sum, n) : sum;
}
__device__ inline td_c64 divide(td_c64 sum, int64_t n) {
  return n > 1 ? td_c64(sum.re / (float)n, sum.im / (float)n) : sum;
}
__device__ inline td_c128 divide(td_c128 sum, int64_t n) {
  return n > 1 ? td_c128(sum.re / (double)n, sum.im / (double)n) : sum;
}

template <class A> __device__ inline A divide_root(A sum, int64_t n) {
  return n > 1 ? (A)(sum / (A)sqrt((double)n)) : sum;
}
__device__ inline td_c64 divide_root(td_c64 sum, int64_t n) {
  (void)n;
  return sum;
}
__device__ inline td_c128 divide_root(td_c128 sum, int64_t n) {
  (void)n;
  return sum;
}

/* Weights are of floats. */
template <class A> __device__ inline A weighted(A x, const double *by) {
  return by ? (A)(x * (A)*by) : x;
}
__device__ inline td_c64 weighted(td_c64 x, const double *) {
  return x;
}
__device__ inline td_c128 weighted(td_c128 x, const double *) {
  return x;
}

/* `base`: what rows begin with; NULL: j.start. It may be y. */
template <class O, class T>
__global__ void reduce(int64_t n, int64_t each, job<typename td_num<T>::in> j,
                       const T *x, const T *base, T *y) {
  typedef typename td_num<T>::in A;
  TD_EACH(i, n) {
    int64_t row = i / each, col = i - row * each;
    int64_t first = j.begin[row], last = j.begin[row + 1];
    A acc = base ? (A)td_num<T>::load(base[i]) : j.start;
    for (int64_t k = first; k < last; k++) {
      int64_t item = j.items[k], at = j.from ? j.from[item] : item;
      A v = td_num<T>::load(x[at * each + col]);
      acc = O::of(acc, weighted(v, j.by ? j.by + item : nullptr));
    }
    if (first == last && !base) acc = j.empty;
    if (j.over == TD_ROW_BY_COUNT) acc = divide(acc, last - first);
    if (j.over == TD_ROW_BY_ROOT) acc = divide_root(acc, last - first);
    y[i] = td_num<T>::store(acc);
  }
}

/* The last item of a row stays. */
template <class E>
__global__ void set_last(int64_t n, int64_t each, const int64_t *begin,
                         const int64_t *items, const E *x, const E *base,
                         E *y) {
  TD_EACH(i, n) {
    int64_t row = i / each, col = i - row * each, last = begin[row + 1];
    y[i] = last > begin[row] ? x[items[last - 1] * each + col] : base[i];
  }
}

/* ---- where rows begin ---------------------------------------------------- */

template <class A> struct range;
#define RANGE(A, low, high)                                                    \
  template <> struct range<A> {                                                \
    static A lowest() {                                                        \
      return low;                                                              \
    }                                                                          \
    static A highest() {                                                       \
      return high;                                                             \
    }                                                                          \
  };
RANGE(float, -INFINITY, INFINITY)
RANGE(double, -INFINITY, INFINITY)
RANGE(int8_t, INT8_MIN, INT8_MAX)
RANGE(int16_t, INT16_MIN, INT16_MAX)
RANGE(int32_t, INT32_MIN, INT32_MAX)
RANGE(int64_t, INT64_MIN, INT64_MAX)
RANGE(uint8_t, 0, UINT8_MAX)
RANGE(uint16_t, 0, UINT16_MAX)
RANGE(uint32_t, 0, UINT32_MAX)
RANGE(uint64_t, 0, UINT64_MAX)

template <class A> constexpr bool is_complex = false;
template <class R> constexpr bool is_complex<td_complex<R>> = true;

double largest_float(td_dtype t) {
  if (t == TD_FLOAT16) return 65504;
  if (t == TD_BFLOAT16) return 0x1.fep127;
  return t == TD_FLOAT32 ? (double)FLT_MAX : DBL_MAX;
}

/* The largest finite number; of integers, the largest. */
template <class A> A largest(td_dtype t) {
  if constexpr ((A)0.5f == (A)0) {
    return range<A>::highest();
  } else {
    return (A)largest_float(t);
  }
}

template <class A>
void begin_with(const td_row_reduce *f, td_dtype t, job<A> *j) {
  j->start = j->empty = f->op == TD_ROW_REDUCE_PROD ? A(1) : A();
  if (f->op != TD_ROW_REDUCE_MAX && f->op != TD_ROW_REDUCE_MIN) return;
  if constexpr (!is_complex<A>) {
    bool max = f->op == TD_ROW_REDUCE_MAX;
    j->start = max ? range<A>::lowest() : range<A>::highest();
    j->empty = j->start;
    if (f->zero)
      j->empty = A();
    else if (td_dtype_is_float(t))
      j->empty = max ? (A)(0 - largest<A>(t)) : largest<A>(t);
  }
}

/* ---- launches ------------------------------------------------------------ */

struct places {
  const td_row_reduce *f;
  const int64_t *begin, *items;
  const td_tensor *x;
  const void *base;
  td_tensor *y;
  td_row_divisor over;
};

template <class O, class T>
td_status *launch(td_kernel_ctx *c, const places *p) {
  int64_t n = td_tensor_count(p->y);
  job<typename td_num<T>::in> j;
  j.begin = p->begin;
  j.items = p->items;
  j.from = p->f->from;
  j.by = p->f->by;
  j.over = p->over;
  begin_with(p->f, p->y->dtype, &j);
  const T *x = td_cuda_at<const T>(p->x), *base = (const T *)p->base;
  return TD_LAUNCH(c, (reduce<O, T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                   p->f->each, j, x, base, td_cuda_at<T>(p->y));
}

template <class E> td_status *launch_set(td_kernel_ctx *c, const places *p) {
  int64_t n = td_tensor_count(p->y);
  const E *x = td_cuda_at<const E>(p->x), *base = (const E *)p->base;
  return TD_LAUNCH(c, (set_last<E>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                   p->f->each, p->begin, p->items, x, base,
                   td_cuda_at<E>(p->y));
}

#define CASE(kind, op)                                                         \
  case TD_ELEMENT_##kind:                                                      \
    return launch<op, td_##kind>(c, p);
#define BY_TYPE(name, op, each, halves)                                        \
  td_status *run_##name(td_kernel_ctx *c, const places *p) {                   \
    switch ((int)p->y->dtype) {                                                \
      each(CASE, op) halves(CASE, op) default : return td_cuda_no_type(c, 0);  \
    }                                                                          \
  }
BY_TYPE(sum, op_sum, EACH_NUMBERS, HALVES_NUMBERS)
BY_TYPE(sub, op_sub, EACH_NUMBERS, HALVES_NUMBERS)
BY_TYPE(prod, op_prod, EACH_NUMBERS, HALVES_NUMBERS)
BY_TYPE(max, op_max, EACH_REALS, HALVES_REALS)
BY_TYPE(min, op_min, EACH_REALS, HALVES_REALS)

td_status *run_set(td_kernel_ctx *c, const places *p) {
  switch (td_dtype_size(p->y->dtype)) {
  case 1:
    return launch_set<uint8_t>(c, p);
  case 2:
    return launch_set<uint16_t>(c, p);
  case 4:
    return launch_set<uint32_t>(c, p);
  case 8:
    return launch_set<uint64_t>(c, p);
  default:
    return launch_set<td_wide>(c, p);
  }
}

td_status *run(td_kernel_ctx *c, const places *p) {
  switch (p->f->op) {
  case TD_ROW_REDUCE_SUM:
    if (p->y->dtype == TD_BOOL) return launch<op_or, uint8_t>(c, p);
    return run_sum(c, p);
  case TD_ROW_REDUCE_SUB:
    return run_sub(c, p);
  case TD_ROW_REDUCE_PROD:
    return run_prod(c, p);
  case TD_ROW_REDUCE_MAX:
    return run_max(c, p);
  case TD_ROW_REDUCE_MIN:
    return run_min(c, p);
  default:
    return run_set(c, p);
  }
}

} // namespace

extern "C" td_status *td_cuda_row_order(td_kernel_ctx *c, int64_t n,
                                        const int64_t *to, int64_t rows,
                                        td_tensor *items, td_tensor *begin) {
  td_cuda_sorting by = {};
  td_shape all = td_shape_vector(rows + 1);
  *items = td_tensor{};
  TD_TRY(td_temp(c, TD_INT64, &all, begin));
  td_status *s =
      sort_items(c, n, to, rows, &by, td_cuda_at<int64_t>(begin));
  if (td_ok(s)) td_tensor_retain(&by.held[td_sort_now(&by)][1], items);
  td_cuda_sort_drop(&by);
  return s;
}

extern "C" td_status *td_cuda_row_reduce(td_kernel_ctx *c, int in,
                                         const td_row_reduce *f,
                                         td_row_divisor over,
                                         const td_shape *shape) {
  td_tensor base = *td_in(c, 0), *y, items = {}, begin = {};
  TD_TRY(td_out_forward(c, 0, shape, f->onto ? 0 : -1, -1, &y));
  int64_t count = td_shape_count(shape);
  if (count == 0) return nullptr;
  td_status *s =
      td_cuda_row_order(c, f->n, f->to, count / f->each, &items, &begin);
  if (td_ok(s)) {
    places p = {f,
                td_cuda_at<const int64_t>(&begin),
                td_cuda_at<const int64_t>(&items),
                td_in(c, in),
                f->onto ? base.data : nullptr,
                y,
                over};
    s = run(c, &p);
  }
  td_tensor_release(&items);
  td_tensor_release(&begin);
  return s;
}
