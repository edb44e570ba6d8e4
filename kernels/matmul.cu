/* matmul.cu - products of matrices on a card: by cuBLASLt where it is there and
 * has a way, else by tiles.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/batches.cuh"
#include "kernels/cuda/blas.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/tile.cuh"
#include "kernels/matmul.h"

namespace {

/* ---- operands ------------------------------------------------------------ */

/* A matrix seen by its lines, rows or columns; elements of T, sums of S. */
template <class T, class S> struct lines {
  typedef S in;
  struct line {
    const T *at;
  };
  struct step {
    int64_t at;
  };
  const T *from;
  int64_t line_step, k_step;
  bool conj;
  batches of;

  __device__ inline bool inner() const { return k_step == 1; }
  __device__ inline line line_of(int64_t batch, int64_t number) const {
    return {from + of.at(batch) + number * line_step};
  }
  __device__ inline step step_of(int64_t k) const { return {k * k_step}; }
  __device__ inline in at(const line &l, const step &s) const {
    in v = (in)td_num<T>::load(l.at[s.at]);
    return conj ? td_num_conj(v) : v;
  }
};

template <class R, class S> struct cells {
  R *to;
  int64_t m, n;
  __device__ inline void put(int64_t b, int64_t i, int64_t j, S v) const {
    to[(b * m + i) * n + j] = (R)td_num<R>::store((typename td_num<R>::in)v);
  }
};

/* Lines are rows as stored, or columns. */
template <class T, class S>
lines<T, S> lines_of(const td_tensor *t, const td_shape *out, bool rows,
                     bool conj) {
  int64_t columns = t->shape.dim[t->shape.rank - 1];
  const T *at = td_cuda_at<const T>(t);
  return {at, rows ? columns : 1, rows ? 1 : columns, conj,
          batches_of(&t->shape, out)};
}

/* ---- running ------------------------------------------------------------- */

template <class TA, class TB, class R, class S>
td_status *multiply(td_kernel_ctx *c, const td_matmul *p, td_tensor *y) {
  lines<TA, S> a = lines_of<TA, S>(td_in(c, 0), &p->out, !p->trans_a,
                                   p->conj_a);
  lines<TB, S> b = lines_of<TB, S>(td_in(c, 1), &p->out, p->trans_b,
                                   p->conj_b);
  td_tile s = tile_of(p->batch, p->m, p->n, p->k);
  return tile_run(c, s, a, b, cells<R, S>{td_cuda_at<R>(y), p->m, p->n});
}

#define SAME(kind, sum)                                                        \
  case TD_ELEMENT_##kind:                                                      \
    return multiply<td_##kind, td_##kind, td_##kind, sum>(c, p, y);

td_status *by_type(td_kernel_ctx *c, const td_matmul *p, td_tensor *y) {
  switch ((int)y->dtype) {
    SAME(f16, float)
    SAME(bf16, float)
    SAME(f32, float)
    SAME(f64, double)
    SAME(i16, int32_t)
    SAME(i32, int32_t)
    SAME(i64, int64_t)
    SAME(c64, td_c64)
    SAME(c128, td_c128)
  default:
    return td_cuda_no_type(c, 0);
  }
}

td_status *run(td_kernel_ctx *c, td_matmul_form form) {
  td_matmul p;
  td_tensor *y;
  TD_TRY(td_matmul_of(c, form, &p));
  TD_TRY(td_out(c, 0, &p.out, &y));
  if (td_tensor_count(y) == 0) return nullptr;
  bool done;
  TD_TRY(td_cuda_blas_matmul(c, &p, td_in(c, 0), td_in(c, 1), y, &done));
  return done ? nullptr : by_type(c, &p, y);
}

td_status *run_plain(td_kernel_ctx *c) {
  return run(c, TD_MATMUL_PLAIN);
}

td_status *run_equal(td_kernel_ctx *c) {
  return run(c, TD_MATMUL_EQUAL);
}

td_status *run_broadcast(td_kernel_ctx *c) {
  return run(c, TD_MATMUL_BROADCAST);
}

/* Bytes with bytes, to int32. */
td_status *by_bytes(td_kernel_ctx *c, const td_matmul *p, td_tensor *y) {
  bool a = td_in(c, 0)->dtype == TD_INT8, b = td_in(c, 1)->dtype == TD_INT8;
  if (a && b) return multiply<td_i8, td_i8, td_i32, int32_t>(c, p, y);
  if (a) return multiply<td_i8, td_u8, td_i32, int32_t>(c, p, y);
  if (b) return multiply<td_u8, td_i8, td_i32, int32_t>(c, p, y);
  return multiply<td_u8, td_u8, td_i32, int32_t>(c, p, y);
}

/* Bytes with bfloat16. */
td_status *by_bfloat(td_kernel_ctx *c, const td_matmul *p, td_tensor *y) {
  td_dtype a = td_in(c, 0)->dtype, b = td_in(c, 1)->dtype;
  if (a == TD_INT8) return multiply<td_i8, td_bf16, td_bf16, float>(c, p, y);
  if (a == TD_UINT8) return multiply<td_u8, td_bf16, td_bf16, float>(c, p, y);
  if (b == TD_INT8) return multiply<td_bf16, td_i8, td_bf16, float>(c, p, y);
  return multiply<td_bf16, td_u8, td_bf16, float>(c, p, y);
}

td_status *run_mixed(td_kernel_ctx *c) {
  td_matmul p;
  td_tensor *y;
  TD_TRY(td_matmul_of(c, TD_MATMUL_BROADCAST, &p));
  TD_TRY(td_out(c, 0, &p.out, &y));
  if (td_tensor_count(y) == 0) return nullptr;
  return y->dtype == TD_INT32 ? by_bytes(c, &p, y) : by_bfloat(c, &p, y);
}

/* ---- rows ---------------------------------------------------------------- */

#define TYPES "T=half|bfloat16|float|double|int32|int64|complex64|complex128"
#define ROW(op_, types_, run_)                                                 \
  {.op = op_, .device = "CUDA", .types = types_, .run = run_}
#define V3(types, run) ROW("BatchMatMulV3", types, run)
#define V3_SAME(t) V3("Ta=" t ", Tb=" t ", Tout=" t, run_broadcast)

const td_kernel_def kernels[] = {
    ROW("MatMul", TYPES, run_plain),
    ROW("BatchMatMul", TYPES, run_equal),
    ROW("BatchMatMulV2", TYPES "|int16", run_broadcast),
    V3_SAME("half"),
    V3_SAME("bfloat16"),
    V3_SAME("float"),
    V3_SAME("double"),
    V3_SAME("int16"),
    V3_SAME("int32"),
    V3_SAME("int64"),
    V3_SAME("complex64"),
    V3_SAME("complex128"),
    V3("Ta=int8|uint8, Tb=int8|uint8, Tout=int32", run_mixed),
    V3("Ta=int8|uint8, Tb=bfloat16, Tout=bfloat16", run_mixed),
    V3("Ta=bfloat16, Tb=int8|uint8, Tout=bfloat16", run_mixed),
    {},
};

} // namespace

TD_CUDA_MODULE(matmul, kernels)
