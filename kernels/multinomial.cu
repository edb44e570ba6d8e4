/* multinomial.cu - classes drawn from rows of logits, on a card: the numbers
 * are the CPU's, and so are the classes but where two of them meet by a last
 * bit.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <float.h>

#include "kernels/cuda/group.cuh"
#include "kernels/cuda/philox.cuh"
#include "kernels/cuda/scan.cuh"
#include "kernels/multinomial.h"
#include "kernels/random_stateless.h"

namespace {

enum { SUMS = 1 << 22 }; /* of the rows at hand, if not of a single one */

TD_DEVICE bool counts(double x) {
  return fabs(x) <= DBL_MAX;
}

/* A block a row, a thread some neighbouring classes: their running sums.
 * Logits that are not finite count for nothing. */
template <class T>
__global__ void add_up(int64_t rows, int64_t classes, const T *logits,
                       double *sums) {
  int64_t each = (classes + blockDim.x - 1) / blockDim.x;
  int64_t begin = (int64_t)threadIdx.x * each, end = begin + each;
  if (end > classes) end = classes;
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const T *x = logits + r * classes;
    double largest = -DBL_MAX, total = 0, all;
    for (int64_t k = begin; k < end; k++) {
      double v = (double)td_num<T>::load(x[k]);
      if (counts(v) && v > largest) largest = v;
    }
    largest = group_join<group_larger, 256>(largest);
    for (int64_t k = begin; k < end; k++) {
      double v = (double)td_num<T>::load(x[k]);
      if (counts(v)) total += exp(v - largest);
    }
    double before = td_block_scan(total, &all);
    for (int64_t k = begin; k < end; k++) {
      double v = (double)td_num<T>::load(x[k]);
      if (counts(v)) before += exp(v - largest);
      sums[r * classes + k] = before;
    }
  }
}

/* The first class whose running sum is above x; the last one in a row without
 * a finite logit. */
TD_DEVICE int64_t look_up(const double *sums, int64_t n, double x) {
  int64_t low = 0, high = n - 1;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (sums[middle] > x)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/* Of samples [first, first + n). */
template <class I>
__global__ void draw(int64_t first, int64_t n, int64_t classes,
                     int64_t samples, td_philox base, const double *sums,
                     I *to) {
  TD_EACH(k, n) {
    int64_t i = first + k;
    const double *row = sums + k / samples * classes;
    uint32_t words[4];
    td_philox_block(base, (uint64_t)i / 2, words);
    double x = td_philox_double(words + i % 2 * 2) * row[classes - 1];
    to[i] = (I)look_up(row, classes, x);
  }
}

/* ---- launches ------------------------------------------------------------ */

template <class T, class I>
td_status *some_rows(td_kernel_ctx *c, const td_multinomial *p, int64_t first,
                     int64_t rows, double *sums) {
  int64_t n = rows * p->samples;
  TD_TRY(TD_LAUNCH(c, (add_up<T>), td_cuda_grid(c, rows * TD_CUDA_BLOCK), 256,
                   0, rows, p->classes,
                   td_cuda_at<const T>(td_in(c, 0)) + first * p->classes,
                   sums));
  return TD_LAUNCH(c, (draw<I>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0,
                   first * p->samples, n, p->classes, p->samples, p->base, sums,
                   td_cuda_at<I>(p->out));
}

template <class T>
td_status *all_rows(td_kernel_ctx *c, const td_multinomial *p) {
  td_tensor sums;
  int64_t most = p->classes < SUMS ? SUMS / p->classes : 1;
  if (most > p->rows) most = p->rows;
  td_shape shape = td_shape_matrix(most, p->classes);
  td_status *s = nullptr;
  TD_TRY(td_temp(c, TD_FLOAT64, &shape, &sums));
  for (int64_t at = 0; td_ok(s) && at < p->rows; at += most) {
    int64_t n = p->rows - at < most ? p->rows - at : most;
    double *to = td_cuda_at<double>(&sums);
    s = p->out->dtype == TD_INT32 ? some_rows<T, int32_t>(c, p, at, n, to)
                                  : some_rows<T, int64_t>(c, p, at, n, to);
  }
  td_tensor_release(&sums);
  return s;
}

td_status *run(td_kernel_ctx *c) {
  td_multinomial p;
  TD_TRY(td_multinomial_read(c, &p));
  if (td_tensor_count(p.out) == 0) return nullptr;
  switch ((int)td_in(c, 0)->dtype) {
  case TD_FLOAT16:
    return all_rows<td_half>(c, &p);
  case TD_BFLOAT16:
    return all_rows<td_bfloat>(c, &p);
  case TD_FLOAT32:
    return all_rows<float>(c, &p);
  default:
    return all_rows<double>(c, &p);
  }
}

const td_kernel_def kernels[] = {
    {.op = "Multinomial",
     .device = "CUDA",
     .types = "T=half|bfloat16|float|double",
     .run = run,
     .make = td_random_make,
     .drop = td_random_drop,
     .save = td_random_save,
     .load = td_random_load},
    {.op = "StatelessMultinomial",
     .device = "CUDA",
     .types = "T=half|bfloat16|float|double",
     .run = run},
    {},
};

} // namespace

TD_CUDA_MODULE(multinomial, kernels)
