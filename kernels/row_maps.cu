/* row_maps.cu - ops whose result is the rows of the input in another order, on
 * a card: Roll, MirrorPad and its gradient, SpaceToBatch, BatchToSpace and
 * their ND forms; and MatrixBandPart, which keeps elements or not.
 *
 * What row_plans.h reads is an argument of the kernel; each thread finds the
 * row of its element.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/array.h"
#include "kernels/cuda/row_reduce.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/row_plans.h"

namespace {

int64_t bytes_of(const td_tensor *t, int64_t elements) {
  return elements * (int64_t)td_dtype_size(t->dtype);
}

/* ---- Roll ---------------------------------------------------------------- */

struct rolled {
  int axes;
  int64_t size[TD_MAX_RANK], by[TD_MAX_RANK];

  __device__ int64_t operator()(int64_t i) const {
    int64_t row = 0, step = 1;
    for (int k = axes - 1; k >= 0; k--) {
      int64_t rest = i / size[k], at = i - rest * size[k] - by[k];
      row += (at < 0 ? at + size[k] : at) * step;
      step *= size[k];
      i = rest;
    }
    return row;
  }
};

td_status *roll_run(td_kernel_ctx *c) {
  const td_shape *s = &td_in(c, 0)->shape;
  td_roll_plan p;
  td_tensor *y;
  rolled f = {};
  TD_TRY(td_rolling_read(c, &p));
  TD_TRY(td_out(c, 0, s, &y));
  f.axes = p.axes;
  for (int k = 0; k < p.axes; k++) {
    f.size[k] = s->dim[k];
    f.by[k] = p.by[k];
  }
  if (td_tensor_count(y) == 0) return nullptr;
  return td_cuda_rows(c, f, td_shape_span(s, 0, p.axes),
                      bytes_of(y, td_shape_span(s, p.axes, s->rank)),
                      td_in(c, 0)->data, y->data);
}

/* ---- MirrorPad ----------------------------------------------------------- */

struct mirrored {
  int axes;
  int64_t edge, inside[TD_MAX_RANK], padded[TD_MAX_RANK], before[TD_MAX_RANK];

  __device__ int64_t operator()(int64_t i) const {
    int64_t row = 0, step = 1;
    for (int k = axes - 1; k >= 0; k--) {
      int64_t rest = i / padded[k], n = inside[k];
      int64_t at = i - rest * padded[k] - before[k];
      if (at < 0)
        at = -at - edge;
      else if (at >= n)
        at = 2 * (n - 1) - at + edge;
      row += at * step;
      step *= n;
      i = rest;
    }
    return row;
  }
};

mirrored mirror_of(const td_mirror_plan *p, const td_shape *inside,
                   const td_shape *padded) {
  mirrored f = {};
  f.edge = p->edge;
  for (int k = 0; k < inside->rank; k++) {
    f.inside[k] = inside->dim[k];
    f.padded[k] = padded->dim[k];
    f.before[k] = p->before[k];
    if (f.inside[k] != f.padded[k]) f.axes = k + 1;
  }
  return f;
}

td_status *mirror_run(td_kernel_ctx *c) {
  td_mirror_plan p;
  td_tensor *y;
  TD_TRY(td_mirror_read(c, false, &p));
  if (td_shape_equal(&p.in, &p.out)) return td_array_share(c, 0, 0, &p.out);
  TD_TRY(td_out(c, 0, &p.out, &y));
  mirrored f = mirror_of(&p, &p.in, &p.out);
  if (td_tensor_count(y) == 0) return nullptr;
  return td_cuda_rows(c, f, td_shape_span(&p.out, 0, f.axes),
                      bytes_of(y, td_shape_span(&p.out, f.axes, p.out.rank)),
                      td_in(c, 0)->data, y->data);
}

td_status *mirror_grad_run(td_kernel_ctx *c) {
  td_mirror_plan p;
  td_row_reduce r = {};
  TD_TRY(td_mirror_read(c, true, &p));
  if (td_shape_equal(&p.in, &p.out)) return td_array_share(c, 0, 0, &p.out);
  mirrored f = mirror_of(&p, &p.out, &p.in);
  r.n = td_shape_span(&p.in, 0, f.axes);
  r.each = td_shape_span(&p.in, f.axes, p.in.rank);
  return td_cuda_reduce_by(c, 0, f, r, TD_ROW_BY_ONE, &p.out);
}

/* ---- SpaceToBatch, BatchToSpace ------------------------------------------ */

