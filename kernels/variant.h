/* variant.h - what variants have in common: zeros like them, and sums.
 *
 * A variant is a scalar that holds an object which never changes: a list of
 * tensors (tensor_list.h), tensors (optional.c) or nothing. Gradients
 * are lists of the shape of lists, so ZerosLike and AddN work on what is in
 * them. Only who holds one alone may change it instead of making another.
 * Variants may hold variants, but not without end: letting go of one is a
 * recursion.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_VARIANT_H
#define TD_VARIANT_H

#include "engine/device/kernel.h"

TD_BEGIN

enum { TD_VARIANT_DEPTH = 64 };

typedef struct td_variant td_variant;

typedef struct td_variant_class {
  const char *name; /* "list", for messages */
  /* Both give an object of the same class. Caller owns *out. */
  td_status *(*zeros)(td_kernel_ctx *c, const td_variant *v, td_variant **out);
  td_status *(*sum)(td_kernel_ctx *c, const td_variant *a, const td_variant *b,
                    td_variant **out);
} td_variant_class;

struct td_variant {
  td_object object; /* first: a td_variant is a td_object */
  const td_variant_class *of;
  int32_t depth; /* of variants in it, 0: it holds none */
};

/* To be the object's type: nothing else has this pointer. */
extern const char td_variant_type[];

/* Input i, a scalar that holds one of class `of`; `what` names it. Borrowed. */
td_status *td_variant_in(const td_kernel_ctx *c, int i,
                         const td_variant_class *of, const char *what,
                         const td_variant **out) TD_MUST_USE;
/* The same of any object of a variant tensor. */
td_status *td_variant_of(td_object *o, const td_variant_class *of,
                         const char *what, const td_variant **out) TD_MUST_USE;
/* May who runs change what input i holds? Nobody else sees it. */
bool td_variant_sole(const td_kernel_ctx *c, int i);
/* Notes in v->depth that `v` is to hold `t`; an error when that is too deep. */
td_status *td_variant_holds(td_variant *v, const td_tensor *t) TD_MUST_USE;
/* Output i is a scalar that holds `v`, which it takes over. */
td_status *td_variant_out(td_kernel_ctx *c, int i, td_variant *v) TD_MUST_USE;

/* Tensors of any dtype, in host memory. Caller owns *out. */
td_status *td_variant_zeros(td_kernel_ctx *c, td_dtype dtype,
                            const td_shape *shape, td_tensor *out) TD_MUST_USE;
td_status *td_variant_zeros_like(td_kernel_ctx *c, const td_tensor *t,
                                 td_tensor *out) TD_MUST_USE;
td_status *td_variant_sum(td_kernel_ctx *c, const td_tensor *a,
                          const td_tensor *b, td_tensor *out) TD_MUST_USE;

/* The kernels of ZerosLike and AddN for variants; their rows are in fill.c and
 * add_n.c. */
td_status *td_variant_zeros_run(td_kernel_ctx *c) TD_MUST_USE;
td_status *td_variant_sum_run(td_kernel_ctx *c) TD_MUST_USE;

/* One that holds nothing: an optional without value, and what a variant's place
 * reads as that nobody wrote to. Caller owns *out. */
extern const td_variant_class td_variant_nothing;
td_status *td_variant_none(td_variant **out) TD_MUST_USE;

TD_END
#endif
