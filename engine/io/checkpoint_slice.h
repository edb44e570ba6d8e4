/* checkpoint_slice.h - parts of tensors, as checkpoints name them.
 *
 * As text, in an operand of Save and Restore: the whole shape, a space, and for
 * each dimension "start,length" or "-" for all of it, with ":" between:
 *
 *   "10 4 0,5:-"    rows 0 to 4 of a {10, 4}
 *
 * In an index: a key of bytes that sort as their meaning does.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CHECKPOINT_SLICE_H
#define TD_CHECKPOINT_SLICE_H

#include "engine/tensor/shape.h"

TD_BEGIN

typedef struct td_slice {
  int32_t rank;
  int64_t start[TD_MAX_RANK];
  int64_t length[TD_MAX_RANK]; /* -1: the whole dimension */
} td_slice;

/* Reads "10 4 0,5:-". INVALID_ARGUMENT, with the text, for what is no such
 * text, or a slice beyond the shape. */
td_status *td_slice_parse(td_bytes text, td_shape *whole,
                          td_slice *out) TD_MUST_USE;
/* Appends the same for a slice of `whole`. */
void td_slice_print(const td_shape *whole, const td_slice *s, td_str *out);
/* The shape of what it takes from `whole`; INVALID_ARGUMENT when it does not lie
 * within. */
td_status *td_slice_shape(const td_shape *whole, const td_slice *s,
                          td_shape *out) TD_MUST_USE;
bool td_slice_is_whole(const td_shape *whole, const td_slice *s);
/* What two slices of `whole` have in common; false: nothing. */
bool td_slice_meet(const td_shape *whole, const td_slice *a, const td_slice *b,
                   td_slice *out);
/* Copies the part that `common` says, of elements of `size` bytes, from a dense
 * array of slice `a` into one of slice `b`. */
void td_slice_copy(const td_shape *whole, const td_slice *common,
                   const td_slice *a, const void *from, const td_slice *b,
                   void *to, size_t size);
/* Appends the key of a slice of tensor `name` in an index. */
void td_slice_key(const char *name, const td_slice *s, td_str *out);

TD_END
#endif