struct places {
  int axes; /* of space */
  int64_t batches, block[TD_MAX_RANK], before[TD_MAX_RANK];
  int64_t space[TD_MAX_RANK], batch[TD_MAX_RANK]; /* sizes of axis k + 1 */
};

/* Where a place in batches lies in space; -1: in the padding. */
struct in_space : places {
  __device__ int64_t operator()(int64_t i) const {
    int64_t at[TD_MAX_RANK], row, part;
    for (int k = axes - 1; k >= 0; k--) {
      int64_t rest = i / batch[k];
      at[k] = (i - rest * batch[k]) * block[k] - before[k];
      i = rest;
    }
    part = i / batches;
    row = i - part * batches;
    for (int k = axes - 1; k >= 0; k--) {
      int64_t rest = part / block[k];
      at[k] += part - rest * block[k];
      part = rest;
    }
    for (int k = 0; k < axes; k++) {
      if (at[k] < 0 || at[k] >= space[k]) return -1;
      row = row * space[k] + at[k];
    }
    return row;
  }
};

struct in_batch : places {
  __device__ int64_t operator()(int64_t i) const {
    int64_t row = 0, step = 1, part = 0, times = 1;
    for (int k = axes - 1; k >= 0; k--) {
      int64_t rest = i / space[k], at = i - rest * space[k] + before[k];
      int64_t of = at / block[k];
      row += of * step;
      step *= batch[k];
      part += (at - of * block[k]) * times;
      times *= block[k];
      i = rest;
    }
    return (part * batches + i) * step + row;
  }
};

template <class F> td_status *space_batch(td_kernel_ctx *c, bool back) {
  td_space_batch_plan p;
  td_tensor *y;
  F f = {};
  TD_TRY(td_space_batch_read(c, back, &p));
  const td_shape *out = back ? &p.space : &p.batch;
  TD_TRY(td_out(c, 0, out, &y));
  f.axes = p.axes;
  f.batches = p.space.dim[0];
  for (int k = 0; k < p.axes; k++) {
    f.block[k] = p.block[k];
    f.before[k] = p.before[k];
    f.space[k] = p.space.dim[k + 1];
    f.batch[k] = p.batch.dim[k + 1];
  }
  if (td_tensor_count(y) == 0) return nullptr;
  return td_cuda_rows(c, f, td_shape_span(out, 0, p.axes + 1),
                      bytes_of(y, td_shape_span(out, p.axes + 1, out->rank)),
                      td_in(c, 0)->data, y->data);
}

td_status *to_batch_run(td_kernel_ctx *c) {
  return space_batch<in_space>(c, false);
}
td_status *to_space_run(td_kernel_ctx *c) {
  return space_batch<in_batch>(c, true);
}

/* ---- MatrixBandPart ------------------------------------------------------ */

struct in_band {
  int64_t rows, cols, below, above;

  __device__ int64_t operator()(int64_t i) const {
    int64_t row = i / cols, col = i - row * cols;
    row %= rows;
    bool keep = (below < 0 || row - col <= below) &&
                (above < 0 || col - row <= above);
    return keep ? i : -1;
  }
};

td_status *band_run(td_kernel_ctx *c) {
  td_band_plan p;
  td_tensor x = *td_in(c, 0), *y;
  TD_TRY(td_band_read(c, &p));
  TD_TRY(td_out_like(c, 0, 0, &y));
  return td_cuda_rows(c, in_band{p.rows, p.cols, p.below, p.above},
                      td_tensor_count(y), bytes_of(y, 1), x.data, y->data);
}

/* ---- tables -------------------------------------------------------------- */

#define ROW(op_, run_)                                                         \
  {.op = op_,                                                                  \
   .device = "CUDA",                                                           \
   .types = "T=" TD_CUDA_PLAIN,                                                \
   .run = run_}

const td_kernel_def kernels[] = {
    ROW("Roll", roll_run),
    ROW("MirrorPad", mirror_run),
    {.op = "MirrorPadGrad",
     .device = "CUDA",
     .types = "T=" TD_CUDA_REALS "|complex64|complex128",
     .run = mirror_grad_run},
    ROW("SpaceToBatchND", to_batch_run),
    ROW("BatchToSpaceND", to_space_run),
    ROW("SpaceToBatch", to_batch_run),
    ROW("BatchToSpace", to_space_run),
    ROW("MatrixBandPart", band_run),
    {},
};

} // namespace

TD_CUDA_MODULE(row_maps, kernels)
