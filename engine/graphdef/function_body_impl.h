/* function_body_impl.h - a definition on its way into nodes.
 *
 * Inside engine/graphdef only.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FUNCTION_BODY_IMPL_H
#define TD_FUNCTION_BODY_IMPL_H

#include "engine/graphdef/graphdef_impl.h"

/* The tensors of one argument or result of a function: what the attributes of
 * the call make of its signature. `types` holds `count` of them. */
typedef struct td_function_arg {
  size_t count;
  const int32_t *types;
} td_function_arg;

/* `attr` are the attributes of the call. INVALID_ARGUMENT when one that the
 * signature refers to is missing or of another kind. */
td_status *td_function_arg_of(td_arena *arena, const Td__OpDef__ArgDef *arg,
                              Td__AttrEntry *const *attr, size_t n_attr,
                              td_function_arg *out) TD_MUST_USE;
/* A node whose op is the name of function `f`, as a PartitionedCall, and the
 * signature of `f` (may be NULL). The results' memory is the arena's and that of
 * `n`. */
td_status *td_function_as_call(td_arena *arena, const td_bytes *f,
                               const Td__NodeDef *n, Td__NodeDef **out,
                               const Td__OpDef **signature) TD_MUST_USE;

/* Adds the nodes of a function's body, a message that needs no scan and whose
 * _class attributes name nodes of `g`; functions that nodes call by name are
 * those of `functions`. *fill: what repeated values may still grow to;
 * lessened. As td_graphdef_read otherwise. */
td_status *td_graphdef_add(td_graph *g, const Td__GraphDef *def,
                           const td_graphdef_options *options,
                           const td_graph *functions, size_t *fill) TD_MUST_USE;

#endif
