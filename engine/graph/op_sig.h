/* op_sig.h - from a row's signature to a td_op. Inside engine/graph only.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_OP_SIG_H
#define TD_OP_SIG_H

#include "engine/graph/op.h"

enum { TD_OP_MAX_ATTRS = 32 }; /* so that a td_resolve fits the stack */

/* Fills *op from its row; memory comes from `arena`. op->lua is the name the
 * row would like to have. The error says where in the signature. */
td_status *td_op_parse(td_arena *arena, const td_op_def *def,
                       td_op *op) TD_MUST_USE;
/* What is allocated outside the arena: default tensors. */
void td_op_unparse(td_op *op);
/* "ConcatV2" -> 2, "Concat" -> 0; *len is the length without it. */
int td_op_version(const char *type, size_t *len);

#endif
