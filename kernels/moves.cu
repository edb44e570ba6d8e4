/* moves.cu - ops that are strided copies, on a card: rows of the functions in
 * moves.h, whose copies strided_copy.cu makes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/moves.h"

namespace {

/* ---- ConjugateTranspose -------------------------------------------------- */

/* The imaginary parts of n complex numbers. */
template <class R> __global__ void negate_odd(int64_t n, R *x) {
  TD_EACH(i, n) x[2 * i + 1] = -x[2 * i + 1];
}

td_status *conjugate_run(td_kernel_ctx *c) {
  td_dtype dtype = td_in(c, 0)->dtype;
  TD_TRY(td_moves_permute(c, td_dtype_is_complex(dtype)));
  const td_tensor *y = &c->out[0];
  int64_t n = td_tensor_count(y);
  if (!td_dtype_is_complex(dtype) || n == 0) return nullptr;
  if (dtype == TD_COMPLEX64)
    return TD_LAUNCH(c, (negate_odd<float>), td_cuda_grid(c, n), TD_CUDA_BLOCK,
                     0, n, td_cuda_at<float>(y));
  return TD_LAUNCH(c, (negate_odd<double>), td_cuda_grid(c, n), TD_CUDA_BLOCK,
                   0, n, td_cuda_at<double>(y));
}

/* ---- tables -------------------------------------------------------------- */

#define MOVE(op_, name)                                                        \
  {.op = op_,                                                                  \
   .device = "CUDA",                                                           \
   .types = "T=" TD_CUDA_PLAIN,                                                \
   .run = td_moves_##name}

const td_kernel_def kernels[] = {
    MOVE("Concat", concat),
    MOVE("ConcatV2", concat_v2),
    MOVE("Pack", pack),
    MOVE("Split", split),
    MOVE("SplitV", split_v),
    MOVE("Unpack", unpack),
    MOVE("Slice", slice),
    MOVE("StridedSlice", strided_slice),
    MOVE("StridedSliceGrad", strided_slice_grad),
    MOVE("Pad", pad),
    MOVE("PadV2", pad_v2),
    MOVE("Transpose", transpose),
    {.op = "ConjugateTranspose",
     .device = "CUDA",
     .types = "T=" TD_CUDA_PLAIN,
     .run = conjugate_run},
    MOVE("Tile", tile),
    MOVE("ReverseV2", reverse),
    MOVE("SpaceToDepth", space_to_depth),
    MOVE("DepthToSpace", depth_to_space),
    MOVE("Diag", diag),
    MOVE("DiagPart", diag_part),
    MOVE("MatrixDiag", matrix_diag),
    MOVE("MatrixDiagV3", matrix_diag_v3),
    MOVE("MatrixDiagPart", matrix_diag_part),
    MOVE("MatrixDiagPartV3", matrix_diag_part_v3),
    MOVE("MatrixSetDiag", matrix_set_diag),
    MOVE("MatrixSetDiagV3", matrix_set_diag_v3),
    MOVE("TensorStridedSliceUpdate", update_slice),
    {.op = "ResourceStridedSliceAssign",
     .device = "CUDA",
     .types = "T=" TD_CUDA_PLAIN,
     .run = td_moves_assign_slice,
     .exclusive = "ref"},
    {},
};

} // namespace

TD_CUDA_MODULE(moves, kernels)
