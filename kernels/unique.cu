/* unique.cu - Unique and its kin, and ListDiff, on a card.
 *
 * Elements, or slices, are sorted by their bits, long ones by a hash of them;
 * those that are the same stand side by side then, the first to occur first. A
 * running sum over the places of first ones numbers them as they occur. How
 * many there are is data: kernels in two halves (halves.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/sort.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/unique.h"

namespace {

/* ---- slices -------------------------------------------------------------- */

/* n slices of outer x inner elements, of parts that are compared as numbers: 0
 * and -0 are one, a NaN is like nothing. */
struct slices {
  const char *at;
  int64_t n, outer, inner;
  int parts, part; /* of an element: how many, and their bytes */
  bool real;
  uint64_t infinity;

  __device__ uint64_t load(const char *p) const {
    switch (part) {
    case 1:
      return *reinterpret_cast<const uint8_t *>(p);
    case 2:
      return *reinterpret_cast<const uint16_t *>(p);
    case 4:
      return *reinterpret_cast<const uint32_t *>(p);
    default:
      return *reinterpret_cast<const uint64_t *>(p);
    }
  }
  /* Part k of slice i. */
  __device__ uint64_t get(int64_t i, int64_t k, bool *alone) const {
    int64_t e = k / parts, o = e / inner;
    int64_t number = (o * n + i) * inner + (e - o * inner);
    uint64_t bits = load(at + (number * parts + k % parts) * part);
    uint64_t size = bits & ~((uint64_t)1 << (8 * part - 1));
    if (!real) return bits;
    *alone |= size > infinity;
    return size ? bits : 0;
  }
  __device__ int64_t count() const {
    return outer * inner * parts;
  }
  __device__ uint64_t key(int64_t i) const {
    bool alone = false;
    uint64_t h = 0;
    if (outer * inner * parts == 1) return get(i, 0, &alone);
    for (int64_t k = 0; k < count(); k++) {
      h = (h ^ get(i, k, &alone)) * 0x9e3779b97f4a7c15u;
      h ^= h >> 29;
    }
    return h;
  }
};

__device__ inline bool same(const slices &a, int64_t i, const slices &b,
                            int64_t j) {
  bool alone = false;
  for (int64_t k = 0; k < a.count(); k++)
    if (a.get(i, k, &alone) != b.get(j, k, &alone) || alone) return false;
  return true;
}

uint64_t infinity_of(td_dtype t) {
  if (t == TD_FLOAT16) return 0x7c00;
  if (t == TD_BFLOAT16) return 0x7f80;
  if (t == TD_FLOAT32 || t == TD_COMPLEX64) return 0x7f800000;
  return 0x7ff0000000000000;
}

slices slices_of(const td_tensor *x, int axis) {
  bool is_complex = td_dtype_is_complex(x->dtype);
  int size = (int)td_dtype_size(x->dtype);
  slices s;
  s.at = td_cuda_at<const char>(x);
  s.n = x->shape.dim[axis];
  s.outer = td_shape_span(&x->shape, 0, axis);
  s.inner = td_shape_span(&x->shape, axis + 1, x->shape.rank);
  s.part = is_complex || size > 8 ? size / 2 : size;
  s.parts = size / s.part;
  s.real = is_complex || td_dtype_is_float(x->dtype);
  s.infinity = infinity_of(x->dtype);
  return s;
}

/* The slices of one list, and behind them those of another. */
struct both {
  slices a, b;

  __device__ const slices &of(int64_t *i) const {
    if (*i < a.n) return a;
    *i -= a.n;
    return b;
  }
  __device__ uint64_t key(int64_t i) const {
    const slices &s = of(&i);
    return s.key(i);
  }
  __device__ bool alike(int64_t i, int64_t j) const {
    const slices &s = of(&i), &t = of(&j);
    return same(s, i, t, j);
  }
};

/* ---- runs ---------------------------------------------------------------- */

__global__ void fill_keys(int64_t n, both x, uint64_t *keys, int64_t *items) {
  TD_EACH(i, n) {
    keys[i] = x.key(i);
    items[i] = i;
  }
}

/* The first of a run of sorted ones that are alike. */
struct begins {
  both x;
  const uint64_t *keys;
  const int64_t *items;
  __device__ int64_t operator()(int64_t p) const {
    return p == 0 || keys[p] != keys[p - 1] || !x.alike(items[p - 1], items[p]);
  }
};

/* Run r has the sorted ones from[r] .. from[r + 1]; first[i]: does one occur
 * there for the first time? */
