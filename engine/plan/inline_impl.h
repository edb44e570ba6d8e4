/* inline_impl.h - what inline.c and lower.c share.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_INLINE_IMPL_H
#define TD_INLINE_IMPL_H

#include "engine/graphdef/function.h"
#include "engine/plan/pass_impl.h"

/* What became of a call. */
typedef struct td_inlined {
  td_function_body body;
  td_node *done;  /* what waits for the call waits for it; NULL: nobody does */
  td_node *pivot; /* of one that lower.c made: runs when the body is to, which
                     therefore waits for that */
} td_inlined;

/* A value that a graph relies on to have a shape, once it is known. */
typedef struct td_claim {
  td_node *node; /* whose input it is */
  int32_t in;
  td_shape shape;
  bool pred; /* a condition: what is no scalar is true when it has elements */
} td_claim;

typedef struct td_inliner {
  td_pass *p;
  td_graph *g;
  TD_VEC(td_inlined) at; /* by node id; of a call once it is expanded */
  TD_VEC(td_edge) args;  /* what the call that is expanded takes */
  TD_VEC(td_claim) claims;
  bool *awaited; /* by node id of the copy as it was: a control input */
  int32_t n;     /* nodes of the copy as it was */
  size_t fill;   /* bytes that constants of bodies may still grow to */
} td_inliner;

/* x->at has a place for each node that there is. */
static inline td_status *td_inline_known(td_inliner *x) {
  size_t n = (size_t)td_graph_size(x->g);
  if (!td_vec_reserve(&x->at, n - x->at.len)) return td_oom();
  while (x->at.len < n) x->at.at[x->at.len++] = (td_inlined){0};
  return NULL;
}

/* Adds what stands for `call`, an If, Case or While that takes x->args.
 * `entry`, where it begins, may be NULL. Caller ends *out. */
td_status *td_lower(td_inliner *x, td_node *call, td_node *entry,
                    td_function_body *out) TD_MUST_USE;
/* Have the bodies given the shapes that their calls claimed? Those which are
 * not known to are checked when they are there. */
td_status *td_lower_check(td_inliner *x) TD_MUST_USE;

#endif
