/* step_array.h - an array of tensors that a step fills and reads.
 *
 * Each place is written once, unless the array sums: arrays of gradients do. A
 * place that was never written reads as zeros where its shape is known. The
 * array belongs to its handle and goes with the last tensor that holds it.
 * Elements are shares, kept with the pointers they have at rest.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_STEP_ARRAY_H
#define TD_STEP_ARRAY_H

#include "engine/device/kernel.h"

TD_BEGIN

typedef struct td_step_array td_step_array;

typedef struct td_step_array_spec {
  const char *name; /* for messages; copied */
  td_dtype dtype;
  td_shape each;  /* of every element, as far as it is known */
  bool grows;     /* writing beyond the end makes it longer */
  bool clears;    /* reading an element lets go of it */
  bool identical; /* all elements have one shape */
  bool sums;      /* writing again adds */
} td_step_array_spec;

/* Caller owns the result: one reference of *out as a td_object. */
td_status *td_step_array_new(const td_step_array_spec *spec, int64_t size,
                             td_step_array **out) TD_MUST_USE;
/* The array whose handle is input 0; it holds `dtype` (TD_INVALID: any).
 * Borrowed; valid while the input is. */
td_status *td_step_array_find(const td_kernel_ctx *c, td_dtype dtype,
                              td_step_array **out) TD_MUST_USE;
/* Both fail when it was closed. */
td_status *td_step_array_size(td_step_array *a, int64_t *size) TD_MUST_USE;
/* As many as are joined by a concat: all, but of gradients those that a split
 * made, however much the array has grown since. Fails when it was closed. */
td_status *td_step_array_joined(td_step_array *a, int64_t *size) TD_MUST_USE;
/* What is known of the shape of every element, merged with `said`. */
td_status *td_step_array_shape(td_step_array *a, const td_shape *said,
                               td_shape *out) TD_MUST_USE;
/* For a split: makes room for `size` elements when it grows; else it must have
 * as many. */
td_status *td_step_array_fit(td_step_array *a, int64_t size) TD_MUST_USE;
/* z = x + y, of one shape and plain dtype, in the memory of the kernel's
 * device; z may be x. */
typedef td_status *(*td_step_array_add)(td_kernel_ctx *c, const td_tensor *x,
                                        const td_tensor *y, td_tensor *z);
/* Puts a share of `t`, as the kernel sees it. `add` (NULL: the host's) adds what
 * comes to an element of an array of sums. */
td_status *td_step_array_write(td_kernel_ctx *c, td_step_array *a, int64_t i,
                               const td_tensor *t,
                               td_step_array_add add) TD_MUST_USE;
/* Element i, as the kernel sees it; the caller's. Never written: TD_INVALID,
 * and the shape that zeros for it have. */
td_status *td_step_array_read(td_kernel_ctx *c, td_step_array *a, int64_t i,
                              td_tensor *out) TD_MUST_USE;
/* The array of gradients of `a` for those who say `source`: made by the first,
 * its elements shaped as those of `a` are now, with `before` in front. `a` can
 * no longer grow. Retained for the caller. */
td_status *td_step_array_twin(td_step_array *a, const char *source,
                              const td_shape *before,
                              td_step_array **out) TD_MUST_USE;
void td_step_array_close(td_step_array *a); /* lets go of all elements */
td_object *td_step_array_object(td_step_array *a);

TD_END
#endif