__global__ void mark_runs(int64_t n, const int64_t *run, const int64_t *items,
                          int64_t *from, int64_t *first) {
  TD_EACH(p, n) {
    bool begin = run[p + 1] != run[p];
    first[items[p]] = begin;
    if (begin) from[run[p]] = p;
    if (p == n - 1) from[run[n]] = n;
  }
}

struct marked {
  const int64_t *at;
  __device__ int64_t operator()(int64_t i) const {
    return at[i];
  }
};

enum { ITEMS, RUN, FROM, FIRST, BEFORE, WHICH }; /* held */

int64_t *held(const td_cuda_halves *h, int k) {
  return td_cuda_at<int64_t>(&h->held[k]);
}

td_status *hold(td_kernel_ctx *c, td_cuda_halves *h, int k, int64_t n) {
  td_shape all = td_shape_vector(n);
  return td_temp(c, TD_INT64, &all, &h->held[k]);
}

/* Of n in all; held[RUN]: the number of the run of each sorted one. */
td_status *find_runs(td_kernel_ctx *c, int64_t n, const both &x,
                     td_cuda_sorting *by, td_cuda_halves *h) {
  bool exact = x.a.outer * x.a.inner * x.a.parts == 1;
  TD_TRY(td_cuda_sort_new(c, n, exact ? 8 * x.a.part : 64, by));
  for (int k = RUN; k <= WHICH; k++) TD_TRY(hold(c, h, k, n + 1));
  if (n > 0)
    TD_TRY(TD_LAUNCH(c, fill_keys, td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n, x,
                     by->keys, by->items));
  TD_TRY(td_cuda_sort(c, by));
  td_tensor_retain(&by->held[td_sort_now(by)][1], &h->held[ITEMS]);
  TD_TRY(td_cuda_scan(c, n, begins{x, by->keys, by->items}, held(h, RUN)));
  if (n == 0) return nullptr;
  return TD_LAUNCH(c, mark_runs, td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                   held(h, RUN), by->items, held(h, FROM), held(h, FIRST));
}

/* which[k]: the k-th of those that are marked. */
__global__ void list_marked(int64_t n, const int64_t *before, int64_t *which,
                            int64_t *told) {
  TD_EACH(i, n) {
    if (before[i + 1] != before[i]) which[before[i]] = i;
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) *told = before[n];
}

/* Of marks[n]; their number is what is told. */
td_status *tell_marked(td_kernel_ctx *c, int64_t n, const int64_t *marks,
                       td_cuda_halves *h) {
  td_shape one = td_shape_vector(1);
  h->n = 1;
  TD_TRY(td_temp(c, TD_INT64, &one, &h->told));
  TD_TRY(td_cuda_scan(c, n, marked{marks}, held(h, BEFORE)));
  return TD_LAUNCH(c, list_marked, td_cuda_grid(c, n + 1), TD_CUDA_BLOCK, 0, n,
                   held(h, BEFORE), held(h, WHICH),
                   td_cuda_at<int64_t>(&h->told));
}

/* ---- results ------------------------------------------------------------- */

/* Slice `which` of x, of n, in each of `outer`. */
struct chosen {
  int64_t n, count;
  const int64_t *which;
  __device__ int64_t operator()(int64_t i) const {
    int64_t o = i / count;
    return o * n + which[i - o * count];
  }
};

td_status *put_slices(td_kernel_ctx *c, int axis, const td_cuda_halves *h) {
  const td_tensor *x = td_in(c, 0);
  td_shape shape = x->shape;
  td_tensor *y;
  shape.dim[axis] = h->number[0];
  TD_TRY(td_out(c, 0, &shape, &y));
  if (td_tensor_count(y) == 0) return nullptr;
  int64_t inner = td_shape_span(&shape, axis + 1, shape.rank);
  return td_cuda_rows(
      c, chosen{x->shape.dim[axis], shape.dim[axis], held(h, WHICH)},
      td_shape_span(&shape, 0, axis) * shape.dim[axis],
      inner * (int64_t)td_dtype_size(x->dtype), x->data, y->data);
}

/* Sorted one p's number, and how many are in the run that it begins. */
template <class I>
__global__ void number_all(int64_t n, const int64_t *items, const int64_t *run,
                           const int64_t *from, const int64_t *before, I *index,
                           I *count) {
  TD_EACH(p, n) {
    int64_t r = run[p + 1] - 1, number = before[items[from[r]]];
    index[items[p]] = (I)number;
    if (count && from[r] == p) count[number] = (I)(from[r + 1] - p);
  }
}

