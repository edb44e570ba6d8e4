/* array.h - the elements of a tensor of any dtype, as things of one size.
 *
 * An op that only moves elements (Slice, ConcatV2, GatherV2, ...) is written
 * once, for bytes: elements of float are 4 bytes each, those of int64 8. A
 * string is moved as a td_bytes (pointer and length) that points into its
 * tensor, a resource or variant as a pointer to its object; td_array_done makes
 * the output tensor from them. An element of zero bytes is 0, false or "".
 *
 *   td_array x, y = {0};
 *   TD_TRY(td_array_in(td_in(c, 0), &x));
 *   td_status *s = td_array_out(c, 0, &shape, &y);
 *   ... copy y.size bytes from x.at + i * x.size to y.at + k * y.size ...
 *   if (td_ok(s)) s = td_array_done(c, 0, &y);
 *   td_array_drop(&x);
 *   td_array_drop(&y);
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
/* A copy of a tensor's elements, to be changed. */
td_status *td_array_edit(const td_tensor *t, td_array *a) TD_MUST_USE;
/* Elements of output i, to be written, all of them; those of strings and
 * objects begin as zero bytes. End it with td_array_drop. */
td_status *td_array_out(td_kernel_ctx *c, int i, const td_shape *shape,
                        td_array *a) TD_MUST_USE;
/* Makes output i of elements that have been written. */
td_status *td_array_done(td_kernel_ctx *c, int i,
                         const td_array *a) TD_MUST_USE;
/* A tensor of the elements of strings or objects. Caller owns *t. */
td_status *td_array_make(const td_array *a, td_tensor *t) TD_MUST_USE;
void td_array_drop(td_array *a); /* a zeroed one too */
/* Would strings or objects of that shape fit the memory limit? Their elements
 * do not come from the device's allocator, which enforces it. */
td_status *td_array_fits(td_kernel_ctx *c, const td_shape *shape) TD_MUST_USE;

/* ---- outputs ---- */

/* Output i is input `in` in another shape: shares its buffer. */
td_status *td_array_share(td_kernel_ctx *c, int i, int in,
                          const td_shape *shape) TD_MUST_USE;
/* Output i is the elements of input `in` from `first` on, in `shape`, when
 * sharing the buffer is better than copying: strings, objects and all but a few
 * bytes. */
td_status *td_array_view(td_kernel_ctx *c, int i, int in, int64_t first,
                         const td_shape *shape, bool *taken) TD_MUST_USE;
/* Elements of a known shape, with an error when they are too many to count;
 * before that, its sizes must not be multiplied. */
td_status *td_array_count(const td_shape *s, int64_t *count) TD_MUST_USE;
/* Sets element i of an integer output; an error when int32 cannot hold it. */
td_status *td_array_put(td_tensor *t, int64_t i, int64_t size,
                        const char *what) TD_MUST_USE;

TD_END
#endif
