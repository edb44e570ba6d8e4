/* broadcast.h - walking several dense operands under NumPy's rule.
 *
 * A plan drops sizes of 1 and merges neighbouring axes that every operand steps
 * through alike, so that equal shapes, a scalar on one side and a repeated row
 * all become one or two axes. The walk hands a kernel dense blocks only: an
 * operand that repeats is spread into a small buffer first. One loop per op and
 * dtype is then enough, whatever the shapes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_BROADCAST_H
#define TD_BROADCAST_H

#include "engine/tensor/tensor.h"

TD_BEGIN

enum {
  TD_BROADCAST_MAX = 3,     /* operands */
  TD_BROADCAST_BLOCK = 512, /* elements of a spread block */
};

typedef struct td_broadcast {
  int32_t n;                 /* operands */
  int32_t rank;              /* after merging, at least 1 */
  int64_t count;             /* elements of the result */
  int64_t size[TD_MAX_RANK]; /* of the result's axes, outermost first */
  int64_t step[TD_BROADCAST_MAX][TD_MAX_RANK]; /* in elements; 0: repeats */
  bool dense[TD_BROADCAST_MAX]; /* the operand has the result's layout */
} td_broadcast;

/* Plans n operands of known shapes; *out is the result's shape.
 * INVALID_ARGUMENT with the shapes when they do not broadcast, or when the
 * result is too large to be counted. */
td_status *td_broadcast_plan(td_broadcast *b, int n,
                             const td_shape *const *shapes,
                             td_shape *out) TD_MUST_USE;

/* `in[k]` holds n elements of operand k, for results [at, at + n). */
typedef void (*td_broadcast_fn)(void *arg, int64_t n, const void *const *in,
                                int64_t at);

/* Calls fn for blocks that make up results [begin, end), in order. `size[k]`:
 * bytes of an element of operand k, 1, 2, 4, 8 or 16. */
void td_broadcast_run(const td_broadcast *b, const void *const *in,
                      const size_t *size, int64_t begin, int64_t end,
                      td_broadcast_fn fn, void *arg);

/* Element of operand k that result i is made from; for text, slowly. */
int64_t td_broadcast_index(const td_broadcast *b, int k, int64_t i);

TD_END
#endif
