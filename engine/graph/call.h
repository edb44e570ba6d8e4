/* call.h - a call on its way to be a node. Inside engine/graph only.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CALL_H
#define TD_CALL_H

#include "engine/graph/graph.h"
#include "engine/graph/op_sig.h"

enum { TD_CALL_MAX_OUTPUTS = 1 << 16, TD_CALL_MAX_NOTES = 256 };

typedef struct td_call {
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
} td_call;

/* All but shapes: attributes whole and checked, outputs counted, with dtypes.
 * Touches no graph. td_call_end in any case. */
td_status *td_call_resolve(td_call *c, const td_build *b) TD_MUST_USE;
void td_call_end(td_call *c);

#endif
