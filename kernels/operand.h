/* operand.h - operands that hold sizes, axes and bounds.
 *
 * Each is read in two places: by the shape function, where its integers may be
 * known in part or not at all (td_operand_infer_*), and by the kernel, where
 * they are known. Both give a td_small, so that an op has one rule for both.
 * `what` is the operand's name in messages: "begin must be a vector, ...".
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_OPERAND_H
#define TD_OPERAND_H

#include "engine/device/kernel.h"

TD_BEGIN

/* The integers of an operand that is a scalar or vector. */
td_status *td_operand_ints(const td_tensor *t, const char *what,
                           td_small *v) TD_MUST_USE;
/* The same in a shape function, of input i; *known is false when not even their
 * number is. */
td_status *td_operand_infer_ints(td_infer *c, int i, const char *what,
                                 td_small *v, bool *known) TD_MUST_USE;
bool td_operand_known(const td_small *v); /* every integer is */

/* Those of an op that takes no scalar. */
td_status *td_operand_vector(const td_small *v, const char *what) TD_MUST_USE;
/* The integer of a scalar; known (may be NULL) as it is in `v`. */
td_status *td_operand_single(const td_small *v, const char *what,
                             int64_t *value, bool *known) TD_MUST_USE;
td_status *td_operand_scalar(const td_tensor *t, const char *what,
                             int64_t *value) TD_MUST_USE;
/* A scalar, or a vector of one, as an axis in [0, rank), given from -rank on. */
td_status *td_operand_axis(const td_tensor *t, int rank, const char *what,
                           int *axis) TD_MUST_USE;
/* In a shape function: -1 while the axis or the rank (-1) is not known. */
td_status *td_operand_infer_axis(td_infer *c, int i, int rank, const char *what,
                                 int *axis) TD_MUST_USE;

/* A vector of sizes, none negative, as a shape; and the other way round: the
 * sizes of a shape of known rank, known where they are. */
td_status *td_operand_shape(const td_tensor *t, const char *what,
                            td_shape *shape) TD_MUST_USE;
td_small td_operand_sizes(const td_shape *s);

TD_END
#endif