template <class I>
td_status *put_numbers(td_kernel_ctx *c, int64_t n, td_cuda_halves *h,
                       td_tensor *index, td_tensor *count) {
  return TD_LAUNCH(c, (number_all<I>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                   held(h, ITEMS), held(h, RUN), held(h, FROM), held(h, BEFORE),
                   td_cuda_at<I>(index),
                   count ? td_cuda_at<I>(count) : nullptr);
}

template <class I>
__global__ void narrow(int64_t n, const int64_t *from, I *to) {
  TD_EACH(i, n) to[i] = (I)from[i];
}

/* ---- Unique -------------------------------------------------------------- */

td_status *unique_first(td_kernel_ctx *c, td_cuda_halves *h) {
  int axis;
  td_tensor *index;
  td_cuda_sorting by = {};
  TD_TRY(td_unique_axis(c, &axis));
  td_shape all = td_shape_vector(td_in(c, 0)->shape.dim[axis]);
  TD_TRY(td_out(c, 1, &all, &index)); /* refuses more than the limit */
  both x = {slices_of(td_in(c, 0), axis), {}};
  td_status *s = find_runs(c, x.a.n, x, &by, h);
  if (td_ok(s)) s = tell_marked(c, x.a.n, held(h, FIRST), h);
  td_cuda_sort_drop(&by);
  return s;
}

td_status *unique_second(td_kernel_ctx *c, td_cuda_halves *h) {
  int axis;
  td_tensor *index = &c->out[1], *count = nullptr;
  TD_TRY(td_unique_axis(c, &axis));
  int64_t n = td_in(c, 0)->shape.dim[axis];
  td_shape some = td_shape_vector(h->number[0]);
  TD_TRY(put_slices(c, axis, h));
  if (c->n_out > 2) TD_TRY(td_out(c, 2, &some, &count));
  if (n == 0) return nullptr;
  return index->dtype == TD_INT32 ? put_numbers<int32_t>(c, n, h, index, count)
                                  : put_numbers<int64_t>(c, n, h, index, count);
}

void unique_start(td_kernel_ctx *c) {
  td_cuda_in_halves(c, unique_first, unique_second);
}

/* ---- ListDiff ------------------------------------------------------------ */

/* marks[i]: does no y stand in the run of x's element i? The y come first. */
__global__ void mark_missing(int64_t n, int64_t ny, const int64_t *items,
                             const int64_t *run, const int64_t *from,
                             int64_t *marks) {
  TD_EACH(p, n) {
    if (items[p] >= ny)
      marks[items[p] - ny] = items[from[run[p + 1] - 1]] >= ny;
  }
}

td_status *diff_runs(td_kernel_ctx *c, td_cuda_sorting *by, td_cuda_halves *h) {
  both x = {slices_of(td_in(c, 1), 0), slices_of(td_in(c, 0), 0)};
  int64_t n = x.a.n + x.b.n;
  TD_TRY(find_runs(c, n, x, by, h));
  if (n > 0)
    TD_TRY(TD_LAUNCH(c, mark_missing, td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                     x.a.n, by->items, held(h, RUN), held(h, FROM),
                     held(h, FIRST)));
  return tell_marked(c, x.b.n, held(h, FIRST), h);
}

td_status *diff_first(td_kernel_ctx *c, td_cuda_halves *h) {
  td_cuda_sorting by = {};
  TD_TRY(td_list_diff_check(c));
  td_status *s = diff_runs(c, &by, h);
  td_cuda_sort_drop(&by);
  return s;
}

td_status *diff_second(td_kernel_ctx *c, td_cuda_halves *h) {
  td_tensor *index;
  int64_t n = h->number[0];
  td_shape some = td_shape_vector(n);
  TD_TRY(put_slices(c, 0, h));
  TD_TRY(td_out(c, 1, &some, &index));
  if (n == 0) return nullptr;
  if (index->dtype == TD_INT32)
    return TD_LAUNCH(c, (narrow<int32_t>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0,
                     n, held(h, WHICH), td_cuda_at<int32_t>(index));
  return TD_LAUNCH(c, (narrow<int64_t>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0,
                   n, held(h, WHICH), td_cuda_at<int64_t>(index));
}

void diff_start(td_kernel_ctx *c) {
  td_cuda_in_halves(c, diff_first, diff_second);
}

/* ---- tables -------------------------------------------------------------- */

#define ROW(op_, start_)                                                       \
  {.op = op_,                                                                  \
   .device = "CUDA",                                                           \
   .types = "T=" TD_CUDA_PLAIN,                                                \
   .start = start_,                                                            \
   .cancel = td_cuda_no_cancel}

const td_kernel_def kernels[] = {
    ROW("Unique", unique_start),
    ROW("UniqueWithCounts", unique_start),
    ROW("UniqueV2", unique_start),
    ROW("UniqueWithCountsV2", unique_start),
    ROW("ListDiff", diff_start),
    {},
};

} // namespace

TD_CUDA_MODULE(unique, kernels)
