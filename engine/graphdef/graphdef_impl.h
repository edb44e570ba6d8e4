/* graphdef_impl.h - what the files of the GraphDef reader and writer share.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_GRAPHDEF_IMPL_H
#define TD_GRAPHDEF_IMPL_H

#include "engine/graphdef/graph.pb-c.h"
#include "engine/graphdef/graphdef.h"
#include "engine/graph/op.h"

/* The version of GraphDef spoken here: that of TensorFlow 1.15. */
enum { TD_GRAPHDEF_VERSION = 134 };

/* What one file may grow to by the numbers in it, in bytes: values of constants
 * that are repeated, outputs of nodes beyond the first. */
enum { TD_GRAPHDEF_FILL = 256 << 20 };

/* ---- graphdef_scan.c ---- */

/* Are the bytes a message of that type that protobuf-c can be trusted with?
 * Nesting, lengths, kinds, memory; no field twice that may come once; no NUL
 * within a string. */
td_status *td_graphdef_scan(const ProtobufCMessageDescriptor *type,
                            const void *bytes, size_t len) TD_MUST_USE;
/* Scans, then unpacks into `arena`. */
td_status *td_graphdef_unpack(const ProtobufCMessageDescriptor *type,
                              td_arena *arena, const void *bytes, size_t len,
                              void *out) TD_MUST_USE;
/* The bytes of `m`. Caller owns *bytes. RESOURCE_EXHAUSTED beyond 2 GiB. */
td_status *td_graphdef_pack(const ProtobufCMessage *m, char **bytes,
                            size_t *len) TD_MUST_USE;

/* ---- graphdef_kind.c ---- */

/* Of the bytes of a MetaGraphDef or SavedModel, those of the GraphDef within.
 * INVALID_ARGUMENT for a file that is known to be something else; what is not
 * known stays as it is. */
td_status *td_graphdef_within(const void **bytes, size_t *len) TD_MUST_USE;

/* ---- graphdef_tensor.c ---- */

td_status *td_graphdef_shape_in(const Td__TensorShapeProto *p,
                                td_shape *out) TD_MUST_USE;
Td__TensorShapeProto *td_graphdef_shape_out(td_arena *arena,
                                            const td_shape *shape);
/* *fill: what the file may still grow to; `more`, of which the file has nothing
 * itself, is taken off. RESOURCE_EXHAUSTED when there is not so much left. */
td_status *td_graphdef_take_fill(const char *what, size_t more,
                                 size_t *fill) TD_MUST_USE;
td_status *td_graphdef_tensor_in(const Td__TensorProto *p, size_t *fill,
                                 td_tensor *out) TD_MUST_USE;
/* Borrows the contents of `t`. */
td_status *td_graphdef_tensor_out(td_arena *arena, const td_tensor *t,
                                  Td__TensorProto **out) TD_MUST_USE;

/* ---- graphdef_attr.c ---- */

/* `def` says what an empty list is a list of; NULL: not known. The result's
 * memory is the arena's; end it with td_attr_drop. On error it holds none. */
td_status *td_graphdef_attr_in(td_arena *arena, const Td__AttrValue *p,
                               const td_attr_def *def, size_t *fill,
                               td_attr *out) TD_MUST_USE;
td_status *td_graphdef_attr_out(td_arena *arena, const td_attr *a,
                                Td__AttrValue **out) TD_MUST_USE;
/* False, 0, "", an empty list: what a newer version's attribute is when nobody
 * has set it. */
bool td_graphdef_attr_unset(const Td__AttrValue *p);
/* The attributes of `n` that are not their defaults, then its notes, sorted
 * (graphdef.c). */
td_status *td_graphdef_attrs_out(td_arena *arena, const td_node *n,
                                 Td__NodeDef *p) TD_MUST_USE;
/* Tensors of an argument of a node with that op; -1 when the node's attributes do
 * not say (graphdef_foreign.c). */
int64_t td_graphdef_arg_count(const td_op *op, const td_arg *a,
                              const Td__NodeDef *n);
/* Sorts by key. */
void td_graphdef_attr_sort(Td__AttrEntry **at, size_t n);

#endif
