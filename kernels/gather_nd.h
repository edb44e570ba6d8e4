/* gather_nd.h - slices of a tensor named by index vectors.
 *
 * The last dimension of the indices, of k elements, names a slice of the first
 * k dimensions.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_GATHER_ND_H
#define TD_GATHER_ND_H

#include "engine/device/kernel.h"

TD_BEGIN

/* indices[:-1] + of[k:]: the shape of all slices side by side; unknown rank
 * while k is not known. */
td_status *td_gather_nd_shape(const td_shape *indices, const td_shape *of,
                              td_shape *out) TD_MUST_USE;
/* Reads the attribute bad_indices_policy. */
td_status *td_gather_nd_policy(const char *policy, bool *ignore) TD_MUST_USE;
/* The numbers of the slices that `indices` name in a tensor of shape `of`, as
 * rows; -1 for those out of range, if they are to be ignored. Caller owns
 * *rows. */
td_status *td_gather_nd_rows(const td_tensor *indices, const td_shape *of,
                             bool ignore, int64_t **rows,
                             int64_t *n) TD_MUST_USE;

TD_END
#endif
