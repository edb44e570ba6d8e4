/* resolve.h - a node that is being built, checked against its op's signature.
 *
 * What a td_build collected may leave attributes out: MatMul(a, b) gives neither
 * T nor transpose_a. Resolving takes T from the dtype of a, checks that b has
 * it too, fills in the default of transpose_a, and then knows the outputs: one,
 * of dtype T. Inside engine/graph only.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RESOLVE_H
#define TD_RESOLVE_H

#include "engine/graph/build.h"
#include "engine/graph/graph.h"
#include "engine/graph/op_sig.h"

enum { TD_RESOLVE_MAX_OUTPUTS = 1 << 16, TD_RESOLVE_MAX_NOTES = 256 };

typedef struct td_resolve {
  const td_build *b;
  const td_op *op;
  td_arena scratch;              /* lists made on the way */
  td_attr attr[TD_OP_MAX_ATTRS]; /* one for each of op->attr */
  int32_t from[TD_OP_MAX_ATTRS]; /* input that decided it, or FROM_... */
  td_note *note;                 /* beyond the signature, as given */
  td_note note_few[8];
  int32_t n_note;
  td_result *out;
  td_result out_few[8];
  int32_t n_out;
} td_resolve;

/* All but shapes: attributes whole and checked, outputs counted, with dtypes.
 * Touches no graph. End `c` with td_resolve_deinit in any case. */
td_status *td_resolve_node(td_resolve *c, const td_build *b) TD_MUST_USE;
void td_resolve_deinit(td_resolve *c);

#endif
