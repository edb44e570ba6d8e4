/* variable.h - a tensor that outlives its steps.
 *
 * Its lock is taken by what runs kernels, as the row says (`exclusive`, `shared`
 * in kernel.h): kernels only read and write.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_VARIABLE_H
#define TD_VARIABLE_H

#include "engine/device/kernel.h"
#include "engine/device/resource.h"

TD_BEGIN

#define TD_VARIABLE "variable" /* td_object.type, compared by strcmp once */

typedef struct td_variable {
  td_resource base;
  td_dtype dtype;
  td_shape shape;   /* declared; unknown sizes allowed */
  td_tensor value;  /* lock: base.lock. Invalid until initialised */
  td_tensor seen;   /* lock: base.lock. `value` where kernels of a device that
                       maps its memory see it; holds no count */
  bool sparse;      /* atomic. Rows are touched in place: reads copy */
} td_variable;

td_status *td_variable_new(td_dtype dtype, const td_shape *shape,
                           td_variable **out) TD_MUST_USE;
/* From now on its rows are worked on in place: sparse. */
void td_variable_by_rows(td_variable *v);
/* Reads share the value again, until the next work on rows, which then copies
 * what is shared. */
void td_variable_as_whole(td_variable *v);

/* Process-wide counters for tests: bytes copied because a value to be written
 * in place was shared, and by reads of sparse variables. */
typedef struct td_variable_stats {
  int64_t copied_on_write;
  int64_t copied_on_read;
} td_variable_stats;
td_variable_stats td_variable_read_stats(void);

/* ---- inside kernels ---- */

/* The variable that input i is the handle of; the row names the input in shared
 * or exclusive. Pointers given out are valid while the lock is held. */
td_status *td_var(td_kernel_ctx *c, int i, td_variable **out) TD_MUST_USE;
/* A share of the value (a copy by slices in sparse mode). FAILED_PRECONDITION
 * when not initialised, naming the variable and the remedy. */
td_status *td_var_read(td_kernel_ctx *c, td_variable *v,
                       td_tensor *out) TD_MUST_USE;
/* Initialised (else NOT_FOUND): a borrowed look at the value, no share taken. */
td_status *td_var_peek(td_kernel_ctx *c, td_variable *v,
                       const td_tensor **out) TD_MUST_USE;
/* The value to be written in place: a fresh copy first when others share the
 * buffer (counted). Touches the content stamp. Exclusive lock. */
td_status *td_var_write(td_kernel_ctx *c, td_variable *v,
                        td_tensor **out) TD_MUST_USE;
/* Replaces the value: shares `t` (which must not be written by others later),
 * or copies it when somebody else may write it. Exclusive lock. */
td_status *td_var_assign(td_kernel_ctx *c, td_variable *v,
                         const td_tensor *t) TD_MUST_USE;

TD_END
#endif
