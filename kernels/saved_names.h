/* saved_names.h - the operands of savers that name tensors and parts of them.
 *
 * tensor_names is a vector; shape_and_slices, as long as it, says of each what
 * part of a tensor it is: "" the whole, "10 4 0,5:-" the first five rows.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SAVED_NAMES_H
#define TD_SAVED_NAMES_H

#include "engine/device/kernel.h"
#include "engine/io/checkpoint_slice.h"

TD_BEGIN

typedef struct td_saved_name {
  char *name;
  int64_t at;     /* its place in the operands */
  bool part;      /* of a tensor; false: all of it */
  td_shape whole; /* of a part: the tensor's shape ... */
  td_slice slice; /* ... and what it takes of that */
} td_saved_name;

typedef struct td_saved_names {
  td_saved_name *of;
  int64_t len;
} td_saved_names;

/* The strings of two operands (`slices` NULL: all are wholes), of which there
 * must be `n`, in their order. End it with td_saved_names_free, on an error
 * too. */
td_status *td_saved_names_read(const td_tensor *names, const td_tensor *slices,
                               int64_t n, td_saved_names *out) TD_MUST_USE;
void td_saved_names_free(td_saved_names *s);
void td_saved_names_sort(td_saved_names *s); /* by name, ascending */
/* A scalar operand that names a file or a prefix. Caller owns *out. */
td_status *td_saved_prefix(const td_tensor *t, const char *what,
                           char **out) TD_MUST_USE;
/* What a writer said, but a name that is given twice is a bad argument, for
 * TensorFlow. Takes ownership of `s`. */
td_status *td_saved_twice(td_status *s) TD_MUST_USE;

/* For shape functions: input i is a vector of n (-1: as many as it likes). */
td_status *td_saved_infer(td_infer *c, int i, int64_t n,
                          const char *what) TD_MUST_USE;
/* The shape of what a part takes of its tensor; unknown for "". */
td_status *td_saved_shape(td_bytes part, td_shape *out) TD_MUST_USE;

TD_END
#endif
