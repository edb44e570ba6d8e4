/* array.h - what the array ops share: elements of any dtype as things of one
 * size, and operands that hold sizes, axes and bounds.
 *
 * An op that only moves elements (slice, concat, gather, ...) is written once,
 * for bytes. Strings take part as td_bytes (pointer and length), resources and
 * variants as pointers; td_array_done builds the tensor from them. All zero
 * bytes are 0, false or "".
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_ARRAY_H
#define TD_ARRAY_H

#include "engine/device/kernel.h"

TD_BEGIN

/* ---- elements ---- */

typedef struct td_array {
  char *at;    /* the elements, dense, row-major */
  size_t size; /* bytes of one */
  td_dtype dtype;
  td_shape shape;
  void *own; /* the elements of strings and objects, until dropped */
} td_array;

/* A tensor's elements, to be read. Borrowed; valid while `t` lives. End it with
 * td_array_drop. */
td_status *td_array_in(const td_tensor *t, td_array *a) TD_MUST_USE;
/* A copy of them, to be changed. */
td_status *td_array_edit(const td_tensor *t, td_array *a) TD_MUST_USE;
/* Elements of output i, to be written, all of them; those of strings and
 * objects begin as zero bytes. End it with td_array_drop. */
td_status *td_array_out(td_kernel_ctx *c, int i, const td_shape *shape,
                        td_array *a) TD_MUST_USE;
/* Elements of strings and objects are not the allocator's, which knows the
 * memory limit: asks it for as much first, where they are many. */
td_status *td_array_fits(td_kernel_ctx *c, const td_shape *shape) TD_MUST_USE;
/* They are written: makes output i of them. */
td_status *td_array_done(td_kernel_ctx *c, int i,
                         const td_array *a) TD_MUST_USE;
/* A tensor of the elements of strings or objects. Caller owns *t. */
td_status *td_array_make(const td_array *a, td_tensor *t) TD_MUST_USE;
void td_array_drop(td_array *a); /* a zeroed one too */

/* Output i is input `in` in another shape: shares its buffer. */
td_status *td_array_share(td_kernel_ctx *c, int i, int in,
                          const td_shape *shape) TD_MUST_USE;
/* Output i is the elements of input `in` from `first` on, in `shape`, when
 * sharing the buffer is better than copying: strings, objects and all but a few
 * bytes. */
td_status *td_array_view(td_kernel_ctx *c, int i, int in, int64_t first,
                         const td_shape *shape, bool *taken) TD_MUST_USE;

/* ---- operands ---- */

/* The integers of an operand that is a scalar or vector. */
td_status *td_array_small(const td_tensor *t, const char *what,
                          td_small *v) TD_MUST_USE;
/* The same in a shape function, where they may be known in part; *known is
 * false when not even their number is. */
td_status *td_array_ask(td_infer *c, int i, const char *what, td_small *v,
                        bool *known) TD_MUST_USE;
bool td_array_all(const td_small *v); /* every integer is known */
/* The sizes of a shape of known rank, known where they are. */
td_small td_array_sizes(const td_shape *s);

/* The integer of a scalar or of a vector of one; known (may be NULL) as it is
 * in `v`. */
td_status *td_array_single(const td_small *v, const char *what, int64_t *value,
                           bool *known) TD_MUST_USE;
td_status *td_array_scalar(const td_tensor *t, const char *what,
                           int64_t *value) TD_MUST_USE;
/* The same as an axis in [0, rank), given from -rank on. */
td_status *td_array_axis(const td_tensor *t, int rank, const char *what,
                         int *axis) TD_MUST_USE;
/* In a shape function: -1 while the axis or the rank (-1) is not known. */
td_status *td_array_ask_axis(td_infer *c, int i, int rank, const char *what,
                             int *axis) TD_MUST_USE;
/* A vector of sizes, none negative, as a shape. */
td_status *td_array_shape(const td_tensor *t, const char *what,
                          td_shape *shape) TD_MUST_USE;

/* ---- shapes ---- */

td_shape td_array_rank(int rank); /* of that rank, sizes unknown */
/* Elements of a known shape, with an error when they are too many to count;
 * before that, its sizes must not be multiplied. */
td_status *td_array_count(const td_shape *s, int64_t *count) TD_MUST_USE;
/* Elements of the axes [begin, end) of a known shape. */
int64_t td_array_span(const td_shape *s, int begin, int end);
/* Element i of an integer output; an error when int32 cannot hold it. */
td_status *td_array_put(td_tensor *t, int64_t i, int64_t size,
                        const char *what) TD_MUST_USE;

TD_END
#endif
