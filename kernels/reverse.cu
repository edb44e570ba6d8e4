/* reverse.cu - ReverseSequence, DynamicStitch, ExtractImagePatches on a card:
 * rows by numbers, some of which the host has.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/cuda/upload.cuh"
#include "kernels/row_plans.h"

namespace {

/* ---- ReverseSequence ----------------------------------------------------- */

struct reversed {
  int64_t seq, seq_step, batch, batch_step; /* sizes, and rows apart */
  const int64_t *length;
  __device__ int64_t operator()(int64_t i) const {
    int64_t at = i / seq_step % seq, n = length[i / batch_step % batch];
    return at < n ? i + (n - 1 - 2 * at) * seq_step : i;
  }
};

struct number_of {
  const td_tensor *t;
  int64_t operator()(int64_t i) const {
    return td_tensor_get_i(t, i);
  }
};

td_status *reverse_run(td_kernel_ctx *c) {
  const td_tensor *x = td_in(c, 0);
  const td_shape *s = &x->shape;
  int seq, batch;
  td_tensor *y, lengths = {};
  TD_TRY(td_reverse_sequence_read(c, &seq, &batch));
  TD_TRY(td_out(c, 0, s, &y));
  if (td_tensor_count(y) == 0) return nullptr;
  td_status *e =
      td_cuda_upload(c, s->dim[batch], number_of{td_in(c, 1)}, &lengths);
  int axes = (seq > batch ? seq : batch) + 1;
  reversed f = {s->dim[seq], td_shape_span(s, seq + 1, axes), s->dim[batch],
                td_shape_span(s, batch + 1, axes),
                td_cuda_at<const int64_t>(&lengths)};
  int64_t each = td_shape_span(s, axes, s->rank);
  if (td_ok(e))
    e = td_cuda_rows(c, f, td_shape_span(s, 0, axes),
                     each * (int64_t)td_dtype_size(x->dtype), x->data,
                     y->data);
  td_tensor_release(&lengths);
  return e;
}

/* ---- DynamicStitch ------------------------------------------------------- */

/* Row k of x becomes row to[k], or none where that is -1. */
__global__ void put_rows(int64_t n, int64_t bytes, const int64_t *to,
                         const char *x, char *y) {
  TD_EACH(i, n) {
    int64_t k = i / bytes;
    if (to[k] >= 0) y[to[k] * bytes + (i - k * bytes)] = x[i];
  }
}
template <class E>
__global__ void put_elements(int64_t n, int64_t each, const int64_t *to,
                             const E *x, E *y) {
  TD_EACH(i, n) {
    int64_t k = i / each;
    if (to[k] >= 0) y[to[k] * each + (i - k * each)] = x[i];
  }
}

/* Rows of input i are put where its indices say, but where a later one of the
 * same input is put: then in any order it is the last that stays. */
td_status *put_input(td_kernel_ctx *c, int i, int64_t *last, td_tensor *y,
                     int64_t bytes) {
  const td_tensor *at = td_in(c, i), *x = td_in(c, c->n_in / 2 + i);
  int64_t n = td_tensor_count(at);
  td_tensor list = {};
  for (int64_t k = 0; k < n; k++) last[td_tensor_get_i(at, k)] = k;
  auto get = [&](int64_t k) {
    int64_t to = td_tensor_get_i(at, k);
    return last[to] == k ? to : -1;
  };
  if (n == 0 || bytes == 0) return nullptr;
  td_status *s = td_cuda_upload(c, n, get, &list);
  const int64_t *to = td_cuda_at<const int64_t>(&list);
  bool whole = (((uintptr_t)x->data | (uintptr_t)y->data | (uint64_t)bytes) &
                3) == 0;
  int64_t all = whole ? n * (bytes / 4) : n * bytes;
  if (td_ok(s) && whole)
    s = TD_LAUNCH(c, (put_elements<uint32_t>), td_cuda_grid(c, all),
                  TD_CUDA_BLOCK, 0, all, bytes / 4, to,
                  td_cuda_at<const uint32_t>(x), td_cuda_at<uint32_t>(y));
  else if (td_ok(s))
    s = TD_LAUNCH(c, put_rows, td_cuda_grid(c, all), TD_CUDA_BLOCK, 0, all,
                  bytes, to, td_cuda_at<const char>(x), td_cuda_at<char>(y));
  td_tensor_release(&list);
  return s;
}

td_status *stitch_run(td_kernel_ctx *c) {
  td_shape shape;
  td_tensor *y;
  TD_TRY(td_stitch_shape(c, &shape));
  TD_TRY(td_out(c, 0, &shape, &y));
  if (td_tensor_count(y) == 0) return nullptr;
  int64_t bytes = td_shape_span(&shape, 1, shape.rank) *
                  (int64_t)td_dtype_size(y->dtype);
  int64_t *last = (int64_t *)td_calloc((size_t)shape.dim[0], sizeof *last);
  if (!last) return td_oom();
  td_status *s = td_cuda_ok(
      cudaMemsetAsync(y->data, 0, td_tensor_bytes(y), td_cuda_stream(c)),
      "a fill");
  for (int i = 0; i < c->n_in / 2 && td_ok(s); i++)
    s = put_input(c, i, last, y, bytes);
  td_free(last);
  return s;
}

/* ---- ExtractImagePatches ------------------------------------------------- */

/* Pixel i of {batch, height, width, window height, window width}. */
struct patched {
  td_patches_plan p;
  __device__ int64_t operator()(int64_t i) const {
    int64_t at[2], of[2];
    for (int k = 1; k >= 0; k--) {
      of[k] = i % p.window[k];
      i /= p.window[k];
    }
    for (int k = 1; k >= 0; k--) {
      at[k] = i % p.out[k] * p.stride[k] - p.before[k] + of[k] * p.rate[k];
      i /= p.out[k];
      if (at[k] < 0 || at[k] >= p.in[k]) return -1;
    }
    return (i * p.in[0] + at[0]) * p.in[1] + at[1];
  }
};

td_status *patches_run(td_kernel_ctx *c) {
  patched f = {};
  td_tensor *y;
  TD_TRY(td_patches_read(c, &f.p));
  TD_TRY(td_out(c, 0, &f.p.shape, &y));
  int64_t n = td_tensor_count(y);
  if (n == 0) return nullptr;
  return td_cuda_rows(c, f, n / f.p.channels,
                      f.p.channels * (int64_t)td_dtype_size(y->dtype),
                      td_in(c, 0)->data, y->data);
}

/* ---- tables -------------------------------------------------------------- */

#define ROW(op_, run_)                                                         \
  {.op = op_,                                                                  \
   .device = "CUDA",                                                           \
   .types = "T=" TD_CUDA_PLAIN,                                                \
   .run = run_}

const td_kernel_def kernels[] = {
    ROW("ReverseSequence", reverse_run),
    ROW("DynamicStitch", stitch_run),
    ROW("ParallelDynamicStitch", stitch_run),
    ROW("ExtractImagePatches", patches_run),
    {},
};

} // namespace

TD_CUDA_MODULE(reverse, kernels)
