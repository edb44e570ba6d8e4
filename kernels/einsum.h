/* einsum.h - equations such as "...ij,...jk->...ik", and their sizes.
 *
 * A subscript is a letter or digit; those behind "..." are numbered from
 * TD_EINSUM_DOTS on, the last axis first.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_EINSUM_H
#define TD_EINSUM_H

#include "engine/device/kernel.h"

TD_BEGIN

enum { TD_EINSUM_DOTS = 128, TD_EINSUM_LABELS = 128 + TD_MAX_RANK };

/* Subscripts of a tensor's axes; before binding, of those that are named. */
typedef struct td_einsum_axes {
  int n, label[TD_MAX_RANK];
  int dots; /* how many subscripts are before "..."; -1: there is none */
} td_einsum_axes;

typedef struct td_einsum {
  int n_in; /* 1 or 2 */
  td_einsum_axes in[2], out;
  int64_t size[TD_EINSUM_LABELS]; /* of each subscript; -1: not known */
} td_einsum;

/* Reads the equation for so many inputs. */
td_status *td_einsum_parse(td_einsum *e, td_bytes text, int n_in) TD_MUST_USE;
/* Finds subscripts and sizes of the inputs' axes, known in part, and the
 * result's shape. Where a rank is not known its sizes may stay so. */
td_status *td_einsum_bind(td_einsum *e, const td_shape *const *shapes,
                          td_shape *out) TD_MUST_USE;
/* Both, of a kernel's node and inputs; what is made of them can be counted. */
td_status *td_einsum_read(td_kernel_ctx *c, td_einsum *e,
                          td_shape *out) TD_MUST_USE;

TD_END
#endif
