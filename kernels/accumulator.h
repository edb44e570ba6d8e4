/* accumulator.h - gradients that are gathered until enough are there: what the
 * dense and the sparse kind share.
 *
 * An accumulator has a global step. Gradients that were computed for an earlier
 * one are dropped; the others are added up, and whoever takes n of them gets
 * their mean or sum, which ends the step. Those who add do so side by side: each
 * adds to what it holds what it finds (a running sum of somebody else), outside
 * of the mutex, until it finds nothing and leaves its sum behind. An ordered one
 * keeps gradients apart, a slot for each who gives them, and adds them in the
 * order of slots when they are taken: the same bits whoever comes first.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_ACCUMULATOR_H
#define TD_ACCUMULATOR_H

#include "kernels/attempts.h"
#include "kernels/gradient.h"
#include "kernels/handle.h"

TD_BEGIN

typedef struct td_accumulator {
  td_resource base; /* first */
  bool sparse, mean;
  td_dtype dtype;
  td_shape shape;       /* of every gradient, as far as it is known */
  int64_t slots;        /* 0: not ordered */
  td_attempts attempts; /* its mutex protects what follows */
  int64_t step;         /* global step */
  int64_t count;        /* gradients of this step */
  int64_t busy;         /* of those, who are being added up just now */
  int64_t need;         /* what the first of those who wait asks for */
  td_gradient *parts;   /* sums, a list */
  td_gradient **slot;   /* ordered: by slot, NULL where none came */
  td_shape now; /* of this step's first gradient, while count > 0 */
} td_accumulator;

/* Input 0 is a handle of one, sparse or not. Borrowed. */
td_status *td_accumulator_in(const td_kernel_ctx *c, bool sparse,
                             td_accumulator **out) TD_MUST_USE;
/* An op that gives one dtype for another is told. */
td_status *td_accumulator_typed(const td_accumulator *a,
                                td_dtype dtype) TD_MUST_USE;

/* Adds gradient `g`, whose values have `shape`, to those of this step, or
 * drops it when it is late. `slot` -1: not ordered. Takes ownership of `g`. */
td_status *td_accumulator_apply(td_kernel_ctx *c, td_accumulator *a,
                                int64_t slot, int64_t step,
                                const td_shape *shape,
                                td_gradient *g) TD_MUST_USE;

/* What else the rows of sparse ones' ops need. */
void td_accumulator_sparse_take_start(td_kernel_ctx *c);
void td_accumulator_take_cancel(td_kernel_ctx *c);
void td_accumulator_take_why(const td_kernel_ctx *c, td_str *out);
#define TD_ACCUMULATOR_TYPES                                                   \
  "{float, double, int32, uint8, int16, int8, complex64, int64, qint8, "       \
  "quint8, qint32, bfloat16, qint16, quint16, uint16, complex128, half, "      \
  "uint32, uint64}"

TD_END
#endif
