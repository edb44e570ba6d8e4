/* infer_impl.h - what a td_infer is. For engine/graph and engine/graphdef.
 *
 * A view of a node that may not exist yet: build.c infers before it takes
 * memory of the graph, so that a shape error leaves nothing behind.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_INFER_IMPL_H
#define TD_INFER_IMPL_H

#include "engine/graph/graph.h"

struct td_infer {
  const td_op *op;
  const td_attr *attr; /* op->n_attr of them */
  const td_note *note;
  int n_note;
  const td_edge *in; /* node NULL: a Merge's missing back edge */
  int n_in;
  td_result *out; /* dtypes are set */
  int n_out;
  /* Of a cost function: shapes that count instead, or NULL. */
  const td_shape *in_shape, *out_shape;
  int depth;   /* of value hooks inside value hooks */
  int *budget; /* hooks that may still run for this node */
};

/* An attribute of the signature, else a note of that name; NULL when absent. */
const td_attr *td_attr_find(const td_op *op, const td_attr *attr,
                            const td_note *note, int n_note, const char *name);
/* Runs op's shape function. Outputs begin as of unknown rank. */
td_status *td_infer_run(td_infer *c) TD_MUST_USE;
/* Gives `c` what value hooks of one node may take: ended with NULL. */
void td_infer_budget(td_infer *c, int *budget);
/* What made the handle `e`, which Enters, Switches and Identities pass on; node
 * NULL where that is still to come. */
td_edge td_infer_handle_source(td_edge e);

#endif
