/* moves.h - ops that come down to strided copies, whole: for devices that make
 * such copies by code of their own (td_device.copy_strided).
 *
 * A device's rows of these ops name the functions here: operands are checked
 * and shapes computed as everywhere, only the copies are the device's. Tensors
 * are of plain dtypes; operands in the host's memory are those of .host.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_MOVES_H
#define TD_MOVES_H

#include "engine/device/kernel.h"

TD_BEGIN

#define TD_MOVES(name) td_status *td_moves_##name(td_kernel_ctx *c) TD_MUST_USE
TD_MOVES(concat);
TD_MOVES(concat_v2);
TD_MOVES(pack);
TD_MOVES(split);
TD_MOVES(split_v);
TD_MOVES(unpack);
TD_MOVES(slice);
TD_MOVES(strided_slice);
TD_MOVES(strided_slice_grad);
TD_MOVES(pad);
TD_MOVES(pad_v2);
TD_MOVES(transpose);
TD_MOVES(tile);
TD_MOVES(reverse);
TD_MOVES(space_to_depth);
TD_MOVES(depth_to_space);
TD_MOVES(diag);
TD_MOVES(diag_part);
TD_MOVES(matrix_diag);
TD_MOVES(matrix_diag_v3);
TD_MOVES(matrix_diag_part);
TD_MOVES(matrix_diag_part_v3);
TD_MOVES(matrix_set_diag);
TD_MOVES(matrix_set_diag_v3);
TD_MOVES(update_slice);
TD_MOVES(assign_slice); /* its row locks "ref" */
#undef TD_MOVES

/* Transpose; a copy in any case when `copied`. */
td_status *td_moves_permute(td_kernel_ctx *c, bool copied) TD_MUST_USE;

TD_END
#endif
